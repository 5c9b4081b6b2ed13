"""Regressors of other libraries as parents, the real ones: ngboost, quantile-forest, scikit-learn's
quantile regressors.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import QuantileRegressor
from sklearn.multioutput import MultiOutputRegressor

from kdgraph.distributions import Distribution, Normal, QuantileGrid, ScipyFamily, WeightedSamples
from kdgraph.parents import ProbabilisticRegressor
from kdgraph.parents.predictive import ExternalDistribution
from kdgraph.recalibration import (
    ConformalPit,
    DensityPit,
    GlobalPit,
    IsotonicPit,
    LocalisedConformalPit,
    LocalPit,
)

rng = np.random.default_rng(11)
X = rng.normal(size=(700, 2))
Y = np.exp(0.5 * X[:, 0] + 0.3 * rng.normal(size=700))
TRAIN, CALIBRATION, TEST = slice(0, 300), slice(300, 600), slice(600, 700)
LEVELS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
MISSING = "{} is not installed; the extra peers has it"


def recalibrators(parent):
    return [
        GlobalPit(parent),
        IsotonicPit(parent),
        LocalPit(parent),
        LocalPit(parent, degree=1),
        DensityPit(parent, max_epochs=2),
        ConformalPit(parent, GlobalPit(None)),
        LocalisedConformalPit(parent, LocalPit(None)),
    ]


def check(said: Distribution, y: np.ndarray) -> None:
    """Everything that is asked of a distribution is finite."""
    low, high = said.interval(0.8)
    found = [said.crps(y), said.mean(), said.var(), said.ppf(0.5), said.cdf(y), low, high]
    assert all(each.shape == y.shape and np.isfinite(each).all() for each in found)
    assert (low <= high).all() and (said.var() >= 0).all() and (said.crps(y) >= 0).all()


def recalibrated(parent, y: np.ndarray):
    """The fitted parent's distributions of test rows, and those of every recalibrator behind it."""
    yield parent.predict_dist(X[TEST])
    for model in recalibrators(FrozenEstimator(parent)):
        given = {"X_calibration": X[CALIBRATION], "y_calibration": y[CALIBRATION]}
        fitted = model.set_params(random_state=0).fit(X[TRAIN], y[TRAIN], **given)
        yield fitted.predict_dist(X[TEST])


