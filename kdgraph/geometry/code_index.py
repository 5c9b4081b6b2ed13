"""Index of the polytopes of a network by their activation codes.

A code has one bit for each unit of the network (Dey et al. 2024, Section 4.4). Two points agree on
the fraction K(r, s) = Π_l (1 - mismatches_l / width_l) of the activation paths (Eq. 16), because a
path takes one unit of each layer. :class:`CodeIndex` counts mismatches exactly, by the number of
different bits, and returns the class masses around queries and their nearest polytopes. Its loops
are compiled by numba; they are original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import factorial, log
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kdgraph.compilation import kernel
from kdgraph.geometry.partition import count_ones, map_blocks, take_rows

# Queries of a block: enough to hide the cost of a task, few enough that two cores stay busy on
# 1,000 rows.
_QUERY_BLOCK = 128
# Polytopes that are compared with two queries at once; 256 and 1,024 take 1.1 to 1.2 times as long.
_POLYTOPES_PER_TILE = 512
# Powers below 2^-1022, which are subnormal, count as 0.
_MIN_EXPONENT = -1022.0
# Finite stand-in for log2(0): every exponent but 0 takes it below ``_MIN_EXPONENT``, and exponent 0
# gives 1, where -inf · 0 would give NaN.
_LOG2_OF_ZERO = -1e300
# Smallest normal Float64, and the factor that makes subnormal numbers normal.
_MIN_NORMAL, _SUBNORMAL_SCALE = 2.0**-1022, 2.0**54
# Bits of sqrt(1/2).
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
# A number that is added and subtracted again is rounded to an integer; meanwhile the integer is in
# the low bits of the sum.
_ROUNDING_SHIFT = 1.5 * 2.0**52
# Taylor coefficients of 2^r for |r| <= 1/2; the remainder is below 1e-14 of the value.
_EXP2_COEFFICIENTS = tuple(log(2) ** k / factorial(k) for k in range(12))
# Coefficients of log2((1 + s) / (1 - s)) / s in s² for |s| <= 0.172; the remainder is below 1e-17.
_LOG2_COEFFICIENTS = tuple(2 / log(2) / (2 * k + 1) for k in range(11))

_compiled = kernel(boundscheck=False, error_model="numpy")
# Products and sums may be fused, which changes no order of addition.
_fused = kernel(boundscheck=False, error_model="numpy", fastmath={"contract"})
# Sums and maxima may be reordered, so that they run at SIMD speed. The order depends on the length
# alone, so that results do not depend on threads or blocks.
_reordered = kernel(
    boundscheck=False,
    error_model="numpy",
    fastmath={"contract", "reassoc", "nnan", "nsz"},
)


def _to_bits(_, x):
    """Return the signature and code generator of a bit cast from Float64 to Int64."""
    return types.int64(
        types.float64
    ), lambda context, builder, signature, arguments: builder.bitcast(arguments[0], ir.IntType(64))


def _to_float(_, bits):
    """Return the signature and code generator of a bit cast from Int64 to Float64."""
    return types.float64(
        types.int64
    ), lambda context, builder, signature, arguments: builder.bitcast(arguments[0], ir.DoubleType())


_float_to_bits: Any = intrinsic(_to_bits)
_bits_to_float: Any = intrinsic(_to_float)


@_compiled
def count_mismatches(tile, first, last, a, b, n, counts_a, counts_b):
    """Count the bits in which two queries differ from each of ``n`` polytopes.

    ``a`` and ``b``: UInt64[W], the queries; ``tile``: UInt64[W, w], the polytopes, of which the
    words from ``first`` to ``last`` are compared. Filled are ``counts_a`` and ``counts_b``: Int[n].
    """
    # A tile lies word by word in memory, so that the inner loops run over polytopes at SIMD speed.
    # Each step takes two queries and four words: values that are read are used twice, and counts
    # are written once for four words (1.5 times as fast as one query at a time).
    for i in range(n):
        counts_a[i] = 0
        counts_b[i] = 0
    blocks_end = first + (last - first) // 4 * 4
    for t in range(first, blocks_end, 4):
        c0, c1, c2, c3 = tile[t], tile[t + 1], tile[t + 2], tile[t + 3]
        a0, a1, a2, a3 = a[t], a[t + 1], a[t + 2], a[t + 3]
        b0, b1, b2, b3 = b[t], b[t + 1], b[t + 2], b[t + 3]
        for i in range(n):
            x0, x1, x2, x3 = c0[i], c1[i], c2[i], c3[i]
            counts_a[i] += (
                count_ones(x0 ^ a0)
                + count_ones(x1 ^ a1)
                + count_ones(x2 ^ a2)
                + count_ones(x3 ^ a3)
            )
            counts_b[i] += (
                count_ones(x0 ^ b0)
                + count_ones(x1 ^ b1)
                + count_ones(x2 ^ b2)
                + count_ones(x3 ^ b3)
            )
    for t in range(blocks_end, last):
        c0, a0, b0 = tile[t], a[t], b[t]
        for i in range(n):
            counts_a[i] += count_ones(c0[i] ^ a0)
            counts_b[i] += count_ones(c0[i] ^ b0)


@_compiled
def multiply_match_fraction(counts, width, n, similarity):
    """Multiply ``similarity``: Float[n] by the fraction of a layer's ``width`` units that match."""
    # Neither fused nor reordered: K is equal to NumPy's result to the last bit.
    for i in range(n):
        similarity[i] *= 1.0 - counts[i] / width


