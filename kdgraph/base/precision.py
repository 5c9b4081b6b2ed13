"""Numbers that are too large, or too close to each other, for an estimator that reads them.

Trees of scikit-learn and networks compute in single precision, with seven digits up to 3.4e38, and
distances need finite squares. Numbers beyond are refused in a fit; values of a feature that single
precision does not distinguish give a warning. Original to kdgraph.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from kdgraph.base.frozen import TREE_MODELS, unwrap_frozen
from kdgraph.base.training_rows import last_step
from kdgraph.errors import DataError
from kdgraph.wording import some

MAX_SQUARED = 1e150
"""Largest number in distances: sums of squares of millions of features stay finite."""
_MAX_SINGLE = float(np.finfo(np.float32).max)

# Number of rows, evenly spaced, in which distinct values are counted. Sorting 1,000 columns of this
# length takes 0.1 s, and random numbers lose less than 0.1 % of their distinct values.
_MAX_CHECKED_ROWS = 2000

# Fraction of the distinct values of a feature that must remain in single precision.
_MIN_DISTINCT_FRACTION = 0.9

_SINGLE_PRECISION_LIBRARIES = ("xgboost", "catboost", "torch", "skorch")


def check_single_precision(X: Any, name: str) -> None:
    """Raise DataError if a number of X (Float[n, ...]) is beyond the range of single precision.

    Values may be missing, and other rows than arrays of numbers are not checked. ``name`` is the
    class name of the estimator that computes in single precision.
    """
    _check_size(X, _MAX_SINGLE, f"single precision, in which {name} computes,", name)


def check_squares(X: Any, name: str) -> None:
    """Raise DataError if squared distances between the rows X (Float[n, ...]) may not be finite.

    ``name`` is the class name of the parent, or of the estimator that measures them.
    """
    _check_size(X, MAX_SQUARED, "finite squares of distances", name)


def _check_size(X: Any, largest: float, limit: str, name: str) -> None:
    """Raise DataError if a number of the rows X is larger, beyond the limit of this name."""
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "fiu" or not X.size:
        return
    # Two passes without an array of the size of X; comparisons with NaN are False.
    if not (X.max() > largest or X.min() < -largest or np.isnan(X.max())):
        return
    rows = np.reshape(X, (len(X), -1))
    too_large = np.argwhere(np.abs(rows) > largest)
    if len(too_large):
        i, j = too_large[0]
        raise DataError(
            f"column {j} has {rows[i, j]:g} in row {i}, beyond {limit} at {largest:.2g};"
            f" correct it, or scale the columns: make_pipeline(MaxAbsScaler(), {name}())"
        )


def distinct_value_counts(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of distinct values of each feature in double and in single precision.

    X is Float[n, d], where NaN does not count as a value; both numbers are Int[d], at least 1.

    >>> X = np.array([[2460000.51, 1.0], [2460000.52, 1.0], [2460000.53, 2.0]])
    >>> [counts.tolist() for counts in distinct_value_counts(X)]
    [[3, 2], [1, 2]]
    """
    # Rounding is monotone, so that the sorted values are sorted in single precision too.
    ordered = np.sort(X[:: max(1, -(-len(X) // _MAX_CHECKED_ROWS))], axis=0)
    with np.errstate(over="ignore"):
        single = ordered.astype(np.float32)
    return tuple((values[1:] > values[:-1]).sum(axis=0) + 1 for values in (ordered, single))  # type: ignore[return-value]


def uses_single_precision(estimator: Any) -> bool:
    """Return whether the estimator, or the last one inside it, rounds its input to float32."""
    while True:
        if isinstance(estimator, Pipeline):
            estimator = estimator.steps[-1][1]
        elif (
            isinstance(estimator, TREE_MODELS)
            or hasattr(estimator, "_make_module")
            or hasattr(estimator, "module_")
            or type(estimator).__module__.partition(".")[0] in _SINGLE_PRECISION_LIBRARIES
        ):
            return True
        elif hasattr(estimator, "estimator") or isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        else:
            return False


def warn_precision_loss(
    owner: str, parent: Any, X: Any, names: Sequence[str] = (), *, scale: str | None = None
) -> None:
    """Warn about features whose values a fitted parent cannot distinguish in single precision.

    ``owner`` is the data set or class that the message names, and X are the rows that the parent
    was fitted on; the input of the last step of a pipeline is checked, images are not. Without
    ``names``, features have those of the data frame, or positions. ``scale`` is an override that
    scales each feature to [0, 1], which the message contains if it removes the loss.
    """
    if not uses_single_precision(parent):
        return
    rows, names = _final_step_input(parent, X, names)
    if (
        rows is None
        or rows.ndim != 2
        or rows.dtype.kind not in "iuf"
        or len(rows) < 2
        or 0 in rows.shape
    ):
        return
    rows = rows.astype(np.float64, copy=False)
    double, single = distinct_value_counts(rows)
    lossy = np.flatnonzero(single < _MIN_DISTINCT_FRACTION * double)
    if not lossy.size:
        return
    # The message gives the numbers of the feature that loses most, and the names of all.
    worst = int(lossy[np.argmax(double[lossy] - single[lossy])])
    has_names = len(names) == rows.shape[1]
    features = some(
        [
            f"'{names[i]}'" if has_names else f"column {i}"
            for i in [worst, *(i for i in lossy if i != worst)]
        ]
    )
    loss = (
        f"{owner}: of {double[worst]:,} different values of {features}, single precision, in which"
        f" {type(last_step(parent)).__name__} computes, has {single[worst]:,}"
    )
    # Scaling to [0, 1] helps against an offset, but not against outliers: try it.
    low, high = np.nanmin(rows[:, lossy], axis=0), np.nanmax(rows[:, lossy], axis=0)
    double, single = distinct_value_counts((rows[:, lossy] - low) / (high - low))
    if scale is not None and (single >= _MIN_DISTINCT_FRACTION * double).all():
        advice = f"{scale} takes the offset away"
    elif scale is not None:
        advice = "subtract the offset of the column, or take outliers out of it"
    else:
        advice = (
            "subtract the offset, or standardise in the parent's pipeline, as in"
            " make_pipeline(StandardScaler(), model)"
        )
    warnings.warn(f"{loss}; {advice}", stacklevel=3)


def _final_step_input(
    parent: Any, X: Any, names: Sequence[str]
) -> tuple[np.ndarray | None, Sequence[str]]:
    """Return the input of the last step of a pipeline as an array, and the names of its columns.

    The array is None if the input is sparse, since it then has no offset, or is not numeric.
    """
    names = list(names) or [str(name) for name in getattr(X, "columns", ())]
    parent = unwrap_frozen(parent)
    if isinstance(parent, Pipeline) and len(parent.steps) > 1:
        try:
            X = parent[:-1].transform(X)
            names = list(parent[:-1].get_feature_names_out(names or None))
        except (AttributeError, ValueError, TypeError):
            # Some transformers do not name their outputs.
            names = []
    if hasattr(X, "toarray"):
        return None, names
    try:
        return np.asarray(X), names
    except (TypeError, ValueError):
        return None, names
