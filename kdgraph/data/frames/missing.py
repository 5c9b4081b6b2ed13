"""Cells of a table that stand for missing values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

LARGEST = 1e18
"""From here on a number is taken for a code for missing: beside its square, those of all others vanish in double precision."""


@dataclass(frozen=True)
class Missing:
    """Cells to read as missing: as text, and as numbers where they are some."""

    words: frozenset[str]
    numbers: np.ndarray

    @classmethod
    def of(cls, cells: Iterable[str | float]) -> Missing:
        """``-1`` is missing as a number and as the text ``-1``."""
        cells = list(cells)
        words = {plain(cell) for cell in cells}
        numbers = pd.to_numeric(pd.Series(sorted(words), dtype=object), errors="coerce").to_numpy(dtype=np.float64)
        # A number of 17 digits that pandas reads from text may be off by one in the last place. Both
        # it and the number itself count: a cell of a file is the one, a cell of a frame the other.
        exact = [float(cell) for cell in cells if not isinstance(cell, str)]
        return cls(frozenset(words), np.unique([*numbers[~np.isnan(numbers)], *exact]))


def plain(value: Any) -> str:
    """Return a cell as a person would write it.

    >>> plain(3.0), plain(0.25), plain("3.0")
    ('3', '0.25', '3.0')
    """
    if isinstance(value, (float, np.floating)) and float(value).is_integer() and abs(value) < LARGEST:
        return str(int(value))
    return str(value)
