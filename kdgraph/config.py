"""From words on a command line to run configs: where ``conf/`` is, composing, sweeps.

Hydra composes, the classes that the nodes name do the checking (:mod:`kdgraph.components`), and every error is one line
(:mod:`kdgraph.messages`). All jobs of a sweep are composed and checked before the first one runs.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.core.utils import JobRuntime, setup_globals
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from kdgraph import messages
from kdgraph.components import build
from kdgraph.errors import ConfigError, KdgError
from kdgraph.run_config import PLAIN, SCIENCE, RunConfig, check, method_label

__all__ = ["Job", "Plan", "RunConfig", "build", "check", "compose", "conf_dir", "plan"]


def _file_stem(path: str | None, otherwise: str = "table") -> str:
    """What ``${file_stem:${.path}}`` stands for."""
    from kdgraph.data.tables.paths import file_stem  # here, not above: 'kdg list' needs no numpy

    return file_stem(path, otherwise)


OmegaConf.register_new_resolver("file_stem", _file_stem, replace=True)


@dataclass(frozen=True)
class Job:
    """One point of a sweep: its config, and the values that set it apart from the other points, by key."""

    config: RunConfig
    swept: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """What a command line asks for: jobs, whether they are a sweep, and the class that launches them."""

    jobs: tuple[Job, ...]
    multirun: bool
    launcher: str

    @property
    def parallel(self) -> bool:
        """Whether the jobs of the sweep share the cores, not the kernels of one run."""
        return self.multirun and not self.launcher.endswith("BasicLauncher")


def conf_dir() -> Path:
    """Where the YAML files are: beside the package in a checkout, inside it in an installed wheel."""
    package = Path(__file__).resolve().parent
    for directory in (package.parent / "conf", package / "conf"):
        if (directory / "config.yaml").is_file():
            return directory
    raise ConfigError(f"conf/config.yaml is neither in {package} nor beside it; install kdgraph again")


def compose(overrides: Sequence[str] = (), config_dir: str | Path | None = None) -> RunConfig:
    """The checked config of one run.

    Raises
    ------
    ConfigError, ParameterError
        One line that names the key, the rule and the way out.
    """
    jobs = plan(overrides, config_dir=config_dir).jobs
    if len(jobs) != 1:
        raise ConfigError(f"one run is wanted here, got a sweep of {len(jobs)}; give single values")
    check(jobs[0].config)
    return jobs[0].config


def plan(overrides: Sequence[str] = (), *, multirun: bool = False, config_dir: str | Path | None = None) -> Plan:
    """Compose every job of a command line, and of an experiment that is a sweep by itself.

    Keys are checked; the components are not imported yet, since a run that is done needs none of them (see :func:`check`).
    """
    with _composer(config_dir) as composer:
        base = composer.compose([o for o in overrides if composer.decides_the_sweep(o)])
        multirun = multirun or str(base.hydra.mode).endswith("MULTIRUN")
        if multirun:
            params = base.hydra.sweeper.get("params") or {}
            points = composer.expand([*(f"{key}={values}" for key, values in params.items()), *overrides])
            jobs = [Job(composer.run_config(composer.compose_point(point)), swept) for point, swept in points]
        else:
            jobs = [Job(composer.run_config(composer.compose(overrides)))]
        return Plan(tuple(jobs), multirun, str(base.hydra.launcher["_target_"]))


class _Composer:
    """Hydra's loader over our ``conf/`` and, behind it, the user's folder, in the order that ``hydra.main`` searches."""

    def __init__(self, config_dir: str | Path | None) -> None:
        version.setbase("1.3")
        setup_globals()
        JobRuntime.instance().set("name", "kdg")
        path = create_config_search_path(str(conf_dir()))
        if config_dir is not None:
            where = f"file://{Path(config_dir).resolve()}"
            path.prepend(provider="command-line", path=where, anchor=SearchPathQuery(provider="schema"))
        self.loader = ConfigLoaderImpl(config_search_path=path)
        self.presets: dict[tuple[str, str], Mapping[str, Any]] = {}
        self.composed: dict[tuple[str, ...], DictConfig] = {}
        self.overrides: Sequence[str] = []

    def decides_the_sweep(self, override: str) -> bool:
        """Whether it may say that this is a sweep, and of what: no swept values, nor values whose keys only a swept choice may have."""
        parsed = self.parse(override)
        return not parsed.is_sweep_override() and (not self._sets_a_value(parsed) or override.startswith("hydra."))

    def _sets_a_value(self, override: Override) -> bool:
        """Whether it changes the value of a key that is there, and chooses no option of a group."""
        return override.type == OverrideType.CHANGE and not self.loader.repository.group_exists(str(override.key_or_group))

    def parse(self, override: str) -> Override:
        return OverridesParser.create(config_loader=self.loader).parse_overrides([override])[0]

    def compose(self, overrides: Sequence[str]) -> DictConfig:
        self.overrides = overrides
        return self.loader.load_configuration("config", list(overrides), run_mode=RunMode.RUN)

    def compose_point(self, overrides: Sequence[str]) -> DictConfig:
        """As :meth:`compose`, for one of many points: those with the same options share them, and differ in values, such as the seed."""
        values = [override for override in map(self.parse, overrides) if self._sets_a_value(override)]
        lines = {override.input_line for override in values}
        choices = tuple(override for override in overrides if override not in lines)
        if choices not in self.composed:
            self.composed[choices] = self.compose(choices)
        self.overrides = overrides
        config = copy.deepcopy(self.composed[choices])
        ConfigLoaderImpl._apply_overrides_to_config(values, config)
        return config

    def expand(self, overrides: Sequence[str]) -> list[tuple[list[str], dict[str, str]]]:
        """Every combination of the swept values in the order that Hydra runs them, with the values that vary."""
        choices: dict[str, list[str]] = {}
        for override in map(self.parse, overrides):
            key = override.get_key_element()
            if not override.is_sweep_override():
                choices[key] = [f"{key}={override.get_value_element_as_str()}"]
            elif override.is_discrete_sweep():
                choices[key] = [f"{key}={value}" for value in override.sweep_string_iterator()]
                if not choices[key]:
                    raise ConfigError(f"'{override.input_line}' matches nothing; 'kdg list {key}' shows what there is")
            else:
                raise ConfigError(f"'{override.input_line}' has no end; a sweep needs range(), glob() or values with commas")
        varying = [key for key, values in choices.items() if len(values) > 1]
        points = [dict(zip(choices, point, strict=True)) for point in itertools.product(*choices.values())]
        return [(list(p.values()), {key: p[key].partition("=")[2] for key in varying}) for p in points]

    def run_config(self, composed: DictConfig) -> RunConfig:
        """The typed config of one run; a key that it has no place for is an error."""
        nodes = _plain(composed)
        known = {*SCIENCE, *PLAIN}
        for key in nodes:
            if key not in known:
                raise messages.unknown_key(key, known)
        for key in SCIENCE:
            if key not in nodes:
                raise ConfigError(f"{key} was removed, and no run can do without it; choose one of 'kdg list {key}'")
        preset, network = (composed.hydra.runtime.choices.get(group) for group in ("method", "network"))
        if preset and (preset, network) not in self.presets:
            self.presets[preset, network] = _plain(self.compose([f"method={preset}", f"network={network}"]))
        return RunConfig(**nodes, method=method_label(nodes, preset, self.presets.get((preset, network), {})))

    def options(self, group: str) -> list[str]:
        return _options(self.loader, group)

    def keys(self) -> list[str]:
        """Every key of the config that the last choices of options gave, before values were set: for "did you mean"."""
        groups = set(self.loader.list_groups(""))
        composed = self.compose([o for o in self.overrides if o.partition("=")[0] in groups])
        return list(_keys(_plain(composed, resolve=False)))


def _options(loader: ConfigLoader, group: str) -> list[str]:
    """Names of a group's options, those in folders below it too: ``bench/simulations``; not what others only build on: ``_table``."""
    below = loader.get_group_options(group, ObjectType.GROUP)
    nested = [f"{folder}/{name}" for folder in below for name in _options(loader, f"{group}/{folder}")]
    return [*(name for name in loader.get_group_options(group) if not name.startswith("_")), *nested]


