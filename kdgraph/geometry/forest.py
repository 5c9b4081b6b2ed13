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

from kdgraph.geometry.leaf_index import LeafIndex, leaf_similarity
from kdgraph.geometry.partition import Locations


class TreePartition:
    """Base class of the partitions by the leaves of several trees.

    Two rows are as similar as the fraction of trees that put them into the same leaf. A subclass
    implements :meth:`encode`, :meth:`vote` and :meth:`node_parents`.

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
    """

    takes_missing: ClassVar[bool] = False
    """True if rows with missing values have codes, and points that keep the missing values."""

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
        """Return the attributes without the leaves, which follow from the trees."""
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
        """Return the geodesic similarity of all pairs of codes, Float[m, n].

        Parameters are those of :func:`~kdgraph.geometry.leaf_index.leaf_similarity`.
        """
        return leaf_similarity(a, b)

    def paired_similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return K, Float[n], of each code in ``a`` and the code at the same position in ``b``."""
        return (a == b).sum(axis=1) / self.n_trees

    def vote(self, locations: Locations) -> np.ndarray:
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


class ForestPartition(TreePartition):
    """Partition of feature space by a fitted forest or tree (Dey et al. 2024, Section 4.3).

    Parameters
    ----------
    forest : forest or decision tree of scikit-learn
        The fitted forest, or one fitted tree.
    n_jobs : int, default=None
        Threads that apply the trees. Codes do not depend on it.

    Attributes
    ----------
    n_trees : int
        Number of trees, T.
    leaf_starts : Int[T + 1]
        Nodes of tree t are numbered from ``leaf_starts[t]`` on when counted over all trees.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the forest is not fitted.

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
        """Return the node in which each tree puts each row.

        Parameters
        ----------
        X : Float[n, d]
            The rows.

        Returns
        -------
        Int32[n, T]
            Codes, contiguous by column.

        Raises
        ------
        ValueError
            If the rows do not have the number of features that the forest was fitted on.
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
        # The low-level ``apply`` runs over a few chunks of trees: for 1,000 rows that takes 0.4 of
        # the time of ``forest.apply``, which creates a task for each tree and returns eight bytes
        # a code. Rows are sorted by the leaves of the first tree, so that neighbours follow the
        # same paths one after the other.
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

    def vote(self, locations: Locations) -> np.ndarray:
        """Return the forest's own ``predict_proba``, Float[n, K], computed from codes."""
        # Trees are added in order, so that the result does not depend on the number of threads.
        codes = locations.codes
        total = np.zeros((len(codes), self.trees[0].value.shape[2]))
        for t, tree in enumerate(self.trees):
            total += tree.value[codes[:, t], 0, :]
        return total / self.n_trees


def parents_of(tree: Any) -> np.ndarray:
    """Return the parent of each node of a tree of scikit-learn, Int[nodes], -1 for the root.

    Parameters
    ----------
    tree : sklearn.tree._tree.Tree
        A fitted ``tree_``.
    """
    parents = np.full(tree.node_count, -1, dtype=np.int64)
    for children in (tree.children_left, tree.children_right):
        inner_nodes = np.flatnonzero(children >= 0)
        parents[children[inner_nodes]] = inner_nodes
    return parents
