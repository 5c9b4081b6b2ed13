"""Which rows count around a place, and how much: k neighbours or a radius, and a kernel of the distance."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kdgraph.smoothing.neighbours import AT_A_TIME, NeighbourSearch

NearKernel = Literal["epanechnikov", "uniform", "gaussian"]
"""Of t = distance / u: 1 - t² up to t = 1; 1 up to t = 1; exp(-t²/2), of the same rows."""
Scale = Literal["last", "next"]
"""Where k is given, u is the distance of the k-th row, to which Epanechnikov then gives no weight; or that of the (k+1)-th."""


@dataclass(frozen=True)
class Near:
    """What is near to each of m places.

    Attributes
    ----------
    rows : Int[m, k].
    weight : Float[m, k], not negative, not all 0 at any place, not normalised: a kernel's values, from 0 to 1.
    empty : Bool[m]: no row had weight, and the ``least`` nearest have equal ones instead.
    """

    rows: np.ndarray
    weight: np.ndarray
    empty: np.ndarray

    @property
    def n_eff(self) -> np.ndarray:
        """Float[m]: effective sample size (Σw)² / Σw² (Kish, "Survey sampling", 1965)."""
        return self.weight.sum(axis=1) ** 2 / np.square(self.weight).sum(axis=1)


@dataclass(frozen=True)
class Nearness:
    """A rule for what is near.

    Parameters
    ----------
    k : how many neighbours; of fewer rows all, with a warning.
    radius : or how far away they may be; then u is the radius (Torres et al., Section 4.2), else see ``scale``.
    kernel, scale : see :data:`NearKernel` and :data:`Scale`.
    least : nearest rows that count where there are none in the radius.

    Notes
    -----
    Where u is 0, since all neighbours are at one place with it, weights are equal.

    References
    ----------
    Torres, Nott, Sisson, Rodrigues, Reis and Rodrigues, "Model-free local recalibration of neural networks", 2024, Algorithm 1,
    steps 8 and 10.

    Examples
    --------
    >>> search = NeighbourSearch(np.array([[0.0], [1.0], [2.0], [9.0]]))
    >>> Nearness(k=3).around(search, np.array([[0.0]])).weight.tolist()
    [[1.0, 0.75, 0.0]]
    >>> Nearness(radius=0.5, least=2).around(search, np.array([[5.0]])).empty.tolist()
    [True]
    """

    k: int | None = None
    radius: float | None = None
    kernel: NearKernel = "epanechnikov"
    scale: Scale = "last"
    least: int = 10

    def around(self, search: NeighbourSearch, at: Any, own: np.ndarray | None = None) -> Near:
        """What is near to places Float[m, d]; ``own``: Int[m], which row each place is itself and is to be left out."""
        if (self.k is None) == (self.radius is None):
            raise ValueError(f"one of k and radius must be given, got k={self.k} and radius={self.radius}")
        left = 0 if own is None else 1
        most = max(len(search) - left, 1)
        if self.radius is None:
            if (self.k or 1) > most:
                warnings.warn(f"k={self.k} neighbours were asked for, and there are {most}: all are taken", stacklevel=2)
            return self.of_neighbours(*self.others(search, at, own))
        counts = search.count_within(at, self.radius)
        width = int(min(max(counts.max(initial=0) - left, self.least), most))
        distance, rows = _others(search, at, width, own, exact=True)
        inside = distance <= self.radius
        weight = np.where(inside, self.kernel_of(distance / self.radius), 0.0)
        return self._filled(rows, weight, min(self.least, most))

    def blocks(self, search: NeighbourSearch, at: Any) -> Iterator[slice]:
        """Consecutive places, so few that what is near to them has at most :data:`~kdgraph.smoothing.neighbours.AT_A_TIME` numbers."""
        width = len(search) if self.radius is not None or self.k is None else self.k
        step = max(AT_A_TIME // max(min(width, len(search)), 1), 1)
        yield from (slice(first, first + step) for first in range(0, at.shape[0], step))

    def kernel_of(self, t: np.ndarray) -> np.ndarray:
        """Values of the kernel at t >= 0."""
        if self.kernel == "uniform":
            return (t <= 1).astype(np.float64)
        return np.maximum(1 - t * t, 0.0) if self.kernel == "epanechnikov" else np.exp(-t * t / 2)

    def others(self, search: NeighbourSearch, at: Any, own: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Distances and rows that :meth:`of_neighbours` needs of this k or of a smaller one."""
        most = max(len(search) - (own is not None), 1)
        return _others(search, at, min((self.k or 1) + (self.scale == "next"), most), own)

    def of_neighbours(self, distance: np.ndarray, rows: np.ndarray) -> Near:
        """What is near among the nearest rows and their distances, increasing, Float[m, j] of j >= k."""
        k = min(self.k or 1, rows.shape[1])
        u = distance[:, min(k if self.scale == "next" else k - 1, rows.shape[1] - 1), None]
        weight = np.where(u > 0, self.kernel_of(distance[:, :k] / np.where(u > 0, u, 1.0)), 1.0)
        return self._filled(rows[:, :k], weight, k)

    def _filled(self, rows: np.ndarray, weight: np.ndarray, least: int) -> Near:
        """With equal weights of the ``least`` nearest where no row has any, as where all are exactly at u."""
        empty: np.ndarray = weight.max(axis=1) <= 0
        weight[empty, :least] = 1.0
        return Near(rows, weight, empty)


def _others(search: NeighbourSearch, at: Any, k: int, own: np.ndarray | None, *, exact: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest rows, without each place's own; where equal rows have crowded it out, without the last of k + 1."""
    if own is None or len(search) < 2:
        return search.nearest(at, min(k, len(search)), exact=exact)
    distance, rows = search.nearest(at, k + 1, exact=exact)
    keep = rows != own[:, None]
    keep[:, -1] &= ~keep.all(axis=1)
    return distance[keep].reshape(-1, k), rows[keep].reshape(-1, k)
