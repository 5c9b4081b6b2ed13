"""Regression simulations with known distributions, compared with SciPy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn import datasets

from kdgraph.data import make_splits
from kdgraph.data.dataset import RegressionSimulation
from kdgraph.data.simulations import FriedmanSimulation, Rosenbrock, Tran20
from kdgraph.errors import DataError

SOURCES = {
    "rosenbrock": Rosenbrock(),
    "tran20": Tran20(),
    **{f"friedman{k}_truth": FriedmanSimulation(k) for k in (1, 2, 3)},
}


@pytest.mark.parametrize("name", SOURCES)
def test_targets_have_the_true_distributions(name):
    """Check that PIT values are uniform and independent of the features, at the level 0.001."""
    source = SOURCES[name]
    X, y = source.sample(5000, np.random.default_rng(0))
    pits = source.distribution(X).cdf(y)
    assert stats.kstest(pits, "uniform").pvalue > 1e-3
    assert min(stats.spearmanr(x, np.abs(pits - 0.5)).pvalue for x in X.T) > 1e-3 / X.shape[1]
    assert (source.name, X.shape[1], len(source.feature_names)) == (name, X.shape[1], X.shape[1])
    assert isinstance(source, RegressionSimulation) and not len(source.classes)


@pytest.mark.parametrize("name", SOURCES)
def test_splits_have_the_truth_of_scaled_features(name):
    source = SOURCES[name]
    raw, scaled = (
        make_splits(
            source,
            n_train=50,
            n_calibration=20,
            n_test=30,
            scale=scale,
            rng=np.random.default_rng(0),
        )
        for scale in ("none", "min_max")
    )
    np.testing.assert_allclose(
        scaled.test.truth.mean(), source.distribution(raw.test.X).mean(), rtol=1e-9
    )


def test_mean_and_noise_of_rosenbrock():
    X, y = Rosenbrock().sample(20_000, np.random.default_rng(1))
    assert (X.min(axis=0) > [-2, -1]).all() and (X.max(axis=0) < [2, 5]).all()
    truth = Rosenbrock().distribution(X)
    mean_by_loop = [(1 - a) ** 2 + 10 * (b - a**2) ** 2 for a, b in X[:50].tolist()]
    np.testing.assert_allclose(truth.mean()[:50], mean_by_loop, rtol=1e-12)
    np.testing.assert_allclose(truth.var(), truth.mean() ** 2 / 100, rtol=1e-12)
    assert np.mean((y - truth.mean()) ** 2) == pytest.approx(
        57.5, rel=0.12
    )  # 4 standard errors, of a square with heavy tails


def test_least_squared_error_of_rosenbrock():
    """Compute E f² / shape by Gauss-Legendre, which is exact for a polynomial of degree 8."""
    x, w = np.polynomial.legendre.leggauss(12)
    f = (1 - 2 * x[:, None]) ** 2 + 10 * ((2 + 3 * x) - 4 * x[:, None] ** 2) ** 2
    assert (w[:, None] * w * f**2).sum() / 4 / 100 == pytest.approx(57.5, abs=0.05)


def test_rosenbrock_is_finite_at_its_minimum():
    truth = Rosenbrock().distribution(np.array([[1.0, 1.0]]))
    assert truth.mean()[0] == pytest.approx(0, abs=1e-290) and np.isfinite(truth.ppf(0.5)).all()


def test_features_and_mean_of_tran20():
    X, _ = Tran20().sample(40_000, np.random.default_rng(2))
    i = np.arange(20)
    np.testing.assert_allclose(
        np.cov(X.T), 0.5 ** np.abs(i[:, None] - i), atol=0.04
    )  # 5 standard errors of a variance
    mean = Tran20().distribution(X[:20]).mean()
    for row, row_mean in zip(X[:20].tolist(), mean, strict=True):
        x = dict(enumerate(row, start=1))
        expected = (
            5
            + 10 * x[1]
            + 10 / (x[2] ** 2 + 1)
            + 5 * x[3] * x[4]
            + 2 * x[4]
            + 5 * x[4] ** 2
            + 5 * x[5]
            + 2 * x[6]
        )
        expected += 10 / (x[7] ** 2 + 1) + 5 * x[8] * x[9] + 5 * x[9] ** 2 + 5 * x[10]
        assert row_mean == pytest.approx(expected, rel=1e-12)
    assert (Tran20(2.0).distribution(X[:3]).scale == 2).all()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_means_of_friedman_agree_with_scikit_learn(number):
    X, y = getattr(datasets, f"make_friedman{number}")(200, noise=0.0, random_state=0)
    source = FriedmanSimulation(number)
    np.testing.assert_allclose(source.distribution(X).mean(), y, rtol=1e-10)
    sample, _ = source.sample(2000, np.random.default_rng(0))
    for sample_column, reference_column in zip(sample.T, X.T, strict=True):
        assert stats.ks_2samp(sample_column, reference_column).pvalue > 1e-3


@pytest.mark.parametrize("name", SOURCES)
def test_invalid_features_are_refused(name):
    source = SOURCES[name]
    d = len(source.feature_names)
    with pytest.raises(
        DataError,
        match=rf"^{name} has {d} features: X must have shape \(n, {d}\), got \(2, {d + 1}\)$",
    ):
        source.distribution(np.ones((2, d + 1)))
    with pytest.raises(
        DataError,
        match=rf"^{name} has a distribution only where all features are finite; drop other rows$",
    ):
        source.distribution(np.full((1, d), np.nan))
