"""Hydra over the YAML files of ``conf/``.

Overrides are composed to the typed config of a run. Every error leaves in one line
(:mod:`kdgraph.config.messages`). Only Hydra's public API is used.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, cast
from weakref import WeakKeyDictionary

import yaml
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from kdgraph.config import messages
from kdgraph.config.compositions import Composition, kept_compositions
from kdgraph.config.overrides import Overrides, can_be_read
from kdgraph.config.run_config import (
    AFTER,
    COMPONENTS,
    FITTED_PARENT,
    PLAIN,
    RECORD_SCHEMA,
    SCIENCE,
    Origin,
    RunConfig,
    calibration_way,
    method_label,
    method_options,
)
from kdgraph.config.yaml_files import (
    bases_of,
    check_option,
    defaults_of,
    is_option,
    load_yaml,
    option_files,
    read_text,
)
from kdgraph.errors import ConfigError, KdgError
from kdgraph.wording import first_line, printable

_DEFAULT_SCALE = "max_norm"
METHOD = frozenset({"parent", *AFTER, "calibration", "cv"})
"""Nodes that a method consists of."""
HOW_TO_RUN = frozenset(
    {"n_jobs", "fit_on", "force", "fail_fast", "save", "out", "post_report", "logger"}
)
"""Keys of a config that decide how and where it is run, and none of its numbers."""


def _file_stem(path: Any, otherwise: str = "table") -> str:
    """Return the value of ``${file_stem:${.path}}``."""
    from kdgraph.data.files.paths import file_stem  # 'kdg list' needs no numpy

    # A number is refused where its key is checked.
    return file_stem(path if path is None else str(path), otherwise)


OmegaConf.register_new_resolver("file_stem", _file_stem, replace=True)


def conf_dir() -> Path:
    """Return the folder of the YAML files.

    It is next to the package in a checkout, and inside the package in an installed wheel.

    Examples
    --------
    >>> from kdgraph.config import conf_dir
    >>> (conf_dir() / "config.yaml").is_file(), (conf_dir() / "calibrator" / "kdf.yaml").is_file()
    (True, True)
    """
    package = Path(__file__).resolve().parents[1]
    for directory in (package.parent / "conf", package / "conf"):
        if (directory / "config.yaml").is_file():
            return directory
    raise ConfigError(
        f"conf/config.yaml is neither in {package} nor beside it; install kdgraph again"
    )


def config_folders(config_dir: str | Path | None) -> list[Path]:
    """Return kdgraph's folder of config groups, and behind it the user's."""
    if config_dir is not None and not Path(config_dir).is_dir():
        raise ConfigError(
            f"--config-dir must be a folder of config groups, got '{config_dir}', which is no"
            " folder"
        )
    return [conf_dir(), *([Path(config_dir)] if config_dir is not None else [])]


class Composer:
    """Hydra over ``conf/`` and, behind it, the folder of config groups of the user.

    Of two files with the same name, the one in the first of the ``folders`` counts. ``loader`` is
    Hydra's over these folders, as its launchers want it.
    """

    def __init__(self, config_dir: str | Path | None = None) -> None:
        self.folders = config_folders(config_dir)
        self._kept = kept_compositions(self.folders)
        self.loader = self._kept.loader
        self.overrides = Overrides(self.folders, self.loader)
        self._overrides: Sequence[str] = []
        self._readable: set[str] = set()
        self._beside_methods: dict[str, bool] = {}

    def compose(self, overrides: Sequence[str]) -> DictConfig:
        """Return the config with Hydra's node, not for writing."""
        self._overrides = overrides
        with self._own_errors(overrides):
            return self._kept.whole(overrides)

    def _composition(self, overrides: Sequence[str]) -> Composition:
        with self._own_errors(overrides):
            return self._kept.of(overrides)

    @contextmanager
    def _own_errors(self, overrides: Sequence[str]) -> Iterator[None]:
        """Raise ConfigError for files of the user's, and values, that Hydra does not expect."""
        self._check_own_files(overrides)
        try:
            yield
        # What Hydra does not expect of values that its grammar has, such as a mapping for a key
        # of its own that is null.
        except (AssertionError, AttributeError, LookupError, TypeError) as error:
            words = printable(" ".join(overrides))
            raise ConfigError(
                f"Hydra cannot compose '{words}' ({first_line(error)}); a value that is no"
                " text, number or list of these may be the reason"
            ) from error

    def nodes(self, overrides: Sequence[str]) -> tuple[dict[str, Any], Mapping[str, str]]:
        """Return the resolved nodes of a run, not for writing, and its chosen options by group.

        Runs that choose the same options share them, and differ in values.
        """
        self._overrides = overrides
        if any(self.overrides.parse(override).is_sweep_override() for override in overrides):
            self.compose(overrides)  # for Hydra to refuse it
        is_kept = self._kept.is_whole(overrides)
        words, values = (overrides, []) if is_kept else self.overrides.split(overrides)
        composition = self._composition(words)
        nodes = composition.with_values(values)
        if nodes is None:
            composition = self._composition(overrides)
            nodes = composition.with_values()
        return cast("dict[str, Any]", nodes), composition.options

    def _check_own_files(self, overrides: Sequence[str]) -> None:
        """Raise ConfigError if a file of the user's that was chosen is no option, with its name."""
        for override in overrides if len(self.folders) > 1 else ():
            parsed = self.overrides.parse(override)
            is_checked = override in self._readable or not self.overrides.is_group(
                parsed.key_or_group
            )
            for folder in () if is_checked else self.folders:
                path = folder / parsed.key_or_group / f"{parsed.get_value_element_as_str()}.yaml"
                if path.exists() or path.is_symlink() or is_option(path):
                    if folder != self.folders[0]:
                        _check_file(path)
                    break
            self._readable.add(override)

    @contextmanager
    def errors_in_one_line(self) -> Iterator[None]:
        """Turn errors of Hydra, OmegaConf and YAML inside the block into a ConfigError."""
        token = _loader.set(self.loader)
        try:
            yield
        except KdgError:
            raise
        except (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError) as error:
            raise messages.config_error(
                error, self.keys, self.options, self.groups, can_be_read
            ) from error
        finally:
            _loader.reset(token)

    def digest(self) -> str | None:
        """Return a hex digest of all that decides the config of overrides.

        These are the YAML files, this package, and the folder where relative paths start. None
        where the environment decides too, through ``${oc.env:…}``.
        """
        files = [
            path for folder in self.folders for path in option_files(folder) if is_option(path)
        ]
        contents = [read_text(path).encode() for path in files]
        if any(b"oc.env" in content for content in contents):
            return None
        code = [path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))]
        parts = [str(RECORD_SCHEMA), str(Path.cwd()), *map(str, files)]
        return hashlib.sha256(
            b"\0".join([*(part.encode() for part in parts), *contents, *code])
        ).hexdigest()

    def run_config(self, overrides: Sequence[str]) -> RunConfig:
        """Return the typed config of one run.

        A key that it has no place for, or that was removed, raises ConfigError.
        """
        nodes, options = self.nodes(overrides)
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
            check_option(group, options.get(group) or "", nodes[group], self.folders)
        preset = self._preset_nodes(nodes, options, overrides)
        return RunConfig(
            **{
                **nodes,
                "dataset": self._unscaled_for_fitted(nodes, overrides),
                "calibration": calibration_way(nodes),
            },
            method=method_label(nodes, options.get("method"), preset),
            method_options=method_options(nodes, preset),
            origin=Origin(
                tuple(
                    override
                    for override in overrides
                    if self.overrides.root(override) not in {"hydra", *HOW_TO_RUN}
                ),
                options.get("experiment"),
                str(self.folders[1].absolute()) if len(self.folders) > 1 else None,
            ),
        )

    def _unscaled_for_fitted(
        self, nodes: Mapping[str, Any], overrides: Sequence[str]
    ) -> Mapping[str, Any]:
        """Return the data set, whose default scaling gives way to a model from a file.

        Such a model takes rows as they are in the data. A scaling that the user chose is refused
        later.
        """
        dataset, parent = nodes["dataset"], nodes["parent"] or {}
        is_default = dataset.get("scale") == _DEFAULT_SCALE and not any(
            self.overrides.root(word) == "dataset" and "scale" in word for word in overrides
        )
        if parent.get("_target_") != FITTED_PARENT or not is_default:
            return dataset
        return {**dataset, "scale": "none"}

    def _preset_nodes(
        self, nodes: Mapping[str, Any], options: Mapping[str, str], overrides: Sequence[str]
    ) -> Mapping[str, Any]:
        """Return the nodes of the preset of a method, with which its label is compared.

        It is composed alone, if an override may choose other components or change their values.
        """
        preset = options.get("method")
        for override in overrides if preset else ():
            if override not in self._beside_methods:
                self._beside_methods[override] = self._leaves_methods_alone(override)
        if not preset or all(self._beside_methods[override] for override in overrides):
            return nodes
        words = [f"method={preset}", f"network={options.get('network')}"]
        return self._composition(words).with_values() or {}

    def _leaves_methods_alone(self, override: str) -> bool:
        """Return whether an override chooses a method, or changes no node of one."""
        key = str(self.overrides.parse(override).key_or_group)
        if not self.overrides.is_group(key):
            return self.overrides.root(override) not in METHOD
        return self.overrides.chooses(override) and (
            key in ("method", "network")
            or (
                self.overrides.root(override) not in METHOD
                and _leaves_nodes_alone(override.replace("=", "/"), METHOD, self.folders)
            )
        )

    def options(self, group: str) -> list[str]:
        """Return the names of a group's options; ConfigError if one of the user's is no file."""
        for folder in self.folders:
            for path in option_files(folder / group):
                if not is_option(path):
                    read_text(path)  # raises
        return _options(self.loader, group)

    def groups(self) -> list[str]:
        """Return the names of all config groups, those of Hydra too."""
        of_hydra = [f"hydra/{group}" for group in self.loader.list_groups("hydra")]
        return [*(group for group in self.loader.list_groups("") if group != "hydra"), *of_hydra]

    def keys(self) -> list[str]:
        """Return every key of the last choices' config, for "did you mean"."""
        choices = tuple(
            override for override in self._overrides if self.overrides.chooses(override)
        )
        return list(_keys(self._composition(choices).nodes))


