"""Features of a data frame as floats: numbers as they are, names as the codes of their sorted values, NaN where a cell is missing."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_bool_dtype, is_complex_dtype, is_numeric_dtype

from kdgraph.data.dataset import Kind
from kdgraph.data.files.whole_numbers import ROUNDED_FROM, WHOLE
from kdgraph.data.frames.dates import is_date_type, way_out
from kdgraph.data.frames.missing import LARGEST, Missing, plain
from kdgraph.data.frames.numbers import check_not_merged, exact_numbers, is_number, typed, whole_numbers_of
from kdgraph.data.frames.text_numbers import Mixture, described, mixture_of, sort_of
from kdgraph.data.frames.wording import NO_LISTS, ColumnLists, NamedColumn
from kdgraph.errors import DataError

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
        If a column holds dates, infinity, numbers from 1e18 on, text among numbers, free text, or nothing.
    """
    empty = Missing.of(given.missing)
    X = np.empty(features.shape)
    categories: list[Categories] = [None] * features.shape[1]
    plain_numbers = [j for j, (name, dtype) in enumerate(features.dtypes.items()) if _is_plain(dtype) and name not in kinds]
    for j in plain_numbers:
        where = NamedColumn(table, str(features.columns[j]), given)
        values = features.iloc[:, j].to_numpy()
        check_not_merged(str(where), values, _as_names_or_dropped(where))
        X[:, j] = values
    for j in sorted(set(range(features.shape[1])) - set(plain_numbers)):
        X[:, j], categories[j] = _encode(table, features.iloc[:, j], kinds.get(features.columns[j]), empty, given)
    if len(empty.numbers):
        numeric = [j for j, names in enumerate(categories) if names is None]
        X[:, numeric] = np.where(np.isin(X[:, numeric], empty.numbers), np.nan, X[:, numeric])
    check_numbers(table, X, list(features.columns), given)
    return X, tuple(categories)


def _is_plain(dtype: Any) -> bool:
    """Whether numpy reads a column of this type as numbers at once."""
    return isinstance(dtype, np.dtype) and dtype.kind in "biuf"


def _encode(table: str, column: pd.Series, kind: Kind | None, missing: Missing, given: ColumnLists) -> tuple[np.ndarray, Categories]:
    """One column as floats, and the names of its codes."""
    where = NamedColumn(table, str(column.name), given)
    column = typed(column)
    dtype = column.dtype
    if is_complex_dtype(dtype):
        raise DataError(f"{where} holds complex numbers; split them into real columns, or {where.dropped()}")
    if kind == "categorical":
        return _codes(column, missing)
    if is_date_type(column):
        raise _dates(where, column, column.dropna().iloc[0] if column.notna().any() else dtype, missing)
    if is_number(dtype):
        check_not_merged(str(where), exact_numbers(column.dropna()), _as_names_or_dropped(where))
    if is_numeric_dtype(dtype) or is_bool_dtype(dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan), None
    if isinstance(dtype, pd.CategoricalDtype) and kind is None:
        return _codes(column, missing)
    return _encode_text(where, column, kind, missing)


def _encode_text(where: NamedColumn, column: pd.Series, kind: Kind | None, missing: Missing) -> tuple[np.ndarray, Categories]:
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
        _refuse_or_warn_of_text(where, words[stays], found, words[stays & np.isnan(numbers)].tolist() if mostly_plain else [])
    _check_text(where, words[stays], int(rows[stays].sum()))
    return _codes(column, missing)


def _check_digits(where: str, words: np.ndarray, way_out: str) -> None:
    """Raise DataError if whole numbers in text have more digits than a float keeps; one alone is a code for missing."""
    check_not_merged(where, whole_numbers_of(words), way_out)
    if len(long := [word for word in words if WHOLE.fullmatch(word.strip()) and abs(int(word)) >= 2**64]) > 1:
        raise DataError(f"{where} has whole numbers of more digits than double precision has ({long[0]}); {way_out}")


def _codes(column: pd.Series, missing: Missing) -> tuple[np.ndarray, tuple[str, ...]]:
    """Codes of the sorted distinct values, and their names."""
    return sorted_codes(column, missing.words, missing.numbers)


def sorted_codes(column: pd.Series, words: Iterable[str] = (), numbers: np.ndarray | None = None) -> tuple[np.ndarray, tuple[str, ...]]:
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
    whole = {int(word) for word in words if WHOLE.fullmatch(word)} | {int(n) for n in numbers if n.is_integer() and abs(n) < ROUNDED_FROM}
    return np.array([int(value) in whole for value in values], dtype=bool) if whole else np.zeros(len(values), dtype=bool)


