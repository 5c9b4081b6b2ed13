"""Kernel weights of the rows around a query point.

:class:`NeighbourWeighting` selects neighbours by a
:class:`~kdgraph.smoothing.neighbours.NeighbourSearch` and weights them by their distance. Original
to kdgraph, except where a paper is cited.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kdgraph.smoothing.neighbours import NeighbourSearch, blocks_of

NeighbourKernel = Literal["epanechnikov", "uniform", "gaussian"]
"""Functions of t = distance / u: 1 - t² up to t = 1; 1 up to t = 1; exp(-t²/2) of the same rows."""
Scale = Literal["last", "next"]
"""Rank of the row whose distance is u, if k is given: the k-th row, which then has no Epanechnikov
weight, or the (k+1)-th row.
"""


@dataclass(frozen=True)
class WeightedNeighbours:
    """Weighted neighbours of m query points."""

    rows: np.ndarray
    """Positions, Int[m, k]."""
    weight: np.ndarray
    """Values of the kernel, Float[m, k], from 0 to 1; each query point has one above 0."""
    empty: np.ndarray
    """True where no row had a weight, Bool[m]; the nearest rows then have equal weights."""

    @property
    def n_eff(self) -> np.ndarray:
        """Effective sample size (Σw)² / Σw², Float[m] (Kish, "Survey sampling", 1965)."""
        return self.weight.sum(axis=1) ** 2 / np.square(self.weight).sum(axis=1)


@dataclass(frozen=True)
class NeighbourWeighting:
    """Selection and kernel weights of the rows around a query point.

    Exactly one of ``k``, the number of neighbours, and ``radius``, the largest distance, is given;
    u is then the radius (Torres et al., Section 4.2). If there are fewer than k rows, all are
    taken, with a warning. If no row is within the radius, the ``n_fallback`` nearest rows are used.
    If u is 0, because all neighbours coincide with the query point, weights are equal.

    References
    ----------
    Torres, Nott, Sisson, Rodrigues, Reis and Rodrigues, "Model-free local recalibration of neural
    networks", 2024, Algorithm 1, steps 8 and 10.

    Examples
    --------
    >>> search = NeighbourSearch(np.array([[0.0], [1.0], [2.0], [9.0]]))
    >>> NeighbourWeighting(k=3).find_neighbours(search, np.array([[0.0]])).weight.tolist()
    [[1.0, 0.75, 0.0]]
    >>> within_radius = NeighbourWeighting(radius=0.5, n_fallback=2)
    >>> within_radius.find_neighbours(search, np.array([[5.0]])).empty.tolist()
    [True]
    """

    k: int | None = None
    radius: float | None = None
    kernel: NeighbourKernel = "epanechnikov"
    scale: Scale = "last"
    n_fallback: int = 10

    def find_neighbours(
        self, search: NeighbourSearch, at: Any, own: np.ndarray | None = None
    ) -> WeightedNeighbours:
        """Return the weighted neighbours of query points, Float[m, d].

        ``own``, Int[m], is the position of the row that each query point is, which is left out.
        """
        if (self.k is None) == (self.radius is None):
            raise ValueError(
                f"one of k and radius must be given, got k={self.k} and radius={self.radius}"
            )
        n_left_out = 0 if own is None else 1
        n_available = max(len(search) - n_left_out, 1)
        if self.radius is None:
            if (self.k or 1) > n_available:
                warnings.warn(
                    f"k={self.k} is larger than the number of rows, {n_available}: all are used",
                    stacklevel=2,
                )
            return self.weight_neighbours(*self.nearest_rows(search, at, own))
        # As many neighbours for every query point as the fullest radius has, so that the result is
        # one array; the weights of rows beyond the radius are 0.
        counts = search.count_within(at, self.radius)
        width = int(min(max(counts.max(initial=0) - n_left_out, self.n_fallback), n_available))
        distance, rows = _nearest_except_own(search, at, width, own, exact=True)
        inside = distance <= self.radius
        weight = np.where(inside, self.kernel_values(distance / self.radius), 0.0)
        return self._fill_empty(rows, weight, min(self.n_fallback, n_available))

    def query_blocks(self, search: NeighbourSearch, at: Any) -> Iterator[slice]:
        """Yield slices of query points, see :func:`~kdgraph.smoothing.neighbours.blocks_of`."""
        width = len(search) if self.radius is not None or self.k is None else self.k
        yield from blocks_of(at.shape[0], min(width, len(search)))

    def kernel_values(self, t: np.ndarray) -> np.ndarray:
        """Return the values of the kernel at t >= 0, elementwise."""
        if self.kernel == "uniform":
            return (t <= 1).astype(np.float64)
        return np.maximum(1 - t * t, 0.0) if self.kernel == "epanechnikov" else np.exp(-t * t / 2)

    def nearest_rows(
        self, search: NeighbourSearch, at: Any, own: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return distances and positions of the nearest rows, enough for k or a smaller k.

        They are Float[m, j] and Int[m, j], the input of :meth:`weight_neighbours`.
        """
        n_available = max(len(search) - (own is not None), 1)
        n_needed = min((self.k or 1) + (self.scale == "next"), n_available)
        return _nearest_except_own(search, at, n_needed, own)

    def weight_neighbours(self, distance: np.ndarray, rows: np.ndarray) -> WeightedNeighbours:
        """Return the weighted neighbours among j >= k nearest rows.

        Distances, Float[m, j], increase; ``rows``, Int[m, j], are positions.
        """
        k = min(self.k or 1, rows.shape[1])
        u = distance[:, min(k if self.scale == "next" else k - 1, rows.shape[1] - 1), None]
        weight = np.where(u > 0, self.kernel_values(distance[:, :k] / np.where(u > 0, u, 1.0)), 1.0)
        return self._fill_empty(rows[:, :k], weight, k)

    def _fill_empty(self, rows: np.ndarray, weight: np.ndarray, n_used: int) -> WeightedNeighbours:
        """Give equal weights to the ``n_used`` nearest rows where no row has a weight."""
        empty: np.ndarray = weight.max(axis=1) <= 0
        weight[empty, :n_used] = 1.0
        return WeightedNeighbours(rows, weight, empty)


def _nearest_except_own(
    search: NeighbourSearch, at: Any, k: int, own: np.ndarray | None, *, exact: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return distances and positions of the k nearest rows other than the own row."""
    if own is None or len(search) < 2:
        return search.nearest(at, min(k, len(search)), exact=exact)
    distance, rows = search.nearest(at, k + 1, exact=exact)
    # If equal rows have displaced the own row from the k + 1 nearest, the last row is dropped.
    keep = rows != own[:, None]
    keep[:, -1] &= ~keep.all(axis=1)
    return distance[keep].reshape(-1, k), rows[keep].reshape(-1, k)
