"""Features whose values single precision, in which scikit-learn's trees compute, cannot tell apart."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.ensemble._forest import BaseForest
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.tree import BaseDecisionTree

from kdgraph.wording import some

_ROWS = 2000
"""Rows that are looked at, evenly spaced: sorting 1,000 columns of as many takes 0.1 s, and chance merges less than 0.1 % of them."""
_KEPT = 0.9
"""Share of the different values of a feature that must remain in single precision."""
_TREES = (BaseForest, BaseDecisionTree, GradientBoostingClassifier, GradientBoostingRegressor)
_LIBRARIES = ("xgboost", "catboost", "torch", "skorch")


def distinct_values(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how many different values each feature has, in double and in single precision.

    Parameters
    ----------
    X : Float[n, d]; NaN is no value.

    Returns
    -------
    double, single : Int[d], each at least 1.

    Examples
    --------
    >>> [counts.tolist() for counts in distinct_values(np.array([[2460000.51, 1.0], [2460000.52, 1.0], [2460000.53, 2.0]]))]
    [[3, 2], [1, 2]]
    """
    # Rounding is monotone, so that the sorted values are sorted in single precision too.
    ordered = np.sort(X[:: max(1, -(-len(X) // _ROWS))], axis=0)
    with np.errstate(over="ignore"):
        single = ordered.astype(np.float32)
    return tuple((values[1:] > values[:-1]).sum(axis=0) + 1 for values in (ordered, single))  # type: ignore[return-value]


def computes_in_single_precision(estimator: Any) -> bool:
    """Return whether an estimator, or the last one of those that it is composed of, rounds its input to float32."""
    while True:
        if isinstance(estimator, Pipeline):
            estimator = estimator.steps[-1][1]
        elif (
            isinstance(estimator, _TREES)
            or hasattr(estimator, "_make_module")
            or hasattr(estimator, "module_")
            or type(estimator).__module__.partition(".")[0] in _LIBRARIES
        ):
            return True
        elif hasattr(estimator, "estimator") or isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        else:
            return False


def warn_of_lost_values(owner: str, parent: Any, X: Any, names: Sequence[str] = (), *, scale: str | None = None) -> None:
    """Warn of features of which a fitted parent tells few values apart, because it rounds them to float32.

    Parameters
    ----------
    owner : the data set or class that is named in the message.
    parent : fitted; what a pipeline makes of the rows before its last step is looked at.
    X : rows [n, d] that it was fitted on: an array or a data frame; images are in [0, 1] and pass.
    names : of the d features; empty: their positions, or the columns of the data frame.
    scale : the override that moves each feature to [0, 1], if there is one; it is offered where it helps.
    """
    if not computes_in_single_precision(parent):
        return
    rows, names = _as_the_last_step_sees(parent, X, names)
    if rows is None or rows.ndim != 2 or rows.dtype.kind not in "iuf" or len(rows) < 2 or 0 in rows.shape:
        return
    rows = rows.astype(np.float64, copy=False)
    double, single = distinct_values(rows)
    if not (lost := np.flatnonzero(single < _KEPT * double)).size:
        return
    j = int(lost[np.argmax(double[lost] - single[lost])])
    called = some([f"'{names[i]}'" if len(names) == rows.shape[1] else f"column {i}" for i in [j, *(i for i in lost if i != j)]])
    different = f"{owner}: of {double[j]:,} different values of {called}"
    found = f"{different}, single precision, in which {_name(parent)} computes, has {single[j]:,}"
    low, high = np.nanmin(rows[:, lost], axis=0), np.nanmax(rows[:, lost], axis=0)
    double, single = distinct_values((rows[:, lost] - low) / (high - low))
    if scale is not None and (single >= _KEPT * double).all():
        way_out = f"{scale} takes the offset away"
    elif scale is not None:
        way_out = "subtract the offset of the column, or take outliers out of it"
    else:
        way_out = "subtract the offset, or standardise in the parent's pipeline, as in make_pipeline(StandardScaler(), model)"
    warnings.warn(f"{found}; {way_out}", stacklevel=3)


def _as_the_last_step_sees(parent: Any, X: Any, names: Sequence[str]) -> tuple[np.ndarray | None, Sequence[str]]:
    """Rows as an array, and the names of its columns, behind the transformers of a pipeline."""
    names = list(names) or [str(name) for name in getattr(X, "columns", ())]
    while isinstance(parent, FrozenEstimator):
        parent = parent.estimator
    if isinstance(parent, Pipeline) and len(parent.steps) > 1:
        try:
            X = parent[:-1].transform(X)
            names = list(parent[:-1].get_feature_names_out(names or None))
        except (AttributeError, ValueError, TypeError):  # transformers that name nothing
            names = []
    if hasattr(X, "toarray"):  # a sparse matrix has no offset
        return None, names
    try:
        return np.asarray(X), names
    except (TypeError, ValueError):
        return None, names


def _name(parent: Any) -> str:
    while isinstance(parent, Pipeline | FrozenEstimator):
        parent = parent.steps[-1][1] if isinstance(parent, Pipeline) else parent.estimator
    return type(parent).__name__
