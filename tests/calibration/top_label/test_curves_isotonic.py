"""Isotonic confidence against scikit-learn's regression."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression

from kdgraph.base import Rows
from kdgraph.calibration.top_label import IsotonicConfidence
from kdgraph.parents import PrecomputedScores

PARENT = FrozenEstimator(PrecomputedScores().fit(np.empty((0, 3))))


def draw_rows(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.dirichlet(np.ones(3), size=n)
    return np.round(X, 2) / np.round(X, 2).sum(axis=1, keepdims=True), rng.integers(3, size=n)


@pytest.mark.parametrize("by_class", [True, False])
def test_confidence_equals_scikit_learn_isotonic_regression(by_class):
    X, y = draw_rows()
    new, _ = draw_rows(300, 1)
    weight = np.random.default_rng(2).integers(0, 3, size=400).astype(float)
    model = IsotonicConfidence(PARENT, by_class=by_class)
    model.classes_, model.estimator_ = np.arange(3), PARENT
    model._fit_after(Rows(X, y, weight), Rows(X, y, weight))
    model.n_features_in_ = 3
    confidence, predicted = model.predict_confidence(new), X.argmax(axis=1)
    for k in range(3) if by_class else [None]:
        mask, new_mask = (
            (predicted == k, new.argmax(axis=1) == k) if by_class else (slice(None), slice(None))
        )
        regression = IsotonicRegression(out_of_bounds="clip").fit(
            X[mask].max(axis=1), (predicted == y)[mask], sample_weight=weight[mask]
        )
        np.testing.assert_allclose(
            confidence[new_mask], regression.predict(new[new_mask].max(axis=1)), rtol=1e-12
        )  # two ways to interpolate


def test_fitted_curves_are_monotonic_arrays():
    X, y = draw_rows()
    model = IsotonicConfidence(PARENT).fit(X, y, X_calibration=X, y_calibration=y)
    assert all(
        set(curve) == {"score", "accuracy"} and (np.diff(curve["accuracy"]) >= 0).all()
        for curve in model.curves_
    )
