"""The blend against Eq. 6 and 7 in arbitrary precision; the floors against their guarantees, by
simulation.
"""

from __future__ import annotations

import math
from decimal import Decimal, getcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from kdgraph.density import blend_with_prior, conformal_log_floor
from kdgraph.density.gate import mean_shift_log_floor
from kdgraph.density.published import figure1_log_floor, paper_log_floor
from tests.variations import others_slow

getcontext().prec = 60
LOG = st.floats(-1e5, 1e5)


def bayes_posterior(log_f, log_b, prior):
    """Eq. 6 and 7: (f_y + b) P_y / Σ_k (f_k + b) P_k, from log f_y and log b."""
    weighed = [
        (Decimal(f).exp() + Decimal(log_b).exp()) * Decimal(p)
        for f, p in zip(log_f, prior, strict=True)
    ]
    return np.array([float(w / sum(weighed)) for w in weighed])


@settings(deadline=None, max_examples=200)
@given(
    log_f=st.lists(st.floats(-50, 50), min_size=2, max_size=5),
    offset=LOG,
    above=st.floats(-60, 60),
    seed=st.integers(0, 99),
)
def test_blend_is_bayes_rule_with_floor_added_to_class_densities(log_f, offset, above, seed):
    prior = np.random.default_rng(seed).dirichlet(np.ones(len(log_f)))
    log_f = (
        np.array(log_f) + offset
    )  # densities from exp(-1e5) to exp(1e5): far beyond the range of float64
    log_b = max(log_f) + above
    joint = log_f + np.log(prior)
    log_density = np.logaddexp.reduce(joint)
    posterior = np.exp(joint - joint.max())
    blended = blend_with_prior(
        posterior[None] / posterior.sum(), prior, np.array([log_density]), log_b
    )[0]
    np.testing.assert_allclose(
        blended, bayes_posterior(log_f, log_b, prior), rtol=1e-9, atol=1e-15
    )  # logs near 1e5 are rounded to 1.5e-11
    assert blended.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("log_density", "is_below"),
    [*((low, True) for low in (-1e300, -1e6, -800.0, -math.inf))]
    + [(high, False) for high in (800.0, 1e6, 1e300)],
)
def test_blend_is_prior_below_the_floor_and_posterior_above(log_density, is_below):
    posterior, prior = np.array([[0.9, 0.1]]), np.array([0.3, 0.7])
    blend = blend_with_prior(posterior, prior, np.array([log_density]), -5.0)[0]
    np.testing.assert_allclose(
        blend, prior if is_below else posterior[0], rtol=0 if is_below else 1e-15
    )


def test_blend_weights_are_half_at_the_floor():
    assert blend_with_prior(
        np.array([[1.0, 0.0]]), np.array([0.5, 0.5]), np.array([-7.0]), -7.0
    ).tolist() == [[0.75, 0.25]]


@pytest.mark.parametrize(("log_density", "expected"), [(-3.0, 0.9), (-math.inf, 0.5)])
def test_infinitely_low_floor_affects_zero_density_only(log_density, expected):
    blended = blend_with_prior(
        np.array([[0.9, 0.1]]), np.array([0.5, 0.5]), np.array([log_density]), -math.inf
    )
    assert blended[0, 0] == expected


def test_min_weight_keeps_argmax_with_equal_priors():
    posterior = np.array([[0.2, 0.3, 0.5], [0.4, 0.35, 0.25]])
    prior = np.full(3, 1 / 3)
    blended = blend_with_prior(posterior, prior, np.array([-1e9, -np.inf]), 0.0, min_weight=1e-9)
    assert blended.argmax(axis=1).tolist() == [2, 0]
    assert np.abs(blended - prior).max() <= 1e-9
    assert blend_with_prior(posterior, prior, np.array([3.0, 3.0]), 0.0, 1e-9)[0] == pytest.approx(
        blend_with_prior(posterior, prior, np.array([3.0]), 0.0)[0]
    )


ALPHAS = [0.005, 0.05, 0.3]


@pytest.mark.parametrize("m", [5, 37, 199, 430])
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("shape", ["uniform", "left tail"])
def test_expected_fraction_below_conformal_floor_is_at_most_alpha(m, alpha, shape):
    rng = np.random.default_rng([m, ALPHAS.index(alpha)])
    draws = rng.random((2000, m))
    quantile, fraction = (
        (lambda u: u, lambda x: np.clip(x, 0, 1))
        if shape == "uniform"
        else (np.log, lambda x: np.exp(np.minimum(x, 0)))
    )
    below = np.array([fraction(conformal_log_floor(quantile(row), alpha)) for row in draws])
    error = (
        4 * below.std() / math.sqrt(len(below))
    )  # four standard errors of 2,000 repetitions: one case in 16,000 would fail by chance
    rank = math.floor((m + 1) * alpha)
    if rank >= 1:
        assert abs(below.mean() - rank / (m + 1)) <= error
    assert 0 < below.mean() <= max(alpha, 1 / (m + 1)) + error


def test_conformal_floor_is_the_documented_order_statistic():
    log_density = np.random.default_rng(0).permutation(np.arange(199.0))
    assert conformal_log_floor(log_density, 0.005) == 0  # ⌊200 · 0.005⌋ = 1: the smallest
    assert conformal_log_floor(log_density, 0.0149) == 1
    assert conformal_log_floor(log_density, 0.5) == 99
    assert (
        conformal_log_floor(log_density[log_density < 198], 0.005) == -0.5 * 98.5
    )  # 198 rows are one too few: below the smallest


