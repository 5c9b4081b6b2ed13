"""Rows of one role, and outputs of a parent for them that are computed without each row.

:class:`Rows` are the training or the calibration rows, with weights and groups. A parent is more
confident on rows that it was fitted on than on new ones, so its outputs there calibrate nothing.
Two ways give out-of-sample outputs for every training row, so that no row has to be held out:

- *out of bag*: the trees of a bagged forest that were not fitted on the row (Breiman 1996,
  "Out-of-bag estimation"), by :class:`OutOfBag`;
- *cross-fitting*: a parent that was fitted on the other folds, by :class:`CrossFitted`, as in
  scikit-learn's ``cross_val_predict`` and ``CalibratedClassifierCV(ensemble=False)``.

:class:`UnseenRows` are some of the training rows with these outputs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import check_random_state
from threadpoolctl import ThreadpoolController

from kdgraph.base.frozen import (
    check_has_out_of_bag_rows,
    in_single_precision,
    last_step,
    out_of_bag_rows,
    transform_for_last_step,
    unwrap_frozen,
)
from kdgraph.base.held_out import hold_rows_out
from kdgraph.base.validation import concatenate_rows, is_dataframe, select_rows
from kdgraph.errors import DataError


@dataclass(frozen=True)
class UnseenRows:
    """Training rows of a parent whose outputs are computed without each row.

    They are at ``positions``, Int[m], among the rows of ``source``; ``reads`` are the methods whose
    outputs were read so far, of these rows or of parts of them.
    """

    source: Any
    positions: np.ndarray
    reads: set[str] = field(default_factory=set, compare=False)

    def __getitem__(self, index: Any) -> UnseenRows:
        return UnseenRows(self.source, self.positions[index], self.reads)

    def predict(self, method: str) -> Any:
        """Return the outputs of a method of the parent, [m, …]."""
        self.reads.add(method)
        return self.source.predict(method, self.positions)

    def apply(self, function: Callable[[Any, Any], np.ndarray]) -> np.ndarray:
        """Return a function of the parent and the rows, [m, …], by the parents of the folds."""
        if not hasattr(self.source, "apply"):
            raise TypeError(
                "this component needs more of its parent than class probabilities, which trees"
                " cannot give out of bag; use calibration='cross_fit' or 'held_out'"
            )
        self.reads.add("apply")
        return self.source.apply(function, self.positions)

    def apply_by_fold(
        self, function: Callable[[Any, Any], Any]
    ) -> Iterator[tuple[np.ndarray, Any]]:
        """Yield the positions of the rows of each fold among these rows, and their result."""
        self.reads.add("apply")
        return self.source.apply_by_fold(function, self.positions)


def unseen_rows(rows: Any) -> UnseenRows:
    """Return the outputs of the parent for training rows, or raise TypeError if there are none."""
    if rows.unseen is None:
        raise TypeError("the rows have no outputs that were computed without each row")
    return rows.unseen


class OutOfBag:
    """Predictions of a bagged forest for its training rows by the trees not fitted on them.

    ``estimator`` is a fitted forest with ``bootstrap=True``, also frozen or at the end of a
    pipeline, whose transformers are fitted on all rows. ``X`` are the rows that it was fitted on,
    in their order; for others NoOutOfBagRows is raised, see
    :func:`~kdgraph.base.frozen.out_of_bag_rows`. ``is_out``, Bool[n, T], is True where a row
    is out of bag in a tree.

    A row that was drawn twice, as two equal training rows, may be in bag by its twin. If new rows
    have such twins among the training rows as often as training rows have them, its out-of-bag
    prediction is as good as one for a new row; otherwise leave out duplicates first.
    """

    def __init__(self, estimator: Any, X: Any):
        self.forest = last_step(estimator)
        check_has_out_of_bag_rows(self.forest, len(X))
        rows = in_single_precision(transform_for_last_step(estimator, X))
        trees = self.forest.estimators_
        self.is_out = np.empty((len(X), len(trees)), dtype=bool, order="F")
        # All rows descend each tree once, which both checks that they are those of the fit and
        # predicts them. Trees are added in order, so that the sum does not depend on the number of
        # threads.
        total: Any = None
        for t, tree in enumerate(trees):
            leaves = tree.tree_.apply(rows)
            self.is_out[:, t] = out_of_bag_rows(self.forest, t, leaves)
            out = np.flatnonzero(self.is_out[:, t])
            leaf_outputs = self._leaf_outputs(tree)
            if total is None:
                total = np.zeros((len(X), *leaf_outputs.shape[1:]))
            total[out] += leaf_outputs[leaves[out]]
        n_trees = np.maximum(self.is_out.sum(axis=1), 1)
        self._mean = total / n_trees.reshape(-1, *[1] * (total.ndim - 1))

    @property
    def has_trees(self) -> np.ndarray:
        """True for rows that are out of bag in at least one tree, Bool[n]."""
        return np.asarray(self.is_out.any(axis=1))

    def predict(self, method: str, rows: np.ndarray) -> np.ndarray:
        """Return the mean prediction of the out-of-bag trees for rows at Int[m], [m, …].

        ``method`` is "predict_proba" of a classifier or "predict" of a regressor; single trees have
        no other outputs, and TypeError is raised. Rows must be out of bag in at least one tree.
        """
        if method != ("predict_proba" if is_classifier(self.forest) else "predict"):
            raise TypeError(
                f"{method} of a {type(self.forest).__name__} cannot be computed out of bag; use"
                " calibration='cross_fit'"
            )
        return self._mean[rows]

    def _leaf_outputs(self, tree: Any) -> np.ndarray:
        """Return the prediction of each node of a tree, [nodes, …]."""
        values = tree.tree_.value  # Float[nodes, outputs, K], where K is 1 of a regressor
        if values.shape[1] == 1:
            return values[:, 0, :] if is_classifier(self.forest) else values[:, 0, 0]
        if is_classifier(self.forest):
            raise TypeError(
                f"the {type(self.forest).__name__} predicts {values.shape[1]} targets; out of bag"
                " it needs a single one"
            )
        return values[:, :, 0]


@dataclass(frozen=True)
class StoredOutputs:
    """Class probabilities of a calibrated parent for its training rows, stored by its fit.

    ``proba``, Float[n, K], were computed without each row.
    """

    proba: np.ndarray

    def predict(self, method: str, rows: np.ndarray) -> np.ndarray:
        """Return the probabilities of the rows (Int[m]); there are no other outputs."""
        if method != "predict_proba":
            raise TypeError(
                f"{method} of a calibrated parent cannot be computed for its training rows; use"
                " calibration='held_out'"
            )
        return self.proba[rows]


class CrossFitted(FrozenEstimator):
    """Fitted parent with the parents of a cross-validation, each fitted without one fold.

    It can be passed wherever a ``FrozenEstimator`` can. Calibrators with
    ``calibration="cross_fit"`` then take the outputs of its folds instead of fitting parents
    again; see :func:`cross_fit`. ``fold``, Int[n], is the fold of each of the n rows that
    ``estimator`` is fitted on, and ``fold_estimators[f]`` is fitted on those outside of fold f.
    """

    def __init__(
        self, estimator: Any, fold_estimators: Sequence[Any] = (), fold: np.ndarray | None = None
    ):
        super().__init__(estimator)
        self.fold_estimators = fold_estimators
        self.fold = fold


@dataclass(eq=False, repr=False)
class CrossFittedOutputs:
    """Outputs of parents for training rows outside of their fits.

    ``fold``, Int[n], is the fold of each row of X, and ``fold_estimators[f]`` is fitted on the rows
    outside of fold f. ``classes``, of shape [K], are the labels of all classes, of which these rows
    may lack some; None for regressors. ``take`` is a function of X and positions that returns these
    rows.

    In ``memo`` components keep what they derive from the parents of the folds, by a key of their
    own, so that several fits to the same rows share it.
    """

    fold_estimators: Sequence[Any]
    fold: np.ndarray
    X: Any
    classes: np.ndarray | None
    take: Callable[[Any, np.ndarray], Any]
    memo: dict[Any, Any] = field(default_factory=dict)
    _cache: dict[str, Any] = field(default_factory=dict)

    def predict(self, method: str, rows: np.ndarray) -> Any:
        """Return the outputs of a method of the parents for the training rows at Int[m], [m, …].

        Columns of classes that a parent was not fitted on are 0.
        """
        if method not in self._cache:
            self._cache[method] = self._predict_folds(method)
        return self._cache[method][rows]

    def apply(self, function: Callable[[Any, Any], np.ndarray], rows: np.ndarray) -> np.ndarray:
        """Return a function of the parent of its fold and each row, for some rows (Int[m])."""
        values: Any = None
        for members, result in self.apply_by_fold(function, rows):
            if values is None:
                values = np.zeros((len(rows), *result.shape[1:]), dtype=result.dtype)
            values[members] = result
        return values

    def apply_by_fold(
        self, function: Callable[[Any, Any], Any], rows: np.ndarray
    ) -> Iterator[tuple[np.ndarray, Any]]:
        """Yield, for each fold, which of some rows (Int[m]) are in it, and their result."""
        fold = self.fold[rows]
        for f in np.unique(fold):
            members = np.flatnonzero(fold == f)
            yield members, function(self.fold_estimators[f], self.take(self.X, rows[members]))

    def _predict_folds(self, method: str) -> np.ndarray:
        def outputs(estimator: Any, X: Any) -> np.ndarray:
            values = np.asarray(getattr(estimator, method)(X))
            if method == "predict_proba":
                return self._align(values, estimator)
            self._check_classes(estimator, method)
            return values

        inside = np.flatnonzero(self.fold >= 0)
        values = self.apply(outputs, inside)
        if len(inside) == len(self.fold):
            return values
        # Rows outside of a single fold have no output.
        padded = np.full((len(self.fold), *values.shape[1:]), np.nan, dtype=values.dtype)
        padded[inside] = values
        return padded

    def _check_classes(self, estimator: Any, method: str) -> None:
        """Raise ValueError if a parent was not fitted on all classes: 0 is no logit of a class."""
        if self.classes is None:
            return
        missing = np.setdiff1d(self.classes, estimator.classes_)
        if len(missing):
            raise ValueError(
                f"{method} has no value for classes {missing.tolist()}, of which the rows outside"
                " of a fold have no row; use fewer folds, or leave out rare classes"
            )

    def _align(self, values: np.ndarray, estimator: Any) -> np.ndarray:
        classes = self.classes
        if classes is None or values.ndim < 2 or len(estimator.classes_) == len(classes):
            return values
        aligned = np.zeros((len(values), len(classes)), dtype=values.dtype)  # 0 for other classes
        aligned[:, np.searchsorted(classes, estimator.classes_)] = values
        return aligned


def draw_folds_of_rows(
    n_samples: int,
    cv: Any,
    y: np.ndarray | None,
    random_state: Any,
    test_size: float = 0.3,
) -> np.ndarray:
    """Return the fold of each row, Int[n], -1 for rows outside of a single fold.

    ``cv`` is the number of folds, drawn by class if there are classes ``y``, Int[n]; a
    cross-validator of scikit-learn; or an iterable of (training, test) positions. With 1, a
    fraction ``test_size`` of the rows is a single fold. DataError is raised if there are fewer rows
    than folds, or no row can be held out as a single fold, and ValueError if a row is in the test
    part of several folds, or of none although there are several.
    """
    splits: Iterable[Any]
    is_number = isinstance(cv, int | np.integer)
    if is_number and not 1 <= cv <= n_samples:
        raise DataError(
            f"cv={cv} folds of n_samples={n_samples} cannot be drawn, each needs a row; pass more"
            f" rows, or cv from 1 to {n_samples}"
        )
    if not is_number:
        has_split = hasattr(cv, "split")
        splits = cv.split(np.zeros(n_samples) if y is None else y, y) if has_split else cv
    elif cv == 1:
        splits = [hold_rows_out(n_samples, y, test_size, random_state)]
    elif y is None:
        folds = KFold(int(cv), shuffle=True, random_state=random_state)
        splits = folds.split(np.zeros(n_samples))
    elif np.bincount(y).max() < cv:
        splits = _folds_of_small_classes(y, int(cv), random_state)
    else:
        # A class with fewer rows than folds is in some folds only; scikit-learn warns of it.
        splits = StratifiedKFold(int(cv), shuffle=True, random_state=random_state).split(y, y)
    fold, count = np.full(n_samples, -1), np.zeros(n_samples, dtype=int)
    # Where a class has fewer rows than there are folds, some parents are not fitted on it, which
    # is handled; scikit-learn warns of it.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class in y has only")
        for f, (_, test) in enumerate(splits):
            fold[test] = f
            count[test] += 1
    is_single = is_number and cv == 1
    if not is_single and (count != 1).any():
        raise ValueError(
            f"cv must put each row in the test part of one fold, {int((count != 1).sum())} of"
            f" {n_samples} rows are in none or in several"
        )
    return fold


def _folds_of_small_classes(
    y: np.ndarray, n_folds: int, random_state: Any
) -> Iterator[tuple[None, np.ndarray]]:
    """Yield None and the test rows of each fold, for classes (Int[n]) with fewer rows than folds.

    The folds have about equally many rows, and no two of one class.
    """
    order = check_random_state(random_state).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    return ((None, order[f::n_folds]) for f in range(n_folds))


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
