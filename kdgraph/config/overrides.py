"""Overrides of a command line, in the grammar of Hydra."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import (
    ChoiceSweep,
    Glob,
    Override,
    OverrideType,
    QuotedString,
    Sweep,
)
from hydra.errors import HydraException

from kdgraph.config.messages import no_name_of_an_option
from kdgraph.config.run_config import PLAIN
from kdgraph.containment import is_inner_name
from kdgraph.errors import ConfigError

_NODES_OF_HYDRA = {
    "hydra": "hydra/launcher=processes",
    "hydra.launcher": "hydra.launcher.n_jobs=2",
    "hydra.sweeper": "seed=0,1 with -m",
}
"""Mappings of Hydra's node that a plan reads, and what to write in place of replacing them."""


class Overrides:
    """Overrides as Hydra parses them, each once: a sweep has few values, and many points.

    ``loader`` is Hydra's over the folders of config groups; it has the names that ``glob()``
    matches.
    """

    def __init__(self, folders: Sequence[Path], loader: ConfigLoader) -> None:
        self._folders = folders
        self._parser = OverridesParser.create(config_loader=loader)
        self.parse = cache(self._parse)
        self.is_group = cache(self._is_group)

    def _parse(self, override: str) -> Override:
        """Return an override; ConfigError for a value that Hydra parses and cannot compose."""
        (parsed,) = self._parser.parse_overrides([override])
        self._check_value(parsed)
        return parsed

    def _check_value(self, override: Override) -> None:
        """Raise ConfigError for a group that is given no names, and a key that must have a value.

        A mapping for a group sets keys of its node.
        """
        key, value = str(override.key_or_group), override.value()
        if not key:
            raise ConfigError(f"'{override.input_line}' has no key in front of '='")
        if key in _NODES_OF_HYDRA and not isinstance(value, dict):
            raise ConfigError(
                f"{key} is a group of keys, which 'kdg run --cfg hydra' shows; set one of them,"
                f" such as {_NODES_OF_HYDRA[key]}"
            )
        if self.is_group(key) and not override.is_delete():
            for choice in _choices_in(value):
                if not isinstance(choice, str) or "${" in choice:
                    raise no_name_of_an_option(key, choice)
        elif override.is_delete() and key in PLAIN:
            raise ConfigError(f"{key} cannot be removed: no run can do without it; set {key}=…")
        elif key == "hydra.searchpath":
            raise ConfigError("hydra.searchpath is set by --config-dir DIR, a folder of yours")

    def _is_group(self, key: str) -> bool:
        if key.startswith("hydra/"):
            return True
        return is_inner_name(key) and any(os.path.isdir(folder / key) for folder in self._folders)

    def root(self, override: str) -> str:
        """Return the top-level key or the group of an override."""
        return _root(self.parse(override))

    def chooses(self, override: str) -> bool:
        """Return whether an override chooses one option of a group, and nothing else."""
        parsed = self.parse(override)
        return (
            parsed.type is OverrideType.CHANGE
            and parsed.package is None
            and not parsed.is_sweep_override()
            and self.is_group(parsed.key_or_group)
            and not parsed.key_or_group.startswith("hydra/")
            and isinstance(parsed.value(), str)
        )

    def decides_the_sweep(self, override: str) -> bool:
        """Return whether an override may decide that there is a sweep, and over what.

        Swept values do not, nor values of keys that only a swept choice may have.
        """
        parsed = self.parse(override)
        return not parsed.is_sweep_override() and (
            _root(parsed) in ("hydra", *PLAIN) or not self._sets_a_value(parsed)
        )

    def _sets_a_value(self, override: Override) -> bool:
        """Return whether an override changes or deletes a key, and chooses no option of a group."""
        at_a_key = override.type in (OverrideType.CHANGE, OverrideType.DEL)
        return at_a_key and not self.is_group(str(override.key_or_group))

    def split(self, overrides: Sequence[str]) -> tuple[list[str], list[tuple[str, Any]]]:
        """Return the overrides to compose, and key and value of those that can be set afterwards.

        None can where a key is added or deleted after them, which they would come to change.
        """
        parsed = [self.parse(override) for override in overrides]
        waits = [
            override.type is OverrideType.CHANGE and self._sets_a_value(override)
            for override in parsed
        ]
        first = waits.index(True) if True in waits else len(waits)
        if any(override.type is not OverrideType.CHANGE for override in parsed[first:]):
            return list(overrides), []
        return (
            [word for word, can_wait in zip(overrides, waits, strict=True) if not can_wait],
            [(str(o.key_or_group), o.value()) for o in itertools.compress(parsed, waits)],
        )

    def expand(self, overrides: Sequence[str]) -> list[tuple[list[str], dict[str, str]]]:
        """Return the points of a sweep in Hydra's order, each with the values that vary."""
        choices: dict[str, list[str]] = {}
        for override in map(self.parse, overrides):
            key = override.get_key_element()
            if not override.is_sweep_override():
                choices[key] = [f"{key}={override.get_value_element_as_str()}"]
            elif override.is_discrete_sweep():
                choices[key] = [f"{key}={value}" for value in override.sweep_string_iterator()]
                if not choices[key]:
                    way_out = (
                        f"'kdg list {key}' shows what there is"
                        if self.is_group(key)
                        else "a sweep needs one value or more"
                    )
                    raise ConfigError(f"'{override.input_line}' matches nothing; {way_out}")
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


def _choices_in(value: Any) -> list[Any]:
    """Return what an override of a group names: one option, those of a list, those of a sweep."""
    if isinstance(value, ChoiceSweep):
        return [choice for item in value.list for choice in _choices_in(_unquoted(item))]
    if isinstance(value, list):
        return value
    return [] if value is None or isinstance(value, dict | Glob | Sweep) else [value]


def _unquoted(value: Any) -> Any:
    return value.text if isinstance(value, QuotedString) else value


def _root(override: Override) -> str:
    return re.split(r"[./]", str(override.key_or_group))[0]


def can_be_read(word: str) -> bool:
    """Return whether Hydra reads an override that stands in quotes for the shell."""
    try:
        OverridesParser.create().parse_overrides(shlex.split(word))
    except HydraException:
        return False
    return True
