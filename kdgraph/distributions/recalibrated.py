"""Maps of PIT values: how often the values F(y) of a forecaster are really below p, as a
distribution function R on [0, 1].

A map of PIT values without steps: linear between knots (Kuleshov et al. 2018, Algorithm 1).

A forecaster's distributions behind a map of its PIT values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from kdgraph.distributions.base import SAME, Distribution, Standard, blocks, checked_levels, rows_at
from kdgraph.distributions.samples import (
    crps_of_one_sample,
    crps_of_samples,
    mean_of_samples,
    var_of_samples,
)


class PitMap(ABC):
    """A distribution function R of PIT values, one for all rows or one for each;
    :class:`Recalibrated` puts it behind F.

    Torres et al. (2024), Algorithm 1, have one for each row. PIT values are in (0, 1), or beyond,
    where F is 0 or 1 to the last bit: see :meth:`Distribution.levels`.
    """

    has_steps: ClassVar[bool] = True
    """Whether R is constant but for steps, so that sums over its atoms are exact."""

    @property
    def width(self) -> int | None:
        """How many atoms a row has, where each row has its own; None where all rows have one
        map.
        """
        return None

    @abstractmethod
    def moved(self, function: Callable[[np.ndarray], np.ndarray]) -> PitMap:
        """The map whose atoms are at ``function`` of those here, an increasing function of arrays,
        elementwise.
        """

    @abstractmethod
    def __getitem__(self, index: Any) -> Self:
        """The maps of fewer rows; itself where all rows have one."""

    @abstractmethod
    def cdf(self, p: np.ndarray) -> np.ndarray:
        """R(p) of PIT values p: Float[n], or Float[n, m] with m values for each row."""

    @abstractmethod
    def ppf(self, q: np.ndarray) -> np.ndarray:
        """The smallest p with R(p) >= q, of levels in [0, 1]: Float[m] of Float[m] where all rows
        have one map, else Float[n, m]; and Float[n, m] of Float[n, m].
        """

    @abstractmethod
    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the mass of R is: PIT values in increasing order and their weights, which sum to 1.

        Both Float[m] where all rows have one map, Float[n, k] where each has its own. A map without
        steps gives nodes and weights of a quadrature.
        """


