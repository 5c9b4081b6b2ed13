"""Kernel density graph of a partition (Dey et al. 2024, Section 3.3).

:class:`KernelDensityGraph` holds the polytopes that training rows populate, with their class masses
and their Gaussians, for any partition. Class masses are Σ K^exponent over the rows of each class
(Eq. 11 and 15): :class:`PolytopeCounts` sums over polytopes, and :class:`OutOfBagCounts` over the
rows of a bagged forest in the trees that they are out of bag in.

Without limits a graph has a Gaussian for each polytope and counts the class of each training row,
so that predictions take time and memory that grow with the training rows. :class:`GraphLimits` has
the limits of one graph, :func:`choose_class_rows` draws the rows that are counted, and
:func:`merge_polytopes` merges neighbouring polytopes (named as future work by Dey et al. 2024,
Section 6). The rules and the counts out of bag are original to kdgraph.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from kdgraph.base import Rows
from kdgraph.density.gaussians import (
    LeftOutRows,
    PolytopeGaussians,
    PolytopeMoments,
    VarianceRule,
    choose_spacing,
    left_out_positions,
    log_density_by_folds,
)
from kdgraph.density.whitening import neighbour_whitening
from kdgraph.geometry import Locations, Partition, Polytopes, polytopes_of, take_rows
from kdgraph.geometry.kinds import forest_partition_of, tree_partition_of
from kdgraph.geometry.leaf_index import IN_BAG, OutOfBagIndex
from kdgraph.geometry.partition import PolytopeIndex
from kdgraph.smoothing.neighbours import MAX_MEANS_IN_PRODUCT, NearestMean

MAX_MEETINGS_PER_TREE = 3.0
"""Counted rows that a row meets in its leaf of a tree, on average, at an "auto" limit."""
MIN_CLASS_ROWS = 16_384
"""Number of counted rows below which an "auto" limit does not go."""
MAX_ROWS_IN_CELLS = 131_072
"""Number of counted rows behind boosted trees, where a query visits few of them, at most."""


class ClassCounts:
    """Classes of rows, counted by an index that is built at the first query."""

    class_rows: Any
    """Positions of the rows whose classes are counted, Int[l], increasing; None for all."""

    # A subclass has an index of the counted rows or of their polytopes, made when it is needed: a
    # density by distances to means needs none. It is left out of pickles, because it follows from
    # the rest and takes half of the size of a forest's graph on disk.
    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_index"}

    def query(
        self, codes: np.ndarray, exponents: np.ndarray, *, with_nearest: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the class masses around codes, and their nearest populated polytopes by K.

        The masses, Float[n, K, k], are Σ_s K(r, s)^exponent · (class mass of s) for each code r, of
        Int[n, …], and exponent, of Float[k] (Eq. 11, 15). The polytopes, Int[n], are those with the
        largest K, -1 if K is 0 for all; arbitrary without ``with_nearest``.
        """
        raise NotImplementedError


