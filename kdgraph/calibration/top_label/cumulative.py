"""Cumulative confidence: the share of right predictions among scores that are as high or higher."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import xlogy

from kdgraph.calibration.top_label.base import SAME, distinct, first_from
from kdgraph.calibration.top_label.curves import Curve, CurveCalibrator

Theta = Literal["none", "median", "best"]

CLIP = 1e-12
"""How near to 0 and 1 a confidence may come before its logarithm."""


@dataclass(eq=False, repr=False)
class CumulativeConfidence(CurveCalibrator):
    """The share of right predictions among calibration rows of the same class whose score is at
    least this one; below theta, one bin.

    Parameters
    ----------
    estimator, by_class, pool, fill_proba, calibration_size, random_state : as in
    :class:`CurveCalibrator`.
    theta : "none": Cum, down to the lowest score. "median" of the class's scores: Cum+. "best":
        Cum*, the observed score with the least NLL of the class's calibration rows, the smallest of
        equals.

    Attributes
    ----------
    curves_ : of each class ``score``, Float[u], the different ones in rising order; ``share``,
        Float[u], that of right predictions from each score up; ``theta``; and ``below``, the share
        below theta. What the rows of these shares weigh: ``rows``, ``rows_below``.
    precision_ : Float[K]: the share of right predictions of each class. One that is never predicted
        has that of all rows, and a warning names it.

    Notes
    -----
    Salamon et al., Eq. 11 (Cum, what PhANNs does), 12 (Cum+) and 13 (Cum*). It is the probability
    of being right at a score *or better*, and so too high for low scores, which is what theta
    mends. A score above all others has the confidence of the highest. Their Eq. 12 counts the score
    theta itself on both sides, ours above it alone; where no row is below theta the confidence
    there is that at the lowest score. The NLL is their Eq. 14, with confidences at least 1e-12 from
    0 and 1.

    Examples
    --------
    >>> from kdgraph.parents import PrecomputedScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4], [0.4, 0.6]]), np.array([0, 0, 1, 1, 1])
    >>> parent = FrozenEstimator(PrecomputedScores().fit(X))
    >>> CumulativeConfidence(parent).fit(X, y, X_calibration=X, y_calibration=y).predict_confidence(X[:4]).round(3)
    array([1.   , 1.   , 0.667, 0.5  ])
    >>> CumulativeConfidence(parent, theta="best").fit(X, y, X_calibration=X, y_calibration=y).predict_confidence(X[:4])
    array([1., 1., 0., 0.])
    """

    _: KW_ONLY
    theta: Theta = "none"

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: theta of each class, by its name; null where nothing is
        cut off.
        """
        cut = [
            float(curve["theta"]) if curve and np.isfinite(curve["theta"]) else None
            for curve in self.curves_
        ]
        return {
            "theta": dict(zip(map(str, self._curve_labels()), cut, strict=True)),
            **super().describe(),
        }

    def _learn(self, score: np.ndarray, correct: np.ndarray, weight: np.ndarray) -> Curve:
        score, place = distinct(score)
        rows, right = (
            np.bincount(place, of, minlength=len(score)) for of in (weight, weight * correct)
        )
        from_here = np.cumsum(right[::-1])[::-1] / np.cumsum(rows[::-1])[::-1]
        share = np.clip(from_here, 0, 1)  # sums of weights round
        theta = {"none": _none, "median": _median, "best": _best}[self.theta](
            score, rows, right, share
        )
        low = score < theta - SAME
        below = np.clip(right[low].sum() / rows[low].sum(), 0, 1) if low.any() else share[0]
        rows_above, rows_below = (
            np.cumsum(rows[::-1])[::-1],
            rows[low].sum() if low.any() else rows.sum(),
        )
        cut = {
            "theta": np.array(theta),
            "below": np.array(below),
            "rows_below": np.array(rows_below),
        }
        return {"score": score, "share": share, "rows": rows_above, **cut}

    def _at(self, curve: Curve, score: np.ndarray) -> np.ndarray:
        return np.where(
            score < curve["theta"] - SAME, curve["below"], curve["share"][_from(curve, score)]
        )

    def _rows_at(self, curve: Curve, score: np.ndarray) -> np.ndarray:
        return np.where(
            score < curve["theta"] - SAME, curve["rows_below"], curve["rows"][_from(curve, score)]
        )


def _from(curve: Curve, score: np.ndarray) -> np.ndarray:
    """Int[n]: the place of the least score of the curve that is as high; of the highest above
    all.
    """
    return first_from(curve["score"], score).clip(max=len(curve["score"]) - 1)


def _none(score: np.ndarray, rows: np.ndarray, right: np.ndarray, share: np.ndarray) -> float:
    return -np.inf


def _median(score: np.ndarray, rows: np.ndarray, right: np.ndarray, share: np.ndarray) -> float:
    """The middle of the score where half of the weight is reached and the one where it is exceeded:
    as of rows repeated by weight.
    """
    reached, half = np.cumsum(rows), rows.sum() / 2
    last = len(score) - 1
    return float(
        (
            score[min(np.searchsorted(reached, half), last)]
            + score[min(np.searchsorted(reached, half, side="right"), last)]
        )
        / 2
    )


def _best(score: np.ndarray, rows: np.ndarray, right: np.ndarray, share: np.ndarray) -> float:
    """The score at which the NLL of rows from there up by ``share`` and of rows below in one bin is
    least.
    """
    above = np.cumsum(_nll(right, rows, share)[::-1])[::-1]
    rows_below, right_below = np.cumsum(rows) - rows, np.cumsum(right) - right
    below = _nll(right_below, rows_below, right_below / np.where(rows_below > 0, rows_below, 1))
    return float(score[np.argmin(above + below)])


def _nll(right: np.ndarray, rows: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    """Float[u], in nats: of ``rows`` that weigh so much, ``right`` of it right, at one confidence
    each.
    """
    c = np.clip(confidence, CLIP, 1 - CLIP)
    return -(xlogy(right, c) + xlogy(rows - right, 1 - c))
