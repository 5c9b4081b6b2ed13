"""Coverage and PIT values of predictive distributions within cells of rows and within groups.

Errors in different cells cannot cancel, as they do in an average over all rows. Cells are clusters
or grid cells of the features. All rows of a cell have equal weight, so their effective number is
their number. Bands are the central 95 % of the coverage of calibrated distributions in a cell of
that many rows, so one in 20 cells is outside by chance. What has no reference is original to
kdgraph.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from kdgraph.errors import DataError, ParameterError
from kdgraph.metrics.inputs import Grouped, Groups
from kdgraph.metrics.registry import IdentityKey, metric, scope_cache, table
from kdgraph.metrics.regression.pit import (
    distance_to_uniform,
    histogram_of_pits,
    pit_steps,
    values_on_steps,
)
from kdgraph.metrics.regression.scores import checked_level
from kdgraph.parameters import Count, OpenFraction, check_value

By = Literal["kmeans", "grid"]
"""Method that divides rows into cells."""


def cells_of(X: np.ndarray, cells: Count, by: By, features: Sequence[int]) -> Groups:
    """Return the cell of each row of X, Float[n, d].

    Cells depend only on the rows, so all models and metrics share them.
    """
    check_value("cells", cells, Count)
    check_value("by", by, By)
    cache = scope_cache("cells of rows", IdentityKey(X), cells, by, tuple(features))
    if "cells" not in cache:
        flat = np.asarray(X, dtype=np.float64).reshape(len(X), -1)
        if not np.isfinite(flat).all():
            raise DataError(
                "rows with missing values lie in no cell; measure in a space (space: …), or by"
                " group"
            )
        cache["cells"] = (
            kmeans_cells(flat, cells) if by == "kmeans" else grid_cells(flat, cells, features)
        )
    return cache["cells"]


def kmeans_cells(X: np.ndarray, cells: int) -> Groups:
    """Return clusters of scikit-learn's k-means on features Float[n, d], scaled to variance 1.

    Clusters are sorted by the first feature of their centres. With one or two features, the name of
    a cell contains its centre. There are fewer than ``cells`` if there are fewer distinct rows.
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    std = X.std(axis=0)
    unit, middle = np.where(std > 0, std, 1.0), X.mean(axis=0)
    Z = (X - middle) / unit
    # With several threads the order of additions, and so the last bits, would vary.
    with threadpool_limits(1):
        fitted = KMeans(min(cells, len(np.unique(Z, axis=0))), n_init=1, random_state=0).fit(Z)
    order = np.argsort(fitted.cluster_centers_[:, 0], kind="stable")
    rank = np.argsort(order)
    centres = fitted.cluster_centers_[order] * unit + middle
    suffixes = [
        (
            "".join(f", x{f + 1} {value:.3g}" for f, value in enumerate(centre))
            if X.shape[1] <= 2
            else ""
        )
        for centre in centres
    ]
    return Groups(
        rank[fitted.labels_].astype(np.intp),
        tuple(f"cell {i + 1}{suffix}" for i, suffix in enumerate(suffixes)),
    )


