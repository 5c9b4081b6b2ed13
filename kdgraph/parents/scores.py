"""The parent of rows that are class scores already."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from kdgraph.errors import did_you_mean

TOLERANCE = 1e-6
"""How far a row may be from summing to 1."""


class GivenScores(ClassifierMixin, BaseEstimator):
    """A model that was trained elsewhere, of which only what it says is at hand: class probabilities, and maybe features. Ours.

    Parameters
    ----------
    given_layers : name and number of columns of each layer whose features stand in X behind the probabilities, in this order.

    Attributes
    ----------
    classes_ : [K], 0 to K - 1: the first columns of X.

    Examples
    --------
    >>> GivenScores().fit([[0.9, 0.1]], [0]).predict([[0.25, 0.75]])
    array([1])
    >>> GivenScores([("hidden", 1)]).fit([[0.9, 0.1, 5.0]], [0]).transform([[0.25, 0.75, 7.0]])
    array([[7.]])
    """

    def __init__(self, given_layers: Sequence[tuple[str, int]] = ()) -> None:
        self.given_layers = given_layers

    def fit(self, X, y=None):
        """Learn how many classes there are; X: Float[n, K + m], of any number of rows, 0 too; y is not used."""
        n_features = sum(width for _, width in self.given_layers)
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=0, ensure_min_features=2 + n_features)
        self.classes_ = np.arange(X.shape[1] - n_features)
        return self

    def predict_proba(self, X) -> np.ndarray:
        """Float[n, K]: the first columns of X.

        Raises
        ------
        ValueError
            A row that is no distribution.
        """
        proba = self._checked(X)[:, : len(self.classes_)]
        bad = np.flatnonzero((proba.min(axis=1) < 0) | (np.abs(proba.sum(axis=1) - 1) > TOLERANCE))
        if len(bad):
            raise ValueError(f"X must be class probabilities, row {bad[0]} sums to {proba[bad[0]].sum():g} ({len(bad)} such)")
        return proba

    def predict(self, X) -> np.ndarray:
        """Int[n]: the class of the largest probability."""
        return self.predict_proba(X).argmax(axis=1)

    def transform(self, X, layer: str | None = None) -> np.ndarray:
        """Float[n, m]: the features of the layer of that name; None: of the first one. As networks have it.

        Raises
        ------
        ValueError
            There is no such layer.
        """
        X, names = self._checked(X), [name for name, _ in self.given_layers]
        found = layer if layer is not None else next(iter(names), None)
        if not names:
            raise ValueError("the given scores have no features; name arrays of the file in dataset.features")
        if found not in names:
            known = did_you_mean(str(found), names, f"; they have {', '.join(names)}")
            raise ValueError(f"the given scores have no features '{found}'{known}")
        at = names.index(found)
        starts = len(self.classes_) + np.cumsum([0, *(width for _, width in self.given_layers)])
        return X[:, starts[at] : starts[at + 1]]

    def _checked(self, X) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=np.float64)
