"""Distances between places and some rows each, by their definition; compiled by numba. Ours.

The nearest rows around a place: exact searches, each where it is fast, and what counts as near.

Which rows count around a place, and how much: k neighbours or a radius, and a kernel of the
distance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numba import njit
from scipy.sparse import issparse


@njit(nogil=True, cache=True, error_model="numpy")
def distances_to(at: np.ndarray, X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Float[m, k]: of places Float[m, d] to the rows Int[m, k] of X: Float[n, d], feature by
    feature; equal rows are at 0.
    """
    found = np.empty(rows.shape)
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            square = 0.0
            row = rows[i, j]
            for c in range(X.shape[1]):
                apart = at[i, c] - X[row, c]
                square += apart * apart
            found[i, j] = np.sqrt(square)
    return found


Backend = Literal["auto", "window", "tree", "brute"]
"""window: of one feature, sorted; tree: scipy's cKDTree; brute: all distances, by scikit-learn, of
sparse rows by their inner products.
"""

TREE_DIMENSIONS = 8
"""Up to here a k-d tree is the fastest; of 20 features, 10,000 rows and places and 1,000 neighbours
a tree takes 5.2 s, brute force 3.4.
"""
PARTITION_ROWS = 30_000
"""Of 10,000 rows and 20 features the 1,000 nearest of a place take 0.2 ms by a product and a
partition, and 0.4 by scikit-learn; heaps gain on partitions as there are more rows.
"""
AT_A_TIME = 1 << 18
"""Distances in a block, 2 MB. No number depends on it."""
_MORE = 4
"""Candidates beyond the k that are wanted; in data without ties the last of them is nearly always
clearly farther than the k-th.
"""


