"""Pooling against its formula in loops, at both of its ends, and where classes have few rows or
none.
"""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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
from kdgraph.calibration.top_label.base import N_FOLDS, draw_folds
from kdgraph.calibration.top_label.shrinkage import POOL_GRID
from kdgraph.errors import ParameterError
from kdgraph.metrics import TopLabel
from kdgraph.parents import PrecomputedScores

PARENT = FrozenEstimator(PrecomputedScores().fit(np.empty((0, 4))))
CURVES = [
    HistogramBinning(PARENT, bins=5),
    KernelDensityConfidence(PARENT, bandwidth=0.1),
    CumulativeConfidence(PARENT, theta="median"),
    BetaCalibration(PARENT),
    IsotonicConfidence(PARENT),
    VennAbers(PARENT),
]
OTHERS = [
    ClassPrecision(PARENT),
    TemperatureScaling(PARENT, by_class=True),
    TemperatureScaling(PARENT, by_class=True, awards=True),
]
NAMES = [
    "histogram",
    "kde",
    "cum_plus",
    "beta",
    "isotonic",
    "venn_abers",
    "precision",
    "csts",
    "cstswa",
]


def drawn(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of four classes, of which the last is predicted seldom, and the second is right less
    often than its scores say.
    """
    rng = np.random.default_rng(seed)
    X = rng.dirichlet([1.0, 0.7, 0.7, 0.15], size=n)
    top_label = X.argmax(axis=1)
    right = rng.random(n) < X.max(axis=1) * np.array([1.0, 0.6, 0.9, 1.0])[top_label]
    return X, np.where(right, top_label, (top_label + rng.integers(1, 4, size=n)) % 4)


def fitted(model, X, y, **options):
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return type(model)(**{**model.get_params(deep=False), **options}).fit(
            X, y, X_calibration=X, y_calibration=y
        )


def own_of_all(model, X, y):
    """The same calibrator without classes: what they share."""
    if isinstance(model, TemperatureScaling):
        return fitted(model, X, y, by_class=False, awards=False)
    return fitted(model, X, y, by_class=False)


def rows_behind(model, X, y, k: int, s: float) -> float:
    """How many calibration rows the confidence of class k at the score s stands on, counted one by
    one.
    """
    scores, right = (
        [row[k] for row in X if row.argmax() == k],
        {label == k for row, label in zip(X, y, strict=True) if row.argmax() == k},
    )
    if len(right) < 2 and isinstance(model, KernelDensityConfidence):  # no curve
        return len(scores)
    if isinstance(model, HistogramBinning):
        return sum(np.ceil(5 * t) == np.ceil(5 * s) for t in scores)
    if isinstance(model, KernelDensityConfidence):
        s = min(max(s, min(scores)), max(scores))
        return sum(np.exp(-((s - t) ** 2) / (2 * 0.1**2)) for t in scores)
    if isinstance(model, CumulativeConfidence):
        below = [t for t in scores if t < np.median(scores)]
        return (
            len(below) if s < np.median(scores) else sum(t >= min(s, max(scores)) for t in scores)
        )
    return len(scores)


@pytest.mark.parametrize("model", CURVES + OTHERS, ids=NAMES)
def test_it_is_the_mean_of_so_many_rows_of_its_own_and_so_many_of_all(model):
    (X, y), (new, _) = drawn(300), drawn(40, seed=1)
    pooled, own = (
        fitted(model, X, y, pool=7.0).predict_confidence(new),
        fitted(model, X, y).predict_confidence(new),
    )
    shared = np.full(len(new), (X.argmax(axis=1) == y).mean())
    if not isinstance(model, ClassPrecision):
        shared = own_of_all(model, X, y).predict_confidence(new)
    n = np.array([rows_behind(model, X, y, row.argmax(), row.max()) for row in new])
    tolerance = (
        2e-3 if isinstance(model, KernelDensityConfidence) else 1e-12
    )  # between the points of a grid n and c are straight
    np.testing.assert_allclose(pooled, (n * own + 7 * shared) / (n + 7), atol=tolerance)
    assert np.abs(pooled - own).max() > 0.005


@pytest.mark.parametrize("model", CURVES + OTHERS, ids=NAMES)
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_its_ends_are_each_class_by_itself_and_what_all_share(model, seed):
    (X, y), (new, _) = drawn(150, seed), drawn(30, seed + 1)
    own, least = (fitted(model, X, y, pool=pool).predict_confidence(new) for pool in (0.0, 1e-13))
    most = fitted(model, X, y, pool=1e13).predict_confidence(new)
    with_own = np.array(
        [
            (
                rows_behind(model, X, y, row.argmax(), row.max()) > 1e-3
                if (X.argmax(1) == row.argmax()).any()
                else 0
            )
            for row in new
        ]
    )
    np.testing.assert_allclose(least[with_own == 1], own[with_own == 1], atol=1e-9)
    if isinstance(model, ClassPrecision):
        np.testing.assert_allclose(most, (X.argmax(axis=1) == y).mean(), atol=1e-9)
    else:
        np.testing.assert_allclose(most, own_of_all(model, X, y).predict_confidence(new), atol=1e-9)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.floats(0, 1e4), min_size=2, max_size=5))
def test_the_more_that_is_pooled_the_nearer_to_what_all_share(seed, pools):
    (X, y), (new, _) = drawn(80, seed), drawn(20, seed + 1)
    shared = own_of_all(CURVES[0], X, y).predict_confidence(new)
    away = [
        np.abs(fitted(CURVES[0], X, y, pool=pool).predict_confidence(new) - shared)
        for pool in sorted(pools)
        if pool > 0
    ]
    assert all((more <= less + 1e-12).all() for less, more in pairwise(away))


@pytest.mark.parametrize("model", CURVES + OTHERS, ids=NAMES)
def test_a_class_that_is_never_predicted_or_always_right_leans_on_the_others_and_nothing_is_to_be_warned_of(
    model,
):
    X, y = drawn(300)
    top_label = X.argmax(axis=1)
    y = np.where(top_label == 2, 2, y)  # always right
    X, y = X[top_label != 3], y[top_label != 3]  # never predicted
    new = np.array([[0.1, 0.1, 0.7, 0.1], [0.1, 0.1, 0.1, 0.7]])
    model = type(model)(**{**model.get_params(deep=False), "pool": 10.0})
    found = model.fit(X, y, X_calibration=X, y_calibration=y).predict_confidence(
        new
    )  # a warning would be an error
    shared = (
        (top_label[top_label != 3] == y).mean()
        if isinstance(model, ClassPrecision)
        else own_of_all(model, X, y).predict_confidence(new)[1]
    )
    assert found[1] == pytest.approx(shared, abs=1e-12)
    assert found[0] < 1


def test_it_chooses_the_pool_by_the_nll_of_rows_that_were_left_out():
    """In loops, with the public estimator, on the folds that the seed draws."""
    X, y = drawn(200)
    model = HistogramBinning(PARENT, pool="cv", random_state=3)
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        model.fit(X, y, X_calibration=X, y_calibration=y)
    top_label = TopLabel.of(X)
    fold = draw_folds(top_label.predicted, top_label.correct(y), N_FOLDS, np.random.RandomState(3))
    expected = np.zeros(len(POOL_GRID))
    for f in range(N_FOLDS):
        part = fitted(model, X[fold != f], y[fold != f], pool=1.0)
        for i, pool in enumerate(POOL_GRID):
            part.pool_ = pool
            for row, label, c in zip(
                X[fold == f], y[fold == f], part.predict_confidence(X[fold == f]), strict=True
            ):
                c = np.clip(c, 1e-12, 1 - 1e-12)
                expected[i] -= np.log(c if row.argmax() == label else 1 - c) / 200
    np.testing.assert_allclose(model.pool_nll_, expected, rtol=1e-9)
    assert model.pool_ == POOL_GRID[int(np.argmin(expected))] and 0 < model.pool_ < POOL_GRID[-1]
    assert model.describe() == {
        "pool": model.pool_,
        "pool_nll": pytest.approx({f"{m:g}": e for m, e in zip(POOL_GRID, expected, strict=True)}),
    }


@pytest.mark.parametrize(
    "model",
    [HistogramBinning(PARENT), TemperatureScaling(PARENT, by_class=True)],
    ids=["histogram", "csts"],
)
def test_it_pools_alike_classes_more_than_different_ones(model):
    """Of 20 rows a class: all classes as sure as they say, or half of them never right."""
    rng = np.random.default_rng(0)
    found = {}
    for differ in (False, True):
        k, s = np.arange(320) % 16, rng.uniform(0.5, 0.9, size=320)
        X = np.repeat((1 - s[:, None]) / 15, 16, axis=1)
        X[np.arange(320), k] = s
        right = rng.random(320) < np.where(k % 2 if differ else True, s, 0.1)
        y = np.where(right, k, (k + 1) % 16)
        parent = FrozenEstimator(PrecomputedScores().fit(X))
        found[differ] = fitted(model, X, y, estimator=parent, pool="cv", random_state=0).pool_
    assert found[False] > found[True]


@pytest.mark.parametrize("model", CURVES + OTHERS, ids=NAMES)
def test_a_row_of_weight_two_is_two_rows(model):
    X, y = drawn(150)
    weight = np.random.default_rng(1).integers(0, 3, size=150)
    twice = fitted(model, np.repeat(X, weight, axis=0), np.repeat(y, weight), pool=5.0)
    weighted = type(model)(**{**model.get_params(deep=False), "pool": 5.0})
    weighted.classes_ = np.arange(4)
    weighted._fit_scores(Rows(X, y, weight.astype(float)))
    new, _ = drawn(50, seed=1)
    tolerance = (
        1e-5 if isinstance(model, TemperatureScaling | BetaCalibration) else 1e-8
    )  # fits stop at a slope of 1e-7
    np.testing.assert_allclose(
        weighted._confidence(new, TopLabel.of(new)), twice.predict_confidence(new), atol=tolerance
    )


def test_with_one_curve_for_all_there_is_nothing_to_pool():
    X, y = drawn(100)
    model = fitted(HistogramBinning(PARENT), X, y, by_class=False, pool="cv")
    assert model.pool_ == 0 and model.pool_nll_ is None
    assert fitted(TemperatureScaling(PARENT), X, y, pool="cv").pool_ == 0


def test_where_nothing_can_cross_validate_it_pools_most():
    X, _ = drawn(60)
    y = X.argmax(axis=1)
    y[0] = (y[0] + 1) % 4
    model = fitted(HistogramBinning(PARENT), X, y, pool="cv")
    assert model.pool_ == POOL_GRID[-1] and model.describe() == {
        "pool": POOL_GRID[-1],
        "pool_nll": None,
    }


@given(st.integers(0, 10_000), st.integers(1, 60), st.integers(2, 6))
def test_rows_of_a_class_that_are_alike_are_dealt_out_evenly(seed, n, n_folds):
    rng = np.random.RandomState(seed)
    predicted, correct = rng.randint(4, size=n), rng.rand(n) < 0.8
    fold = draw_folds(predicted, correct, n_folds, rng)
    for mine in (
        np.ones(n, dtype=bool),
        *((predicted == k) & (correct == right) for k in range(4) for right in (True, False)),
    ):
        assert np.ptp(np.bincount(fold[mine], minlength=n_folds)) <= 1


def test_a_pool_below_0_is_named():
    X, y = drawn(50)
    with pytest.raises(
        ParameterError, match=r"^pool must be in \[0, inf\) or one of cv, got -1\.0$"
    ):
        fitted(HistogramBinning(PARENT), X, y, pool=-1.0)
