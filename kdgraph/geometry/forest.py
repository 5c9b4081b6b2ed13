"""Partitions of feature space by the leaves of several trees.

The code of a row is the leaf in which each tree puts it (Dey et al. 2024, Section 4.3).
:class:`TreePartition` has what the partitions of all tree ensembles share, and
:class:`ForestPartition` is that of a forest of scikit-learn;
:mod:`~kdgraph.geometry.boosting` has those of boosted trees.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.utils.validation import check_is_fitted

from kdgraph.geometry.leaf_cells import CellIndex
from kdgraph.geometry.leaf_comparison import compiled, leaf_similarity
from kdgraph.geometry.leaf_index import (
    LeafIndex,
    RowIndex,
    check_nodes,
    is_cheaper_by_members,
)
from kdgraph.geometry.partition import Locations, PolytopeIndex, shares_memory, take_rows

# Rows that go down a tree side by side, so that the memory is read for one while another waits;
# 64 and 128 take the same time.
_ROWS_TOGETHER = 64
# Rows × trees from which on workers that share no memory encode: to send rows and trees takes as
# long as 10⁶ of them.
_MIN_STEPS_TO_SEND = 5_000_000
# Polytopes, and how many of them a row meets in its leaf of a tree, from which on cells pay.
_MIN_POLYTOPES_IN_CELLS, _MIN_MEETINGS_IN_CELLS = 2048, 60
# Bit of a split's feature that is set if missing values go to the left.
_MISSING_LEFT = 1 << 30


class TreePartition:
    """Base class of the partitions by the leaves of several trees.

    Two rows are as similar as the fraction of trees that put them into the same leaf. A subclass
    implements :meth:`encode`, :meth:`parent_proba` and :meth:`node_parents`.

    Parameters
    ----------
    model : estimator
        The fitted ensemble of trees.
    node_counts : Int[T]
        Number of nodes of each tree.
    n_jobs : int, default=None
        Number of threads. Codes do not depend on it.

    Attributes
    ----------
    model : estimator
        The fitted ensemble of trees.
    n_trees : int
        Number of trees, T.
    leaf_starts : Int[T + 1]
        Nodes of tree t are numbered from ``leaf_starts[t]`` on when counted over all trees.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from kdgraph.geometry import TreePartition, partition_of
    >>> X, y = load_iris(return_X_y=True)
    >>> partition = partition_of(RandomForestClassifier(10, random_state=0).fit(X, y))
    >>> isinstance(partition, TreePartition), partition.n_trees, partition.encode(X).shape
    (True, 10, (150, 10))
    """

    takes_missing: ClassVar[bool] = False
    """True if rows with missing values have codes, and points that keep the missing values."""

    has_narrow_kernel: ClassVar[bool] = False
    """True if few of the rows that share leaves with a row have nearly all of the kernel's mass."""

    def __init__(self, model: Any, node_counts: Any, n_jobs: int | None = None):
        self.model = model
        self.n_jobs = n_jobs
        self.n_trees = len(node_counts)
        self.leaf_starts = np.concatenate([[0], np.cumsum(node_counts, dtype=np.int64)])

    def node_parents(self, t: int) -> np.ndarray:
        """Return the parent of each node of tree ``t``, Int[nodes], -1 for the root."""
        raise NotImplementedError

    @cached_property
    def is_leaf(self) -> np.ndarray:
        """True for the nodes that are leaves, Bool[nodes], counted over all trees."""
        is_leaf = np.ones(self.leaf_starts[-1], dtype=bool)
        for t, start in enumerate(self.leaf_starts[:-1]):
            parents = self.node_parents(t)
            is_leaf[start + parents[parents >= 0]] = False
        return is_leaf

    def __getstate__(self) -> dict[str, Any]:
        # The leaves follow from the trees.
        return {name: value for name, value in self.__dict__.items() if name != "is_leaf"}

    def embed(self, X: Any) -> np.ndarray:
        """Return the points in the space of the Gaussians, Float[n, d]: the features themselves."""
        return np.asarray(X, dtype=np.float64)

    def encode(self, X: Any) -> np.ndarray:
        """Return the node in which each tree puts each row, Int32[n, T], contiguous by column."""
        raise NotImplementedError

    def locate(self, X: Any, *, with_proba: bool = True) -> Locations:
        """Return points and codes of the rows ``X`` (Float[n, d]) together."""
        return Locations(self.embed(X), self.encode(X))

    def similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the geodesic similarity of codes Int[m, T] and Int[n, T], Float[m, n]."""
        return leaf_similarity(a, b)

    def paired_similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return K, Float[n], of each code in ``a`` and the code at the same position in ``b``."""
        return (a == b).sum(axis=1) / self.n_trees

    def parent_proba(self, locations: Locations) -> np.ndarray:
        """Return the ensemble's own ``predict_proba``, Float[n, K]."""
        raise NotImplementedError

    def index(
        self,
        codes: np.ndarray,
        class_weights: np.ndarray,
        *,
        rows: np.ndarray | None = None,
        n_anchors: int | None = None,
    ) -> LeafIndex:
        """Return an index of polytopes, with parameters as for :class:`LeafIndex`."""
        return LeafIndex(
            codes,
            class_weights,
            self.leaf_starts,
            rows=rows,
            n_anchors=n_anchors,
            n_jobs=self.n_jobs,
        )

    def mass_index(
        self, codes: np.ndarray, class_weights: np.ndarray, rows: np.ndarray, *, approximates: bool
    ) -> PolytopeIndex:
        """Return an index of the class masses of polytopes, not of the nearest one.

        Parameters are those of :meth:`index`. With ``approximates`` it may be by cells.
        """
        check_nodes(codes, self.leaf_starts)  # they may come from a file
        if approximates and self.has_cells(take_rows(codes, rows)):
            return CellIndex(codes, class_weights, self.leaf_starts, rows=rows, n_jobs=self.n_jobs)
        meetings = self.mean_meetings(take_rows(codes, rows))
        if not is_cheaper_by_members(meetings, len(rows)):
            return self.index(codes, class_weights, rows=rows)
        # A polytope with several classes is a row of each.
        polytope, classes = np.nonzero(class_weights)
        return RowIndex(
            take_rows(codes, rows[polytope]),
            classes,
            class_weights[polytope, classes],
            class_weights.shape[1],
            self.leaf_starts,
            n_jobs=self.n_jobs,
        )

    def has_cells(self, codes: np.ndarray) -> bool:
        """Return True if polytopes with these codes, Int[p, T], are searched by cells."""
        is_large = self.has_narrow_kernel and len(codes) >= _MIN_POLYTOPES_IN_CELLS
        return is_large and self.mean_meetings(codes) >= _MIN_MEETINGS_IN_CELLS

    def mean_meetings(self, codes: np.ndarray, is_counted: np.ndarray | None = None) -> float:
        """Return how many counted rows a row meets in its leaf of a tree, on average.

        ``codes``: Int[n, T]; ``is_counted``: Bool[n, T], where a row counts in a tree; None: all.
        """
        meetings = 0
        for t, n_nodes in enumerate(np.diff(self.leaf_starts)):
            nodes = codes[:, t]
            rows = np.bincount(nodes, minlength=n_nodes)
            counted = nodes if is_counted is None else nodes[is_counted[:, t]]
            meetings += int(rows @ np.bincount(counted, minlength=n_nodes))
        return meetings / max(codes.size, 1)


