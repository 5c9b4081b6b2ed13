"""The shape of a record: the type and the range of everything in it that a command reads.

A record may have been edited, or come from somebody else, and its checksum can be made to fit. It
is checked once, where it is read; code after that relies on the shape without checks of its own.
Keys that no command reads may have any value that JSON has.

A check is a function of a value that returns the rule which the value breaks, behind the keys that
lead to it, or None. Checks are built once, as one record of 20 kB has 1,000 values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from kdgraph.config import AFTER, OPTIONAL
from kdgraph.containment import is_inner_name
from kdgraph.wording import printable

_Check = Callable[[Any], str | None]

MODEL_COMPONENTS = ("parent", *AFTER)
"""Keys of a record that name a component of the model, in the order in which they are fitted."""
LARGEST_COUNT = 2**53
"""Largest count of rows or columns: the page's script has no larger integers."""
LARGEST_NUMBER = 1e150
"""Largest size of a value: its square is still a number."""
LARGEST_COST = 1e9
"""Largest seconds (30 years) and megabytes of a stage."""
DEEPEST = 40
"""Most levels of lists and mappings in a part of a record that has no fixed shape.

Readers of such a part call themselves once for each level.
"""


def record_problem(record: Mapping[str, Any]) -> str | None:
    """Return the first rule that a record breaks, with its key; None if it breaks none.

    The record is parsed from JSON, of the schema that this version writes.

    >>> record_problem({"run_id": 5})
    'run_id must be text of one line, got 5'
    >>> record_problem({"run_id": "1cb9f0a2"})
    'method is missing'
    """
    if problem := _RECORD(record):
        return problem.removeprefix(".")
    # Names of numbers and tables refer to their descriptions.
    metrics = dict.fromkeys(entry["metric"] for entry in record["metrics"])
    names = (*metrics, *record["files"]["tables"])
    absent = next((name for name in names if name not in record["about_metrics"]), None)
    return None if absent is None else f"about_metrics.{printable(absent)} is missing"


def _got(rule: str, value: Any) -> str:
    """Return the end of a message: the rule, and the value in a few words."""
    if isinstance(value, dict | list):
        text = f"a {'mapping' if isinstance(value, dict) else 'list'} of {len(value)}"
    else:
        text = printable(repr(value) if len(str(value)) <= 40 else f"{str(value)[:40]}…")
    return f" must be {rule}, got {text}"


def _is_text(value: Any) -> bool:
    """Return whether a value is text that can be encoded; JSON also has halves of characters."""
    if type(value) is not str:
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _rule(rule: str, holds: Callable[[Any], bool]) -> _Check:
    return lambda value: None if holds(value) else _got(rule, value)


def _is_number(value: Any, low: float, high: float) -> bool:
    return type(value) in (float, int) and low <= value <= high  # NaN is in no range


_text = _rule("text", _is_text)
_name = _rule(
    "text of one line",
    lambda value: _is_text(value) and (value.isprintable() or printable(value) == value),
)
_path = _rule("a path", lambda value: _is_text(value) and "\0" not in value)
_file_name = _rule(
    "the name of a file in the run's folder",
    lambda value: _is_text(value) and is_inner_name(value),
)
_flag = _rule("true or false", lambda value: type(value) is bool)
_seed = _rule("an integer from 0", lambda value: type(value) is int and value >= 0)
_count = _rule(
    f"an integer from 0 to {LARGEST_COUNT}",
    lambda value: type(value) is int and 0 <= value <= LARGEST_COUNT,
)
_number = _rule(
    f"a number of size {LARGEST_NUMBER:g} at most",
    lambda value: _is_number(value, -LARGEST_NUMBER, LARGEST_NUMBER),
)
_cost = _rule(
    f"a number from 0 to {LARGEST_COST:g}", lambda value: _is_number(value, 0, LARGEST_COST)
)


def _any(value: Any, levels: int = DEEPEST) -> str | None:
    """Check only that a value can be walked through, printed and written again as JSON."""
    kind = type(value)
    if kind is str:
        return None if _is_text(value) else _got("text", value)
    if kind is float:
        return None if math.isfinite(value) else _got("a finite number", value)
    if kind not in (dict, list):
        return None
    if not levels:
        return f" must have at most {DEEPEST} levels"
    items = value.items() if kind is dict else enumerate(value)
    for key, item in items:
        if kind is dict and not _is_text(key):
            return _got("a mapping with keys of text", value)
        if (problem := _any(item, levels - 1)) is not None:
            return f".{printable(str(key))}{problem}"
    return None


def _node(value: Any) -> str | None:
    return _any(value) if type(value) is dict else _got("a mapping", value)


def _one_of(*words: str | None) -> _Check:
    rule = "one of " + ", ".join("null" if word is None else word for word in words)

    def check(value: Any) -> str | None:
        is_word = value is None or type(value) is str
        return None if is_word and value in words else _got(rule, value)

    return check


def _or_null(check_value: _Check) -> _Check:
    return lambda value: None if value is None else check_value(value)


