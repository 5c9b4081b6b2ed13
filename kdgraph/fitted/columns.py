"""Columns that a model of another library takes, and how those of a table are matched with them.

A model's file describes its columns: their names, which of them hold categories, and which
categories. :class:`ModelColumns` has that description, and compares a table with it: what does not
fit is refused in one line. Original to kdgraph.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from kdgraph.data.source_columns import SourceColumn, category_type
from kdgraph.errors import DataError
from kdgraph.fitted.labels import written_number
from kdgraph.parameters import Unseen
from kdgraph.wording import some

Conversion = Literal["category", "text", "none"]
"""Type that a column of categories gets.

"category": pandas' category type, whatever its cells are. "text": the same, if its cells are text.
"none": it stays as it is.
"""

_MAX_LISTED = 5
_MIN_GUARDED_ROWS = 20
"""Fewer rows may all have new categories by chance."""


class ColumnError(DataError):
    """Error for cells that a model does not take, unless a parameter allows them.

    Parameters
    ----------
    problem : str
        The cells and the rule.
    parameter : str
        Parameter of :class:`~kdgraph.fitted.FittedParent` with its value.
    effect : str
        What it does, as the end of a sentence.
    """

    def __init__(self, problem: str, parameter: str, effect: str) -> None:
        self.problem, self.parameter, self.effect = problem, parameter, effect
        super().__init__(self.text())

    def text(self, key: str = "") -> str:
        """Return the message with a prefix of the parameter, such as ``parent.`` in a run."""
        return f"{self.problem}; {key}{self.parameter} {self.effect}"


@dataclass(frozen=True)
class CategoryColumn:
    """Column that a model takes as categories.

    Attributes
    ----------
    name : str
        Name of the column, or its position as text where the model has no names.
    values : tuple or None, default=None
        Categories that the model was fitted with, as its file lists them; None if it does not.
    conversion : {"category", "text", "none"}, default="none"
        Type that the column gets.
    unseen : {"refuse", "missing"}, default="missing"
        What the library does with a category that it does not know.
    """

    name: str
    values: tuple[Any, ...] | None = None
    conversion: Conversion = "none"
    unseen: Unseen = "missing"


@dataclass(frozen=True)
class ModelColumns:
    """Columns that a model takes.

    Attributes
    ----------
    names : tuple of str or None, default=None
        Names of the columns of a data frame, in the order of the model; None for an array.
    n_features : int or None, default=None
        Number of columns, where it is known.
    categories : tuple of CategoryColumn, default=()
        Columns that the model takes as categories.
    whole_numbers : tuple of str, default=()
        Columns in which the model takes no fraction. Rows that are moved out of distribution have
        fractions in columns of whole numbers, and are rounded there.
    lists : tuple of tuple, default=()
        Categories of columns of pandas' category type, in their order, where the file does not
        tell which columns these are: :meth:`with_lists` finds them by the types of the rows.
    takes_text : bool, default=True
        False if all other columns must be numbers or truth values.
    are_made_up : bool, default=False
        True if the library made up the names, for the columns of an array.
    joins_words : bool, default=False
        True if the library writes an underscore for white space in a name, as LightGBM does.
    takes_frames : bool, default=False
        True if the model takes a data frame of any columns, as a function of the user does.

    Examples
    --------
    >>> columns = ModelColumns(("hours_per_week", "age"), joins_words=True)
    >>> columns.positions(["age", "hours per week"])
    [1, 0]
    """

    names: tuple[str, ...] | None = None
    n_features: int | None = None
    categories: tuple[CategoryColumn, ...] = ()
    whole_numbers: tuple[str, ...] = ()
    lists: tuple[tuple[Any, ...], ...] = ()
    takes_text: bool = True
    are_made_up: bool = False
    joins_words: bool = False
    takes_frames: bool = False

    @property
    def given_names(self) -> tuple[str, ...] | None:
        """Names that the user of the library gave; None if there are none."""
        return None if self.are_made_up else self.names

    def positions(self, names: Sequence[str]) -> list[int]:
        """Return the position in a table of each column of the model.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of the table.

        Returns
        -------
        list of int
            Columns are matched by their names. A model without names, or with names that its
            library made up and the table does not have, takes them in their order.

        Raises
        ------
        DataError
            If a column is missing or named twice, or the number of columns is another one. Columns
            that the model does not have are left out.
        """
        if self.names is None or self._takes_order_of(names):
            n_features = self.n_features if self.names is None else len(self.names)
            if n_features not in (None, len(names)):
                raise DataError(
                    f"was fitted on {n_features} columns, and the rows have {len(names)}:"
                    f" {some(names, _MAX_LISTED)}"
                )
            return list(range(len(names)))
        of_table: dict[str, int] = {}
        for position, name in enumerate(names):
            key = self._key(name)
            if key in of_table and key in map(self._key, self.names):
                raise DataError(f"takes one column {key!r}, and the rows have two")
            of_table[key] = position
        if absent := [name for name in self.names if self._key(name) not in of_table]:
            raise self._other_columns(names, absent)
        return [of_table[self._key(name)] for name in self.names]

    def with_lists(self, are_numbers: Sequence[bool]) -> ModelColumns:
        """Return the columns with a list of categories for each column that holds no numbers.

        Parameters
        ----------
        are_numbers : sequence of bool
            For each column of the model, whether the table has numbers or truth values there.

        Raises
        ------
        DataError
            If there are more or fewer such columns than lists.
        """
        if not self.lists:
            return self
        assert self.names is not None
        names = [name for name, number in zip(self.names, are_numbers, strict=True) if not number]
        if len(names) != len(self.lists):
            raise DataError(
                f"has {len(self.lists)} lists of categories, and the table has {len(names)} columns"
                f" without numbers ({some(names, _MAX_LISTED) or 'none'}); name the columns of"
                " categories in dataset.categorical"
            )
        of_lists = (
            CategoryColumn(name, values, "category")
            for name, values in zip(names, self.lists, strict=True)
        )
        return replace(self, categories=(*self.categories, *of_lists), lists=())

    def check_names(self, names: Sequence[str]) -> None:
        """Raise DataError unless the columns of a table are those of the model and no others."""
        self.positions(names)
        if self._takes_order_of(names):
            return
        if unknown := self._unknown(names):
            raise self._other_columns(names, [], f"; give dataset.drop=[{','.join(unknown)}]")

    def check_types(self, columns: Sequence[SourceColumn]) -> None:
        """Raise DataError for columns of a table whose types the model does not take.

        Parameters
        ----------
        columns : sequence of SourceColumn
            Columns of the table. A few categories that the model does not know are no reason.
        """
        matched = [columns[position] for position in self.positions([c.name for c in columns])]
        resolved = self.with_lists([not column.holds_categories for column in matched])
        known = {column.name: column for column in resolved.categories}
        for number, column in enumerate(matched):
            if column.problem is not None:
                raise DataError(f"takes column {column.name!r}, which {column.problem}")
            name = str(number) if self.names is None else self.names[number]
            if name in known:
                model = known[name]
                if column.cells is not None and model.values is not None:
                    check_known(model, column.restore(np.arange(len(column.cells))), column)
                elif _takes_text(model) and _is_number(column.dtype):
                    raise _no_text(model, column.name, column)
            elif not self.takes_text and not _is_number(column.dtype):
                what = "categories" if column.holds_categories else f"cells of type {column.dtype}"
                raise DataError(f"takes numbers in {column.name!r}, and the table has {what} there")

    def _takes_order_of(self, names: Sequence[str]) -> bool:
        """Return whether the columns of a table are taken in their order, and not by names."""
        return self.names is None or (self.are_made_up and set(names) != set(self.names))

    def _key(self, name: str) -> str:
        # pandas keeps white space around a name, and readers of kdgraph do not.
        return re.sub(r"\s", "_", name.strip()) if self.joins_words else name.strip()

    def _unknown(self, names: Sequence[str]) -> list[str]:
        own = {self._key(name) for name in self.names or ()}
        return [name for name in names if self._key(name) not in own]

    def _other_columns(
        self, names: Sequence[str], absent: Sequence[str], way_out: str = ""
    ) -> DataError:
        unknown = self._unknown(names)
        parts = [f"{some(absent, _MAX_LISTED)} missing"] if absent else []
        parts += [f"{some(unknown, _MAX_LISTED)} unknown to it"] if unknown else []
        reason = "was fitted on other columns than those of the rows"
        return DataError(f"{reason} ({', '.join(parts)}){way_out}")


ANY_COLUMNS = ModelColumns()
"""Columns of a model that is not known to need any."""


def convert(
    model: CategoryColumn,
    column: pd.Series,
    source: SourceColumn | None,
    unseen: Unseen = "refuse",
    missing_category: str | None = None,
) -> pd.Series:
    """Return a column of a table in the type that a model takes its categories in.

    Parameters
    ----------
    model : CategoryColumn
        The column of the model.
    column : Series, shape (n,)
        The column of the table.
    source : SourceColumn or None
        Description of the column; None for that of a data frame of the user. Where the user
        declared its values to be names, numbers and text that name the same number match.
    unseen : {"refuse", "missing"}, default="refuse"
        Treatment of a category that the model does not know, where its library refuses it.
    missing_category : str or None, default=None
        Text of a missing cell, for a model that takes no missing category.

    Raises
    ------
    DataError
        If the library refuses a category that the model does not know, or a missing one.
    """
    if model.values is None:
        is_missing = column.isna()
        if not is_missing.any():
            return column
        if missing_category is None:
            raise ColumnError(
                f"takes no missing category, and {int(is_missing.sum()):,} of {len(column):,} cells"
                f" of {column.name!r} are missing",
                "missing_category=WORD",
                "replaces them by the text that stood for them when it was fitted",
            )
        return column.astype(object).where(~is_missing, missing_category)
    codes, distinct = pd.factorize(column)
    positions = _positions(model, list(distinct), source)
    is_unknown = len(distinct) and (positions < 0).all()
    if is_unknown and _takes_text(model) and not any(isinstance(cell, str) for cell in distinct):
        raise _no_text(model, column.name, source)
    if model.unseen == unseen == "refuse" and (positions < 0).any():
        unknown = _shown(np.asarray(distinct, dtype=object)[positions < 0])
        raise ColumnError(
            f"does not know the categories {unknown} of {column.name!r}, and its library refuses"
            " such rows",
            "unseen=missing",
            "takes them for missing values",
        )
    _warn_unknown(model, column.name, codes, positions)
    takes_type = model.conversion == "category" or (
        model.conversion == "text" and pd.api.types.infer_dtype(distinct) == "string"
    )
    if takes_type:
        numbers = np.append(positions, -1)[codes]
        converted = pd.Categorical.from_codes(numbers, dtype=category_type(model.values))
        return pd.Series(converted, index=column.index, name=column.name, copy=False)
    if source is None or not source.declared or (positions < 0).all():
        return column
    # The same names, as the model spells them.
    spelt = np.array([*distinct, None], dtype=object)
    spelt[np.flatnonzero(positions >= 0)] = np.array([*model.values, None], dtype=object)[
        positions[positions >= 0]
    ]
    return pd.Series(spelt[codes], index=column.index, name=column.name).infer_objects()


def check_known(model: CategoryColumn, cells: pd.Series, source: SourceColumn | None) -> None:
    """Raise DataError if a model knows none of some cells; warn if it does not know most of them.

    Parameters
    ----------
    model : CategoryColumn
        The column of the model.
    cells : Series
        Cells of the table, or of some of its rows.
    source : SourceColumn or None
        As in :func:`convert`.
    """
    codes, distinct = pd.factorize(cells)
    positions = _positions(model, list(distinct), source)
    if len(distinct) and (positions < 0).all():
        raise _other_categories(model, cells.name, distinct, source)
    _warn_unknown(model, cells.name, codes, positions)


def _takes_text(model: CategoryColumn) -> bool:
    """Return whether all categories that a model was fitted with are text."""
    return bool(model.values) and all(isinstance(value, str) for value in model.values or ())


def _no_text(model: CategoryColumn, name: Any, source: SourceColumn | None) -> DataError:
    return DataError(
        f"takes the categories {_shown(model.values or ())} in {name!r}, and the rows have numbers"
        f" there{_way_out(name, source)}"
    )


def _way_out(name: Any, source: SourceColumn | None) -> str:
    if source is not None and not source.declared:
        return f"; if they are names, add {name!r} to dataset.categorical"
    return ""


def _other_categories(
    model: CategoryColumn, name: Any, cells: Sequence[Any], source: SourceColumn | None
) -> DataError:
    values = model.values or ()
    are_text = [{isinstance(value, str) for value in of} for of in (cells, values)]
    way_out = _way_out(name, source) if are_text[0].isdisjoint(are_text[1]) else ""
    return DataError(
        f"was not fitted with the categories {_shown(cells)} in {name!r}, and knows"
        f" {_shown(values)}{way_out}"
    )


def _warn_unknown(
    model: CategoryColumn, name: Any, codes: np.ndarray, positions: np.ndarray
) -> None:
    """Warn if most cells, ``codes``: Int[n], are at no position, Int[m], in a model's list."""
    present = codes[codes >= 0]
    if len(present) >= _MIN_GUARDED_ROWS and np.mean(positions[present] < 0) > 0.5:
        # The same text for all blocks of rows, so that it is shown once.
        warnings.warn(
            f"most cells of {name!r} are categories that the model was not fitted with; it knows"
            f" {_shown(model.values or ())}",
            stacklevel=4,
        )


