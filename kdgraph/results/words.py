"""Words that tables and notes share: what is missing, what is best, numbers that follow each
other.
"""

from __future__ import annotations

from collections.abc import Sequence

MISSING = "–"
"""Stands where there is no number."""
MARK = " ◂"
"""Stands behind the best; in files the cell is bold instead."""


def numbered(numbers: Sequence[int]) -> str:
    """Return increasing whole numbers, none of them twice, three or more in a row by their ends.

    >>> numbered([0, 1, 2]), numbered([0, 1]), numbered([0, 2, 3])
    ('0–2', '0, 1', '0, 2, 3')
    """
    together = len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1
    return f"{numbers[0]}–{numbers[-1]}" if together else ", ".join(map(str, numbers))
