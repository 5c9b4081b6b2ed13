"""Predictive distributions with conformal intervals.

The conformity scores of held-out rows widen or narrow the interval of a forecaster. The correction
is the same for all rows of a cell (Romano et al. 2019; Vovk et al. 2005), or it is different for
each row and comes from the held-out rows near to it (Guan 2023).
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kdgraph.distributions.base import LEVEL_TOLERANCE, Distribution, keep_row_axis, row_blocks

_RANK_TOLERANCE = 1e-12
"""Difference below which two local ranks are equal: sums of the same weights in another order."""


@dataclass(frozen=True, eq=False)
class CorrectedIntervals(Distribution):
    """Distributions of a forecaster whose :meth:`interval` is corrected by held-out rows.

    This is conformalised quantile regression (Romano et al. 2019); a subclass implements
    :meth:`corrections`. Quantiles, mean, variance and CRPS are those of the forecaster.

    Parameters
    ----------
    base : Distribution
        Distributions of n rows.
    held_out : Distribution
        Distributions of h rows that neither the forecaster nor its recalibration was fitted on.
    y_held_out : Float[h]
        Outcomes of these rows.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> class WidenedIntervals(CorrectedIntervals):  # 90 of the 99 held-out rows are inside
    ...     def __getitem__(self, index):
    ...         return WidenedIntervals(self.base[index], self.held_out, self.y_held_out)
    ...     def corrections(self, scores, level):
    ...         return np.full(len(self), np.sort(scores)[conformal_rank(level, len(scores)) - 1])
    >>> normal, y = Normal(np.zeros(99), np.ones(99)), np.linspace(-2, 2, 99)
    >>> [round(float(ends[0]), 2) for ends in WidenedIntervals(normal[:1], normal, y).interval(0.9)]
    [-1.84, 1.84]
    """

    base: Distribution
    held_out: Distribution
    y_held_out: np.ndarray

    @abstractmethod
    def corrections(self, scores: np.ndarray, level: float) -> np.ndarray:
        """Return the number of widths by which each interval grows to each side, Float[n].

        ``scores`` are the conformity scores of the held-out rows, Float[h], at the level.
        """

    def conformity_scores(self, level: float) -> np.ndarray:
        """Return the distance of each held-out outcome from its interval, Float[h].

        Distances are in widths of the interval at this level; they are negative inside it.
        """
        low, high = self.held_out.interval(level)
        return np.maximum(low - self.y_held_out, self.y_held_out - high) / _width(low, high)

    def interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends Float[n], Float[n] of intervals that cover with probability ``level``.

        They are infinite, with a warning, where too few rows correct them.
        """
        low, high = self.base.interval(level)
        growth = self.corrections(self.conformity_scores(level), level) * _width(low, high)
        if np.isinf(growth).any():
            warnings.warn(
                f"intervals of level {level:g} are the whole line where there are too few"
                " calibration rows to promise less, and have no width or score; quantiles and CRPS"
                " are as they were",
                stacklevel=2,
            )
        return low - growth, high + growth

    def __len__(self) -> int:
        return len(self.base)

    def cdf(self, y: np.ndarray | float) -> np.ndarray:
        return self.base.cdf(y)

    def ppf(self, q: np.ndarray | float) -> np.ndarray:
        return self.base.ppf(q)

    def extended_cdf(self, y: np.ndarray | float) -> np.ndarray:
        return self.base.extended_cdf(y)

    def extended_ppf(self, levels: np.ndarray) -> np.ndarray:
        return self.base.extended_ppf(levels)

    def fallback_levels(self) -> tuple[float, float]:
        return self.base.fallback_levels()

    def mean(self) -> np.ndarray:
        return self.base.mean()

    def var(self) -> np.ndarray:
        return self.base.var()

    def crps(self, y: np.ndarray) -> np.ndarray:
        return self.base.crps(y)


