"""How messages about tables name columns.

What a table is used with all the same, but its user should know: one warning each.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kdgraph.errors import DataError, did_you_mean
from kdgraph.overrides import override
from kdgraph.wording import some


@dataclass(frozen=True)
class ColumnSettings:
    """Lists that the user gave of a table, to which advice adds.

    An override replaces the whole list under its key. So each one repeats what the list already
    has; else the second way out would undo the first, and lead back to the first message.

    Attributes
    ----------
    drop, categorical, parse_dates : names of columns.
    missing : cells, text or numbers.
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
        already = list(getattr(self, key))
        # 1, 1.0 and true are equal and not the same.
        types = {(type(value), value) for value in already}
        added = values if key == "missing" else map(str, values)
        return override(
            f"dataset.{key}",
            [*already, *(value for value in added if (type(value), value) not in types)],
        )


NO_COLUMN_SETTINGS = ColumnSettings()
"""Where the user gave no lists."""


@dataclass(frozen=True)
class ColumnReference:
    """A column in a message, with the overrides that are a way out.

    Attributes
    ----------
    table, name : of the table and of its column.
    given : the lists that the user gave already.

    Examples
    --------
    >>> column = ColumnReference("my", "zip code", ColumnSettings(drop=["id"]))
    >>> print(f"{column} is empty; leave it out: {column.dropped()}")
    my: column 'zip code' is empty; leave it out: 'dataset.drop=[id,"zip code"]'
    """

    table: str
    name: str
    given: ColumnSettings = NO_COLUMN_SETTINGS

    def __str__(self) -> str:
        return f"{self.table}: column '{self.name}'"

    def dropped(self, *others: str) -> str:
        """Return the override that leaves out this column, and others with it."""
        return self.given.adding("drop", [self.name, *others])

    def of_names(self) -> str:
        """Return the override that reads the values of this column as names."""
        return self.given.adding("categorical", [self.name])

    def without(self, cells: Sequence[str | float]) -> str:
        """Return the override that reads such cells as missing."""
        return self.given.adding("missing", cells)

    def as_dates(self) -> str:
        """Return the override that turns the dates of this column into numbers."""
        return self.given.adding("parse_dates", [self.name])


def unknown_column_error(where: str, key: str, column: str, known: Sequence[str]) -> DataError:
    """The error for a column that ``dataset.<key>`` names and ``where`` does not have.

    >>> print(unknown_column_error("my", "target", "lable", ["age", "label"]))
    my has no column 'lable' (dataset.target); did you mean 'label'?
    """
    return DataError(
        f"{where} has no column '{column}'"
        f" (dataset.{key}){did_you_mean(column, known, f'; it has {some(known, 10)}')}"
    )


def warn_constant_columns(name: str, X: np.ndarray, columns: Sequence[str]) -> None:
    """Warn of features of X: Float64[n, d] that have one value in all of several rows."""
    constant = np.flatnonzero(X.min(axis=0) == X.max(axis=0))  # NaN is neither
    if len(constant) and len(X) > 1:
        said = some([columns[int(j)] for j in constant])
        warnings.warn(f"{name}: columns that never change tell nothing: {said}", stacklevel=3)


def warn_duplicate_rows(name: str, X: np.ndarray) -> None:
    """Warn of rows of X: Float64[n, d] with the same features; missing equals missing.

    Rows are compared by 64-bit hashes: no sorting of long rows, and two different rows share one
    with chance 1e-9 among 100,000.
    """
    from pandas import Series
    from pandas.util import hash_array

    total = np.zeros(len(X), dtype=np.uint64)
    for j in range(X.shape[1]):
        total = total * np.uint64(1_000_003) + hash_array(
            X[:, j] + 0.0
        )  # + 0.0: no row differs by -0.0 alone
    if copies := int(Series(total).duplicated(keep=False).sum()):
        why = "copies that fall into train and test make the test easy"
        warnings.warn(
            f"{name}: {copies:,} of {len(X):,} rows have the features of another row; {why}",
            stacklevel=3,
        )
