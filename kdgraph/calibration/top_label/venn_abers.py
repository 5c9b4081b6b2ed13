"""Venn-Abers predictors of top-label confidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kdgraph.calibration.ties import distinct, first_above, first_from
from kdgraph.calibration.top_label.curves import Curve, CurveCalibrator
from kdgraph.metrics import TopLabel

Point = tuple[float, float]


@dataclass(eq=False, repr=False)
class VennAbers(CurveCalibrator):
    """Two isotonic regressions, as if the new row were wrong and as if it were right, merged into one confidence.

    Of exchangeable rows one of the two is calibrated, whatever their distribution; how far they are apart is what the rows leave open.

    Parameters
    ----------
    estimator, by_class, pool, fill_proba, calibration_size, random_state : as in :class:`CurveCalibrator`.

    Attributes
    ----------
    curves_ : of each class the distinct ``score`` of calibration rows, Float[m], ``p0`` from each score to the next, and ``p1`` up to each
        score from the one before, Float[m] both.
    precision_ : Float[K]: the share of right predictions of each class, which one that is never predicted has in place of a curve.

    Notes
    -----
    Inductive Venn-Abers predictors, Vovk and Petej 2012; merged as p1/(1 - p0 + p1), which is least bad in log loss (Vovk, Petej and
    Fedorova 2015, Section 4). With m distinct scores all of p0 and p1 take O(m) after a sort, by their Section 5's walk over the cumulative
    sum diagram. A new row weighs 1.

    Examples
    --------
    >>> from kdgraph.parents import GivenScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]), np.array([0, 1, 0, 1])
    >>> model = VennAbers(FrozenEstimator(GivenScores().fit(X)), by_class=False).fit(X, y, X_calibration=X, y_calibration=y)
    >>> model.predict_interval([[0.95, 0.05], [0.75, 0.25]])
    array([[0.5       , 1.        ],
           [0.33333333, 0.66666667]])
    >>> model.predict_confidence([[0.95, 0.05], [0.75, 0.25]])
    array([0.66666667, 0.5       ])
    """

    def predict_interval(self, X) -> np.ndarray:
        """Float[n, 2]: p0 and p1, between which the confidence lies; both are the precision of a class without a curve."""
        top = TopLabel.of(self._scores(X))
        group = self._curve_of(top.predicted)
        found = np.repeat(self.precision_[group][:, None], 2, axis=1)
        for k in np.unique(group).tolist():
            mine = group == k
            if self.curves_[k]:
                found[mine] = _interval(self.curves_[k], top.confidence[mine])
        return found

    def _learn(self, score: np.ndarray, correct: np.ndarray, weight: np.ndarray) -> Curve:
        score, place = distinct(score)
        rows, right = np.bincount(place, weight), np.bincount(place, weight * correct)
        mirrored = if_right(rows[::-1], (rows - right)[::-1])
        return {"score": score, "p0": 1 - mirrored[::-1], "p1": if_right(rows, right)}

    def _at(self, curve: Curve, score: np.ndarray) -> np.ndarray:
        p0, p1 = _interval(curve, score).T
        return p1 / (1 - p0 + p1)


def _interval(curve: Curve, score: np.ndarray) -> np.ndarray:
    """Float[n, 2]: p0 and p1 at scores Float[n].

    A new right row pools with those above it, so p1 is that of the next score up, and 1 above all; a wrong one with those below.
    """
    above, below = first_from(curve["score"], score), first_above(curve["score"], score)
    return np.column_stack([np.append(0.0, curve["p0"])[below], np.append(curve["p1"], 1.0)[above]])


def if_right(rows: np.ndarray, right: np.ndarray) -> np.ndarray:
    """p1 at each distinct score, in rising order: isotonic regression's value there once a right row of weight 1 is added.

    Parameters
    ----------
    rows, right : Float[m], the weight of all rows and of right ones at each score.

    Returns
    -------
    Float[m].

    Notes
    -----
    As Vovk, Petej and Fedorova 2015, Section 5. With P_j the sums of (rows, right) up to score j, a right row at score j moves P_j and all
    after it by (1, 1), or, which is the same, all before it by (-1, -1). The value at j is the slope of the greatest convex minorant of
    these points where it steps from those that were moved to the others. No slope is above 1, so a point moves to below where it was, and
    of the others only corners of the minorant ever matter again: each is put on a stack and taken off it once.

    Examples
    --------
    >>> if_right(np.array([1.0, 1.0]), np.array([0.0, 1.0]))  # 1 pools with 0 at the first score
    array([0.5, 1. ])
    """
    points = list(zip(np.cumsum(rows).tolist(), np.cumsum(right).tolist(), strict=True))
    ahead: list[Point] = []
    for point in reversed(points):
        _look_from(point, ahead)
        ahead.append(point)
    behind: Point = (-1.0, -1.0)
    _look_from(behind, ahead)
    slopes = []
    for x, y in points:
        slopes.append((ahead[-1][1] - behind[1]) / (ahead[-1][0] - behind[0]))
        moved = (x - 1, y - 1)
        if _turn(behind, ahead[-1], moved) < 0:
            behind = moved
            _look_from(behind, ahead)
    return np.array(slopes)


def _look_from(point: Point, ahead: list[Point]) -> None:
    """Take off the corners that the minorant which starts at ``point`` passes below."""
    while len(ahead) > 1 and _turn(point, ahead[-1], ahead[-2]) <= 0:
        ahead.pop()


def _turn(a: Point, b: Point, c: Point) -> float:
    """Above 0 if c lies above the line from a through b."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
