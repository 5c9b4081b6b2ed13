"""Search for the nearest of many means.

:class:`NearestMean` searches exactly among a few thousand means, by one product of matrices, or by
a tree where there are few features. Among more means of more features no search is fast and exact:
there it visits the nearest cells of a partition of the means (an inverted file; Sivic and Zisserman
2003, "Video Google"). The search is original to kdgraph.
"""

from __future__ import annotations

import numpy as np
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from kdgraph.compilation import kernel
from kdgraph.smoothing.neighbours import nearest_of_candidates

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
