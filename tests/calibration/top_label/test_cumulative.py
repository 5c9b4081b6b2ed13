"""Cumulative confidence against loops over rows, and its cut-off against every other one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.frozen import FrozenEstimator

from kdgraph.base import Rows
from kdgraph.calibration.top_label import CumulativeConfidence
from kdgraph.metrics import TopLabel, nll_top
from kdgraph.parents import PrecomputedScores

PARENT = FrozenEstimator(PrecomputedScores().fit(np.empty((0, 3))))


def drawn(n: int, seed: int = 0, votes: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Scores that are counts of votes, with ties; every class is predicted."""
    rng = np.random.default_rng(seed)
    X = rng.multinomial(votes, rng.dirichlet(np.ones(3), size=n)) / votes
    X[:3] = np.eye(3)
    return X, rng.integers(3, size=n)


def fitted(X, y, **options) -> CumulativeConfidence:
    return CumulativeConfidence(PARENT, **options).fit(X, y, X_calibration=X, y_calibration=y)


def naive(X, y, row, theta: float) -> float:
    """From the definition; above all scores it is as at the highest, and theta itself is above the
    cut, also a rounded one.
    """
    k, s, theta = row.argmax(), row.max(), theta - 1e-12  # (.4 + .5) / 2 is not the double 9 / 20
    mine = [(x.max(), int(label == k)) for x, label in zip(X, y, strict=True) if x.argmax() == k]
    s = min(s, max(score for score, _ in mine))
    below = [right for score, right in mine if score < theta]
    return float(
        np.mean(below if s < theta and below else [right for score, right in mine if score >= s])
    )


@given(st.integers(0, 10_000), st.integers(2, 30))
def test_confidence_is_accuracy_of_rows_with_equal_or_higher_scores(seed, votes):
    X, y = drawn(40, seed, votes)
    new, _ = drawn(20, seed + 1)
    np.testing.assert_allclose(
        fitted(X, y).predict_confidence(new), [naive(X, y, row, -1) for row in new], atol=1e-12
    )


@given(st.integers(0, 10_000))
def test_scores_below_the_median_share_one_bin(seed):
    X, y = drawn(41, seed)
    new, _ = drawn(20, seed + 1)
    medians = [np.median(X.max(axis=1)[X.argmax(axis=1) == k]) for k in range(3)]
    model = fitted(X, y, theta="median")
    assert [curve["theta"] for curve in model.curves_] == medians
    np.testing.assert_allclose(
        model.predict_confidence(new),
        [naive(X, y, row, medians[row.argmax()]) for row in new],
        atol=1e-12,
    )


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_no_observed_score_cuts_better_than_the_best(seed):
    X, y = drawn(30, seed)
    predicted = X.argmax(axis=1)
    model = fitted(X, y, theta="best")
    for k, curve in enumerate(model.curves_):
        mine = predicted == k

        def loss(theta: float, mine=mine) -> float:
            confidence = np.array([naive(X, y, row, theta) for row in X[mine]])
            return nll_top(y[mine], TopLabel(predicted[mine], confidence))

        losses = {theta: loss(theta) for theta in np.unique(X.max(axis=1)[mine]).tolist()}
        assert losses[curve["theta"].item()] <= min(losses.values()) + 1e-12  # round-off of sums
        np.testing.assert_allclose(
            model.predict_confidence(X[mine]),
            [naive(X, y, row, curve["theta"]) for row in X[mine]],
            atol=1e-12,
        )


@pytest.mark.parametrize("theta", ["none", "median", "best"])
def test_a_row_of_weight_two_is_two_rows(theta):
    X, y = drawn(101)
    weight = np.random.default_rng(1).integers(1, 3, size=101)
    weighted = CumulativeConfidence(PARENT, theta=theta)
    weighted.classes_ = np.arange(3)
    weighted._fit_scores(Rows(X, y, weight.astype(float)))
    twice = fitted(np.repeat(X, weight, axis=0), np.repeat(y, weight), theta=theta)
    new, _ = drawn(100, seed=2)
    np.testing.assert_allclose(
        weighted._confidence(new, TopLabel.of(new)), twice.predict_confidence(new), atol=1e-12
    )


def test_summary_contains_cutoffs():
    X, y = drawn(40)
    assert fitted(X, y).describe() == {"theta": {"0": None, "1": None, "2": None}}
    assert fitted(X, y, theta="median").describe()["theta"]["0"] == np.median(
        X.max(axis=1)[X.argmax(axis=1) == 0]
    )


def test_never_predicted_class_is_named_in_a_warning():
    X, y = drawn(60)
    X[X.argmax(axis=1) == 1] = [1.0, 0.0, 0.0]
    with pytest.warns(
        UserWarning,
        match=r"^no calibration row is predicted as 1: the confidence there is that of all rows$",
    ):
        model = fitted(X, y, theta="best")
    assert model.predict_confidence([[0.1, 0.8, 0.1]])[0] == pytest.approx(
        (X.argmax(axis=1) == y).mean()
    )
    assert model.describe()["theta"]["1"] is None
