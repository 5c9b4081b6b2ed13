"""Global recalibration: its definition, its input, and published numbers."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdgraph.data import make_splits
from kdgraph.data.simulations import Heteroscedastic
from kdgraph.distributions import Normal, ScipyFamily
from kdgraph.errors import DataError, ParameterError
from kdgraph.metrics import coverage, mse_mean
from kdgraph.parents import GaussianLinear, Preprocess
from kdgraph.recalibration import GlobalPit, LocalPit, ResidualScale


def make_global_pit_rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, X @ [1.0, -2.0] + 3 * rng.uniform(size=n) ** 2  # skewed, without a tail


class GammaParent(RegressorMixin, BaseEstimator):
    """Parent that predicts a frozen distribution of scipy.stats, and stores its training rows."""

    def fit(self, X, y):
        self.n_features_in_, self.seen_ = X.shape[1], len(X)
        return self

    def predict_dist(self, X):
        return stats.gamma(2.0 + 0 * X[:, 0], scale=np.exp(X[:, 0]))

    def predict(self, X):
        return self.predict_dist(X).mean()


def test_equals_algorithm_1_with_all_rows_as_neighbours():
    """A loop over rows: the sample is the quantiles at all PIT values, equally weighted."""
    X, y = make_global_pit_rows(300)
    parent = GaussianLinear().fit(X[:100], y[:100])
    model = GlobalPit(FrozenEstimator(parent)).fit(
        X[:100], y[:100], X_calibration=X[100:260], y_calibration=y[100:260]
    )
    pits = [
        stats.norm.cdf(outcome, parent.predict([x])[0], parent.sigma_)
        for x, outcome in zip(X[100:260], y[100:260], strict=True)
    ]
    recalibrated = model.predict_dist(X[260:])
    for i, x in enumerate(X[260:]):
        sample = stats.norm.ppf(pits, parent.predict([x])[0], parent.sigma_)
        assert (
            recalibrated.mean()[i]
            == pytest.approx(sample.mean(), rel=1e-10)
            == model.predict(X[260:])[i]
        )
        np.testing.assert_allclose(
            recalibrated.ppf(np.array([0.1, 0.5]))[i],
            np.quantile(sample, [0.1, 0.5], method="inverted_cdf"),
            rtol=1e-9,
        )
        assert recalibrated.cdf(y[260:])[i] == pytest.approx(
            (sample <= y[260 + i]).mean(), abs=1e-12
        )


def test_location_family_adds_calibration_residuals():
    """The PIT cancels: the sample is the new mean plus the calibration residuals."""
    X, y = make_global_pit_rows(200)
    parent = GaussianLinear().fit(X[:100], y[:100])
    model = GlobalPit(FrozenEstimator(parent)).fit(
        X[:100], y[:100], X_calibration=X[100:], y_calibration=y[100:]
    )
    residuals = y[100:] - parent.predict(X[100:])
    recalibrated = model.predict_dist(X[:5])
    np.testing.assert_allclose(
        recalibrated.mean(), parent.predict(X[:5]) + residuals.mean(), rtol=1e-10
    )
    np.testing.assert_allclose(recalibrated.var(), np.full(5, residuals.var()), rtol=1e-9)


def test_parent_and_map_are_fitted_on_different_rows():
    X, y = make_global_pit_rows(100)
    y = np.abs(y)
    model = GlobalPit(GammaParent(), calibration_size=0.25, random_state=0).fit(X, y)
    assert (model.estimator_.seen_, len(model.pit_map_.levels)) == (75, 25)
    assert not hasattr(model.estimator, "seen_")
    with_calibration_rows = GlobalPit(GammaParent(), random_state=0).fit(
        X, y, X_calibration=X[:40], y_calibration=y[:40]
    )
    assert (with_calibration_rows.estimator_.seen_, with_calibration_rows.describe()["n_pits"]) == (
        100,
        40,
    )


def test_accepts_frozen_distributions_of_scipy():
    """Outcomes are twice the predictions, and so is the median, within 5 standard errors."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 1))
    y = 2 * stats.gamma(2.0, scale=np.exp(X[:, 0])).rvs(random_state=rng)
    model = GlobalPit(GammaParent(), random_state=0).fit(X, y)
    median = model.predict_dist(X[:3]).ppf(0.5) / GammaParent().predict_dist(X[:3]).ppf(0.5)
    np.testing.assert_allclose(
        median, 2, atol=5 * 0.5 / np.sqrt(1200) / stats.gamma(2).pdf(stats.gamma(2).median())
    )


