"""Regressors of ngboost, quantile-forest and scikit-learn as parents."""

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

from kdgraph.cli.main import main
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
        LocalPit(parent, local_linear=True),
        DensityPit(parent, max_epochs=2),
        ConformalPit(parent, GlobalPit(None)),
        LocalisedConformalPit(parent, LocalPit(None)),
    ]


def check_distribution(distribution: Distribution, y: np.ndarray) -> None:
    """Check that all summaries of a distribution are finite."""
    low, high = distribution.interval(0.8)
    summaries = [
        distribution.crps(y),
        distribution.mean(),
        distribution.var(),
        distribution.ppf(0.5),
        distribution.cdf(y),
        low,
        high,
    ]
    assert all(values.shape == y.shape and np.isfinite(values).all() for values in summaries)
    assert (
        (low <= high).all()
        and (distribution.var() >= 0).all()
        and (distribution.crps(y) >= 0).all()
    )


def parent_and_recalibrated(parent, y: np.ndarray):
    """Yield the test distributions of the fitted parent, then those of all recalibrators."""
    yield parent.predict_dist(X[TEST])
    for model in recalibrators(FrozenEstimator(parent)):
        calibration_rows = {"X_calibration": X[CALIBRATION], "y_calibration": y[CALIBRATION]}
        fitted = model.set_params(random_state=0).fit(X[TRAIN], y[TRAIN], **calibration_rows)
        yield fitted.predict_dist(X[TEST])


