"""Class masses and nearest polytopes by an inverted index from leaves to the polytopes inside them."""

from __future__ import annotations

from functools import partial

import numpy as np

from kdgraph.geometry import kernels
from kdgraph.geometry.over_blocks import over_blocks
from kdgraph.geometry.polytopes import take_rows

_BLOCK = 128
"""Queries to a block: enough to hide the cost of a task, few enough that two cores stay busy on 1,000 rows."""
_SIMD_SHARE = 0.024
"""Above this share of polytopes × trees, comparing with all polytopes is faster: 0.020 ns a comparison against 0.85 ns a member visited."""
_TILE = 1024
"""Polytopes that are compared with one query at once; 256 to 2,048 were tried, this one was the fastest."""


class LeafIndex:
    """Polytopes of a forest, found by the leaves they lie in; no array of size polytopes × polytopes is ever made. Ours.

    Parameters
    ----------
    codes : Int[n, T], the node of each tree that a row lies in.
    class_weights : Float[p, K], the (weighted) number of rows of each class in each polytope.
    leaf_starts : Int[T + 1], node numbers of tree t begin at ``leaf_starts[t]``.
    rows : Int[p], the rows of ``codes`` that stand for the polytopes (default: all); they are read where they are, not copied.
    n_anchors : only the first of the polytopes can be the nearest one (default: all); the others lend their mass.
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
        # Node numbers grow depth first, so the first trees' leaves order space: neighbours lie together in memory (1.2 times as fast).
        self._number = np.lexsort((codes[rows, min(1, self.n_trees - 1)], codes[rows, 0])).astype(np.int64)
        self._codes, self._row = codes, rows[self._number]
        self._tiles: np.ndarray | None = None
        if codes.size and (codes.min() < 0 or (codes.max(axis=0) >= np.diff(leaf_starts)).any()):
            raise ValueError("codes name nodes that their trees do not have")  # the kernels below would write beyond their arrays
        self._list_members()
        class_weights = class_weights[self._number]
        row, self._class_of = np.nonzero(class_weights)
        self._weight_of = np.ascontiguousarray(class_weights[row, self._class_of], dtype=np.float64)
        self._class_starts = np.searchsorted(row, np.arange(self.n_polytopes + 1))

    def _list_members(self) -> None:
        """Number the populated leaves 0, 1, … over all trees and list the polytopes inside each.

        ``_leaf_number`` maps a node (counted over all trees) to its leaf's number, -1 where no polytope lies.
        """
        narrow = np.uint16 if self.n_polytopes <= 2**16 else np.int32  # half the memory traffic is 1.4 times the speed
        self._members = np.empty(self.n_trees * self.n_polytopes, dtype=narrow)
        self._leaf_number = np.empty(self._leaf_starts[-1], dtype=np.int32)
        self._first_leaf = np.zeros(self.n_trees, dtype=np.int32)
        starts, n_leaves = np.zeros(self._leaf_starts[-1] + 1, dtype=np.int64), 0
        for t in range(self.n_trees):
            self._first_leaf[t] = n_leaves
            nodes = slice(self._leaf_starts[t], self._leaf_starts[t + 1])
            members = self._members[t * self.n_polytopes : (t + 1) * self.n_polytopes]
            size = np.zeros(nodes.stop - nodes.start, dtype=np.int64)
            n_leaves = kernels.index_tree(self._codes[self._row, t], size, self._leaf_number[nodes], starts, members, n_leaves)
        self._starts = starts[: n_leaves + 1].copy()

    def masses(self, codes: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Class masses of each query at every exponent, and its nearest polytope, in one pass: K takes only T + 1 values.

        Parameters
        ----------
        codes : Int[m, T], the queries.
        exponents : Float[k]; a polytope weighs K(query, polytope)^exponent (Eq. 15).

        Returns
        -------
        masses : Float[m, K, k], sum over polytopes of class weights × K^exponent.
        nearest : Int[m], the anchor that shares most leaves (of several the lowest), -1 if none shares any.
        """
        powers = (np.arange(self.n_trees + 1) / self.n_trees)[:, None] ** np.asarray(exponents, dtype=np.float64)
        masses = np.zeros((len(codes), self.n_classes, powers.shape[1]))
        nearest = np.full(len(codes), -1, dtype=np.int64)
        order = np.argsort(
            codes[:, 0], kind="stable"
        )  # neighbours in space meet the same leaves: 2.8 times as fast on 20,000 shuffled rows
        blocks = [order[start : start + _BLOCK] for start in range(0, len(codes), _BLOCK)]

        for rows, (mass, closest) in over_blocks(partial(self._block, powers=powers), codes, blocks, self.n_jobs):
            masses[rows], nearest[rows] = mass, closest
        return masses, nearest

    def _block(self, codes: np.ndarray, powers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Masses and nearest polytopes of a few queries, by the counter that is cheaper for them."""
        masses = np.zeros((len(codes), self.n_classes, powers.shape[1]))
        nearest = np.full(len(codes), -1, dtype=np.int64)
        leaves = np.ascontiguousarray(self._leaf_number[codes + self._leaf_starts[:-1]])
        classes = (self._number, self.n_anchors, self._class_starts, self._class_of, self._weight_of)
        sizes = self._starts[leaves + 1] - self._starts[leaves]
        visits = sizes[leaves >= 0].sum()
        if visits <= _SIMD_SHARE * len(codes) * self.n_polytopes * self.n_trees:
            kernels.masses_by_members(leaves, self._starts, self._members, *classes, powers, masses, nearest)
        else:
            tiles = self._comparison_tiles()
            kernels.masses_by_comparison(self._queries(leaves, tiles), tiles, *classes, powers, masses, nearest)
        return masses, nearest

    def _within_trees(self, leaves: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """[n, T]: leaf numbers counted within each tree, the largest number of ``dtype`` where no polytope lies."""
        return np.where(leaves >= 0, leaves - self._first_leaf, np.iinfo(dtype).max).astype(dtype)

    def _queries(self, leaves: np.ndarray, tiles: np.ndarray) -> np.ndarray:
        """[n, T], both rounded up as the comparison needs them, with numbers that equal no polytope's."""
        padded = np.full((_round_up(len(leaves), 2), tiles.shape[1]), np.iinfo(tiles.dtype).max, dtype=tiles.dtype)
        padded[: len(leaves), : self.n_trees] = self._within_trees(leaves, tiles.dtype)
        return padded

    def _comparison_tiles(self) -> np.ndarray:
        """[tiles, T, w]: leaf numbers of the polytopes within each tree, w polytopes to a tile; made when first needed."""
        if self._tiles is None:
            dtype = np.dtype(np.uint16 if self.n_polytopes < 2**16 - 1 else np.int32)
            n_tiles = -(-self.n_polytopes // _TILE)
            tiles = np.full((n_tiles, _round_up(self.n_trees, 4), _TILE), np.iinfo(dtype).max - 1, dtype=dtype)
            for s in range(n_tiles):
                codes = take_rows(self._codes, self._row[s * _TILE : (s + 1) * _TILE])
                tiles[s, : self.n_trees, : len(codes)] = self._within_trees(self._leaf_number[codes + self._leaf_starts[:-1]], dtype).T
            self._tiles = tiles
        return self._tiles


def _round_up(n: int, step: int) -> int:
    return step * -(-n // step)
