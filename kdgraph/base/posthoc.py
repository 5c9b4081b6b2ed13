"""Base classes of the estimators that are fitted after a parent.

Calibrators, detectors and recalibrators repair or extend the outputs of a *parent*, a classifier or
regressor. They need rows that the parent has not seen. :class:`PostHoc` validates the rows, holds
calibration rows out, and clones and fits the parent, or uses a frozen one unchanged.
:class:`PostHocClassifier` adds what calibrators need: labels as positions among the parent's
classes, the class prior, sample weights, subgroups, and hold-out by class.

:func:`use_class_names` lets warnings name classes by their labels, although a run fits all
estimators on positions. Original to kdgraph; the conventions are those of scikit-learn's
``CalibratedClassifierCV``.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    _check_y,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from kdgraph.base.frozen import (
    check_is_estimator,
    check_labels,
    check_parameters_are_instances,
    is_frozen_and_trained,
    missing_method_advice,
    skip_row_checks,
    unwrap_frozen,
    warn_calibration_rows_seen,
    warn_fit_rows_calibrate,
)
from kdgraph.base.rows import (
    IMPUTATION_ADVICE,
    Rows,
    accepts_categories,
    accepts_dataframe,
    allows_missing,
    check_numeric_columns,
    check_per_row,
    has_category_columns,
    has_missing,
    has_transformer_steps,
    is_dataframe,
    is_meta_estimator,
    sample_weight_kwargs,
    warn_precision_loss,
)
from kdgraph.parameters import OpenFraction, check_parameters

_class_labels: ContextVar[Sequence[Any]] = ContextVar("class_labels", default=())


@contextmanager
def use_class_names(labels: Sequence[Any]) -> Iterator[None]:
    """Name classes by these labels, in messages within the block, and not by their positions.

    Parameters
    ----------
    labels : sequence of shape [K]
        Label of each class.
    """
    token = _class_labels.set(labels)
    try:
        yield
    finally:
        _class_labels.reset(token)


def display_label(label: Any) -> str:
    """Return the name of a class for messages.

    >>> with use_class_names(["setosa", "virginica"]):
    ...     display_label(1), display_label("1"), display_label("any class")
    ('virginica', 'virginica', 'any class')
    >>> display_label(1)
    '1'
    """
    labels, text = _class_labels.get(), str(label)
    return str(labels[int(text)]) if text.isdigit() and int(text) < len(labels) else text


@dataclass(eq=False, repr=False)
class PostHoc(MetaEstimatorMixin, BaseEstimator):
    """Base class of estimators that are fitted after a parent, on rows new to the parent.

    A subclass is a dataclass whose fields are its parameters (or has an ``__init__`` that stores
    them), and implements ``_fit_after(train, calibration)``. ``estimator`` is cloned and fitted on
    the training rows, even if it is fitted already; ``FrozenEstimator(fitted)`` is used unchanged.

    Calibration rows must be new to the parent. For an estimator that is fitted here,
    ``calibration_size`` of the rows are held out, unless ``X_calibration`` is passed to ``fit``.
    After a frozen estimator the user has to pass them::

        fit(X, y, X_calibration=X_held_out, y_calibration=y_held_out)

    Without ``X_calibration``, the rows of ``fit`` count as rows that the frozen parent was not
    fitted on, and all of them calibrate, as in scikit-learn's ``CalibratedClassifierCV``. A
    component that also needs training rows, such as a density or the reference of a detector, is
    fitted on ``1 - calibration_size`` of them. A warning mentions this, and also mentions if the
    parent has seen the rows, as far as that can be found out.

    Rows are Float[n, d], images Float[n, c, h, w] or a data frame. A data frame is passed on
    unchanged to a parent that consists of other estimators, such as a pipeline, or is frozen and
    was fitted on a data frame. Rows may have missing values if the parent takes them. The checks
    are those of scikit-learn (``validate_data``), for an estimator that wraps another one.

    Parameters
    ----------
    estimator : estimator
        The parent. It is cloned and fitted, unless frozen.
    calibration_size : float in (0, 1), default=0.3
        Fraction of the rows to hold out if no calibration rows are passed to ``fit``. After a
        frozen estimator, pass rows that it was not fitted on, ``fit(X, y, X_calibration=…,
        y_calibration=…)``: see :class:`~kdgraph.base.PostHoc`.
    random_state : int, RandomState or None, default=None
        Seed of the hold-out, and of the parent if it has no seed.

    Attributes
    ----------
    estimator_ : estimator
        The fitted parent.

    Notes
    -----
    Original to kdgraph.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> @dataclass(eq=False, repr=False)
    ... class RowCounter(PostHoc):
    ...     def _fit_after(self, train, calibration):
    ...         self.n_rows_ = len(train), len(calibration)
    ...
    ...     def fit(self, X, y):
    ...         rows = Rows.unweighted(*self._validate_rows(X, y, reset=True))
    ...         train, calibration = self._split_rows(rows, None, None, self.random_state)
    ...         self.estimator_ = self._fit_parent(self.estimator, train, calibration, 0)
    ...         self._fit_after(train, calibration)
    ...         return self
    >>> X, y = np.arange(20.0)[:, None], np.arange(20) % 2
    >>> RowCounter(LogisticRegression(), random_state=0).fit(X, y).n_rows_
    (14, 6)
    """

    estimator: Any
    _: KW_ONLY
    calibration_size: OpenFraction = 0.3
    random_state: Any = None

    required_method: ClassVar[str | None] = None
    """Method that the parent must have, if any."""
    required_partition: ClassVar[Literal["forest", "network"] | None] = None
    """Kind of partition that the parent must have, if not every one is suitable."""
    _numeric_targets: ClassVar[bool] = False

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        """Fit what comes after ``estimator_``, which is fitted before this call."""
        raise NotImplementedError

    def _default_estimator(self) -> Any:
        """Return the parent to fit; a subclass may replace None by a default."""
        if self.estimator is None:
            raise ValueError(f"{type(self).__name__} needs an estimator, got None")
        return self.estimator

    def _distance_estimator(self) -> Any:
        """Return the estimator in whose feature space distances are measured, or None.

        Features must be finite in that space.
        """
        return None

    def _needs_labels(self) -> bool:
        """Return whether ``fit`` requires y."""
        return True

    def _needs_unseen_rows(self) -> bool:
        """Return whether calibration rows that the parent was fitted on would distort the fit."""
        return True

    def _requires_training_rows(self) -> bool:
        """Return whether :meth:`_fit_after` needs training rows that are not calibration rows."""
        return False

    def _check_parent(self) -> Any:
        """Return the parent to fit, and raise an error if it lacks the required method."""
        check_parameters_are_instances(self)
        parent, method = self._default_estimator(), self.required_method
        if parent is not None:
            check_is_estimator(parent, type(self).__name__)
        if method is not None and not self._supports(parent, method):
            advice = missing_method_advice(parent, method)
            raise TypeError(
                f"{type(self).__name__} needs an estimator with {method}, got"
                f" {type(unwrap_frozen(parent)).__name__}{advice}"
            )
        return parent

    def _supports(self, parent: Any, method: str) -> bool:
        """Return whether ``parent``, fitted or not, has the method."""
        return hasattr(parent, method)

    def _validate_X(self, X: Any) -> Any:
        """Return validated rows of a fitted estimator."""
        check_is_fitted(self)
        return self._validate_rows(X)[0]

    def _validate_rows(self, X: Any, *y: Any, reset: bool = False) -> tuple[Any, ...]:
        """Return X, and y if passed, validated as by scikit-learn.

        A data frame that the parent can read is returned unchanged, and the parent validates it.
        """
        parent, distance_estimator = self._default_estimator(), self._distance_estimator()
        readers = [reader for reader in (parent, distance_estimator) if reader is not None]
        # Distances need finite features, unless a pipeline imputes them before they are measured.
        measures_raw_features = distance_estimator is not None and not has_transformer_steps(
            distance_estimator
        )
        # Meta-estimators may contain an encoder and check their columns themselves.
        checked_readers = [reader for reader in readers if not is_meta_estimator(reader)]
        for reader in checked_readers or ([] if readers else [self]):
            check_numeric_columns(X, reader, accepts_categories=accepts_categories(reader))
        is_frame = is_dataframe(X)
        has_readable_categories = (
            is_frame
            and has_category_columns(X)
            and any(accepts_categories(reader) for reader in readers)
        )
        if is_frame and (
            has_readable_categories or any(accepts_dataframe(reader) for reader in readers)
        ):
            validate_data(self, X, reset=reset, skip_check_array=True)
        else:
            finite = "allow-nan" if measures_raw_features or allows_missing(parent) else True
            X = validate_data(
                self,
                X,
                reset=reset,
                dtype="numeric",
                allow_nd=_are_images(X),
                ensure_all_finite=finite,
            )
        if measures_raw_features and has_missing(X):
            raise ValueError(
                f"Input X contains NaN, and {type(self).__name__} measures distances;"
                f" {IMPUTATION_ADVICE}"
            )
        return (X, *(self._validate_targets(X, targets) for targets in y))

    def _validate_targets(self, X: Any, y: Any) -> Any:
        """Return validated y, or None if there is none and none is required."""
        if y is None:
            if self._needs_labels():
                raise ValueError(
                    f"{type(self).__name__} requires y to be passed, but the target y is None"
                )
            return None
        check_labels(y)
        y = _check_y(y, y_numeric=self._numeric_targets, estimator=self)
        check_consistent_length(X, y)
        return np.asarray(y, dtype=np.float64) if self._numeric_targets else y

    def _split_rows(
        self, rows: Rows, X_calibration: Any, y_calibration: Any, random_state: Any
    ) -> tuple[Rows, Rows]:
        """Return training and calibration rows.

        If calibration rows are passed, all ``rows`` are training rows. Otherwise some of ``rows``
        are held out. All rows have both roles if there are too few to hold any out, with a warning,
        and after a frozen parent, unless training rows are required.
        """
        # Rows that the parent was trained on do not show its errors on new rows. So the function
        # prefers rows that it has certainly not seen, and warns if the caller's rows may be seen.
        parent = self._default_estimator() if self._needs_unseen_rows() else None
        name, is_frozen = type(self).__name__, is_frozen_and_trained(parent)
        if X_calibration is not None:
            calibration = self._validate_calibration_rows(X_calibration, y_calibration)
            if is_frozen:
                warn_calibration_rows_seen(parent, name, calibration.X)
            return rows, calibration
        if y_calibration is not None:
            raise ValueError("y_calibration needs X_calibration")
        if is_frozen:
            warn_fit_rows_calibrate(parent, name, rows.X, self._parent_targets(rows))
        if isinstance(parent, FrozenEstimator) and not self._requires_training_rows():
            return rows, rows
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        try:
            train_index, calibration_index = self._split_indices(rows, seed)
        except ValueError:
            warnings.warn(
                f"{len(rows)} rows are too few to hold any out: {name} is calibrated on its"
                " training rows",
                stacklevel=3,
            )
            train_index = calibration_index = np.arange(len(rows))
        return rows[train_index], rows[calibration_index]

    def _validate_calibration_rows(self, X: Any, y: Any) -> Rows:
        """Return the calibration rows that were passed to ``fit``, validated."""
        if y is None and self._needs_labels():
            raise ValueError("X_calibration needs y_calibration")
        return Rows.unweighted(*self._validate_rows(X, y))

    def _split_indices(self, rows: Rows, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return positions of training and calibration rows, Int[n - m] and Int[m].

        Raises ValueError if there are too few rows.
        """
        train_index, calibration_index = train_test_split(
            np.arange(len(rows)), test_size=self.calibration_size, random_state=seed
        )
        return train_index, calibration_index

    def _fit_parent(
        self, parent: Any, train: Rows, calibration: Rows | None, random_state: Any
    ) -> Any:
        """Return ``parent`` if it is frozen, otherwise a fitted clone.

        The calibration rows, if there are any, are passed to a parent that takes them.
        """
        if isinstance(parent, FrozenEstimator):
            check_is_fitted(parent)
            return parent
        kwargs: dict[str, Any] = sample_weight_kwargs(parent, train.weight)
        if calibration is not None and "X_calibration" in inspect.signature(parent.fit).parameters:
            kwargs |= {
                "X_calibration": calibration.X,
                "y_calibration": self._parent_targets(calibration),
            }
        fitted = seeded_clone(parent, random_state).fit(
            train.X, self._parent_targets(train), **kwargs
        )
        warn_precision_loss(type(self).__name__, fitted, train.X)
        return fitted

    def _parent_targets(self, rows: Rows) -> Any:
        """Return the targets that the parent is fitted with, [n]."""
        return rows.y

    def __sklearn_tags__(self):
        """Return the tags; missing values are allowed if the parent and distances allow them."""
        tags, distance_estimator = super().__sklearn_tags__(), self._distance_estimator()
        tags.input_tags.allow_nan = allows_missing(self.estimator) and (
            distance_estimator is None or has_transformer_steps(distance_estimator)
        )
        tags.target_tags.required = self._needs_labels()
        return tags


