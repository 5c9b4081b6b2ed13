"""Families that differ from row to row in location and scale alone, and the normal one."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from kdgraph.distributions.distribution import Distribution, Standard
from kdgraph.distributions.rows import by_row, checked_levels, rows_at
from kdgraph.distributions.scores import Standardised


@dataclass(frozen=True, eq=False)
class LocationScale(Distribution):
    """loc + scale·Z with one distribution of Z for all rows, as the families of SciPy have ``loc`` and ``scale``.

    A subclass is a family: it says the distribution function, quantiles and density of Z, elementwise, and its mean and variance.

    Parameters
    ----------
    loc : Float[n], finite.
    scale : Float[n], finite and above 0; or a number, the same for all rows.
    """

    loc: np.ndarray
    scale: np.ndarray

    standard_mean = 0.0
    standard_var = 1.0

    def __post_init__(self) -> None:
        loc = np.asarray(self.loc, dtype=np.float64)
        scale = np.array(np.broadcast_to(np.asarray(self.scale, dtype=np.float64), loc.shape))
        object.__setattr__(self, "loc", loc)
        object.__setattr__(self, "scale", scale)
        if loc.ndim != 1 or not np.isfinite(loc).all():
            raise ValueError(f"loc must be one finite number a row, got {loc[~np.isfinite(loc)][:1] if loc.ndim == 1 else loc.shape}")
        wrong = ~(np.isfinite(scale) & (scale > 0))
        if wrong.any():
            raise ValueError(f"scale must be finite and above 0, got {scale[wrong][0]:g} in row {np.flatnonzero(wrong)[0]}")

    @staticmethod
    @abstractmethod
    def standard_cdf(z: np.ndarray) -> np.ndarray:
        """P(Z <= z)."""

    @staticmethod
    @abstractmethod
    def standard_ppf(q: np.ndarray) -> np.ndarray:
        """Quantile of Z at level q in [0, 1]."""

    @staticmethod
    @abstractmethod
    def standard_pdf(z: np.ndarray) -> np.ndarray:
        """Density of Z."""

    def __len__(self) -> int:
        return len(self.loc)

    def __getitem__(self, index: Any) -> Self:
        return type(self)(self.loc[rows_at(index)], self.scale[rows_at(index)])

    def standardized(self, y: np.ndarray | float) -> np.ndarray:
        """(y - loc) / scale: of the shape of y, Float[n] of a number."""
        return by_row(lambda values, loc, scale: (values - loc) / scale, len(self), y, self.loc, self.scale)

    def at(self, z: np.ndarray | float) -> np.ndarray:
        """Values loc + scale·z: Float[n] of a number; Float[n, m] of Float[m], or of Float[n, m]."""
        z = np.asarray(z, dtype=np.float64)
        return self.loc + self.scale * z if not z.ndim else self.loc[:, None] + self.scale[:, None] * z

    def cdf(self, y: np.ndarray | float) -> np.ndarray:  # noqa: D102 - as in the base
        return self.standard_cdf(self.standardized(y))

    def pdf(self, y: np.ndarray | float) -> np.ndarray:
        """Density, in 1/units of y, of y as in :meth:`cdf`."""
        return by_row(lambda density, scale: density / scale, len(self), self.standard_pdf(self.standardized(y)), self.scale)

    def ppf(self, q: np.ndarray | float) -> np.ndarray:  # noqa: D102
        return self.at(self.standard_ppf(checked_levels(q)))

    def levels(self, y: np.ndarray | float) -> np.ndarray:
        """``cdf(y)``; where that is 0 or 1 to the last bit, the standardised value (y - loc) / scale, below 0 or above 1; see the base."""
        return self.standard_levels(self.standardized(y))

    @classmethod
    def standard_levels(cls, z: np.ndarray) -> np.ndarray:
        """:meth:`levels` of values z of Z, elementwise."""
        p = cls.standard_cdf(z)
        return np.where(((p == 0) & (z < 0)) | ((p == 1) & (z > 1)), z, p)

    @classmethod
    def standard_at(cls, levels: np.ndarray) -> np.ndarray:
        """Values of Z, elementwise, at :meth:`levels` of any row."""
        beyond = (levels < 0) | (levels > 1)
        return np.where(beyond, levels, cls.standard_ppf(np.where(beyond, 0.5, levels)))

    def at_levels(self, levels: np.ndarray) -> np.ndarray:  # noqa: D102 - as in the base
        return self.at(self.standard_at(levels))

    def standard(self) -> Standard:  # noqa: D102
        return Standard(self.loc, self.scale, self.standard_at)

    def mean(self) -> np.ndarray:  # noqa: D102
        return self.loc + self.scale * self.standard_mean

    def var(self) -> np.ndarray:  # noqa: D102
        return self.scale**2 * self.standard_var


class Normal(LocationScale):
    """N(loc, scale²) for each row, by the special functions of SciPy.

    Examples
    --------
    >>> two = Normal(np.array([0.0, 10.0]), np.array([1.0, 2.0]))
    >>> two.interval(0.95)[1].round(2)
    array([ 1.96, 13.92])
    >>> two.cdf(np.array([0.0, 12.0])).round(3)
    array([0.5  , 0.841])
    >>> two[1:].ppf(np.array([0.25, 0.5])).round(3)
    array([[ 8.651, 10.   ]])
    """

    @staticmethod
    def standard_cdf(z: np.ndarray) -> np.ndarray:  # noqa: D102
        from scipy.special import ndtr  # here, not above: who only lists configurations must not wait for scipy

        return ndtr(z)

    @staticmethod
    def standard_ppf(q: np.ndarray) -> np.ndarray:  # noqa: D102
        from scipy.special import ndtri  # scipy.stats.norm.ppf takes nine times as long

        return ndtri(q)

    @staticmethod
    @np.errstate(under="ignore")
    def standard_pdf(z: np.ndarray) -> np.ndarray:  # noqa: D102
        return np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)

    def score_scale(self) -> Standardised:  # noqa: D102
        return Standardised()

    def sample(self, m: int, rng: np.random.Generator) -> np.ndarray:  # noqa: D102
        return self.at(rng.standard_normal((len(self), m)))

    def crps(self, y: np.ndarray) -> np.ndarray:
        """σ (z (2Φ(z) - 1) + 2φ(z) - 1/√π) with z = (y - μ)/σ: Gneiting et al., Monthly Weather Review 133, 2005, Eq. 5."""
        z = self.standardized(y)
        return self.scale * (z * (2 * self.standard_cdf(z) - 1) + 2 * self.standard_pdf(z) - 1 / np.sqrt(np.pi))