def test_reproduces_table_1_of_torres():
    """Coverage is 93.78 and (with 1000 draws a row) 94.65 there, and the MSE is 14546.

    Over 20 seeds of an independent, exact program: coverage 93.77 ± 0.38 and 95.00 ± 0.36, MSE to
    the true mean 14536 ± 188. The tolerance is 3.5 standard errors of a mean over 3 seeds.
    """
    results = []
    for seed in range(3):
        sizes = {"n_train": 80_000, "n_calibration": 10_000, "n_test": 10_000}
        splits = make_splits(Heteroscedastic(), **sizes, rng=np.random.default_rng(seed))
        train, calibration, test = splits.train, splits.calibration, splits.test
        parent = GaussianLinear().fit(train.X, train.y)
        model = GlobalPit(FrozenEstimator(parent)).fit(
            train.X, train.y, X_calibration=calibration.X, y_calibration=calibration.y
        )
        predicted = parent.predict_dist(test.X), model.predict_dist(test.X)
        results.append(
            [
                *(100 * coverage(test.y, distributions) for distributions in predicted),
                *(mse_mean(distributions, test.truth) for distributions in predicted),
            ]
        )
    mean, spread = np.mean(results, axis=0), 3.5 / np.sqrt(3) * np.array([0.38, 0.36, 188, 187])
    np.testing.assert_array_less(np.abs(mean - [93.77, 95.00, 14536, 14541]), spread)


def test_intervals_cover_the_nominal_level_on_average():
    """The interval runs from the 10th to the 190th of 200 sorted values.

    A new value falls into each of the 201 gaps with the same probability, 180 of them inside. 200
    draws, 4 standard errors.
    """
    result = []
    for seed in range(200):
        X, y = make_global_pit_rows(300, seed)
        model = GlobalPit(GaussianLinear().fit(X[:50], y[:50])).fit(
            X[:50], y[:50], X_calibration=X[50:250], y_calibration=y[50:250]
        )
        result.append(coverage(y[250:], model.predict_dist(X[250:]), level=0.9))
    assert np.mean(result) == pytest.approx(180 / 201, abs=4 * np.std(result) / np.sqrt(200))


class SameDistributionParent(GammaParent):
    """Parent that predicts the same distribution everywhere."""

    def __init__(self, distribution=None):
        self.distribution = distribution

    def predict_dist(self, X):
        return self.distribution[np.zeros(len(X), dtype=int)]


NORMAL = Normal(np.zeros(1), np.ones(1))


@pytest.mark.parametrize(
    ("distribution", "y"),
    [
        (NORMAL, np.r_[np.linspace(-2, 2, 47), -60.0, 25.0, 90.0]),
        (ScipyFamily("norm", {"loc": np.zeros(1)}), np.r_[np.linspace(-2, 2, 48), 12.0, 25.0]),
        (ScipyFamily("gamma", {"a": np.ones(1)}), np.r_[np.linspace(0.1, 2, 48), 60.0, 400.0]),
    ],
    ids=["normal", "norm of scipy", "gamma"],
)
def test_outcomes_far_out_keep_their_distance(distribution, y):
    """F is rounded to 0 or 1; the new distribution is the sample of the outcomes."""
    X = np.zeros((50, 1))
    model = GlobalPit(SameDistributionParent(distribution)).fit(
        X, y, X_calibration=X, y_calibration=y
    )
    recalibrated = model.predict_dist(X[:1])
    assert (
        distribution.cdf(y[None, -2:]).tolist() == [[1, 1]] and model.describe()["n_clipped"] == 0
    )
    np.testing.assert_allclose(recalibrated.ppf(np.arange(1, 51) / 50)[0], np.sort(y), rtol=1e-9)
    assert recalibrated.mean()[0] == pytest.approx(y.mean(), rel=1e-9) and recalibrated.var()[
        0
    ] == pytest.approx(y.var(), rel=1e-9)
    np.testing.assert_allclose(
        recalibrated.cdf(y[None, -2:] * [[1 - 1e-9, 1 + 1e-9]])[0], [0.96, 1.0]
    )  # just before and just after
    assert recalibrated.crps(np.array([30.0]))[0] == pytest.approx(
        np.abs(y - 30).mean() - np.abs(y[:, None] - y[None, :]).mean() / 2, rel=1e-9
    )


