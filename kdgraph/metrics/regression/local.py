"""Whether predictive distributions are right in every cell of rows and in every group, where errors elsewhere cannot make up for it.

Rows of a cell all weigh the same, so their effective number is their number. Bands are the central 95 % of what chance alone makes of
calibrated distributions in one cell of that many rows; of 20 cells one is outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kdgraph.metrics.grouping import Grouped, Groups
from kdgraph.metrics.registry import metric, table
from kdgraph.metrics.regression.cells import By, cells_of
from kdgraph.metrics.regression.intervals import checked_level
from kdgraph.metrics.regression.pit import histogram_of_pits
from kdgraph.metrics.regression.uniformity import distance_to_uniform
from kdgraph.parameters import Count, OpenFraction, check_value

_BAND = 0.95


@table("local coverage")
def local_coverage(
    y: np.ndarray,
    distribution: Any,
    X: np.ndarray,
    *,
    level: OpenFraction = 0.95,
    cells: Count = 20,
    by: By = "kmeans",
    features: Sequence[int] = (0, 1),
) -> dict[str, np.ndarray]:
    """Coverage, width and PIT values of the rows of each cell: an interval that holds on average may fail here and be too wide there.

    Parameters
    ----------
    y : Float[n], outcomes.
    distribution : of n rows.
    X : Float[n, d]: where the rows lie.
    level : in (0, 1), of the central interval.
    cells : about how many.
    by : kmeans: clusters of the features, each in units of its standard deviation; grid: quantiles of one or two features.
    features : of the grid, from 0.

    Returns
    -------
    Columns ``cell``, ``n_eff``, ``coverage``, ``low`` and ``high`` (the band that calibrated distributions stay in), ``gap`` (coverage -
    level), ``width`` (mean), ``pit_mean`` (½ is ideal: above it, outcomes are larger than predicted), ``pit_ks`` and ``crps`` (mean).

    Notes
    -----
    What Torres et al. (2024), Figure 3 (e, f), show of single rows. Cells are made of the measured rows without their outcomes.
    """
    return _by_cell(y, distribution, cells_of(X, cells, by, features), checked_level(level))


@table("coverage by group")
def group_coverage(y: np.ndarray, distribution: Any, groups: Grouped, *, level: OpenFraction = 0.95) -> dict[str, np.ndarray]:
    """As :func:`local_coverage`, by the groups that are given; ours.

    Parameters
    ----------
    y : Float[n], outcomes.
    distribution : of n rows.
    groups : [n], the group of each row; a group without rows is left out.
    level : in (0, 1), of the central interval.
    """
    return _by_cell(y, distribution, groups, checked_level(level))


@table("local PIT histograms")
def local_pit(
    y: np.ndarray,
    distribution: Any,
    X: np.ndarray,
    *,
    bins: Count = 10,
    cells: Count = 6,
    by: By = "kmeans",
    features: Sequence[int] = (0, 1),
) -> dict[str, np.ndarray]:
    """Histogram of the PIT values of the rows of each cell, a row for each cell and bin.

    Parameters
    ----------
    y : Float[n], outcomes.
    distribution : of n rows.
    X : Float[n, d]: where the rows lie.
    bins : of [0, 1], as of :func:`pit_histogram`.
    cells, by, features : as of :func:`local_coverage`.

    Returns
    -------
    Columns ``cell``, ``n_eff`` (rows of the cell), ``lower``, ``upper``, ``count`` and ``density``, of which 1 is ideal.

    Notes
    -----
    Torres et al. (2024), Figures 1 (f) and 5 (c, d), have the neighbourhoods of two chosen points.
    """
    check_value("bins", bins, Count)
    pits = distribution.cdf(y)
    found = []
    for name, rows in _cells(cells_of(X, cells, by, features)):
        found.append({"cell": np.repeat(name, bins), "n_eff": np.repeat(len(rows), bins), **histogram_of_pits(pits[rows], bins)})
    return {column: np.concatenate([each[column] for each in found]) for column in found[0]}


@metric("worst local coverage gap", better="lower")
def worst_cell_gap(
    y: np.ndarray,
    distribution: Any,
    X: np.ndarray,
    *,
    level: OpenFraction = 0.95,
    cells: Count = 20,
    by: By = "kmeans",
    features: Sequence[int] = (0, 1),
    min_count: Count = 30,
) -> float:
    """Largest ``|coverage - level|`` of the cells of :func:`local_coverage` with at least ``min_count`` rows; NaN where none has. Ours.

    Chance alone makes it of the size of 2·√(level (1 - level) / rows of a cell) for calibrated distributions, so compare numbers
    of the same rows and cells.

    Parameters
    ----------
    y, distribution, X, level, cells, by, features : as of :func:`local_coverage`.
    min_count : rows that a cell must have.
    """
    check_value("min_count", min_count, Count)
    return _worst(y, distribution, cells_of(X, cells, by, features), checked_level(level), min_count)


@metric("worst group coverage gap", better="lower")
def worst_group_gap(y: np.ndarray, distribution: Any, groups: Grouped, *, level: OpenFraction = 0.95, min_count: Count = 30) -> float:
    """Largest ``|coverage - level|`` of the groups with at least ``min_count`` rows; NaN where none has. Ours; see :func:`worst_cell_gap`.

    Parameters
    ----------
    y : Float[n], outcomes.
    distribution : of n rows.
    groups : [n], the group of each row.
    level : in (0, 1), of the central interval.
    min_count : rows that a group must have.
    """
    check_value("min_count", min_count, Count)
    return _worst(y, distribution, groups, checked_level(level), min_count)


def _worst(y: np.ndarray, distribution: Any, cells: Groups, level: float, min_count: int) -> float:
    low, high = distribution.interval(level)
    covered = (low <= y) & (y <= high)
    gaps = [abs(covered[rows].mean() - level) for _, rows in _cells(cells) if len(rows) >= min_count]
    return float(max(gaps, default=np.nan))


def _by_cell(y: np.ndarray, distribution: Any, cells: Groups, level: float) -> dict[str, np.ndarray]:
    from scipy.stats import binom

    low, high = distribution.interval(level)
    by_row = {"coverage": (low <= y) & (y <= high), "width": high - low, "pit_mean": distribution.cdf(y), "crps": distribution.crps(y)}
    names, rows = zip(*_cells(cells), strict=True)
    n = np.array([len(each) for each in rows])
    mean = {column: np.array([values[each].mean() for each in rows]) for column, values in by_row.items()}
    ends = [binom.ppf(share, n, level) / n for share in ((1 - _BAND) / 2, (1 + _BAND) / 2)]
    return {
        "cell": np.array(names),
        "n_eff": n,
        "coverage": mean["coverage"],
        "low": ends[0],
        "high": ends[1],
        "gap": mean["coverage"] - level,
        "width": mean["width"],
        "pit_mean": mean["pit_mean"],
        "pit_ks": np.array([distance_to_uniform(by_row["pit_mean"][each]) for each in rows]),
        "crps": mean["crps"],
    }


def _cells(cells: Groups) -> list[tuple[str, np.ndarray]]:
    """Name and rows of each that has some."""
    return [(name, rows) for name, rows in cells.rows() if len(rows)]
