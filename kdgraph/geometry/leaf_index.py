"""Index of the polytopes of a tree ensemble by the leaves that contain them.

The code of a row is the leaf in which each tree puts it, and the geodesic similarity of two codes
is the fraction of trees with equal leaves (Dey et al. 2024, Section 4.3 and Eq. 14).
:class:`LeafIndex` computes the class masses around queries and their nearest polytopes without a
matrix of all pairs; it has two counters that return the same integers, compiled by numba, and takes
the cheaper one for each block of queries.

A tree of a bagged forest is fitted on a bootstrap sample; a training row that is not in the sample
is *out of bag*, and the tree is independent of its label
(:func:`~kdgraph.base.frozen.out_of_bag_rows`). :class:`RowIndex` compares a new row with each row
of the index in the trees that count for the latter, and :class:`OutOfBagIndex` a pair of training
rows in the trees for which both are out of bag. They and the compiled loops are original to
kdgraph.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from kdgraph.geometry.leaf_comparison import (
    POLYTOPES_PER_TILE,
    compiled,
    contract_histogram,
    empty_tiles,
    pad_queries,
    query_by_comparison,
)
from kdgraph.geometry.partition import count_ones, map_blocks, pack_bits, take_rows

# Queries of a block: enough to hide the cost of a task, few enough that two cores stay busy on
# 1,000 rows.
_QUERY_BLOCK = 128
# A block has a query for at most so many polytopes, so that the memory of the counts costs nothing.
_POLYTOPES_PER_QUERY = 256
# Above this fraction of polytopes × trees, the comparison with all polytopes is faster than the
# walk over leaf members: a comparison takes 0.020 ns, a visited member 0.85 ns.
_MAX_VISIT_FRACTION = 0.024
# Sums at so many exponents are added pair by pair; at more of them, as in a search, the weights of
# equal fractions are added first.
_MAX_EXPONENTS_OF_PAIRS = 2


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
        contract_histogram(histogram, powers, masses[q])


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
        check_nodes(codes, leaf_starts, lowest=IN_BAG)
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
            padded = pad_queries(self._tree_local_leaves(leaves, tiles.dtype), tiles)
            query_by_comparison(padded, tiles, polytopes, powers, masses, nearest)
        return masses, nearest

    def _leaves_of(self, codes: np.ndarray) -> np.ndarray:
        """Return the numbers of the leaves, Int[m, T], -1 for those without a polytope."""
        leaves = self._leaf_number[np.maximum(codes, 0) + self._leaf_starts[:-1]]
        return np.ascontiguousarray(np.where(codes >= 0, leaves, -1), dtype=np.int32)

    def _tree_local_leaves(self, leaves: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Return leaf numbers in each tree, [n, T], the maximum of ``dtype`` for empty leaves."""
        return np.where(leaves >= 0, leaves - self._first_leaf, np.iinfo(dtype).max).astype(dtype)

    def _comparison_tiles(self) -> np.ndarray:
        """Return the tree-local leaves of the polytopes, [tiles, T, w]; built at the first call."""
        if self._tiles is None:
            tiles = empty_tiles(self.n_polytopes, self.n_trees)
            for tile, first in zip(
                tiles, range(0, self.n_polytopes, POLYTOPES_PER_TILE), strict=True
            ):
                rows = self._representatives[first : first + POLYTOPES_PER_TILE]
                leaves = self._leaves_of(take_rows(self._codes, rows))
                tile[: self.n_trees, : len(rows)] = self._tree_local_leaves(leaves, tiles.dtype).T
            self._tiles = tiles
        return self._tiles


def check_nodes(codes: np.ndarray, leaf_starts: np.ndarray, *, lowest: int = 0) -> None:
    """Raise ValueError for codes, Int[n, T], that are no nodes of their trees.

    Compiled loops do not check bounds: with other codes they would write beyond their arrays.
    """
    if codes.size and (codes.min() < lowest or (codes.max(axis=0) >= np.diff(leaf_starts)).any()):
        raise ValueError("codes name nodes that their trees do not have")


def is_cheaper_by_members(meetings: float, n_polytopes: int) -> bool:
    """Return True if a query visits the members of its leaves instead of all polytopes.

    ``meetings``: members of its leaf of a tree, on average.
    """
    return meetings <= _MAX_VISIT_FRACTION * n_polytopes


IN_BAG = -1
"""Code of a training row in a tree that was fitted on it."""


