"""Encoding of features as floats, and detection of columns that number the rows.

Numbers keep their values. Names become the codes of their sorted values. Missing cells become NaN.
A column that numbers the rows carries no information about new rows, but in training it often
follows the order of the labels. Such an index is left out with a warning. The rules are original
to kdgraph.
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
from kdgraph.data.files.numbers import FLOAT_INTEGER_LIMIT, INTEGER_PATTERN, exact_numbers
from kdgraph.data.frames.cells import (
    MAX_CELL_VALUE,
    NO_MISSING_CELLS,
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
from kdgraph.data.frames.dates import DATE_KINDS, date_overrides, is_date_type
from kdgraph.data.frames.messages import NO_COLUMN_SETTINGS, ColumnReference, ColumnSettings
from kdgraph.data.mapped_rows import column_extremes, empty_rows, release_rows
from kdgraph.errors import DataError
from kdgraph.wording import some

CategoryNames = tuple[str, ...] | None

_MAX_TEXT_CATEGORIES = 1000
"""Largest number of distinct texts in a category, if they occupy more than half of the rows."""
_MAX_UNIQUE_TEXT_ROWS = 20
"""In tables with more rows, text that differs in each row is taken for names of the rows."""
_MAX_SUGGESTED_TEXTS = 12
"""Largest number of texts among numbers that a message suggests to read as missing."""


def encode_features(
    table: str,
    features: pd.DataFrame,
    kinds: Mapping[str, ColumnKind],
    settings: ColumnSettings = NO_COLUMN_SETTINGS,
) -> tuple[np.ndarray, tuple[CategoryNames, ...]]:
    """Return all columns as Float64[n, d], with the names of their codes, None where numeric.

    ``kinds`` are those of columns that are not inferred.
    """
    empty = MissingCells.from_cells(settings.missing)
    X = np.empty(features.shape)
    categories: list[CategoryNames] = [None] * features.shape[1]
    # Columns of numbers, most columns of most tables, need no inference and are copied directly.
    for j, (name, dtype) in enumerate(features.dtypes.items()):
        reference, column = ColumnReference(table, str(name), settings), features.iloc[:, j]
        if isinstance(dtype, np.dtype) and dtype.kind in "biuf" and name not in kinds:
            X[:, j] = values = column.to_numpy()
            check_distinct_as_float(str(reference), values, _categorical_or_drop_advice(reference))
        else:
            X[:, j], categories[j] = _encode_column(reference, column, kinds.get(name), empty)
    # Text and categories were compared with the missing cells while their codes were made; numeric
    # columns are compared here, after text that contains numbers has become numeric.
    if len(empty.numbers):
        numeric = [j for j, names in enumerate(categories) if names is None]
        X[:, numeric] = np.where(np.isin(X[:, numeric], empty.numbers), np.nan, X[:, numeric])
    return X, tuple(categories)


def join_numbers(
    X: np.ndarray,
    positions: Sequence[int],
    numbers: Iterable[np.ndarray],
    d: int,
    missing: Sequence[str | float],
) -> np.ndarray:
    """Return rows of encoded features and of columns of numbers that are read in blocks.

    X: Float64[n, m] takes the columns ``positions`` of the d columns of the result, and the blocks,
    Float64[b, d - m], the others. The result is mapped to a file if it is large
    (:mod:`kdgraph.data.mapped_rows`).
    """
    joined, empty = empty_rows((len(X), d)), MissingCells.from_cells(missing).numbers
    others, start = np.setdiff1d(np.arange(d), positions), 0
    for block in numbers:
        if len(empty):
            block = np.where(np.isin(block, empty), np.nan, block)
        rows = slice(start, start + len(block))
        joined[rows, others], joined[rows, list(positions)] = block, X[rows]
        start += len(block)
        release_rows(joined)
    return joined


def _encode_column(
    reference: ColumnReference, column: pd.Series, kind: ColumnKind | None, missing: MissingCells
) -> tuple[np.ndarray, CategoryNames]:
    # The order of the rules matters: a declared kind overrides the type, and dates are refused
    # before a column that is not numeric counts as text.
    column = infer_numeric_type(column)
    dtype = column.dtype
    if is_complex_dtype(dtype):
        raise DataError(
            f"{reference} holds complex numbers; split them into real columns, or"
            f" {reference.dropped()}"
        )
    if kind == "categorical":
        return sorted_codes(column, missing)
    if is_date_type(column):
        example = column.dropna().iloc[0] if column.notna().any() else dtype
        raise _date_error(reference, column, example, missing)
    if is_real_dtype(dtype):
        numbers = to_exact_numbers(column.dropna())
        check_distinct_as_float(str(reference), numbers, _categorical_or_drop_advice(reference))
    if is_numeric_dtype(dtype) or is_bool_dtype(dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan), None
    if isinstance(dtype, pd.CategoricalDtype) and kind is None:
        return sorted_codes(column, missing)
    return _encode_text_column(reference, column, kind, missing)


def _encode_text_column(
    reference: ColumnReference, column: pd.Series, kind: ColumnKind | None, missing: MissingCells
) -> tuple[np.ndarray, CategoryNames]:
    """Return a column of text as floats: numbers if all cells are numbers, else codes."""
    codes, values = _factorize(reference, column)
    inferred_type = infer_dtype(values, skipna=True)
    if inferred_type in DATE_KINDS:
        raise _date_error(reference, column, values[0], missing)
    if inferred_type == "boolean":
        return _values_at_codes(codes, np.asarray(values, dtype=np.float64)), None
    texts = np.array([format_cell(value) for value in values], dtype=object)
    is_present = np.array([text not in missing.words for text in texts], dtype=bool)
    numbers = exact_numbers(texts)
    # All present cells are numbers, or no cell is present.
    if not (is_present & np.isnan(numbers)).any():
        _check_integer_digits(reference, texts[is_present])
        return _values_at_codes(codes, np.where(is_present, numbers, np.nan)), None
    rows = np.bincount(codes[codes >= 0], minlength=len(texts))
    form = dominant_form(texts[is_present], rows[is_present])
    if form.kind == "number" or (kind == "numeric" and form.kind is None):
        raise _text_among_numbers_error(reference, codes, texts, is_present & np.isnan(numbers))
    if form.kind == "date":
        other_texts = [text for text in texts[is_present] if classify_text(text).kind != "date"]
        example = texts[is_present][form.first]
        raise _date_error(reference, column, example, missing, other_texts)
    if form.kind is not None:
        is_other = is_present & np.isnan(numbers)
        mostly_plain = rows[is_present & ~is_other].sum() > rows[is_present].sum() / 2
        others = texts[is_other].tolist() if mostly_plain else []
        _check_formatted_numbers(reference, texts[is_present], form, others)
    _check_free_text(reference, texts[is_present], int(rows[is_present].sum()))
    return sorted_codes(column, missing)


def _check_integer_digits(reference: ColumnReference, texts: np.ndarray) -> None:
    """Raise DataError if integers in text have more digits than a float keeps.

    A single one is taken for a code of missing values.
    """
    way_out = _categorical_or_drop_advice(reference)
    check_distinct_as_float(str(reference), parse_integers(texts), way_out)
    # A single long integer, such as a row of nines, stands for missing and meets the limit of
    # MAX_CELL_VALUE later; several are identifiers.
    integers = [text for text in texts if INTEGER_PATTERN.fullmatch(text.strip())]
    long_integers = [text for text in integers if abs(int(text)) >= 2**64]
    if len(long_integers) > 1:
        raise DataError(
            f"{reference} has whole numbers of more digits than double precision has"
            f" ({long_integers[0]}); {way_out}"
        )


def sorted_codes(
    column: pd.Series, missing: MissingCells = NO_MISSING_CELLS
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return codes, Float64[n], of the distinct values of any column, and the names of the codes.

    Numbers are sorted as numbers, all others as text. Missing cells have the code NaN.
    """
    column = infer_numeric_type(column)
    codes, values = pd.factorize(column)
    if is_real_dtype(column.dtype):
        values = to_exact_numbers(values)
        is_present = ~_missing_mask(values, missing)
        sorted_values = np.unique(values[is_present])
        names = tuple(format_cell(value) for value in sorted_values)
    else:
        values = np.array([format_cell(value) for value in values], dtype=str)
        is_present = ~np.isin(values, list(missing.words))
        sorted_values = np.unique(values[is_present])
        names = tuple(sorted_values.tolist())
    positions = np.where(is_present, np.searchsorted(sorted_values, values), np.nan)
    return _values_at_codes(codes, positions), names


