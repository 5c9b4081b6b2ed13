"""Features of a data frame as floats: numbers as they are, names as the codes of their sorted values, NaN where a cell is missing."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_bool_dtype, is_complex_dtype, is_datetime64_any_dtype, is_numeric_dtype, is_timedelta64_dtype

from kdgraph.data.dataset import Kind
from kdgraph.errors import DataError
from kdgraph.overrides import override

Categories = tuple[str, ...] | None

LARGEST = 1e18
"""From here on a number is taken for a code for missing: beside its square, those of all others vanish in double precision."""
FREE_TEXT_VALUES = 1000
"""Text with more distinct values than this, in more than half of the rows, is no category."""
NAMED_ROWS = 20
"""With more rows than this, text that is different in each of them is taken for their names."""
DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([ T]\d.*)?|\d{1,2}([/.])\d{1,2}\2\d{2,4}( \d.*)?|\d{4}/\d{1,2}/\d{1,2}( \d.*)?")

COMMA = re.compile(r"[+-]?\d+([.,]\d+)*")
"""A number as some countries write it, 1,5 or 1.234,5; also one with thousands apart, 1,234."""


@dataclass(frozen=True)
class Missing:
    """Cells to read as missing: as text, and as numbers where they are some."""

    words: frozenset[str]
    numbers: np.ndarray

    @classmethod
    def of(cls, cells: Iterable[str | float]) -> Missing:
        """``-1`` is missing as a number and as the text ``-1``."""
        words = {plain(cell) for cell in cells}
        numbers = pd.to_numeric(pd.Series(sorted(words), dtype=object), errors="coerce").to_numpy(dtype=np.float64)
        return cls(frozenset(words), numbers[~np.isnan(numbers)])


def encode_features(
    table: str, features: pd.DataFrame, kinds: Mapping[str, Kind], missing: Sequence[str | float] = ()
) -> tuple[np.ndarray, tuple[Categories, ...]]:
    """Encode every column of ``features``.

    Parameters
    ----------
    table : name, for messages.
    features : [n, d].
    kinds : kinds of columns that are not to be guessed.
    missing : cells to read as missing.

    Returns
    -------
    X : Float64[n, d].
    categories : for each feature the names of its codes, or None where it is numeric.

    Raises
    ------
    DataError
        If a column holds dates, infinity, numbers from 1e18 on, text among numbers, free text, or nothing.
    """
    empty = Missing.of(missing)
    X = np.empty(features.shape)
    categories: list[Categories] = [None] * features.shape[1]
    plain_numbers = [j for j, (name, dtype) in enumerate(features.dtypes.items()) if _is_plain(dtype) and name not in kinds]
    X[:, plain_numbers] = features.iloc[:, plain_numbers].to_numpy(dtype=np.float64)
    for j in sorted(set(range(features.shape[1])) - set(plain_numbers)):
        X[:, j], categories[j] = _encode(table, features.iloc[:, j], kinds.get(features.columns[j]), empty)
    if len(empty.numbers):
        numeric = [j for j, names in enumerate(categories) if names is None]
        X[:, numeric] = np.where(np.isin(X[:, numeric], empty.numbers), np.nan, X[:, numeric])
    check_numbers(table, X, list(features.columns))
    return X, tuple(categories)


def _is_plain(dtype: Any) -> bool:
    """Whether numpy reads a column of this type as numbers at once."""
    return isinstance(dtype, np.dtype) and dtype.kind in "biuf"


def _encode(table: str, column: pd.Series, kind: Kind | None, missing: Missing) -> tuple[np.ndarray, Categories]:
    """One column as floats, and the names of its codes."""
    where = f"{table}: column '{column.name}'"
    dtype = column.dtype
    if is_complex_dtype(dtype):
        raise DataError(f"{where} holds complex numbers; split them into real columns, or {override('dataset.drop', [str(column.name)])}")
    if kind == "categorical":
        return _codes(column, missing)
    if is_datetime64_any_dtype(dtype) or is_timedelta64_dtype(dtype) or isinstance(dtype, pd.PeriodDtype):
        raise _dates(where, column, column.dropna().iloc[0] if column.notna().any() else dtype)
    if is_numeric_dtype(dtype) or is_bool_dtype(dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan), None
    if isinstance(dtype, pd.CategoricalDtype) and kind is None:
        return _codes(column, missing)
    return _encode_text(where, column, kind, missing)


def _encode_text(where: str, column: pd.Series, kind: Kind | None, missing: Missing) -> tuple[np.ndarray, Categories]:
    """A column of text or objects: numbers if all of its cells are some, else names."""
    codes, values = _distinct(where, column)
    found = infer_dtype(values, skipna=True)
    if found in ("date", "datetime", "datetime64", "time", "timedelta", "period"):
        raise _dates(where, column, values[0])
    if found == "boolean":
        return _at(codes, np.asarray(values, dtype=np.float64)), None
    words = np.array([plain(value) for value in values], dtype=object)
    stays = np.array([word not in missing.words for word in words], dtype=bool)
    numbers = pd.to_numeric(pd.Series(words), errors="coerce").to_numpy(dtype=np.float64)
    if not (stays & np.isnan(numbers)).any():  # no cell that is not a number, or no cell
        return _at(codes, np.where(stays, numbers, np.nan)), None
    if any("," in word for word in words[stays]) and all(COMMA.fullmatch(word) for word in words[stays]):
        example = next(word for word in words[stays] if "," in word)
        way_out = f"write a point, or {override('dataset.categorical', [str(column.name)])} takes them as names"
        raise DataError(f"{where} has numbers with commas ({example}), which are read as text; {way_out}")
    rows = np.bincount(codes[codes >= 0], minlength=len(words))
    if kind == "numeric" or rows[stays & ~np.isnan(numbers)].sum() > rows[stays].sum() / 2:
        raise _text_among_numbers(where, column, codes, words, stays & np.isnan(numbers))
    _check_text(where, column, words[stays], int(rows[stays].sum()))
    return _codes(column, missing)


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
    codes, values = pd.factorize(column)
    if is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype):
        values = np.asarray(values, dtype=np.float64)
        kept = ~np.isin(values, [] if numbers is None else numbers)
        order = np.unique(values[kept])
        names = tuple(plain(value) for value in order)
    else:
        values = np.array([plain(value) for value in values], dtype=str)
        kept = ~np.isin(values, list(words))
        order = np.unique(values[kept])
        names = tuple(order.tolist())
    positions = np.where(kept, np.searchsorted(order, values), np.nan)
    return _at(codes, positions), names


def plain(value: Any) -> str:
    """A cell as a person would write it.

    >>> plain(3.0), plain(0.25), plain("3.0")
    ('3', '0.25', '3.0')
    """
    if isinstance(value, (float, np.floating)) and float(value).is_integer() and abs(value) < LARGEST:
        return str(int(value))
    return str(value)


def _distinct(where: str, column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Codes Int[n] (-1: missing) and the distinct cells in the order of their first rows."""
    try:
        codes, values = pd.factorize(column)
    except TypeError as error:
        found = type(column.dropna().iloc[0]).__name__
        raise DataError(
            f"{where} has cells of type {found}; a feature is a number or text: {override('dataset.drop', [str(column.name)])}"
        ) from error
    return codes, np.asarray(values, dtype=object)