@dataclass(frozen=True, eq=False)
class ConformalIntervals(CorrectedIntervals):
    """Conformal intervals with one correction for each cell of rows.

    Parameters
    ----------
    cells, held_out_cells : Int[n], Int[h]
        Cell of each row and of each held-out row.

    Notes
    -----
    The score of a held-out row is s = max(low - y, y - high) / w of its interval at this level, of
    width w. The new interval is [low - q w, high + q w], where q is the ⌈(h + 1) level⌉-th smallest
    score of the row's cell. A new row is one of h + 1 exchangeable rows, and its own score counts
    as +∞. The intervals therefore cover at least the fraction ``level`` of new rows, on average
    over the draw of held-out and new rows of a cell, for any distribution of rows and any
    forecaster. If a cell has fewer than level / (1 - level) rows, the interval is the whole line.

    References
    ----------
    Romano, Patterson and Candès, "Conformalized quantile regression", NeurIPS 2019, Theorem 1;
    Vovk, Gammerman and Shafer, "Algorithmic learning in a random world", 2005, Section 4.5
    (Mondrian).

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> normal, y = Normal(np.zeros(99), np.ones(99)), np.linspace(-2, 2, 99)
    >>> cells = np.zeros(99, dtype=int)
    >>> new = ConformalIntervals(normal[:1], normal, y, cells[:1], cells)
    >>> [round(float(end[0]), 2) for end in new.interval(0.9)]  # ±1.64 without correction
    [-1.84, 1.84]
    """

    cells: np.ndarray
    held_out_cells: np.ndarray

    def __getitem__(self, index: Any) -> ConformalIntervals:
        index = keep_row_axis(index)
        return replace(self, base=self.base[index], cells=self.cells[index])

    def corrections(self, scores: np.ndarray, level: float) -> np.ndarray:
        by_cell = {}
        for cell in np.unique(self.held_out_cells).tolist():
            cell_scores = np.sort(scores[self.held_out_cells == cell])
            rank = conformal_rank(level, len(cell_scores))
            is_finite = rank <= len(cell_scores)
            by_cell[cell] = float(cell_scores[rank - 1]) if is_finite else np.inf
        return np.array([by_cell.get(cell, np.inf) for cell in self.cells.tolist()])


def conformal_rank(level: float, n: int) -> int:
    """Return ⌈(n + 1) level⌉, at least 1: the rank of the score that corrects an interval.

    The rank is n + 1 if no score is large enough (Romano et al. 2019, Theorem 1).
    """
    return max(int(np.ceil((n + 1) * level * (1 - LEVEL_TOLERANCE))), 1)


