"""What calibrators of top-label confidence share: whose score they see, whose prediction they keep, and how they may fill a row."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from kdgraph.metrics import TopLabel
from kdgraph.parents import PostHocClassifier, Rows


def fills_rows(self: TopLabelCalibrator) -> bool:
    """Whether there is a ``predict_proba``; AttributeError, with the way out, if not. Ours."""
    if not self.fill_proba:
        raise AttributeError(f"{type(self).__name__} gives the confidence in its prediction alone; fill_proba=True makes a row of it")
    return True


@dataclass(eq=False, repr=False)
class TopLabelCalibrator(PostHocClassifier):
    """Confidence c(k, s) that class k is right where the parent predicts it with the score s (Salamon et al., Eq. 2).

    A subclass implements ``_fit_confidence(proba, top, correct, weight)`` and ``_confidence(proba, top)``: the parent's rows Float[n, K],
    their :class:`TopLabel`, whether each prediction is right, Bool[n], and what the rows weigh, Float[n]. The predicted class stays the
    parent's, also where the confidence falls below 1/K. Under ``protocol=paper`` the calibration rows are the test rows, which is how
    Salamon et al. draw their curves.

    Parameters
    ----------
    estimator : any classifier with ``predict_proba``. Cloned and fitted; ``FrozenEstimator(fitted)`` is used as it is.
    fill_proba : give ``predict_proba`` too: the confidence at the predicted class, and the rest in the proportions of the parent's other
        probabilities (equally where they are all 0). The largest of such a row can be another class than the predicted one.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen estimator give it rows that this was
        not fitted on, ``fit(X, y, X_calibration=…, y_calibration=…)``: see :class:`~kdgraph.parents.PostHoc`.
    random_state : seeds the held-out rows, and the parent where it has no seed of its own.

    References
    ----------
    Salamon et al., Estimating classification confidence using kernel densities, Section III.
    """

    _: KW_ONLY
    fill_proba: bool = False

    paper_protocol: ClassVar = "in_sample"

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        proba = self.estimator_.predict_proba(calibration.X)
        top = TopLabel.of(proba)
        self._fit_confidence(proba, top, top.correct(calibration.y), calibration.weight)

    def predict(self, X) -> np.ndarray:
        """[n] labels: those of the parent's largest probabilities."""
        predicted = self._scores(X).argmax(axis=1)
        return self.classes_[predicted]

    def predict_confidence(self, X) -> np.ndarray:
        """Float[n] in [0, 1]: the probability that :meth:`predict` is right."""
        proba = self._scores(X)
        return self._confidence(proba, TopLabel.of(proba))

    @available_if(fills_rows)
    def predict_proba(self, X) -> np.ndarray:
        """Float[n, K]: rows with the confidence at the predicted class; finite, and they sum to 1."""
        proba = self._scores(X)
        top = TopLabel.of(proba)
        return filled(proba, top, self._confidence(proba, top))

    def _scores(self, X) -> np.ndarray:
        check_is_fitted(self)
        return self.estimator_.predict_proba(self._checked(X))

    def _fit_confidence(self, proba: np.ndarray, top: TopLabel, correct: np.ndarray, weight: np.ndarray) -> None:
        raise NotImplementedError

    def _confidence(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        raise NotImplementedError


def filled(proba: np.ndarray, top: TopLabel, confidence: np.ndarray) -> np.ndarray:
    """Float[n, K]: the confidence, Float[n], at the predicted class, and the rest as ``proba``, Float[n, K], divides it. Ours.

    >>> proba = np.array([[0.6, 0.3, 0.1]])
    >>> filled(proba, TopLabel.of(proba), np.array([0.2]))
    array([[0.2, 0.6, 0.2]])
    """
    rows = np.arange(len(proba))
    others = proba.copy()
    others[rows, top.predicted] = 0
    rest = others.sum(axis=1, keepdims=True)
    equal = np.full_like(others, 1 / max(others.shape[1] - 1, 1))
    equal[rows, top.predicted] = 0
    result = np.where(rest > 0, others / np.where(rest > 0, rest, 1), equal) * (1 - confidence)[:, None]
    result[rows, top.predicted] = confidence
    return result