def test_rows_inside_are_unchanged_by_rows_far_out():
    """PIT values inside (0, 1) give the sample F⁻¹(p_i) to the bit."""
    X, y = make_global_pit_rows(200)
    parent = GaussianLinear().fit(X[:100], y[:100])
    y[150] += 100 * parent.sigma_
    model = GlobalPit(FrozenEstimator(parent)).fit(
        X[:100], y[:100], X_calibration=X[100:], y_calibration=y[100:]
    )
    pits = np.sort(parent.predict_dist(X[100:]).cdf(y[100:]))
    assert pits[-1] == 1 > pits[-2]
    base = parent.predict_dist(X[:5])
    np.testing.assert_array_equal(
        model.predict_dist(X[:5]).ppf(np.arange(1, 100) / 100), base.ppf(pits[:-1])
    )
    assert model.predict_dist(X[:1]).ppf(1.0)[0] == pytest.approx(
        base.mean()[0] + y[150] - parent.predict(X[150:151])[0], rel=1e-12
    )


def test_clipped_rows_are_counted_with_a_warning():
    """P(Y > y) is 0 in float64, 60 deviations out; the nearest number inside has 8.2."""
    X, y = np.zeros((50, 1)), np.r_[np.zeros(49), 60.0]
    narrow = SameDistributionParent(ScipyFamily("norm", {"loc": np.zeros(1)}))
    with pytest.warns(
        UserWarning,
        match=(
            r"^1 of 50 calibration rows lie where the predicted distribution function is 0 or 1 to"
            r" the last bit"
        ),
    ):
        model = GlobalPit(narrow).fit(X, y, X_calibration=X, y_calibration=y)
    assert model.describe()["n_clipped"] == 1
    assert model.predict_dist(X[:1]).ppf(1.0)[0] == pytest.approx(8.2, abs=0.1)
    assert np.isfinite(model.predict(X[:1])).all()


def test_single_row_cannot_be_held_out():
    with pytest.raises(DataError, match="n_samples=1, which the fit needs") as caught:
        GlobalPit(GammaParent()).fit([[0.0]], [1.0])
    assert str(caught.value).endswith("; pass more rows, or X_calibration and y_calibration")


