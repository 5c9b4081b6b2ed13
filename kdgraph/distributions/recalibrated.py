"""Recalibrated predictive distributions: F_new(y) = R(F(y)).

R is the distribution function of the PIT values F(y) that a forecaster produced on calibration
rows. A map R is either a step function (Torres et al. 2024, Algorithm 1) or linear between knots
(Kuleshov et al. 2018, Algorithm 1), and it is the same for all rows or different for each; the maps
that differ by row are in :mod:`~kdgraph.distributions.row_pit_maps`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from kdgraph.distributions.base import (
    LEVEL_TOLERANCE,
    Distribution,
    StandardForm,
    check_levels,
    endpoint_quadrature,
    keep_row_axis,
    row_blocks,
)
from kdgraph.distributions.samples import (
    crps_of_one_sample,
    crps_of_samples,
    mean_of_samples,
    var_of_samples,
)
from kdgraph.docstrings import inherit_descriptions

_MIN_INSIDE, _MAX_INSIDE = np.nextafter(0.0, 1.0), np.nextafter(1.0, 0.0)
"""The smallest and the largest number in (0, 1)."""
_MOMENT_NODES = 512
"""Quadrature nodes of a linear map: behind normal distributions and maps of 100 knots, means are
accurate to 1e-3 of a standard deviation.
"""


class PitMap(ABC):
    """Distribution function R of PIT values, the same for all rows or different for each.

    Torres et al. (2024), Algorithm 1, have one for each row. PIT values are in (0, 1), or beyond it
    where F is rounded to 0 or 1: see :meth:`~kdgraph.distributions.Distribution.extended_cdf`.

    Examples
    --------
    >>> pits = [0.2, 0.5, 0.5]
    >>> for pit_map in (WeightedEcdf.from_pits(pits), LinearMap.from_pits(pits)):
    ...     print(pit_map.has_steps, pit_map.n_atoms, pit_map.cdf(np.array([0.2, 0.5])).round(2))
    True None [0.33 1.  ]
    False None [0.25 0.75]
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherit_descriptions(cls)

    has_steps: ClassVar[bool] = True
    """R is a step function, so that sums over its atoms are exact."""

    @property
    def n_atoms(self) -> int | None:
        """Number of atoms of a row, if each row has its own map; None if all rows have the same."""
        return None

    @abstractmethod
    def transform(self, function: Callable[[np.ndarray], np.ndarray]) -> PitMap:
        """Return the map with its atoms moved by an increasing elementwise function."""

    @abstractmethod
    def __getitem__(self, index: Any) -> Self:
        """Return the maps of fewer rows; the map itself if all rows have the same."""

    @abstractmethod
    def cdf(self, p: np.ndarray) -> np.ndarray:
        """Return R(p) of PIT values p: Float[n], or Float[n, m] with m values for each row."""

    @abstractmethod
    def ppf(self, q: np.ndarray) -> np.ndarray:
        """Return the smallest p with R(p) >= q of levels Float[m] or Float[n, m] in [0, 1].

        It is Float[n, m], or Float[m] for Float[m] if all rows have the same map.
        """

    @abstractmethod
    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        """Return increasing PIT values that hold the mass of R, and their weights.

        The weights sum to 1. Both are Float[m] if all rows have the same map, else Float[n, k]. A
        map without steps returns nodes and weights of a quadrature.
        """


