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
WIDEST = 1.0
"""Largest bandwidth of a search; the kernels are as wide as all scores, the curve nearly flat."""
_AT_ONCE = 64
"""Number of bandwidths in a batch."""
CLOSE = 1e-9
"""Error at which a log sum is exact enough, unless the sign of a slope depends on it."""


class Chosen(NamedTuple):
    """Chosen bandwidth and its sign changes (Salamon et al., Eq. 20).

    Attributes
    ----------
    bandwidth : in units of the score.
    sign_changes : how often the slope of the confidence changes its sign.
    """

    bandwidth: float
    sign_changes: int


@dataclass
class LogOddsCurve:
    """Log odds of the confidence on a grid of scores, for one bandwidth (Salamon et al., Eq. 9).

    Attributes
    ----------
    sums : kernels of right rows, and of those beside them in the denominator.
    grid : Float[g], rising.
    bandwidth : of both.
    log : Float[2, g], log sums of kernels.
    error : Float[2, g], at most by how much they are wrong.
    """

    sums: tuple[KernelSum, KernelSum]
    grid: np.ndarray
    bandwidth: float
    log: np.ndarray
    error: np.ndarray

    @classmethod
    def of(
        cls, sums: tuple[KernelSum, KernelSum], grid: np.ndarray, bandwidth: float
    ) -> LogOddsCurve:
        """Return the exact curve on a grid, Float[g] (Salamon et al., Eq. 9)."""
        curve = next(curves(sums, grid, np.array([bandwidth])))
        for side in range(2):
            curve._make_exact(side, curve.error[side] > CLOSE)
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

    def has_at_most(self, changes: int) -> bool:
        """Return True if the slope has at most so many sign changes."""
        # Uncertain signs can only add changes. If the certain ones decide nothing, the sums at
        # uncertain points are made exact, and only these.
        for close_enough in (CLOSE, 0.0):
            signs = self.signs()
            if sign_changes(signs) > changes:
                return False
            open_ends = np.zeros(len(self.grid), dtype=bool)
            open_ends[:-1] |= signs == 0
            open_ends[1:] |= signs == 0
            for side in range(2):
                self._make_exact(side, open_ends & (self.error[side] > close_enough))
        return sign_changes(self.signs()) <= changes

    def _make_exact(self, side: int, where: np.ndarray) -> None:
        if where.any():
            self.log[side, where], self.error[side, where] = self.sums[side].log(
                self.grid[where], self.bandwidth
            )


def sign_changes(signs: np.ndarray) -> int:
    """Return the number of changes of signs, Int[n], without zeros (Salamon et al., Eq. 20).

    >>> sign_changes(np.array([0, 1, 1, 0, -1, 0, -1, 1]))
    2
    """
    clear = signs[signs != 0]
    return int((clear[1:] != clear[:-1]).sum())