@dataclass(frozen=True, eq=False)
class WeightedEcdf(PitMap):
    """R is the weighted empirical distribution function of PIT values: a step of height w_i / Σw at
    each of them.

    ``ppf`` is its left-continuous inverse, inf {p: R(p) >= q}, so every quantile is one of the
    values ("inverted_cdf" of numpy, type 1 of Hyndman and Fan, The American Statistician 50, 1996).
    At level 0 it is the smallest value. Levels within 1e-12 of a step, relatively, are on it.

    Attributes
    ----------
    levels : Float[m], increasing.
    cumulative : Float[m], R at each of them; the last is 1.

    Examples
    --------
    >>> ecdf = WeightedEcdf.of(np.array([0.9, 0.2, 0.5]), np.array([2.0, 1.0, 1.0]))
    >>> ecdf.cdf(np.array([0.1, 0.2, 0.7])).tolist(), ecdf.ppf(np.array([0.25, 0.26, 0.51])).tolist()
    ([0.0, 0.25, 0.5], [0.2, 0.5, 0.9])
    """

    levels: np.ndarray
    cumulative: np.ndarray

    @classmethod
    def of(cls, pits: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """From PIT values Float[m] in any order, in (0, 1) or beyond, and weights Float[m], not
        negative; None: all the same.

        Raises
        ------
        ValueError
            For 0 or 1, whose quantile may be infinite; for no value, for weights that are negative
            or all 0.
        """
        pits = np.asarray(pits, dtype=np.float64)
        wrong = ~np.isfinite(pits) | (pits == 0) | (pits == 1)
        if pits.ndim != 1 or not pits.size or wrong.any():
            got = pits[wrong][0] if wrong.any() else pits.shape
            raise ValueError(
                f"PIT values must be at least one number, none of them 0 or 1, got {got}"
            )
        if weights is None:  # exact, as a sum of equal weights is not
            return cls(np.sort(pits), np.arange(1, len(pits) + 1) / len(pits))
        weights = np.asarray(weights, dtype=np.float64)
        if (
            weights.shape != pits.shape
            or not (np.isfinite(weights) & (weights >= 0)).all()
            or not weights.any()
        ):
            raise ValueError(
                f"weights must be {len(pits)} numbers from 0, not all 0, got {weights.tolist()[:5]}"
            )
        order = np.argsort(pits, kind="stable")
        order = order[weights[order] > 0]
        cumulative = np.cumsum(weights[order])
        return cls(pits[order], cumulative / cumulative[-1])

    def __getitem__(self, index: Any) -> Self:
        return self

    def moved(self, function: Callable[[np.ndarray], np.ndarray]) -> WeightedEcdf:  # noqa: D102 - as in the base
        return replace(self, levels=function(self.levels))

    def cdf(self, p: np.ndarray) -> np.ndarray:  # noqa: D102
        return np.append(0.0, self.cumulative)[np.searchsorted(self.levels, p, side="right")]

    def ppf(self, q: np.ndarray) -> np.ndarray:  # noqa: D102
        position = np.searchsorted(self.cumulative, q * (1 - SAME), side="left")
        return self.levels[np.minimum(position, len(self.levels) - 1)]

    def atoms(self) -> tuple[np.ndarray, np.ndarray]:  # noqa: D102
        return self.levels, np.diff(self.cumulative, prepend=0.0)


INSIDE = np.nextafter(0.0, 1.0), np.nextafter(1.0, 0.0)
"""The smallest and the largest number in (0, 1)."""
_NODES = 512
"""Of sums over R: of normal distributions behind maps of 100 knots, means are right to 1e-3 of a
standard deviation.
"""


@dataclass(frozen=True, eq=False)
class LinearMap(PitMap):
    """R is linear between knots, for all rows.

    Attributes
    ----------
    levels, cumulative : Float[m], increasing; the second from 0 to 1. Where it stays the same R is
        flat.

    Examples
    --------
    >>> bent = LinearMap(np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.8, 1.0]))
    >>> bent.cdf(np.array([0.25, 0.75])).tolist(), bent.ppf(np.array([0.4, 0.9])).tolist()
    ([0.4, 0.9], [0.25, 0.75])
    """

    levels: np.ndarray
    cumulative: np.ndarray

    has_steps: ClassVar[bool] = False

    @classmethod
    def of(cls, pits: np.ndarray) -> LinearMap:
        """Through (p_(i), i / (n + 1)) of sorted PIT values: a new one falls into each of the n + 1
        gaps alike.

        The map goes from 0 to 1. Where values are beyond, it goes to the farthest of them, ends
        there, and has nothing between 0 or 1 and the first value beyond: what lies there is in a
        coordinate of the family's own, see :meth:`Distribution.levels
        <kdgraph.distributions.Distribution.levels>`.
        """
        levels, count = np.unique(pits, return_counts=True)
        reached = np.cumsum(count) / (count.sum() + 1)
        below, above = int((levels < 0).sum()), int((levels <= 1).sum())
        parts = [
            (levels[:below], reached[:below]),
            (levels[below:above], reached[below:above]),
            (levels[above:], reached[above:]),
        ]
        if below:  # from just below the farthest; and from the one nearest to 0 to 0 itself
            parts.insert(0, (np.nextafter(levels[:1], -np.inf), np.zeros(1)))
            parts.insert(2, (np.array([INSIDE[0]]), reached[below - 1 : below]))
        else:
            parts.insert(0, (np.zeros(1), np.zeros(1)))
        if above < len(levels):
            parts.insert(-1, (np.array([INSIDE[1]]), reached[above : above + 1]))
            parts.append((np.nextafter(levels[-1:], np.inf), np.ones(1)))
        else:
            parts.append((np.ones(1), np.ones(1)))
        return cls(*(np.concatenate([part[side] for part in parts]) for side in (0, 1)))

    def __getitem__(self, index: Any) -> Self:
        return self

    def moved(self, function: Callable[[np.ndarray], np.ndarray]) -> WeightedEcdf:
        """Of the nodes that :meth:`atoms` gives."""
        levels, weights = self.atoms()
        return WeightedEcdf(function(levels), np.cumsum(weights))

    def cdf(self, p: np.ndarray) -> np.ndarray:  # noqa: D102 - as in the base
        return np.interp(p, self.levels, self.cumulative)

    def ppf(self, q: np.ndarray) -> np.ndarray:  # noqa: D102
        found = np.interp(q, self.cumulative, self.levels)
        found = np.where(
            (found == 0) & (q > 0), INSIDE[0], found
        )  # rounded: quantiles at 0 and at 1 may be infinite
        return np.where((found == 1) & (q < 1), INSIDE[1], found)

    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        """Nodes and weights of a quadrature that is finest at both ends: Gauss-Legendre in s with q
        = sin²(πs/2).
        """
        x, weight = np.polynomial.legendre.leggauss(_NODES)
        s = np.pi * (x + 1) / 4
        return self.ppf(np.sin(s) ** 2), weight * np.pi / 4 * np.sin(2 * s)


@dataclass(frozen=True, eq=False)
class Recalibrated(Distribution):
    """F_new(y) = R(F(y)): base distributions F, and R, how often their PIT values are really below
    p.

    Since F is increasing, quantiles are F⁻¹(R⁻¹(q)): a few inversions of F, no sample. With R the
    weighted empirical distribution function of PIT values p_i, this is the weighted sample F⁻¹(p_i)
    of Algorithm 1 of Torres et al. itself, not draws from it: mean, variance and CRPS are exact
    sums over it. It has steps and therefore no density, and ends where the smallest and the largest
    PIT value take it.

    Parameters
    ----------
    base : distributions of n rows.
    pit_map : R, one for all rows or one for each.

    Notes
    -----
    Of n rows with m atoms, the sums take n·m quantiles of the base, some rows at a time, so memory
    is linear in n and in m. Where the base differs from row to row in location and scale alone, as
    a normal one does and a Gamma of one shape, F⁻¹(p_i) = loc + scale·z_i with the same z_i for all
    rows, and m are enough: the standardised residual of a calibration row stands for its PIT value.

    F and its inverse are :meth:`Distribution.levels` and :meth:`Distribution.at_levels`, which go
    on where F is 0 or 1 to the last bit: 38 standard deviations below the mean of a normal
    distribution and 8.3 above it.

    References
    ----------
    Torres, Nott, Sisson, Rodrigues, Reis and Rodrigues, "Model-free local recalibration of neural
    networks", 2024, section 3 (Algorithm 1); Kuleshov, Fenner and Ermon, "Accurate uncertainties
    for deep learning using calibrated regression", ICML 2018.

    Examples
    --------
    >>> from kdgraph.distributions import Normal, WeightedEcdf
    >>> too_wide = Normal(np.array([0.0, 5.0]), np.array([1.0, 2.0]))
    >>> new = Recalibrated(too_wide, WeightedEcdf.of(np.array([0.4, 0.5, 0.6])))
    >>> new.ppf(np.array([0.1, 0.9])).round(3)
    array([[-0.253,  0.253],
           [ 4.493,  5.507]])
    >>> new.mean().round(6), new.cdf(np.array([0.1, 0.0])).round(3)
    (array([0., 5.]), array([0.667, 0.   ]))
    """

    base: Distribution
    pit_map: PitMap

    def __len__(self) -> int:
        return len(self.base)

    def __getitem__(self, index: Any) -> Recalibrated:
        return Recalibrated(self.base[rows_at(index)], self.pit_map[rows_at(index)])

    def cdf(self, y: np.ndarray | float) -> np.ndarray:  # noqa: D102 - as in the base class
        return self.pit_map.cdf(self.base.levels(y))

    def ppf(self, q: np.ndarray | float) -> np.ndarray:  # noqa: D102
        q = checked_levels(q)
        return self.base.at_levels(self.pit_map.ppf(q)) if q.ndim else self.ppf(q[None])[:, 0]

    def mean(self) -> np.ndarray:  # noqa: D102
        return self._sums(mean_of_samples, lambda mean, known: known.loc + known.scale * mean)

    def var(self) -> np.ndarray:  # noqa: D102
        return self._sums(var_of_samples, lambda var, known: known.scale**2 * var)

    def crps(self, y: np.ndarray) -> np.ndarray:
        """CRPS = 2 Σ_i w_i (y - x_i) (c_i - [y < x_i]) of the sample x_i = F⁻¹(p_i), with c_i the
        middle of the i-th step of R; exact.

        The integral over levels of twice the quantile score, step by step ("qd" in scoringrules;
        Jordan, Krueger and Lerch, "Evaluating probabilistic forecasts with scoringRules", Journal
        of Statistical Software 90, 2019). Of an R without steps by quadrature.
        """
        if not self.pit_map.has_steps:
            return super().crps(y)
        y, standard = np.asarray(y, dtype=np.float64), self.base.standard()
        at = y if standard is None else (y - standard.loc) / standard.scale
        if standard is not None and self.pit_map.width is None:
            x, weights = self.pit_map.moved(standard.at_levels).atoms()
            return standard.scale * crps_of_one_sample(x, weights, at)
        score = np.empty(len(self))
        for rows, x, weights in self._samples(standard):
            score[rows] = crps_of_samples(x, weights, at[rows])
        return score if standard is None else standard.scale * score

    def _sums(
        self,
        of_sample: Callable[[np.ndarray, np.ndarray], np.ndarray],
        moved: Callable[[np.ndarray, Standard], np.ndarray],
    ) -> np.ndarray:
        """Float[n]: ``of_sample(x, weights)`` of each row's sample; ``moved`` takes that of z to
        loc + scale·z.
        """
        standard = self.base.standard()
        if standard is not None and self.pit_map.width is None:
            return moved(of_sample(*self.pit_map.moved(standard.at_levels).atoms()), standard)
        sums = np.empty(len(self))
        for rows, x, weights in self._samples(standard):
            sums[rows] = of_sample(x, weights)
        return sums if standard is None else moved(sums, standard)

    def _samples(self, standard: Standard | None) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Some rows at a time, their samples and weights; of z, where the base is loc + scale·z."""
        width = len(self.pit_map.atoms()[0]) if self.pit_map.width is None else self.pit_map.width
        pit_map = self.pit_map if standard is None else self.pit_map.moved(standard.at_levels)
        for rows in blocks(len(self), width):
            x, weights = pit_map[rows].atoms()
            yield rows, x if standard is not None else self.base[rows].at_levels(x), weights