@pytest.mark.parametrize(
    ("fit", "error", "message"),
    [
        (
            lambda X, y: GlobalPit(LinearRegression()).fit(X, y),
            TypeError,
            (
                "GlobalPit needs an estimator with predict_dist, got LinearRegression; pass one"
                " that predicts distributions, such as GaussianLinear(), or another library's in"
                " ProbabilisticRegressor"
            ),
        ),
        (
            lambda X, y: GlobalPit(None).fit(X, y),
            ValueError,
            "GlobalPit needs an estimator, got None",
        ),
        (
            lambda X, y: GlobalPit(GammaParent()).fit(X, y, X_calibration=X),
            ValueError,
            "X_calibration needs y_calibration",
        ),
        (
            lambda X, y: GlobalPit(GammaParent()).fit(X, y, y_calibration=y),
            ValueError,
            "y_calibration needs X_calibration",
        ),
        (
            lambda X, y: GlobalPit(GammaParent(), calibration_size=1.5).fit(X, y),
            ValueError,
            "calibration_size must be in (0, 1), got 1.5",
        ),
        (
            lambda X, y: GlobalPit(GaussianLinear()).fit(np.where(X > 0, X, np.nan), y),
            ValueError,
            "Input X contains NaN.",
        ),
    ],
)
def test_rejects_invalid_input(fit, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        fit(*make_global_pit_rows(20))


def test_data_frames_reach_a_parent_that_encodes_them():
    """A data frame and an array are the same rows after the same encoder."""
    X, y = make_global_pit_rows(120)
    X[::7, 0] = np.nan
    splits = make_splits(Heteroscedastic(), n_train=10, n_test=10, rng=np.random.default_rng(0))
    two_columns = splits.train.__class__("two", X, y, np.empty(0), ("a", "b"), "regression")
    parent = Preprocess().wrap(GaussianLinear(), two_columns)
    by_array = GlobalPit(parent, random_state=0).fit(X, y)
    assert np.isfinite(by_array.predict(X)).all()
    by_frame = GlobalPit(parent, random_state=0).fit(pd.DataFrame(X, columns=["a", "b"]), y)
    np.testing.assert_array_equal(
        by_frame.predict(pd.DataFrame(X, columns=["a", "b"])), by_array.predict(X)
    )


@pytest.mark.parametrize("frozen", [False, True])
def test_accepts_a_pipeline_as_parent(frozen):
    """Pipelines of scikit-learn do not delegate ``predict_dist``."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 2)) * [1, 50]
    y = X[:, 0] + rng.exponential(size=300)
    calibration = {"X_calibration": X[200:], "y_calibration": y[200:]}
    pipeline = make_pipeline(StandardScaler(), GaussianLinear())
    parent = FrozenEstimator(pipeline.fit(X[:200], y[:200])) if frozen else pipeline
    for make_recalibrator in (GlobalPit, lambda parent: LocalPit(parent, k=30, units="raw")):
        predicted = make_recalibrator(parent).fit(X[:200], y[:200], **calibration).predict_dist(X)
        alone_parent = GaussianLinear().fit(X[:200], y[:200])
        if make_recalibrator is GlobalPit:
            np.testing.assert_allclose(
                predicted.mean(),
                GlobalPit(FrozenEstimator(alone_parent)).fit(X, y, **calibration).predict(X),
                rtol=1e-9,
                atol=1e-9,
            )
        assert np.isfinite(predicted.crps(y)).all()
    with pytest.raises(
        TypeError, match=r"^GlobalPit needs an estimator with predict_dist, got Pipeline"
    ):
        GlobalPit(make_pipeline(StandardScaler(), LinearRegression())).fit(X, y)


@pytest.mark.parametrize("is_log", [False, True])
def test_residual_scale_is_the_root_of_the_held_out_squared_error(is_log):
    """Against scipy's distribution of y, or of log y, with the sd of the held-out residuals."""
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(300, 2)), 0.3 * rng.normal(size=300)
    center = X[:, 0]
    y = np.exp(center + noise) if is_log else center + noise

    class TooNarrow(RegressorMixin, BaseEstimator):
        def fit(self, X, y):
            self.n_features_in_ = X.shape[1]
            return self

        def predict_dist(self, X):
            if is_log:
                return ScipyFamily("lognorm", {"s": 0.01, "scale": np.exp(X[:, 0])})
            return Normal(X[:, 0], np.full(len(X), 0.01))

    held_out = {"X_calibration": X[100:200], "y_calibration": y[100:200]}
    model = ResidualScale(TooNarrow()).fit(X[:100], y[:100], **held_out)
    spread = np.sqrt(np.mean(noise[100:200] ** 2))
    assert model.describe() == {"spread": pytest.approx(spread, rel=1e-12)}
    law = stats.lognorm(spread, scale=np.exp(center)) if is_log else stats.norm(center, spread)
    distribution = model.predict_dist(X)
    np.testing.assert_allclose(distribution.cdf(y), law.cdf(y), rtol=1e-9)
    np.testing.assert_allclose(distribution.mean(), law.mean(), rtol=1e-9, atol=1e-12)


def test_residual_scale_refuses_other_distributions():
    X, y = np.ones((20, 1)), np.ones(20)
    with pytest.raises(ParameterError) as refused:
        ResidualScale(GammaParent()).fit(X, y)
    assert str(refused.value) == (
        "residual_scale is for normal or lognormal distributions, and the parent predicts gamma;"
        " use recalibrator=global_pit"
    )


def test_local_recalibration_ignores_a_common_spread():
    """PIT values of a location-scale family cancel its scale, so Section 4.2 of Torres et al. has
    the same recalibrated row with the variance of training or of validation rows.

    1e-6: weights are stored in 32 bits, quantiles go through the normal distribution and back.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    y = X[:, 0] + rng.normal(size=300)

    class Line(RegressorMixin, BaseEstimator):
        def __init__(self, spread):
            self.spread = spread

        def fit(self, X, y):
            self.n_features_in_ = X.shape[1]
            return self

        def predict_dist(self, X):
            return Normal(X[:, 0], np.full(len(X), self.spread))

    narrow, wide = (
        LocalPit(Line(spread), k=30)
        .fit(X[:100], y[:100], X_calibration=X[100:], y_calibration=y[100:])
        .predict_dist(X[:20])
        for spread in (0.5, 2.0)
    )
    np.testing.assert_allclose(narrow.interval(0.9), wide.interval(0.9), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(narrow.mean(), wide.mean(), rtol=1e-6, atol=1e-6)
