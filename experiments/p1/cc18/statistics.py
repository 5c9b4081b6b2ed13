"""Medians over tables, and dominance; comparisons of two methods are
:func:`kdgraph.results.comparison.significance.compare_pairs`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

# Decimals of the paper's numbers, to which measured ones are rounded before a comparison.
DECIMALS = 4


def median(values: pd.Series | np.ndarray) -> float:
    """Return the median of the numbers that are not missing, or NaN."""
    present = np.asarray(values, dtype=np.float64)
    present = present[~np.isnan(present)]
    return float(np.median(present)) if len(present) else np.nan


def dominating(chosen: pd.Series, others: pd.DataFrame) -> list[str]:
    """Return which rows are nowhere higher than ``chosen`` and somewhere lower, if known."""
    own, published = chosen.round(DECIMALS), others[chosen.index].round(DECIMALS)
    nowhere_worse, somewhere_better = (published <= own).all(axis=1), (published < own).any(axis=1)
    return list(others.index[nowhere_worse & somewhere_better])
