"""Words that choose runs: ``dataset=spiral,circle``, ``method!=refit``, ``dataset.n_train=1000``,
``dataset=mfeat_*``.

A key is one of ``dataset method parent calibrator gate detector recalibrator ood preprocess``
(names), ``seed``, or a dotted key of the config, such as ``protocol``. Several values are
alternatives, several filters must all hold. A value is compared as text in which ``*`` and ``?``
stand for anything, and as a number if both are numbers; true, false and null are written so. A run
that has no such key fails ``=`` and passes ``!=``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any

from kdgraph.config import AFTER
from kdgraph.config.messages import unknown_key
from kdgraph.errors import UsageError, did_you_mean

NAMES = ("dataset", "method", "parent", *AFTER, "ood", "preprocess", "seed")
ABSENT = object()
_MOST_NAMED = 12


@dataclass(frozen=True)
class Filter:
    """One word: what is asked of one key.

    Attributes
    ----------
    key : a name or a dotted key.
    values : one of them is enough.
    wanted : whether it is to be one of them, or none.
    """

    key: str
    values: tuple[str, ...]
    wanted: bool

    def passes(self, record: Mapping[str, Any]) -> bool:
        """Whether a run has what is asked for."""
        value = value_of(record, self.key)
        return (
            value is not ABSENT and any(_is(value, text) for text in self.values)
        ) == self.wanted


def parse(word: str) -> Filter:
    """Read a filter.

    >>> parse("dataset!=spiral,circle")
    Filter(key='dataset', values=('spiral', 'circle'), wanted=False)
    """
    match = re.fullmatch(r"([\w.]+)(!?=)(.+)", word, re.DOTALL)
    if not match:
        raise UsageError(f"a filter is key=value[,value…] or key!=value, got '{word}'")
    key, sign, values = match.groups()
    return Filter(key, tuple(_split(values)), sign == "=")


def value_of(record: Mapping[str, Any], key: str) -> Any:
    """What a run has for a key, or :data:`ABSENT`."""
    if key == "method" or key == "seed":
        return record[key]
    value: Any = record["config"]
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return ABSENT
        value = value[part]
    return value["name"] if isinstance(value, Mapping) and "name" in value else value


def flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted key and value of everything in a config that is no mapping."""
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def refuse_unknown(filters: Iterable[Filter], records: Sequence[Mapping[str, Any]]) -> None:
    """Raise if a filter asks for what no run has at all: a key, or the value of a name.

    Raises
    ------
    UsageError
        One line with the nearest that there is.
    """
    for each in filters:
        there = {
            as_text(value)
            for record in records
            if (value := value_of(record, each.key)) is not ABSENT
        }
        if not there:
            raise unknown_key(
                each.key,
                {*NAMES, *(key for record in records for key, _ in flat(record["config"]))},
            )
        for text in each.values if each.wanted else ():
            if not any(_is(value, text) for value in there):
                known = sorted(there)
                others = f"; they have {', '.join(known)}" if len(known) <= _MOST_NAMED else ""
                raise UsageError(f"no run has {each.key}={text}{did_you_mean(text, known, others)}")


def as_text(value: Any) -> str:
    """A value as a command line would have it.

    >>> [as_text(value) for value in (True, None, 0.5, [200, 200], "spiral")]
    ['true', 'null', '0.5', '[200,200]', 'spiral']
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | tuple):
        return f"[{','.join(map(as_text, value))}]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{as_text(item)}" for key, item in value.items()) + "}"
    return str(value)


def _is(value: Any, wanted: str) -> bool:
    text = as_text(value)
    if text == wanted.replace(" ", "") or fnmatchcase(text, wanted):
        return True
    try:
        return Decimal(text) == Decimal(
            wanted
        )  # not as floats, of which one stands for many whole numbers from 2^53 on
    except ArithmeticError:
        return False


def _split(values: str) -> list[str]:
    """At the commas that are in no bracket."""
    return [part.strip() for part in re.split(r",(?![^\[]*\])", values)]
