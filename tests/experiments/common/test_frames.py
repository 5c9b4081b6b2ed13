"""Intervals of means over splits, against Student's t."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments.common.frames import half_width


def test_interval_is_wider_if_splits_share_rows():
    difference = pd.Series([0.1, 0.2, 0.4, 0.1])
    plain = stats.t.interval(0.95, 3, loc=difference.mean(), scale=stats.sem(difference))
    assert half_width(difference, 0.0) == pytest.approx((plain[1] - plain[0]) / 2)
    assert half_width(difference, 0.5) == pytest.approx(
        (plain[1] - plain[0]) / 2 * np.sqrt(1 + 4 * 0.5)
    )
    assert np.isnan(half_width(pd.Series([0.1]), 0.5))
