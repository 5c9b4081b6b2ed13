"""Numbers that are written as text, read to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd


def exact_numbers(texts: Any) -> np.ndarray:
    """Return the double nearest to each text, as Python's ``float`` does.

    ``pandas.to_numeric`` may return its neighbour, and a split of a tree may lie between them.

    Parameters
    ----------
    texts : array-like of shape (n,)
        Text, or numbers and missing cells among it.

    Returns
    -------
    ndarray, Float64[n]
        NaN where pandas reads no number.

    Examples
    --------
    >>> exact_numbers(["0.3", "1e3", "three", None]).tolist()
    [0.3, 1000.0, nan, nan]
    >>> exact_numbers(["1.7976931348623157e308"]).tolist()
    [1.7976931348623157e+308]
    """
    cells = pd.Series(texts, dtype=object)
    # pandas decides what a number is: Python would take 1_000 for one.
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    numbers = numbers.copy()
    is_text = np.array([isinstance(cell, str) for cell in cells], dtype=bool)
    is_text &= ~np.isnan(numbers)
    numbers[is_text] = cells.to_numpy()[is_text].astype(np.float64)
    return numbers
