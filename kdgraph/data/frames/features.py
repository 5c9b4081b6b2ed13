"""Features of a data frame as floats: numbers as they are, names as the codes of their sorted
values, NaN where a cell is missing.

Columns that number the rows: their order is often that of the labels, and of new rows they tell
nothing.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_bool_dtype, is_complex_dtype, is_numeric_dtype

from kdgraph.data.dataset import ColumnKind
from kdgraph.data.files.tables import FLOAT_INTEGER_LIMIT, INTEGER_PATTERN
from kdgraph.data.frames.cells import (
    MAX_CELL_VALUE,
    DominantForm,
    MissingCells,
    check_distinct_as_float,
    classify_text,
    describe_form,
    dominant_form,
    format_cell,
    infer_numeric_type,
    is_real_dtype,
    parse_integers,
    to_exact_numbers,
)
from kdgraph.data.frames.dates import date_overrides, is_date_type
from kdgraph.data.frames.messages import NO_COLUMN_SETTINGS, ColumnReference, ColumnSettings
from kdgraph.errors import DataError
from kdgraph.wording import some

CategoryNames = tuple[str, ...] | None

_MAX_TEXT_CATEGORIES = 1000
"""Text with more distinct values than this, in more than half of the rows, is no category."""
_MAX_UNIQUE_TEXT_ROWS = 20
"""With more rows than this, text that is different in each of them is taken for their names."""
_MAX_SUGGESTED_TEXTS = 12
"""Texts among numbers that a message offers to read as missing."""


def encode_features(
    table: str,
    features: pd.DataFrame,
    kinds: Mapping[str, ColumnKind],
    given: ColumnSettings = NO_COLUMN_SETTINGS,
) -> tuple[np.ndarray, tuple[CategoryNames, ...]]:
    """Encode every column of ``features``.

    Parameters
    ----------
    table : name, for messages.
    features : [n, d].
    kinds : kinds of columns that are not to be guessed.
    given : lists of the user; ``given.missing`` are the cells to read as missing.

    Returns
    -------
    X : Float64[n, d].
    categories : for each feature the names of its codes, or None where it is numeric.

    Raises
    ------
    DataError
        If a column holds dates, infinity, numbers from 1e18 on, text among numbers, free text, or
        nothing.
    """
    empty = MissingCells.of(given.missing)
    X = np.empty(features.shape)
    categories: list[CategoryNames] = [None] * features.shape[1]
    plain_numbers = [
        j
        for j, (name, dtype) in enumerate(features.dtypes.items())
        if _is_numpy_number(dtype) and name not in kinds
    ]
    for j in plain_numbers:
        where = ColumnReference(table, str(features.columns[j]), given)
        values = features.iloc[:, j].to_numpy()
        check_distinct_as_float(str(where), values, _categorical_or_drop_advice(where))
        X[:, j] = values
    for j in sorted(set(range(features.shape[1])) - set(plain_numbers)):
        X[:, j], categories[j] = _encode_column(
            table, features.iloc[:, j], kinds.get(features.columns[j]), empty, given
        )
    if len(empty.numbers):
        numeric = [j for j, names in enumerate(categories) if names is None]
        X[:, numeric] = np.where(np.isin(X[:, numeric], empty.numbers), np.nan, X[:, numeric])
    check_numeric_features(table, X, list(features.columns), given)
    return X, tuple(categories)


def _is_numpy_number(dtype: Any) -> bool:
    """Whether numpy reads a column of this type as numbers at once."""
    return isinstance(dtype, np.dtype) and dtype.kind in "biuf"


def _encode_column(
    table: str,
    column: pd.Series,
    kind: ColumnKind | None,
    missing: MissingCells,
    given: ColumnSettings,
) -> tuple[np.ndarray, CategoryNames]:
    """One column as floats, and the names of its codes."""
    where = ColumnReference(table, str(column.name), given)
    column = infer_numeric_type(column)
    dtype = column.dtype
    if is_complex_dtype(dtype):
        raise DataError(
            f"{where} holds complex numbers; split them into real columns, or {where.dropped()}"
        )
    if kind == "categorical":
        return _category_codes(column, missing)
    if is_date_type(column):
        raise _date_error(
            where, column, column.dropna().iloc[0] if column.notna().any() else dtype, missing
        )
    if is_real_dtype(dtype):
        check_distinct_as_float(
            str(where), to_exact_numbers(column.dropna()), _categorical_or_drop_advice(where)
        )
    if is_numeric_dtype(dtype) or is_bool_dtype(dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan), None
    if isinstance(dtype, pd.CategoricalDtype) and kind is None:
        return _category_codes(column, missing)
    return _encode_text_column(where, column, kind, missing)


def _encode_text_column(
    where: ColumnReference, column: pd.Series, kind: ColumnKind | None, missing: MissingCells
) -> tuple[np.ndarray, CategoryNames]:
    """A column of text or objects: numbers if all of its cells are some, else names."""
    codes, values = _factorize(where, column)
    found = infer_dtype(values, skipna=True)
    if found in ("date", "datetime", "datetime64", "time", "timedelta", "period"):
        raise _date_error(where, column, values[0], missing)
    if found == "boolean":
        return _values_at_codes(codes, np.asarray(values, dtype=np.float64)), None
    words = np.array([format_cell(value) for value in values], dtype=object)
    stays = np.array([word not in missing.words for word in words], dtype=bool)
    numbers = pd.to_numeric(pd.Series(words), errors="coerce").to_numpy(dtype=np.float64)
    if not (stays & np.isnan(numbers)).any():  # no cell that is not a number, or no cell
        _check_integer_digits(str(where), words[stays], _categorical_or_drop_advice(where))
        return _values_at_codes(codes, np.where(stays, numbers, np.nan)), None
    rows = np.bincount(codes[codes >= 0], minlength=len(words))
    found = dominant_form(words[stays], rows[stays])
    if found.sort == "number" or (kind == "numeric" and found.sort is None):
        raise _text_among_numbers_error(where, codes, words, stays & np.isnan(numbers))
    if found.sort == "date":
        raise _text_date_error(where, column, words[stays], found, missing)
    if found.sort is not None:
        mostly_plain = rows[stays & ~np.isnan(numbers)].sum() > rows[stays].sum() / 2
        _check_formatted_numbers(
            where,
            words[stays],
            found,
            words[stays & np.isnan(numbers)].tolist() if mostly_plain else [],
        )
    _check_free_text(where, words[stays], int(rows[stays].sum()))
    return _category_codes(column, missing)


def _check_integer_digits(where: str, words: np.ndarray, way_out: str) -> None:
    """Raise DataError if whole numbers in text have more digits than a float keeps; one alone is a
    code for missing.
    """
    check_distinct_as_float(where, parse_integers(words), way_out)
    if (
        len(
            long := [
                word
                for word in words
                if INTEGER_PATTERN.fullmatch(word.strip()) and abs(int(word)) >= 2**64
            ]
        )
        > 1
    ):
        raise DataError(
            f"{where} has whole numbers of more digits than double precision has ({long[0]});"
            f" {way_out}"
        )


def _category_codes(column: pd.Series, missing: MissingCells) -> tuple[np.ndarray, tuple[str, ...]]:
    """Codes of the sorted distinct values, and their names."""
    return sorted_codes(column, missing.words, missing.numbers)


def sorted_codes(
    column: pd.Series, words: Iterable[str] = (), numbers: np.ndarray | None = None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Codes of the distinct values of any column.

    Parameters
    ----------
    column : [n]; numbers are sorted as numbers, all else as text.
    words, numbers : values to read as missing.

    Returns
    -------
    codes : Float64[n], NaN where a cell is missing.
    names : of the codes, in their order.
    """
    column = infer_numeric_type(column)
    codes, values = pd.factorize(column)
    if is_real_dtype(column.dtype):
        values = to_exact_numbers(values)
        kept = ~_missing_mask(values, words, np.empty(0) if numbers is None else numbers)
        order = np.unique(values[kept])
        names = tuple(format_cell(value) for value in order)
    else:
        values = np.array([format_cell(value) for value in values], dtype=str)
        kept = ~np.isin(values, list(words))
        order = np.unique(values[kept])
        names = tuple(order.tolist())
    positions = np.where(kept, np.searchsorted(order, values), np.nan)
    return _values_at_codes(codes, positions), names