def _dataset_node(name: str) -> dict[str, Any]:
    """What ``${dataset:name}`` stands for: the node of that data set, without what it chooses for other groups.

    While Hydra runs the jobs, perhaps in another process, they are composed by its own loader.
    """
    if name == "dataset":
        raise ConfigError("ood=dataset needs the name of a data set: ood.name=…; 'kdg list dataset' shows them")
    loader = _loader.get() or GlobalHydra.instance().config_loader()
    options = [option for option in _options(loader, "dataset") if name in (option, option.rpartition("/")[2])]
    if not options:
        raise messages.unknown_option("dataset", name, _options(loader, "dataset"))
    composed = loader.load_configuration("config", [f"dataset={options[0]}"], run_mode=RunMode.RUN)
    return _plain(composed)["dataset"]


_loader: ContextVar[ConfigLoader | None] = ContextVar("loader", default=None)
OmegaConf.register_new_resolver("dataset", _dataset_node, replace=True)


def _plain(composed: DictConfig, *, resolve: bool = True) -> dict[str, Any]:
    """The config without Hydra's own node as plain dicts, lists and numbers."""
    nodes = OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"])
    return cast("dict[str, Any]", OmegaConf.to_container(nodes, resolve=resolve))


def _keys(node: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in node.items():
        yield prefix + key
        if isinstance(value, Mapping):
            yield from _keys(value, f"{prefix}{key}.")


@contextmanager
def _composer(config_dir: str | Path | None) -> Iterator[_Composer]:
    """A composer whose errors leave as our one line."""
    if config_dir is not None and not Path(config_dir).is_dir():
        raise ConfigError(f"--config-dir must be a folder of config groups, got '{config_dir}', which is no folder")
    composer = _Composer(config_dir)
    token = _loader.set(composer.loader)
    try:
        yield composer
    except KdgError:
        raise
    except (HydraException, OmegaConfBaseException, YAMLError, ValueError) as error:
        raise messages.one_line(error, composer.keys, composer.options) from error
    finally:
        _loader.reset(token)
