"""Cumulative confidence against loops over rows, and its threshold against all candidates."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.frozen import FrozenEstimator

from kdgraph.calibration.top_label import CumulativeConfidence
from kdgraph.metrics import TopLabel, nll_top
from kdgraph.parents import PrecomputedScores

PARENT = FrozenEstimator(PrecomputedScores().fit(np.empty((0, 3))))


def draw_tied_scores(n: int, seed: int = 0, n_trees: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Return scores of a forest of few trees, with ties; every class is predicted."""
    rng = np.random.default_rng(seed)
    X = rng.multinomial(n_trees, rng.dirichlet(np.ones(3), size=n)) / n_trees
    X[:3] = np.eye(3)
    return X, rng.integers(3, size=n)


def fit_calibrator(X, y, **options) -> CumulativeConfidence:
    return CumulativeConfidence(PARENT, **options).fit(X, y, X_calibration=X, y_calibration=y)


def confidence_by_loop(X, y, row, theta: float) -> float:
    """Return the confidence of one row by its definition.

    Above all scores it is that of the highest one. A score of theta, up to rounding, counts above.
    """
    k, s, theta = row.argmax(), row.max(), theta - 1e-12  # (.4 + .5) / 2 is not the double 9 / 20
    class_rows = [
        (x.max(), int(label == k)) for x, label in zip(X, y, strict=True) if x.argmax() == k
    ]
    s = min(s, max(score for score, _ in class_rows))
    below = [right for score, right in class_rows if score < theta]
    return float(
        np.mean(
            below if s < theta and below else [right for score, right in class_rows if score >= s]
        )
    )


@given(st.integers(0, 10_000), st.integers(2, 30))
def test_confidence_is_the_accuracy_of_equal_or_higher_scores(seed, n_trees):
    X, y = draw_tied_scores(40, seed, n_trees)
    new, _ = draw_tied_scores(20, seed + 1)
    np.testing.assert_allclose(
        fit_calibrator(X, y).predict_confidence(new),
        [confidence_by_loop(X, y, row, -1) for row in new],
        atol=1e-12,
    )


@given(st.integers(0, 10_000))
def test_scores_below_the_median_form_one_bin(seed):
    X, y = draw_tied_scores(41, seed)
    new, _ = draw_tied_scores(20, seed + 1)
    medians = [np.median(X.max(axis=1)[X.argmax(axis=1) == k]) for k in range(3)]
    model = fit_calibrator(X, y, theta="median")
    assert [curve["theta"] for curve in model.curves_] == medians
    np.testing.assert_allclose(
        model.predict_confidence(new),
        [confidence_by_loop(X, y, row, medians[row.argmax()]) for row in new],
        atol=1e-12,
    )


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_best_theta_has_the_least_nll_of_all_scores(seed):
    X, y = draw_tied_scores(30, seed)
    predicted = X.argmax(axis=1)
    model = fit_calibrator(X, y, theta="best")
    for k, curve in enumerate(model.curves_):
        mask = predicted == k

        def loss(theta: float, mask=mask) -> float:
            confidence = np.array([confidence_by_loop(X, y, row, theta) for row in X[mask]])
            return nll_top(y[mask], TopLabel(predicted[mask], confidence))

        losses = {theta: loss(theta) for theta in np.unique(X.max(axis=1)[mask]).tolist()}
        assert losses[curve["theta"].item()] <= min(losses.values()) + 1e-12  # rounding of sums
        np.testing.assert_allclose(
            model.predict_confidence(X[mask]),
            [confidence_by_loop(X, y, row, curve["theta"]) for row in X[mask]],
            atol=1e-12,
        )


def test_describe_has_theta_by_class():
    X, y = draw_tied_scores(40)
    assert fit_calibrator(X, y).describe() == {"theta": {"0": None, "1": None, "2": None}}
    assert fit_calibrator(X, y, theta="median").describe()["theta"]["0"] == np.median(
        X.max(axis=1)[X.argmax(axis=1) == 0]
    )
