from __future__ import annotations

import numpy as np
from scipy.stats import multivariate_normal

from kdgraph.data.simulations import GaussianXor


def test_posterior_is_bayes_rule_with_scipy_densities():
    X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    g = {
        c: multivariate_normal(c, 0.25**2).pdf(X)
        for c in [(-0.5, 0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, -0.5)]
    }
    first, second = g[-0.5, 0.5] + g[0.5, -0.5], g[0.5, 0.5] + g[-0.5, -0.5]
    np.testing.assert_allclose(
        GaussianXor().posterior(X)[:, 0], first / (first + second), atol=1e-13
    )


def test_reflection_swaps_classes_and_half_turn_keeps_them():
    X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    p = GaussianXor().posterior(X)
    np.testing.assert_allclose(GaussianXor().posterior(X * [-1, 1]), p[:, ::-1], atol=1e-13)
    np.testing.assert_allclose(GaussianXor().posterior(-X), p, atol=1e-13)


def test_class_counts_are_multinomial():
    """Compare the variance of the class counts of 100 rows with 25, over 400 samples.

    The standard error of the variance is 7 %, and the tolerance is 5 standard errors.
    """
    counts = [
        (GaussianXor().sample(100, np.random.default_rng(seed))[1] == 0).sum()
        for seed in range(400)
    ]
    assert 16 < np.var(counts) < 34
    assert abs(np.mean(counts) - 50) < 5 * 5 / np.sqrt(400)


def test_posterior_does_not_underflow_with_little_noise():
    p = GaussianXor(noise_std=0.01).posterior([[0.0, 0.1], [0.1, 0.0], [0.5, 0.02], [0.5, 0.0]])
    np.testing.assert_allclose(p[2], [0, 1], atol=1e-12)
    np.testing.assert_allclose(p[[0, 1, 3]], 0.5, atol=1e-9)
