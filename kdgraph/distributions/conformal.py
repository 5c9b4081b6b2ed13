"""Predictive distributions whose intervals hold their share of rows, whatever the distributions
are.

Intervals with a correction of their own for each row, from the held-out rows near to it, that hold
their share of rows on average.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from kdgraph.distributions.base import Distribution, blocks, rows_at

_SAME = 1e-12


@dataclass(frozen=True, eq=False)
class CorrectedIntervals(Distribution):
    """The distributions of a forecaster; :meth:`interval` is widened, or narrowed, by what held-out
    rows ask for.

    A subclass says by how much: conformalised quantile regression (Romano et al. 2019) with one
    correction or with many. Quantiles, mean, variance and CRPS are the forecaster's own.

    Parameters
    ----------
    base : distributions of n rows.
    held : distributions of h rows that neither the forecaster nor its recalibration has seen;
        ``y_held``: Float[h], what came.
    """

    base: Distribution
    held: Distribution
    y_held: np.ndarray

    @abstractmethod
    def corrections(self, score: np.ndarray, level: float) -> np.ndarray:
        """Float[n]: by how many of its widths the interval of a row grows to each side, of the
        :meth:`scores` of held-out rows.
        """

    def scores(self, level: float) -> np.ndarray:
        """Float[h]: by how many widths of its interval at this level each held-out outcome is
        outside; negative: inside.
        """
        low, high = self.held.interval(level)
        return np.maximum(low - self.y_held, self.y_held - high) / _width(low, high)

    def interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Float[n], Float[n]: holds with probability ``level`` at least; infinite where there are
        too few rows to promise that.
        """
        low, high = self.base.interval(level)
        by = self.corrections(self.scores(level), level) * _width(low, high)
        if np.isinf(by).any():
            warnings.warn(
                f"intervals of level {level:g} are the whole line where there are too few"
                " calibration rows to promise less, and have no width or score; quantiles and CRPS"
                " are as they were",
                stacklevel=2,
            )
        return low - by, high + by

    def __len__(self) -> int:
        return len(self.base)

    def cdf(self, y: np.ndarray | float) -> np.ndarray:  # noqa: D102 - as in the base
        return self.base.cdf(y)

    def ppf(self, q: np.ndarray | float) -> np.ndarray:  # noqa: D102
        return self.base.ppf(q)

    def levels(self, y: np.ndarray | float) -> np.ndarray:  # noqa: D102
        return self.base.levels(y)

    def at_levels(self, levels: np.ndarray) -> np.ndarray:  # noqa: D102
        return self.base.at_levels(levels)

    def unknown_levels(self) -> tuple[float, float]:  # noqa: D102
        return self.base.unknown_levels()

    def mean(self) -> np.ndarray:  # noqa: D102
        return self.base.mean()

    def var(self) -> np.ndarray:  # noqa: D102
        return self.base.var()

    def crps(self, y: np.ndarray) -> np.ndarray:  # noqa: D102
        return self.base.crps(y)


@dataclass(frozen=True, eq=False)
class ConformalIntervals(CorrectedIntervals):
    """Intervals with one correction for each cell of rows.

    Parameters
    ----------
    base, held, y_held : as in :class:`CorrectedIntervals`.
    cell, cell_held : Int[n], Int[h]: which cell a row belongs to.

    Notes
    -----
    Conformalised quantile regression with the local width w as unit: the score of a held-out row is
    s = max(low - y, y - high) / w of its interval at this level, and the new interval is [low - q
    w, high + q w] with q the ⌈(h + 1) level⌉-th smallest score of the row's cell. A new row is one
    of h + 1 exchangeable ones, itself at +∞: at least the share ``level`` of intervals holds, on
    average over the draw of held-out and new rows of a cell, for any distribution of rows and any
    forecaster. Where there are fewer than level / (1 - level) rows in a cell no finite interval can
    promise that, and it is the whole line.

    References
    ----------
    Romano, Patterson and Candès, "Conformalized quantile regression", NeurIPS 2019, Theorem 1;
    Vovk, Gammerman and Shafer, "Algorithmic learning in a random world", 2005, Section 4.5
    (Mondrian).

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> many, zero = Normal(np.zeros(99), np.ones(99)), np.zeros(1, dtype=int)
    >>> new = ConformalIntervals(many[:1], many, np.linspace(-2, 2, 99), zero, np.zeros(99, dtype=int))
    >>> [round(float(end[0]), 2) for end in new.interval(0.9)]  # of 99 rows, 90 are inside; the normal interval is ±1.64
    [-1.84, 1.84]
    """

    cell: np.ndarray
    cell_held: np.ndarray

    def __getitem__(self, index: Any) -> ConformalIntervals:
        index = rows_at(index)
        return ConformalIntervals(
            self.base[index], self.held, self.y_held, self.cell[index], self.cell_held
        )

    def corrections(self, score: np.ndarray, level: float) -> np.ndarray:
        """Float[n]; infinite of a cell that no held-out row belongs to."""
        found = {}
        for cell in np.unique(self.cell_held).tolist():
            mine = np.sort(score[self.cell_held == cell])
            rank = rank_of(level, len(mine))
            found[cell] = float(mine[rank - 1]) if rank <= len(mine) else np.inf
        return np.array([found.get(cell, np.inf) for cell in self.cell.tolist()])


def rank_of(level: float, n: int) -> int:
    """⌈(n + 1) level⌉, from 1: which of n scores, increasing, corrects, and n + 1 where none does;
    Romano et al. (2019), Theorem 1.

    >>> rank_of(0.95, 19), rank_of(0.95, 18)
    (19, 19)
    """
    return max(int(np.ceil((n + 1) * level * (1 - _SAME))), 1)


