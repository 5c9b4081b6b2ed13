"""Families that differ from row to row in location and scale alone, and the normal one.

The families of scipy.stats, and whatever else has a distribution function and quantiles, as
distributions of n rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import getattr_static
from typing import Any, Self

import numpy as np

from kdgraph.distributions.base import (
    Distribution,
    Standard,
    Standardised,
    by_row,
    checked_levels,
    rows_at,
)


@dataclass(frozen=True, eq=False)
class LocationScale(Distribution):
    """loc + scale·Z with one distribution of Z for all rows, as the families of SciPy have ``loc``
    and ``scale``.

    A subclass is a family: it says the distribution function, quantiles and density of Z,
    elementwise, and its mean and variance.

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
            raise ValueError(
                "loc must be one finite number a row, got"
                f" {loc[~np.isfinite(loc)][:1] if loc.ndim == 1 else loc.shape}"
            )
        wrong = ~(np.isfinite(scale) & (scale > 0))
        if wrong.any():
            raise ValueError(
                f"scale must be finite and above 0, got {scale[wrong][0]:g} in row"
                f" {np.flatnonzero(wrong)[0]}"
            )

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
        return by_row(
            lambda values, loc, scale: (values - loc) / scale, len(self), y, self.loc, self.scale
        )

    def at(self, z: np.ndarray | float) -> np.ndarray:
        """Values loc + scale·z: Float[n] of a number; Float[n, m] of Float[m], or of Float[n,
        m].
        """
        z = np.asarray(z, dtype=np.float64)
        return (
            self.loc + self.scale * z if not z.ndim else self.loc[:, None] + self.scale[:, None] * z
        )

    def cdf(self, y: np.ndarray | float) -> np.ndarray:  # noqa: D102 - as in the base
        return self.standard_cdf(self.standardized(y))

    def pdf(self, y: np.ndarray | float) -> np.ndarray:
        """Density, in 1/units of y, of y as in :meth:`cdf`."""
        return by_row(
            lambda density, scale: density / scale,
            len(self),
            self.standard_pdf(self.standardized(y)),
            self.scale,
        )

    def ppf(self, q: np.ndarray | float) -> np.ndarray:  # noqa: D102
        return self.at(self.standard_ppf(checked_levels(q)))

    def levels(self, y: np.ndarray | float) -> np.ndarray:
        """``cdf(y)``; where that is 0 or 1 to the last bit, the standardised value (y - loc) /
        scale, below 0 or above 1; see the base.
        """
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
        from scipy.special import (
            ndtr,
        )  # here, not above: who only lists configurations must not wait for scipy

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
        """σ (z (2Φ(z) - 1) + 2φ(z) - 1/√π) with z = (y - μ)/σ: Gneiting et al., Monthly Weather
        Review 133, 2005, Eq. 5.
        """
        z = self.standardized(y)
        return self.scale * (
            z * (2 * self.standard_cdf(z) - 1) + 2 * self.standard_pdf(z) - 1 / np.sqrt(np.pi)
        )


