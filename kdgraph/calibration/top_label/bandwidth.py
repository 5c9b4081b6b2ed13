"""How wide the kernels are: the narrowest ones that leave the confidence few turns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import expit

from kdgraph.calibration.top_label.kernel_sums import KernelSeries, KernelSum, logs_of

Rule = Literal["b_mon", "b_mon2", "b_mon4", "b_opt"]

SIGN_CHANGES: dict[Rule, int] = {"b_mon": 0, "b_mon2": 2, "b_mon4": 4}
"""How often the slope of the confidence may change its sign."""
WIDEST = 1.0
"""Where a search ends: with kernels as wide as all scores, the confidence is all but level."""
_AT_ONCE = 64
"""Bandwidths; half of it takes as long."""
CLOSE = 1e-9
"""A log sum that is this exact need not be made again unless a slope hangs on it."""


class Chosen(NamedTuple):
    """A bandwidth and what it makes of the slope, Salamon et al., Eq. 20.

    Attributes
    ----------
    bandwidth : in units of the score.
    sign_changes : how often the slope of the confidence changes its sign.
    """

    bandwidth: float
    sign_changes: int


@dataclass
class Curve:
    """The log odds of the confidence on a grid of scores, for one bandwidth: Salamon et al., Eq. 9, which rises and falls with them.

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
    def of(cls, sums: tuple[KernelSum, KernelSum], grid: np.ndarray, bandwidth: float) -> Curve:
        """The curve on grid, Float[g], exact at every point of it. Salamon et al., Eq. 9."""
        found = next(curves(sums, grid, np.array([bandwidth])))
        for side in range(2):
            found._make_exact(side, found.error[side] > CLOSE)
        return found

    @property
    def confidence(self) -> np.ndarray:
        """Float[g]."""
        return expit(self.log[0] - self.log[1])

    def signs(self) -> np.ndarray:
        """Int[g - 1]: 1 where the curve rises for certain, -1 where it falls, 0 where it is level or errors leave it open."""
        slope = np.diff(self.log[0] - self.log[1])
        error = self.error.sum(axis=0)
        return np.where(np.abs(slope) > error[1:] + error[:-1], np.sign(slope), 0).astype(int)

    def has_at_most(self, changes: int) -> bool:
        """Whether the slope changes its sign so seldom; sums are made exact only where the answer hangs on them."""
        for close_enough in (CLOSE, 0.0):
            signs = self.signs()
            if sign_changes(signs) > changes:  # what is open can only add to them
                return False
            open_ends = np.zeros(len(self.grid), dtype=bool)
            open_ends[:-1] |= signs == 0
            open_ends[1:] |= signs == 0
            for side in range(2):
                self._make_exact(side, open_ends & (self.error[side] > close_enough))
        return sign_changes(self.signs()) <= changes

    def _make_exact(self, side: int, where: np.ndarray) -> None:
        if where.any():
            self.log[side, where], self.error[side, where] = self.sums[side].log(self.grid[where], self.bandwidth)


def sign_changes(signs: np.ndarray) -> int:
    """How often signs, Int[n], change, zeros left out; the first is no change. Salamon et al., Eq. 20.

    >>> sign_changes(np.array([0, 1, 1, 0, -1, 0, -1, 1]))
    2
    """
    clear = signs[signs != 0]
    return int((clear[1:] != clear[:-1]).sum())


def curves(sums: tuple[KernelSum, KernelSum], grid: np.ndarray, bandwidths: np.ndarray) -> Iterator[Curve]:
    """One :class:`Curve` for each of the bandwidths, Float[b], on the grid, Float[g]: as exact as series are, or not at all yet.

    Salamon et al., Eq. 9, by Fourier series (ours).
    """
    log, error = np.zeros((2, len(bandwidths), len(grid))), np.full((2, len(bandwidths), len(grid)), np.inf)
    for side, kernels in enumerate(sums):
        if KernelSeries.fits(kernels, grid, bandwidths[0], bandwidths[-1]):
            series = KernelSeries(kernels, grid, bandwidths[0], bandwidths[-1])
            log[side], error[side] = logs_of(series.at(bandwidths), series.error)
    for j, bandwidth in enumerate(bandwidths.tolist()):
        yield Curve(sums, grid, bandwidth, log[:, j], error[:, j])


def narrowest(
    sums: tuple[KernelSum, KernelSum], grid: np.ndarray, changes: int, *, first: float = 0.005, step: float = 0.0005
) -> Chosen | None:
    """The first of the bandwidths first, first + step, … whose curve on the grid has at most so many sign changes.

    Parameters
    ----------
    sums : kernels of right rows, and of those beside them in the denominator.
    grid : Float[g], rising: the scores at which slopes are looked at. Another grid can give another bandwidth.
    changes : of the sign of the slope; slopes of 0 are skipped, and which way the first one points costs nothing.
    first, step : in units of the score.

    Returns
    -------
    Chosen, or None where no bandwidth up to 1 will do.

    Notes
    -----
    Salamon et al., Eq. 19 and 20. The slope is that of the log odds, which has the sign of the confidence's own and does not vanish by
    rounding where this is nearly 0 or 1. Every bandwidth is judged by exact signs: a series of waves gives most of them with a bound on its
    error; where that leaves one open, and the answer hangs on it, sums are made in logs. So it is the first bandwidth of the plain scan,
    whatever lies in the tails, where a transform without such a bound makes turns of its own round-off. Slopes that round-off alone could
    have made are 0: between the votes of few trees the confidence is level, and a scan of plain doubles finds dozens of turns there.
    """
    for bandwidths in _batches(first, step):
        for curve in curves(sums, grid, bandwidths):
            if curve.has_at_most(changes):
                return Chosen(curve.bandwidth, sign_changes(curve.signs()))
    return None


def _batches(first: float, step: float) -> Iterator[np.ndarray]:
    """Float[b] each: the bandwidths up to :data:`WIDEST` in order, none of a batch twice the first one."""
    done, count = 0, int(np.floor((WIDEST - first) / step + 1e-9)) + 1
    while done < count:
        start = first + step * done
        size = min(_AT_ONCE, max(1, int(start / step)), count - done)
        yield first + step * np.arange(done, done + size)
        done += size
