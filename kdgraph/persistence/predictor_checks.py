"""Checks of fitted estimators of scikit-learn whose compiled code does not check bounds.

Most estimators predict with NumPy, which raises for arrays that do not fit together. The compiled
code of trees, support vector machines, nearest neighbours and k-means, and the sparse matrices that
encoders build, take it for granted that ``fit`` made their arrays: others make it read or write
memory that is not its own. Each rule here states what ``fit`` guarantees, as read in the sources of
scikit-learn 1.8 and 1.9. Original to kdgraph.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse

_OTHER_FEATURES = "a tree splits on features that its rows do not have"
_CATEGORY_WORDS = 8
"""Words of 32 bits of a set of categories of histogram gradient boosting."""


def _check_tree(estimator: Any) -> None:
    tree = estimator.tree_
    _require(tree.n_features == estimator.n_features_in_, _OTHER_FEATURES)
    n_classes = np.atleast_1d(getattr(estimator, "n_classes_", 1))
    _require(
        list(tree.n_classes) == list(n_classes) and tree.n_outputs == estimator.n_outputs_,
        "a tree has other classes",
    )


def _check_forest(forest: Any) -> None:
    for estimator in forest.estimators_:
        _require(
            estimator.n_features_in_ == forest.n_features_in_,
            "a tree has other features than its forest",
        )
        _require(
            estimator.tree_.n_outputs == forest.n_outputs_,
            "a tree has other outputs than its forest",
        )


def _check_isolation_forest(forest: Any) -> None:
    """Check the trees, which get columns of the rows without a check of their number."""
    all_features = forest._max_features == forest.n_features_in_
    for estimator, features in zip(forest.estimators_, forest.estimators_features_, strict=True):
        n_features = forest.n_features_in_ if all_features else len(features)
        _require(estimator.tree_.n_features == n_features, _OTHER_FEATURES)


def _check_boosting(boosted: Any) -> None:
    """Check gradient boosting, which adds each column of trees to a column of the first guess."""
    from sklearn._loss.link import BaseLink
    from sklearn._loss.loss import BaseLoss
    from sklearn.dummy import DummyClassifier, DummyRegressor
    from sklearn.tree import DecisionTreeRegressor

    n_outputs = boosted.n_trees_per_iteration_
    _require(boosted.estimators_.shape[1:] == (n_outputs,), "an ensemble lacks trees")
    for estimator in boosted.estimators_.flat:
        _require(
            isinstance(estimator, DecisionTreeRegressor)
            and estimator.tree_.n_features == boosted.n_features_in_,
            "a tree has other features than its ensemble",
        )
    classes = getattr(boosted, "classes_", ())
    _require(n_outputs == (len(classes) if len(classes) > 2 else 1), "an ensemble lacks classes")
    # The link of the loss keeps the shape of the first guess, if it is one.
    loss = boosted._loss
    _require(
        isinstance(loss, BaseLoss)
        and isinstance(loss.link, BaseLink)
        and (n_outputs == 1 or (loss.is_multiclass and loss.n_classes == n_outputs)),
        "a loss has other classes",
    )
    guess = boosted.init_
    if type(guess) is DummyClassifier:
        has_width = guess._strategy == "prior" and np.shape(guess.class_prior_) == (len(classes),)
    else:
        has_width = type(guess) is not DummyRegressor or np.shape(guess.constant_) == (1, 1)
    _require(has_width and getattr(guess, "n_outputs_", 1) == 1, "a first guess has other outputs")


def _check_histogram_boosting(boosted: Any) -> None:
    """Check the predictors of histogram gradient boosting, which have their own type of nodes.

    The compiled prediction follows children, features and bit sets of categories without bounds
    checks. Children with larger numbers than their parent exclude cycles.
    """
    n_features = boosted._n_features
    is_categorical = np.asarray(boosted._bin_mapper.is_categorical_)
    _require(is_categorical.shape == (n_features,), "features are missing")
    _require(not getattr(boosted, "_in_fit", False), "it is in the middle of fit")
    _check_encoded_columns(boosted)
    # Neither the predictors nor their number of features has a public name.
    for predictor in chain.from_iterable(boosted._predictors):
        nodes, sets = predictor.nodes, predictor.raw_left_cat_bitsets
        _require(sets.ndim == 2 and sets.shape[1] == _CATEGORY_WORDS, "categories are missing")
        node_ids, is_split = np.arange(len(nodes)), nodes["is_leaf"] == 0
        left, right, feature = (
            nodes["left"].astype(np.int64),
            nodes["right"].astype(np.int64),
            nodes["feature_idx"],
        )
        is_valid = (left > node_ids) & (right > node_ids)
        is_valid &= (left < len(nodes)) & (right < len(nodes))
        is_valid &= (feature >= 0) & (feature < n_features)
        has_set = nodes["bitset_idx"] < len(sets)
        has_set &= is_categorical[np.where(is_valid, feature, 0)] == 1
        is_valid &= (nodes["is_categorical"] == 0) | has_set
        _require(
            len(nodes) > 0 and bool(is_valid[is_split].all()), "a node of a tree leads nowhere"
        )


def _check_encoded_columns(boosted: Any) -> None:
    """Check that the columns behind the encoder of histogram boosting are as many as before it."""
    if getattr(boosted, "_preprocessor", None) is None:
        _require(boosted._n_features == boosted.n_features_in_, "features are missing")
        return
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder
    from sklearn.utils import check_array

    _require(type(boosted._preprocessor) is ColumnTransformer, "features are missing")
    (_, encoder, categories), (_, converter, numbers), *rest = boosted._preprocessor.transformers_
    columns = boosted._preprocessor._transformer_to_input_indices
    _require(
        type(encoder) is OrdinalEncoder
        and type(converter) is FunctionTransformer
        and getattr(converter.func, "func", None) is check_array
        and all(transformer == "drop" for _, transformer, _ in rest)
        and _are_masks(categories, numbers)
        and np.array_equal(columns["encoder"], np.flatnonzero(categories))
        and np.array_equal(columns["numerical"], np.flatnonzero(numbers))
        and np.sum(categories) + np.sum(numbers) == boosted._n_features,
        "features are missing",
    )


def _are_masks(*values: Any) -> bool:
    return all(isinstance(value, np.ndarray) and value.dtype == bool for value in values)


def _check_support_vectors(machine: Any) -> None:
    """Check a model of libsvm, whose compiled code takes the sizes of one array for all others."""
    is_classifier = machine._impl in ("c_svc", "nu_svc")
    counts, support = np.asarray(machine._n_support), np.asarray(machine.support_)
    n_classes, n_vectors = len(counts) if is_classifier else 2, len(support)
    n_pairs = n_classes * (n_classes - 1) // 2
    _require(
        n_classes >= 2
        and counts.shape == (n_classes,)
        and bool((counts >= 0).all())
        and (not is_classifier or counts.sum() == n_vectors)
        and np.shape(machine._intercept_) == (n_pairs,),
        "a support vector machine has other classes than its arrays",
    )
    sizes = {np.size(machine._probA), np.size(machine._probB)}
    needs_sizes = bool(getattr(machine, "_effective_probability", False))
    # A regressor has an unused number here.
    _require(
        sizes == {n_pairs} or (not needs_sizes and (not is_classifier or sizes == {0})),
        "probabilities of a support vector machine are missing",
    )
    coefficients = machine._dual_coef_
    if machine._sparse:
        shape = (n_vectors, machine.n_features_in_)
        _require(
            machine.kernel in ("linear", "poly", "rbf", "sigmoid")
            and scipy.sparse.issparse(machine.support_vectors_)
            and machine.support_vectors_.shape == shape
            and scipy.sparse.issparse(coefficients)
            and len(coefficients.data) == (n_classes - 1) * n_vectors,
            "support vectors are missing",
        )
        return
    _require(np.shape(coefficients) == (n_classes - 1, n_vectors), "support vectors are missing")
    if not (callable(machine.kernel) or machine.kernel == "precomputed"):
        shape = (n_vectors, machine.n_features_in_)
        _require(np.shape(machine.support_vectors_) == shape, "support vectors are missing")
        return
    # The kernel has a column for each row of fit, of which these are the numbers.
    n_rows = machine.shape_fit_[0]
    if callable(machine.kernel):
        n_rows = min(n_rows, machine._BaseLibSVM__Xfit.shape[0])
    _require(bool(((support >= 0) & (support < n_rows)).all()), "support vectors are missing")


def _check_centers(clusters: Any) -> None:
    """Check k-means, which multiplies rows with centres of the same length."""
    _check_center_shape(clusters, np.shape(clusters.cluster_centers_)[1:])
    if hasattr(clusters, "_X_mean"):
        _check_center_shape(clusters, np.shape(clusters._X_mean))
    pending, seen = [getattr(clusters, "_bisecting_tree", None)], set()
    while pending:
        node = pending.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        _check_center_shape(clusters, np.shape(node.center))
        pending += [node.left, node.right]


def _check_center_shape(clusters: Any, shape: tuple[int, ...]) -> None:
    _require(
        shape == (clusters.n_features_in_,), "centres of clusters have other features than rows"
    )


def _check_subclusters(clusters: Any) -> None:
    """Check Birch, which hands the squared norms of its centres on unchecked."""
    _require(
        np.shape(clusters._subcluster_norms) == np.shape(clusters.subcluster_centers_)[:1],
        "norms of clusters are missing",
    )


def _check_neighbours(estimator: Any) -> None:
    """Check labels and rows of nearest neighbours, and build the tree of the search."""
    n_rows = estimator._fit_X.shape[0]
    _require(estimator.n_samples_fit_ == n_rows, "rows of nearest neighbours are missing")
    # Labels of several outputs are looked up by NumPy.
    if hasattr(estimator, "classes_") and not estimator.outputs_2d_:
        labels = np.asarray(estimator._y)
        _require(
            labels.shape == (n_rows,)
            and bool(((labels >= 0) & (labels < len(estimator.classes_))).all()),
            "labels of nearest neighbours are missing",
        )
    # Squared norms that are given are taken for those of the rows, whatever their number.
    for parameters in (estimator.metric_params, estimator.effective_metric_params_):
        _require(
            not {"X_norm_squared", "Y_norm_squared"} & (parameters or {}).keys(),
            "norms of nearest neighbours are given",
        )
    _rebuild_neighbour_tree(estimator)


def _rebuild_neighbour_tree(estimator: Any) -> None:
    """Build the tree of a nearest neighbour search as ``fit`` does.

    A compiled tree can be saved by pickle only. ``fit`` would compute the labels and weights of the
    estimator again, and has no public part that builds the tree alone.
    """
    from sklearn.neighbors import BallTree, KDTree

    tree_classes: dict[str, Any] = {"kd_tree": KDTree, "ball_tree": BallTree}
    if (tree_class := tree_classes.get(estimator._fit_method)) is not None:
        metric, metric_params = estimator.effective_metric_, estimator.effective_metric_params_
        estimator._tree = tree_class(
            estimator._fit_X, estimator.leaf_size, metric=metric, **metric_params
        )


def _check_one_hot_encoder(encoder: Any) -> None:
    """Check the numbers of columns, from which the encoder makes a sparse matrix unchecked."""
    n_columns = [len(categories) for categories in encoder.categories_]
    groups = getattr(encoder, "_default_to_infrequent_mappings", None) or []
    for column, mapping in enumerate(groups if encoder._infrequent_enabled else []):
        infrequent = encoder._infrequent_indices[column]
        _require((mapping is None) == (infrequent is None), "categories of an encoder are missing")
        if mapping is not None:
            n_left = n_columns[column] - len(infrequent) + 1
            _require(
                np.shape(mapping) == (n_columns[column],)
                and bool(((mapping >= 0) & (mapping < n_left)).all())
                and bool(((infrequent >= 0) & (infrequent < n_columns[column])).all()),
                "categories of an encoder are missing",
            )
            n_columns[column] = n_left
    dropped = encoder._drop_idx_after_grouping
    for column, index in enumerate([] if dropped is None else dropped):
        if index is not None:
            _require(0 <= index < n_columns[column], "categories of an encoder are missing")
            n_columns[column] -= 1
    _require(list(encoder._n_features_outs) == n_columns, "columns of an encoder are missing")


def _check_vocabulary(vectorizer: Any) -> None:
    """Check the columns of terms, from which the vectorizer makes a sparse matrix unchecked."""
    columns = vectorizer.vocabulary_.values()
    _require(
        all(isinstance(column, int | np.integer) for column in columns)
        and set(columns) == set(range(len(columns))),
        "columns of a vocabulary are missing",
    )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


@dataclass(frozen=True)
class _Rule:
    """Rule for complete objects of one class and its subclasses.

    The class is the most derived common base of public classes: scikit-learn does not export all of
    these bases, which subclasses of users and other libraries may inherit.
    """

    module: str  # exports the classes
    class_names: tuple[str, ...]
    fitted_attribute: str  # objects without it need no hook
    hook: Callable[[Any], None]  # raises ValueError for an invalid, fitted object
    omitted_attribute: str | None = None  # not written, because the hook restores it

    def base(self) -> type | None:
        if self.module not in sys.modules:
            return None
        module = import_module(self.module)  # waits if another thread is importing it
        classes = [getattr(module, name) for name in self.class_names]
        return next(
            base for base in classes[0].__mro__ if all(issubclass(cls, base) for cls in classes)
        )

    def apply(self, value: Any) -> None:
        if self.fitted_attribute in vars(value):
            self.hook(value)


_TREE_BOOSTING = "GradientBoostingClassifier", "GradientBoostingRegressor"
_HISTOGRAM_BOOSTING = "HistGradientBoostingClassifier", "HistGradientBoostingRegressor"
_FORESTS = "RandomForestClassifier", "RandomTreesEmbedding"
_NEIGHBOURS = "NearestNeighbors", "KNeighborsClassifier", "RadiusNeighborsClassifier"
_SVM = "SVC", "SVR", "OneClassSVM"
_K_MEANS = "KMeans", "BisectingKMeans"
_POST_LOAD_RULES = (
    _Rule("kdgraph.distributions.parametric", ("ScipyFamily",), "family", lambda f: f.check()),
    _Rule("sklearn.tree", ("BaseDecisionTree",), "tree_", _check_tree),
    _Rule("sklearn.ensemble", _FORESTS, "estimators_", _check_forest),
    _Rule("sklearn.ensemble", ("IsolationForest",), "estimators_", _check_isolation_forest),
    _Rule("sklearn.ensemble", _TREE_BOOSTING, "estimators_", _check_boosting),
    _Rule("sklearn.ensemble", _HISTOGRAM_BOOSTING, "_predictors", _check_histogram_boosting),
    _Rule("sklearn.svm", _SVM, "support_", _check_support_vectors),
    _Rule("sklearn.cluster", _K_MEANS, "cluster_centers_", _check_centers),
    _Rule("sklearn.cluster", ("Birch",), "subcluster_centers_", _check_subclusters),
    _Rule("sklearn.preprocessing", ("OneHotEncoder",), "categories_", _check_one_hot_encoder),
    _Rule(
        "sklearn.feature_extraction.text", ("CountVectorizer",), "vocabulary_", _check_vocabulary
    ),
    _Rule("sklearn.feature_extraction", ("DictVectorizer",), "vocabulary_", _check_vocabulary),
    _Rule("sklearn.neighbors", _NEIGHBOURS, "_fit_X", _check_neighbours, "_tree"),
)


@cache
def _post_load_rule(cls: type) -> _Rule | None:
    """Return the rule of the most derived base of ``cls`` that has one, or None."""
    # An object exists only if its module, and so the package above it, has been imported. Modules
    # that have not been imported have no objects, and are not imported for this search.
    rules = {rule.base(): rule for rule in _POST_LOAD_RULES}
    return next((rules[base] for base in cls.__mro__ if base in rules), None)


def omitted_attribute(cls: type) -> str | None:
    """Return the attribute of objects of this class that is not written, or None."""
    rule = _post_load_rule(cls)
    return None if rule is None else rule.omitted_attribute


def post_load_hook(cls: type) -> Callable[[Any], None] | None:
    """Return the function to call with a complete object of this class, or None.

    The function raises ValueError if attributes of the object contradict each other.
    """
    rule = _post_load_rule(cls)
    return None if rule is None else rule.apply
