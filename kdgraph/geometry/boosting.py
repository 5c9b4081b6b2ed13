"""Partitions of feature space by the leaves of boosted trees.

Boosted trees of scikit-learn, XGBoost, LightGBM and CatBoost put a row into one leaf of each tree,
as the trees of a forest do, so that codes and geodesic similarity are those of Dey et al. (2024,
Section 4.3 and Eq. 14). Leaves are read by the call that each library has for them. Boosted trees
as parents are original to kdgraph.

All trees count equally in the similarity, those of every boosting round and of every class. Late
trees are fitted to residuals and early ones to the classes themselves, so that other weights were
tried on twelve tables (``python -m experiments.boosting.kernel``): the variance of the outputs of a
tree over the training rows and the first quarter of the rounds have a higher log loss than equal
weights, and the root of the variance one that is lower by 0.4 %, which does not pay for weighted
counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from joblib import effective_n_jobs
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.utils.validation import check_is_fitted

from kdgraph.geometry.forest import TreePartition, parents_of
from kdgraph.geometry.partition import Locations
from kdgraph.parents.boosted_regressors import BoostedTreesRegressor
from kdgraph.parents.boosting import BoostedTrees

_GRADIENT_BOOSTING = GradientBoostingClassifier, GradientBoostingRegressor
_HISTOGRAM_BOOSTING = HistGradientBoostingClassifier, HistGradientBoostingRegressor


class BoostedPartition(TreePartition):
    """Partition of feature space by fitted boosted trees.

    :func:`~kdgraph.geometry.partition_of` returns the partition for each library. Trees are those
    that ``predict`` uses: after early stopping, those up to the best round. Their number is that of
    the boosting rounds times the trees of a round, which are as many as classes if there are more
    than two. Attributes are those of :class:`TreePartition`.

    Parameters
    ----------
    model : estimator
        Fitted classifier or regressor with the interface of scikit-learn, or a ``Booster`` of
        LightGBM.
    n_jobs : int, default=None
        Number of threads, for models of scikit-learn; others use their own. Codes do not depend on
        it.

    Notes
    -----
    Missing values stay missing in the points of :meth:`embed`, and a category is the number of its
    code, -1 being missing; those who measure distances replace missing values.

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from kdgraph.geometry import partition_of
    >>> X = np.arange(100.0)[:, None]
    >>> model = HistGradientBoostingClassifier(max_iter=3).fit(X, X[:, 0] > 49)
    >>> partition = partition_of(model)
    >>> partition.encode(X).shape, partition.parent_proba(partition.locate(X[:1])).shape
    ((100, 3), (1, 2))
    """

    takes_missing: ClassVar[bool] = True
    """True, since missing values have a side of each split, and points keep them."""
    has_narrow_kernel: ClassVar[bool] = True
    """True: late trees split on little, so that the exponents of the kernel are large."""

    def __init__(self, model: Any, n_jobs: int | None = None):
        if hasattr(model, "fit"):
            check_is_fitted(model)
        super().__init__(model, self._count_nodes(_library_model(model)), n_jobs)

    @property
    def library_model(self) -> Any:
        """The fitted model of the library."""
        return _library_model(self.model)

    @staticmethod
    def _count_nodes(model: Any) -> list[int]:
        raise NotImplementedError

    def _leaves(self, X: Any) -> np.ndarray:
        """Return the leaves of rows in the form that the library takes, Int[n, …]."""
        raise NotImplementedError

    def encode(self, X: Any) -> np.ndarray:
        """Return the leaf in which each tree puts each row, Int32[n, T], contiguous by column."""
        is_wrapped = isinstance(self.model, BoostedTrees)
        leaves = self._leaves(self.model.library_rows(X) if is_wrapped else X)
        # Libraries drop the axis of trees if there is one tree, and split it by classes.
        leaves = np.asarray(leaves).reshape(len(leaves), self.n_trees)
        return np.asfortranarray(leaves, dtype=np.int32)

    def embed(self, X: Any) -> np.ndarray:
        """Return the features, Float[n, d], with the codes of categories and NaN where missing."""
        return _numeric_features(X)

    def locate(self, X: Any, *, with_proba: bool = True) -> Locations:
        """Return points, codes, and the probabilities of a classifier.

        Probabilities, which only :meth:`parent_proba` needs, are left out without ``with_proba``.
        """
        predicts = with_proba and hasattr(self.model, "predict_proba")
        proba = self.model.predict_proba(X) if predicts else None
        return Locations(self.embed(X), self.encode(X), proba)

    def parent_proba(self, locations: Locations) -> np.ndarray:
        """Return the model's own ``predict_proba``, Float[n, K], which rows are located with.

        It raises TypeError if the model is a regressor, or a ``Booster``.
        """
        # Sums of leaf values have another link for each loss of each library; the library itself
        # has predicted.
        if locations.proba is None:
            raise TypeError(f"{type(self.model).__name__} predicts no probabilities")
        return locations.proba


class _GradientBoostingPartition(BoostedPartition):
    """Partition of scikit-learn's gradient boosting, whose trees are those of a forest."""

    @staticmethod
    def _count_nodes(model: Any) -> list[int]:
        return [tree.tree_.node_count for tree in model.estimators_.ravel()]

    def node_parents(self, t: int) -> np.ndarray:
        return parents_of(self.library_model.estimators_.ravel()[t].tree_)

    def _leaves(self, X: Any) -> np.ndarray:
        return self.library_model.apply(X)


