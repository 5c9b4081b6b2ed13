"""From a data frame to a :class:`Dataset`: which column is the label, which are features, and what
kind each of them is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from kdgraph.data.dataset import ColumnKind, Dataset, TaskSetting
from kdgraph.data.frames.messages import (
    unknown_column_error,
    warn_constant_columns,
    warn_duplicate_rows,
)
from kdgraph.errors import DataError, NotAtHand
from kdgraph.parameters import Count
from kdgraph.wording import counted, some

if TYPE_CHECKING:
    import pandas as pd


ColumnName = str | float
"""The name of a column; of one that is a number, a command line may give the number."""
ColumnRequirement = Literal["any", "numeric"]
"""``numeric`` is the filter of Dey et al. (2024): a table with a categorical column or a missing
value is shut out.
"""


@dataclass(frozen=True)
class ColumnOptions:
    """What the user says about the columns of a table.

    Attributes
    ----------
    task : what the target is; ``auto`` decides by its values, see
    :func:`kdgraph.data.frames.targets.infer_task`.
    drop : columns that are not used.
    categorical : columns whose values are names although they are numbers, such as a month or a
    postal code.
    missing : cells of features to read as missing, text or numbers: ``["?", -1]``. A label is
    missing only where its cell is empty.
    split_groups : column of the groups of rows that stay together in a split, such as a patient's
    number; no feature.
    split_column : column that says of each row train, calibration, test or unused; no feature.
    require : ``numeric`` shuts out a table with categorical columns or missing values.
    threshold : cuts a numeric target into two classes, see
    :data:`kdgraph.data.frames.targets.Threshold`.
    group : whom a row belongs to, where groups are measured apart: a column, or several of numbers
        or truth values, of which the largest counts
        (:func:`kdgraph.data.frames.targets.encode_groups`). They are features too, unless ``drop`` has
        them; columns of the target may be among them, which :attr:`Dataset.facts` then tells.
    split_at : the last number of ``split_column`` that trains, and the last that calibrates; larger
    ones test. Empty: it has words.
    first_numeric : so many features alone, the first of the table that are numeric, so that tables
    of other columns have equally many.
    parse_dates : columns of dates or times, which become days since 1970-01-01 in UTC; times of day
    become shares of a day.
    date_format : their format as ``datetime.strptime`` has it, such as ``%d/%m/%Y``; None: the one
        that all cells of the column have.
    """

    task: TaskSetting = "auto"
    drop: Sequence[str] = ()
    categorical: Sequence[str] = ()
    missing: Sequence[str | float] = ()
    split_groups: str | None = None
    split_column: str | None = None
    require: ColumnRequirement = "any"
    threshold: float | Literal["median"] | None = None
    group: str | Sequence[str] | None = None
    split_at: Sequence[float] = ()
    first_numeric: Count | None = None
    parse_dates: Sequence[str] = ()
    date_format: str | None = None

    def __post_init__(self) -> None:
        if len(self.split_at) and self.split_column is None:
            raise DataError(
                "dataset.split_at says where roles end in the numbers of dataset.split_column, and"
                " that names no column"
            )
        if self.date_format is not None and not len(self.parse_dates):
            raise DataError(
                "dataset.date_format is the format of the columns of dataset.parse_dates, and that"
                " names no column"
            )


def from_frame(
    name: str,
    frame: pd.DataFrame,
    target: str | Sequence[str],
    *,
    options: ColumnOptions,
    facts: Mapping[str, Any] = {},
    feature_kinds: Mapping[str, ColumnKind] | None = None,
) -> Dataset:
    """A data set from a frame with one row for each sample.

    Parameters
    ----------
    name : of the data set, for its messages.
    frame : [n, columns]; numbers and truth values become numeric features, text and categories
    categorical ones.
    target : column of the labels, or several of numbers or truth values, of which the largest
    counts and is no feature.
    options : what the user says about the columns.
    facts : goes into :attr:`Dataset.facts`.
    feature_kinds : kinds by column where the source declares them; ``options.categorical`` has the
        last word.

    Returns
    -------
    Dataset
        X: Float64[n, d] with codes of the sorted values where a feature is categorical, NaN where a
        cell is missing.

    Raises
    ------
    DataError
        If a column is not there, labels are missing or only one, or a feature cannot be used.
    NotAtHand
        If ``options.require`` shuts the table out.

    Warns
    -----
    UserWarning
        If features are constant or number the rows, text differs in each row, or rows have the same
        features.
    """
    from kdgraph.data.frames.dates import convert_dates
    from kdgraph.data.frames.features import drop_row_index, encode_features
    from kdgraph.data.frames.messages import ColumnSettings
    from kdgraph.data.frames.targets import encode_groups, encode_target, target_column, task_facts

    frame = _stringify_columns(name, frame)
    _check_column_names(name, frame, target, options)
    given = ColumnSettings(options.drop, options.categorical, options.parse_dates, options.missing)
    frame, date_formats = convert_dates(name, frame, given, options.date_format)
    kinds: dict[str, ColumnKind] = {
        **(feature_kinds or {}),
        **dict.fromkeys(options.categorical, "categorical"),
    }
    targets = column_names(target)
    others = {*targets, *options.drop, options.split_groups, options.split_column}
    features = frame[[column for column in frame.columns if column not in others]]
    features = drop_row_index(name, features, given)
    if features.shape[1] == 0:
        aside = f"the {len(frame.columns) - len(targets)} columns put aside"
        raise DataError(
            f"{name}: no feature is left beside the target '{some(targets)}' and {aside}"
        )
    of_groups = column_names(options.group)
    shared = [column for column in of_groups if column in targets]
    labels, said = target_column(name, frame, target, options.threshold, options.task)
    declared = kinds.get(target) if isinstance(target, str) and options.threshold is None else None
    y, classes, task = encode_target(name, labels, options.task, declared, given)
    groups, group_names = (
        (None, ()) if options.group is None else encode_groups(name, "group", frame, options.group)
    )
    X, categories = encode_features(name, features, kinds, given)
    if options.first_numeric is not None:
        chosen = _first_numeric(name, categories, options.first_numeric)
        features, X, categories = features.iloc[:, chosen], X[:, chosen], (None,) * len(chosen)
    if options.require == "numeric":
        _require_numeric(name, X, categories, features.columns)
    warn_constant_columns(name, X, list(features.columns))
    warn_duplicate_rows(name, X)
    more: dict[str, Any] = {"target_and_group": ", ".join(shared)} if shared else {}
    more |= {"date_formats": date_formats} if date_formats else {}
    more |= task_facts(y, options.task, task)
    return Dataset(
        name,
        X,
        y,
        classes,
        tuple(features.columns),
        task,
        split_groups=(
            None
            if options.split_groups is None
            else encode_groups(name, "split_groups", frame, options.split_groups)[0]
        ),
        groups=groups,
        group_names=group_names,
        groups_are_target=bool(shared) and set(targets) == set(of_groups),
        categories=categories if any(categories) else (),
        roles=_prescribed_roles(name, frame, options),
        facts={**facts, **said, **more},
    )


def _first_numeric(name: str, categories: Sequence[Any], n: int) -> np.ndarray:
    """Int[n], places of the first features that are numeric."""
    numeric = np.flatnonzero([values is None for values in categories])
    if len(numeric) < n:
        raise DataError(
            f"{name} has {len(numeric)} numeric features, and dataset.first_numeric asks for {n};"
            " ask for fewer"
        )
    return numeric[:n]


def column_names(columns: ColumnName | Sequence[ColumnName] | None) -> list[str]:
    """Return the names of columns that are named as one, as several, or not at all.

    >>> column_names("age"), column_names([2019, "a,b"]), column_names(None)
    (['age'], ['2019', 'a,b'], [])
    """
    named = stringify_names(columns)
    return [] if named is None else [named] if isinstance(named, str) else list(named)


@overload
def stringify_names(columns: ColumnName) -> str: ...
@overload
def stringify_names(columns: Sequence[ColumnName]) -> list[str]: ...
@overload
def stringify_names(columns: None) -> None: ...
@overload
def stringify_names(columns: ColumnName | Sequence[ColumnName]) -> str | list[str]: ...
def stringify_names(columns: Any) -> Any:
    """Return names of columns as text where they are numbers: one, several in a list, or None. All
    else stays, to be refused.
    """
    if isinstance(columns, Sequence) and not isinstance(columns, str):
        return [stringify_names(column) for column in columns]
    return str(columns) if isinstance(columns, Real) and not isinstance(columns, bool) else columns


def _prescribed_roles(name: str, frame: pd.DataFrame, options: ColumnOptions) -> np.ndarray | None:
    """Int8[n], as ``split_column`` says; None without one."""
    from kdgraph.data.frames.roles import roles_from_names, roles_from_numbers

    if options.split_column is None:
        return None
    column = frame[options.split_column]
    return (
        roles_from_numbers(name, column, options.split_at)
        if len(options.split_at)
        else roles_from_names(name, column)
    )


def _stringify_columns(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """The same cells under column names that are text, each of them once, and at least one row."""
    columns = [str(column) for column in frame.columns]
    if twice := sorted(
        {column for column in columns if columns.count(column) > 1}
        if len(set(columns)) < len(columns)
        else ()
    ):
        raise DataError(
            f"{name}: several columns have the same name ({some(twice)}); give each column its own"
        )
    if len(frame) == 0:
        raise DataError(f"{name}: the table has {len(columns)} columns and no rows")
    return frame.set_axis(columns, axis=1)


def _check_column_names(
    name: str, frame: pd.DataFrame, target: str | Sequence[str], options: ColumnOptions
) -> None:
    """Every column that is named is there, and the target is nothing else, but the group where
    classes are measured apart.
    """
    targets = column_names(target)
    if not targets:
        raise DataError(
            f"{name}: dataset.target must name a column, or several, got {list(target)}"
        )
    if options.group is not None and not column_names(options.group):
        raise DataError(
            f"{name}: dataset.group must name a column, or several, got {list(options.group)};"
            " without groups it is null"
        )
    named = {
        "target": targets,
        "drop": options.drop,
        "categorical": options.categorical,
        "group": column_names(options.group),
        "split_groups": column_names(options.split_groups),
        "split_column": column_names(options.split_column),
        "parse_dates": options.parse_dates,
    }
    for key, columns in named.items():
        for column in columns:
            if column not in frame.columns:
                raise unknown_column_error(name, key, str(column), list(frame.columns))
            if column in targets and key not in ("target", "categorical", "group", "parse_dates"):
                raise DataError(
                    f"{name}: '{column}' is the target, and dataset.{key} names it too; it can be"
                    " one of both"
                )
    for key in ("categorical", "group"):
        if both := [column for column in options.parse_dates if column in named[key]]:
            raise DataError(
                f"{name}: '{both[0]}' is in dataset.parse_dates, and dataset.{key} names it too; it"
                " can be one of both"
            )


def _require_numeric(
    name: str, X: np.ndarray, categories: Sequence[Any], columns: Sequence[str]
) -> None:
    """Raise NotAtHand if a feature is categorical or a cell missing."""
    found = []
    if named := [
        column for column, values in zip(columns, categories, strict=True) if values is not None
    ]:
        found.append(f"{counted(len(named), 'categorical column')} ({some(named)})")
    if missing := int(np.isnan(X).sum()):
        found.append(counted(missing, "missing cell"))
    if found:
        raise NotAtHand(
            f"{name} has {' and '.join(found)}, and dataset.require=numeric shuts it out;"
            " dataset.require=any lets it in"
        )
