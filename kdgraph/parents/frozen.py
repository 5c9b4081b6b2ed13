"""Parents in scikit-learn's ``FrozenEstimator``: did they learn from rows, and from which ones."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.ensemble._forest import BaseForest
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.tree import BaseDecisionTree
from sklearn.utils.validation import check_is_fitted

from kdgraph.parents.scores import GivenScores

HELD_OUT = "fit(X, y, X_calibration=…, y_calibration=…)"
"""The way to give calibration rows apart from training rows."""
_FEWEST_LEAVES = 10
"""Trees with fewer leaves in all may hold as many rows of another sample in each leaf by chance."""
_N_PREDICTED = 1000
"""Rows that are predicted to find out whether the parent has memorised them."""
_FEWEST_CORRECT = 20
"""Fewer correct predictions without an incorrect one are no evidence of memory."""


_checked: ContextVar[bool] = ContextVar("checked", default=False)


@contextmanager
def rows_checked() -> Iterator[None]:
    """Within the block, estimators fitted on rows of one that was checked do not check them again."""
    token = _checked.set(True)
    try:
        yield
    finally:
        _checked.reset(token)


def unwrap(estimator: Any) -> Any:
    """Return the estimator inside any number of ``FrozenEstimator``; other estimators as they are.

    >>> unwrap(FrozenEstimator(GivenScores()))
    GivenScores()
    """
    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    return estimator


def is_trained_and_frozen(estimator: Any) -> bool:
    """Return whether ``estimator`` is frozen and learnt from rows, which given scores do not."""
    inner = unwrap(estimator)
    inner = inner.steps[-1][1] if isinstance(inner, Pipeline) else inner
    return isinstance(estimator, FrozenEstimator) and not isinstance(inner, GivenScores)


def warn_of_rows_of_fit(estimator: Any, name: str, X: Any, labels: Any) -> None:
    """Warn that the rows of ``fit`` calibrate a frozen estimator, and of evidence that it has seen them.

    Parameters
    ----------
    estimator : the frozen parent.
    name : class of what is fitted after it.
    X : Float[n, d] or a data frame, the rows of ``fit``.
    labels : [n], as the parent predicts them; None where no class is predicted.
    """
    if _checked.get():
        return
    check_is_fitted(estimator)
    parent = type(unwrap(estimator)).__name__
    if was_fitted_on(estimator, X):
        message = _seen(parent, name, "rows of fit", len(X))
    elif labels is not None and _memorised(estimator, X, labels):
        message = (
            f"the frozen {parent} predicts the labels of all {min(len(X), _N_PREDICTED)} rows of fit "
            "correctly, as those of rows that it was fitted on, where it is more confident than on new "
            f"rows: give {name} held-out rows, {HELD_OUT}"
        )
    else:
        message = (
            f"{name} takes the {len(X)} rows of fit for rows that the frozen {parent} was not fitted "
            f"on; if it was, or to mark them as held out, give calibration rows: {HELD_OUT}"
        )
    warnings.warn(message, stacklevel=_levels_up())


def warn_of_calibration_rows(estimator: Any, name: str, X: Any) -> None:
    """Warn where the calibration rows ``X``, Float[m, d] or a data frame, are the parent's own."""
    if _checked.get():
        return
    check_is_fitted(estimator)
    if was_fitted_on(estimator, X):
        message = _seen(type(unwrap(estimator)).__name__, name, "calibration rows", len(X))
        warnings.warn(message, stacklevel=_levels_up())


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
    A tree of scikit-learn keeps how many of its training rows each leaf holds. The rows are run down
    the first tree (of a forest, those that it drew), and the counts compared. Other rows have the
    same counts in ten or more leaves with a probability below 1e-6.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(200, 2)), rng.integers(2, size=200)
    >>> forest = RandomForestClassifier(5, random_state=0).fit(X[:100], y[:100])
    >>> was_fitted_on(forest, X[:100]), was_fitted_on(forest, X[100:])
    (True, False)
    """
    estimator, n, before = unwrap(estimator), len(X), []
    while isinstance(estimator, Pipeline):
        before.append(estimator[:-1])
        estimator = unwrap(estimator.steps[-1][1])
    if not isinstance(estimator, _WITH_TREES):
        return False
    tree, drawn = _first_tree(estimator, n)
    counts, is_leaf = tree.tree_.n_node_samples, tree.tree_.children_left == -1
    if drawn is None or counts[0] != len(drawn) or is_leaf.sum() < _FEWEST_LEAVES:
        return False  # most rows end here, before anything is transformed
    for transformer in before:
        X = transformer.transform(X) if len(transformer) else X
    if issparse(X):
        return False
    with np.errstate(over="ignore"):
        values = np.asarray(X, dtype=np.float32)[drawn]
    found = np.bincount(tree.tree_.apply(values), minlength=tree.tree_.node_count)
    return bool(np.array_equal(found[is_leaf], counts[is_leaf]))


_BOOSTED = GradientBoostingClassifier, GradientBoostingRegressor
_WITH_TREES = BaseForest, BaseDecisionTree, *_BOOSTED


def _first_tree(estimator: Any, n: int) -> tuple[Any, np.ndarray | None]:
    """The first tree, and Int[m] positions of the rows it saw; None if n rows do not hold them."""
    everything = np.arange(n)
    if isinstance(estimator, _BOOSTED):
        return estimator.estimators_[0, 0], everything
    if isinstance(estimator, BaseDecisionTree):
        return estimator, everything
    first = copy.copy(estimator)  # asked for the draws of all trees, a large forest needs gigabytes
    first.estimators_ = estimator.estimators_[:1]
    drawn = np.unique(first.estimators_samples_[0])
    return first.estimators_[0], drawn if drawn[-1] < n else None


def _levels_up() -> int:
    """How many frames above the caller the first one outside of the library is: the user's line."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("kdgraph."):
        frame, level = frame.f_back, level + 1
    return level


def _memorised(estimator: Any, X: Any, labels: np.ndarray) -> bool:
    """Whether all of the first rows are predicted correctly, and there are enough of them."""
    some = slice(0, _N_PREDICTED)
    if len(X) < _FEWEST_CORRECT:
        return False
    rows = X.iloc[some] if hasattr(X, "iloc") else X[some]
    return bool(np.array_equal(estimator.predict(rows), labels[some]))


def _seen(parent: str, name: str, rows: str, n: int) -> str:
    return (
        f"the {n} {rows} are those that the frozen {parent} was fitted on, where it is more "
        f"confident than on new rows: give {name} held-out rows, {HELD_OUT}"
    )