@compiled
def _query_new_rows(codes, leaves_of_nodes, rows, n_out, begin, table, masses, nearest):
    """Fill the class masses of new rows, and their nearest rows of the index.

    ``codes``: Int[m, T], nodes of the queries; ``leaves_of_nodes``: Int[T + 1] and Int[nodes], -1
    for nodes without a row; ``rows``: members of leaves, and numbers, Int[n], classes and weights
    of the rows, no weights if all are 1; ``n_out``: Int[n], number of trees that count for each;
    ``begin``: Int[n], where the powers of its fractions begin in ``table``, Float[f, k]. Filled are
    ``masses``: Float[m, K, k], and ``nearest``: Int[m], unless it is empty.
    """
    # All trees count for a new row, so that the denominator of a pair is that of the other row. A
    # query meets thousands of rows, in an order of leaves: what is read of each is small and in as
    # few arrays as possible, and their sums stay in registers or the cache until the row is done.
    leaf_starts, leaf_number = leaves_of_nodes
    starts, members, number, classes, weights = rows
    n = classes.shape[0]
    counts, met = np.zeros(n, np.uint16), np.empty(n + 1, np.int32)
    leaves, sums = np.empty(codes.shape[1], np.int32), np.empty(masses.shape[1:])
    histogram = np.zeros((masses.shape[1], table.shape[0]))
    for q in range(codes.shape[0]):
        for t in range(codes.shape[1]):
            leaves[t] = leaf_number[leaf_starts[t] + codes[q, t]]
        pairs = met[: count_by_members(leaves, starts, members, counts, met)]
        if nearest.shape[0] > 0:
            nearest[q] = _most_similar(pairs, counts, n_out, number)
        sums[:] = 0.0
        few = table.shape[1] <= _MAX_EXPONENTS_OF_PAIRS
        if few and masses.shape[1] == 2:
            _add_two_classes(pairs, counts, classes, weights, begin, table, sums)
        elif few or table.shape[0] > pairs.shape[0]:
            for i in pairs:
                weight = weights[i] if weights.shape[0] > 0 else 1.0
                fraction, y = begin[i] + counts[i], classes[i]
                for k in range(table.shape[1]):
                    sums[y, k] += weight * table[fraction, k]
        else:
            for i in pairs:
                weight = weights[i] if weights.shape[0] > 0 else 1.0
                histogram[classes[i], begin[i] + counts[i]] += weight
            _contract(histogram, table, sums)
        for i in pairs:
            counts[i] = 0
        masses[q] = sums


@compiled
def _add_two_classes(pairs, counts, classes, weights, begin, table, sums):
    """Add the weighted powers of ``pairs``: Int[m] to ``sums``: Float[2, k]."""
    # An address that depends on the class makes each addition wait for the one before it to reach
    # memory. Two sums in registers take two thirds of the time of the loop over pairs.
    for k in range(table.shape[1]):
        first, second = 0.0, 0.0
        for i in pairs:
            value = table[begin[i] + counts[i], k]
            if weights.shape[0] > 0:
                value *= weights[i]
            of_second = value * classes[i]
            first += value - of_second
            second += of_second
        sums[0, k], sums[1, k] = first, second


@compiled
def _contract(histogram, table, sums):
    """Add Σ_f ``histogram``[·, f] · ``table``[f, ·] to ``sums``, and set ``histogram`` to 0."""
    for y in range(histogram.shape[0]):
        for fraction in range(histogram.shape[1]):
            mass = histogram[y, fraction]
            if mass != 0.0:
                histogram[y, fraction] = 0.0
                for k in range(table.shape[1]):
                    sums[y, k] += mass * table[fraction, k]


@compiled
def _most_similar(met, counts, n_out, number):
    """Return the number of the row with the largest count / n_out, of several the lowest; or -1."""
    best, best_count, best_trees = -1, 0, 1
    for i in met:
        # Fractions are compared as integers, so that ties are exact.
        ahead = np.int64(counts[i]) * best_trees - best_count * n_out[i]
        if ahead > 0 or (ahead == 0 and number[i] < best):
            best, best_count, best_trees = number[i], np.int64(counts[i]), n_out[i]
    return best


