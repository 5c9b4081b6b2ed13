"""Lines, numbers and words of markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike


def line(cells: Iterable[str]) -> str:
    """One row."""
    return "| " + " | ".join(cells) + " |"


def head(columns: Sequence[str]) -> list[str]:
    """The first two rows."""
    return [line(columns), "|" + "---|" * len(columns)]


def number(value: float, digits: int = 3) -> str:
    """.123, 1.2, or a dash where there is none."""
    if np.isnan(value):
        return "–"
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if digits > 1 and abs(value) < 1 else text


def signed(value: float, digits: int = 3) -> str:
    """+.123 or −.123, or a dash where there is none."""
    return "–" if np.isnan(value) else ("−" if value < 0 else "+") + number(abs(value), digits)


def spread(values: ArrayLike, factor: float = 1.0, digits: int = 3) -> str:
    """Mean ± standard deviation (of a sample), .123 ± .045; a dash of none, no deviation of one."""
    values = factor * np.asarray(values, dtype=float)
    if not len(values):
        return "–"
    return number(float(values.mean()), digits) + (
        f" ± {number(float(values.std(ddof=1)), digits)}" if len(values) > 1 else ""
    )


def counted_noun(numbers: Iterable[int], what: str) -> str:
    """1 seed, 3,000 seeds, 2 to 3 seeds."""
    low, high = min(numbers := list(numbers)), max(numbers)
    return f"{low:,} {what}{'s' * (low != 1)}" if low == high else f"{low:,} to {high:,} {what}s"
