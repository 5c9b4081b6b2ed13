"""Frozen parents, the rows that they were fitted on, and the trees that were fitted without a row.

A parent is more confident on rows that it was fitted on than on new ones. So the rows that
calibrate a frozen parent must be others than its training rows, unless its outputs for them are
computed out of bag; then they must be its training rows, in their order. Trees of scikit-learn
record how many rows each leaf got, and forests with which seed the rows of each tree were drawn.
:func:`was_fitted_on` and :func:`out_of_bag_rows` compare rows with these records. Original to
kdgraph. Inputs that are not estimators of scikit-learn are refused with an error that names the way
out.
"""

from __future__ import annotations

import copy
import inspect
import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.special import gammaln
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
from sklearn.utils.validation import check_is_fitted

from kdgraph.errors import DataError

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


# The arguments of ``fit`` that separate calibration rows from training rows.
_HELD_OUT_SIGNATURE = "fit(X, y, X_calibration=…, y_calibration=…)"

# Largest probability with which other rows are taken for those of the fit.
_MAX_LOG_CHANCE = math.log(1e-6)

# Number of rows that are predicted to find out whether the parent has memorised them. Fewer correct
# predictions than the second number, without an incorrect one, are not evidence of memory.
_MAX_PREDICTED_ROWS = 1000
_MIN_CORRECT_PREDICTIONS = 20

_skip_row_checks: ContextVar[bool] = ContextVar("skip_row_checks", default=False)


class NoOutOfBagRows(DataError):
    """Error for a forest whose out-of-bag rows are not known."""


@contextmanager
def skip_row_checks() -> Iterator[None]:
    """Disable the warnings of this module within the block.

    An estimator whose rows were checked uses it to fit other estimators on the same rows.
    """
    token = _skip_row_checks.set(True)
    try:
        yield
    finally:
        _skip_row_checks.reset(token)


def last_step(estimator: Any) -> Any:
    """Return the estimator at the end of any pipelines, without ``FrozenEstimator`` around it."""
    estimator = unwrap_frozen(estimator)
    while isinstance(estimator, Pipeline):
        estimator = unwrap_frozen(estimator.steps[-1][1])
    return estimator


def transform_for_last_step(estimator: Any, X: Any) -> Any:
    """Return the rows as the last step of a fitted pipeline gets them; others unchanged."""
    estimator = unwrap_frozen(estimator)
    while isinstance(estimator, Pipeline):
        X = estimator[:-1].transform(X) if len(estimator) > 1 else X
        estimator = unwrap_frozen(estimator.steps[-1][1])
    return X


def in_single_precision(X: Any) -> Any:
    """Return rows as the trees of scikit-learn read them, Float32[n, d], dense or sparse."""
    with np.errstate(over="ignore"):
        if issparse(X):
            return X.tocsr().astype(np.float32)
        return np.ascontiguousarray(X, dtype=np.float32)


def is_bagged(estimator: Any) -> bool:
    """Return whether a forest, fitted or not, draws a bootstrap sample of rows for each tree.

    The forest may be frozen or at the end of a pipeline; the result for others is False.
    """
    last = last_step(estimator)
    return isinstance(last, FOREST_BASE) and bool(getattr(last, "bootstrap", False))


def check_has_out_of_bag_rows(forest: Any, n_samples: int) -> None:
    """Raise NoOutOfBagRows unless a fitted forest has out-of-bag rows among ``n_samples`` rows.

    It has none if it draws no bootstrap samples, does not record them, or was fitted on another
    number of rows.
    """
    name = type(forest).__name__
    if not is_bagged(forest):
        raise NoOutOfBagRows(
            f"{name} has no out-of-bag rows, only a forest with bootstrap=True does; pass one, or"
            " use calibration='cross_fit'"
        )
    # scikit-learn draws the samples again from these; forests that draw them in another way, such
    # as those that balance the classes of each tree, lack them.
    if not (hasattr(forest, "_n_samples") and hasattr(forest, "_n_samples_bootstrap")):
        raise NoOutOfBagRows(
            f"{name} does not record which rows each tree was fitted on, so that no row is known to"
            " be out of bag; use calibration='cross_fit'"
        )
    if forest._n_samples != n_samples:
        raise _other_rows(forest, f"it got {forest._n_samples:,} rows, not {n_samples:,}")


