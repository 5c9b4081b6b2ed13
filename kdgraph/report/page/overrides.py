"""Overrides in Hydra's grammar: what turns one config node into another, and how a value is written so that it is read back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_PLAIN_WORD = re.compile(r"[A-Za-z_][\w./-]*", re.ASCII)
_OTHER_THAN_TEXT = {"null", "true", "false", "nan", "inf", "yes", "no", "on", "off"}


def differences(have: Mapping[str, Any], want: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Overrides after which ``have`` equals ``want``: values set, keys added (``+``) and removed (``~``).

    >>> list(differences({"k": 1, "old": 2}, {"k": 3, "new": None}, "calibrator."))
    ['~calibrator.old', 'calibrator.k=3', '+calibrator.new=null']
    """
    for key in have:
        if key not in want:
            yield from [f"++{prefix}{key}=0"] if have[key] is None else []  # Hydra does not see a null that is to be removed
            yield f"~{prefix}{key}"
    for key, value in want.items():
        if key not in have:
            yield f"+{prefix}{key}={as_value(value)}"
        elif isinstance(value, Mapping) and isinstance(have[key], Mapping):
            yield from differences(have[key], value, f"{prefix}{key}.")
        elif not same(have[key], value):
            kinds = {isinstance(each, Mapping) for each in (have[key], value) if isinstance(each, Mapping | list)}
            yield from [f"{prefix}{key}=null"] if len(kinds) > 1 else []  # a list and a mapping do not merge
            yield f"{prefix}{key}={as_value(value)}"


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same in JSON, where 1 and 1.0 are not, nor 1 and true."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def as_value(value: Any) -> str:
    r"""A value as an override has it; text is quoted unless it can only be text.

    >>> [as_value(value) for value in (None, True, 1e-06, [1, "a b"], {"k": 1}, "null", "it's")]
    ['null', 'true', '1e-06', "[1,'a b']", '{k:1}', "'null'", "'it\\'s'"]
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{as_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(as_value, value)) + "]"
    return _text(value) if isinstance(value, str) else repr(value)


def _text(text: str) -> str:
    if _PLAIN_WORD.fullmatch(text) and text.lower() not in _OTHER_THAN_TEXT:
        return text
    # a backslash counts before a quote, which the closing one is, and before what would be an interpolation
    escaped = re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), text)
    escaped = re.sub(r"(\\*)\$\{", lambda found: found[1] * 2 + "\\${", escaped)
    return f"'{escaped}'"
