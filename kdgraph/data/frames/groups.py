"""Whom a row belongs to: by the value of one column, or by the largest of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

from kdgraph.data.frames.numbers import typed
from kdgraph.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

OTHER = "other"
"""The name of rows of which no column is above 0."""


def groups_of(table: str, key: str, frame: pd.DataFrame, columns: str | Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """The group of each row; ours.

    Parameters
    ----------
    table, key : name and ``dataset.<key>``, for messages.
    frame : [n, columns], which has the columns.
    columns : one, whose values are the groups; or several, see :func:`largest_column`.

    Returns
    -------
    groups : Int[n], positions in the names.
    names : of one column its sorted values, of several their names.

    Raises
    ------
    DataError
        If a cell is empty, or one of several columns holds no numbers.
    """
    if isinstance(columns, str):
        return groups_of_values(table, f"dataset.{key}='{columns}'", frame[columns])
    return largest_column(table, key, frame[list(columns)])


def groups_of_values(table: str, where: str, values: pd.Series) -> tuple[np.ndarray, tuple[str, ...]]:
    """Int[n], the group of each row by sorted value, and the values as text; ours. DataError where a cell of ``where`` is empty."""
    from kdgraph.data.frames.features import sorted_codes

    codes, names = sorted_codes(values)
    if np.isnan(codes).any():
        row = int(np.flatnonzero(np.isnan(codes))[0])
        raise DataError(f"{table}: {where} is empty in row {row}; name the group of each row")
    return codes.astype(np.int64), names


def largest_column(table: str, key: str, frame: pd.DataFrame) -> tuple[np.ndarray, tuple[str, ...]]:
    """Of each row the column with the largest value (its plurality), the first of equals; "other" where none is above 0. Ours.

    So shares of several races give the largest one, and attributes of which at most one is true give that one.

    Parameters
    ----------
    table, key : name and ``dataset.<key>``, for messages.
    frame : [n, c] of numbers or truth values.

    Returns
    -------
    largest : Int[n], positions in the names.
    names : of the c columns, and "other" behind them if a row is.

    Raises
    ------
    DataError
        If a column holds something else, or a cell is empty.

    Examples
    --------
    >>> import pandas as pd
    >>> largest, names = largest_column("t", "group", pd.DataFrame({"black": [0.2, 0.5, 0.0], "white": [0.7, 0.5, 0.0]}))
    >>> [names[i] for i in largest]
    ['white', 'black', 'other']
    """
    frame = frame.apply(typed)
    for name, dtype in frame.dtypes.items():
        if not (is_numeric_dtype(dtype) or is_bool_dtype(dtype)) or is_complex_dtype(dtype):
            example = frame[name].iloc[0]
            rule = "of several columns the largest counts, so each must hold numbers or truth values"
            raise DataError(f"{table}: dataset.{key} names '{name}', which has {example!r}; {rule}")
    values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    if (missing := np.isnan(values)).any():
        row, column = np.argwhere(missing)[0]
        raise DataError(f"{table}: dataset.{key}: column '{frame.columns[column]}' is empty in row {row}; fill the cell, or remove the row")
    names = [str(name) for name in frame.columns]
    none = ~(values > 0).any(axis=1)
    names += [OTHER] if none.any() and OTHER not in names else []
    return np.where(none, names.index(OTHER) if OTHER in names else 0, values.argmax(axis=1)), tuple(names)
