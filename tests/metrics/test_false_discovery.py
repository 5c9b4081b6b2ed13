"""Benjamini-Hochberg on conformal p-values: the definition, and the rate over many draws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdgraph.detection import conformal_p_values
from kdgraph.metrics import benjamini_hochberg, fdr_power, realised_fdr
from tests.variations import others_slow


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.sampled_from([0.05, 0.1, 0.2]))
def test_flagged_rows_are_those_of_the_definition(ranks, fdr):
    """P-values are multiples of 1/40, so that many equal fdr · k / n."""
    p_values = np.array(ranks) / 40
    n = len(p_values)
    bounds = [k for k in range(1, n + 1) if np.sort(p_values)[k - 1] <= fdr * k / n + 1e-14]
    expected = p_values <= (fdr * max(bounds) / n + 1e-14 if bounds else -1)
    np.testing.assert_array_equal(benjamini_hochberg(p_values, fdr), expected)


def test_no_row_is_flagged_without_small_p_values():
    assert benjamini_hochberg(np.empty(0)).tolist() == []
    high = np.full(5, 0.5)
    assert realised_fdr(high, high) == 0 and fdr_power(high, high) == 0


@pytest.mark.parametrize("fraction_out", others_slow([0.0, 0.1, 0.4], 0.1))
def test_false_discovery_rate_is_controlled_over_draws(fraction_out):
    """2000 draws of calibration and batch; a threshold for single rows has a far higher rate."""
    rng = np.random.default_rng(0)
    m, n, fdr = 300, 100, 0.2
    n_out = int(n * fraction_out)
    rates, powers, single_rates = [], [], []
    for _ in range(2000):
        calibration = np.sort(rng.normal(size=m))
        inside = conformal_p_values(calibration, rng.normal(size=n - n_out))
        outside = conformal_p_values(calibration, rng.normal(-3.5, 1, size=n_out))
        if n_out:
            rates.append(realised_fdr(outside, inside, fdr=fdr))
            powers.append(fdr_power(outside, inside, fdr=fdr))
        else:  # every flagged row is a false discovery
            rates.append(float(benjamini_hochberg(inside, fdr).any()))
        n_inside = (inside <= fdr).sum()
        single_rates.append(n_inside / max(n_inside + (outside <= fdr).sum(), 1))
    bound, error = fdr * (1 - fraction_out), np.std(rates) / np.sqrt(2000)
    # Bates et al. 2023, Theorem 2; the mean of 2000 draws is within three standard errors.
    assert np.mean(rates) <= bound + 3 * error
    assert np.mean(single_rates) > bound + 3 * error
    if n_out:
        # It is not controlled by flagging nothing: the rate is nearly exhausted.
        assert np.mean(rates) > bound - 0.03 and np.mean(powers) > 0.6