def _leaves_nodes_alone(option: str, nodes: Collection[str], folders: Sequence[Path]) -> bool:
    """Return whether the file of an option, and those that it builds on, write none of the nodes.

    ``nodes`` are keys at the top of a config. An option without a file may write any.
    """
    files = (file for folder in folders if is_option(file := folder / f"{option}.yaml"))
    file = next(files, None)
    return file is not None and _nodes_written_by(file, folders).isdisjoint([*nodes, "_global_"])


def _nodes_written_by(file: Path, folders: Sequence[Path]) -> set[str]:
    """Return the nodes that the file of an option names a package in, beside that of its group."""
    packages = [header[1]] if (header := re.search(r"@package\s+(\S+)", read_text(file))) else []
    for entry in defaults_of(file):
        name = entry if isinstance(entry, str) else str(next(iter(entry)))
        group, _, package = name.split()[-1].partition("@")  # behind "override" or "optional"
        if package:
            packages.append(package)
        elif not isinstance(entry, str):
            packages.append(group.strip("/"))
    own = {re.split(r"[./]", package.removeprefix("_global_."))[0] for package in packages}
    bases = (_nodes_written_by(base, folders) for base, _ in bases_of(file, folders))
    return own.union(*bases) - {"_here_"}


def _check_file(path: Path) -> None:
    """Raise ConfigError unless a file of the user's is a mapping in YAML that Hydra can read."""
    try:
        load_yaml(path)
        OmegaConf.create(read_text(path))  # refuses more, such as a key twice
    except yaml.YAMLError as error:
        raise messages.not_yaml(path, error) from error
    except (OmegaConfBaseException, RecursionError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"{path} cannot be read as a config: {reason}") from error