def test_conformal_floor_of_few_rows_extrapolates_below_the_smallest():
    assert conformal_log_floor(np.array([-1.0, -10.0, -2.0]), 0.005) == -14
    assert conformal_log_floor(np.array([-3.0]), 0.005) == -3


def test_conformal_floor_ignores_zero_densities():
    assert conformal_log_floor(np.array([-np.inf, -1.0, -10.0, -2.0, np.nan]), 0.005) == -14
    assert conformal_log_floor(np.array([-np.inf, -np.inf]), 0.005) == -math.inf
    assert conformal_log_floor(np.empty(0), 0.005) == -math.inf


def test_clipped_weight_is_1_above_the_floor_and_continuous_at_it():
    posterior, prior = np.array([[0.9, 0.1]] * 4), np.array([0.5, 0.5])
    log_density = np.array([2.0, -5.0, -5.0 - 1e-12, -5.0 - math.log(4)])
    blended = blend_with_prior(posterior, prior, log_density, -5.0, clipped=True)
    np.testing.assert_array_equal(blended[:2], posterior[:2])
    np.testing.assert_allclose(blended[2], posterior[2], rtol=1e-11)
    np.testing.assert_allclose(blended[3], 0.25 * posterior[3] + 0.75 * prior, rtol=1e-15)
    far = blend_with_prior(posterior, prior, np.full(4, -np.inf), -5.0, clipped=True)
    np.testing.assert_array_equal(far, np.tile(prior, (4, 1)))


def blend_shift(log_density, distance, log_floor):
    """Mean shift of rows by the blend: between the corners of a simplex whose prior is a corner.
    The extra row that is added to the held-out rows counts too.
    """
    log_density = np.append(log_density, 1.5 * log_density.min() - 0.5 * np.median(log_density))
    distance = np.append(distance, distance.mean())
    posterior, prior = np.column_stack([distance, 1 - distance]), np.array([0.0, 1.0])
    return (
        np.abs(blend_with_prior(posterior, prior, log_density, log_floor, clipped=True) - posterior)
        .sum(axis=1)
        .mean()
        / 2
    )


@settings(deadline=None, max_examples=100)
@given(
    seed=st.integers(0, 999),
    m=st.integers(1, 60),
    spread=st.floats(0, 1e4),
    max_mean_shift=st.floats(1e-4, 0.2),
)
def test_mean_shift_floor_shifts_rows_by_max_mean_shift(seed, m, spread, max_mean_shift):
    rng = np.random.default_rng(seed)
    log_density, distance = spread * rng.standard_normal(m), rng.random(m)
    floor = mean_shift_log_floor(log_density, distance, max_mean_shift)
    if floor < log_density.max():
        assert blend_shift(log_density, distance, floor) == pytest.approx(
            max_mean_shift, rel=1e-6
        )  # floors near 1e4 are rounded to 2e-12
    else:
        assert floor == log_density.max()
        assert blend_shift(log_density, distance, floor) <= max_mean_shift * (1 + 1e-9)
    assert mean_shift_log_floor(log_density, distance, max_mean_shift / 2) <= floor


@pytest.mark.parametrize("m", others_slow([12, 30, 100, 1000]))
@pytest.mark.parametrize("tail", ["normal", "exponential"])
def test_mean_shift_is_close_to_the_bound_with_few_held_out_rows(m, tail):
    rng = np.random.default_rng(m)
    draw = rng.standard_normal if tail == "normal" else lambda size: -rng.standard_exponential(size)
    # new rows at 4,000 quantiles: 40 in the lowest hundredth, without randomness
    held_out, fraction = draw((1000, m)), (np.arange(4000) + 0.5) / 4000
    new = norm.ppf(fraction) if tail == "normal" else np.log(fraction)
    cost = [
        float(
            np.mean(
                -0.5
                * np.expm1(np.minimum(new - mean_shift_log_floor(row, np.full(m, 0.5), 0.01), 0.0))
            )
        )
        for row in held_out
    ]
    # of 1,000 rows the next is no worse than the lowest, and is counted as if it were
    assert (0.5 if m < 1000 else 0.85) * 0.01 < np.mean(cost) < 1.3 * 0.01


def test_rows_at_the_prior_do_not_lower_the_mean_shift_floor():
    log_density = np.array([-50.0, *np.linspace(-3, -1, 199)])
    everywhere, elsewhere = np.full(200, 0.5), np.array([0.0, *np.full(199, 0.5)])
    assert (
        mean_shift_log_floor(log_density, everywhere, 0.003)
        < -20
        < mean_shift_log_floor(log_density, elsewhere, 0.003)
    )


def test_mean_shift_floor_ignores_zero_densities():
    log_density, distance = np.array([-9.0, -2.0, -1.0]), np.full(5, 0.5)
    expected = mean_shift_log_floor(log_density, distance[:3], 0.01)
    assert (
        mean_shift_log_floor(np.append(log_density, [-np.inf, np.nan]), distance, 0.01) == expected
    )
    assert mean_shift_log_floor(np.full(2, -np.inf), distance[:2], 0.01) == -math.inf
    assert mean_shift_log_floor(np.empty(0), np.empty(0), 0.01) == -math.inf


@pytest.mark.parametrize("n", [10, 1000, 50_000])
def test_paper_floor_is_b_over_log_n(n):
    assert paper_log_floor(n) == pytest.approx(math.log(math.exp(-1e-7) / math.log(n)), abs=1e-12)


def test_figure1_floor_formula():
    assert figure1_log_floor(1000, 2) == pytest.approx(
        -8.23, abs=0.005
    )  # computed manually for 1e9 and for 1e3
    assert figure1_log_floor(1000, 2, multiplier=1e3) == pytest.approx(-22.05, abs=0.005)
