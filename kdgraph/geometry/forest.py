"""Forests as partitions: a code is the leaf that each tree puts a sample into."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.ensemble._forest import BaseForest
from sklearn.tree import BaseDecisionTree
from sklearn.utils.validation import check_is_fitted

from kdgraph.geometry import kernels
from kdgraph.geometry.leaf_index import LeafIndex
from kdgraph.geometry.place import Place

_TILE = 512
"""Rows that are compared with one query after the other while they are in a core's cache."""


class ForestPartition:
    """The partition that a fitted forest (or one tree) of scikit-learn cuts feature space into (Dey et al., Section 4.3).

    Parameters
    ----------
    forest : the fitted forest, or one decision tree.
    n_jobs : threads that walk down the trees; never changes a code.

    Attributes
    ----------
    n_trees : T.
    leaf_starts : Int[T + 1]; leaves of tree t are numbered from ``leaf_starts[t]`` in codes.
    """

    def __init__(self, forest: BaseForest | BaseDecisionTree, n_jobs: int | None = None):
        check_is_fitted(forest)
        self.forest = forest
        self.n_jobs = n_jobs
        self.n_trees = len(self.trees)
        self.leaf_starts = np.concatenate([[0], np.cumsum([tree.node_count for tree in self.trees])])

    @property
    def trees(self) -> list:
        """The trees' arrays, of scikit-learn; asked of the forest each time, so that a pickled partition holds no second copy of them."""
        return [tree.tree_ for tree in getattr(self.forest, "estimators_", [self.forest])]

    def embed(self, X: Any) -> np.ndarray:
        """Float[n, d]: the space in which the Gaussians of the polytopes live; for a forest the features themselves."""
        return np.asarray(X, dtype=np.float64)

    def encode(self, X: Any) -> np.ndarray:
        """Int32[n, T], column by column in memory: the node that each tree puts each row of ``X`` (Float[n, d]) into.

        Walks ``tree_.apply`` in a few chunks of trees: for 1,000 rows that takes 0.4 of the time of ``forest.apply``, which pays a task
        for each tree and returns eight bytes a code. Rows go down in the order of the first tree's leaves, so that neighbours take the same
        paths one after the other.
        """
        with np.errstate(over="ignore"):  # beyond 3e38 a value becomes infinite, and goes the way of all large ones
            X = np.ascontiguousarray(X, dtype=np.float32)
        if X.shape[1] != self.forest.n_features_in_:  # a tree's own apply does not look
            raise ValueError(f"the forest splits on {self.forest.n_features_in_} features, got rows of {X.shape[1]}")
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

    def place(self, X: Any) -> Place:
        """Both at once."""
        return Place(self.embed(X), self.encode(X))

    def similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Float[m, n]: geodesic similarity K(r, s) = t_rs / T (Eq. 14) of codes Int[m, T] and Int[n, T]; for small m × n only."""
        width = max(1, min(_TILE, len(b)))
        n_tiles, trees = -(-len(b) // width), -(-self.n_trees // 4) * 4
        rows = np.full((len(a) + len(a) % 2, trees), -1, dtype=np.int32)  # the kernel takes queries by twos and trees by fours
        rows[: len(a), : self.n_trees] = a
        columns = np.full((n_tiles * width, trees), -2, dtype=np.int32)
        columns[: len(b), : self.n_trees] = b
        counts = np.zeros((len(rows), len(columns)), dtype=np.uint16)
        tiles = np.ascontiguousarray(columns.reshape(n_tiles, width, trees).transpose(0, 2, 1))
        kernels.count_by_comparison(rows, tiles, counts)
        return counts[: len(a), : len(b)] / self.n_trees

    def paired_similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Float[n]: K of each code in ``a`` (Int[n, T]) with the one beside it in ``b``."""
        return (a == b).sum(axis=1) / self.n_trees

    def vote(self, place: Place) -> np.ndarray:
        """Float[n, K]: the forest's own ``predict_proba``, read from codes; trees are added in order, so that no thread changes a bit."""
        codes = place.codes
        total = np.zeros((len(codes), self.trees[0].value.shape[2]))
        for t, tree in enumerate(self.trees):
            total += tree.value[codes[:, t], 0, :]
        return total / self.n_trees

    def index(
        self, codes: np.ndarray, class_weights: np.ndarray, *, rows: np.ndarray | None = None, n_anchors: int | None = None
    ) -> LeafIndex:
        """An index of polytopes, the ``rows`` of ``codes`` that stand for them, with their class masses (Float[p, K])."""
        return LeafIndex(codes, class_weights, self.leaf_starts, rows=rows, n_anchors=n_anchors, n_jobs=self.n_jobs)
