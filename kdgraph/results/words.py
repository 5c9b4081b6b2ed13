"""Words that tables and notes share: what is missing, what is best, few of many names, numbers that follow each other."""

from __future__ import annotations

from collections.abc import Sequence

MISSING = "–"
"""Stands where there is no number."""
MARK = " ◂"
"""Stands behind the best; in files the cell is bold instead."""


def counted(n: int, what: str) -> str:
    """``1 run``, ``3,000 runs``.

    >>> counted(1, "run"), counted(3000, "data set")
    ('1 run', '3,000 data sets')
    """
    return f"{n:,} {what}{'s' * (n != 1)}"


def some(names: Sequence[str], at_most: int = 4) -> str:
    """The first names, and how many more there are.

    >>> some("abcdef")
    'a, b, c, d and 2 more'
    """
    return ", ".join(names[:at_most]) + (f" and {len(names) - at_most} more" if len(names) > at_most else "")


def numbered(numbers: Sequence[int]) -> str:
    """Increasing numbers, three or more in a row by their ends.

    >>> numbered([0, 1, 2]), numbered([0, 1]), numbered([0, 2, 3])
    ('0–2', '0, 1', '0, 2, 3')
    """
    together = list(numbers) == list(range(numbers[0], numbers[-1] + 1)) and len(numbers) > 2
    return f"{numbers[0]}–{numbers[-1]}" if together else ", ".join(map(str, numbers))