class _HistogramBoostingPartition(BoostedPartition):
    """Partition of scikit-learn's histogram gradient boosting.

    It has no public call for leaves. Its own compiled prediction returns them if each node has its
    number for a value, so that missing values and categories take the way that they take in it.
    """

    _numbered_trees: ClassVar[WeakKeyDictionary[Any, Any]] = WeakKeyDictionary()

    @staticmethod
    def _count_nodes(model: Any) -> list[int]:
        return [len(tree.nodes) for tree in _histogram_trees(model)]

    def node_parents(self, t: int) -> np.ndarray:
        nodes = _histogram_trees(self.library_model)[t].nodes
        parents = np.full(len(nodes), -1, dtype=np.int64)
        inner_nodes = np.flatnonzero(nodes["is_leaf"] == 0)
        for side in ("left", "right"):
            parents[nodes[side][inner_nodes]] = inner_nodes
        return parents

    def _leaves(self, X: Any) -> np.ndarray:
        # Neither the trees nor the tables of categories have a public name.
        model = self.library_model
        rows = model._preprocess_X(X, reset=False)
        known_categories, feature_map = model._bin_mapper.make_known_categories_bitsets()
        n_threads = effective_n_jobs(self.n_jobs)
        codes = np.empty((len(rows), self.n_trees), dtype=np.int32, order="F")
        for t, tree in enumerate(_histogram_trees(model)):
            numbered = self._numbered(tree)
            codes[:, t] = numbered.predict(rows, known_categories, feature_map, n_threads)
        return codes

    def locate(self, X: Any, *, with_proba: bool = True) -> Locations:
        """Return points, codes, and the probabilities of a classifier, from the values of leaves.

        They are those of ``predict_proba`` to the last bit.
        """
        model = self.library_model
        if not with_proba or self.model is not model or not hasattr(model, "predict_proba"):
            return super().locate(X, with_proba=with_proba)
        # The library would send all rows down all trees again. Values are added in its order, and
        # by its types of numbers.
        codes, n_outputs = self.encode(X), model.n_trees_per_iteration_
        baseline = model._baseline_prediction
        raw = np.zeros((len(codes), n_outputs), dtype=baseline.dtype, order="F") + baseline
        for t, tree in enumerate(_histogram_trees(model)):
            raw[:, t % n_outputs] += tree.nodes["value"][codes[:, t]]
        return Locations(self.embed(X), codes, model._loss.predict_proba(raw))

    @classmethod
    def _numbered(cls, tree: Any) -> Any:
        """Return a copy of a tree that predicts the numbers of its nodes."""
        # Components make the partition of their parent anew whenever they predict, and for one row
        # the copies take longer than all predictions.
        if tree not in cls._numbered_trees:
            nodes = tree.nodes.copy()
            nodes["value"] = np.arange(len(nodes))
            cls._numbered_trees[tree] = type(tree)(
                nodes, tree.binned_left_cat_bitsets, tree.raw_left_cat_bitsets
            )
        return cls._numbered_trees[tree]