def _width(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Widths of intervals; 1 of those that are one point."""
    return np.where(high > low, high - low, 1.0)


_SAME_LOCALISED = 1e-12
"""Ranks that differ by less are one: sums of the same weights in another order."""


@dataclass(frozen=True, eq=False)
class LocalisedIntervals(CorrectedIntervals):
    """Intervals with a correction for each row, by the scores of the held-out rows near to it.

    Parameters
    ----------
    base, held, y_held : as in :class:`~kdgraph.distributions.conformal.CorrectedIntervals`.
    near, weight : Int[n, k], Float[n, k]: held-out rows near to each row, each at most once, and
    how much they count, H(x, x_j) in [0, 1].
    near_held, weight_held : Int[h, l], Float[h, l]: the same of held-out rows, each among its own
        with weight H(x, x) = 1.

    Notes
    -----
    With scores s as of :class:`~kdgraph.distributions.ConformalIntervals`, the local rank of a row
    is the weight of the rows near to it that have a smaller score, over the weight of all near to
    it, itself among them. A new row is given a score v. The ranks of all h + 1 rows are then
    exchangeable, since each is made in the same way of all rows, and v is kept if its rank is among
    the ⌈(h + 1) level⌉ smallest. As v grows its own rank grows and those of others fall, so what is
    kept ends at one of the scores, or does not end. This is localised conformal prediction with the
    row's own weight at +∞ and its level adjusted; weights without that adjustment promise nothing.

    What is promised is what one correction for all promises, on average over rows. That the share
    is near to the level at each place too is what weights are for, and is not promised. With equal
    weights it is one correction for all. A row to which no held-out row is near has the whole line.

    References
    ----------
    Guan, "Localized conformal prediction: a generalized inference framework for conformal
    prediction", Biometrika 110, 2023, Theorem 1 and Section 3. Here adjusted levels are local
    ranks, and found by bisection of scores.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> side = np.arange(200) % 2  # on one side outcomes are ten times as far out; a row is near to those of its side
    >>> y = np.linspace(-2, 2, 200) * (1 + 9 * side)
    >>> sides = np.stack([np.arange(0, 200, 2), np.arange(1, 200, 2)])
    >>> near = {"near": sides, "weight": np.ones((2, 100)), "near_held": sides[side], "weight_held": np.ones((200, 100))}
    >>> some = Normal(np.zeros(200), np.ones(200))
    >>> LocalisedIntervals(some[:2], some, y, **near).interval(0.9)[1].round(0).tolist()
    [2.0, 18.0]
    """

    near: np.ndarray
    weight: np.ndarray
    near_held: np.ndarray
    weight_held: np.ndarray

    def __getitem__(self, index: Any) -> LocalisedIntervals:
        index = rows_at(index)
        mine = self.base[index], self.held, self.y_held, self.near[index], self.weight[index]
        return LocalisedIntervals(*mine, self.near_held, self.weight_held)

    def corrections(self, score: np.ndarray, level: float) -> np.ndarray:
        """Float[n]; infinite where scores end before what is kept does."""
        kept = rank_of(level, len(score)) - 1
        smaller, all_near = self._held_sums(score)
        place = np.empty(len(score), dtype=np.intp)
        place[np.argsort(score, kind="stable")] = np.arange(len(score))
        found = np.empty(len(self), dtype=np.intp)
        for rows in blocks(len(self), self.near.shape[1]):
            found[rows] = _last_kept(
                kept, place[self.near[rows]], self.near[rows], self.weight[rows], smaller, all_near
            )
        return np.append(np.sort(score), np.inf)[found]

    def _held_sums(self, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Float[h], Float[h]: of held-out rows, the weight of those near that have a smaller score,
        and of all that are near.
        """
        smaller, all_near = np.empty(len(score)), np.empty(len(score))
        for rows in blocks(len(score), self.near_held.shape[1]):
            weight = self.weight_held[rows]
            smaller[rows] = (weight * (score[self.near_held[rows]] < score[rows, None])).sum(axis=1)
            all_near[rows] = weight.sum(axis=1)
        return smaller, all_near


def _last_kept(
    kept: int,
    place: np.ndarray,
    near: np.ndarray,
    weight: np.ndarray,
    smaller: np.ndarray,
    all_near: np.ndarray,
) -> np.ndarray:
    """Int[n]: the largest m in [0, h] such that a score just above the m smallest has at most
    ``kept`` ranks below its own; Guan (2023).

    Of the h rows those that are not near to a new one have the ranks that they have without it.
    """
    rank = np.sort(smaller / all_near)
    own = (smaller / all_near)[near]
    total = all_near[near] + weight
    before, after = smaller[near] / total, (smaller[near] + weight) / total
    counts, everything = weight > 0, weight.sum(axis=1) + 1
    low, high = np.zeros(len(near), dtype=np.intp), np.full(len(near), len(rank))
    while (low < high).any():
        middle = (low + high + 1) // 2
        passed = place < middle[:, None]
        mine = (weight * passed).sum(axis=1) / everything - _SAME_LOCALISED
        others = np.searchsorted(rank, mine) - (counts & (own < mine[:, None])).sum(axis=1)
        below = others + (counts & (np.where(passed, before, after) < mine[:, None])).sum(axis=1)
        low, high = np.where(below <= kept, middle, low), np.where(below <= kept, high, middle - 1)
    return low
