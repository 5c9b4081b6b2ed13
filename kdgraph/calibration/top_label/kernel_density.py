"""Kernel density confidence: the density ratio of correct and incorrect predictions.

The module holds the estimator of Salamon et al. (Eq. 7 to 9) and its two ways to choose a
bandwidth: the narrowest one whose curve has few turns (Eq. 19 and 20), and leave-one-out (b_opt).
Fourier series with a bound on their error make the searches fast (original to kdgraph).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.special import expit

from kdgraph.calibration.top_label.base import CONFIDENCE_CLIP
from kdgraph.calibration.top_label.curves import CurveCalibrator, CurveParameters
from kdgraph.calibration.top_label.kernel_sums import Boundary, KernelSeries, KernelSum, logs_of
from kdgraph.parameters import Fraction, Positive, Range

Rule = Literal["b_mon", "b_mon2", "b_mon4", "b_opt"]

SIGN_CHANGES: dict[Rule, int] = {"b_mon": 0, "b_mon2": 2, "b_mon4": 4}
"""Largest number of sign changes of the slope, by rule."""
MAX_BANDWIDTH = 1.0
"""Largest bandwidth of a search. Kernels are then as wide as all scores, the curve nearly flat."""
_BATCH_SIZE = 64
"""Largest number of bandwidths in a batch, which share a Fourier series."""
LOG_TOLERANCE = 1e-9
"""Error at which a log sum is exact enough, unless the sign of a slope depends on it."""


class BandwidthChoice(NamedTuple):
    """Bandwidth, in units of the score, and sign changes of its slope (Salamon et al., Eq. 20)."""

    bandwidth: float
    sign_changes: int


@dataclass
class LogOddsCurve:
    """Log odds of the confidence on a grid of scores, for one bandwidth (Salamon et al., Eq. 9).

    ``sums`` are the kernels of the correct rows, and of the other rows of the denominator; ``log``
    are the logarithms of both sums on the rising grid, Float[2, g], and ``error`` bounds on their
    errors.
    """

    sums: tuple[KernelSum, KernelSum]
    grid: np.ndarray
    bandwidth: float
    log: np.ndarray
    error: np.ndarray

    @classmethod
    def from_sums(
        cls, sums: tuple[KernelSum, KernelSum], grid: np.ndarray, bandwidth: float
    ) -> LogOddsCurve:
        """Return the curve with exact values."""
        curve = next(log_odds_curves(sums, grid, np.array([bandwidth])))
        for side in range(2):
            curve._make_exact(side, curve.error[side] > LOG_TOLERANCE)
        return curve

    @property
    def confidence(self) -> np.ndarray:
        """Confidence at each point of the grid, Float[g]."""
        return expit(self.log[0] - self.log[1])

    def signs(self) -> np.ndarray:
        """Return the certain signs of the slope, Int[g - 1]; 0 if it is flat or uncertain."""
        slope = np.diff(self.log[0] - self.log[1])
        error = self.error.sum(axis=0)
        return np.where(np.abs(slope) > error[1:] + error[:-1], np.sign(slope), 0).astype(int)

    def has_at_most_sign_changes(self, changes: int) -> bool:
        """Return True if the slope has at most so many sign changes."""
        # Uncertain signs can only add changes. If the certain ones decide nothing, the sums at
        # uncertain points are made exact, and only these.
        for tolerance in (LOG_TOLERANCE, 0.0):
            signs = self.signs()
            if sign_changes(signs) > changes:
                return False
            is_uncertain = np.zeros(len(self.grid), dtype=bool)
            is_uncertain[:-1] |= signs == 0
            is_uncertain[1:] |= signs == 0
            for side in range(2):
                self._make_exact(side, is_uncertain & (self.error[side] > tolerance))
        return sign_changes(self.signs()) <= changes

    def _make_exact(self, side: int, mask: np.ndarray) -> None:
        if mask.any():
            self.log[side, mask], self.error[side, mask] = self.sums[side].log(
                self.grid[mask], self.bandwidth
            )


def sign_changes(signs: np.ndarray) -> int:
    """Return the number of changes of signs, Int[n], without zeros (Salamon et al., Eq. 20)."""
    nonzero = signs[signs != 0]
    return int((nonzero[1:] != nonzero[:-1]).sum())


def log_odds_curves(
    sums: tuple[KernelSum, KernelSum], grid: np.ndarray, bandwidths: np.ndarray
) -> Iterator[LogOddsCurve]:
    """Yield a curve for each bandwidth, Float[b], on a grid, Float[g].

    Values come from Fourier series where these apply; otherwise their error is infinite, until they
    are made exact. Salamon et al., Eq. 9; the series are original to kdgraph.
    """
    log, error = (
        np.zeros((2, len(bandwidths), len(grid))),
        np.full((2, len(bandwidths), len(grid)), np.inf),
    )
    for side, kernels in enumerate(sums):
        if KernelSeries.fits(kernels, grid, bandwidths[0], bandwidths[-1]):
            series = KernelSeries(kernels, grid, bandwidths[0], bandwidths[-1])
            log[side], error[side] = logs_of(series.at(bandwidths), series.error)
    for j, bandwidth in enumerate(bandwidths.tolist()):
        yield LogOddsCurve(sums, grid, bandwidth, log[:, j], error[:, j])


def narrowest_bandwidth(
    sums: tuple[KernelSum, KernelSum],
    grid: np.ndarray,
    changes: int,
    *,
    first: float = 0.005,
    step: float = 0.0005,
) -> BandwidthChoice | None:
    """Return the narrowest bandwidth whose curve has at most so many sign changes of the slope.

    The candidates are first, first + step, …, 1, in units of the score; None if none of them is
    wide enough. Slopes (Salamon et al., Eq. 19 and 20) are computed between the points of the
    rising grid, Float[g], and those of 0 are skipped, so that another grid can give another
    bandwidth. The slope is that of the log odds: it has the sign of the slope of the confidence,
    and rounding does not make it 0 where the confidence is nearly 0 or 1.

    The result is the one of a scan with exact sums. A Fourier series with a bound on its error
    determines most signs; exact sums are computed only at points whose sign is uncertain and
    decides the comparison. A transform without such a bound has turns of its own rounding error in
    the tails. Slopes within the rounding error are 0: between the votes of few trees the confidence
    is level, and a scan in double precision counts dozens of turns there.
    """
    for bandwidths in _batches(first, step):
        for curve in log_odds_curves(sums, grid, bandwidths):
            if curve.has_at_most_sign_changes(changes):
                return BandwidthChoice(curve.bandwidth, sign_changes(curve.signs()))
    return None


def _batches(first: float, step: float) -> Iterator[np.ndarray]:
    """Yield batches of rising bandwidths, Float[b], each less than twice its first one."""
    # The number of waves of a series grows with the ratio of the widest bandwidth to the narrowest.
    index, count = 0, int(np.floor((MAX_BANDWIDTH - first) / step + 1e-9)) + 1
    while index < count:
        start = first + step * index
        size = min(_BATCH_SIZE, max(1, int(start / step)), count - index)
        yield first + step * np.arange(index, index + size)
        index += size


_COARSE_RATIO = 1.1
"""Ratio of neighbouring bandwidths of the first pass."""


def leave_one_out_bandwidth(
    sums: tuple[KernelSum, KernelSum],
    score: np.ndarray,
    correct: np.ndarray,
    weight: np.ndarray,
    *,
    first: float = 0.005,
    step: float = 0.0005,
) -> float:
    """Return the bandwidth with the least leave-one-out NLL (b_opt of Salamon et al., Section 12).

    The candidates are first, first + step, …, 1. ``sums`` are the kernels of the correct and of the
    other rows, the incorrect ones first; the rows are Float[n], Bool[n] and Float[n]. The search is
    coarse to fine, so it finds a local minimum; ties go to the widest bandwidth.
    """
    nll: dict[int, float] = {}

    def best_of(candidates: np.ndarray) -> int:
        for i in candidates.tolist():
            if i not in nll:
                nll[i] = leave_one_out_nll(sums, score, correct, weight, first + step * i)
        return max(nll, key=lambda i: (-nll[i], i))

    # A coarse pass over bandwidths 10 % apart, then finer passes between the neighbours of the best
    # candidate, until all candidates there have been evaluated. Ties go to the widest bandwidth.
    last = int(np.floor((MAX_BANDWIDTH - first) / step + 1e-9))
    ratios = _COARSE_RATIO ** np.arange(
        np.ceil(np.log(max(MAX_BANDWIDTH / first, 1)) / np.log(_COARSE_RATIO)) + 1
    )
    best = best_of(np.unique(np.round((first * ratios - first) / step).astype(int).clip(0, last)))
    while True:
        evaluated = sorted(nll)
        i = evaluated.index(best)
        ends = evaluated[max(i - 1, 0)], evaluated[min(i + 1, len(evaluated) - 1)]
        finer = np.unique(np.linspace(*ends, 9).astype(int))
        if nll.keys() >= set(finer.tolist()):
            return first + step * best
        best = best_of(finer)


def leave_one_out_nll(
    sums: tuple[KernelSum, KernelSum],
    score: np.ndarray,
    correct: np.ndarray,
    weight: np.ndarray,
    bandwidth: float,
) -> float:
    """Return the mean leave-one-out NLL of correctness in nats (Salamon et al., Eq. 14).

    The arguments are those of :func:`leave_one_out_bandwidth`.
    """
    # The kernel of each row is subtracted from its own sum. The series is used where its error is
    # small; other rows get the exact sum without their kernel.
    logs = []
    for kernels, is_own in zip(sums, (correct, ~correct), strict=True):
        row = np.where(is_own, np.cumsum(is_own) - 1, -1)
        value, error = np.zeros(len(score)), np.full(len(score), np.inf)
        if KernelSeries.fits(kernels, score, bandwidth, bandwidth):
            series = KernelSeries(kernels, score, bandwidth, bandwidth)
            total = series.at(np.array([bandwidth]))[0]
            value, error = logs_of(
                total - is_own * kernels.own_contributions(score, weight, bandwidth), series.error
            )
        rough = error > LOG_TOLERANCE
        value[rough] = kernels.log(score[rough], bandwidth, row[rough])[0]
        logs.append(value)
    confidence = np.clip(
        expit(np.where(correct, 1, -1) * (logs[0] - logs[1])), CONFIDENCE_CLIP, 1 - CONFIDENCE_CLIP
    )
    return float(np.average(-np.log(confidence), weights=weight))


Condition = Literal["predicted", "all"]
GridSize = Annotated[int, Range(512)]
"""Number of grid points, at least 512."""


@dataclass(eq=False, repr=False)
class KernelDensityConfidence(CurveCalibrator):
    """Density ratio of the scores of correct and of all calibration rows, class by class.

    Parameters
    ----------
    bandwidth : str or float, default="b_mon2"
        Bandwidth of the kernels of correct and incorrect rows. "b_mon": the narrowest whose
        confidence is monotonic in the score; "b_mon2", "b_mon4": whose slope changes its sign at
        most twice, four times; "b_opt": with the least leave-one-out NLL; or a number, in units of
        the score.
    condition : "predicted" or "all", default="predicted"
        "predicted": the denominator contains the rows that are predicted as the class. "all": it
        contains the score that every row has for the class, which dilutes the confidence.
    grid : int, default=512
        Number of equidistant points from the lowest to the highest score of the class; the
        confidence is linear between them.
    first, step : float, default=0.005 and 0.0005
        Start and step of the search for a bandwidth.
    boundary : "none" or "reflect", default="none"
        "reflect" mirrors every kernel at 0 and 1, so that no density is lost there.

    Attributes
    ----------
    curves_ : list of dict
        For each class ``score`` and ``confidence``, Float[grid] each; ``rows``, Float[grid], the
        number of rows that support each score, where a row with this very score counts 1;
        ``bandwidth``; and ``sign_changes`` of the slope.
    precision_ : ndarray of shape (K,)
        Accuracy of each class (Conf1), Float[K]. It is the confidence, with a warning, of a class
        that is never predicted, always correct or always incorrect, or for which no bandwidth up to
        1 is wide enough.

    Notes
    -----
    Salamon et al., Eq. 7 to 9, 19 and 20; "all" is the red curve of their Figure 6. Sign changes
    are those of the slope between points of the grid, without slopes of 0, so the bandwidth depends
    on the grid. Outside the range of the calibration scores the confidence is that of the nearest
    one, because ratios of tails "go wild" there (Section XIII D). A rule limits the number of
    turns, not their height: with one or two incorrect rows the confidence may be a step from 0 to
    1. Look at the curve.

    Examples
    --------
    >>> from kdgraph.parents import PrecomputedScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=4000)
    >>> X, y = np.stack([s, 1 - s], axis=1), (rng.random(4000) > s**2).astype(int)
    >>> model = KernelDensityConfidence(FrozenEstimator(PrecomputedScores().fit(X)))
    >>> model = model.fit(X, y, X_calibration=X, y_calibration=y)
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
        labels = [str(label) for label in self._curve_labels()]
        by_class = {
            name: {
                label: round(curve[name].item(), 12) if curve else None
                for label, curve in zip(labels, self.curves_, strict=True)
            }
            for name in ("bandwidth", "sign_changes")
        }
        return {
            **by_class,
            "first": self.first,
            "step": self.step,
            "grid": self.grid,
            **super().describe(),
        }

    def _fit_class_curve(
        self, score: np.ndarray, is_predicted: np.ndarray, correct: np.ndarray, weight: np.ndarray
    ) -> CurveParameters:
        # Kernels of correct rows are the numerator of Eq. 9; the denominator adds the others, of
        # which leave-one-out expects those of incorrect rows first.
        is_correct, incorrect = is_predicted & correct, np.flatnonzero(is_predicted & ~correct)
        others = (
            np.concatenate([incorrect, np.flatnonzero(~is_predicted)])
            if self.condition == "all"
            else incorrect
        )
        sums = (
            KernelSum.from_scores(score[is_correct], weight[is_correct], self.boundary),
            KernelSum.from_scores(score[others], weight[others], self.boundary),
        )
        low, high = score[is_predicted].min(), score[is_predicted].max()
        grid = np.linspace(low, high, self.grid) if low < high else np.array([low])
        choice = self._choose_bandwidth(
            sums, grid, score[is_predicted], correct[is_predicted], weight[is_predicted]
        )
        if choice is None:
            return {}
        curve = LogOddsCurve.from_sums(sums, grid, choice.bandwidth)
        return {
            "score": grid,
            "confidence": curve.confidence,
            "rows": np.exp(curve.log).sum(axis=0),
            "bandwidth": np.array(choice.bandwidth),
            "sign_changes": np.array(choice.sign_changes),
        }

    def _choose_bandwidth(
        self,
        sums: tuple[KernelSum, KernelSum],
        grid: np.ndarray,
        score: np.ndarray,
        correct: np.ndarray,
        weight: np.ndarray,
    ) -> BandwidthChoice | None:
        if self.bandwidth in SIGN_CHANGES:
            return narrowest_bandwidth(
                sums, grid, SIGN_CHANGES[self.bandwidth], first=self.first, step=self.step
            )
        if self.bandwidth == "b_opt":
            bandwidth = leave_one_out_bandwidth(
                sums, score, correct, weight, first=self.first, step=self.step
            )
        else:
            bandwidth = float(self.bandwidth)
        curve = LogOddsCurve.from_sums(sums, grid, bandwidth)
        # Called for its effect: the comparison makes every uncertain sign exact.
        curve.has_at_most_sign_changes(len(grid))
        return BandwidthChoice(bandwidth, sign_changes(curve.signs()))

    def _evaluate(self, curve: CurveParameters, score: np.ndarray) -> np.ndarray:
        return np.interp(score, curve["score"], curve["confidence"])

    def _support(self, curve: CurveParameters, score: np.ndarray) -> np.ndarray:
        return np.interp(score, curve["score"], curve["rows"])
