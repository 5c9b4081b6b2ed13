"""Tables of openml.org, by their number.

Prices of diamonds with their grades in order of quality, and carat on the scale on which prices are
straight.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np

from kdgraph.data.dataset import ColumnKind, Dataset, TaskSetting
from kdgraph.data.frames import (
    ColumnName,
    ColumnOptions,
    ColumnRequirement,
    column_names,
    from_frame,
    stringify_names,
)
from kdgraph.errors import DataError
from kdgraph.parameters import Count, Range, check_parameters

if TYPE_CHECKING:
    from kdgraph.data.openml.cache import OpenmlData
    from kdgraph.data.openml.client import FetchProgress


class OpenmlTable:
    """A data set of openml.org: fetched once into the cache of openml-python, read from there.

    A feature is categorical if OpenML describes it as nominal, whatever its values are, and if its
    values are no numbers, whatever OpenML says. The first keeps a set the same through both kinds
    of files (in ARFF a nominal column is always text), the second is what can be computed with. Row
    ids and columns that OpenML says to ignore are left out.

    Parameters
    ----------
    id : of the data set, as in openml.org/d/44.
    target : a column, or several of numbers or truth values, of which the largest counts; None for
    the default target of OpenML. task, drop, categorical, missing, split_groups, split_column,
    require, threshold, group, split_at, first_numeric,
    parse_dates, date_format : as in
        :class:`kdgraph.data.frames.ColumnOptions`.
    task_id, fold : a task of OpenML on this data set and one fold of it (of its first repetition):
        the fold's rows test, the others train. Both or none.
    name : what runs are called; None for openml-<id>.
    """

    def __init__(
        self,
        id: Count,
        target: ColumnName | Sequence[ColumnName] | None = None,
        task: TaskSetting = "auto",
        drop: Sequence[ColumnName] = (),
        categorical: Sequence[ColumnName] = (),
        missing: Sequence[str | float] = (),
        split_groups: ColumnName | None = None,
        split_column: ColumnName | None = None,
        require: ColumnRequirement = "any",
        task_id: Count | None = None,
        fold: Annotated[int, Range(0)] | None = None,
        name: str | None = None,
        threshold: float | Literal["median"] | None = None,
        group: ColumnName | Sequence[ColumnName] | None = None,
        split_at: Sequence[float] = (),
        first_numeric: Count | None = None,
        parse_dates: Sequence[ColumnName] = (),
        date_format: str | None = None,
    ) -> None:
        self.id = id
        self.target = stringify_names(target)
        self.task: TaskSetting = task
        self.drop = stringify_names(drop)
        self.categorical = stringify_names(categorical)
        self.missing = missing
        self.split_groups = stringify_names(split_groups)
        self.split_column = stringify_names(split_column)
        self.require: ColumnRequirement = require
        self.task_id = task_id
        self.fold = fold
        self.threshold: float | Literal["median"] | None = threshold
        self.group = stringify_names(group)
        self.split_at = split_at
        self.first_numeric = first_numeric
        self.parse_dates = stringify_names(parse_dates)
        self.date_format = date_format
        self.name = name or f"openml-{id}"
        check_parameters(self)
        if (task_id is None) != (fold is None):
            raise DataError(
                f"{self.name}: task_id and fold belong together, got task_id {task_id} and fold"
                f" {fold}; give both or neither"
            )

    def prefetch(self, progress: FetchProgress | None = None) -> None:
        """Make sure that the rows, and the task's folds, are on this machine, and that ``require``
        lets them in.

        Raises
        ------
        NotAtHand : in one line, if not.
        """
        from kdgraph.data.openml.client import fetch_dataset, fetch_task

        data = fetch_dataset(self.id, progress)
        if self.task_id is not None:
            fetch_task(self.task_id, progress)
        if self.require != "any":
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", UserWarning
                )  # the run reads the table again, and tells
                self._read(data)

    def load(self) -> Dataset:
        """The whole table; fetched first if it is not there.

        Raises
        ------
        NotAtHand, DataError : in one line, if it cannot be had or used.
        """
        from kdgraph.data.openml.client import fetch_dataset

        return self._read(fetch_dataset(self.id))

    def _read(self, data: OpenmlData) -> Dataset:
        from kdgraph.data.openml.cache import read_cached_frame

        target = self.target or self._default_target(data)
        group = column_names(self.group)
        kept = {
            *column_names(target),
            *group,
            self.split_groups,
            self.split_column,
            *self.categorical,
        }
        frame = read_cached_frame(data)
        frame = frame.drop(
            columns=[name for name in data.left_out if name in frame and name not in kept]
        )
        given = {option.name: getattr(self, option.name) for option in fields(ColumnOptions)}
        only_groups = [
            name for name in group if name in data.left_out and name not in self.categorical
        ]
        drop = [*(name for name in self.drop if name not in data.left_out), *only_groups]
        options = ColumnOptions(**{**given, "drop": tuple(drop)})
        nominal: dict[str, ColumnKind] = {
            name: "categorical"
            for name, kind in data.features.items()
            if kind == "nominal" and name in frame
        }
        dataset = from_frame(
            self.name, frame, target, options=options, facts=data.facts, feature_kinds=nominal
        )
        return dataset if self.task_id is None else self._with_fold(dataset)

    def _default_target(self, data: OpenmlData) -> str:
        if data.target is None or ("," in data.target and data.target not in data.features):
            found = (
                f"names {'several targets' if data.target else 'no target'} for data set {data.id}"
            )
            columns = ", ".join(list(data.features)[:5]) + (", …" if len(data.features) > 5 else "")
            raise DataError(
                f"{self.name}: OpenML {found}; choose a column: dataset.target=… ({columns})"
            )
        return data.target

    def _with_fold(self, dataset: Dataset) -> Dataset:
        from kdgraph.data.openml.client import read_fold

        assert self.task_id is not None and self.fold is not None
        roles, facts = read_fold(self.task_id, self.fold, self.id, len(dataset.y))
        return replace(dataset, roles=roles, facts={**dataset.facts, **facts})


GRADES: dict[str, tuple[str, ...]] = {
    "cut": ("Fair", "Good", "Very Good", "Premium", "Ideal"),
    "color": ("J", "I", "H", "G", "F", "E", "D"),
    "clarity": ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"),
}
"""From worst to best, as ggplot2 documents them."""
_DIAMONDS_ID = 42225


class Diamonds:
    """Data set 42225 of openml.org, the diamonds of ggplot2: 53,940 rows, price in US dollars, with
    9 features.

    Parameters
    ----------
    grades : of cut, color and clarity. ordinal: one number each, from 0 for the worst. one_hot: a
        column of 0 and 1 for each grade but the worst, so that a linear model with an intercept is
        not singular.
    log_carat : whether carat is replaced by its logarithm. A model of log price by carat itself
    explodes at the few large stones.
    columns : features that are used, by their names in the data set; none: all.
    name : what runs are called.

    Notes
    -----
    Torres et al. (2024), "Model-free local recalibration of neural networks", section 4.4, train on
    70 %, recalibrate on 20 % and test on 10 %, and do not say how features were encoded. A file
    with the same columns reads as ``dataset=table``, with grades by name.
    """

    def __init__(
        self,
        grades: Literal["ordinal", "one_hot"] = "ordinal",
        log_carat: bool = False,
        columns: Sequence[str] = (),
        name: str = "diamonds_graded",
    ) -> None:
        self.grades: Literal["ordinal", "one_hot"] = grades
        self.log_carat = log_carat
        self.columns = columns
        self.name = name
        check_parameters(self)

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Make sure that the rows are on this machine.

        Raises
        ------
        NotAtHand : in one line, if they cannot be had.
        """
        self._table().prefetch(progress)

    def load(self) -> Dataset:
        """The whole table; fetched first if it is not there.

        Raises
        ------
        NotAtHand, DataError : in one line, if it cannot be had, or does not have the columns and
            grades.
        """
        return encode_grades(
            self._table().load(), self.grades == "one_hot", self.log_carat, self.columns
        )

    def _table(self) -> OpenmlTable:
        return OpenmlTable(_DIAMONDS_ID, target="price", task="regression", name=self.name)


