"""Whom a row belongs to: by the value of one column, or by the largest of several.

The target of a table: whether it is a class or a number, and its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_bool_dtype, is_complex_dtype, is_numeric_dtype

from kdgraph.data.dataset import Kind, Task
from kdgraph.data.frames.cells import (
    LARGEST,
    check_not_merged,
    described,
    exact_numbers,
    is_number,
    mixture_of,
    plain,
    typed,
)
from kdgraph.data.frames.dates import formats_of, is_date_type
from kdgraph.data.frames.features import sorted_codes
from kdgraph.data.frames.messages import ColumnLists
from kdgraph.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


OTHER = "other"
"""The name of rows of which no column is above 0."""


def groups_of(
    table: str, key: str, frame: pd.DataFrame, columns: str | Sequence[str]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The group of each row; ours.

    Parameters
    ----------
    table, key : name and ``dataset.<key>``, for messages.
    frame : [n, columns], which has the columns.
    columns : one, whose values are the groups; or several, see :func:`largest_column`.

    Returns
    -------
    groups : Int[n], positions in the names.
    names : of one column its sorted values, of several their names.

    Raises
    ------
    DataError
        If a cell is empty, or one of several columns holds no numbers.
    """
    if isinstance(columns, str):
        return groups_of_values(table, f"dataset.{key}='{columns}'", frame[columns])
    return largest_column(table, key, frame[list(columns)])


