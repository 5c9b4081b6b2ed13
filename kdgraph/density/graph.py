"""Kernel density graph of a partition (Dey et al. 2024, Section 3.3).

:class:`KernelDensityGraph` holds the polytopes that training rows populate, with their class masses
and their Gaussians, for any partition; :mod:`kdgraph.density.limits` bounds their number.
:func:`iterate_blocks` and :func:`apply_in_blocks` bound the memory of predictions; they are
original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from kdgraph.base import select_rows
from kdgraph.density.gaussians import (
    NearestMean,
    PolytopeGaussians,
    VarianceRule,
    neighbour_whitening,
    polytope_moments,
)
from kdgraph.density.left_out import LeftOutRows, left_out_positions, log_density_by_folds
from kdgraph.density.limits import NO_LIMITS, GraphLimits, merge_polytopes
from kdgraph.geometry import (
    Locations,
    Partition,
    Polytopes,
    polytopes_of,
    take_rows,
)
from kdgraph.geometry.partition import PolytopeIndex

PolytopeDistance = Literal["geodesic", "euclidean", "scaled", "whitened"]
"""Distance by which the nearest polytope is found. "geodesic": Eq. 17. "euclidean": Euclidean
distance to the polytope's mean. "scaled": the same with every feature in units of the spacing
between polytopes. "whitened": the same along the axes of
:func:`~kdgraph.density.gaussians.neighbour_whitening`, which respect correlations between features;
the Gaussians then have these axes too.
"""

# Rows of a block in predictions. Their codes, four bytes for each tree, take most of the memory.
_PREDICTION_BLOCK = 32_768


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
    variance : callable
        Rule for the variances of the Gaussians, see
        :data:`~kdgraph.density.gaussians.VarianceRule`.
    n_train : int, default=None
        Rows beyond this number contribute their class mass, but have no Gaussian and so are never
        in the nearest polytope. None for all rows.
    distance : {"geodesic", "euclidean", "scaled", "whitened"}, default="geodesic"
        Distance by which the nearest polytope is found, see :data:`PolytopeDistance`.
    limits : GraphLimits, default=NO_LIMITS
        Maximum numbers of polytopes, Gaussians and rows that lend their classes.
    held_out : Float[m, d], default=None
        Points that choose the shrinkage of the spacing between polytopes, see
        :class:`~kdgraph.density.gaussians.PolytopeMoments`.
    leave_one_out : bool, default=False
        Compute the density of training rows without themselves, by which "scaled" distances choose
        this shrinkage too, instead of on ``held_out``.

    Attributes
    ----------
    polytopes : Polytopes
        The populated polytopes.
    lenders : Int[l] or None
        Positions of the rows whose classes are counted, increasing; None if those of all are.
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
    >>> from kdgraph.density.gaussians import shrunk_variances
    >>> from kdgraph.geometry import partition_of
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> partition = partition_of(RandomForestClassifier(20, random_state=0).fit(X, y))
    >>> graph = KernelDensityGraph(
    ...     partition, partition.locate(X), np.eye(2)[y], shrunk_variances, distance="scaled"
    ... )
    >>> inside, outside = graph.log_density([[0.0, 1.0], [50.0, 50.0]])
    >>> bool(inside > outside)
    True
    """

    def __init__(
        self,
        partition: Partition,
        locations: Locations,
        labels: np.ndarray | None,
        variance: VarianceRule,
        *,
        n_train: int | None = None,
        distance: PolytopeDistance = "geodesic",
        limits: GraphLimits = NO_LIMITS,
        held_out: np.ndarray | None = None,
        leave_one_out: bool = False,
    ):
        # Polytopes are numbered by first appearance, and training rows come first. The first
        # polytopes are therefore those with training rows; only these have Gaussians and can be
        # nearest. The others only add class mass to their neighbours.
        self.partition = partition
        n_train = len(locations) if n_train is None else n_train
        self.fill_values = _fill_values(partition, locations.points[:n_train])
        all_points = self._fill_missing(locations.points)
        all_polytopes = merge_polytopes(
            polytopes_of(locations.codes), all_points, n_train, limits.max_polytopes
        )
        self.polytopes = all_polytopes.head(n_train)
        points = all_points[:n_train]
        self.whitening = neighbour_whitening(points) if distance == "whitened" else None
        coordinates = self.to_coordinates(points)
        cells = self.polytopes
        if distance != "geodesic":
            cells = merge_polytopes(cells, coordinates, n_train, limits.max_gaussians)
        moments = polytope_moments(
            coordinates,
            cells,
            None if held_out is None else self.to_coordinates(held_out),
            0.0 if self.whitening is None else self.whitening.rounding(points),
        )
        self.floor_log_density, left_out = np.empty(0), None
        if leave_one_out and distance == "scaled":
            left_out = LeftOutRows(moments, points, cells.polytope_of_row)
            moments = left_out.moments
        elif leave_one_out:

            def graph_outside(others: np.ndarray, fold: np.ndarray) -> KernelDensityGraph:
                return KernelDensityGraph(
                    partition,
                    locations[others],
                    None if labels is None else labels[others],
                    variance,
                    distance=distance,
                    limits=limits,
                    held_out=points[fold],
                )

            self.floor_log_density = log_density_by_folds(graph_outside, locations[:n_train])
        self.spacing = moments.spacing if distance in ("scaled", "whitened") else None
        self.gaussians = PolytopeGaussians(moments.mean, variance(moments))
        scale = 1.0 if self.spacing is None else np.sqrt(self.spacing)
        self._nearest_mean = None if distance == "geodesic" else NearestMean(moments.mean, scale)
        if left_out is not None:
            assert self._nearest_mean is not None
            self.floor_log_density = left_out.log_density(self._nearest_mean)
        # Distances to means need nothing of the rows.
        self.lenders = None
        if labels is None and distance != "geodesic":
            return
        if labels is None:
            labels = np.ones((len(locations), 1))
        if distance != "geodesic":
            self.lenders = limits.choose_lenders(partition, locations.codes)
        self._count_classes(locations.codes, labels, all_polytopes)

    def _count_classes(
        self, codes: np.ndarray, labels: np.ndarray, all_polytopes: Polytopes
    ) -> None:
        """Count the classes of the lenders, of codes Int[n, …] and labels Float[n, K]."""
        self._n_rows, self._n_anchors = len(codes), len(self.polytopes)
        self._codes = codes
        if self.lenders is not None:
            self._codes, labels = take_rows(codes, self.lenders), labels[self.lenders]
            all_polytopes = polytopes_of(self._codes)
            self._n_anchors = len(all_polytopes)
        self._all_polytopes = all_polytopes
        self._class_masses = all_polytopes.sum_by_polytope(labels)

    def with_lenders(
        self, lenders: np.ndarray, locations: Locations, labels: np.ndarray
    ) -> KernelDensityGraph:
        """Return the graph with other rows whose classes are counted.

        Parameters
        ----------
        lenders : Int[l]
            Positions of the rows, increasing.
        locations : Locations
            Positions of the n rows of this graph on the partition.
        labels : Float[n, K]
            Weight of each row in the column of its class.
        """
        graph = copy(self)  # without the index, as in a pickle
        graph.lenders = lenders
        graph._count_classes(locations.codes, labels, self._all_polytopes)
        return graph

    # The index is built at the first query that needs it: a density by distances to means needs
    # none. It is left out of pickles, because it follows from the rest and takes half of the size
    # of a forest's graph on disk.
    @property
    def distance(self) -> PolytopeDistance:
        """Distance by which the nearest polytope is found."""
        if self._nearest_mean is None:
            return "geodesic"
        if self.whitening is not None:
            return "whitened"
        return "euclidean" if self.spacing is None else "scaled"

    @cached_property
    def _index(self) -> PolytopeIndex:
        """Index of all polytopes, of which the populated ones are the anchors."""
        return self._make_index()

    def _make_index(self) -> PolytopeIndex:
        """Return the index, which :attr:`_index` keeps."""
        return self.partition.index(
            self._codes,
            self._class_masses,
            rows=self._all_polytopes.representatives,
            n_anchors=self._n_anchors,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the index."""
        return {name: value for name, value in self.__dict__.items() if name != "_index"}

    @property
    def codes(self) -> np.ndarray:
        """Codes of the populated polytopes, Int[p, …]."""
        return take_rows(self._codes, self.polytopes.representatives)

    def query(self, locations: Locations, exponents: np.ndarray) -> QueryResult:
        """Return the class masses around rows, and their nearest polytopes.

        Parameters
        ----------
        locations : Locations
            Positions of n rows.
        exponents : Float[k]
            The classes around a row are weighted by K^exponent, for each of the exponents.

        Returns
        -------
        QueryResult
            Masses, nearest polytopes and log densities.
        """
        points = self.to_coordinates(locations.points)
        masses, polytope = np.empty((len(locations), 0, 0)), np.empty(0, dtype=np.intp)
        if self._nearest_mean is None or len(exponents):
            masses, polytope = self.query_codes(locations.codes, exponents)
        if self._nearest_mean is not None:
            polytope = self._nearest_mean(points)
        return QueryResult(locations, masses, polytope, self._log_density_at(points, polytope))

    def log_density(self, X: Any) -> np.ndarray:
        """Return log G of the nearest polytope's Gaussian at each row.

        Parameters
        ----------
        X : Float[n, d] or data frame
            The rows.

        Returns
        -------
        Float[n]
            Log densities.
        """
        if self._nearest_mean is None:
            locations = self.partition.locate(X, with_proba=False)
            return self.query(locations, np.empty(0)).log_density
        points = self.to_coordinates(self.partition.embed(X))
        return self._log_density_at(points, self._nearest_mean(points))

    def left_out_log_density(self, rows: np.ndarray) -> np.ndarray:
        """Return log densities of training rows, each without the row itself.

        Parameters
        ----------
        rows : Int[m]
            Positions of rows that populate the polytopes.

        Returns
        -------
        Float[m]
            Log densities. Of more than 20,000 rows only every s-th one was left out; the others
            have an infinite density, so that no floor moves them.
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

    def query_codes(
        self, codes: np.ndarray, exponents: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the class masses around codes, and their nearest polytopes by K.

        Parameters
        ----------
        codes : Int[n, …]
            Codes r of queries.
        exponents : Float[k]
            Powers of the similarity.

        Returns
        -------
        masses : Float[n, K, k]
            Σ_s K(r, s)^exponent · (class mass of s) for each code and exponent (Eq. 11, 15).
        nearest : Int[n]
            Populated polytope with the largest K, -1 if K is 0 for all.
        """
        return self._index.query(codes, exponents)

    def own_similarity(self, rows: slice) -> np.ndarray:
        """Return K, Float[n], between each of ``rows`` and the code at which its class counts.

        It is 1 unless polytopes were merged, and 0 for rows whose classes do not count.
        """
        if self.lenders is not None:
            positions = np.arange(*rows.indices(self._n_rows))
            return np.isin(positions, self.lenders).astype(np.float64)
        codes, representatives = (
            self._codes[rows],
            self._all_polytopes.representatives[self._all_polytopes.polytope_of_row[rows]],
        )
        return self.partition.paired_similarity(codes, take_rows(self._codes, representatives))

    def weighted_sums(self, values: np.ndarray, exponent: float) -> np.ndarray:
        """Return Σ_s K(r, s)^exponent · values_s over populated polytopes s, for each of them.

        Parameters
        ----------
        values : Float[p, v]
            Values of each populated polytope.
        exponent : float
            Power of the similarity.

        Returns
        -------
        Float[p, v]
            Sums for each populated polytope r.
        """
        index = self.partition.index(self._codes, values, rows=self.polytopes.representatives)
        return index.query(self.codes, np.array([exponent]))[0][:, :, 0]


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


def apply_in_blocks(function: Callable[[Any], np.ndarray], X: Any) -> np.ndarray:
    """Return ``function`` of the rows, computed on blocks of bounded size.

    Parameters
    ----------
    function : callable
        Function of rows that returns one value, or one array, for each row. It is called once even
        if there are no rows.
    X : Float[n, …] or data frame
        The rows.

    Returns
    -------
    ndarray of shape [n, …]
        The concatenated results.
    """
    return np.concatenate([function(block) for block in iterate_blocks(X)])


def iterate_blocks(X: Any) -> Iterator[Any]:
    """Return an iterator over blocks of the rows ``X``; one empty block if there are no rows."""
    return (
        select_rows(X, slice(start, start + _PREDICTION_BLOCK))
        for start in range(0, max(len(X), 1), _PREDICTION_BLOCK)
    )
