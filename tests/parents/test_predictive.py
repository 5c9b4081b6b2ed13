"""What other libraries predict, as distributions: by SciPy's own, by stand-ins of the shape that
ngboost and others have.
"""

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

from kdgraph.components import build
from kdgraph.config import compose
from kdgraph.distributions import Distribution, QuantileGrid, ScipyFamily, WeightedSamples
from kdgraph.errors import ParameterError
from kdgraph.parents import GaussianLinear, ProbabilisticRegressor, distribution_from_predictions
from kdgraph.persistence import from_bytes, to_bytes
from kdgraph.run_config import check

SHAPE, SCALE = np.array([1.0, 4.0, 9.0]), np.array([2.0, 1.0, 3.0])
FROZEN = stats.gamma(SHAPE, scale=SCALE)


class Bare:
    """cdf and ppf, and nothing else."""

    def __init__(self, of):
        self.cdf, self.ppf = of.cdf, of.ppf


class LikeNgboost:
    """What ``pred_dist`` of ngboost gives keeps a frozen distribution as ``dist``, and passes on
    what it is asked.
    """

    def __init__(self, dist):
        self.dist = dist

    def __getattr__(self, name):
        return getattr(self.dist, name)


@pytest.mark.parametrize(
    "given", [FROZEN, LikeNgboost(FROZEN), Bare(FROZEN)], ids=["scipy", "ngboost", "bare"]
)
def test_whatever_has_cdf_and_ppf(given):
    said, y = distribution_from_predictions(given), np.array([1.0, 3.0, 40.0])
    assert (
        isinstance(said, Distribution)
        and len(said) == 3
        and isinstance(said, ScipyFamily) != isinstance(given, Bare)
    )
    np.testing.assert_allclose(said.cdf(y), FROZEN.cdf(y))
    np.testing.assert_allclose(
        said.cdf(np.column_stack([y, 2 * y])), np.column_stack([FROZEN.cdf(y), FROZEN.cdf(2 * y)])
    )
    np.testing.assert_allclose(said.ppf(0.3), FROZEN.ppf(0.3))
    np.testing.assert_allclose(
        said.ppf(np.array([0.3, 0.6])), np.column_stack([FROZEN.ppf(0.3), FROZEN.ppf(0.6)])
    )
    own = np.array([[0.1], [0.5], [0.9]])
    np.testing.assert_allclose(said.ppf(own)[:, 0], FROZEN.ppf(own[:, 0]))
    for index in (slice(1, None), np.array([2, 0]), np.array([True, False, True]), 1):
        rows = np.atleast_1d(np.arange(3)[index])
        np.testing.assert_allclose(said[index].ppf(0.9), FROZEN.ppf(0.9)[rows])
        np.testing.assert_allclose(said[index].cdf(y[rows]), FROZEN.cdf(y)[rows])
    np.testing.assert_allclose(
        said.mean(), FROZEN.mean(), rtol=0.01
    )  # of the bare one by 64 quantiles
    np.testing.assert_allclose(said.var(), FROZEN.var(), rtol=0.1)
    assert distribution_from_predictions(said) is said


def test_arrays_are_samples_or_quantiles():
    values = np.array([[3.0, 1.0, 2.0], [5.0, 5.0, 8.0]])
    said = distribution_from_predictions(values)
    assert isinstance(said, WeightedSamples)
    np.testing.assert_allclose(said.mean(), [2, 6])
    grid = distribution_from_predictions(values.tolist(), quantile_levels=(0.2, 0.5, 0.8))
    assert isinstance(grid, QuantileGrid)
    np.testing.assert_array_equal(grid.ppf(0.5), [2, 5])


@pytest.mark.parametrize(
    ("given", "message"),
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
)
def test_what_is_no_distribution(given, message):
    with pytest.raises(TypeError) as caught:
        distribution_from_predictions(given)
    assert str(caught.value) == message


class Bayesian(BayesianRidge):
    """A regressor of one's own that predicts a frozen distribution."""

    def pred_dist(self, X):
        mean, sd = self.predict(X, return_std=True)
        return stats.norm(mean, sd)


class Trees(RandomForestRegressor):
    """Samples: what each tree says; or quantiles of that, as a quantile forest gives."""

    def members(self, X, quantiles=None):
        said = np.stack([tree.predict(X) for tree in self.estimators_], axis=1)
        return said if quantiles is None else np.quantile(said, quantiles, axis=1).T


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    return X, X[:, 0] + rng.normal(size=120)


