"""Limits on the size of a kernel density graph.

Without limits a graph has a Gaussian for each polytope and counts the class of each training row,
so that predictions take time and memory that grow with the training rows.
:func:`merge_polytopes` merges neighbouring polytopes (named as future work by Dey et al. 2024,
Section 6), and :func:`choose_class_rows` draws the rows whose classes are counted.
:class:`GraphLimits` has the limits of one graph. The rules are original to kdgraph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from kdgraph.geometry import Partition, Polytopes
from kdgraph.geometry.kinds import tree_partition_of
from kdgraph.smoothing.nearest_mean import MAX_MEANS_IN_PRODUCT, NearestMean

MaxPolytopes = int | float | Literal["auto"] | None
"""Parameter ``max_polytopes`` of estimators, see :meth:`GraphLimits.of`."""

MAX_GAUSSIANS = 65_536
"""Maximum number of Gaussians of an "auto" limit."""
MAX_MEETINGS_PER_TREE = 3.0
"""Counted rows that a row meets in its leaf of a tree, on average, at an "auto" limit."""
MIN_CLASS_ROWS = 16_384
"""Number of counted rows below which an "auto" limit does not go."""

# Iterations of k-means, and rows for each of its clusters. More of them improve the clusters little
# for their time.
_KMEANS_ITERATIONS = 5
_ROWS_PER_CLUSTER = 8


@dataclass(frozen=True)
class GraphLimits:
    """Limits on the size of a graph; none by default.

    Attributes
    ----------
    max_polytopes : int, float or None, default=None
        Maximum number of polytopes, with Gaussians and class masses, or below 1 fraction of the
        training rows. Neighbouring polytopes are merged.
    max_gaussians : int, float or None, default=None
        Maximum number of Gaussians alone, likewise.
    class_rows : int, float, "auto" or None, default=None
        Maximum number of rows whose classes are counted, or below 1 fraction of the training rows.
        "auto": such that a row meets :data:`MAX_MEETINGS_PER_TREE` of them in a tree, but no fewer
        than :data:`MIN_CLASS_ROWS`; a fit may raise it
        (:func:`~kdgraph.density.out_of_sample.fit_graph`). None for all rows.
    """

    max_polytopes: int | float | None = None
    max_gaussians: int | float | None = None
    class_rows: MaxPolytopes = None

    @classmethod
    def of(cls, max_polytopes: MaxPolytopes, *, by_row: bool = False) -> GraphLimits:
        """Return the limits that ``max_polytopes``, the parameter of estimators, stands for.

        "auto" limits Gaussians and counted rows, a number merges polytopes, and None is no limit.
        With ``by_row`` class masses belong to rows, not to polytopes, so that a number limits
        Gaussians and counted rows too.
        """
        if max_polytopes == "auto":
            return cls(max_gaussians=MAX_GAUSSIANS, class_rows="auto")
        if by_row:
            return cls(max_gaussians=max_polytopes, class_rows=max_polytopes)
        return cls(max_polytopes=max_polytopes)

    def choose_class_rows(
        self, partition: Partition, codes: np.ndarray, is_counted: np.ndarray | None = None
    ) -> np.ndarray | None:
        """Return the rows whose classes are counted, Int[l]; None for all rows."""
        if self.class_rows is None:
            return None
        if self.class_rows != "auto":
            return draw_rows(len(codes), resolve_limit(self.class_rows, len(codes)))
        return choose_class_rows(partition, codes, is_counted)


NO_LIMITS = GraphLimits()


def merge_polytopes(
    polytopes: Polytopes, points: np.ndarray, n_train: int, max_polytopes: int | float | None
) -> Polytopes:
    """Merge neighbouring polytopes until at most ``max_polytopes`` are left.

    The training rows are clustered by k-means, with every feature in units of its standard
    deviation. In each cluster, the polytope of the row nearest to the centre absorbs the others:
    their Gaussians become one with the moments of all their rows, and their class masses count at
    its code.

    Parameters
    ----------
    polytopes : Polytopes
        Polytopes of n rows.
    points : Float[n, d]
        Points of the rows.
    n_train : int
        Rows beyond this number contribute their class mass only; they join the nearest cluster.
    max_polytopes : int, float or None
        Maximum number of polytopes, or, below 1, fraction of the training rows. None for all.

    Returns
    -------
    Polytopes
        The merged polytopes, or ``polytopes`` if they are few enough.
    """
    # Clusters are compact in the space of the Gaussians, which keeps the boundary of the OOD region
    # sharp. On a forest's spiral with 1 % of its polytopes, predictions at radius 1.5 differed from
    # the prior by .0002; with neighbourhoods by geodesic distance it was .09.
    limit = resolve_limit(max_polytopes, n_train)
    if limit is None or len(polytopes.head(n_train)) <= limit:
        return polytopes
    unit = points[:n_train].std(axis=0)
    scaled = points / np.where(unit > 0, unit, 1.0)
    centres = _cluster_centres(scaled[:n_train], limit)
    cluster_of_row = NearestMean(centres)(scaled)
    squared_distance = ((scaled[:n_train] - centres[cluster_of_row[:n_train]]) ** 2).sum(axis=1)
    order = np.lexsort((squared_distance, cluster_of_row[:n_train]))
    populated, first = np.unique(cluster_of_row[:n_train][order], return_index=True)
    # A cluster of the sample may be the nearest one of no row.
    if len(populated) < limit:
        cluster_of_row = populated[NearestMean(centres[populated])(scaled)]
    polytope_of_row = np.searchsorted(populated, cluster_of_row)
    sizes = np.bincount(polytope_of_row, minlength=len(populated))
    return Polytopes(polytope_of_row, order[first], sizes)


def _cluster_centres(points: np.ndarray, count: int) -> np.ndarray:
    """Return the centres of clusters of ``points`` (Float[n, d]), Float[count, d]."""
    # Points stand in for the centres where these are so many that k-means would take long; they are
    # then dense, and differ little from the centres.
    if count > MAX_MEANS_IN_PRODUCT:
        return points[draw_rows(len(points), count)]
    # A sample of a few rows for each cluster determines the centres; all rows then determine the
    # moments of the clusters.
    sample = points[draw_rows(len(points), _ROWS_PER_CLUSTER * count)]
    distinct = np.unique(sample, axis=0)
    if len(distinct) <= count:  # as where most rows are copies
        return distinct
    # Several threads of k-means would add in another order.
    with threadpool_limits(1):
        return (
            KMeans(count, init="random", n_init=1, max_iter=_KMEANS_ITERATIONS, random_state=0)
            .fit(sample)
            .cluster_centers_
        )


def choose_class_rows(
    partition: Partition, codes: np.ndarray, is_counted: np.ndarray | None = None
) -> np.ndarray | None:
    """Draw the rows whose classes are counted, so that a query meets a bounded number of them.

    Parameters
    ----------
    partition : Partition
        Partition of trees; rows of any other are all counted.
    codes : Int[n, T]
        Codes of the rows.
    is_counted : Bool[n, T], default=None
        True where the class of a row counts in a tree. None for all trees.

    Returns
    -------
    Int[l] or None
        Positions of the rows, increasing; None for all rows.

    Notes
    -----
    Original to kdgraph. A sum of kernels visits each counted row in the leaf of each tree, and what
    it costs are these visits, not the number of rows: fully grown trees have leaves of a few rows
    however many rows there are. Large leaves do not need all of theirs. On 100,000 rows of twenty
    features, and trees of at least five rows a leaf, the NLL was .2741 with 3 of them in a leaf
    instead of .2731 with all, and a prediction took 22 instead of 55 µs. Up to
    :data:`MIN_CLASS_ROWS` rows are counted in any case, because the fewer rows there are, the more
    each of them matters.
    """
    trees = tree_partition_of(partition)
    if trees is None or len(codes) <= MIN_CLASS_ROWS:
        return None
    meetings = 0
    for t, n_nodes in enumerate(np.diff(trees.leaf_starts)):
        nodes = codes[:, t]
        rows = np.bincount(nodes, minlength=n_nodes)
        counted = nodes if is_counted is None else nodes[is_counted[:, t]]
        meetings += int(rows @ np.bincount(counted, minlength=n_nodes))
    share = MAX_MEETINGS_PER_TREE * trees.n_trees * len(codes) / max(meetings, 1)
    return (
        None
        if share >= 1
        else draw_rows(len(codes), max(MIN_CLASS_ROWS, round(share * len(codes))))
    )


def resolve_limit(limit: int | float | None, n_train: int) -> int | None:
    """Return the maximum number, of ``n_train`` rows if it is a fraction; None for no maximum."""
    if limit is None:
        return None
    return max(1, round(limit * n_train)) if limit < 1 else int(limit)


def draw_rows(n_rows: int, n_drawn: int | None) -> np.ndarray:
    """Return the positions of a sample of rows, Int[m], increasing; of all if they are few enough.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    n_drawn : int or None
        Number of rows to draw; None for all.
    """
    if n_drawn is None or n_rows <= n_drawn:
        return np.arange(n_rows)
    # At random, because the rows of a table may be in the order of their classes.
    return np.sort(np.random.default_rng(0).choice(n_rows, n_drawn, replace=False))
