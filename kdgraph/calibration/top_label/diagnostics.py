"""The visual check that Salamon et al. (Section XII) ask for, by rules: does a curve wiggle, leave
its data, get asked where none were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import hypot
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv
from scipy.stats import betabinom

from kdgraph.calibration.top_label.base import warn_of
from kdgraph.metrics.reliability_bins import bin_edges, bin_of

BINS = 10
"""Of equal width: those of the histograms in the paper's figures."""
TURNS = 2
"""Deep turns of a curve that are no wiggle: one minimum and one maximum, as the paper's b_mon2
allows.
"""
VISIBLE = 0.02
"""What nobody sees in a figure is no turn."""
FEWEST = 30
"""Rows of a bin whose share says something."""
ALARM = 0.01
"""How often a look at curves that are right may find something all the same: for each of the rules,
all curves of a fit together.
"""
MOST_BEYOND = 0.05
"""Share of new rows that may lie where no calibration rows were."""
ROUNDING = 1e-9
_Z = 2.5758293035489004  # two-sided, of ALARM
_HALF_WINDOW = 0.5 / BINS
_POINTS = 512
WIGGLES = (
    "the confidence of {} goes up and down more than noise explains: look at it, and take a wider"
    " bandwidth or fewer bins"
)
LEAVES = (
    "the confidence of {} is not what the shares of right calibration rows allow in some bins of"
    " scores: look at it"
)
BEYOND = (
    "more than 5 % of the rows predicted as {} have scores where no calibration row was: their"
    " confidence is learnt from none"
)


class Outside(NamedTuple):
    """A bin of scores where the mean confidence is not one that the share of right rows allows.
    Ours.

    Attributes
    ----------
    lower, upper : of the bin.
    confidence : its rows' mean.
    share : of them that is right, of ``rows`` rows.
    """

    lower: float
    upper: float
    confidence: float
    share: float
    rows: float


@dataclass(frozen=True)
class Seen:
    """What a look at one curve found. Ours.

    Attributes
    ----------
    label : whose curve it is.
    span : the lowest and the highest score of the ``rows`` calibration rows that it was fitted on;
    NaN of none.
    turns : how often the curve turns by more than noise explains.
    outside : bins where it leaves its data.
    """

    label: str
    span: tuple[float, float]
    rows: int
    turns: int
    outside: tuple[Outside, ...]

    @property
    def wiggles(self) -> bool:
        """Whether it turns more often than a curve with one minimum and one maximum (as of Salamon
        et al., Eq. 20).
        """
        return self.turns > TURNS


@dataclass(frozen=True)
class CurveRows:
    """A curve (Salamon et al., Eq. 2) and the calibration rows that it was fitted on.

    Attributes
    ----------
    label : whose it is.
    at : scores Float[n] → confidence Float[n].
    score, correct, weight : of the rows, Float[n], Bool[n], Float[n].
    """

    label: str
    at: Callable[[np.ndarray], np.ndarray]
    score: np.ndarray
    correct: np.ndarray
    weight: np.ndarray


def look_at(curves: Sequence[CurveRows]) -> list[Seen]:
    """Look at curves that were fitted together.

    Notes
    -----
    Rules of ours, for what Salamon et al. ask the eye to do; their Section XII names wiggles as the
    main failure.

    A curve *wiggles* if it turns more than twice, where a turn counts if the curve moves by more
    than 0.02 and more than noise explains: 2.58 standard errors of the difference between two
    shares of right rows, those of the rows within .05 of either end of the move. So the yardstick
    is a histogram of ten bins: none of about that width wiggles by accident, and a curve that
    follows single rows does. On the counts of PhANNs, b_opt wiggles for the two classes of the
    paper's Figure 13 and no other, and nothing else does.

    A curve *leaves its data* in a bin of at least 30 rows if its mean confidence there lies outside
    of the exact (Clopper-Pearson) interval of the share right, at a level of 1 - 0.01/m for the m
    such bins of all curves: together they let 99 % of fits pass that are right.
    """
    filled = [_filled(curve) for curve in curves]
    alarm = ALARM / max(sum(map(len, filled)), 1)
    return [
        Seen(
            curve.label,
            _span(curve),
            len(curve.score),
            turns_of(curve),
            tuple(each for each in bins if not _allows(each, alarm)),
        )
        for curve, bins in zip(curves, filled, strict=True)
    ]


def findings(seen: Sequence[Seen]) -> dict[str, Any]:
    """What is not as it should be, for the record: turns by label, and bins by label; empty where
    all is. Ours.
    """
    wiggles = {each.label: each.turns for each in seen if each.wiggles}
    leaves = {
        each.label: [found._asdict() for found in each.outside] for each in seen if each.outside
    }
    return {name: found for name, found in (("wiggles", wiggles), ("leaves_data", leaves)) if found}


def warn_of_seen(seen: Sequence[Seen]) -> None:
    """Warn of curves that wiggle, and of those that leave their data, in a line each. Ours."""
    warn_of([each.label for each in seen if each.wiggles], WIGGLES)
    warn_of([each.label for each in seen if each.outside], LEAVES)