@_compiled
def _similarities_of_two(tile, word_starts, widths, a, b, n, counts, similarity):
    """Fill ``similarity``: Float[2, w] with K (Eq. 16) of two queries and ``n`` polytopes.

    ``counts``: Int[2, w] is scratch memory.
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


# K^exponent is computed as 2^(exponent · log2 K), with one logarithm for all exponents of a search.
# NumPy's log2 and exp2 call the mathematical library once for each number, which stops SIMD.
# Polynomials instead of them are 4 to 6 times as fast at the 24 exponents of a search from 4,000
# rows on (4 × 1,000 units, 10,000 rows: 0.69 against 3.35 s; 4 × 100 units: 0.44 against 2.54 s).
# Whole fits of KDN take 1.2 to 3 times, and predictions up to 1.5 times as long without them.
@_fused
def log2_similarity(similarity, n, out):
    """Fill ``out``: Float[n] with log2 of ``similarity``, which is in [0, 1].

    The relative error is at most 1e-15.
    """
    # The exponent is read from the bits. The mantissa is between sqrt(1/2) and sqrt(2), and its
    # logarithm is an odd polynomial of s = (m - 1)/(m + 1).
    for i in range(n):
        is_subnormal = similarity[i] < _MIN_NORMAL
        bits = _float_to_bits(similarity[i] * _SUBNORMAL_SCALE if is_subnormal else similarity[i])
        exponent = (bits - _SQRT_HALF_BITS) >> 52
        mantissa = _bits_to_float(bits - (exponent << 52))
        s = (mantissa - 1.0) / (mantissa + 1.0)
        z = s * s
        c = _LOG2_COEFFICIENTS
        y = c[7] + z * (c[8] + z * (c[9] + z * c[10]))
        y = c[3] + z * (c[4] + z * (c[5] + z * (c[6] + z * y)))
        y = c[0] + z * (c[1] + z * (c[2] + z * y))
        value = (float(exponent) - (54.0 if is_subnormal else 0.0)) + s * y
        out[i] = value if similarity[i] > 0.0 else _LOG2_OF_ZERO


@_fused
def power_from_log2(logs, exponent, n, out):
    """Fill ``out``: Float[n] with 2^(exponent · logs), for logs <= 0 <= exponent.

    The relative error is 1e-14, plus 1e-16 · |x| from the rounding of the product x.
    """
    # The product x is rounded to an integer, which is added to the exponent's bits; 2^r of the
    # remainder r is a polynomial, whose terms are paired so that they run side by side.
    for i in range(n):
        x = max(exponent * logs[i], _MIN_EXPONENT)
        shifted = x + _ROUNDING_SHIFT
        r = x - (shifted - _ROUNDING_SHIFT)
        r2 = r * r
        r4 = r2 * r2
        c = _EXP2_COEFFICIENTS
        low = (c[0] + r * c[1]) + r2 * (c[2] + r * c[3])
        middle = (c[4] + r * c[5]) + r2 * (c[6] + r * c[7])
        high = (c[8] + r * c[9]) + r2 * (c[10] + r * c[11])
        value = _bits_to_float(
            _float_to_bits(low + r4 * (middle + r4 * high)) + (_float_to_bits(shifted) << 52)
        )
        out[i] = value if x > _MIN_EXPONENT else 0.0


@_reordered
def weighted_sum(x, weight):
    """Return Σ x · weight of two Float[n]; the order of addition depends on n alone."""
    total = 0.0
    for i in range(weight.shape[0]):
        total += x[i] * weight[i]
    return total


@_reordered
def max_value(x, n, initial):
    """Return the largest of ``initial`` and the first ``n`` values of ``x``."""
    for i in range(n):
        initial = max(initial, x[i])
    return initial


@_compiled
def update_nearest(similarity, max_similarity, number, best, best_similarity):
    """Return the nearest polytope and its K after one more tile.

    ``max_similarity`` is the maximum of ``similarity``: Float[n], and ``number``: Int[n] are the
    numbers of the tile's polytopes. ``best`` and ``best_similarity`` are the result so far; they
    stay if they are nearer, or as near with a lower number.
    """
    if max_similarity == 0.0 or max_similarity < best_similarity:
        return best, best_similarity
    if max_similarity > best_similarity:
        best = np.iinfo(np.int64).max
    for i in range(number.shape[0]):
        if similarity[i] == max_similarity:
            best = min(best, number[i])
    return best, max_similarity


@_compiled
def add_weighted_masses(logs, n, exponents, segments, weights, power, masses):
    """Add the class masses of ``n`` polytopes at each exponent to ``masses``: Float[K, k].

    ``exponents``: Float[k]; ``segments``: Int[g, 4], each (class, first polytope, end, start of its
    weights in ``weights``); ``power``: Float[w] is scratch memory.
    """
    # A tile whose powers are all 0 is skipped. With two classes that is half of all tiles: those
    # of polytopes for which the network predicts the other class.
    max_log = max_value(logs, n, _LOG2_OF_ZERO)
    for k in range(exponents.shape[0]):
        if exponents[k] * max_log <= _MIN_EXPONENT:
            continue
        power_from_log2(logs, exponents[k], n, power)
        for g in range(segments.shape[0]):
            y, first, end, start = segments[g]
            masses[y, k] += weighted_sum(power[first:end], weights[start : start + end - first])


@_compiled
def _query_block_masses(queries, index, exponents, masses, nearest):
    """Fill the class masses and nearest anchors of ``queries``: UInt64[m, W].

    ``index``: tiles, UInt64[tiles, W, w], of polytopes in order of their number, Int[p], anchors
    first; words and widths of layers; and segments, of which tile s has those from
    ``segment_starts[s]`` on. Filled are ``masses``: Float[m, K, k], zeros before, and
    ``nearest``: Int[m], all -1 before.
    """
    # Tiles are the outer loop: a tile stays in cache while all queries of the block pass over it.
    # Similarities are computed for two queries at a time, at every even query; if the number of
    # queries is odd, the last one is its own partner.
    tiles, word_starts, widths, number, n_anchors, segment_starts, segments, weights = index
    w = tiles.shape[2]
    counts, similarities = np.empty((2, w), np.int64), np.empty((2, w))
    logs, power, best_similarity = np.empty(w), np.empty(w), np.zeros(queries.shape[0])
    for s in range(tiles.shape[0]):
        n = min(w, number.shape[0] - s * w)
        n_tile_anchors = max(0, min(n, n_anchors - s * w))
        tile_segments = segments[segment_starts[s] : segment_starts[s + 1]]
        for q in range(queries.shape[0]):
            if q % 2 == 0:
                partner = min(q + 1, queries.shape[0] - 1)
                _similarities_of_two(
                    tiles[s],
                    word_starts,
                    widths,
                    queries[q],
                    queries[partner],
                    n,
                    counts,
                    similarities,
                )
            similarity = similarities[q % 2]
            nearest[q], best_similarity[q] = update_nearest(
                similarity,
                max_value(similarity, n_tile_anchors, 0.0),
                number[s * w : s * w + n_tile_anchors],
                nearest[q],
                best_similarity[q],
            )
            if exponents.shape[0] > 0:
                log2_similarity(similarity, n, logs)
                add_weighted_masses(logs, n, exponents, tile_segments, weights, power, masses[q])


@_compiled
def _block_similarities(queries, tiles, word_starts, widths, out):
    """Fill ``out``: Float[m, p] with K of ``queries``: UInt64[m, W] and every polytope."""
    w = tiles.shape[2]
    counts, similarities = np.empty((2, w), np.int64), np.empty((2, w))
    for s in range(tiles.shape[0]):
        n = min(w, out.shape[1] - s * w)
        for q in range(0, queries.shape[0], 2):
            partner = min(q + 1, queries.shape[0] - 1)
            _similarities_of_two(
                tiles[s], word_starts, widths, queries[q], queries[partner], n, counts, similarities
            )
            out[q, s * w : s * w + n] = similarities[0, :n]
            out[partner, s * w : s * w + n] = similarities[partner - q, :n]


class CodeIndex:
    """Index of a network's polytopes by their activation codes.

    The similarity of two codes is the fraction of activation paths on which they agree (Dey et al.
    2024, Eq. 16). Mismatches are counted exactly, and K is computed in float64 in the order of the
    layers. No array of size polytopes × polytopes is ever allocated.

    Parameters
    ----------
    codes : UInt64[n, W]
        Bits of layer after layer, low bit first. Each layer starts at a new word; unused bits
        are 0. Another number of words than ``widths`` have raises ValueError.
    widths : Int[L]
        Number of units of each layer.
    class_weights, rows, n_anchors, n_jobs : optional
        As for :class:`~kdgraph.geometry.LeafIndex`.

    Examples
    --------
    >>> codes = np.array([[0b00], [0b01], [0b11]], dtype=np.uint64)  # one layer of two units
    >>> masses, nearest = CodeIndex(codes, np.eye(3), [2]).query(codes[:1], np.array([1.0]))
    >>> masses[0, :, 0], nearest
    (array([1. , 0.5, 0. ]), array([0]))
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
        # Polytopes are sorted by class, so that the weights of a class in a tile are one segment,
        # and in each class by the word of the last layer: with two classes K is 0 between the two
        # predictions of the network, and whole tiles then contribute nothing.
        is_not_anchor = np.arange(self.n_polytopes) >= self.n_anchors
        self._polytope_ids = np.lexsort(
            (codes[rows, -1], class_weights.argmax(axis=1), is_not_anchor)
        ).astype(np.int64)
        self._tiles = _make_tiles(codes, rows[self._polytope_ids])
        self._build_segments(class_weights)

    def _build_segments(self, class_weights: np.ndarray) -> None:
        # A segment reaches from the first to the last polytope of a tile with weight in a class,
        # with all weights in between. Sums then run over contiguous arrays.
        segments, weights, starts, width = [], [], [0], self._tiles.shape[2]
        weight_start = 0
        for s in range(len(self._tiles)):
            values = class_weights[self._polytope_ids[s * width : (s + 1) * width]]
            for y in np.flatnonzero(values.any(axis=0)):
                members = np.flatnonzero(values[:, y])
                first, end = members[0], members[-1] + 1
                segments.append((y, first, end, weight_start))
                weights.append(values[first:end, y])
                weight_start += end - first
            starts.append(len(segments))
        self._segments = np.array(segments, dtype=np.int64).reshape(-1, 4)
        self._weights = np.concatenate([np.empty(0), *weights])
        self._segment_starts = np.array(starts)

    def query(self, codes: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the class masses of each query at every exponent, and its nearest polytope.

        See :class:`~kdgraph.geometry.partition.PolytopeIndex`; codes are UInt64[m, W]. Exponents
        are finite and at least 0, otherwise ValueError is raised; without any, only the nearest
        polytope is computed. Powers are exact to 1e-12 of their size above 2^-1022, and 0 below,
        and polytopes with K = 0 contribute at exponent 0 only. The nearest polytope is the anchor
        with the largest K, of several the lowest; -1 if K is 0 for all.
        """
        exponents = check_exponents(exponents)
        masses = np.zeros((len(codes), self.n_classes, len(exponents)))
        nearest = np.full(len(codes), -1, dtype=np.int64)
        blocks = [
            slice(start, start + _QUERY_BLOCK) for start in range(0, len(codes), _QUERY_BLOCK)
        ]
        query_block = partial(self._query_block, exponents=exponents)
        for rows, (block_masses, block_nearest) in map_blocks(
            query_block, codes, blocks, self.n_jobs
        ):
            masses[rows], nearest[rows] = block_masses, block_nearest
        return masses, nearest

    def _query_block(
        self, codes: np.ndarray, exponents: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        masses = np.zeros((len(codes), self.n_classes, len(exponents)))
        nearest = np.full(len(codes), -1, dtype=np.int64)
        layers = self._tiles, self._word_starts, self._widths
        segments = self._segment_starts, self._segments, self._weights
        index = *layers, self._polytope_ids, self.n_anchors, *segments
        _query_block_masses(np.ascontiguousarray(codes), index, exponents, masses, nearest)
        return masses, nearest


def code_similarity(a: np.ndarray, b: np.ndarray, widths: np.ndarray | Sequence[int]) -> np.ndarray:
    """Return the geodesic similarity K of all pairs of codes (Dey et al. 2024, Eq. 16).

    Parameters
    ----------
    a, b : UInt64[m, W] and UInt64[n, W]
        Codes. The result is a dense matrix, Float[m, n], so that m × n must be small.
    widths : Int[L]
        Number of units of each layer.

    Examples
    --------
    >>> codes = np.array([[0b00], [0b01], [0b11]], dtype=np.uint64)
    >>> code_similarity(codes[:1], codes, [2])
    array([[1. , 0.5, 0. ]])
    """
    similarity = np.empty((len(a), len(b)))
    _block_similarities(
        np.ascontiguousarray(a),
        _make_tiles(b, np.arange(len(b))),
        word_starts(widths),
        np.asarray(widths, dtype=np.float64),
        similarity,
    )
    return similarity


def word_starts(widths: np.ndarray | Sequence[int]) -> np.ndarray:
    """Return the first word of each layer in a code, and the number of words, Int[L + 1].

    Layer l fills the words from ``word_starts[l]`` to ``word_starts[l + 1]``.
    """
    return np.concatenate([[0], np.cumsum(-(-np.asarray(widths, dtype=np.int64) // 64))])


def _make_tiles(codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the ``rows`` of ``codes`` in tiles of w rows, word by word: UInt64[tiles, W, w].

    The last tile is padded with 0.
    """
    width = max(1, min(_POLYTOPES_PER_TILE, len(rows)))
    tiles = np.zeros((-(-len(rows) // width), codes.shape[1], width), dtype=np.uint64)
    for s in range(len(tiles)):
        tile_rows = rows[s * width : (s + 1) * width]
        tiles[s, :, : len(tile_rows)] = take_rows(codes, tile_rows).T
    return tiles


def check_exponents(exponents: np.ndarray) -> np.ndarray:
    """Return exponents as contiguous Float[k]; a negative or infinite one raises ValueError."""
    exponents = np.ascontiguousarray(exponents, dtype=np.float64)
    invalid = exponents[~(np.isfinite(exponents) & (exponents >= 0))]
    if len(invalid):
        raise ValueError(
            f"exponents contain {invalid[0]}; each must be finite and >= 0: a weight K^exponent"
            " must not grow with distance"
        )
    return exponents
