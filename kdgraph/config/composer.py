"""Hydra's loader over ``conf/``: choices and values composed into the nodes of a run, sweeps
expanded into points.

Every error leaves in one line (:mod:`kdgraph.config.messages`).
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
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
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from kdgraph.config import messages
from kdgraph.config.loader import Loader
from kdgraph.config.run_config import (
    COMPONENTS,
    PLAIN,
    RECORD_SCHEMA,
    SCIENCE,
    RunConfig,
    method_label,
)
from kdgraph.config.yaml_files import check_option, option_files, read_text
from kdgraph.errors import ConfigError, KdgError


def _file_stem(path: str | None, otherwise: str = "table") -> str:
    """What ``${file_stem:${.path}}`` stands for."""
    from kdgraph.data.files.paths import file_stem  # here, not above: 'kdg list' needs no numpy

    return file_stem(
        path if path is None else str(path), otherwise
    )  # a number is refused where its key is checked


OmegaConf.register_new_resolver("file_stem", _file_stem, replace=True)


def conf_dir() -> Path:
    """Where the YAML files are: beside the package in a checkout, inside it in an installed
    wheel.
    """
    package = Path(__file__).resolve().parents[1]
    for directory in (package.parent / "conf", package / "conf"):
        if (directory / "config.yaml").is_file():
            return directory
    raise ConfigError(
        f"conf/config.yaml is neither in {package} nor beside it; install kdgraph again"
    )


def config_folders(config_dir: str | Path | None) -> list[Path]:
    """Ours, and behind it the user's."""
    if config_dir is not None and not Path(config_dir).is_dir():
        raise ConfigError(
            f"--config-dir must be a folder of config groups, got '{config_dir}', which is no"
            " folder"
        )
    return [conf_dir(), *([Path(config_dir)] if config_dir is not None else [])]