def any_requires_training_rows(estimators: Iterable[Any]) -> bool:
    """Return whether any of the estimators, fitted after one parent, needs training rows."""
    return any(
        isinstance(estimator, PostHoc) and estimator._requires_training_rows()
        for estimator in estimators
    )


def _are_images(X: Any) -> bool:
    """Return whether X is Float[n, c, h, w].

    scikit-learn's validation refuses all other arrays that are not matrices.
    """
    return getattr(X, "ndim", 2) == 4


def seeded_clone(estimator: Any, random_state: Any) -> Any:
    """Return a clone whose unset random states are drawn from ``random_state``.

    One seed thus makes nested estimators reproducible.

    Parameters
    ----------
    estimator : estimator
        Estimator to clone.
    random_state : int, RandomState or None
        Source of the seeds.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> forest = RandomForestClassifier()
    >>> seeds = [seeded_clone(forest, 0).random_state for _ in range(2)]
    >>> forest.random_state is None, seeds[0] == seeds[1]
    (True, True)
    """
    copy, rng = clone(estimator), check_random_state(random_state)
    # Sorted, so that the seeds do not depend on the order in which parameters are listed.
    unset = {
        name: rng.randint(np.iinfo(np.int32).max)
        for name, value in sorted(copy.get_params().items())
        if name.split("__")[-1] == "random_state" and value is None
    }
    return copy.set_params(**unset) if unset else copy


