"""The ground of every calibrator: labels as positions among the parent's classes, the class prior, rows held out by class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from kdgraph.parameters import check_parameters
from kdgraph.parents.frozen import rows_checked
from kdgraph.parents.posthoc import PostHoc
from kdgraph.parents.rows import Rows, one_each


@dataclass(eq=False, repr=False)
class PostHocClassifier(ClassifierMixin, PostHoc):
    """A classifier that is fitted after a parent with ``predict_proba``, on rows that the parent has not seen.

    A subclass implements ``_fit_after(train, calibration)`` and ``predict_proba``; rows, held-out rows and parents are as
    :class:`~kdgraph.parents.PostHoc` has them, which is how scikit-learn's ``CalibratedClassifierCV`` does with ``FrozenEstimator``.

    Attributes
    ----------
    estimator_ : the fitted parent.
    classes_ : [K] labels, sorted.
    prior_ : Float[K], class shares of the training rows.
    """

    parent_says: ClassVar = "predict_proba"
    takes_groups: ClassVar = False
    """Whether it does something by group: ``fit`` and what predicts want to know each row's then."""
    weights_as_given: ClassVar = False
    """Whether what comes after the parent gets weights as they were passed, as where it fits a parent once more."""

    def fit(
        self,
        X,
        y,
        sample_weight=None,
        *,
        X_calibration=None,
        y_calibration=None,
        sample_weight_calibration=None,
        groups=None,
        groups_calibration=None,
    ):
        """Fit the parent on X (Float[n, d], images Float[n, c, h, w] or a data frame) and y, and what comes after it on calibration rows.

        After a frozen parent, give ``X_calibration`` and ``y_calibration``, rows that it was not fitted on, beside its training
        rows X and y; without them X and y count as rows that it was not fitted on, and calibrate, with a warning.

        ``sample_weight``, Float[n], goes with the rows of X, also with those that are held out of them; ``sample_weight_calibration``,
        Float[m], with those of ``X_calibration``: by class, say, where other classes are met in use as often (label shift).
        A row of weight 0 is left out. A common factor of ``sample_weight``, or of ``sample_weight_calibration``, changes nothing that is
        fitted after the parent, which gets the weights as they are: there they are divided by their mean, so that rows weigh 1 on average
        wherever a row counts against a pseudo-count, a penalty or a number of rows.
        ``groups``, [n], and ``groups_calibration``, [m], say which subgroup the rows belong to; only what :attr:`takes_groups` looks at
        them.

        Raises
        ------
        TypeError : for an estimator that predicts no probabilities.
        ValueError : for infinity; for NaN, unless the parent takes it, and imputes it where distances are measured; for one class only; for
            calibration labels that are not among the training labels; for weights without their rows, or below 0; for groups that are not
            one for each row.
        """
        check_parameters(self)
        parent = self._parent()
        X, y = self._validated(X, y, reset=True)
        check_classification_targets(y)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        everything = _counted(Rows(X, y, weight, None if groups is None else one_each("groups", groups, len(X))))
        self.classes_ = self._classes_of(everything.y)
        everything = replace(everything, y=np.searchsorted(self.classes_, everything.y))
        train, calibration = self._divided(everything, X_calibration, y_calibration, self.random_state)
        if groups_calibration is not None:
            calibration = replace(calibration, group=one_each("groups_calibration", groups_calibration, len(calibration)))
        if sample_weight_calibration is not None:
            calibration = _counted(self._weighted(calibration, sample_weight_calibration, X_calibration is not None))
        self.prior_ = train.one_hot(len(self.classes_)).sum(0) / train.weight.sum()
        self.estimator_ = self._fitted_parent(parent, train, calibration, self.random_state)
        with rows_checked():
            if self.weights_as_given:
                self._fit_after(train, calibration)
            elif X_calibration is None:
                self._fit_after(*_of_mean_weight_one(train, calibration))
            else:
                self._fit_after(*_of_mean_weight_one(train), *_of_mean_weight_one(calibration))
        return self

    def predict(self, X) -> np.ndarray:
        """[n] labels: the class of the largest posterior (Dey et al., Eq. 8)."""
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def _classes_of(self, y: np.ndarray) -> np.ndarray:
        classes = np.unique(y)
        if isinstance(self.estimator, FrozenEstimator):
            check_is_fitted(self.estimator)
            classes, given = np.asarray(self.estimator.classes_), classes
            unknown = np.setdiff1d(given, classes)
            if len(unknown):
                raise ValueError(f"labels {unknown.tolist()} are not among the classes of the frozen parent, {classes.tolist()}")
        if len(np.unique(y)) < 2:
            raise ValueError(f"{type(self).__name__} needs rows of at least two classes, got one class: {np.unique(y).tolist()}")
        return classes

    def _weighted(self, calibration: Rows, weight: Any, is_given: bool) -> Rows:
        """The calibration rows with these weights, Float[m], which only rows that were given can have."""
        if not is_given:
            raise ValueError("sample_weight_calibration needs X_calibration; rows that are held out keep their sample_weight")
        return replace(calibration, weight=_check_sample_weight(weight, calibration.X, dtype=np.float64, ensure_non_negative=True))

    def _labels(self, rows: Rows) -> np.ndarray:
        return self.classes_[rows.y]

    def _given(self, X: Any, y: Any) -> Rows:
        rows = super()._given(X, y)
        unknown = np.setdiff1d(rows.y, self.classes_)
        if len(unknown):
            raise ValueError(f"calibration labels {unknown.tolist()} are not among the training labels {self.classes_.tolist()}")
        return Rows.of(rows.X, np.searchsorted(self.classes_, rows.y))

    def _held_out(self, rows: Rows, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """By class; the only row of a class stays with the training rows."""
        alone = np.bincount(rows.y)[rows.y] == 1
        several = np.flatnonzero(~alone)
        kept, held = train_test_split(several, test_size=self.calibration_size, stratify=rows.y[several], random_state=seed)
        return np.concatenate([kept, np.flatnonzero(alone)]), held


def _counted(rows: Rows) -> Rows:
    """The rows whose weight is above 0."""
    counts = rows.weight > 0
    return rows if counts.all() else rows[counts]


def _of_mean_weight_one(*parts: Rows) -> list[Rows]:
    """The parts with weights divided by a common factor, after which those of all their rows have mean 1."""
    weight = np.concatenate([rows.weight for rows in parts])
    largest = weight.max()  # divided first, so that the sum is finite and has all its digits
    mean = (weight / largest).mean()
    return [replace(rows, weight=rows.weight / largest / mean) for rows in parts]
