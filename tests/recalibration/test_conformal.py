"""Conformal intervals and the isotonic map: coverage by simulation, corrections by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression

from kdgraph.data.simulations import Heteroscedastic
from kdgraph.distributions import ConformalIntervals, LinearMap, Normal, Recalibrated
from kdgraph.errors import ParameterError
from kdgraph.parents import GaussianLinear
from kdgraph.persistence import from_bytes, to_bytes
from kdgraph.recalibration import (
    ConformalPit,
    GlobalPit,
    IsotonicPit,
    LocalisedConformalPit,
    LocalPit,
)


def make_conformal_rows(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.uniform(-1, 1, size=(n, 1))
    return X, 2 * X[:, 0] ** 2 + (0.1 + np.abs(X[:, 0])) * rng.standard_t(4, size=n)


@pytest.mark.parametrize(
    ("n", "level"), [(30, 0.8), pytest.param(60, 0.95, marks=pytest.mark.slow)]
)
def test_intervals_cover_the_nominal_level_on_average(n, level):
    """120 draws, tolerance of 2 standard errors; local recalibration alone covers too little."""
    rng = np.random.default_rng(0)
    parent = FrozenEstimator(GaussianLinear().fit(*make_conformal_rows(100, rng)))
    conformal_coverages, local_coverages = [], []
    for _ in range(120):
        (X, y), (X_new, y_new) = make_conformal_rows(n, rng), make_conformal_rows(100, rng)
        for coverages, model in (
            (conformal_coverages, ConformalPit(parent, LocalPit(None, k=12), random_state=0)),
            (local_coverages, LocalPit(parent, k=12)),
        ):
            low, high = (
                model.fit(X, y, X_calibration=X, y_calibration=y)
                .predict_dist(X_new)
                .interval(level)
            )
            coverages.append(((low <= y_new) & (y_new <= high)).mean())
    error = np.std(conformal_coverages) / np.sqrt(120)
    assert (
        level - 2 * error <= np.mean(conformal_coverages)
        and np.mean(local_coverages) < level - 2 * error
    )


@pytest.mark.slow
@pytest.mark.parametrize(("n", "k", "draws"), [(50, 12, 200), (1000, 100, 80)])
def test_intervals_cover_with_few_and_with_many_calibration_rows(n, k, draws):
    """The problem of Torres et al., Table 1, whose coverage is known exactly.

    Mean coverage over draws of calibration rows is at most two standard errors below the level, for
    one correction of all rows and for one of each row.
    """
    problem, rng = Heteroscedastic(), np.random.default_rng(0)
    parent = FrozenEstimator(GaussianLinear().fit(*problem.sample(20_000, rng)))
    middles = np.linspace(2, 20, 41)[1:, None] - 0.225  # of 40 equal parts
    true_distribution, coverages = problem.distribution(middles), []
    for seed in range(draws):
        X, y = problem.sample(n, rng)
        classes = ConformalPit, LocalisedConformalPit
        models = [
            model(parent, LocalPit(None, k=k // 2), random_state=seed).fit(
                X, y, X_calibration=X, y_calibration=y
            )
            for model in classes
        ]
        intervals = [
            model.predict_dist(middles).interval(level) for model in models for level in (0.9, 0.95)
        ]
        coverages.append(
            [
                (true_distribution.cdf(high) - true_distribution.cdf(low)).mean()
                for low, high in intervals
            ]
        )
    mean, error = np.mean(coverages, axis=0), np.std(coverages, axis=0) / np.sqrt(draws)
    assert (mean >= np.tile([0.9, 0.95], 2) - 2 * error).all(), (mean, error)


@pytest.mark.parametrize("cell_settings", [{"cells": 2}, {"column": 0}, {"by_group": True}])
def test_each_cell_is_covered(cell_settings):
    """The noise is ten times as large in one half, defined by a column or by spreads.

    The parent has one scale.
    """
    rng = np.random.default_rng(0)
    coverages, n = [], 80
    for _ in range(40):
        half = rng.integers(0, 2, size=n + 200).astype(float)
        X, y = half[:, None], (1 + 9 * half) * rng.normal(size=n + 200)
        parent = FrozenEstimator(GaussianLinear().fit(X[:n], y[:n]))
        model = ConformalPit(
            parent,
            LocalPit(None, k=10) if "cells" in cell_settings else None,
            random_state=0,
            **cell_settings,
        )
        model.fit(
            X[:n], y[:n], X_calibration=X[:n], y_calibration=y[:n], groups_calibration=half[:n]
        )
        low, high = model.predict_dist(X[n:], half[n:]).interval(0.8)
        is_covered = (low <= y[n:]) & (y[n:] <= high)
        coverages.append([is_covered[half[n:] == side].mean() for side in (0, 1)])
    mean, error = np.mean(coverages, axis=0), np.std(coverages, axis=0) / np.sqrt(40)
    assert (mean >= 0.8 - 2 * error).all()


def test_correction_is_the_conformal_rank_of_scores():
    """At level .7 it is the fifth of six scores, at .9 the seventh, which does not exist."""
    base, y = Normal(np.zeros(6), np.ones(6)), np.array([0.0, 0.5, -1.0, 2.0, 3.0, -4.0])
    zero = np.zeros(6, dtype=int)
    corrected = ConformalIntervals(base[:2], base, y, zero[:2], zero)
    low, high = (float(end[0]) for end in base.interval(0.7))
    scores = sorted(max(low - outcome, outcome - high) / (high - low) for outcome in y)
    np.testing.assert_allclose(
        corrected.interval(0.7),
        np.tile([[low - scores[4] * (high - low)], [high + scores[4] * (high - low)]], 2),
    )
    with pytest.warns(
        UserWarning,
        match=(
            r"^intervals of level 0\.9 are the whole line where there are too few calibration rows"
        ),
    ):
        assert corrected.interval(0.9)[1].tolist() == [np.inf, np.inf]
    np.testing.assert_array_equal(
        (corrected.mean(), corrected.ppf(0.3), corrected.crps(y[:2])),
        (base.mean()[:2], base.ppf(0.3)[:2], base[:2].crps(y[:2])),
    )
    with_unknown_cell = ConformalIntervals(base[:2], base, y, np.array([0, 5]), zero)
    with pytest.warns(UserWarning, match="are the whole line"):
        assert np.isfinite(with_unknown_cell.interval(0.7)[0]).tolist() == [True, False]


def test_unseen_value_gets_the_correction_of_all_rows():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, size=(90, 1)).astype(float), rng.normal(size=90)
    parent = FrozenEstimator(GaussianLinear().fit(X, y))
    by_value, shared_correction = (
        ConformalPit(parent, column=c, random_state=0).fit(X, y, X_calibration=X, y_calibration=y)
        for c in (0, None)
    )
    values = np.array([[1.0], [7.0]])
    ends_by_value, shared_ends = (
        by_value.predict_dist(values).interval(0.8)[1],
        shared_correction.predict_dist(values).interval(0.8)[1],
    )
    assert ends_by_value[1] == shared_ends[1] and ends_by_value[0] != shared_ends[0]
    with pytest.raises(
        ValueError,
        match=r"^column=a is a name, and X is an array without names; give its position$",
    ):
        ConformalPit(parent, column="a").fit(X, y, X_calibration=X, y_calibration=y)


def test_missing_or_unseen_group_gets_the_correction_of_all_rows():
    """Groups may be missing or new; None and NaN define no cell."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 1)), rng.normal(size=90)
    parent = FrozenEstimator(GaussianLinear().fit(X, y))
    groups = np.array(["a", "b", None], dtype=object)[np.arange(90) % 3]
    calibration = {"X_calibration": X, "y_calibration": y}
    by_group = ConformalPit(parent, by_group=True).fit(
        X, y, **calibration, groups_calibration=groups
    )
    shared_correction = ConformalPit(parent).fit(X, y, **calibration)
    assert (
        by_group.takes_groups
        and not shared_correction.takes_groups
        and by_group.edges_.tolist() == ["a", "b"]
    )
    ends_by_group = by_group.predict_dist(
        X[:4], np.array(["a", "c", None, np.nan], dtype=object)
    ).interval(0.8)[1]
    shared_ends = shared_correction.predict_dist(X[:4]).interval(0.8)[1]
    assert (ends_by_group == shared_ends).tolist() == [False, True, True, True]
    np.testing.assert_array_equal(by_group.predict_dist(X[:4]).interval(0.8)[1], shared_ends)
    np.testing.assert_array_equal(by_group.predict(X), shared_correction.predict(X))
    with pytest.raises(
        ValueError,
        match=(
            r"^ConformalPit needs the group of each row: groups, and groups_calibration where"
            r" there are"
        ),
    ):
        ConformalPit(parent, by_group=True).fit(X, y, **calibration)
    with pytest.raises(
        ValueError, match=r"^groups must have one for each of 4 rows, got shape \(3,\)$"
    ):
        by_group.predict_dist(X[:4], groups[:3])
    with pytest.raises(
        ParameterError,
        match=(
            r"^cells must be defined by one parameter, got cells=2, column=None and by_group=True;"
        ),
    ):
        ConformalPit(parent, cells=2, by_group=True).fit(
            X, y, **calibration, groups_calibration=groups
        )


