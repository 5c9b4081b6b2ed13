"""What has to hold among the parts of an object before compiled code of scikit-learn may walk through it, and parts that are made anew."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np


def _tree(estimator: Any) -> None:
    tree = estimator.tree_
    _require(tree.n_features == estimator.n_features_in_, "a tree splits on features that its rows do not have")
    n_classes = np.atleast_1d(getattr(estimator, "n_classes_", 1))
    _require(list(tree.n_classes) == list(n_classes) and tree.n_outputs == estimator.n_outputs_, "a tree knows other classes")


def _forest(forest: Any) -> None:
    for estimator in forest.estimators_:
        _require(estimator.n_features_in_ == forest.n_features_in_, "a tree has other features than its forest")
        _require(estimator.tree_.n_outputs == forest.n_outputs_, "a tree has other outputs than its forest")


def _boosted(boosted: Any) -> None:
    for estimator in boosted.estimators_.flat:
        _require(estimator.tree_.n_features == boosted.n_features_in_, "a tree has other features than its ensemble")


def _binned(boosted: Any) -> None:
    """The predictors of histogram gradient boosting, each with nodes of its own kind."""
    for predictor in (one for each in boosted._predictors for one in each):
        nodes, own = predictor.nodes, np.arange(len(predictor.nodes))
        inner = nodes["is_leaf"] == 0
        left, right, feature = nodes["left"].astype(np.int64), nodes["right"].astype(np.int64), nodes["feature_idx"]
        inside = (left > own) & (right > own) & (left < len(nodes)) & (right < len(nodes))
        inside &= (feature >= 0) & (feature < boosted._n_features)
        by_set = (nodes["is_categorical"] == 1) & (nodes["bitset_idx"] >= len(predictor.raw_left_cat_bitsets))
        _require(len(nodes) > 0 and bool((inside & ~by_set)[inner].all()), "a node of a tree leads nowhere")
    _require(getattr(boosted, "_preprocessor", None) is not None or boosted._n_features == boosted.n_features_in_, "features are missing")


def _neighbors(estimator: Any) -> None:
    """The tree of a nearest neighbour search, as ``fit`` makes it."""
    from sklearn.neighbors import BallTree, KDTree

    kinds: dict[str, Any] = {"kd_tree": KDTree, "ball_tree": BallTree}
    if (make := kinds.get(estimator._fit_method)) is not None:
        metric, more = estimator.effective_metric_, estimator.effective_metric_params_
        estimator._tree = make(estimator._fit_X, estimator.leaf_size, metric=metric, **more)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


MADE_ANEW = {"sklearn.neighbors._base:NeighborsBase": ("_tree", _neighbors)}
"""Class → an attribute that is not written, and what makes it again."""
_CHECKED: dict[str, tuple[str, Callable[[Any], None]]] = {
    "kdgraph.distributions.scipy_families:ScipyFamily": ("family", lambda family: family.check()),
    "sklearn.tree._classes:BaseDecisionTree": ("tree_", _tree),
    "sklearn.ensemble._forest:BaseForest": ("estimators_", _forest),
    "sklearn.ensemble._gb:BaseGradientBoosting": ("estimators_", _boosted),
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting:BaseHistGradientBoosting": ("_predictors", _binned),
}
"""Class → an attribute that says whether an object is fitted, and what to check then."""


@cache
def left_out(cls: type) -> str | None:
    """The attribute of objects of this class that is not written."""
    return next((MADE_ANEW[name][0] for name in _ancestors(cls) if name in MADE_ANEW), None)


@cache
def afterwards(cls: type) -> Callable[[Any], None] | None:
    """What to do with an object of this class once it and all that it refers to are read; None: nothing."""
    for name in _ancestors(cls):
        if name in MADE_ANEW:
            return _if_fitted("_fit_X", MADE_ANEW[name][1])
        if name in _CHECKED:
            return _if_fitted(*_CHECKED[name])
    return None


def _ancestors(cls: type) -> list[str]:
    return [f"{each.__module__}:{each.__qualname__}" for each in cls.__mro__]


def _if_fitted(attribute: str, check: Callable[[Any], None]) -> Callable[[Any], None]:
    def checked(value: Any) -> None:
        if attribute in vars(value):
            check(value)

    return checked
