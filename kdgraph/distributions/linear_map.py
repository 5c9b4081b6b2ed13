"""A map of PIT values without steps: linear between knots (Kuleshov et al. 2018, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from kdgraph.distributions.pit_map import PitMap, WeightedEcdf

_NODES = 512
"""Of sums over R: of normal distributions behind maps of 100 knots, means are right to 1e-3 of a standard deviation."""


@dataclass(frozen=True, eq=False)
class LinearMap(PitMap):
    """R is linear between knots, from (0, 0) to (1, 1), for all rows.

    Attributes
    ----------
    levels, cumulative : Float[m], both strictly increasing from 0 to 1.

    Examples
    --------
    >>> bent = LinearMap(np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.8, 1.0]))
    >>> bent.cdf(np.array([0.25, 0.75])).tolist(), bent.ppf(np.array([0.4, 0.9])).tolist()
    ([0.4, 0.9], [0.25, 0.75])
    """

    levels: np.ndarray
    cumulative: np.ndarray

    has_steps: ClassVar[bool] = False

    @classmethod
    def of(cls, pits: np.ndarray) -> LinearMap:
        """Through (p_(i), i / (n + 1)) of sorted PIT values: a new one falls into each of the n + 1 gaps alike."""
        levels, count = np.unique(np.clip(pits, np.nextafter(0.0, 1.0), np.nextafter(1.0, 0.0)), return_counts=True)
        return cls(np.concatenate([[0.0], levels, [1.0]]), np.concatenate([[0.0], np.cumsum(count) / (count.sum() + 1), [1.0]]))

    def __getitem__(self, index: Any) -> Self:
        return self

    def moved(self, function: Callable[[np.ndarray], np.ndarray]) -> WeightedEcdf:
        """Of the nodes that :meth:`atoms` gives."""
        levels, weights = self.atoms()
        return WeightedEcdf(function(levels), np.cumsum(weights))

    def cdf(self, p: np.ndarray) -> np.ndarray:  # noqa: D102 - as in the base
        return np.interp(p, self.levels, self.cumulative)

    def ppf(self, q: np.ndarray) -> np.ndarray:  # noqa: D102
        return np.interp(q, self.cumulative, self.levels)

    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        """Nodes and weights of a quadrature that is finest at both ends: Gauss-Legendre in s with q = sin²(πs/2)."""
        x, weight = np.polynomial.legendre.leggauss(_NODES)
        s = np.pi * (x + 1) / 4
        return self.ppf(np.sin(s) ** 2), weight * np.pi / 4 * np.sin(2 * s)