def test_without_recalibrator_all_rows_correct():
    """This is split conformal prediction: the ⌈.8·31⌉-th of thirty absolute residuals."""
    X, y = make_conformal_rows(30, np.random.default_rng(0))
    parent = GaussianLinear().fit(X, y)
    model = ConformalPit(FrozenEstimator(parent)).fit(X, y, X_calibration=X, y_calibration=y)
    residual = np.sort(np.abs(y - parent.predict(X)))[24]
    low, high = model.predict_dist(X).interval(0.8)
    np.testing.assert_allclose((low, high), parent.predict(X) + np.array([[-residual], [residual]]))
    assert model.describe() == {"cells": 1, "n_correcting": 30, "highest_level": 30 / 31}


def test_saved_model_predicts_the_same():
    rng = np.random.default_rng(0)
    X, y = make_conformal_rows(80, rng)
    for model in (
        ConformalPit(GaussianLinear(), LocalPit(None, k=10), cells=2, random_state=0),
        ConformalPit(None, by_group=True),
    ):
        model.set_params(estimator=GaussianLinear(), random_state=0)
        groups = np.array(["a", "b"])[np.arange(80) % 2] if model.takes_groups else None
        model.fit(X, y, groups=groups)
        loaded = from_bytes(to_bytes(model), "it").value
        np.testing.assert_array_equal(
            loaded.predict_dist(X, groups).interval(0.8),
            model.predict_dist(X, groups).interval(0.8),
        )
        assert loaded.describe() == model.describe() and model.describe()["n_correcting"] == (
            24 if model.takes_groups else 12
        )