def curves(
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


def narrowest(
    sums: tuple[KernelSum, KernelSum],
    grid: np.ndarray,
    changes: int,
    *,
    first: float = 0.005,
    step: float = 0.0005,
) -> Chosen | None:
    """Return the narrowest bandwidth whose curve has at most so many sign changes.

    The candidates are first, first + step, …, 1.

    Parameters
    ----------
    sums : kernels of right rows, and of those beside them in the denominator.
    grid : Float[g], rising: the scores at which slopes are looked at. Another grid can give another
    bandwidth.
    changes : of the sign of the slope; slopes of 0 are skipped, and which way the first one points
    is free.
    first, step : in units of the score.

    Returns
    -------
    Chosen, or None where no bandwidth up to 1 will do.

    Notes
    -----
    Salamon et al., Eq. 19 and 20. The slope is that of the log odds, which has the sign of the
    confidence's own and does not vanish by rounding where this is nearly 0 or 1. Every bandwidth is
    judged by exact signs: a series of waves gives most of them with a bound on its error; where
    that leaves one open, and the answer hangs on it, sums are made in logs. So it is the first
    bandwidth of the plain scan, whatever lies in the tails, where a transform without such a bound
    makes turns of its own round-off. Slopes that round-off alone could have made are 0: between the
    votes of few trees the confidence is level, and a scan of plain doubles finds dozens of turns
    there.
    """
    for bandwidths in _batches(first, step):
        for curve in curves(sums, grid, bandwidths):
            if curve.has_at_most(changes):
                return Chosen(curve.bandwidth, sign_changes(curve.signs()))
    return None


def _batches(first: float, step: float) -> Iterator[np.ndarray]:
    """Yield batches of rising bandwidths, Float[b], each less than twice its first one."""
    done, count = 0, int(np.floor((WIDEST - first) / step + 1e-9)) + 1
    while done < count:
        start = first + step * done
        size = min(_AT_ONCE, max(1, int(start / step)), count - done)
        yield first + step * np.arange(done, done + size)
        done += size


_APART = 1.1
"""Ratio of neighbouring bandwidths of the first pass."""


def leave_one_out(
    sums: tuple[KernelSum, KernelSum],
    score: np.ndarray,
    correct: np.ndarray,
    weight: np.ndarray,
    *,
    first: float = 0.005,
    step: float = 0.0005,
) -> float:
    """Return the bandwidth with the least leave-one-out NLL (b_opt).

    The candidates are first, first + step, …, 1.

    Parameters
    ----------
    sums : kernels of right rows, and of those beside them in the denominator, whose first rows are
    the wrong ones.
    score, correct, weight : Float[n], Bool[n], Float[n]: the rows.
    first, step : in units of the score.

    Notes
    -----
    Salamon et al., Section 12 and its Appendix, where b_opt is what leave-one-out prefers. A row is
    left out by taking its own kernel off. Bandwidths a tenth apart are looked at first, then those
    between the neighbours of the best, closer and closer; of equals it is the widest.
    """
    nll: dict[int, float] = {}

    def best_of(candidates: np.ndarray) -> int:
        for i in candidates.tolist():
            if i not in nll:
                nll[i] = leave_one_out_nll(sums, score, correct, weight, first + step * i)
        return max(nll, key=lambda i: (-nll[i], i))

    # A coarse pass over bandwidths 10 % apart, then finer passes between the neighbours of the best
    # candidate, until all candidates there have been evaluated. Ties go to the widest bandwidth.

    last = int(np.floor((WIDEST - first) / step + 1e-9))
    ratios = _APART ** np.arange(np.ceil(np.log(max(WIDEST / first, 1)) / np.log(_APART)) + 1)
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

    Parameters
    ----------
    sums, score, correct, weight : Float[n], Bool[n], Float[n], as for :func:`leave_one_out`.
    bandwidth : of all kernels.

    Notes
    -----
    Confidences are at least 1e-12 from 0 and 1.
    """
    # The kernel of each row is subtracted from its own sum. The series is used where its error is
    # small; other rows get the exact sum without their kernel.
    logs = []
    for kernels, own in zip(sums, (correct, ~correct), strict=True):
        row = np.where(own, np.cumsum(own) - 1, -1)
        value, error = np.zeros(len(score)), np.full(len(score), np.inf)
        if KernelSeries.fits(kernels, score, bandwidth, bandwidth):
            series = KernelSeries(kernels, score, bandwidth, bandwidth)
            total = series.at(np.array([bandwidth]))[0]
            value, error = logs_of(
                total - own * kernels.own_contributions(score, weight, bandwidth), series.error
            )
        rough = error > CLOSE
        value[rough] = kernels.log(score[rough], bandwidth, row[rough])[0]
        logs.append(value)
    confidence = np.clip(
        expit(np.where(correct, 1, -1) * (logs[0] - logs[1])), CONFIDENCE_CLIP, 1 - CONFIDENCE_CLIP
    )
    return float(np.average(-np.log(confidence), weights=weight))


Condition = Literal["predicted", "all"]
GridSize = Annotated[int, Range(512)]
"""A number of points from 512."""


@dataclass(eq=False, repr=False)
class KernelDensityConfidence(CurveCalibrator):
    """Density ratio of the scores of correct and of all calibration rows, class by class.

    Parameters
    ----------
    estimator, by_class, diagnostics, pool, fill_proba, calibration_size, random_state
        See :class:`CurveCalibrator`.
    bandwidth : str or float, default="b_mon2"
        Bandwidth of the kernels of correct and incorrect rows. "b_mon": the narrowest whose
        confidence is monotonic in the score; "b_mon2", "b_mon4": whose slope changes its sign at
        most twice, four times; "b_opt": with the least leave-one-out NLL; or a
        number, in units of the score.
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
    curves_ : of each class ``score`` and ``confidence``, Float[grid] each; ``rows``, Float[grid],
        how many rows the kernels make up at each score, where one with this very score is 1; its
        ``bandwidth`` and ``sign_changes``, of the slope.
    precision_ : Float[K]: the share of right predictions of each class (Conf1), which is the
        confidence where there is no curve: where a class is never predicted (that of all rows),
        always right or always wrong, or no bandwidth up to 1 is wide enough. A warning names the
        class.

    Notes
    -----
    Salamon et al., Eq. 7 to 9, 19 and 20; "all" is the red curve of their Figure 6. Sign changes
    are those of the slope between points of the grid, slopes of 0 are skipped: the grid is a part
    of what a bandwidth means. Outside of the scores of the calibration rows the confidence is that
    of the nearest one, since ratios of tails "go wild" there (Section XIII D). As kernels grow wide
    the confidence tends to Conf1, which is why that stands where every bandwidth is too narrow. A
    rule limits turns, not heights: with a wrong row or two even the first bandwidth has few of
    them, and the confidence may be a step from 0 to 1. Look at it.

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
        """Return the fitted values for the record: bandwidth and sign changes by class."""
        labels = [str(label) for label in self._curve_labels()]
        found = {
            name: {
                label: round(curve[name].item(), 12) if curve else None
                for label, curve in zip(labels, self.curves_, strict=True)
            }
            for name in ("bandwidth", "sign_changes")
        }
        return {
            **found,
            "first": self.first,
            "step": self.step,
            "grid": self.grid,
            **super().describe(),
        }

    def _fit_class_curve(
        self, score: np.ndarray, is_predicted: np.ndarray, correct: np.ndarray, weight: np.ndarray
    ) -> CurveParameters:
        right, wrong = is_predicted & correct, np.flatnonzero(is_predicted & ~correct)
        beside = (
            np.concatenate([wrong, np.flatnonzero(~is_predicted)])
            if self.condition == "all"
            else wrong
        )
        sums = (
            KernelSum.from_scores(score[right], weight[right], self.boundary),
            KernelSum.from_scores(score[beside], weight[beside], self.boundary),
        )
        low, high = score[is_predicted].min(), score[is_predicted].max()
        grid = np.linspace(low, high, self.grid) if low < high else np.array([low])
        chosen = self._choose_bandwidth(
            sums, grid, score[is_predicted], correct[is_predicted], weight[is_predicted]
        )
        if chosen is None:
            return {}
        found = LogOddsCurve.of(sums, grid, chosen.bandwidth)
        learnt = {
            "bandwidth": np.array(chosen.bandwidth),
            "sign_changes": np.array(chosen.sign_changes),
        }
        return {
            "score": grid,
            "confidence": found.confidence,
            "rows": np.exp(found.log).sum(axis=0),
            **learnt,
        }

    def _choose_bandwidth(
        self,
        sums: tuple[KernelSum, KernelSum],
        grid: np.ndarray,
        score: np.ndarray,
        correct: np.ndarray,
        weight: np.ndarray,
    ) -> Chosen | None:
        if self.bandwidth in SIGN_CHANGES:
            return narrowest(
                sums, grid, SIGN_CHANGES[self.bandwidth], first=self.first, step=self.step
            )
        if self.bandwidth == "b_opt":
            bandwidth = leave_one_out(
                sums, score, correct, weight, first=self.first, step=self.step
            )
        else:
            bandwidth = float(self.bandwidth)
        curve = LogOddsCurve.of(sums, grid, bandwidth)
        curve.has_at_most(len(grid))
        return Chosen(bandwidth, sign_changes(curve.signs()))

    def _evaluate(self, curve: CurveParameters, score: np.ndarray) -> np.ndarray:
        return np.interp(score, curve["score"], curve["confidence"])

    def _support(self, curve: CurveParameters, score: np.ndarray) -> np.ndarray:
        return np.interp(score, curve["score"], curve["rows"])
