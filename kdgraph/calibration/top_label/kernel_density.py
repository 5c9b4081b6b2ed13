"""Kernel densities of right and of wrong predictions, and the confidence that is their ratio."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from kdgraph.calibration.top_label.bandwidth import SIGN_CHANGES, Chosen, Rule, narrowest, sign_changes
from kdgraph.calibration.top_label.bandwidth import Curve as LogOdds
from kdgraph.calibration.top_label.curves import Curve, CurveCalibrator
from kdgraph.calibration.top_label.kernel_sums import Boundary, KernelSum
from kdgraph.calibration.top_label.leave_one_out import leave_one_out
from kdgraph.parameters import Fraction, Positive, Range

Condition = Literal["predicted", "all"]
GridSize = Annotated[int, Range(512)]
"""A number of points from 512."""


@dataclass(eq=False, repr=False)
class KernelDensityConfidence(CurveCalibrator):
    """The density of scores of right calibration rows as a share of the density of all of them, class by class.

    Parameters
    ----------
    estimator, by_class, pool, fill_proba, calibration_size, random_state : as in :class:`CurveCalibrator`.
    bandwidth : of the kernels of right and wrong rows alike. "b_mon": the narrowest whose confidence is monotonic in the score; "b_mon2",
        "b_mon4": whose slope changes its sign at most twice, four times; "b_opt": with the least NLL of rows left out one by one; or a
        number, in units of the score.
    condition : "predicted": the denominator is of rows that are predicted as the class. "all": it counts the score that every row has for
        the class, which dilutes the confidence.
    grid : points at which the confidence is known, at equal distances from the lowest to the highest score of the class; it is straight
        between them.
    first, step : where a search begins, and how fine it is.
    boundary : "reflect" mirrors every kernel at 0 and 1, so that no density gets lost there.

    Attributes
    ----------
    curves_ : of each class ``score`` and ``confidence``, Float[grid] each; ``rows``, Float[grid], how many rows the kernels make up at each
        score, where one with this very score is 1; its ``bandwidth`` and ``sign_changes``, of the slope.
    precision_ : Float[K]: the share of right predictions of each class (Conf1), which is the confidence where there is no curve: where a
        class is never predicted (that of all rows), always right or always wrong, or no bandwidth up to 1 is wide enough. A warning names
        the class.

    Notes
    -----
    Salamon et al., Eq. 7 to 9, 19 and 20; "all" is the red curve of their Figure 6. Sign changes are those of the slope between points of
    the grid, slopes of 0 are skipped: the grid is a part of what a bandwidth means. Outside of the scores of the calibration rows the
    confidence is that of the nearest one, since ratios of tails "go wild" there (Section XIII D). As kernels grow wide the confidence tends
    to Conf1, which is why that stands where every bandwidth is too narrow. A rule limits turns, not heights: with a wrong row or two even
    the first bandwidth has few of them, and the confidence may be a step from 0 to 1. Look at it.

    Examples
    --------
    >>> from kdgraph.parents import GivenScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=4000)
    >>> X, y = np.stack([s, 1 - s], axis=1), (rng.random(4000) > s**2).astype(int)  # class 0 with probability s²
    >>> model = KernelDensityConfidence(FrozenEstimator(GivenScores().fit(X))).fit(X, y, X_calibration=X, y_calibration=y)
    >>> model.predict_confidence([[0.6, 0.4], [0.9, 0.1]]).round(1)
    array([0.4, 0.8])
    """

    _: KW_ONLY
    bandwidth: Rule | Positive = "b_mon2"
    condition: Condition = "predicted"
    grid: GridSize = 512
    first: Fraction = 0.005
    step: Fraction = 0.0005
    boundary: Boundary = "none"

    _needs_both: ClassVar[bool] = True

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: bandwidth and sign changes by class, null where there is no curve; how fine the search was."""
        labels = [str(label) for label in self._curve_labels()]
        found = {
            name: {label: round(curve[name].item(), 12) if curve else None for label, curve in zip(labels, self.curves_, strict=True)}
            for name in ("bandwidth", "sign_changes")
        }
        return {**found, "first": self.first, "step": self.step, "grid": self.grid, **super().describe()}

    def _learn_among(self, score: np.ndarray, mine: np.ndarray, correct: np.ndarray, weight: np.ndarray) -> Curve:
        right, wrong = mine & correct, np.flatnonzero(mine & ~correct)
        beside = np.concatenate([wrong, np.flatnonzero(~mine)]) if self.condition == "all" else wrong
        sums = (KernelSum.of(score[right], weight[right], self.boundary), KernelSum.of(score[beside], weight[beside], self.boundary))
        low, high = score[mine].min(), score[mine].max()
        grid = np.linspace(low, high, self.grid) if low < high else np.array([low])
        chosen = self._bandwidth(sums, grid, score[mine], correct[mine], weight[mine])
        if chosen is None:
            return {}
        found = LogOdds.of(sums, grid, chosen.bandwidth)
        learnt = {"bandwidth": np.array(chosen.bandwidth), "sign_changes": np.array(chosen.sign_changes)}
        return {"score": grid, "confidence": found.confidence, "rows": np.exp(found.log).sum(axis=0), **learnt}

    def _bandwidth(
        self, sums: tuple[KernelSum, KernelSum], grid: np.ndarray, score: np.ndarray, correct: np.ndarray, weight: np.ndarray
    ) -> Chosen | None:
        if self.bandwidth in SIGN_CHANGES:
            return narrowest(sums, grid, SIGN_CHANGES[self.bandwidth], first=self.first, step=self.step)
        if self.bandwidth == "b_opt":
            bandwidth = leave_one_out(sums, score, correct, weight, first=self.first, step=self.step)
        else:
            bandwidth = float(self.bandwidth)
        curve = LogOdds.of(sums, grid, bandwidth)
        curve.has_at_most(len(grid))
        return Chosen(bandwidth, sign_changes(curve.signs()))

    def _at(self, curve: Curve, score: np.ndarray) -> np.ndarray:
        return np.interp(score, curve["score"], curve["confidence"])

    def _rows_at(self, curve: Curve, score: np.ndarray) -> np.ndarray:
        return np.interp(score, curve["score"], curve["rows"])
