"""Distances of PIT values from uniform, against SciPy's tests and a loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kdgraph.distributions import Normal
from kdgraph.errors import ParameterError
from kdgraph.metrics import pit_cvm, pit_frosini, pit_tests
from kdgraph.metrics.regression import (
    cramer_von_mises,
    distance_to_uniform,
    frosini,
    histogram_of_pits,
    simulated_p_value,
)

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


def test_effect_of_steps_matches_the_docstring():
    """100,000 calibrated values at the upper ends of 20 equal steps.

    The tolerance of 10 % covers sampling and terms of higher order.
    """
    n, step = 100_000, 1 / 20
    pits = np.ceil(np.random.default_rng(3).random(n) / step) * step
    assert cramer_von_mises(pits) == pytest.approx(n * step**2 / 3, rel=0.1)
    assert frosini(pits) == pytest.approx(step * np.sqrt(n) / 2, rel=0.1)
    assert histogram_of_pits(np.minimum(pits, 1), 10)["density"] == pytest.approx(
        np.ones(10), abs=0.05
    )  # 5 standard errors
    assert histogram_of_pits(np.minimum(pits, 1), 8)["density"].std() > 0.1
