"""A forecaster's distributions behind a map of its PIT values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kdgraph.distributions.distribution import Distribution, Standard
from kdgraph.distributions.pit_map import PitMap
from kdgraph.distributions.rows import blocks, checked_levels, rows_at
from kdgraph.distributions.weighted import crps_of_one_sample, crps_of_samples, mean_of_samples, var_of_samples


@dataclass(frozen=True, eq=False)
class Recalibrated(Distribution):
    """F_new(y) = R(F(y)): base distributions F, and R, how often their PIT values are really below p.

    Since F is increasing, quantiles are F⁻¹(R⁻¹(q)): a few inversions of F, no sample. With R the weighted empirical distribution function
    of PIT values p_i, this is the weighted sample F⁻¹(p_i) of Algorithm 1 of Torres et al. itself, not draws from it: mean, variance and
    CRPS are exact sums over it. It has steps and therefore no density, and ends where the smallest and the largest PIT value take it.

    Parameters
    ----------
    base : distributions of n rows.
    pit_map : R, one for all rows or one for each.

    Notes
    -----
    Of n rows with m atoms, the sums take n·m quantiles of the base, some rows at a time, so memory is linear in n and in m. Where the base
    differs from row to row in location and scale alone, as a normal one does and a Gamma of one shape, F⁻¹(p_i) = loc + scale·z_i with the
    same z_i for all rows, and m are enough: the standardised residual of a calibration row stands for its PIT value.

    F and its inverse are :meth:`Distribution.levels` and :meth:`Distribution.at_levels`, which go on where F is 0 or 1 to the last bit: 38
    standard deviations below the mean of a normal distribution and 8.3 above it.

    References
    ----------
    Torres, Nott, Sisson, Rodrigues, Reis and Rodrigues, "Model-free local recalibration of neural networks", 2024, section 3 (Algorithm 1);
    Kuleshov, Fenner and Ermon, "Accurate uncertainties for deep learning using calibrated regression", ICML 2018.

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
        """CRPS = 2 Σ_i w_i (y - x_i) (c_i - [y < x_i]) of the sample x_i = F⁻¹(p_i), with c_i the middle of the i-th step of R; exact.

        The integral over levels of twice the quantile score, step by step ("qd" in scoringrules; Jordan, Krueger and Lerch, "Evaluating
        probabilistic forecasts with scoringRules", Journal of Statistical Software 90, 2019). Of an R without steps by quadrature.
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
        """Float[n]: ``of_sample(x, weights)`` of each row's sample; ``moved`` takes that of z to loc + scale·z."""
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
