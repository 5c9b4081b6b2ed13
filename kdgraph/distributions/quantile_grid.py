"""Distributions that are known at some levels: a line between each two quantiles, and an
exponential tail at each end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.distributions.base import Distribution, by_row, checked_levels, count_in_rows, rows_at

_SHORTEST = 1e-3
"""Of the mean distance that all quantiles of a row together give a tail: what is shorter is a
tie.
"""
_NO_SPREAD = 1e-14
"""Of the largest quantile: where all differ by less, rounding has made it of equal numbers."""


class QuantileGrid(Distribution):
    """For each of n rows, quantiles at m levels: what a quantile regression gives.

    Parameters
    ----------
    levels : Float[m], increasing, in (0, 1); m from 2.
    values : Float[n, m], finite: the quantiles of each row. Where they cross they are put in order,
        which brings them nearer to the true ones (Chernozhukov et al.).

    Notes
    -----
    Between two quantiles the density is constant. Below the first, of level q₁ and value v₁, F(y) =
    q₁ exp((y - v₁)/t), with t = q₁ (v₂ - v₁)/(q₂ - q₁), so that the density goes on without a step;
    above the last likewise. The tails are ours.

    References
    ----------
    Koenker, "Quantile regression", 2005; Chernozhukov, Fernández-Val and Galichon, "Quantile and
    probability curves without crossing", Econometrica 78, 2010.

    Examples
    --------
    >>> one = QuantileGrid(np.array([0.25, 0.5, 0.75]), np.array([[0.0, 1.0, 3.0]]))
    >>> one.ppf(np.array([0.25, 0.375, 0.75])).tolist(), one.cdf(np.array([2.0])).tolist()
    ([[0.0, 0.5, 3.0]], [0.625])
    """

    def __init__(self, levels: np.ndarray, values: np.ndarray) -> None:
        self.grid = np.asarray(levels, dtype=np.float64)
        values = np.asarray(values, dtype=np.float64)
        if (
            self.grid.ndim != 1
            or len(self.grid) < 2
            or not (np.diff(self.grid) > 0).all()
            or self.grid[0] <= 0
            or self.grid[-1] >= 1
        ):
            raise ValueError(
                "levels must be at least two increasing numbers in (0, 1), got"
                f" {self.grid.tolist()}"
            )
        if values.ndim != 2 or values.shape[1] != len(self.grid) or not np.isfinite(values).all():
            raise ValueError(
                f"values must have {len(self.grid)} finite numbers a row, got shape {values.shape}"
            )
        self.values = np.sort(values, axis=1)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> QuantileGrid:
        return QuantileGrid(self.grid, self.values[rows_at(index)])

    def cdf(self, y: np.ndarray | float) -> np.ndarray:  # noqa: D102 - as in the base
        return self._of_values(self._cdf, y)

    def pdf(self, y: np.ndarray | float) -> np.ndarray:
        """Density, in 1/units of y, of y as in :meth:`cdf`; infinite where two quantiles are the
        same.
        """
        return self._of_values(self._pdf, y)

    def ppf(self, q: np.ndarray | float) -> np.ndarray:  # noqa: D102
        q = checked_levels(q)
        wanted = np.broadcast_to(q, q.shape if q.ndim == 2 else (len(self), q.size))
        low, high = self._tails()
        right = np.clip(np.searchsorted(self.grid, wanted), 1, len(self.grid) - 1)
        q0, q1 = self.grid[right - 1], self.grid[right]
        v0, v1 = (np.take_along_axis(self.values, at, axis=1) for at in (right - 1, right))
        share = np.clip((wanted - q0) / (q1 - q0), 0, 1)
        inside = np.where(
            share < 1, np.minimum(v0 + share * (v1 - v0), v1), v1
        )  # at a level of the grid its quantile, to the bit
        first, last = self.grid[0], self.grid[-1]
        with np.errstate(divide="ignore"):  # the ends are infinite
            left = _times(np.log(np.minimum(wanted / first, 1.0)), low)
            beyond = _times(-np.log(np.minimum((1 - wanted) / (1 - last), 1.0)), high)
        found = np.where(
            wanted < first,
            self.values[:, :1] + left,
            np.where(wanted > last, self.values[:, -1:] + beyond, inside),
        )
        return found if q.ndim else found[:, 0]

    def levels(self, y: np.ndarray | float) -> np.ndarray:
        """``cdf(y)``; where that is 0 or 1 to the last bit, log F(y) below 0, and 1 - log P(Y > y)
        above 1; see the base.

        Where outer quantiles are tied, the tail beyond them has no length, and F is 0 or 1 just
        beyond: there it is as if the tail had the length that the nearest different quantile gives
        it. Where all quantiles of a row are the same nothing is known of distances, and it is -∞
        below them and ∞ above.
        """
        return self._of_values(self._levels, y)

    def at_levels(self, levels: np.ndarray) -> np.ndarray:  # noqa: D102 - as in the base
        levels = np.broadcast_to(
            levels, levels.shape if levels.ndim == 2 else (len(self), levels.size)
        )
        first, last, (low, high) = self.grid[0], self.grid[-1], self._reach()
        inside = self.ppf(np.clip(levels, first, last))
        with np.errstate(divide="ignore"):  # logarithms that are not taken
            below = np.where(
                levels < 0, np.log(first) - levels, -np.log(np.clip(levels, 0, first) / first)
            )
            above = np.where(
                levels > 1,
                levels - 1 + np.log(1 - last),
                -np.log((1 - np.clip(levels, last, 1)) / (1 - last)),
            )
        outside = np.where(
            levels < first,
            self.values[:, :1] - _times(below, low),
            self.values[:, -1:] + _times(above, high),
        )
        return np.where((levels < first) | (levels > last), outside, inside)

    def unknown_levels(self) -> tuple[float, float]:
        """The levels of outcomes one mean excess below the first quantile, and above the last; see
        the base.
        """
        return self.grid[0] / np.e, 1 - (1 - self.grid[-1]) / np.e

    def mean(self) -> np.ndarray:  # noqa: D102
        low, high = (tail[:, 0] for tail in self._tails())
        first, above = self.grid[0], 1 - self.grid[-1]
        inside = ((self.values[:, 1:] + self.values[:, :-1]) / 2 * np.diff(self.grid)).sum(axis=1)
        return first * (self.values[:, 0] - low) + inside + above * (self.values[:, -1] + high)

    def var(self) -> np.ndarray:  # noqa: D102
        low, high = (tail[:, 0] for tail in self._tails())
        v = self.values - self.mean()[:, None]
        inside = (
            (v[:, 1:] ** 2 + v[:, 1:] * v[:, :-1] + v[:, :-1] ** 2) / 3 * np.diff(self.grid)
        ).sum(axis=1)
        below, beyond = v[:, 0], v[:, -1]
        left = self.grid[0] * (below**2 - 2 * below * low + 2 * low**2)
        right = (1 - self.grid[-1]) * (beyond**2 + 2 * beyond * high + 2 * high**2)
        return left + inside + right

    def _tails(self) -> tuple[np.ndarray, np.ndarray]:
        """Float[n, 1] twice: the mean distance of the lower tail from the first quantile, and of
        the upper one from the last.
        """
        step, gap = np.diff(self.values, axis=1), np.diff(self.grid)
        return step[:, :1] * (self.grid[0] / gap[0]), step[:, -1:] * ((1 - self.grid[-1]) / gap[-1])

    def _reach(self) -> tuple[np.ndarray, np.ndarray]:
        """Float[n, 1] twice: as :meth:`_tails`, but of a tail that is as good as none what the
        nearest quantile that differs gives it.

        Ties are often exact, but interpolated quantiles differ by rounding, and a distance in units
        of that would be as good as infinite.
        """
        found, size = [], np.abs(self.values[:, [0, -1]]).max(axis=1, keepdims=True)
        flat = self.values[:, -1:] - self.values[:, :1] <= _NO_SPREAD * size
        for tail, (q, v) in zip(
            self._tails(),
            ((self.grid, self.values), (1 - self.grid[::-1], -self.values[:, ::-1])),
            strict=True,
        ):
            lengths = q[0] * (v[:, 1:] - v[:, :1]) / (q[1:] - q[0])
            long_enough = (lengths > _SHORTEST * lengths[:, -1:]).argmax(axis=1)
            length = np.where(
                long_enough[:, None] == 0,
                tail,
                np.take_along_axis(lengths, long_enough[:, None], axis=1),
            )
            found.append(np.where(flat, 0.0, length))
        return found[0], found[1]

    def _cdf(self, y: np.ndarray) -> np.ndarray:
        below, above = self._beyond(y, self._tails())
        above = np.where(
            (self._tails()[1] == 0) & (y >= self.values[:, -1:]), np.inf, above
        )  # a tail without a length lies there
        return self._with_tails(y, below, above)

    @np.errstate(under="ignore")
    def _with_tails(self, y: np.ndarray, below: np.ndarray, above: np.ndarray) -> np.ndarray:
        """F, of values that are so far below the first quantile, and above the last, in units of
        the tails.
        """
        q0, q1, v0, v1 = self._around(y)
        share = np.where(v1 > v0, (y - v0) / np.where(v1 > v0, v1 - v0, 1.0), 1.0)
        inside = q0 + np.clip(share, 0, 1) * (q1 - q0)
        left, right = self.grid[0] * np.exp(-below), 1 - (1 - self.grid[-1]) * np.exp(-above)
        return np.where(below > 0, left, np.where(above > 0, right, inside))

    def _levels(self, y: np.ndarray) -> np.ndarray:
        reach = self._reach()
        below, above = self._beyond(y, reach)
        for side, distance in zip(reach, (below, above), strict=True):
            distance[(side == 0) & (distance > 0)] = np.inf  # all quantiles are the same
        known = self._with_tails(y, below, above)
        known = np.where((reach[1] == 0) & (y == self.values[:, -1:]), 1.0, known)
        known = np.where((known == 0) & (below > 0), np.log(self.grid[0]) - below, known)
        return np.where((known == 1) & (above > 0), 1 + above - np.log(1 - self.grid[-1]), known)

    def _pdf(self, y: np.ndarray) -> np.ndarray:
        q0, q1, v0, v1 = self._around(y)
        far = np.exp(-sum(self._beyond(y, self._tails())))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.where(far > 0, (q1 - q0) / (v1 - v0) * far, 0.0)

    def _around(self, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Levels and quantiles to the left and to the right of each value; beyond the ends those of
        the nearest interval.
        """
        right = np.clip(count_in_rows(self.values, y, equal=True), 1, len(self.grid) - 1)
        v0, v1 = (np.take_along_axis(self.values, at, axis=1) for at in (right - 1, right))
        return self.grid[right - 1], self.grid[right], v0, v1

    def _beyond(
        self, y: np.ndarray, tails: tuple[np.ndarray, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """How far below the first quantile, and above the last, in units of the tails, from 0."""
        low, high = (np.maximum(tail, np.finfo(np.float64).tiny) for tail in tails)
        with np.errstate(over="ignore"):  # of a tail without a length all is infinitely far away
            return (
                np.maximum(self.values[:, :1] - y, 0) / low,
                np.maximum(y - self.values[:, -1:], 0) / high,
            )

    def _of_values(self, function: Any, y: np.ndarray | float) -> np.ndarray:
        values = by_row(lambda given: given, len(self), y)
        if values.ndim == 2:
            return function(values)
        return function(np.broadcast_to(values, len(self))[:, None])[:, 0]


def _times(excess: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Their product; 0 of a tail without a length, also at its end, where the excess is
    infinite.
    """
    return np.where(length > 0, excess, 0.0) * length
