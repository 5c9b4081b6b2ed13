"""Distances of PIT values from uniform, against SciPy's tests and a loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kdgraph.distributions import Normal
from kdgraph.errors import ParameterError
from kdgraph.metrics import local_coverage, pit_cvm, pit_frosini, pit_histogram, pit_ks, pit_tests
from kdgraph.metrics.regression.pit import (
    cramer_von_mises,
    distance_to_uniform,
    frosini,
    simulated_p_value,
    values_on_steps,
)
from kdgraph.parents.predictive import ExternalDistribution

UNIT = st.lists(st.floats(0, 1), min_size=2, max_size=30).map(np.array)


@settings(max_examples=30, deadline=None)
@given(UNIT)
def test_statistics_match_scipy_and_a_loop(pits):
    n = len(pits)
    assert distance_to_uniform(pits) == pytest.approx(
        stats.kstest(pits, "uniform").statistic, abs=1e-14
    )
    assert cramer_von_mises(pits) == pytest.approx(
        stats.cramervonmises(pits, "uniform").statistic, abs=1e-12
    )
    sum_by_loop = sum(abs(u - (2 * i + 1) / (2 * n)) for i, u in enumerate(sorted(pits))) / n**0.5
    assert frosini(pits) == pytest.approx(sum_by_loop, abs=1e-12)


def test_frosini_of_calibrated_rows_matches_the_docstring():
    """The limit is the mean of ∫ |Brownian bridge|, √(2π)/8.

    1,000 samples of 200 rows; the tolerance is 4 standard errors and as much again for finite n.
    """
    rng = np.random.default_rng(0)
    result = np.array([frosini(rng.random(200)) for _ in range(1000)])
    assert result.mean() == pytest.approx(
        np.sqrt(2 * np.pi) / 8, abs=8 * result.std() / np.sqrt(1000)
    )


def test_simulated_p_values_are_uniform_only_under_the_null():
    rng = np.random.default_rng(1)
    result = [simulated_p_value(frosini(rng.random(20)), 20, 199, rng) for _ in range(200)]
    assert stats.kstest(result, "uniform").pvalue > 1e-3  # one in 1000 samples exceeds it
    assert simulated_p_value(frosini(rng.beta(2, 2, 300)), 300, 199, rng) == 1 / 200


def test_simulated_p_value_does_not_depend_on_the_block_size(monkeypatch):
    all_rows = simulated_p_value(0.35, 50, 301, np.random.default_rng(0))
    monkeypatch.setattr("kdgraph.metrics.regression.pit._VALUES_AT_A_TIME", 120)
    assert simulated_p_value(0.35, 50, 301, np.random.default_rng(0)) == all_rows


def test_pit_tests_contain_p_values_of_scipy():
    rng = np.random.default_rng(2)
    y, wide = rng.normal(size=300), Normal(np.zeros(300), np.full(300, 1.3))
    result = pit_tests(y, wide, draws=99)
    pits = wide.cdf(y)
    assert result["test"].tolist() == ["kolmogorov_smirnov", "cramer_von_mises", "frosini"]
    scipy_tests = stats.kstest(pits, "uniform"), stats.cramervonmises(pits, "uniform")
    for i, scipy_test in enumerate(scipy_tests):
        assert (result["statistic"][i], result["p_value"][i]) == (
            scipy_test.statistic,
            scipy_test.pvalue,
        )
    assert pit_cvm(y, wide) == pytest.approx(scipy_tests[1].statistic, rel=1e-12)
    assert (
        result["statistic"][2] == pit_frosini(y, wide)
        and result["p_value"][2] == pit_tests(y, wide, draws=99)["p_value"][2]
    )
    with pytest.raises(ParameterError, match=r"^draws must be in \[1, inf\), got 0$"):
        pit_tests(y, wide, draws=0)


def mean_step_distribution(lower, upper, u):
    """Return the mean distribution function of PIT values on steps at u, by its definition."""
    wide = upper > lower
    width = np.where(wide, upper - lower, 1.0)
    fraction = np.clip((u - lower[:, None]) / width[:, None], 0, 1)
    return np.where(wide[:, None], fraction, upper[:, None] <= u).mean(axis=0)


@settings(max_examples=60, deadline=None)
@given(UNIT, UNIT, st.integers(0, 2**20))
def test_values_on_steps_are_quantiles_of_the_mean_distribution(ends, other, seed):
    """At each value the mean distribution function passes the level (i - ½)/n.

    The tolerance covers the sums of slopes of up to 1e6, of which 9 digits remain.
    """
    n = min(len(ends), len(other))
    lower, upper = np.minimum(ends[:n], other[:n]), np.maximum(ends[:n], other[:n])
    points = np.random.default_rng(seed).random(n) < 0.3
    lower = np.where(points | (upper - lower < 1e-4), upper, lower)
    values, levels = values_on_steps(lower, upper), (np.arange(n) + 0.5) / n
    assert (np.diff(values) >= 0).all()
    below = mean_step_distribution(lower, upper, values - 1e-7)
    above = mean_step_distribution(lower, upper, values + 1e-7)
    assert (below <= levels + 1e-8).all() and (above >= levels - 1e-8).all()
    assert values_on_steps(upper, upper).tolist() == sorted(upper.tolist())


def test_only_correct_counts_have_uniform_pit_values():
    """Outcomes are Poisson counts, of which the upper ends of steps alone are far from uniform.

    1.36/√n is the distance that 5 % of continuous calibrated forecasts exceed.
    """
    rng, n = np.random.default_rng(5), 4000
    mean = rng.uniform(0.3, 3, n)
    y = rng.poisson(mean).astype(float)
    correct, wrong = (ExternalDistribution(stats.poisson(scale * mean)) for scale in (1, 1.3))
    assert distance_to_uniform(correct.cdf(y)) > 0.2
    assert pit_ks(y, correct) < 1.36 / np.sqrt(n) < 0.1 < pit_ks(y, wrong)
    assert pit_cvm(y, correct) < 0.461 < pit_cvm(y, wrong)
    table = pit_tests(y, correct, draws=99)
    assert table["p_value"].min() > 0.05 and pit_tests(y, wrong, draws=99)["p_value"].max() < 0.02
    # 5 standard errors of a bin with a tenth of the rows
    assert pit_histogram(y, correct, bins=10)["density"] == pytest.approx(
        np.ones(10), abs=5 * np.sqrt(0.09 / n) * 10
    )
    cells = local_coverage(y, correct, mean[:, None], cells=4, by="grid", features=[0])
    assert np.abs(cells["pit_mean"] - 0.5).max() < 5 * np.sqrt(1 / 12 / (n / 4))
    assert cells["pit_ks"].max() < 1.63 / np.sqrt(n / 4)
