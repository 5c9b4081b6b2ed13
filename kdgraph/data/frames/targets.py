"""The target of a table: whether it is a class or a number, and its values."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

from kdgraph.data.dataset import Kind, Task
from kdgraph.data.frames.features import sorted_codes
from kdgraph.errors import DataError

CLASSES_OF_NUMBERS = 20
"""Whole numbers of at most so many different values are classes where nothing is said."""


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
    missing = target.isna().to_numpy()
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        found = f"{missing.sum():,} of {len(target):,} rows have no label in '{target.name}' (first: row {row})"
        raise DataError(f"{table}: {found}; remove them")
    decided = task_of(target, kind) if task == "auto" else task
    if decided == "regression":
        return _numbers(table, target), np.empty(0), decided
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


def _numbers(table: str, target: pd.Series) -> np.ndarray:
    """The target of a regression, Float64[n]; text that is numbers is read."""
    numbers = pd.to_numeric(target, errors="coerce") if not _is_number(target) else target
    values = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        found = f"the target '{target.name}' has '{target.iloc[row]}' in row {row}"
        raise DataError(f"{table}: {found}, and a regression needs finite numbers; dataset.task=classification takes them as classes")
    return values
