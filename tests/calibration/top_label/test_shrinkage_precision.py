"""The precision of each class against scikit-learn's."""

from __future__ import annotations

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import precision_score

from kdgraph.calibration.top_label import ClassPrecision
from kdgraph.parents import PrecomputedScores

PARENT = FrozenEstimator(PrecomputedScores().fit(np.empty((0, 3))))


def draw_rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(3), size=n), rng.integers(3, size=n)


def test_confidence_is_the_precision_at_every_score():
    X, y = draw_rows(200)
    model = ClassPrecision(PARENT).fit(X, y, X_calibration=X, y_calibration=y)
    expected = precision_score(y, X.argmax(axis=1), average=None)
    np.testing.assert_allclose(model.precision_, expected, atol=1e-15)
    new, _ = draw_rows(50, seed=1)
    np.testing.assert_array_equal(
        model.predict_confidence(new), model.precision_[new.argmax(axis=1)]
    )
