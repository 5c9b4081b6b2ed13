"""Tables of openml.org, chosen by number."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np

from kdgraph.data.dataset import ColumnKind, Dataset
from kdgraph.data.files.file_source import DerivedName
from kdgraph.data.frames import ColumnName, ColumnOptions, column_names, from_frame, stringify_names
from kdgraph.data.source import Source
from kdgraph.errors import DataError
from kdgraph.parameters import Count, Range

if TYPE_CHECKING:
    from kdgraph.data.openml.cache import OpenmlData
    from kdgraph.data.openml.client import FetchProgress


@dataclass(eq=False, repr=False)
class OpenmlTable(ColumnOptions):
    """Data set of openml.org, fetched once into the cache of openml-python and read from it.

    A feature is categorical in two cases: if OpenML describes it as nominal, whatever its values
    are, and if its values are not numbers, whatever OpenML describes. The first rule makes both
    kinds of files equal, because in ARFF a nominal column is always text. The second rule is
    necessary for computations. Row ids and columns that OpenML marks as ignored are left out.

    Parameters
    ----------
    id : int
        Number of the data set, as in openml.org/d/44.
    target : str or sequence of str, default=None
        Target column. For several columns of numbers or truth values, the class of a row is the
        column with the largest value. None for the default target of OpenML.
    task_id : int, default=None
        Number of an OpenML task on this data set; requires ``fold``.
    fold : int, default=None
        Fold of the task's first repetition, from 0: the rows of the fold test, the other rows
        train. Requires ``task_id``.
    name : str, default=None
        Name in runs; None for openml-<id>.

    Raises
    ------
    DataError
        If only one of ``task_id`` and ``fold`` is set.

    Examples
    --------
    >>> table = OpenmlTable(44, target="class", task_id=43, fold=0)
    >>> table.name
    'openml-44'
    """

    id: Count
    target: ColumnName | Sequence[ColumnName] | None = None
    task_id: Count | None = None
    fold: Annotated[int, Range(0)] | None = None
    name: DerivedName = None

    def __post_init__(self) -> None:
        self.name = self.name or f"openml-{self.id}"
        super().__post_init__()
        if (self.task_id is None) != (self.fold is None):
            raise DataError(
                f"{self.name}: task_id and fold belong together, got task_id {self.task_id} and"
                f" fold {self.fold}; give both or neither"
            )

    def prefetch(self, progress: FetchProgress | None = None) -> None:
        """Fetch the rows and the folds unless they are in the cache, and check ``require``."""
        from kdgraph.data.openml.client import fetch_dataset, fetch_task

        data = fetch_dataset(self.id, progress)
        if self.task_id is not None:
            fetch_task(self.task_id, self.id, progress)
        if self.require != "any":
            with warnings.catch_warnings():
                # The run reads the table again and then shows the warnings.
                warnings.simplefilter("ignore", UserWarning)
                self._read(data)

    def load(self) -> Dataset:
        """Return the whole table, after fetching it if necessary."""
        from kdgraph.data.openml.client import fetch_dataset

        return self._read(fetch_dataset(self.id))

    def _read(self, data: OpenmlData) -> Dataset:
        from kdgraph.data.openml.cache import read_cached_frame

        target = stringify_names(self.target) or self._default_target(data)
        group = column_names(self.group)
        # A column that is named in the parameters stays, even if OpenML marks it as ignored.
        uses = [target, group, self.split_groups, self.split_column, self.categorical]
        requested = {name for columns in uses for name in column_names(columns)}
        frame = read_cached_frame(data)
        unused = [name for name in data.left_out if name in frame and name not in requested]
        frame = frame.drop(columns=unused)
        settings = {option.name: getattr(self, option.name) for option in fields(ColumnOptions)}
        # An ignored column that is only named as a group must not become a feature.
        only_groups = [
            name for name in group if name in data.left_out and name not in self.categorical
        ]
        drop = [*(name for name in self.drop if name not in data.left_out), *only_groups]
        options = ColumnOptions(**{**settings, "drop": tuple(drop)})
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
            problem = "names several targets" if data.target else "names no target"
            columns = ", ".join(list(data.features)[:5]) + (", …" if len(data.features) > 5 else "")
            raise DataError(
                f"{self.name}: OpenML {problem} for data set {data.id}; choose a column:"
                f" dataset.target=… ({columns})"
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
"""Grades from worst to best, as documented by ggplot2."""
_DIAMONDS_ID = 42225


@dataclass(eq=False, repr=False)
class Diamonds(Source):
    """Prices of diamonds in US dollars: data set 42225 of openml.org, from ggplot2.

    It has 53,940 rows and 9 features.

    Parameters
    ----------
    grades : {"ordinal", "one_hot"}, default="ordinal"
        Encoding of cut, color and clarity. "ordinal" makes one number of each, from 0 for the worst
        grade. "one_hot" makes a column of 0 and 1 for each grade but the worst, so that a linear
        model with an intercept is not singular.
    log_carat : bool, default=False
        True to replace carat by its logarithm. A model of the logarithm of the price that uses
        carat directly predicts far too large prices for the few large stones.
    columns : sequence of str, default=()
        Names of the features to use; empty for all.
    name : str, default="diamonds_graded"
        Name in runs.

    Notes
    -----
    Torres et al. (2024), "Model-free local recalibration of neural networks", section 4.4, train on
    70 %, recalibrate on 20 % and test on 10 % of the rows. They do not report the encoding of the
    features. A file with the same columns can be read with ``dataset=table``; its grades are then
    encoded by name.

    Examples
    --------
    >>> Diamonds(grades="one_hot", log_carat=True).name
    'diamonds_graded'
    """

    grades: Literal["ordinal", "one_hot"] = "ordinal"
    log_carat: bool = False
    columns: Sequence[str] = ()
    name: str = "diamonds_graded"

    def prefetch(self, progress: FetchProgress | None = None) -> None:
        """Fetch the rows unless they are in the cache."""
        self._table().prefetch(progress)

    def load(self) -> Dataset:
        """Return the whole table, after fetching it if necessary."""
        return encode_grades(
            self._table().load(), self.grades == "one_hot", self.log_carat, self.columns
        )

    def _table(self) -> OpenmlTable:
        return OpenmlTable(_DIAMONDS_ID, target="price", task="regression", name=self.name)


def encode_grades(
    dataset: Dataset, one_hot: bool, log_carat: bool, columns: Sequence[str] = ()
) -> Dataset:
    """Return the data set of diamonds with numeric features only, X: Float[n, d].

    See :class:`Diamonds`. The features are those of ``columns``, in this order, or all.
    """
    names = tuple(columns) or dataset.feature_names
    if missing := [name for name in names if name not in dataset.feature_names]:
        raise DataError(
            f"{dataset.name} has no column {missing[0]!r}; it has"
            f" {', '.join(dataset.feature_names)}"
        )
    # A dict keeps the requested order, and one feature may become several columns.
    encoded: dict[str, np.ndarray] = {}
    for name in names:
        position = dataset.feature_names.index(name)
        values = dataset.X[:, position]
        if name in GRADES:
            grades = dataset.categories[position] if dataset.categories else None
            encoded |= _grade_columns(dataset.name, name, values, grades, one_hot)
        elif name == "carat" and log_carat:
            encoded["log carat"] = np.log(values)
        else:
            encoded[name] = values
    X, names = np.column_stack(list(encoded.values())), tuple(encoded)
    return replace(dataset, X=X, feature_names=names, categories=(), columns=())


def _grade_columns(
    table: str, name: str, values: np.ndarray, grades: tuple[str, ...] | None, one_hot: bool
) -> dict[str, np.ndarray]:
    order = GRADES[name]
    if grades is None or not set(grades) <= set(order):
        raise DataError(
            f"{table}: {name} must have the grades {', '.join(order)}, got"
            f" {', '.join(grades or ('numbers',))}"
        )
    # X contains positions among the sorted grade names; the rank follows the order of quality.
    rank = np.array([order.index(grade) for grade in grades])[values.astype(np.intp)]
    if not one_hot:
        return {name: rank.astype(np.float64)}
    return {f"{name} {grade}": (rank == i).astype(np.float64) for i, grade in enumerate(order) if i}