def _histogram_trees(model: Any) -> list[Any]:
    return [tree for trees in model._predictors for tree in trees]


class _StoredStructurePartition(BoostedPartition):
    """Partition of a library whose trees are read from a description that takes long to make.

    The parents of all nodes are kept for as long as the model lives, because components make the
    partition of their parent anew whenever they predict.
    """

    _structures: ClassVar[WeakKeyDictionary[Any, list[np.ndarray]]] = WeakKeyDictionary()

    @staticmethod
    def _handle(model: Any) -> Any:
        """Return the object that a new call of ``fit`` replaces."""
        raise NotImplementedError

    @staticmethod
    def _read_parents(model: Any) -> list[np.ndarray]:
        """Return the parent of each node, -1 for the root, tree by tree."""
        raise NotImplementedError

    @classmethod
    def _parents(cls, model: Any) -> list[np.ndarray]:
        handle = cls._handle(model)
        if handle not in cls._structures:
            cls._structures[handle] = cls._read_parents(model)
        return cls._structures[handle]

    @classmethod
    def _count_nodes(cls, model: Any) -> list[int]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return [len(parents) for parents in cls._parents(model)]

    def node_parents(self, t: int) -> np.ndarray:
        return self._parents(self.library_model)[t]


class _XGBoostPartition(_StoredStructurePartition):
    """Partition of XGBoost; a code is the number of a node."""

    @staticmethod
    def _handle(model: Any) -> Any:
        return model.get_booster()

    @staticmethod
    def _read_parents(model: Any) -> list[np.ndarray]:
        booster = model.get_booster()
        # If it stopped early, it predicts with the trees up to its best round alone.
        stopped_early = booster.attr("best_iteration") is not None
        best = getattr(model, "best_iteration", None) if stopped_early else None
        used = booster if best is None else booster[: best + 1]
        learner = json.loads(used.save_raw("json"))["learner"]["gradient_booster"]
        # Trees that are dropped at random while training ("dart") are one level deeper.
        forest = learner.get("gbtree", learner)["model"]
        # The root has 2^31 - 1 for its parent.
        parents = [np.array(tree["parents"], dtype=np.int64) for tree in forest["trees"]]
        return [np.where(of < len(of), of, -1) for of in parents]

    def _leaves(self, X: Any) -> np.ndarray:
        return self.library_model.apply(X)


class _LightGBMPartition(_StoredStructurePartition):
    """Partition of LightGBM; codes are numbers of leaves, and inner nodes follow them."""

    @staticmethod
    def _handle(model: Any) -> Any:
        return getattr(model, "booster_", model)

    @staticmethod
    def _read_parents(model: Any) -> list[np.ndarray]:
        # Without a number of rounds it is the best one, as in predictions.
        trees = getattr(model, "booster_", model).dump_model()["tree_info"]
        return [_lightgbm_parents(tree["tree_structure"], tree["num_leaves"]) for tree in trees]

    def _leaves(self, X: Any) -> np.ndarray:
        return self.library_model.predict(X, pred_leaf=True)


def _lightgbm_parents(root: dict[str, Any], n_leaves: int) -> np.ndarray:
    """Return the parent of each node of a tree as LightGBM describes it, Int[2 · leaves - 1]."""
    parents = np.full(2 * n_leaves - 1, -1, dtype=np.int64)
    # A stack, because the trees of LightGBM may be deeper than Python's limit of calls.
    pending = [(root, -1)]
    while pending:
        node, parent = pending.pop()
        is_split = "split_index" in node
        # A tree of a single leaf has no number for it.
        number = n_leaves + node["split_index"] if is_split else node.get("leaf_index", 0)
        parents[number] = parent
        if is_split:
            pending += [(node["left_child"], number), (node["right_child"], number)]
    return parents


