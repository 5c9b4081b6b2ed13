"""Markdown tables, and the numbers and words in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike


def line(cells: Iterable[str]) -> str:
    """Return one row of a table."""
    return "| " + " | ".join(cells) + " |"


def head(columns: Sequence[str]) -> list[str]:
    """Return the first two rows of a table."""
    return [line(columns), "|" + "---|" * len(columns)]


def table(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table."""
    return "\n".join([*head(columns), *map(line, rows)])


def blocks(parts: Iterable[str]) -> str:
    """Return the parts that are not empty, with an empty line between them."""
    return "\n\n".join(part for part in parts if part)


def listed(*words: str) -> str:
    """Return the words that are not empty, joined by commas."""
    return ", ".join(word for word in words if word)


def number(value: float, digits: int = 3) -> str:
    """Return a number as .123 or 1.2, or a dash for NaN."""
    if np.isnan(value):
        return "–"
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if digits > 1 and abs(value) < 1 else text


def signed(value: float, digits: int = 3) -> str:
    """Return a number as +.123 or −.123, or a dash for NaN."""
    return "–" if np.isnan(value) else ("−" if value < 0 else "+") + number(abs(value), digits)


def spread(values: ArrayLike, factor: float = 1.0, digits: int = 3) -> str:
    """Return mean ± standard deviation of a sample, such as .123 ± .045; a dash if it is empty."""
    values = factor * np.asarray(values, dtype=float)
    if not len(values):
        return "–"
    return number(float(values.mean()), digits) + (
        f" ± {number(float(values.std(ddof=1)), digits)}" if len(values) > 1 else ""
    )


def counted_noun(numbers: Iterable[int], noun: str) -> str:
    """Return a range with its noun: "1 seed", "3,000 seeds" or "2 to 3 seeds"."""
    low, high = min(numbers := list(numbers)), max(numbers)
    return f"{low:,} {noun}{'s' * (low != 1)}" if low == high else f"{low:,} to {high:,} {noun}s"