class ForestPartition(TreePartition):
    """Partition of feature space by a fitted forest or tree (Dey et al. 2024, Section 4.3).

    Attributes are those of :class:`TreePartition`.

    Parameters
    ----------
    forest : forest or decision tree of scikit-learn
        The fitted forest, or one fitted tree.
    n_jobs : int, default=None
        Threads that apply the trees. Codes do not depend on it.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> forest = RandomForestClassifier(8, random_state=0).fit(X, [0, 0, 1, 1])
    >>> partition = ForestPartition(forest)
    >>> codes = partition.encode(X)
    >>> codes.shape, partition.similarity(codes, codes)[0, 0]
    ((4, 8), np.float64(1.0))
    """

    def __init__(self, forest: Any, n_jobs: int | None = None):
        check_is_fitted(forest)
        trees = getattr(forest, "estimators_", [forest])
        super().__init__(forest, [tree.tree_.node_count for tree in trees], n_jobs)

    @property
    def forest(self) -> Any:
        """The fitted forest, or one fitted tree."""
        return self.model

    @property
    def trees(self) -> list:
        """Low-level trees of scikit-learn, ``tree_`` of each estimator."""
        # They are read from the forest at each access, so that a pickled partition contains no
        # second copy of them.
        return [tree.tree_ for tree in getattr(self.forest, "estimators_", [self.forest])]

    def node_parents(self, t: int) -> np.ndarray:
        """Return the parent of each node of tree ``t``, Int[nodes], -1 for the root."""
        return parents_of(self.trees[t])

    def encode(self, X: Any) -> np.ndarray:
        """Return the node in which each tree puts each row, Int32[n, T], contiguous by column.

        Rows with another number of features than those of the fit raise ValueError.
        """
        # As in scikit-learn, values beyond 3e38 overflow to infinity in float32; they pass the
        # splits as all large values do.
        with np.errstate(over="ignore"):
            X = np.ascontiguousarray(X, dtype=np.float32)
        # The low-level ``apply`` does not check the number of features.
        if X.shape[1] != self.forest.n_features_in_:
            raise ValueError(
                f"the forest splits on {self.forest.n_features_in_} features, got rows of"
                f" {X.shape[1]}"
            )
        codes = np.empty((len(X), self.n_trees), dtype=np.int32, order="F")
        n_jobs = effective_n_jobs(self.n_jobs)
        has_missing = bool(np.isnan(X).any())
        if not shares_memory() and len(X) * self.n_trees >= _MIN_STEPS_TO_SEND:
            # Rows go to all workers, but each tree to one: of many rows the trees are larger, and
            # workers have got the rows already if the forest was fitted on them.
            chunks = np.array_split(np.arange(self.n_trees), min(n_jobs, self.n_trees))
            parts = Parallel(n_jobs=self.n_jobs)(
                delayed(_encode_by_trees)([self.trees[t] for t in chunk], X, has_missing)
                for chunk in chunks
            )
            for chunk, part in zip(chunks, parts, strict=True):
                codes[:, chunk] = part
            return codes
        if not self._pays_to_pack(len(X)):
            for t, tree in enumerate(self.trees):
                codes[:, t] = tree.apply(X)
            return codes
        chunks = np.array_split(np.arange(self.n_trees), min(n_jobs, self.n_trees))

        def fill(chunk: np.ndarray) -> None:
            first, last = chunk[0], chunk[-1] + 1
            starts = self.leaf_starts[first:last]
            _descend(*self._packed_trees, starts, X, has_missing, codes[:, first:last])

        Parallel(n_jobs=n_jobs, require="sharedmem")(delayed(fill)(chunk) for chunk in chunks)
        return codes

    def _pays_to_pack(self, n_rows: int) -> bool:
        """Return True if the nodes are packed, or if that is worth it for so many rows."""
        # To pack a node takes half of the time that a row saves in a tree.
        is_packed = "_packed_trees" in self.__dict__
        return is_packed or 2 * n_rows * self.n_trees >= self.leaf_starts[-1]

    @cached_property
    def _packed_trees(self) -> tuple[np.ndarray, np.ndarray]:
        return _pack_trees(self.trees)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_packed_trees"}

    def parent_proba(self, locations: Locations) -> np.ndarray:
        """Return the forest's own ``predict_proba``, Float[n, K], computed from codes."""
        # Trees are added in order, so that the result does not depend on the number of threads.
        codes = locations.codes
        total = np.zeros((len(codes), self.trees[0].value.shape[2]))
        for t, tree in enumerate(self.trees):
            _add_leaf_values(tree.value, codes[:, t], total)
        return total / self.n_trees


