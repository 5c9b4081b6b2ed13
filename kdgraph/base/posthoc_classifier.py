"""Base class of classifiers that are fitted after a parent.

:class:`PostHocClassifier` adds what calibrators need to :class:`~kdgraph.base.PostHoc`: labels as
positions among the parent's classes, the class prior, sample weights, subgroups, hold-out and folds
by class, and class probabilities of training rows that were computed without each row.

:func:`use_class_names` lets warnings name classes by their labels, although a run fits all
estimators on positions. Original to kdgraph; the conventions are those of scikit-learn's
``CalibratedClassifierCV``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from kdgraph.base.out_of_sample import StoredOutputs, unseen_rows
from kdgraph.base.posthoc import PostHoc
from kdgraph.base.rows import (
    Rows,
    are_equal_rows,
    check_per_row,
    check_weights,
    row_signatures,
)
from kdgraph.base.training_rows import skip_row_checks
from kdgraph.parameters import check_parameters

_class_labels: ContextVar[Sequence[Any]] = ContextVar("class_labels", default=())
_group_names: ContextVar[Sequence[Any]] = ContextVar("group_names", default=())


@contextmanager
def use_class_names(labels: Sequence[Any], groups: Sequence[Any] = ()) -> Iterator[None]:
    """Name classes by these labels, of shape [K], in messages within the block.

    Otherwise they have their positions for names; ``groups`` are names of groups of rows.
    """
    tokens = _class_labels.set(labels), _group_names.set(groups)
    try:
        yield
    finally:
        _class_labels.reset(tokens[0])
        _group_names.reset(tokens[1])


def display_label(label: Any) -> str:
    """Return the name of a class for messages.

    >>> with use_class_names(["setosa", "virginica"]):
    ...     display_label(1), display_label("1"), display_label("any class")
    ('virginica', 'virginica', 'any class')
    >>> display_label(1)
    '1'
    """
    return _name_of(label, _class_labels.get())


def display_group(group: Any) -> str:
    """Return the name of a group of rows for messages.

    >>> with use_class_names([], ["rural", "urban"]):
    ...     display_group(1)
    'urban'
    """
    return _name_of(group, _group_names.get())


def _name_of(value: Any, names: Sequence[Any]) -> str:
    text = str(value)
    return str(names[int(text)]) if text.isdigit() and int(text) < len(names) else text


@dataclass(eq=False, repr=False)
class PostHocClassifier(ClassifierMixin, PostHoc):
    """Base class of classifiers that are fitted after a parent with ``predict_proba``.

    A subclass implements ``_fit_after(train, calibration)`` and ``predict_proba``. Rows, held-out
    rows and parents are handled by :class:`~kdgraph.base.PostHoc`, in the way of scikit-learn's
    ``CalibratedClassifierCV`` with ``FrozenEstimator``.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        The parent. It is cloned and fitted, unless frozen.

    Attributes
    ----------
    estimator_ : estimator
        The fitted parent.
    classes_ : ndarray of shape [K]
        Labels, sorted.
    prior_ : Float[K]
        Class frequencies of the training rows.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> @dataclass(eq=False, repr=False)
    ... class PriorMixture(PostHocClassifier):
    ...     def _fit_after(self, train, calibration):
    ...         self.weight_ = 0.5
    ...
    ...     def predict_proba(self, X):
    ...         proba = self.estimator_.predict_proba(self._validate_X(X))
    ...         return self.weight_ * proba + (1 - self.weight_) * self.prior_
    >>> X, y = np.arange(20.0)[:, None], np.array(["low", "high"])[np.arange(20) // 10]
    >>> model = PriorMixture(LogisticRegression(), random_state=0).fit(X, y)
    >>> model.predict([[0.0], [19.0]]).tolist(), model.prior_.tolist()
    (['low', 'high'], [0.5, 0.5])
    """

    required_method: ClassVar = "predict_proba"
    takes_groups: ClassVar = False
    """True if the estimator uses subgroups. ``fit`` and the prediction methods then take the
    subgroup of each row.
    """

    def _needs_many_rows(self) -> bool:
        """Return whether few calibration rows can make predicted probabilities 0 or 1."""
        return False

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
        """Fit the parent on training rows and what comes after it on calibration rows.

        After a frozen parent, pass ``X_calibration`` and ``y_calibration``, rows that it was not
        fitted on, in addition to its training rows X and y. Without them, X and y count as rows
        that it was not fitted on, and calibrate, with a warning.

        Parameters
        ----------
        X : Float[n, d], images Float[n, c, h, w] or DataFrame
            Training rows, of which some are held out if no calibration rows are passed.
        y : array of shape [n]
            Labels.
        sample_weight : Float[n], default=None
            Weights of the rows of X, also of those that are held out. A row of weight 0 is left
            out. The parent gets the weights unchanged. What is fitted after it gets them divided by
            their mean, so that a common factor changes nothing: rows weigh 1 on average wherever a
            row is compared with a pseudo-count, a penalty or a number of rows.
        X_calibration : array or DataFrame, default=None
            Calibration rows, m rows like those of X.
        y_calibration : array of shape [m], default=None
            Labels of ``X_calibration``.
        sample_weight_calibration : Float[m], default=None
            Weights of ``X_calibration``, treated like ``sample_weight``. They can correct for
            label shift, with a weight for each class.
        groups, groups_calibration : array of shape [n] and [m], default=None
            Subgroup of each row. They are only used if :attr:`takes_groups`.

        Raises
        ------
        TypeError
            If the parent does not predict probabilities.
        ValueError
            For infinite features; for NaN, unless the parent takes it, and imputes it if distances
            are measured; for a single class; for calibration labels that are not among the training
            labels; for weights without their rows, or below 0; for groups whose number is not that
            of the rows.
        """
        check_parameters(self)
        parent = self._check_parent()
        rows = self._validate_training_rows(X, y, sample_weight, groups)
        train, calibration = self._divide_rows(
            rows, X_calibration, y_calibration, sample_weight_calibration, groups_calibration
        )
        self.prior_ = train.one_hot(len(self.classes_)).sum(0) / train.weight.sum()
        self.estimator_ = self._fit_parent(parent, train, calibration, self.random_state)
        calibration = self._add_unseen_outputs(calibration, parent)
        # Held-out rows share the scale of the training rows they were split from. Calibration rows
        # that are passed have weights on a scale of their own, so each set is normalised alone.
        with skip_row_checks():
            if X_calibration is None:
                self._fit_after(*_normalise_weights(train, calibration))
            else:
                self._fit_after(*_normalise_weights(train), *_normalise_weights(calibration))
        self._check_reads(calibration)
        self._keep_cross_fitted_proba(train, calibration)
        return self

    def _validate_training_rows(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Rows:
        """Return the rows of weight above 0, with positions in ``classes_`` as labels."""
        X, y = self._validate_rows(X, y, reset=True)
        check_classification_targets(y)
        weight = check_weights(sample_weight, X)
        group = None if groups is None else check_per_row("groups", groups, len(X))
        rows = _drop_zero_weights(Rows(X, y, weight, group))
        self.classes_ = self._classes_of(rows.y)
        return replace(rows, y=np.searchsorted(self.classes_, rows.y))

    def _divide_rows(
        self,
        rows: Rows,
        X_calibration: Any,
        y_calibration: Any,
        sample_weight_calibration: Any,
        groups_calibration: Any,
    ) -> tuple[Rows, Rows]:
        train, calibration = self._split_rows(rows, X_calibration, y_calibration, self.random_state)
        if groups_calibration is not None:
            calibration = replace(
                calibration,
                group=check_per_row("groups_calibration", groups_calibration, len(calibration)),
            )
        if sample_weight_calibration is not None:
            calibration = _drop_zero_weights(
                self._set_weights(calibration, sample_weight_calibration, X_calibration is not None)
            )
        return train, calibration

    def _keep_cross_fitted_proba(self, train: Rows, calibration: Rows) -> None:
        """Keep probabilities of the training rows that are computed without each row.

        The parents of the folds are not kept, but a gate behind this calibrator may need what they
        make of the training rows. Out-of-bag outputs can be computed again.
        """
        if self.calibration_ == "cross_fit" and self._predicts_rows() and calibration.unseen:
            self.out_of_sample_proba_ = np.full((len(train), len(self.classes_)), np.nan)
            self.out_of_sample_proba_[calibration.unseen.positions] = self._predict_rows(
                calibration
            )
            self.out_of_sample_rows_ = row_signatures(train.X)

    def fit_behind(self, other: PostHocClassifier, train: Rows, calibration: Rows) -> Self:
        """Fit a calibrator behind the fitted parent of another one, to validated rows of that one.

        This one gets the parent, classes and features of ``other``, which is fitted up to its
        parent.
        """
        check_parameters(self)
        self._take_parent_of(other)
        self.classes_ = other.classes_
        self.prior_ = train.one_hot(len(self.classes_)).sum(0) / train.weight.sum()
        with skip_row_checks():
            self._fit_after(*_normalise_weights(train), *_normalise_weights(calibration))
        return self

    def _out_of_sample_outputs(self, rows: Rows) -> StoredOutputs:
        """Return the probabilities of the training rows, computed without each row.

        ValueError is raised if these are not the rows of ``fit``, or have no such probabilities.
        """
        stored = getattr(self, "out_of_sample_proba_", None)
        if stored is not None and are_equal_rows(self.out_of_sample_rows_, row_signatures(rows.X)):
            return StoredOutputs(stored)
        if self.calibration_ != "oob" or not self._predicts_rows():
            name = type(self).__name__
            raise ValueError(
                f"{name} has no probabilities of these {len(rows)} rows that were computed without"
                f" each of them; fit {name} to the same rows with calibration='oob' or 'cross_fit'"
            )
        own = self._add_unseen_outputs(rows, FrozenEstimator(self.estimator_), always=True)
        proba = np.full((len(rows), len(self.classes_)), np.nan)
        proba[unseen_rows(own).positions] = self._predict_rows(own)
        return StoredOutputs(proba)

    def _predicts_rows(self) -> bool:
        return type(self)._predict_rows is not PostHocClassifier._predict_rows

    def _predict_rows(self, rows: Rows) -> np.ndarray:
        """Return class probabilities, Float[m, K], of rows with outputs of the parent.

        It is :meth:`predict_proba` of the rows, but of training rows with outputs of the parent
        that were computed without each row.
        """
        raise NotImplementedError

    def _strata(self, rows: Rows) -> np.ndarray | None:
        return rows.y

    def _class_labels(self) -> np.ndarray | None:
        return self.classes_

    def predict(self, X) -> np.ndarray:
        """Return the label of the largest posterior for each row (Dey et al. 2023, Eq. 8).

        Parameters
        ----------
        X : Float[n, d], images or DataFrame
            Rows as in ``fit``.
        """
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def _classes_of(self, y: np.ndarray) -> np.ndarray:
        """Return the sorted classes: those of a frozen parent, otherwise those in ``y``."""
        labels = classes = np.unique(y)
        if isinstance(self.estimator, FrozenEstimator):
            check_is_fitted(self.estimator)
            classes = np.asarray(self.estimator.classes_)
            unknown = np.setdiff1d(labels, classes)
            if len(unknown):
                raise ValueError(
                    f"labels {unknown.tolist()} are not among the classes of the frozen parent,"
                    f" {classes.tolist()}"
                )
        if len(labels) < 2:
            raise ValueError(
                f"{type(self).__name__} needs rows of at least two classes, got one class:"
                f" {labels.tolist()}"
            )
        return classes

    def _set_weights(self, calibration: Rows, weight: Any, has_calibration_rows: bool) -> Rows:
        """Return the calibration rows with these weights, Float[m].

        Raises ValueError if the rows were held out of the training rows and have weights already.
        """
        if not has_calibration_rows:
            raise ValueError(
                "sample_weight_calibration needs X_calibration; rows that are held out keep their"
                " sample_weight"
            )
        return replace(calibration, weight=check_weights(weight, calibration.X))

    def _parent_targets(self, rows: Rows) -> np.ndarray:
        return self.classes_[rows.y]

    def _validate_calibration_rows(self, X: Any, y: Any) -> Rows:
        rows = super()._validate_calibration_rows(X, y)
        unknown = np.setdiff1d(rows.y, self.classes_)
        if len(unknown):
            raise ValueError(
                f"calibration labels {unknown.tolist()} are not among the training labels"
                f" {self.classes_.tolist()}"
            )
        return Rows.unweighted(rows.X, np.searchsorted(self.classes_, rows.y))


def _drop_zero_weights(rows: Rows) -> Rows:
    has_weight = rows.weight > 0
    return rows if has_weight.all() else rows[has_weight]


def _normalise_weights(*row_sets: Rows) -> list[Rows]:
    """Return the sets with all weights divided by one factor, so that their joint mean is 1."""
    weight = np.concatenate([rows.weight for rows in row_sets])
    # Dividing by the largest weight first keeps the sum finite and all its digits.
    largest = weight.max()
    mean = (weight / largest).mean()
    return [replace(rows, weight=rows.weight / largest / mean) for rows in row_sets]
