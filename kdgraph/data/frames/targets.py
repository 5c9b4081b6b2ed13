"""The target of a table: whether it is a class or a number, and its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

from kdgraph.data.dataset import Kind, Task
from kdgraph.data.frames.features import plain, sorted_codes
from kdgraph.data.frames.groups import largest_column
from kdgraph.errors import DataError

Threshold = float | Literal["median"] | None
"""Where a numeric target is cut into two classes; ``median``: at that of all rows of the table, those that test too."""

CLASSES_OF_NUMBERS = 20
"""Whole numbers of at most so many different values are classes where nothing is said."""


def target_column(
    table: str, frame: pd.DataFrame, target: str | Sequence[str], threshold: Threshold = None, task: Task = "auto"
) -> tuple[pd.Series, dict[str, Any]]:
    """One column of labels, of what the user calls the target; ours.

    Parameters
    ----------
    table : name, for messages.
    frame : [n, columns], which has the columns.
    target : a column; or several of numbers or truth values, whose names are the classes: see
        :func:`~kdgraph.data.frames.groups.largest_column`.
    threshold : cuts a numeric column into the classes ``<= 0.15`` and ``> 0.15``.
    task : what the user says that it is.

    Returns
    -------
    labels : [n].
    facts : what the record should say of it: ``threshold``, the number, if there is one.

    Raises
    ------
    DataError
        If a cell is empty or no number, or ``threshold`` meets several columns or a regression.
    """
    if not isinstance(target, str):
        if threshold is not None:
            named = f"dataset.target names {len(target)} columns"
            raise DataError(f"{table}: dataset.threshold cuts one column of numbers, and {named}; give one of them")
        largest, names = largest_column(table, "target", frame[list(target)])
        return pd.Series(np.array(names, dtype=object)[largest], name=" ".join(target)), {}
    if threshold is None:
        return frame[target], {}
    if task == "regression":
        raise DataError(
            f"{table}: dataset.threshold={threshold} makes classes, and dataset.task=regression wants numbers; give one of them"
        )
    _check_labelled(table, frame[target])
    values = _numbers(table, frame[target], "dataset.threshold cuts finite numbers; leave it null, and each value is a class")
    at = float(np.median(values)) if threshold == "median" else float(threshold)
    words = np.array([f"<= {plain(at)}", f"> {plain(at)}"], dtype=object)  # sorted, the lower one is the first class
    return pd.Series(words[(values > at).astype(int)], name=target), {"threshold": at}


def encode_target(
    table: str, target: pd.Series, task: Task = "auto", kind: Kind | None = None
) -> tuple[np.ndarray, np.ndarray, Literal["classification", "regression"]]:
    """The values of the target.

    Parameters
    ----------
    table : name, for messages.
    target : [n], without missing cells.
    task : what it is; ``auto``: see :func:`task_of`.
    kind : what the source declares it to be.

    Returns
    -------
    y : Int[n], positions in the classes; Float64[n] for regression.
    classes : [K], sorted: numbers stay numbers, all else is text; empty for regression.
    task : "classification" or "regression".

    Raises
    ------
    DataError
        If labels are missing, only one, or no finite numbers for regression.
    """
    _check_labelled(table, target)
    decided = task_of(target, kind) if task == "auto" else task
    if decided == "regression":
        rule = "a regression needs finite numbers; dataset.task=classification takes them as classes"
        return _numbers(table, target, rule), np.empty(0), decided
    y, classes = _classes(target, kind)
    if len(classes) < 2:
        raise DataError(f"{table}: a classifier needs two classes, the target '{target.name}' has only {classes.tolist()}")
    return y, classes, decided


def task_of(target: pd.Series, kind: Kind | None = None) -> Literal["classification", "regression"]:
    """What a target is where nobody says it.

    Text, categories and truth values are classes. Numbers are classes if all of them are whole and there are at most 20 different ones;
    a fraction among them, or more values than that, make it a regression.

    >>> task_of(pd.Series([1, 2, 1])), task_of(pd.Series([1.0, 2.5, 1.0]))
    ('classification', 'regression')
    """
    if kind == "categorical" or not _is_number(target):
        return "classification"
    values = np.unique(target.to_numpy(dtype=np.float64))
    return "classification" if len(values) <= CLASSES_OF_NUMBERS and (values == np.round(values)).all() else "regression"


def _check_labelled(table: str, target: pd.Series) -> None:
    missing = target.isna().to_numpy()
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        found = f"{missing.sum():,} of {len(target):,} rows have no label in '{target.name}' (first: row {row})"
        raise DataError(f"{table}: {found}; remove them")


def _is_number(target: pd.Series) -> bool:
    return is_numeric_dtype(target.dtype) and not is_bool_dtype(target.dtype) and not is_complex_dtype(target.dtype)


def _classes(target: pd.Series, kind: Kind | None) -> tuple[np.ndarray, np.ndarray]:
    """Positions and sorted classes: whole numbers as integers, other numbers as floats, truth values as such, all else as text."""
    if kind != "categorical" and (_is_number(target) or is_bool_dtype(target.dtype)):
        values = target.to_numpy(dtype=bool if is_bool_dtype(target.dtype) else np.float64)
        if values.dtype != bool and (values == np.round(values)).all() and np.abs(values).max() < 2**53:
            values = values.astype(np.int64)
        classes, y = np.unique(values, return_inverse=True)
        return y, classes
    codes, names = sorted_codes(target)
    return codes.astype(np.int64), np.array(names)


def _numbers(table: str, target: pd.Series, rule: str) -> np.ndarray:
    """The target as Float64[n]; text that is numbers is read. What is none breaks ``rule``."""
    numbers = pd.to_numeric(target, errors="coerce") if not _is_number(target) else target
    values = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        found = f"the target '{target.name}' has '{target.iloc[row]}' in row {row}"
        raise DataError(f"{table}: {found}, and {rule}")
    return values
