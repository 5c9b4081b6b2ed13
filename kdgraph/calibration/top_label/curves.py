"""Calibrators whose confidence is a curve over the score alone: one for each predicted class, or one for all."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from kdgraph.calibration.top_label.base import TopLabelCalibrator
from kdgraph.calibration.top_label.class_shares import BOUNDED, NEVER, NOT_THERE, ONE_SIDED, ClassShares, warn_of
from kdgraph.metrics import TopLabel

Curve = dict[str, np.ndarray]
"""What is learnt of one class, by name; nothing where the class has no curve."""


@dataclass(eq=False, repr=False)
class CurveCalibrator(TopLabelCalibrator):
    """Confidence as a curve over the score (Salamon et al., Eq. 2).

    A subclass implements ``_learn(score, correct, weight)``, of rows of one class whose weights are not 0, and ``_at(curve, score)``.
    It learns nothing where its fit runs to a bound; ``converged`` in what it learns says whether it did.

    Parameters
    ----------
    estimator, fill_proba, calibration_size, random_state : as in :class:`TopLabelCalibrator`.
    by_class : a curve for each predicted class; False: one for all.

    Attributes
    ----------
    curves_ : what was learnt, for each class.
    precision_ : Float[K]: the share of right predictions of each class (Conf1), which is the confidence where there is no curve.
    """

    _: KW_ONLY
    by_class: bool = True

    _needs_both: ClassVar[bool] = False
    """Whether there is a curve only where some rows are right and some are wrong."""

    def _fit_confidence(self, proba: np.ndarray, top: TopLabel, correct: np.ndarray, weight: np.ndarray) -> None:
        used = weight > 0
        proba, top, correct, weight = proba[used], top[used], correct[used], weight[used]
        group, labels = self._curve_of(top.predicted), self._curve_labels()
        shares = ClassShares.of(group, correct, weight, len(labels))
        without = shares.empty | (shares.one_sided & self._needs_both)
        self.precision_, self.curves_ = shares.precision, []
        for k in range(len(labels)):
            score = proba[:, k] if self.by_class else top.confidence
            self.curves_.append({} if without[k] else self._learn_among(score, group == k, correct, weight))
        missing = np.array([not curve for curve in self.curves_])
        warn_of(labels[shares.empty], NEVER, stacklevel=4)
        warn_of(labels[without & ~shares.empty], ONE_SIDED, stacklevel=4)
        warn_of(labels[missing & ~without], BOUNDED, stacklevel=4)
        stuck = np.array([not curve.get("converged", True) for curve in self.curves_])
        warn_of(labels[stuck], NOT_THERE, stacklevel=4)

    def _confidence(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        group = self._curve_of(top.predicted)
        found = self.precision_[group]
        for k in np.unique(group).tolist():
            mine = group == k
            if self.curves_[k]:
                found[mine] = self._at(self.curves_[k], top.confidence[mine])
        return found

    def _curve_of(self, predicted: np.ndarray) -> np.ndarray:
        """Int[n]: which curve is for each row."""
        return predicted if self.by_class else np.zeros_like(predicted)

    def _curve_labels(self) -> np.ndarray:
        return self.classes_ if self.by_class else np.array(["any class"])

    def _learn_among(self, score: np.ndarray, mine: np.ndarray, correct: np.ndarray, weight: np.ndarray) -> Curve:
        """What is learnt of one class, of the score that every row has for it, Float[n], and which rows are predicted as it, Bool[n]."""
        return self._learn(score[mine], correct[mine], weight[mine])

    def _learn(self, score: np.ndarray, correct: np.ndarray, weight: np.ndarray) -> Curve:
        raise NotImplementedError

    def _at(self, curve: Curve, score: np.ndarray) -> np.ndarray:
        raise NotImplementedError
