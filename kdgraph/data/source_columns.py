"""Columns as the source of a table has them, behind the numbers that a data set holds.

A data set holds every feature as float64: numbers as they are, truth values as 0 and 1, categories
as positions, dates as days. A model that was fitted elsewhere takes the column that its own user
would give it: the one that pandas reads from the same file. A :class:`SourceColumn` restores it,
with its type, the text of its categories and its kind of missing cell. Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kdgraph.errors import DataError
from kdgraph.quoting import override

if TYPE_CHECKING:
    import pandas as pd

MissingCell = Literal["nan", "none"]
"""Missing cell of a column of Python objects; other types have one kind only."""

DATE_OBJECTS = "date"
""":attr:`SourceColumn.dates` of a column of ``datetime.date``."""
_TYPES_OF_TEXT = ("object", "str", "string")
_MICROSECONDS_PER_DAY = 86_400 * 10**6


@dataclass(frozen=True)
class SourceColumn:
    """Column of a table as pandas reads it.

    Attributes
    ----------
    name : str
        Name of the column.
    dtype : str, default="float64"
        Name of its type in pandas.
    cells : tuple or None, default=None
        Cell that each position stands for, of the column's own type. None if the data set holds the
        numbers themselves: of a column of numbers or truth values, of dates as days, and of text in
        which every cell is a number as Python writes it.
    categories : tuple or None, default=None
        All categories of a column of type "category", in their order.
    category_dtype : str or None, default=None
        Name of the type of these categories.
    ordered : bool, default=False
        True if they are ordered.
    missing : {"nan", "none"}, default="nan"
        Missing cell of a column of Python objects.
    dates : str or None, default=None
        Format of dates, by which days become text again; ``DATE_OBJECTS`` for ``datetime.date``,
        and "" for types of pandas.
    declared : bool, default=False
        True if the user declared the values to be names, whether they are numbers or text.
    problem : str or None, default=None
        Reason why the cells cannot be restored; None if they can.

    Examples
    --------
    >>> zip_code = SourceColumn("zip", "object", cells=("01", "1"), missing="none")
    >>> zip_code.restore(np.array([1.0, 0.0, np.nan])).tolist()
    ['1', '01', None]
    >>> SourceColumn("rooms", "int64").restore(np.array([3.0, 4.0])).tolist()
    [3, 4]
    """

    name: str
    dtype: str = "float64"
    cells: tuple[Any, ...] | None = None
    categories: tuple[Any, ...] | None = None
    category_dtype: str | None = None
    ordered: bool = False
    missing: MissingCell = "nan"
    dates: str | None = None
    declared: bool = False
    problem: str | None = None

    @property
    def holds_categories(self) -> bool:
        """True if the values are names: text, categories, or numbers that the user declares so."""
        return self.cells is not None and not self._holds_truth_values

    @property
    def holds_numbers_as_names(self) -> bool:
        """True if the values are numbers that are names, such as those of months."""
        return self.holds_categories and not any(
            isinstance(cell, str | bool) for cell in self.cells or ()
        )

    @property
    def _holds_truth_values(self) -> bool:
        return self.cells is not None and all(type(cell) is bool for cell in self.cells)

    def restore(self, values: np.ndarray) -> pd.Series:
        """Return the column of some rows, whose values in a data set are Float[n].

        Values that no cell has, such as those of rows out of distribution, become the nearest cell
        where cells are listed, and a fraction among whole numbers makes a column of fractions. A
        column of whole numbers or truth values that has no type for a missing cell gets the type
        that pandas gives it where one is missing.
        """
        import pandas as pd

        return pd.Series(self.restore_array(values), name=self.name)

    def restore_array(self, values: np.ndarray) -> Any:
        """Return :meth:`restore` of Float[n] as an array, which takes less time to make."""
        if self.problem is not None:
            raise DataError(f"column {self.name!r} {self.problem}")
        values = np.asarray(values, dtype=np.float64)
        if self.cells is not None:
            return self._from_positions(values, self.cells)
        if self.dates is not None:
            return self._from_days(values)
        if self.dtype in _TYPES_OF_TEXT:
            return self._objects(_texts_of_numbers(values), np.isnan(values))
        return _numbers(values, self.dtype)

    def positions(self, values: np.ndarray) -> np.ndarray:
        """Return the position among the cells of each value (Float[n]), -1 for NaN: Int[n]."""
        is_missing = np.isnan(values)
        last = max(len(self.cells or ()) - 1, 0)
        nearest = np.clip(np.rint(np.where(is_missing, 0, values)), 0, last)
        return np.where(is_missing, -1, nearest).astype(np.int64)

    def _from_positions(self, values: np.ndarray, cells: tuple[Any, ...]) -> Any:
        positions = self.positions(values)
        if self.categories is not None:
            import pandas as pd

            number = {_typed(category): k for k, category in enumerate(self.categories)}
            codes = np.array([*(number[_typed(cell)] for cell in cells), -1])[positions]
            dtype = category_type(self.categories, self.category_dtype, self.ordered)
            return pd.Categorical.from_codes(codes, dtype=dtype)
        column = np.array([*cells, None], dtype=object)[positions]
        is_missing = positions < 0
        if self.dtype in _TYPES_OF_TEXT or self._holds_truth_values:
            return self._objects(column, is_missing)
        if is_missing.any():
            numbers = np.array([np.nan if cell is None else cell for cell in column], dtype=float)
            return _numbers(numbers, self.dtype)
        # Whole numbers that a float64 does not hold keep their digits.
        return _as_type(column, self.dtype)

    def _objects(self, column: np.ndarray, is_missing: np.ndarray) -> Any:
        column[is_missing] = None if self.missing == "none" else np.nan
        return column if self.dtype == "object" else _as_type(column, self.dtype)

    def _from_days(self, days: np.ndarray) -> Any:
        import pandas as pd

        is_missing = np.isnan(days)
        whole = np.floor(np.where(is_missing, 0, days))
        # A float64 holds days since 1970 to a third of a microsecond.
        rest = np.rint((np.where(is_missing, 0, days) - whole) * _MICROSECONDS_PER_DAY)
        microseconds = whole.astype(np.int64) * _MICROSECONDS_PER_DAY + rest.astype(np.int64)
        times = pd.Series(microseconds.astype("datetime64[us]")).mask(is_missing)
        if not self.dates:
            dtype: Any = pd.api.types.pandas_dtype(self.dtype)
            if getattr(dtype, "tz", None) is not None:
                times = times.dt.tz_localize("UTC")
            return times.astype(dtype).array
        if self.dates == DATE_OBJECTS:
            return self._objects(times.dt.date.to_numpy(dtype=object), is_missing)
        return self._objects(times.dt.strftime(self.dates).to_numpy(dtype=object), is_missing)


@dataclass(frozen=True)
class SourceTypes:
    """Types that a source gives its columns; a source of text has none, and pandas infers them.

    ``read_again`` has the type that pandas gives a column which was read again, because the type
    loses digits of whole numbers or leading zeros; ``missing_words`` the cells in columns of text
    that are read as missing and are not empty, such as "NA"; and ``not_missing`` those that the
    user lists as values although pandas takes them for missing.
    """

    has_types: bool = True
    read_again: Mapping[str, str] = field(default_factory=dict)
    missing_words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    not_missing: Sequence[str] = ()

    def as_values(self, words: Sequence[str]) -> str:
        """Return the override that takes words for values which are read as missing."""
        return override("dataset.not_missing", [*self.not_missing, *words])


def source_columns(
    names: Sequence[str], categories: Sequence[tuple[str, ...] | None]
) -> tuple[SourceColumn, ...]:
    """Return columns of numbers and of text, of a source that has no types.

    ``categories`` has the sorted texts of each column, None for numbers, or nothing at all.
    """
    return tuple(
        SourceColumn(name) if texts is None else SourceColumn(name, "object", tuple(texts))
        for name, texts in zip(names, categories or [None] * len(names), strict=True)
    )


def _typed(value: Any) -> tuple[type, Any]:
    """Return a key that differs for True and 1, which Python takes as equal."""
    return type(value), value


@lru_cache(maxsize=1024)
def category_type(
    categories: tuple[Any, ...], dtype: str | None = None, ordered: bool = False
) -> pd.CategoricalDtype:
    """Return a category type of pandas, which takes longer to make than a row to predict."""
    import pandas as pd

    return pd.CategoricalDtype(pd.Index(list(categories), dtype=dtype), ordered)


def _as_type(column: np.ndarray, dtype: str) -> Any:
    import pandas as pd

    return pd.Series(column, dtype=dtype).array


def _numbers(values: np.ndarray, dtype: str) -> Any:
    if dtype == "float64":
        return values
    if dtype in ("int64", "bool"):  # most columns of most tables
        with np.errstate(invalid="ignore"):
            whole = values.astype(np.int64)
        if (whole == values).all() and (dtype == "int64" or whole.max(initial=0) <= 1):
            return whole if dtype == "int64" else whole > 0
    import pandas as pd

    kind: Any = pd.api.types.pandas_dtype(dtype)
    is_missing, is_of_numpy = np.isnan(values), isinstance(kind, np.dtype)
    filled = np.where(is_missing, 0, values)
    if pd.api.types.is_bool_dtype(kind):
        truth = pd.Series(filled > 0.5)
        if not is_of_numpy:
            return truth.astype(kind).mask(is_missing).array
        return truth.astype(object).mask(is_missing).array if is_missing.any() else filled > 0.5
    if not pd.api.types.is_integer_dtype(kind):
        return values.astype(kind) if is_of_numpy else pd.array(values, dtype=kind)
    is_fraction = (filled != np.rint(filled)).any() or (np.abs(filled) >= 2.0**64).any()
    if is_fraction or (is_of_numpy and is_missing.any()):
        return values
    is_large = bool((filled >= 2.0**63).any())
    numbers = filled.astype(np.uint64 if is_large else np.int64)
    base: Any = kind if is_of_numpy else kind.numpy_dtype
    fits = np.array_equal(numbers.astype(base).astype(numbers.dtype), numbers)
    if is_of_numpy:
        return numbers.astype(base) if fits else numbers
    column = pd.Series(numbers, dtype=kind if fits else "UInt64" if is_large else "Int64")
    return column.mask(is_missing).array


def _texts_of_numbers(values: np.ndarray) -> np.ndarray:
    """Return the text that a person would write for each number, object[n]."""
    from kdgraph.data.frames.cells import format_cell

    distinct, inverse = np.unique(values, return_inverse=True)
    return np.array([format_cell(value) for value in distinct], dtype=object)[inverse]
