"""The kernel density graph: populated polytopes of a partition, their class masses and their Gaussians."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kdgraph.density.gaussians import VarianceRule, fit_gaussians
from kdgraph.geometry import Partition, Place, polytopes_of, take_rows

Distance = Literal["geodesic", "euclidean"]
_BLOCK = 32_768
"""Rows to predict at once: their codes, four bytes a tree, are what takes memory."""


@dataclass(frozen=True)
class Visit:
    """What n rows find on the graph.

    Attributes
    ----------
    codes : their codes.
    masses : Float[n, K, k], class masses around each row at each of k exponents.
    polytope : Int[n], the nearest populated polytope, -1 where none shares anything with the row.
    log_density : Float[n], log G of that polytope's Gaussian at the row.
    """

    codes: np.ndarray
    masses: np.ndarray
    polytope: np.ndarray
    log_density: np.ndarray


class KernelDensityGraph:
    """Polytopes that training rows populate, each with a Gaussian and with class masses, on any partition.

    Parameters
    ----------
    partition : how the parent cuts space.
    place : where rows lie on it; the first ``n_train`` of them populate the polytopes.
    labels : Float[n, K], the weight of each row in the column of its class.
    n_train : rows beyond it lend their class mass but carry no Gaussian, and so are never the nearest polytope (default: there are none).
    variance : how the Gaussians' variances follow from the rows.
    distance : by which the nearest polytope is found, ``geodesic`` (Eq. 17) or ``euclidean``.
    """

    def __init__(
        self,
        partition: Partition,
        place: Place,
        labels: np.ndarray,
        variance: VarianceRule,
        *,
        n_train: int | None = None,
        distance: Distance = "geodesic",
    ):
        self.partition, self.distance = partition, distance
        everyone = polytopes_of(place.codes)
        self.polytopes = everyone.of_first(len(place) if n_train is None else n_train)
        self.gaussians = fit_gaussians(place.points[: len(self.polytopes.of_row)], self.polytopes, variance)
        self._codes = place.codes
        self._index = partition.index(place.codes, everyone.sum(labels), rows=everyone.first_row, n_anchors=len(self.polytopes))

    @property
    def codes(self) -> np.ndarray:
        """Int[p, …]: the codes of the populated polytopes."""
        return take_rows(self._codes, self.polytopes.first_row)

    def visit(self, place: Place, exponents: np.ndarray) -> Visit:
        """Weigh the classes around rows by K^exponent, for each of ``exponents`` (Float[k]), and find the nearest polytope, in one pass."""
        masses, polytope = self.masses(place.codes, exponents)
        if self.distance == "euclidean":
            polytope = self.gaussians.nearest(place.points)
        return Visit(place.codes, masses, polytope, self.gaussians.log_density(place.points, polytope))

    def log_density(self, place: Place) -> np.ndarray:
        """Float[n]: log G of the nearest polytope's Gaussian at each row."""
        return self.visit(place, np.empty(0)).log_density

    def masses(self, codes: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Float[n, K, k]: Σ_s K(r, s)^exponent · (class mass of s) for each code r and exponent (Eq. 11, 15); Int[n]: nearest polytope."""
        return self._index.masses(codes, exponents)

    def weighted_sums(self, values: np.ndarray, exponent: float) -> np.ndarray:
        """Float[p, v]: for each populated polytope r, Σ_s K(r, s)^exponent · values_s over populated s, with ``values`` Float[p, v]."""
        index = self.partition.index(self._codes, values, rows=self.polytopes.first_row)
        return index.masses(self.codes, np.array([exponent]))[0][:, :, 0]


def in_blocks(function: Callable[[np.ndarray], np.ndarray], X: np.ndarray) -> np.ndarray:
    """``function`` of the rows ``X``, a bounded number at a time."""
    return np.concatenate([function(X[start : start + _BLOCK]) for start in range(0, len(X), _BLOCK)])
