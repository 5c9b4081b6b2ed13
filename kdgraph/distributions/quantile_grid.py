"""Distributions from quantiles at some levels, with exponential tails.

Between two quantiles the distribution function is linear. Below the first and above the last
quantile it continues with an exponential tail.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.distributions.base import (
    Distribution,
    apply_to_matrix,
    check_levels,
    count_in_rows,
    keep_row_axis,
    levels_by_row,
)

_TAIL_LEVEL = 0.25
"""Largest level of the quantiles that determine the length of the lower tail."""
_MIN_RELATIVE_TAIL = 1e-3
"""Fraction of the tail length that the whole grid implies, below which a shorter tail is a tie."""
_MIN_RELATIVE_RANGE = 1e-14
"""Fraction of the largest quantile below which a range is a rounding error of equal quantiles."""


class QuantileGrid(Distribution):
    """Quantiles at m levels for each of n rows, as a quantile regression predicts them.

    Parameters
    ----------
    levels : Float[m]
        Increasing levels in (0, 1), at least two.
    values : Float[n, m]
        Finite quantiles of each row. Quantiles that cross are sorted, which brings them closer to
        the true ones (Chernozhukov et al. 2010).

    Notes
    -----
    Between two quantiles the density is constant. Below the first quantile v₁, of level q₁, F(y) =
    q₁ exp((y - v₁)/t). With this tail, (v_j - v₁)/log(q_j/q₁) is t for every quantile in it
    (Breiman et al. 1990); here t is the mean over the quantiles up to level 0.25, or that of the
    second quantile if its level is higher. The tail above the last quantile is built in the same
    way. The mean is original to kdgraph: the two outer quantiles alone may be close to each other
    by chance. If all these quantiles are equal, the distribution ends with a point mass.

    References
    ----------
    Chernozhukov, Fernández-Val and Galichon, "Quantile and probability curves without crossing",
    Econometrica 78, 2010; Breiman, Stone and Kooperberg, "Robust confidence bounds for extreme
    upper quantiles", Journal of Statistical Computation and Simulation 37, 1990, for exponential
    tails.

    Examples
    --------
    >>> grid = QuantileGrid(np.array([0.25, 0.5, 0.75]), np.array([[0.0, 1.0, 3.0]]))
    >>> grid.ppf(np.array([0.25, 0.375, 0.75])).tolist(), grid.cdf(np.array([2.0])).tolist()
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
        return QuantileGrid(self.grid, self.values[keep_row_axis(index)])

    def cdf(self, y: np.ndarray | float) -> np.ndarray:
        return apply_to_matrix(self._cdf, len(self), y)

    def pdf(self, y: np.ndarray | float) -> np.ndarray:
        """Return the density at values as of :meth:`cdf`, infinite where quantiles are equal."""
        return apply_to_matrix(self._pdf, len(self), y)

    def ppf(self, q: np.ndarray | float) -> np.ndarray:
        # All levels are evaluated in each of the three pieces (lower tail, grid, upper tail), and
        # the piece that a level belongs to is selected at the end.
        q = check_levels(q)
        levels = levels_by_row(q, len(self))
        low, high = self._tail_lengths()
        right = np.clip(np.searchsorted(self.grid, levels), 1, len(self.grid) - 1)
        q0, q1 = self.grid[right - 1], self.grid[right]
        v0, v1 = (
            np.take_along_axis(self.values, position, axis=1) for position in (right - 1, right)
        )
        position = np.clip((levels - q0) / (q1 - q0), 0, 1)
        # At a level of the grid the result is the quantile itself, without rounding.
        inside = np.where(position < 1, np.minimum(v0 + position * (v1 - v0), v1), v1)
        first, last = self.grid[0], self.grid[-1]
        # At levels 0 and 1 the logarithm is infinite, as the tails are.
        with np.errstate(divide="ignore"):
            below = _scale_excess(np.log(np.minimum(levels / first, 1.0)), low)
            above = _scale_excess(-np.log(np.minimum((1 - levels) / (1 - last), 1.0)), high)
        quantiles = np.where(
            levels < first,
            self.values[:, :1] + below,
            np.where(levels > last, self.values[:, -1:] + above, inside),
        )
        return quantiles if q.ndim else quantiles[:, 0]

    def extended_cdf(self, y: np.ndarray | float) -> np.ndarray:
        """Return ``cdf(y)``, continued by logarithms where it is rounded to 0 or 1, elementwise.

        The levels there are log F(y), below 0, and 1 - log P(Y > y), above 1. Where the tail has no
        length, F is 0 or 1 just beyond the outer quantile. There, levels use the tail length that
        the nearest different quantile implies. If all quantiles of a row are equal, no distance is
        defined: levels are -∞ below them and ∞ above.
        """
        return apply_to_matrix(self._extended_levels, len(self), y)

    def extended_ppf(self, levels: np.ndarray) -> np.ndarray:
        levels = levels_by_row(levels, len(self))
        first, last, (low, high) = self.grid[0], self.grid[-1], self._extended_tail_lengths()
        inside = self.ppf(np.clip(levels, first, last))
        # np.where evaluates both branches; logarithms of 0 in the branch that is not taken are
        # ignored.
        with np.errstate(divide="ignore"):
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
            self.values[:, :1] - _scale_excess(below, low),
            self.values[:, -1:] + _scale_excess(above, high),
        )
        return np.where((levels < first) | (levels > last), outside, inside)

    def fallback_levels(self) -> tuple[float, float]:
        """Return the levels one mean excess below the first quantile and above the last."""
        return self.grid[0] / np.e, 1 - (1 - self.grid[-1]) / np.e

    def mean(self) -> np.ndarray:
        low, high = (tail[:, 0] for tail in self._tail_lengths())
        first, above = self.grid[0], 1 - self.grid[-1]
        inside = ((self.values[:, 1:] + self.values[:, :-1]) / 2 * np.diff(self.grid)).sum(axis=1)
        return first * (self.values[:, 0] - low) + inside + above * (self.values[:, -1] + high)

    def var(self) -> np.ndarray:
        # Second moments about the mean, piece by piece: uniform between quantiles, and an
        # exponential distribution of mean t at each end, whose second moment is 2t².
        low, high = (tail[:, 0] for tail in self._tail_lengths())
        v = self.values - self.mean()[:, None]
        inside = (
            (v[:, 1:] ** 2 + v[:, 1:] * v[:, :-1] + v[:, :-1] ** 2) / 3 * np.diff(self.grid)
        ).sum(axis=1)
        first, last = v[:, 0], v[:, -1]
        lower_tail = self.grid[0] * (first**2 - 2 * first * low + 2 * low**2)
        upper_tail = (1 - self.grid[-1]) * (last**2 + 2 * last * high + 2 * high**2)
        return lower_tail + inside + upper_tail

    @np.errstate(under="ignore", over="ignore")
    def crps(self, y: np.ndarray) -> np.ndarray:
        """Return the CRPS in closed form, Float[n].

        It is ∫ (F(x) - [x >= y])² dx (Gneiting and Raftery, JASA 102, 2007, Eq. 20), piece by
        piece: F is linear between quantiles and exponential in the tails.
        """
        # Each interval between quantiles is cut at the outcome c. The integral of the square of a
        # line from p to q over a width w is w (p² + pq + q²)/3; left of c the line is F, right of
        # it 1 - F.
        y = np.asarray(y, dtype=np.float64)[:, None]
        v0, v1, q0, q1 = self.values[:, :-1], self.values[:, 1:], self.grid[:-1], self.grid[1:]
        cut = np.clip(y, v0, v1)
        q = q0 + (cut - v0) / np.where(v1 > v0, v1 - v0, 1.0) * (q1 - q0)
        r, r1 = 1 - q, 1 - q1
        left, right = (cut - v0) * (q0**2 + q0 * q + q**2), (v1 - cut) * (r**2 + r * r1 + r1**2)
        score = (left + right).sum(axis=1) / 3
        # The tail of length t beyond level p holds p² t/2 if the outcome is on the other side of
        # the end, or at it. An outcome at distance d within the tail adds the integral of
        # (1 - F)² - F² = 1 - 2 p e^(-x/t) over x from 0 to d.
        excess = (
            np.maximum(self.values[:, 0] - y[:, 0], 0),
            np.maximum(y[:, 0] - self.values[:, -1], 0),
        )
        ends = self.grid[0], 1 - self.grid[-1]
        for d, p, length in zip(excess, ends, self._tail_lengths(), strict=True):
            t = length[:, 0]
            decay = -np.expm1(-d / np.where(t > 0, t, np.finfo(np.float64).tiny))
            score += p**2 * t / 2 + d - 2 * p * t * decay
        return score

    def _tail_lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean excess of the lower and of the upper tail, Float[n, 1] each."""
        low, high = (
            lengths[:, : max((q[1:] <= _TAIL_LEVEL).sum(), 1)].mean(axis=1, keepdims=True)
            for q, lengths in self._implied_tail_lengths()
        )
        return low, high

    def _implied_tail_lengths(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the levels, and the tail length that each quantile but the first implies.

        Of the lower tail, and of the upper tail, which is the lower one of the mirrored grid;
        Float[m] and Float[n, m - 1] each.
        """
        sides = (self.grid, self.values), (1 - self.grid[::-1], -self.values[:, ::-1])
        return [(q, (v[:, 1:] - v[:, :1]) / np.log(q[1:] / q[0])) for q, v in sides]

    def _extended_tail_lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Return :meth:`_tail_lengths`, with a tied tail replaced; Float[n, 1] each."""
        # A tail between tied quantiles has no length, and distances in units of it are infinite.
        # Ties are often exact, but interpolated quantiles differ by rounding, so a very short tail
        # is a tie too. The tail then gets the length that the nearest quantile implies that makes
        # it long enough.
        size = np.abs(self.values[:, [0, -1]]).max(axis=1, keepdims=True)
        is_flat = self.values[:, -1:] - self.values[:, :1] <= _MIN_RELATIVE_RANGE * size
        tails = []
        for tail, (_, lengths) in zip(
            self._tail_lengths(), self._implied_tail_lengths(), strict=True
        ):
            min_length = _MIN_RELATIVE_TAIL * lengths[:, -1:]
            first_long = (lengths > min_length).argmax(axis=1)[:, None]
            replaced = np.take_along_axis(lengths, first_long, axis=1)
            tails.append(np.where(is_flat, 0.0, np.where(tail > min_length, tail, replaced)))
        return tails[0], tails[1]

    def _cdf(self, y: np.ndarray) -> np.ndarray:
        tails = self._tail_lengths()
        below, above = self._excess(y, tails)
        # An upper tail without length has its mass at the last quantile itself.
        above = np.where((tails[1] == 0) & (y >= self.values[:, -1:]), np.inf, above)
        return self._cdf_with_tails(y, below, above)

    @np.errstate(under="ignore")
    def _cdf_with_tails(self, y: np.ndarray, below: np.ndarray, above: np.ndarray) -> np.ndarray:
        """Return F of values whose excess over both ends is given in units of the tails."""
        q0, q1, v0, v1 = self._brackets(y)
        position = np.where(v1 > v0, (y - v0) / np.where(v1 > v0, v1 - v0, 1.0), 1.0)
        inside = q0 + np.clip(position, 0, 1) * (q1 - q0)
        lower_tail = self.grid[0] * np.exp(-below)
        upper_tail = 1 - (1 - self.grid[-1]) * np.exp(-above)
        return np.where(below > 0, lower_tail, np.where(above > 0, upper_tail, inside))

    def _extended_levels(self, y: np.ndarray) -> np.ndarray:
        tails = self._extended_tail_lengths()
        below, above = self._excess(y, tails)
        # A tail has no length here only if all quantiles of the row are equal.
        for tail, excess in zip(tails, (below, above), strict=True):
            excess[(tail == 0) & (excess > 0)] = np.inf
        levels = self._cdf_with_tails(y, below, above)
        levels = np.where((tails[1] == 0) & (y == self.values[:, -1:]), 1.0, levels)
        # Logarithms replace only levels that are rounded to 0 or 1; all others stay F itself.
        levels = np.where((levels == 0) & (below > 0), np.log(self.grid[0]) - below, levels)
        return np.where((levels == 1) & (above > 0), 1 + above - np.log(1 - self.grid[-1]), levels)

    def _pdf(self, y: np.ndarray) -> np.ndarray:
        q0, q1, v0, v1 = self._brackets(y)
        tails = self._tail_lengths()
        below, above = self._excess(y, tails)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            # A tail without length has no density beyond its end.
            lower_tail, upper_tail = (
                np.where(length > 0, p / length * np.exp(-excess), 0.0)
                for p, length, excess in zip(
                    (self.grid[0], 1 - self.grid[-1]), tails, (below, above), strict=True
                )
            )
            inside = (q1 - q0) / (v1 - v0)
        return np.where(below > 0, lower_tail, np.where(above > 0, upper_tail, inside))

    def _brackets(self, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the levels and quantiles to the left and to the right of each value.

        Beyond the ends they are those of the nearest interval.
        """
        right = np.clip(count_in_rows(self.values, y, equal=True), 1, len(self.grid) - 1)
        v0, v1 = (
            np.take_along_axis(self.values, position, axis=1) for position in (right - 1, right)
        )
        return self.grid[right - 1], self.grid[right], v0, v1

    def _excess(
        self, y: np.ndarray, tails: tuple[np.ndarray, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return distances below the first and above the last quantile, in units of the tails."""
        low, high = (np.maximum(tail, np.finfo(np.float64).tiny) for tail in tails)
        # In units of a tail without length, every distance is infinite.
        with np.errstate(over="ignore"):
            return (
                np.maximum(self.values[:, :1] - y, 0) / low,
                np.maximum(y - self.values[:, -1:], 0) / high,
            )


def _scale_excess(excess: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return excess · length; 0 for a tail without length, even if the excess is infinite."""
    return np.where(length > 0, excess, 0.0) * length
