"""Rows of data frames, values of methods by seed, and intervals of their means."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from experiments.common.markdown import counted_noun


def where(frame: pd.DataFrame, **values: object) -> pd.DataFrame:
    """Return the rows with these values, by column."""
    for column, value in values.items():
        frame = frame[frame[column] == value]
    return frame


def by_metric(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return metric → a row for each seed, a column for each method."""
    return {
        str(metric): rows.pivot(index="seed", columns="method", values="value")
        for metric, rows in frame.groupby("metric")
    }


def seeds_of(frame: pd.DataFrame) -> str:
    """Return the number of seeds with its noun, such as "6 seeds"."""
    return counted_noun([frame.seed.nunique()], "seed")


def half_width(difference: pd.Series, share: float) -> float:
    """Return half of the 95 % interval of a mean over splits of the same rows; NaN for one split.

    ``share`` is test rows per fitted row. The corrected resampled t of Nadeau and Bengio,
    "Inference for the generalization error", Machine Learning 52, 2003, Section 3.2.
    """
    j = len(difference)
    if j > 1:
        return float(stats.t.ppf(0.975, j - 1) * difference.std(ddof=1) * np.sqrt(1 / j + share))
    return np.nan
