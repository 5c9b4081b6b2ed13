"""What the predictive distributions of n rows can be asked, and what follows from their quantiles alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any

import numpy as np

from kdgraph.errors import ParameterError

VALUES_AT_A_TIME = 1 << 20
"""Of an array with a row for each of the n rows: 8 MB. No number depends on it."""
_NODES = 64
"""Of the quadrature of :meth:`Distribution.crps`, on each side of the observation: of a normal distribution it is right to 2e-8."""
_SMALLEST = 2.0**-54
"""A level below all that ``Generator.random`` gives but 0."""
_INSIDE = 1e-300, 1 - 2.0**-53
"""Levels at which quantiles are finite, so near to 0 and 1 that no more of an integral lies beyond."""


class Distribution(ABC):
    """Predictive distributions of a continuous outcome, one for each of n rows.

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


def blocks(n: int, width: int) -> Iterator[slice]:
    """Consecutive rows, so few that an array with ``width`` values for each has at most :data:`VALUES_AT_A_TIME` of them."""
    step = max(VALUES_AT_A_TIME // max(width, 1), 1)
    yield from (slice(first, min(first + step, n)) for first in range(0, n, step))


def by_row(function: Callable[..., np.ndarray], n: int, values: np.ndarray | float, *parameters: np.ndarray) -> np.ndarray:
    """``function(values, *parameters)`` with parameters Float[n] against values Float[n], Float[n, m] or a number.

    Raises
    ------
    ValueError
        If there is not one row of values for each of the n rows.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim > 2 or (values.ndim and len(values) != n):
        raise ValueError(f"there are distributions of {n} rows: values must have shape ({n},) or ({n}, m), got {values.shape}")
    return function(values, *(parameter[:, None] if values.ndim == 2 else parameter for parameter in parameters))


def checked_levels(q: np.ndarray | float) -> np.ndarray:
    """Levels as an array of the same shape, or a ParameterError; see :meth:`Distribution.ppf`."""
    q = np.asarray(q, dtype=np.float64)
    outside = ~((q >= 0) & (q <= 1))
    if outside.any():
        raise ParameterError(f"q must be in [0, 1], got {q[outside].ravel()[0] if q.ndim else float(q):g}")
    return q


def rows_at(index: Any) -> Any:
    """An index that keeps the axis of rows: one position becomes a list of one."""
    return [index] if isinstance(index, Integral) else index


def _nodes() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [0, 1]: Gauss-Legendre in s with sin²(πs/2), which takes them to both ends, where quantiles bend."""
    x, weight = np.polynomial.legendre.leggauss(_NODES)
    s = np.pi * (x + 1) / 4
    return np.sin(s) ** 2, weight / 2 * np.pi / 2 * np.sin(2 * s)
