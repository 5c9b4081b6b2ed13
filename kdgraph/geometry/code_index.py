"""The loops over activation codes, compiled by numba: in how many units of each layer a query and a
polytope differ, and what that lends.

A tile of polytopes lies word by word, so that the loops run over polytopes at SIMD speed.
``llvm.ctpop`` becomes one instruction for eight words where the processor has AVX-512's VPOPCNTDQ:
0.06 ns a word. Without it LLVM counts by shifts and table look-ups, with the same result; expect
the count to take a few times as long, and the powers, most of the time of a search over exponents,
what they take anyway.

Class masses and nearest polytopes of activation codes: the similarity of Eq. 16 by counting bits, a
tile of polytopes at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import factorial, log
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from kdgraph.geometry import code_index as popcount
from kdgraph.geometry.partition import map_blocks, take_rows

_compiled = njit(nogil=True, cache=True, boundscheck=False, error_model="numpy")
_fused = njit(nogil=True, cache=True, boundscheck=False, error_model="numpy", fastmath={"contract"})
_reordered = njit(
    nogil=True,
    cache=True,
    boundscheck=False,
    error_model="numpy",
    fastmath={"contract", "reassoc", "nnan", "nsz"},
)

_EXP2_COEFFICIENTS = tuple(
    log(2) ** k / factorial(k) for k in range(12)
)  # 2^r for |r| <= 1/2: what is left out is below 1e-14 of it
_LOG2_COEFFICIENTS = tuple(
    2 / log(2) / (2 * k + 1) for k in range(11)
)  # log2((1 + s)/(1 - s)) / s in s² for |s| <= 0.172: below 1e-17
_ROUNDING_SHIFT = (
    1.5 * 2.0**52
)  # added and taken away again, it rounds to integers, which stand in the low bits of the sum meanwhile
_MIN_EXPONENT = -1022.0  # powers below 2^-1022 count as 0
_LOG2_OF_ZERO = -1e300  # log2 of 0: any exponent but 0 takes it below _LEAST
_MIN_NORMAL, _SUBNORMAL_SCALE = 2.0**-1022, 2.0**54
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)


def _ctpop(_, word):
    return types.int64(types.uint64), lambda context, builder, signature, arguments: builder.ctpop(
        arguments[0]
    )


def _to_bits(_, x):
    return types.int64(
        types.float64
    ), lambda context, builder, signature, arguments: builder.bitcast(arguments[0], ir.IntType(64))


def _to_float(_, bits):
    return types.float64(
        types.int64
    ), lambda context, builder, signature, arguments: builder.bitcast(arguments[0], ir.DoubleType())


_popcount: Any = intrinsic(_ctpop)
"""Int: the number of ones in a UInt64."""
_float_to_bits: Any = intrinsic(_to_bits)
"""Int64 with the bits of a Float64."""
_bits_to_float: Any = intrinsic(_to_float)
"""Float64 with the bits of an Int64."""


@_compiled
def count_mismatches(tile, first, last, a, b, n, counts_a, counts_b):
    """Fill ``counts_a`` and ``counts_b``: Int[n] with the bits in which the queries ``a`` and ``b``:
    UInt64[W] differ from each of ``n`` polytopes.

    ``tile``: UInt64[W, w], of which the words from ``first`` to ``last`` are compared. Two queries
    and four words to a step: what is read is used twice, and what is written is written once for
    four words (1.5 times as fast as one query at a time).
    """
    for i in range(n):
        counts_a[i] = 0
        counts_b[i] = 0
    even = first + (last - first) // 4 * 4
    for t in range(first, even, 4):
        c0, c1, c2, c3 = tile[t], tile[t + 1], tile[t + 2], tile[t + 3]
        a0, a1, a2, a3 = a[t], a[t + 1], a[t + 2], a[t + 3]
        b0, b1, b2, b3 = b[t], b[t + 1], b[t + 2], b[t + 3]
        for i in range(n):
            x0, x1, x2, x3 = c0[i], c1[i], c2[i], c3[i]
            counts_a[i] += (
                _popcount(x0 ^ a0) + _popcount(x1 ^ a1) + _popcount(x2 ^ a2) + _popcount(x3 ^ a3)
            )
            counts_b[i] += (
                _popcount(x0 ^ b0) + _popcount(x1 ^ b1) + _popcount(x2 ^ b2) + _popcount(x3 ^ b3)
            )
    for t in range(even, last):
        c0, a0, b0 = tile[t], a[t], b[t]
        for i in range(n):
            counts_a[i] += _popcount(c0[i] ^ a0)
            counts_b[i] += _popcount(c0[i] ^ b0)


@_compiled
def multiply_match_fraction(counts, width, n, similarity):
    """Multiply ``similarity``: Float[n] by the share of a layer's ``width`` units that match;
    nothing is fused or put in another order.
    """
    for i in range(n):
        similarity[i] *= 1.0 - counts[i] / width


@_compiled
def _similarities_of_two(tile, word_starts, widths, a, b, n, counts, similarity):
    """Fill ``similarity``: Float[2, w] with K (Eq. 16 of Dey et al.) of two queries and ``n``
    polytopes; ``counts``: Int[2, w], scratch.
    """
    for j in range(2):
        for i in range(n):
            similarity[j, i] = 1.0
    for layer in range(widths.shape[0]):
        count_mismatches(
            tile, word_starts[layer], word_starts[layer + 1], a, b, n, counts[0], counts[1]
        )
        for j in range(2):
            multiply_match_fraction(counts[j], widths[layer], n, similarity[j])


@_fused
def log2(x, n, out):
    """``out`` = log2 of ``x``: Float[n], in [0, 1], to 1e-15 of itself; no library call, which
    would stop SIMD (0.45 against 2.7 ns).
    """
    for i in range(n):
        small = x[i] < _MIN_NORMAL
        bits = _float_to_bits(x[i] * _SUBNORMAL_SCALE if small else x[i])
        exponent = (bits - _SQRT_HALF_BITS) >> 52
        mantissa = _bits_to_float(bits - (exponent << 52))  # from sqrt(1/2) to sqrt(2)
        s = (mantissa - 1.0) / (mantissa + 1.0)
        z = s * s
        y = _LOG2_COEFFICIENTS[7] + z * (
            _LOG2_COEFFICIENTS[8] + z * (_LOG2_COEFFICIENTS[9] + z * _LOG2_COEFFICIENTS[10])
        )
        y = _LOG2_COEFFICIENTS[3] + z * (
            _LOG2_COEFFICIENTS[4]
            + z * (_LOG2_COEFFICIENTS[5] + z * (_LOG2_COEFFICIENTS[6] + z * y))
        )
        y = _LOG2_COEFFICIENTS[0] + z * (
            _LOG2_COEFFICIENTS[1] + z * (_LOG2_COEFFICIENTS[2] + z * y)
        )
        value = (float(exponent) - (54.0 if small else 0.0)) + s * y
        out[i] = value if x[i] > 0.0 else _LOG2_OF_ZERO


@_fused
def power_from_log2(logs, exponent, n, out):
    """``out`` = 2^(exponent · logs): Float[n], logs <= 0 <= exponent; 0.3 ns each, against 1.1 of
    numpy's exp and 4 of its power.

    The product x is rounded to an integer, which goes into the exponent's bits; the rest goes
    through a polynomial. Relative error: 1e-14 and what rounding does to x, 1e-16 · |x|.
    """
    for i in range(n):
        x = max(exponent * logs[i], _MIN_EXPONENT)
        shifted = x + _ROUNDING_SHIFT
        r = x - (shifted - _ROUNDING_SHIFT)
        r2 = r * r
        r4 = r2 * r2
        low = (_EXP2_COEFFICIENTS[0] + r * _EXP2_COEFFICIENTS[1]) + r2 * (
            _EXP2_COEFFICIENTS[2] + r * _EXP2_COEFFICIENTS[3]
        )
        middle = (_EXP2_COEFFICIENTS[4] + r * _EXP2_COEFFICIENTS[5]) + r2 * (
            _EXP2_COEFFICIENTS[6] + r * _EXP2_COEFFICIENTS[7]
        )
        high = (_EXP2_COEFFICIENTS[8] + r * _EXP2_COEFFICIENTS[9]) + r2 * (
            _EXP2_COEFFICIENTS[10] + r * _EXP2_COEFFICIENTS[11]
        )
        value = _bits_to_float(
            _float_to_bits(low + r4 * (middle + r4 * high)) + (_float_to_bits(shifted) << 52)
        )
        out[i] = value if x > _MIN_EXPONENT else 0.0


@_reordered
def weighted_sum(x, weight):
    """Σ x · weight of two Float[n]; the order of addition depends on n alone."""
    total = 0.0
    for i in range(weight.shape[0]):
        total += x[i] * weight[i]
    return total


@_reordered
def max_value(x, n, top):
    """The largest of ``top`` and ``n`` values."""
    for i in range(n):
        top = max(top, x[i])
    return top


@_compiled
def update_nearest(similarity, top, number, best, most):
    """(lowest number, ``top``) of the polytopes with K = ``top``, or (``best``, ``most``) as they
    were if those are nearer or lower.
    """
    if top == 0.0 or top < most:
        return best, most
    if top > most:
        best = np.iinfo(np.int64).max
    for i in range(number.shape[0]):
        if similarity[i] == top:
            best = min(best, number[i])
    return best, top


@_compiled
def add_weighted_masses(logs, n, exponents, segments, weights, power, masses):
    """Add to ``masses``: Float[K, k] what ``n`` polytopes lend at each exponent, Float[k];
    ``power``: Float[w] is for scratch.

    ``segments``: Int[g, 4], each (class, first polytope, end, where its weights begin in
    ``weights``). A tile whose powers are all 0 is passed over: with two classes that is half of
    them, those on the other side of the network's answer.
    """
    top = max_value(logs, n, _LOG2_OF_ZERO)
    for k in range(exponents.shape[0]):
        if exponents[k] * top <= _MIN_EXPONENT:
            continue
        power_from_log2(logs, exponents[k], n, power)
        for g in range(segments.shape[0]):
            y, first, end, at = segments[g]
            masses[y, k] += weighted_sum(power[first:end], weights[at : at + end - first])


@_compiled
def _query_block_masses(
    queries,
    tiles,
    word_starts,
    widths,
    number,
    n_anchors,
    segment_starts,
    segments,
    weights,
    exponents,
    masses,
    nearest,
):
    """Class masses and nearest anchors of ``queries``: UInt64[m, W]; see
    :class:`kdgraph.geometry.code_index.CodeIndex`.

    ``tiles``: UInt64[tiles, W, w], polytopes in order of their ``number``: Int[p], anchors first;
    ``segment_starts``: Int[tiles + 1]. Filled are ``masses``: Float[m, K, k], zeros, and
    ``nearest``: Int[m], all -1.
    """
    w = tiles.shape[2]
    counts, similarity = np.empty((2, w), np.int64), np.empty((2, w))
    logs, power, most = np.empty(w), np.empty(w), np.zeros(queries.shape[0])
    for s in range(tiles.shape[0]):
        n = min(w, number.shape[0] - s * w)
        n_near = max(0, min(n, n_anchors - s * w))
        here = segments[segment_starts[s] : segment_starts[s + 1]]
        for q in range(queries.shape[0]):
            if q % 2 == 0:
                after = min(q + 1, queries.shape[0] - 1)
                _similarities_of_two(
                    tiles[s], word_starts, widths, queries[q], queries[after], n, counts, similarity
                )
            one = similarity[q % 2]
            nearest[q], most[q] = update_nearest(
                one,
                max_value(one, n_near, 0.0),
                number[s * w : s * w + n_near],
                nearest[q],
                most[q],
            )
            if exponents.shape[0] > 0:
                log2(one, n, logs)
                add_weighted_masses(logs, n, exponents, here, weights, power, masses[q])


@_compiled
def _block_similarities(queries, tiles, word_starts, widths, out):
    """Fill ``out``: Float[m, p] with K of ``queries``: UInt64[m, W] and every polytope."""
    w = tiles.shape[2]
    counts, similarity = np.empty((2, w), np.int64), np.empty((2, w))
    for s in range(tiles.shape[0]):
        n = min(w, out.shape[1] - s * w)
        for q in range(0, queries.shape[0], 2):
            after = min(q + 1, queries.shape[0] - 1)
            _similarities_of_two(
                tiles[s], word_starts, widths, queries[q], queries[after], n, counts, similarity
            )
            out[q, s * w : s * w + n] = similarity[0, :n]
            out[after, s * w : s * w + n] = similarity[after - q, :n]


_QUERY_BLOCK = 128
"""Queries to a block: enough to hide the cost of a task, few enough that two cores stay busy on
1,000 rows.
"""
_POLYTOPES_PER_TILE = 512
"""Polytopes that are compared with two queries at once; 256 and 1,024 take 1.1 to 1.2 times as
long.
"""


class CodeIndex:
    """Polytopes of a network, found by their activation codes; no array of size polytopes ×
    polytopes is ever made.

    The share of activation paths that two codes activate alike (Dey et al., Eq. 16) is K(r, s) =
    Π_l (1 - mismatches_l / width_l), for a path picks one unit of each layer. Mismatches are
    counted exactly and K is computed in float64 in layer order.

    Parameters
    ----------
    codes : UInt64[n, W], bits of layer after layer, low bit first, each layer from a word of its
    own on; unused bits are 0.
    class_weights : Float[p, K], the (weighted) number of rows of each class in each polytope.
    widths : Int[L], units of each layer.
    rows : Int[p], the rows of ``codes`` that stand for the polytopes (default: all).
    n_anchors : only the first of the polytopes can be the nearest one (default: all); the others
    lend their mass.
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
            raise ValueError(
                f"codes of layers of {list(widths)} units have {self._word_starts[-1]} words, got"
                f" {codes.shape[1]}"
            )
        rows = np.arange(self.n_polytopes) if rows is None else rows
        # Of a class one after the other, so that its weights in a tile are one run; within it by
        # the last layer: with two classes K is 0
        # between the network's two answers, and then whole tiles lend nothing.
        later = np.arange(self.n_polytopes) >= self.n_anchors
        self._polytope_ids = np.lexsort(
            (codes[rows, -1], class_weights.argmax(axis=1), later)
        ).astype(np.int64)
        self._tiles = _make_tiles(codes, rows[self._polytope_ids])
        self._build_segments(class_weights)

    def _build_segments(self, class_weights: np.ndarray) -> None:
        """For each tile and class the run of polytopes from the first to the last that has weight,
        with all weights in between.
        """
        segments, weights, starts, width = [], [], [0], self._tiles.shape[2]
        at = 0
        for s in range(len(self._tiles)):
            values = class_weights[self._polytope_ids[s * width : (s + 1) * width]]
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

    def query(self, codes: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Class masses of each query at every exponent, and its nearest polytope, in one pass.

        Powers are those of float64 to 1e-12 of their size where they are above 2^-1022, and 0
        below; K = 0 lends nothing but at exponent 0.

        Parameters
        ----------
        codes : UInt64[m, W], the queries.
        exponents : Float[k], finite and >= 0; a polytope weighs K(query, polytope)^exponent (Eq.
            15). None at all: only the nearest polytope is sought.

        Returns
        -------
        masses : Float[m, K, k], sum over polytopes of class weights × K^exponent.
        nearest : Int[m], the anchor with the largest K (of several the lowest), -1 if K is 0 for
            all.

        Raises
        ------
        ValueError : if an exponent is negative or not finite.
        """
        exponents = check_exponents(exponents)
        masses = np.zeros((len(codes), self.n_classes, len(exponents)))
        nearest = np.full(len(codes), -1, dtype=np.int64)
        blocks = [
            slice(start, start + _QUERY_BLOCK) for start in range(0, len(codes), _QUERY_BLOCK)
        ]
        for rows, (mass, closest) in map_blocks(
            partial(self._query_block, exponents=exponents), codes, blocks, self.n_jobs
        ):
            masses[rows], nearest[rows] = mass, closest
        return masses, nearest

    def _query_block(
        self, codes: np.ndarray, exponents: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Masses and nearest polytopes of a few queries."""
        masses = np.zeros((len(codes), self.n_classes, len(exponents)))
        nearest = np.full(len(codes), -1, dtype=np.int64)
        lenders = (
            self._polytope_ids,
            self.n_anchors,
            self._segment_starts,
            self._segments,
            self._weights,
        )
        queries = np.ascontiguousarray(codes)
        popcount._query_block_masses(
            queries,
            self._tiles,
            self._word_starts,
            self._widths,
            *lenders,
            exponents,
            masses,
            nearest,
        )
        return masses, nearest


def code_similarity(a: np.ndarray, b: np.ndarray, widths: np.ndarray | Sequence[int]) -> np.ndarray:
    """Float[m, n]: geodesic similarity K (Eq. 16 of Dey et al.) of codes UInt64[m, W] and UInt64[n,
    W]; for small m × n only.
    """
    similarity = np.empty((len(a), len(b)))
    tiles = _make_tiles(b, np.arange(len(b)))
    popcount._block_similarities(
        np.ascontiguousarray(a),
        tiles,
        word_starts(widths),
        np.asarray(widths, dtype=np.float64),
        similarity,
    )
    return similarity


def word_starts(widths: np.ndarray | Sequence[int]) -> np.ndarray:
    """Int[L + 1]: layer l fills the words from ``word_starts[l]`` to ``word_starts[l + 1]`` of a
    code.
    """
    return np.concatenate([[0], np.cumsum(-(-np.asarray(widths, dtype=np.int64) // 64))])


def _make_tiles(codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """UInt64[tiles, W, w]: the ``rows`` of ``codes``, w to a tile, word by word; the last tile is
    filled up with 0.
    """
    width = max(1, min(_POLYTOPES_PER_TILE, len(rows)))
    tiles = np.zeros((-(-len(rows) // width), codes.shape[1], width), dtype=np.uint64)
    for s in range(len(tiles)):
        some = rows[s * width : (s + 1) * width]
        tiles[s, :, : len(some)] = take_rows(codes, some).T
    return tiles


def check_exponents(exponents: np.ndarray) -> np.ndarray:
    """Float[k]: the exponents, if they are finite and none is negative."""
    exponents = np.ascontiguousarray(exponents, dtype=np.float64)
    bad = exponents[~(np.isfinite(exponents) & (exponents >= 0))]
    if len(bad):
        raise ValueError(
            f"exponents contain {bad[0]}; each must be finite and >= 0: a weight K^exponent must"
            " not grow with distance"
        )
    return exponents
