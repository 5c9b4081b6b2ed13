"""Cells of rows that lie near each other: where a predictive distribution is to be right by itself,
and not only on average.

Whether predictive distributions are right in every cell of rows and in every group, where errors
elsewhere cannot make up for it.

Rows of a cell all weigh the same, so their effective number is their number. Bands are the central
95 % of what chance alone makes of calibrated distributions in one cell of that many rows; of 20
cells one is outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from kdgraph.errors import DataError, ParameterError
from kdgraph.metrics.inputs import Grouped, Groups
from kdgraph.metrics.registry import IdentityKey, metric, scope_cache, table
from kdgraph.metrics.regression.pit import distance_to_uniform, histogram_of_pits
from kdgraph.metrics.regression.scores import checked_level
from kdgraph.parameters import Count, OpenFraction, check_value

By = Literal["kmeans", "grid"]
"""How rows become cells."""


def cells_of(X: np.ndarray, cells: Count, by: By, features: Sequence[int]) -> Groups:
    """The cell of each row; the same for every model and every metric that asks for them of the
    same rows; ours.

    Parameters
    ----------
    X : Float[n, d], finite.
    cells : how many, about.
    by : as of :func:`kmeans_cells` and :func:`grid_cells`.
    features : of a grid.

    Raises
    ------
    DataError : of values that are missing.
    ParameterError : of an option that is out of range, or of a feature that is not there.
    """
    check_value("cells", cells, Count)
    check_value("by", by, By)
    known = scope_cache("cells of rows", IdentityKey(X), cells, by, tuple(features))
    if "cells" not in known:
        flat = np.asarray(X, dtype=np.float64).reshape(len(X), -1)
        if not np.isfinite(flat).all():
            raise DataError(
                "rows with missing values lie in no cell; measure in a space (space: …), or by"
                " group"
            )
        known["cells"] = (
            kmeans_cells(flat, cells) if by == "kmeans" else grid_cells(flat, cells, features)
        )
    return known["cells"]


def kmeans_cells(X: np.ndarray, cells: int) -> Groups:
    """Clusters of scikit-learn's k-means on features of variance 1, in the order of the first
    feature of their centres.

    Where there are one or two features, a cell's name says where its centre is.

    Parameters
    ----------
    X : Float[n, d], finite.
    cells : clusters; fewer where there are fewer different rows.

    Examples
    --------
    >>> found = kmeans_cells(np.array([[5.0], [0.25], [0.0], [5.5]]), 2)
    >>> found.position.tolist(), found.names
    ([1, 0, 0, 1], ('cell 1, x1 0.125', 'cell 2, x1 5.25'))
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    std = X.std(axis=0)
    unit, middle = np.where(std > 0, std, 1.0), X.mean(axis=0)
    Z = (X - middle) / unit
    with threadpool_limits(1):  # threads would add in another order
        fitted = KMeans(min(cells, len(np.unique(Z, axis=0))), n_init=1, random_state=0).fit(Z)
    order = np.argsort(fitted.cluster_centers_[:, 0], kind="stable")
    rank = np.argsort(order)
    centres = fitted.cluster_centers_[order] * unit + middle
    places = [
        (
            "".join(f", x{f + 1} {value:.3g}" for f, value in enumerate(centre))
            if X.shape[1] <= 2
            else ""
        )
        for centre in centres
    ]
    return Groups(
        rank[fitted.labels_].astype(np.intp),
        tuple(f"cell {i + 1}{place}" for i, place in enumerate(places)),
    )