class NeighbourSearch:
    """The k nearest of n rows, or those within a radius, by Euclidean distance.

    Parameters
    ----------
    X : Float[n, d], finite; or sparse, rows of length 1 whose inner products are similarities K, as
        leaves of a forest are (:func:`~kdgraph.features.features_of`): then the distance is 1 - K,
        the geodesic distance of Dey et al.
    backend : see :data:`Backend`; "auto" takes the window for d = 1, the tree up to d = 8, else
    brute force.
    eps : each distance is at most (1 + eps) times that of the true neighbour of this rank (Arya et
        al., Journal of the ACM 45, 1998); of the tree only. 0: exact.

    Notes
    -----
    What is found for a place does not depend on the places beside it: distances are added up
    feature by feature, and where not all of several rows at the same distance can be taken, those
    with the lowest positions are (but for the window, which takes the smaller values, and with
    ``eps``). Candidates that a matrix product or a tree finds are taken only where rounding cannot
    have left out a nearer row.

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

            self.middle = self.X.mean(axis=0)
            self.centred = self.X - self.middle
            self.all = NearestNeighbors(algorithm="brute").fit(self.centred)
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
        """Distances Float[m, k], increasing, and Int[m, k], positions of the k <= n rows nearest to
        each place, Float[m, d].

        ``exact``: whatever ``eps`` is, as where all rows within a radius are wanted, of which k
        only says how many there may be.
        """
        if not 1 <= k <= len(self):
            raise ValueError(f"k must be from 1 to the {len(self)} rows, got {k}")
        found = [
            self._of_block(at[block], k, 0.0 if exact else self.eps)
            for block in _blocks(at.shape[0], self._width(k))
        ]
        if not found:
            return np.empty((0, k)), np.empty((0, k), dtype=np.intp)
        return np.concatenate([distance for distance, _ in found]), np.concatenate(
            [rows for _, rows in found]
        )

    def count_within(self, at: Any, radius: float) -> np.ndarray:
        """Int[m]: how many rows are at most ``radius`` away from each place."""
        if self.backend == "tree":
            return np.asarray(
                self.tree.query_ball_point(at, radius, return_length=True), dtype=np.intp
            )
        if self.backend == "window":
            x = at[:, 0]
            return np.searchsorted(self.sorted, x + radius, "right") - np.searchsorted(
                self.sorted, x - radius, "left"
            )
        return np.concatenate(
            [
                (self._distances(at[block]) <= radius).sum(axis=1)
                for block in _blocks(at.shape[0], len(self))
            ]
        )

    def _width(self, k: int) -> int:
        """Numbers that a search makes for a place."""
        return (
            len(self)
            if self.backend == "brute" and (issparse(self.X) or len(self) <= PARTITION_ROWS)
            else k
        )

    def _of_block(self, at: Any, k: int, eps: float) -> tuple[np.ndarray, np.ndarray]:
        if self.backend == "tree" and eps > 0:
            distance, rows = self.tree.query(at, k, eps=eps)
            return np.reshape(distance, (-1, k)), np.reshape(rows, (-1, k))
        if self.backend == "window":
            rows = self.order[self._window(at[:, 0], k)[:, None] + np.arange(k)]
            return _by_distance(np.abs(self.X[rows, 0] - at), rows)
        if self.backend == "tree":
            return self._of_tree(np.asarray(at, dtype=np.float64), k)
        if not issparse(self.X):
            return nearest_of_candidates(
                self.X, np.asarray(at, dtype=np.float64), k, self._candidates, self.middle
            )
        apart = self._distances(at)
        last = np.partition(apart, k - 1, axis=1)[:, k - 1 : k]
        tied, nearer = apart == last, apart < last
        taken = nearer | (
            tied & (np.cumsum(tied, axis=1) <= k - nearer.sum(axis=1, keepdims=True))
        )  # the lowest of those that tie
        rows = np.nonzero(taken)[1].reshape(-1, k)
        return _by_distance(np.take_along_axis(apart, rows, axis=1), rows)

    def _of_tree(self, at: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """As :meth:`nearest`, of places Float[p, d].

        A tree adds up each distance alone, so that its distances depend on no other place. Only
        where some are equal does their order, or which of them are the k, depend on how the tree
        was built: these places are looked at again. With all distances computed anew, recalibrating
        10,000 places by 1,000 neighbours each took 1.66 s in place of 1.19 s.
        """
        more = min(k + 1, len(self))
        distance, rows = (np.reshape(part, (-1, more)) for part in self.tree.query(at, more))
        tied = np.flatnonzero((distance[:, 1:] == distance[:, :-1]).any(axis=1))
        order = np.lexsort((rows[tied], distance[tied]))
        rows[tied] = np.take_along_axis(rows[tied], order, axis=1)
        undecided = (
            distance[:, k - 1] == distance[:, -1] if more > k else np.zeros(len(at), dtype=bool)
        )
        distance, rows = distance[:, :k].copy(), rows[:, :k].copy()
        if undecided.any():
            distance[undecided], rows[undecided] = nearest_of_candidates(
                self.X, at[undecided], k, self._candidates, None
            )
        return distance, rows

    def _candidates(self, at: np.ndarray, k: int) -> np.ndarray:
        """Int[p, k], the nearest rows in any order: by the tree; or of few rows by a matrix product
        and a partition, else by heaps.
        """
        if self.backend == "tree":
            return np.reshape(self.tree.query(at, k)[1], (-1, k))
        with np.errstate(over="ignore", invalid="ignore"):
            centred = at - self.middle
            if len(self) > PARTITION_ROWS:
                return self.all.kneighbors(centred, k, return_distance=False)
            apart = self.squares - 2 * (centred @ self.centred.T)
        return np.argpartition(apart, k - 1, axis=1)[:, :k]

    def _window(self, x: np.ndarray, k: int) -> np.ndarray:
        """Int[m]: where among the sorted rows the k nearest begin, by bisection; of two ends at one
        distance the smaller value is in.
        """
        low, high = np.zeros(len(x), dtype=np.intp), np.full(len(x), len(self) - k)
        while (low < high).any():
            middle = (low + high) // 2
            right = x - self.sorted[middle] > self.sorted[np.minimum(middle + k, len(self) - 1)] - x
            low, high = (
                np.where((low < high) & right, middle + 1, low),
                np.where((low < high) & ~right, middle, high),
            )
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


def nearest_of_candidates(
    X: np.ndarray,
    at: np.ndarray,
    k: int,
    candidates: Callable[[np.ndarray, int], np.ndarray],
    centre: np.ndarray | float | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return distances Float[m, k], increasing, and Int[m, k], positions of the nearest of the rows
    X; ours.

    Parameters
    ----------
    X, at : Float[n, d] and Float[m, d], rows and places.
    k : up to n; of several rows at one distance those with the lowest positions are taken.
    candidates : function of places Float[p, d] and a number up to n, which returns as many rows
        each that are the nearest up to rounding, Int[p, ...] in any order.
    centre : Float[d] or a number, what places and rows are centred at before they are squared and
        multiplied; None where differences are squared, as in a tree.

    Notes
    -----
    Candidates are found by sums whose order depends on the CPU and on the places beside, and which
    near 0 have half the digits. So a few more than k are taken, and their distances are computed
    anew. Where the last of them is farther than the k-th by more than both can be off, no other row
    belongs to the k. Else, as among many equal distances, there are twice as many candidates.
    """
    rounding = 8 * (X.shape[1] + 4) * np.finfo(np.float64).eps
    distance, rows = np.empty((len(at), k)), np.empty((len(at), k), dtype=np.intp)
    undecided, width = np.arange(len(at)), min(k + _MORE, len(X))
    while len(undecided):
        certain = np.ones(len(undecided), dtype=bool)
        for block in _blocks(len(undecided), width):
            numbers = undecided[block]
            places = at[numbers]
            # Sorted by position, so that of equal distances the lowest position comes first.
            nearest = np.sort(candidates(places, width), axis=1)
            apart, nearest = _by_distance(distances_to(places, X, nearest), nearest)
            distance[numbers], rows[numbers] = apart[:, :k], nearest[:, :k]
            if width < len(X):
                with np.errstate(over="ignore", invalid="ignore"):
                    length = 0.0 if centre is None else np.linalg.norm(places - centre, axis=1)
                    off = rounding * np.square(2 * length + apart[:, -1])
                    certain[block] = np.square(apart[:, -1]) - np.square(apart[:, k - 1]) > off
        undecided, width = undecided[~certain], min(2 * width, len(X))
    return distance, rows


