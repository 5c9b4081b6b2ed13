"""How messages about tables name columns and ways out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any


def shortened(names: Sequence[str], most: int = 5) -> str:
    """The first names, and how many more there are.

    >>> shortened(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def override(key: str, values: Iterable[Any]) -> str:
    """A list as one argument of a command line, in quotes, because brackets mean something to a shell.

    >>> print(override("drop", ["age", "zip code"]))
    'dataset.drop=[age,"zip code"]'
    """
    texts = (value if re.fullmatch(r"[\w./+-]+", value) else f'"{value}"' for value in map(str, values))
    return f"'dataset.{key}=[{','.join(texts)}]'"