def grid_cells(X: np.ndarray, cells: int, features: Sequence[int]) -> Groups:
    """Return the cells of a grid over one or two features of Float[n, d], cut at quantiles.

    Every strip along a feature has about the same number of rows; each of two features is cut into
    √cells strips, rounded.
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
    n_strips = max(round(cells ** (1 / len(features))), 1)
    position, names = np.zeros(len(X), dtype=np.intp), [""]
    # Positions and names are extended feature by feature, the last feature varying fastest. Equal
    # quantiles are merged, so a feature may have fewer strips than requested.
    for f in features:
        edges = np.unique(np.quantile(X[:, f], np.arange(n_strips + 1) / n_strips))
        strip_of_row = np.searchsorted(edges[1:-1], X[:, f], side="right")
        position = position * max(len(edges) - 1, 1) + strip_of_row
        ends = pairwise(edges) if len(edges) > 1 else [(edges[0], edges[0])]
        strip_names = [f"x{f + 1} {low:.3g} to {high:.3g}" for low, high in ends]
        names = [f"{name}, {strip}".removeprefix(", ") for name in names for strip in strip_names]
    return Groups(position, tuple(names))


_BAND = 0.95
"""Probability that the coverage of calibrated distributions in a cell lies inside its band."""


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
    """Tabulate coverage, width and PIT values of the rows of each cell.

    Intervals with the correct coverage on average may be too narrow in one cell and too wide in
    another.

    Torres et al. (2024), Figure 3 (e, f), show these numbers for single rows.

    The columns are ``cell`` (name), ``n_eff`` (number of rows), ``coverage``, ``low`` and ``high``
    (ends of the 95 % band of the coverage of calibrated distributions), ``gap`` (coverage - level),
    ``width`` (mean), ``pit_mean`` (½ is ideal; if it is above, outcomes are larger than predicted),
    ``pit_ks`` and ``crps`` (mean), each [c] for c cells with rows.

    Parameters
    ----------
    level : float, default=0.95
        Nominal coverage of the central interval, in (0, 1).
    cells : int, default=20
        Approximate number of cells.
    by : {"kmeans", "grid"}, default="kmeans"
        "kmeans": clusters of the features, each in units of its standard deviation. "grid":
        quantiles of one or two features.
    features : sequence of int, default=(0, 1)
        Features of the grid, from 0.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> X, y = np.array([[0.0], [0.1], [5.0], [5.1]]), [0.0, 0.5, 3.0, -3.0]
    >>> table = local_coverage(y, Normal(np.zeros(4), np.ones(4)), X, cells=2)
    >>> [table[column].round(2).tolist() for column in ("n_eff", "coverage", "width", "pit_mean")]
    [[2, 2], [1.0, 0.0], [3.92, 3.92], [0.6, 0.5]]
    """
    return _by_cell(y, distribution, cells_of(X, cells, by, features), checked_level(level))


@table("coverage by group", like=local_coverage)
def group_coverage(
    y: np.ndarray, distribution: Any, groups: Grouped, *, level: OpenFraction = 0.95
) -> dict[str, np.ndarray]:
    """Tabulate coverage, width and PIT values of each group with rows, as :func:`local_coverage`.

    It has the columns of :func:`local_coverage`, with the name of the group as ``cell``.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> normal = Normal(np.zeros(4), np.ones(4))
    >>> table = group_coverage([0.0, 0.5, 3.0, -3.0], normal, ["a", "a", "b", "b"])
    >>> dict(zip(table["cell"].tolist(), table["coverage"].tolist(), strict=True))
    {'a': 1.0, 'b': 0.0}
    """
    return _by_cell(y, distribution, groups, checked_level(level))


@table("local PIT histograms", like=local_coverage)
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
    """Tabulate the histogram of the PIT values in each cell, with a row for each cell and bin.

    Torres et al. (2024), Figures 1 (f) and 5 (c, d), show neighbourhoods of two points.

    The columns are ``cell`` (name), ``n_eff`` (number of rows of the cell) and the columns of
    :func:`~kdgraph.metrics.pit_histogram`, each [c · bins] for c cells with rows.

    Parameters
    ----------
    bins : int, default=10
        Number of bins of [0, 1], as for :func:`pit_histogram`.
    cells : int, default=6
        Approximate number of cells.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> X, y = np.array([[0.0], [0.1], [5.0], [5.1]]), [0.0, 0.5, 3.0, 2.0]
    >>> table = local_pit(y, Normal(np.zeros(4), np.ones(4)), X, bins=2, cells=2)
    >>> [table[column].tolist() for column in ("lower", "count", "density")]
    [[0.0, 0.5, 0.0, 0.5], [1, 1, 0, 2], [1.0, 1.0, 0.0, 2.0]]
    """
    check_value("bins", bins, Count)
    lower, upper = pit_steps(y, distribution)
    histograms = []
    for name, rows in _populated(cells_of(X, cells, by, features)):
        histograms.append(
            {
                "cell": np.repeat(name, bins),
                "n_eff": np.repeat(len(rows), bins),
                **histogram_of_pits(values_on_steps(lower[rows], upper[rows]), bins),
            }
        )
    return {column: np.concatenate([h[column] for h in histograms]) for column in histograms[0]}


@metric("worst local coverage gap", better="lower", like=local_coverage)
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
    """Measure the largest ``|coverage - level|`` of cells with at least ``min_count`` rows.

    It is NaN if there is no such cell. For calibrated distributions it is about
    2·√(level (1 - level) / rows of a cell) by chance, so compare it only for the same rows and
    cells.

    Parameters
    ----------
    min_count : int, default=30
        Cells with fewer rows are left out.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> X, y = np.array([[0.0], [0.1], [5.0], [5.1]]), [0.0, 0.5, 3.0, -3.0]
    >>> normal = Normal(np.zeros(4), np.ones(4))
    >>> worst_cell_gap(y, normal, X, cells=2, min_count=2)  # coverage 0 in the second cell
    0.95
    """
    check_value("min_count", min_count, Count)
    return _largest_gap(
        y, distribution, cells_of(X, cells, by, features), checked_level(level), min_count
    )


@metric("worst group coverage gap", better="lower", like=worst_cell_gap)
def worst_group_gap(
    y: np.ndarray,
    distribution: Any,
    groups: Grouped,
    *,
    level: OpenFraction = 0.95,
    min_count: Count = 30,
) -> float:
    """Measure the largest ``|coverage - level|`` of groups with at least ``min_count`` rows.

    It is NaN if there is no such group; see :func:`worst_cell_gap`.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> normal = Normal(np.zeros(4), np.ones(4))
    >>> worst_group_gap([0.0, 0.5, 3.0, -3.0], normal, ["a", "a", "b", "b"], min_count=2)
    0.95
    """
    check_value("min_count", min_count, Count)
    return _largest_gap(y, distribution, groups, checked_level(level), min_count)


def _largest_gap(
    y: np.ndarray, distribution: Any, cells: Groups, level: float, min_count: int
) -> float:
    """Return the largest gap of cells with ``min_count`` rows; NaN if there is none."""
    low, high = distribution.interval(level)
    covered = (low <= y) & (y <= high)
    gaps = [
        abs(covered[rows].mean() - level) for _, rows in _populated(cells) if len(rows) >= min_count
    ]
    return float(max(gaps, default=np.nan))


def _by_cell(
    y: np.ndarray, distribution: Any, cells: Groups, level: float
) -> dict[str, np.ndarray]:
    """Return the columns of :func:`local_coverage`, one entry for each cell with rows."""
    from scipy.stats import binom

    low, high = distribution.interval(level)
    lower, upper = pit_steps(y, distribution)
    by_row = {
        "coverage": (low <= y) & (y <= high),
        "width": high - low,
        "pit_mean": (lower + upper) / 2,
        "crps": distribution.crps(y),
    }
    names, row_numbers = zip(*_populated(cells), strict=True)
    n = np.array([len(rows) for rows in row_numbers])
    mean = {
        column: np.array([values[rows].mean() for rows in row_numbers])
        for column, values in by_row.items()
    }
    # The number of covered rows of calibrated distributions is binomial.
    ends = [binom.ppf(q, n, level) / n for q in ((1 - _BAND) / 2, (1 + _BAND) / 2)]
    return {
        "cell": np.array(names),
        "n_eff": n,
        "coverage": mean["coverage"],
        "low": ends[0],
        "high": ends[1],
        "gap": mean["coverage"] - level,
        "width": mean["width"],
        "pit_mean": mean["pit_mean"],
        "pit_ks": np.array(
            [distance_to_uniform(values_on_steps(lower[rows], upper[rows])) for rows in row_numbers]
        ),
        "crps": mean["crps"],
    }


def _populated(cells: Groups) -> list[tuple[str, np.ndarray]]:
    return [(name, rows) for name, rows in cells.rows() if len(rows)]
