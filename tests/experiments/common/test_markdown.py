"""Numbers and words of tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from experiments.common.markdown import counted_noun, number, signed, spread


def test_a_spread_is_a_mean_and_a_standard_deviation_of_a_sample() -> None:
    assert spread(np.array([0.2, 0.4]), 100, 1) == "30.0 ± 14.1"
    assert spread(pd.Series([0.5])) == ".500" and spread(np.array([])) == "–"
    values = [0.1, 0.35, 0.2, 0.9]
    assert (
        spread(values, digits=2)
        == f"{number(float(np.mean(values)), 2)} ± {number(float(pd.Series(values).std()), 2)}"
    )


@pytest.mark.parametrize(
    ("numbers", "text"), [([1], "1 seed"), ([3, 3], "3 seeds"), ([2, 1000, 2], "2 to 1,000 seeds")]
)
def test_counted_noun_has_one_number_or_a_range(numbers, text) -> None:
    assert counted_noun(iter(numbers), "seed") == text


def test_numbers_have_no_leading_zero_and_may_have_a_sign() -> None:
    assert (number(0.25, 2), number(12.5, 1), number(np.nan)) == (".25", "12.5", "–")
    assert (signed(-0.25, 2), signed(0.25, 2), signed(np.nan)) == ("−.25", "+.25", "–")
