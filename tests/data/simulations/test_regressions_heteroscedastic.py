"""Parabola with noise that grows with x: its distribution, also in scaled features."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from kdgraph.data import make_splits
from kdgraph.data.dataset import PosteriorSimulation, RegressionSimulation, Simulation
from kdgraph.data.simulations import Heteroscedastic
from kdgraph.errors import DataError, ParameterError


def test_sample_has_its_distribution():
    """Check that x is uniform on (2, 20) and the scaled noise standard normal and independent of x.

    The tests have level 0.001.
    """
    X, y = Heteroscedastic().sample(20_000, np.random.default_rng(0))
    z = (y - 10 - 5 * X[:, 0] ** 2) / (30 * X[:, 0])
    assert stats.kstest(X[:, 0], stats.uniform(2, 18).cdf).pvalue > 1e-3
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert stats.spearmanr(X[:, 0], np.abs(z)).pvalue > 1e-3


def test_best_line_has_the_documented_slope_and_error():
    """Compare least squares on a fine grid with 5 (low + high) and 25 (high - low)⁴ / 180."""
    for low, high in ((2.0, 20.0), (1.0, 4.0)):
        x = np.linspace(low, high, 20_001)
        mean = Heteroscedastic(low, high).distribution(x[:, None]).mean()
        slope, intercept = np.polyfit(x, mean, 1)
        assert slope == pytest.approx(5 * (low + high), rel=1e-6)
        assert np.mean((mean - slope * x - intercept) ** 2) == pytest.approx(
            25 * (high - low) ** 4 / 180, rel=1e-3
        )


@pytest.mark.parametrize("scale", ["none", "min_max", "max_norm"])
def test_splits_have_the_truth_of_scaled_features(scale):
    source = Heteroscedastic()
    splits = make_splits(
        source, n_train=50, n_calibration=20, n_test=30, scale=scale, rng=np.random.default_rng(0)
    )
    raw = make_splits(source, n_train=50, n_calibration=20, n_test=30, rng=np.random.default_rng(0))
    for role, plain in ((splits.train, raw.train), (splits.test, raw.test)):
        assert (role.task, len(role.classes), role.posterior, role.y.dtype) == (
            "regression",
            0,
            None,
            np.float64,
        )
        np.testing.assert_allclose(role.truth.mean(), 10 + 5 * plain.X[:, 0] ** 2, rtol=1e-12)
        np.testing.assert_array_equal(role.y, plain.y)
    assert splits.prior is None


def test_heteroscedastic_is_a_regression_simulation():
    source = Heteroscedastic()
    assert (
        isinstance(source, Simulation)
        and isinstance(source, RegressionSimulation)
        and not isinstance(source, PosteriorSimulation)
    )


def test_invalid_parameters_and_features_are_refused():
    with pytest.raises(ParameterError, match=r"^high must be above low, 3, got 2$"):
        Heteroscedastic(3.0, 2.0)
    with pytest.raises(
        DataError,
        match=r"^heteroscedastic has 1 feature: X must have shape \(n, 1\), got \(2, 2\)$",
    ):
        Heteroscedastic().distribution(np.ones((2, 2)))
    with pytest.raises(
        DataError,
        match=(
            r"^heteroscedastic has a distribution only where x is finite and above 0; drop other"
            r" rows$"
        ),
    ):
        Heteroscedastic().distribution(np.array([[1.0], [-1.0]]))
