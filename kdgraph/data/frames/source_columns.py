"""Description of the columns of a frame as its source has them, before they become numbers.

:func:`describe_columns` makes the :class:`~kdgraph.data.source_columns.SourceColumn` of each
feature, so that ``restore`` gives the column as pandas reads it. What cannot be given back to the
bit, such as text that was read as numbers, is described with the reason. Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_bool_dtype, is_integer_dtype, is_numeric_dtype

from kdgraph.data.frames.cells import format_cell, to_exact_numbers
from kdgraph.data.frames.dates import ISO_FORMAT, is_date_type
from kdgraph.data.frames.messages import ColumnReference
from kdgraph.data.mapped_rows import mapped_blocks
from kdgraph.data.source_columns import DATE_OBJECTS, MissingCell, SourceColumn, SourceTypes

_PLAIN_TYPES = (str, int, float, bool)
"""Types of cells that a description may list: those of JSON."""
_TRUTH_VALUES = (False, True)
_ISO_FORMATS = (
    *("%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M"),
    *("%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m"),
)


def describe_columns(
    frame: pd.DataFrame,
    X: np.ndarray,
    names: Sequence[str],
    categories: Sequence[tuple[str, ...] | None],
    *,
    types: SourceTypes,
    streamed: Mapping[str, str],
    dates: Mapping[str, str],
    reference: Callable[[str], ColumnReference],
) -> tuple[SourceColumn, ...]:
    """Return the description of each feature of X: Float64[n, d].

    ``frame`` is the table as it was read, and ``streamed`` maps the columns that it lacks to their
    types. ``dates`` has the formats of columns of dates, and ``reference`` returns a column in
    messages.
    """
    has_gaps = np.zeros(X.shape[1], dtype=bool)
    for rows in mapped_blocks(X):
        has_gaps |= np.isnan(X[rows]).any(axis=0)
    columns = []
    for j, name in enumerate(names):
        if name in streamed:
            column = SourceColumn(name, streamed[name])
        elif name in dates:
            column = _describe_dates(frame[name], X[:, j], dates[name], reference(name))
        elif (texts := categories[j]) is not None:
            column = _describe_categories(frame[name], X[:, j], len(texts), types)
            declared = name in reference(name).settings.categorical
            column = replace(column, declared=declared)
        else:
            column = _describe_numbers(frame[name], X[:, j], types, reference(name))
        columns.append(_with_gaps(column) if has_gaps[j] else column)
    return tuple(columns)


def _with_gaps(column: SourceColumn) -> SourceColumn:
    """Return a column of whole numbers or truth values with the type that gaps give it."""
    if column.cells is not None or column.dates is not None:
        return column
    if column.dtype == "bool":
        return replace(column, dtype="object", cells=_TRUTH_VALUES)
    kind: Any = pd.api.types.pandas_dtype(column.dtype)
    loses_type = isinstance(kind, np.dtype) and kind.kind in "iu"
    return replace(column, dtype="float64") if loses_type else column


def _describe_categories(
    column: pd.Series, positions: np.ndarray, n_categories: int, types: SourceTypes
) -> SourceColumn:
    name, dtype = str(column.name), str(column.dtype)
    if (problem := _problem_of_objects(column)) is not None:
        return SourceColumn(name, problem=problem)
    present, first = np.unique(positions[~np.isnan(positions)], return_index=True)
    rows = np.flatnonzero(~np.isnan(positions))[first]
    assert len(present) == n_categories
    cells = tuple(_plain(cell) for cell in column.iloc[rows].tolist())
    categories: tuple[Any, ...] | None = None
    category_dtype, ordered = None, False
    if isinstance(column.dtype, pd.CategoricalDtype):
        dtype, ordered = "category", bool(column.cat.ordered)
        categories = tuple(_plain(value) for value in column.cat.categories.tolist())
        category_dtype = str(column.cat.categories.dtype)
    elif name in types.read_again and not any(isinstance(cell, str) for cell in cells):
        # Whole numbers are read again where a cell is missing. pandas has fractions there.
        dtype, cells = types.read_again[name], tuple(float(cell) for cell in cells)
    if unknown := [v for v in (*cells, *(categories or ())) if not isinstance(v, _PLAIN_TYPES)]:
        kind = type(unknown[0]).__name__
        return SourceColumn(name, problem=f"has categories of type {kind}; write them as text")
    missing = _missing_cell(column)
    return SourceColumn(name, dtype, cells, categories, category_dtype, ordered, missing)


def _describe_numbers(
    column: pd.Series, values: np.ndarray, types: SourceTypes, reference: ColumnReference
) -> SourceColumn:
    name, dtype = str(column.name), str(column.dtype)
    missing = _missing_cell(column)
    if name in types.read_again:
        natural = types.read_again[name]
        if is_numeric_dtype(natural):
            return SourceColumn(name, natural)
        problem = "has gaps and whole numbers from 2^63 on, which pandas reads as text"
        return SourceColumn(name, problem=f"{problem}; {reference.dropped()} leaves it out")
    if is_integer_dtype(column.dtype):
        numbers = to_exact_numbers(column.dropna())
        large = numbers[(numbers >= 2**53) | (numbers <= -(2**53))]
        if rounded := [n for n in np.unique(large).tolist() if int(float(n)) != n]:
            problem = f"has whole numbers that double precision rounds ({rounded[0]})"
            way_out = f"{reference.as_categorical()} takes them as names"
            return SourceColumn(name, problem=f"{problem}; {way_out}")
    if is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype):
        return SourceColumn(name, dtype)
    if infer_dtype(column, skipna=True) == "boolean":
        return SourceColumn(name, dtype, cells=_TRUTH_VALUES, missing=missing)
    if (problem := _problem_of_objects(column)) is not None:
        return SourceColumn(name, problem=problem)
    # Text that contains numbers. In a file of text, the cells that the user lists as missing made
    # it text, and pandas reads numbers where it gets this list.
    if not types.has_types:
        return SourceColumn(name)
    rows = np.flatnonzero(~column.duplicated().to_numpy() & ~np.isnan(values))
    pairs = zip(column.iloc[rows], values[rows], strict=True)
    changed = [text for text, number in pairs if format_cell(number) != text]
    if changed:
        return SourceColumn(
            name,
            problem=(
                "holds text that is read as numbers, and a number is not written"
                f" {changed[0]!r}; {reference.as_categorical()} takes it as names"
            ),
        )
    return SourceColumn(name, dtype, missing=missing)


def _describe_dates(
    column: pd.Series, days: np.ndarray, date_format: str, reference: ColumnReference
) -> SourceColumn:
    name, dtype, missing = str(column.name), str(column.dtype), _missing_cell(column)
    kinds = {type(cell) for cell in column.dropna().head(1)}
    if is_date_type(column):
        candidates = [SourceColumn(name, dtype, dates="")]
    elif kinds <= {date, datetime} and date in kinds:
        candidates = [SourceColumn(name, dtype, missing=missing, dates=DATE_OBJECTS)]
    else:
        formats = _ISO_FORMATS if date_format == ISO_FORMAT else (date_format,)
        candidates = [
            SourceColumn(name, dtype, missing=missing, dates=text)
            for text in formats
            if "%" in text
        ]
    for candidate in candidates:
        try:
            restored = candidate.restore(days)
        except (TypeError, ValueError, OverflowError):
            continue
        is_present = ~np.isnan(days)
        if restored[is_present].tolist() == column[is_present].tolist():
            return candidate
    problem = "has dates that cannot be written again as they are"
    return SourceColumn(name, problem=f"{problem}; {reference.dropped()} leaves it out")


def _problem_of_objects(column: pd.Series) -> str | None:
    """Return why the cells of a column of Python objects cannot be listed, or None."""
    if column.dtype != object:
        return None
    kind = infer_dtype(column, skipna=True)
    if kind in ("string", "integer", "floating", "boolean", "empty"):
        return None
    what = "decimal numbers" if kind == "decimal" else "cells of several types"
    if kind in ("decimal", "mixed", "mixed-integer", "mixed-integer-float"):
        return f"holds {what}; write one type"
    return f"holds cells of the type {kind}; write text or numbers"


def _missing_cell(column: pd.Series) -> MissingCell:
    if column.dtype != object:
        return "nan"
    is_missing = column.isna()
    return "none" if any(cell is None for cell in column[is_missing].head(1)) else "nan"


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