@compiled
def _query_training_rows(leaves, query_masks, query_ids, rows, masks, powers, masses):
    """Fill the class masses of training rows, each without the row itself.

    ``leaves``: Int[m, T], leaf numbers of the queries, negative in bag; ``query_masks``: UInt64[m,
    W] and ``masks``: UInt64[n, W], a bit for each tree that a row is out of bag in; ``query_ids``:
    Int[m], numbers of the queries. Others are as in :func:`_query_new_rows`.
    """
    starts, members, number, classes, weights = rows
    n, n_classes, n_fractions = number.shape[0], masses.shape[1], powers.shape[0] ** 2
    counts, met = np.zeros(n, np.uint16), np.empty(n + 1, np.int32)
    partners, fractions = np.empty(n, np.int64), np.empty(n, np.int64)
    order = np.empty(n, np.int64)
    class_ends = np.empty(n_classes + 1, np.int64)
    # Most pairs have one of few fractions c / trees, so that weights are summed by class and
    # fraction first, and each exponent then costs a sum over fractions instead of over pairs: 4
    # times as fast at the 24 exponents of a search. The fractions that occur are listed.
    histogram = np.zeros(n_fractions)
    is_listed, listed = np.zeros(n_fractions, np.bool_), np.empty(n_fractions, np.int64)
    for q in range(leaves.shape[0]):
        n_pairs = 0
        class_ends[:] = 0
        for i in met[: count_by_members(leaves[q], starts, members, counts, met)]:
            count = np.int64(counts[i])
            counts[i] = 0
            if number[i] == query_ids[q]:
                continue
            # Each pair has its own denominator: the trees for which both are out of bag.
            trees = 0
            for b in range(masks.shape[1]):
                trees += count_ones(masks[i, b] & query_masks[q, b])
            partners[n_pairs], fractions[n_pairs] = i, trees * powers.shape[0] + count
            class_ends[classes[i] + 1] += 1
            n_pairs += 1
        # A counting sort of the pairs by class: afterwards the pairs of class y are those before
        # class_ends[y], from the end of the class before it on.
        for y in range(n_classes):
            class_ends[y + 1] += class_ends[y]
        for j in range(n_pairs):
            y = classes[partners[j]]
            order[class_ends[y]] = j
            class_ends[y] += 1
        first = 0
        for y in range(n_classes):
            n_listed = 0
            for o in range(first, class_ends[y]):
                fraction = fractions[order[o]]
                histogram[fraction] += weights[partners[order[o]]]
                if not is_listed[fraction]:
                    is_listed[fraction] = True
                    listed[n_listed] = fraction
                    n_listed += 1
            first = class_ends[y]
            for j in range(n_listed):
                fraction = listed[j]
                trees, count = fraction // powers.shape[0], fraction % powers.shape[0]
                for k in range(powers.shape[2]):
                    masses[q, y, k] += histogram[fraction] * powers[trees, count, k]
                histogram[fraction] = 0.0
                is_listed[fraction] = False


