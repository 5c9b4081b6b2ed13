"""Beta calibration of top-label confidence."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from kdgraph.calibration.top_label.curves import Curve, CurveCalibrator
from kdgraph.calibration.top_label.losses import binary_loss, lie_apart, minimised

CLIP = 1e-12
"""How near to 0 and 1 a score may come before its logarithms."""
_STEEPEST = np.exp(10.0)
"""The largest coefficient, as temperatures have it."""


@dataclass(eq=False, repr=False)
class BetaCalibration(CurveCalibrator):
    """A logistic regression of being right on log s and -log(1 - s), neither of which may lower the confidence.

    Parameters
    ----------
    estimator, by_class, pool, fill_proba, calibration_size, random_state : as in :class:`CurveCalibrator`.

    Attributes
    ----------
    curves_ : of each class ``coefficients``, Float[3]: a, b and c of the log odds a log s - b log(1 - s) + c; whether they ``converged``;
        ``n_clipped``, how many rows have a score within 1e-12 of 0 or 1, which was taken for that far from it.
    precision_ : Float[K]: the share of right predictions of each class, which is the confidence where there is no curve: where a class is
        never predicted (that of all rows), always right, always wrong, or right rows can be told from wrong ones without fail. A warning
        names the class.

    Notes
    -----
    Kull, Silva Filho and Flach 2017, "Beta calibration", Section 4 (three parameters), with a and b kept from falling below 0 by bounds of
    the fit; class by class as Gupta and Ramdas 2022 reduce top-label confidence. At a = b = 1, c = 0 it is the identity.

    Examples
    --------
    >>> from kdgraph.parents import GivenScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]] * 2), np.array([0, 0, 0, 1, 0, 1, 0, 1])
    >>> model = BetaCalibration(FrozenEstimator(GivenScores().fit(X)), by_class=False).fit(X, y, X_calibration=X, y_calibration=y)
    >>> model.predict_confidence([[0.9, 0.1], [0.6, 0.4]]).round(2)
    array([0.94, 0.19])
    """

    _: KW_ONLY

    _needs_both: ClassVar = True

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: how many rows were clipped."""
        return {"n_clipped": sum(int(curve["n_clipped"]) for curve in self.curves_ if curve), **super().describe()}

    def _learn(self, score: np.ndarray, correct: np.ndarray, weight: np.ndarray) -> Curve:
        terms, share = _terms(score), weight / weight.sum()

        def loss(coefficients: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = binary_loss(terms @ coefficients, correct, "nll")
            return float(share @ value), (share * slope) @ terms

        found = minimised(loss, [np.array([1.0, 1.0, 0.0])], [(0, _STEEPEST), (0, _STEEPEST), (None, None)])
        if (found.at[:2] >= _STEEPEST).any() or lie_apart(terms @ found.at, correct):
            return {}
        n_clipped = np.count_nonzero((score < CLIP) | (score > 1 - CLIP))
        return {"coefficients": found.at, "converged": np.array(found.converged), "n_clipped": np.array(n_clipped)}

    def _at(self, curve: Curve, score: np.ndarray) -> np.ndarray:
        return expit(_terms(score) @ curve["coefficients"])


def _terms(score: np.ndarray) -> np.ndarray:
    """Float[n, 3]: log s, -log(1 - s) and 1."""
    inside = np.clip(np.asarray(score, dtype=np.float64), CLIP, 1 - CLIP)
    return np.column_stack([np.log(inside), -np.log1p(-inside), np.ones(len(inside))])
