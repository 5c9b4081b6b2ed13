"""The ground that every calibrator stands on: a parent, the rows it learns from, and rows held out for what is fitted after it."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, _check_y, check_consistent_length, check_is_fitted, validate_data

from kdgraph.parameters import check_parameters
from kdgraph.parents.accepts import IMPUTE, allows_missing, reads_columns, transforms_first, weights_for
from kdgraph.parents.rows import Rows, has_missing, is_frame


class PostHocClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A classifier that is fitted after a parent, on rows that the parent has not seen.

    A subclass implements ``_fit_after(train, calibration)`` and ``predict_proba``. ``estimator`` is cloned and fitted on the training rows;
    ``FrozenEstimator(fitted)`` is used as it is. Without ``X_calibration``, ``fit`` holds ``calibration_size`` of the rows out, stratified.

    Rows may be a data frame, which comes as one to a parent that is composed of others, such as a pipeline, or is frozen and was fitted on
    one. They may have missing values where the parent takes these.

    Attributes
    ----------
    estimator_ : the fitted parent.
    classes_ : [K] labels, sorted.
    prior_ : Float[K], class shares of the training rows.
    """

    estimator: Any
    calibration_size: float
    random_state: Any

    def fit(self, X, y, sample_weight=None, *, X_calibration=None, y_calibration=None):
        """Fit the parent on X (Float[n, d], images Float[n, c, h, w] or a data frame) and y, and what comes after it on calibration rows.

        Raises
        ------
        TypeError : for an estimator that predicts no probabilities.
        ValueError : for infinity; for NaN, unless the parent takes it, and imputes it where distances are measured; for one class only; for
            calibration labels that are not among the training labels.
        """
        check_parameters(self)
        parent = self._default_estimator()
        if not hasattr(parent, "predict_proba"):
            raise TypeError(f"{type(self).__name__} needs an estimator with predict_proba, got {type(parent).__name__}")
        X, y = self._validated(X, y, reset=True)
        check_classification_targets(y)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        self.classes_ = self._classes_of(y, y[weight > 0])
        everything = Rows(X, np.searchsorted(self.classes_, y), weight)
        if X_calibration is None:
            if y_calibration is not None:
                raise ValueError("y_calibration needs X_calibration")
            train, calibration = self._hold_out(everything)
        else:
            train, calibration = everything, self._given(X_calibration, y_calibration)
        self.prior_ = train.one_hot(len(self.classes_)).sum(0) / train.weight.sum()
        self.estimator_ = self._fit_clone(parent, train, calibration)
        self._fit_after(train, calibration)
        return self

    def predict(self, X) -> np.ndarray:
        """[n] labels: the class of the largest posterior (Eq. 8)."""
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        raise NotImplementedError

    def _carrier(self) -> Any:
        """The estimator in whose space distances are measured, which must be finite there; None where none are measured."""
        return None

    def _checked(self, X) -> Any:
        check_is_fitted(self)
        return self._validated(X)[0]

    def _validated(self, X, *y, reset: bool = False) -> tuple[Any, ...]:
        """X, and y if given, as scikit-learn checks them; a data frame that the parent can read stays one, and the parent checks it."""
        parent, carrier = self._default_estimator(), self._carrier()
        behind_nothing = carrier is not None and not transforms_first(carrier)
        if is_frame(X) and any(reads_columns(reader) for reader in (parent, carrier) if reader is not None):
            validate_data(self, X, *y, reset=reset, skip_check_array=True)
            checked = (X, *(_check_y(labels, estimator=self) for labels in y))
            check_consistent_length(*checked)
        else:
            finite = "allow-nan" if behind_nothing or allows_missing(parent) else True
            found = validate_data(self, X, *y, reset=reset, dtype="numeric", allow_nd=_are_images(X), ensure_all_finite=finite)
            checked = found if y else (found,)
        if behind_nothing and has_missing(checked[0]):
            raise ValueError(f"Input X contains NaN, and {type(self).__name__} measures distances; {IMPUTE}")
        return checked

    def _default_estimator(self) -> Any:
        if self.estimator is None:
            raise ValueError(f"{type(self).__name__} needs an estimator, got None")
        return self.estimator

    def _classes_of(self, y: np.ndarray, weighted: np.ndarray) -> np.ndarray:
        classes = np.unique(y)
        if isinstance(self.estimator, FrozenEstimator):
            check_is_fitted(self.estimator)
            classes, given = np.asarray(self.estimator.classes_), classes
            unknown = np.setdiff1d(given, classes)
            if len(unknown):
                raise ValueError(f"labels {unknown.tolist()} are not among the classes of the frozen parent, {classes.tolist()}")
        if len(np.unique(weighted)) < 2:
            raise ValueError(f"{type(self).__name__} needs rows of at least two classes, got one class: {np.unique(weighted).tolist()}")
        return classes

    def _given(self, X, y) -> Rows:
        if y is None:
            raise ValueError("X_calibration needs y_calibration")
        X, y = self._validated(X, y)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"calibration labels {unknown.tolist()} are not among the training labels {self.classes_.tolist()}")
        return Rows(X, np.searchsorted(self.classes_, y), np.ones(len(y)))

    def _hold_out(self, rows: Rows) -> tuple[Rows, Rows]:
        """Hold out calibration rows, stratified; where there are too few, calibrate on the training rows, with a warning.

        The only row of a class stays with the training rows.
        """
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        try:
            alone = np.bincount(rows.y)[rows.y] == 1
            several = np.flatnonzero(~alone)
            kept, held = train_test_split(several, test_size=self.calibration_size, stratify=rows.y[several], random_state=seed)
            kept = np.concatenate([kept, np.flatnonzero(alone)])
        except ValueError:
            warnings.warn(
                f"{len(rows)} rows are too few to hold any out: {type(self).__name__} is calibrated on its training rows", stacklevel=3
            )
            kept = held = np.arange(len(rows))
        return rows[kept], rows[held]

    def _fit_clone(self, estimator: Any, train: Rows, calibration: Rows) -> Any:
        """``estimator`` if it is frozen, else a fitted clone; one that wants calibration rows of its own gets these."""
        if isinstance(estimator, FrozenEstimator):
            return estimator
        more: dict[str, Any] = weights_for(estimator, train.weight)
        if "X_calibration" in inspect.signature(estimator.fit).parameters:
            more |= {"X_calibration": calibration.X, "y_calibration": self.classes_[calibration.y]}
        return seeded_clone(estimator, self.random_state).fit(train.X, self.classes_[train.y], **more)

    def __sklearn_tags__(self):
        """Missing values may come as far as the parent's own tags, and distances, allow."""
        tags, carrier = super().__sklearn_tags__(), self._carrier()
        tags.input_tags.allow_nan = allows_missing(self.estimator) and (carrier is None or transforms_first(carrier))
        return tags


def _are_images(X: Any) -> bool:
    """Whether X is Float[n, c, h, w]; everything else that is not a matrix is refused, as scikit-learn does."""
    return getattr(X, "ndim", 2) == 4


def seeded_clone(estimator: Any, random_state: Any) -> Any:
    """A clone whose unset random states are drawn from ``random_state``, so that one seed makes the whole reproducible."""
    copy, rng = clone(estimator), check_random_state(random_state)
    unset = {name: rng.randint(np.iinfo(np.int32).max) for name, value in sorted(copy.get_params().items())
             if name.split("__")[-1] == "random_state" and value is None}  # fmt: skip
    return copy.set_params(**unset) if unset else copy