def _at(codes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """``values`` at ``codes``, NaN at -1."""
    return np.append(values, np.nan)[codes]


def _dates(where: str, column: pd.Series, example: Any) -> DataError:
    way_out = f"turn it into numbers such as days or months, or leave it out: {override('dataset.drop', [str(column.name)])}"
    return DataError(f"{where} holds dates or times ({example}); {way_out}")


def _text_among_numbers(where: str, column: pd.Series, codes: np.ndarray, words: np.ndarray, bad: np.ndarray) -> DataError:
    """The first cell that is no number, and what to do about it."""
    row = int(np.flatnonzero(np.append(bad, False)[codes])[0])
    texts = words[bad].tolist()[:5]
    it = "it" if len(texts) == 1 else "such cells"
    as_names = override("dataset.categorical", [str(column.name)])
    remedy = f"{override('dataset.missing', texts)} reads {it} as missing, {as_names} takes all as names"
    return DataError(f"{where} has {words[codes[row]]!r} in row {row}, and most of its cells are numbers; {remedy}")


def _check_text(where: str, column: pd.Series, words: np.ndarray, rows: int) -> None:
    """Raise if text is dates or different almost everywhere; warn if it is different everywhere in a small table."""
    if all(DATE.fullmatch(word) for word in words):
        raise _dates(where, column, words[0])
    way_out = override("dataset.drop", [str(column.name)])
    if len(words) > FREE_TEXT_VALUES and len(words) > rows / 2:
        raise DataError(f"{where} has {len(words):,} different texts in {rows:,} rows, which are no categories; leave it out: {way_out}")
    if len(words) == rows > NAMED_ROWS:
        warnings.warn(f"{where} has a different text in each of {rows} rows and tells nothing of new ones; {way_out}", stacklevel=2)


def check_numbers(table: str, X: np.ndarray, columns: Sequence[str]) -> None:
    """Raise DataError if a feature of X: Float64[n, d] has nothing in it, infinity, or a number from 1e18 on."""
    largest = np.fmax(np.fmax.reduce(X, axis=0), -np.fmin.reduce(X, axis=0))
    if (empty := np.isnan(largest)).any():
        names = [columns[j] for j in np.flatnonzero(empty).tolist()]
        raise DataError(f"{table}: column '{names[0]}' has no value in any row; leave it out: {override('dataset.drop', names)}")
    if (wrong := largest >= LARGEST).any():
        j = int(np.flatnonzero(wrong)[0])
        row = int(np.flatnonzero(np.abs(X[:, j]) >= LARGEST)[0])
        raise _too_large(f"{table}: column '{columns[j]}' has {X[row, j]:g} in row {row}", X[row, j])


def _too_large(found: str, value: float) -> DataError:
    if np.isinf(value):
        return DataError(f"{found}, and features must be finite; write a number, or leave the cell empty where it is missing")
    why = "values from 1e18 on are usually codes for missing, and their squares lose all others"
    return DataError(f"{found}; {why}: {override('dataset.missing', [float(value)])} reads it as missing, else rescale the column")
