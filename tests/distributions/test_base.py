"""Normal scores of PIT values: inside (0, 1), beyond it, and back to values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kdgraph.distributions import (
    Normal,
    QuantileGrid,
    Recalibrated,
    ScipyFamily,
    ScoredEcdf,
    WeightedSamples,
)

FAMILIES = {
    "normal": Normal(np.zeros(1), np.full(1, 2.0)),
    "lognorm": ScipyFamily("lognorm", {"s": np.array([0.5]), "scale": np.array([3.0])}),
    "gamma": ScipyFamily("gamma", {"a": np.array([4.0])}),
    "grid": QuantileGrid(np.array([0.25, 0.5, 0.75]), np.array([[0.0, 1.0, 3.0]])),
    "samples": WeightedSamples(np.array([[0.0, 1.0, 3.0, 3.5, 9.0]])),
}


@pytest.mark.parametrize("name", list(FAMILIES))
def test_scores_round_trip_to_values(name):
    """Values far in the tails return to 1e-6; to 1e-2 where 1 - F consists of the last bits of F."""
    distribution = FAMILIES[name]
    low = 0.05 if name in ("lognorm", "gamma") else -30.0
    y = np.linspace(low, 30.0, 400)[None]
    scores = distribution.score_scale().to_scores(distribution.extended_cdf(y))
    assert np.isfinite(scores).all() and (np.diff(scores[0]) >= 0).all()
    round_trip = distribution.extended_ppf(distribution.score_scale().to_levels(scores))
    last_bits = (distribution.extended_cdf(y) < 1) & (distribution.extended_cdf(y) > 1 - 1e-9)
    np.testing.assert_allclose(round_trip[~last_bits], y[~last_bits], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(round_trip[last_bits], y[last_bits], rtol=1e-2)


def test_log_normal_scores_are_standardised_logarithms():
    """The range is ±30 standard deviations, where 1 - F is 1e-198.

    Between 6 and 8.3 standard deviations 1 - F consists of the last bits of F, and the accuracy is
    0.01.
    """
    z = np.linspace(-30, 30, 121)
    distribution = FAMILIES["lognorm"]
    result = distribution.score_scale().to_scores(
        distribution.extended_cdf(3.0 * np.exp(0.5 * z)[None])
    )[0]
    last_bits = (z > 6) & (z < 8.3)
    np.testing.assert_allclose(result[~last_bits], z[~last_bits], rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(result[last_bits], z[last_bits], atol=0.01)


@pytest.mark.parametrize("name", list(FAMILIES))
def test_extreme_scores_have_finite_values(name):
    """A local slope may move a score beyond any representable probability."""
    distribution = FAMILIES[name]
    levels = distribution.score_scale().to_levels(
        np.array([[-1e4, -100.0, -40.0, 0.0, 40.0, 100.0, 1e4]])
    )
    assert (
        np.isfinite(distribution.extended_ppf(levels)).all()
        and (np.diff(distribution.extended_ppf(levels)) >= 0).all()
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 200), st.lists(st.floats(-3, 4), min_size=1, max_size=20))
def test_scores_of_samples_continue_beyond_their_ends(m, levels):
    """Scores of m equal steps are Φ⁻¹ inside, and count standard deviations beyond."""
    samples = WeightedSamples(np.arange(float(m))[None])
    scale = samples.score_scale()
    assert scale.last_score == pytest.approx(stats.norm.ppf(1 - 1 / (2 * m)), abs=1e-12)
    levels = np.array(
        [
            np.clip(level, 0.5 / m, 1 - 0.5 / m) if 0 <= level <= 1 else level
            for level in sorted(levels)
        ]
    )
    scores = scale.to_scores(levels)
    assert (np.diff(scores) >= 0).all()
    is_inside = (levels >= 0) & (levels <= 1)
    np.testing.assert_allclose(scores[is_inside], stats.norm.ppf(levels[is_inside]), atol=1e-9)
    np.testing.assert_allclose(
        scores[levels > 1], scale.last_score + levels[levels > 1] - 1, rtol=1e-12
    )
    pit_map = ScoredEcdf.from_scores(scores[None], np.ones((1, len(scores))), scale)
    recalibrated = Recalibrated(samples, pit_map)
    unit = samples.var()[0] ** 0.5 or 1
    # Scores are stored as float32. A score at an end may return as a level just beyond it, which
    # has the same value.
    np.testing.assert_allclose(
        samples.extended_ppf(pit_map.atoms()[0]),
        samples.extended_ppf(levels[None]),
        atol=1e-5 * unit * m,
    )
    assert recalibrated.cdf(np.array([1e9]))[0] == 1 and recalibrated.cdf(np.array([-1e9]))[0] == 0
