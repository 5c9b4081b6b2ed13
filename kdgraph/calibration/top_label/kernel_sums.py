"""Sums of Gaussian kernels over scores: exact logs at any point, and fast series at many points.

The fast way knows how wrong it may be. A sum of Gaussians has next to no waves shorter than the
bandwidth, so a few hundred Fourier coefficients of the rows give it at every point, for every
bandwidth up to twice the narrowest, to :data:`SERIES_ERROR` of the weight of all rows. That is
plenty where there are rows, and nothing at all in the gaps between them: there the exact
sum is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

Boundary = Literal["none", "reflect"]

SERIES_ERROR = 1e-13
"""Of the weight of all rows: at most this much is wrong with the sum of a series. Measured: 2e-15
at most, of 3 to 50,000 rows.
"""
_DROPPED = 40.0
"""Nats: what weighs less than exp(-40) of the nearest rows in a sum, all rows of the kind together,
is left out of it.
"""
_CUT = 8.6
"""Bandwidths: a kernel, and a wave's share in it, is less than 1e-16 from here on."""
_ROUND_OFF = 1e-13
"""What the logarithm of an exact sum may be wrong by, beside what the exponent of the nearest row
is.
"""
_MOST_WAVES = 1024
"""For narrower kernels than these waves can show, the exact sum is the fast one: few rows are
near.
"""
_PAIRS, _ROWS, _POINTS = 1 << 20, 1 << 16, 1 << 12
"""How many pairs, rows and points are at work at a time. They change no sum: each is one row's, or
the blocks are always the same.
"""