@pytest.mark.parametrize("family", ["Normal", "LogNormal", "Exponential", "Laplace", "Gamma"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_ngboost_predicts_the_family_that_it_was_fitted_with(family):
    ngboost = pytest.importorskip("ngboost", reason=MISSING.format("ngboost"))
    distns = pytest.importorskip("ngboost.distns")
    booster = ngboost.NGBRegressor(
        Dist=getattr(distns, family), n_estimators=10, verbose=False, random_state=0
    )
    parent = ProbabilisticRegressor(booster).fit(X[TRAIN], Y[TRAIN])
    theirs = parent.regressor_.pred_dist(X[TEST])
    ours = parent.predict_dist(X[TEST])
    assert isinstance(ours, ScipyFamily) and len(ours) == 100
    np.testing.assert_array_equal(ours.ppf(0.9), theirs.ppf(0.9))
    np.testing.assert_array_equal(ours.cdf(Y[TEST]), theirs.cdf(Y[TEST]))
    np.testing.assert_allclose(ours[10:13].mean(), theirs.dist.mean()[10:13])
    check(ours, Y[TEST])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_ngboost_behind_every_recalibrator():
    ngboost = pytest.importorskip("ngboost", reason=MISSING.format("ngboost"))
    booster = ngboost.NGBRegressor(n_estimators=10, verbose=False, random_state=0)
    for said in recalibrated(ProbabilisticRegressor(booster).fit(X[TRAIN], Y[TRAIN]), Y):
        check(said, Y[TEST])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_counts_of_ngboost_have_steps():
    ngboost = pytest.importorskip("ngboost", reason=MISSING.format("ngboost"))
    distns = pytest.importorskip("ngboost.distns")
    counts = np.round(3 * Y)
    booster = ngboost.NGBRegressor(
        Dist=distns.Poisson, n_estimators=10, verbose=False, random_state=0
    )
    parent = ProbabilisticRegressor(booster).fit(X[TRAIN], counts[TRAIN])
    ours = parent.predict_dist(X[TEST])
    mean = parent.regressor_.pred_dist(X[TEST]).mu
    assert isinstance(ours, ExternalDistribution)
    np.testing.assert_allclose(ours.cdf(counts[TEST]), stats.poisson(mean).cdf(counts[TEST]))
    np.testing.assert_allclose(ours.mean(), mean)
    given = {"X_calibration": X[CALIBRATION], "y_calibration": counts[CALIBRATION]}
    model = GlobalPit(FrozenEstimator(parent), random_state=0).fit(X[TRAIN], counts[TRAIN], **given)
    assert model.describe()["pit_at_steps"] > 0.9
    check(model.predict_dist(X[TEST]), counts[TEST])


@pytest.mark.filterwarnings(
    "ignore:. of . calibration rows|.. of .. calibration rows|.*far out these rows are is lost"
)
@pytest.mark.parametrize("rounded", [False, True])
def test_a_quantile_forest_behind_every_recalibrator(rounded):
    """Rounded outcomes tie most outer quantiles, and some rows' quantiles are all the same."""
    forests = pytest.importorskip("quantile_forest", reason=MISSING.format("quantile-forest"))
    y = np.round(np.maximum(Y - 0.7, 0), 1) if rounded else Y
    forest = forests.RandomForestQuantileRegressor(20, min_samples_leaf=5, random_state=0)
    arguments = {"quantiles": list(LEVELS)}
    parent = ProbabilisticRegressor(forest, method="predict", arguments=arguments, levels=LEVELS)
    parent.fit(X[TRAIN], y[TRAIN])
    before, *after = recalibrated(parent, y)
    np.testing.assert_array_equal(
        before.ppf(np.array(LEVELS)), parent.regressor_.predict(X[TEST], **arguments)
    )
    ties = (
        np.diff(parent.predict_dist(X[CALIBRATION]).ppf(np.array(LEVELS))[:, [0, 1, -2, -1]]) == 0
    ).any(axis=1)
    assert ties.any() >= rounded
    for said in (before, *after):
        check(said, y[TEST])
        assert (
            said.crps(y[TEST]).mean() < 1.15 * before.crps(y[TEST]).mean()
        )  # a distant atom costs more
        assert np.abs(said.mean()).max() < 2 * y.max()


def test_quantile_regressors_of_scikit_learn_by_a_column_for_each_level():
    """Gradient boosting and linear models have one level each: several of them are samples side by
    side, and cross.
    """
    levels = np.array(LEVELS[1:-1])
    boosters = [
        HistGradientBoostingRegressor(loss="quantile", quantile=q, max_iter=10).fit(
            X[TRAIN], Y[TRAIN]
        )
        for q in levels
    ]
    lines = [QuantileRegressor(quantile=q, alpha=0.01).fit(X[TRAIN], Y[TRAIN]) for q in levels]
    for models in (boosters, lines):
        side_by_side = MultiOutputRegressor(models[0])
        side_by_side.estimators_ = models
        parent = ProbabilisticRegressor(
            FrozenEstimator(side_by_side), method="predict", levels=levels
        )
        parent.fit(X[TRAIN], Y[TRAIN])
        columns = np.column_stack([model.predict(X[TEST]) for model in models])
        np.testing.assert_array_equal(
            parent.predict_dist(X[TEST]).ppf(levels), np.sort(columns, axis=1)
        )
        for said in recalibrated(parent, Y):
            check(said, Y[TEST])


def test_tables_of_samples_may_be_data_frames():
    class Frames(DummyRegressor):
        def ensemble(self, X):
            return pd.DataFrame(X[:, :1] + np.arange(5.0))

    parent = ProbabilisticRegressor(Frames(), method="ensemble").fit(X, Y)
    assert isinstance(parent.predict_dist(X[:3]), WeightedSamples)
    np.testing.assert_allclose(parent.predict(X[:3]), X[:3, 0] + 2)


SPREAD = np.linspace(0.5, 2, 100)
MIDDLE = np.linspace(-1, 3, 100)


@pytest.mark.parametrize(
    ("said", "theirs", "arguments"),
    [
        (Normal(MIDDLE, SPREAD), "crps_normal", (MIDDLE, SPREAD)),
        (ScipyFamily("norm", {"loc": MIDDLE, "scale": SPREAD}), "crps_normal", (MIDDLE, SPREAD)),
        (
            ScipyFamily("lognorm", {"s": SPREAD / 2, "scale": np.exp(MIDDLE)}),
            "crps_lognormal",
            (MIDDLE, SPREAD / 2),
        ),
        (
            ScipyFamily("laplace", {"loc": MIDDLE, "scale": SPREAD}),
            "crps_laplace",
            (MIDDLE, SPREAD),
        ),
        (
            ScipyFamily("logistic", {"loc": MIDDLE, "scale": SPREAD}),
            "crps_logistic",
            (MIDDLE, SPREAD),
        ),
        (ScipyFamily("gamma", {"a": SPREAD, "scale": SPREAD}), "crps_gamma", (SPREAD, 1 / SPREAD)),
        (ScipyFamily("expon", {"scale": SPREAD}), "crps_exponential", (1 / SPREAD,)),
    ],
)
def test_the_crps_of_families_is_that_of_scoringrules(said, theirs, arguments):
    """Quadrature is right to 2e-8 of a normal distribution; a kink and an end of the support cost
    three digits.
    """
    scoringrules = pytest.importorskip("scoringrules", reason=MISSING.format("scoringrules"))
    y = rng.normal(1, 2, size=100)
    y = np.exp(y) if theirs == "crps_lognormal" else y  # theirs takes the logarithm of y
    expected = getattr(scoringrules, theirs)(y, *arguments, backend="numpy")
    np.testing.assert_allclose(said.crps(y), expected, rtol=2e-5, atol=2e-5)


def test_the_crps_of_samples_is_that_of_scoringrules():
    scoringrules = pytest.importorskip("scoringrules", reason=MISSING.format("scoringrules"))
    x, y = rng.normal(size=(60, 9)).round(1), rng.normal(size=60).round(1)
    expected = scoringrules.crps_ensemble(y, x, estimator="nrg", backend="numpy")
    np.testing.assert_allclose(WeightedSamples(x).crps(y), expected, rtol=1e-12, atol=1e-12)


def test_the_crps_of_a_grid_tends_to_that_of_its_quantiles():
    """Twice the mean pinball loss over many levels, as scoringrules has it; 200 levels leave out
    1/200 of the integral at both ends.
    """
    scoringrules = pytest.importorskip("scoringrules", reason=MISSING.format("scoringrules"))
    levels = (np.arange(200) + 0.5) / 200
    values = Normal(MIDDLE, SPREAD).ppf(levels)
    y = rng.normal(1, 2, size=100)
    expected = scoringrules.crps_quantile(y, values, levels, backend="numpy")
    np.testing.assert_allclose(QuantileGrid(levels, values).crps(y), expected, atol=0.02)
