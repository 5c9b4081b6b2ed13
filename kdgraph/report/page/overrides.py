"""Overrides that turn one config node into another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kdgraph.quoting import as_value


def differences(
    have: Mapping[str, Any], want: Mapping[str, Any], prefix: str = ""
) -> Iterator[str]:
    """Overrides after which ``have`` equals ``want``: values set, keys added (``+``) and removed
    (``~``).

    >>> list(differences({"k": 1, "old": 2}, {"k": 3, "new": None}, "calibrator."))
    ['~calibrator.old', 'calibrator.k=3', '+calibrator.new=null']
    """
    for key in have:
        if key not in want:
            yield from (
                [f"++{prefix}{key}=0"] if have[key] is None else []
            )  # Hydra does not see a null that is to be removed
            yield f"~{prefix}{key}"
    for key, value in want.items():
        if key not in have:
            yield f"+{prefix}{key}={as_value(value)}"
        elif isinstance(value, Mapping) and isinstance(have[key], Mapping):
            yield from differences(have[key], value, f"{prefix}{key}.")
        elif not same(have[key], value):
            kinds = {
                isinstance(each, Mapping)
                for each in (have[key], value)
                if isinstance(each, Mapping | list)
            }
            yield from (
                [f"{prefix}{key}=null"] if len(kinds) > 1 else []
            )  # a list and a mapping do not merge
            yield f"{prefix}{key}={as_value(value)}"


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same in JSON, where 1 and 1.0 are not, nor 1 and true."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other
