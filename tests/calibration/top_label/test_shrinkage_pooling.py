"""Shrinkage against its formula in loops, in both limits, and for classes with few rows or none."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.frozen import FrozenEstimator

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
PARAMETRIC = [
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


def draw_rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of four classes; the last is rarely predicted, the second is overconfident."""
    rng = np.random.default_rng(seed)
    X = rng.dirichlet([1.0, 0.7, 0.7, 0.15], size=n)
    top_label = X.argmax(axis=1)
    right = rng.random(n) < X.max(axis=1) * np.array([1.0, 0.6, 0.9, 1.0])[top_label]
    return X, np.where(right, top_label, (top_label + rng.integers(1, 4, size=n)) % 4)


def fit_calibrator(model, X, y, **options):
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return type(model)(**{**model.get_params(deep=False), **options}).fit(
            X, y, X_calibration=X, y_calibration=y
        )


def fit_shared(model, X, y):
    """Return the same calibrator, fitted to all classes together."""
    if isinstance(model, TemperatureScaling):
        return fit_calibrator(model, X, y, by_class=False, awards=False)
    return fit_calibrator(model, X, y, by_class=False)


def count_supporting_rows(model, X, y, k: int, s: float) -> float:
    """Return how many calibration rows support the confidence of class k at the score s."""
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


@pytest.mark.parametrize("model", CURVES + PARAMETRIC, ids=NAMES)
def test_confidence_is_the_weighted_mean_of_own_and_shared(model):
    (X, y), (new, _) = draw_rows(300), draw_rows(40, seed=1)
    pooled, own = (
        fit_calibrator(model, X, y, pool=7.0).predict_confidence(new),
        fit_calibrator(model, X, y).predict_confidence(new),
    )
    shared = np.full(len(new), (X.argmax(axis=1) == y).mean())
    if not isinstance(model, ClassPrecision):
        shared = fit_shared(model, X, y).predict_confidence(new)
    n = np.array([count_supporting_rows(model, X, y, row.argmax(), row.max()) for row in new])
    tolerance = (
        2e-3 if isinstance(model, KernelDensityConfidence) else 1e-12
    )  # n and c are linear between points of the grid
    np.testing.assert_allclose(pooled, (n * own + 7 * shared) / (n + 7), atol=tolerance)
    assert np.abs(pooled - own).max() > 0.005


@pytest.mark.parametrize("model", CURVES + PARAMETRIC, ids=NAMES)
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_limits_are_separate_classes_and_the_shared_confidence(model, seed):
    (X, y), (new, _) = draw_rows(150, seed), draw_rows(30, seed + 1)
    own, small_pool = (
        fit_calibrator(model, X, y, pool=pool).predict_confidence(new) for pool in (0.0, 1e-13)
    )
    large_pool = fit_calibrator(model, X, y, pool=1e13).predict_confidence(new)
    is_supported = np.array(
        [
            (
                count_supporting_rows(model, X, y, row.argmax(), row.max()) > 1e-3
                if (X.argmax(1) == row.argmax()).any()
                else 0
            )
            for row in new
        ]
    )
    np.testing.assert_allclose(small_pool[is_supported == 1], own[is_supported == 1], atol=1e-9)
    if isinstance(model, ClassPrecision):
        np.testing.assert_allclose(large_pool, (X.argmax(axis=1) == y).mean(), atol=1e-9)
    else:
        np.testing.assert_allclose(
            large_pool, fit_shared(model, X, y).predict_confidence(new), atol=1e-9
        )


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.floats(0, 1e4), min_size=2, max_size=5))
def test_larger_pools_are_nearer_to_the_shared_confidence(seed, pools):
    (X, y), (new, _) = draw_rows(80, seed), draw_rows(20, seed + 1)
    shared = fit_shared(CURVES[0], X, y).predict_confidence(new)
    distances = [
        np.abs(fit_calibrator(CURVES[0], X, y, pool=pool).predict_confidence(new) - shared)
        for pool in sorted(pools)
        if pool > 0
    ]
    assert all((larger <= smaller + 1e-12).all() for smaller, larger in pairwise(distances))