def test_linear_map_equals_isotonic_regression_of_fractions():
    """The regression of scikit-learn on the same pairs gives the same curve."""
    pits = np.r_[np.random.default_rng(0).beta(2, 1, size=50), [0.25, 0.25]]
    fractions = np.array([(pits <= p).sum() for p in pits]) / 53
    curve = IsotonicRegression(out_of_bounds="clip").fit(np.r_[0, pits, 1], np.r_[0, fractions, 1])
    levels = np.linspace(0, 1, 201)
    np.testing.assert_allclose(
        LinearMap.from_pits(pits).cdf(levels), curve.predict(levels), atol=1e-12
    )
    np.testing.assert_allclose(
        LinearMap.from_pits(pits).cdf(LinearMap.from_pits(pits).ppf(levels)), levels, atol=1e-12
    )


def test_isotonic_map_is_close_to_the_empirical_map():
    """R differs by at most one step, 1/(n + 1).

    Sums over nodes agree with those over many quantiles to 1e-3 of a standard deviation.
    """
    rng = np.random.default_rng(0)
    X, y = make_conformal_rows(300, rng)
    parent = FrozenEstimator(GaussianLinear().fit(X[:100], y[:100]))
    calibration = {"X_calibration": X[100:], "y_calibration": y[100:]}
    curve, steps = (
        cls(parent).fit(X, y, **calibration).predict_dist(X[:20])
        for cls in (IsotonicPit, GlobalPit)
    )
    assert isinstance(curve, Recalibrated)
    assert np.abs(curve.cdf(y[:20]) - steps.cdf(y[:20])).max() <= 2 / 201
    fine_quantiles = curve.ppf((np.arange(20_000) + 0.5) / 20_000)
    np.testing.assert_allclose(
        curve.mean(), fine_quantiles.mean(axis=1), atol=1e-3 * fine_quantiles.std()
    )
    np.testing.assert_allclose(np.sqrt(curve.var()), fine_quantiles.std(axis=1), rtol=3e-3)
    np.testing.assert_allclose(curve.crps(y[:20]), steps.crps(y[:20]), rtol=0.05)
    q = np.linspace(0.01, 0.99, 50)
    np.testing.assert_allclose(curve.cdf(curve.ppf(q)), np.tile(q, (20, 1)), atol=1e-12)