class Composer:
    """Hydra's loader over our ``conf/`` and, behind it, the user's folder, in the order that
    ``hydra.main`` searches.
    """

    def __init__(self, config_dir: str | Path | None = None) -> None:
        self.folders = config_folders(config_dir)
        version.setbase("1.3")
        setup_globals()
        JobRuntime.instance().set("name", "kdg")
        path = create_config_search_path(str(conf_dir()))
        if config_dir is not None:
            where = f"file://{Path(config_dir).resolve()}"
            path.prepend(
                provider="command-line", path=where, anchor=SearchPathQuery(provider="schema")
            )
        self.loader = Loader(path)
        self.presets: dict[tuple[str | None, str | None], Mapping[str, Any]] = {}
        self.wholes: dict[tuple[str, ...], DictConfig] = {}
        self.composed: dict[tuple[str, ...], tuple[DictConfig, Mapping[str, str]]] = {}
        self.parsed: dict[str, Override] = {}
        self.overrides: Sequence[str] = []

    def decides_the_sweep(self, override: str) -> bool:
        """Whether it may say that this is a sweep, and of what: no swept values, nor values whose
        keys only a swept choice may have.
        """
        parsed = self.parse(override)
        return not parsed.is_sweep_override() and (
            self._says_how(parsed) or not self._sets_a_value(parsed)
        )

    @staticmethod
    def _says_how(override: Override) -> bool:
        """Whether it is of a key that says how to run, and not what."""
        return re.split(r"[./]", str(override.key_or_group))[0] in ("hydra", *PLAIN)

    def _sets_a_value(self, override: Override) -> bool:
        """Whether it changes or deletes a key that is there, and chooses no option of a group."""
        at_a_key = override.type in (OverrideType.CHANGE, OverrideType.DEL)
        return at_a_key and not self.loader.repository.group_exists(str(override.key_or_group))

    def parse(self, override: str) -> Override:
        """Parsed once: a sweep has few values, and many points."""
        if override not in self.parsed:
            (self.parsed[override],) = OverridesParser.create(
                config_loader=self.loader
            ).parse_overrides([override])
        return self.parsed[override]

    def compose(self, overrides: Sequence[str]) -> DictConfig:
        """The config with Hydra's node, which nobody writes into: the words that may say that there
        is a sweep are often all of a run's.
        """
        self.overrides = overrides
        key = tuple(overrides)
        if key not in self.wholes:
            self.wholes[key] = self.loader.load_configuration(
                "config", list(overrides), run_mode=RunMode.RUN
            )
        return self.wholes[key]

    def compose_point(
        self, overrides: Sequence[str], *, of_many: bool = False
    ) -> tuple[DictConfig, Mapping[str, str]]:
        """The config without Hydra's node, for reading alone, and the options that were chosen, by
        group.

        Of many points, those with the same options share them, and differ in values, such as the
        seed: 6 ms each instead of 40. One by itself shares them with what may say that there is a
        sweep.
        """
        values = self._values(overrides, of_many=of_many)
        lines = {override.input_line for override in values}
        choices = tuple(override for override in overrides if override not in lines)
        if choices not in self.composed:
            self.composed[choices] = self._nodes(choices)
        self.overrides = overrides
        nodes, chosen = self.composed[choices]
        if values:
            nodes = copy.deepcopy(nodes)
            ConfigLoaderImpl._apply_overrides_to_config(values, nodes)
        return nodes, chosen

    def _values(self, overrides: Sequence[str], *, of_many: bool) -> list[Override]:
        """Those that can wait until the others are composed. None can where a key is added after
        them, which they would come to change.

        A sweep among them is Hydra's to refuse.
        """
        parsed = [self.parse(override) for override in overrides]
        waits = [
            not o.is_sweep_override()
            and self._sets_a_value(o)
            and (of_many or not self._says_how(o))
            for o in parsed
        ]
        adds = [o.type in (OverrideType.ADD, OverrideType.FORCE_ADD) for o in parsed]
        first = waits.index(True) if any(waits) else len(waits)
        return (
            []
            if any(adds[first:])
            else [override for override, can_wait in zip(parsed, waits, strict=True) if can_wait]
        )

    def _nodes(self, overrides: Sequence[str]) -> tuple[DictConfig, Mapping[str, str]]:
        """The same, not copied: nobody writes into it."""
        self.overrides = overrides
        whole = self.wholes.get(tuple(overrides))
        if whole is not None:
            return _without_hydra(whole), dict(whole.hydra.runtime.choices)
        return _load(self.loader, overrides)

    def expand(self, overrides: Sequence[str]) -> list[tuple[list[str], dict[str, str]]]:
        """Every combination of the swept values in the order that Hydra runs them, with the values
        that vary.
        """
        choices: dict[str, list[str]] = {}
        for override in map(self.parse, overrides):
            key = override.get_key_element()
            if not override.is_sweep_override():
                choices[key] = [f"{key}={override.get_value_element_as_str()}"]
            elif override.is_discrete_sweep():
                choices[key] = [f"{key}={value}" for value in override.sweep_string_iterator()]
                if not choices[key]:
                    raise ConfigError(
                        f"'{override.input_line}' matches nothing; 'kdg list {key}' shows what"
                        " there is"
                    )
            else:
                raise ConfigError(
                    f"'{override.input_line}' has no end; a sweep needs range(), glob() or values"
                    " with commas"
                )
        varying = [key for key, values in choices.items() if len(values) > 1]
        points = [
            dict(zip(choices, point, strict=True)) for point in itertools.product(*choices.values())
        ]
        return [
            (list(p.values()), {key: p[key].partition("=")[2] for key in varying}) for p in points
        ]

    @contextmanager
    def errors_in_one_line(self) -> Iterator[None]:
        """What Hydra, OmegaConf and YAML raise inside the block leaves it as one line of ours."""
        token = _loader.set(self.loader)
        try:
            yield
        except KdgError:
            raise
        except (HydraException, OmegaConfBaseException, YAMLError, ValueError) as error:
            raise messages.one_line(
                error, self.keys, self.options, self.groups, _can_be_read
            ) from error
        finally:
            _loader.reset(token)

    def digest(self) -> str | None:
        """Hex digest of all that decides what overrides compose to: the YAML files, this code,
        where relative paths start.

        None where the environment decides too, through ``${oc.env:…}``.
        """
        yaml = [path for folder in self.folders for path in option_files(folder) if path.is_file()]
        contents = [path.read_bytes() for path in yaml]
        if any(b"oc.env" in content for content in contents):
            return None
        here = Path(__file__).parent
        code = [path.read_bytes() for path in sorted(here.glob("*.py"))]
        parts = [str(RECORD_SCHEMA), str(Path.cwd()), *map(str, yaml)]
        return hashlib.sha256(
            b"\0".join([*(part.encode() for part in parts), *contents, *code])
        ).hexdigest()

    def run_config(self, overrides: Sequence[str], *, of_many: bool = False) -> RunConfig:
        """The typed config of one run; a key that it has no place for is an error."""
        composed, chosen = self.compose_point(overrides, of_many=of_many)
        nodes = _plain(composed)
        known = {*SCIENCE, *PLAIN}
        for key in nodes:
            if key not in known:
                raise messages.unknown_key(key, known)
        for key in SCIENCE:
            if key not in nodes:
                raise ConfigError(
                    f"{key} was removed, and no run can do without it; choose one of 'kdg list"
                    f" {key}'"
                )
        for group in COMPONENTS:
            check_option(group, chosen.get(group) or "", nodes[group], self.folders)
        return RunConfig(
            **nodes, method=self._label(nodes, chosen.get("method"), chosen.get("network"))
        )

    def _label(self, nodes: Mapping[str, Any], preset: str | None, network: str | None) -> str:
        if preset and (preset, network) not in self.presets:
            alone, _ = self._nodes([f"method={preset}", f"network={network}"])
            self.presets[preset, network] = _plain(alone)
        return method_label(nodes, preset, self.presets.get((preset, network), {}))

    def options(self, group: str) -> list[str]:
        """Names of a group's options. What is named as one of the user's and is no file is
        refused.
        """
        for folder in self.folders:
            for path in option_files(folder / group):
                if not path.is_file():
                    read_text(path)  # raises
        return _options(self.loader, group)

    def groups(self) -> list[str]:
        """Return the names of all config groups, those of Hydra too."""
        of_hydra = [f"hydra/{group}" for group in self.loader.list_groups("hydra")]
        return [*(group for group in self.loader.list_groups("") if group != "hydra"), *of_hydra]

    def keys(self) -> list[str]:
        """Every key of the config that the last choices of options gave, before values were set:
        for "did you mean".
        """
        groups = set(self.loader.list_groups(""))
        composed, _ = self._nodes([o for o in self.overrides if o.partition("=")[0] in groups])
        return list(_keys(_plain(composed, resolve=False)))


