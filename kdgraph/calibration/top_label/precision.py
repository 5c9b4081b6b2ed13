"""The precision of the predicted class: the confidence of whoever knows the prediction and no score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kdgraph.calibration.top_label.class_shares import NEVER, ClassShares
from kdgraph.calibration.top_label.pooling import PooledCalibrator
from kdgraph.metrics import TopLabel
from kdgraph.parents import Rows


@dataclass(eq=False, repr=False)
class ClassPrecision(PooledCalibrator):
    """The share of right predictions among calibration rows of the same predicted class, whatever their scores.

    Parameters
    ----------
    estimator, pool, fill_proba, calibration_size, random_state : as in :class:`PooledCalibrator`; what is shared is the share of all rows.

    Attributes
    ----------
    precision_ : Float[K], before it is pooled; where a class is never predicted that of all rows, with a warning that names the class.
    rows_ : Float[K], what the calibration rows of each class weigh.
    shared_ : the share of all rows.

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

    @property
    def _pools(self) -> bool:
        return True

    def _learn_from(self, rows: Rows) -> None:
        top = TopLabel.of(rows.X)
        correct = top.correct(rows.y)
        shares = ClassShares.of(top.predicted, correct, rows.weight, len(self.classes_))
        self.precision_, self.rows_ = shares.precision, shares.rows
        self.shared_ = float(np.average(correct, weights=rows.weight))
        self._warn_unless_pooled(self.classes_[shares.empty], NEVER)

    def _own(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        return self.precision_[top.predicted]

    def _near(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        return self.rows_[top.predicted]

    def _shared(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        return np.full(len(top), self.shared_)