def _missing_mask(values: np.ndarray, missing: MissingCells) -> np.ndarray:
    """Return which numbers are read as missing, Bool[m]; integers are compared exactly."""
    if values.dtype.kind == "f":
        return np.isin(values, missing.numbers)
    integers = {int(word) for word in missing.words if INTEGER_PATTERN.fullmatch(word)} | {
        int(n) for n in missing.numbers if n.is_integer() and abs(n) < FLOAT_INTEGER_LIMIT
    }
    if not integers:
        return np.zeros(len(values), dtype=bool)
    return np.array([int(value) in integers for value in values], dtype=bool)


def _factorize(reference: ColumnReference, column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Return codes Int[n], -1 for missing cells, and the distinct cells by first row."""
    try:
        codes, values = pd.factorize(column)
    except TypeError as error:
        cell_type = type(column.dropna().iloc[0]).__name__
        raise DataError(
            f"{reference} has cells of type {cell_type}; a feature is a number or text:"
            f" {reference.dropped()}"
        ) from error
    return codes, np.asarray(values, dtype=object)


def _values_at_codes(codes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return ``values`` at ``codes``, and NaN at code -1."""
    return np.append(values, np.nan)[codes]


def _date_error(
    reference: ColumnReference,
    column: pd.Series,
    example: Any,
    missing: MissingCells,
    other_texts: Sequence[str] = (),
) -> DataError:
    exception = f", and {other_texts[0]!r}, which is not a date" if other_texts else ""
    as_days = date_overrides(reference, column, missing, other_texts)
    remedy = "turn it into numbers such as days or months"
    remedy = f"{as_days} turns it into days since 1970-01-01" if as_days else remedy
    return DataError(
        f"{reference} holds dates or times ({example}){exception}; {remedy}, {reference.dropped()}"
        " leaves it out"
    )


def _categorical_or_drop_advice(reference: ColumnReference) -> str:
    return (
        f"if they are names, {reference.as_categorical()} takes them as such, and"
        f" {reference.dropped()} leaves them out"
    )


def _check_formatted_numbers(
    reference: ColumnReference, texts: np.ndarray, form: DominantForm, other_texts: Sequence[str]
) -> None:
    """Raise DataError for numbers whose format is read as text.

    For few distinct numbers with a unit, which may be names, the function only warns.
    ``other_texts`` are all texts of a column in which most cells are plain numbers.
    """
    # Few distinct numbers with a unit ("250 ml", "500 ml") may be names of sizes, which work as
    # categories. In other forms the order of the numbers would be lost, so they are refused.
    numbers = f"{reference} has {describe_form(form)}, such as {texts[form.first]!r}"
    if form.kind == "unit" and len(texts) <= _MAX_UNIQUE_TEXT_ROWS:
        warnings.warn(
            f"{numbers}, which are used as names; if they are numbers, write them without it, else"
            f" {reference.as_categorical()} confirms it",
            stacklevel=2,
        )
        return
    suggestions = [f"{reference.as_categorical()} takes them as names"]
    if 0 < len(other_texts) <= _MAX_SUGGESTED_TEXTS:
        as_missing = reference.as_missing(list(other_texts))
        suggestions.insert(0, f"{as_missing} reads such cells as missing")
    raise DataError(
        f"{numbers}, which are read as text; write plain numbers such as 1234.5, or"
        f" {', or '.join(suggestions)}"
    )


def _text_among_numbers_error(
    reference: ColumnReference, codes: np.ndarray, distinct_texts: np.ndarray, is_text: np.ndarray
) -> DataError:
    row = int(np.flatnonzero(np.append(is_text, False)[codes])[0])
    texts = distinct_texts[is_text].tolist()
    cells = "it" if len(texts) == 1 else "such cells"
    remedy = f"{reference.as_categorical()} takes all as names"
    # A suggestion with only some of the texts would lead back to this message.
    if len(texts) <= _MAX_SUGGESTED_TEXTS:
        remedy = f"{reference.as_missing(texts)} reads {cells} as missing, {remedy}"
    return DataError(
        f"{reference} has {distinct_texts[codes[row]]!r} in row {row}, and most of its cells are"
        f" numbers; {remedy}"
    )


def _check_free_text(reference: ColumnReference, texts: np.ndarray, n_rows: int) -> None:
    way_out = reference.dropped()
    if len(texts) > _MAX_TEXT_CATEGORIES and len(texts) > n_rows / 2:
        raise DataError(
            f"{reference} has {len(texts):,} different texts in {n_rows:,} rows, which are not"
            f" categories; leave it out: {way_out}"
        )
    if len(texts) == n_rows > _MAX_UNIQUE_TEXT_ROWS:
        warnings.warn(
            f"{reference} has a different text in each of {n_rows} rows, so it carries no"
            f" information about new rows; {way_out}",
            stacklevel=2,
        )


def check_numeric_features(
    table: str, X: np.ndarray, columns: Sequence[str], settings: ColumnSettings | None = None
) -> None:
    """Raise DataError if a feature of X: Float64[n, d] is empty, or has infinity or 1e18 or more.

    ``settings`` is None if the source has no options for columns.
    """
    # Extremes find all problems without arrays of flags as large as X.
    low, high = column_extremes(X, ignore_nan=True)
    largest, lists = np.fmax(high, -low), settings or NO_COLUMN_SETTINGS
    if (empty := np.isnan(largest)).any():
        names = [columns[j] for j in np.flatnonzero(empty).tolist()]
        reference = ColumnReference(table, names[0], lists)
        way_out = f"leave it out: {reference.dropped(*names[1:])}"
        way_out = "leave it out of X" if settings is None else way_out
        raise DataError(f"{reference} has no value in any row; {way_out}")
    if (is_too_large := largest >= MAX_CELL_VALUE).any():
        j = int(np.flatnonzero(is_too_large)[0])
        reference = ColumnReference(table, columns[j], lists)
        raise _too_large_error(reference, X[:, j], can_be_read=settings is not None)


_MAX_MISSING_CODES = 3
"""Largest number of different values of a column that may be codes for missing."""


def _too_large_error(
    reference: ColumnReference, column: np.ndarray, *, can_be_read: bool
) -> DataError:
    row = int(np.flatnonzero(np.abs(column) >= MAX_CELL_VALUE)[0])
    value = float(column[row])
    problem = f"{reference} has {value!r} in row {row}"
    # Infinity is suggested as text, which is read as the number too. Records and schemas are JSON,
    # which cannot represent the number.
    cell = str(value) if np.isinf(value) else value
    way_out = "write NaN where it is missing"
    if can_be_read:
        way_out = f"{reference.as_missing([cell])} reads it as missing"
    if np.isinf(value):
        return DataError(f"{problem}, and features must be finite: {way_out}, else write a number")
    # A code for missing is one value; several long numbers are names, such as those of accounts.
    if len(np.unique(column[np.abs(column) >= MAX_CELL_VALUE])) > _MAX_MISSING_CODES:
        way_out = "if they are names, leave the column out of X"
        way_out = _categorical_or_drop_advice(reference) if can_be_read else way_out
        reason = "many different numbers from 1e18 on, whose squares lose all others"
        return DataError(f"{problem}, one of {reason}: {way_out}, else rescale the column")
    reason = "values from 1e18 on are usually codes for missing, and their squares lose all others"
    return DataError(f"{problem}; {reason}: {way_out}, else rescale the column")


_MIN_INDEX_ROWS = 20
"""In tables with at most so many rows, a column may count from 1 by chance or by design."""
_UNNAMED_INDEX_PATTERN = re.compile(r"(Unnamed: \d+(\.\d+)*|__index_level_\d+__|level_\d+)?")
"""Names that pandas gives to an index without a name when it is written once or several times."""
_INDEX_NAME_PATTERN = re.compile(
    r"(index|idx|id|no|nr|number|row|rows|rownames?|record|obs|observation|sample|case|instance|entry|serial|key)"
    r"([ _.-]?(id|idx|index|no|nr|num|number|name|key))?|(s|sl|sr)["
    r" _.]*(no|nr|id)\.?|(?-i:X(\.\d+)?)",
    re.IGNORECASE,
)


def may_be_row_index(name: str) -> bool:
    """Return whether a column of this name is left out if it contains the numbers of the rows."""
    return bool(_UNNAMED_INDEX_PATTERN.fullmatch(name) or _INDEX_NAME_PATTERN.fullmatch(name))


def is_row_index(name: str, column: pd.Series) -> bool:
    """Return whether a column is the index of the table and has the name of one.

    This holds if it has no name and contains integers. It also holds if its name is that of an
    index and it contains each of 0 to n - 1, or of 1 to n, once, in any order.

    >>> is_row_index("Unnamed: 0", pd.Series([7, 3]))
    True
    >>> is_row_index("row_id", pd.Series(range(30, 0, -1)))
    True
    """
    if _UNNAMED_INDEX_PATTERN.fullmatch(name):
        if not is_real_dtype(column.dtype) or column.isna().any():
            return False
        values = to_exact_numbers(column)
        return bool((values == np.round(values)).all())
    return (
        bool(_INDEX_NAME_PATTERN.fullmatch(name))
        and len(column) > _MIN_INDEX_ROWS
        and counts_rows(column, in_order=False)
    )


def counts_rows(column: pd.Series | np.ndarray, *, in_order: bool = True) -> bool:
    """Return whether a column [n] of any type contains 0 to n - 1, or 1 to n."""
    n = len(column)
    if not is_real_dtype(column.dtype) or not n:
        return False
    first_value = column[0] if isinstance(column, np.ndarray) else column.iloc[0]
    # The first cell decides cheaply for most columns.
    if pd.isna(first_value) or (in_order and first_value not in (0, 1)):
        return False
    values = pd.Series(column)
    if values.isna().any():
        return False
    numbers = to_exact_numbers(values)
    if not in_order:
        numbers = np.sort(numbers)
    return bool(numbers[0] in (0, 1) and (numbers == np.arange(n) + numbers[0]).all())


def drop_row_index(
    table: str,
    features: pd.DataFrame,
    settings: ColumnSettings = NO_COLUMN_SETTINGS,
    n_others: int = 0,
) -> pd.DataFrame:
    """Return the features [n, d] without the index of the table, with a warning.

    Other features that count the rows cause a warning only, if there are others besides
    (``n_others``). A column that the user names for another use stays.
    """
    # A column that the user lists as dates or categories is meant to be a feature.
    intended = {*settings.parse_dates, *settings.categorical}
    is_index = np.array(
        [
            name not in intended and is_row_index(str(name), features.iloc[:, j])
            for j, name in enumerate(features.columns)
        ],
        dtype=bool,
    )
    if is_index.any():
        names = some([f"'{name}'" for name in features.columns[is_index]])
        warnings.warn(
            f"{table}: columns that number the rows are left out: {names}; rename one to use it",
            stacklevel=3,
        )
        features = features.loc[:, ~is_index]
    names = [str(name) for name in features.columns]
    if len(names) + n_others > 1:  # an only feature is intended
        warn_row_numbering(table, features, names, settings)
    return features


def warn_row_numbering(
    table: str,
    X: pd.DataFrame | np.ndarray,
    names: Sequence[str],
    settings: ColumnSettings = NO_COLUMN_SETTINGS,
) -> None:
    """Warn about features of X [n, d] that count the rows in their order."""
    # Few rows may count from 1 by chance. Only the order of the rows matters here: shuffled numbers
    # cannot follow the order of the labels.
    if len(X) <= _MIN_INDEX_ROWS:
        return
    rows: pd.DataFrame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X, copy=False)
    if counting_names := [name for j, name in enumerate(names) if counts_rows(rows.iloc[:, j])]:
        advice = "leave it out of X"
        if isinstance(X, pd.DataFrame):
            advice = f"leave it out: {settings.adding('drop', counting_names)}"
        warnings.warn(
            f"{table}: the feature {some([repr(name) for name in counting_names])} counts the rows"
            f" in their order, which may be that of the labels; if it is their number, {advice}",
            stacklevel=4,
        )
