"""How messages and tables count things and name a few of many."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def counted(n: int, what: str) -> str:
    """``1 run``, ``3,000 runs``.

    >>> counted(1, "run"), counted(3000, "data set")
    ('1 run', '3,000 data sets')
    """
    return f"{n:,} {what}{'s' * (n != 1)}"


def some(names: Sequence[str], at_most: int = 5) -> str:
    """The first names, and how many more there are.

    >>> some(["a", "b", "c"], at_most=2)
    'a, b and 1 more'
    """
    return ", ".join(names[:at_most]) + (f" and {len(names) - at_most} more" if len(names) > at_most else "")


def printable(text: str) -> str:
    r"""Return ``text`` on one line, with control and direction characters as escapes.

    Names and cells of files go into messages. A line break in one must not end the line, nor an
    escape sequence reach the terminal.

    >>> print(printable("Revenue\n(USD)"))
    Revenue\n(USD)
    """
    hidden = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return "".join(repr(c)[1:-1] if unicodedata.category(c) in hidden else c for c in text)
