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

from kdgraph.data.dataset import Kind
from kdgraph.data.files.tables import ROUNDED_FROM, WHOLE
from kdgraph.data.frames.cells import (
    LARGEST,
    Missing,
    Mixture,
    check_not_merged,
    described,
    exact_numbers,
    is_number,
    mixture_of,
    plain,
    sort_of,
    typed,
    whole_numbers_of,
)
from kdgraph.data.frames.dates import is_date_type, way_out
from kdgraph.data.frames.messages import NO_LISTS, ColumnLists, NamedColumn
from kdgraph.errors import DataError
from kdgraph.wording import some

Categories = tuple[str, ...] | None

FREE_TEXT_VALUES = 1000
"""Text with more distinct values than this, in more than half of the rows, is no category."""
NAMED_ROWS = 20
"""With more rows than this, text that is different in each of them is taken for their names."""
MOST_TEXTS = 12
"""Texts among numbers that a message offers to read as missing."""


def encode_features(
    table: str, features: pd.DataFrame, kinds: Mapping[str, Kind], given: ColumnLists = NO_LISTS
) -> tuple[np.ndarray, tuple[Categories, ...]]:
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
    empty = Missing.of(given.missing)
    X = np.empty(features.shape)
    categories: list[Categories] = [None] * features.shape[1]
    plain_numbers = [
        j
        for j, (name, dtype) in enumerate(features.dtypes.items())
        if _is_plain(dtype) and name not in kinds
    ]
    for j in plain_numbers:
        where = NamedColumn(table, str(features.columns[j]), given)
        values = features.iloc[:, j].to_numpy()
        check_not_merged(str(where), values, _as_names_or_dropped(where))
        X[:, j] = values
    for j in sorted(set(range(features.shape[1])) - set(plain_numbers)):
        X[:, j], categories[j] = _encode(
            table, features.iloc[:, j], kinds.get(features.columns[j]), empty, given
        )
    if len(empty.numbers):
        numeric = [j for j, names in enumerate(categories) if names is None]
        X[:, numeric] = np.where(np.isin(X[:, numeric], empty.numbers), np.nan, X[:, numeric])
    check_numbers(table, X, list(features.columns), given)
    return X, tuple(categories)


def _is_plain(dtype: Any) -> bool:
    """Whether numpy reads a column of this type as numbers at once."""
    return isinstance(dtype, np.dtype) and dtype.kind in "biuf"


def _encode(
    table: str, column: pd.Series, kind: Kind | None, missing: Missing, given: ColumnLists
) -> tuple[np.ndarray, Categories]:
    """One column as floats, and the names of its codes."""
    where = NamedColumn(table, str(column.name), given)
    column = typed(column)
    dtype = column.dtype
    if is_complex_dtype(dtype):
        raise DataError(
            f"{where} holds complex numbers; split them into real columns, or {where.dropped()}"
        )
    if kind == "categorical":
        return _codes(column, missing)
    if is_date_type(column):
        raise _dates(
            where, column, column.dropna().iloc[0] if column.notna().any() else dtype, missing
        )
    if is_number(dtype):
        check_not_merged(str(where), exact_numbers(column.dropna()), _as_names_or_dropped(where))
    if is_numeric_dtype(dtype) or is_bool_dtype(dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan), None
    if isinstance(dtype, pd.CategoricalDtype) and kind is None:
        return _codes(column, missing)
    return _encode_text(where, column, kind, missing)


def _encode_text(
    where: NamedColumn, column: pd.Series, kind: Kind | None, missing: Missing
) -> tuple[np.ndarray, Categories]:
    """A column of text or objects: numbers if all of its cells are some, else names."""
    codes, values = _distinct(where, column)
    found = infer_dtype(values, skipna=True)
    if found in ("date", "datetime", "datetime64", "time", "timedelta", "period"):
        raise _dates(where, column, values[0], missing)
    if found == "boolean":
        return _at(codes, np.asarray(values, dtype=np.float64)), None
    words = np.array([plain(value) for value in values], dtype=object)
    stays = np.array([word not in missing.words for word in words], dtype=bool)
    numbers = pd.to_numeric(pd.Series(words), errors="coerce").to_numpy(dtype=np.float64)
    if not (stays & np.isnan(numbers)).any():  # no cell that is not a number, or no cell
        _check_digits(str(where), words[stays], _as_names_or_dropped(where))
        return _at(codes, np.where(stays, numbers, np.nan)), None
    rows = np.bincount(codes[codes >= 0], minlength=len(words))
    found = mixture_of(words[stays], rows[stays])
    if found.sort == "number" or (kind == "numeric" and found.sort is None):
        raise _text_among_numbers(where, codes, words, stays & np.isnan(numbers))
    if found.sort == "date":
        raise _dates_in_text(where, column, words[stays], found, missing)
    if found.sort is not None:
        mostly_plain = rows[stays & ~np.isnan(numbers)].sum() > rows[stays].sum() / 2
        _refuse_or_warn_of_text(
            where,
            words[stays],
            found,
            words[stays & np.isnan(numbers)].tolist() if mostly_plain else [],
        )
    _check_text(where, words[stays], int(rows[stays].sum()))
    return _codes(column, missing)


