"""A map of PIT values without steps: linear between knots (Kuleshov et al. 2018, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from kdgraph.distributions.pit_map import PitMap, WeightedEcdf

INSIDE = np.nextafter(0.0, 1.0), np.nextafter(1.0, 0.0)
"""The smallest and the largest number in (0, 1)."""
_NODES = 512
"""Of sums over R: of normal distributions behind maps of 100 knots, means are right to 1e-3 of a standard deviation."""


@dataclass(frozen=True, eq=False)
class LinearMap(PitMap):
    """R is linear between knots, for all rows.

    Attributes
    ----------
    levels, cumulative : Float[m], increasing; the second from 0 to 1. Where it stays the same R is flat.

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
        """Through (p_(i), i / (n + 1)) of sorted PIT values: a new one falls into each of the n + 1 gaps alike.

        The map goes from 0 to 1. Where values are beyond, it goes to the farthest of them, ends there, and has nothing between 0 or 1 and
        the first value beyond: what lies there is in a coordinate of the family's own, see :meth:`Distribution.levels
        <kdgraph.distributions.Distribution.levels>`.
        """
        levels, count = np.unique(pits, return_counts=True)
        reached = np.cumsum(count) / (count.sum() + 1)
        below, above = int((levels < 0).sum()), int((levels <= 1).sum())
        parts = [(levels[:below], reached[:below]), (levels[below:above], reached[below:above]), (levels[above:], reached[above:])]
        if below:  # from just below the farthest; and from the one nearest to 0 to 0 itself
            parts.insert(0, (np.nextafter(levels[:1], -np.inf), np.zeros(1)))
            parts.insert(2, (np.array([INSIDE[0]]), reached[below - 1 : below]))
        else:
            parts.insert(0, (np.zeros(1), np.zeros(1)))
        if above < len(levels):
            parts.insert(-1, (np.array([INSIDE[1]]), reached[above : above + 1]))
            parts.append((np.nextafter(levels[-1:], np.inf), np.ones(1)))
        else:
            parts.append((np.ones(1), np.ones(1)))
        return cls(*(np.concatenate([part[side] for part in parts]) for side in (0, 1)))

    def __getitem__(self, index: Any) -> Self:
        return self

    def moved(self, function: Callable[[np.ndarray], np.ndarray]) -> WeightedEcdf:
        """Of the nodes that :meth:`atoms` gives."""
        levels, weights = self.atoms()
        return WeightedEcdf(function(levels), np.cumsum(weights))

    def cdf(self, p: np.ndarray) -> np.ndarray:  # noqa: D102 - as in the base
        return np.interp(p, self.levels, self.cumulative)

    def ppf(self, q: np.ndarray) -> np.ndarray:  # noqa: D102
        found = np.interp(q, self.cumulative, self.levels)
        found = np.where((found == 0) & (q > 0), INSIDE[0], found)  # rounded: quantiles at 0 and at 1 may be infinite
        return np.where((found == 1) & (q < 1), INSIDE[1], found)

    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        """Nodes and weights of a quadrature that is finest at both ends: Gauss-Legendre in s with q = sin²(πs/2)."""
        x, weight = np.polynomial.legendre.leggauss(_NODES)
        s = np.pi * (x + 1) / 4
        return self.ppf(np.sin(s) ** 2), weight * np.pi / 4 * np.sin(2 * s)
