"""Compositions of folders of YAML files by Hydra, kept for the life of a process.

Hydra takes about 50 ms for one config, however few keys differ. A sweep has thousands of points,
and a process may plan many times. So each file is parsed once, and each combination of options of
groups is composed once, by Hydra; both are kept as long as no file changes. Points that choose the
same options differ in plain values, such as the seed: values come last, in Hydra too, so that they
are set in a copy of what was composed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from pathlib import Path
from typing import Any, cast

from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from kdgraph.config.hydra_files import Outlines, hydra_loader

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
        self.loader = hydra_loader(folders)
        self._outlines = Outlines(folders, self.loader)
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

    def of(self, overrides: Sequence[str]) -> Composition:
        """Return the composition of overrides."""
        return self._kept(tuple(overrides))

    def _composition(self, overrides: tuple[str, ...]) -> Composition:
        if overrides not in self._wholes and (composition := self._of_files(overrides)):
            return composition
        whole = self.whole(overrides)
        nodes = cast("dict[str, Any]", OmegaConf.to_container(whole))
        del nodes["hydra"]
        return Composition(nodes, dict(whole.hydra.runtime.choices))

    def _of_files(self, overrides: tuple[str, ...]) -> Composition | None:
        """Return the files of Hydra's defaults list, merged; None where they are not all there is.

        That is so for overrides that choose no option, and errors, which Hydra words itself.
        """
        try:
            files, options = self._outlines.chosen(overrides)
            return Composition(reduce(_merged, files, {}), options)
        except _ERRORS:  # Hydra raises it again, or does what files alone do not
            return None


def _merged(node: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping with the values of another, which are merged where both are mappings."""
    merged = dict(node)
    for key, value in other.items():
        before = merged.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            merged[key] = _merged(before, value)
        elif value == "???" or _differ_in_kind(before, value):
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