def _options(loader: ConfigLoader, group: str) -> list[str]:
    """Return the names of a group's options, also those in folders below it (``bench/tables``).

    Files that others only build on are left out (``_table``).
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
    """Return the value of ``${dataset:name}``: the node of that data set.

    While a launcher of Hydra runs the jobs, perhaps in another process, its own loader composes.
    """
    if name == "dataset":
        raise ConfigError(
            "ood=dataset needs the name of a data set: ood.name=…; 'kdg list dataset' shows them"
        )
    loader = _loader.get() or GlobalHydra.instance().config_loader()
    nodes = _dataset_nodes.setdefault(loader, {})
    if name not in nodes:
        known = _options(loader, "dataset")
        matches = [option for option in known if name in (option, option.rpartition("/")[2])]
        if not matches:
            raise messages.unknown_option("dataset", name, known)
        whole = loader.load_configuration("config", [f"dataset={matches[0]}"], run_mode=RunMode.RUN)
        nodes[name] = OmegaConf.to_container(whole.dataset, resolve=True)
    return nodes[name]


_loader: ContextVar[ConfigLoader | None] = ContextVar("loader", default=None)
_dataset_nodes: WeakKeyDictionary[ConfigLoader, dict[str, Any]] = WeakKeyDictionary()
OmegaConf.register_new_resolver("dataset", _dataset_node, replace=True)


def _other_than(name: str, *names: str) -> str:
    """Return the first of ``names`` that is not ``name``.

    It is the value of ``${other_than:${dataset.name},digits,wine}``.
    """
    return next((other for other in names if other != name), name)


OmegaConf.register_new_resolver("other_than", _other_than, replace=True)


def _keys(node: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in node.items():
        yield f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _keys(value, f"{prefix}{key}.")