def out_of_bag_rows(forest: Any, t: int, leaves: np.ndarray) -> np.ndarray:
    """Return which rows of the fit are out of bag in tree ``t`` of a bagged forest, Bool[n].

    ``leaves``, Int[n], are the leaves of the tree that contain the rows, as of ``apply``.

    scikit-learn draws the sample again from the seed of the tree. It is accepted only if the rows
    in it are as many in each leaf as the tree has counted there. So rows that reach the forest
    otherwise than in its fit are refused by NoOutOfBagRows: behind a sampler, or behind a
    transformer whose ``fit_transform`` differs from its ``transform``, as that of a target encoder
    does.
    """
    check_has_out_of_bag_rows(forest, len(leaves))
    is_out = ~_in_bag_rows(forest, t, len(leaves))
    if not _fill_leaves_alike(forest.estimators_[t].tree_, leaves[~is_out]):
        raise _other_rows(forest, f"these {len(leaves):,} rows fill its leaves otherwise")
    return is_out


def _other_rows(forest: Any, evidence: str) -> NoOutOfBagRows:
    return NoOutOfBagRows(
        f"calibration='oob' needs the rows that the {type(forest).__name__} was fitted on, as it"
        f" got them and in their order, and {evidence}; pass those, or use calibration='cross_fit'"
    )


def _in_bag_rows(forest: Any, t: int, n_samples: int) -> np.ndarray:
    """Return which rows a tree of a model of trees was fitted on, Bool[n]."""
    if not is_bagged(forest):
        return np.ones(n_samples, dtype=bool)
    # ``estimators_samples_`` draws the samples of all trees again at each access, which takes
    # gigabytes for a large forest. A copy with a single tree draws one sample.
    one_tree = copy.copy(forest)
    one_tree.estimators_ = forest.estimators_[t : t + 1]
    is_in = np.zeros(n_samples, dtype=bool)
    is_in[one_tree.estimators_samples_[0]] = True
    return is_in


def _fill_leaves_alike(tree: Any, leaves: np.ndarray) -> bool:
    """Return whether each leaf of a compiled tree contains as many rows as in its fit.

    ``leaves``: Int[m], leaves of the rows that the tree was fitted on.
    """
    is_leaf = tree.children_left == -1
    counts = np.bincount(leaves, minlength=tree.node_count)
    return bool(np.array_equal(counts[is_leaf], tree.n_node_samples[is_leaf]))


def was_fitted_on(estimator: Any, X: Any) -> bool:
    """Return whether a fitted model of trees was fitted on exactly these rows.

    The model is a tree, forest or gradient boosting model of scikit-learn, also frozen or at the
    end of a pipeline. The result for any other estimator is False, because it cannot be found out.
    The order of the rows matters for forests that draw bootstrap samples.

    A tree of scikit-learn records how many of its training rows each leaf contains. The result is
    True if the rows fill the leaves of one tree after the other as those of the fit did, until
    other rows would do so with a probability below 1e-6. So it is False for trees of a few leaves
    in all.

    *With bootstrap samples*, tree t has c_i of its m rows in leaf i, and the n rows at hand put N_i
    into it. Other rows, in an order that has nothing to do with the sample of the tree, match these
    counts with the probability Π_i C(N_i, c_i) / C(n, m). The samples of trees have seeds of their
    own, so that probabilities multiply: trees of two leaves are evidence if they are many.

    *Without*, all trees have the same rows, and the most improbable counts of a single tree decide:
    n independent rows match c with a probability of at most n! Π_i (c_i / n)^c_i / c_i!.

    Rows whose order is related to that of the fit, as two tables that are sorted by class and have
    equal classes, can match without being equal. Out of bag they are calibrated rightly, since they
    are new to all trees.
    """
    model, n, bagged = last_step(estimator), len(X), is_bagged(estimator)
    if not isinstance(model, TREE_MODELS):
        return False
    trees = [tree.tree_ for tree in np.ravel(getattr(model, "estimators_", model))]
    if bagged and getattr(model, "_n_samples", None) != n:
        return False
    # The number of rows decides most calls, before any row is transformed.
    if trees[0].n_node_samples[0] != _in_bag_rows(model, 0, n).sum():
        return False
    rows, log_chance = in_single_precision(transform_for_last_step(estimator, X)), 0.0
    for t, tree in enumerate(trees):
        leaves, is_in = tree.apply(rows), _in_bag_rows(model, t, n)
        if not _fill_leaves_alike(tree, leaves[is_in]):
            return False
        log_chance = (
            log_chance + _log_chance_of_sample(leaves, is_in)
            if bagged
            else min(log_chance, _log_chance_of_counts(np.bincount(leaves)))
        )
        if log_chance < _MAX_LOG_CHANCE:
            return True
    return False


