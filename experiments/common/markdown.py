"""Lines, numbers and words of markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np


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


def counted(numbers: Iterable[int], what: str) -> str:
    """1 seed, 3 seeds, 2 to 3 seeds."""
    low, high = min(numbers := list(numbers)), max(numbers)
    return f"{low} {what}{'s' * (low != 1)}" if low == high else f"{low} to {high} {what}s"
