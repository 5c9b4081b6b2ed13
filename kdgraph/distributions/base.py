"""Predictive distributions of n rows, and the array helpers that all families share.

:class:`Distribution` follows the vocabulary of ``scipy.stats`` and adds two methods.
``extended_cdf`` continues the distribution function below 0 and above 1, so that it orders outcomes
far in the tails, as recalibration needs, and ``extended_ppf`` is its inverse. A :class:`ScoreScale`
maps these extended levels to normal scores, on which a regression across a neighbourhood has a
meaning. The extension is original to kdgraph.

The functions above the classes evaluate one step function for each row, for all rows at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from kdgraph.docstrings import inherit_descriptions
from kdgraph.errors import ParameterError

LEVEL_TOLERANCE = 1e-12
"""Relative difference below which two levels are equal: (1 - 0.95)/2 is 0.025 only to the 16th
digit.
"""
BLOCK_VALUES = 1 << 18
"""Largest number of values in an array that holds one block of rows: 2 MB.

No result depends on it.
"""
_CRPS_NODES = 64
"""Quadrature nodes of :meth:`Distribution.crps` on each side of the outcome.

The CRPS of a normal distribution is then accurate to 2e-8.
"""
_MIN_UNIFORM = 2.0**-54
"""Level below every positive number that ``Generator.random`` returns."""
_FINITE_LEVELS = 1e-300, 1 - 2.0**-53
"""Smallest and largest level of the quadrature: quantiles are finite there, and the part of the
integral beyond them is negligible.
"""
_MAX_SCORE = 37.5
"""Normal score of 5e-308, the smallest probability that a float64 holds in either tail.

Scores beyond it have no quantile.
"""


def count_in_rows(increasing: np.ndarray, values: np.ndarray, *, equal: bool) -> np.ndarray:
    """Return how many numbers of each increasing row, Float[n, k], are below values of Float[n, j].

    ``equal`` counts numbers that are equal to the value, too.
    """
    # numpy has no searchsorted along an axis. All rows are bisected together, in log2(k) passes
    # over n·j numbers. The result stays within [low, high]; where low = high it no longer changes.
    low = np.zeros(values.shape, dtype=np.intp)
    high = np.full_like(low, increasing.shape[1])
    for _ in range(increasing.shape[1].bit_length()):
        middle = (low + high) // 2
        pivot = np.take_along_axis(increasing, np.minimum(middle, increasing.shape[1] - 1), axis=1)
        is_right = (low < high) & ((pivot <= values) if equal else (pivot < values))
        low, high = np.where(is_right, middle + 1, low), np.where(is_right, high, middle)
    return low


def cumulative_weight(weights: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the fraction of each row's weights, Float[n, k], that its first entries have.

    ``count``, Int[n, j], are numbers of first entries.
    """
    totals = np.cumsum(weights, axis=1, dtype=np.float64)
    fraction = np.take_along_axis(totals, np.maximum(count - 1, 0), axis=1) / totals[:, -1:]
    return np.where(count > 0, fraction, 0.0)