def warn_of_beyond(seen: Sequence[Seen], group: np.ndarray, score: np.ndarray) -> None:
    """Warn of curves that too many new rows, of Int[m] which curve and Float[m] what score, lie
    beyond. Ours.
    """
    warn_of(
        [
            each.label
            for k, each in enumerate(seen)
            if is_beyond(each, score[group == k], len(seen))
        ],
        BEYOND,
    )


def is_beyond(seen: Seen, score: np.ndarray, n_curves: int = 1) -> bool:
    """Whether too many new rows of a curve, of scores Float[m], lie beyond its calibration rows:
    above 5 %, and what chance explains. Ours.

    Of n calibration rows and m new ones from one distribution, a beta-binomial number BB(m, 2, n -
    1) of the new ones lie outside of the range of the others (in two of n + 1 gaps between order
    statistics); so many must have a probability of less than 0.01/``n_curves``.
    """
    lowest, highest = seen.span
    outside = int(((score < lowest) | (score > highest)).sum())
    if outside <= MOST_BEYOND * len(score) or seen.rows < 2:
        return False
    return bool(betabinom.sf(outside - 1, len(score), 2, seen.rows - 1) < ALARM / n_curves)


def turns_of(curve: CurveRows) -> int:
    """How often the curve turns, over the range of its rows' scores, by more than noise explains:
    see :func:`look_at`. Ours.
    """
    if not len(curve.score):
        return 0
    lowest, highest = _span(curve)
    part = np.linspace(0, 1, _POINTS)
    grid = np.union1d(lowest + part * (highest - lowest), np.quantile(curve.score, part))
    return deep_turns(curve.at(grid), _noise(curve, grid))


def deep_turns(values: np.ndarray, noise: np.ndarray) -> int:
    """Count reversals of a path, Float[g], by more than :data:`VISIBLE` and 2.58 times the noise,
    Float[g], of both ends of the move. Ours.

    >>> deep_turns(np.array([0.1, 0.9, 0.5, 0.6, 0.55, 0.9]), np.full(6, 0.1))
    2
    """
    value, error = values.tolist(), (_Z * noise).tolist()
    turns, direction, low, high = 0, 0, 0, 0
    for i in range(len(value)):
        high = i if direction >= 0 and value[i] > value[high] else high
        low = i if direction <= 0 and value[i] < value[low] else low
        if direction >= 0 and value[high] - value[i] > max(VISIBLE, hypot(error[high], error[i])):
            turns, direction, low = turns + direction, -1, i
        elif direction <= 0 and value[i] - value[low] > max(VISIBLE, hypot(error[low], error[i])):
            turns, direction, high = turns - direction, 1, i
    return turns


def _span(curve: CurveRows) -> tuple[float, float]:
    return (
        (float(curve.score.min()), float(curve.score.max()))
        if len(curve.score)
        else (np.nan, np.nan)
    )


def _noise(curve: CurveRows, at: np.ndarray) -> np.ndarray:
    """Float[g]: the standard error of the share of right rows within .05 of each score; two right
    and two wrong rows are added to it.
    """
    order = np.argsort(curve.score)
    score, weight = curve.score[order], curve.weight[order]
    first, last = (
        np.searchsorted(score, at - _HALF_WINDOW),
        np.searchsorted(score, at + _HALF_WINDOW, side="right"),
    )
    weights, squares, right = (
        _sums(each, first, last) for each in (weight, weight**2, weight * curve.correct[order])
    )
    n = np.where(
        squares > 0, weights**2 / np.where(squares > 0, squares, 1), 0
    )  # as many equal rows say as much (Kish 1965)
    share = (n * right / np.where(weights > 0, weights, 1) + 2) / (n + 4)
    return np.sqrt(share * (1 - share) / np.maximum(n, 1))


def _sums(values: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Float[g]: of values Float[n], those from ``first`` on, before ``last``."""
    total = np.append(0.0, np.cumsum(values))
    return total[last] - total[first]


def _filled(curve: CurveRows) -> list[Outside]:
    """Bins with enough rows, whatever their confidence is."""
    index = bin_of(curve.score, edges := bin_edges(curve.score, BINS, "uniform"))
    weights, squares, right, said = (
        np.bincount(index, each * curve.weight, minlength=BINS)
        for each in (1.0, curve.weight, curve.correct, curve.at(curve.score))
    )
    n = np.where(squares > 0, weights**2 / np.where(squares > 0, squares, 1), 0)
    return [
        Outside(
            float(edges[b]),
            float(edges[b + 1]),
            float(said[b] / weights[b]),
            float(right[b] / weights[b]),
            float(n[b]),
        )
        for b in np.flatnonzero(n >= FEWEST).tolist()
    ]


def _allows(found: Outside, alarm: float) -> bool:
    """Whether the bin's exact interval holds its confidence (Clopper and Pearson 1934)."""
    right, wrong = found.share * found.rows, (1 - found.share) * found.rows
    low = betaincinv(right, wrong + 1, alarm / 2) if right > 0 else 0.0
    high = betaincinv(right + 1, wrong, 1 - alarm / 2) if wrong > 0 else 1.0
    return bool(low - ROUNDING <= found.confidence <= high + ROUNDING)
