"""Index of the polytopes of a tree ensemble by the leaves that contain them.

The code of a row is the leaf in which each tree puts it, and the geodesic similarity of two codes
is the fraction of trees with equal leaves (Dey et al. 2024, Section 4.3 and Eq. 14).
:class:`LeafIndex` computes the class masses around queries and their nearest polytopes without a
matrix of all pairs; it has two counters that return the same integers, compiled by numba, and takes
the cheaper one for each block of queries. The compiled loops are original to kdgraph.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from kdgraph.compilation import kernel
from kdgraph.geometry.partition import map_blocks, take_rows

# Queries of a block: enough to hide the cost of a task, few enough that two cores stay busy on
# 1,000 rows.
_QUERY_BLOCK = 128
# A block has a query for at most so many polytopes, so that the memory of the counts costs nothing.
_POLYTOPES_PER_QUERY = 256
# Queries that are compared with a tile of polytopes one after the other, while it is in cache.
_QUERIES_PER_TILE = 32
# Polytopes that are compared with one query at once; the fastest of 256 to 2,048.
_POLYTOPES_PER_TILE = 1024
# Above this fraction of polytopes × trees, the comparison with all polytopes is faster than the
# walk over leaf members: a comparison takes 0.020 ns, a visited member 0.85 ns.
_MAX_VISIT_FRACTION = 0.024
# Rows that :func:`leaf_similarity` compares with one query after the other, while they are
# in the cache of a core.
_SIMILARITY_TILE = 512

compiled = kernel(boundscheck=False)


@compiled
def _index_tree(nodes, size, leaf_number, starts, members, n_leaves):
    """Assign numbers to the populated leaves of one tree and list the polytopes in each.

    Leaves are numbered from ``n_leaves`` on; returned is the number of leaves so far. ``nodes``:
    Int[p], the node of each polytope, -1 for none. ``size``: Int[nodes], zeros. Filled are
    ``leaf_number``:
    Int[nodes], -1 where no polytope lies; ``starts``, the end of each leaf's members, from
    ``n_leaves + 1`` on; and ``members``, ascending in each leaf.
    """
    # A counting sort by leaf. After the second loop ``size`` holds the next free position of each
    # leaf instead of the number of its members.
    for i in range(nodes.shape[0]):
        if nodes[i] >= 0:
            size[nodes[i]] += 1
    position = starts[n_leaves]
    first = position
    for node in range(leaf_number.shape[0]):
        leaf_number[node] = -1
        if size[node] > 0:
            leaf_number[node] = n_leaves
            n_leaves += 1
            position, size[node] = position + size[node], position
            starts[n_leaves] = position
    for i in range(nodes.shape[0]):
        if nodes[i] >= 0:
            members[size[nodes[i]] - first] = i
            size[nodes[i]] += 1
    return n_leaves


@compiled
def count_by_members(leaves, starts, members, counts, met):
    """Add the matches of one query with all polytopes to ``counts``: UInt16[p].

    It walks over the members of the query's leaves. ``leaves``: Int[T], leaf numbers of the query
    counted over all trees, negative where no polytope lies in that leaf; ``starts``: Int[leaves +
    1] and ``members``: polytopes of each leaf. Returned is the number of polytopes that share a
    leaf with the query; they are listed in ``met``: Int[p + 1].
    """
    # The list makes the cost independent of the number of polytopes. Each member is written to its
    # end, and stays there if it is new.
    n_met = 0
    for t in range(leaves.shape[0]):
        leaf = leaves[t]
        if leaf >= 0:
            for j in range(starts[leaf], starts[leaf + 1]):
                i = members[j]
                count = counts[i]
                met[n_met] = i
                n_met += count == 0
                counts[i] = count + np.uint16(1)
    return n_met


@compiled
def _count_by_comparison(leaves, tiles, counts):
    """Add the matches of an even number of queries with all polytopes to ``counts``: UInt16[m, p].

    It compares all leaves. ``leaves``: [m, T], leaf numbers in each tree, T a multiple of 4;
    ``tiles``: [tiles, T, w], those of the polytopes, w at a time.
    """
    # A tile stays in cache while all queries pass over it. Each step takes two queries and four
    # trees: values that are read are used twice, and counts are written once for four trees (1.35
    # times as fast as one by one). The inner loop over polytopes runs at SIMD speed.
    width = tiles.shape[2]
    for s in range(tiles.shape[0]):
        for q in range(0, leaves.shape[0], 2):
            counts_a = counts[q, s * width : (s + 1) * width]
            counts_b = counts[q + 1, s * width : (s + 1) * width]
            a, b = leaves[q], leaves[q + 1]
            for t in range(0, leaves.shape[1], 4):
                c0, c1, c2, c3 = tiles[s, t], tiles[s, t + 1], tiles[s, t + 2], tiles[s, t + 3]
                a0, a1, a2, a3 = a[t], a[t + 1], a[t + 2], a[t + 3]
                b0, b1, b2, b3 = b[t], b[t + 1], b[t + 2], b[t + 3]
                for i in range(width):
                    x0, x1, x2, x3 = c0[i], c1[i], c2[i], c3[i]
                    counts_a[i] += (
                        np.uint16(x0 == a0)
                        + np.uint16(x1 == a1)
                        + np.uint16(x2 == a2)
                        + np.uint16(x3 == a3)
                    )
                    counts_b[i] += (
                        np.uint16(x0 == b0)
                        + np.uint16(x1 == b1)
                        + np.uint16(x2 == b2)
                        + np.uint16(x3 == b3)
                    )


@compiled
def _collect_histogram(counts, polytopes, histogram):
    """Add the mass of all polytopes to ``histogram``, and return the nearest anchor or -1.

    ``histogram``: Float[K, T + 1], masses by class and count. Only polytopes whose ``number`` is
    below ``anchors`` can be nearest; ties go to the lowest number. ``counts`` is set to 0.
    """
    number, anchors, class_starts, class_of, weight_of = polytopes
    nearest, max_count = -1, 0
    # Most counts are 0, so that four 16-bit counts are tested at a time, as one 64-bit word.
    words = counts.view(np.uint64)
    for w in range(words.shape[0]):
        if words[w] == 0:
            continue
        for i in range(4 * w, 4 * w + 4):
            count = counts[i]
            if count == 0:
                continue
            if number[i] < anchors and (
                count > max_count or (count == max_count and number[i] < nearest)
            ):
                nearest, max_count = number[i], count
            for j in range(class_starts[i], class_starts[i + 1]):
                histogram[class_of[j], count] += weight_of[j]
        words[w] = 0
    return nearest


@compiled
def _collect_members(counts, met, polytopes, is_integer, histogram):
    """Do what :func:`_collect_histogram` does for the polytopes ``met``: Int[m]."""
    # In ascending order the sums are those of the comparison with all polytopes, to the last bit.
    # Sums of integers do not depend on the order.
    number, anchors, class_starts, class_of, weight_of = polytopes
    if not is_integer:
        met.sort()
    nearest, max_count = -1, 0
    for i in met:
        count = counts[i]
        counts[i] = 0
        if number[i] < anchors and (
            count > max_count or (count == max_count and number[i] < nearest)
        ):
            nearest, max_count = number[i], count
        for j in range(class_starts[i], class_starts[i + 1]):
            histogram[class_of[j], count] += weight_of[j]
    return nearest


@compiled
def _contract_histogram(histogram, powers, masses):
    """Add Σ_count ``histogram``[·, count] · ``powers``[count, ·] to ``masses``: Float[K, k].

    ``histogram``: Float[K, T + 1], which is set to 0; ``powers``: Float[T + 1, k].
    """
    # Counts are added in ascending order: the result is then the same to the last bit for any block
    # size and any number of threads.
    for y in range(histogram.shape[0]):
        for count in range(1, histogram.shape[1]):
            mass = histogram[y, count]
            if mass != 0.0:
                histogram[y, count] = 0.0
                for k in range(powers.shape[1]):
                    masses[y, k] += mass * powers[count, k]


@compiled
def query_by_members(leaves, starts, members, polytopes, is_integer, powers, masses, nearest):
    """Fill the masses and nearest polytopes of queries by a walk over the members of their leaves.

    The cost is the sum of the sizes of these leaves. ``leaves``: Int[m, T], leaf numbers of the
    queries; polytopes ``members[starts[l] : starts[l + 1]]`` are in leaf l; ``powers``:
    Float[T + 1, k], (c / T)^exponent for c common leaves. Class masses are added to ``masses``:
    Float[m, K, k], and ``nearest``: Int[m] is filled, with -1 if no tree has a common leaf.

    ``polytopes`` are their numbers, Int[p], of which those below ``anchors`` can be nearest, the
    lowest of several, and then their masses: polytope i has ``weight_of[j]`` of classes
    ``class_of[j]`` for j from ``class_starts[i]`` to ``class_starts[i + 1]``, all of them integers
    if ``is_integer``.
    """
    n = polytopes[0].shape[0]
    counts, met = np.zeros(n, np.uint16), np.empty(n + 1, np.int32)
    histogram = np.zeros((masses.shape[1], powers.shape[0]))
    for q in range(leaves.shape[0]):
        n_met = count_by_members(leaves[q], starts, members, counts, met)
        nearest[q] = _collect_members(counts, met[:n_met], polytopes, is_integer, histogram)
        _contract_histogram(histogram, powers, masses[q])


@compiled
def query_by_comparison(leaves, tiles, polytopes, powers, masses, nearest):
    """Fill the masses and nearest polytopes of queries by comparison with all polytopes.

    The cost is fixed at polytopes × trees, at SIMD speed. ``leaves``: Int[m', T'], leaf numbers of
    the queries in each tree, padded to an even number of rows and to the width of ``tiles``:
    Int[tiles, T', w], leaf numbers of the polytopes. Others are as in :func:`query_by_members`.
    """
    counts = np.zeros((_QUERIES_PER_TILE, tiles.shape[0] * tiles.shape[2]), np.uint16)
    histogram = np.zeros((masses.shape[1], powers.shape[0]))
    for first in range(0, nearest.shape[0], _QUERIES_PER_TILE):
        tile_queries = leaves[first : first + _QUERIES_PER_TILE]
        _count_by_comparison(tile_queries, tiles, counts)
        for q in range(min(tile_queries.shape[0], nearest.shape[0] - first)):
            query_counts = counts[q, : 4 * ((polytopes[0].shape[0] + 3) // 4)]
            nearest[first + q] = _collect_histogram(query_counts, polytopes, histogram)
            _contract_histogram(histogram, powers, masses[first + q])


class LeafIndex:
    """Index of a forest's polytopes by the leaves that contain them.

    No array of size polytopes × polytopes is ever allocated.

    Parameters
    ----------
    codes : Int[n, T]
        Node of each tree that contains each row; -1 for a tree in which the row does not count. A
        code that is not a node of its tree raises ValueError.
    class_weights : Float[p, K]
        (Weighted) number of rows of each class in each polytope.
    leaf_starts : Int[T + 1]
        Node numbers of tree t begin at ``leaf_starts[t]``.
    rows : Int[p], default=None
        Rows of ``codes`` that represent the polytopes; they are read in place, not copied. None for
        all rows.
    n_anchors : int, default=None
        Only the first ``n_anchors`` polytopes can be the nearest one; the others only contribute
        their mass. None for all.
    n_jobs : int, default=None
        Threads over blocks of queries. Results are equal to the last bit for any number.

    Examples
    --------
    >>> codes = np.array([[1, 1], [1, 2], [2, 2]])  # three rows in two trees
    >>> index = LeafIndex(codes, np.eye(3), np.array([0, 3, 6]))
    >>> masses, nearest = index.query(np.array([[1, 1]]), np.array([2.0]))
    >>> masses[0, :, 0], nearest
    (array([1.  , 0.25, 0.  ]), array([0]))
    """

    def __init__(
        self,
        codes: np.ndarray,
        class_weights: np.ndarray,
        leaf_starts: np.ndarray,
        *,
        rows: np.ndarray | None = None,
        n_anchors: int | None = None,
        n_jobs: int | None = None,
    ):
        self.n_trees = codes.shape[1]
        self.n_polytopes, self.n_classes = class_weights.shape
        self.n_anchors = self.n_polytopes if n_anchors is None else n_anchors
        self.n_jobs = n_jobs
        self._leaf_starts = leaf_starts
        rows = np.arange(self.n_polytopes) if rows is None else rows
        # Node numbers grow depth first, so that the leaves of the first trees order space:
        # neighbours in space become neighbours in memory (1.2 times as fast).
        self._polytope_ids = np.lexsort(
            (codes[rows, min(1, self.n_trees - 1)], codes[rows, 0])
        ).astype(np.int64)
        self._codes, self._representatives = codes, rows[self._polytope_ids]
        self._tiles: np.ndarray | None = None
        # The compiled loops do not check bounds: with other codes they would write beyond their
        # arrays.
        if codes.size and (codes.min() < -1 or (codes.max(axis=0) >= np.diff(leaf_starts)).any()):
            raise ValueError("codes name nodes that their trees do not have")
        self._build_leaf_members()
        class_weights = class_weights[self._polytope_ids]
        row, self._class_of = np.nonzero(class_weights)
        self._weight_of = np.ascontiguousarray(class_weights[row, self._class_of], dtype=np.float64)
        self._class_starts = np.searchsorted(row, np.arange(self.n_polytopes + 1))
        self._is_integer = bool((self._weight_of == np.rint(self._weight_of)).all())

    def _build_leaf_members(self) -> None:
        # An inverted index: ``_leaf_number`` maps a node (counted over all trees) to the number of
        # its leaf, -1 where no polytope lies; the members of leaf l are ``_members[_starts[l] :
        # _starts[l + 1]]``. Members of 16 bits halve the memory traffic: 1.4 times as fast.
        member_dtype = np.uint16 if self.n_polytopes <= 2**16 else np.int32
        n_members = 0
        for t in range(self.n_trees):
            n_members += np.count_nonzero(self._codes[self._representatives, t] >= 0)
        self._members = np.empty(n_members, dtype=member_dtype)
        self._leaf_number = np.empty(self._leaf_starts[-1], dtype=np.int32)
        self._first_leaf = np.zeros(self.n_trees, dtype=np.int32)
        starts, n_leaves = np.zeros(self._leaf_starts[-1] + 1, dtype=np.int64), 0
        for t in range(self.n_trees):
            self._first_leaf[t] = n_leaves
            nodes = slice(self._leaf_starts[t], self._leaf_starts[t + 1])
            size = np.zeros(nodes.stop - nodes.start, dtype=np.int64)
            n_leaves = _index_tree(
                self._codes[self._representatives, t],
                size,
                self._leaf_number[nodes],
                starts,
                self._members[starts[n_leaves] :],
                n_leaves,
            )
        self._starts = starts[: n_leaves + 1].copy()

    def query(self, codes: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the class masses of each query at every exponent, and its nearest polytope.

        See :class:`~kdgraph.geometry.partition.PolytopeIndex`; codes are Int[m, T]. The nearest
        polytope is the anchor that shares most leaves, of several the lowest; -1 if none shares
        any.
        """
        # K takes only the T + 1 values count / T. So one pass sorts masses by class and count, and
        # every exponent then costs a sum over counts instead of a power for each polytope.
        powers = (np.arange(self.n_trees + 1) / self.n_trees)[:, None] ** np.asarray(
            exponents, dtype=np.float64
        )
        masses = np.zeros((len(codes), self.n_classes, powers.shape[1]))
        nearest = np.full(len(codes), -1, dtype=np.int64)
        # Queries are sorted by the leaf of the first tree, so that those of a block visit the same
        # leaves: 2.8 times as fast on 20,000 shuffled rows.
        order = np.argsort(codes[:, 0], kind="stable")
        blocks = self._blocks_of(order)
        query_block = partial(self._query_block, powers=powers)
        for rows, (block_masses, block_nearest) in map_blocks(
            query_block, codes, blocks, self.n_jobs
        ):
            masses[rows], nearest[rows] = block_masses, block_nearest
        return masses, nearest

    def _blocks_of(self, order: np.ndarray) -> list[np.ndarray]:
        """Return blocks of queries whose counts, two bytes for each polytope, are set to 0 once."""
        size = max(_QUERY_BLOCK, self.n_polytopes // _POLYTOPES_PER_QUERY)
        return [order[start : start + size] for start in range(0, len(order), size)]

    def _query_block(self, codes: np.ndarray, powers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return masses and nearest polytopes of a few queries, by the cheaper counter."""
        masses = np.zeros((len(codes), self.n_classes, powers.shape[1]))
        nearest = np.full(len(codes), -1, dtype=np.int64)
        leaves = self._leaves_of(codes)
        classes = self._class_starts, self._class_of, self._weight_of
        polytopes = self._polytope_ids, self.n_anchors, *classes
        # Large leaves, as of shallow trees, make the walk over members expensive: its exact cost is
        # the number of visited members, which is known here.
        sizes = self._starts[leaves + 1] - self._starts[leaves]
        visits = sizes[leaves >= 0].sum()
        if is_cheaper_by_members(visits / (len(codes) * self.n_trees), self.n_polytopes):
            members = leaves, self._starts, self._members
            query_by_members(*members, polytopes, self._is_integer, powers, masses, nearest)
        else:
            tiles = self._comparison_tiles()
            padded = self._pad_queries(leaves, tiles)
            query_by_comparison(padded, tiles, polytopes, powers, masses, nearest)
        return masses, nearest

    def _leaves_of(self, codes: np.ndarray) -> np.ndarray:
        """Return the numbers of the leaves, Int[m, T], -1 for those without a polytope."""
        leaves = self._leaf_number[np.maximum(codes, 0) + self._leaf_starts[:-1]]
        return np.ascontiguousarray(np.where(codes >= 0, leaves, -1), dtype=np.int32)

    def _tree_local_leaves(self, leaves: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Return leaf numbers in each tree, [n, T], the maximum of ``dtype`` for empty leaves."""
        return np.where(leaves >= 0, leaves - self._first_leaf, np.iinfo(dtype).max).astype(dtype)

    def _pad_queries(self, leaves: np.ndarray, tiles: np.ndarray) -> np.ndarray:
        """Return tree-local leaves of the queries, [n, T], padded as the comparison needs them."""
        # Padding and empty leaves have the maximum of the dtype, the padding of tiles the number
        # below it: neither equals a leaf of a polytope, so that neither adds a match.
        padded = np.full(
            (_round_up(len(leaves), 2), tiles.shape[1]),
            np.iinfo(tiles.dtype).max,
            dtype=tiles.dtype,
        )
        padded[: len(leaves), : self.n_trees] = self._tree_local_leaves(leaves, tiles.dtype)
        return padded

    def _comparison_tiles(self) -> np.ndarray:
        """Return the tree-local leaves of the polytopes, [tiles, T, w]; built at the first call."""
        if self._tiles is None:
            dtype = np.dtype(np.uint16 if self.n_polytopes < 2**16 - 1 else np.int32)
            n_tiles = -(-self.n_polytopes // _POLYTOPES_PER_TILE)
            tiles = np.full(
                (n_tiles, _round_up(self.n_trees, 4), _POLYTOPES_PER_TILE),
                np.iinfo(dtype).max - 1,
                dtype=dtype,
            )
            for s in range(n_tiles):
                codes = take_rows(
                    self._codes,
                    self._representatives[s * _POLYTOPES_PER_TILE : (s + 1) * _POLYTOPES_PER_TILE],
                )
                tiles[s, : self.n_trees, : len(codes)] = self._tree_local_leaves(
                    self._leaves_of(codes), dtype
                ).T
            self._tiles = tiles
        return self._tiles


def is_cheaper_by_members(meetings: float, n_polytopes: int) -> bool:
    """Return True if a query visits the members of its leaves instead of all polytopes.

    ``meetings``: members of its leaf of a tree, on average.
    """
    return meetings <= _MAX_VISIT_FRACTION * n_polytopes


def _round_up(n: int, step: int) -> int:
    return step * -(-n // step)


def leaf_similarity(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return K(r, s) = t_rs / T (Eq. 14) of codes Int[m, T] and Int[n, T], Float[m, n].

    It is the fraction of trees in which two codes have the same leaf, as a dense matrix, so that m
    × n must be small.
    """
    # The compiled loop takes an even number of queries and a multiple of four trees. Padding
    # is -1 in ``a`` and -2 in ``b``, so that it never matches.
    n_trees = a.shape[1]
    width = max(1, min(_SIMILARITY_TILE, len(b)))
    n_tiles, padded_trees = -(-len(b) // width), _round_up(n_trees, 4)
    rows = np.full((_round_up(len(a), 2), padded_trees), -1, dtype=np.int32)
    rows[: len(a), :n_trees] = a
    columns = np.full((n_tiles * width, padded_trees), -2, dtype=np.int32)
    columns[: len(b), :n_trees] = b
    counts = np.zeros((len(rows), len(columns)), dtype=np.uint16)
    tiles = np.ascontiguousarray(columns.reshape(n_tiles, width, padded_trees).transpose(0, 2, 1))
    _count_by_comparison(rows, tiles, counts)
    return counts[: len(a), : len(b)] / n_trees