def _check_digits(where: str, words: np.ndarray, way_out: str) -> None:
    """Raise DataError if whole numbers in text have more digits than a float keeps; one alone is a
    code for missing.
    """
    check_not_merged(where, whole_numbers_of(words), way_out)
    if (
        len(
            long := [
                word for word in words if WHOLE.fullmatch(word.strip()) and abs(int(word)) >= 2**64
            ]
        )
        > 1
    ):
        raise DataError(
            f"{where} has whole numbers of more digits than double precision has ({long[0]});"
            f" {way_out}"
        )


def _codes(column: pd.Series, missing: Missing) -> tuple[np.ndarray, tuple[str, ...]]:
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
    column = typed(column)
    codes, values = pd.factorize(column)
    if is_number(column.dtype):
        values = exact_numbers(values)
        kept = ~_are_missing(values, words, np.empty(0) if numbers is None else numbers)
        order = np.unique(values[kept])
        names = tuple(plain(value) for value in order)
    else:
        values = np.array([plain(value) for value in values], dtype=str)
        kept = ~np.isin(values, list(words))
        order = np.unique(values[kept])
        names = tuple(order.tolist())
    positions = np.where(kept, np.searchsorted(order, values), np.nan)
    return _at(codes, positions), names


def _are_missing(values: np.ndarray, words: Iterable[str], numbers: np.ndarray) -> np.ndarray:
    """Bool[m]: which of the numbers are to be read as missing, integers compared as integers."""
    if values.dtype.kind == "f":
        return np.isin(values, numbers)
    whole = {int(word) for word in words if WHOLE.fullmatch(word)} | {
        int(n) for n in numbers if n.is_integer() and abs(n) < ROUNDED_FROM
    }
    return (
        np.array([int(value) in whole for value in values], dtype=bool)
        if whole
        else np.zeros(len(values), dtype=bool)
    )


