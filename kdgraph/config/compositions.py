"""Compositions of folders of YAML files by Hydra, kept for the life of a process.

Hydra takes about 50 ms for one config, however few keys differ. A sweep has thousands of points,
and a process may plan many times. So each file is parsed once, and each combination of options of
groups is composed once, by Hydra; both are kept as long as no file changes. Points that choose the
same options differ in plain values, such as the seed: values come last, in Hydra too, so that they
are set in a copy of what was composed.
"""

from __future__ import annotations

import copy
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, cast

from hydra import initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.types import RunMode
from omegaconf import Container, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from kdgraph.config.preset_tables import TABLE, presets_of_folder
from kdgraph.config.yaml_files import is_option, read_text

Value = tuple[str, Any]
"""A full key of the config and its new value."""

RESOLVERS = frozenset({"dataset", "file_stem", "other_than"})
"""Resolvers of this package: their values depend on their arguments and the YAML files alone."""
_WORD = re.compile(r"\w+")
_RESOLVER = re.compile(r"\$\{\s*([\w.]+)\s*:")
_COMPUTED_NAME = re.compile(r"\$\{[\s.]*\$\{")


@dataclass(frozen=True)
class Composition:
    """The nodes of a config, as Hydra composed them, without Hydra's own node.

    Parameters
    ----------
    nodes : dict
        Plain dicts and lists, with interpolations as they are written.
    options : mapping
        Chosen option by group.
    """

    nodes: Mapping[str, Any]
    options: Mapping[str, str]

    @property
    def resolved(self) -> dict[str, Any]:
        """The nodes with every interpolation replaced by its value; shared, so not for writing."""
        return self._resolved if self._is_fixed else _resolve(OmegaConf.create(dict(self.nodes)))

    def with_values(self, values: Sequence[Value]) -> dict[str, Any] | None:
        """Return the resolved nodes with other values at keys that exist.

        Returns
        -------
        dict or None
            None where only Hydra can set them: a key that does not exist, a mapping, a value for
            something that is an interpolation.
        """
        if not values:
            return self.resolved
        if not all(_is_set(self.nodes, key.split(".")) for key, _ in values):
            return None
        if self._is_fixed and all(
            _is_plain(value) and not self._may_refer_to(key) for key, value in values
        ):
            nodes = dict(self._resolved)
            for key, value in values:
                _replace(nodes, key.split("."), value)
            return nodes
        config = OmegaConf.create(dict(self.nodes))
        try:
            for key, value in values:
                OmegaConf.update(config, key, value, merge=True)
            return _resolve(config)
        except OmegaConfBaseException:
            return None

    @cached_property
    def _interpolations(self) -> tuple[str, ...]:
        return tuple(_interpolations(self.nodes))

    @cached_property
    def _is_fixed(self) -> bool:
        """True if the values of all interpolations follow from the nodes and the YAML files.

        Those of other resolvers, such as ``oc.env``, may differ the next time.
        """
        return all(RESOLVERS.issuperset(_RESOLVER.findall(text)) for text in self._interpolations)

    @cached_property
    def _resolved(self) -> dict[str, Any]:
        if not self._interpolations:
            return dict(self.nodes)  # most configs have none, and OmegaConf takes 5 ms to find out
        return _resolve(OmegaConf.create(dict(self.nodes)))

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(word for text in self._interpolations for word in _WORD.findall(text))

    def _may_refer_to(self, key: str) -> bool:
        """Return whether an interpolation may depend on the value of ``key``.

        An absolute or relative reference to it, or to a node that it is in, has a word of the key.
        """
        return not self._words.isdisjoint(key.split(".")) or any(
            _COMPUTED_NAME.search(text) for text in self._interpolations
        )


def _interpolations(node: Any) -> Iterator[str]:
    """Yield each text that has an interpolation."""
    if isinstance(node, str):
        if "${" in node:
            yield node
    elif isinstance(node, Mapping | list):
        for value in node.values() if isinstance(node, Mapping) else node:
            yield from _interpolations(value)


