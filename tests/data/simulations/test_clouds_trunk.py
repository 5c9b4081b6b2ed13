from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, truncnorm

from kdgraph.data.simulations import Trunk
from kdgraph.errors import DataError


@pytest.mark.parametrize("d", [1, 3, 20])
@pytest.mark.parametrize("truncated", [True, False])
def test_posterior_is_bayes_rule_with_scipy_densities(d, truncated):
    X = np.random.default_rng(0).uniform(-1, 1, (100, d))
    mu = 1 / np.sqrt(np.arange(1, d + 1))
    logs = []
    for mean in (mu, -mu):
        distribution = truncnorm(-1 - mean, 1 - mean, loc=mean) if truncated else norm(mean)
        logs.append(distribution.logpdf(X).sum(axis=1))
    expected = 1 / (1 + np.exp(logs[1] - logs[0]))
    np.testing.assert_allclose(
        Trunk(d, truncated=truncated).posterior(X)[:, 0], expected, atol=1e-12
    )


@pytest.mark.parametrize("truncated", [True, False])
def test_sample_has_the_moments_of_its_distribution(truncated):
    """Compare 40,000 rows: means within 5 standard errors, standard deviations within 3 %."""
    X, y = Trunk(4, truncated=truncated).sample(40_000, np.random.default_rng(0))
    for c, sign in ((0, 1), (1, -1)):
        mean = sign / np.sqrt(np.arange(1, 5))
        distribution = truncnorm(-1 - mean, 1 - mean, loc=mean) if truncated else norm(mean)
        rows = X[y == c]
        assert (
            np.abs(rows.mean(axis=0) - distribution.mean())
            < 5 * distribution.std() / np.sqrt(len(rows))
        ).all()
        np.testing.assert_allclose(rows.std(axis=0), distribution.std(), rtol=0.03)
    assert (np.abs(X) < 1).all() == truncated


def test_posterior_is_calibrated_in_many_dimensions():
    """Compare labels and posteriors in 20 bins of the posterior, within 4.5 standard deviations."""
    simulation = Trunk(50)
    X, y = simulation.sample(100_000, np.random.default_rng(0))
    p = simulation.posterior(X)[:, 0]
    bins = np.minimum((p * 20).astype(int), 19)
    difference, variance = np.bincount(bins, (y == 0) - p), np.bincount(bins, p * (1 - p))
    assert (np.abs(difference) < 4.5 * np.sqrt(variance)).all()


def test_posterior_at_extreme_points():
    X = [[1e308, -1e308], [1e308, -1.7e308], [1e6, 1e6], [0.0, 0.0]]
    np.testing.assert_allclose(
        Trunk(truncated=False).posterior(X), [[1, 0], [0, 1], [1, 0], [0.5, 0.5]], atol=1e-15
    )
    assert (Trunk().posterior(X) == 0.5).all()


def test_negation_swaps_the_classes():
    X = np.random.default_rng(0).uniform(-1, 1, (50, 7))
    np.testing.assert_allclose(Trunk(7).posterior(-X), Trunk(7).posterior(X)[:, ::-1], atol=1e-15)


def test_feature_names_and_invalid_points():
    assert Trunk(3).feature_names == ("x1", "x2", "x3")
    with pytest.raises(
        DataError, match=r"^trunk has 3 features: X must have shape \(n, 3\), got \(5, 2\)$"
    ):
        Trunk(3).posterior(np.zeros((5, 2)))
    with pytest.raises(
        DataError, match=r"^trunk has no posterior at NaN or infinity; drop such rows$"
    ):
        Trunk(1).posterior([[np.inf]])