def distances_of(index: Any, at: Any, k: int) -> np.ndarray:
    """Return distances to the k nearest rows of an index of scikit-learn, Float[m, k], increasing;
    ours.

    Parameters
    ----------
    index : a fitted ``NearestNeighbors`` with Euclidean distances, whose own have half the digits
        near 0 where it multiplies matrices.
    at : Float[m, d], places; None: the rows of the index, none of which is its own neighbour.
        Sparse rows have the distances of scikit-learn.
    k : number of neighbours.
    """
    rows = index._fit_X
    if issparse(rows) or issparse(at):
        return index.kneighbors(at, k)[0]
    rows = np.ascontiguousarray(rows, dtype=np.float64)

    def candidates(places: np.ndarray, width: int) -> np.ndarray:
        return index.kneighbors(places, width, return_distance=False)

    if at is not None:
        at = np.ascontiguousarray(at, dtype=np.float64)
        return nearest_of_candidates(rows, at, k, candidates, 0.0)[0]
    distance, nearest = nearest_of_candidates(rows, rows, k + 1, candidates, 0.0)
    dropped = nearest == np.arange(len(rows))[:, None]
    dropped[~dropped.any(axis=1), -1] = True  # of more equal rows than k + 1 any is as good
    return distance[~dropped].reshape(-1, k)


NearKernel = Literal["epanechnikov", "uniform", "gaussian"]
"""Of t = distance / u: 1 - t² up to t = 1; 1 up to t = 1; exp(-t²/2), of the same rows."""
Scale = Literal["last", "next"]
"""Where k is given, u is the distance of the k-th row, to which Epanechnikov then gives no weight;
or that of the (k+1)-th.
"""


