"""Numbers of a column as they are: integers stay integers, and those that double precision would merge are refused."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_bool_dtype, is_complex_dtype, is_integer_dtype, is_numeric_dtype, is_unsigned_integer_dtype

from kdgraph.data.files.whole_numbers import ROUNDED_FROM, WHOLE, integer_array
from kdgraph.errors import DataError
from kdgraph.wording import counted


def is_number(dtype: Any) -> bool:
    """Return whether a column of this type holds real numbers, which truth values are not."""
    return is_numeric_dtype(dtype) and not is_bool_dtype(dtype) and not is_complex_dtype(dtype)


def exact_numbers(values: Any) -> np.ndarray:
    """Return a numeric Series, Index or array [n] as Int64[n] or UInt64[n] where its type is an integer, else as Float64[n].

    An integer column must have no missing cell; in a column of floats that is NaN.
    """
    if is_unsigned_integer_dtype(values.dtype):
        unsigned = values.to_numpy(dtype=np.uint64)
        return unsigned if len(unsigned) and unsigned.max() >= 2**63 else unsigned.astype(np.int64)
    if is_integer_dtype(values.dtype):
        return values.to_numpy(dtype=np.int64)
    return pd.Series(values).to_numpy(dtype=np.float64, na_value=np.nan)


def typed(column: pd.Series) -> pd.Series:
    """Return a column of Python numbers or decimals, as databases give them, with a numeric type; any other as it is.

    Examples
    --------
    >>> from decimal import Decimal
    >>> typed(pd.Series([Decimal("1.50"), None])).tolist(), typed(pd.Series([2**53 + 1, None], dtype=object)).tolist()
    ([1.5, nan], [9007199254740993, <NA>])
    """
    if column.dtype != object:
        return column
    kind = infer_dtype(column, skipna=True)
    whole = kind == "integer" or (kind == "decimal" and all(cell == cell.to_integral_value() for cell in column.dropna()))
    if whole:
        integers = integer_array([None if pd.isna(cell) else int(cell) for cell in column])
        return column if integers is None else pd.Series(integers, index=column.index, name=column.name)
    if kind in ("decimal", "floating", "mixed-integer-float"):
        return column.map(float, na_action="ignore").astype(np.float64)
    return column


def check_not_merged(where: str, values: np.ndarray, way_out: str) -> None:
    """Raise DataError if different integers of ``values`` [n] become the same float.

    Parameters
    ----------
    where : what the values are, for the message.
    values : numbers without missing ones; floats are what they are, and pass.
    way_out : what to do about it.
    """
    if values.dtype.kind not in "iu" or not len(values):
        return
    large = values[(values >= ROUNDED_FROM) | (values <= -ROUNDED_FROM)]
    n = len(distinct := np.unique(large))
    if lost := n - len(np.unique(distinct.astype(np.float64))):
        found = f"{where} has whole numbers from 2^53 on ({distinct[0]}), and {counted(lost, 'different value')} of {n:,}"
        raise DataError(f"{found} would be lost in double precision; {way_out}")


def whole_numbers_of(words: Any) -> np.ndarray:
    """Return the whole numbers among words as Int64[m] or UInt64[m]; none where one needs more bits, and is too large anyway."""
    integers = integer_array([int(word) for word in words if WHOLE.fullmatch(word.strip())])
    return np.empty(0, dtype=np.int64) if integers is None else exact_numbers(integers)


def label_array(values: Sequence[Any]) -> np.ndarray:
    """Return labels [n] of one type as an array, in which whole numbers stay integers.

    numpy makes floats of integers of which some need the 64th bit and others do not; those are unsigned here or,
    if some are negative, text.

    >>> label_array([1, 2**64 - 1]).tolist(), label_array(["a", "b"]).tolist()
    ([1, 18446744073709551615], ['a', 'b'])
    """
    whole = all(isinstance(value, Integral) and not isinstance(value, bool | np.bool_) for value in values)
    if whole and len(values) and max(values) >= 2**63:
        return np.array(values, dtype=np.uint64) if min(values) >= 0 else np.array([str(int(value)) for value in values])
    return np.array(values)