def _distinct(where: NamedColumn, column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Codes Int[n] (-1: missing) and the distinct cells in the order of their first rows."""
    try:
        codes, values = pd.factorize(column)
    except TypeError as error:
        found = type(column.dropna().iloc[0]).__name__
        raise DataError(
            f"{where} has cells of type {found}; a feature is a number or text: {where.dropped()}"
        ) from error
    return codes, np.asarray(values, dtype=object)


def _at(codes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """``values`` at ``codes``, NaN at -1."""
    return np.append(values, np.nan)[codes]


def _dates(
    where: NamedColumn,
    column: pd.Series,
    example: Any,
    missing: Missing,
    strays: Sequence[str] = (),
) -> DataError:
    """Dates, and how to use them or leave them out; ``strays`` are the texts among them that are
    none.
    """
    others = f", and {strays[0]!r}, which is none" if strays else ""
    as_days = way_out(where, column, missing, strays)
    remedy = (
        f"{as_days} turns it into days since 1970-01-01"
        if as_days
        else "turn it into numbers such as days or months"
    )
    return DataError(
        f"{where} holds dates or times ({example}){others}; {remedy}, {where.dropped()} leaves"
        " it out"
    )


def _dates_in_text(
    where: NamedColumn, column: pd.Series, words: np.ndarray, found: Mixture, missing: Missing
) -> DataError:
    strays = [word for word in words if sort_of(word).sort != "date"]
    return _dates(where, column, words[found.first], missing, strays)


def _as_names_or_dropped(where: NamedColumn) -> str:
    return (
        f"if they are names, {where.of_names()} takes them as such, and {where.dropped()} leaves"
        " them out"
    )


def _refuse_or_warn_of_text(
    where: NamedColumn, words: np.ndarray, found: Mixture, strays: Sequence[str]
) -> None:
    """Raise for numbers that are written so that they are read as text; of a few with a unit, which
    may be names, warn.

    ``strays`` are all texts of a column in which most cells are plain numbers.
    """
    numbers = f"{where} has {described(found)}, such as {words[found.first]!r}"
    if found.sort == "unit" and len(words) <= NAMED_ROWS:
        used = (
            "which are used as names; if they are numbers, write them without it, else"
            f" {where.of_names()} confirms it"
        )
        warnings.warn(f"{numbers}, {used}", stacklevel=2)
        return
    ways = (
        [f"{where.without(list(strays))} reads such cells as missing"]
        if 0 < len(strays) <= MOST_TEXTS
        else []
    )
    ways += [f"{where.of_names()} takes them as names"]
    raise DataError(
        f"{numbers}, which are read as text; write plain numbers such as 1234.5, or"
        f" {', or '.join(ways)}"
    )


def _text_among_numbers(
    where: NamedColumn, codes: np.ndarray, words: np.ndarray, bad: np.ndarray
) -> DataError:
    """The first cell that is no number, and what to do about it."""
    row = int(np.flatnonzero(np.append(bad, False)[codes])[0])
    texts = words[bad].tolist()
    it = "it" if len(texts) == 1 else "such cells"
    remedy = f"{where.of_names()} takes all as names"
    if len(texts) <= MOST_TEXTS:  # part of them would lead back to this message
        remedy = f"{where.without(texts)} reads {it} as missing, {remedy}"
    return DataError(
        f"{where} has {words[codes[row]]!r} in row {row}, and most of its cells are numbers;"
        f" {remedy}"
    )


def _check_text(where: NamedColumn, words: np.ndarray, rows: int) -> None:
    """Raise if text is different almost everywhere; warn if it is different everywhere in a small
    table.
    """
    way_out = where.dropped()
    if len(words) > FREE_TEXT_VALUES and len(words) > rows / 2:
        raise DataError(
            f"{where} has {len(words):,} different texts in {rows:,} rows, which are no categories;"
            f" leave it out: {way_out}"
        )
    if len(words) == rows > NAMED_ROWS:
        warnings.warn(
            f"{where} has a different text in each of {rows} rows and tells nothing of new ones;"
            f" {way_out}",
            stacklevel=2,
        )


def check_numbers(
    table: str, X: np.ndarray, columns: Sequence[str], given: ColumnLists | None = None
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
        where = NamedColumn(table, names[0], given or NO_LISTS)
        way_out = (
            "leave it out of X" if given is None else f"leave it out: {where.dropped(*names[1:])}"
        )
        raise DataError(f"{where} has no value in any row; {way_out}")
    if (wrong := largest >= LARGEST).any():
        j = int(np.flatnonzero(wrong)[0])
        row = int(np.flatnonzero(np.abs(X[:, j]) >= LARGEST)[0])
        raise _too_large(
            NamedColumn(table, columns[j], given or NO_LISTS),
            row,
            float(X[row, j]),
            can_be_read=given is not None,
        )


def _too_large(where: NamedColumn, row: int, value: float, *, can_be_read: bool) -> DataError:
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


FEWEST_ROWS = 20
"""In a table of at most so many rows a column may count from 1 by chance or by design."""
NAMELESS = re.compile(r"(Unnamed: \d+(\.\d+)*|__index_level_\d+__|level_\d+)?")
"""The names that pandas gives to an index without one, once or several times."""
_INDEX = re.compile(
    r"(index|idx|id|no|nr|number|row|rows|rownames?|record|obs|observation|sample|case|instance|entry|serial|key)"
    r"([ _.-]?(id|idx|index|no|nr|num|number|name|key))?|(s|sl|sr)["
    r" _.]*(no|nr|id)\.?|(?-i:X(\.\d+)?)",
    re.IGNORECASE,
)


def are_row_numbers(name: str, column: pd.Series) -> bool:
    """Return whether a column is the index of a table under the name of one.

    It is if it has no name and holds whole numbers, or is named like an index and holds each of 0
    to n - 1, or of 1 to n, once, in any order.

    >>> are_row_numbers("Unnamed: 0", pd.Series([7, 3])), are_row_numbers("row_id", pd.Series(range(30, 0, -1)))
    (True, True)
    """
    if NAMELESS.fullmatch(name):
        return (
            is_number(column.dtype)
            and bool(column.notna().all())
            and _all_whole(exact_numbers(column))
        )
    return (
        bool(_INDEX.fullmatch(name))
        and len(column) > FEWEST_ROWS
        and counts_rows(column, in_order=False)
    )


def counts_rows(column: pd.Series | np.ndarray, *, in_order: bool = True) -> bool:
    """Return whether a column [n] is 0 to n - 1, or 1 to n, in this order or, without ``in_order``,
    in any.
    """
    n = len(column)
    if not is_number(column.dtype) or not n:
        return False
    first = column[0] if isinstance(column, np.ndarray) else column.iloc[0]
    if pd.isna(first) or (in_order and first not in (0, 1)):  # soon decided, of most columns
        return False
    values = pd.Series(column)
    if values.isna().any():
        return False
    numbers = exact_numbers(values)
    if not in_order:
        numbers = np.sort(numbers)
    return bool(numbers[0] in (0, 1) and (numbers == np.arange(n) + numbers[0]).all())


def _all_whole(values: np.ndarray) -> bool:
    return values.dtype.kind in "iu" or bool((values == np.round(values)).all())


def without_row_numbers(
    table: str, features: pd.DataFrame, given: ColumnLists = NO_LISTS
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
        if name not in meant and are_row_numbers(str(name), features.iloc[:, j])
    ]
    if index:
        names = some([f"'{features.columns[j]}'" for j in index])
        warnings.warn(
            f"{table}: columns that number the rows are left out: {names}; rename one to use it",
            stacklevel=3,
        )
        features = features.iloc[:, [j for j in range(features.shape[1]) if j not in index]]
    warn_of_counting(table, features, [str(name) for name in features.columns], given)
    return features


def warn_of_counting(
    table: str, X: pd.DataFrame | np.ndarray, names: Sequence[str], given: ColumnLists = NO_LISTS
) -> None:
    """Warn of features of X [n, d] that count the rows in their order; where there is only one, it
    is meant.
    """
    if len(X) <= FEWEST_ROWS or X.shape[1] == 1:
        return
    rows: pd.DataFrame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X, copy=False)
    if counting := [name for j, name in enumerate(names) if counts_rows(rows.iloc[:, j])]:
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
