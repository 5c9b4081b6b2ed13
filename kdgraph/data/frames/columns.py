"""Conversion of a data frame to a :class:`Dataset` by the columns that the user names."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kdgraph.data.dataset import ColumnKind, Dataset, TaskSetting
from kdgraph.data.frames.messages import (
    ColumnReference,
    ColumnSettings,
    unknown_column_error,
    warn_constant_columns,
    warn_copies_of_target,
    warn_duplicate_rows,
)
from kdgraph.data.mapped_rows import mapped_blocks
from kdgraph.data.source import Source
from kdgraph.errors import DataError, DataNotAvailable
from kdgraph.parameters import Count
from kdgraph.wording import counted, some

if TYPE_CHECKING:
    import pandas as pd

    from kdgraph.data.files.arrow import ParquetNumbers
    from kdgraph.data.frames.source_columns import SourceTypes


ColumnName = str | float
"""Name of a column; for a name that is a number, a command line may contain the number."""
ColumnRequirement = Literal["any", "numeric"]
"""Requirement for all columns; ``numeric`` is the filter of Dey et al. (2024).

It excludes a table with a categorical column or a missing value.
"""


@dataclass(eq=False, repr=False, kw_only=True)
class ColumnOptions(Source):
    """Description of the columns of a table by the user.

    Numbers among the names of columns become text.

    Parameters
    ----------
    task : TaskSetting, default="auto"
        Type of the target. ``auto``: text, and up to 20 different integers, are classes, see
        :func:`kdgraph.data.frames.targets.infer_task`.
    drop : sequence of str, default=()
        Columns that are not used.
    categorical : sequence of str, default=()
        Columns whose values are names although they are numbers, such as a month or a postal code.
    missing : sequence of str or float, default=()
        Cells of features to read as missing, such as ``["?", -1]``. A label is missing only if its
        cell is empty.
    split_groups : str or None, default=None
        Column of the groups of rows that stay together in a split, such as the number of a patient.
        It is not a feature.
    split_column : str or None, default=None
        Column with the role of each row: train, calibration, test or unused. It is not a feature.
    require : ColumnRequirement, default="any"
        ``numeric`` excludes tables with categorical columns or missing values.
    threshold : float, "median" or None, default=None
        Value that divides a numeric target into two classes, see
        :data:`kdgraph.data.frames.targets.Threshold`.
    group : str, sequence of str or None, default=None
        Group of each row, for metrics by group: a column, or several of numbers or truth values, of
        which the largest counts (:func:`kdgraph.data.frames.targets.encode_groups`). These columns
        are features too, unless ``drop`` contains them. Columns of the target may be among them;
        :attr:`Dataset.facts` then lists these.
    split_at : sequence of float, default=()
        The last number of ``split_column`` that trains, and the last that calibrates. Rows with
        larger numbers test. Empty if the column contains words.
    first_numeric : int or None, default=None
        Number of features to use, the first numeric ones of the table, so that tables with
        different columns have equally many.
    parse_dates : sequence of str, default=()
        Columns of dates or times. They become days since 1970-01-01 in UTC, and times of day become
        fractions of a day.
    date_format : str or None, default=None
        Format of these columns for ``datetime.strptime``, such as ``%d/%m/%Y``. None infers the
        format that all cells of a column have.

    Raises
    ------
    DataError
        If ``split_at`` is given without ``split_column``, or ``date_format`` without
        ``parse_dates``.

    Examples
    --------
    >>> from kdgraph.data.frames import ColumnOptions
    >>> options = ColumnOptions(drop=["id"], categorical=["month"], missing=["?", -1])
    >>> options.task, options.require
    ('auto', 'any')
    """

    task: TaskSetting = "auto"
    drop: Sequence[ColumnName] = ()
    categorical: Sequence[ColumnName] = ()
    missing: Sequence[str | float] = ()
    split_groups: ColumnName | None = None
    split_column: ColumnName | None = None
    require: ColumnRequirement = "any"
    threshold: float | Literal["median"] | None = None
    group: ColumnName | Sequence[ColumnName] | None = None
    split_at: Sequence[float] = ()
    first_numeric: Count | None = None
    parse_dates: Sequence[ColumnName] = ()
    date_format: str | None = None

    def __post_init__(self) -> None:
        for key in (
            *("target", "drop", "categorical", "split_groups", "split_column", "group"),
            "parse_dates",
        ):
            if hasattr(self, key):
                setattr(self, key, stringify_names(getattr(self, key)))
        super().__post_init__()
        if len(self.split_at) and self.split_column is None:
            raise DataError(
                "dataset.split_at defines where roles end in the numbers of dataset.split_column,"
                " and that names no column"
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
    types: SourceTypes | None = None,
    numbers: ParquetNumbers | None = None,
) -> Dataset:
    """Return a data set from a frame with one row for each sample.

    Parameters
    ----------
    name : str
        Name of the data set, for its messages.
    frame : DataFrame, [n, columns]
        Numbers and truth values become numeric features; text and categories become categorical
        ones.
    target : str or sequence of str
        Column of the labels; or several of numbers or truth values, of which the largest counts.
    options : ColumnOptions
        Description of the columns by the user.
    facts : mapping, default={}
        Entries for :attr:`Dataset.facts`.
    feature_kinds : mapping or None, default=None
        Kinds of columns that the source declares. ``options.categorical`` overrides them.
    types : SourceTypes or None, default=None
        Types of the source where they are not those of ``frame``.
    numbers : ParquetNumbers or None, default=None
        Features that ``frame`` lacks, which are read in blocks.

    Returns
    -------
    Dataset
        X is Float64[n, d] with the codes of the sorted values where a feature is categorical, and
        NaN where a cell is missing.

    Raises
    ------
    DataError
        If a column does not exist, labels are missing or all equal, or a feature cannot be used.
    DataNotAvailable
        If ``options.require`` excludes the table.

    Warns
    -----
    UserWarning
        If features are constant or number the rows, text differs in each row, or rows have the same
        features.

    Examples
    --------
    >>> import pandas as pd
    >>> from kdgraph.data.frames import ColumnOptions, from_frame
    >>> frame = pd.DataFrame({"size": [2, None], "hue": ["red", "blue"], "ripe": ["no", "yes"]})
    >>> dataset = from_frame("fruit", frame, "ripe", options=ColumnOptions())
    >>> dataset.X.tolist(), dataset.categories
    ([[2.0, 1.0], [nan, 0.0]], (None, ('blue', 'red')))
    >>> dataset.y.tolist(), dataset.classes.tolist()
    ([0, 1], ['no', 'yes'])
    """
    from kdgraph.data.frames.dates import convert_dates
    from kdgraph.data.frames.features import (
        check_numeric_features,
        drop_row_index,
        encode_features,
        join_numbers,
    )
    from kdgraph.data.frames.source_columns import SourceTypes, describe_columns
    from kdgraph.data.frames.targets import encode_groups, encode_target, target_column, task_facts

    # Names are checked before any value is read, so that a typo is reported first. Dates become
    # numbers before features and target are separated, because either may contain them.
    frame = with_text_names(name, frame)
    if len(frame) == 0:
        raise DataError(f"{name}: the table has {frame.shape[1]} columns and no rows")
    columns = list(frame.columns) if numbers is None else numbers.column_order
    _check_column_names(name, columns, target, options)
    settings = ColumnSettings(
        column_names(options.drop),
        column_names(options.categorical),
        column_names(options.parse_dates),
        options.missing,
    )
    as_read, types = frame, types or SourceTypes()
    frame, date_formats = convert_dates(name, frame, settings, options.date_format)
    kinds: dict[str, ColumnKind] = {
        **(feature_kinds or {}),
        **dict.fromkeys(settings.categorical, "categorical"),
    }
    targets = column_names(target)
    excluded = {*targets, *settings.drop, options.split_groups, options.split_column}
    features = frame[[column for column in frame.columns if column not in excluded]]
    _check_missing_labels(name, frame, types, targets)
    streamed = [] if numbers is None else numbers.names
    features = drop_row_index(name, features, settings, len(streamed))
    names = [column for column in columns if column in features or column in streamed]
    if not names:
        raise DataError(
            f"{name}: no feature is left besides the target '{some(targets)}' and the"
            f" {len(columns) - len(targets)} columns put aside"
        )
    # A target among the group columns is allowed, for metrics by true class; the record lists it.
    group_columns = column_names(options.group)
    shared_columns = [column for column in group_columns if column in targets]
    labels, target_facts = target_column(name, frame, target, options.threshold, options.task)
    # A threshold, or several target columns, make new labels; a declared kind does not apply.
    declared_kind = (
        kinds.get(target) if isinstance(target, str) and options.threshold is None else None
    )
    y, classes, task = encode_target(name, labels, options.task, declared_kind, settings)
    groups, group_names = None, ()
    if options.group is not None:
        by_column = stringify_names(options.group)
        groups, group_names = encode_groups(name, "group", frame, by_column)
    X, categories = encode_features(name, features, kinds, settings)
    if numbers is not None:
        positions = [names.index(column) for column in features.columns]
        blocks = numbers.blocks(streamed)
        X = join_numbers(X, positions, blocks, len(names), options.missing)
        by_name = dict(zip(features.columns, categories, strict=True))
        categories = tuple(by_name.get(column) for column in names)
    check_numeric_features(name, X, names, settings)
    of_text = [column for column, texts in zip(names, categories, strict=True) if texts is not None]
    _warn_of_missing_words(name, types, of_text)
    source_columns = describe_columns(
        as_read,
        X,
        names,
        categories,
        types=types,
        streamed={} if numbers is None else numbers.types,
        dates=date_formats,
        reference=lambda column: ColumnReference(name, column, settings),
    )
    if options.first_numeric is not None:
        positions = _first_numeric(name, categories, options.first_numeric)
        names, X = [names[j] for j in positions], X[:, positions]
        source_columns = tuple(source_columns[j] for j in positions)
        categories = (None,) * len(positions)
    # This check follows the choice of features, because only those that are used must be numeric.
    if options.require == "numeric":
        _require_numeric(name, X, categories, names)
    warn_constant_columns(name, X, names)
    warn_copies_of_target(name, X, y, names, settings)
    warn_duplicate_rows(name, X)
    facts = {**facts, **target_facts, **task_facts(y, options.task, task)}
    if shared_columns:
        facts["target_and_group"] = ", ".join(shared_columns)
    if date_formats:
        facts["date_formats"] = date_formats
    split_groups = None
    if options.split_groups is not None:
        by_column = stringify_names(options.split_groups)
        split_groups = encode_groups(name, "split_groups", frame, by_column)[0]
    return Dataset(
        name,
        X,
        y,
        classes,
        tuple(names),
        task,
        split_groups=split_groups,
        groups=groups,
        group_names=group_names,
        groups_are_target=bool(shared_columns) and set(targets) == set(group_columns),
        categories=categories if any(categories) else (),
        columns=source_columns,
        roles=_prescribed_roles(name, frame, options),
        facts=facts,
    )


def _check_missing_labels(
    table: str, frame: pd.DataFrame, types: SourceTypes, targets: Sequence[str]
) -> None:
    for column in targets:
        if words := types.missing_words.get(column):
            n_missing = int(frame[column].isna().sum())
            raise DataError(
                f"{table}: {some([repr(word) for word in words])} is read as missing, in"
                f" {n_missing:,} of {len(frame):,} labels in '{column}'; {types.as_values(words)}"
                " takes it as a label"
            )


def _warn_of_missing_words(table: str, types: SourceTypes, features: Sequence[str]) -> None:
    found = {name: types.missing_words[name] for name in features if name in types.missing_words}
    if found:
        words = sorted({word for of_column in found.values() for word in of_column})
        warnings.warn(
            f"{table}: {some([repr(word) for word in words])} is read as missing in the text of"
            f" {some([repr(name) for name in found])}; {types.as_values(words)} takes it as text",
            stacklevel=3,
        )


def _first_numeric(name: str, categories: Sequence[Any], n: int) -> np.ndarray:
    numeric = np.flatnonzero([values is None for values in categories])
    if len(numeric) < n:
        raise DataError(
            f"{name} has {len(numeric)} numeric features, and dataset.first_numeric is {n};"
            " set it to fewer"
        )
    return numeric[:n]


def column_names(columns: ColumnName | Sequence[ColumnName] | None) -> list[str]:
    """Return the names of columns that are given as one name, several, or None.

    >>> column_names("age"), column_names([2019, "a,b"]), column_names(None)
    (['age'], ['2019', 'a,b'], [])
    """
    names = stringify_names(columns)
    return [] if names is None else [names] if isinstance(names, str) else list(names)


def stringify_names(columns: Any) -> Any:
    """Return names of columns with numbers converted to text.

    Examples
    --------
    >>> from kdgraph.data.frames import stringify_names
    >>> stringify_names([0, "age", 2.5]), stringify_names(7), stringify_names(None)
    (['0', 'age', '2.5'], '7', None)
    """
    if isinstance(columns, Sequence) and not isinstance(columns, str):
        return [stringify_names(column) for column in columns]
    return str(columns) if isinstance(columns, Real) and not isinstance(columns, bool) else columns


def _prescribed_roles(name: str, frame: pd.DataFrame, options: ColumnOptions) -> np.ndarray | None:
    from kdgraph.data.frames.roles import roles_from_names, roles_from_numbers

    if options.split_column is None:
        return None
    column = frame[options.split_column]
    if len(options.split_at):
        return roles_from_numbers(name, column, options.split_at)
    return roles_from_names(name, column)


def with_text_names(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame [n, columns] with text as names of columns, which must differ."""
    frame = frame.set_axis([str(column) for column in frame.columns], axis=1)
    if duplicates := sorted(set(frame.columns[frame.columns.duplicated()])):
        raise DataError(
            f"{name}: several columns have the same name ({some(duplicates)}); give each column"
            " its own"
        )
    return frame


