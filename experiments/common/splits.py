"""Confidence interval of a mean over splits of the same rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats


def half_width(difference: pd.Series, share: float) -> float:
    """Return half of the 95 % interval of a mean over splits of the same rows; NaN for one split.

    ``share`` is test rows per fitted row. The corrected resampled t of Nadeau and Bengio,
    "Inference for the generalization error", Machine Learning 52, 2003, Section 3.2.
    """
    j = len(difference)
    if j > 1:
        return float(stats.t.ppf(0.975, j - 1) * difference.std(ddof=1) * np.sqrt(1 / j + share))
    return np.nan
