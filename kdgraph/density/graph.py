"""Kernel density graph of a partition (Dey et al. 2024, Section 3.3).

:class:`KernelDensityGraph` holds the polytopes that training rows populate, with their class masses
and their Gaussians, for any partition.

Without limits a graph has a Gaussian for each polytope and counts the class of each training row,
so that predictions take time and memory that grow with the training rows. :class:`GraphLimits` has
the limits of one graph, and :func:`merge_polytopes` merges neighbouring polytopes (named as future
work by Dey et al. 2024, Section 6). The rules are original to kdgraph.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from kdgraph.density.class_counts import (
    ClassCounts,
    PolytopeCounts,
    choose_class_rows,
    draw_rows,
)
from kdgraph.density.gaussians import (
    LeftOutRows,
    PolytopeGaussians,
    PolytopeMoments,
    VarianceRule,
    choose_spacing,
    left_out_positions,
    log_density_by_folds,
    neighbour_whitening,
)
from kdgraph.geometry import Locations, Partition, Polytopes, polytopes_of
from kdgraph.smoothing.nearest_mean import MAX_MEANS_IN_PRODUCT, NearestMean

PolytopeDistance = Literal["geodesic", "euclidean", "scaled", "whitened"]
"""Distance by which the nearest polytope is found. "geodesic": Eq. 17. "euclidean": Euclidean
distance to the polytope's mean. "scaled": the same with every feature in units of the spacing
between polytopes. "whitened": the same along the axes of
:func:`~kdgraph.density.gaussians.neighbour_whitening`, which respect correlations between features;
the Gaussians then have these axes too.
"""
_WITH_UNIT = "scaled", "whitened"
MaxPolytopes = int | float | Literal["auto"] | None
"""Parameter ``max_polytopes`` of estimators, see :meth:`GraphLimits.of`."""
MAX_GAUSSIANS = 65_536
"""Maximum number of Gaussians of an "auto" limit."""
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
        "auto": those of :func:`~kdgraph.density.class_counts.choose_class_rows`, more of which
        :func:`~kdgraph.density.out_of_sample.fit_graph` may count. None for all rows.
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


@dataclass(frozen=True)
class QueryResult:
    """Result of a query of n rows on the graph.

    Attributes
    ----------
    locations : Locations
        Positions of the rows on the partition.
    masses : Float[n, K, k]
        Class masses around each row at each of k exponents.
    polytope : Int[n]
        Nearest populated polytope, -1 if no polytope shares anything with the row.
    log_density : Float[n]
        log G of that polytope's Gaussian at the row.
    """

    locations: Locations
    masses: np.ndarray
    polytope: np.ndarray
    log_density: np.ndarray


class KernelDensityGraph:
    """Graph of the polytopes that training rows populate, with Gaussians and class masses.

    Parameters
    ----------
    partition : Partition
        Partition of the parent.
    locations : Locations
        Positions of n rows on the partition. The first ``n_train`` of them populate the polytopes.
    labels : Float[n, K] or None
        Weight of each row in the column of its class. None for a graph of the density alone, which
        has no class masses.
    variance : callable or None, default=None
        Rule for the variances of the Gaussians, see
        :data:`~kdgraph.density.gaussians.VarianceRule`. None for variances that are shrunk towards
        the spacing between polytopes.
    n_train : int, default=None
        Rows beyond this number contribute their class mass, but have no Gaussian and so are never
        in the nearest polytope. None for all rows.
    distance : {"geodesic", "euclidean", "scaled", "whitened"}, default="geodesic"
        Distance by which the nearest polytope is found, see :data:`PolytopeDistance`.
    limits : GraphLimits, default=NO_LIMITS
        Maximum numbers of polytopes, Gaussians and rows whose classes are counted.
    held_out : Float[m, d], default=None
        Points that choose the shrinkage of the spacing between polytopes, see
        :func:`~kdgraph.density.gaussians.choose_spacing`.
    leave_one_out : bool, default=False
        Compute the density of training rows without themselves, by which "scaled" distances choose
        this shrinkage too, instead of on ``held_out``.

    Attributes
    ----------
    polytopes : Polytopes
        The populated polytopes.
    counts : ClassCounts or None
        Class masses around codes; None for a graph of the density alone, by distances to means.
    gaussians : PolytopeGaussians
        Their Gaussians.
    whitening : Whitening or None
        Coordinates of the Gaussians if ``distance`` is "whitened".
    floor_log_density : Float[m]
        Log densities of training rows without themselves, with ``leave_one_out``: of all, or of
        about 10,000 of more than twice as many.
    fill_values : Float[d] or None
        Medians of the training rows, which replace missing values where the partition keeps them.
    spacing : Float[d] or None
        Mean squared difference between neighbouring means, by coordinate of the Gaussians, if it is
        the unit of ``distance``.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from kdgraph.geometry import partition_of
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> partition = partition_of(RandomForestClassifier(20, random_state=0).fit(X, y))
    >>> graph = KernelDensityGraph(partition, partition.locate(X), np.eye(2)[y], distance="scaled")
    >>> inside, outside = graph.log_density([[0.0, 1.0], [50.0, 50.0]])
    >>> bool(inside > outside)
    True
    """

    def __init__(
        self,
        partition: Partition,
        locations: Locations,
        labels: np.ndarray | None = None,
        *,
        variance: VarianceRule | None = None,
        n_train: int | None = None,
        distance: PolytopeDistance = "geodesic",
        limits: GraphLimits = NO_LIMITS,
        held_out: np.ndarray | None = None,
        leave_one_out: bool = False,
    ):
        # Polytopes are numbered by first appearance, and training rows come first. The first
        # polytopes are therefore those with training rows; only these have Gaussians and can be
        # nearest. The others only add class mass to their neighbours.
        self.partition, self.distance = partition, distance
        n_train = len(locations) if n_train is None else n_train
        self.fill_values = _fill_values(partition, locations.points[:n_train])
        all_points = self._fill_missing(locations.points)
        all_polytopes = merge_polytopes(
            polytopes_of(locations.codes), all_points, n_train, limits.max_polytopes
        )
        self.polytopes = all_polytopes.head(n_train)
        points = all_points[:n_train]
        self.whitening = neighbour_whitening(points) if distance == "whitened" else None
        left_out = self._fit_gaussians(points, variance, limits, held_out, leave_one_out)
        self.floor_log_density = np.empty(0)
        if left_out is not None and self._nearest_mean is not None:
            self.floor_log_density = left_out.log_density(self._nearest_mean)
        elif leave_one_out:

            def graph_outside(others: np.ndarray, fold: np.ndarray) -> KernelDensityGraph:
                return KernelDensityGraph(
                    partition,
                    locations[others],
                    None if labels is None else labels[others],
                    variance=variance,
                    distance=distance,
                    limits=limits,
                    held_out=points[fold],
                )

            self.floor_log_density = log_density_by_folds(graph_outside, locations[:n_train])
        self.counts: ClassCounts | None = None
        if labels is not None or distance == "geodesic":
            # Distances to means need nothing of the rows, geodesic ones the index of the counts.
            self.counts = PolytopeCounts(
                partition,
                locations.codes,
                np.ones((len(locations), 1)) if labels is None else labels,
                all_polytopes,
                len(self.polytopes),
                None
                if distance == "geodesic"
                else limits.choose_class_rows(partition, locations.codes),
            )

    def _fit_gaussians(
        self,
        points: np.ndarray,
        variance: VarianceRule | None,
        limits: GraphLimits,
        held_out: np.ndarray | None,
        leave_one_out: bool,
    ) -> LeftOutRows | None:
        """Fit Gaussians and spacing to training rows; return what is left without each of them."""
        coordinates, cells = self.to_coordinates(points), self.polytopes
        if self.distance != "geodesic":
            cells = merge_polytopes(cells, coordinates, len(points), limits.max_gaussians)
        moments, has_unit = PolytopeMoments.of(coordinates, cells), self.distance in _WITH_UNIT
        left_out, spacing = None, None
        if leave_one_out and self.distance == "scaled":
            left_out = LeftOutRows(moments, points, cells.polytope_of_row)
            spacing = left_out.spacing
        elif variance is None or has_unit:
            spacing = choose_spacing(
                moments,
                None if held_out is None else self.to_coordinates(held_out),
                0.0 if self.whitening is None else self.whitening.rounding(points),
            )
        self.spacing = spacing if has_unit else None
        if variance is None:
            assert spacing is not None
            variances = moments.shrink_variances(spacing)
        else:
            variances = variance(moments)
        self.gaussians = PolytopeGaussians(moments.mean, variances)
        scale = 1.0 if self.spacing is None else np.sqrt(self.spacing)
        self._nearest_mean = (
            None if self.distance == "geodesic" else NearestMean(moments.mean, scale)
        )
        return left_out

    def with_counts(self, counts: ClassCounts) -> KernelDensityGraph:
        """Return the graph with other counts of classes."""
        graph = copy(self)
        graph.counts = counts
        return graph

    def query(self, locations: Locations, exponents: np.ndarray) -> QueryResult:
        """Return class masses around rows, weighted by K^exponent, and their nearest polytopes.

        ``exponents``: Float[k]; there are masses for each of them.
        """
        points = self.to_coordinates(locations.points)
        masses, polytope = np.empty((len(locations), 0, 0)), np.empty(0, dtype=np.intp)
        if self._nearest_mean is None or len(exponents):
            assert self.counts is not None
            masses, polytope = self.counts.query(
                locations.codes, exponents, with_nearest=self._nearest_mean is None
            )
        if self._nearest_mean is not None:
            polytope = self._nearest_mean(points)
        return QueryResult(locations, masses, polytope, self._log_density_at(points, polytope))

    def log_density(self, X: Any) -> np.ndarray:
        """Return log G of the nearest polytope's Gaussian, Float[n], at rows Float[n, d]."""
        if self._nearest_mean is None:
            locations = self.partition.locate(X, with_proba=False)
            return self.query(locations, np.empty(0)).log_density
        points = self.to_coordinates(self.partition.embed(X))
        return self._log_density_at(points, self._nearest_mean(points))

    def left_out_log_density(self, rows: np.ndarray) -> np.ndarray:
        """Return log densities, Float[m], of training rows (Int[m]), each without the row itself.

        Of more than 20,000 rows only every s-th one was left out; the others have an infinite
        density, so that no floor moves them.
        """
        log_density = np.full(len(self.polytopes.polytope_of_row), np.inf)
        log_density[left_out_positions(len(log_density))] = self.floor_log_density
        return log_density[rows]

    def to_coordinates(self, points: np.ndarray) -> np.ndarray:
        """Return points of the embedding in the coordinates of the Gaussians, Float[n, d].

        Missing values, which some trees take, are replaced by the median of the training rows.
        """
        points = self._fill_missing(points)
        return points if self.whitening is None else self.whitening(points)

    def _fill_missing(self, points: np.ndarray) -> np.ndarray:
        """Return points without missing values, Float[n, d]."""
        if self.fill_values is None:
            return points
        return np.where(np.isnan(points), self.fill_values, points)

    @property
    def log_unit_volume(self) -> float:
        """Log volume of a box of the size of the spacing, in the space of the embedding.

        Added to a log density it gives a number without unit, which is comparable between graphs of
        different embeddings. It is 0 if distances have no such unit.
        """
        if self.spacing is None:
            return 0.0
        volume = 0.5 * float(np.log(self.spacing).sum())
        return volume if self.whitening is None else volume - self.whitening.log_volume

    def _log_density_at(self, points: np.ndarray, polytope: np.ndarray) -> np.ndarray:
        """Return log densities, Float[n], by volume of the embedding in any coordinates."""
        log_density = self.gaussians.log_density(points, polytope)
        return log_density if self.whitening is None else log_density + self.whitening.log_volume