def _check_column_names(
    name: str, known: Sequence[str], target: str | Sequence[str], options: ColumnOptions
) -> None:
    """Raise DataError unless columns exist and the target has no second use but a group."""
    targets = column_names(target)
    if not targets:
        raise DataError(
            f"{name}: dataset.target must name a column, or several, got {list(target)}"
        )
    if options.group is not None and not column_names(options.group):
        raise DataError(
            f"{name}: dataset.group must name a column, or several, got {options.group};"
            " without groups it is null"
        )
    # The order of the keys is that of the messages: an unknown target is reported first.
    columns_by_key = {
        "target": targets,
        "drop": options.drop,
        "categorical": options.categorical,
        "group": column_names(options.group),
        "split_groups": column_names(options.split_groups),
        "split_column": column_names(options.split_column),
        "parse_dates": options.parse_dates,
    }
    for key, columns in columns_by_key.items():
        for column in columns:
            if column not in known:
                raise unknown_column_error(name, key, str(column), known)
            if column in targets and key not in ("target", "categorical", "group", "parse_dates"):
                raise DataError(
                    f"{name}: '{column}' is the target, and dataset.{key} names it too; it can be"
                    " one of both"
                )
    for key in ("categorical", "group"):
        for column in options.parse_dates:
            if column in columns_by_key[key]:
                raise DataError(
                    f"{name}: '{column}' is in dataset.parse_dates, and dataset.{key} names it too;"
                    " it can be one of both"
                )


def _require_numeric(
    name: str, X: np.ndarray, categories: Sequence[Any], columns: Sequence[str]
) -> None:
    problems = []
    pairs = zip(columns, categories, strict=True)
    if categorical := [column for column, values in pairs if values is not None]:
        problems.append(f"{counted(len(categorical), 'categorical column')} ({some(categorical)})")
    if missing := sum(int(np.isnan(X[rows]).sum()) for rows in mapped_blocks(X)):
        problems.append(counted(missing, "missing cell"))
    if problems:
        raise DataNotAvailable(
            f"{name} has {' and '.join(problems)}, and dataset.require=numeric shuts it out;"
            " dataset.require=any lets it in"
        )