def _log_chance_of_sample(leaves: np.ndarray, is_in: np.ndarray) -> float:
    """Return the log probability that a random sample of the rows fills leaves as this one does.

    ``leaves``: Int[n]; ``is_in``: Bool[n], the sample.
    """
    total, inside = np.bincount(leaves), np.bincount(leaves[is_in], minlength=leaves.max() + 1)
    return float(_log_choose(total, inside).sum() - _log_choose(len(is_in), is_in.sum()))


def _log_choose(n: Any, k: Any) -> Any:
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def _log_chance_of_counts(counts: np.ndarray) -> float:
    """Return the largest log probability of counts of independent rows, at any leaf sizes."""
    counts = counts[counts > 0]
    n = counts.sum()
    return float(gammaln(n + 1) - gammaln(counts + 1).sum() + (counts * np.log(counts / n)).sum())


def is_frozen_and_trained(estimator: Any) -> bool:
    """Return whether ``estimator`` is frozen and was trained on rows.

    Precomputed scores are not trained on rows (``learns_from_rows`` is False).
    """
    return isinstance(estimator, FrozenEstimator) and getattr(
        last_step(estimator), "learns_from_rows", True
    )


def warn_fit_rows_calibrate(estimator: Any, owner: str, X: Any, labels: Any) -> None:
    """Warn that the rows of ``fit`` calibrate a frozen parent.

    The warning includes the evidence, if there is any, that the parent was fitted on these rows.
    ``labels``, of shape [n], are in the form that the parent predicts; None if no class is
    predicted. ``owner`` is the class name of the estimator that is fitted after the parent.
    """
    if _skip_row_checks.get():
        return
    check_is_fitted(estimator)
    parent = type(unwrap_frozen(estimator)).__name__
    if was_fitted_on(estimator, X):
        message = _seen_rows_message(estimator, owner, f"{len(X)} rows of fit")
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
    warnings.warn(message, stacklevel=user_stacklevel())


def warn_calibration_rows_seen(estimator: Any, owner: str, X: Any) -> None:
    """Warn if the frozen parent of a class ``owner`` was fitted on the calibration rows X."""
    if _skip_row_checks.get():
        return
    check_is_fitted(estimator)
    if was_fitted_on(estimator, X):
        message = _seen_rows_message(estimator, owner, f"{len(X)} calibration rows")
        warnings.warn(message, stacklevel=user_stacklevel())


def user_stacklevel() -> int:
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


def _seen_rows_message(estimator: Any, owner: str, rows: str) -> str:
    message = (
        f"the {rows} are those that the frozen {type(unwrap_frozen(estimator)).__name__} was fitted"
        f" on, where it is more confident than on new rows: give {owner} held-out rows,"
        f" {_HELD_OUT_SIGNATURE}"
    )
    return f"{message}, or calibration='oob' and none" if is_bagged(estimator) else message
