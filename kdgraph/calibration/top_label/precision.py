"""The precision of the predicted class: the confidence of whoever knows the prediction and no score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kdgraph.calibration.top_label.base import TopLabelCalibrator
from kdgraph.calibration.top_label.class_shares import NEVER, ClassShares, warn_of
from kdgraph.metrics import TopLabel


@dataclass(eq=False, repr=False)
class ClassPrecision(TopLabelCalibrator):
    """The share of right predictions among calibration rows of the same predicted class, whatever their scores.

    Parameters
    ----------
    estimator, fill_proba, calibration_size, random_state : as in :class:`TopLabelCalibrator`.

    Attributes
    ----------
    precision_ : Float[K]; where a class is never predicted that of all rows, with a warning that names the class.

    Notes
    -----
    Salamon et al., Eq. 1 (Conf1): the diagonal of a confusion matrix whose columns, of a predicted class each, sum to 1. It is what they
    recommend where nearly all scores are 1 (Section XIII D).

    Examples
    --------
    >>> from kdgraph.parents import GivenScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = np.array([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7]]), np.array([0, 1, 1, 1])
    >>> model = ClassPrecision(FrozenEstimator(GivenScores().fit(X))).fit(X, y, X_calibration=X, y_calibration=y)
    >>> model.predict_confidence([[0.6, 0.4], [0.0, 1.0]])
    array([0.5, 1. ])
    """

    def _fit_confidence(self, proba: np.ndarray, top: TopLabel, correct: np.ndarray, weight: np.ndarray) -> None:
        shares = ClassShares.of(top.predicted, correct, weight, len(self.classes_))
        self.precision_ = shares.precision
        warn_of(self.classes_[shares.empty], NEVER, stacklevel=4)

    def _confidence(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        return self.precision_[top.predicted]
