"""Medians over tables, and what dominates what; comparisons of two methods are
:func:`kdgraph.results.comparison.significance.compare_pairs`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

DECIMALS = 4
"""To which the paper's numbers are rounded before they are compared, and so are ours beside
them.
"""


def median(values: pd.Series | np.ndarray) -> float:
    """Of the numbers that are there; NaN where none is."""
    known = np.asarray(values, dtype=np.float64)
    known = known[~np.isnan(known)]
    return float(np.median(known)) if len(known) else np.nan


def dominating(chosen: pd.Series, others: pd.DataFrame) -> list[str]:
    """Which rows of ``others`` are nowhere higher than ``chosen`` and somewhere lower, in all of
    its numbers; lower is better.

    Parameters
    ----------
    chosen : a number for each criterion.
    others : a row for each method, the same criteria as columns. One that lacks a number dominates
        nothing.
    """
    own, published = chosen.round(DECIMALS), others[chosen.index].round(DECIMALS)
    nowhere_worse, somewhere_better = (published <= own).all(axis=1), (published < own).any(axis=1)
    return list(others.index[nowhere_worse & somewhere_better])
