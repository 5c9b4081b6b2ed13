"""Means and standard deviations over runs, some of which may have no number."""

from __future__ import annotations

import numpy as np


def mean_and_sd(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Float[b] each, of Float[s, b] or of one run's Float[b]: over the runs that have a number.

    The standard deviation is that of a sample, by s - 1. NaN where no run has a number, or, of the deviation, only one has.

    >>> mean, sd = mean_and_sd(np.array([[1.0, 5.0, np.nan], [3.0, np.nan, np.nan]]))
    >>> mean.tolist(), sd.round(3).tolist()
    ([2.0, 5.0, nan], [1.414, nan, nan])
    """
    values = np.atleast_2d(values)
    known = ~np.isnan(values)
    n = known.sum(axis=0)
    mean = np.where(known, values, 0.0).sum(axis=0) / np.where(n > 0, n, np.nan)
    square = np.square(np.where(known, values - mean, 0.0)).sum(axis=0)
    return mean, np.sqrt(square / np.where(n > 1, n - 1, np.nan))
