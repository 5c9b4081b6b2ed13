"""Isotonic regression of being right on the score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.isotonic import IsotonicRegression

from kdgraph.calibration.ties import distinct
from kdgraph.calibration.top_label.curves import Curve, CurveCalibrator


@dataclass(eq=False, repr=False)
class IsotonicConfidence(CurveCalibrator):
    """The share of right predictions as a function of the score that never falls, as near to the calibration rows as it can be.

    Parameters
    ----------
    estimator, by_class, pool, fill_proba, calibration_size, random_state : as in :class:`CurveCalibrator`.

    Attributes
    ----------
    curves_ : of each class ``score`` and ``share``, Float[t] each: corners, between which the curve is straight; it is level beyond them.
    precision_ : Float[K]: the share of right predictions of each class, which one that is never predicted has in place of a curve.

    Notes
    -----
    Zadrozny and Elkan 2002, of top-label confidence as Gupta and Ramdas 2022 reduce it; by scikit-learn's ``IsotonicRegression``. Where the
    highest scores are always right, or the lowest never, it says 1 or 0, and one row that is otherwise makes the NLL infinite.

    Examples
    --------
    >>> from kdgraph.parents import GivenScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]), np.array([0, 1, 0, 1])
    >>> model = IsotonicConfidence(FrozenEstimator(GivenScores().fit(X)), by_class=False).fit(X, y, X_calibration=X, y_calibration=y)
    >>> model.predict_confidence([[0.95, 0.05], [0.75, 0.25], [0.5, 0.5]])
    array([1. , 0.5, 0. ])
    """

    def _learn(self, score: np.ndarray, correct: np.ndarray, weight: np.ndarray) -> Curve:
        score, place = distinct(score)  # else a step between two scores that rounding separates
        rows, right = np.bincount(place, weight), np.bincount(place, weight * correct)
        fitted = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(score, right / rows, sample_weight=rows)
        return {"score": fitted.X_thresholds_, "share": fitted.y_thresholds_}

    def _at(self, curve: Curve, score: np.ndarray) -> np.ndarray:
        return np.interp(score, curve["score"], curve["share"])
