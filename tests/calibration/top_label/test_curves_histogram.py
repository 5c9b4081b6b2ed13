"""Histogram binning against a loop over rows, and for empty bins and classes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.frozen import FrozenEstimator

from kdgraph.calibration.top_label import HistogramBinning
from kdgraph.metrics import TopLabel, ece
from kdgraph.parents import PrecomputedScores

PARENT = FrozenEstimator(PrecomputedScores().fit(np.empty((0, 3))))


def draw_rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(3), size=n), rng.integers(3, size=n)


def fit_calibrator(X, y, **options) -> HistogramBinning:
    return HistogramBinning(PARENT, **options).fit(X, y, X_calibration=X, y_calibration=y)


def accuracy_by_loops(X, y, new, bins: int, by_class: bool) -> np.ndarray:
    """Return the accuracy of the bin (lower, upper] of each row, by loops.

    A score of 0 is in the first bin. An empty bin has the accuracy of its class.
    """

    def bin_of(score: float) -> int:
        return next(b for b in range(bins) if score <= (b + 1) / bins)

    accuracies = []
    for row in new:
        k, b = row.argmax(), bin_of(row.max())
        in_class = [i for i in range(len(X)) if not by_class or X[i].argmax() == k]
        in_bin = [i for i in in_class if bin_of(X[i].max()) == b]
        accuracies.append(
            np.mean([X[i].argmax() == y[i] for i in in_bin or in_class or range(len(X))])
        )
    return np.array(accuracies)


@given(st.integers(0, 10_000), st.integers(1, 12), st.booleans())
def test_confidence_is_the_accuracy_of_the_bin(seed, bins, by_class):
    X, y = draw_rows(30, seed)
    new, _ = draw_rows(20, seed + 1)
    X[:3], y[:3] = (
        np.eye(3),
        [0, 1, 2],
    )  # every class is predicted, so that there is no warning; scores of exactly 1
    confidence = fit_calibrator(X, y, bins=bins, by_class=by_class).predict_confidence(new)
    np.testing.assert_allclose(confidence, accuracy_by_loops(X, y, new, bins, by_class), atol=1e-15)


def test_ece_of_calibration_rows_in_the_same_bins_is_0():
    X, y = draw_rows(500)
    model = fit_calibrator(X, y, by_class=False)
    top_label = TopLabel.from_proba(X)
    calibrated = TopLabel(top_label.predicted, model.predict_confidence(X))
    assert ece(y, calibrated, bins=1000) < 1e-12 < ece(y, top_label, bins=10)  # rounding of means


def test_bins_of_equal_mass_have_equal_numbers_of_rows():
    X, y = draw_rows(600)
    model = fit_calibrator(X, y, strategy="mass", bins=4)
    for k, curve in enumerate(model.curves_):
        scores = X.max(axis=1)[X.argmax(axis=1) == k]
        assert np.ptp(np.histogram(scores, curve["edges"])[0]) <= 1


def test_parent_predictions_are_kept_below_confidence_1_in_k():
    X, y = draw_rows(300)
    model = fit_calibrator(X, (X.argmax(axis=1) + 1) % 3)  # never correct
    np.testing.assert_array_equal(model.predict(X), X.argmax(axis=1))
    assert (model.predict_confidence(X) == 0).all()
    assert not hasattr(model, "predict_proba")
    assert y.shape == (300,)


def test_fill_proba_adds_predict_proba():
    X, y = draw_rows(300)
    X[0] = [1.0, 0.0, 0.0]  # the other probabilities are 0
    model = fit_calibrator(X, y, fill_proba=True)
    proba, confidence = model.predict_proba(X), model.predict_confidence(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(proba[np.arange(300), X.argmax(axis=1)], confidence, atol=1e-15)
    assert proba[0, 1] == proba[0, 2] == (1 - confidence[0]) / 2
    has_remainder = np.arange(300) != 0
    ratio = np.sort(proba[has_remainder])[:, 0] / np.sort(X[has_remainder])[:, 0]
    assert np.isfinite(ratio).all()
