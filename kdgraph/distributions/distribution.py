"""What the predictive distributions of n rows can be asked, and what follows from their quantiles alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kdgraph.distributions.rows import blocks
from kdgraph.distributions.scores import LogTails, Scores

_NODES = 64
"""Of the quadrature of :meth:`Distribution.crps`, on each side of the observation: of a normal distribution it is right to 2e-8."""
_SMALLEST = 2.0**-54
"""A level below all that ``Generator.random`` gives but 0."""
_INSIDE = 1e-300, 1 - 2.0**-53
"""Levels at which quantiles are finite, so near to 0 and 1 that no more of an integral lies beyond."""


class Standard(NamedTuple):
    """Distributions of n rows as loc + scale·Z with one Z for all; ours.

    Attributes
    ----------
    loc, scale : Float[n].
    at_levels : values of Z at :meth:`Distribution.levels` of any row, elementwise.
    """

    loc: np.ndarray
    scale: np.ndarray
    at_levels: Callable[[np.ndarray], np.ndarray]


class Distribution(ABC):
    """Predictive distributions of a continuous outcome, one for each of n rows; the vocabulary is that of ``scipy.stats``.

    A subclass says ``len``, ``d[index]`` (a slice, Int[m], Bool[n] or one position: the same distributions of fewer rows), :meth:`cdf`,
    :meth:`ppf`, :meth:`mean` and :meth:`var`; where there is a density, ``pdf`` takes what :meth:`cdf` takes. What a row's distribution is
    does not depend on the rows beside it.
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: Any) -> Distribution: ...

    @abstractmethod
    def cdf(self, y: np.ndarray | float) -> np.ndarray:
        """P(Y <= y) of each row: Float[n] of y, Float[n] or a number; Float[n, m] of Float[n, m], m values for each row."""

    @abstractmethod
    def ppf(self, q: np.ndarray | float) -> np.ndarray:
        """The smallest y with cdf(y) >= q.

        Parameters
        ----------
        q : levels in [0, 1]: a number, for Float[n]; Float[m], the same for every row, for Float[n, m]; Float[n, m], for each row its own.
            At 0 and 1 it is where the distribution begins and ends.

        Raises
        ------
        ParameterError : for a level outside [0, 1], or NaN.
        """

    def levels(self, y: np.ndarray | float) -> np.ndarray:
        """A number that orders values as ``cdf`` does, of y as in :meth:`cdf`: ``cdf(y)``, unless that is 0 or 1 to the last bit.

        There a family that can still tell values apart gives a number below 0 or above 1, in a coordinate of its own; infinity where it is
        known that a value is beyond all that is possible, and not how far.
        """
        return self.cdf(y)

    def at_levels(self, levels: np.ndarray) -> np.ndarray:
        """The values that have these :meth:`levels`: Float[n, m] of Float[m], the same for every row, or of Float[n, m]."""
        return self.ppf(levels)

    def unknown_levels(self) -> tuple[float, float]:
        """Finite levels below and above, for values of which :meth:`levels` cannot tell how far out they are: 0 or 1, or infinite."""
        return float(np.nextafter(0.0, 1.0)), float(np.nextafter(1.0, 0.0))

    def score_scale(self) -> Scores:
        """The scale of normal scores that :meth:`levels` have."""
        return LogTails()

    def standard(self) -> Standard | None:
        """What rows have in common, if they differ in location and scale alone; else None."""
        return None

    @abstractmethod
    def mean(self) -> np.ndarray:
        """Float[n]."""

    @abstractmethod
    def var(self) -> np.ndarray:
        """Float[n]."""

    def interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Float[n], Float[n]: the central interval, from the quantile at (1 - level)/2 to that at (1 + level)/2; ``level`` in [0, 1]."""
        low, high = self.ppf(np.array([(1 - level) / 2, (1 + level) / 2])).T
        return low, high

    def sample(self, m: int, rng: np.random.Generator) -> np.ndarray:
        """Float[n, m]: ``m`` independent draws for each row."""
        return self.ppf(np.maximum(rng.random((len(self), m)), _SMALLEST))

    @np.errstate(under="ignore")
    def crps(self, y: np.ndarray) -> np.ndarray:
        """Continuous ranked probability score, Float[n] of y: Float[n], in the units of y.

        CRPS = ∫ (F(x) - [x >= y])² dx = 2 ∫₀^F(y) τ (y - F⁻¹(τ)) dτ + 2 ∫_F(y)^1 (1 - τ) (F⁻¹(τ) - y) dτ, here by quadrature of the second
        form; a subclass that knows better says so.

        References
        ----------
        Gneiting and Raftery, "Strictly proper scoring rules, prediction, and estimation", JASA 102, 2007, Eq. 20; Laio and Tamea,
        "Verification tools for probabilistic forecasts", Hydrology and Earth System Sciences 11, 2007.
        """
        share, weight = _nodes()
        y = np.asarray(y, dtype=np.float64)
        score = np.empty(len(self))
        for rows in blocks(len(self), 2 * _NODES):
            some, at = self[rows], y[rows, None]
            below = some.cdf(y[rows])[:, None]
            low, high = below * share, (1 - below) * share  # τ and 1 - τ
            left = (weight * low * (at - some.ppf(np.clip(low, *_INSIDE)))).sum(axis=1) * below[:, 0]
            right = (weight * high * (some.ppf(np.clip(1 - high, *_INSIDE)) - at)).sum(axis=1) * (1 - below[:, 0])
            score[rows] = 2 * (left + right)
        return score


def _nodes() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [0, 1]: Gauss-Legendre in s with sin²(πs/2), which takes them to both ends, where quantiles bend."""
    x, weight = np.polynomial.legendre.leggauss(_NODES)
    s = np.pi * (x + 1) / 4
    return np.sin(s) ** 2, weight / 2 * np.pi / 2 * np.sin(2 * s)