def _list_of(check_item: _Check) -> _Check:
    def check(value: Any) -> str | None:
        if type(value) is not list:
            return _got("a list", value)
        for position, item in enumerate(value):
            if (problem := check_item(item)) is not None:
                return f".{position}{problem}"
        return None

    return check


def _mapping_of(check_item: _Check, check_key: _Check = _name) -> _Check:
    def check(value: Any) -> str | None:
        if type(value) is not dict:
            return _got("a mapping", value)
        for key, item in value.items():
            if (problem := check_key(key)) is not None:
                return f" must have other keys: each{problem}"
            if (problem := check_item(item)) is not None:
                return f".{printable(key)}{problem}"
        return None

    return check


def _fields(
    needed: Mapping[str, _Check],
    optional: Mapping[str, _Check] | None = None,
    *,
    others: _Check | None = _any,
) -> _Check:
    """Return the check of a mapping with these keys; None in place of ``others`` allows no more."""
    optional = optional or {}

    def check(value: Any) -> str | None:
        if type(value) is not dict:
            return _got("a mapping", value)
        for key, check_item in needed.items():
            if key not in value:
                return f".{key} is missing"
            if (problem := check_item(value[key])) is not None:
                return f".{key}{problem}"
        for key in value.keys() - needed.keys():
            check_item = optional.get(key, others)
            if check_item is None or not _is_text(key):
                return f" must have no other keys, got {printable(str(key))}"
            if (problem := check_item(value[key])) is not None:
                return f".{printable(key)}{problem}"
        return None

    return check


_ORIGIN = _fields({}, {"rows": _text, "repaired": _list_of(_text), "subset": _text, "set": _text})
"""Origin of the rows of a data set or of an OOD set."""
_DATASET = _fields(
    {
        "name": _name,
        "fingerprint": _name,
        **dict.fromkeys(("n_train", "n_calibration", "n_test", "n_features"), _count),
        "classes": _list_of(_any),
        "prior": _or_null(_list_of(_number)),
    },
    {"test_fingerprint": _name, "source": _or_null(_ORIGIN)},
)
_OPTIONS_OF_METRICS = _or_null(_mapping_of(_or_null(_node)))
_CONFIG = _fields(
    {
        "dataset": _fields({}, {"fold": _or_null(_seed)}),
        "ood": _or_null(_fields({}, {"sources": _or_null(_mapping_of(_node))})),
        "preprocess": _or_null(_node),
        "parent": _node,
        **{component: _or_null(_node) for component in AFTER if component != OPTIONAL},
        "metrics": _mapping_of(_OPTIONS_OF_METRICS),
        "protocol": _name,
    },
    {OPTIONAL: _or_null(_node), "calibration": _name},
)
_METRIC = _fields(
    {
        "metric": _name,
        "of": _one_of("parent", "calibrated"),
        "on": _one_of("test", "calibration", "grid", "ood"),
        "ood": _or_null(_name),
        "params": _mapping_of(_number),
        "value": _or_null(_number),
        "stderr": _or_null(_number),
        "n": _count,
    },
    {"in_distribution": _flag, "n_of": _name},
)
_ABOUT = _fields(
    {"label": _name},
    {
        "better": _one_of("lower", "higher", None),
        "unit": _or_null(_name),
        "detects": _flag,
        "metric": _or_null(_name),
    },
    others=None,
)
_READ = _fields(
    {
        "target": _or_null(_name),
        "path": _path,
        **dict.fromkeys(("key", "stamp", "sha256"), _name),
    }
)
_FILES = _fields(
    {
        "predictions": _file_name,
        "tables": _mapping_of(_file_name),
        "figures": _list_of(_file_name),
    },
    {
        "model": _list_of(_file_name),
        "sha256": _mapping_of(_or_null(_name), _file_name),
    },
)
_RECORD = _fields(
    {
        "run_id": _name,
        "method": _name,
        **{component: _name for component in MODEL_COMPONENTS if component != OPTIONAL},
        "protocol": _one_of("strict", "paper"),
        "seed": _seed,
        "overrides": _list_of(_text),
        "experiment": _or_null(_name),
        "config_dir": _or_null(_text),
        "reads": _mapping_of(_READ),
        "dataset": _DATASET,
        "config": _CONFIG,
        "metrics": _list_of(_METRIC),
        "about_metrics": _mapping_of(_ABOUT),
        "ood_sets": _list_of(_fields({"name": _name, "n": _count, "source": _ORIGIN})),
        "learnt": _node,
        "files": _FILES,
        "seconds": _mapping_of(_cost),
        "peak_memory_mb": _mapping_of(_cost),
        "warnings": _list_of(_fields({"stage": _name, "message": _text})),
        "from_store": _list_of(_name),
        "versions": _mapping_of(_name),
        "git": _or_null(_node),
        "host": _node,
    },
    {OPTIONAL: _name, "method_options": _node, "store": _mapping_of(_name)},
)
