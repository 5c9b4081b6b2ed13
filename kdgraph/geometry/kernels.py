"""The loops over leaf codes, compiled by numba: how many trees put a query and a polytope into the same leaf (Dey et al., Eq. 14). Ours.

Both counters give the same integers. Their costs differ: the first one follows co-occurrence in leaves (the sum of the leaf sizes that a
query meets), the second one is fixed at polytopes × trees but runs at SIMD speed; :mod:`kdgraph.geometry.leaf_index` takes the cheaper.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_TOGETHER = 32
"""Queries that pass over a tile one after the other."""
_compiled = njit(nogil=True, cache=True, boundscheck=False)


@_compiled
def index_tree(nodes, size, leaf_number, starts, members, n_leaves):
    """Number the populated leaves of one tree from ``n_leaves`` on, and list the polytopes in each; return the number of leaves so far.

    ``nodes``: Int[p], the node of each polytope; ``size``: zeros, Int[nodes]; filled are ``leaf_number``: Int[nodes], -1 where no
    polytope lies, ``starts``: where the members of each leaf end, from ``n_leaves + 1`` on, and ``members``, ascending in each leaf.
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
def count_by_members(leaves, starts, members, counts):
    """Add to ``counts`` the matches of one query with every polytope, by walking over the members of its leaves.

    ``leaves``: Int[T], global leaf numbers of the query, negative where no polytope lies in that leaf; ``starts``: Int[leaves + 1] and
    ``members``: polytopes of each leaf; ``counts``: UInt16[p].
    """
    for t in range(leaves.shape[0]):
        leaf = leaves[t]
        if leaf >= 0:
            for j in range(starts[leaf], starts[leaf + 1]):
                counts[members[j]] += np.uint16(1)


@_compiled
def count_by_comparison(leaves, tiles, counts):
    """Add to ``counts``: UInt16[m, p] the matches of an even number of queries with every polytope, by comparing all their leaves.

    ``leaves``: [m, T], leaf numbers within each tree, T a multiple of 4; ``tiles``: [tiles, T, w], those of the polytopes, w at a time, so
    that a tile stays in cache while all queries pass over it. Two queries and four trees to a step: what is read is used twice, and what is
    written is written once for four trees (1.35 times as fast as one by one).
    """
    width = tiles.shape[2]
    for s in range(tiles.shape[0]):
        for q in range(0, leaves.shape[0], 2):
            one, two = counts[q, s * width : (s + 1) * width], counts[q + 1, s * width : (s + 1) * width]
            a, b = leaves[q], leaves[q + 1]
            for t in range(0, leaves.shape[1], 4):
                c0, c1, c2, c3 = tiles[s, t], tiles[s, t + 1], tiles[s, t + 2], tiles[s, t + 3]
                a0, a1, a2, a3 = a[t], a[t + 1], a[t + 2], a[t + 3]
                b0, b1, b2, b3 = b[t], b[t + 1], b[t + 2], b[t + 3]
                for i in range(width):
                    x0, x1, x2, x3 = c0[i], c1[i], c2[i], c3[i]
                    one[i] += np.uint16(x0 == a0) + np.uint16(x1 == a1) + np.uint16(x2 == a2) + np.uint16(x3 == a3)
                    two[i] += np.uint16(x0 == b0) + np.uint16(x1 == b1) + np.uint16(x2 == b2) + np.uint16(x3 == b3)


@_compiled
def gather(counts, number, anchors, class_starts, class_of, weight_of, histogram):
    """Sort the mass of all polytopes into ``histogram``: Float[K, T + 1] by class and count; return the nearest anchor, or -1.

    Clears ``counts`` behind itself and skips four zero counts at a time, for most are zero. Only polytopes whose ``number`` is below
    ``anchors`` can be nearest; ties go to the lowest number.
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
def contract(histogram, powers, masses):
    """``masses``: Float[K, k] = sum over counts, in ascending order, of ``histogram``: Float[K, T + 1] × ``powers``: Float[T + 1, k].

    A fixed order of addition keeps the result the same to the last bit for any block size and any number of threads. Clears ``histogram``.
    """
    for y in range(histogram.shape[0]):
        for count in range(1, histogram.shape[1]):
            mass = histogram[y, count]
            if mass != 0.0:
                histogram[y, count] = 0.0
                for k in range(powers.shape[1]):
                    masses[y, k] += mass * powers[count, k]


@_compiled
def masses_by_members(leaves, starts, members, number, anchors, class_starts, class_of, weight_of, powers, masses, nearest):
    """Class masses and nearest polytope for a block of queries ``leaves``: Int[m, T], by the members of leaves."""
    counts = np.zeros(4 * ((number.shape[0] + 3) // 4), np.uint16)
    histogram = np.zeros((masses.shape[1], powers.shape[0]))
    for q in range(leaves.shape[0]):
        count_by_members(leaves[q], starts, members, counts)
        nearest[q] = gather(counts, number, anchors, class_starts, class_of, weight_of, histogram)
        contract(histogram, powers, masses[q])


@_compiled
def masses_by_comparison(leaves, tiles, number, anchors, class_starts, class_of, weight_of, powers, masses, nearest):
    """As :func:`masses_by_members`, by comparison with every polytope, ``_TOGETHER`` queries at a time."""
    counts = np.zeros((_TOGETHER, tiles.shape[0] * tiles.shape[2]), np.uint16)
    histogram = np.zeros((masses.shape[1], powers.shape[0]))
    for first in range(0, nearest.shape[0], _TOGETHER):
        some = leaves[first : first + _TOGETHER]
        count_by_comparison(some, tiles, counts)
        for q in range(min(some.shape[0], nearest.shape[0] - first)):
            nearest[first + q] = gather(
                counts[q, : 4 * ((number.shape[0] + 3) // 4)], number, anchors, class_starts, class_of, weight_of, histogram
            )
            contract(histogram, powers, masses[first + q])
