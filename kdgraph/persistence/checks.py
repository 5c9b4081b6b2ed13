"""Checks of objects that are read from a file.

A method runs with the attributes of its object, so an allow list of classes alone is insufficient:
an attribute that shadows a method, the name of a method in a field, or a hook of a layer would let
the file choose what is called. Compiled code of scikit-learn is protected by consistency checks.
Original to kdgraph.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, cached_property
from importlib import import_module
from itertools import chain
from types import MemberDescriptorType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from kdgraph.parameters import annotations_of, check_value
from kdgraph.persistence.allowed import is_listed


def _check_tree(estimator: Any) -> None:
    tree = estimator.tree_
    _require(
        tree.n_features == estimator.n_features_in_,
        "a tree splits on features that its rows do not have",
    )
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


def _check_boosting(boosted: Any) -> None:
    for estimator in boosted.estimators_.flat:
        _require(
            estimator.tree_.n_features == boosted.n_features_in_,
            "a tree has other features than its ensemble",
        )


def _check_histogram_boosting(boosted: Any) -> None:
    """Check the predictors of histogram gradient boosting, which have their own type of nodes.

    The compiled prediction follows children, features and bit sets of categories without bounds
    checks. Children with larger numbers than their parent exclude cycles.
    """
    # Neither the predictors nor their number of features has a public name.
    for predictor in chain.from_iterable(boosted._predictors):
        nodes, node_ids = predictor.nodes, np.arange(len(predictor.nodes))
        is_split = nodes["is_leaf"] == 0
        left, right, feature = (
            nodes["left"].astype(np.int64),
            nodes["right"].astype(np.int64),
            nodes["feature_idx"],
        )
        is_valid = (left > node_ids) & (right > node_ids)
        is_valid &= (left < len(nodes)) & (right < len(nodes))
        is_valid &= (feature >= 0) & (feature < boosted._n_features)
        lacks_bitset = (nodes["is_categorical"] == 1) & (
            nodes["bitset_idx"] >= len(predictor.raw_left_cat_bitsets)
        )
        _require(
            len(nodes) > 0 and bool((is_valid & ~lacks_bitset)[is_split].all()),
            "a node of a tree leads nowhere",
        )
    _require(
        getattr(boosted, "_preprocessor", None) is not None
        or boosted._n_features == boosted.n_features_in_,
        "features are missing",
    )


def _rebuild_neighbor_tree(estimator: Any) -> None:
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


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


@dataclass(frozen=True)
class _PostLoadRule:
    """Rule for complete objects of one class and its subclasses.

    Parameters
    ----------
    module : str
        Module that exports the classes of the next parameter.
    class_names : tuple of str
        Public classes, whose most derived common base is the class of the rule. scikit-learn does
        not export all of these bases, which subclasses of users and other libraries may inherit.
    fitted_attribute : str
        Attribute of a fitted object. Other objects need no hook.
    hook : callable
        Function to call with a complete, fitted object. It raises ValueError for invalid ones.
    omitted_attribute : str or None, default=None
        Attribute that is not written, because ``hook`` restores it.
    """

    module: str
    class_names: tuple[str, ...]
    fitted_attribute: str
    hook: Callable[[Any], None]
    omitted_attribute: str | None = None

    def base(self) -> type | None:
        """Return the class of the rule, or None if its module has not been imported."""
        if self.module not in sys.modules:
            return None
        module = import_module(self.module)  # waits if another thread is importing it
        classes = [getattr(module, name) for name in self.class_names]
        return next(
            base for base in classes[0].__mro__ if all(issubclass(cls, base) for cls in classes)
        )

    def apply(self, value: Any) -> None:
        """Check or complete an object of the class, if it is fitted."""
        if self.fitted_attribute in vars(value):
            self.hook(value)


_POST_LOAD_RULES = (
    _PostLoadRule(
        "kdgraph.distributions.parametric",
        ("ScipyFamily",),
        "family",
        lambda family: family.check(),
    ),
    _PostLoadRule("sklearn.tree", ("BaseDecisionTree",), "tree_", _check_tree),
    _PostLoadRule(
        "sklearn.ensemble",
        ("RandomForestClassifier", "RandomTreesEmbedding"),
        "estimators_",
        _check_forest,
    ),
    _PostLoadRule(
        "sklearn.ensemble",
        ("GradientBoostingClassifier", "GradientBoostingRegressor"),
        "estimators_",
        _check_boosting,
    ),
    _PostLoadRule(
        "sklearn.ensemble",
        ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor"),
        "_predictors",
        _check_histogram_boosting,
    ),
    _PostLoadRule(
        "sklearn.neighbors",
        ("NearestNeighbors", "KNeighborsClassifier", "RadiusNeighborsClassifier"),
        "_fit_X",
        _rebuild_neighbor_tree,
        omitted_attribute="_tree",
    ),
)


@cache
def _post_load_rule(cls: type) -> _PostLoadRule | None:
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


# Fields by which scikit-learn's scorers, stacks, chains and thresholds call methods of their
# estimators, and the values that they may have.
_METHOD_FIELDS = (
    "response_method",
    "_response_method",
    "stack_method",
    "stack_method_",
    "chain_method",
    "chain_method_",
)
_PREDICTION_METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")
_METHOD_CHOICES = ("auto", "default", "drop", None)
# Types of class attributes that objects of scikit-learn override, such as LassoLars.positive.
_PLAIN_TYPES = (bool, int, float, str)
_PROTECTED_PACKAGES = ("kdgraph", "sklearn", "torch", "builtins", "abc", "collections", "typing")


def check_state(cls: type, state: Any) -> None:
    """Raise ValueError if ``state`` would replace something that ``cls`` defines.

    Parameters
    ----------
    cls : type
        Class of the object.
    state : object
        Dict of attributes by name, or tuple of such dicts (the second for slots). Any other state
        is for the ``__setstate__`` of the class alone, and is not checked.
    """
    for attributes in state if isinstance(state, tuple) else (state,):
        for name, value in attributes.items() if isinstance(attributes, dict) else ():
            if not isinstance(name, str) or name.startswith("__"):
                raise ValueError(f"{name!r} cannot be an attribute of a {cls.__qualname__}")
            required = _required_attribute_type(cls, name)
            if required is not None and type(value) is not required:
                raise ValueError(f"an attribute would replace {cls.__qualname__}.{name}")


def imported_names(value: Any) -> Sequence[str]:
    """Return the names of what ``value`` imports or calls because an attribute names it.

    The method ``imported_names`` of its class returns them, such as the factory of a network that
    ``EncoderNetwork.model`` names; other classes have none.
    """
    method = getattr(type(value), "imported_names", None)
    return () if method is None else method(value)


@cache
def object_checks(cls: type) -> tuple[Callable[[Any], None], ...]:
    """Return the checks of complete objects of ``cls``; each of them raises ValueError."""
    checks: list[Callable[[Any], None]] = []
    if (
        is_listed(cls)
        and cls.__module__.startswith("kdgraph.")
        and (is_dataclass(cls) or issubclass(cls, BaseEstimator))
    ):
        checks.append(_check_parameters)
    if any(base.__module__.startswith("sklearn.") for base in cls.__mro__):
        checks.append(_check_method_names)
    if "torch" in sys.modules and issubclass(cls, sys.modules["torch"].nn.Module):
        from kdgraph.persistence.tensors import check_torch_module

        checks.append(check_torch_module)
    return tuple(checks)


def _check_parameters(value: Any) -> None:
    """Check the parameters of a class of kdgraph against its annotations."""
    state = vars(value) if hasattr(value, "__dict__") else {}
    for name, annotation in annotations_of(type(value)).items():
        if name in state:
            check_value(name, state[name], annotation)


def _check_method_names(value: Any) -> None:
    """Raise ValueError if a field that names a method names one that does not predict."""
    state = getattr(value, "__dict__", {})
    for field in state.keys() & set(_METHOD_FIELDS):
        methods = state[field] if isinstance(state[field], list | tuple) else [state[field]]
        for method in methods:
            # The type is checked first, because other types may define equality freely.
            if not (method is None or isinstance(method, str)) or method not in (
                *_PREDICTION_METHODS,
                *_METHOD_CHOICES,
            ):
                raise ValueError(
                    f"{field} of a {type(value).__qualname__} names {method!r}, which is no method"
                    " that predicts"
                )


class _NoValue:
    """Type without objects: an attribute that requires it cannot be set."""


@cache
def _required_attribute_type(cls: type, name: str) -> type | None:
    """Return the type that an attribute of this name must have in objects of ``cls``; None: any.

    A member of the class cannot be replaced, unless it is the default of a field of a dataclass, a
    slot, or a cached property. Classes outside the protected packages are not checked, because a
    user who admits one by name trusts it.
    """
    base = next((base for base in cls.__mro__ if name in vars(base)), None)
    if base is None or (is_dataclass(cls) and any(field.name == name for field in fields(cls))):
        return None
    attribute, package = vars(base)[name], base.__module__.partition(".")[0]
    if package not in _PROTECTED_PACKAGES or isinstance(
        attribute, MemberDescriptorType | cached_property
    ):
        return None
    return type(attribute) if package == "sklearn" and type(attribute) in _PLAIN_TYPES else _NoValue