def _missing_mask(values: np.ndarray, words: Iterable[str], numbers: np.ndarray) -> np.ndarray:
    """Bool[m]: which of the numbers are to be read as missing, integers compared as integers."""
    if values.dtype.kind == "f":
        return np.isin(values, numbers)
    whole = {int(word) for word in words if INTEGER_PATTERN.fullmatch(word)} | {
        int(n) for n in numbers if n.is_integer() and abs(n) < FLOAT_INTEGER_LIMIT
    }
    return (
        np.array([int(value) in whole for value in values], dtype=bool)
        if whole
        else np.zeros(len(values), dtype=bool)
    )


def _factorize(where: ColumnReference, column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Codes Int[n] (-1: missing) and the distinct cells in the order of their first rows."""
    try:
        codes, values = pd.factorize(column)
    except TypeError as error:
        found = type(column.dropna().iloc[0]).__name__
        raise DataError(
            f"{where} has cells of type {found}; a feature is a number or text: {where.dropped()}"
        ) from error
    return codes, np.asarray(values, dtype=object)


def _values_at_codes(codes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """``values`` at ``codes``, NaN at -1."""
    return np.append(values, np.nan)[codes]


def _date_error(
    where: ColumnReference,
    column: pd.Series,
    example: Any,
    missing: MissingCells,
    strays: Sequence[str] = (),
) -> DataError:
    """Dates, and how to use them or leave them out; ``strays`` are the texts among them that are
    none.
    """
    others = f", and {strays[0]!r}, which is none" if strays else ""
    as_days = date_overrides(where, column, missing, strays)
    remedy = (
        f"{as_days} turns it into days since 1970-01-01"
        if as_days
        else "turn it into numbers such as days or months"
    )
    return DataError(
        f"{where} holds dates or times ({example}){others}; {remedy}, {where.dropped()} leaves"
        " it out"
    )


def _text_date_error(
    where: ColumnReference,
    column: pd.Series,
    words: np.ndarray,
    found: DominantForm,
    missing: MissingCells,
) -> DataError:
    strays = [word for word in words if classify_text(word).sort != "date"]
    return _date_error(where, column, words[found.first], missing, strays)


def _categorical_or_drop_advice(where: ColumnReference) -> str:
    return (
        f"if they are names, {where.of_names()} takes them as such, and {where.dropped()} leaves"
        " them out"
    )


def _check_formatted_numbers(
    where: ColumnReference, words: np.ndarray, found: DominantForm, strays: Sequence[str]
) -> None:
    """Raise for numbers that are written so that they are read as text; of a few with a unit, which
    may be names, warn.

    ``strays`` are all texts of a column in which most cells are plain numbers.
    """
    numbers = f"{where} has {describe_form(found)}, such as {words[found.first]!r}"
    if found.sort == "unit" and len(words) <= _MAX_UNIQUE_TEXT_ROWS:
        used = (
            "which are used as names; if they are numbers, write them without it, else"
            f" {where.of_names()} confirms it"
        )
        warnings.warn(f"{numbers}, {used}", stacklevel=2)
        return
    ways = (
        [f"{where.without(list(strays))} reads such cells as missing"]
        if 0 < len(strays) <= _MAX_SUGGESTED_TEXTS
        else []
    )
    ways += [f"{where.of_names()} takes them as names"]
    raise DataError(
        f"{numbers}, which are read as text; write plain numbers such as 1234.5, or"
        f" {', or '.join(ways)}"
    )


def _text_among_numbers_error(
    where: ColumnReference, codes: np.ndarray, words: np.ndarray, bad: np.ndarray
) -> DataError:
    """The first cell that is no number, and what to do about it."""
    row = int(np.flatnonzero(np.append(bad, False)[codes])[0])
    texts = words[bad].tolist()
    it = "it" if len(texts) == 1 else "such cells"
    remedy = f"{where.of_names()} takes all as names"
    if len(texts) <= _MAX_SUGGESTED_TEXTS:  # part of them would lead back to this message
        remedy = f"{where.without(texts)} reads {it} as missing, {remedy}"
    return DataError(
        f"{where} has {words[codes[row]]!r} in row {row}, and most of its cells are numbers;"
        f" {remedy}"
    )


def _check_free_text(where: ColumnReference, words: np.ndarray, rows: int) -> None:
    """Raise if text is different almost everywhere; warn if it is different everywhere in a small
    table.
    """
    way_out = where.dropped()
    if len(words) > _MAX_TEXT_CATEGORIES and len(words) > rows / 2:
        raise DataError(
            f"{where} has {len(words):,} different texts in {rows:,} rows, which are no categories;"
            f" leave it out: {way_out}"
        )
    if len(words) == rows > _MAX_UNIQUE_TEXT_ROWS:
        warnings.warn(
            f"{where} has a different text in each of {rows} rows and tells nothing of new ones;"
            f" {way_out}",
            stacklevel=2,
        )


def check_numeric_features(
    table: str, X: np.ndarray, columns: Sequence[str], given: ColumnSettings | None = None
) -> None:
    """Raise DataError if a feature is empty, or has infinity or a number from 1e18 on.

    Parameters
    ----------
    table : name, for messages.
    X : Float64[n, d].
    columns : names of the d features.
    given : lists of the user, to which advice adds; None where the source has no options of
        columns.
    """
    largest = np.fmax(np.fmax.reduce(X, axis=0), -np.fmin.reduce(X, axis=0))
    if (empty := np.isnan(largest)).any():
        names = [columns[j] for j in np.flatnonzero(empty).tolist()]
        where = ColumnReference(table, names[0], given or NO_COLUMN_SETTINGS)
        way_out = (
            "leave it out of X" if given is None else f"leave it out: {where.dropped(*names[1:])}"
        )
        raise DataError(f"{where} has no value in any row; {way_out}")
    if (wrong := largest >= MAX_CELL_VALUE).any():
        j = int(np.flatnonzero(wrong)[0])
        row = int(np.flatnonzero(np.abs(X[:, j]) >= MAX_CELL_VALUE)[0])
        raise _too_large_error(
            ColumnReference(table, columns[j], given or NO_COLUMN_SETTINGS),
            row,
            float(X[row, j]),
            can_be_read=given is not None,
        )


def _too_large_error(
    where: ColumnReference, row: int, value: float, *, can_be_read: bool
) -> DataError:
    found = f"{where} has {value!r} in row {row}"
    # Infinity as text: it is read as the number too, and JSON, in which records and schemas are,
    # has no such number.
    cell = str(value) if np.isinf(value) else value
    way_out = (
        f"{where.without([cell])} reads it as missing"
        if can_be_read
        else "write NaN where it is missing"
    )
    if np.isinf(value):
        return DataError(f"{found}, and features must be finite: {way_out}, else write a number")
    why = "values from 1e18 on are usually codes for missing, and their squares lose all others"
    return DataError(f"{found}; {why}: {way_out}, else rescale the column")


_MIN_INDEX_ROWS = 20
"""In a table of at most so many rows a column may count from 1 by chance or by design."""
_UNNAMED_INDEX_PATTERN = re.compile(r"(Unnamed: \d+(\.\d+)*|__index_level_\d+__|level_\d+)?")
"""The names that pandas gives to an index without one, once or several times."""
_INDEX_NAME_PATTERN = re.compile(
    r"(index|idx|id|no|nr|number|row|rows|rownames?|record|obs|observation|sample|case|instance|entry|serial|key)"
    r"([ _.-]?(id|idx|index|no|nr|num|number|name|key))?|(s|sl|sr)["
    r" _.]*(no|nr|id)\.?|(?-i:X(\.\d+)?)",
    re.IGNORECASE,
)


def is_row_index(name: str, column: pd.Series) -> bool:
    """Return whether a column is the index of a table under the name of one.

    It is if it has no name and holds whole numbers, or is named like an index and holds each of 0
    to n - 1, or of 1 to n, once, in any order.

    >>> is_row_index("Unnamed: 0", pd.Series([7, 3])), is_row_index("row_id", pd.Series(range(30, 0, -1)))
    (True, True)
    """
    if _UNNAMED_INDEX_PATTERN.fullmatch(name):
        return (
            is_real_dtype(column.dtype)
            and bool(column.notna().all())
            and _all_integers(to_exact_numbers(column))
        )
    return (
        bool(_INDEX_NAME_PATTERN.fullmatch(name))
        and len(column) > _MIN_INDEX_ROWS
        and numbers_rows(column, in_order=False)
    )


def numbers_rows(column: pd.Series | np.ndarray, *, in_order: bool = True) -> bool:
    """Return whether a column [n] is 0 to n - 1, or 1 to n, in this order or, without ``in_order``,
    in any.
    """
    n = len(column)
    if not is_real_dtype(column.dtype) or not n:
        return False
    first = column[0] if isinstance(column, np.ndarray) else column.iloc[0]
    if pd.isna(first) or (in_order and first not in (0, 1)):  # soon decided, of most columns
        return False
    values = pd.Series(column)
    if values.isna().any():
        return False
    numbers = to_exact_numbers(values)
    if not in_order:
        numbers = np.sort(numbers)
    return bool(numbers[0] in (0, 1) and (numbers == np.arange(n) + numbers[0]).all())


def _all_integers(values: np.ndarray) -> bool:
    return values.dtype.kind in "iu" or bool((values == np.round(values)).all())


def drop_row_index(
    table: str, features: pd.DataFrame, given: ColumnSettings = NO_COLUMN_SETTINGS
) -> pd.DataFrame:
    """Return the features without the index of the table, with a warning; warn of other features
    that count the rows.

    Parameters
    ----------
    table : name, for messages.
    features : [n, d].
    given : lists of the user, to which advice adds; a column that they name for another use is
        meant.
    """
    meant = {*given.parse_dates, *given.categorical}
    index = [
        j
        for j, name in enumerate(features.columns)
        if name not in meant and is_row_index(str(name), features.iloc[:, j])
    ]
    if index:
        names = some([f"'{features.columns[j]}'" for j in index])
        warnings.warn(
            f"{table}: columns that number the rows are left out: {names}; rename one to use it",
            stacklevel=3,
        )
        features = features.iloc[:, [j for j in range(features.shape[1]) if j not in index]]
    warn_row_numbering(table, features, [str(name) for name in features.columns], given)
    return features


def warn_row_numbering(
    table: str,
    X: pd.DataFrame | np.ndarray,
    names: Sequence[str],
    given: ColumnSettings = NO_COLUMN_SETTINGS,
) -> None:
    """Warn of features of X [n, d] that count the rows in their order; where there is only one, it
    is meant.
    """
    if len(X) <= _MIN_INDEX_ROWS or X.shape[1] == 1:
        return
    rows: pd.DataFrame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X, copy=False)
    if counting := [name for j, name in enumerate(names) if numbers_rows(rows.iloc[:, j])]:
        drop = (
            f"leave it out: {given.adding('drop', counting)}"
            if isinstance(X, pd.DataFrame)
            else "leave it out of X"
        )
        found = (
            f"{table}: the feature {some([repr(name) for name in counting])} counts the rows in"
            " their order"
        )
        warnings.warn(
            f"{found}, which may be that of the labels; if it is their number, {drop}", stacklevel=4
        )
