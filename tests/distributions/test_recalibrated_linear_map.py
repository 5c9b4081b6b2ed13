"""Ends of the linear map of PIT values: rounding to infinity, and values beyond 0 and 1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.distributions import LinearMap, Normal, Recalibrated, ScipyFamily, WeightedSamples


@pytest.mark.parametrize("last", [1 - 1e-12, 1 - 2.0**-53, 1.0])
def test_inner_quantiles_are_finite(last):
    """Nodes below 1 are not rounded to 1, where families without an end are infinite."""
    linear_map = LinearMap.from_pits(np.array([0.2, 0.5, last]))
    for base in (ScipyFamily("gamma", {"a": np.full(2, 2.0)}), Normal(np.zeros(2), np.ones(2))):
        recalibrated = Recalibrated(base, linear_map)
        assert np.isfinite(
            [
                recalibrated.mean(),
                recalibrated.var(),
                recalibrated.crps(np.ones(2)),
                recalibrated.ppf(1 - 1e-9),
                recalibrated.ppf(1e-300),
            ]
        ).all()
        assert np.isinf(recalibrated.ppf(1.0)).all()


INSIDE = st.integers(10, 1014).map(lambda k: k / 1024)
"""Values in (0, 1), on a grid: adjacent floating-point numbers have no level between them."""


@given(st.lists(st.one_of(INSIDE, st.floats(40, 99), st.floats(-99, -40)), min_size=1, max_size=30))
@settings(max_examples=50, deadline=None)
def test_linear_map_keeps_values_beyond_0_and_1(pits):
    """R reaches i / (n + 1) at the i-th value, increases, and has an increasing inverse.

    A value beyond 0 or 1 that occurs m times is a step of m / (n + 1); no level inside the step has
    an inverse. A normal distribution continues beyond -38 and 8.3.
    """
    linear_map = LinearMap.from_pits(np.array(pits))
    (levels, multiplicity), n = np.unique(pits, return_counts=True), len(pits)
    fraction = np.array([(np.array(pits) <= level).sum() for level in levels]) / (n + 1)
    np.testing.assert_allclose(linear_map.cdf(levels), fraction, atol=1e-12)
    assert (np.diff(linear_map.levels) >= 0).all() and (np.diff(linear_map.cumulative) >= 0).all()
    assert linear_map.cdf(np.array([min(0.0, *pits) - 1, max(1.0, *pits) + 1])).tolist() == [0, 1]
    q = np.linspace(0, 1, 101)
    np.testing.assert_allclose(
        linear_map.cdf(linear_map.ppf(q)),
        q,
        atol=1e-9 if max(map(abs, pits)) <= 1 else multiplicity.max() / (n + 1),
    )
    for base in (Normal(np.zeros(1), np.ones(1)), WeightedSamples(np.array([[-1.0, 0.0, 2.0]]))):
        assert (np.diff(Recalibrated(base, linear_map).ppf(q)[0]) >= 0).all()


def test_quantiles_leave_the_range_of_an_ensemble():
    """Outcomes are three times as wide as the ensemble, and the quantiles follow them."""
    base = WeightedSamples(np.linspace(-1, 1, 21)[None])
    y = np.linspace(-3, 3, 41)
    linear_map = LinearMap.from_pits(base[np.zeros(41, dtype=int)].extended_cdf(y))
    result = Recalibrated(base, linear_map).ppf(np.arange(1, 42) / 42)[0]
    np.testing.assert_allclose(result[np.abs(y) > 1.1], y[np.abs(y) > 1.1], atol=1e-9)
