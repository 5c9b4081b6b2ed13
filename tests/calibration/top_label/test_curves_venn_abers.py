"""Venn-Abers predictors against isotonic regressions with the new row added, incorrect and
correct.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression

from kdgraph.base import Rows
from kdgraph.calibration.top_label import VennAbers
from kdgraph.parents import PrecomputedScores

PARENT = FrozenEstimator(PrecomputedScores().fit(np.empty((0, 2))))


def binary_rows(s) -> np.ndarray:
    return np.stack([np.asarray(s, dtype=float), 1 - np.asarray(s, dtype=float)], axis=1)


def fit_calibrator(score, right, weight=None) -> VennAbers:
    model = VennAbers(PARENT, by_class=False)
    model.classes_, model.estimator_, model.n_features_in_ = np.arange(2), PARENT, 2
    rows = Rows(
        binary_rows(score),
        1 - np.asarray(right, dtype=int),
        np.ones(len(score)) if weight is None else np.asarray(weight, dtype=float),
    )
    model._fit_after(rows, rows)
    return model


def interval_by_refits(score, right, weight, new) -> np.ndarray:
    """Return p0 and p1 of each new score from two isotonic regressions."""
    intervals = []
    for s in new:
        pair = [
            IsotonicRegression()
            .fit(np.append(score, s), np.append(right, label), sample_weight=np.append(weight, 1.0))
            .predict([s])[0]
            for label in (0, 1)
        ]
        intervals.append(pair)
    return np.array(intervals)


WEIGHTED_ROWS = st.lists(
    st.tuples(st.integers(50, 60), st.booleans(), st.integers(1, 3)), min_size=1, max_size=30
)
REAL_ROWS = st.lists(
    st.tuples(st.floats(0.5, 1.0), st.booleans(), st.floats(0.1, 5.0)), min_size=1, max_size=30
)


@given(WEIGHTED_ROWS, st.lists(st.integers(500, 610), min_size=1, max_size=8))
def test_interval_is_two_isotonic_regressions_with_the_row_added(rows, new):
    score, right, weight = np.array(rows, dtype=float).T
    interval = fit_calibrator(score / 100, right, weight).predict_interval(
        binary_rows(np.array(new) / 1000)
    )
    np.testing.assert_allclose(
        interval, interval_by_refits(score / 100, right, weight, np.array(new) / 1000), atol=1e-12
    )  # sums are in another order


@given(REAL_ROWS)
def test_interval_with_real_weights_and_scores(rows):
    score, right, weight = np.array(rows, dtype=float).T
    score = np.round(score, 9)  # scikit-learn merges closer scores
    interval = fit_calibrator(score, right, weight).predict_interval(binary_rows(score))
    np.testing.assert_allclose(interval, interval_by_refits(score, right, weight, score), atol=1e-9)


def test_interval_of_many_rows_with_ties():
    rng = np.random.default_rng(0)
    score = rng.integers(60, 100, size=400) / 100
    right = rng.random(400) < score
    new = rng.uniform(0.55, 1, size=60)
    np.testing.assert_allclose(
        fit_calibrator(score, right).predict_interval(binary_rows(new)),
        interval_by_refits(score, right, np.ones(400), new),
        atol=1e-12,
    )


def test_confidence_lies_in_the_interval_near_isotonic_regression():
    rng = np.random.default_rng(0)
    score = rng.uniform(0.5, 1, size=20_000)
    right = rng.random(20_000) < score**2
    model = fit_calibrator(score, right)
    new = binary_rows(np.linspace(0.5, 1, 101))
    (p0, p1), confidence = model.predict_interval(new).T, model.predict_confidence(new)
    assert (p0 <= confidence).all() and (confidence <= p1).all()
    np.testing.assert_allclose(confidence, p1 / (1 - p0 + p1), rtol=1e-15)
    isotonic = IsotonicRegression(out_of_bounds="clip").fit(score, right).predict(new[:, 0])
    inside = slice(5, -5)  # the ends of isotonic regression depend on few rows
    assert (
        np.abs(confidence - isotonic)[inside].max() < 0.03
        and np.abs(confidence - new[:, 0] ** 2)[inside].max() < 0.06
    )


def test_interval_of_correct_rows_includes_one_incorrect_row():
    model = fit_calibrator(np.linspace(0.6, 0.9, 9), np.ones(9))
    np.testing.assert_allclose(
        model.predict_interval([[0.95, 0.05], [0.55, 0.45]]), [[0.9, 1.0], [0.0, 1.0]]
    )
    np.testing.assert_allclose(model.predict_confidence([[0.95, 0.05]]), 1 / 1.1)


def test_curves_by_class_are_separate_fits():
    rng = np.random.default_rng(0)
    parent = FrozenEstimator(PrecomputedScores().fit(np.empty((0, 3))))
    X, y = rng.dirichlet(np.ones(3), size=300), rng.integers(3, size=300)
    k = X.argmax(axis=1)
    with pytest.warns(
        UserWarning,
        match=r"^no calibration row is predicted as 2: the confidence there is that of all rows$",
    ) as caught:
        model = VennAbers(parent).fit(X, y, X_calibration=X[k != 2], y_calibration=y[k != 2])
    assert caught[0].filename == __file__
    confidence, interval = model.predict_confidence(X), model.predict_interval(X)
    for label in range(2):
        score, right = X[k == label].max(axis=1), (y == label)[k == label]
        np.testing.assert_allclose(
            interval[k == label],
            interval_by_refits(score, right, np.ones(len(score)), score),
            atol=1e-12,
        )
    assert (
        np.allclose(confidence[k == 2], (k == y)[k != 2].mean())
        and (interval[k == 2] == confidence[k == 2][:, None]).all()
    )