class RowIndex(LeafIndex):
    """Index of rows with one class each, by the leaves of the trees that count for them.

    The similarity of a new row x and a row s of the index is the fraction of the trees that count
    for s in which both share a leaf. Rows that no tree counts for have no similarity to any row.

    ``codes``, Int[n, T], are the nodes of the rows, :data:`IN_BAG` in trees that do not count. Each
    row has a class, Int[n], of ``n_classes``, and a weight, Float[n].

    >>> codes = np.array([[1, IN_BAG, 1], [1, 2, IN_BAG], [1, 2, 2]])  # three rows in three trees
    >>> index = RowIndex(codes, [0, 1, 1], np.ones(3), 2, np.array([0, 3, 6, 9]))
    >>> index.query(np.array([[1, 1, 1]]), np.array([1.0]))[0][:, :, 0].round(2)
    array([[1.  , 0.83]])
    """

    def __init__(
        self,
        codes: np.ndarray,
        classes: np.ndarray,
        weights: np.ndarray,
        n_classes: int,
        leaf_starts: np.ndarray,
        *,
        n_jobs: int | None = None,
    ):
        class_weights = np.zeros((len(codes), n_classes))
        class_weights[np.arange(len(codes)), classes] = weights
        super().__init__(codes, class_weights, leaf_starts, n_jobs=n_jobs)
        order = self._polytope_ids
        self._n_out = (codes >= 0).sum(axis=1)[order]
        # The table of powers has the fractions of the numbers of trees that occur, one after the
        # other: the fewer, the more of it is in the first cache.
        self._numbers_of_trees, position = np.unique(self._n_out, return_inverse=True)
        self._first_power = (position * (self._n_out.max(initial=0) + 1)).astype(np.int32)
        self._classes = np.ascontiguousarray(np.asarray(classes)[order], dtype=np.int32)
        self._row_weights = np.ascontiguousarray(np.asarray(weights)[order], dtype=np.float64)
        self._has_unit_weights = bool((self._row_weights == 1).all())

    def query(
        self, codes: np.ndarray, exponents: np.ndarray, *, with_nearest: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the class masses of new rows at every exponent, and their nearest rows.

        ``codes``, Int[m, T], are without :data:`IN_BAG`. The masses, Float[m, K, k], are Σ_s K(x,
        s)^exponent · weight of s. The nearest row, Int[m], is the first one of largest similarity,
        -1 if none shares a leaf; there are none without ``with_nearest``.
        """
        masses = self._empty_masses(codes, exponents)
        nearest = np.full(len(codes) if with_nearest else 0, -1, dtype=np.int64)
        table = self._powers(self._numbers_of_trees, exponents).reshape(-1, len(exponents))
        query_block = partial(self._query_new_block, table=table, with_nearest=with_nearest)
        blocks = self._blocks_of(np.argsort(codes[:, 0], kind="stable"))
        for rows, (block_masses, block_nearest) in map_blocks(
            query_block, codes, blocks, self.n_jobs
        ):
            masses[rows] = block_masses
            if with_nearest:
                nearest[rows] = block_nearest
        return masses, nearest

    def _empty_masses(self, codes: np.ndarray, exponents: np.ndarray) -> np.ndarray:
        return np.zeros((len(codes), self.n_classes, len(exponents)))

    def _powers(self, trees: np.ndarray, exponents: np.ndarray) -> np.ndarray:
        """Return (count / trees)^exponent, Float[u, N, k], for numbers of ``trees``, Int[u]."""
        counts = np.arange(self._n_out.max(initial=0) + 1)
        fractions = np.minimum(counts / np.maximum(trees, 1)[:, None], 1.0)
        return fractions[:, :, None] ** np.asarray(exponents, dtype=np.float64)

    @property
    def _rows(self) -> tuple[np.ndarray, ...]:
        leaves = self._starts, self._members
        return *leaves, self._polytope_ids, self._classes, self._row_weights

    def _query_new_block(
        self, codes: np.ndarray, table: np.ndarray, with_nearest: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        masses = np.zeros((len(codes), self.n_classes, table.shape[1]))
        nearest = np.full(len(codes) if with_nearest else 0, -1, dtype=np.int64)
        leaves_of_nodes = self._leaf_starts, self._leaf_number
        *rows, weights = self._rows
        rows = *rows, weights[:0] if self._has_unit_weights else weights
        trees = self._n_out, self._first_power
        _query_new_rows(codes, leaves_of_nodes, rows, *trees, table, masses, nearest)
        return masses, nearest


class OutOfBagIndex(RowIndex):
    """Index of the training rows of a bagged forest by the leaves in which they are out of bag.

    New rows are compared as by :class:`RowIndex`. Two training rows are compared in the trees that
    both are out of bag in. So neither label has shaped a leaf that the pair is compared in.

    >>> codes = np.array([[1, IN_BAG, 1], [1, 2, IN_BAG], [1, 2, 2]])  # three rows in three trees
    >>> index = OutOfBagIndex(codes, [0, 1, 1], np.ones(3), 2, np.array([0, 3, 6, 9]))
    >>> index.query_training(codes, np.array([0, 1, 2]), np.array([1.0]))[:, :, 0]
    array([[0. , 1.5],
           [1. , 1. ],
           [0.5, 1. ]])
    """

    def __init__(self, codes: np.ndarray, *rows: Any, n_jobs: int | None = None):
        super().__init__(codes, *rows, n_jobs=n_jobs)
        self._masks = pack_bits([codes[self._polytope_ids] >= 0])

    def query_training(
        self, codes: np.ndarray, numbers: np.ndarray, exponents: np.ndarray
    ) -> np.ndarray:
        """Return the class masses of rows that the forest was fitted on, without their own.

        ``codes``, Int[m, T], have :data:`IN_BAG` for trees that were fitted on the row, and
        ``numbers``, Int[m], are positions among the rows of the index, -1 for a row that is not
        among them. The masses, Float[m, K, k], are Σ_{s ≠ i} K(i, s)^exponent · weight of s for
        each row i, class and exponent.
        """
        masses = self._empty_masses(codes, exponents)
        powers = self._powers(np.arange(self._n_out.max(initial=0) + 1), exponents)
        query_block = partial(self._query_training_block, powers=powers)
        queries = np.column_stack([numbers, codes])
        blocks = self._blocks_of(np.argsort(codes[:, 0], kind="stable"))
        for rows, block_masses in map_blocks(query_block, queries, blocks, self.n_jobs):
            masses[rows] = block_masses
        return masses

    def _query_training_block(self, queries: np.ndarray, powers: np.ndarray) -> np.ndarray:
        """Return masses of a few training rows, their numbers before their codes."""
        masses = np.zeros((len(queries), self.n_classes, powers.shape[2]))
        numbers, codes = queries[:, 0].astype(np.int64), queries[:, 1:]
        leaves, masks = self._leaves_of(codes), pack_bits([codes >= 0])
        _query_training_rows(leaves, masks, numbers, self._rows, self._masks, powers, masses)
        return masses