@dataclass(frozen=True)
class KernelSum:
    """s -> sum over rows of weight * exp(-(s - score)² / 2b²).

    That is b * sqrt(2 pi) * |TP| * K_TP(s) of Salamon et al., Eq. 7 (or FP, Eq. 8), where rows
    weigh 1; the factor is gone from Eq. 9.

    Attributes
    ----------
    centre : Float[c], sorted: where kernels stand, the rows' scores and their mirror images.
    weight : Float[c], not 0.
    row : Int[c], whose they are.
    boundary : whether there are mirror images, at 0 and at 1.
    """

    centre: np.ndarray
    weight: np.ndarray
    row: np.ndarray
    boundary: Boundary = "none"

    @classmethod
    def of(cls, score: np.ndarray, weight: np.ndarray, boundary: Boundary = "none") -> KernelSum:
        """Kernels of rows with scores Float[n] and weights Float[n]; "reflect" mirrors each at 0
        and at 1 too. Original to kdgraph.
        """
        images = [score, -score, 2 - score] if boundary == "reflect" else [score]
        centre = np.concatenate(images)
        order = np.argsort(centre, kind="stable")
        return cls(
            centre[order],
            np.tile(weight, len(images))[order],
            np.tile(np.arange(len(score)), len(images))[order],
            boundary,
        )

    @property
    def total(self) -> float:
        """The weight of all kernels, which no sum exceeds."""
        return float(self.weight.sum())

    @np.errstate(under="ignore")
    def of_one(self, score: np.ndarray, weight: np.ndarray, bandwidth: float) -> np.ndarray:
        """Float[n]: what rows with these scores and weights, Float[n], add to the sum at their own
        scores. Original to kdgraph.
        """
        apart = [0 * score, 2 * score, 2 - 2 * score] if self.boundary == "reflect" else [0 * score]
        return weight * np.exp(-((np.array(apart) / bandwidth) ** 2) / 2).sum(axis=0)

    def log(
        self, points: np.ndarray, bandwidth: float, without: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the logarithm of the sum (Salamon et al., Eq. 7), without underflow.

        Parameters
        ----------
        points : Float[m].
        bandwidth : above 0.
        without : Int[m], the row that is left out at each point; -1 for none.

        Returns
        -------
        Float[m], -inf where no row is left; and Float[m], how far round-off may have moved it.
        """
        value = np.full(len(points), -np.inf)
        without = np.full(len(points), -1) if without is None else without
        nearest = self._nearest(points, without)
        some = np.flatnonzero(np.isfinite(nearest))
        at_once = max(1, _PAIRS // len(self.centre))
        for start in range(0, len(some), at_once):
            block = some[start : start + at_once]
            value[block] = self._log(points[block], nearest[block], bandwidth, without[block])
        exponent = np.where(np.isfinite(nearest), (nearest / bandwidth) ** 2 / 2, 0)
        return value, _ROUND_OFF + 8 * np.finfo(float).eps * exponent

    def _nearest(self, points: np.ndarray, without: np.ndarray) -> np.ndarray:
        """Float[m]: how far the nearest centre is that is not left out; a row has three centres at
        most, so one of four on each side.
        """
        around = np.searchsorted(self.centre, points)[:, None] + np.arange(-4, 4)
        there = (around >= 0) & (around < len(self.centre))
        around = around.clip(0, len(self.centre) - 1)
        distance = np.abs(self.centre[around] - points[:, None])
        return np.where(there & (self.row[around] != without[:, None]), distance, np.inf).min(
            axis=1
        )

    def _log(
        self, points: np.ndarray, nearest: np.ndarray, bandwidth: float, without: np.ndarray
    ) -> np.ndarray:
        depth = _DROPPED + np.log(self.total / self.weight.min())
        reach = np.sqrt(nearest**2 + 2 * depth * bandwidth**2)
        reach = np.maximum(
            reach, nearest * (1 + 1e-12)
        )  # a bandwidth that is nothing beside the distance
        start = np.searchsorted(self.centre, points - reach, side="left")
        size = np.searchsorted(self.centre, points + reach, side="right") - start
        first = np.cumsum(size) - size
        centre = np.arange(size.sum()) + np.repeat(start - first, size)
        distance = np.abs(self.centre[centre] - np.repeat(points, size))
        least = np.repeat(nearest, size)
        exponent = (least - distance) * (least + distance) / (2 * bandwidth**2)
        kernel = self.weight[centre] * np.exp(np.minimum(exponent, 0))
        if (without >= 0).any():
            kernel[self.row[centre] == np.repeat(without, size)] = 0
        return np.log(np.add.reduceat(kernel, first)) - (nearest / bandwidth) ** 2 / 2


class KernelSeries:
    """A :class:`KernelSum` at fixed points, for all bandwidths between two, by the Fourier series
    of a period that is long enough.

    Parameters
    ----------
    sums : the kernels.
    points : Float[m].
    narrowest, widest : the bandwidths. Time and memory grow with the number of waves, which is 1.4
        widest / narrowest + more.

    Notes
    -----
    Original to kdgraph: the Poisson sum of a Gaussian, as in the non-uniform transform of Greengard
    and Lee 2004. A wave is a product of two powers, so that K coefficients of n rows cost n * 2
    sqrt(K) powers and one matrix product.
    """

    def __init__(self, sums: KernelSum, points: np.ndarray, narrowest: float, widest: float):
        self.period = _period(sums, points, widest)
        self._side = int(np.ceil(np.sqrt(_waves(self.period, narrowest))))
        self._origin, self._points, self.error = float(points[0]), points, SERIES_ERROR * sums.total
        self._coefficients = np.zeros((self._side, self._side), dtype=complex)
        for start in range(0, len(sums.centre), _ROWS):
            block = slice(start, start + _ROWS)
            low, high = self._powers(sums.centre[block], -1)
            self._coefficients += high @ (low * sums.weight[block]).T

    @classmethod
    def fits(cls, sums: KernelSum, points: np.ndarray, narrowest: float, widest: float) -> bool:
        """Whether few enough waves do; points are Float[m]."""
        return _waves(_period(sums, points, widest), narrowest) <= _MOST_WAVES

    def at(self, bandwidths: np.ndarray) -> np.ndarray:
        """Float[b, m]: the sums for Float[b] bandwidths, each wrong by ``error`` at most; a small
        one may come out below 0.
        """
        wave = np.arange(self._side**2)
        width = bandwidths[:, None]
        gain = np.where(wave > 0, 2, 1) * np.exp(
            -((2 * np.pi / self.period * wave * width) ** 2) / 2
        )
        spectrum = gain * (np.sqrt(2 * np.pi) / self.period) * width * self._coefficients.ravel()
        found = np.empty((len(bandwidths), len(self._points)))
        for start in range(0, len(self._points), _POINTS):
            block = slice(start, start + _POINTS)
            low, high = self._powers(self._points[block], 1)
            waves = (high[:, None] * low[None]).reshape(len(wave), -1)
            found[:, block] = np.real(spectrum) @ np.real(waves) - np.imag(spectrum) @ np.imag(
                waves
            )
        return found

    def _powers(self, at: np.ndarray, sign: int) -> tuple[np.ndarray, np.ndarray]:
        """Complex[side, n] each: the waves 0 to side - 1, and 0, side, 2 side, …; their products
        are all of them, the second by row.
        """
        turn = np.exp(sign * 2j * np.pi * (at - self._origin) / self.period)
        low = _powers(turn, self._side)
        return low, _powers(low[-1] * turn, self._side)


def logs_of(sums: np.ndarray, error: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithms of sums with an error, and bounds on their errors, Float[m] each.

    The bound is infinite where the error may exceed the sum. Original to kdgraph.
    """
    above = np.maximum(sums, 4 * error)
    return np.log(above), np.where(sums >= 4 * error, 2 * error / above, np.inf)


def _period(sums: KernelSum, points: np.ndarray, widest: float) -> float:
    """So long that no point feels the next image of any row."""
    apart = max(points.max() - sums.centre[0], sums.centre[-1] - points.min())
    return float(apart + _CUT * widest)


def _waves(period: float, narrowest: float) -> float:
    return _CUT * period / (2 * np.pi * narrowest) + 1


def _powers(base: np.ndarray, count: int) -> np.ndarray:
    """[count, n]: powers 0 to count - 1."""
    factors = np.broadcast_to(base, (count, len(base))).copy()
    factors[0] = 1
    return np.cumprod(factors, axis=0)
