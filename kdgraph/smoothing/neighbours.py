"""Exact nearest neighbours, and samples of the rows among which they are searched.

:class:`NeighbourSearch` finds the k nearest of n rows, or counts those within a radius. Its results
are exact and do not depend on the other query points, and ties go to the rows with the lowest
positions. scikit-learn's ``NearestNeighbors`` guarantees neither, because its distances are rounded
differences of matrix products. :func:`draw_reference_rows` bounds the rows that are searched.

:class:`NearestMean` finds the nearest of many means: exactly among a few thousand, by one product
of matrices, or by a tree where there are few features. Among more means of more features no search
is fast and exact: there it visits the nearest cells of a partition of the means (an inverted file;
Sivic and Zisserman 2003, "Video Google"). Original to kdgraph, except where a paper is cited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse
from sklearn.cluster import KMeans
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

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
_FEW_DISTANCES = 1 << 20
"""Up to so many distances at once are computed by one product: the threads of scikit-learn's heaps
take tens of milliseconds to begin on a busy machine, the distances of a point to 50,000 rows one.
"""
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
            points = at[block]
            if self.backend == "tree" and self.eps > 0 and not exact:
                found = self.tree.query(points, k, eps=self.eps)
                distance[block], rows[block] = (np.reshape(part, (-1, k)) for part in found)
            elif self.backend == "window":
                near = self.order[self._window_start(points[:, 0], k)[:, None] + np.arange(k)]
                to_near = np.abs(self.X[near, 0] - points)
                distance[block], rows[block] = _sort_by_distance(to_near, near)
            elif issparse(self.X):
                distance[block], rows[block] = self._search_sparse(points, k)
            elif self.backend == "tree":
                distance[block], rows[block] = self._search_tree(np.asarray(points, float), k)
            else:
                distance[block], rows[block] = nearest_of_candidates(
                    self.X, np.asarray(points, float), k, self._candidates, self.mean
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
        uses_heaps = k <= HEAP_FRACTION * len(self.X) and len(at) * len(self.X) > _FEW_DISTANCES
        if self.heaps is not None and uses_heaps:
            # A point this far away is searched again, with all rows as candidates, because the
            # bound of its rounding error is infinite.
            np.clip(centred, -_MAX_HEAP_COORDINATE, _MAX_HEAP_COORDINATE, out=centred)
            return self.heaps.kneighbors(centred, k, return_distance=False)
        rows = np.empty((len(at), k), dtype=np.intp)
        for block in blocks_of(len(at), len(self.X)):
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
    is_product = index._fit_method == "brute"

    def candidates(queries: np.ndarray, width: int) -> np.ndarray:
        if is_product and len(queries) * len(rows) <= _FEW_DISTANCES:
            with np.errstate(over="ignore", invalid="ignore"):
                squares = euclidean_distances(queries, rows, squared=True)
            return np.argpartition(squares, width - 1, axis=1)[:, :width]
        return index.kneighbors(queries, width, return_distance=False)

    if at is not None:
        at = np.ascontiguousarray(at, dtype=np.float64)
        return nearest_of_candidates(rows, at, k, candidates, 0.0)[0]
    distance, nearest = nearest_of_candidates(rows, rows, k + 1, candidates, 0.0)
    is_self = nearest == np.arange(len(rows))[:, None]
    # A row that is not among its k + 1 nearest has as many equal rows; any of them can be dropped.
    is_self[~is_self.any(axis=1), -1] = True
    return distance[~is_self].reshape(-1, k)


# Coordinates are clipped here, so that their sums and squares stay finite. At this distance all
# means are equally near.
_MAX_COORDINATE = 1e100
# With fewer features a tree is faster than anything else.
_MIN_FEATURES = 4
# Up to so many means, all distances of a row are computed.
MAX_MEANS_IN_PRODUCT = 4096
# Distances in memory at once, four bytes each.
_PRODUCTS_AT_ONCE = 1 << 20
# Cells of more means, means of a cell where there are fewer cells, and cells that are visited. Of
# 65,536 means of 20 features the mean that is found is the nearest one for six rows in ten, and
# 1.05 times as far away on average; with one more cell it is 1.04 times, in 1.3 times the time.
_MAX_CELLS, _MEANS_PER_CELL, _N_VISITED = 1024, 32, 3
# Rows for each cell that determine its centre, and iterations of k-means.
_ROWS_PER_CELL, _KMEANS_ITERATIONS = 8, 5
# Coordinates of 32 bits are clipped here, so that their squares stay finite.
_MAX_FLOAT32_COORDINATE = 1e17

_compiled = kernel(boundscheck=False)


def clip_coordinates(points: np.ndarray) -> np.ndarray:
    """Return points, Float[n, d], with coordinates whose sums and squares stay finite.

    >>> clip_coordinates(np.array([[3.0, -1e200]]))
    array([[ 3.e+000, -1.e+100]])
    """
    return np.clip(points, -_MAX_COORDINATE, _MAX_COORDINATE)


class NearestMean:
    """Search for the nearest of many means, such as those of polytopes (Dey et al. 2024, Eq. 4).

    Means are Float[p, d], and ``scale`` is the unit of distance along each feature, Float[d]. Of
    equally near means, the one with the lowest number is returned. Of more than 4,096 means of four
    features or more, it is one of the nearest.

    Notes
    -----
    A density at the nearest of many means is a density at one of the nearest as well, if the rows
    that set its floor are searched in the same way. So the guarantee of the floor is that of the
    exact search. No sum is added in an order that depends on other rows, on threads or on BLAS.

    Examples
    --------
    >>> search = NearestMean(np.array([[0.0, 0.0], [1.0, 5.0]]), scale=np.array([1.0, 10.0]))
    >>> search(np.array([[0.2, 4.0], [0.9, 0.0]])).tolist()
    [0, 1]
    """

    def __init__(self, means: np.ndarray, scale: np.ndarray | float = 1.0):
        self.scale = scale
        self._means = means / scale
        self._search = NearestNeighbors(n_neighbors=1).fit(self._means)
        n_means, n_features = self._means.shape
        self._product: _Product | None = None
        self._cells: _Cells | None = None
        if n_features < _MIN_FEATURES or not np.isfinite(self._means).all():
            return
        if n_means <= MAX_MEANS_IN_PRODUCT:
            self._product = _Product(self._means)
        else:
            self._cells = _Cells(self._means)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return the number of the nearest mean, Int[n], for the rows ``X`` (Float[n, d])."""
        if self._product is None:
            return self.nearest(X, 1)[:, 0]
        scaled = self._scaled(X)
        nearest, is_certain = self._product.search(scaled)
        unclear = np.flatnonzero(~is_certain)
        if len(unclear):
            nearest[unclear] = self._exact(scaled[unclear], 1)[:, 0]
        return nearest

    def nearest(self, X: np.ndarray, k: int) -> np.ndarray:
        """Return the numbers of the ``k`` nearest means, Int[n, k], for the rows ``X``."""
        scaled = self._scaled(X)
        if self._cells is None:
            return self._exact(scaled, k)
        nearest = self._cells.search(scaled, k)
        # Cells of a few means may have fewer than k.
        incomplete = np.flatnonzero(nearest[:, -1] < 0)
        if len(incomplete):
            nearest[incomplete] = self._exact(scaled[incomplete], k)
        return nearest

    def _exact(self, scaled: np.ndarray, k: int) -> np.ndarray:
        """Return the numbers of the ``k`` nearest means, Int[n, k], of rows in units of distance.

        Sums are those of 64-bit numbers, of which the last digits do not matter.
        """
        return nearest_of_candidates(self._means, scaled, k, self._candidates, 0.0)[1]

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return clip_coordinates(X / self.scale)

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        """Return the k nearest means of each query (Float[m, d]), Int[m, k]."""
        # The fast distances of scikit-learn are rounded differently from batch to batch. So they
        # only choose candidates, whose distances are then computed again.
        return self._search.kneighbors(queries, k, return_distance=False)


