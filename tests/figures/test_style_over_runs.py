"""Tests of means and standard deviations over runs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kdgraph.figures.style import mean_and_sd_over_runs


@given(
    arrays(
        float,
        st.tuples(st.integers(1, 6), st.integers(1, 4)),
        elements=st.one_of(st.floats(-1e3, 1e3), st.just(np.nan)),
    )
)
def test_missing_numbers_are_ignored(values: np.ndarray) -> None:
    mean, sd = mean_and_sd_over_runs(values)
    for b, column in enumerate(values.T):
        numbers = [value for value in column if not np.isnan(value)]
        np.testing.assert_allclose(mean[b], np.mean(numbers) if numbers else np.nan, atol=1e-9)
        np.testing.assert_allclose(
            sd[b], np.std(numbers, ddof=1) if len(numbers) > 1 else np.nan, atol=1e-9
        )


def test_single_run_has_no_standard_deviation() -> None:
    mean, sd = mean_and_sd_over_runs(np.array([0.1, 0.2]))
    np.testing.assert_array_equal(mean, [0.1, 0.2])
    assert np.isnan(sd).all()