@dataclass(frozen=True, eq=False)
class ScipyFamily(Distribution):
    """A continuous family of scipy.stats with a parameter vector for each row.

    Parameters
    ----------
    family : its name there, such as "gamma".
    parameters : name (``a``, ``loc``, ``scale``, …) → Float[n]; a parameter that is the same for
        all rows may be a number, but one must say how many rows there are.

    Examples
    --------
    >>> two = ScipyFamily("gamma", {"a": np.array([1.0, 4.0]), "scale": 2.0})
    >>> two.mean().tolist(), two[1:].ppf(np.array([0.5, 0.9])).round(2).tolist()
    ([2.0, 8.0], [[7.34, 13.36]])
    """

    family: str
    parameters: Mapping[str, Any]

    def __post_init__(self) -> None:
        given = {
            name: np.asarray(value, dtype=np.float64) for name, value in self.parameters.items()
        }
        shape = np.broadcast_shapes(*(value.shape for value in given.values()))
        if len(shape) != 1:
            raise ValueError(
                "parameters must be one number a row, got shapes"
                f" {[value.shape for value in given.values()]}"
            )
        object.__setattr__(
            self,
            "parameters",
            {name: np.array(np.broadcast_to(value, shape)) for name, value in given.items()},
        )
        self.check()

    def check(self) -> None:
        """Raise ValueError unless scipy.stats has this family and the parameters are valid."""
        from scipy import stats

        found = getattr(stats, self.family, None)
        if not isinstance(found, stats.rv_continuous):
            raise ValueError(f"scipy.stats has no continuous family named {self.family!r}")
        bad = np.isnan(self._family().cdf(0.0, **self.parameters))
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            given = {name: float(value[row]) for name, value in self.parameters.items()}
            raise ValueError(
                f"{self.family} has no distribution with the parameters of row {row}, {given}"
            )

    @classmethod
    def of_frozen(cls, frozen: Any) -> ScipyFamily:
        """From a frozen distribution, such as ``scipy.stats.gamma(a, scale=scale)``, whose
        parameters have a value for each row.
        """
        shapes = [name.strip() for name in (frozen.dist.shapes or "").split(",") if name.strip()]
        given = dict(zip([*shapes, "loc", "scale"], frozen.args, strict=False)) | frozen.kwds
        return cls(frozen.dist.name, given)

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))

    def __getitem__(self, index: Any) -> ScipyFamily:
        return ScipyFamily(
            self.family, {name: value[rows_at(index)] for name, value in self.parameters.items()}
        )

    def cdf(self, y: np.ndarray | float) -> np.ndarray:  # noqa: D102 - as in the base
        return self._of_values("cdf", y)

    def pdf(self, y: np.ndarray | float) -> np.ndarray:
        """Density, in 1/units of y, of y as in :meth:`cdf`."""
        return self._of_values("pdf", y)

    def ppf(self, q: np.ndarray | float) -> np.ndarray:  # noqa: D102
        return self._at("ppf", checked_levels(q))

    def levels(self, y: np.ndarray | float) -> np.ndarray:
        """``cdf(y)``; where that is 1 to the last bit, 1 - log P(Y > y), while SciPy's ``sf`` is
        above 0; see the base.
        """
        levels = self.cdf(y)
        if (levels == 1).any():
            above = np.where(levels == 1, self._of_values("sf", y), 0.0)
            levels = np.where(above > 0, 1 - np.log(np.where(above > 0, above, 1.0)), levels)
        return levels

    def at_levels(self, levels: np.ndarray) -> np.ndarray:  # noqa: D102 - as in the base
        beyond = levels > 1
        at = self.ppf(np.where(beyond, 0.5, levels))
        return (
            np.where(beyond, self._at("isf", np.exp(1 - np.where(beyond, levels, 1.0))), at)
            if beyond.any()
            else at
        )

    def standard(self) -> Standard | None:
        """Of a family whose shape is the same in all rows, such as a Gamma GLM's; see the base."""
        shapes = {
            name: value for name, value in self.parameters.items() if name not in ("loc", "scale")
        }
        if not len(self) or any((value != value[0]).any() for value in shapes.values()):
            return None
        one = ScipyFamily(
            self.family, {name: value[:1] for name, value in shapes.items()} | {"loc": np.zeros(1)}
        )
        return Standard(
            self.parameters.get("loc", np.zeros(len(self))),
            self.parameters.get("scale", np.ones(len(self))),
            lambda levels: one.at_levels(np.reshape(levels, (1, -1))).reshape(np.shape(levels)),
        )

    def mean(self) -> np.ndarray:  # noqa: D102
        return self._family().mean(**self.parameters)

    def var(self) -> np.ndarray:  # noqa: D102
        return self._family().var(**self.parameters)

    def _at(self, method: str, q: np.ndarray) -> np.ndarray:
        return getattr(self._family(), method)(
            q,
            **{
                name: value[:, None] if q.ndim else value for name, value in self.parameters.items()
            },
        )

    def _of_values(self, method: str, y: np.ndarray | float) -> np.ndarray:
        names = list(self.parameters)

        def call(values: np.ndarray, *given: np.ndarray) -> np.ndarray:
            return getattr(self._family(), method)(values, **dict(zip(names, given, strict=True)))

        return by_row(call, len(self), y, *self.parameters.values())

    def _family(self) -> Any:
        from scipy import stats

        return getattr(stats, self.family)


def is_frozen_family(given: Any) -> bool:
    """Return whether ``given`` is a frozen continuous family of scipy.stats, which ScipyFamily
    takes.

    Attributes are looked up without ``__getattr__``: distributions of ngboost return None for a
    name that they do not have, or pass it on to the frozen distribution inside.
    """
    from scipy import stats

    dist, args, kwds = (getattr_static(given, name, None) for name in ("dist", "args", "kwds"))
    known = isinstance(dist, stats.rv_continuous) and isinstance(
        getattr(stats, dist.name, None), type(dist)
    )
    return known and args is not None and kwds is not None


def as_distribution(given: Any) -> Distribution:
    """What a regressor's ``predict_dist`` gave, as a :class:`Distribution`: one as it is, a frozen
    one of scipy.stats as its family.

    Raises
    ------
    TypeError
        For anything else.
    """
    if isinstance(given, Distribution):
        return given
    if is_frozen_family(given):
        return ScipyFamily.of_frozen(given)
    raise TypeError(
        "predict_dist must give a kdgraph Distribution or a frozen distribution of scipy.stats,"
        f" got {type(given).__name__}"
    )
