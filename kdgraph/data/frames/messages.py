"""Messages about tables: names of columns, overrides as ways out, and warnings."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kdgraph.data.mapped_rows import column_extremes, mapped_blocks
from kdgraph.errors import DataError, did_you_mean
from kdgraph.quoting import override
from kdgraph.wording import some


@dataclass(frozen=True)
class ColumnSettings:
    """Lists of the user about the columns of a table, to which advice adds entries.

    An override replaces the whole list under its key. Therefore each suggested override repeats the
    entries of the list. Otherwise the second suggestion would undo the first and lead back to the
    first message.
    """

    drop: Sequence[str] = ()
    categorical: Sequence[str] = ()
    parse_dates: Sequence[str] = ()
    missing: Sequence[str | float] = ()

    def adding(
        self, key: Literal["drop", "categorical", "parse_dates", "missing"], values: Iterable[Any]
    ) -> str:
        """Return the override that adds ``values`` to one of the lists.

        >>> print(ColumnSettings(drop=["id"]).adding("drop", ["zip code"]))
        'dataset.drop=[id,"zip code"]'
        """
        entries = list(getattr(self, key))
        # 1, 1.0 and true are equal in Python, but they are different cells.
        types = {(type(value), value) for value in entries}
        added = values if key == "missing" else map(str, values)
        return override(
            f"dataset.{key}",
            [*entries, *(value for value in added if (type(value), value) not in types)],
        )


_MIN_COPIED_ROWS = 20
"""In tables with at most so many rows, a feature may equal the target by chance."""
NO_COLUMN_SETTINGS = ColumnSettings()
"""Settings of a user who gave no lists."""


@dataclass(frozen=True)
class ColumnReference:
    """Column in a message, with the overrides that are ways out.

    Examples
    --------
    >>> column = ColumnReference("my", "zip code", ColumnSettings(drop=["id"]))
    >>> print(f"{column} is empty; leave it out: {column.dropped()}")
    my: column 'zip code' is empty; leave it out: 'dataset.drop=[id,"zip code"]'
    """

    table: str
    name: str
    settings: ColumnSettings = NO_COLUMN_SETTINGS

    def __str__(self) -> str:
        return f"{self.table}: column '{self.name}'"

    def dropped(self, *further_names: str) -> str:
        """Return the override that leaves out this column and further ones."""
        return self.settings.adding("drop", [self.name, *further_names])

    def as_categorical(self) -> str:
        """Return the override that reads the values of this column as names."""
        return self.settings.adding("categorical", [self.name])

    def as_missing(self, cells: Sequence[str | float]) -> str:
        """Return the override that reads such cells as missing."""
        return self.settings.adding("missing", cells)

    def as_dates(self) -> str:
        """Return the override that turns the dates of this column into numbers."""
        return self.settings.adding("parse_dates", [self.name])


def unknown_column_error(source: str, key: str, column: str, columns: Sequence[str]) -> DataError:
    """Return the error for a column that ``dataset.<key>`` names and ``source`` does not have.

    >>> print(unknown_column_error("my", "target", "lable", ["age", "label"]))
    my has no column 'lable' (dataset.target); did you mean 'label'?
    """
    return DataError(
        f"{source} has no column '{column}'"
        f" (dataset.{key}){did_you_mean(column, columns, f'; it has {some(columns, 10)}')}"
    )


def warn_constant_columns(name: str, X: np.ndarray, columns: Sequence[str]) -> None:
    """Warn about features of X, Float64[n, d], that have the same value in all of several rows."""
    low, high = column_extremes(X, ignore_nan=False)
    constant = np.flatnonzero(low == high)  # NaN is neither
    if len(constant) and len(X) > 1:
        names = some([columns[int(j)] for j in constant])
        warnings.warn(
            f"{name}: columns that never change carry no information: {names}", stacklevel=3
        )


_LOOKED_AT_ROWS = 1000
"""Rows that rule out most features as copies of the target."""


def warn_copies_of_target(
    name: str,
    X: np.ndarray,
    y: np.ndarray,
    columns: Sequence[str],
    settings: ColumnSettings = NO_COLUMN_SETTINGS,
) -> None:
    """Warn about features of X: Float64[n, d] that equal the target, if by other names of values.

    Whole numbers of y [n] are classes.
    """
    is_class = y.dtype.kind in "iu"

    def is_copy(j: int, rows: slice) -> bool:
        values, target = X[rows, j], y[rows]
        if not is_class:
            return bool(np.array_equal(values, target))
        distinct, codes = np.unique(values, return_inverse=True)
        if np.isnan(distinct).any() or len(distinct) != len(np.unique(target)):
            return False
        # Where rows have classes of their own, any feature of different numbers determines them.
        if 2 * len(distinct) > len(values):
            return False
        return len(np.unique(codes * np.int64(target.max() + 1) + target)) == len(distinct)

    head, everything = slice(_LOOKED_AT_ROWS), slice(None)
    copies = [
        columns[j]
        for j in range(X.shape[1])
        if is_copy(j, head) and (len(y) <= _LOOKED_AT_ROWS or is_copy(j, everything))
    ]
    if copies and len(y) > _MIN_COPIED_ROWS:
        warnings.warn(
            f"{name}: {some([repr(column) for column in copies])} determines the target of every"
            " row, as a copy of it would; if it is not known when a row is predicted, leave it out:"
            f" {settings.adding('drop', copies)}",
            stacklevel=3,
        )


def warn_duplicate_rows(name: str, X: np.ndarray) -> None:
    """Warn about equal rows of X, Float64[n, d]; missing values count as equal."""
    from pandas.util import hash_array

    # Rows are compared by 64-bit hashes, because sorting long rows is slow. The probability that
    # two different rows among 100,000 have the same hash is 1e-9, and among ten million 3e-6.
    row_hashes = np.zeros(len(X), dtype=np.uint64)
    for rows in mapped_blocks(X):
        for j in range(X.shape[1]):
            # Adding 0.0 turns -0.0 into 0.0, which is equal but has another hash.
            hashes = hash_array(X[rows, j] + 0.0)
            row_hashes[rows] = row_hashes[rows] * np.uint64(1_000_003) + hashes
    row_hashes.sort()
    is_copy = np.zeros(len(X), dtype=bool)
    is_copy[1:] = row_hashes[1:] == row_hashes[:-1]
    is_copy[:-1] |= is_copy[1:]
    if n_copies := int(is_copy.sum()):
        warnings.warn(
            f"{name}: {n_copies:,} of {len(X):,} rows have the features of another row; copies that"
            " fall into train and test make the test easy",
            stacklevel=3,
        )
