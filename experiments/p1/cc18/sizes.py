"""Improvement over the parent against the sample size, of tables with samples of different
sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from experiments.p1.cc18.statistics import median
from kdgraph.metrics import relative_improvement

# Least number of rows of a sample. Of 100 rows of a table with many classes most belong to classes
# too rare to be calibrated, and are left out: the rest is another problem, with fewer rows and
# classes.
FEWEST = 90


@dataclass(frozen=True)
class BySize:
    """Improvements over the parent at all sizes of all tables."""

    sizes: np.ndarray  # Float[v], increasing
    curves: Mapping[str, np.ndarray]  # Float[t, v], a row for each table, NaN outside its own sizes
    left_out: int  # tables and sizes at which the parent's value is too small

    @property
    def methods(self) -> set[str]:
        """Return the methods without the parent."""
        return set(self.curves) - {"parent"}


def improvement_by_size(numbers: pd.DataFrame, metric: str, threshold: float) -> BySize:
    """Return Eq. 19 on means over seeds, interpolated linearly to the sizes of all tables."""
    numbers = numbers[numbers.learn >= FEWEST]
    means = (
        numbers[numbers.metric == metric]
        .groupby(["dataset", "learn", "method"])
        .value.mean()
        .unstack("method")
    )
    if "parent" not in means:
        return BySize(np.array([]), {}, 0)
    sizes = np.unique(means.index.get_level_values("learn").to_numpy(dtype=np.float64))
    result = {
        m: relative_improvement(means.parent.to_numpy(), means[m].to_numpy(), threshold=threshold)
        for m in means
    }
    values = pd.DataFrame(
        {method: each.values for method, each in result.items()}, index=means.index
    )
    curves = {
        m: np.stack([_interpolated(each, sizes) for _, each in values[m].groupby("dataset")])
        for m in values
    }
    return BySize(sizes, curves, result["parent"].left_out)


def at_sizes(
    curve: np.ndarray, sizes: np.ndarray, wanted: Sequence[float]
) -> list[tuple[float, int]]:
    """Return the median over tables and their number at each size; NaN and 0 without a table."""
    result = []
    for size in wanted:
        values = np.array([np.interp(size, sizes, row, left=np.nan, right=np.nan) for row in curve])
        result.append((median(values), int((~np.isnan(values)).sum())))
    return result


def _interpolated(of_table: pd.Series, sizes: np.ndarray) -> np.ndarray:
    present = of_table.dropna()
    if present.empty:
        return np.full(len(sizes), np.nan)
    return np.interp(
        sizes,
        present.index.get_level_values("learn"),
        present.to_numpy(),
        left=np.nan,
        right=np.nan,
    )