def _can_be_read(word: str) -> bool:
    """Return whether Hydra reads an override that stands in quotes for the shell."""
    try:
        OverridesParser.create().parse_overrides(shlex.split(word))
    except HydraException:
        return False
    return True


def _options(loader: ConfigLoader, group: str) -> list[str]:
    """Names of a group's options, those in folders below it too: ``bench/simulations``; not what
    others only build on: ``_table``.
    """
    below = loader.get_group_options(group, ObjectType.GROUP)
    nested = [
        f"{folder}/{name}" for folder in below for name in _options(loader, f"{group}/{folder}")
    ]
    return [
        *(name for name in loader.get_group_options(group) if not name.startswith("_")),
        *nested,
    ]


def _dataset_node(name: str) -> dict[str, Any]:
    """What ``${dataset:name}`` stands for: the node of that data set, without what it chooses for
    other groups.

    While Hydra runs the jobs, perhaps in another process, they are composed by its own loader.
    """
    if name == "dataset":
        raise ConfigError(
            "ood=dataset needs the name of a data set: ood.name=…; 'kdg list dataset' shows them"
        )
    loader = _loader.get() or GlobalHydra.instance().config_loader()
    options = [
        option
        for option in _options(loader, "dataset")
        if name in (option, option.rpartition("/")[2])
    ]
    if not options:
        raise messages.unknown_option("dataset", name, _options(loader, "dataset"))
    known = cast("Loader", loader).data_sets
    if options[0] not in known:
        composed, _ = _load(loader, [f"dataset={options[0]}"])
        known[options[0]] = _plain(composed)["dataset"]
    return known[options[0]]


_loader: ContextVar[ConfigLoader | None] = ContextVar("loader", default=None)
OmegaConf.register_new_resolver("dataset", _dataset_node, replace=True)


def _other_than(name: str, *names: str) -> str:
    """What ``${other_than:${dataset.name},digits,wine}`` stands for: the first of the names that is
    not the first word.
    """
    return next((other for other in names if other != name), name)


OmegaConf.register_new_resolver("other_than", _other_than, replace=True)


def _load(loader: ConfigLoader, overrides: Sequence[str]) -> tuple[DictConfig, Mapping[str, str]]:
    """The config without Hydra's node, and the options that were chosen, by group."""
    composed = loader.load_configuration("config", list(overrides), run_mode=RunMode.RUN)
    with open_dict(composed):
        hydra = composed.pop("hydra")
    return composed, dict(hydra.runtime.choices)


def _without_hydra(composed: DictConfig) -> DictConfig:
    """A copy without Hydra's node."""
    nodes = OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"])
    OmegaConf.set_struct(nodes, True)  # a key that is not there stays an error
    return nodes


def _plain(nodes: DictConfig, *, resolve: bool = True) -> dict[str, Any]:
    """Plain dicts, lists and numbers."""
    return cast("dict[str, Any]", OmegaConf.to_container(nodes, resolve=resolve))


def _keys(node: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in node.items():
        yield prefix + key
        if isinstance(value, Mapping):
            yield from _keys(value, f"{prefix}{key}.")