class PolytopeCounts(ClassCounts):
    """Class masses of polytopes, each at the code of one of its rows.

    Parameters
    ----------
    partition : Partition
        The partition.
    codes : Int[n, …]
        Codes of the rows.
    labels : Float[n, K]
        Weight of each row in the column of its class.
    polytopes : Polytopes
        Polytopes of the rows.
    n_anchors : int
        The first of them can be nearest to a query; 0 if no query needs the nearest.
    class_rows : Int[l], default=None
        Rows whose classes are counted, each in its own polytope, of which none was merged. None for
        all rows.
    approximates : bool, default=False
        Leave out polytopes of little weight where that saves most of the time.
    """

    def __init__(
        self,
        partition: Partition,
        codes: np.ndarray,
        labels: np.ndarray,
        polytopes: Polytopes,
        n_anchors: int,
        class_rows: np.ndarray | None = None,
        *,
        approximates: bool = False,
    ):
        self.partition, self.class_rows, self._approximates = partition, class_rows, approximates
        self.codes, self._n_rows = codes, len(codes)
        if class_rows is not None:
            self.codes, labels = take_rows(codes, class_rows), labels[class_rows]
            polytopes = polytopes_of(self.codes)
        self._polytopes, self._n_anchors = polytopes, n_anchors
        self._class_masses = polytopes.sum_by_polytope(labels)

    @cached_property
    def _index(self) -> PolytopeIndex:
        masses, rows = self._class_masses, self._polytopes.representatives
        trees = tree_partition_of(self.partition)
        if trees is None or self._n_anchors:
            return self.partition.index(self.codes, masses, rows=rows, n_anchors=self._n_anchors)
        return trees.mass_index(self.codes, masses, rows, approximates=self._approximates)

    def query(
        self, codes: np.ndarray, exponents: np.ndarray, *, with_nearest: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        return self._index.query(codes, exponents)

    def own_similarity(self, rows: slice) -> np.ndarray:
        """Return K, Float[n], between each of ``rows`` and the code at which its class counts.

        It is 1 unless polytopes were merged, and 0 for rows whose classes do not count.
        """
        if self.class_rows is not None:
            positions = np.arange(*rows.indices(self._n_rows))
            return np.isin(positions, self.class_rows).astype(np.float64)
        representatives = self._polytopes.representatives[self._polytopes.polytope_of_row[rows]]
        return self.partition.paired_similarity(
            self.codes[rows], take_rows(self.codes, representatives)
        )


class OutOfBagCounts(ClassCounts):
    """Classes of the rows of a bagged forest, each in the trees that it is out of bag in.

    Parameters
    ----------
    partition : Partition
        Partition of the forest, also behind transformers.
    codes, rows
        The rows that the forest was fitted on, with classes and weights, and their Int[n, T].
    is_out : Bool[n, T]
        True where a row is out of bag in a tree.
    n_classes, polytope_of_row
        Number of classes K, and the populated polytope of each row, Int[n].
    class_rows : Int[l], default=None
        Rows whose classes are counted. None for all rows.
    """

    def __init__(
        self,
        partition: Partition,
        codes: np.ndarray,
        rows: Rows,
        is_out: np.ndarray,
        n_classes: int,
        polytope_of_row: np.ndarray,
        class_rows: np.ndarray | None = None,
    ):
        self.partition, self._n_classes = partition, n_classes
        self.class_rows = np.arange(len(rows)) if class_rows is None else class_rows
        counted = rows[self.class_rows]
        self._classes, self._weights = counted.y, counted.weight
        self._polytope_of_row = polytope_of_row[self.class_rows]
        # Only leaves that a counted row is out of bag in are needed from here on.
        self._codes = np.where(is_out[self.class_rows], take_rows(codes, self.class_rows), IN_BAG)

    @cached_property
    def _index(self) -> OutOfBagIndex:
        forest = forest_partition_of(self.partition)
        if forest is None:
            raise TypeError("out-of-bag counts need the partition of a forest")
        return OutOfBagIndex(
            self._codes,
            self._classes,
            self._weights,
            self._n_classes,
            forest.leaf_starts,
            n_jobs=forest.n_jobs,
        )

    def query(
        self, codes: np.ndarray, exponents: np.ndarray, *, with_nearest: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        masses, nearest = self._index.query(codes, exponents, with_nearest=with_nearest)
        # The index numbers the counted rows; the nearest polytope is that of the nearest row.
        return masses, np.where(nearest >= 0, self._polytope_of_row[np.maximum(nearest, 0)], -1)

    def query_training(
        self, codes: np.ndarray, is_out: np.ndarray, rows: np.ndarray, exponents: np.ndarray
    ) -> np.ndarray:
        """Return the class masses around training rows, without their own, Float[m, K, k].

        ``codes``: Int[m, T]; ``is_out``: Bool[m, T], where each is out of bag in a tree; ``rows``:
        Int[m], positions among all training rows; ``exponents``: Float[k].
        """
        number = np.minimum(np.searchsorted(self.class_rows, rows), len(self.class_rows) - 1)
        number[self.class_rows[number] != rows] = -1
        return self._index.query_training(np.where(is_out, codes, IN_BAG), number, exponents)


def choose_class_rows(
    partition: Partition, codes: np.ndarray, is_counted: np.ndarray | None = None
) -> np.ndarray | None:
    """Draw the rows whose classes are counted, so that a query meets a bounded number of them.

    The result is Int[l], their positions, increasing; None for all rows, as of any partition but
    one of trees. ``codes``: Int[n, T]; ``is_counted``: Bool[n, T], where a row counts in a tree.

    A sum of kernels visits each counted row in the leaf of each tree, and what it costs are these
    visits, not the number of rows: fully grown trees have leaves of a few rows however many rows
    there are. Large leaves do not need all of theirs. On 100,000 rows of twenty features, and trees
    of at least five rows a leaf, the NLL was .2741 with 3 of them in a leaf instead of .2731 with
    all, and a prediction took 22 instead of 55 µs. Cells visit few rows however many there are.
    """
    trees = tree_partition_of(partition)
    if trees is None or len(codes) <= MIN_CLASS_ROWS:
        return None
    n_drawn = MAX_ROWS_IN_CELLS
    if not trees.has_cells(codes):
        share = MAX_MEETINGS_PER_TREE / max(trees.mean_meetings(codes, is_counted), 1e-9)
        n_drawn = max(MIN_CLASS_ROWS, round(share * len(codes)))
    return draw_rows(len(codes), n_drawn) if n_drawn < len(codes) else None


def draw_rows(n_rows: int, n_drawn: int | None) -> np.ndarray:
    """Return the positions of a sample of rows, Int[m], increasing; of all if these are few."""
    if n_drawn is None or n_rows <= n_drawn:
        return np.arange(n_rows)
    # At random, because the rows of a table may be in the order of their classes.
    return np.sort(np.random.default_rng(0).choice(n_rows, n_drawn, replace=False))


PolytopeDistance = Literal["geodesic", "euclidean", "scaled", "whitened"]
"""Distance by which the nearest polytope is found. "geodesic": Eq. 17. "euclidean": Euclidean
distance to the polytope's mean. "scaled": the same with every feature in units of the spacing
between polytopes. "whitened": the same along the axes of
:func:`~kdgraph.density.whitening.neighbour_whitening`, which respect correlations between features;
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
        "auto": those of :func:`~kdgraph.density.graph.choose_class_rows`, more of which
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
            needs_nearest = distance == "geodesic"
            self.counts = PolytopeCounts(
                partition,
                locations.codes,
                np.ones((len(locations), 1)) if labels is None else labels,
                all_polytopes,
                len(self.polytopes) if needs_nearest else 0,
                None if needs_nearest else limits.choose_class_rows(partition, locations.codes),
                approximates=limits.class_rows == "auto",
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
