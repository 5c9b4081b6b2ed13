"""Histogram binning against a loop over rows, and what it does where there is nothing to go by."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.frozen import FrozenEstimator

from kdgraph.base import Rows
from kdgraph.calibration.top_label import HistogramBinning
from kdgraph.metrics import TopLabel, ece
from kdgraph.parents import PrecomputedScores

PARENT = FrozenEstimator(PrecomputedScores().fit(np.empty((0, 3))))


def drawn(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(3), size=n), rng.integers(3, size=n)


def fitted(X, y, **options) -> HistogramBinning:
    return HistogramBinning(PARENT, **options).fit(X, y, X_calibration=X, y_calibration=y)


def naive(X, y, new, bins: int, by_class: bool) -> np.ndarray:
    """Row by row, from the definition: the bin is (lower, upper], 0 is in the first; an empty one
    has the precision of its class.
    """

    def bin_of(score: float) -> int:
        return next(b for b in range(bins) if score <= (b + 1) / bins)

    found = []
    for row in new:
        k, b = row.argmax(), bin_of(row.max())
        mine = [i for i in range(len(X)) if not by_class or X[i].argmax() == k]
        same = [i for i in mine if bin_of(X[i].max()) == b]
        found.append(np.mean([X[i].argmax() == y[i] for i in same or mine or range(len(X))]))
    return np.array(found)


@given(st.integers(0, 10_000), st.integers(1, 12), st.booleans())
def test_it_is_the_share_of_right_rows_in_the_bin(seed, bins, by_class):
    X, y = drawn(30, seed)
    new, _ = drawn(20, seed + 1)
    X[:3], y[:3] = (
        np.eye(3),
        [0, 1, 2],
    )  # every class is predicted, so that nothing is to be warned of, and scores of exactly 1
    found = fitted(X, y, bins=bins, by_class=by_class).predict_confidence(new)
    np.testing.assert_allclose(found, naive(X, y, new, bins, by_class), atol=1e-15)


def test_on_the_rows_that_it_was_fitted_on_its_ece_in_the_same_bins_is_0():
    X, y = drawn(500)
    model = fitted(X, y, by_class=False)
    top_label = TopLabel.of(X)
    again = TopLabel(top_label.predicted, model.predict_confidence(X))
    assert ece(y, again, bins=1000) < 1e-12 < ece(y, top_label, bins=10)  # round-off of means


def test_equal_shares_of_rows():
    X, y = drawn(600)
    model = fitted(X, y, strategy="mass", bins=4)
    for k, curve in enumerate(model.curves_):
        scores = X.max(axis=1)[X.argmax(axis=1) == k]
        assert np.ptp(np.histogram(scores, curve["edges"])[0]) <= 1


def test_predictions_stay_the_parents_also_below_one_in_k():
    X, y = drawn(300)
    model = fitted(X, (X.argmax(axis=1) + 1) % 3)  # never right
    np.testing.assert_array_equal(model.predict(X), X.argmax(axis=1))
    assert (model.predict_confidence(X) == 0).all()
    assert not hasattr(model, "predict_proba")
    assert y.shape == (300,)


def test_rows_of_probabilities_are_asked_for():
    X, y = drawn(300)
    X[0] = [1.0, 0.0, 0.0]  # nothing to share in proportion
    model = fitted(X, y, fill_proba=True)
    proba, confidence = model.predict_proba(X), model.predict_confidence(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(proba[np.arange(300), X.argmax(axis=1)], confidence, atol=1e-15)
    assert proba[0, 1] == proba[0, 2] == (1 - confidence[0]) / 2
    others = np.arange(300) != 0
    ratio = np.sort(proba[others])[:, 0] / np.sort(X[others])[:, 0]
    assert np.isfinite(ratio).all()


def test_a_class_that_is_never_predicted_is_named():
    X, y = drawn(60)
    X = X[X.argmax(axis=1) != 1]
    y = y[: len(X)]
    with pytest.warns(
        UserWarning,
        match=r"^no calibration row is predicted as 1: the confidence there is that of all rows$",
    ):
        model = fitted(X, y)
    assert model.predict_confidence([[0.1, 0.8, 0.1]])[0] == pytest.approx(
        (X.argmax(axis=1) == y).mean()
    )


def test_a_row_of_weight_two_is_two_rows():
    X, y = drawn(100)
    X[:3], y[:3] = np.eye(3), [0, 1, 2]
    weight = np.random.default_rng(1).integers(1, 3, size=100)
    weighted = HistogramBinning(PARENT)
    weighted.classes_ = np.arange(3)
    weighted._fit_scores(Rows(X, y, weight.astype(float)))
    twice = fitted(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    for a, b in zip(weighted.curves_, twice.curves_, strict=True):
        np.testing.assert_allclose(a["accuracy"], b["accuracy"], atol=1e-15)
