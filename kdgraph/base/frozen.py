"""Parents in ``FrozenEstimator``, and advice about unsuitable parents.

Inputs that are not estimators of scikit-learn are refused with an error that names the way out.
:mod:`kdgraph.base.training_rows` finds out which rows a parent was fitted on.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

from sklearn.base import is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomTreesEmbedding,
)
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.tree import BaseDecisionTree

# The base class of forests has no public name, but forests of other libraries, such as
# quantile-forest's, derive from it and not from a public one. It is the most derived class that a
# forest which classifies shares with one that does not. All modules take it from here.
FOREST_BASE: type = next(
    base for base in RandomForestClassifier.__mro__ if issubclass(RandomTreesEmbedding, base)
)
"""Base class of all forests."""
_BOOSTED_TREES = GradientBoostingClassifier, GradientBoostingRegressor
TREE_MODELS = FOREST_BASE, BaseDecisionTree, *_BOOSTED_TREES
"""Models of scikit-learn whose trees have a ``tree_``; these compute in single precision."""


def unwrap_frozen(estimator: Any) -> Any:
    """Return the estimator inside any number of ``FrozenEstimator``; other estimators unchanged.

    >>> from kdgraph.parents import PrecomputedScores
    >>> unwrap_frozen(FrozenEstimator(PrecomputedScores()))
    PrecomputedScores()
    """
    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    return estimator


def fitted_inside(estimator: Any) -> Any:
    """Return the fitted estimator inside a frozen, tuned, calibrated or other one, or None."""
    if isinstance(estimator, FrozenEstimator):
        return estimator.estimator
    if isinstance(estimator, GridSearchCV | RandomizedSearchCV):
        return estimator.best_estimator_
    if isinstance(estimator, CalibratedClassifierCV):
        # That of a fold, which has most of the rows.
        return estimator.calibrated_classifiers_[0].estimator
    # An ``estimator_`` behind a selection of features has other columns, and beside several
    # ``estimators_`` it is not fitted.
    if hasattr(estimator, "estimators_") or hasattr(estimator, "get_support"):
        return None
    return getattr(estimator, "estimator_", None)


def check_parameters_are_instances(estimator: Any) -> None:
    """Raise TypeError, with the instance to pass, if a parameter is the class of an estimator."""
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, type) and hasattr(value, "get_params"):
            # A nested post-hoc estimator is created with None, which is replaced by the parent.
            argument = "None" if _requires_estimator(value) else ""
            raise TypeError(
                f"{type(estimator).__name__}: {name} must be an instance, got the class"
                f" {value.__name__}; pass {value.__name__}({argument})"
            )


def _requires_estimator(estimator_class: type) -> bool:
    parameter = inspect.signature(estimator_class).parameters.get("estimator")
    return parameter is not None and parameter.default is parameter.empty


def check_is_estimator(parent: Any, owner: str) -> None:
    """Raise TypeError for objects without ``fit`` or ``get_params``, such as torch modules.

    ``owner`` is the class name of the estimator that is fitted after the parent.
    """
    if hasattr(parent, "fit") and hasattr(parent, "get_params"):
        return
    kind = type(parent).__name__
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(parent, torch.nn.Module):
        raise TypeError(
            f"{owner} needs an estimator of scikit-learn, got the torch module {kind}; wrap it:"
            " kdgraph.TorchClassifier(module) or skorch's"
            " NeuralNetClassifier(module)"
        )
    raise TypeError(
        f"{owner} needs an estimator of scikit-learn, with fit and get_params, got {kind}:"
        f" {str(parent)[:40]}"
    )


def missing_method_advice(parent: Any, method: str) -> str:
    """Return advice about an estimator that lacks ``method``, as the end of a sentence."""
    inner = unwrap_frozen(parent)
    name = type(inner).__name__
    if isinstance(inner, Pipeline):
        last = inner.steps[-1][1]
        if not hasattr(last, "predict"):
            return (
                f" whose last step, {type(last).__name__}, predicts nothing; let it end in an"
                " estimator that does"
            )
        name, inner = f"{name} that ends in {type(last).__name__}", last
    if method == "predict_dist":
        return _missing_distribution_advice(inner)
    if is_regressor(inner):
        return (
            ", a regressor; pass a classifier, or repair its predictive distributions by"
            " kdgraph.recalibration"
        )
    if is_classifier(inner) and hasattr(inner, "decision_function"):
        return (
            "; convert its scores to probabilities:"
            f" CalibratedClassifierCV({type(inner).__name__}())"
        )
    return "; pass a classifier that predicts probabilities"


def _missing_distribution_advice(estimator: Any) -> str:
    if is_classifier(estimator):
        return (
            ", a classifier; calibrate it by kdgraph.calibration, or pass a regressor that predicts"
            " distributions"
        )
    predict = getattr(estimator, "predict", None)
    has_return_std = callable(predict) and "return_std" in inspect.signature(predict).parameters
    if has_return_std or callable(getattr(estimator, "pred_dist", None)):
        return f"; wrap it: ProbabilisticRegressor({type(estimator).__name__}())"
    return (
        "; pass one that predicts distributions, such as GaussianLinear(), or another library's in"
        " ProbabilisticRegressor"
    )