@dataclass(frozen=True, eq=False)
class WeightedEcdf(PitMap):
    """Weighted empirical distribution function of PIT values, the same for all rows.

    R has a step of height w_i / Σw at each value. ``ppf`` is its left-continuous inverse, inf {p:
    R(p) >= q}, so that every quantile is one of the values ("inverted_cdf" of numpy, type 1 of
    Hyndman and Fan, The American Statistician 50, 1996). At level 0 it is the smallest value. A
    level within 1e-12 of a step, relatively, is equal to it.

    Attributes
    ----------
    levels, cumulative : Float[m], Float[m]
        PIT values, increasing, and R at each of them; the last is 1.

    Examples
    --------
    >>> ecdf = WeightedEcdf.from_pits(np.array([0.9, 0.2, 0.5]), np.array([2.0, 1.0, 1.0]))
    >>> ecdf.cdf(np.array([0.1, 0.2, 0.7])).tolist()
    [0.0, 0.25, 0.5]
    >>> ecdf.ppf(np.array([0.25, 0.26, 0.51])).tolist()
    [0.2, 0.5, 0.9]
    """

    levels: np.ndarray
    cumulative: np.ndarray

    @classmethod
    def from_pits(cls, pits: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """Return the distribution function of PIT values, Float[m] in any order.

        Values of 0 or 1, whose quantile may be infinite, and weights that are negative or all 0
        raise ValueError. None: equal weights.
        """
        pits = np.asarray(pits, dtype=np.float64)
        invalid = ~np.isfinite(pits) | (pits == 0) | (pits == 1)
        if pits.ndim != 1 or not pits.size or invalid.any():
            actual = pits[invalid][0] if invalid.any() else pits.shape
            raise ValueError(
                f"PIT values must be at least one number, none of them 0 or 1, got {actual}"
            )
        if weights is None:
            # Multiples of 1/m are exact; a sum of equal weights is not.
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

    def transform(self, function: Callable[[np.ndarray], np.ndarray]) -> WeightedEcdf:
        return replace(self, levels=function(self.levels))

    def cdf(self, p: np.ndarray) -> np.ndarray:
        return np.append(0.0, self.cumulative)[np.searchsorted(self.levels, p, side="right")]

    def ppf(self, q: np.ndarray) -> np.ndarray:
        position = np.searchsorted(self.cumulative, q * (1 - LEVEL_TOLERANCE), side="left")
        return self.levels[np.minimum(position, len(self.levels) - 1)]

    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        return self.levels, np.diff(self.cumulative, prepend=0.0)


@dataclass(frozen=True, eq=False)
class LinearMap(PitMap):
    """Distribution function of PIT values that is linear between knots, the same for all rows.

    Attributes
    ----------
    levels, cumulative : Float[m], Float[m]
        Knots, increasing, and R at the knots, from 0 to 1. R is flat between knots of the same
        value.

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
    def from_pits(cls, pits: np.ndarray) -> LinearMap:
        """Return the line through (p_(i), i / (n + 1)) of the sorted PIT values Float[n].

        A new value falls into each of the n + 1 gaps with the same probability. The line runs from
        0 to 1. If values are beyond 0 or 1, it ends at the farthest of them.
        """
        levels, count = np.unique(pits, return_counts=True)
        cumulative = np.cumsum(count) / (count.sum() + 1)
        # Levels beyond 0 and 1 are in another coordinate, which the family chooses. The line is
        # therefore flat between 0 (or 1) and the first value beyond it: no level lies there. It
        # ends with a jump just below the lowest value beyond 0 and just above the highest beyond 1.
        below, above = int((levels < 0).sum()), int((levels <= 1).sum())
        parts = [
            (levels[:below], cumulative[:below]),
            (levels[below:above], cumulative[below:above]),
            (levels[above:], cumulative[above:]),
        ]
        if below:
            parts.insert(0, (np.nextafter(levels[:1], -np.inf), np.zeros(1)))
            parts.insert(2, (np.array([_MIN_INSIDE]), cumulative[below - 1 : below]))
        else:
            parts.insert(0, (np.zeros(1), np.zeros(1)))
        if above < len(levels):
            parts.insert(-1, (np.array([_MAX_INSIDE]), cumulative[above : above + 1]))
            parts.append((np.nextafter(levels[-1:], np.inf), np.ones(1)))
        else:
            parts.append((np.ones(1), np.ones(1)))
        return cls(*(np.concatenate([part[side] for part in parts]) for side in (0, 1)))

    def __getitem__(self, index: Any) -> Self:
        return self

    def transform(self, function: Callable[[np.ndarray], np.ndarray]) -> WeightedEcdf:
        """Return the step function on the nodes of :meth:`atoms`, moved by ``function``."""
        levels, weights = self.atoms()
        return WeightedEcdf(function(levels), np.cumsum(weights))

    def cdf(self, p: np.ndarray) -> np.ndarray:
        return np.interp(p, self.levels, self.cumulative)

    def ppf(self, q: np.ndarray) -> np.ndarray:
        quantiles = np.interp(q, self.cumulative, self.levels)
        # Interpolation may round a level inside (0, 1) to 0 or 1, whose quantile may be infinite.
        quantiles = np.where((quantiles == 0) & (q > 0), _MIN_INSIDE, quantiles)
        return np.where((quantiles == 1) & (q < 1), _MAX_INSIDE, quantiles)

    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        """Return nodes and weights, Float[m] each, of a quadrature that is finest at both ends."""
        nodes, weights = endpoint_quadrature(_MOMENT_NODES)
        return self.ppf(nodes), weights


@dataclass(frozen=True, eq=False)
class Recalibrated(Distribution):
    """Base distributions F behind a map R of their PIT values: F_new(y) = R(F(y)).

    Quantiles are F⁻¹(R⁻¹(q)). If R is the weighted empirical distribution function of PIT values
    p_i, the result is the weighted sample F⁻¹(p_i) of Algorithm 1 of Torres et al. (2024) itself,
    not draws from it. Mean, variance and CRPS are exact sums over it. It has steps and therefore no
    density, and it ends at the quantiles of the smallest and the largest PIT value.

    Parameters
    ----------
    base : Distribution
        Distributions of n rows.
    pit_map : PitMap
        R, the same for all rows or one for each.

    Notes
    -----
    For n rows and m atoms, the sums use n·m quantiles of the base, in blocks of rows. If the base
    differs from row to row only in location and scale (a normal distribution, or a Gamma with one
    shape), F⁻¹(p_i) = loc + scale·z_i with the same z_i for all rows, and m quantiles are enough.

    F and its inverse are :meth:`~kdgraph.distributions.Distribution.extended_cdf` and
    :meth:`~kdgraph.distributions.Distribution.extended_ppf`, which continue where F is rounded to 0
    or 1. For a normal distribution that is 38 standard deviations below the mean and 8.3 above it.

    References
    ----------
    Torres et al., "Model-free local recalibration of neural networks", 2024, section 3 (Algorithm
    1); Kuleshov, Fenner and Ermon, "Accurate uncertainties for deep learning using calibrated
    regression", ICML 2018.

    Examples
    --------
    >>> from kdgraph.distributions import Normal, WeightedEcdf
    >>> too_wide = Normal(np.array([0.0, 5.0]), np.array([1.0, 2.0]))
    >>> new = Recalibrated(too_wide, WeightedEcdf.from_pits(np.array([0.4, 0.5, 0.6])))
    >>> new.ppf(np.array([0.1, 0.9])).round(3).tolist(), new.mean().round(6).tolist()
    ([[-0.253, 0.253], [4.493, 5.507]], [0.0, 5.0])
    """

    base: Distribution
    pit_map: PitMap

    def __len__(self) -> int:
        return len(self.base)

    def __getitem__(self, index: Any) -> Recalibrated:
        return Recalibrated(self.base[keep_row_axis(index)], self.pit_map[keep_row_axis(index)])

    def cdf(self, y: np.ndarray | float) -> np.ndarray:
        return self.pit_map.cdf(self.base.extended_cdf(y))

    def ppf(self, q: np.ndarray | float) -> np.ndarray:
        q = check_levels(q)
        return self.base.extended_ppf(self.pit_map.ppf(q)) if q.ndim else self.ppf(q[None])[:, 0]

    def mean(self) -> np.ndarray:
        return self._sample_statistic(
            mean_of_samples, lambda mean, form: form.loc + form.scale * mean
        )

    def var(self) -> np.ndarray:
        return self._sample_statistic(var_of_samples, lambda var, form: form.scale**2 * var)

    def crps(self, y: np.ndarray) -> np.ndarray:
        """Return the CRPS, Float[n], which is exact if R has steps.

        CRPS = 2 Σ_i w_i (y - x_i) (c_i - [y < x_i]) of the sample x_i = F⁻¹(p_i), where c_i is the
        middle of the i-th step of R. This is the integral over levels of twice the quantile score,
        step by step ("qd" in scoringrules; Jordan, Krueger and Lerch, "Evaluating probabilistic
        forecasts with scoringRules", Journal of Statistical Software 90, 2019). The CRPS of a map
        without steps is computed by quadrature.
        """
        if not self.pit_map.has_steps:
            return super().crps(y)
        y, form = np.asarray(y, dtype=np.float64), self.base.standard_form()
        outcomes = y if form is None else (y - form.loc) / form.scale
        if form is not None and self.pit_map.n_atoms is None:
            x, weights = self.pit_map.transform(form.extended_ppf).atoms()
            return form.scale * crps_of_one_sample(x, weights, outcomes)
        score = np.empty(len(self))
        for rows, x, weights in self._sample_blocks(form):
            score[rows] = crps_of_samples(x, weights, outcomes[rows])
        return score if form is None else form.scale * score

    def _sample_statistic(
        self,
        statistic: Callable[[np.ndarray, np.ndarray], np.ndarray],
        rescale: Callable[[np.ndarray, StandardForm], np.ndarray],
    ) -> np.ndarray:
        """Return ``statistic(x, weights)`` of the sample of each row, Float[n].

        ``rescale`` converts that of z, if the base has a standard form, to that of loc + scale·z.
        """
        form = self.base.standard_form()
        if form is not None and self.pit_map.n_atoms is None:
            sample = self.pit_map.transform(form.extended_ppf).atoms()
            return rescale(statistic(*sample), form)
        values = np.empty(len(self))
        for rows, x, weights in self._sample_blocks(form):
            values[rows] = statistic(x, weights)
        return values if form is None else rescale(values, form)

    def _sample_blocks(
        self, form: StandardForm | None
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield blocks of rows with their samples and weights, of z if the base has a form."""
        # With a standard form, quantiles of Z are taken once for the whole map. A map that holds
        # one table of PIT values for all rows then inverts F once for each different value.
        n_atoms = self.pit_map.n_atoms
        width = len(self.pit_map.atoms()[0]) if n_atoms is None else n_atoms
        pit_map = self.pit_map if form is None else self.pit_map.transform(form.extended_ppf)
        for rows in row_blocks(len(self), width):
            x, weights = pit_map[rows].atoms()
            yield rows, x if form is not None else self.base[rows].extended_ppf(x), weights
