"""Index of polytopes behind boosted trees, which visits the cells that are nearest to a query.

The leaves of boosted trees are large, so that a query shares some of them with nearly every row.
But the exponents of its kernel are large too, and a few rows have nearly all of its mass.
:class:`CellIndex` is an inverted file (Sivic and Zisserman 2003, "Video Google"): drawn polytopes
are the pivots of cells, each polytope is in the cell of the pivot with which it shares most leaves,
and a query is compared with the polytopes of the cells whose pivots share most leaves with it.
Original to kdgraph.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from kdgraph.geometry.leaf_comparison import compiled
from kdgraph.geometry.partition import map_blocks, take_rows

# Queries of a block: enough to hide the cost of a task, few enough that two cores stay busy on
# 1,000 rows.
_QUERY_BLOCK = 128
# Polytopes of a cell on average, as many as one instruction compares in a tree; maximum number of
# cells; and cells that are visited. Behind LightGBM on simulated tables, the NLL of the posterior
# was .2925 with all of 10,000 rows and .2927, .2935 and .2938 with 12, 8 and 6 cells; of 50,000
# rows, .2614 with 32,768 of them and .2606, .2611 and .2615 with the cells of all (standard error
# of each .0045), in 9.4, 6.9 and 5.5 instead of 119 µs. With 2,600 rows of five classes behind
# HistGradientBoosting, 12 cells cost -.002 and .003 on two tables, and 8 cells .004 and .005.
_CELL_SIZE, _MAX_CELLS, _N_VISITED = 64, 1024, 12
# Cells are padded to a multiple of this number, so that loops over them have no remainder.
_PADDING = 32


@compiled
def _count_matches(leaves, tile, counts):
    """Fill the numbers of leaves that a query, [T], shares with polytopes, [T, w], into [w]."""
    # Leaves and counts have a byte each, so that one instruction compares 64 polytopes in a tree.
    # Counts are written once for four trees.
    counts[:] = 0
    n_fours = tile.shape[0] // 4 * 4
    for t in range(0, n_fours, 4):
        x0, x1, x2, x3 = tile[t], tile[t + 1], tile[t + 2], tile[t + 3]
        a0, a1, a2, a3 = leaves[t], leaves[t + 1], leaves[t + 2], leaves[t + 3]
        for i in range(tile.shape[1]):
            counts[i] += (
                np.uint8(x0[i] == a0)
                + np.uint8(x1[i] == a1)
                + np.uint8(x2[i] == a2)
                + np.uint8(x3[i] == a3)
            )
    for t in range(n_fours, tile.shape[0]):
        x0, a0 = tile[t], leaves[t]
        for i in range(tile.shape[1]):
            counts[i] += np.uint8(x0[i] == a0)


@compiled
def _assign_to_pivots(leaves, pivots, counts, cells):
    """Fill the cell of each row, Int[n]; of equally similar pivots it is the first."""
    for i in range(leaves.shape[0]):
        _count_matches(leaves[i], pivots, counts)
        cells[i] = counts.argmax()


@compiled
def _query_cells(codes, leaf_of_node, pivots, cells, polytopes, powers, counts, found, masses):
    """Fill the class masses of queries over the polytopes of the most similar cells.

    ``codes``: Int[m, T]; ``leaf_of_node``: Int[T], first node of each tree, and the number of each
    leaf in its tree; ``pivots``: [T, C]; ``cells``: Int[C + 1], where each begins, and their leaves
    in a row, each [T, w]; ``polytopes``: classes and weights, 0 for padding; ``powers``:
    Float[T + 1, k]; ``counts`` and ``found``: scratch memory for the counts of a cell and for the
    numbers of cells that are visited. Filled are ``masses``: Float[m, K, k].
    """
    (first_node, leaf_number), (starts, tiles), (classes, weights) = leaf_of_node, cells, polytopes
    n_trees, n_cells = pivots.shape
    leaves, similarity = np.empty(n_trees, tiles.dtype), np.empty(n_cells, counts.dtype)
    matches = np.empty(found.shape[0], np.int64)
    histogram = np.zeros((masses.shape[1], n_trees + 1))
    for q in range(codes.shape[0]):
        for t in range(n_trees):
            leaves[t] = leaf_number[first_node[t] + codes[q, t]]
        _count_matches(leaves, pivots, similarity)
        # An insertion sort of the best cells so far; most cells fail the first comparison.
        matches[:] = -1
        for c in range(n_cells):
            j, value = found.shape[0] - 1, np.int64(similarity[c])
            if value > matches[j]:
                while j > 0 and matches[j - 1] < value:
                    matches[j], found[j] = matches[j - 1], found[j - 1]
                    j -= 1
                matches[j], found[j] = value, c
        for c in found:
            first, size = starts[c], starts[c + 1] - starts[c]
            tile = tiles[first * n_trees : (first + size) * n_trees].reshape((n_trees, size))
            _count_matches(leaves, tile, counts[:size])
            for i in range(size):
                histogram[classes[first + i], counts[i]] += weights[first + i]
        for y in range(histogram.shape[0]):
            for count in range(1, n_trees + 1):
                mass = histogram[y, count]
                if mass != 0.0:
                    for k in range(powers.shape[1]):
                        masses[q, y, k] += mass * powers[count, k]
        histogram[:] = 0.0


class CellIndex:
    """Index of polytopes by cells, with class masses over the nearest cells only.

    A polytope finds itself: its own cell is the first that a query at its code visits. Without
    more cells than are visited, the masses are exact.

    Parameters
    ----------
    codes, class_weights, leaf_starts, rows, n_jobs
        As for :class:`~kdgraph.geometry.LeafIndex`.

    Examples
    --------
    >>> codes = np.array([[1, 1], [1, 2], [2, 2]])  # three rows in two trees
    >>> index = CellIndex(codes, np.eye(3), np.array([0, 3, 6]))
    >>> index.query(np.array([[1, 1]]), np.array([2.0]))[0][0, :, 0]
    array([1.  , 0.25, 0.  ])
    """

    def __init__(
        self,
        codes: np.ndarray,
        class_weights: np.ndarray,
        leaf_starts: np.ndarray,
        *,
        rows: np.ndarray | None = None,
        n_jobs: int | None = None,
    ):
        self.n_polytopes, self.n_classes = class_weights.shape
        self.n_trees, self.n_jobs, self._leaf_starts = codes.shape[1], n_jobs, leaf_starts
        codes = take_rows(codes, np.arange(self.n_polytopes) if rows is None else rows)
        leaves = self._number_leaves(codes)
        # Matches of up to 255 trees fit into a byte.
        self._count_dtype = np.dtype(np.uint8 if self.n_trees < 256 else np.uint16)
        n_cells = min(_MAX_CELLS, -(-self.n_polytopes // _CELL_SIZE))
        drawn = np.random.default_rng(0).choice(self.n_polytopes, n_cells, replace=False)
        self._pivots = np.ascontiguousarray(leaves[np.sort(drawn)].T)
        cell = np.empty(self.n_polytopes, dtype=np.int64)
        _assign_to_pivots(leaves, self._pivots, np.empty(n_cells, self._count_dtype), cell)
        # A polytope with several classes is in its cell once for each of them.
        polytope, classes = np.nonzero(class_weights)
        order = np.argsort(cell[polytope], kind="stable")
        polytope, classes = polytope[order], classes[order]
        sizes = np.bincount(cell[polytope], minlength=n_cells)
        padded = -(-sizes // _PADDING) * _PADDING
        self._starts = np.concatenate([[0], np.cumsum(padded)])
        position = np.arange(len(order)) + np.repeat(
            self._starts[:-1] - np.cumsum(sizes) + sizes, sizes
        )
        self._classes = np.zeros(self._starts[-1], dtype=np.int32)
        self._weights = np.zeros(self._starts[-1])
        self._classes[position], self._weights[position] = classes, class_weights[polytope, classes]
        self._tiles = np.zeros(self._starts[-1] * self.n_trees, dtype=leaves.dtype)
        ends = np.cumsum(sizes)
        for c in range(n_cells):
            first, size = self._starts[c], padded[c]
            tile = self._tiles[first * self.n_trees :][: size * self.n_trees]
            members = polytope[ends[c] - sizes[c] : ends[c]]
            tile.reshape(self.n_trees, size)[:, : sizes[c]] = leaves[members].T

    def _number_leaves(self, codes: np.ndarray) -> np.ndarray:
        """Assign numbers to the leaves with polytopes, by tree, and return theirs, [p, T]."""
        # The last number is that of all other leaves, which no polytope has.
        found = [np.unique(codes[:, t], return_inverse=True) for t in range(self.n_trees)]
        most = max(len(nodes) for nodes, _ in found)
        dtype = np.dtype(np.uint8 if most < 256 else np.uint16 if most < 2**16 else np.int32)
        self._leaf_number = np.full(self._leaf_starts[-1], np.iinfo(dtype).max, dtype=dtype)
        for t, (nodes, _) in enumerate(found):
            self._leaf_number[self._leaf_starts[t] + nodes] = np.arange(len(nodes))
        return np.column_stack([number for _, number in found]).astype(dtype)

    def query(self, codes: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the class masses of each query at every exponent, and -1 for its nearest polytope.

        See :class:`~kdgraph.geometry.partition.PolytopeIndex`; codes are Int[m, T].
        """
        powers = (np.arange(self.n_trees + 1) / self.n_trees)[:, None] ** np.asarray(
            exponents, dtype=np.float64
        )
        masses = np.empty((len(codes), self.n_classes, powers.shape[1]))
        # Queries in the same leaf of the first tree visit the same cells.
        order = np.argsort(codes[:, 0], kind="stable")
        blocks = [
            order[start : start + _QUERY_BLOCK] for start in range(0, len(order), _QUERY_BLOCK)
        ]
        query_block = partial(self._query_block, powers=powers)
        for rows, block_masses in map_blocks(query_block, codes, blocks, self.n_jobs):
            masses[rows] = block_masses
        return masses, np.full(len(codes), -1, dtype=np.int64)

    def _query_block(self, codes: np.ndarray, powers: np.ndarray) -> np.ndarray:
        masses = np.zeros((len(codes), self.n_classes, powers.shape[1]))
        counts = np.empty(np.diff(self._starts).max(), dtype=self._count_dtype)
        found = np.zeros(min(_N_VISITED, self._pivots.shape[1]), dtype=np.int64)
        _query_cells(
            codes,
            (self._leaf_starts, self._leaf_number),
            self._pivots,
            (self._starts, self._tiles),
            (self._classes, self._weights),
            powers,
            counts,
            found,
            masses,
        )
        return masses