def _fill_values(partition: Partition, points: np.ndarray) -> np.ndarray | None:
    """Return the median of each feature, 0 if it is missing everywhere.

    The result is None for a partition that takes no missing values, so that there are none to
    replace.
    """
    if not getattr(partition, "takes_missing", False):
        return None
    has_value = ~np.isnan(points).all(axis=0)
    medians = np.zeros(points.shape[1])
    medians[has_value] = np.nanmedian(points[:, has_value], axis=0)
    return medians


def merge_polytopes(
    polytopes: Polytopes, points: np.ndarray, n_train: int, max_polytopes: int | float | None
) -> Polytopes:
    """Merge neighbouring polytopes until at most ``max_polytopes`` are left.

    The training rows are clustered by k-means, with every feature in units of its standard
    deviation. In each cluster, the polytope of the row nearest to the centre absorbs the others:
    their Gaussians become one with the moments of all their rows, and their class masses count at
    its code.

    ``points``: Float[n, d], of the rows. Rows beyond ``n_train`` contribute their class mass only;
    they join the nearest cluster. ``max_polytopes`` is that of :class:`GraphLimits`.
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


def resolve_limit(limit: int | float | None, n_train: int) -> int | None:
    """Return the maximum number, of ``n_train`` rows if it is a fraction; None for no maximum."""
    if limit is None:
        return None
    return max(1, round(limit * n_train)) if limit < 1 else int(limit)
