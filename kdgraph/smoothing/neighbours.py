"""Exact nearest neighbours, and samples of the rows among which they are searched.

:class:`NeighbourSearch` finds the k nearest of n rows, or counts those within a radius. Its results
are exact and do not depend on the other query points, and ties go to the rows with the lowest
positions. scikit-learn's ``NearestNeighbors`` guarantees neither, because its distances are rounded
differences of matrix products. :func:`draw_reference_rows` bounds the rows that are searched.
Original to kdgraph, except where a paper is cited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse

from kdgraph.compilation import kernel

Backend = Literal["auto", "window", "tree", "brute"]
"""window: binary search in one sorted feature; tree: scipy's cKDTree; brute: all distances by a
matrix product, or by inner products for sparse rows.
"""
# What each back-end buys, for 1,000 query points on one core (milliseconds):
#   window, 1 feature, n = 10,000, k = 10 / 100 / 1,000: 0.4 / 1.7 / 22; the tree takes 0.8 / 6.2 /
#     93, scikit-learn's k-d tree 1.3 / 5.2 / 65 without exact ties.
#   tree, 5 features, n = 50,000, k = 10 / 100 / 1,000: 6.9 / 29 / 203; brute force takes 128 /
#     150 / 198, and scikit-learn's k-d tree with the same guarantees 15 / 64 / 341.
#   brute, 20 features, n = 10,000, k = 10 / 100 / 1,000: 33 / 37 / 99; the tree takes 145 / 171 /
#     352, scikit-learn's brute force 23 / 46 / 271 without exact ties. From n = 10,000 on its heaps
#     choose the candidates of up to n / 100 neighbours: 2 to 7 times as fast for k = 10, n = 10,000
#     to 200,000, and they use all cores. For more neighbours sorting a heap takes longer than
#     partitioning all distances.
TREE_DIMENSIONS = 8
"""Largest number of features for which "auto" takes the tree."""
BLOCK_SIZE = 1 << 18
"""Number of distances in a block (2 MB). Results do not depend on it."""
HEAP_ROWS, HEAP_FRACTION = 10_000, 0.01
"""Brute force takes scikit-learn's heaps from this number of rows on, for this fraction of them."""
_MAX_HEAP_COORDINATE = 1e150
"""Squares of larger coordinates overflow, and heaps of infinite distances hold anything."""
_EXTRA_CANDIDATES = 4
"""Candidates beyond k. In data without ties the last one is nearly always clearly farther away."""


