"""Normal distributions and wrapped families of scipy.stats against scipy, row by row."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from kdgraph.distributions import Normal, ScipyFamily, as_distribution
from kdgraph.errors import ParameterError

LOC, SCALE = np.array([-3.0, 0.0, 1e3]), np.array([0.5, 1.0, 20.0])
FAMILIES = {
    "normal": (Normal(LOC, SCALE), [stats.norm(m, s) for m, s in zip(LOC, SCALE, strict=True)]),
    "gamma": (
        ScipyFamily("gamma", {"a": np.array([0.7, 2.0, 50.0]), "scale": np.array([1.0, 3.0, 0.1])}),
        [stats.gamma(0.7), stats.gamma(2, scale=3), stats.gamma(50, scale=0.1)],
    ),
    "t": (
        as_distribution(stats.t(4, LOC, SCALE)),
        [stats.t(4, m, s) for m, s in zip(LOC, SCALE, strict=True)],
    ),
}


@pytest.fixture(params=FAMILIES)
def family_and_rows(request):
    return FAMILIES[request.param]


def test_every_method_equals_scipy_row_by_row(family_and_rows):
    distribution, rows = family_and_rows
    y = np.array([[row.ppf(0.1), row.mean(), row.ppf(0.99)] for row in rows])
    q = np.array([0.025, 0.5, 0.975, 1.0])
    for method, argument, expected in (
        ("cdf", y, np.array([row.cdf(argument) for row, argument in zip(rows, y, strict=True)])),
        ("cdf", y[:, 0], np.full(3, 0.1)),
        ("cdf", 1.0, np.array([row.cdf(1.0) for row in rows])),
        ("pdf", y, np.array([row.pdf(argument) for row, argument in zip(rows, y, strict=True)])),
        ("ppf", q, np.array([row.ppf(q) for row in rows])),
        ("ppf", 0.3, np.array([row.ppf(0.3) for row in rows])),
        (
            "ppf",
            np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]),
            [row.ppf([0.1 + 0.2 * i, 0.2 + 0.2 * i]) for i, row in enumerate(rows)],
        ),
    ):
        np.testing.assert_allclose(
            getattr(distribution, method)(argument),
            expected,
            rtol=1e-12,
            atol=1e-15,
            err_msg=method,
        )
    np.testing.assert_allclose(distribution.mean(), [row.mean() for row in rows], rtol=1e-12)
    np.testing.assert_allclose(distribution.var(), [row.var() for row in rows], rtol=1e-12)
    np.testing.assert_allclose(
        np.transpose(distribution.interval(0.9)), [row.interval(0.9) for row in rows], rtol=1e-10
    )


@pytest.mark.parametrize(
    "index", [slice(1, 3), np.array([2, 0]), np.array([True, False, True]), 1, -1]
)
def test_indexing_keeps_the_distributions(family_and_rows, index):
    distribution, _ = family_and_rows
    subset = distribution[index]
    assert len(subset) == len(np.atleast_1d(np.arange(3)[index]))
    np.testing.assert_array_equal(subset.ppf(0.8), np.atleast_1d(distribution.ppf(0.8)[index]))


def test_samples_follow_the_distribution(family_and_rows):
    """There are 4000 draws a row; one in 1000 samples exceeds a distance of 1.95 / √n."""
    distribution, rows = family_and_rows
    samples = distribution.sample(4000, np.random.default_rng(0))
    assert samples.shape == (3, 4000) and np.isfinite(samples).all()
    for row, row_samples in zip(rows, samples, strict=True):
        assert stats.kstest(row_samples, row.cdf).statistic < 1.95 / np.sqrt(4000)


def crps_by_integration(row, y: float) -> float:
    """Return ∫ (F(x) - [x >= y])² dx in pieces around the mass of F, up to 1e-10 of it."""
    points = np.unique(
        [row.ppf(1e-10), *row.ppf(np.linspace(0.01, 0.99, 12)), y, row.ppf(1 - 1e-10)]
    )
    return sum(
        quad(lambda x: (row.cdf(x) - (x >= y)) ** 2, a, b, limit=200)[0]
        for a, b in pairwise(points)
    )


@pytest.mark.parametrize("level", [0.001, 0.3, 0.95, 0.9999])
def test_crps_matches_its_definition(family_and_rows, level):
    """The quadrature is accurate to 2e-8 for normal tails, and to 1e-6 for heavier ones."""
    distribution, rows = family_and_rows
    y = np.array([row.ppf(level) for row in rows])
    expected = [crps_by_integration(row, outcome) for row, outcome in zip(rows, y, strict=True)]
    np.testing.assert_allclose(distribution.crps(y), expected, rtol=1e-6)


def test_crps_quadrature_matches_the_closed_form():
    """Compare the quadrature for the normal family of scipy with the closed form."""
    rng = np.random.default_rng(1)
    loc, scale = rng.normal(size=50), rng.uniform(0.1, 3, size=50)
    y = loc + scale * np.linspace(-9, 9, 50)
    by_quantiles = ScipyFamily("norm", {"loc": loc, "scale": scale}).crps(y)
    np.testing.assert_allclose(by_quantiles, Normal(loc, scale).crps(y), rtol=2e-8)


def test_block_size_changes_no_bit(monkeypatch):
    distribution, _ = FAMILIES["gamma"]
    y = np.array([1.0, 2.0, 6.0])
    all_scores = distribution.crps(y)
    monkeypatch.setattr("kdgraph.distributions.base.BLOCK_VALUES", 1)
    np.testing.assert_array_equal(distribution.crps(y), all_scores)


@pytest.mark.parametrize("q", [-0.1, 1.5, float("nan"), np.array([0.5, 2.0])])
def test_rejects_levels_outside_0_to_1(family_and_rows, q):
    with pytest.raises(ParameterError, match=r"^q must be in \[0, 1\], got "):
        family_and_rows[0].ppf(q)


def test_rejects_values_of_a_different_number_of_rows(family_and_rows):
    with pytest.raises(
        ValueError,
        match=(
            r"^there are distributions of 3 rows: values must have shape \(3,\) or \(3, m\), got"
            r" \(4,\)$"
        ),
    ):
        family_and_rows[0].cdf(np.zeros(4))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Normal(np.zeros(2), np.array([1.0, 0.0])),
            "scale must be finite and above 0, got 0 in row 1",
        ),
        (
            lambda: Normal(np.array([0.0, np.nan]), np.ones(2)),
            "loc must be one finite number a row, got [nan]",
        ),
        (
            lambda: ScipyFamily("gama", {"a": np.ones(2)}),
            "scipy.stats has no continuous family named 'gama'",
        ),
        (
            lambda: ScipyFamily("gamma", {"a": np.array([1.0, -1.0])}),
            "gamma has no distribution with the parameters of row 1, {'a': -1.0}",
        ),
        (
            lambda: ScipyFamily("gamma", {"a": 1.0}),
            "parameters must be one number a row, got shapes [()]",
        ),
    ],
)
def test_rejects_invalid_parameters(make, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()


def test_as_distribution_rejects_other_types():
    with pytest.raises(
        TypeError,
        match=(
            r"^predict_dist must give a kdgraph Distribution or a frozen distribution of"
            r" scipy.stats, got ndarray$"
        ),
    ):
        as_distribution(np.zeros(3))