def groups_of_values(
    table: str, where: str, values: pd.Series
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Int[n], the group of each row by sorted value, and the values as text; ours. DataError where
    a cell of ``where`` is empty.
    """
    from kdgraph.data.frames.features import sorted_codes

    codes, names = sorted_codes(values)
    if np.isnan(codes).any():
        row = int(np.flatnonzero(np.isnan(codes))[0])
        raise DataError(f"{table}: {where} is empty in row {row}; name the group of each row")
    return codes.astype(np.int64), names


def largest_column(table: str, key: str, frame: pd.DataFrame) -> tuple[np.ndarray, tuple[str, ...]]:
    """Of each row the column with the largest value (its plurality), the first of equals; "other"
    where none is above 0. Ours.

    So shares of several races give the largest one, and attributes of which at most one is true
    give that one.

    Parameters
    ----------
    table, key : name and ``dataset.<key>``, for messages.
    frame : [n, c] of numbers or truth values.

    Returns
    -------
    largest : Int[n], positions in the names.
    names : of the c columns, and "other" behind them if a row is.

    Raises
    ------
    DataError
        If a column holds something else, or a cell is empty.

    Examples
    --------
    >>> import pandas as pd
    >>> max_value, names = largest_column("t", "group", pd.DataFrame({"black": [0.2, 0.5, 0.0], "white": [0.7, 0.5, 0.0]}))
    >>> [names[i] for i in max_value]
    ['white', 'black', 'other']
    """
    frame = frame.apply(typed)
    for name, dtype in frame.dtypes.items():
        if not (is_numeric_dtype(dtype) or is_bool_dtype(dtype)) or is_complex_dtype(dtype):
            example = frame[name].iloc[0]
            rule = (
                "of several columns the largest counts, so each must hold numbers or truth values"
            )
            raise DataError(f"{table}: dataset.{key} names '{name}', which has {example!r}; {rule}")
    values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    if (missing := np.isnan(values)).any():
        row, column = np.argwhere(missing)[0]
        raise DataError(
            f"{table}: dataset.{key}: column '{frame.columns[column]}' is empty in row {row}; fill"
            " the cell, or remove the row"
        )
    names = [str(name) for name in frame.columns]
    none = ~(values > 0).any(axis=1)
    names += [OTHER] if none.any() and OTHER not in names else []
    return np.where(
        none, names.index(OTHER) if OTHER in names else 0, values.argmax(axis=1)
    ), tuple(names)


Threshold = float | Literal["median"] | None
"""Where a numeric target is cut into two classes; ``median``: at that of all rows of the table,
those that test too.
"""

CLASSES_OF_NUMBERS = 20
"""Whole numbers of at most so many different values are classes where nothing is said."""


def target_column(
    table: str,
    frame: pd.DataFrame,
    target: str | Sequence[str],
    threshold: Threshold = None,
    task: Task = "auto",
) -> tuple[pd.Series, dict[str, Any]]:
    """One column of labels, of what the user calls the target; ours.

    Parameters
    ----------
    table : name, for messages.
    frame : [n, columns], which has the columns.
    target : a column; or several of numbers or truth values, whose names are the classes: see
        :func:`~kdgraph.data.frames.targets.largest_column`.
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
            raise DataError(
                f"{table}: dataset.threshold cuts one column of numbers, and {named}; give one of"
                " them"
            )
        largest, names = largest_column(table, "target", frame[list(target)])
        return pd.Series(np.array(names, dtype=object)[largest], name=" ".join(target)), {}
    if threshold is None:
        return frame[target], {}
    if task == "regression":
        raise DataError(
            f"{table}: dataset.threshold={threshold} makes classes, and dataset.task=regression"
            " wants numbers; give one of them"
        )
    _check_labelled(table, frame[target])
    values = _numbers(
        table,
        frame[target],
        "dataset.threshold cuts finite numbers; leave it null, and each value is a class",
    )
    at = float(np.median(values)) if threshold == "median" else float(threshold)
    words = np.array(
        [f"<= {plain(at)}", f"> {plain(at)}"], dtype=object
    )  # sorted, the lower one is the first class
    return pd.Series(words[(values > at).astype(int)], name=target), {"threshold": at}


def encode_target(
    table: str,
    target: pd.Series,
    task: Task = "auto",
    kind: Kind | None = None,
    given: ColumnLists | None = None,
) -> tuple[np.ndarray, np.ndarray, Literal["classification", "regression"]]:
    """The values of the target.

    Parameters
    ----------
    table : name, for messages.
    target : [n], without missing cells.
    task : what it is; ``auto``: see :func:`task_of`.
    kind : what the source declares it to be.
    given : lists of the user, to which advice adds; None where the source has no options of
        columns.

    Returns
    -------
    y : Int[n], positions in the classes; Float64[n] for regression.
    classes : [K], sorted: numbers stay numbers, all else is text; empty for regression.
    task : "classification" or "regression".

    Raises
    ------
    DataError
        If labels are missing, only one, or no numbers for regression that are finite and below
        1e18; or if nobody says what they are, and they are dates, or numbers that are written so
        that they are read as text.
    """
    _check_labelled(table, target)
    target = typed(target)
    if task == "regression" or (task == "auto" and kind != "categorical"):
        _check_numbers_and_dates(table, target, task, given)
    decided = task_of(target, kind) if task == "auto" else task
    if decided == "regression":
        rule = (
            "a regression needs finite numbers; dataset.task=classification takes them as classes"
        )
        return _numbers(table, target, rule), np.empty(0), decided
    y, classes = _classes(target, kind)
    if len(classes) < 2:
        raise DataError(
            f"{table}: a classifier needs two classes, the target '{target.name}' has only"
            f" {classes.tolist()}"
        )
    return y, classes, decided


def task_of(target: pd.Series, kind: Kind | None = None) -> Literal["classification", "regression"]:
    """What a target is where nobody says it.

    Text, categories and truth values are classes. Numbers are classes if all of them are whole and
    there are at most 20 different ones; a fraction among them, or more values than that, make it a
    regression.

    >>> task_of(pd.Series([1, 2, 1])), task_of(pd.Series([1.0, 2.5, 1.0]))
    ('classification', 'regression')
    """
    if kind == "categorical":
        return "classification"
    if not is_number(target.dtype):
        return "regression" if _are_fractions_in_text(target) else "classification"
    values = np.unique(exact_numbers(target))
    return (
        "classification"
        if len(values) <= CLASSES_OF_NUMBERS and (values == np.round(values)).all()
        else "regression"
    )


def facts_of_task(
    y: np.ndarray, given: Task, task: Literal["classification", "regression"]
) -> dict[str, Any]:
    """Return ``whole_values``, how many different targets y [n] there are, where they are whole and
    nobody says what they are.
    """
    if given != "auto" or task != "regression" or not (y == np.round(y)).all():
        return {}
    return {"whole_values": len(np.unique(y))}


def _are_fractions_in_text(target: pd.Series) -> bool:
    """Whether all cells are text that is read as numbers, and not all of these are whole."""
    if target.dtype != object and not isinstance(target.dtype, pd.StringDtype):
        return False
    numbers = pd.to_numeric(pd.Series(target.astype(str).unique(), dtype=object), errors="coerce")
    return bool(np.isfinite(numbers).all() and (numbers != np.round(numbers)).any())


def _check_numbers_and_dates(
    table: str, target: pd.Series, task: Task, given: ColumnLists | None
) -> None:
    """Raise DataError for a target of dates, or of numbers that are written so that they are read
    as text.
    """
    where, rest = (
        f"{table}: the target '{target.name}'",
        "'dataset.task=classification' takes its values as classes",
    )
    kind = infer_dtype(target, skipna=True) if target.dtype == object else ""
    if is_date_type(target) or kind in (
        "date",
        "datetime",
        "datetime64",
        "time",
        "timedelta",
        "period",
    ):
        raise _dates(where, target, target.iloc[0], given, rest)
    if target.dtype != object and not isinstance(target.dtype, pd.StringDtype):
        return
    words = target.astype(str)
    distinct, codes = np.unique(words.to_numpy(dtype=object), return_inverse=True)
    found = mixture_of(distinct, np.bincount(codes))
    few = len(distinct) <= CLASSES_OF_NUMBERS and task == "auto"
    if found.sort is None or (found.sort == "unit" and few):
        return
    if found.sort == "date":
        raise _dates(where, target, distinct[found.first], given, rest)
    if found.sort != "number":
        wrong = (
            f"{where} has {described(found)}, such as '{distinct[found.first]}', which are read as"
            " text"
        )
        raise DataError(f"{wrong}; write plain numbers such as 1234.5 for a regression, or {rest}")
    numbers = pd.to_numeric(words, errors="coerce")
    if task == "auto" and numbers.isna().any() and not few:
        row = int(np.flatnonzero(numbers.isna())[0])
        wrong = f"{where} has '{words.iloc[row]}' in row {row}, and most of its cells are numbers"
        raise DataError(f"{wrong}; remove the row for a regression, or {rest}")


def _dates(
    where: str, target: pd.Series, example: object, given: ColumnLists | None, rest: str
) -> DataError:
    way_out = "write numbers such as days for a regression"
    if given is not None and len(formats_of(target)) == 1:
        way_out = (
            f"{given.adding('parse_dates', [target.name])} turns it into days since 1970-01-01"
        )
    return DataError(f"{where} holds dates or times ({example}); {way_out}, {rest}")


def _check_labelled(table: str, target: pd.Series) -> None:
    missing = target.isna().to_numpy()
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        found = (
            f"{missing.sum():,} of {len(target):,} rows have no label in '{target.name}' (first:"
            f" row {row})"
        )
        raise DataError(f"{table}: {found}; remove them")


def _classes(target: pd.Series, kind: Kind | None) -> tuple[np.ndarray, np.ndarray]:
    """Positions and sorted classes: whole numbers as integers, other numbers as floats, truth
    values as such, all else as text.
    """
    if kind != "categorical" and (is_number(target.dtype) or is_bool_dtype(target.dtype)):
        values = (
            target.to_numpy(dtype=bool) if is_bool_dtype(target.dtype) else exact_numbers(target)
        )
        if (
            values.dtype.kind == "f"
            and (values == np.round(values)).all()
            and np.abs(values).max() < 2**53
        ):
            values = values.astype(np.int64)
        classes, y = np.unique(values, return_inverse=True)
        return y, classes
    codes, names = sorted_codes(target)
    return codes.astype(np.int64), np.array(names)


def _numbers(table: str, target: pd.Series, rule: str) -> np.ndarray:
    """The target as Float64[n]; text that is numbers is read. What is none breaks ``rule``."""
    target = typed(target)
    numbers = target if is_number(target.dtype) else pd.to_numeric(target, errors="coerce")
    values = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    where = f"{table}: the target '{target.name}' has"
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise DataError(f"{where} '{target.iloc[row]}' in row {row}, and {rule}")
    if (np.abs(values) >= LARGEST).any():
        row = int(np.flatnonzero(np.abs(values) >= LARGEST)[0])
        why = "values from 1e18 on are usually codes for missing, and their squares lose all others"
        raise DataError(
            f"{where} {values[row]:g} in row {row}; {why}: remove the row, or rescale the target"
        )
    if is_number(numbers.dtype):
        classes = "'dataset.task=classification' takes them as classes"
        check_not_merged(where.removesuffix(" has"), exact_numbers(numbers), classes)
    return values
