"""Cumulative confidence: the accuracy of all rows whose score is at least as high.

The three variants of Salamon et al. (Cum, Cum+ and Cum*) differ in the threshold theta, below which
all rows form one bin.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import xlogy

from kdgraph.calibration.top_label.base import CONFIDENCE_CLIP, SAME, distinct, first_from
from kdgraph.calibration.top_label.curves import CurveCalibrator, CurveParameters

ThetaRule = Literal["none", "median", "best"]


@dataclass(eq=False, repr=False)
class CumulativeConfidence(CurveCalibrator):
    """Accuracy of the calibration rows of the same class whose score is at least as high.

    Parameters
    ----------
    theta : "none", "median" or "best", default="none"
        Threshold below which all rows form one bin. "none": Cum, no threshold. "median": Cum+, the
        median score of the class. "best": Cum*, the observed score with the least NLL of the
        class's calibration rows, and the smallest of several.

    Attributes
    ----------
    curves_ : list of dict
        For each class ``score``, Float[u], the distinct scores in rising order; ``accuracy``,
        Float[u], of the rows from each score up; ``theta``; and ``below``, the accuracy below
        theta. ``rows``, Float[u], and ``rows_below`` are the corresponding weights.

    Notes
    -----
    Salamon et al., Eq. 11 (Cum, the method of PhANNs), 12 (Cum+) and 13 (Cum*). It is the
    probability of a correct prediction at a score *or a higher one*, and therefore too high for low
    scores; theta corrects this. A score above all others has the confidence of the highest score.
    Their Eq. 12 counts the score theta on both sides; here it counts above only. If no row is below
    theta, the confidence there is that of the lowest score.

    Examples
    --------
    >>> from kdgraph.parents import PrecomputedScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> X = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4], [0.4, 0.6]])
    >>> y = np.array([0, 0, 1, 1, 1])
    >>> parent = FrozenEstimator(PrecomputedScores().fit(X))
    >>> model = CumulativeConfidence(parent).fit(X, y, X_calibration=X, y_calibration=y)
    >>> model.predict_confidence(X[:4]).round(3)
    array([1.   , 1.   , 0.667, 0.5  ])
    >>> best = CumulativeConfidence(parent, theta="best")
    >>> best.fit(X, y, X_calibration=X, y_calibration=y).predict_confidence(X[:4])
    array([1., 1., 0., 0.])
    """

    _: KW_ONLY
    theta: ThetaRule = "none"

    def describe(self) -> dict[str, Any]:
        thetas = [
            float(curve["theta"]) if curve and np.isfinite(curve["theta"]) else None
            for curve in self.curves_
        ]
        return {
            "theta": dict(zip(map(str, self._curve_labels()), thetas, strict=True)),
            **super().describe(),
        }

    def _fit_curve(
        self, score: np.ndarray, correct: np.ndarray, weight: np.ndarray
    ) -> CurveParameters:
        score, position = distinct(score)
        rows, n_correct = (
            np.bincount(position, values, minlength=len(score))
            for values in (weight, weight * correct)
        )
        # Reversed cumulative sums count the rows from each score up. The clip removes the rounding
        # of sums of weights.
        rows_above = np.cumsum(rows[::-1])[::-1]
        accuracy = np.clip(np.cumsum(n_correct[::-1])[::-1] / rows_above, 0, 1)
        theta = -np.inf
        if self.theta != "none":
            median = self.theta == "median"
            theta = _median(score, rows) if median else _least_nll(score, rows, n_correct, accuracy)
        low = score < theta - SAME
        if low.any():
            below = np.clip(n_correct[low].sum() / rows[low].sum(), 0, 1)
            rows_below = rows[low].sum()
        else:
            below, rows_below = accuracy[0], rows.sum()
        return {
            "score": score,
            "accuracy": accuracy,
            "rows": rows_above,
            "theta": np.array(theta),
            "below": np.array(below),
            "rows_below": np.array(rows_below),
        }

    def _evaluate(self, curve: CurveParameters, score: np.ndarray) -> np.ndarray:
        is_low = score < curve["theta"] - SAME
        return np.where(is_low, curve["below"], curve["accuracy"][_position(curve, score)])

    def _support(self, curve: CurveParameters, score: np.ndarray) -> np.ndarray:
        is_low = score < curve["theta"] - SAME
        return np.where(is_low, curve["rows_below"], curve["rows"][_position(curve, score)])


def _position(curve: CurveParameters, score: np.ndarray) -> np.ndarray:
    # Scores above all of the curve have the last position.
    return first_from(curve["score"], score).clip(max=len(curve["score"]) - 1)


def _median(score: np.ndarray, rows: np.ndarray) -> float:
    """Return the weighted median, as if rows were repeated by their weight."""
    # The middle of the score at which half of the weight is reached and of the one at which it is
    # exceeded.
    cumulative, half = np.cumsum(rows), rows.sum() / 2
    last = len(score) - 1
    reached = score[min(np.searchsorted(cumulative, half), last)]
    exceeded = score[min(np.searchsorted(cumulative, half, side="right"), last)]
    return float((reached + exceeded) / 2)


def _least_nll(
    score: np.ndarray, rows: np.ndarray, n_correct: np.ndarray, accuracy: np.ndarray
) -> float:
    """Return the score that minimises the NLL if it is the threshold."""
    # For all candidates at once: the rows from a score up have the confidence ``accuracy``, the
    # rows below it have one common confidence.
    above = np.cumsum(_nll(n_correct, rows, accuracy)[::-1])[::-1]
    rows_below, correct_below = np.cumsum(rows) - rows, np.cumsum(n_correct) - n_correct
    below = _nll(correct_below, rows_below, correct_below / np.where(rows_below > 0, rows_below, 1))
    return float(score[np.argmin(above + below)])


def _nll(n_correct: np.ndarray, rows: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    """Return the NLL in nats of groups of rows with one confidence each, Float[u]."""
    clipped = np.clip(confidence, CONFIDENCE_CLIP, 1 - CONFIDENCE_CLIP)
    return -(xlogy(n_correct, clipped) + xlogy(rows - n_correct, 1 - clipped))