def _shown(values: Iterable[Any]) -> str:
    return some([repr(value) for value in values], _MAX_LISTED)


def _positions(
    model: CategoryColumn, cells: Sequence[Any], source: SourceColumn | None
) -> np.ndarray:
    """Return the position of each cell among the categories of a model, Int[m]; -1: none."""
    values: Sequence[Any] = model.values or ()
    numbers = {_key(value): k for k, value in enumerate(values)}
    positions = np.array([numbers.get(_key(cell), -1) for cell in cells], dtype=np.int64)
    if source is not None and source.declared and (positions < 0).all():
        # 5 and "5", or "01" and 1, unless two names become one.
        names, own = [_number_key(cell) for cell in cells], [_number_key(v) for v in values]
        if len(set(names)) == len(names) and len(set(own)) == len(own):
            numbers = {name: k for k, name in enumerate(own)}
            positions = np.array([numbers.get(name, -1) for name in names], dtype=np.int64)
    return positions


def _key(value: Any) -> tuple[bool, Any]:
    """Return a key by which libraries take two values as one category: 1, 1.0, True; not "1"."""
    return isinstance(value, str), value


def _number_key(value: Any) -> Any:
    if isinstance(value, bool | np.bool_):
        return str(value)
    number = written_number(str(value).strip())
    return value if number is None else number


def _is_number(dtype: Any) -> bool:
    return is_numeric_dtype(dtype) or is_bool_dtype(dtype)