class _Product:
    """Search among a few thousand means by a product of matrices.

    The nearest mean has the largest x·μ - ½‖μ‖². ``means``: Float[p, d], in units of distance.
    """

    def __init__(self, means: np.ndarray):
        # The numbers have 32 bits and stand around the centre of the means, where they lose least.
        self._centre = means.mean(axis=0)
        centred = (means - self._centre).astype(np.float32)
        squares = np.square(centred, dtype=np.float64).sum(axis=1)
        factors = np.column_stack([centred, -0.5 * squares]).astype(np.float32)
        self._factors = np.ascontiguousarray(factors.T)
        self._largest = float(np.sqrt(squares.max(initial=0.0)))

    def search(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the nearest mean of each row, Int[n], and whether it is certain, Bool[n].

        It is not where another mean comes so near to it that rounding may have changed their order,
        so that what is certain does not depend on the order in which products are added.
        """
        nearest, is_certain = np.empty(len(rows), dtype=np.intp), np.empty(len(rows), dtype=bool)
        size = max(1, _PRODUCTS_AT_ONCE // self._factors.shape[1])
        for start in range(0, len(rows), size):
            block = slice(start, start + size)
            nearest[block], is_certain[block] = self._search_block(rows[block])
        return nearest, is_certain

    @np.errstate(over="ignore", invalid="ignore")
    def _search_block(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        centred = rows - self._centre
        length = np.sqrt(np.square(centred).sum(axis=1))
        extended = np.empty((len(rows), rows.shape[1] + 1), dtype=np.float32)
        extended[:, :-1], extended[:, -1] = centred, 1.0
        scores = extended @ self._factors
        best = scores.argmax(axis=1)
        # Rounding of 32-bit numbers in a sum of d + 1 products, and of the factors themselves.
        n_terms = 2 * (extended.shape[1] + 2)
        tolerance = n_terms * np.finfo(np.float32).eps * self._largest * (length + self._largest)
        # So far away that the exact search takes means as equally near.
        tolerance += n_terms * np.finfo(np.float64).eps * length**2
        at_best = np.arange(len(best)), best
        best_score = scores[at_best].astype(np.float64)
        # Without the best score, the largest is the second one: two passes of a maximum take a
        # third of the time of one comparison with all.
        scores[at_best] = -np.inf
        lead = best_score - scores.max(axis=1)
        # A product beyond the numbers of 32 bits is infinite, and no lead of its mean.
        return best, (lead > tolerance) & (lead < np.inf)


class _Cells:
    """Search in the nearest cells of a partition of the means.

    A cell contains the means that are nearest to its centre. ``means``: Float[p, d], in units of
    distance.
    """

    def __init__(self, means: np.ndarray):
        n_cells = min(_MAX_CELLS, len(means) // _MEANS_PER_CELL)
        rng = np.random.default_rng(0)
        drawn = rng.choice(len(means), min(len(means), _ROWS_PER_CELL * n_cells), replace=False)
        self._middle = means.mean(axis=0)
        # Several threads of k-means would add in another order.
        with threadpool_limits(1):
            centres = (
                KMeans(
                    n_cells, init="random", n_init=1, max_iter=_KMEANS_ITERATIONS, random_state=0
                )
                .fit(means[drawn])
                .cluster_centers_
            )
        cell = NearestMean(centres)(means)
        self._numbers = np.argsort(cell, kind="stable")
        self._starts = np.searchsorted(cell[self._numbers], np.arange(n_cells + 1))
        self._centres = np.ascontiguousarray(self._to_float32(centres).T)
        # Features of a cell follow one after the other, so that distances to all of its means are
        # added feature by feature, at SIMD speed.
        values = self._to_float32(means[self._numbers])
        self._values = np.concatenate(
            [
                values[start:end].T.ravel()
                for start, end in zip(self._starts[:-1], self._starts[1:], strict=True)
            ]
        )

    def search(self, rows: np.ndarray, k: int) -> np.ndarray:
        """Return the k nearest means in the visited cells, Int[n, k]; -1 where they have fewer."""
        found = np.full((len(rows), k), -1, dtype=np.int64)
        _visit_cells(
            self._to_float32(rows), self._centres, self._starts, self._values, _N_VISITED, found
        )
        return np.where(found >= 0, self._numbers[found], -1)

    def _to_float32(self, points: np.ndarray) -> np.ndarray:
        """Return points around the middle of the means, Float32[n, d]."""
        centred = np.clip(points - self._middle, -_MAX_FLOAT32_COORDINATE, _MAX_FLOAT32_COORDINATE)
        return np.ascontiguousarray(centred, dtype=np.float32)


@_compiled
def _visit_cells(rows, centres, starts, values, n_visited, found):
    """Fill the positions of the nearest means in the nearest cells into ``found``: Int[n, k].

    ``rows``: Float32[n, d]; ``centres``: Float32[d, c]; ``starts``: Int[c + 1], first mean of each
    cell; ``values``: Float32[p · d], means cell by cell, and in a cell feature by feature.
    """
    n_features, n_cells = centres.shape
    largest = 0
    for c in range(n_cells):
        largest = max(largest, starts[c + 1] - starts[c])
    to_centre, to_mean = np.empty(n_cells, np.float32), np.empty(largest, np.float32)
    cells, cell_distance = np.empty(n_visited, np.int64), np.empty(n_visited, np.float32)
    distance = np.empty(found.shape[1], np.float32)
    for q in range(rows.shape[0]):
        to_centre[:] = 0
        for j in range(n_features):
            x = rows[q, j]
            for c in range(n_cells):
                difference = x - centres[j, c]
                to_centre[c] += difference * difference
        _smallest(to_centre, 0, cells, cell_distance)
        distance[:] = np.inf
        for c in cells:
            size = starts[c + 1] - starts[c]
            to_mean[:size] = 0
            for j in range(n_features):
                x, first = rows[q, j], starts[c] * n_features + j * size
                for i in range(size):
                    difference = x - values[first + i]
                    to_mean[i] += difference * difference
            _insert(to_mean[:size], starts[c], found[q], distance)


@_compiled
def _smallest(values, first, positions, smallest):
    """Fill the positions, from ``first`` on, of the smallest values, and these in order."""
    smallest[:] = np.inf
    _insert(values, first, positions, smallest)


@_compiled
def _insert(values, first, positions, smallest):
    """Insert values into the smallest ones so far, in order, with their positions from ``first``.

    Of equal values the first comes first.
    """
    last = smallest.shape[0] - 1
    for i in range(values.shape[0]):
        value = values[i]
        if value < smallest[last]:
            k = last
            while k > 0 and smallest[k - 1] > value:
                smallest[k], positions[k] = smallest[k - 1], positions[k - 1]
                k -= 1
            smallest[k], positions[k] = value, first + i
