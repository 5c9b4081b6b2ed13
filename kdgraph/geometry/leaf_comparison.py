"""Numbers of leaves that codes of trees share, by comparison with all of them.

A tile of codes stays in the cache while several queries pass over it, at the speed of SIMD. Where
leaves are large, that is faster than a walk over their members
(:mod:`kdgraph.geometry.leaf_index`). Original to kdgraph.
"""

from __future__ import annotations

import numpy as np

from kdgraph.compilation import kernel

# Queries that are compared with a tile of polytopes one after the other, while it is in cache.
_QUERIES_PER_TILE = 32
# Polytopes that are compared with one query at once; the fastest of 256 to 2,048.
POLYTOPES_PER_TILE = 1024
# Rows that :func:`leaf_similarity` compares with one query after the other, while they are
# in the cache of a core.
_SIMILARITY_TILE = 512

compiled = kernel(boundscheck=False)


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
def contract_histogram(histogram, powers, masses):
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
def query_by_comparison(leaves, tiles, polytopes, powers, masses, nearest):
    """Fill the masses and nearest polytopes of queries by comparison with all polytopes.

    The cost is fixed at polytopes × trees, at SIMD speed. ``leaves``: Int[m', T'], leaf numbers of
    the queries in each tree, padded to an even number of rows and to the width of ``tiles``:
    Int[tiles, T', w], leaf numbers of the polytopes. Others are as in
    :func:`~kdgraph.geometry.leaf_index.query_by_members`.
    """
    counts = np.zeros((_QUERIES_PER_TILE, tiles.shape[0] * tiles.shape[2]), np.uint16)
    histogram = np.zeros((masses.shape[1], powers.shape[0]))
    for first in range(0, nearest.shape[0], _QUERIES_PER_TILE):
        tile_queries = leaves[first : first + _QUERIES_PER_TILE]
        _count_by_comparison(tile_queries, tiles, counts)
        for q in range(min(tile_queries.shape[0], nearest.shape[0] - first)):
            query_counts = counts[q, : 4 * ((polytopes[0].shape[0] + 3) // 4)]
            nearest[first + q] = _collect_histogram(query_counts, polytopes, histogram)
            contract_histogram(histogram, powers, masses[first + q])


def empty_tiles(n_polytopes: int, n_trees: int) -> np.ndarray:
    """Return tiles for leaf numbers of polytopes, Int[tiles, T', w], without any of them yet."""
    # Padding and empty leaves of queries have the maximum of the dtype, the padding of tiles the
    # number below it: neither equals a leaf of a polytope, so that neither adds a match.
    dtype = np.dtype(np.uint16 if n_polytopes < 2**16 - 1 else np.int32)
    n_tiles = -(-n_polytopes // POLYTOPES_PER_TILE)
    shape = n_tiles, _round_up(n_trees, 4), POLYTOPES_PER_TILE
    return np.full(shape, np.iinfo(dtype).max - 1, dtype=dtype)


def pad_queries(leaves: np.ndarray, tiles: np.ndarray) -> np.ndarray:
    """Return leaf numbers of queries in each tree, [n, T], padded as the comparison needs them."""
    shape = _round_up(len(leaves), 2), tiles.shape[1]
    padded = np.full(shape, np.iinfo(tiles.dtype).max, dtype=tiles.dtype)
    padded[: len(leaves), : leaves.shape[1]] = leaves
    return padded


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
