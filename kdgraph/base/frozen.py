"""Parents in scikit-learn's ``FrozenEstimator``: did they learn from rows, and from which ones.

What is given in place of an estimator of scikit-learn, or of labels, and what to give instead.
"""

from __future__ import annotations

import copy
import inspect
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import is_classifier, is_regressor
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.ensemble._forest import BaseForest
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.tree import BaseDecisionTree
from sklearn.utils.validation import check_is_fitted

_HELD_OUT_SIGNATURE = "fit(X, y, X_calibration=…, y_calibration=…)"
"""The way to give calibration rows apart from training rows."""
_MIN_LEAVES = 10
"""Trees with fewer leaves in all may hold as many rows of another sample in each leaf by chance."""
_MAX_PREDICTED_ROWS = 1000
"""Rows that are predicted to find out whether the parent has memorised them."""
_MIN_CORRECT_PREDICTIONS = 20
"""Fewer correct predictions without an incorrect one are no evidence of memory."""


_skip_row_checks: ContextVar[bool] = ContextVar("checked", default=False)


@contextmanager
def skip_row_checks() -> Iterator[None]:
    """Within the block, estimators fitted on rows of one that was checked do not check them
    again.
    """
    token = _skip_row_checks.set(True)
    try:
        yield
    finally:
        _skip_row_checks.reset(token)


def unwrap_frozen(estimator: Any) -> Any:
    """Return the estimator inside any number of ``FrozenEstimator``; other estimators as they are.

    >>> from kdgraph.parents import PrecomputedScores
    >>> unwrap_frozen(FrozenEstimator(PrecomputedScores()))
    PrecomputedScores()
    """
    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    return estimator


def is_frozen_and_trained(estimator: Any) -> bool:
    """Return whether ``estimator`` is frozen and learnt from rows, which given scores do not."""
    inner = unwrap_frozen(estimator)
    inner = inner.steps[-1][1] if isinstance(inner, Pipeline) else inner
    return isinstance(estimator, FrozenEstimator) and getattr(inner, "learns_from_rows", True)


def warn_fit_rows_calibrate(estimator: Any, owner: str, X: Any, labels: Any) -> None:
    """Warn that the rows of ``fit`` calibrate a frozen estimator, and of evidence that it has seen
    them.

    Parameters
    ----------
    estimator : the frozen parent.
    owner : class of what is fitted after it.
    X : Float[n, d] or a data frame, the rows of ``fit``.
    labels : [n], as the parent predicts them; None where no class is predicted.
    """
    if _skip_row_checks.get():
        return
    check_is_fitted(estimator)
    parent = type(unwrap_frozen(estimator)).__name__
    if was_fitted_on(estimator, X):
        message = _seen_rows_message(parent, owner, "rows of fit", len(X))
    elif labels is not None and _predicts_all_correctly(estimator, X, labels):
        message = (
            f"the frozen {parent} predicts the labels of all {min(len(X), _MAX_PREDICTED_ROWS)} rows of"
            " fit correctly, as those of rows that it was fitted on, where it is more confident"
            f" than on new rows: give {owner} held-out rows, {_HELD_OUT_SIGNATURE}"
        )
    else:
        message = (
            f"{owner} takes the {len(X)} rows of fit for rows that the frozen {parent} was not"
            f" fitted on; if it was, or to mark them as held out, give calibration rows: {_HELD_OUT_SIGNATURE}"
        )
    warnings.warn(message, stacklevel=_user_stacklevel())


def warn_calibration_rows_seen(estimator: Any, owner: str, X: Any) -> None:
    """Warn where the calibration rows ``X``, Float[m, d] or a data frame, are the parent's own."""
    if _skip_row_checks.get():
        return
    check_is_fitted(estimator)
    if was_fitted_on(estimator, X):
        message = _seen_rows_message(
            type(unwrap_frozen(estimator)).__name__, owner, "calibration rows", len(X)
        )
        warnings.warn(message, stacklevel=_user_stacklevel())


def was_fitted_on(estimator: Any, X: Any) -> bool:
    """Return whether a fitted tree ensemble was fitted on exactly these rows.

    Parameters
    ----------
    estimator : tree, forest or gradient boosting of scikit-learn, also frozen or at the end of a
        pipeline; of any other estimator nothing can be found out, and the answer is no.
    X : Float[n, d] or a data frame; the order of rows counts for forests that draw bootstrap
        samples.

    Notes
    -----
    A tree of scikit-learn keeps how many of its training rows each leaf holds. The rows are run
    down the first tree (of a forest, those that it drew), and the counts compared. Other rows have
    the same counts in ten or more leaves with a probability below 1e-6.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(200, 2)), rng.integers(2, size=200)
    >>> forest = RandomForestClassifier(5, random_state=0).fit(X[:100], y[:100])
    >>> was_fitted_on(forest, X[:100]), was_fitted_on(forest, X[100:])
    (True, False)
    """
    estimator, n, before = unwrap_frozen(estimator), len(X), []
    while isinstance(estimator, Pipeline):
        before.append(estimator[:-1])
        estimator = unwrap_frozen(estimator.steps[-1][1])
    if not isinstance(estimator, _TREE_MODELS):
        return False
    tree, drawn = _first_tree(estimator, n)
    counts, is_leaf = tree.tree_.n_node_samples, tree.tree_.children_left == -1
    if drawn is None or counts[0] != len(drawn) or is_leaf.sum() < _MIN_LEAVES:
        return False  # most rows end here, before anything is transformed
    for transformer in before:
        X = transformer.transform(X) if len(transformer) else X
    if issparse(X):
        return False
    with np.errstate(over="ignore"):
        values = np.asarray(X, dtype=np.float32)[drawn]
    found = np.bincount(tree.tree_.apply(values), minlength=tree.tree_.node_count)
    return bool(np.array_equal(found[is_leaf], counts[is_leaf]))


