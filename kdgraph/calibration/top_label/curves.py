"""Calibrators whose confidence is a curve over the score alone: one for each predicted class, or one for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from kdgraph.calibration.top_label.class_shares import BOUNDED, NEVER, NOT_THERE, ONE_SIDED, ClassShares, warn_of
from kdgraph.calibration.top_label.pooling import PooledCalibrator
from kdgraph.calibration.top_label.visual_check import CurveRows, findings, look_at, warn_of_beyond, warn_of_seen
from kdgraph.metrics import TopLabel
from kdgraph.parents import Rows

Curve = dict[str, np.ndarray]
"""What is learnt of one class, by name; nothing where the class has no curve."""


@dataclass(eq=False, repr=False)
class CurveCalibrator(PooledCalibrator):
    """Confidence as a curve over the score (Salamon et al., Eq. 2).

    A subclass implements ``_learn(score, correct, weight)``, of rows of one class whose weights are not 0, and ``_at(curve, score)``.
    It learns nothing where its fit runs to a bound; ``converged`` in what it learns says whether it did. One whose curve stands on other
    rows at each score implements ``_rows_at(curve, score)`` too.

    Parameters
    ----------
    estimator, pool, fill_proba, calibration_size, random_state : as in :class:`PooledCalibrator`; what is shared is the curve of all rows.
    by_class : a curve for each predicted class; False: one for all, which leaves nothing to pool.

    Attributes
    ----------
    curves_ : what was learnt, for each class; ``shared_``, of all rows, where anything is pooled.
    precision_ : Float[K]: the share of right predictions of each class (Conf1), which is the confidence where there is no curve;
        ``shared_precision_``, of all rows; ``rows_``, Float[K], what the calibration rows of each class weigh.
    seen_ : what a look at each curve found (:func:`~kdgraph.calibration.top_label.visual_check.look_at`); warnings say it too.
    """

    _: KW_ONLY
    by_class: bool = True

    _needs_both: ClassVar[bool] = False
    """Whether there is a curve only where some rows are right and some are wrong."""

    @property
    def _pools(self) -> bool:
        return self.by_class

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record; of the visual check, what it found."""
        found = findings(self.seen_)
        return {**super().describe(), **({"visual_check": found} if found else {})}

    def confidence_at(self, k: int, score: np.ndarray) -> np.ndarray:
        """Float[m]: the confidence of rows that are predicted as class ``k`` (its position) with the scores Float[m]."""
        top = TopLabel(np.full(len(score), k), score, len(self.classes_))
        return self._confidence(np.zeros((len(score), len(self.classes_))), top)

    def look_at_new(self, top: TopLabel) -> None:
        """Warn of classes that too many new rows are predicted as with scores where no calibration rows were; ``top`` is the parent's."""
        warn_of_beyond(self.seen_, self._curve_of(top.predicted), top.confidence)

    def _fit_scores(self, rows: Rows) -> Rows:
        used = super()._fit_scores(rows)
        top = TopLabel.of(used.X)
        group, correct = self._curve_of(top.predicted), top.correct(used.y)
        each = [(k, label, group == k) for k, label in enumerate(self._curve_labels())]
        curves = [CurveRows(str(n), partial(self.confidence_at, k), top.confidence[m], correct[m], used.weight[m]) for k, n, m in each]
        self.seen_ = look_at(curves)
        warn_of_seen(self.seen_)
        return used

    def _learn_from(self, rows: Rows) -> None:
        top, proba = TopLabel.of(rows.X), rows.X
        correct, weight, group, labels = top.correct(rows.y), rows.weight, self._curve_of(top.predicted), self._curve_labels()
        shares = ClassShares.of(group, correct, weight, len(labels))
        without = shares.empty | (shares.one_sided & self._needs_both)
        self.precision_, self.rows_, self.curves_ = shares.precision, shares.rows, []
        for k in range(len(labels)):
            score = proba[:, k] if self.by_class else top.confidence
            self.curves_.append({} if without[k] else self._learn_among(score, group == k, correct, weight))
        missing = np.array([not curve for curve in self.curves_])
        self._warn_unless_pooled(labels[shares.empty], NEVER)
        self._warn_unless_pooled(labels[without & ~shares.empty], ONE_SIDED)
        self._warn_unless_pooled(labels[missing & ~without], BOUNDED)
        stuck = np.array([not curve.get("converged", True) for curve in self.curves_])
        warn_of(labels[stuck], NOT_THERE)
        self._learn_shared(top.confidence, correct, weight)

    def _learn_shared(self, score: np.ndarray, correct: np.ndarray, weight: np.ndarray) -> None:
        self.shared_precision_, self.shared_ = float(np.average(correct, weights=weight)), Curve()
        if self.pool_ and not (self._needs_both and self.shared_precision_ in (0, 1)):
            self.shared_ = self._learn_among(score, np.ones(len(score), dtype=bool), correct, weight)

    def _own(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        return self._by_curve(top, self.precision_, self._at)

    def _near(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        return self._by_curve(top, self.rows_, self._rows_at)

    def _shared(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        return self._at(self.shared_, top.confidence) if self.shared_ else np.full(len(top), self.shared_precision_)

    def _by_curve(self, top: TopLabel, otherwise: np.ndarray, of: Callable[[Curve, np.ndarray], np.ndarray | None]) -> np.ndarray:
        """Float[n]: what each row's curve says at its score, or, of a class without a curve, ``otherwise``, Float[K]."""
        group = self._curve_of(top.predicted)
        found = otherwise[group]
        for k in np.unique(group).tolist():
            mine = group == k
            if self.curves_[k] and (said := of(self.curves_[k], top.confidence[mine])) is not None:
                found[mine] = said
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

    def _rows_at(self, curve: Curve, score: np.ndarray) -> np.ndarray | None:
        """Float[n]: how many rows stand behind the curve at each score; None: all of the class."""
        return None