@pytest.mark.parametrize("family", ["Normal", "LogNormal", "Exponential", "Laplace", "Gamma"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_ngboost_predicts_its_family(family):
    ngboost = pytest.importorskip("ngboost", reason=MISSING.format("ngboost"))
    distns = pytest.importorskip("ngboost.distns")
    booster = ngboost.NGBRegressor(
        Dist=getattr(distns, family), n_estimators=10, verbose=False, random_state=0
    )
    parent = ProbabilisticRegressor(booster).fit(X[TRAIN], Y[TRAIN])
    expected_distribution = parent.regressor_.pred_dist(X[TEST])
    distribution = parent.predict_dist(X[TEST])
    assert isinstance(distribution, ScipyFamily) and len(distribution) == 100
    np.testing.assert_array_equal(distribution.ppf(0.9), expected_distribution.ppf(0.9))
    np.testing.assert_array_equal(distribution.cdf(Y[TEST]), expected_distribution.cdf(Y[TEST]))
    np.testing.assert_allclose(distribution[10:13].mean(), expected_distribution.dist.mean()[10:13])
    check_distribution(distribution, Y[TEST])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fitted_ngboost_is_used_unchanged():
    """It has no attribute that ends with an underscore, so scikit-learn takes it for unfitted."""
    ngboost = pytest.importorskip("ngboost", reason=MISSING.format("ngboost"))
    booster = ngboost.NGBRegressor(n_estimators=10, verbose=False, random_state=0)
    booster.fit(X[TRAIN], Y[TRAIN])
    parent = ProbabilisticRegressor(FrozenEstimator(booster)).fit(X[CALIBRATION], Y[CALIBRATION])
    distribution = parent.predict_dist(X[TEST])
    np.testing.assert_array_equal(distribution.ppf(0.9), booster.pred_dist(X[TEST]).ppf(0.9))
    calibration_rows = {"X_calibration": X[CALIBRATION], "y_calibration": Y[CALIBRATION]}
    model = GlobalPit(FrozenEstimator(parent)).fit(X[TRAIN], Y[TRAIN], **calibration_rows)
    check_distribution(model.predict_dist(X[TEST]), Y[TEST])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_recalibrator_works_after_ngboost():
    ngboost = pytest.importorskip("ngboost", reason=MISSING.format("ngboost"))
    booster = ngboost.NGBRegressor(n_estimators=10, verbose=False, random_state=0)
    for distribution in parent_and_recalibrated(
        ProbabilisticRegressor(booster).fit(X[TRAIN], Y[TRAIN]), Y
    ):
        check_distribution(distribution, Y[TEST])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_count_distributions_of_ngboost_have_steps():
    ngboost = pytest.importorskip("ngboost", reason=MISSING.format("ngboost"))
    distns = pytest.importorskip("ngboost.distns")
    counts = np.round(3 * Y)
    booster = ngboost.NGBRegressor(
        Dist=distns.Poisson, n_estimators=10, verbose=False, random_state=0
    )
    parent = ProbabilisticRegressor(booster).fit(X[TRAIN], counts[TRAIN])
    distribution = parent.predict_dist(X[TEST])
    mean = parent.regressor_.pred_dist(X[TEST]).mu
    assert isinstance(distribution, ExternalDistribution)
    np.testing.assert_allclose(
        distribution.cdf(counts[TEST]), stats.poisson(mean).cdf(counts[TEST])
    )
    np.testing.assert_allclose(distribution.mean(), mean)
    calibration_rows = {"X_calibration": X[CALIBRATION], "y_calibration": counts[CALIBRATION]}
    model = GlobalPit(FrozenEstimator(parent), random_state=0).fit(
        X[TRAIN], counts[TRAIN], **calibration_rows
    )
    assert model.describe()["pit_at_steps"] > 0.9
    check_distribution(model.predict_dist(X[TEST]), counts[TEST])


@pytest.mark.filterwarnings(
    "ignore:. of . calibration rows|.. of .. calibration rows|.*far out these rows are is lost"
)
@pytest.mark.parametrize("rounded", [False, True])
def test_every_recalibrator_works_after_a_quantile_forest(rounded):
    """Rounded outcomes tie most outer quantiles, and some rows' quantiles are all the same."""
    forests = pytest.importorskip("quantile_forest", reason=MISSING.format("quantile-forest"))
    y = np.round(np.maximum(Y - 0.7, 0), 1) if rounded else Y
    forest = forests.RandomForestQuantileRegressor(20, min_samples_leaf=5, random_state=0)
    arguments = {"quantiles": list(LEVELS)}
    parent = ProbabilisticRegressor(
        forest, method="predict", method_params=arguments, quantile_levels=LEVELS
    )
    parent.fit(X[TRAIN], y[TRAIN])
    parent_distribution, *recalibrated_distributions = parent_and_recalibrated(parent, y)
    np.testing.assert_array_equal(
        parent_distribution.ppf(np.array(LEVELS)), parent.regressor_.predict(X[TEST], **arguments)
    )
    ties = (
        np.diff(parent.predict_dist(X[CALIBRATION]).ppf(np.array(LEVELS))[:, [0, 1, -2, -1]]) == 0
    ).any(axis=1)
    assert ties.any() >= rounded
    for distribution in (parent_distribution, *recalibrated_distributions):
        check_distribution(distribution, y[TEST])
        assert (
            distribution.crps(y[TEST]).mean() < 1.15 * parent_distribution.crps(y[TEST]).mean()
        )  # a distant atom costs more
        assert np.abs(distribution.mean()).max() < 2 * y.max()


def test_run_of_a_parent_that_cannot_be_saved_finishes_and_notes_it(tmp_path, monkeypatch, capsys):
    """The leaves of a quantile forest are a compiled object, which only pickle can write."""
    pytest.importorskip("quantile_forest", reason=MISSING.format("quantile-forest"))
    monkeypatch.chdir(tmp_path)
    arguments = ["dataset=heteroscedastic", "dataset.n_train=100", "dataset.n_test=50"]
    options = ["parent=quantile_forest", "parent.regressor.n_estimators=5", "figures=none"]
    assert main(["run", *arguments, *options, "recalibrator=isotonic_pit"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "kdg: what fit made cannot be saved, so it is made again next time and no model of the run"
        " is kept: a quantile_forest._quantile_forest_fast.QuantileForest cannot be saved: it is"
        " more than its fields"
    )
    (record,) = tmp_path.glob("outputs/*/*/*/result.json")
    assert not (record.parent / "model").exists()


def test_quantile_regressors_are_combined_by_level():
    """Each model has one level, so that quantiles of several models can cross."""
    levels = np.array(LEVELS[1:-1])
    boosters = [
        HistGradientBoostingRegressor(loss="quantile", quantile=q, max_iter=10).fit(
            X[TRAIN], Y[TRAIN]
        )
        for q in levels
    ]
    lines = [QuantileRegressor(quantile=q, alpha=0.01).fit(X[TRAIN], Y[TRAIN]) for q in levels]
    for models in (boosters, lines):
        combined = MultiOutputRegressor(models[0])
        combined.estimators_ = models
        parent = ProbabilisticRegressor(
            FrozenEstimator(combined), method="predict", quantile_levels=levels
        )
        parent.fit(X[TRAIN], Y[TRAIN])
        columns = np.column_stack([model.predict(X[TEST]) for model in models])
        np.testing.assert_array_equal(
            parent.predict_dist(X[TEST]).ppf(levels), np.sort(columns, axis=1)
        )
        for distribution in parent_and_recalibrated(parent, Y):
            check_distribution(distribution, Y[TEST])


def test_samples_may_be_a_data_frame():
    class Frames(DummyRegressor):
        def ensemble(self, X):
            return pd.DataFrame(X[:, :1] + np.arange(5.0))

    parent = ProbabilisticRegressor(Frames(), method="ensemble").fit(X, Y)
    assert isinstance(parent.predict_dist(X[:3]), WeightedSamples)
    np.testing.assert_allclose(parent.predict(X[:3]), X[:3, 0] + 2)


SCALE = np.linspace(0.5, 2, 100)
LOCATION = np.linspace(-1, 3, 100)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("distribution", "function", "arguments"),
    [
        (Normal(LOCATION, SCALE), "crps_normal", (LOCATION, SCALE)),
        (ScipyFamily("norm", {"loc": LOCATION, "scale": SCALE}), "crps_normal", (LOCATION, SCALE)),
        (
            ScipyFamily("lognorm", {"s": SCALE / 2, "scale": np.exp(LOCATION)}),
            "crps_lognormal",
            (LOCATION, SCALE / 2),
        ),
        (
            ScipyFamily("laplace", {"loc": LOCATION, "scale": SCALE}),
            "crps_laplace",
            (LOCATION, SCALE),
        ),
        (
            ScipyFamily("logistic", {"loc": LOCATION, "scale": SCALE}),
            "crps_logistic",
            (LOCATION, SCALE),
        ),
        (ScipyFamily("gamma", {"a": SCALE, "scale": SCALE}), "crps_gamma", (SCALE, 1 / SCALE)),
        (ScipyFamily("expon", {"scale": SCALE}), "crps_exponential", (1 / SCALE,)),
    ],
    ids=["Normal", "norm", "lognorm", "laplace", "logistic", "gamma", "expon"],
)
def test_crps_of_families_matches_scoringrules(distribution, function, arguments):
    """Quadrature has an error of 2e-8 for a normal distribution.

    A kink and an end of the support cost three digits.
    """
    scoringrules = pytest.importorskip("scoringrules", reason=MISSING.format("scoringrules"))
    y = rng.normal(1, 2, size=100)
    # scoringrules takes the logarithm of y
    y = np.exp(y) if function == "crps_lognormal" else y
    expected = getattr(scoringrules, function)(y, *arguments, backend="numpy")
    np.testing.assert_allclose(distribution.crps(y), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.slow
def test_crps_of_samples_matches_scoringrules():
    scoringrules = pytest.importorskip("scoringrules", reason=MISSING.format("scoringrules"))
    x, y = rng.normal(size=(60, 9)).round(1), rng.normal(size=60).round(1)
    expected = scoringrules.crps_ensemble(y, x, estimator="nrg", backend="numpy")
    np.testing.assert_allclose(WeightedSamples(x).crps(y), expected, rtol=1e-12, atol=1e-12)


def test_crps_of_a_quantile_grid_matches_the_pinball_loss():
    """The reference is twice the mean pinball loss over many levels.

    200 levels leave out 1/200 of the integral at both ends.
    """
    scoringrules = pytest.importorskip("scoringrules", reason=MISSING.format("scoringrules"))
    levels = (np.arange(200) + 0.5) / 200
    values = Normal(LOCATION, SCALE).ppf(levels)
    y = rng.normal(1, 2, size=100)
    expected = scoringrules.crps_quantile(y, values, levels, backend="numpy")
    np.testing.assert_allclose(QuantileGrid(levels, values).crps(y), expected, atol=0.02)
