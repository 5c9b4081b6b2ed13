"""Rows predicted alone and beside others, which may differ by rounding only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

TOLERANCE = 1e-10
"""Sums of float64 with some hundred terms of size 1 are rounded by 1e-14 at most; 1e-10 leaves room
for what is made of them.
"""


def assert_rows_agree(found: Any, expected: Any) -> None:
    """Assert that the values of the same rows agree up to rounding: BLAS adds in an order that
    depends on a row's place in a block.
    """
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


def assert_independent(
    predict: Callable[[Any], np.ndarray], X: np.ndarray, rng: np.random.Generator
) -> None:
    """Assert that a row's prediction is the same alone, in a part of the rows, and in another
    order, up to rounding.
    """
    together, order, cut = predict(X), rng.permutation(len(X)), len(X) // 3
    assert_rows_agree(np.concatenate([predict(X[i : i + 1]) for i in range(len(X))]), together)
    assert_rows_agree(np.concatenate([predict(X[:cut]), predict(X[cut:])]), together)
    assert_rows_agree(predict(X[order]), together[order])


class RoundedDifferently(ClassifierMixin, BaseEstimator):
    """A classifier whose probabilities are its features, off by a few last bits that depend on a
    row's place, as behind any BLAS.
    """

    def fit(self, X: np.ndarray, y: np.ndarray) -> RoundedDifferently:
        self.classes_ = np.unique(y)
        self.n_features_in_ = X.shape[1]
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Float[n, K], of X: Float[n, K]; rows sum to 1 up to rounding."""
        off = np.random.default_rng(len(X)).integers(-3, 4, np.shape(X))
        return np.clip(X * (1 + off * np.finfo(float).eps), 0.0, 1.0)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