_BOOSTED_TREES = GradientBoostingClassifier, GradientBoostingRegressor
_TREE_MODELS = BaseForest, BaseDecisionTree, *_BOOSTED_TREES


def _first_tree(estimator: Any, n: int) -> tuple[Any, np.ndarray | None]:
    """The first tree, and Int[m] positions of the rows it saw; None if n rows do not hold them."""
    everything = np.arange(n)
    if isinstance(estimator, _BOOSTED_TREES):
        return estimator.estimators_[0, 0], everything
    if isinstance(estimator, BaseDecisionTree):
        return estimator, everything
    first = copy.copy(estimator)  # asked for the draws of all trees, a large forest needs gigabytes
    first.estimators_ = estimator.estimators_[:1]
    drawn = np.unique(first.estimators_samples_[0])
    return first.estimators_[0], drawn if drawn[-1] < n else None


def _user_stacklevel() -> int:
    """How many frames above the caller the first one outside of the library is: the user's line."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("kdgraph."):
        frame, level = frame.f_back, level + 1
    return level


def _predicts_all_correctly(estimator: Any, X: Any, labels: np.ndarray) -> bool:
    """Whether all of the first rows are predicted correctly, and there are enough of them."""
    some = slice(0, _MAX_PREDICTED_ROWS)
    if len(X) < _MIN_CORRECT_PREDICTIONS:
        return False
    rows = X.iloc[some] if hasattr(X, "iloc") else X[some]
    return bool(np.array_equal(estimator.predict(rows), labels[some]))


def _seen_rows_message(parent: str, name: str, rows_name: str, n: int) -> str:
    return (
        f"the {n} {rows_name} are those that the frozen {parent} was fitted on, where it is more "
        f"confident than on new rows: give {name} held-out rows, {_HELD_OUT_SIGNATURE}"
    )


def check_parameters_are_instances(estimator: Any) -> None:
    """Refuse parameters that are classes of estimators in place of instances.

    Raises
    ------
    TypeError
        With the instance to pass instead.
    """
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, type) and hasattr(value, "get_params"):
            given = "None" if _requires_estimator(value) else ""  # which is replaced by the parent
            called = f"{type(estimator).__name__}: {name}"
            raise TypeError(
                f"{called} must be an instance, got the class {value.__name__}; pass"
                f" {value.__name__}({given})"
            )


def _requires_estimator(estimator_class: type) -> bool:
    parameter = inspect.signature(estimator_class).parameters.get("estimator")
    return parameter is not None and parameter.default is parameter.empty


def check_is_estimator(parent: Any, owner: str) -> None:
    """Refuse what has no ``fit`` or ``get_params``, such as a torch module; ``owner`` is of what is
    fitted after it.
    """
    if hasattr(parent, "fit") and hasattr(parent, "get_params"):
        return
    kind = type(parent).__name__
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(parent, torch.nn.Module):
        wrappers = (
            "kdgraph.parents.networks.ModuleClassifier(module) or skorch's"
            " NeuralNetClassifier(module)"
        )
        raise TypeError(
            f"{owner} needs an estimator of scikit-learn, got the torch module {kind}; wrap it:"
            f" {wrappers}"
        )
    raise TypeError(
        f"{owner} needs an estimator of scikit-learn, with fit and get_params, got {kind}:"
        f" {str(parent)[:40]}"
    )


def missing_method_advice(parent: Any, method: str) -> str:
    """Return what to do about an estimator that lacks ``method``, as the end of a sentence."""
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
        return _missing_distribution_advice(inner, name)
    if is_regressor(inner):
        return (
            ", a regressor; pass a classifier, or repair its predictive distributions by"
            " kdgraph.recalibration"
        )
    if is_classifier(inner) and hasattr(inner, "decision_function"):
        return (
            "; let its scores become probabilities:"
            f" CalibratedClassifierCV({type(inner).__name__}())"
        )
    return "; pass a classifier that predicts probabilities"


def _missing_distribution_advice(estimator: Any, name: str) -> str:
    if is_classifier(estimator):
        return (
            ", a classifier; calibrate it by kdgraph.calibration, or pass a regressor that predicts"
            " distributions"
        )
    predict = getattr(estimator, "predict", None)
    deviations = callable(predict) and "return_std" in inspect.signature(predict).parameters
    if deviations or callable(getattr(estimator, "pred_dist", None)):
        return f"; wrap it: PredictiveRegressor({type(estimator).__name__}())"
    return (
        "; pass one that predicts distributions, such as GaussianLinear(), or another library's in"
        " PredictiveRegressor"
    )


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
        raise ValueError(
            f"{n_missing} of {len(values)} labels in y are None; leave out the rows without a label"
        )
    types = sorted(
        {
            "str" if isinstance(value, str) else "number"
            for value in values
            if isinstance(value, str | int | float)
        }
    )
    if len(types) > 1 and not any(isinstance(value, float) and value != value for value in values):
        raise ValueError(
            "labels must be of one type, y has text and numbers; make all of them text,"
            " y.astype(str)"
        )