def first_step_reaching(weights: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the first step at which the cumulative weight of a row reaches each level, Int[n, j].

    This is the left-continuous inverse of :func:`cumulative_weight`; levels are equal if they
    differ relatively by less than 1e-12.
    """
    totals = np.cumsum(weights, axis=1, dtype=np.float64)
    # At level 0 the result is the first step that has weight, not a step of weight 0 before it.
    smallest = np.finfo(np.float64).tiny
    target = np.maximum(q * (1 - LEVEL_TOLERANCE) * totals[:, -1:], smallest)
    return np.minimum(count_in_rows(totals, target, equal=False), weights.shape[1] - 1)


def normalise_weights(weights: np.ndarray) -> np.ndarray:
    """Return weights Float64[n, k] divided by the sum of their row.

    The sum is sequential, so that zeros at the end of a row change no bit.
    """
    return weights / np.cumsum(weights, axis=1, dtype=np.float64)[:, -1:]


def row_blocks(n: int, width: int) -> Iterator[slice]:
    """Yield slices of n consecutive rows that hold at most :data:`BLOCK_VALUES` values."""
    step = max(BLOCK_VALUES // max(width, 1), 1)
    yield from (slice(first, min(first + step, n)) for first in range(0, n, step))


def apply_by_row(
    function: Callable[..., np.ndarray], n: int, values: np.ndarray | float, *parameters: np.ndarray
) -> np.ndarray:
    """Return ``function(values, *parameters)`` with the parameters of each row on its values.

    Values are Float[n], Float[n, m] or a number, parameters Float[n]; the function broadcasts.
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


def apply_to_matrix(
    function: Callable[[np.ndarray], np.ndarray], n: int, values: np.ndarray | float
) -> np.ndarray:
    """Return a function of Float[n, j] at values that ``cdf`` accepts, in their shape."""
    checked = apply_by_row(lambda unchanged: unchanged, n, values)
    if checked.ndim == 2:
        return function(checked)
    return function(np.broadcast_to(checked, n)[:, None])[:, 0]


def check_levels(q: np.ndarray | float) -> np.ndarray:
    """Return levels as an array of the same shape, after a check that all are in [0, 1]."""
    q = np.asarray(q, dtype=np.float64)
    outside = ~((q >= 0) & (q <= 1))
    if outside.any():
        raise ParameterError(
            f"q must be in [0, 1], got {q[outside].ravel()[0] if q.ndim else float(q):g}"
        )
    return q


def levels_by_row(q: np.ndarray, n: int) -> np.ndarray:
    """Return levels Float[m], Float[n, m] or a number as Float[n, m]."""
    return np.broadcast_to(q, q.shape if q.ndim == 2 else (n, q.size))


def keep_row_axis(index: Any) -> Any:
    """Return an index that keeps the axis of rows: one position becomes a list of one."""
    return [index] if isinstance(index, Integral) else index


def endpoint_quadrature(n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return increasing nodes and weights, Float[m] each, on [0, 1] that are dense at both ends.

    The nodes are sin²(πs/2) of the Gauss-Legendre nodes s, because quantile functions bend most
    near 0 and 1 (Gauss-Legendre quadrature of numpy; the substitution is original to kdgraph).
    """
    x, weight = np.polynomial.legendre.leggauss(n_nodes)
    s = np.pi * (x + 1) / 4
    return np.sin(s) ** 2, weight / 2 * np.pi / 2 * np.sin(2 * s)


def normal_cdf(z: np.ndarray) -> np.ndarray:
    # Imported here, because commands that only list configurations must not wait for scipy.
    """Return the standard normal distribution function, elementwise."""
    from scipy.special import ndtr

    return ndtr(z)


def normal_ppf(q: np.ndarray) -> np.ndarray:
    # scipy.stats.norm.ppf takes nine times as long.
    """Return the standard normal quantile function, elementwise."""
    from scipy.special import ndtri

    return ndtri(q)


def standardised_levels(cdf: Callable[[np.ndarray], np.ndarray], z: np.ndarray) -> np.ndarray:
    """Return ``cdf(z)``, or z where that is rounded to 0 or 1 and z is beyond it, elementwise."""
    p = cdf(z)
    return np.where(((p == 0) & (z < 0)) | ((p == 1) & (z > 1)), z, p)


def standardised_values(ppf: Callable[[np.ndarray], np.ndarray], levels: np.ndarray) -> np.ndarray:
    """Return the inverse of :func:`standardised_levels`, elementwise."""
    beyond = (levels < 0) | (levels > 1)
    return np.where(beyond, levels, ppf(np.where(beyond, 0.5, levels)))


class ScoreScale(ABC):
    """Scale of normal scores z of extended levels.

    A score is Φ⁻¹(p) for a level p inside (0, 1). Beyond 0 and 1 it depends on the coordinate in
    which a family continues its levels, see :meth:`Distribution.extended_cdf`.
    """

    @abstractmethod
    def to_scores(self, levels: np.ndarray) -> np.ndarray:
        """Return the scores of extended levels, Float[...], elementwise and increasing."""

    @abstractmethod
    def to_levels(self, scores: np.ndarray) -> np.ndarray:
        """Return the inverse of :meth:`to_scores`, Float[...], elementwise."""


@dataclass(frozen=True)
class StandardisedScores(ScoreScale):
    """Scores of normal distributions, elementwise.

    Levels beyond 0 and 1 are standardised values themselves.
    """

    def to_scores(self, levels: np.ndarray) -> np.ndarray:
        return standardised_values(normal_ppf, levels)

    def to_levels(self, scores: np.ndarray) -> np.ndarray:
        return standardised_levels(normal_cdf, scores)


@dataclass(frozen=True)
class LogTailScores(ScoreScale):
    """Scores, elementwise, of families with levels log F(y) below 0, 1 - log P(Y > y) above 1."""

    def to_scores(self, levels: np.ndarray) -> np.ndarray:
        from scipy.special import ndtri_exp

        beyond, below = levels > 1, levels < 0
        inside = normal_ppf(np.where(beyond | below, 0.5, levels))
        above = -ndtri_exp(np.where(beyond, 1 - levels, -1.0))
        low_side = np.where(below, ndtri_exp(np.where(below, levels, -1.0)), inside)
        return np.clip(np.where(beyond, above, low_side), -_MAX_SCORE, _MAX_SCORE)

    def to_levels(self, scores: np.ndarray) -> np.ndarray:
        from scipy.special import log_ndtr

        scores = np.clip(scores, -_MAX_SCORE, _MAX_SCORE)
        levels = normal_cdf(scores)
        beyond = levels == 1
        return np.where(beyond, 1 - log_ndtr(-np.where(beyond, scores, 1.0)), levels)


@dataclass(frozen=True)
class SampleScores(ScoreScale):
    """Scores of samples: levels beyond 0 and 1 count standard deviations beyond the sample.

    Beyond the first and the last value, scores grow by one for each standard deviation,
    elementwise.
    """

    last_score: float

    @classmethod
    def from_size(cls, m: int) -> SampleScores:
        """Return the scale of m equal steps: the last value has the level 1 - 1/2m."""
        return cls(float(normal_ppf(np.array(1 - 0.5 / m))))

    def to_scores(self, levels: np.ndarray) -> np.ndarray:
        inside = np.clip(levels, 0.0, 1.0)
        scores = np.clip(normal_ppf(inside), -self.last_score, self.last_score)
        return scores + (levels - inside)

    def to_levels(self, scores: np.ndarray) -> np.ndarray:
        inside = np.clip(scores, -self.last_score, self.last_score)
        beyond = scores - inside
        return np.where(beyond == 0, normal_cdf(inside), beyond + (beyond > 0))


class StandardForm(NamedTuple):
    """Distributions of n rows as loc + scale·Z with one Z for all.

    Attributes
    ----------
    loc, scale : Float[n]
        Location and scale of each row.
    extended_ppf : callable
        Values of Z at extended levels (:meth:`Distribution.extended_cdf`), elementwise. They are
        the same for all rows.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> form = Normal(np.array([0.0, 10.0]), np.array([1.0, 2.0])).standard_form()
    >>> (form.loc + form.scale * form.extended_ppf(np.array(0.975))).round(2).tolist()
    [1.96, 13.92]
    """

    loc: np.ndarray
    scale: np.ndarray
    extended_ppf: Callable[[np.ndarray], np.ndarray]


class Distribution(ABC):
    """Predictive distributions of a continuous outcome, one for each of n rows.

    The vocabulary is that of ``scipy.stats``. A subclass implements ``len``, ``d[index]`` (the
    distributions of fewer rows; the index is a slice, Int[m], Bool[n] or one position),
    :meth:`cdf`, :meth:`ppf`, :meth:`mean` and :meth:`var`. A family that has a density implements
    ``pdf``, with the arguments of :meth:`cdf`. The distribution of a row does not depend on other
    rows.

    Examples
    --------
    >>> class UniformFromZero(Distribution):  # intervals, draws and CRPS follow from the quantiles
    ...     def __init__(self, width):
    ...         self.width = np.asarray(width, dtype=np.float64)
    ...     def __len__(self):
    ...         return len(self.width)
    ...     def __getitem__(self, index):
    ...         return UniformFromZero(self.width[keep_row_axis(index)])
    ...     def cdf(self, y):
    ...         return np.clip(apply_by_row(np.divide, len(self), y, self.width), 0, 1)
    ...     def ppf(self, q):
    ...         q = check_levels(q)
    ...         return (self.width[:, None] if q.ndim else self.width) * q
    ...     def mean(self):
    ...         return self.width / 2
    ...     def var(self):
    ...         return self.width**2 / 12
    >>> uniform = UniformFromZero([1.0, 10.0])
    >>> [ends.round(2).tolist() for ends in uniform.interval(0.9)]
    [[0.05, 0.5], [0.95, 9.5]]
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherit_descriptions(cls)

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: Any) -> Distribution: ...

    @abstractmethod
    def cdf(self, y: np.ndarray | float) -> np.ndarray:
        """Return P(Y <= y) of each row, Float[n] or Float[n, m].

        ``y`` are one value for each row, Float[n], m values for each row, Float[n, m], or one value
        for all.
        """

    @abstractmethod
    def ppf(self, q: np.ndarray | float) -> np.ndarray:
        """Return the smallest y with cdf(y) >= q, Float[n, m], or Float[n] for a number.

        ``q`` are levels in [0, 1]: Float[m], the same levels for every row, Float[n, m], levels of
        each row, or one level; others raise :class:`~kdgraph.errors.ParameterError`. At 0 and 1 the
        result is where the distribution begins and ends.
        """

    def extended_cdf(self, y: np.ndarray | float) -> np.ndarray:
        """Return a number that orders values, as in :meth:`cdf`, also far in the tails.

        The number is ``cdf(y)``, unless that is rounded to 0 or 1. There, a family that can still
        order the values returns a number below 0 or above 1, in its own coordinate. The number is
        infinite if a value is beyond everything possible and its distance is undefined.
        """
        return self.cdf(y)

    def extended_ppf(self, levels: np.ndarray) -> np.ndarray:
        """Return the values Float[n, m] that have these levels of :meth:`extended_cdf`.

        Levels are Float[m], the same for every row, or Float[n, m].
        """
        return self.ppf(levels)

    def fallback_levels(self) -> tuple[float, float]:
        """Return finite levels, below and above, of values whose distance is undefined.

        They replace levels of :meth:`extended_cdf` that are 0, 1 or infinite. By default they are
        the numbers next to 0 and 1 in (0, 1).
        """
        return float(np.nextafter(0.0, 1.0)), float(np.nextafter(1.0, 0.0))

    def score_scale(self) -> ScoreScale:
        """Return the scale of normal scores of the levels of :meth:`extended_cdf`."""
        return LogTailScores()

    def standard_form(self) -> StandardForm | None:
        """Return the common form of rows that differ in location and scale only, else None."""
        return None

    @abstractmethod
    def mean(self) -> np.ndarray:
        """Return the mean of each row, Float[n]."""

    @abstractmethod
    def var(self) -> np.ndarray:
        """Return the variance of each row, Float[n]."""

    def interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends Float[n], Float[n] of the central interval of each row.

        They are the quantiles at (1 - level)/2 and (1 + level)/2.
        """
        low, high = self.ppf(np.array([(1 - level) / 2, (1 + level) / 2])).T
        return low, high

    def sample(self, m: int, rng: np.random.Generator) -> np.ndarray:
        """Return ``m`` independent draws for each row, Float[n, m]."""
        return self.ppf(np.maximum(rng.random((len(self), m)), _MIN_UNIFORM))

    @np.errstate(under="ignore")
    def crps(self, y: np.ndarray) -> np.ndarray:
        """Return the continuous ranked probability score, Float[n], of outcomes y, Float[n].

        CRPS = ∫ (F(x) - [x >= y])² dx = 2 ∫₀^F(y) τ (y - F⁻¹(τ)) dτ + 2 ∫_F(y)^1 (1 - τ) (F⁻¹(τ) -
        y) dτ (Gneiting and Raftery, "Strictly proper scoring rules, prediction, and estimation",
        JASA 102, 2007, Eq. 20). This method evaluates the second form by quadrature; subclasses
        with a closed form override it.
        """
        # The integrand has a kink at F(y), so each side of it has its own quadrature. Both sides
        # use τ or 1 - τ itself, not one minus the other: this keeps the digits of small tails.
        nodes, weights = endpoint_quadrature(_CRPS_NODES)
        y = np.asarray(y, dtype=np.float64)
        score = np.empty(len(self))
        for rows in row_blocks(len(self), 2 * _CRPS_NODES):
            block, outcome = self[rows], y[rows, None]
            below = block.cdf(y[rows])[:, None]
            low, high = below * nodes, (1 - below) * nodes
            low_quantiles = block.ppf(np.clip(low, *_FINITE_LEVELS))
            lower_part = (weights * low * (outcome - low_quantiles)).sum(axis=1)
            high_quantiles = block.ppf(np.clip(1 - high, *_FINITE_LEVELS))
            upper_part = (weights * high * (high_quantiles - outcome)).sum(axis=1)
            score[rows] = 2 * (lower_part * below[:, 0] + upper_part * (1 - below[:, 0]))
        return score
