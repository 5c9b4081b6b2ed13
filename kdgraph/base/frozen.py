"""Parents in ``FrozenEstimator``, and advice about unsuitable parents.

A frozen parent is used as it was fitted, so the rows that calibrate it must not be its training
rows. The first half of this module finds out, as far as possible, whether they are, and warns. The
second half refuses inputs that are not estimators of scikit-learn, with an error that names the way
out.
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
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomTreesEmbedding,
)
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.tree import BaseDecisionTree
from sklearn.utils.validation import check_is_fitted

# The arguments of ``fit`` that separate calibration rows from training rows.
_HELD_OUT_SIGNATURE = "fit(X, y, X_calibration=…, y_calibration=…)"

# In trees with fewer leaves, another sample can have the same leaf counts by chance.
_MIN_LEAVES = 10

# Number of rows that are predicted to find out whether the parent has memorised them. Fewer correct
# predictions than the second number, without an incorrect one, are not evidence of memory.
_MAX_PREDICTED_ROWS = 1000
_MIN_CORRECT_PREDICTIONS = 20

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

_skip_row_checks: ContextVar[bool] = ContextVar("skip_row_checks", default=False)


@contextmanager
def skip_row_checks() -> Iterator[None]:
    """Disable the checks of this module within the block.

    An estimator whose rows were checked uses it to fit other estimators on the same rows.
    """
    token = _skip_row_checks.set(True)
    try:
        yield
    finally:
        _skip_row_checks.reset(token)


def unwrap_frozen(estimator: Any) -> Any:
    """Return the estimator inside any number of ``FrozenEstimator``; other estimators unchanged.

    >>> from kdgraph.parents import PrecomputedScores
    >>> unwrap_frozen(FrozenEstimator(PrecomputedScores()))
    PrecomputedScores()
    """
    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    return estimator


def is_frozen_and_trained(estimator: Any) -> bool:
    """Return whether ``estimator`` is frozen and was trained on rows.

    Precomputed scores are not trained on rows (``learns_from_rows`` is False).
    """
    inner = unwrap_frozen(estimator)
    inner = inner.steps[-1][1] if isinstance(inner, Pipeline) else inner
    return isinstance(estimator, FrozenEstimator) and getattr(inner, "learns_from_rows", True)


def warn_fit_rows_calibrate(estimator: Any, owner: str, X: Any, labels: Any) -> None:
    """Warn that the rows of ``fit`` calibrate a frozen parent.

    The warning includes the evidence, if there is any, that the parent was fitted on these rows.

    Parameters
    ----------
    estimator : FrozenEstimator
        The frozen parent.
    owner : str
        Class name of the estimator that is fitted after the parent.
    X : Float[n, d] or DataFrame
        The rows of ``fit``.
    labels : ndarray of shape [n] or None
        Labels in the form that the parent predicts; None if no class is predicted.
    """
    if _skip_row_checks.get():
        return
    check_is_fitted(estimator)
    parent = type(unwrap_frozen(estimator)).__name__
    if was_fitted_on(estimator, X):
        message = _seen_rows_message(parent, owner, "rows of fit", len(X))
    elif labels is not None and _predicts_all_correctly(estimator, X, labels):
        message = (
            f"the frozen {parent} predicts the labels of all {min(len(X), _MAX_PREDICTED_ROWS)}"
            " rows of fit correctly, as those of rows that it was fitted on, where it is more"
            f" confident than on new rows: give {owner} held-out rows, {_HELD_OUT_SIGNATURE}"
        )
    else:
        message = (
            f"{owner} takes the {len(X)} rows of fit for rows that the frozen {parent} was not"
            " fitted on; if it was, or to mark them as held out, give calibration rows:"
            f" {_HELD_OUT_SIGNATURE}"
        )
    warnings.warn(message, stacklevel=_user_stacklevel())


def warn_calibration_rows_seen(estimator: Any, owner: str, X: Any) -> None:
    """Warn if the frozen parent was fitted on the calibration rows.

    Parameters
    ----------
    estimator : FrozenEstimator
        The frozen parent.
    owner : str
        Class name of the estimator that is fitted after the parent.
    X : Float[m, d] or DataFrame
        The calibration rows.
    """
    if _skip_row_checks.get():
        return
    check_is_fitted(estimator)
    if was_fitted_on(estimator, X):
        parent = type(unwrap_frozen(estimator)).__name__
        message = _seen_rows_message(parent, owner, "calibration rows", len(X))
        warnings.warn(message, stacklevel=_user_stacklevel())


def was_fitted_on(estimator: Any, X: Any, *, min_leaves: int = _MIN_LEAVES) -> bool:
    """Return whether a fitted tree ensemble was fitted on exactly these rows.

    Parameters
    ----------
    estimator : estimator
        A tree, forest or gradient boosting model of scikit-learn, also frozen or at the end of a
        pipeline. The result for any other estimator is False, because it cannot be found out.
    X : Float[n, d] or DataFrame
        The rows. Their order matters for forests that draw bootstrap samples.
    min_leaves : int, default=10
        The result is False if the first tree has fewer leaves, because other rows may fill them
        alike.

    Notes
    -----
    A tree of scikit-learn stores how many of its training rows each leaf contains. The rows (of a
    forest, those in the bootstrap sample of the first tree) are assigned to the leaves of the first
    tree, and the counts are compared. Other rows have the same counts in ten or more leaves with a
    probability below 1e-6.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(200, 2)), rng.integers(2, size=200)
    >>> forest = RandomForestClassifier(5, random_state=0).fit(X[:100], y[:100])
    >>> was_fitted_on(forest, X[:100]), was_fitted_on(forest, X[100:])
    (True, False)
    """
    estimator, n, transformers = unwrap_frozen(estimator), len(X), []
    while isinstance(estimator, Pipeline):
        transformers.append(estimator[:-1])
        estimator = unwrap_frozen(estimator.steps[-1][1])
    if not isinstance(estimator, TREE_MODELS):
        return False
    tree, sample = _first_tree_and_sample(estimator, n)
    counts, is_leaf = tree.tree_.n_node_samples, tree.tree_.children_left == -1
    # The number of rows decides most calls, before any row is transformed.
    if sample is None or counts[0] != len(sample) or is_leaf.sum() < min_leaves:
        return False
    for transformer in transformers:
        X = transformer.transform(X) if len(transformer) else X
    if issparse(X):
        return False
    with np.errstate(over="ignore"):
        values = np.asarray(X, dtype=np.float32)[sample]
    node_counts = np.bincount(tree.tree_.apply(values), minlength=tree.tree_.node_count)
    return bool(np.array_equal(node_counts[is_leaf], counts[is_leaf]))


def _first_tree_and_sample(estimator: Any, n: int) -> tuple[Any, np.ndarray | None]:
    """Return the first tree and the positions of its training rows, Int[m].

    The positions are None if ``n`` rows are too few to contain them.
    """
    all_rows = np.arange(n)
    if isinstance(estimator, _BOOSTED_TREES):
        return estimator.estimators_[0, 0], all_rows
    if isinstance(estimator, BaseDecisionTree):
        return estimator, all_rows
    # ``estimators_samples_`` draws the samples of all trees again, which takes gigabytes for a
    # large forest. A copy with a single tree draws one sample.
    one_tree_forest = copy.copy(estimator)
    one_tree_forest.estimators_ = estimator.estimators_[:1]
    sample = np.unique(one_tree_forest.estimators_samples_[0])
    return one_tree_forest.estimators_[0], sample if sample[-1] < n else None


def _user_stacklevel() -> int:
    """Return the ``stacklevel`` of a warning that points at the first line outside of kdgraph."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("kdgraph."):
        frame, level = frame.f_back, level + 1
    return level


