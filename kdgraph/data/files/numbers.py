"""Numbers that are written as text, read to the bit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

FLOAT_INTEGER_LIMIT = 2**53
"""Smallest integer whose float64 is also that of its neighbour."""
INTEGER_PATTERN = re.compile(r"[+-]?\d+", re.ASCII)


def exact_numbers(texts: Any) -> np.ndarray:
    """Return the double nearest to each text, Float64[n]; NaN where pandas reads no number.

    ``pandas.to_numeric`` may return its neighbour, and a split of a tree may lie between them.
    Numbers and missing cells may be among the texts.

    Examples
    --------
    >>> exact_numbers(["0.3", "1e3", "three", None]).tolist()
    [0.3, 1000.0, nan, nan]
    """
    cells = pd.Series(texts, dtype=object)
    # pandas decides what a number is: Python would take 1_000 for one.
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    numbers = numbers.copy()
    is_text = np.array([isinstance(cell, str) for cell in cells], dtype=bool)
    is_text &= ~np.isnan(numbers)
    numbers[is_text] = cells.to_numpy()[is_text].astype(np.float64)
    return numbers


def parse_number_column(cells: pd.Series) -> pd.Series:
    """Return a column of text as integers, floats or text.

    Int64[n] or UInt64[n] if all cells are integers. Text if an integer needs more than 64 bits or a
    cell is not a number. Otherwise Float64[n].

    Examples
    --------
    >>> parse_number_column(pd.Series(["9007199254740993", None, "12"])).tolist()
    [9007199254740993, <NA>, 12]
    """
    # Integers are parsed from text, because pandas goes through float64 where a cell is missing.
    # Each distinct text is parsed once; columns of codes repeat few of them.
    texts = cells.dropna().unique()
    stripped = [str(word).strip() for word in texts]
    if all(INTEGER_PATTERN.fullmatch(word) for word in stripped):
        values = [int(word) for word in stripped]
        value_of = dict(zip(texts, values, strict=True))
        integers = integer_array(
            [value_of[cell] if isinstance(cell, str) else None for cell in cells]
        )
        if integers is None:
            return cells.astype(object)
        return pd.Series(integers, index=cells.index, name=cells.name)
    numbers = exact_numbers(cells)
    if (np.isnan(numbers) & cells.notna().to_numpy()).any():
        return cells.astype(object)
    return pd.Series(numbers, index=cells.index, name=cells.name)


def integer_array(values: Sequence[int | None]) -> pd.arrays.IntegerArray | None:
    """Return integers, some of them missing, as Int64[n] or UInt64[n]; None beyond 64 bits."""
    present = [value for value in values if value is not None]
    low, high = min(present, default=0), max(present, default=0)
    if high >= 2**64 or low < -(2**63) or (low < 0 and high >= 2**63):
        return None
    # ``pandas.array`` would convert to floats first if some integers need the 64th bit.
    mask = np.array([value is None for value in values], dtype=bool)
    dtype = np.uint64 if high >= 2**63 else np.int64
    return pd.arrays.IntegerArray(
        np.array([0 if value is None else value for value in values], dtype=dtype), mask
    )
