"""The ground that every detector stands on: a fitted parent, a score that is higher for what is normal, a threshold from held-out rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, OutlierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_y, check_consistent_length, check_is_fitted, validate_data

from kdgraph.parameters import check_parameters
from kdgraph.parents import seeded_clone, take
from kdgraph.parents.accepts import allows_missing, reads_columns
from kdgraph.parents.rows import is_frame


class PostHocDetector(OutlierMixin, MetaEstimatorMixin, BaseEstimator):
    """A detector of rows out of distribution that is fitted after a parent.

    ``score_samples`` is higher for what is more normal; ``decision_function`` is it minus ``offset_``, 0 at the threshold; ``predict``
    gives 1 in distribution and -1 out of it; ``ood_score`` is minus ``decision_function``: higher is farther out, above 0 is out.

    ``estimator`` is cloned and fitted on the training rows; ``FrozenEstimator(fitted)`` is used as it is. The threshold is learnt on rows
    that the parent has not seen: without ``X_calibration``, ``fit`` holds ``calibration_size`` of the rows out.

    A subclass implements ``_score(X)``, Float[n] of rows that are checked, higher for what is more normal. It may implement
    ``_fit_score(X, y, X_held)``, where the score has something to learn, ``_fitted_parent``, where its parent is another one, and
    ``_default_estimator``. The score of a row depends on no other row, unless the class is a :class:`~kdgraph.detection.SetDetector`.

    Attributes
    ----------
    estimator_ : the fitted parent.
    offset_ : the threshold of ``score_samples``.
    """

    estimator: Any
    target_fpr: float
    calibration_size: float
    random_state: Any

    def fit(self, X, y=None, *, X_calibration=None, y_calibration=None):
        """Fit the parent on X (Float[n, d], images Float[n, c, h, w] or a data frame) and y, the score, and its threshold on held-out rows.

        Parameters
        ----------
        y : [n] labels of any type, or targets; None where nothing needs them, as with a frozen estimator.
        X_calibration : rows from the training distribution that the parent has not seen.
        y_calibration : their labels, which no threshold depends on: taken so that detectors are fitted as calibrators are.

        Raises
        ------
        ValueError : for infinity; for NaN, unless the parent takes it; for labels that are needed and not there; for a score without a
            finite threshold.
        """
        check_parameters(self)
        X, y = self._validated(X, y, reset=True)
        rng = check_random_state(self.random_state)
        if X_calibration is not None:
            held = self._validated(X_calibration)[0]
        elif y_calibration is not None:
            raise ValueError("y_calibration needs X_calibration")
        else:
            kept, out = train_test_split(np.arange(len(X)), test_size=self.calibration_size, random_state=_a_seed(rng))
            X, y, held = take(X, kept), None if y is None else y[kept], take(X, out)
        self.estimator_ = self._fitted_parent(X, y, rng)
        self._fit_score(X, y, held)
        self.offset_ = conformal_offset(self._held_out_scores(held, rng), self.target_fpr)
        if not np.isfinite(self.offset_):
            raise ValueError(f"{type(self).__name__} has no threshold: the score of too many held-out rows is {self.offset_}")
        return self

    def score_samples(self, X) -> np.ndarray:
        """Float[n]: higher is more normal."""
        return self._score(self._checked(X))

    def decision_function(self, X) -> np.ndarray:
        """Float[n]: ``score_samples`` minus the threshold; below 0 is out of distribution."""
        return self.score_samples(X) - self.offset_

    def predict(self, X) -> np.ndarray:
        """Int[n]: 1 in distribution, -1 out of it."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def fit_predict(self, X, y=None, **held_out) -> np.ndarray:
        """Int[n]: :meth:`predict` of the rows that it was fitted on; scikit-learn's own leaves the labels out, which a parent needs."""
        return self.fit(X, y, **held_out).predict(X)

    def ood_score(self, X) -> np.ndarray:
        """Float[n]: minus ``decision_function``; higher is farther out of distribution, and above 0 is out by the threshold."""
        return -self.decision_function(X)

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record."""
        return {"offset": self.offset_}

    def _score(self, X: Any) -> np.ndarray:
        raise NotImplementedError

    def _fit_score(self, X: Any, y: Any, X_held: Any) -> None:
        """Learn what the score needs beside the parent, from training rows with their labels (or None), and held-out rows."""

    def _held_out_scores(self, X: Any, rng: np.random.RandomState) -> np.ndarray:
        """Float[m]: of held-out rows, what the threshold is a quantile of."""
        return self._score(X)

    def _default_estimator(self) -> Any:
        if self.estimator is None:
            raise ValueError(f"{type(self).__name__} needs an estimator, got None")
        return self.estimator

    def _fitted_parent(self, X: Any, y: Any, rng: np.random.RandomState) -> Any:
        parent = self._default_estimator()
        if isinstance(parent, FrozenEstimator):
            check_is_fitted(parent)
            return parent
        return seeded_clone(parent, rng).fit(X, y)

    def _needs_labels(self) -> bool:
        """Whether ``fit`` cannot do without y."""
        return not isinstance(self.estimator, FrozenEstimator)

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self, "offset_")
        return self._validated(X)[0]

    def _validated(self, X: Any, y: Any = None, *, reset: bool = False) -> tuple[Any, Any]:
        """X and y as scikit-learn checks them; a data frame that the parent can read stays one, and the parent checks it."""
        parent = self._default_estimator()
        if y is None and reset and self._needs_labels():
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None; or freeze a fitted estimator")
        if is_frame(X) and reads_columns(parent):
            validate_data(self, X, reset=reset, skip_check_array=True)
        else:
            finite = "allow-nan" if allows_missing(parent) else True
            are_images = getattr(X, "ndim", 2) == 4
            X = validate_data(self, X, reset=reset, dtype="numeric", allow_nd=are_images, ensure_all_finite=finite)
        if y is not None:
            y = _check_y(y, estimator=self)
            check_consistent_length(X, y)
        return X, y

    def __sklearn_tags__(self):
        """Missing values may come as far as the parent's own tags allow; some detectors need no labels."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = allows_missing(self.estimator)
        tags.target_tags.required = self._needs_labels()
        return tags


def conformal_offset(score: np.ndarray, target_fpr: float) -> float:
    """The score below which at most max(target_fpr, 1/(m + 1)) of what is in distribution falls in expectation.

    ``score``: Float[m], of held-out rows that are exchangeable with it. The ⌊(m + 1)·target_fpr⌋-th smallest, or the smallest.

    >>> conformal_offset(np.arange(100.0), 0.05)
    4.0
    """
    return float(np.sort(score)[max(math.floor((len(score) + 1) * target_fpr), 1) - 1])


def _a_seed(rng: np.random.RandomState) -> int:
    return int(rng.randint(np.iinfo(np.int32).max))
