"""Prices of diamonds with their grades in order of quality, and carat on the scale on which prices are straight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from kdgraph.data.dataset import Dataset
from kdgraph.data.openml.table import OpenmlTable
from kdgraph.errors import DataError
from kdgraph.parameters import check_parameters

GRADES: dict[str, tuple[str, ...]] = {
    "cut": ("Fair", "Good", "Very Good", "Premium", "Ideal"),
    "color": ("J", "I", "H", "G", "F", "E", "D"),
    "clarity": ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"),
}
"""From worst to best, as ggplot2 documents them."""
_ID = 42225


class Diamonds:
    """Data set 42225 of openml.org, the diamonds of ggplot2: 53,940 rows, price in US dollars, with 9 features.

    Parameters
    ----------
    grades : of cut, color and clarity. ordinal: one number each, from 0 for the worst. one_hot: a column of 0 and 1 for each grade but the
        worst, so that a linear model with an intercept is not singular.
    log_carat : whether carat is replaced by its logarithm. A model of log price by carat itself explodes at the few large stones.
    columns : features that are used, by their names in the data set; none: all.
    name : what runs are called.

    Notes
    -----
    Torres et al. (2024), "Model-free local recalibration of neural networks", section 4.4, train on 70 %, recalibrate on 20 % and test on
    10 %, and do not say how features were encoded. A file with the same columns reads as ``dataset=table``, with grades by name.
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
        NotAtHand, DataError : in one line, if it cannot be had, or does not have the columns and grades.
        """
        return graded(self._table().load(), self.grades == "one_hot", self.log_carat, self.columns)

    def _table(self) -> OpenmlTable:
        return OpenmlTable(_ID, target="price", task="regression", name=self.name)


def graded(dataset: Dataset, one_hot: bool, log_carat: bool, columns: Sequence[str] = ()) -> Dataset:
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
        raise DataError(f"{dataset.name} has no column {missing[0]!r}; it has {', '.join(dataset.feature_names)}")
    found: dict[str, np.ndarray] = {}
    for name in kept:
        at = dataset.feature_names.index(name)
        values = dataset.X[:, at]
        if name in GRADES:
            found |= _of_grades(dataset, name, values, dataset.categories[at] if dataset.categories else None, one_hot)
        elif name == "carat" and log_carat:
            found["log carat"] = np.log(values)
        else:
            found[name] = values
    return replace(dataset, X=np.column_stack(list(found.values())), feature_names=tuple(found), categories=())


def _of_grades(dataset: Dataset, name: str, values: np.ndarray, known: tuple[str, ...] | None, one_hot: bool) -> dict[str, np.ndarray]:
    order = GRADES[name]
    if known is None or not set(known) <= set(order):
        raise DataError(f"{dataset.name}: {name} must have the grades {', '.join(order)}, got {', '.join(known or ('numbers',))}")
    rank = np.array([order.index(grade) for grade in known])[values.astype(np.intp)]
    if not one_hot:
        return {name: rank.astype(np.float64)}
    return {f"{name} {grade}": (rank == i).astype(np.float64) for i, grade in enumerate(order) if i}
