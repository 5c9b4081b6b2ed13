"""Predictive distributions whose intervals hold their share of rows, whatever the distributions are."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from kdgraph.distributions.distribution import Distribution
from kdgraph.distributions.rows import rows_at

_SAME = 1e-12


@dataclass(frozen=True, eq=False)
class CorrectedIntervals(Distribution):
    """The distributions of a forecaster; :meth:`interval` is widened, or narrowed, by what held-out rows ask for.

    A subclass says by how much: conformalised quantile regression (Romano et al. 2019) with one correction or with many. Quantiles, mean,
    variance and CRPS are the forecaster's own.

    Parameters
    ----------
    base : distributions of n rows.
    held : distributions of h rows that neither the forecaster nor its recalibration has seen; ``y_held``: Float[h], what came.
    """

    base: Distribution
    held: Distribution
    y_held: np.ndarray

    @abstractmethod
    def corrections(self, score: np.ndarray, level: float) -> np.ndarray:
        """Float[n]: by how many of its widths the interval of a row grows to each side, of the :meth:`scores` of held-out rows."""

    def scores(self, level: float) -> np.ndarray:
        """Float[h]: by how many widths of its interval at this level each held-out outcome is outside; negative: inside."""
        low, high = self.held.interval(level)
        return np.maximum(low - self.y_held, self.y_held - high) / _width(low, high)

    def interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Float[n], Float[n]: holds with probability ``level`` at least; infinite where there are too few rows to promise that."""
        low, high = self.base.interval(level)
        by = self.corrections(self.scores(level), level) * _width(low, high)
        if np.isinf(by).any():
            warnings.warn(
                f"intervals of level {level:g} are the whole line where there are too few calibration rows to promise less, "
                "and have no width or score; quantiles and CRPS are as they were",
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
    Conformalised quantile regression with the local width w as unit: the score of a held-out row is s = max(low - y, y - high) / w of its
    interval at this level, and the new interval is [low - q w, high + q w] with q the ⌈(h + 1) level⌉-th smallest score of the row's cell.
    A new row is one of h + 1 exchangeable ones, itself at +∞: at least the share ``level`` of intervals holds, on average over the draw of
    held-out and new rows of a cell, for any distribution of rows and any forecaster. Where there are fewer than level / (1 - level) rows in
    a cell no finite interval can promise that, and it is the whole line.

    References
    ----------
    Romano, Patterson and Candès, "Conformalized quantile regression", NeurIPS 2019, Theorem 1; Vovk, Gammerman and Shafer, "Algorithmic
    learning in a random world", 2005, Section 4.5 (Mondrian).

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
        return ConformalIntervals(self.base[index], self.held, self.y_held, self.cell[index], self.cell_held)

    def corrections(self, score: np.ndarray, level: float) -> np.ndarray:
        """Float[n]; infinite of a cell that no held-out row belongs to."""
        found = {}
        for cell in np.unique(self.cell_held).tolist():
            mine = np.sort(score[self.cell_held == cell])
            rank = rank_of(level, len(mine))
            found[cell] = float(mine[rank - 1]) if rank <= len(mine) else np.inf
        return np.array([found.get(cell, np.inf) for cell in self.cell.tolist()])


def rank_of(level: float, n: int) -> int:
    """⌈(n + 1) level⌉, from 1: which of n scores, increasing, corrects, and n + 1 where none does; Romano et al. (2019), Theorem 1.

    >>> rank_of(0.95, 19), rank_of(0.95, 18)
    (19, 19)
    """
    return max(int(np.ceil((n + 1) * level * (1 - _SAME))), 1)


def _width(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Widths of intervals; 1 of those that are one point."""
    return np.where(high > low, high - low, 1.0)
