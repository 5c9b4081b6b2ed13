"""Where features are put before their distances are computed, and what float32 makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kdgraph.smoothing.bandwidths import Kernel

FEATURES_AT_ONCE = 4
"""The loops take four features to a step; the last ones are filled up with zeros, which add nothing to a distance."""
ROUGH = 1e-3
"""Largest relative error of a weight, of all that there could be, with which float32 is still used."""
FAR = 1e100
"""In units of the rows' reach: from this far all rows are equally near in float64, and from farther away too."""
_CHUNK = 2**16


@dataclass(frozen=True)
class Frame:
    """An origin and a unit of feature space, and the precision in which rows are kept there. Ours.

    Attributes
    ----------
    origin : Float[d].
    unit : a power of two, so that to multiply by it rounds nothing; rows then lie in [-1, 1].
    dtype : float32 or float64.
    """

    origin: np.ndarray
    unit: float
    dtype: type

    @classmethod
    def centred(cls, X: np.ndarray) -> Frame:
        """Of ``X``: Float[n, d] in float32, around its mean: what is near to the mean keeps the most digits."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean = X.mean(axis=0)
        origin = np.where(np.isfinite(mean), mean, 0.0)
        return cls(origin, _unit(max(np.abs(chunk - origin).max() for chunk in _chunks(X))), np.float32)

    @classmethod
    def as_it_is(cls, X: np.ndarray) -> Frame:
        """Of ``X``: Float[n, d] in float64, where a difference of two features is rounded once and equal differences stay equal."""
        return cls(np.zeros(X.shape[1]), _unit(max(np.abs(chunk).max() for chunk in _chunks(X))), np.float64)

    def put(self, rows: np.ndarray) -> np.ndarray:
        """[p, d'] of this precision, d' a multiple of four, of ``rows``: Float[p, d]."""
        p, d = rows.shape
        there = np.zeros((p, -(-d // FEATURES_AT_ONCE) * FEATURES_AT_ONCE), self.dtype)
        far = min(FAR / self.unit, np.finfo(np.float64).max)
        with np.errstate(over="ignore"):
            there[:, :d] = np.clip(rows - self.origin, -far, far) * self.unit
        return there

    def rates(self, bandwidths: np.ndarray, d: int, kernel: Kernel) -> np.ndarray:
        """Float[b], what sums over d features in this frame are multiplied by: 1 / (d γ), or 1 / (2 d γ²), kept off 0 and infinity."""
        power = POWERS[kernel]
        largest = float(np.finfo(self.dtype).max) / 4
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            return np.clip(1 / (power * d * (bandwidths * self.unit) ** power), 4 / largest, largest)


POWERS: dict[Kernel, int] = {"laplacian": 1, "gaussian": 2}
"""Of the differences of features, which are added up."""


def is_rough(frame: Frame, at: np.ndarray, X: np.ndarray, bandwidths: np.ndarray, kernel: Kernel) -> np.ndarray:
    """Bool[b, m]: whether float32 might change a weight between a place ``at``: Float[m, d] and a row of ``X`` by over 1 in 1,000.

    The weight exp(-rate · S) of a sum S changes by the rate times the error of S, whose bound is :func:`rounding_error`. Ours.
    """
    error = rounding_error(frame, at, X, kernel)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return ~(frame.rates(bandwidths, X.shape[1], kernel)[:, None] * error <= ROUGH)


def rounding_error(frame: Frame, at: np.ndarray, X: np.ndarray, kernel: Kernel) -> np.ndarray:
    """Float[m]: how far sums over features in a frame of float32 may be off, of places ``at``: Float[m, d] and any row of ``X``. Ours.

    To round two features, their difference (and its square), and to add up d of these, four at a time, changes Σ |x - x'| by less than
    u (k + 4) (‖x‖₁ + ‖x'‖₁), and Σ (x - x')² by less than u (k + 8) (‖x‖₂ + ‖x'‖₂)², with u = 2⁻²⁴ and k = d/4 + 2 additions one after the
    other. Infinite where a place is so far that squares might leave float32.
    """
    power = POWERS[kernel]
    size = _sizes(at, frame, power)
    with np.errstate(over="ignore"):
        error = 2.0**-24 * (X.shape[1] / FEATURES_AT_ONCE + 2 + 4 * power) * (size + _sizes(X, frame, power).max()) ** power
    return np.where(size < 1e15, error, np.inf)


def _sizes(rows: np.ndarray, frame: Frame, power: int) -> np.ndarray:
    """Float[p], ‖x‖₁ or ‖x‖₂ in the frame."""
    with np.errstate(over="ignore"):
        return np.concatenate([np.linalg.norm((chunk - frame.origin) * frame.unit, ord=power, axis=1) for chunk in _chunks(rows)])


def _unit(reach: float) -> float:
    """The power of two that takes ``reach`` to [1/2, 1), as far as float64 has one."""
    return 2.0 ** -float(np.clip(np.frexp(reach)[1], -1000, 1000))


def _chunks(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Some rows at a time, so that nothing of the size of all is made."""
    step = max(1, _CHUNK // max(rows.shape[1], 1))
    return (rows[start : start + step] for start in range(0, max(len(rows), 1), step))
