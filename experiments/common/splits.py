"""How sure a mean over splits of the same rows is."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats


def half_width(difference: pd.Series, share: float) -> float:
    """Half of the 95 % interval of a mean over J splits of the same rows, Float[J]; NaN of fewer
    than two.

    Parameters
    ----------
    difference : between two methods, by split.
    share : test rows for each row that is fitted on.

    References
    ----------
    Nadeau and Bengio, "Inference for the generalization error", Machine Learning 52, 2003, Section
    3.2: corrected resampled t.
    """
    j = len(difference)
    return (
        float(stats.t.ppf(0.975, j - 1) * difference.std(ddof=1) * np.sqrt(1 / j + share))
        if j > 1
        else np.nan
    )
