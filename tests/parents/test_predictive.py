"""Predictions of other libraries as distributions, with stand-ins for ngboost and others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression

from kdgraph.config import check, compose
from kdgraph.config.components import build
from kdgraph.distributions import Distribution, QuantileGrid, ScipyFamily, WeightedSamples
from kdgraph.errors import ParameterError
from kdgraph.parents import GaussianLinear, ProbabilisticRegressor, distribution_from_predictions
from kdgraph.persistence import from_bytes, to_bytes

SHAPE, SCALE = np.array([1.0, 4.0, 9.0]), np.array([2.0, 1.0, 3.0])
FROZEN = stats.gamma(SHAPE, scale=SCALE)


class CdfAndPpf:
    """Object with cdf and ppf, and without other methods."""

    def __init__(self, distribution):
        self.cdf, self.ppf = distribution.cdf, distribution.ppf


class NgboostDistribution:
    """Object that forwards attributes to a frozen distribution ``dist``, as those of ngboost do."""

    def __init__(self, dist):
        self.dist = dist

    def __getattr__(self, name):
        return getattr(self.dist, name)


@pytest.mark.parametrize(
    "predictions",
    [FROZEN, NgboostDistribution(FROZEN), CdfAndPpf(FROZEN)],
    ids=["scipy", "ngboost", "bare"],
)
def test_objects_with_cdf_and_ppf_are_converted(predictions):
    distribution, y = distribution_from_predictions(predictions), np.array([1.0, 3.0, 40.0])
    assert (
        isinstance(distribution, Distribution)
        and len(distribution) == 3
        and isinstance(distribution, ScipyFamily) != isinstance(predictions, CdfAndPpf)
    )
    np.testing.assert_allclose(distribution.cdf(y), FROZEN.cdf(y))
    np.testing.assert_allclose(
        distribution.cdf(np.column_stack([y, 2 * y])),
        np.column_stack([FROZEN.cdf(y), FROZEN.cdf(2 * y)]),
    )
    np.testing.assert_allclose(distribution.ppf(0.3), FROZEN.ppf(0.3))
    np.testing.assert_allclose(
        distribution.ppf(np.array([0.3, 0.6])), np.column_stack([FROZEN.ppf(0.3), FROZEN.ppf(0.6)])
    )
    levels_per_row = np.array([[0.1], [0.5], [0.9]])
    np.testing.assert_allclose(
        distribution.ppf(levels_per_row)[:, 0], FROZEN.ppf(levels_per_row[:, 0])
    )
    for index in (slice(1, None), np.array([2, 0]), np.array([True, False, True]), 1):
        row_ids = np.atleast_1d(np.arange(3)[index])
        np.testing.assert_allclose(distribution[index].ppf(0.9), FROZEN.ppf(0.9)[row_ids])
        np.testing.assert_allclose(distribution[index].cdf(y[row_ids]), FROZEN.cdf(y)[row_ids])
    np.testing.assert_allclose(
        distribution.mean(), FROZEN.mean(), rtol=0.01
    )  # the bare object uses 64 quantiles
    np.testing.assert_allclose(distribution.var(), FROZEN.var(), rtol=0.1)
    assert distribution_from_predictions(distribution) is distribution


def test_arrays_are_converted_to_samples_or_quantiles():
    values = np.array([[3.0, 1.0, 2.0], [5.0, 5.0, 8.0]])
    distribution = distribution_from_predictions(values)
    assert isinstance(distribution, WeightedSamples)
    np.testing.assert_allclose(distribution.mean(), [2, 6])
    grid = distribution_from_predictions(values.tolist(), quantile_levels=(0.2, 0.5, 0.8))
    assert isinstance(grid, QuantileGrid)
    np.testing.assert_array_equal(grid.ppf(0.5), [2, 5])


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        (
            np.zeros(3),
            "predictions must have samples or quantiles for each row, of shape (n, m), got (3,)",
        ),
        (
            (np.zeros(3), np.ones(2)),
            (
                "predictions that are a tuple must have a mean and a standard deviation for each"
                " row, got shapes (3,), (2,)"
            ),
        ),
        ("normal", "predictions must have cdf and ppf, or be an array of samples, got str"),
    ],
    ids=["one sample per row", "shapes differ", "text"],
)
def test_other_predictions_are_refused(predictions, message):
    with pytest.raises(TypeError) as caught:
        distribution_from_predictions(predictions)
    assert str(caught.value) == message


class FrozenNormalRegressor(BayesianRidge):
    """Regressor that predicts a frozen distribution."""

    def pred_dist(self, X):
        mean, sd = self.predict(X, return_std=True)
        return stats.norm(mean, sd)


class TreeMembers(RandomForestRegressor):
    """Forest that returns the predictions of its trees, or quantiles of them."""

    def members(self, X, quantiles=None):
        distribution = np.stack([tree.predict(X) for tree in self.estimators_], axis=1)
        return distribution if quantiles is None else np.quantile(distribution, quantiles, axis=1).T


@pytest.fixture(scope="module")
def regression_rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    return X, X[:, 0] + rng.normal(size=120)


def test_a_regressor_with_pred_dist_is_wrapped(regression_rows):
    X, y = regression_rows
    parent = ProbabilisticRegressor(FrozenNormalRegressor()).fit(X, y)
    mean, sd = BayesianRidge().fit(X, y).predict(X, return_std=True)
    np.testing.assert_allclose(parent.predict(X), mean)
    np.testing.assert_allclose(parent.predict_dist(X).ppf(0.9), stats.norm(mean, sd).ppf(0.9))
    assert parent.n_features_in_ == 2 and not hasattr(parent.regressor, "coef_")
    frozen = ProbabilisticRegressor(FrozenEstimator(parent.regressor_)).fit(X[:5], -y[:5])
    np.testing.assert_array_equal(frozen.predict(X), parent.predict(X))
    wrapped = ProbabilisticRegressor(GaussianLinear()).fit(X, y)
    np.testing.assert_array_equal(
        wrapped.predict_dist(X).ppf(0.9), GaussianLinear().fit(X, y).predict_dist(X).ppf(0.9)
    )
    np.testing.assert_array_equal(
        from_bytes(to_bytes(wrapped), "it").value.predict_dist(X).ppf(0.9),
        wrapped.predict_dist(X).ppf(0.9),
    )


def test_samples_and_quantiles_of_a_forest(regression_rows):
    X, y = regression_rows
    trees = TreeMembers(15, random_state=0)
    sampler = ProbabilisticRegressor(trees, method="members").fit(X, y)
    np.testing.assert_allclose(
        sampler.predict(X), RandomForestRegressor(15, random_state=0).fit(X, y).predict(X)
    )
    levels = [0.1, 0.5, 0.9]
    by_level = ProbabilisticRegressor(
        trees, method="members", method_params={"quantiles": levels}, quantile_levels=levels
    ).fit(X, y)
    np.testing.assert_allclose(
        by_level.predict_dist(X).ppf(0.5), np.median(sampler.regressor_.members(X), axis=1)
    )


@pytest.mark.parametrize(
    "regressor", [BayesianRidge(), GaussianProcessRegressor(alpha=0.1)], ids=["ridge", "process"]
)
def test_return_std_gives_normal_distributions(regression_rows, regressor):
    X, y = regression_rows
    parent = ProbabilisticRegressor(regressor).fit(X, y)
    mean, sd = clone(regressor).fit(X, y).predict(X, return_std=True)
    np.testing.assert_allclose(
        parent.predict_dist(X).ppf(0.9), stats.norm(mean, sd).ppf(0.9), rtol=1e-9
    )
    frozen = ProbabilisticRegressor(FrozenEstimator(parent.regressor_)).fit(X, y)
    np.testing.assert_array_equal(frozen.predict_dist(X).ppf(0.9), parent.predict_dist(X).ppf(0.9))
    np.testing.assert_array_equal(
        from_bytes(to_bytes(parent), "it").value.predict_dist(X).ppf(0.9),
        parent.predict_dist(X).ppf(0.9),
    )


def test_a_standard_deviation_of_zero_gives_a_narrow_distribution():
    distribution = distribution_from_predictions((np.array([2.0, 0.0]), np.zeros(2)))
    np.testing.assert_allclose(distribution.interval(0.99)[1], [2, 0], rtol=1e-11, atol=1e-280)
    assert np.isfinite(distribution.cdf(np.array([2.0, 0.0]))).all()


class QuantileForest(RandomForestRegressor):
    """Forest whose ``predict`` takes quantiles as in quantile-forest, but over trees."""

    def predict(self, X, quantiles: Any = "mean"):
        distribution = np.stack([tree.predict(X) for tree in self.estimators_], axis=1)
        return (
            distribution.mean(axis=1)
            if quantiles == "mean"
            else np.quantile(distribution, quantiles, axis=1).T
        )


def test_a_config_selects_class_method_and_arguments(regression_rows):
    """Class, method and arguments are given on the command line."""
    X, y = regression_rows
    target = "parent.regressor._target_=tests.parents.test_predictive.QuantileForest"
    arguments = [
        "parent.method=predict",
        "+parent.method_params.quantiles=[0.1,0.5,0.9]",
        "parent.quantile_levels=[0.1,0.5,0.9]",
    ]
    config = compose(
        [
            "method=predictive",
            "dataset=heteroscedastic",
            target,
            "+parent.regressor.n_estimators=15",
            *arguments,
        ]
    )
    check(config)
    distribution = build(config.parent, random_state=0).fit(X, y).predict_dist(X)
    trees = RandomForestRegressor(15, random_state=0).fit(X, y)
    np.testing.assert_allclose(
        distribution.ppf(0.5), np.median([tree.predict(X) for tree in trees.estimators_], axis=0)
    )
    default = build(compose(["parent=predictive", "dataset=heteroscedastic"]).parent).fit(X, y)
    np.testing.assert_allclose(default.predict(X), BayesianRidge().fit(X, y).predict(X))


def test_a_regressor_without_distributions_is_refused(regression_rows):
    with pytest.raises(ParameterError) as caught:
        ProbabilisticRegressor(LinearRegression()).fit(*regression_rows)
    assert (
        str(caught.value)
        == "method must be one that LinearRegression has and that predicts distributions, got None"
    )