@dataclass(frozen=True)
class Near:
    """What is near to each of m places.

    Attributes
    ----------
    rows : Int[m, k].
    weight : Float[m, k], not negative, not all 0 at any place, not normalised: a kernel's values,
    from 0 to 1.
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
    radius : or how far away they may be; then u is the radius (Torres et al., Section 4.2), else
    see ``scale``.
    kernel, scale : see :data:`NearKernel` and :data:`Scale`.
    least : nearest rows that count where there are none in the radius.

    Notes
    -----
    Where u is 0, since all neighbours are at one place with it, weights are equal.

    References
    ----------
    Torres, Nott, Sisson, Rodrigues, Reis and Rodrigues, "Model-free local recalibration of neural
    networks", 2024, Algorithm 1, steps 8 and 10.

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
        """What is near to places Float[m, d]; ``own``: Int[m], which row each place is itself and
        is to be left out.
        """
        if (self.k is None) == (self.radius is None):
            raise ValueError(
                f"one of k and radius must be given, got k={self.k} and radius={self.radius}"
            )
        left = 0 if own is None else 1
        most = max(len(search) - left, 1)
        if self.radius is None:
            if (self.k or 1) > most:
                warnings.warn(
                    f"k={self.k} neighbours were asked for, and there are {most}: all are taken",
                    stacklevel=2,
                )
            return self.of_neighbours(*self.others(search, at, own))
        counts = search.count_within(at, self.radius)
        width = int(min(max(counts.max(initial=0) - left, self.least), most))
        distance, rows = _others(search, at, width, own, exact=True)
        inside = distance <= self.radius
        weight = np.where(inside, self.kernel_of(distance / self.radius), 0.0)
        return self._filled(rows, weight, min(self.least, most))

    def blocks(self, search: NeighbourSearch, at: Any) -> Iterator[slice]:
        """Consecutive places, so few that what is near to them has at most
        :data:`~kdgraph.smoothing.neighbours.AT_A_TIME` numbers.
        """
        width = len(search) if self.radius is not None or self.k is None else self.k
        step = max(AT_A_TIME // max(min(width, len(search)), 1), 1)
        yield from (slice(first, first + step) for first in range(0, at.shape[0], step))

    def kernel_of(self, t: np.ndarray) -> np.ndarray:
        """Values of the kernel at t >= 0."""
        if self.kernel == "uniform":
            return (t <= 1).astype(np.float64)
        return np.maximum(1 - t * t, 0.0) if self.kernel == "epanechnikov" else np.exp(-t * t / 2)

    def others(
        self, search: NeighbourSearch, at: Any, own: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Distances and rows that :meth:`of_neighbours` needs of this k or of a smaller one."""
        most = max(len(search) - (own is not None), 1)
        return _others(search, at, min((self.k or 1) + (self.scale == "next"), most), own)

    def of_neighbours(self, distance: np.ndarray, rows: np.ndarray) -> Near:
        """What is near among the nearest rows and their distances, increasing, Float[m, j] of j >=
        k.
        """
        k = min(self.k or 1, rows.shape[1])
        u = distance[:, min(k if self.scale == "next" else k - 1, rows.shape[1] - 1), None]
        weight = np.where(u > 0, self.kernel_of(distance[:, :k] / np.where(u > 0, u, 1.0)), 1.0)
        return self._filled(rows[:, :k], weight, k)

    def _filled(self, rows: np.ndarray, weight: np.ndarray, least: int) -> Near:
        """With equal weights of the ``least`` nearest where no row has any, as where all are
        exactly at u.
        """
        empty: np.ndarray = weight.max(axis=1) <= 0
        weight[empty, :least] = 1.0
        return Near(rows, weight, empty)


def _others(
    search: NeighbourSearch, at: Any, k: int, own: np.ndarray | None, *, exact: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest rows, without each place's own; where equal rows have crowded it out, without
    the last of k + 1.
    """
    if own is None or len(search) < 2:
        return search.nearest(at, min(k, len(search)), exact=exact)
    distance, rows = search.nearest(at, k + 1, exact=exact)
    keep = rows != own[:, None]
    keep[:, -1] &= ~keep.all(axis=1)
    return distance[keep].reshape(-1, k), rows[keep].reshape(-1, k)