def _width(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the widths of intervals; 1 for intervals that are a point."""
    return np.where(high > low, high - low, 1.0)


@dataclass(frozen=True, eq=False)
class LocalisedIntervals(CorrectedIntervals):
    """Conformal intervals with a correction for each row, from the held-out rows near to it.

    Parameters
    ----------
    neighbours, weights : Int[n, k], Float[n, k]
        Held-out rows near to each row, each at most once, and their weights H(x, x_j) in [0, 1].
    held_out_neighbours, held_out_weights : Int[h, l], Float[h, l]
        The same for each held-out row. It is among its own neighbours, with weight H(x, x) = 1.

    Notes
    -----
    Scores s are those of :class:`~kdgraph.distributions.ConformalIntervals`. The local rank of a
    row is the weight of its neighbours that have a smaller score, divided by the weight of all its
    neighbours, itself included. A new row is assigned a tentative score v. The ranks of all h + 1
    rows are then exchangeable, and v is accepted if its rank is among the ⌈(h + 1) level⌉ smallest.
    As v grows, its own rank grows and the ranks of other rows fall, so the accepted values end at
    one of the scores, or do not end.

    The guarantee is coverage on average over rows, as of one correction for all; coverage at each
    place is close to the level, but not guaranteed. A row without held-out neighbours gets the
    whole line.

    References
    ----------
    Guan, "Localized conformal prediction: a generalized inference framework for conformal
    prediction", Biometrika 110, 2023, Theorem 1 and Section 3; here adjusted levels are local
    ranks.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> parity = np.arange(200) % 2  # odd rows are ten times as far out
    >>> y = np.linspace(-2, 2, 200) * (1 + 9 * parity)
    >>> near = np.stack([np.arange(0, 200, 2), np.arange(1, 200, 2)])
    >>> normal, weights = Normal(np.zeros(200), np.ones(200)), np.ones((200, 100))
    >>> new = LocalisedIntervals(normal[:2], normal, y, near, weights[:2], near[parity], weights)
    >>> new.interval(0.9)[1].round(0).tolist()
    [2.0, 18.0]
    """

    neighbours: np.ndarray
    weights: np.ndarray
    held_out_neighbours: np.ndarray
    held_out_weights: np.ndarray

    def __getitem__(self, index: Any) -> LocalisedIntervals:
        index = keep_row_axis(index)
        neighbours, weights = self.neighbours[index], self.weights[index]
        return replace(self, base=self.base[index], neighbours=neighbours, weights=weights)

    def corrections(self, scores: np.ndarray, level: float) -> np.ndarray:
        max_below = conformal_rank(level, len(scores)) - 1
        smaller_weight, total_weight = self._held_out_sums(scores)
        score_rank = np.empty(len(scores), dtype=np.intp)
        score_rank[np.argsort(scores, kind="stable")] = np.arange(len(scores))
        n_accepted = np.empty(len(self), dtype=np.intp)
        for rows in row_blocks(len(self), self.neighbours.shape[1]):
            n_accepted[rows] = _count_accepted_scores(
                max_below,
                score_rank[self.neighbours[rows]],
                self.neighbours[rows],
                self.weights[rows],
                smaller_weight,
                total_weight,
            )
        return np.append(np.sort(scores), np.inf)[n_accepted]

    def _held_out_sums(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights of neighbours with smaller scores, and of all, Float[h] each."""
        smaller_weight, total_weight = np.empty(len(scores)), np.empty(len(scores))
        for rows in row_blocks(len(scores), self.held_out_neighbours.shape[1]):
            weights = self.held_out_weights[rows]
            is_smaller = scores[self.held_out_neighbours[rows]] < scores[rows, None]
            smaller_weight[rows] = (weights * is_smaller).sum(axis=1)
            total_weight[rows] = weights.sum(axis=1)
        return smaller_weight, total_weight


def _count_accepted_scores(
    max_below: int,
    score_rank: np.ndarray,
    neighbours: np.ndarray,
    weights: np.ndarray,
    smaller_weight: np.ndarray,
    total_weight: np.ndarray,
) -> np.ndarray:
    """Return the number of held-out scores that the accepted values of each row exceed, Int[n].

    A value just above the m smallest scores is accepted if at most ``max_below`` of the h local
    ranks are below its own (Guan 2023); the result is the largest such m in [0, h].
    """
    # By the definition, each m requires all h + 1 ranks. But the new row changes only the ranks of
    # its own neighbours: all others keep the rank that they have without it, and how many of these
    # are below is one binary search in a sorted array. The neighbours are counted separately:
    # first their old ranks are subtracted, then their new ones are added. A neighbour's new rank
    # depends on m only through one comparison: the new row counts as a smaller score of the
    # neighbour unless the tentative value has passed the neighbour's score.
    old_ranks = np.sort(smaller_weight / total_weight)
    old_rank = (smaller_weight / total_weight)[neighbours]
    new_total = total_weight[neighbours] + weights
    rank_if_passed = smaller_weight[neighbours] / new_total
    rank_if_not = (smaller_weight[neighbours] + weights) / new_total
    has_weight, row_total = weights > 0, weights.sum(axis=1) + 1
    # If m is accepted, so is every smaller m (see the Notes of LocalisedIntervals): bisection.
    low, high = np.zeros(len(neighbours), dtype=np.intp), np.full(len(neighbours), len(old_ranks))
    while (low < high).any():
        middle = (low + high + 1) // 2
        passed = score_rank < middle[:, None]
        own_rank = (weights * passed).sum(axis=1) / row_total - _RANK_TOLERANCE
        n_old_neighbours = (has_weight & (old_rank < own_rank[:, None])).sum(axis=1)
        n_others = np.searchsorted(old_ranks, own_rank) - n_old_neighbours
        new_rank = np.where(passed, rank_if_passed, rank_if_not)
        n_below = n_others + (has_weight & (new_rank < own_rank[:, None])).sum(axis=1)
        low = np.where(n_below <= max_below, middle, low)
        high = np.where(n_below <= max_below, high, middle - 1)
    return low