class _CatBoostPartition(BoostedPartition):
    """Partition of CatBoost; codes are numbers of leaves.

    All nodes of one level of its trees have the same split, and bit l of the number of a leaf is
    the side of split l. So inner nodes are known without a description of the tree. Trees that
    grow otherwise (``grow_policy``) are described as leaves below one root.
    """

    @staticmethod
    def _count_nodes(model: Any) -> list[int]:
        grows_by_level = _grows_by_level(model)
        return [
            2 * n_leaves - 1 if grows_by_level else n_leaves + 1
            for n_leaves in model.get_tree_leaf_counts()
        ]

    def node_parents(self, t: int) -> np.ndarray:
        n_nodes = int(self.leaf_starts[t + 1] - self.leaf_starts[t])
        if not _grows_by_level(self.library_model):
            return np.append(np.full(n_nodes - 1, n_nodes - 1), -1)
        # Leaves of a tree of depth D are nodes 0 to 2^D - 1. The nodes of level l = D - 1, …, 0
        # follow, 2^l of them, numbered by the first l bits of the leaves below them.
        parents, level, first = np.full(n_nodes, -1), (n_nodes + 1) // 2, 0
        while level > 1:
            above = first + level
            parents[first:above] = above + np.arange(level) % (level // 2)
            first, level = above, level // 2
        return parents

    def _leaves(self, X: Any) -> np.ndarray:
        return self.library_model.calc_leaf_indexes(X)


def _grows_by_level(model: Any) -> bool:
    return model.get_all_params().get("grow_policy", "SymmetricTree") == "SymmetricTree"


class _QuantilePartition(BoostedPartition):
    """Partition of the models of several quantiles, the trees of one after those of another."""

    def __init__(self, model: BoostedTreesRegressor, n_jobs: int | None = None):
        check_is_fitted(model)
        if not model.models_:
            raise ValueError("there are no trees, because all training outcomes are equal")
        part_class: Any = boosted_partition_class(model.models_[0])
        self._parts = [part_class(part, n_jobs) for part in model.models_]
        node_counts = np.concatenate([np.diff(part.leaf_starts) for part in self._parts])
        TreePartition.__init__(self, model, node_counts, n_jobs)

    def node_parents(self, t: int) -> np.ndarray:
        for part in self._parts:
            if t < part.n_trees:
                return part.node_parents(t)
            t -= part.n_trees
        raise IndexError(f"there are {self.n_trees} trees")

    def _leaves(self, X: Any) -> np.ndarray:
        return np.hstack([part.encode(X) for part in self._parts])


# Partition by library and by the base class of its models.
_LIBRARIES: dict[tuple[str, str], type[BoostedPartition]] = {
    ("xgboost", "XGBModel"): _XGBoostPartition,
    ("lightgbm", "LGBMModel"): _LightGBMPartition,
    ("lightgbm", "Booster"): _LightGBMPartition,
    ("catboost", "CatBoost"): _CatBoostPartition,
}


def boosted_partition_class(model: Any) -> Callable[..., BoostedPartition] | None:
    """Return the class of the partition of boosted trees, or None if there is none for the model.

    No library is imported for it. The model may be fitted or not.
    """
    if isinstance(model, BoostedTreesRegressor):
        return _QuantilePartition
    if isinstance(model, BoostedTrees):
        return boosted_partition_class(model.estimator)
    if isinstance(model, _GRADIENT_BOOSTING):
        return _GradientBoostingPartition
    if isinstance(model, _HISTOGRAM_BOOSTING):
        return _HistogramBoostingPartition
    names = {(cls.__module__.partition(".")[0], cls.__name__) for cls in type(model).__mro__}
    found = next((name for name in _LIBRARIES if name in names), None)
    has_trees = getattr(model, "booster", None) != "gblinear"
    return _LIBRARIES[found] if found is not None and has_trees else None


def _library_model(model: Any) -> Any:
    return model.estimator_ if isinstance(model, BoostedTrees) else model


def _numeric_features(X: Any) -> np.ndarray:
    """Return the columns of an array or a data frame as numbers, Float[n, d]."""
    if not hasattr(X, "columns"):
        return np.asarray(X, dtype=np.float64)
    columns = []
    for _, column in X.items():
        if str(column.dtype) == "category":
            codes = column.cat.codes.to_numpy(dtype=np.float64)
            columns.append(np.where(codes < 0, np.nan, codes))
        else:
            columns.append(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.column_stack(columns) if columns else np.empty((len(X), 0))
