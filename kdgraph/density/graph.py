"""Fewer polytopes: neighbours merged, so that predicting takes bounded time and memory (future work
of Dey et al., Section 6).

The kernel density graph: populated polytopes of a partition, their class masses and their Gaussians
(Dey et al., Section 3.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from kdgraph.base import select_rows
from kdgraph.density.gaussians import (
    NearestMean,
    PolytopeGaussians,
    VarianceRule,
    neighbour_whitening,
    polytope_moments,
)
from kdgraph.geometry import Locations, Partition, Polytopes, polytopes_of, take_rows

_KMEANS_ITERATIONS = 20
"""Of k-means; a better clustering than the one after these is not worth its time here."""


def merge_polytopes(
    polytopes: Polytopes, points: np.ndarray, n_train: int, max_polytopes: int | float | None
) -> Polytopes:
    """Merge neighbouring polytopes until at most ``max_polytopes`` are left.

    The training rows fall into clusters by k-means, every feature in units of its standard
    deviation. Of each cluster, the polytope of the row nearest to its centre takes the others in:
    their Gaussians become one with the moments of all their rows, and their class masses count
    where it lies. Clusters that are compact in the space of the Gaussians keep the far field sharp:
    a forest's spiral at 1 % of its polytopes was .09 off the prior at radius 1.5 with
    neighbourhoods by geodesic distance, with these .0002.

    Parameters
    ----------
    polytopes : of n rows.
    points : Float[n, d], where the rows lie.
    n_train : rows beyond it lend their class mass only; they join the nearest cluster.
    max_polytopes : number of polytopes, or share of the training rows below 1; None for all.

    Returns
    -------
    Polytopes
        As they were, if they are few enough.
    """
    limit = _max_count(max_polytopes, n_train)
    if limit is None or len(polytopes.head(n_train)) <= limit:
        return polytopes
    unit = points[:n_train].std(axis=0)
    scaled = points / np.where(unit > 0, unit, 1.0)
    with threadpool_limits(1):  # threads would add in another order
        clusters = KMeans(limit, n_init=1, max_iter=_KMEANS_ITERATIONS, random_state=0).fit(
            scaled[:n_train]
        )
    of_row = (
        NearestNeighbors(n_neighbors=1)
        .fit(clusters.cluster_centers_)
        .kneighbors(scaled, return_distance=False)[:, 0]
    )
    off_centre = ((scaled[:n_train] - clusters.cluster_centers_[of_row[:n_train]]) ** 2).sum(axis=1)
    order = np.lexsort((off_centre, of_row[:n_train]))
    populated, first = np.unique(of_row[:n_train][order], return_index=True)
    if len(populated) < limit:  # a cluster that no training row is nearest to, after rounding
        of_row = populated[
            NearestNeighbors(n_neighbors=1)
            .fit(clusters.cluster_centers_[populated])
            .kneighbors(scaled, return_distance=False)[:, 0]
        ]
    of_row = np.searchsorted(populated, of_row)
    return Polytopes(of_row, order[first], np.bincount(of_row, minlength=len(populated)))


def _max_count(max_polytopes: int | float | None, n_train: int) -> int | None:
    if max_polytopes is None:
        return None
    return max(1, round(max_polytopes * n_train)) if max_polytopes < 1 else int(max_polytopes)


PolytopeDistance = Literal["geodesic", "euclidean", "scaled", "whitened"]
"""Geodesic by Eq. 17; Euclidean to a polytope's mean; the same with every feature in units of the
spacing between polytopes (scaled); and that along the axes of
:func:`~kdgraph.density.gaussians.neighbour_whitening`, along which the Gaussians then lie too
(whitened): they know which features move together.
"""
_PREDICTION_BLOCK = 32_768
"""Rows to predict at once: their codes, four bytes a tree, are what takes memory."""


@dataclass(frozen=True)
class QueryResult:
    """What n rows find on the graph.

    Attributes
    ----------
    locations : where they lie.
    masses : Float[n, K, k], class masses around each row at each of k exponents.
    polytope : Int[n], the nearest populated polytope, -1 where none shares anything with the row.
    log_density : Float[n], log G of that polytope's Gaussian at the row.
    """

    locations: Locations
    masses: np.ndarray
    polytope: np.ndarray
    log_density: np.ndarray


class KernelDensityGraph:
    """Polytopes that training rows populate, each with a Gaussian and with class masses, on any
    partition.

    Parameters
    ----------
    partition : how the parent cuts space.
    locations : where rows lie on it; the first ``n_train`` of them populate the polytopes.
    labels : Float[n, K], the weight of each row in the column of its class.
    n_train : rows beyond it lend their class mass but carry no Gaussian, and so are never the
    nearest polytope (default: there are none).
    variance : how the Gaussians' variances follow from the rows.
    distance : by which the nearest polytope is found.
    max_polytopes : merge polytopes down to this number, or share of the training rows; see
    :func:`~kdgraph.density.graph.merge_polytopes`.
    held_out : Float[m, d] points that judge the spacing between polytopes, see
        :class:`~kdgraph.density.gaussians.PolytopeMoments`.
    """

    def __init__(
        self,
        partition: Partition,
        locations: Locations,
        labels: np.ndarray,
        variance: VarianceRule,
        *,
        n_train: int | None = None,
        distance: PolytopeDistance = "geodesic",
        max_polytopes: int | float | None = None,
        held_out: np.ndarray | None = None,
    ):
        self.partition = partition
        n_train = len(locations) if n_train is None else n_train
        everyone = merge_polytopes(
            polytopes_of(locations.codes), locations.points, n_train, max_polytopes
        )
        self.polytopes = everyone.head(n_train)
        populating = locations.points[: len(self.polytopes.polytope_of_row)]
        self.whitening = neighbour_whitening(populating) if distance == "whitened" else None
        moments = polytope_moments(
            self.whiten(populating),
            self.polytopes,
            None if held_out is None else self.whiten(held_out),
        )
        self.gaussians = PolytopeGaussians(moments.mean, variance(moments))
        unit = np.sqrt(moments.spacing) if distance in ("scaled", "whitened") else 1.0
        self._nearest_mean = None if distance == "geodesic" else NearestMean(moments.mean, unit)
        self._codes, self._all_polytopes, self._class_masses = (
            locations.codes,
            everyone,
            everyone.sum_by_polytope(labels),
        )

    @cached_property
    def _index(self):
        """Made when first asked: a density by distances to means needs none."""
        rows, anchors = self._all_polytopes.representatives, len(self.polytopes)
        return self.partition.index(self._codes, self._class_masses, rows=rows, n_anchors=anchors)

    def __getstate__(self) -> dict[str, Any]:
        """Without the index, which follows from the rest: it is half of what a forest's graph takes
        on disk.
        """
        return {name: value for name, value in self.__dict__.items() if name != "_index"}

    @property
    def codes(self) -> np.ndarray:
        """Int[p, …]: the codes of the populated polytopes."""
        return take_rows(self._codes, self.polytopes.representatives)

    def query(self, locations: Locations, exponents: np.ndarray) -> QueryResult:
        """Weigh the classes around rows by K^exponent, for each of ``exponents`` (Float[k]), and
        find the nearest polytope.
        """
        masses, polytope = self.query_codes(locations.codes, exponents)
        points = self.whiten(locations.points)
        if self._nearest_mean:
            polytope = self._nearest_mean(points)
        return QueryResult(locations, masses, polytope, self._log_density_at(points, polytope))

    def log_density(self, X: Any) -> np.ndarray:
        """Float[n]: log G of the nearest polytope's Gaussian at each of the rows ``X`` (Float[n, d]
        or a data frame).
        """
        if self._nearest_mean is None:
            return self.query(self.partition.locate(X), np.empty(0)).log_density
        points = self.whiten(self.partition.embed(X))
        return self._log_density_at(points, self._nearest_mean(points))

    def whiten(self, points: np.ndarray) -> np.ndarray:
        """Float[n, d]: points of the embedding (Float[n, d]) in the coordinates that the Gaussians
        have.
        """
        return points if self.whitening is None else self.whitening(points)

    def _log_density_at(self, points: np.ndarray, polytope: np.ndarray) -> np.ndarray:
        """By volume of the embedding, whatever the coordinates."""
        found = self.gaussians.log_density(points, polytope)
        return found if self.whitening is None else found + self.whitening.log_volume

    def query_codes(
        self, codes: np.ndarray, exponents: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Float[n, K, k]: Σ_s K(r, s)^exponent · (class mass of s) for each code r and exponent
        (Eq. 11, 15); Int[n]: nearest polytope.
        """
        return self._index.query(codes, exponents)

    def representative_similarity(self, rows: slice) -> np.ndarray:
        """Float[n]: K between each of ``rows`` and what stands for its polytope: 1, unless
        polytopes were merged.
        """
        own, holds = (
            self._codes[rows],
            self._all_polytopes.representatives[self._all_polytopes.polytope_of_row[rows]],
        )
        return self.partition.paired_similarity(own, take_rows(self._codes, holds))

    def weighted_sums(self, values: np.ndarray, exponent: float) -> np.ndarray:
        """Float[p, v]: for each populated polytope r, Σ_s K(r, s)^exponent · values_s over
        populated s, with ``values`` Float[p, v].
        """
        index = self.partition.index(self._codes, values, rows=self.polytopes.representatives)
        return index.query(self.codes, np.array([exponent]))[0][:, :, 0]


def apply_in_blocks(function: Callable[[Any], np.ndarray], X: Any) -> np.ndarray:
    """``function`` of the rows ``X`` (Float[n, …] or a data frame), a bounded number at a time; of
    none, it is asked all the same.
    """
    return np.concatenate([function(block) for block in iterate_blocks(X)])


def iterate_blocks(X: Any) -> Iterator[Any]:
    """The rows ``X``, a bounded number at a time; one block of no rows where there are none."""
    return (
        select_rows(X, slice(start, start + _PREDICTION_BLOCK))
        for start in range(0, max(len(X), 1), _PREDICTION_BLOCK)
    )