def _predicts_all_correctly(estimator: Any, X: Any, labels: np.ndarray) -> bool:
    """Return whether the first rows are all predicted correctly, and are enough as evidence."""
    first_rows = slice(0, _MAX_PREDICTED_ROWS)
    if len(X) < _MIN_CORRECT_PREDICTIONS:
        return False
    rows = X.iloc[first_rows] if hasattr(X, "iloc") else X[first_rows]
    return bool(np.array_equal(estimator.predict(rows), labels[first_rows]))


def _seen_rows_message(parent: str, owner: str, rows_name: str, n: int) -> str:
    """Return the warning about rows that the frozen parent was fitted on."""
    return (
        f"the {n} {rows_name} are those that the frozen {parent} was fitted on, where it is more "
        f"confident than on new rows: give {owner} held-out rows, {_HELD_OUT_SIGNATURE}"
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
            # A nested post-hoc estimator is created with None, which is replaced by the parent.
            argument = "None" if _requires_estimator(value) else ""
            raise TypeError(
                f"{type(estimator).__name__}: {name} must be an instance, got the class"
                f" {value.__name__}; pass {value.__name__}({argument})"
            )


def _requires_estimator(estimator_class: type) -> bool:
    """Return whether the class has a parameter ``estimator`` without a default."""
    parameter = inspect.signature(estimator_class).parameters.get("estimator")
    return parameter is not None and parameter.default is parameter.empty


def check_is_estimator(parent: Any, owner: str) -> None:
    """Refuse objects without ``fit`` or ``get_params``, such as torch modules.

    Parameters
    ----------
    parent : object
        The object that was passed as a parent.
    owner : str
        Class name of the estimator that is fitted after the parent.

    Raises
    ------
    TypeError
        With a wrapper that makes a torch module an estimator.
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
    """Return advice about an estimator that predicts no distributions."""
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
