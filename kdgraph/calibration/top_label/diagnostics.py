"""Score-support diagnostics of confidence curves.

Salamon et al. (Section XII) recommend that a user looks at every fitted curve. The functions here
replace the eye by three rules: a curve must not oscillate more than noise explains, it must agree
with the accuracy of its calibration rows in each bin of scores, and new scores must lie in the
range of the calibration scores. The rules and their thresholds are original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import hypot
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv
from scipy.stats import betabinom

from kdgraph.calibration.top_label.base import warn_of_labels
from kdgraph.metrics.reliability_bins import bin_edges, bin_of

N_BINS = 10
"""Number of bins of equal width, as in the histograms of the paper's figures."""
MAX_TURNS = 2
"""Turns that a smooth curve may have: one minimum and one maximum, as the paper's b_mon2 allows."""
MIN_TURN = 0.02
"""Smallest move of the confidence that counts as a turn; smaller ones are invisible in a figure."""
MIN_BIN_ROWS = 30
"""Smallest number of rows for which the accuracy of a bin is compared with the confidence."""
FALSE_ALARM_RATE = 0.01
"""Probability that a rule reports correct curves, for all curves of a fit together."""
MAX_UNSEEN_FRACTION = 0.05
"""Fraction of new rows that may lie outside the range of the calibration scores."""
ROUNDING = 1e-9
_Z = 2.5758293035489004  # two-sided, of FALSE_ALARM_RATE
_HALF_WINDOW = 0.5 / N_BINS
_POINTS = 512
OSCILLATES = (
    "the confidence of {} goes up and down more than noise explains: plot it, and use a wider"
    " bandwidth or fewer bins"
)
LEAVES_DATA = (
    "the confidence of {} contradicts the accuracy of the calibration rows in some bins of scores:"
    " plot it"
)
UNSEEN_SCORES = (
    "more than 5 % of the rows predicted as {} have scores outside the range of the calibration"
    " scores: their confidence is extrapolated"
)


class ScoreBin(NamedTuple):
    """Edges of a bin of scores, its mean confidence, its accuracy, and the effective rows."""

    lower: float
    upper: float
    confidence: float
    accuracy: float
    rows: float


@dataclass(frozen=True)
class CurveDiagnostics:
    """Result of the diagnostics of the curve of one class.

    ``span`` are the lowest and the highest calibration score, NaN without a calibration row;
    ``turns`` is the number of turns that noise does not explain, and ``outside`` are the bins in
    which the curve contradicts its calibration rows.
    """

    label: str
    span: tuple[float, float]
    rows: int
    turns: int
    outside: tuple[ScoreBin, ...]

    @property
    def oscillates(self) -> bool:
        """True if the curve turns more than twice (compare Salamon et al., Eq. 20)."""
        return self.turns > MAX_TURNS


@dataclass(frozen=True)
class FittedCurve:
    """A curve of one class (Salamon et al., Eq. 2) with the n calibration rows of its fit.

    ``at`` is the function from scores to confidences.
    """

    label: str
    at: Callable[[np.ndarray], np.ndarray]
    score: np.ndarray
    correct: np.ndarray
    weight: np.ndarray


def diagnose_curves(curves: Sequence[FittedCurve]) -> list[CurveDiagnostics]:
    """Return the diagnostics of curves that were fitted together, in their order.

    A curve *oscillates* if it turns more than twice. A turn counts if the curve moves by more than
    0.02 and by more than noise explains: 2.58 standard errors of the difference between the
    accuracies of the rows within .05 of either end of the move. The yardstick is thus a histogram
    of ten bins: curves that smooth over about this width do not oscillate by accident, and curves
    that follow single rows do. On the counts of PhANNs, b_opt oscillates for the two classes of the
    paper's Figure 13 and for no other class, and no other method oscillates.

    A curve *leaves its data* in a bin of at least 30 rows if its mean confidence there lies outside
    the exact (Clopper-Pearson) interval of the bin's accuracy, at level 1 - 0.01/m for the m such
    bins of all curves. With this correction, 99 % of correct fits pass.
    """
    large_bins = [_large_bins(curve) for curve in curves]
    alpha = FALSE_ALARM_RATE / max(sum(map(len, large_bins)), 1)
    return [
        CurveDiagnostics(
            curve.label,
            _span(curve),
            len(curve.score),
            count_turns(curve),
            tuple(score_bin for score_bin in bins if not _agrees(score_bin, alpha)),
        )
        for curve, bins in zip(curves, large_bins, strict=True)
    ]


def summarize_diagnostics(diagnostics: Sequence[CurveDiagnostics]) -> dict[str, Any]:
    """Return the problems for the record: turns and bins by label; empty without a problem."""
    wiggles = {curve.label: curve.turns for curve in diagnostics if curve.oscillates}
    leaves = {
        curve.label: [score_bin._asdict() for score_bin in curve.outside]
        for curve in diagnostics
        if curve.outside
    }
    problems = {"wiggles": wiggles, "leaves_data": leaves}
    return {name: by_label for name, by_label in problems.items() if by_label}


def warn_of_curves(diagnostics: Sequence[CurveDiagnostics]) -> None:
    """Warn of curves that oscillate and of curves that leave their data, once for each problem."""
    warn_of_labels([curve.label for curve in diagnostics if curve.oscillates], OSCILLATES)
    warn_of_labels([curve.label for curve in diagnostics if curve.outside], LEAVES_DATA)


