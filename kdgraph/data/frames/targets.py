"""Target and groups of a table: classes or numbers, and the group of each row.

The rules are original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_bool_dtype, is_complex_dtype, is_numeric_dtype

from kdgraph.data.dataset import ColumnKind, TaskSetting
from kdgraph.data.files.numbers import FLOAT_INTEGER_LIMIT, exact_numbers
from kdgraph.data.frames.cells import (
    MAX_CELL_VALUE,
    check_distinct_as_float,
    describe_form,
    dominant_form,
    format_cell,
    infer_numeric_type,
    is_real_dtype,
    to_exact_numbers,
)
from kdgraph.data.frames.dates import DATE_KINDS, is_date_type, matching_formats
from kdgraph.data.frames.features import sorted_codes
from kdgraph.data.frames.messages import ColumnSettings
from kdgraph.errors import DataError

OTHER_GROUP = "other"
"""Name of the group of rows in which no column is above 0."""


def encode_groups(
    table: str, key: str, frame: pd.DataFrame, columns: str | Sequence[str]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the group of each row, Int[n], and the names of the groups.

    The values of one column are the groups; of several see :func:`largest_column_index`. ``key`` is
    that of the columns in ``dataset.<key>``.
    """
    if isinstance(columns, str):
        return encode_group_column(table, f"dataset.{key}='{columns}'", frame[columns])
    return largest_column_index(table, key, frame[list(columns)])