def encode_grades(
    dataset: Dataset, one_hot: bool, log_carat: bool, columns: Sequence[str] = ()
) -> Dataset:
    """The data set with numeric features alone; ours, see :class:`Diamonds`.

    Parameters
    ----------
    dataset : with the features of the diamonds, X: Float[n, d].
    one_hot : a column for each grade but the worst, instead of one number.
    log_carat : the logarithm of carat in its place.
    columns : features that are kept, in this order; none: all.

    Raises
    ------
    DataError : of a column that is not there, or of a grade that nobody knows.
    """
    kept = tuple(columns) or dataset.feature_names
    if missing := [name for name in kept if name not in dataset.feature_names]:
        raise DataError(
            f"{dataset.name} has no column {missing[0]!r}; it has"
            f" {', '.join(dataset.feature_names)}"
        )
    found: dict[str, np.ndarray] = {}
    for name in kept:
        at = dataset.feature_names.index(name)
        values = dataset.X[:, at]
        if name in GRADES:
            found |= _grade_columns(
                dataset,
                name,
                values,
                dataset.categories[at] if dataset.categories else None,
                one_hot,
            )
        elif name == "carat" and log_carat:
            found["log carat"] = np.log(values)
        else:
            found[name] = values
    return replace(
        dataset, X=np.column_stack(list(found.values())), feature_names=tuple(found), categories=()
    )


def _grade_columns(
    dataset: Dataset, name: str, values: np.ndarray, known: tuple[str, ...] | None, one_hot: bool
) -> dict[str, np.ndarray]:
    order = GRADES[name]
    if known is None or not set(known) <= set(order):
        raise DataError(
            f"{dataset.name}: {name} must have the grades {', '.join(order)}, got"
            f" {', '.join(known or ('numbers',))}"
        )
    rank = np.array([order.index(grade) for grade in known])[values.astype(np.intp)]
    if not one_hot:
        return {name: rank.astype(np.float64)}
    return {f"{name} {grade}": (rank == i).astype(np.float64) for i, grade in enumerate(order) if i}
