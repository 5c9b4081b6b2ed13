"""Step functions, one for each row: where values and levels fall among steps, all rows at once;
ours.

Rows of distributions against values and levels: shapes, blocks and checks that all families share.

Normal scores of PIT values, and back: the scale on which a slope across a neighbourhood means
something, however far out. Ours.

What the predictive distributions of n rows can be asked, and what follows from their quantiles
alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from kdgraph.errors import ParameterError

SAME = 1e-12
"""Two levels that differ relatively by less are one: (1 - 0.95)/2 is 0.025 to the 16th digit
only.
"""


def count_in_rows(increasing: np.ndarray, values: np.ndarray, *, equal: bool) -> np.ndarray:
    """Int[n, j]: how many of a row's numbers, Float[n, k] increasing, are below each of its values,
    Float[n, j]; or, ``equal``, not above.

    By bisection of all rows together: log k steps over n·j numbers.

    >>> count_in_rows(np.array([[1.0, 2.0, 2.0]]), np.array([[2.0, 5.0]]), equal=False).tolist()
    [[1, 3]]
    """
    low, high = (
        np.zeros(values.shape, dtype=np.intp),
        np.full(values.shape, increasing.shape[1], dtype=np.intp),
    )
    for _ in range(increasing.shape[1].bit_length()):
        middle = (low + high) // 2
        at = np.take_along_axis(increasing, np.minimum(middle, increasing.shape[1] - 1), axis=1)
        more = (low < high) & ((at <= values) if equal else (at < values))
        low, high = np.where(more, middle + 1, low), np.where(more, high, middle)
    return low


def steps_up_to(weights: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Float[n, j]: the share of the first ``count``, Int[n, j], of a row's weights, Float[n, k], in
    their sum.
    """
    reached = np.cumsum(weights, axis=1, dtype=np.float64)
    share = np.take_along_axis(reached, np.maximum(count - 1, 0), axis=1) / reached[:, -1:]
    return np.where(count > 0, share, 0.0)


def steps_at(weights: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Int[n, j]: the first step at which a row's weights, Float[n, k], reach the share q, Float[n,
    j]; one that has weight.

    The left-continuous inverse of :func:`steps_up_to`, inf {i: share(i) >= q}; shares that are
    relatively within :data:`SAME` are equal.
    """
    reached = np.cumsum(weights, axis=1, dtype=np.float64)
    least = np.finfo(np.float64).tiny  # at level 0 the first step that has weight
    return np.minimum(
        count_in_rows(reached, np.maximum(q * (1 - SAME) * reached[:, -1:], least), equal=False),
        weights.shape[1] - 1,
    )


def shares(weights: np.ndarray) -> np.ndarray:
    """Float64[n, k]: weights relative to their sum, in which zeros at the end change no bit."""
    return weights / np.cumsum(weights, axis=1, dtype=np.float64)[:, -1:]


VALUES_AT_A_TIME = 1 << 18
"""Of an array with a row for each of the n rows: 2 MB. No number depends on it."""


def blocks(n: int, width: int) -> Iterator[slice]:
    """Consecutive rows, so few that an array with ``width`` values for each has at most
    :data:`VALUES_AT_A_TIME` of them.
    """
    step = max(VALUES_AT_A_TIME // max(width, 1), 1)
    yield from (slice(first, min(first + step, n)) for first in range(0, n, step))


def by_row(
    function: Callable[..., np.ndarray], n: int, values: np.ndarray | float, *parameters: np.ndarray
) -> np.ndarray:
    """``function(values, *parameters)`` with parameters Float[n] against values Float[n], Float[n,
    m] or a number.

    Raises
    ------
    ValueError
        If there is not one row of values for each of the n rows.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim > 2 or (values.ndim and len(values) != n):
        raise ValueError(
            f"there are distributions of {n} rows: values must have shape ({n},) or ({n}, m), got"
            f" {values.shape}"
        )
    return function(
        values, *(parameter[:, None] if values.ndim == 2 else parameter for parameter in parameters)
    )


def checked_levels(q: np.ndarray | float) -> np.ndarray:
    """Levels as an array of the same shape, or a ParameterError; see :meth:`Distribution.ppf
    <kdgraph.distributions.Distribution.ppf>`.
    """
    q = np.asarray(q, dtype=np.float64)
    outside = ~((q >= 0) & (q <= 1))
    if outside.any():
        raise ParameterError(
            f"q must be in [0, 1], got {q[outside].ravel()[0] if q.ndim else float(q):g}"
        )
    return q


