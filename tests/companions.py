"""Comparison of predictions of rows alone and among others, up to rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

TOLERANCE = 1e-10
"""Sums of some hundred float64 terms of size 1 have a rounding error of at most 1e-14; 1e-10 also
covers functions of them.
"""


def assert_rows_agree(actual: Any, expected: Any) -> None:
    """Assert that values of the same rows agree up to rounding.

    BLAS adds in an order that depends on the position of a row in its block.
    """
    np.testing.assert_allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE)


def assert_independent(
    predict: Callable[[Any], np.ndarray], X: np.ndarray, rng: np.random.Generator
) -> None:
    """Assert that predictions do not depend on other rows or their order, up to rounding."""
    together, order, third = predict(X), rng.permutation(len(X)), len(X) // 3
    assert_rows_agree(np.concatenate([predict(X[i : i + 1]) for i in range(len(X))]), together)
    assert_rows_agree(np.concatenate([predict(X[:third]), predict(X[third:])]), together)
    assert_rows_agree(predict(X[order]), together[order])


class RoundedScores(ClassifierMixin, BaseEstimator):
    """Classifier whose probabilities are its features with other last bits in each call.

    The last bits depend on the number of rows and on the position of a row, as with any BLAS.
    """

    def fit(self, X: np.ndarray, y: np.ndarray) -> RoundedScores:
        self.classes_ = np.unique(y)
        self.n_features_in_ = X.shape[1]
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return probabilities of rows Float[n, K], which sum to 1 up to rounding, Float[n, K]."""
        last_bits = np.random.default_rng(len(X)).integers(-3, 4, np.shape(X))
        return np.clip(X * (1 + last_bits * np.finfo(float).eps), 0.0, 1.0)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