def grid_cells(X: np.ndarray, cells: int, features: Sequence[int]) -> Groups:
    """A grid over one or two features, cut at quantiles, so that every strip along one of them has
    as many rows; ours.

    Parameters
    ----------
    X : Float[n, d], finite.
    cells : of the grid; along each of two features it is cut into √cells, rounded.
    features : positions of one or two different features.

    Raises
    ------
    ParameterError : of other features.

    Examples
    --------
    >>> found = grid_cells(np.arange(4.0)[:, None], 2, [0])
    >>> found.position.tolist(), found.names
    ([0, 0, 1, 1], ('x1 0 to 1.5', 'x1 1.5 to 3'))
    """
    d = X.shape[1]
    if (
        len(set(features)) != len(features)
        or len(features) not in (1, 2)
        or not all(0 <= f < d for f in features)
    ):
        raise ParameterError(
            f"features must be one or two different positions from 0 to {d - 1}, got"
            f" {list(features)}"
        )
    side = max(round(cells ** (1 / len(features))), 1)
    position, names = np.zeros(len(X), dtype=np.intp), [""]
    for f in features:
        edges = np.unique(np.quantile(X[:, f], np.arange(side + 1) / side))
        strips = max(len(edges) - 1, 1)
        position = position * strips + np.searchsorted(edges[1:-1], X[:, f], side="right")
        ends = pairwise(edges) if len(edges) > 1 else [(edges[0], edges[0])]
        along = [f"x{f + 1} {low:.3g} to {high:.3g}" for low, high in ends]
        names = [f"{name}, {strip}".removeprefix(", ") for name in names for strip in along]
    return Groups(position, tuple(names))


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
    """Coverage, width and PIT values of the rows of each cell: an interval that holds on average
    may fail here and be too wide there.

    Parameters
    ----------
    y : Float[n], outcomes.
    distribution : of n rows.
    X : Float[n, d]: where the rows lie.
    level : in (0, 1), of the central interval.
    cells : about how many.
    by : kmeans: clusters of the features, each in units of its standard deviation; grid: quantiles
    of one or two features.
    features : of the grid, from 0.

    Returns
    -------
    Columns ``cell``, ``n_eff``, ``coverage``, ``low`` and ``high`` (the band that calibrated
    distributions stay in), ``gap`` (coverage - level), ``width`` (mean), ``pit_mean`` (½ is ideal:
    above it, outcomes are larger than predicted), ``pit_ks`` and ``crps`` (mean).

    Notes
    -----
    What Torres et al. (2024), Figure 3 (e, f), show of single rows. Cells are made of the measured
    rows without their outcomes.
    """
    return _by_cell(y, distribution, cells_of(X, cells, by, features), checked_level(level))


@table("coverage by group")
def group_coverage(
    y: np.ndarray, distribution: Any, groups: Grouped, *, level: OpenFraction = 0.95
) -> dict[str, np.ndarray]:
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
    Columns ``cell``, ``n_eff`` (rows of the cell), ``lower``, ``upper``, ``count`` and ``density``,
    of which 1 is ideal.

    Notes
    -----
    Torres et al. (2024), Figures 1 (f) and 5 (c, d), have the neighbourhoods of two chosen points.
    """
    check_value("bins", bins, Count)
    pits = distribution.cdf(y)
    found = []
    for name, rows in _cells(cells_of(X, cells, by, features)):
        found.append(
            {
                "cell": np.repeat(name, bins),
                "n_eff": np.repeat(len(rows), bins),
                **histogram_of_pits(pits[rows], bins),
            }
        )
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
    """Largest ``|coverage - level|`` of the cells of :func:`local_coverage` with at least
    ``min_count`` rows; NaN where none has. Ours.

    Chance alone makes it of the size of 2·√(level (1 - level) / rows of a cell) for calibrated
    distributions, so compare numbers of the same rows and cells.

    Parameters
    ----------
    y, distribution, X, level, cells, by, features : as of :func:`local_coverage`.
    min_count : rows that a cell must have.
    """
    check_value("min_count", min_count, Count)
    return _worst(
        y, distribution, cells_of(X, cells, by, features), checked_level(level), min_count
    )


@metric("worst group coverage gap", better="lower")
def worst_group_gap(
    y: np.ndarray,
    distribution: Any,
    groups: Grouped,
    *,
    level: OpenFraction = 0.95,
    min_count: Count = 30,
) -> float:
    """Largest ``|coverage - level|`` of the groups with at least ``min_count`` rows; NaN where none
    has. Ours; see :func:`worst_cell_gap`.

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
    gaps = [
        abs(covered[rows].mean() - level) for _, rows in _cells(cells) if len(rows) >= min_count
    ]
    return float(max(gaps, default=np.nan))


def _by_cell(
    y: np.ndarray, distribution: Any, cells: Groups, level: float
) -> dict[str, np.ndarray]:
    from scipy.stats import binom

    low, high = distribution.interval(level)
    by_row = {
        "coverage": (low <= y) & (y <= high),
        "width": high - low,
        "pit_mean": distribution.cdf(y),
        "crps": distribution.crps(y),
    }
    names, rows = zip(*_cells(cells), strict=True)
    n = np.array([len(each) for each in rows])
    mean = {
        column: np.array([values[each].mean() for each in rows])
        for column, values in by_row.items()
    }
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