def rows_at(index: Any) -> Any:
    """An index that keeps the axis of rows: one position becomes a list of one."""
    return [index] if isinstance(index, Integral) else index


_MOST = 37.5
"""The score of the smallest number that a probability can be in either tail, 5e-308; what lies
beyond has no quantile.
"""


class Scores(ABC):
    """A scale of z for :meth:`~kdgraph.distributions.Distribution.levels`: Φ⁻¹(p), and beyond 0 and
    1 what the family can tell; ours.
    """

    @abstractmethod
    def of(self, levels: np.ndarray) -> np.ndarray:
        """Scores of levels, Float[...], elementwise; increasing. Ours."""

    @abstractmethod
    def levels(self, scores: np.ndarray) -> np.ndarray:
        """The inverse of :meth:`of`, Float[...], elementwise. Ours."""


@dataclass(frozen=True)
class Standardised(Scores):
    """Of normal distributions: levels Float[...] beyond 0 and 1 are standardised values themselves;
    ours.
    """

    def of(self, levels: np.ndarray) -> np.ndarray:  # noqa: D102 - as in the base
        beyond = (levels < 0) | (levels > 1)
        return np.where(beyond, levels, _ppf(np.where(beyond, 0.5, levels)))

    def levels(self, scores: np.ndarray) -> np.ndarray:  # noqa: D102
        p = _cdf(scores)
        return np.where(((p == 0) & (scores < 0)) | ((p == 1) & (scores > 1)), scores, p)


@dataclass(frozen=True)
class LogTails(Scores):
    """Of other families: levels beyond 0 and 1 are logarithms, log F(y) below, 1 - log P(Y > y)
    above; ours.

    Examples
    --------
    >>> LogTails().of(np.array([0.5, 51.0])).round(2).tolist()  # P(Y > y) = exp(-50)
    [0.0, 9.67]
    """

    def of(self, levels: np.ndarray) -> np.ndarray:  # noqa: D102
        from scipy.special import ndtri_exp

        beyond, below = levels > 1, levels < 0
        inside = _ppf(np.where(beyond | below, 0.5, levels))
        above = -ndtri_exp(np.where(beyond, 1 - levels, -1.0))
        return np.clip(
            np.where(
                beyond, above, np.where(below, ndtri_exp(np.where(below, levels, -1.0)), inside)
            ),
            -_MOST,
            _MOST,
        )

    def levels(self, scores: np.ndarray) -> np.ndarray:  # noqa: D102
        from scipy.special import log_ndtr

        scores = np.clip(scores, -_MOST, _MOST)
        levels = _cdf(scores)
        beyond = levels == 1
        return np.where(beyond, 1 - log_ndtr(-np.where(beyond, scores, 1.0)), levels)


@dataclass(frozen=True)
class OfSamples(Scores):
    """Of samples: levels beyond 0 and 1 are standard deviations beyond the first and the last
    value, and scores go on with them; ours.

    Parameters
    ----------
    last : score of the last value.

    Examples
    --------
    >>> OfSamples(2.0).of(np.array([0.5, 0.9999, 1.5])).tolist()
    [0.0, 2.0, 2.5]
    """

    last: float

    @classmethod
    def steps(cls, m: int) -> OfSamples:
        """Of m equal steps: the last value is at the middle of its step, 1 - 1/2m; ours."""
        return cls(float(_ppf(np.array(1 - 0.5 / m))))

    def of(self, levels: np.ndarray) -> np.ndarray:  # noqa: D102
        inside = np.clip(levels, 0.0, 1.0)
        return np.clip(_ppf(inside), -self.last, self.last) + (levels - inside)

    def levels(self, scores: np.ndarray) -> np.ndarray:  # noqa: D102
        inside = np.clip(scores, -self.last, self.last)
        beyond = scores - inside
        return np.where(beyond == 0, _cdf(inside), beyond + (beyond > 0))


def _cdf(z: np.ndarray) -> np.ndarray:
    from scipy.special import (
        ndtr,
    )  # here, not above: who only lists configurations must not wait for scipy

    return ndtr(z)


def _ppf(p: np.ndarray) -> np.ndarray:
    from scipy.special import ndtri

    return ndtri(p)


