"""Recalibrated distributions against the explicit weighted sample."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from kdgraph.distributions import (
    LinearMap,
    Normal,
    QuantileGrid,
    RankedEcdf,
    Recalibrated,
    ScipyFamily,
    WeightedEcdf,
    WeightedSamples,
)
from kdgraph.errors import ParameterError
from kdgraph.persistence import from_bytes, to_bytes
from tests.variations import others_slow

PITS = hnp.arrays(np.float64, st.integers(1, 12), elements=st.integers(1, 63).map(lambda i: i / 64))
WEIGHTS = st.lists(st.integers(0, 5), min_size=12, max_size=12).filter(lambda w: w[0] > 0)


def exact_quantile(pits, weights, q: Fraction):
    """Return the smallest PIT value whose cumulative weight reaches q, in exact fractions."""
    total, reached = sum(weights), Fraction(0)
    for pit, weight in sorted(zip(pits.tolist(), weights, strict=True)):
        reached += Fraction(weight, total)
        if reached >= q and weight:
            return pit
    raise AssertionError("the weights do not sum to 1")


@given(PITS, WEIGHTS, st.integers(1, 40), st.integers(1, 40))
def test_quantiles_are_the_inverse_of_the_ecdf(pits, weights, a, b):
    """Levels that equal a step up to rounding belong to it."""
    weights, q = weights[: len(pits)], Fraction(min(a, b), max(a, b))
    result = WeightedEcdf.from_pits(pits, np.array(weights, dtype=float)).ppf(np.array([float(q)]))
    assert result.tolist() == [exact_quantile(pits, weights, q)]


@given(PITS, WEIGHTS, st.floats(0, 1))
def test_ecdf_is_the_weight_of_values_not_above(pits, weights, p):
    weights = np.array(weights[: len(pits)], dtype=float)
    result = WeightedEcdf.from_pits(pits, weights).cdf(np.array([p]))[0]
    assert result == pytest.approx(weights[pits <= p].sum() / weights.sum(), abs=1e-14)


def test_equal_weights_match_inverted_cdf_of_numpy():
    pits = np.random.default_rng(0).random(1000)
    q = np.append(np.linspace(0, 1, 401), [(1 - 0.95) / 2, (1 + 0.95) / 2])
    result = WeightedEcdf.from_pits(pits).ppf(q)
    np.testing.assert_array_equal(
        result[:-2], np.quantile(pits, np.round(q[:-2], 10), method="inverted_cdf")
    )
    np.testing.assert_array_equal(
        result[-2:], np.sort(pits)[[24, 974]]
    )  # the 25th and the 975th of 1000 values reach .025 and .975


def test_interval_covers_the_calibration_rows():
    """It covers 975 - 25 + 1 of 1000 rows, both ends included."""
    rng = np.random.default_rng(0)
    base, y = Normal(np.zeros(1000), np.ones(1000)), rng.uniform(-1, 3, size=1000)
    low, high = Recalibrated(base, WeightedEcdf.from_pits(base.cdf(y))).interval(0.95)
    assert ((low - 1e-9 <= y) & (y <= high + 1e-9)).sum() == 951


def base_distributions(n: int):
    """Return normal distributions with and without their standard form, and Gammas."""
    rng = np.random.default_rng(n)
    loc, scale = rng.normal(size=n), rng.uniform(0.5, 2, size=n)
    return {
        "normal": Normal(loc, scale),
        "norm of scipy": ScipyFamily("norm", {"loc": loc, "scale": scale}),
        "gamma": ScipyFamily("gamma", {"a": rng.uniform(0.5, 9, size=n), "scale": scale}),
    }


@pytest.mark.parametrize("base", ["normal", "norm of scipy", "gamma"])
@pytest.mark.parametrize("weighted", [False, True])
def test_mean_variance_and_crps_match_the_sample(base, weighted, monkeypatch):
    """Compare with the n × m sample and its double sum; block size changes no bit."""
    rng = np.random.default_rng(0)
    pits, weights = rng.beta(2, 1, size=40), rng.random(40) if weighted else np.ones(40)
    base_distribution = base_distributions(25)[base]
    recalibrated = Recalibrated(
        base_distribution, WeightedEcdf.from_pits(pits, weights if weighted else None)
    )
    x, w, y = base_distribution.ppf(pits), weights / weights.sum(), rng.normal(size=25) * 3
    mean = x @ w
    to_y, pairs = np.abs(x - y[:, None]) @ w, np.abs(x[:, :, None] - x[:, None, :])
    np.testing.assert_allclose(recalibrated.mean(), mean, rtol=1e-12)
    np.testing.assert_allclose(recalibrated.var(), (x - mean[:, None]) ** 2 @ w, rtol=1e-11)
    np.testing.assert_allclose(recalibrated.crps(y), to_y - (pairs @ w) @ w / 2, rtol=1e-11)
    all_values = recalibrated.mean(), recalibrated.crps(y)
    monkeypatch.setattr("kdgraph.distributions.base.BLOCK_VALUES", 40)
    np.testing.assert_array_equal((recalibrated.mean(), recalibrated.crps(y)), all_values)


@settings(deadline=None)
@given(PITS, st.floats(-30, 30, allow_nan=False), st.floats(0, 1, exclude_max=True))
def test_cdf_and_ppf_are_monotone_inverses(pits, y, q):
    """The cdf increases from 0 to 1, and ppf(q) is the smallest value with cdf >= q."""
    recalibrated = Recalibrated(
        Normal(np.array([0.0, 5.0]), np.array([1.0, 3.0])), WeightedEcdf.from_pits(pits)
    )
    low, high = recalibrated.cdf(np.array([y, y])), recalibrated.cdf(np.array([y + 1, y + 1]))
    assert ((low >= 0) & (low <= high) & (high <= 1)).all()
    x = recalibrated.ppf(q)
    assert (recalibrated.cdf(x + 1e-9) >= q - 1e-12).all() and (
        recalibrated.cdf(x - 1e-6) <= q + 1e-12
    ).all() | (q == 0)


def test_uniform_pits_hardly_change_the_base():
    """With PIT values on a fine grid, R is the identity up to 1/m."""
    base = Normal(np.zeros(3), np.array([1.0, 2.0, 3.0]))
    recalibrated = Recalibrated(base, WeightedEcdf.from_pits((np.arange(5000) + 0.5) / 5000))
    y = np.linspace(-4, 4, 9) * base.scale[:, None]
    np.testing.assert_allclose(recalibrated.cdf(y), base.cdf(y), atol=1e-4)
    np.testing.assert_allclose(recalibrated.var(), base.var(), rtol=1e-3)


def test_recalibrated_pits_of_calibration_rows_are_uniform():
    """R(F(y_i)) is i/m on the calibration rows, whatever F is."""
    rng = np.random.default_rng(0)
    base, y = Normal(np.zeros(200), np.full(200, 3.0)), rng.exponential(size=200)
    recalibrated = Recalibrated(base, WeightedEcdf.from_pits(base.cdf(y)))
    np.testing.assert_allclose(np.sort(recalibrated.cdf(y)), np.arange(1, 201) / 200)


def test_shapes_and_indexing():
    recalibrated = Recalibrated(
        base_distributions(6)["gamma"], WeightedEcdf.from_pits(np.array([0.2, 0.7, 0.9]))
    )
    assert (
        recalibrated.ppf(0.5).shape,
        recalibrated.ppf(np.array([0.1, 0.9])).shape,
        recalibrated.ppf(np.full((6, 3), 0.5)).shape,
    ) == ((6,), (6, 2), (6, 3))
    assert (
        recalibrated.cdf(np.ones(6)).shape,
        recalibrated.cdf(np.ones((6, 4))).shape,
        recalibrated.sample(5, np.random.default_rng(0)).shape,
    ) == (
        (6,),
        (6, 4),
        (6, 5),
    )
    for index in (slice(2, 5), np.array([5, 0]), 3):
        np.testing.assert_array_equal(
            recalibrated[index].ppf(0.6), np.atleast_1d(recalibrated.ppf(0.6)[index])
        )
    assert not hasattr(recalibrated, "pdf")
    with pytest.raises(ParameterError, match=r"^q must be in \[0, 1\], got 1.2$"):
        recalibrated.ppf(1.2)


def test_samples_are_atoms_in_proportion_to_weight():
    """There are 3000 draws; the tolerance is 4.5 standard deviations of a fraction."""
    recalibrated = Recalibrated(
        Normal(np.zeros(1), np.ones(1)),
        WeightedEcdf.from_pits(np.array([0.25, 0.75]), np.array([1.0, 3.0])),
    )
    samples = recalibrated.sample(3000, np.random.default_rng(0))[0]
    low, high = stats.norm.ppf([0.25, 0.75])
    assert set(samples.round(12)) == {round(low, 12), round(high, 12)}
    assert abs((samples > 0).mean() - 0.75) < 4.5 * np.sqrt(0.75 * 0.25 / 3000)


@pytest.mark.parametrize(
    ("base", "largest_distance"), [("normal", 200.0), ("norm of scipy", 36.0), ("gamma", 300.0)]
)
def test_extended_levels_order_values_where_the_cdf_is_rounded(base, largest_distance):
    """Levels equal the cdf below 1, increase strictly beyond it, and lead back to the values."""
    base_distribution = base_distributions(3)[base]
    scale = base_distribution.scale if base == "normal" else base_distribution.parameters["scale"]
    y = base_distribution.ppf(0.5)[:, None] + scale[:, None] * np.linspace(0, largest_distance, 40)
    levels, is_unrounded = base_distribution.extended_cdf(y), base_distribution.cdf(y) < 1
    assert (
        (np.diff(levels) >= 0).all()
        and (np.diff(levels)[~is_unrounded[:, :-1]] > 0).all()
        and not is_unrounded.all()
    )
    np.testing.assert_array_equal(levels[is_unrounded], base_distribution.cdf(y)[is_unrounded])
    np.testing.assert_allclose(
        base_distribution.extended_ppf(levels)[~is_unrounded], y[~is_unrounded], rtol=1e-9
    )


@pytest.mark.parametrize(
    ("pits", "weights", "message"),
    [
        ([0.0, 0.5], None, "PIT values must be at least one number, none of them 0 or 1, got 0.0"),
        (
            [0.5, np.nan],
            None,
            "PIT values must be at least one number, none of them 0 or 1, got nan",
        ),
        ([], None, "PIT values must be at least one number, none of them 0 or 1, got (0,)"),
        ([0.5, 0.6], [1.0, -1.0], "weights must be 2 numbers from 0, not all 0, got [1.0, -1.0]"),
        ([0.5, 0.6], [0.0, 0.0], "weights must be 2 numbers from 0, not all 0, got [0.0, 0.0]"),
    ],
)
def test_rejects_invalid_pit_values_and_weights(pits, weights, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        WeightedEcdf.from_pits(np.array(pits), None if weights is None else np.array(weights))


def test_saved_distribution_is_identical():
    for base in base_distributions(4).values():
        recalibrated = Recalibrated(base, WeightedEcdf.from_pits(np.array([0.3, 0.6])))
        loaded = from_bytes(to_bytes(recalibrated), "it").value
        np.testing.assert_array_equal(
            loaded.ppf(np.array([0.2, 0.8])), recalibrated.ppf(np.array([0.2, 0.8]))
        )


TIED = np.array(
    [[0, 0, 0, 3, 9], [0, 1, 3, 9, 9], [0, 0, 3, 9, 9], [0, 3, 3, 3, 9], [3, 3, 3, 3, 3]], float
)
TIED_BASES = {
    "grid": QuantileGrid(np.array([0.1, 0.3, 0.5, 0.7, 0.9]), TIED),
    "sample": WeightedSamples(TIED),
    "weighted sample": WeightedSamples(TIED, np.array([1.0, 0.0, 2.0, 5.0, 1.0])),
}


def integrated_crps(distribution, row: int, y: float, breaks) -> float:
    """Return ∫ (F(x) - [x >= y])² dx by the midpoint rule between breaks, 2,000 parts each.

    It is exact for a step function whose steps are at breaks.
    """
    points = np.unique(np.append(breaks, y))
    fractions = (np.arange(2000) + 0.5) / 2000
    x = (points[:-1, None] + np.diff(points)[:, None] * fractions).ravel()
    heights = np.square(distribution[[row]].cdf(x[None])[0] - (x >= y))
    return float((heights * np.repeat(np.diff(points) / 2000, 2000)).sum())


@pytest.mark.parametrize("base", TIED_BASES.values(), ids=TIED_BASES)
@pytest.mark.parametrize("kind", others_slow(["shared", "by row", "linear"]))
def test_crps_after_tied_quantiles_matches_an_integral(base, kind):
    """PIT values at the ends of ties, tied themselves, and one far below and above everything."""
    beyond = (-760.0, 770.0) if isinstance(base, QuantileGrid) else (-2.0, 3.0)
    pits = np.concatenate([np.linspace(0.02, 0.98, 40), [0.3] * 8, [0.9] * 5, beyond])
    maps = {
        "shared": WeightedEcdf.from_pits(pits),
        "by row": RankedEcdf.from_pits(
            pits, np.tile(np.arange(len(pits)), (5, 1)), 1.0 + np.ones((5, 1)) * (pits > 0.5)
        ),
        "linear": LinearMap.from_pits(pits[:-2]),
    }
    new = Recalibrated(base, maps[kind])
    tails = np.array([1e-9, 1 - 1e-9])
    for y in (-2.0, 0.0, 1.0, 3.0, 9.0, 20.0):
        scores = new.crps(np.full(5, y))
        for row in range(5):
            atoms = maps[kind][[row]].atoms()[0]
            levels = tails if kind == "linear" else atoms.ravel()
            breaks = np.append(base[[row]].extended_ppf(levels).ravel(), TIED[row])
            expected = integrated_crps(new, row, y, breaks)
            # 64 nodes on each side of the outcome resolve a jump of quantiles to a percent of it.
            tolerance = 0.02 if kind == "linear" else 1e-9
            assert scores[row] == pytest.approx(expected, rel=tolerance, abs=tolerance)
