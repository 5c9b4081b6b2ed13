"""Sample weights and classes without rows, for every calibrator of top-label confidence."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from kdgraph.base import Rows
from kdgraph.calibration.top_label import (
    BetaCalibration,
    ClassPrecision,
    CumulativeConfidence,
    HistogramBinning,
    IsotonicConfidence,
    KernelDensityConfidence,
    TemperatureScaling,
    VennAbers,
)
from kdgraph.metrics import TopLabel
from kdgraph.parents import PrecomputedScores

PARENT = FrozenEstimator(PrecomputedScores().fit(np.empty((0, 3))))
CALIBRATORS = {
    "histogram": HistogramBinning(PARENT, bins=5),
    "kde": KernelDensityConfidence(PARENT),
    "cum": CumulativeConfidence(PARENT, theta="none"),
    "cum from the median": CumulativeConfidence(PARENT, theta="median"),
    "cum from the best": CumulativeConfidence(PARENT, theta="best"),
    "beta": BetaCalibration(PARENT),
    "isotonic": IsotonicConfidence(PARENT),
    "Venn-Abers": VennAbers(PARENT),
    "precision": ClassPrecision(PARENT),
    "csts": TemperatureScaling(PARENT, by_class=True),
    "cstswa": TemperatureScaling(PARENT, by_class=True, awards=True),
}
STEPS = ("histogram", "cum", "cum from the best", "isotonic", "precision")


def draw_rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return scores with ties, whose predictions are correct with the probability score²."""
    rng = np.random.default_rng(seed)
    X = rng.multinomial(20, rng.dirichlet(np.full(3, 0.7), size=n)) / 20
    top = X.argmax(axis=1)
    right = rng.random(n) < X.max(axis=1) ** 2
    return X, np.where(right, top, (top + rng.integers(1, 3, size=n)) % 3)


@pytest.mark.parametrize("pool", [0.0, 5.0])
@pytest.mark.parametrize("name", CALIBRATORS)
def test_weight_two_equals_two_rows(name, pool):
    """Fits that minimise a loss stop at a gradient of 1e-7."""
    (X, y), (new, _) = draw_rows(150), draw_rows(50, seed=1)
    weight = np.random.default_rng(1).integers(0, 3, size=150)
    twice = np.repeat(X, weight, axis=0), np.repeat(y, weight)
    repeated, weighted = (clone(CALIBRATORS[name]).set_params(pool=pool) for _ in range(2))
    weighted.classes_ = np.arange(3)
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        repeated.fit(*twice, X_calibration=twice[0], y_calibration=twice[1])
        weighted._fit_scores(Rows(X, y, weight.astype(float)))
    minimises = isinstance(weighted, TemperatureScaling | BetaCalibration)
    np.testing.assert_allclose(
        weighted._confidence(new, TopLabel.from_proba(new)),
        repeated.predict_confidence(new),
        atol=1e-5 if minimises else 1e-8,
    )


@pytest.mark.parametrize("name", STEPS)
def test_warning_names_classes_that_are_never_predicted(name):
    X, y = draw_rows(60)
    mask = X.argmax(axis=1) != 1
    X, y = X[mask], y[mask]
    model = clone(CALIBRATORS[name])
    with pytest.warns(
        UserWarning,
        match=r"^no calibration row is predicted as 1: the confidence there is that of all rows$",
    ) as caught:
        model.fit(X, y, X_calibration=X, y_calibration=y)
    assert caught[0].filename == __file__
    accuracy = (X.argmax(axis=1) == y).mean()
    assert model.predict_confidence([[0.1, 0.8, 0.1]])[0] == pytest.approx(accuracy)
    assert model.describe().get("theta", {}).get("1") is None
