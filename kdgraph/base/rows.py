"""Rows with weights and groups, in an array or a data frame of pandas.

:class:`Rows` are the rows of one role (training, calibration).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight
from threadpoolctl import ThreadpoolController

from kdgraph.base.frozen import unwrap_frozen
from kdgraph.base.out_of_sample import UnseenRows
from kdgraph.errors import DataError

MORE_ROWS_ADVICE = (
    "fit it to more rows, of which some are held out, or pass X_calibration and y_calibration"
)


@dataclass(frozen=True)
class Rows:
    """Rows of one role.

    Attributes
    ----------
    X : Float[n, d], images Float[n, c, h, w], or DataFrame
        Features.
    y : Int[n], Float[n], ndarray of shape [n] or None
        After a classifier, positions in ``classes_``; after a regressor, outcomes; for a detector,
        labels before encoding, or None.
    weight : Float[n]
        Sample weights.
    group : ndarray of shape [n] or None, default=None
        Subgroup of each row; None if there are no subgroups.
    unseen : UnseenRows or None, default=None
        Outputs of the parent for training rows, computed without each row. None for rows that the
        parent was not fitted on.
    outputs : dict or None, default=None
        Outputs of parents for these rows that are kept for the next component that reads them, by
        parent and method. None to compute them whenever they are read.

    Examples
    --------
    >>> rows = Rows.unweighted(np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 1]))
    >>> len(rows), rows[1:].y.tolist()
    (3, [1, 1])
    >>> rows.one_hot(2).tolist()
    [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    """

    X: Any
    y: Any
    weight: np.ndarray
    group: np.ndarray | None = None
    unseen: UnseenRows | None = None
    outputs: dict[tuple[int, str], Any] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def unweighted(cls, X: Any, y: Any = None, *, keep_outputs: bool = False) -> Rows:
        """Return rows that all have weight 1.

        With ``keep_outputs``, the outputs of a parent are computed once for several components.
        """
        return cls(X, y, np.ones(len(X)), outputs={} if keep_outputs else None)

    def __len__(self) -> int:
        return len(self.weight)

    def __getitem__(self, index) -> Rows:
        y, group = (None if values is None else values[index] for values in (self.y, self.group))
        unseen = None if self.unseen is None else self.unseen[index]
        return Rows(select_rows(self.X, index), y, self.weight[index], group, unseen)

    def __add__(self, other: Rows) -> Rows:
        """Return the rows of both, those of ``other`` last; with groups if both have them.

        Outputs of a parent are not kept.
        """
        groups = [rows.group for rows in (self, other) if rows.group is not None]
        return Rows(
            concatenate_rows(self.X, other.X),
            np.concatenate([self.y, other.y]),
            np.concatenate([self.weight, other.weight]),
            np.concatenate(groups) if len(groups) == 2 else None,
        )

    def predict(self, estimator: Any, method: str = "predict_proba") -> Any:
        """Return the outputs of a method of a fitted parent for these rows.

        They are computed without each row if the parent was fitted on it. Probabilities without a
        column for each class raise ValueError.
        """
        if self.unseen is not None:
            return self.unseen.predict(method)
        if self.outputs is None:
            return _predicted(estimator, method, self.X)
        # Components behind one parent may each have a FrozenEstimator of their own around it.
        key = id(unwrap_frozen(estimator)), method
        if key not in self.outputs:
            self.outputs[key] = _predicted(estimator, method, self.X)
        return self.outputs[key]

    def apply(self, estimator: Any, function: Callable[[Any, Any], np.ndarray]) -> np.ndarray:
        """Return a function of a fitted parent and these rows, [n, …].

        ``function`` of a parent and rows X returns one value, or array, for each row. For rows that
        the parent was fitted on, the parents of their folds take its place; if its outputs for them
        are computed out of bag, TypeError is raised.
        """
        return function(estimator, self.X) if self.unseen is None else self.unseen.apply(function)

    def one_hot(self, n_classes: int) -> np.ndarray:
        """Return Float[n, K] with the weight of each row in the column of its class."""
        table = np.zeros((len(self), n_classes))
        table[np.arange(len(self)), self.y] = self.weight
        return table


def on_one_thread(user_api: str | None = None) -> AbstractContextManager[Any]:
    """Return a context in which sums over rows run on one thread, in one order.

    It is ``threadpoolctl.threadpool_limits(1)`` without its search for the libraries of the
    process, which takes 5 ms, longer than the prediction of a row or a small fit. ``user_api`` is
    "blas", "openmp", or None for both.
    """
    return _thread_pools().limit(limits=1, user_api=user_api)


@cache  # the search for the libraries of numpy, scipy and scikit-learn
def _thread_pools() -> ThreadpoolController:
    return ThreadpoolController()


def is_dataframe(X: Any) -> bool:
    """Return whether X is a data frame of pandas."""
    return hasattr(X, "iloc") and hasattr(X, "columns")


def select_rows(X: Any, index: Any) -> Any:
    """Return some rows of X.

    Examples
    --------
    >>> import pandas as pd
    >>> select_rows(pd.DataFrame({"x": [1, 2, 3]}), [0, 2])["x"].tolist()
    [1, 3]
    """
    return X.iloc[index] if is_dataframe(X) else X[index]


def concatenate_rows(first: Any, second: Any) -> Any:
    """Return the rows of two arrays or of two data frames, one after the other."""
    if not is_dataframe(first):
        return np.concatenate([first, second])
    import pandas as pd

    return pd.concat([first, second], ignore_index=True)


# Rows of a block in predictions. Their codes, four bytes for each tree, take most of the memory.
_PREDICTION_BLOCK = 32_768


def apply_in_blocks(function: Callable[[Any], np.ndarray], X: Any) -> np.ndarray:
    """Return ``function`` of the rows X (Float[n, …] or a data frame), [n, …], by blocks.

    It returns one value, or one array, for each row, and is called once even if there are no rows.
    """
    return np.concatenate([function(block) for block in iterate_blocks(X)])


def iterate_blocks(X: Any) -> Iterator[Any]:
    """Return an iterator over blocks of the rows ``X``; one empty block if there are no rows."""
    return (
        select_rows(X, slice(start, start + _PREDICTION_BLOCK))
        for start in range(0, max(len(X), 1), _PREDICTION_BLOCK)
    )


# Relative difference up to which signatures are those of one row. Behind a transformer, a row of
# ``fit_transform`` and the same row of ``transform`` differ by rounding.
_SIGNATURE_TOLERANCE = 1e-6


def row_signatures(X: Any) -> np.ndarray:
    """Return a number for each row by which equal rows in one order are recognised, Float[n].

    It is a random linear function of the numbers of a row, and of a hash of each text or category.
    """
    if is_dataframe(X):
        columns = [_as_numbers(X.iloc[:, j]) for j in range(X.shape[1])]
    else:
        columns = list(np.reshape(X, (len(X), -1)).T)
    weights = np.random.default_rng(0).uniform(1, 2, len(columns))
    signature = np.zeros(len(X))
    with np.errstate(over="ignore", invalid="ignore"):
        for weight, column in zip(weights, columns, strict=True):
            signature += weight * np.nan_to_num(np.asarray(column, dtype=np.float64), nan=-np.pi)
    return signature


def _as_numbers(column: Any) -> np.ndarray:
    """Return a column of a data frame, or hashes of its texts or categories, Float[n]."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    hashes = pd.util.hash_pandas_object(column, index=False).to_numpy()
    return hashes / float(np.iinfo(np.uint64).max)


def are_equal_rows(first: np.ndarray, second: np.ndarray) -> bool:
    """Return whether two arrays of :func:`row_signatures` are those of the same rows, in order."""
    return len(first) == len(second) and np.allclose(
        first,
        second,
        rtol=_SIGNATURE_TOLERANCE,
        atol=_SIGNATURE_TOLERANCE * np.median(np.abs(first)),
    )


def has_missing(X: Any) -> bool:
    """Return whether any value of X (Float[n, …] or a data frame) is missing."""
    if is_dataframe(X):
        return bool(X.isna().to_numpy().any())
    # The minimum is NaN if any value is, and needs no array of flags of the size of X.
    return bool(X.size and np.isnan(X.min()))


def check_per_row(name: str, values: Any, n: int) -> np.ndarray:
    """Return ``values`` as an array of shape [n], or raise ValueError with their name."""
    array = np.asarray(values)
    if array.shape != (n,):
        raise ValueError(f"{name} must have one for each of {n} rows, got shape {array.shape}")
    return array


def check_weights(sample_weight: Any, X: Any) -> np.ndarray:
    """Return sample weights as Float[n], 1 for each row if there are none.

    A single number is the weight of all rows. It raises DataError if a weight is negative or not
    finite, all are 0, or their sum is not finite, and ValueError if there is not one for each row.
    """
    given = np.ravel(np.asarray([] if sample_weight is None else sample_weight, dtype=np.float64))
    wrong = np.flatnonzero(~(np.isfinite(given) & (given >= 0)))
    if len(wrong):
        raise DataError(
            f"sample_weight must be finite and at least 0, got {given[wrong[0]]:g} in row"
            f" {wrong[0]}; give 0 to rows that should not count"
        )
    if len(given) and not given.any():
        raise DataError(
            f"sample_weight is zero in all of {len(given)} rows, and must be above 0 in one; leave"
            " it out to weigh all rows alike"
        )
    with np.errstate(over="ignore"):
        if not np.isfinite(given.sum()):
            raise DataError(
                f"sample_weight is up to {given.max():g} and has no finite sum over {len(given)}"
                " rows; divide it by its largest value"
            )
    return _check_sample_weight(sample_weight, X, dtype=np.float64)


def _predicted(estimator: Any, method: str, X: Any) -> Any:
    """Return the outputs of a method for rows, with checked columns of probabilities."""
    outputs = getattr(estimator, method)(X)
    if method != "predict_proba":
        return outputs
    # Without classes, as of a model of another library, there must be two columns at least.
    classes, shape = getattr(estimator, "classes_", None), np.shape(outputs)
    n_classes = None if classes is None else len(classes)
    if len(shape) != 2 or (shape[1] < 2 if n_classes is None else shape[1] != n_classes):
        name, expected = type(unwrap_frozen(estimator)).__name__, "each class"
        expected = expected if n_classes is None else f"each of {n_classes} classes"
        raise ValueError(
            f"predict_proba of {name} returned shape {shape}, and needs a column for {expected};"
            " for two classes and the probability p of the second, return"
            " np.column_stack([1 - p, p])"
        )
    return outputs
