"""Class masses Σ K^exponent over the rows of each class (Dey et al. 2024, Eq. 11 and 15).

:class:`PolytopeCounts` sums over polytopes, and :class:`OutOfBagCounts`, which is original to
kdgraph, over the rows of a bagged forest in the trees that they are out of bag in. Of many rows
:func:`choose_class_rows` draws those that are counted.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from kdgraph.base import Rows
from kdgraph.geometry import Partition, Polytopes, polytopes_of, take_rows
from kdgraph.geometry.kinds import forest_partition_of, tree_partition_of
from kdgraph.geometry.out_of_bag import IN_BAG, OutOfBagIndex
from kdgraph.geometry.partition import PolytopeIndex

MAX_MEETINGS_PER_TREE = 3.0
"""Counted rows that a row meets in its leaf of a tree, on average, at an "auto" limit."""
MIN_CLASS_ROWS = 16_384
"""Number of counted rows below which an "auto" limit does not go."""


class ClassCounts:
    """Classes of rows, counted by an index that is built at the first query."""

    class_rows: Any
    """Positions of the rows whose classes are counted, Int[l], increasing; None for all."""

    # A density by distances to means needs no index. It is left out of pickles, because it follows
    # from the rest and takes half of the size of a forest's graph on disk.
    @cached_property
    def _index(self) -> Any:
        """Index of the counted rows or of their polytopes."""
        return self._make_index()

    def _make_index(self) -> Any:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_index"}

    def query(
        self, codes: np.ndarray, exponents: np.ndarray, *, with_nearest: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the class masses around codes, and their nearest populated polytopes by K.

        Parameters
        ----------
        codes : Int[n, …]
            Codes r of queries.
        exponents : Float[k]
            Powers of the similarity.
        with_nearest : bool
            Whether nearest polytopes are needed.

        Returns
        -------
        masses : Float[n, K, k]
            Σ_s K(r, s)^exponent · (class mass of s) for each code and exponent (Eq. 11, 15).
        nearest : Int[n]
            Populated polytope with the largest K, -1 if K is 0 for all; arbitrary without
            ``with_nearest``.
        """
        raise NotImplementedError


