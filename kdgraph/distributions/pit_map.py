"""Maps of PIT values: how often the values F(y) of a forecaster are really below p, as a distribution function R on [0, 1]."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from kdgraph.distributions.row_steps import SAME


class PitMap(ABC):
    """A distribution function R of PIT values, one for all rows or one for each; :class:`Recalibrated` puts it behind F.

    Torres et al. (2024), Algorithm 1, have one for each row. PIT values are in (0, 1), or beyond, where F is 0 or 1 to the last bit: see
    :meth:`Distribution.levels`.
    """

    has_steps: ClassVar[bool] = True
    """Whether R is constant but for steps, so that sums over its atoms are exact."""

    @property
    def width(self) -> int | None:
        """How many atoms a row has, where each row has its own; None where all rows have one map."""
        return None

    @abstractmethod
    def moved(self, function: Callable[[np.ndarray], np.ndarray]) -> PitMap:
        """The map whose atoms are at ``function`` of those here, an increasing function of arrays, elementwise."""

    @abstractmethod
    def __getitem__(self, index: Any) -> Self:
        """The maps of fewer rows; itself where all rows have one."""

    @abstractmethod
    def cdf(self, p: np.ndarray) -> np.ndarray:
        """R(p) of PIT values p: Float[n], or Float[n, m] with m values for each row."""

    @abstractmethod
    def ppf(self, q: np.ndarray) -> np.ndarray:
        """The smallest p with R(p) >= q, of levels in [0, 1]: Float[m] of Float[m] where all rows have one map, else Float[n, m]; and
        Float[n, m] of Float[n, m].
        """

    @abstractmethod
    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the mass of R is: PIT values in increasing order and their weights, which sum to 1.

        Both Float[m] where all rows have one map, Float[n, k] where each has its own. A map without steps gives nodes and weights of a
        quadrature.
        """


@dataclass(frozen=True, eq=False)
class WeightedEcdf(PitMap):
    """R is the weighted empirical distribution function of PIT values: a step of height w_i / Σw at each of them.

    ``ppf`` is its left-continuous inverse, inf {p: R(p) >= q}, so every quantile is one of the values ("inverted_cdf" of numpy, type 1
    of Hyndman and Fan, The American Statistician 50, 1996). At level 0 it is the smallest value. Levels within 1e-12 of a step, relatively,
    are on it.

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
        """From PIT values Float[m] in any order, in (0, 1) or beyond, and weights Float[m], not negative; None: all the same.

        Raises
        ------
        ValueError
            For 0 or 1, whose quantile may be infinite; for no value, for weights that are negative or all 0.
        """
        pits = np.asarray(pits, dtype=np.float64)
        wrong = ~np.isfinite(pits) | (pits == 0) | (pits == 1)
        if pits.ndim != 1 or not pits.size or wrong.any():
            got = pits[wrong][0] if wrong.any() else pits.shape
            raise ValueError(f"PIT values must be at least one number, none of them 0 or 1, got {got}")
        if weights is None:  # exact, as a sum of equal weights is not
            return cls(np.sort(pits), np.arange(1, len(pits) + 1) / len(pits))
        weights = np.asarray(weights, dtype=np.float64)
        if weights.shape != pits.shape or not (np.isfinite(weights) & (weights >= 0)).all() or not weights.any():
            raise ValueError(f"weights must be {len(pits)} numbers from 0, not all 0, got {weights.tolist()[:5]}")
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
