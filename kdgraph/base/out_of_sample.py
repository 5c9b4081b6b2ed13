"""Outputs of a fitted parent for its own training rows, each computed without the row.

A parent is more confident on rows that it was fitted on than on new ones, so its outputs there
calibrate nothing. Two ways give honest outputs for every training row, so that no row has to be
held out:

- *out of bag*: the trees of a bagged forest that were not fitted on the row (Breiman 1996,
  "Out-of-bag estimation"), by :class:`OutOfBag`;
- *cross-fitting*: a parent that was fitted on the other folds, by :class:`CrossFitted`, as in
  scikit-learn's ``cross_val_predict`` and ``CalibratedClassifierCV(ensemble=False)``.

:class:`UnseenRows` are some of the training rows with these outputs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import check_random_state

from kdgraph.base.held_out import hold_rows_out
from kdgraph.base.training_rows import (
    check_has_out_of_bag_rows,
    in_single_precision,
    last_step,
    out_of_bag_rows,
    transform_for_last_step,
)
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
    :func:`~kdgraph.base.training_rows.out_of_bag_rows`. ``is_out``, Bool[n, T], is True where a row
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
