"""The nearest rows around a place: exact searches, each where it is fast, and what counts as near."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse

Backend = Literal["auto", "window", "tree", "brute"]
"""window: of one feature, sorted; tree: scipy's cKDTree; brute: all distances, by scikit-learn, of sparse rows by their inner products."""

TREE_DIMENSIONS = 8
"""Up to here a k-d tree is the fastest; of 20 features, 10,000 rows and places and 1,000 neighbours a tree takes 5.2 s, brute force 3.4."""
PARTITION_ROWS = 30_000
"""Of 10,000 rows and 20 features the 1,000 nearest of a place take 0.2 ms by a product and a partition, and 0.4 by scikit-learn; heaps gain
on partitions as there are more rows."""
AT_A_TIME = 1 << 18
"""Distances in a block, 2 MB. No number depends on it."""


class NeighbourSearch:
    """The k nearest of n rows, or those within a radius, by Euclidean distance.

    Parameters
    ----------
    X : Float[n, d], finite; or sparse, rows of length 1 whose inner products are similarities K, as leaves of a forest are
        (:func:`~kdgraph.features.features_of`): then the distance is 1 - K, the geodesic distance of Dey et al.
    backend : see :data:`Backend`; "auto" takes the window for d = 1, the tree up to d = 8, else brute force.
    eps : each distance is at most (1 + eps) times that of the true neighbour of this rank (Arya et al., Journal of the ACM 45, 1998); of
        the tree only. 0: exact.

    Notes
    -----
    What is found for a place does not depend on the places beside it. Which of several rows at the same distance are taken, where not all
    can be, is up to the backend.

    Examples
    --------
    >>> search = NeighbourSearch(np.array([[0.0], [1.0], [5.0]]))
    >>> distance, rows = search.nearest(np.array([[1.4]]), 2)
    >>> rows.tolist(), distance.round(1).tolist()
    ([[1, 0]], [[0.4, 1.4]])
    """

    def __init__(self, X: Any, *, backend: Backend = "auto", eps: float = 0.0):
        self.X = X.tocsr() if issparse(X) else np.ascontiguousarray(X, dtype=np.float64)
        self.eps = eps
        self.backend = self._suited() if backend == "auto" else backend
        if issparse(X) and self.backend != "brute":
            raise ValueError(f"sparse rows are searched by brute force, got backend={self.backend}")
        if self.backend == "tree":
            from scipy.spatial import cKDTree

            self.tree = cKDTree(self.X)
        elif self.backend == "brute" and not issparse(self.X):
            from sklearn.neighbors import NearestNeighbors

            self.all = NearestNeighbors(algorithm="brute").fit(self.X)
            self.middle = self.X.mean(axis=0)
            self.centred = self.X - self.middle
            self.squares = np.square(self.centred).sum(axis=1)
        elif self.backend == "window":
            self.order = np.argsort(self.X[:, 0], kind="stable")
            self.sorted = self.X[self.order, 0]

    def __len__(self) -> int:
        return self.X.shape[0]

    def _suited(self) -> Backend:
        d = self.X.shape[1]
        if issparse(self.X) or d > TREE_DIMENSIONS:
            return "brute"
        return "window" if d == 1 else "tree"

    def nearest(self, at: Any, k: int, *, exact: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Distances Float[m, k], increasing, and Int[m, k], positions of the k <= n rows nearest to each place, Float[m, d].

        ``exact``: whatever ``eps`` is, as where all rows within a radius are wanted, of which k only says how many there may be.
        """
        if not 1 <= k <= len(self):
            raise ValueError(f"k must be from 1 to the {len(self)} rows, got {k}")
        found = [self._of_block(at[block], k, 0.0 if exact else self.eps) for block in _blocks(at.shape[0], self._width(k))]
        if not found:
            return np.empty((0, k)), np.empty((0, k), dtype=np.intp)
        return np.concatenate([distance for distance, _ in found]), np.concatenate([rows for _, rows in found])

    def count_within(self, at: Any, radius: float) -> np.ndarray:
        """Int[m]: how many rows are at most ``radius`` away from each place."""
        if self.backend == "tree":
            return np.asarray(self.tree.query_ball_point(at, radius, return_length=True), dtype=np.intp)
        if self.backend == "window":
            x = at[:, 0]
            return np.searchsorted(self.sorted, x + radius, "right") - np.searchsorted(self.sorted, x - radius, "left")
        return np.concatenate([(self._distances(at[block]) <= radius).sum(axis=1) for block in _blocks(at.shape[0], len(self))])

    def _width(self, k: int) -> int:
        """Numbers that a search makes for a place."""
        return len(self) if self.backend == "brute" and (issparse(self.X) or len(self) <= PARTITION_ROWS) else k

    def _of_block(self, at: Any, k: int, eps: float) -> tuple[np.ndarray, np.ndarray]:
        if self.backend == "tree":
            distance, rows = self.tree.query(at, k, eps=eps)
            return np.reshape(distance, (-1, k)), np.reshape(rows, (-1, k))
        if self.backend == "window":
            rows = self.order[self._window(at[:, 0], k)[:, None] + np.arange(k)]
            return _by_distance(np.abs(self.X[rows, 0] - at), rows)
        if self.backend == "brute" and not issparse(self.X):
            from kdgraph.smoothing.exact import distances_to

            at = np.asarray(at, dtype=np.float64)
            rows = self._candidates(at, k)
            return _by_distance(distances_to(at, self.X, rows), rows)  # those by products of matrices have half the digits near 0
        apart = self._distances(at)
        rows = np.argpartition(apart, k - 1, axis=1)[:, :k] if k < len(self) else np.broadcast_to(np.arange(k), (at.shape[0], k))
        return _by_distance(np.take_along_axis(apart, rows, axis=1), rows)

    def _candidates(self, at: np.ndarray, k: int) -> np.ndarray:
        """Int[p, k], the nearest rows in any order: of few by a product of matrices and a partition, else by scikit-learn's heaps."""
        if len(self) > PARTITION_ROWS:
            return self.all.kneighbors(at, k, return_distance=False)
        centred = at - self.middle
        apart = self.squares - 2 * (centred @ self.centred.T)
        return np.argpartition(apart, k - 1, axis=1)[:, :k]

    def _window(self, x: np.ndarray, k: int) -> np.ndarray:
        """Int[m]: where among the sorted rows the k nearest begin, by bisection; of two ends at one distance the smaller value is in."""
        low, high = np.zeros(len(x), dtype=np.intp), np.full(len(x), len(self) - k)
        while (low < high).any():
            middle = (low + high) // 2
            right = x - self.sorted[middle] > self.sorted[np.minimum(middle + k, len(self) - 1)] - x
            low, high = np.where((low < high) & right, middle + 1, low), np.where((low < high) & ~right, middle, high)
        return low

    def _distances(self, at: Any) -> np.ndarray:
        """Float[p, n], by one matrix product; near 0 to half the digits only."""
        if issparse(self.X):
            return np.maximum(1 - (at @ self.X.T).toarray(), 0.0)
        from sklearn.metrics.pairwise import euclidean_distances

        return euclidean_distances(at, self.X)


def _by_distance(distance: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(distance, axis=1, kind="stable")
    return np.take_along_axis(distance, order, axis=1), np.take_along_axis(rows, order, axis=1)


def _blocks(m: int, width: int) -> Iterator[slice]:
    step = max(AT_A_TIME // max(width, 1), 1)
    yield from (slice(first, first + step) for first in range(0, m, step))
