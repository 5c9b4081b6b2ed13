"""Compositions of folders of YAML files by Hydra, kept for the life of a process.

Hydra takes about 40 ms for one config, and a sweep has thousands of points. So each combination of
options of groups is composed once, and kept as long as no file changes. For the points of a sweep
Hydra only decides which files are merged, in which order and in which package
(``compute_defaults_list``), over the defaults lists alone: most of its time goes into its own node
and copies. Points that choose the same options differ in plain values, such as the seed: values
come last, in Hydra too, so that they are set in a copy of what was composed.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, cast

from hydra.core.config_loader import ConfigLoader
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from kdgraph.config.hydra_files import HYDRAS_NODE, hydra_loader, outlines

_ERRORS = (
    HydraException,
    OmegaConfBaseException,
    YAMLError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
_N_WHOLES = 8
"""Number of configs with Hydra's node that are kept."""
Value = tuple[str, Any]
"""A full key of the config and its new value."""


@dataclass(frozen=True)
class Composition:
    """The nodes of a config, as Hydra composed them, without Hydra's own node.

    They are plain dicts and lists, with interpolations as they are written. ``options`` maps groups
    to chosen options.
    """

    nodes: Mapping[str, Any]
    options: Mapping[str, str]

    def with_values(self, values: Sequence[Value] = ()) -> dict[str, Any] | None:
        """Return the resolved nodes, with other values at keys that exist; not for writing.

        None where only Hydra can set them: a key that does not exist, a mapping, a value for
        something that is an interpolation.
        """
        before = [_value_at(self.nodes, key.split(".")) for key, _ in values]
        if any(isinstance(value, Mapping) or _refers(value) for value in before):
            return None
        if not self._refers and not any(_refers(value) for _, value in values):
            nodes = dict(self.nodes)
            for key, value in values:
                _replace(nodes, key.split("."), value)
            return nodes
        return self._resolved(values)

    @cached_property
    def _refers(self) -> bool:
        return _refers(self.nodes)

    @cached_property
    def _config(self) -> DictConfig:
        return OmegaConf.create(dict(self.nodes))

    def _resolved(self, values: Sequence[Value]) -> dict[str, Any] | None:
        """Return the nodes with these values, and with those that interpolations have now."""
        try:
            for key, value in values:
                OmegaConf.update(self._config, key, value, merge=True)
            return cast("dict[str, Any]", OmegaConf.to_container(self._config, resolve=True))
        except OmegaConfBaseException:
            if values:
                return None
            raise
        finally:  # to make another config takes ten times as long
            for key, _ in values:
                OmegaConf.update(self._config, key, _value_at(self.nodes, key.split(".")))


def _value_at(node: Any, path: Sequence[str]) -> Any:
    """Return the value at the end of a path of keys through mappings; a mapping if it has none."""
    for key in path:
        node = node[key] if isinstance(node, Mapping) and key in node else {}
    return node


def _refers(value: Any) -> bool:
    """Return whether there is an interpolation in a value."""
    if isinstance(value, Mapping | list):
        return any(map(_refers, value.values() if isinstance(value, Mapping) else value))
    return isinstance(value, str) and "${" in value


def _replace(nodes: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set a value in nested dicts, and copy the dicts on the way to it."""
    for key in path[:-1]:
        nodes[key] = dict(nodes[key])
        nodes = nodes[key]
    nodes[path[-1]] = value


class Compositions:
    """Hydra over folders of config groups, with what it has composed.

    The first folder has ``config.yaml``; behind it is the user's, if there is one. ``loader`` is
    Hydra's over these folders, as its launchers want it.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.loader = hydra_loader(folders)
        self._outlines = outlines(folders)
        self._wholes: dict[tuple[str, ...], DictConfig] = {}
        self._kept = lru_cache(maxsize=2048)(self._composition)

    def whole(self, overrides: Sequence[str]) -> DictConfig:
        """Return the config of overrides with Hydra's node, not for writing."""
        key = tuple(overrides)
        whole = self._wholes.get(key)
        if whole is None or whole.hydra.job.env_copy:  # variables that Hydra copies anew
            whole = self.loader.load_configuration("config", list(key), run_mode=RunMode.RUN)
            if len(self._wholes) == _N_WHOLES:
                self._wholes.clear()
            self._wholes[key] = whole
        return whole

    def is_whole(self, overrides: Sequence[str]) -> bool:
        """Return whether the whole config of overrides is kept."""
        return tuple(overrides) in self._wholes

    def of(self, overrides: Sequence[str]) -> Composition:
        """Return the composition of overrides."""
        return self._kept(tuple(overrides))

    def _composition(self, overrides: tuple[str, ...]) -> Composition:
        if not self.is_whole(overrides) and (composition := self._of_files(overrides)):
            return composition
        whole = self.whole(overrides)
        nodes = cast("dict[str, Any]", OmegaConf.to_container(whole))
        del nodes["hydra"]
        options = whole.hydra.runtime.choices.items()
        return Composition(nodes, {k: v for k, v in options if not k.startswith("hydra/")})

    def _of_files(self, overrides: tuple[str, ...]) -> Composition | None:
        """Return the files of Hydra's defaults list, merged; None where they are not all there is.

        That is so for overrides that choose no option, and errors, which Hydra words itself.
        """
        try:
            listed = self._lister.compute_defaults_list("config", list(overrides), RunMode.RUN)
            nodes: dict[str, Any] = {}
            for default in listed.defaults:
                if default.config_path != HYDRAS_NODE:
                    outline = next(o for o in self._outlines if o.is_config(default.config_path))
                    nodes = _merged(nodes, outline.nodes(default.config_path, default.package))
        except _ERRORS:  # Hydra raises it again, or does what files alone do not
            return None
        if listed.config_overrides:
            return None
        return Composition(nodes, dict(listed.overrides.known_choices))

    @cached_property
    def _lister(self) -> ConfigLoader:
        """Hydra's loader over outlines, which lists the same files in a quarter of the time."""
        lister = copy.deepcopy(self.loader)
        lister.get_sources()[:] = self._outlines
        return lister


def _merged(node: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping with the values of another, which are merged where both are mappings."""
    merged = dict(node)
    for key, value in other.items():
        before = merged.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            merged[key] = _merged(before, value)
        elif key in merged and (value == "???" or _differ_in_kind(before, value)):
            raise TypeError(f"OmegaConf has its own rules for {value!r} in place of {before!r}")
        else:
            merged[key] = value
    return merged


def _differ_in_kind(before: Any, value: Any) -> bool:
    """Return whether a mapping comes in place of a list or an interpolation, or a list of one."""
    if isinstance(value, dict):
        return isinstance(before, list) or (isinstance(before, str) and "${" in before)
    return isinstance(value, list) and isinstance(before, dict)


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