def _resolve(config: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", OmegaConf.to_container(config, resolve=True))


def _is_set(node: Any, path: Sequence[str]) -> bool:
    """Return whether a path of keys leads through mappings to a value that is no mapping."""
    for key in path:
        if not isinstance(node, Mapping) or key not in node:
            return False
        node = node[key]
    return not isinstance(node, Mapping) and not (isinstance(node, str) and "${" in node)


def _is_plain(value: Any) -> bool:
    """Return whether a value is a number, text without interpolation, null, or a list of these."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, str):
        return "${" not in value and value != "???"
    return value is None or isinstance(value, bool | int | float)


def _replace(nodes: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set a value in nested dicts, and copy the dicts on the way to it."""
    for key in path[:-1]:
        nodes[key] = dict(nodes[key])
        nodes = nodes[key]
    nodes[path[-1]] = value


class Compositions:
    """Hydra over folders of config groups, with what it has composed.

    Parameters
    ----------
    folders : sequence of Path
        Folder of ``config.yaml``, and behind it the user's, if there is one.

    Attributes
    ----------
    loader : ConfigLoader
        Hydra's loader over these folders, as its launchers want it.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.loader = _hydra_loader(folders)
        self._kept_wholes = lru_cache(maxsize=8)(self._composed)
        self._kept = lru_cache(maxsize=2048)(self._composition)

    def whole(self, overrides: Sequence[str]) -> DictConfig:
        """Return the config of overrides with Hydra's node, not for writing."""
        whole = self._kept_wholes(tuple(overrides))
        # Hydra copies these variables of the environment while it composes.
        return self._composed(tuple(overrides)) if whole.hydra.job.env_copy else whole

    def of(self, overrides: Sequence[str]) -> Composition:
        """Return the composition of overrides."""
        return self._kept(tuple(overrides))

    def _composed(self, overrides: tuple[str, ...]) -> DictConfig:
        return self.loader.load_configuration("config", list(overrides), run_mode=RunMode.RUN)

    def _composition(self, overrides: tuple[str, ...]) -> Composition:
        whole = self.whole(overrides)
        nodes = OmegaConf.to_container(whole)
        return Composition(
            {str(key): value for key, value in nodes.items() if key != "hydra"},  # type: ignore[union-attr]
            dict(whole.hydra.runtime.choices),
        )


def kept_compositions(folders: Sequence[Path]) -> Compositions:
    """Return what is kept of folders: new where a file or the working directory is another."""
    absolute = tuple(folder.resolve() for folder in folders)
    files = tuple(stamp for folder in absolute for stamp in _stamps(folder))
    return _compositions(absolute, files, os.getcwd())


@lru_cache(maxsize=8)
def _compositions(folders: tuple[Path, ...], files: Any, directory: str) -> Compositions:
    del files, directory  # part of the key alone
    return Compositions(folders)


def _stamps(folder: str | Path) -> Iterator[tuple[Any, ...]]:
    """Yield name, size and time of everything below a folder; of a damaged link its name."""
    for path, folders, files in os.walk(folder, followlinks=True):
        folders.sort()
        for name in sorted(files):
            file = os.path.join(path, name)
            try:
                stat = os.stat(file)
            except OSError:
                yield (file,)
            else:
                yield file, stat.st_ino, stat.st_size, stat.st_mtime_ns


class _KeptFiles(ConfigSource):
    """YAML files of a folder, as ``file://`` has them, each parsed once."""

    @staticmethod
    def scheme() -> str:
        return "kept"

    def load_config(self, config_path: str) -> ConfigResult:
        file = self._file(config_path)
        if not is_option(file):
            raise ConfigLoadError(f"Config not found : {file}")
        header, config = _parsed(str(file), read_text(file))
        # Hydra takes the defaults list out of it, and embeds the rest in a config.
        return ConfigResult(
            provider=self.provider,
            path=f"{self.scheme()}://{self.path}",
            config=copy.deepcopy(config),
            header=dict(header),
        )

    def available(self) -> bool:
        return self.is_group("")

    def is_group(self, config_path: str) -> bool:
        return os.path.isdir(os.path.join(self.path, config_path))

    def is_config(self, config_path: str) -> bool:
        return is_option(self._file(config_path))

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        files: list[str] = []
        folder = Path(self.path, config_path)
        presets = (f"{name}.yaml" for name in presets_of_folder(folder))
        for name in {*os.listdir(folder), *presets} - {TABLE}:
            self._list_add_result(
                files=files,
                file_path=os.path.join(config_path, name),
                file_name=name,
                results_filter=results_filter,
            )
        return sorted(set(files))

    def _file(self, config_path: str) -> Path:
        return Path(self.path, self._normalize_file_name(config_path))


@lru_cache(maxsize=4096)
def _parsed(file: str, text: str) -> tuple[Mapping[str, str | None], Container]:
    stream = io.StringIO(text)
    stream.name = file  # type: ignore[attr-defined] # errors of the YAML reader name it
    return ConfigSource._get_header_dict(text[:512]), OmegaConf.load(cast("Any", stream))


class _Folders(SearchPathPlugin):
    """Makes a loader of kdgraph's read kept files, and the user's folder behind ``conf/``."""

    folders: ContextVar[Sequence[Path]] = ContextVar("folders", default=())

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Replace the main folder by kept files of all folders."""
        folders = [f"{_KeptFiles.scheme()}://{folder}" for folder in self.folders.get()]
        for element in search_path.get_path() if folders else ():
            if element.provider == "main":
                element.path = folders[0]
        for folder in folders[1:]:
            search_path.append("command-line", folder)


Plugins.instance().register(_KeptFiles)
Plugins.instance().register(_Folders)


def _hydra_loader(folders: Sequence[Path]) -> ConfigLoader:
    """Return Hydra's loader over folders.

    Hydra has one global state for each process. What another caller has put there is put back.
    """
    state = GlobalHydra.instance()
    before = state.hydra
    state.clear()
    token = _Folders.folders.set(folders)
    try:
        with initialize_config_dir(str(folders[0]), job_name="kdg", version_base="1.3"):
            return GlobalHydra.instance().config_loader()
    finally:
        _Folders.folders.reset(token)
        if before is not None:
            GlobalHydra.instance().clear()
            GlobalHydra.instance().initialize(before)
