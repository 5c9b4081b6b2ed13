"""Index of a bagged forest's training rows by the trees in which they are out of bag.

A tree of a bagged forest is fitted on a bootstrap sample; a training row that is not in the sample
is *out of bag*, and the tree is independent of its label
(:func:`~kdgraph.base.out_of_sample.out_of_bag_trees`). :class:`OutOfBagIndex` computes class masses
as :class:`~kdgraph.geometry.leaf_index.LeafIndex` does, but a pair of rows counts only in the trees
for which both are out of bag. Original to kdgraph.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from kdgraph.geometry.code_index import count_ones
from kdgraph.geometry.leaf_index import QUERY_BLOCK, LeafIndex, compiled, count_by_members
from kdgraph.geometry.partition import map_blocks

IN_BAG = -1
"""Code of a training row in a tree that was fitted on it."""


@compiled
def _query_block_pairs(
    leaves,
    query_masks,
    query_ids,
    starts,
    members,
    number,
    masks,
    classes,
    weights,
    powers,
    masses,
    nearest,
):
    """Fill class masses and nearest training rows of queries, each without the row itself.

    ``leaves``: Int[m, T], leaf numbers of the queries, negative in bag; ``query_masks``: UInt64[m,
    W] and ``masks``: UInt64[n, W], a bit for each tree that a row is out of bag in, of a new row
    all trees; ``query_ids``: Int[m] and ``number``: Int[n], numbers of the rows; ``classes``:
    Int[n]; ``weights``: Float[n]; ``powers``: Float[N, N, k], (c / trees)^exponent at [trees, c].
    Filled are ``masses``: Float[m, K, k], zeros before, and ``nearest``: Int[m].
    """
    n, n_classes, n_fractions = number.shape[0], masses.shape[1], powers.shape[0] ** 2
    counts = np.zeros(4 * ((n + 3) // 4), np.uint16)
    words = counts.view(np.uint64)
    partners, fractions, order = (
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
    )
    class_ends = np.empty(n_classes + 1, np.int64)
    # Most pairs have one of few fractions c / trees, so that weights are summed by class and
    # fraction first, and each exponent then costs a sum over fractions instead of over pairs: 4
    # times as fast at the 24 exponents of a search. The fractions that occur are listed.
    histogram = np.zeros(n_fractions)
    is_listed, listed = np.zeros(n_fractions, np.bool_), np.empty(n_fractions, np.int64)
    for q in range(leaves.shape[0]):
        count_by_members(leaves[q], starts, members, counts)
        n_pairs, best, best_count, best_trees = 0, -1, 0, 1
        class_ends[:] = 0
        for w in range(words.shape[0]):
            if words[w] == 0:
                continue
            for i in range(4 * w, 4 * w + 4):
                count = np.int64(counts[i])
                if count == 0 or number[i] == query_ids[q]:
                    continue
                # Each pair has its own denominator: the trees for which both are out of bag.
                trees = 0
                for b in range(masks.shape[1]):
                    trees += count_ones(masks[i, b] & query_masks[q, b])
                partners[n_pairs], fractions[n_pairs] = i, trees * powers.shape[0] + count
                class_ends[classes[i] + 1] += 1
                n_pairs += 1
                # Fractions are compared as integers, so that ties are exact.
                ahead = count * best_trees - best_count * trees
                if ahead > 0 or (ahead == 0 and number[i] < best):
                    best, best_count, best_trees = number[i], count, trees
            words[w] = 0
        nearest[q] = best
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


class OutOfBagIndex(LeafIndex):
    """Index of the training rows of a bagged forest by the leaves in which they are out of bag.

    The similarity of a new row x and a training row s is the fraction of the trees that s is out of
    bag in, in which both share a leaf. Two training rows are compared in the trees that both are
    out of bag in. So neither label has shaped a leaf that the pair is compared in.

    Parameters
    ----------
    codes : Int[n, T]
        Node of each tree that contains each training row, :data:`IN_BAG` for trees that were fitted
        on the row.
    classes : Int[n]
        Class of each row.
    weights : Float[n]
        Weight of each row.
    n_classes : int
        Number of classes K.
    leaf_starts : Int[T + 1]
        Node numbers of tree t begin at ``leaf_starts[t]``.
    n_jobs : int, default=None
        Threads over blocks of queries. Results are equal to the last bit for any number.

    Notes
    -----
    Original to kdgraph. Rows that are in bag in all trees have no similarity to any row.

    Examples
    --------
    >>> codes = np.array([[1, IN_BAG, 1], [1, 2, IN_BAG], [1, 2, 2]])  # three rows in three trees
    >>> index = OutOfBagIndex(codes, [0, 1, 1], np.ones(3), 2, np.array([0, 3, 6, 9]))
    >>> index.query_training(np.array([0, 1, 2]), np.array([1.0]))[0][:, :, 0]
    array([[0. , 1.5],
           [1. , 1. ],
           [0.5, 1. ]])
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
        is_out = codes >= 0
        self._n_out = is_out.sum(axis=1)[order]
        self._masks = _pack_bits(is_out[order])
        self._classes = np.ascontiguousarray(np.asarray(classes)[order], dtype=np.int64)
        self._row_weights = np.ascontiguousarray(np.asarray(weights)[order], dtype=np.float64)

    def query(self, codes: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the class masses of new rows at every exponent, and their nearest training rows.

        Parameters
        ----------
        codes : Int[m, T]
            Codes of the rows, without :data:`IN_BAG`.
        exponents : Float[k]
            Powers of the similarity.

        Returns
        -------
        masses : Float[m, K, k]
            Σ_s K(x, s)^exponent · weight of s, for each row x, class and exponent.
        nearest : Int[m]
            The training row that shares most leaves, of several the first; -1 if none shares any.
        """
        return self._query_pairs(codes, np.full(len(codes), -1), exponents)

    def query_training(
        self, rows: np.ndarray, exponents: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the class masses of training rows, without their own, and the rows nearest them.

        Parameters
        ----------
        rows : Int[m]
            Positions of training rows.
        exponents : Float[k]
            Powers of the similarity.

        Returns
        -------
        masses : Float[m, K, k]
            Σ_{s ≠ i} K(i, s)^exponent · weight of s, for each row i, class and exponent.
        nearest : Int[m]
            The other row with the largest similarity, of several the first; -1 if all are 0.
        """
        return self._query_pairs(self._codes[rows], np.asarray(rows), exponents)

    def _query_pairs(
        self, codes: np.ndarray, row_ids: np.ndarray, exponents: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return masses and nearest rows of queries with codes Int[m, T].

        ``row_ids``: Int[m], position of each query among the training rows, -1 for new rows.
        """
        # The table has a row for each number of trees that a pair can have in common.
        trees = np.arange(self._n_out.max(initial=0) + 1)
        fractions = np.minimum(trees / np.maximum(trees, 1)[:, None], 1.0)
        powers = fractions[:, :, None] ** np.asarray(exponents, dtype=np.float64)
        masses = np.zeros((len(codes), self.n_classes, len(exponents)))
        nearest = np.full(len(codes), -1, dtype=np.int64)
        order = np.argsort(codes[:, 0], kind="stable")
        blocks = [order[start : start + QUERY_BLOCK] for start in range(0, len(codes), QUERY_BLOCK)]
        query_block = partial(self._query_pairs_block, powers=powers)
        queries = np.column_stack([row_ids, codes])
        for block, (block_masses, block_nearest) in map_blocks(
            query_block, queries, blocks, self.n_jobs
        ):
            masses[block], nearest[block] = block_masses, block_nearest
        return masses, nearest

    def _query_pairs_block(
        self, queries: np.ndarray, powers: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return masses and nearest rows of a few queries, their row numbers before their codes."""
        masses = np.zeros((len(queries), self.n_classes, powers.shape[2]))
        nearest = np.full(len(queries), -1, dtype=np.int64)
        row_ids, codes = queries[:, 0].astype(np.int64), queries[:, 1:]
        _query_block_pairs(
            self._leaves_of(codes),
            _pack_bits(codes >= 0),
            row_ids,
            self._starts,
            self._members,
            self._polytope_ids,
            self._masks,
            self._classes,
            self._row_weights,
            powers,
            masses,
            nearest,
        )
        return masses, nearest


def _pack_bits(flags: np.ndarray) -> np.ndarray:
    """Return the flags, Bool[n, T], as bits: UInt64[n, W]."""
    n_words = -(-flags.shape[1] // 64)
    padded = np.zeros((len(flags), 64 * n_words), dtype=bool)
    padded[:, : flags.shape[1]] = flags
    return np.packbits(padded, axis=1).view(np.uint64)
