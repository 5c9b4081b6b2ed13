"""The ground of what is fitted after a regressor: the parent, the rows that it learns from, and rows held out."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_y, check_consistent_length, check_is_fitted, validate_data

from kdgraph.distributions import Distribution, as_distribution
from kdgraph.parameters import check_parameters
from kdgraph.parents import seeded_clone, take
from kdgraph.parents.accepts import allows_missing, reads_columns
from kdgraph.parents.rows import is_frame


@dataclass(frozen=True)
class Targets:
    """Rows of one role: X Float[n, d] (or a data frame) and y Float[n]."""

    X: Any
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: Any) -> Targets:
        return Targets(take(self.X, index), self.y[index])


class PostHocRegressor(MetaEstimatorMixin, RegressorMixin, BaseEstimator):
    """A regressor that is fitted after a parent with ``predict_dist``, on rows that the parent has not seen.

    A subclass implements ``_fit_after(train, calibration)`` and ``_after(base, X)``, the distributions that it makes of the parent's.
    ``estimator`` is cloned and fitted on the training rows; ``FrozenEstimator(fitted)`` is used as it is. Without ``X_calibration``,
    ``fit`` holds ``calibration_size`` of the rows out, at random.

    The parent's ``predict_dist(X)`` gives a :class:`~kdgraph.distributions.Distribution` or a frozen distribution of scipy.stats. Rows may
    be a data frame, which comes as one to a parent that is composed of others, and have missing values where the parent takes these.

    Attributes
    ----------
    estimator_ : the fitted parent.
    """

    estimator: Any
    calibration_size: float
    random_state: Any

    def fit(self, X, y, *, X_calibration=None, y_calibration=None):
        """Fit the parent on X (Float[n, d] or a data frame) and y (Float[n]), and what comes after it on calibration rows.

        Raises
        ------
        TypeError : for an estimator that predicts no distributions.
        ValueError : for infinity; for NaN, unless the parent takes it; for calibration rows without targets.
        """
        check_parameters(self)
        parent = self._default_estimator()
        if not hasattr(parent, "predict_dist"):
            raise TypeError(f"{type(self).__name__} needs an estimator with predict_dist, got {type(parent).__name__}")
        everything = Targets(*self._validated(X, y, reset=True))
        if (X_calibration is None) != (y_calibration is None):
            given, missing = ("y", "X") if X_calibration is None else ("X", "y")
            raise ValueError(f"{given}_calibration needs {missing}_calibration")
        if X_calibration is None:
            train, calibration = self._hold_out(everything)
        else:
            train, calibration = everything, Targets(*self._validated(X_calibration, y_calibration))
        self.estimator_ = self._fit_clone(parent, train, calibration)
        self._fit_after(train, calibration)
        return self

    def predict(self, X) -> np.ndarray:
        """Float[n]: the mean of :meth:`predict_dist`."""
        return self.predict_dist(X).mean()

    def predict_dist(self, X) -> Distribution:
        """Distributions of the n rows of X: Float[n, d] or a data frame."""
        check_is_fitted(self)
        (X,) = self._validated(X)
        return self._after(self._base(X), X)

    def _fit_after(self, train: Targets, calibration: Targets) -> None:
        raise NotImplementedError

    def _after(self, base: Distribution, X: Any) -> Distribution:
        raise NotImplementedError

    def _base(self, X: Any) -> Distribution:
        """What the parent predicts."""
        return as_distribution(self.estimator_.predict_dist(X))

    def _default_estimator(self) -> Any:
        if self.estimator is None:
            raise ValueError(f"{type(self).__name__} needs an estimator, got None")
        return self.estimator

    def _validated(self, X, *y, reset: bool = False) -> tuple[Any, ...]:
        """X, and y if given, as scikit-learn checks them; a data frame that the parent can read stays one, and the parent checks it."""
        parent = self._default_estimator()
        if is_frame(X) and reads_columns(parent):
            validate_data(self, X, *y, reset=reset, skip_check_array=True)
            checked = (X, *(_check_y(targets, y_numeric=True, estimator=self) for targets in y))
            check_consistent_length(*checked)
        else:
            finite = "allow-nan" if allows_missing(parent) else True
            found = validate_data(self, X, *y, reset=reset, dtype="numeric", ensure_all_finite=finite, **({"y_numeric": True} if y else {}))
            checked = found if y else (found,)
        return (checked[0], *(np.asarray(targets, dtype=np.float64) for targets in checked[1:]))

    def _hold_out(self, rows: Targets) -> tuple[Targets, Targets]:
        """Training and calibration rows; where there are too few to hold one out, all rows for both, with a warning."""
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        try:
            kept, held = train_test_split(np.arange(len(rows)), test_size=self.calibration_size, random_state=seed)
        except ValueError:
            name = type(self).__name__
            warnings.warn(f"{len(rows)} rows are too few to hold any out: {name} is fitted on its training rows", stacklevel=3)
            kept = held = np.arange(len(rows))
        return rows[kept], rows[held]

    def _fit_clone(self, estimator: Any, train: Targets, calibration: Targets) -> Any:
        """``estimator`` if it is frozen, else a fitted clone; one that wants calibration rows of its own gets these."""
        if isinstance(estimator, FrozenEstimator):
            check_is_fitted(estimator)
            return estimator
        wants = "X_calibration" in inspect.signature(estimator.fit).parameters
        more = {"X_calibration": calibration.X, "y_calibration": calibration.y} if wants else {}
        return seeded_clone(estimator, self.random_state).fit(train.X, train.y, **more)

    def __sklearn_tags__(self):
        """Missing values may come as far as the parent allows."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = allows_missing(self.estimator)
        return tags
