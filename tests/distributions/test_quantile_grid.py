"""Quantile grids: moments against integrals over levels, round trips and continuous tails."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from kdgraph.distributions import QuantileGrid

LEVELS = np.array([0.05, 0.2, 0.5, 0.7, 0.9])
VALUES = np.array([[-3.0, -1.0, 0.0, 2.0, 3.0], [10.0, 10.5, 14.0, 14.25, 30.0]])


def test_moments_match_numerical_integrals():
    for values in VALUES:
        grid, edges = (
            QuantileGrid(LEVELS, values[None]),
            [values[0] - 400, *values, values[-1] + 400],
        )
        check_moments(grid)
        pieces = [
            integrate.quad(
                lambda y, distribution: distribution.pdf(y)[0], a, b, args=(grid,), limit=200
            )[0]
            for a, b in pairwise(edges)
        ]
        np.testing.assert_allclose(pieces, np.diff([0, *LEVELS, 1]), atol=1e-7)


def check_moments(grid: QuantileGrid) -> None:
    """Compare with integrals over levels from 1e-9 to 1 - 1e-9; the rest is 1e-7 of them."""
    mean, var = grid.mean()[0], grid.var()[0]
    first, second = (
        integrate.quad(
            lambda q: (grid.ppf(q)[0] - center) ** power,  # noqa: B023
            1e-9,
            1 - 1e-9,
            points=[*LEVELS],
            limit=200,
        )[0]
        for center, power in ((0.0, 1), (mean, 2))
    )
    assert (mean, var) == (pytest.approx(first, rel=1e-5), pytest.approx(second, rel=1e-5))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-50, 50, width=32), min_size=5, max_size=5), st.floats(1e-6, 1 - 1e-6))
def test_levels_and_values_round_trip(values, q):
    """Quantiles may be equal or unsorted; a tied value has the higher level."""
    grid = QuantileGrid(LEVELS, np.array([values]))
    y = grid.ppf(q)
    assert grid.cdf(y)[0] >= q - 1e-9
    np.testing.assert_array_equal(grid.ppf(LEVELS)[0], np.sort(values))
    quantiles = grid.ppf(np.linspace(0.001, 0.999, 400))[0]
    assert (np.diff(quantiles) >= 0).all()
    if float(np.diff(np.sort(values)).min()) > 1e-3:
        assert grid.cdf(y)[0] == pytest.approx(q, abs=1e-9)


def test_tails_are_exponential():
    """The length is that of the tail through the second quantile, whose level is 0.2 or above."""
    result = QuantileGrid(LEVELS, VALUES)
    t = 2 / np.log(0.2 / 0.05)
    expected = 0.05 * stats.expon.sf(5, scale=t)
    assert (
        result.cdf(np.array([-8.0, 0.0]))[0] == pytest.approx(expected)
        and result.ppf(0.0)[0] == -np.inf
        and result.ppf(1.0)[1] == np.inf
    )
    for end, p, length in ((-3.0, 0.05, t), (3.0, 0.1, 1 / np.log(0.3 / 0.1))):
        outside = end + np.sign(end) * 2
        assert result[[0]].pdf(outside)[0] == pytest.approx(p / length * np.exp(-2 / length))


def test_tails_of_an_exponential_distribution_are_exact():
    """Each of three quantiles implies the mean 3; a tie with the last makes one of them 0."""
    levels = np.array([0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 0.99])
    values = stats.expon.ppf(levels, scale=3.0)[None]
    far = np.array([40.0])
    assert QuantileGrid(levels, values).cdf(far) == pytest.approx(stats.expon.cdf(far, scale=3.0))
    values[:, -2] = values[:, -1]
    tied = QuantileGrid(levels, values)
    length = (far - values[:, -1]) / -np.log((1 - tied.cdf(far)) / 0.01)
    assert length == pytest.approx(np.array([3.0 * 2 / 3]), rel=1e-9)


def test_extended_levels_order_values_far_out():
    """Levels lead back to values at which the distribution function is rounded to 0 or 1."""
    grid, y = (
        QuantileGrid(LEVELS, VALUES),
        np.array([[-1900.0, -1800.0, 0.0, 700.0, 800.0], [-900.0, -800.0, 12.0, 3000.0, 4000.0]]),
    )
    levels = grid.extended_cdf(y)
    assert (
        (levels[:, :2] < 0).all()
        and (levels[:, 3:] > 1).all()
        and (np.diff(levels, axis=1) > 0).all()
    )
    assert levels[0, 4] == pytest.approx(1 - np.log(0.1) + (800 - 3) * np.log(3))
    np.testing.assert_allclose(grid.extended_ppf(levels), y)
    np.testing.assert_array_equal(grid.extended_cdf(y[:, 2]), grid.cdf(y[:, 2]))


def test_a_dense_grid_approximates_the_distribution():
    """With 99 levels the variance is accurate to 2 % and the CRPS to 0.002."""
    levels = np.linspace(0.01, 0.99, 99)
    grid, y = (
        QuantileGrid(levels, np.tile(stats.norm.ppf(levels), (3, 1))),
        np.array([-1.0, 0.0, 2.0]),
    )
    np.testing.assert_allclose(grid.mean(), 0, atol=1e-9)
    np.testing.assert_allclose(grid.var(), 1, atol=0.02)
    expected = y * (2 * stats.norm.cdf(y) - 1) + 2 * stats.norm.pdf(y) - 1 / np.sqrt(np.pi)
    np.testing.assert_allclose(grid.crps(y), expected, atol=2e-3)
    np.testing.assert_array_equal(grid.cdf(np.column_stack([y, y]))[:, 1], grid.cdf(y))
    np.testing.assert_array_equal(grid[1:].ppf(0.3), grid.ppf(0.3)[1:])


@pytest.mark.parametrize("levels", [[0.5], [0.5, 0.5], [0.0, 0.5], [0.5, 1.0]])
def test_rejects_invalid_levels_and_values(levels):
    with pytest.raises(ValueError, match="levels must be at least two increasing numbers in"):
        QuantileGrid(np.array(levels), np.zeros((1, len(levels))))
    with pytest.raises(ValueError, match="values must have 5 finite numbers a row"):
        QuantileGrid(LEVELS, np.full((1, 5), np.nan))


TIED = np.array([[0.0, 0.0, 1.0, 2.0, 4.0], [0.0, 1.0, 2.0, 4.0, 4.0], [3.0, 3.0, 3.0, 3.0, 3.0]])


def test_tied_quantiles_are_a_point_mass():
    result = QuantileGrid(LEVELS, TIED)
    np.testing.assert_allclose(result.cdf(0.0), [0.2, 0.05, 0])
    np.testing.assert_allclose(result.cdf(np.array([-1e-9, 4.0, 3.0])), [0, 1, 1])
    np.testing.assert_allclose([result.mean()[2], result.var()[2]], [3, 0], atol=1e-12)
    assert result.ppf(np.array([0.0, 1.0]))[2].tolist() == [3, 3]
    np.testing.assert_allclose(result.crps(np.array([0.0, 0.0, 5.5]))[2], 2.5, rtol=1e-7)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(-3, 3), min_size=5, max_size=5),
    st.one_of(st.integers(-5, 5), st.floats(-20, 20)),
)
def test_crps_matches_an_integral_over_outcomes_with_ties(values, y):
    """The reference is ∫ (F(x) - [x >= y])² dx between quantiles, outcome and far tails.

    Beyond 400 the tails, of length 6/0.45·0.1 at most, hold less than 1e-40.
    """
    grid = QuantileGrid(LEVELS, np.array([values], dtype=float))
    points = sorted({-400.0, *map(float, values), float(y), 400.0})
    # An interval is open: at its ends F may have a step.
    expected = sum(
        integrate.quad(lambda x: (grid.cdf(x)[0] - (x >= y)) ** 2, a, b, limit=200)[0]
        for a, b in pairwise(points)
    )
    assert grid.crps(np.array([float(y)]))[0] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_levels_beyond_ties_use_the_nearest_different_quantile():
    """Tails are (1 - 0) / log(.5/.05) below row 1, and (4 - 2) / log(.5/.1) above row 2."""
    result = QuantileGrid(LEVELS, TIED[:2])
    low, high = 1 / np.log(10), 2 / np.log(5)
    assert result.extended_cdf(np.array([-2 * low, 0.0]))[0] == pytest.approx(0.05 * np.exp(-2))
    assert result.extended_cdf(np.array([0.0, 4 + 3 * high]))[1] == pytest.approx(
        1 - 0.1 * np.exp(-3)
    )
    y = np.array([[-100.0, -2.0, 1.5, 5.0, 600.0], [-100.0, -0.1, 1.5, 4.5, 600.0]])
    levels = result.extended_cdf(y)
    assert (np.diff(levels, axis=1) > 0).all() and np.isfinite(levels).all()
    np.testing.assert_allclose(result.extended_ppf(levels), y, rtol=1e-9)


def test_nearly_tied_quantiles_act_as_tied():
    """Interpolated quantiles differ by rounding; distances in units of that would be infinite."""
    nudged = TIED + np.array([0, 1e-16, 0, 0, 0])
    y = np.array([-3.0, 9.0, 4.0])
    np.testing.assert_allclose(
        QuantileGrid(LEVELS, nudged)[:2].extended_cdf(y[:2]),
        QuantileGrid(LEVELS, TIED)[:2].extended_cdf(y[:2]),
        rtol=1e-3,
    )
    flat = QuantileGrid(LEVELS, 0.3 + np.array([[0, 0, 0, 1e-17, 5e-17]]))
    assert flat.extended_cdf(np.array([[0.1, 0.4]])).tolist() == [[-np.inf, np.inf]]


def test_levels_beyond_equal_quantiles_are_infinite():
    result = QuantileGrid(LEVELS, TIED[2:])
    assert result.extended_cdf(np.array([[2.9, 3.0, 1e6]])).tolist() == [[-np.inf, 1, np.inf]]
    assert result.extended_ppf(np.array([-np.inf, -9.0, 0.0, 0.3, 1.0, 9.0, np.inf])).tolist() == [
        [3.0] * 7
    ]
    lowest, highest = result.fallback_levels()
    assert (lowest, highest) == (pytest.approx(0.05 / np.e), pytest.approx(1 - 0.1 / np.e))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([0.0, 1.0, 2.5]), min_size=5, max_size=5), st.floats(-20, 3))
def test_extended_levels_have_the_order_of_the_cdf(values, y):
    grid, steps = (
        QuantileGrid(LEVELS, np.array([values])),
        np.array([[-30.0, y, y + 0.5, 3.6]]),
    )  # farther above, 1 - F is rounded to 0
    levels, cdf = grid.extended_cdf(steps)[0], grid.cdf(steps)[0]
    assert (levels[1:] >= levels[:-1]).all() and (cdf[1:] >= cdf[:-1]).all()
    if len(set(values)) > 1:
        assert np.isfinite(levels).all()
        np.testing.assert_allclose(grid.extended_ppf(levels[None]), steps, rtol=1e-7, atol=1e-7)