def _distinct(where: NamedColumn, column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Codes Int[n] (-1: missing) and the distinct cells in the order of their first rows."""
    try:
        codes, values = pd.factorize(column)
    except TypeError as error:
        found = type(column.dropna().iloc[0]).__name__
        raise DataError(f"{where} has cells of type {found}; a feature is a number or text: {where.dropped()}") from error
    return codes, np.asarray(values, dtype=object)


def _at(codes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """``values`` at ``codes``, NaN at -1."""
    return np.append(values, np.nan)[codes]


def _dates(where: NamedColumn, column: pd.Series, example: Any, missing: Missing, strays: Sequence[str] = ()) -> DataError:
    """Dates, and how to use them or leave them out; ``strays`` are the texts among them that are none."""
    others = f", and {strays[0]!r}, which is none" if strays else ""
    as_days = way_out(where, column, missing, strays)
    remedy = f"{as_days} turns it into days since 1970-01-01" if as_days else "turn it into numbers such as days or months"
    return DataError(f"{where} holds dates or times ({example}){others}; {remedy}, {where.dropped()} leaves it out")


def _dates_in_text(where: NamedColumn, column: pd.Series, words: np.ndarray, found: Mixture, missing: Missing) -> DataError:
    strays = [word for word in words if sort_of(word).sort != "date"]
    return _dates(where, column, words[found.first], missing, strays)


def _as_names_or_dropped(where: NamedColumn) -> str:
    return f"if they are names, {where.of_names()} takes them as such, and {where.dropped()} leaves them out"


def _refuse_or_warn_of_text(where: NamedColumn, words: np.ndarray, found: Mixture, strays: Sequence[str]) -> None:
    """Raise for numbers that are written so that they are read as text; of a few with a unit, which may be names, warn.

    ``strays`` are all texts of a column in which most cells are plain numbers.
    """
    numbers = f"{where} has {described(found)}, such as {words[found.first]!r}"
    if found.sort == "unit" and len(words) <= NAMED_ROWS:
        used = f"which are used as names; if they are numbers, write them without it, else {where.of_names()} confirms it"
        warnings.warn(f"{numbers}, {used}", stacklevel=2)
        return
    ways = [f"{where.without(list(strays))} reads such cells as missing"] if 0 < len(strays) <= MOST_TEXTS else []
    ways += [f"{where.of_names()} takes them as names"]
    raise DataError(f"{numbers}, which are read as text; write plain numbers such as 1234.5, or {', or '.join(ways)}")


def _text_among_numbers(where: NamedColumn, codes: np.ndarray, words: np.ndarray, bad: np.ndarray) -> DataError:
    """The first cell that is no number, and what to do about it."""
    row = int(np.flatnonzero(np.append(bad, False)[codes])[0])
    texts = words[bad].tolist()
    it = "it" if len(texts) == 1 else "such cells"
    remedy = f"{where.of_names()} takes all as names"
    if len(texts) <= MOST_TEXTS:  # part of them would lead back to this message
        remedy = f"{where.without(texts)} reads {it} as missing, {remedy}"
    return DataError(f"{where} has {words[codes[row]]!r} in row {row}, and most of its cells are numbers; {remedy}")


def _check_text(where: NamedColumn, words: np.ndarray, rows: int) -> None:
    """Raise if text is different almost everywhere; warn if it is different everywhere in a small table."""
    way_out = where.dropped()
    if len(words) > FREE_TEXT_VALUES and len(words) > rows / 2:
        raise DataError(f"{where} has {len(words):,} different texts in {rows:,} rows, which are no categories; leave it out: {way_out}")
    if len(words) == rows > NAMED_ROWS:
        warnings.warn(f"{where} has a different text in each of {rows} rows and tells nothing of new ones; {way_out}", stacklevel=2)


def check_numbers(table: str, X: np.ndarray, columns: Sequence[str], given: ColumnLists | None = None) -> None:
    """Raise DataError if a feature is empty, or has infinity or a number from 1e18 on.

    Parameters
    ----------
    table : name, for messages.
    X : Float64[n, d].
    columns : names of the d features.
    given : lists of the user, to which advice adds; None where the source has no options of columns.
    """
    largest = np.fmax(np.fmax.reduce(X, axis=0), -np.fmin.reduce(X, axis=0))
    if (empty := np.isnan(largest)).any():
        names = [columns[j] for j in np.flatnonzero(empty).tolist()]
        where = NamedColumn(table, names[0], given or NO_LISTS)
        way_out = "leave it out of X" if given is None else f"leave it out: {where.dropped(*names[1:])}"
        raise DataError(f"{where} has no value in any row; {way_out}")
    if (wrong := largest >= LARGEST).any():
        j = int(np.flatnonzero(wrong)[0])
        row = int(np.flatnonzero(np.abs(X[:, j]) >= LARGEST)[0])
        raise _too_large(NamedColumn(table, columns[j], given or NO_LISTS), row, float(X[row, j]), can_be_read=given is not None)


def _too_large(where: NamedColumn, row: int, value: float, *, can_be_read: bool) -> DataError:
    found = f"{where} has {value!r} in row {row}"
    # Infinity as text: it is read as the number too, and JSON, in which records and schemas are, has no such number.
    cell = str(value) if np.isinf(value) else value
    way_out = f"{where.without([cell])} reads it as missing" if can_be_read else "write NaN where it is missing"
    if np.isinf(value):
        return DataError(f"{found}, and features must be finite: {way_out}, else write a number")
    why = "values from 1e18 on are usually codes for missing, and their squares lose all others"
    return DataError(f"{found}; {why}: {way_out}, else rescale the column")
