"""What is given in place of an estimator of scikit-learn, or of labels, and what to give instead."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.pipeline import Pipeline

from kdgraph.parents.frozen import unwrap


def check_instances(estimator: Any) -> None:
    """Refuse parameters that are classes of estimators in place of instances.

    Raises
    ------
    TypeError
        With the instance to pass instead.
    """
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, type) and hasattr(value, "get_params"):
            given = "None" if _needs_an_estimator(value) else ""  # which is replaced by the parent
            called = f"{type(estimator).__name__}: {name}"
            raise TypeError(f"{called} must be an instance, got the class {value.__name__}; pass {value.__name__}({given})")


def _needs_an_estimator(kind: type) -> bool:
    parameter = inspect.signature(kind).parameters.get("estimator")
    return parameter is not None and parameter.default is parameter.empty


def check_is_estimator(parent: Any, name: str) -> None:
    """Refuse what has no ``fit`` or ``get_params``, such as a torch module; ``name`` is of what is fitted after it."""
    if hasattr(parent, "fit") and hasattr(parent, "get_params"):
        return
    kind = type(parent).__name__
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(parent, torch.nn.Module):
        wrappers = "kdgraph.parents.networks.ModuleClassifier(module) or skorch's NeuralNetClassifier(module)"
        raise TypeError(f"{name} needs an estimator of scikit-learn, got the torch module {kind}; wrap it: {wrappers}")
    raise TypeError(f"{name} needs an estimator of scikit-learn, with fit and get_params, got {kind}: {str(parent)[:40]}")


def instead_of(parent: Any, method: str) -> str:
    """Return what to do about an estimator that lacks ``method``, as the end of a sentence."""
    inner = unwrap(parent)
    name = type(inner).__name__
    if isinstance(inner, Pipeline):
        last = inner.steps[-1][1]
        if not hasattr(last, "predict"):
            return f" whose last step, {type(last).__name__}, predicts nothing; let it end in an estimator that does"
        name, inner = f"{name} that ends in {type(last).__name__}", last
    if method == "predict_dist":
        return _distributions_instead_of(inner, name)
    if is_regressor(inner):
        return ", a regressor; pass a classifier, or repair its predictive distributions by kdgraph.recalibration"
    if is_classifier(inner) and hasattr(inner, "decision_function"):
        return f"; let its scores become probabilities: CalibratedClassifierCV({type(inner).__name__}())"
    return "; pass a classifier that predicts probabilities"


def _distributions_instead_of(inner: Any, name: str) -> str:
    if is_classifier(inner):
        return ", a classifier; calibrate it by kdgraph.calibration, or pass a regressor that predicts distributions"
    predict = getattr(inner, "predict", None)
    deviations = callable(predict) and "return_std" in inspect.signature(predict).parameters
    if deviations or callable(getattr(inner, "pred_dist", None)):
        return f"; wrap it: PredictiveRegressor({type(inner).__name__}())"
    return "; pass one that predicts distributions, such as GaussianLinear(), or another library's in PredictiveRegressor"


def check_labels(y: Any) -> None:
    """Refuse labels of several types, which have no order, and missing ones among text.

    Parameters
    ----------
    y : [n], labels or targets as they came; only those of the type object are looked at.

    Raises
    ------
    ValueError
        With the number of missing labels, or the types.
    """
    if getattr(y, "ndim", 1) != 1 or str(getattr(y, "dtype", None)) != "object":
        return
    values = np.asarray(y, dtype=object).tolist()
    n_missing = sum(value is None for value in values)
    if n_missing:
        raise ValueError(f"{n_missing} of {len(values)} labels in y are None; leave out the rows without a label")
    types = sorted({"str" if isinstance(value, str) else "number" for value in values if isinstance(value, str | int | float)})
    if len(types) > 1 and not any(isinstance(value, float) and value != value for value in values):
        raise ValueError("labels must be of one type, y has text and numbers; make all of them text, y.astype(str)")
