"""The parent of rows that are class scores already."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

TOLERANCE = 1e-6
"""How far a row may be from summing to 1."""


class GivenScores(ClassifierMixin, BaseEstimator):
    """A model that was trained elsewhere, of which only class probabilities are at hand: X is what it predicts. Ours.

    Attributes
    ----------
    classes_ : [K], 0 to K - 1: the columns of X.

    Examples
    --------
    >>> GivenScores().fit([[0.9, 0.1]], [0]).predict([[0.25, 0.75]])
    array([1])
    """

    def fit(self, X, y=None):
        """Learn how many classes there are; X: Float[n, K], of any number of rows, 0 too; y is not used."""
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=0, ensure_min_features=2)
        self.classes_ = np.arange(X.shape[1])
        return self

    def predict_proba(self, X) -> np.ndarray:
        """Float[n, K]: X itself.

        Raises
        ------
        ValueError
            A row that is no distribution.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        bad = np.flatnonzero((X.min(axis=1) < 0) | (np.abs(X.sum(axis=1) - 1) > TOLERANCE))
        if len(bad):
            raise ValueError(f"X must be class probabilities, row {bad[0]} sums to {X[bad[0]].sum():g} ({len(bad)} such)")
        return X

    def predict(self, X) -> np.ndarray:
        """Int[n]: the class of the largest probability."""
        return self.predict_proba(X).argmax(axis=1)
