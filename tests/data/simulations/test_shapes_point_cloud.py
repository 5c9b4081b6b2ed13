"""Point clouds along outlines in two dimensions, with noise in all others."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from kdgraph.data.dataset import Simulation
from kdgraph.data.simulations import PointCloud

SHAPES = ["circles", "lines", "squares"]


def outline_residual(shape: str, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return Float[n]: 0 for points that satisfy the equation of the outline of their class."""
    size = np.where(y == 0, 1.0, 0.5)
    x1, x2 = X[:, 0], X[:, 1]
    return {
        "circles": x1**2 + x2**2 - size**2,
        "lines": x2 - np.where(y == 0, x1, -x1),
        "squares": np.maximum(np.abs(x1), np.abs(x2)) - size,
    }[shape]


@pytest.mark.parametrize("shape", SHAPES)
def test_points_lie_on_the_outline_of_their_class(shape):
    X, y = PointCloud(shape, noise_std=0.0).sample(400, np.random.default_rng(0))
    np.testing.assert_allclose(outline_residual(shape, X, y), 0, atol=1e-12)
    for label in (0, 1):
        spread = X[y == label]
        assert (np.abs(spread.mean(axis=0)) < 0.2).all() and (spread.max(axis=0) > 0.4).all(), (
            "all around the centre"
        )


@pytest.mark.parametrize("shape", SHAPES)
def test_further_dimensions_are_uniform_noise_in_balanced_classes(shape):
    """Check uniformity by Kolmogorov and Smirnov's test at the level 0.001, with fixed seeds."""
    source = PointCloud(shape, n_dims=5)
    assert (
        isinstance(source, Simulation)
        and source.name == f"cloud_{shape}"
        and source.feature_names == ("x1", "x2", "x3", "x4", "x5")
    )
    X, y = source.sample(2001, np.random.default_rng(1))
    assert X.shape == (2001, 5) and abs(np.ptp(np.bincount(y))) == 1
    for column in X[:, 2:].T:
        for label in (0, 1):
            assert kstest(column[y == label], "uniform", (-1, 2)).pvalue > 0.001


def test_noise_has_its_standard_deviation():
    """Compare within 5 %, four standard errors of 4,000 rows."""
    X, y = PointCloud("lines", noise_std=0.2).sample(4000, np.random.default_rng(2))
    assert outline_residual("lines", X, y).std() == pytest.approx(0.2 * np.sqrt(2), rel=0.05)
