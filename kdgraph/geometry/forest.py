"""The loops over leaf codes, compiled by numba: how many trees put a query and a polytope into the
same leaf (Dey et al., Eq. 14). Ours.

Both counters give the same integers. Their costs differ: the first one follows co-occurrence in
leaves (the sum of the leaf sizes that a query meets), the second one is fixed at polytopes × trees
but runs at SIMD speed; :mod:`kdgraph.geometry.forest` takes the cheaper.

Class masses and nearest polytopes by an inverted index from leaves to the polytopes inside them.

Forests as partitions: a code is the leaf that each tree puts a sample into.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numba import njit
from sklearn.ensemble._forest import BaseForest
from sklearn.tree import BaseDecisionTree
from sklearn.utils.validation import check_is_fitted

from kdgraph.geometry import forest as kernels
from kdgraph.geometry.partition import Locations, map_blocks, take_rows

_QUERIES_PER_TILE = 32
"""Queries that pass over a tile one after the other."""
_compiled = njit(nogil=True, cache=True, boundscheck=False)


@_compiled
def _index_tree(nodes, size, leaf_number, starts, members, n_leaves):
    """Number the populated leaves of one tree from ``n_leaves`` on, and list the polytopes in each;
    return the number of leaves so far.

    ``nodes``: Int[p], the node of each polytope; ``size``: zeros, Int[nodes]; filled are
    ``leaf_number``: Int[nodes], -1 where no polytope lies, ``starts``: where the members of each
    leaf end, from ``n_leaves + 1`` on, and ``members``, ascending in each leaf.
    """
    for i in range(nodes.shape[0]):
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
        members[size[nodes[i]] - first] = i
        size[nodes[i]] += 1
    return n_leaves


@_compiled
def _count_by_members(leaves, starts, members, counts):
    """Add to ``counts`` the matches of one query with every polytope, by walking over the members
    of its leaves.

    ``leaves``: Int[T], global leaf numbers of the query, negative where no polytope lies in that
    leaf; ``starts``: Int[leaves + 1] and ``members``: polytopes of each leaf; ``counts``:
    UInt16[p].
    """
    for t in range(leaves.shape[0]):
        leaf = leaves[t]
        if leaf >= 0:
            for j in range(starts[leaf], starts[leaf + 1]):
                counts[members[j]] += np.uint16(1)


@_compiled
def _count_by_comparison(leaves, tiles, counts):
    """Add to ``counts``: UInt16[m, p] the matches of an even number of queries with every polytope,
    by comparing all their leaves.

    ``leaves``: [m, T], leaf numbers within each tree, T a multiple of 4; ``tiles``: [tiles, T, w],
    those of the polytopes, w at a time, so that a tile stays in cache while all queries pass over
    it. Two queries and four trees to a step: what is read is used twice, and what is written is
    written once for four trees (1.35 times as fast as one by one).
    """
    width = tiles.shape[2]
    for s in range(tiles.shape[0]):
        for q in range(0, leaves.shape[0], 2):
            one, two = (
                counts[q, s * width : (s + 1) * width],
                counts[q + 1, s * width : (s + 1) * width],
            )
            a, b = leaves[q], leaves[q + 1]
            for t in range(0, leaves.shape[1], 4):
                c0, c1, c2, c3 = tiles[s, t], tiles[s, t + 1], tiles[s, t + 2], tiles[s, t + 3]
                a0, a1, a2, a3 = a[t], a[t + 1], a[t + 2], a[t + 3]
                b0, b1, b2, b3 = b[t], b[t + 1], b[t + 2], b[t + 3]
                for i in range(width):
                    x0, x1, x2, x3 = c0[i], c1[i], c2[i], c3[i]
                    one[i] += (
                        np.uint16(x0 == a0)
                        + np.uint16(x1 == a1)
                        + np.uint16(x2 == a2)
                        + np.uint16(x3 == a3)
                    )
                    two[i] += (
                        np.uint16(x0 == b0)
                        + np.uint16(x1 == b1)
                        + np.uint16(x2 == b2)
                        + np.uint16(x3 == b3)
                    )


@_compiled
def _collect_histogram(counts, number, anchors, class_starts, class_of, weight_of, histogram):
    """Sort the mass of all polytopes into ``histogram``: Float[K, T + 1] by class and count; return
    the nearest anchor, or -1.

    Clears ``counts`` behind itself and skips four zero counts at a time, for most are zero. Only
    polytopes whose ``number`` is below ``anchors`` can be nearest; ties go to the lowest number.
    """
    nearest, most = -1, 0
    words = counts.view(np.uint64)
    for w in range(words.shape[0]):
        if words[w] == 0:
            continue
        for i in range(4 * w, 4 * w + 4):
            count = counts[i]
            if count == 0:
                continue
            if number[i] < anchors and (count > most or (count == most and number[i] < nearest)):
                nearest, most = number[i], count
            for j in range(class_starts[i], class_starts[i + 1]):
                histogram[class_of[j], count] += weight_of[j]
        words[w] = 0
    return nearest


@_compiled
def _contract_histogram(histogram, powers, masses):
    """``masses``: Float[K, k] = sum over counts, in ascending order, of ``histogram``: Float[K, T +
    1] × ``powers``: Float[T + 1, k].

    A fixed order of addition keeps the result the same to the last bit for any block size and any
    number of threads. Clears ``histogram``.
    """
    for y in range(histogram.shape[0]):
        for count in range(1, histogram.shape[1]):
            mass = histogram[y, count]
            if mass != 0.0:
                histogram[y, count] = 0.0
                for k in range(powers.shape[1]):
                    masses[y, k] += mass * powers[count, k]


@_compiled
def query_by_members(
    leaves,
    starts,
    members,
    number,
    anchors,
    class_starts,
    class_of,
    weight_of,
    powers,
    masses,
    nearest,
):
    """Class masses and nearest polytope for a block of queries ``leaves``: Int[m, T], by the
    members of leaves.
    """
    counts = np.zeros(4 * ((number.shape[0] + 3) // 4), np.uint16)
    histogram = np.zeros((masses.shape[1], powers.shape[0]))
    for q in range(leaves.shape[0]):
        _count_by_members(leaves[q], starts, members, counts)
        nearest[q] = _collect_histogram(
            counts, number, anchors, class_starts, class_of, weight_of, histogram
        )
        _contract_histogram(histogram, powers, masses[q])


@_compiled
def query_by_comparison(
    leaves, tiles, number, anchors, class_starts, class_of, weight_of, powers, masses, nearest
):
    """As :func:`query_by_members`, by comparison with every polytope, ``_TOGETHER`` queries at a
    time.
    """
    counts = np.zeros((_QUERIES_PER_TILE, tiles.shape[0] * tiles.shape[2]), np.uint16)
    histogram = np.zeros((masses.shape[1], powers.shape[0]))
    for first in range(0, nearest.shape[0], _QUERIES_PER_TILE):
        some = leaves[first : first + _QUERIES_PER_TILE]
        _count_by_comparison(some, tiles, counts)
        for q in range(min(some.shape[0], nearest.shape[0] - first)):
            nearest[first + q] = _collect_histogram(
                counts[q, : 4 * ((number.shape[0] + 3) // 4)],
                number,
                anchors,
                class_starts,
                class_of,
                weight_of,
                histogram,
            )
            _contract_histogram(histogram, powers, masses[first + q])


_QUERY_BLOCK = 128
"""Queries to a block: enough to hide the cost of a task, few enough that two cores stay busy on
1,000 rows.
"""
_MAX_VISIT_FRACTION = 0.024
"""Above this share of polytopes × trees, comparing with all polytopes is faster: 0.020 ns a
comparison against 0.85 ns a member visited.
"""
_POLYTOPES_PER_TILE = 1024
"""Polytopes that are compared with one query at once; 256 to 2,048 were tried, this one was the
fastest.
"""


class LeafIndex:
    """Polytopes of a forest, found by the leaves they lie in; no array of size polytopes ×
    polytopes is ever made. Ours.

    Parameters
    ----------
    codes : Int[n, T], the node of each tree that a row lies in.
    class_weights : Float[p, K], the (weighted) number of rows of each class in each polytope.
    leaf_starts : Int[T + 1], node numbers of tree t begin at ``leaf_starts[t]``.
    rows : Int[p], the rows of ``codes`` that stand for the polytopes (default: all); they are read
    where they are, not copied.
    n_anchors : only the first of the polytopes can be the nearest one (default: all); the others
    lend their mass.
    n_jobs : threads over blocks of queries; results are equal to the last bit for any number.
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
        # Node numbers grow depth first, so the first trees' leaves order space: neighbours lie
        # together in memory (1.2 times as fast).
        self._polytope_ids = np.lexsort(
            (codes[rows, min(1, self.n_trees - 1)], codes[rows, 0])
        ).astype(np.int64)
        self._codes, self._representatives = codes, rows[self._polytope_ids]
        self._tiles: np.ndarray | None = None
        if codes.size and (codes.min() < 0 or (codes.max(axis=0) >= np.diff(leaf_starts)).any()):
            raise ValueError(
                "codes name nodes that their trees do not have"
            )  # the kernels below would write beyond their arrays
        self._build_leaf_members()
        class_weights = class_weights[self._polytope_ids]
        row, self._class_of = np.nonzero(class_weights)
        self._weight_of = np.ascontiguousarray(class_weights[row, self._class_of], dtype=np.float64)
        self._class_starts = np.searchsorted(row, np.arange(self.n_polytopes + 1))

    def _build_leaf_members(self) -> None:
        """Number the populated leaves 0, 1, … over all trees and list the polytopes inside each.

        ``_leaf_number`` maps a node (counted over all trees) to its leaf's number, -1 where no
        polytope lies.
        """
        narrow = (
            np.uint16 if self.n_polytopes <= 2**16 else np.int32
        )  # half the memory traffic is 1.4 times the speed
        self._members = np.empty(self.n_trees * self.n_polytopes, dtype=narrow)
        self._leaf_number = np.empty(self._leaf_starts[-1], dtype=np.int32)
        self._first_leaf = np.zeros(self.n_trees, dtype=np.int32)
        starts, n_leaves = np.zeros(self._leaf_starts[-1] + 1, dtype=np.int64), 0
        for t in range(self.n_trees):
            self._first_leaf[t] = n_leaves
            nodes = slice(self._leaf_starts[t], self._leaf_starts[t + 1])
            members = self._members[t * self.n_polytopes : (t + 1) * self.n_polytopes]
            size = np.zeros(nodes.stop - nodes.start, dtype=np.int64)
            n_leaves = kernels._index_tree(
                self._codes[self._representatives, t],
                size,
                self._leaf_number[nodes],
                starts,
                members,
                n_leaves,
            )
        self._starts = starts[: n_leaves + 1].copy()

    def query(self, codes: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Class masses of each query at every exponent, and its nearest polytope, in one pass: K
        takes only T + 1 values.

        Parameters
        ----------
        codes : Int[m, T], the queries.
        exponents : Float[k]; a polytope weighs K(query, polytope)^exponent (Eq. 15).

        Returns
        -------
        masses : Float[m, K, k], sum over polytopes of class weights × K^exponent.
        nearest : Int[m], the anchor that shares most leaves (of several the lowest), -1 if none
            shares any.
        """
        powers = (np.arange(self.n_trees + 1) / self.n_trees)[:, None] ** np.asarray(
            exponents, dtype=np.float64
        )
        masses = np.zeros((len(codes), self.n_classes, powers.shape[1]))
        nearest = np.full(len(codes), -1, dtype=np.int64)
        order = np.argsort(
            codes[:, 0], kind="stable"
        )  # neighbours in space meet the same leaves: 2.8 times as fast on 20,000 shuffled rows
        blocks = [
            order[start : start + _QUERY_BLOCK] for start in range(0, len(codes), _QUERY_BLOCK)
        ]

        for rows, (mass, closest) in map_blocks(
            partial(self._query_block, powers=powers), codes, blocks, self.n_jobs
        ):
            masses[rows], nearest[rows] = mass, closest
        return masses, nearest

    def _query_block(self, codes: np.ndarray, powers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Masses and nearest polytopes of a few queries, by the counter that is cheaper for
        them.
        """
        masses = np.zeros((len(codes), self.n_classes, powers.shape[1]))
        nearest = np.full(len(codes), -1, dtype=np.int64)
        leaves = np.ascontiguousarray(self._leaf_number[codes + self._leaf_starts[:-1]])
        classes = (
            self._polytope_ids,
            self.n_anchors,
            self._class_starts,
            self._class_of,
            self._weight_of,
        )
        sizes = self._starts[leaves + 1] - self._starts[leaves]
        visits = sizes[leaves >= 0].sum()
        if visits <= _MAX_VISIT_FRACTION * len(codes) * self.n_polytopes * self.n_trees:
            kernels.query_by_members(
                leaves, self._starts, self._members, *classes, powers, masses, nearest
            )
        else:
            tiles = self._comparison_tiles()
            kernels.query_by_comparison(
                self._pad_queries(leaves, tiles), tiles, *classes, powers, masses, nearest
            )
        return masses, nearest

    def _tree_local_leaves(self, leaves: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """[n, T]: leaf numbers counted within each tree, the largest number of ``dtype`` where no
        polytope lies.
        """
        return np.where(leaves >= 0, leaves - self._first_leaf, np.iinfo(dtype).max).astype(dtype)

    def _pad_queries(self, leaves: np.ndarray, tiles: np.ndarray) -> np.ndarray:
        """[n, T], both rounded up as the comparison needs them, with numbers that equal no
        polytope's.
        """
        padded = np.full(
            (_round_up(len(leaves), 2), tiles.shape[1]),
            np.iinfo(tiles.dtype).max,
            dtype=tiles.dtype,
        )
        padded[: len(leaves), : self.n_trees] = self._tree_local_leaves(leaves, tiles.dtype)
        return padded

    def _comparison_tiles(self) -> np.ndarray:
        """[tiles, T, w]: leaf numbers of the polytopes within each tree, w polytopes to a tile;
        made when first needed.
        """
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
                    self._leaf_number[codes + self._leaf_starts[:-1]], dtype
                ).T
            self._tiles = tiles
        return self._tiles


def _round_up(n: int, step: int) -> int:
    return step * -(-n // step)


_SIMILARITY_TILE = 512
"""Rows that are compared with one query after the other while they are in a core's cache."""


class ForestPartition:
    """The partition that a fitted forest (or one tree) of scikit-learn cuts feature space into (Dey
    et al., Section 4.3).

    Parameters
    ----------
    forest : the fitted forest, or one decision tree.
    n_jobs : threads that walk down the trees; never changes a code.

    Attributes
    ----------
    n_trees : T.
    leaf_starts : Int[T + 1]; leaves of tree t are numbered from ``leaf_starts[t]`` in codes.
    """

    def __init__(self, forest: BaseForest | BaseDecisionTree, n_jobs: int | None = None):
        check_is_fitted(forest)
        self.forest = forest
        self.n_jobs = n_jobs
        self.n_trees = len(self.trees)
        self.leaf_starts = np.concatenate(
            [[0], np.cumsum([tree.node_count for tree in self.trees])]
        )

    @property
    def trees(self) -> list:
        """The trees' arrays, of scikit-learn; asked of the forest each time, so that a pickled
        partition holds no second copy of them.
        """
        return [tree.tree_ for tree in getattr(self.forest, "estimators_", [self.forest])]

    def embed(self, X: Any) -> np.ndarray:
        """Float[n, d]: the space in which the Gaussians of the polytopes live; for a forest the
        features themselves.
        """
        return np.asarray(X, dtype=np.float64)

    def encode(self, X: Any) -> np.ndarray:
        """Int32[n, T], column by column in memory: the node that each tree puts each row of ``X``
        (Float[n, d]) into.

        Walks ``tree_.apply`` in a few chunks of trees: for 1,000 rows that takes 0.4 of the time of
        ``forest.apply``, which pays a task for each tree and returns eight bytes a code. Rows go
        down in the order of the first tree's leaves, so that neighbours take the same paths one
        after the other.
        """
        with np.errstate(
            over="ignore"
        ):  # beyond 3e38 a value becomes infinite, and goes the way of all large ones
            X = np.ascontiguousarray(X, dtype=np.float32)
        if X.shape[1] != self.forest.n_features_in_:  # a tree's own apply does not look
            raise ValueError(
                f"the forest splits on {self.forest.n_features_in_} features, got rows of"
                f" {X.shape[1]}"
            )
        codes = np.empty((len(X), self.n_trees), dtype=np.int32, order="F")
        n_jobs = effective_n_jobs(self.n_jobs)
        trees = self.trees
        order = np.argsort(trees[0].apply(X), kind="stable")
        X = X[order]
        chunks = np.array_split(np.arange(self.n_trees), min(n_jobs, self.n_trees))

        def fill(chunk: np.ndarray) -> None:
            for t in chunk:
                codes[order, t] = trees[t].apply(X)

        Parallel(n_jobs=n_jobs, require="sharedmem")(delayed(fill)(chunk) for chunk in chunks)
        return codes

    def locate(self, X: Any) -> Locations:
        """Both at once."""
        return Locations(self.embed(X), self.encode(X))

    def similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Float[m, n]: geodesic similarity K(r, s) = t_rs / T (Eq. 14) of codes Int[m, T] and
        Int[n, T]; for small m × n only.
        """
        width = max(1, min(_SIMILARITY_TILE, len(b)))
        n_tiles, trees = -(-len(b) // width), -(-self.n_trees // 4) * 4
        rows = np.full(
            (len(a) + len(a) % 2, trees), -1, dtype=np.int32
        )  # the kernel takes queries by twos and trees by fours
        rows[: len(a), : self.n_trees] = a
        columns = np.full((n_tiles * width, trees), -2, dtype=np.int32)
        columns[: len(b), : self.n_trees] = b
        counts = np.zeros((len(rows), len(columns)), dtype=np.uint16)
        tiles = np.ascontiguousarray(columns.reshape(n_tiles, width, trees).transpose(0, 2, 1))
        kernels._count_by_comparison(rows, tiles, counts)
        return counts[: len(a), : len(b)] / self.n_trees

    def paired_similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Float[n]: K of each code in ``a`` (Int[n, T]) with the one beside it in ``b``."""
        return (a == b).sum(axis=1) / self.n_trees

    def vote(self, locations: Locations) -> np.ndarray:
        """Float[n, K]: the forest's own ``predict_proba``, read from codes; trees are added in
        order, so that no thread changes a bit.
        """
        codes = locations.codes
        total = np.zeros((len(codes), self.trees[0].value.shape[2]))
        for t, tree in enumerate(self.trees):
            total += tree.value[codes[:, t], 0, :]
        return total / self.n_trees

    def index(
        self,
        codes: np.ndarray,
        class_weights: np.ndarray,
        *,
        rows: np.ndarray | None = None,
        n_anchors: int | None = None,
    ) -> LeafIndex:
        """An index of polytopes, the ``rows`` of ``codes`` that stand for them, with their class
        masses (Float[p, K]).
        """
        return LeafIndex(
            codes,
            class_weights,
            self.leaf_starts,
            rows=rows,
            n_anchors=n_anchors,
            n_jobs=self.n_jobs,
        )