@dataclass(eq=False, repr=False)
class PostHocClassifier(ClassifierMixin, PostHoc):
    """Base class of classifiers that are fitted after a parent with ``predict_proba``.

    A subclass implements ``_fit_after(train, calibration)`` and ``predict_proba``. Rows, held-out
    rows and parents are handled by :class:`~kdgraph.base.PostHoc`, in the way of scikit-learn's
    ``CalibratedClassifierCV`` with ``FrozenEstimator``.

    Attributes
    ----------
    estimator_ : estimator
        The fitted parent.
    classes_ : ndarray of shape [K]
        Labels, sorted.
    prior_ : Float[K]
        Class frequencies of the training rows.

    Notes
    -----
    Original to kdgraph.

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
    uses_raw_weights: ClassVar = False
    """True if ``_fit_after`` gets weights without normalisation, e.g. to fit a parent once more."""

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

        Returns
        -------
        self : estimator
            The fitted estimator.

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
        X, y = self._validate_rows(X, y, reset=True)
        check_classification_targets(y)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        group = None if groups is None else check_per_row("groups", groups, len(X))
        rows = _drop_zero_weights(Rows(X, y, weight, group))
        self.classes_ = self._classes_of(rows.y)
        # From here on, labels are positions in ``classes_``.
        rows = replace(rows, y=np.searchsorted(self.classes_, rows.y))
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
        self.prior_ = train.one_hot(len(self.classes_)).sum(0) / train.weight.sum()
        self.estimator_ = self._fit_parent(parent, train, calibration, self.random_state)
        # Held-out rows share the scale of the training rows they were split from. Calibration rows
        # that are passed have weights on a scale of their own, so each set is normalised alone.
        with skip_row_checks():
            if self.uses_raw_weights:
                self._fit_after(train, calibration)
            elif X_calibration is None:
                self._fit_after(*_normalise_weights(train, calibration))
            else:
                self._fit_after(*_normalise_weights(train), *_normalise_weights(calibration))
        return self

    def predict(self, X) -> np.ndarray:
        """Return the label of the largest posterior for each row (Dey et al. 2023, Eq. 8).

        Parameters
        ----------
        X : Float[n, d], images or DataFrame
            Rows as in ``fit``.

        Returns
        -------
        ndarray of shape [n]
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
        return replace(
            calibration,
            weight=_check_sample_weight(
                weight, calibration.X, dtype=np.float64, ensure_non_negative=True
            ),
        )

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

    def _split_indices(self, rows: Rows, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return positions of training and calibration rows, drawn by class.

        A class with a single row cannot be divided: its row is a training row.
        """
        is_single = np.bincount(rows.y)[rows.y] == 1
        divisible = np.flatnonzero(~is_single)
        train_index, calibration_index = train_test_split(
            divisible,
            test_size=self.calibration_size,
            stratify=rows.y[divisible],
            random_state=seed,
        )
        return np.concatenate([train_index, np.flatnonzero(is_single)]), calibration_index


def _drop_zero_weights(rows: Rows) -> Rows:
    """Return the rows whose weight is above 0."""
    has_weight = rows.weight > 0
    return rows if has_weight.all() else rows[has_weight]


def _normalise_weights(*row_sets: Rows) -> list[Rows]:
    """Return the sets with all weights divided by one factor, so that their joint mean is 1."""
    weight = np.concatenate([rows.weight for rows in row_sets])
    # Dividing by the largest weight first keeps the sum finite and all its digits.
    largest = weight.max()
    mean = (weight / largest).mean()
    return [replace(rows, weight=rows.weight / largest / mean) for rows in row_sets]