@kernel(error_model="numpy")
def distances_to(at: np.ndarray, X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the distances of query points, Float[m, d], to given rows, Float[m, k].

    ``rows``, Int[m, k], are positions in X, Float[n, d]. Distances are summed feature by feature,
    and exactly 0 for equal rows.
    """
    distance = np.empty(rows.shape)
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            square = 0.0
            row = rows[i, j]
            for c in range(X.shape[1]):
                difference = at[i, c] - X[row, c]
                square += difference * difference
            distance[i, j] = np.sqrt(square)
    return distance


class NeighbourSearch:
    """Search for the k nearest of n rows, or those within a radius, by Euclidean distance.

    Rows are Float[n, d], finite. Sparse rows have length 1, and their inner products are
    similarities K, as those of the leaves of a forest (:func:`~kdgraph.features.features_of`); the
    distance is then 1 - K, the geodesic distance of Dey et al. The back-end "auto" is the window
    for one feature, the tree for up to 8, and brute force otherwise. With ``eps`` above 0 it is the
    tree for any number of features, and each distance is at most (1 + eps) times that of the true
    neighbour of this rank (Arya et al., Journal of the ACM 45, 1998).

    Notes
    -----
    The neighbours of a query point do not depend on the other ones. Distances are summed feature by
    feature. If only some of several rows at the same distance can be taken, they are those with the
    lowest positions (except for the window, which takes the smaller values, and with ``eps``).
    Candidates from a matrix product or a tree are accepted only if rounding cannot have excluded a
    nearer row.

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
        self.backend = self._best_backend() if backend == "auto" else backend
        if issparse(X) and self.backend != "brute":
            raise ValueError(f"sparse rows are searched by brute force, got backend={self.backend}")
        if eps > 0 and self.backend != "tree":
            raise ValueError(
                f"eps={eps:g} needs the tree, and backend={self.backend} is exact; use eps=0"
            )
        if self.backend == "tree":
            from scipy.spatial import cKDTree

            self.tree = cKDTree(self.X)
        elif self.backend == "brute" and not issparse(self.X):
            self.mean = self.X.mean(axis=0)
            self.centred = self.X - self.mean
            self.squares = np.square(self.centred).sum(axis=1)
            self.heaps = self._make_heaps()
        elif self.backend == "window":
            self.order = np.argsort(self.X[:, 0], kind="stable")
            self.sorted = self.X[self.order, 0]

    def __len__(self) -> int:
        return self.X.shape[0]

    def _best_backend(self) -> Backend:
        d = self.X.shape[1]
        if issparse(self.X):
            return "brute"
        # In many features the approximate tree is slower than all distances (20 features, 100,000
        # rows, eps = 0.5: 44 s and 13 s), but it is what eps is for.
        if self.eps > 0:
            return "tree"
        if d > TREE_DIMENSIONS:
            return "brute"
        return "window" if d == 1 else "tree"

    def nearest(self, at: Any, k: int, *, exact: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return the distances of the k nearest rows, Float[m, k], increasing, and their positions.

        ``exact`` ignores ``eps``, for callers that need all rows within a radius.
        """
        if not 1 <= k <= len(self):
            raise ValueError(f"k must be from 1 to the {len(self)} rows, got {k}")
        width = len(self) if issparse(self.X) else k
        distance, rows = np.empty((at.shape[0], k)), np.empty((at.shape[0], k), dtype=np.intp)
        for block in blocks_of(at.shape[0], width):
            distance[block], rows[block] = self._search_block(
                at[block], k, 0.0 if exact else self.eps
            )
        return distance, rows

    def count_within(self, at: Any, radius: float) -> np.ndarray:
        """Return the number of rows within ``radius`` of each query point, Int[m]."""
        if self.backend == "tree":
            counts = self.tree.query_ball_point(at, radius, return_length=True)
            return np.asarray(counts, dtype=np.intp)
        if self.backend == "window":
            x = at[:, 0]
            last = np.searchsorted(self.sorted, x + radius, "right")
            return last - np.searchsorted(self.sorted, x - radius, "left")
        blocks = blocks_of(at.shape[0], len(self))
        return np.concatenate(
            [(self._all_distances(at[block]) <= radius).sum(axis=1) for block in blocks]
        )

    def _search_block(self, at: Any, k: int, eps: float) -> tuple[np.ndarray, np.ndarray]:
        if self.backend == "tree" and eps > 0:
            distance, rows = self.tree.query(at, k, eps=eps)
            return np.reshape(distance, (-1, k)), np.reshape(rows, (-1, k))
        if self.backend == "window":
            rows = self.order[self._window_start(at[:, 0], k)[:, None] + np.arange(k)]
            return _sort_by_distance(np.abs(self.X[rows, 0] - at), rows)
        if issparse(self.X):
            return self._search_sparse(at, k)
        at = np.asarray(at, dtype=np.float64)
        if self.backend == "tree":
            return self._search_tree(at, k)
        return nearest_of_candidates(self.X, at, k, self._candidates, self.mean)

    def _search_sparse(self, at: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        distance = self._all_distances(at)
        last = np.partition(distance, k - 1, axis=1)[:, k - 1 : k]
        # Rows nearer than the k-th distance are taken, and so many of the rows at this distance, in
        # the order of their positions, that there are k.
        tied, nearer = distance == last, distance < last
        n_tied = k - nearer.sum(axis=1, keepdims=True)
        selected = nearer | (tied & (np.cumsum(tied, axis=1) <= n_tied))
        rows = np.nonzero(selected)[1].reshape(-1, k)
        return _sort_by_distance(np.take_along_axis(distance, rows, axis=1), rows)

    def _search_tree(self, at: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        # A tree sums each distance separately, so its distances do not depend on the other query
        # points. Only among equal distances do the order, and the choice of the k rows, depend on
        # how the tree was built; only these points are searched again. To recompute all distances
        # took 1.66 s instead of 1.19 s for the recalibration of 10,000 rows by 1,000 neighbours.
        n_queried = min(k + 1, len(self))
        distance, rows = (
            np.reshape(part, (-1, n_queried)) for part in self.tree.query(at, n_queried)
        )
        tied = np.flatnonzero((distance[:, 1:] == distance[:, :-1]).any(axis=1))
        order = np.lexsort((rows[tied], distance[tied]))
        rows[tied] = np.take_along_axis(rows[tied], order, axis=1)
        # A tie between the k-th and the next row leaves open which rows belong to the k.
        undecided = (
            distance[:, k - 1] == distance[:, -1]
            if n_queried > k
            else np.zeros(len(at), dtype=bool)
        )
        distance, rows = distance[:, :k].copy(), rows[:, :k].copy()
        if undecided.any():
            distance[undecided], rows[undecided] = nearest_of_candidates(
                self.X, at[undecided], k, self._candidates, None
            )
        return distance, rows

    def _candidates(self, at: np.ndarray, k: int) -> np.ndarray:
        """Return the positions of the k nearest rows up to rounding, in any order, Int[p, k]."""
        if self.backend == "tree":
            return np.reshape(self.tree.query(at, k)[1], (-1, k))
        with np.errstate(over="ignore", invalid="ignore"):
            centred = at - self.mean
        if self.heaps is not None and k <= HEAP_FRACTION * len(self):
            # A point this far away is searched again, with all rows as candidates, because the
            # bound of its rounding error is infinite.
            np.clip(centred, -_MAX_HEAP_COORDINATE, _MAX_HEAP_COORDINATE, out=centred)
            return self.heaps.kneighbors(centred, k, return_distance=False)
        rows = np.empty((len(at), k), dtype=np.intp)
        for block in blocks_of(len(at), len(self)):
            with np.errstate(over="ignore", invalid="ignore"):
                # Squared distances without the term of the query point, which is equal for all
                # rows.
                squares = self.squares - 2 * (centred[block] @ self.centred.T)
            rows[block] = np.argpartition(squares, k - 1, axis=1)[:, :k]
        return rows

    def _make_heaps(self) -> Any:
        """Return scikit-learn's brute force for the centred rows, None where it does not pay."""
        largest = np.abs(self.centred).max(initial=0.0)
        if len(self) < HEAP_ROWS or not largest < _MAX_HEAP_COORDINATE:
            return None
        from sklearn.neighbors import NearestNeighbors

        return NearestNeighbors(algorithm="brute").fit(self.centred)

    def _window_start(self, x: np.ndarray, k: int) -> np.ndarray:
        """Return the position in the sorted feature at which the k nearest values begin, Int[m]."""
        # Bisection for the first window whose left end is not farther from x than the value right
        # of the window. At equal distances the smaller value is taken.
        low, high = np.zeros(len(x), dtype=np.intp), np.full(len(x), len(self) - k)
        while (low < high).any():
            middle = (low + high) // 2
            right = x - self.sorted[middle] > self.sorted[np.minimum(middle + k, len(self) - 1)] - x
            low, high = (
                np.where((low < high) & right, middle + 1, low),
                np.where((low < high) & ~right, middle, high),
            )
        return low

    def _all_distances(self, at: Any) -> np.ndarray:
        """Return all distances, Float[p, n], by one matrix product.

        Distances close to 0 have half of the digits of float64.
        """
        if issparse(self.X):
            return np.maximum(1 - (at @ self.X.T).toarray(), 0.0)
        from sklearn.metrics.pairwise import euclidean_distances

        return euclidean_distances(at, self.X)


def _sort_by_distance(distance: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort the neighbours of each query point by distance; ties keep their order."""
    order = np.argsort(distance, axis=1, kind="stable")
    return np.take_along_axis(distance, order, axis=1), np.take_along_axis(rows, order, axis=1)


def blocks_of(m: int, width: int) -> Iterator[slice]:
    """Yield consecutive slices of m query points of ``width`` numbers each.

    A slice has at most :data:`BLOCK_SIZE` numbers, and at least one point.
    """
    step = max(BLOCK_SIZE // max(width, 1), 1)
    for first in range(0, m, step):
        yield slice(first, first + step)


def nearest_of_candidates(
    X: np.ndarray,
    at: np.ndarray,
    k: int,
    candidates: Callable[[np.ndarray, int], np.ndarray],
    centre: np.ndarray | float | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return distances, Float[m, k], and positions, Int[m, k], of the exact nearest rows.

    ``candidates`` is an approximate search: a function of query points, Float[p, d], and a number w
    up to n, which returns the positions of the w nearest rows up to rounding, Int[p, w], in any
    order. ``centre`` is the point that it subtracts before it squares and multiplies; None if it
    squares differences, as a tree does. Of several rows at one distance, those with the lowest
    positions are taken.
    """
    # Candidates come from sums whose order depends on the CPU and on the other queries, and which
    # have half of the digits near 0. So a few more than k are requested, and their distances are
    # computed exactly. Where rounding may have excluded a nearer row, as with many equal distances,
    # the number of candidates is doubled.
    rounding = 8 * (X.shape[1] + 4) * np.finfo(np.float64).eps
    distance, rows = np.empty((len(at), k)), np.empty((len(at), k), dtype=np.intp)
    undecided, width = np.arange(len(at)), min(k + _EXTRA_CANDIDATES, len(X))
    while len(undecided):
        certain = np.ones(len(undecided), dtype=bool)
        for block in blocks_of(len(undecided), width):
            index = undecided[block]
            queries = at[index]
            distance[index], rows[index], certain[block] = nearest_if_certain(
                X, queries, k, candidates(queries, width), centre, rounding
            )
        undecided, width = undecided[~certain], min(2 * width, len(X))
    return distance, rows


def nearest_if_certain(
    X: np.ndarray,
    at: np.ndarray,
    k: int,
    candidates: np.ndarray,
    centre: np.ndarray | float | None,
    rounding: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the nearest of the candidates, and whether rounding cannot have missed a nearer row.

    The results are those of :func:`nearest_of_candidates` and Bool[m], for candidates Int[m, w].
    ``rounding`` bounds the error of two squared distances between rows of lengths a and b from the
    centre, relative to (2 a + c)² with the distance c. If the last candidate is farther than the
    k-th by more than the rounding error of both, no other row belongs to the k.
    """
    # Sorted by position, so that of equal distances the lowest position comes first.
    positions = np.sort(candidates, axis=1)
    exact, positions = _sort_by_distance(distances_to(at, X, positions), positions)
    certain = np.ones(len(at), dtype=bool)
    if positions.shape[1] < len(X):
        with np.errstate(over="ignore", invalid="ignore"):
            length = 0.0 if centre is None else np.linalg.norm(at - centre, axis=1)
            error = rounding * np.square(2 * length + exact[:, -1])
            certain = np.square(exact[:, -1]) - np.square(exact[:, k - 1]) > error
    return exact[:, :k], positions[:, :k], certain


def draw_reference_rows(n: int, max_rows: int | None, random_state: Any) -> Any:
    """Return the positions of at most ``max_rows`` of n rows, which a search compares rows with.

    They increase, and are drawn with equal probability and without replacement. If there are no
    more rows, or ``max_rows`` is None, the result is the slice of all, and a generator does not
    change.

    References
    ----------
    Sugiyama and Borgwardt, "Rapid distance-based outlier detection via sampling", NeurIPS 2013: a
    small random sample of the rows for the distance of outliers.

    Examples
    --------
    >>> draw_reference_rows(5, 3, 0).tolist(), draw_reference_rows(3, 3, 0)
    ([0, 1, 2], slice(None, None, None))
    """
    if max_rows is None or n <= max_rows:
        return slice(None)
    if not isinstance(random_state, np.random.Generator):
        from sklearn.utils import check_random_state

        random_state = check_random_state(random_state)
    return np.sort(random_state.choice(n, max_rows, replace=False))


_MIN_SAMPLE_RANK = 4
"""Smallest rank to which the rank of a neighbour is reduced among fewer rows."""


def rank_in_sample(k: int, n: int, n_sampled: int) -> int:
    """Return the rank, among a sample of rows, that corresponds to rank k among all n rows.

    It is k n_sampled / n rounded; at least 4, or k if this is less; at most ``n_sampled``.

    Notes
    -----
    The distance to neighbour k n_sampled / n of the sample estimates that to neighbour k of all
    rows, but the distance to the very nearest rows is noisy. Among 50,000 of 170,000 to 206,000
    rows of three simulations with 5 and 20 features, the AUROC of a left-out class was lower than
    with k = 5 among all rows by .024, .011, .006, .005 and .004 with ranks 1, 2, 3, 4 and 5.

    Examples
    --------
    >>> rank_in_sample(5, 10**6, 50_000), rank_in_sample(200, 10**6, 50_000)
    (4, 10)
    """
    return min(max(round(k * n_sampled / n), min(k, _MIN_SAMPLE_RANK)), n_sampled)


def distances_of(index: Any, at: Any, k: int) -> np.ndarray:
    """Return the distances to the k nearest rows of an index of scikit-learn, with all digits.

    They are Float[m, k] and increase. The index is fitted with Euclidean distances; its own have
    half of the digits near 0 where it multiplies matrices. ``at``, Float[m, d], are query points;
    None: the rows of the index, none of which is its own neighbour. Sparse rows get the distances
    of scikit-learn.
    """
    rows = index._fit_X
    if issparse(rows) or issparse(at):
        return index.kneighbors(at, k)[0]
    rows = np.ascontiguousarray(rows, dtype=np.float64)

    def candidates(queries: np.ndarray, width: int) -> np.ndarray:
        return index.kneighbors(queries, width, return_distance=False)

    if at is not None:
        at = np.ascontiguousarray(at, dtype=np.float64)
        return nearest_of_candidates(rows, at, k, candidates, 0.0)[0]
    distance, nearest = nearest_of_candidates(rows, rows, k + 1, candidates, 0.0)
    is_self = nearest == np.arange(len(rows))[:, None]
    # A row that is not among its k + 1 nearest has as many equal rows; any of them can be dropped.
    is_self[~is_self.any(axis=1), -1] = True
    return distance[~is_self].reshape(-1, k)