def encode_group_column(
    table: str, source: str, values: pd.Series
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the group of each row by sorted value, Int[n], and the values as text."""
    codes, names = sorted_codes(values)
    if np.isnan(codes).any():
        row = int(np.flatnonzero(np.isnan(codes))[0])
        raise DataError(f"{table}: {source} is empty in row {row}; name the group of each row")
    return codes.astype(np.int64), names


def largest_column_index(
    table: str, key: str, frame: pd.DataFrame
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return for each row the column with the largest value, Int[n], the first one of equal values.

    For example, fractions of several races give the largest race, and attributes of which at most
    one is true give that one. A row in which no column is above 0 belongs to "other". The names of
    the columns are returned too, with "other" after them if a row belongs to it.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"black": [0.2, 0.5, 0.0], "white": [0.7, 0.5, 0.0]})
    >>> largest, names = largest_column_index("t", "group", frame)
    >>> [names[i] for i in largest]
    ['white', 'black', 'other']
    """
    frame = frame.apply(infer_numeric_type)
    for name, dtype in frame.dtypes.items():
        if not (is_numeric_dtype(dtype) or is_bool_dtype(dtype)) or is_complex_dtype(dtype):
            example = frame[name].iloc[0]
            raise DataError(
                f"{table}: dataset.{key} names '{name}', which has {example!r}; of several columns"
                " the largest counts, so each must hold numbers or truth values"
            )
    values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    if (missing := np.isnan(values)).any():
        row, column = np.argwhere(missing)[0]
        raise DataError(
            f"{table}: dataset.{key}: column '{frame.columns[column]}' is empty in row {row}; fill"
            " the cell, or remove the row"
        )
    # argmax returns the first of equal values; rows without a positive value are moved to "other".
    names = [str(name) for name in frame.columns]
    none_positive = ~(values > 0).any(axis=1)
    largest = values.argmax(axis=1)
    if none_positive.any():
        names += [] if OTHER_GROUP in names else [OTHER_GROUP]
        largest[none_positive] = names.index(OTHER_GROUP)
    return largest, tuple(names)


Threshold = float | Literal["median"] | None
"""Value that divides a numeric target into two classes; ``median`` is that of all rows.

The median includes the rows that test.
"""

MAX_NUMERIC_CLASSES = 20
"""Largest number of distinct integers that count as classes if the task is not declared."""


def target_column(
    table: str,
    frame: pd.DataFrame,
    target: str | Sequence[str],
    threshold: Threshold = None,
    task: TaskSetting = "auto",
) -> tuple[pd.Series, dict[str, Any]]:
    """Return one column of labels for the target that the user names, and entries for the record.

    The names of several columns are the classes (:func:`largest_column_index`). A threshold divides
    a numeric column into two classes, such as ``<= 0.15`` and ``> 0.15``; the entry ``threshold``
    is the number.
    """
    if not isinstance(target, str):
        if threshold is not None:
            raise DataError(
                f"{table}: dataset.threshold cuts one column of numbers, and dataset.target names"
                f" {len(target)} columns; give one of them"
            )
        largest, names = largest_column_index(table, "target", frame[list(target)])
        return pd.Series(np.array(names, dtype=object)[largest], name=" ".join(target)), {}
    if threshold is None:
        return frame[target], {}
    if task == "regression":
        raise DataError(
            f"{table}: dataset.threshold={threshold} makes classes, and dataset.task=regression"
            " needs numbers; give one of them"
        )
    _check_no_missing_labels(table, frame[target])
    rule = "dataset.threshold cuts finite numbers; leave it null, and each value is a class"
    values = _numeric_target(table, frame[target], rule)
    cut = float(np.median(values)) if threshold == "median" else float(threshold)
    # Classes are sorted by name, so the lower one is the first class.
    class_names = np.array([f"<= {format_cell(cut)}", f"> {format_cell(cut)}"], dtype=object)
    return pd.Series(class_names[(values > cut).astype(int)], name=target), {"threshold": cut}


def encode_target(
    table: str,
    target: pd.Series,
    task: TaskSetting = "auto",
    kind: ColumnKind | None = None,
    settings: ColumnSettings | None = None,
) -> tuple[np.ndarray, np.ndarray, Literal["classification", "regression"]]:
    """Return the values of the target, its sorted classes and the resolved task.

    The values are positions in the classes, Int[n], or the numbers of a regression, Float64[n].
    Classes [K] that are numbers stay numbers, all others are text; a regression has none.
    ``settings`` is None if the source has no options for columns. Dates, and numbers whose format
    is read as text, are refused unless the task is declared.
    """
    # Formats are checked before the task is inferred: a column of "1,200" would otherwise pass as
    # text and silently become a classification with one class for each number.
    _check_no_missing_labels(table, target)
    target = infer_numeric_type(target)
    if task == "regression" or (task == "auto" and kind != "categorical"):
        _check_target_format(table, target, task, settings)
    resolved_task = infer_task(target, kind) if task == "auto" else task
    if resolved_task == "regression":
        rule = (
            "a regression needs finite numbers; dataset.task=classification takes them as classes"
        )
        return _numeric_target(table, target, rule), np.empty(0), resolved_task
    y, classes = _encode_classes(target, kind)
    if len(classes) < 2:
        raise DataError(
            f"{table}: a classifier needs two classes, the target '{target.name}' has only"
            f" {classes.tolist()}"
        )
    return y, classes, resolved_task


def infer_task(
    target: pd.Series, kind: ColumnKind | None = None
) -> Literal["classification", "regression"]:
    """Return the type of a target whose task is not declared.

    Text, categories and truth values are classes. Numbers are classes if all of them are integers
    and at most 20 of them are distinct. Otherwise the target is that of a regression.

    >>> infer_task(pd.Series([1, 2, 1])), infer_task(pd.Series([1.0, 2.5, 1.0]))
    ('classification', 'regression')
    """
    if kind == "categorical":
        return "classification"
    if not is_real_dtype(target.dtype):
        return "regression" if _is_fractional_text(target) else "classification"
    values = np.unique(to_exact_numbers(target))
    are_classes = len(values) <= MAX_NUMERIC_CLASSES and (values == np.round(values)).all()
    return "classification" if are_classes else "regression"


def task_facts(
    y: np.ndarray, setting: TaskSetting, task: Literal["classification", "regression"]
) -> dict[str, Any]:
    """Return ``whole_values``, the number of distinct targets y [n], if a regression was inferred.

    The result is empty if the task was declared or not all targets are integers.
    """
    if setting != "auto" or task != "regression" or not (y == np.round(y)).all():
        return {}
    return {"whole_values": len(np.unique(y))}


def _is_fractional_text(target: pd.Series) -> bool:
    """Return whether all cells are text that is read as numbers, not all of them integers."""
    if target.dtype != object and not isinstance(target.dtype, pd.StringDtype):
        return False
    numbers = exact_numbers(target.astype(str).unique())
    return bool(np.isfinite(numbers).all() and (numbers != np.round(numbers)).any())


def _check_target_format(
    table: str, target: pd.Series, task: TaskSetting, settings: ColumnSettings | None
) -> None:
    source = f"{table}: the target '{target.name}'"
    class_advice = "'dataset.task=classification' takes its values as classes"
    kind = infer_dtype(target, skipna=True) if target.dtype == object else ""
    if is_date_type(target) or kind in DATE_KINDS:
        raise _target_date_error(source, target, target.iloc[0], settings, class_advice)
    if target.dtype != object and not isinstance(target.dtype, pd.StringDtype):
        return
    texts = target.astype(str)
    distinct, codes = np.unique(texts.to_numpy(dtype=object), return_inverse=True)
    form = dominant_form(distinct, np.bincount(codes))
    # With few distinct values, text with units or single words among numbers are plausible classes.
    is_small = len(distinct) <= MAX_NUMERIC_CLASSES and task == "auto"
    if form.kind is None or (form.kind == "unit" and is_small):
        return
    if form.kind == "date":
        raise _target_date_error(source, target, distinct[form.first], settings, class_advice)
    if form.kind != "number":
        raise DataError(
            f"{source} has {describe_form(form)}, such as '{distinct[form.first]}', which are read"
            f" as text; write plain numbers such as 1234.5 for a regression, or {class_advice}"
        )
    is_other = np.isnan(exact_numbers(texts))
    if task == "auto" and is_other.any() and not is_small:
        row = int(np.flatnonzero(is_other)[0])
        raise DataError(
            f"{source} has '{texts.iloc[row]}' in row {row}, and most of its cells are numbers;"
            f" remove the row for a regression, or {class_advice}"
        )


def _target_date_error(
    source: str,
    target: pd.Series,
    example: object,
    settings: ColumnSettings | None,
    class_advice: str,
) -> DataError:
    way_out = "write numbers such as days for a regression"
    if settings is not None and len(matching_formats(target)) == 1:
        as_days = settings.adding("parse_dates", [target.name])
        way_out = f"{as_days} turns it into days since 1970-01-01"
    return DataError(f"{source} holds dates or times ({example}); {way_out}, {class_advice}")


def _check_no_missing_labels(table: str, target: pd.Series) -> None:
    missing = target.isna().to_numpy()
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise DataError(
            f"{table}: {missing.sum():,} of {len(target):,} rows have no label in '{target.name}'"
            f" (first: row {row}); remove them"
        )


def _encode_classes(target: pd.Series, kind: ColumnKind | None) -> tuple[np.ndarray, np.ndarray]:
    """Return positions and sorted classes; only text and categories become text."""
    if kind != "categorical" and (is_real_dtype(target.dtype) or is_bool_dtype(target.dtype)):
        values = (
            target.to_numpy(dtype=bool) if is_bool_dtype(target.dtype) else to_exact_numbers(target)
        )
        are_whole = values.dtype.kind == "f" and (values == np.round(values)).all()
        if are_whole and np.abs(values).max() < FLOAT_INTEGER_LIMIT:
            values = values.astype(np.int64)
        classes, y = np.unique(values, return_inverse=True)
        return y, classes
    codes, names = sorted_codes(target)
    return codes.astype(np.int64), np.array(names)


def _numeric_target(table: str, target: pd.Series, rule: str) -> np.ndarray:
    """Return the target as Float64[n]; ``rule`` ends the message for other values."""
    target = infer_numeric_type(target)
    is_real = is_real_dtype(target.dtype)
    values = (
        target.to_numpy(dtype=np.float64, na_value=np.nan) if is_real else exact_numbers(target)
    )
    source = f"{table}: the target '{target.name}' has"
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise DataError(f"{source} '{target.iloc[row]}' in row {row}, and {rule}")
    if (np.abs(values) >= MAX_CELL_VALUE).any():
        row = int(np.flatnonzero(np.abs(values) >= MAX_CELL_VALUE)[0])
        raise DataError(
            f"{source} {values[row]:g} in row {row}; values from 1e18 on are usually codes for"
            " missing, and their squares lose all others: remove the row, or rescale the target"
        )
    # A regression computes in float64, in which different large integers may be equal.
    if is_real:
        advice = "'dataset.task=classification' takes them as classes"
        check_distinct_as_float(source.removesuffix(" has"), to_exact_numbers(target), advice)
    return values
