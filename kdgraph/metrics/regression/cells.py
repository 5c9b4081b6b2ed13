"""Cells of rows that lie near each other: where a predictive distribution is to be right by itself, and not only on average."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from kdgraph.errors import DataError, ParameterError
from kdgraph.metrics.grouping import Groups
from kdgraph.metrics.shared import Itself, kept
from kdgraph.parameters import Count, check_value

By = Literal["kmeans", "grid"]
"""How rows become cells."""


def cells_of(X: np.ndarray, cells: Count, by: By, features: Sequence[int]) -> Groups:
    """The cell of each row; the same for every model and every metric that asks for them of the same rows; ours.

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
    known = kept("cells of rows", Itself(X), cells, by, tuple(features))
    if "cells" not in known:
        flat = np.asarray(X, dtype=np.float64).reshape(len(X), -1)
        if not np.isfinite(flat).all():
            raise DataError("rows with missing values lie in no cell; measure in a space (space: …), or by group")
        known["cells"] = kmeans_cells(flat, cells) if by == "kmeans" else grid_cells(flat, cells, features)
    return known["cells"]


def kmeans_cells(X: np.ndarray, cells: int) -> Groups:
    """Clusters of scikit-learn's k-means on features of variance 1, in the order of the first feature of their centres.

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
    places = ["".join(f", x{f + 1} {value:.3g}" for f, value in enumerate(centre)) if X.shape[1] <= 2 else "" for centre in centres]
    return Groups(rank[fitted.labels_].astype(np.intp), tuple(f"cell {i + 1}{place}" for i, place in enumerate(places)))


def grid_cells(X: np.ndarray, cells: int, features: Sequence[int]) -> Groups:
    """A grid over one or two features, cut at quantiles, so that every strip along one of them has as many rows; ours.

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
    if len(set(features)) != len(features) or len(features) not in (1, 2) or not all(0 <= f < d for f in features):
        raise ParameterError(f"features must be one or two different positions from 0 to {d - 1}, got {list(features)}")
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
