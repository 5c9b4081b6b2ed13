"""Nodes of config groups as their YAML files have them, without composing: quick, and only for
files that need no more than merging.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from kdgraph.config.yaml_files import read_text
from kdgraph.errors import ConfigError

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Node:
    """An option of a group, merged with the files that it is built on.

    Attributes
    ----------
    values : with interpolations as they are written.
    chooses : whether it or one of those files chooses something for other groups.
    """

    values: dict[str, Any]
    chooses: bool

    @property
    def alone(self) -> bool:
        """Whether composing it gives the same values, and changes nothing else."""
        return not self.chooses and "${" not in str(self.values)

    @property
    def name(self) -> str | None:
        """The name that it gives itself; None where that follows from another value."""
        name = self.values.get("name")
        return name if isinstance(name, str) and "${" not in name else None


@cache
def read_node(folders: tuple[Path, ...], option: str) -> Node | None:
    """The node of ``<group>/<option>``; None if there is no such file.

    Parameters
    ----------
    folders : of configs; of two files of the same name the first folder's counts, as in Hydra.
    option : with its group.
    """
    if (own := _read(folders, option)) is None:
        return None
    bases = own.pop("defaults", None) or ["_self_"]
    values: dict[str, Any] = {}
    chooses = False
    for base in bases if "_self_" in bases else [*bases, "_self_"]:
        if base == "_self_":
            values = _merged(values, own)
        elif isinstance(base, str) and (below := read_node(folders, _full_name(base, option))):
            values, chooses = _merged(values, below.values), chooses or below.chooses
        else:
            chooses = True
    return Node(values, chooses)


def chosen_by(folders: Sequence[Path], option: str) -> dict[str, str]:
    """Group → option, of what an option chooses for other groups: ``defaults: [{override /parent:
    random_forest}]``.
    """
    entries = (_read(folders, option) or {}).get("defaults") or []
    pairs = [pair for entry in entries if isinstance(entry, dict) for pair in entry.items()]
    return {key.removeprefix("override /").partition("@")[0]: str(value) for key, value in pairs}


def _read(folders: Sequence[Path], option: str) -> dict[str, Any] | None:
    path = next(
        (path for folder in folders if (path := Path(folder, f"{option}.yaml")).is_file()), None
    )
    if path is None:
        return None
    try:
        values = yaml.load(read_text(path), _LOADER) or {}
    except (ConfigError, yaml.YAMLError):  # no run was composed from it
        return None
    return (
        values
        if isinstance(values, dict) and isinstance(values.get("defaults", []), list)
        else None
    )


def _full_name(base: str, option: str) -> str:
    """``/parent/mlp@_here_`` → ``parent/mlp``; one without a slash at its start is beside the
    option.
    """
    name = base.partition("@")[0]
    return name[1:] if name.startswith("/") else f"{option.rpartition('/')[0]}/{name}"


def _merged(values: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    both = {
        key: _merged(values[key], more[key])
        for key in more
        if isinstance(values.get(key), dict) and isinstance(more[key], dict)
    }
    return {**values, **more, **both}


def options_like(
    folders: Sequence[Path], group: str, options: Sequence[str], node: dict[str, Any]
) -> list[str]:
    """Options with the node's name, or of its class where their name follows from something else;
    all where nodes have no name.
    """
    if "name" not in node:
        return list(options)
    found = {
        option: there
        for option in options
        if (there := read_node(tuple(folders), f"{group}/{option}"))
    }
    named = [option for option, there in found.items() if there.name == node["name"]]
    return named or [
        option
        for option, there in found.items()
        if there.values.get("_target_") == node["_target_"]
    ]
