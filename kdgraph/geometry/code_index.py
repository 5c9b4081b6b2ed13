"""Class masses and nearest polytopes of activation codes: the similarity of Eq. 16 by counting bits, a tile of polytopes at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from kdgraph.geometry import popcount
from kdgraph.geometry.over_blocks import over_blocks
from kdgraph.geometry.polytopes import take_rows

_BLOCK = 128
"""Queries to a block: enough to hide the cost of a task, few enough that two cores stay busy on 1,000 rows."""
_TILE = 512
"""Polytopes that are compared with two queries at once; 256 and 1,024 take 1.1 to 1.2 times as long."""


class CodeIndex:
    """Polytopes of a network, found by their activation codes; no array of size polytopes × polytopes is ever made.

    The share of activation paths that two codes activate alike (Dey et al., Eq. 16) is K(r, s) = Π_l (1 - mismatches_l / width_l), for a
    path picks one unit of each layer. Mismatches are counted exactly and K is computed in float64 in layer order.

    Parameters
    ----------
    codes : UInt64[n, W], bits of layer after layer, low bit first, each layer from a word of its own on; unused bits are 0.
    class_weights : Float[p, K], the (weighted) number of rows of each class in each polytope.
    widths : Int[L], units of each layer.
    rows : Int[p], the rows of ``codes`` that stand for the polytopes (default: all).
    n_anchors : only the first of the polytopes can be the nearest one (default: all); the others lend their mass.
    n_jobs : threads over blocks of queries; results are equal to the last bit for any number.
    """

    def __init__(
        self,
        codes: np.ndarray,
        class_weights: np.ndarray,
        widths: np.ndarray | Sequence[int],
        *,
        rows: np.ndarray | None = None,
        n_anchors: int | None = None,
        n_jobs: int | None = None,
    ):
        self.n_polytopes, self.n_classes = class_weights.shape
        self.n_anchors = self.n_polytopes if n_anchors is None else n_anchors
        self.n_jobs = n_jobs
        self._widths, self._word_starts = np.asarray(widths, dtype=np.float64), word_starts(widths)
        if codes.shape[1] != self._word_starts[-1]:
            raise ValueError(f"codes of layers of {list(widths)} units have {self._word_starts[-1]} words, got {codes.shape[1]}")
        rows = np.arange(self.n_polytopes) if rows is None else rows
        # Of a class one after the other, so that its weights in a tile are one run; within it by the last layer: with two classes K is 0
        # between the network's two answers, and then whole tiles lend nothing.
        later = np.arange(self.n_polytopes) >= self.n_anchors
        self._number = np.lexsort((codes[rows, -1], class_weights.argmax(axis=1), later)).astype(np.int64)
        self._tiles = tiles_of(codes, rows[self._number])
        self._list_weights(class_weights)

    def _list_weights(self, class_weights: np.ndarray) -> None:
        """For each tile and class the run of polytopes from the first to the last that has weight, with all weights in between."""
        segments, weights, starts, width = [], [], [0], self._tiles.shape[2]
        at = 0
        for s in range(len(self._tiles)):
            values = class_weights[self._number[s * width : (s + 1) * width]]
            for y in np.flatnonzero(values.any(axis=0)):
                lenders = np.flatnonzero(values[:, y])
                first, end = lenders[0], lenders[-1] + 1
                segments.append((y, first, end, at))
                weights.append(values[first:end, y])
                at += end - first
            starts.append(len(segments))
        self._segments = np.array(segments, dtype=np.int64).reshape(-1, 4)
        self._weights = np.concatenate([np.empty(0), *weights])
        self._segment_starts = np.array(starts)

    def masses(self, codes: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Class masses of each query at every exponent, and its nearest polytope, in one pass.

        Powers are those of float64 to 1e-12 of their size where they are above 2^-1022, and 0 below; K = 0 lends nothing but at exponent 0.

        Parameters
        ----------
        codes : UInt64[m, W], the queries.
        exponents : Float[k], finite and >= 0; a polytope weighs K(query, polytope)^exponent (Eq. 15). None at all: only the nearest
            polytope is sought.

        Returns
        -------
        masses : Float[m, K, k], sum over polytopes of class weights × K^exponent.
        nearest : Int[m], the anchor with the largest K (of several the lowest), -1 if K is 0 for all.

        Raises
        ------
        ValueError : if an exponent is negative or not finite.
        """
        exponents = checked(exponents)
        masses = np.zeros((len(codes), self.n_classes, len(exponents)))
        nearest = np.full(len(codes), -1, dtype=np.int64)
        blocks = [slice(start, start + _BLOCK) for start in range(0, len(codes), _BLOCK)]
        for rows, (mass, closest) in over_blocks(partial(self._block, exponents=exponents), codes, blocks, self.n_jobs):
            masses[rows], nearest[rows] = mass, closest
        return masses, nearest

    def _block(self, codes: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Masses and nearest polytopes of a few queries."""
        masses = np.zeros((len(codes), self.n_classes, len(exponents)))
        nearest = np.full(len(codes), -1, dtype=np.int64)
        lenders = (self._number, self.n_anchors, self._segment_starts, self._segments, self._weights)
        queries = np.ascontiguousarray(codes)
        popcount.masses_of_block(queries, self._tiles, self._word_starts, self._widths, *lenders, exponents, masses, nearest)
        return masses, nearest


def code_similarity(a: np.ndarray, b: np.ndarray, widths: np.ndarray | Sequence[int]) -> np.ndarray:
    """Float[m, n]: geodesic similarity K (Eq. 16 of Dey et al.) of codes UInt64[m, W] and UInt64[n, W]; for small m × n only."""
    similarity = np.empty((len(a), len(b)))
    tiles = tiles_of(b, np.arange(len(b)))
    popcount.similarities_of_block(np.ascontiguousarray(a), tiles, word_starts(widths), np.asarray(widths, dtype=np.float64), similarity)
    return similarity


def word_starts(widths: np.ndarray | Sequence[int]) -> np.ndarray:
    """Int[L + 1]: layer l fills the words from ``word_starts[l]`` to ``word_starts[l + 1]`` of a code."""
    return np.concatenate([[0], np.cumsum(-(-np.asarray(widths, dtype=np.int64) // 64))])


def tiles_of(codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """UInt64[tiles, W, w]: the ``rows`` of ``codes``, w to a tile, word by word; the last tile is filled up with 0."""
    width = max(1, min(_TILE, len(rows)))
    tiles = np.zeros((-(-len(rows) // width), codes.shape[1], width), dtype=np.uint64)
    for s in range(len(tiles)):
        some = rows[s * width : (s + 1) * width]
        tiles[s, :, : len(some)] = take_rows(codes, some).T
    return tiles


def checked(exponents: np.ndarray) -> np.ndarray:
    """Float[k]: the exponents, if they are finite and none is negative."""
    exponents = np.ascontiguousarray(exponents, dtype=np.float64)
    bad = exponents[~(np.isfinite(exponents) & (exponents >= 0))]
    if len(bad):
        raise ValueError(f"exponents contain {bad[0]}; each must be finite and >= 0: a weight K^exponent must not grow with distance")
    return exponents