@pytest.mark.parametrize("model", CURVES + PARAMETRIC, ids=NAMES)
def test_classes_without_errors_or_rows_use_other_classes(
    model,
):
    X, y = draw_rows(300)
    top_label = X.argmax(axis=1)
    y = np.where(top_label == 2, 2, y)  # always correct
    X, y = X[top_label != 3], y[top_label != 3]  # never predicted
    new = np.array([[0.1, 0.1, 0.7, 0.1], [0.1, 0.1, 0.1, 0.7]])
    model = type(model)(**{**model.get_params(deep=False), "pool": 10.0})
    confidence = model.fit(X, y, X_calibration=X, y_calibration=y).predict_confidence(
        new
    )  # a warning would be an error
    shared = (
        (top_label[top_label != 3] == y).mean()
        if isinstance(model, ClassPrecision)
        else fit_shared(model, X, y).predict_confidence(new)[1]
    )
    assert confidence[1] == pytest.approx(shared, abs=1e-12)
    assert confidence[0] < 1


def test_cv_chooses_the_pool_by_the_nll_of_held_out_rows():
    """The reference is a loop over rows, with the public estimator and the same folds."""
    X, y = draw_rows(200)
    model = HistogramBinning(PARENT, pool="cv", random_state=3)
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        model.fit(X, y, X_calibration=X, y_calibration=y)
    top_label = TopLabel.from_proba(X)
    fold = draw_folds(top_label.predicted, top_label.correct(y), N_FOLDS, np.random.RandomState(3))
    expected = np.zeros(len(POOL_GRID))
    for f in range(N_FOLDS):
        fold_model = fit_calibrator(model, X[fold != f], y[fold != f], pool=1.0)
        for i, pool in enumerate(POOL_GRID):
            fold_model.pool_ = pool
            for row, label, confidence in zip(
                X[fold == f], y[fold == f], fold_model.predict_confidence(X[fold == f]), strict=True
            ):
                confidence = np.clip(confidence, 1e-12, 1 - 1e-12)
                expected[i] -= np.log(confidence if row.argmax() == label else 1 - confidence) / 200
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
def test_similar_classes_are_pooled_more_than_different_ones(model):
    """Each class has 20 rows; all classes are calibrated, or half of them are never correct."""
    rng = np.random.default_rng(0)
    pools = {}
    for differ in (False, True):
        k, s = np.arange(320) % 16, rng.uniform(0.5, 0.9, size=320)
        X = np.repeat((1 - s[:, None]) / 15, 16, axis=1)
        X[np.arange(320), k] = s
        right = rng.random(320) < np.where(k % 2 if differ else True, s, 0.1)
        y = np.where(right, k, (k + 1) % 16)
        parent = FrozenEstimator(PrecomputedScores().fit(X))
        pools[differ] = fit_calibrator(
            model, X, y, estimator=parent, pool="cv", random_state=0
        ).pool_
    assert pools[False] > pools[True]


def test_one_shared_curve_has_a_pool_of_0():
    X, y = draw_rows(100)
    model = fit_calibrator(HistogramBinning(PARENT), X, y, by_class=False, pool="cv")
    assert model.pool_ == 0 and model.pool_nll_ is None
    assert fit_calibrator(TemperatureScaling(PARENT), X, y, pool="cv").pool_ == 0


def test_pool_is_largest_if_cross_validation_is_impossible():
    X, _ = draw_rows(60)
    y = X.argmax(axis=1)
    y[0] = (y[0] + 1) % 4
    model = fit_calibrator(HistogramBinning(PARENT), X, y, pool="cv")
    assert model.pool_ == POOL_GRID[-1] and model.describe() == {
        "pool": POOL_GRID[-1],
        "pool_nll": None,
    }


@given(st.integers(0, 10_000), st.integers(1, 60), st.integers(2, 6))
def test_folds_are_stratified_by_class_and_correctness(seed, n, n_folds):
    rng = np.random.RandomState(seed)
    predicted, correct = rng.randint(4, size=n), rng.rand(n) < 0.8
    fold = draw_folds(predicted, correct, n_folds, rng)
    for stratum in (
        np.ones(n, dtype=bool),
        *((predicted == k) & (correct == right) for k in range(4) for right in (True, False)),
    ):
        assert np.ptp(np.bincount(fold[stratum], minlength=n_folds)) <= 1


def test_negative_pool_is_refused():
    X, y = draw_rows(50)
    with pytest.raises(
        ParameterError, match=r"^pool must be in \[0, inf\) or one of cv, got -1\.0$"
    ):
        fit_calibrator(HistogramBinning(PARENT), X, y, pool=-1.0)