def warn_of_unseen_scores(
    diagnostics: Sequence[CurveDiagnostics], group: np.ndarray, score: np.ndarray
) -> None:
    """Warn of curves for which too many new scores are outside the range of the calibration scores.

    ``group`` is the position of the curve of each new row, Int[m].
    """
    warn_of_labels(
        [
            curve.label
            for k, curve in enumerate(diagnostics)
            if exceeds_score_range(curve, score[group == k], len(diagnostics))
        ],
        UNSEEN_SCORES,
    )


def exceeds_score_range(
    diagnostics: CurveDiagnostics, score: np.ndarray, n_curves: int = 1
) -> bool:
    """Return True if too many new scores, Float[m], lie outside the calibration range of a curve.

    Too many are more than 5 %, and more than chance explains. If n calibration scores and m new
    scores have one distribution, the number of new ones outside the range of the others is
    beta-binomial, BB(m, 2, n - 1): they fall into two of the n + 1 gaps between order statistics.
    The observed number must have a probability below 0.01/``n_curves``.
    """
    lowest, highest = diagnostics.span
    n_outside = int(((score < lowest) | (score > highest)).sum())
    if n_outside <= MAX_UNSEEN_FRACTION * len(score) or diagnostics.rows < 2:
        return False
    probability = betabinom.sf(n_outside - 1, len(score), 2, diagnostics.rows - 1)
    return bool(probability < FALSE_ALARM_RATE / n_curves)


def count_turns(curve: FittedCurve) -> int:
    """Return the number of turns that noise does not explain, over the range of the scores."""
    if not len(curve.score):
        return 0
    lowest, highest = _span(curve)
    # Equidistant points show the whole range; quantiles resolve the regions with many rows.
    fraction = np.linspace(0, 1, _POINTS)
    grid = np.union1d(lowest + fraction * (highest - lowest), np.quantile(curve.score, fraction))
    return count_reversals(curve.at(grid), _standard_error(curve, grid))


def count_reversals(values: np.ndarray, noise: np.ndarray) -> int:
    """Count the reversals of a path, Float[g], that exceed both :data:`MIN_TURN` and the noise.

    ``noise`` is the standard error at each point; a move counts above 2.58 times the error of the
    difference of its ends.
    """
    value, error = values.tolist(), (_Z * noise).tolist()
    # One pass with hysteresis: ``direction`` is the last significant move (0 before the first one),
    # ``high`` and ``low`` are the extremes since then. A move away from an extreme is a reversal
    # once it exceeds the threshold; the first move is none.
    turns, direction, low, high = 0, 0, 0, 0
    for i in range(len(value)):
        high = i if direction >= 0 and value[i] > value[high] else high
        low = i if direction <= 0 and value[i] < value[low] else low
        if direction >= 0 and value[high] - value[i] > max(MIN_TURN, hypot(error[high], error[i])):
            turns, direction, low = turns + direction, -1, i
        elif direction <= 0 and value[i] - value[low] > max(MIN_TURN, hypot(error[low], error[i])):
            turns, direction, high = turns - direction, 1, i
    return turns


def _span(curve: FittedCurve) -> tuple[float, float]:
    if not len(curve.score):
        return np.nan, np.nan
    return float(curve.score.min()), float(curve.score.max())


def _standard_error(curve: FittedCurve, grid: np.ndarray) -> np.ndarray:
    """Return the standard error of the accuracy within .05 of each score of a grid, Float[g]."""
    order = np.argsort(curve.score)
    score, weight = curve.score[order], curve.weight[order]
    first = np.searchsorted(score, grid - _HALF_WINDOW)
    last = np.searchsorted(score, grid + _HALF_WINDOW, side="right")
    total, squares, correct = (
        _window_sums(values, first, last)
        for values in (weight, weight**2, weight * curve.correct[order])
    )
    n_eff = _effective_rows(total, squares)
    # Two correct and two incorrect predictions are added, so that no error is 0.
    accuracy = (n_eff * correct / np.where(total > 0, total, 1) + 2) / (n_eff + 4)
    return np.sqrt(accuracy * (1 - accuracy) / np.maximum(n_eff, 1))


def _window_sums(values: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    total = np.append(0.0, np.cumsum(values))
    return total[last] - total[first]


def _effective_rows(total: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return how many rows of equal weight have the same uncertainty (Kish 1965)."""
    return np.where(squares > 0, total**2 / np.where(squares > 0, squares, 1), 0)


def _large_bins(curve: FittedCurve) -> list[ScoreBin]:
    edges = bin_edges(curve.score, N_BINS, "uniform")
    index = bin_of(curve.score, edges)
    total, squares, correct, confidence = (
        np.bincount(index, values * curve.weight, minlength=N_BINS)
        for values in (1.0, curve.weight, curve.correct, curve.at(curve.score))
    )
    n_eff = _effective_rows(total, squares)
    return [
        ScoreBin(
            float(edges[b]),
            float(edges[b + 1]),
            float(confidence[b] / total[b]),
            float(correct[b] / total[b]),
            float(n_eff[b]),
        )
        for b in np.flatnonzero(n_eff >= MIN_BIN_ROWS).tolist()
    ]


def _agrees(score_bin: ScoreBin, alpha: float) -> bool:
    """Return True if the exact interval of the accuracy (Clopper and Pearson 1934) has the mean."""
    correct = score_bin.accuracy * score_bin.rows
    incorrect = (1 - score_bin.accuracy) * score_bin.rows
    low = betaincinv(correct, incorrect + 1, alpha / 2) if correct > 0 else 0.0
    high = betaincinv(correct + 1, incorrect, 1 - alpha / 2) if incorrect > 0 else 1.0
    return bool(low - ROUNDING <= score_bin.confidence <= high + ROUNDING)