def _encode_by_trees(trees: list, X: np.ndarray, has_missing: bool) -> np.ndarray:
    """Return the node in which each of some trees puts each row of Float32[n, d], Int32[n, t]."""
    codes = np.empty((len(X), len(trees)), dtype=np.int32, order="F")
    starts = np.concatenate([[0], np.cumsum([tree.node_count for tree in trees])[:-1]])
    _descend(*_pack_trees(trees), starts.astype(np.int64), X, has_missing, codes)
    return codes


def _pack_trees(trees: list) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes of trees of scikit-learn in 16 bytes each, tree after tree.

    ``nodes``, Int32[nodes, 4], have the feature of the split, -1 for a leaf, with the bit
    :data:`_MISSING_LEFT`; the threshold; the right and the left child, counted in the tree.
    ``thresholds``, Float32[nodes, 4], are the same memory as floating-point numbers.
    """
    # scikit-learn stores a node in 64 bytes. With a quarter of them, a tree of 16,000 leaves fits
    # into the cache of a core.
    nodes = np.empty((sum(tree.node_count for tree in trees), 4), dtype=np.int32)
    thresholds, start = nodes.view(np.float32), 0
    for tree in trees:
        part = slice(start, start + tree.node_count)
        start = part.stop
        is_leaf = tree.children_left < 0
        missing_left = np.where(tree.missing_go_to_left, _MISSING_LEFT, 0)
        nodes[part, 0] = np.where(is_leaf, -1, tree.feature | missing_left)
        thresholds[part, 1] = _round_down(tree.threshold)
        nodes[part, 2], nodes[part, 3] = tree.children_right, tree.children_left
    return nodes, thresholds


def _round_down(thresholds: np.ndarray) -> np.ndarray:
    """Return the largest Float32 numbers that are not above ``thresholds`` (Float64).

    A number of 32 bits is below or equal to these exactly where it is to the thresholds.
    """
    with np.errstate(over="ignore"):
        rounded = thresholds.astype(np.float32)
    is_above = rounded.astype(np.float64) > thresholds
    rounded[is_above] = np.nextafter(rounded[is_above], np.float32(-np.inf))
    return rounded


@compiled
def _descend(nodes, thresholds, starts, X, has_missing, codes):
    """Fill the leaf of each row in each of some trees into ``codes``: Int32[n, t].

    ``nodes``, ``thresholds``: see :func:`_pack_trees`; ``starts``: Int[t], first node of each tree;
    ``X``: Float32[n, d].
    """
    # One row after the other waits for memory at each node. Here each step is taken by many rows
    # whose reads do not depend on each other, and without a branch that could be predicted wrongly:
    # 2.3 times as fast as scikit-learn on trees of 5,000 leaves.
    node, row = np.empty(_ROWS_TOGETHER, np.int64), np.empty(_ROWS_TOGETHER, np.int64)
    for t in range(starts.shape[0]):
        start = starts[t]
        for first in range(0, X.shape[0], _ROWS_TOGETHER):
            n_left = min(_ROWS_TOGETHER, X.shape[0] - first)
            for j in range(n_left):
                node[j], row[j] = start, first + j
            while n_left > 0:
                n_next = 0
                for j in range(n_left):
                    at, r = node[j], row[j]
                    feature = nodes[at, 0]
                    if feature < 0:
                        codes[r, t] = at - start
                        continue
                    value = X[r, feature & (_MISSING_LEFT - 1)]
                    goes_left = np.int64(value <= thresholds[at, 1])
                    if has_missing and np.isnan(value):
                        goes_left = np.int64(feature >= _MISSING_LEFT)
                    node[n_next], row[n_next] = start + nodes[at, 2 + goes_left], r
                    n_next += 1
                n_left = n_next


@compiled
def _add_leaf_values(values, leaves, total):
    """Add the values, Float[nodes, 1, K], of the leaf of each row, Int[n], to Float[n, K]."""
    # NumPy would copy the values of all rows first: 3 times as slow.
    for i in range(leaves.shape[0]):
        for y in range(total.shape[1]):
            total[i, y] += values[leaves[i], 0, y]


def parents_of(tree: Any) -> np.ndarray:
    """Return the parent of each node of a fitted ``tree_``, Int[nodes], -1 for the root."""
    parents = np.full(tree.node_count, -1, dtype=np.int64)
    for children in (tree.children_left, tree.children_right):
        inner_nodes = np.flatnonzero(children >= 0)
        parents[children[inner_nodes]] = inner_nodes
    return parents