class PolytopeCounts(ClassCounts):
    """Class masses of polytopes, each at the code of one of its rows.

    Parameters
    ----------
    partition : Partition
        The partition.
    codes : Int[n, …]
        Codes of the rows.
    labels : Float[n, K]
        Weight of each row in the column of its class.
    polytopes : Polytopes
        Polytopes of the rows.
    n_anchors : int
        The first of them can be nearest to a query.
    class_rows : Int[l], default=None
        Rows whose classes are counted, each in its own polytope, of which none was merged. None for
        all rows.
    """

    def __init__(
        self,
        partition: Partition,
        codes: np.ndarray,
        labels: np.ndarray,
        polytopes: Polytopes,
        n_anchors: int,
        class_rows: np.ndarray | None = None,
    ):
        self.partition, self.class_rows = partition, class_rows
        self.codes, self._n_rows = codes, len(codes)
        if class_rows is not None:
            self.codes, labels = take_rows(codes, class_rows), labels[class_rows]
            polytopes = polytopes_of(self.codes)
            n_anchors = len(polytopes)
        self._polytopes, self._n_anchors = polytopes, n_anchors
        self._class_masses = polytopes.sum_by_polytope(labels)

    def _make_index(self) -> PolytopeIndex:
        return self.partition.index(
            self.codes,
            self._class_masses,
            rows=self._polytopes.representatives,
            n_anchors=self._n_anchors,
        )

    def query(
        self, codes: np.ndarray, exponents: np.ndarray, *, with_nearest: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        return self._index.query(codes, exponents)

    def own_similarity(self, rows: slice) -> np.ndarray:
        """Return K, Float[n], between each of ``rows`` and the code at which its class counts.

        It is 1 unless polytopes were merged, and 0 for rows whose classes do not count.
        """
        if self.class_rows is not None:
            positions = np.arange(*rows.indices(self._n_rows))
            return np.isin(positions, self.class_rows).astype(np.float64)
        representatives = self._polytopes.representatives[self._polytopes.polytope_of_row[rows]]
        return self.partition.paired_similarity(
            self.codes[rows], take_rows(self.codes, representatives)
        )


class OutOfBagCounts(ClassCounts):
    """Classes of the rows of a bagged forest, each in the trees that it is out of bag in.

    Parameters
    ----------
    partition : Partition
        Partition of the forest, also behind transformers.
    codes, rows
        The rows that the forest was fitted on, with classes and weights, and their Int[n, T].
    is_out : Bool[n, T]
        True where a row is out of bag in a tree.
    n_classes, polytope_of_row
        Number of classes K, and the populated polytope of each row, Int[n].
    class_rows : Int[l], default=None
        Rows whose classes are counted. None for all rows.
    """

    def __init__(
        self,
        partition: Partition,
        codes: np.ndarray,
        rows: Rows,
        is_out: np.ndarray,
        n_classes: int,
        polytope_of_row: np.ndarray,
        class_rows: np.ndarray | None = None,
    ):
        self.partition, self._n_classes = partition, n_classes
        self.class_rows = np.arange(len(rows)) if class_rows is None else class_rows
        counted = rows[self.class_rows]
        self._classes, self._weights = counted.y, counted.weight
        self._polytope_of_row = polytope_of_row[self.class_rows]
        # Only leaves that a counted row is out of bag in are needed from here on.
        self._codes = np.where(is_out[self.class_rows], take_rows(codes, self.class_rows), IN_BAG)

    def _make_index(self) -> OutOfBagIndex:
        forest = forest_partition_of(self.partition)
        if forest is None:
            raise TypeError("out-of-bag counts need the partition of a forest")
        return OutOfBagIndex(
            self._codes,
            self._classes,
            self._weights,
            self._n_classes,
            forest.leaf_starts,
            n_jobs=forest.n_jobs,
        )

    def query(
        self, codes: np.ndarray, exponents: np.ndarray, *, with_nearest: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        masses, nearest = self._index.query(codes, exponents, with_nearest=with_nearest)
        # The index numbers the counted rows; the nearest polytope is that of the nearest row.
        return masses, np.where(nearest >= 0, self._polytope_of_row[np.maximum(nearest, 0)], -1)

    def query_training(
        self, codes: np.ndarray, is_out: np.ndarray, rows: np.ndarray, exponents: np.ndarray
    ) -> np.ndarray:
        """Return the class masses around training rows, without their own, Float[m, K, k].

        ``codes``: Int[m, T]; ``is_out``: Bool[m, T], where each is out of bag in a tree; ``rows``:
        Int[m], positions among all training rows; ``exponents``: Float[k].
        """
        number = np.minimum(np.searchsorted(self.class_rows, rows), len(self.class_rows) - 1)
        number[self.class_rows[number] != rows] = -1
        return self._index.query_training(np.where(is_out, codes, IN_BAG), number, exponents)


def choose_class_rows(
    partition: Partition, codes: np.ndarray, is_counted: np.ndarray | None = None
) -> np.ndarray | None:
    """Draw the rows whose classes are counted, so that a query meets a bounded number of them.

    The result is Int[l], positions of the rows, increasing; None for all rows, as of any partition
    but one of trees. ``codes``: Int[n, T]; ``is_counted``: Bool[n, T], where the class of a row
    counts in a tree, None for all trees.

    A sum of kernels visits each counted row in the leaf of each tree, and what it costs are these
    visits, not the number of rows: fully grown trees have leaves of a few rows however many rows
    there are. Large leaves do not need all of theirs. On 100,000 rows of twenty features, and trees
    of at least five rows a leaf, the NLL was .2741 with 3 of them in a leaf instead of .2731 with
    all, and a prediction took 22 instead of 55 µs. Up to :data:`MIN_CLASS_ROWS` rows are counted in
    any case, because the fewer rows there are, the more each of them matters.
    """
    trees = tree_partition_of(partition)
    if trees is None or len(codes) <= MIN_CLASS_ROWS:
        return None
    meetings = 0
    for t, n_nodes in enumerate(np.diff(trees.leaf_starts)):
        nodes = codes[:, t]
        rows = np.bincount(nodes, minlength=n_nodes)
        counted = nodes if is_counted is None else nodes[is_counted[:, t]]
        meetings += int(rows @ np.bincount(counted, minlength=n_nodes))
    share = MAX_MEETINGS_PER_TREE * trees.n_trees * len(codes) / max(meetings, 1)
    return (
        None
        if share >= 1
        else draw_rows(len(codes), max(MIN_CLASS_ROWS, round(share * len(codes))))
    )


def draw_rows(n_rows: int, n_drawn: int | None) -> np.ndarray:
    """Return the positions of a sample of rows, Int[m], increasing; of all if these are few."""
    if n_drawn is None or n_rows <= n_drawn:
        return np.arange(n_rows)
    # At random, because the rows of a table may be in the order of their classes.
    return np.sort(np.random.default_rng(0).choice(n_rows, n_drawn, replace=False))
