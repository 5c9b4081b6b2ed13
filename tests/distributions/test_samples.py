"""Weighted samples against numpy and a double sum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.distributions import Recalibrated, WeightedEcdf, WeightedSamples
from kdgraph.persistence import from_bytes, to_bytes


def draw_samples(n: int = 5, m: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, m)), rng.integers(0, 3, size=(n, m)) + np.eye(n, m)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 9))
def test_matches_numpy_on_each_weighted_sample(seed, m):
    x, w = draw_samples(m=m, seed=seed)
    if not w.sum(axis=1).all():
        w[:, 0] += 1
    samples, y = WeightedSamples(x, w), np.linspace(-1, 1, 5)
    for i in range(5):
        weights = w[i] / w[i].sum()
        assert samples.mean()[i] == pytest.approx(x[i] @ weights) and samples.var()[
            i
        ] == pytest.approx((x[i] - x[i] @ weights) ** 2 @ weights, abs=1e-14)
        assert samples.cdf(y)[i] == pytest.approx(weights[x[i] <= y[i]].sum())
        assert samples.crps(y)[i] == pytest.approx(
            np.abs(x[i] - y[i]) @ weights - weights @ np.abs(x[i][:, None] - x[i]) @ weights / 2,
            abs=1e-12,
        )
        np.testing.assert_array_equal(
            samples.ppf(np.array([0.1, 0.5, 1.0]))[i],
            np.quantile(x[i], [0.1, 0.5, 1.0], method="inverted_cdf", weights=w[i]),
        )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 9))
def test_extended_levels_are_increasing_and_invertible(seed, m):
    """They increase strictly, also beyond the sample, where they are below 0 or above 1."""
    samples = WeightedSamples(draw_samples(m=m, seed=seed)[0])
    y = np.linspace(samples.x[:, 0] - 3, samples.x[:, -1] + 3, 60).T
    levels = samples.extended_cdf(y)
    assert (
        (np.diff(levels, axis=1) > 0).all()
        and (levels[:, 0] < 0).all()
        and (levels[:, -1] > 1).all()
    )
    np.testing.assert_allclose(samples.extended_ppf(levels), y, atol=1e-9)


def test_recalibration_extends_the_range_of_a_narrow_ensemble():
    """Ten values within ±0.1 have outcomes up to ±1."""
    ensemble = WeightedSamples(np.tile(np.linspace(-0.1, 0.1, 10), (4, 1)))
    y = np.array([-1.0, -0.5, 0.5, 1.0])
    recalibrated = Recalibrated(ensemble, WeightedEcdf.from_pits(ensemble.extended_cdf(y)))
    np.testing.assert_allclose(recalibrated.ppf(np.array([0.25, 1.0]))[0], [-1.0, 1.0], rtol=1e-9)
    assert ensemble.cdf(y).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("value", [2.0, 0.1 + 0.2, 0.0])
def test_levels_beyond_equal_values_are_infinite(value):
    ensemble = WeightedSamples(np.full((1, 3), value))
    assert ensemble.extended_cdf(np.array([[value - 1, value + 1e9]])).tolist() == [
        [-np.inf, np.inf]
    ]
    assert ensemble.extended_ppf(np.array([-np.inf, -5.0, 0.5, 2.0, np.inf])).tolist() == [
        [value] * 5
    ]
    assert 0 < ensemble.extended_cdf(value)[0] < 1


def test_default_weights_equal_ones_to_the_bit():
    x, y = draw_samples(m=7)[0].round(1), np.linspace(-1, 1, 5)
    default, equal = WeightedSamples(x), WeightedSamples(x, np.ones(7))
    assert default.weights.strides == (0, 0) and default.weights.shape == x.shape
    for result, expected in zip(
        *(all_results(distribution, y) for distribution in (default, equal)), strict=True
    ):
        np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(default[[3, 1]].crps(y[:2]), equal[[3, 1]].crps(y[:2]))


def all_results(distribution: WeightedSamples, y: np.ndarray) -> list[np.ndarray]:
    return [
        distribution.x,
        distribution.weights,
        distribution.mean(),
        distribution.var(),
        distribution.crps(y),
        distribution.cdf(y),
        distribution.extended_cdf(y),
        distribution.ppf(y / 2 + 0.5),
        distribution.extended_ppf(y),
    ]


def test_indexing_and_saving():
    samples = WeightedSamples(*draw_samples())
    for index in (slice(1, 3), np.array([4, 0]), 2):
        np.testing.assert_array_equal(
            samples[index].ppf(0.6), np.atleast_1d(samples.ppf(0.6)[index])
        )
    np.testing.assert_array_equal(
        from_bytes(to_bytes(samples), "it").value.ppf(0.3), samples.ppf(0.3)
    )
    assert samples.sample(4, np.random.default_rng(0)).shape == (5, 4)


@pytest.mark.parametrize(
    ("x", "weights", "message"),
    [
        (
            [[np.nan]],
            None,
            r"^x must have a row of finite numbers for each row, got shape \(1, 1\)$",
        ),
        ([[1.0, 2.0]], [0.0, 0.0], "^weights must be numbers from 0, in no row all 0$"),
    ],
)
def test_rejects_invalid_samples(x, weights, message):
    with pytest.raises(ValueError, match=message):
        WeightedSamples(np.array(x), None if weights is None else np.array(weights))
