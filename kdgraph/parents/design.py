"""A design in front of a parent: which columns it sees, which of them on a logarithmic scale, which as indicators of their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from kdgraph.data.dataset import Dataset
from kdgraph.errors import DataError
from kdgraph.parameters import check_parameters
from kdgraph.parents.columns import Encoded, column_encoder


@dataclass(frozen=True)
class Design:
    """The design of a parent, by the names of features; what stands after the parent may still look at the rows as they are given.

    A design is a decision about one parent: a generalised linear model of prices wants the logarithm of a weight, and neighbours are
    looked for among the weights themselves (``where="given"`` of :class:`~kdgraph.recalibration.LocalPit`).

    Parameters
    ----------
    log : features that are replaced by their logarithm; they must be above 0.
    one_hot : features that get a column of 0 and 1 for each value that training rows have, beside those that are categorical anyway; all 0
        for another value.
    columns : features that are used, also of those above; none: all.
    standardize : all other columns to mean 0 and variance 1, logarithms too.

    Notes
    -----
    Ours. Missing numbers become the training rows' median. Columns that depend on each other, such as indicators of all values beside an
    intercept, are left to the parent; :class:`~kdgraph.parents.GammaGlm` takes them.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = np.array([[1.0, 0.0], [np.e, 1.0], [1.0, 1.0]]), np.array([0.0, 3.0, 1.0])
    >>> weighed = Dataset("weighed", X, y, np.empty(0), ("weight", "grade"), "regression")
    >>> parent = Design(log=("weight",), one_hot=("grade",)).around(LinearRegression(), weighed).fit(X, y)
    >>> parent[:-1].transform(X).round(6).tolist(), parent.predict(X).round(6).tolist()
    ([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 1.0]], [0.0, 3.0, 1.0])
    """

    log: Sequence[str] = ()
    one_hot: Sequence[str] = ()
    columns: Sequence[str] = ()
    standardize: bool = False

    def __post_init__(self) -> None:
        check_parameters(self)

    def around(self, estimator: Any, dataset: Dataset, *, has_missing: bool | None = None) -> Any:
        """``estimator`` behind its design of the columns of ``dataset``; itself for images; ours.

        Parameters
        ----------
        estimator : not fitted yet.
        dataset : the training rows.
        has_missing : as of :meth:`Preprocess.around`; here nothing depends on it.

        Raises
        ------
        DataError : of a feature that is not there.
        """
        if dataset.are_images:
            return estimator
        names = list(dataset.feature_names)
        for name in (*self.log, *self.one_hot, *self.columns):
            if name not in names:
                raise DataError(f"{dataset.name} has no column {name!r}; it has {', '.join(names)}")
        used = [names.index(name) for name in (self.columns or names)]
        logged = [i for i, at in enumerate(used) if names[at] in self.log]
        categorical = [names[at] in self.one_hot or bool(dataset.is_categorical[at]) for at in used]
        encoder = column_encoder(categorical, standardize=self.standardize)
        return Encoded([("selected", LogColumns(used, logged)), ("columns", encoder), ("model", estimator)])


class LogColumns(TransformerMixin, BaseEstimator):
    """Some columns of X, and of these some on a logarithmic scale; ours.

    Parameters
    ----------
    columns : positions in X.
    log : positions in ``columns`` of those that are replaced by their logarithm.

    Examples
    --------
    >>> LogColumns([2, 0], [0]).fit_transform([[5.0, 6.0, 1.0]]).tolist()
    [[0.0, 5.0]]
    """

    def __init__(self, columns: Sequence[int], log: Sequence[int] = ()) -> None:
        self.columns = columns
        self.log = log

    def fit(self, X, y=None):
        """Look at X: Float[n, d], and learn nothing but d.

        Raises
        ------
        DataError : of a number that has no logarithm.
        """
        self._selected(validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan"))
        return self

    def transform(self, X) -> np.ndarray:
        """Float[n, m] of X: Float[n, d], NaN where that is missing; DataError as :meth:`fit`."""
        check_is_fitted(self)
        return self._selected(validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan"))

    def _selected(self, X: np.ndarray) -> np.ndarray:
        found = X[:, list(self.columns)]
        for i in self.log:
            if (bad := found[:, i] <= 0).any():
                row = int(np.argmax(bad))
                raise DataError(f"column {self.columns[i]} must be above 0 for its logarithm, got {found[row, i]:g} in row {row}")
            found[:, i] = np.log(found[:, i])
        return found

    def __sklearn_tags__(self):
        """Missing values stay missing."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