_NODES = 64
"""Of the quadrature of :meth:`Distribution.crps`, on each side of the observation: of a normal
distribution it is right to 2e-8.
"""
_SMALLEST = 2.0**-54
"""A level below all that ``Generator.random`` gives but 0."""
_INSIDE = 1e-300, 1 - 2.0**-53
"""Levels at which quantiles are finite, so near to 0 and 1 that no more of an integral lies
beyond.
"""


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
    """Predictive distributions of a continuous outcome, one for each of n rows; the vocabulary is
    that of ``scipy.stats``.

    A subclass says ``len``, ``d[index]`` (a slice, Int[m], Bool[n] or one position: the same
    distributions of fewer rows), :meth:`cdf`, :meth:`ppf`, :meth:`mean` and :meth:`var`; where
    there is a density, ``pdf`` takes what :meth:`cdf` takes. What a row's distribution is does not
    depend on the rows beside it.
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: Any) -> Distribution: ...

    @abstractmethod
    def cdf(self, y: np.ndarray | float) -> np.ndarray:
        """P(Y <= y) of each row: Float[n] of y, Float[n] or a number; Float[n, m] of Float[n, m], m
        values for each row.
        """

    @abstractmethod
    def ppf(self, q: np.ndarray | float) -> np.ndarray:
        """The smallest y with cdf(y) >= q.

        Parameters
        ----------
        q : levels in [0, 1]: a number, for Float[n]; Float[m], the same for every row, for Float[n,
            m]; Float[n, m], for each row its own. At 0 and 1 it is where the distribution begins
            and ends.

        Raises
        ------
        ParameterError : for a level outside [0, 1], or NaN.
        """

    def levels(self, y: np.ndarray | float) -> np.ndarray:
        """A number that orders values as ``cdf`` does, of y as in :meth:`cdf`: ``cdf(y)``, unless
        that is 0 or 1 to the last bit.

        There a family that can still tell values apart gives a number below 0 or above 1, in a
        coordinate of its own; infinity where it is known that a value is beyond all that is
        possible, and not how far.
        """
        return self.cdf(y)

    def at_levels(self, levels: np.ndarray) -> np.ndarray:
        """The values that have these :meth:`levels`: Float[n, m] of Float[m], the same for every
        row, or of Float[n, m].
        """
        return self.ppf(levels)

    def unknown_levels(self) -> tuple[float, float]:
        """Finite levels below and above, for values of which :meth:`levels` cannot tell how far out
        they are: 0 or 1, or infinite.
        """
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
        """Float[n], Float[n]: the central interval, from the quantile at (1 - level)/2 to that at
        (1 + level)/2; ``level`` in [0, 1].
        """
        low, high = self.ppf(np.array([(1 - level) / 2, (1 + level) / 2])).T
        return low, high

    def sample(self, m: int, rng: np.random.Generator) -> np.ndarray:
        """Float[n, m]: ``m`` independent draws for each row."""
        return self.ppf(np.maximum(rng.random((len(self), m)), _SMALLEST))

    @np.errstate(under="ignore")
    def crps(self, y: np.ndarray) -> np.ndarray:
        """Continuous ranked probability score, Float[n] of y: Float[n], in the units of y.

        CRPS = ∫ (F(x) - [x >= y])² dx = 2 ∫₀^F(y) τ (y - F⁻¹(τ)) dτ + 2 ∫_F(y)^1 (1 - τ) (F⁻¹(τ) -
        y) dτ, here by quadrature of the second form; a subclass that knows better says so.

        References
        ----------
        Gneiting and Raftery, "Strictly proper scoring rules, prediction, and estimation", JASA 102,
        2007, Eq. 20; Laio and Tamea, "Verification tools for probabilistic forecasts", Hydrology
        and Earth System Sciences 11, 2007.
        """
        share, weight = _nodes()
        y = np.asarray(y, dtype=np.float64)
        score = np.empty(len(self))
        for rows in blocks(len(self), 2 * _NODES):
            some, at = self[rows], y[rows, None]
            below = some.cdf(y[rows])[:, None]
            low, high = below * share, (1 - below) * share  # τ and 1 - τ
            left = (weight * low * (at - some.ppf(np.clip(low, *_INSIDE)))).sum(axis=1) * below[
                :, 0
            ]
            right = (weight * high * (some.ppf(np.clip(1 - high, *_INSIDE)) - at)).sum(axis=1) * (
                1 - below[:, 0]
            )
            score[rows] = 2 * (left + right)
        return score


def _nodes() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [0, 1]: Gauss-Legendre in s with sin²(πs/2), which takes them to both
    ends, where quantiles bend.
    """
    x, weight = np.polynomial.legendre.leggauss(_NODES)
    s = np.pi * (x + 1) / 4
    return np.sin(s) ** 2, weight / 2 * np.pi / 2 * np.sin(2 * s)
