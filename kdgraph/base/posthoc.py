"""What classes are called where a warning names them: a run fits everything on their positions, and
its user knows them by their labels.

The ground of all that is fitted after a parent: its rows, checked; rows held out; the parent,
cloned and fitted or taken as it is.

The ground of every calibrator: labels as positions among the parent's classes, the class prior,
rows held out by class.
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

_class_labels: ContextVar[Sequence[Any]] = ContextVar("labels", default=())


@contextmanager
def use_class_names(labels: Sequence[Any]) -> Iterator[None]:
    """Within the block, classes that are known by their positions are called by these [K]
    labels.
    """
    token = _class_labels.set(labels)
    try:
        yield
    finally:
        _class_labels.reset(token)


def display_label(label: Any) -> str:
    """The class as its user calls it.

    >>> with use_class_names(["setosa", "virginica"]):
    ...     display_label(1), display_label("1"), display_label("any class")
    ('virginica', 'virginica', 'any class')
    >>> display_label(1)
    '1'
    """
    labels, word = _class_labels.get(), str(label)
    return str(labels[int(word)]) if word.isdigit() and int(word) < len(labels) else word


@dataclass(eq=False, repr=False)
class PostHoc(MetaEstimatorMixin, BaseEstimator):
    """What is fitted after a parent, on rows that the parent has not seen: calibrators, detectors,
    recalibrators.

    A subclass is a dataclass whose fields are its parameters (or has an ``__init__`` that stores
    them), and implements ``_fit_after(train, calibration)``. ``estimator`` is cloned and fitted on
    the training rows, also if it is fitted already; ``FrozenEstimator(fitted)`` is used as it is.

    Calibration rows must be new to the parent. An estimator that is fitted here is kept from
    ``calibration_size`` of the rows, unless ``fit`` is given ``X_calibration``. After a frozen one
    it is up to the user::

        fit(X, y, X_calibration=X_held_out, y_calibration=y_held_out)

    Without ``X_calibration``, the rows of ``fit`` count as rows that the frozen parent was not
    fitted on, and all of them calibrate, as in scikit-learn's ``CalibratedClassifierCV``; what
    learns from training rows too, such as a density or the reference of a detector, learns from ``1
    - calibration_size`` of them. A warning mentions it, and whether the parent has seen them as far
    as that can be found out.

    Rows are Float[n, d], images Float[n, c, h, w] or a data frame, which comes as one to a parent
    that is composed of others, such as a pipeline, or is frozen and was fitted on one. They may
    have missing values where the parent takes these. This is scikit-learn's validation
    (``validate_data``) for whoever stands behind another estimator.

    Parameters
    ----------
    estimator : the parent; cloned and fitted, unless frozen.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen
        estimator give it rows that this was not fitted on, ``fit(X, y, X_calibration=…,
        y_calibration=…)``: see :class:`~kdgraph.base.PostHoc`.
    random_state : seeds the held-out rows, and the parent where it has no seed of its own.
    """

    estimator: Any
    _: KW_ONLY
    calibration_size: OpenFraction = 0.3
    random_state: Any = None

    required_method: ClassVar[str | None] = None
    """The method that the parent must have."""
    required_partition: ClassVar[Literal["forest", "network"] | None] = None
    """What must cut the parent's space, where not every partition will do."""
    _numeric_targets: ClassVar[bool] = False

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        """Learn what comes after ``estimator_``, which is there by now."""
        raise NotImplementedError

    def _default_estimator(self) -> Any:
        """The parent as it is given, or one that a subclass takes where there is none."""
        if self.estimator is None:
            raise ValueError(f"{type(self).__name__} needs an estimator, got None")
        return self.estimator

    def _distance_estimator(self) -> Any:
        """The estimator in whose space distances are measured, which must be finite there; None
        where none are measured.
        """
        return None

    def _needs_labels(self) -> bool:
        """Whether ``fit`` cannot do without y."""
        return True

    def _needs_unseen_rows(self) -> bool:
        """Whether calibration rows that the parent was fitted on would spoil what is learnt."""
        return True

    def _requires_training_rows(self) -> bool:
        """Whether :meth:`_fit_after` needs training rows that are not calibration rows."""
        return False

    def _check_parent(self) -> Any:
        """The parent to fit, which can do what is needed of it."""
        check_parameters_are_instances(self)
        parent, method = self._default_estimator(), self.required_method
        if parent is not None:
            check_is_estimator(parent, type(self).__name__)
        if method is not None and not self._supports(parent, method):
            way_out = missing_method_advice(parent, method)
            raise TypeError(
                f"{type(self).__name__} needs an estimator with {method}, got"
                f" {type(unwrap_frozen(parent)).__name__}{way_out}"
            )
        return parent

    def _supports(self, parent: Any, method: str) -> bool:
        """Whether ``parent``, fitted or not, has the method."""
        return hasattr(parent, method)

    def _validate_X(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._validate_rows(X)[0]

    def _validate_rows(self, X: Any, *y: Any, reset: bool = False) -> tuple[Any, ...]:
        """X, and y if given, as scikit-learn checks them; a data frame that the parent can read
        stays one, and the parent checks it.
        """
        parent, carrier = self._default_estimator(), self._distance_estimator()
        behind_nothing = carrier is not None and not has_transformer_steps(carrier)
        readers = [reader for reader in (parent, carrier) if reader is not None]
        by_category = (
            is_dataframe(X)
            and has_category_columns(X)
            and any(accepts_categories(reader) for reader in readers)
        )
        for reader in [reader for reader in readers if not is_meta_estimator(reader)] or (
            [] if readers else [self]
        ):
            check_numeric_columns(X, reader, accepts_categories=accepts_categories(reader))
        if is_dataframe(X) and (
            by_category or any(accepts_dataframe(reader) for reader in readers)
        ):
            validate_data(self, X, reset=reset, skip_check_array=True)
        else:
            finite = "allow-nan" if behind_nothing or allows_missing(parent) else True
            X = validate_data(
                self,
                X,
                reset=reset,
                dtype="numeric",
                allow_nd=_are_images(X),
                ensure_all_finite=finite,
            )
        if behind_nothing and has_missing(X):
            raise ValueError(
                f"Input X contains NaN, and {type(self).__name__} measures distances; {IMPUTATION_ADVICE}"
            )
        return (X, *(self._validate_targets(X, targets) for targets in y))

    def _validate_targets(self, X: Any, y: Any) -> Any:
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
        """Training and calibration rows: all ``rows`` and those given, or ``rows`` without those
        held out, and these.

        Where there are too few to hold any out, all rows are both, with a warning; also those that
        come after a frozen parent, unless training rows are learnt from.
        """
        frozen = self._default_estimator() if self._needs_unseen_rows() else None
        name, is_frozen = type(self).__name__, is_frozen_and_trained(frozen)
        if X_calibration is not None:
            calibration = self._validate_calibration_rows(X_calibration, y_calibration)
            if is_frozen:
                warn_calibration_rows_seen(frozen, name, calibration.X)
            return rows, calibration
        if y_calibration is not None:
            raise ValueError("y_calibration needs X_calibration")
        if is_frozen:
            warn_fit_rows_calibrate(frozen, name, rows.X, self._parent_targets(rows))
        if isinstance(frozen, FrozenEstimator) and not self._requires_training_rows():
            return rows, rows
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        try:
            kept, held = self._split_indices(rows, seed)
        except ValueError:
            warnings.warn(
                f"{len(rows)} rows are too few to hold any out: {name} is calibrated on its"
                " training rows",
                stacklevel=3,
            )
            kept = held = np.arange(len(rows))
        return rows[kept], rows[held]

    def _validate_calibration_rows(self, X: Any, y: Any) -> Rows:
        """Calibration rows that were passed to ``fit``."""
        if y is None and self._needs_labels():
            raise ValueError("X_calibration needs y_calibration")
        return Rows.of(*self._validate_rows(X, y))

    def _split_indices(self, rows: Rows, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Int[n - m], Int[m]: positions of training and calibration rows; ValueError where there
        are too few.
        """
        kept, held = train_test_split(
            np.arange(len(rows)), test_size=self.calibration_size, random_state=seed
        )
        return kept, held

    def _fit_parent(
        self, parent: Any, train: Rows, calibration: Rows | None, random_state: Any
    ) -> Any:
        """``parent`` if it is frozen, else a fitted clone; one that wants calibration rows of its
        own gets these, if there are any.
        """
        if isinstance(parent, FrozenEstimator):
            check_is_fitted(parent)
            return parent
        more: dict[str, Any] = sample_weight_kwargs(parent, train.weight)
        if calibration is not None and "X_calibration" in inspect.signature(parent.fit).parameters:
            more |= {
                "X_calibration": calibration.X,
                "y_calibration": self._parent_targets(calibration),
            }
        fitted = seeded_clone(parent, random_state).fit(
            train.X, self._parent_targets(train), **more
        )
        warn_precision_loss(type(self).__name__, fitted, train.X)
        return fitted

    def _parent_targets(self, rows: Rows) -> Any:
        """What the parent is fitted with, [n]."""
        return rows.y

    def __sklearn_tags__(self):
        """Missing values may come as far as the parent's own tags, and distances, allow."""
        tags, carrier = super().__sklearn_tags__(), self._distance_estimator()
        tags.input_tags.allow_nan = allows_missing(self.estimator) and (
            carrier is None or has_transformer_steps(carrier)
        )
        tags.target_tags.required = self._needs_labels()
        return tags


def any_requires_training_rows(estimators: Iterable[Any]) -> bool:
    """Return whether any of these estimators, fitted after one parent, needs training rows;
    ours.
    """
    return any(isinstance(each, PostHoc) and each._requires_training_rows() for each in estimators)


def _are_images(X: Any) -> bool:
    """Whether X is Float[n, c, h, w]; everything else that is not a matrix is refused, as
    scikit-learn does.
    """
    return getattr(X, "ndim", 2) == 4


def seeded_clone(estimator: Any, random_state: Any) -> Any:
    """A clone, as scikit-learn's, whose unset random states are drawn from ``random_state``: one
    seed makes the whole reproducible.
    """
    copy, rng = clone(estimator), check_random_state(random_state)
    unset = {
        name: rng.randint(np.iinfo(np.int32).max)
        for name, value in sorted(copy.get_params().items())
        if name.split("__")[-1] == "random_state" and value is None
    }
    return copy.set_params(**unset) if unset else copy


@dataclass(eq=False, repr=False)
class PostHocClassifier(ClassifierMixin, PostHoc):
    """A classifier that is fitted after a parent with ``predict_proba``, on rows that the parent
    has not seen.

    A subclass implements ``_fit_after(train, calibration)`` and ``predict_proba``; rows, held-out
    rows and parents are as :class:`~kdgraph.base.PostHoc` has them, which is how scikit-learn's
    ``CalibratedClassifierCV`` does with ``FrozenEstimator``.

    Attributes
    ----------
    estimator_ : the fitted parent.
    classes_ : [K] labels, sorted.
    prior_ : Float[K], class shares of the training rows.
    """

    required_method: ClassVar = "predict_proba"
    takes_groups: ClassVar = False
    """Whether it does something by group: ``fit`` and what predicts want to know each row's
    then.
    """
    uses_raw_weights: ClassVar = False
    """Whether what comes after the parent gets weights as they were passed, as where it fits a
    parent once more.
    """

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
        """Fit the parent on X (Float[n, d], images Float[n, c, h, w] or a data frame) and y, and
        what comes after it on calibration rows.

        After a frozen parent, give ``X_calibration`` and ``y_calibration``, rows that it was not
        fitted on, beside its training rows X and y; without them X and y count as rows that it was
        not fitted on, and calibrate, with a warning.

        ``sample_weight``, Float[n], goes with the rows of X, also with those that are held out of
        them; ``sample_weight_calibration``, Float[m], with those of ``X_calibration``: by class,
        say, where other classes are met in use as often (label shift). A row of weight 0 is left
        out. A common factor of ``sample_weight``, or of ``sample_weight_calibration``, changes
        nothing that is fitted after the parent, which gets the weights as they are: there they are
        divided by their mean, so that rows weigh 1 on average wherever a row counts against a
        pseudo-count, a penalty or a number of rows. ``groups``, [n], and ``groups_calibration``,
        [m], say which subgroup the rows belong to; only what :attr:`takes_groups` looks at them.

        Raises
        ------
        TypeError : for an estimator that predicts no probabilities.
        ValueError : for infinity; for NaN, unless the parent takes it, and imputes it where
            distances are measured; for one class only; for calibration labels that are not among
            the training labels; for weights without their rows, or below 0; for groups that are not
            one for each row.
        """
        check_parameters(self)
        parent = self._check_parent()
        X, y = self._validate_rows(X, y, reset=True)
        check_classification_targets(y)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        everything = _drop_zero_weights(
            Rows(X, y, weight, None if groups is None else check_per_row("groups", groups, len(X)))
        )
        self.classes_ = self._classes_of(everything.y)
        everything = replace(everything, y=np.searchsorted(self.classes_, everything.y))
        train, calibration = self._split_rows(
            everything, X_calibration, y_calibration, self.random_state
        )
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
        with skip_row_checks():
            if self.uses_raw_weights:
                self._fit_after(train, calibration)
            elif X_calibration is None:
                self._fit_after(*_normalise_weights(train, calibration))
            else:
                self._fit_after(*_normalise_weights(train), *_normalise_weights(calibration))
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
                raise ValueError(
                    f"labels {unknown.tolist()} are not among the classes of the frozen parent,"
                    f" {classes.tolist()}"
                )
        if len(np.unique(y)) < 2:
            raise ValueError(
                f"{type(self).__name__} needs rows of at least two classes, got one class:"
                f" {np.unique(y).tolist()}"
            )
        return classes

    def _set_weights(self, calibration: Rows, weight: Any, has_calibration_rows: bool) -> Rows:
        """The calibration rows with these weights, Float[m], which only rows that were given can
        have.
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
        return Rows.of(rows.X, np.searchsorted(self.classes_, rows.y))

    def _split_indices(self, rows: Rows, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """By class; the only row of a class stays with the training rows."""
        alone = np.bincount(rows.y)[rows.y] == 1
        several = np.flatnonzero(~alone)
        kept, held = train_test_split(
            several, test_size=self.calibration_size, stratify=rows.y[several], random_state=seed
        )
        return np.concatenate([kept, np.flatnonzero(alone)]), held


def _drop_zero_weights(rows: Rows) -> Rows:
    """The rows whose weight is above 0."""
    counts = rows.weight > 0
    return rows if counts.all() else rows[counts]


def _normalise_weights(*parts: Rows) -> list[Rows]:
    """The parts with weights divided by a common factor, after which those of all their rows have
    mean 1.
    """
    weight = np.concatenate([rows.weight for rows in parts])
    largest = weight.max()  # divided first, so that the sum is finite and has all its digits
    mean = (weight / largest).mean()
    return [replace(rows, weight=rows.weight / largest / mean) for rows in parts]
