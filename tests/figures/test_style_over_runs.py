"""Means and deviations over the runs that have a number."""

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
def test_means_and_deviations_are_computed_by_column(values: np.ndarray) -> None:
    mean, sd = mean_and_sd_over_runs(values)
    for b, column in enumerate(values.T):
        kept = [value for value in column if not np.isnan(value)]
        np.testing.assert_allclose(mean[b], np.mean(kept) if kept else np.nan, atol=1e-9)
        np.testing.assert_allclose(
            sd[b], np.std(kept, ddof=1) if len(kept) > 1 else np.nan, atol=1e-9
        )


def test_single_run_is_its_mean() -> None:
    mean, sd = mean_and_sd_over_runs(np.array([0.1, 0.2]))
    np.testing.assert_array_equal(mean, [0.1, 0.2])
    assert np.isnan(sd).all()