def test_a_regressor_of_ones_own(rows):
    X, y = rows
    parent = ProbabilisticRegressor(Bayesian()).fit(X, y)
    mean, sd = BayesianRidge().fit(X, y).predict(X, return_std=True)
    np.testing.assert_allclose(parent.predict(X), mean)
    np.testing.assert_allclose(parent.predict_dist(X).ppf(0.9), stats.norm(mean, sd).ppf(0.9))
    assert parent.n_features_in_ == 2 and not hasattr(parent.regressor, "coef_")
    frozen = ProbabilisticRegressor(FrozenEstimator(parent.regressor_)).fit(X[:5], -y[:5])
    np.testing.assert_array_equal(frozen.predict(X), parent.predict(X))
    ours = ProbabilisticRegressor(GaussianLinear()).fit(X, y)
    np.testing.assert_array_equal(
        ours.predict_dist(X).ppf(0.9), GaussianLinear().fit(X, y).predict_dist(X).ppf(0.9)
    )
    np.testing.assert_array_equal(
        from_bytes(to_bytes(ours), "it").value.predict_dist(X).ppf(0.9),
        ours.predict_dist(X).ppf(0.9),
    )


def test_samples_and_quantiles_of_a_forest(rows):
    X, y = rows
    trees = Trees(15, random_state=0)
    drawn = ProbabilisticRegressor(trees, method="members").fit(X, y)
    np.testing.assert_allclose(
        drawn.predict(X), RandomForestRegressor(15, random_state=0).fit(X, y).predict(X)
    )
    levels = [0.1, 0.5, 0.9]
    by_level = ProbabilisticRegressor(
        trees, method="members", arguments={"quantiles": levels}, levels=levels
    ).fit(X, y)
    np.testing.assert_allclose(
        by_level.predict_dist(X).ppf(0.5), np.median(drawn.regressor_.members(X), axis=1)
    )


@pytest.mark.parametrize(
    "regressor", [BayesianRidge(), GaussianProcessRegressor(alpha=0.1)], ids=["ridge", "process"]
)
def test_means_and_deviations_of_scikit_learn_are_normal_distributions(rows, regressor):
    X, y = rows
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


def test_a_deviation_of_zero_is_a_very_narrow_distribution():
    said = distribution_from_predictions((np.array([2.0, 0.0]), np.zeros(2)))
    np.testing.assert_allclose(said.interval(0.99)[1], [2, 0], rtol=1e-11, atol=1e-280)
    assert np.isfinite(said.cdf(np.array([2.0, 0.0]))).all()


class QuantileForest(RandomForestRegressor):
    """``predict`` with levels, as that of quantile-forest has it: by trees here, by rows of leaves
    there.
    """

    def predict(self, X, quantiles: Any = "mean"):
        said = np.stack([tree.predict(X) for tree in self.estimators_], axis=1)
        return said.mean(axis=1) if quantiles == "mean" else np.quantile(said, quantiles, axis=1).T


def test_from_a_configuration(rows):
    """A class by its name on the command line, what it is asked, and with which arguments."""
    X, y = rows
    here = "parent.regressor._target_=tests.parents.test_predictive.QuantileForest"
    asked = [
        "parent.method=predict",
        "+parent.arguments.quantiles=[0.1,0.5,0.9]",
        "parent.levels=[0.1,0.5,0.9]",
    ]
    config = compose(
        [
            "method=predictive",
            "dataset=heteroscedastic",
            here,
            "+parent.regressor.n_estimators=15",
            *asked,
        ]
    )
    check(config)
    said = build(config.parent, random_state=0).fit(X, y).predict_dist(X)
    trees = RandomForestRegressor(15, random_state=0).fit(X, y)
    np.testing.assert_allclose(
        said.ppf(0.5), np.median([tree.predict(X) for tree in trees.estimators_], axis=0)
    )
    default = build(compose(["parent=predictive", "dataset=heteroscedastic"]).parent).fit(X, y)
    np.testing.assert_allclose(default.predict(X), BayesianRidge().fit(X, y).predict(X))


def test_a_regressor_without_distributions_is_refused(rows):
    with pytest.raises(ParameterError) as caught:
        ProbabilisticRegressor(LinearRegression()).fit(*rows)
    assert (
        str(caught.value)
        == "method must be one that LinearRegression has and that predicts distributions, got None"
    )
