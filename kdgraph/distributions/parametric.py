"""Parametric families as distributions of n rows.

:class:`LocationScale` is the base of families that differ from row to row in location and scale
only, such as :class:`Normal`. :class:`ScipyFamily` wraps a continuous family of scipy.stats with
parameters for each row. :func:`as_distribution` converts what a regressor predicts.
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
    StandardForm,
    StandardisedScores,
    apply_by_row,
    check_levels,
    keep_row_axis,
    normal_cdf,
    normal_ppf,
    standardised_levels,
    standardised_values,
)


@dataclass(frozen=True, eq=False)
class LocationScale(Distribution):
    """Distributions loc + scale·Z with one distribution of Z for all rows.

    ``loc`` and ``scale`` have the meaning that they have in SciPy. A subclass is a family: it
    implements the distribution function, quantiles and density of Z, elementwise, and sets
    ``standard_mean`` and ``standard_var``, the mean and variance of Z.

    Parameters
    ----------
    loc : Float[n]
        Finite locations.
    scale : Float[n] or float
        Finite and positive scales, or one scale for all rows.

    Examples
    --------
    >>> class Logistic(LocationScale):
    ...     standard_var = np.pi**2 / 3
    ...     @staticmethod
    ...     def standard_cdf(z):
    ...         return 1 / (1 + np.exp(-z))
    ...     @staticmethod
    ...     def standard_ppf(q):
    ...         return np.log(q / (1 - q))
    ...     @staticmethod
    ...     def standard_pdf(z):
    ...         return np.exp(-z) / (1 + np.exp(-z)) ** 2
    >>> logistic = Logistic(np.array([0.0, 10.0]), np.array([1.0, 2.0]))
    >>> logistic.ppf(0.75).round(2).tolist(), logistic.var().round(2).tolist()
    ([1.1, 12.2], [3.29, 13.16])
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
        invalid = ~(np.isfinite(scale) & (scale > 0))
        if invalid.any():
            raise ValueError(
                f"scale must be finite and above 0, got {scale[invalid][0]:g} in row"
                f" {np.flatnonzero(invalid)[0]}"
            )

    @staticmethod
    @abstractmethod
    def standard_cdf(z: np.ndarray) -> np.ndarray:
        """Return P(Z <= z), elementwise."""

    @staticmethod
    @abstractmethod
    def standard_ppf(q: np.ndarray) -> np.ndarray:
        """Return the quantile of Z at level q in [0, 1], elementwise."""

    @staticmethod
    @abstractmethod
    def standard_pdf(z: np.ndarray) -> np.ndarray:
        """Return the density of Z, elementwise."""

    def __len__(self) -> int:
        return len(self.loc)

    def __getitem__(self, index: Any) -> Self:
        return type(self)(self.loc[keep_row_axis(index)], self.scale[keep_row_axis(index)])

    def standardise(self, y: np.ndarray | float) -> np.ndarray:
        """Return (y - loc) / scale, in the shape of y; Float[n] for a number."""
        return apply_by_row(
            lambda values, loc, scale: (values - loc) / scale, len(self), y, self.loc, self.scale
        )

    def from_standard(self, z: np.ndarray | float) -> np.ndarray:
        """Return loc + scale·z: Float[n] for a number, Float[n, m] for Float[m] or Float[n, m]."""
        z = np.asarray(z, dtype=np.float64)
        return (
            self.loc + self.scale * z if not z.ndim else self.loc[:, None] + self.scale[:, None] * z
        )

    def cdf(self, y: np.ndarray | float) -> np.ndarray:
        return self.standard_cdf(self.standardise(y))

    def pdf(self, y: np.ndarray | float) -> np.ndarray:
        """Return the density at values as of :meth:`cdf`, in 1/units of y."""
        density = self.standard_pdf(self.standardise(y))
        return apply_by_row(lambda values, scale: values / scale, len(self), density, self.scale)

    def ppf(self, q: np.ndarray | float) -> np.ndarray:
        return self.from_standard(self.standard_ppf(check_levels(q)))

    def extended_cdf(self, y: np.ndarray | float) -> np.ndarray:
        """Return ``cdf(y)``, or (y - loc) / scale where that is rounded to 0 or 1, elementwise."""
        return self.standard_extended_cdf(self.standardise(y))

    @classmethod
    def standard_extended_cdf(cls, z: np.ndarray) -> np.ndarray:
        """Return :meth:`extended_cdf` of values z of Z, elementwise."""
        return standardised_levels(cls.standard_cdf, z)

    @classmethod
    def standard_extended_ppf(cls, levels: np.ndarray) -> np.ndarray:
        """Return the values of Z at extended levels, elementwise."""
        return standardised_values(cls.standard_ppf, levels)

    def extended_ppf(self, levels: np.ndarray) -> np.ndarray:
        return self.from_standard(self.standard_extended_ppf(levels))

    def standard_form(self) -> StandardForm:
        return StandardForm(self.loc, self.scale, self.standard_extended_ppf)

    def mean(self) -> np.ndarray:
        return self.loc + self.scale * self.standard_mean

    def var(self) -> np.ndarray:
        return self.scale**2 * self.standard_var


class Normal(LocationScale):
    """Normal distribution N(loc, scale²) for each row, by the special functions of SciPy.

    Examples
    --------
    >>> normal = Normal(np.array([0.0, 10.0]), np.array([1.0, 2.0]))
    >>> normal.interval(0.95)[1].round(2), normal.cdf(np.array([0.0, 12.0])).round(3)
    (array([ 1.96, 13.92]), array([0.5  , 0.841]))
    """

    @staticmethod
    def standard_cdf(z: np.ndarray) -> np.ndarray:
        return normal_cdf(z)

    @staticmethod
    def standard_ppf(q: np.ndarray) -> np.ndarray:
        return normal_ppf(q)

    @staticmethod
    @np.errstate(under="ignore")
    def standard_pdf(z: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)

    def score_scale(self) -> StandardisedScores:
        return StandardisedScores()

    def sample(self, m: int, rng: np.random.Generator) -> np.ndarray:
        return self.from_standard(rng.standard_normal((len(self), m)))

    def crps(self, y: np.ndarray) -> np.ndarray:
        """Return the CRPS in closed form, Float[n].

        It is σ (z (2Φ(z) - 1) + 2φ(z) - 1/√π) with z = (y - μ)/σ: Gneiting et al., Monthly Weather
        Review 133, 2005, Eq. 5.
        """
        z = self.standardise(y)
        return self.scale * (
            z * (2 * self.standard_cdf(z) - 1) + 2 * self.standard_pdf(z) - 1 / np.sqrt(np.pi)
        )


@dataclass(frozen=True, eq=False)
class ScipyFamily(Distribution):
    """Continuous family of scipy.stats with a parameter vector for each row.

    Parameters
    ----------
    family : str
        Name of the family in scipy.stats, such as "gamma".
    parameters : mapping of str to Float[n] or float
        Values of ``a``, ``loc``, ``scale``, … A parameter that is the same for all rows may be a
        number, but at least one must have a value for each row.

    Examples
    --------
    >>> gamma = ScipyFamily("gamma", {"a": np.array([1.0, 4.0]), "scale": 2.0})
    >>> gamma.mean().tolist(), gamma[1:].ppf(np.array([0.5, 0.9])).round(2).tolist()
    ([2.0, 8.0], [[7.34, 13.36]])
    """

    family: str
    parameters: Mapping[str, Any]

    def __post_init__(self) -> None:
        parameters = {
            name: np.asarray(value, dtype=np.float64) for name, value in self.parameters.items()
        }
        shape = np.broadcast_shapes(*(value.shape for value in parameters.values()))
        if len(shape) != 1:
            raise ValueError(
                "parameters must be one number a row, got shapes"
                f" {[value.shape for value in parameters.values()]}"
            )
        object.__setattr__(
            self,
            "parameters",
            {name: np.array(np.broadcast_to(value, shape)) for name, value in parameters.items()},
        )
        self.check()

    def check(self) -> None:
        """Raise ValueError unless scipy.stats has this family and the parameters are valid."""
        from scipy import stats

        family = getattr(stats, self.family, None)
        if not isinstance(family, stats.rv_continuous):
            raise ValueError(f"scipy.stats has no continuous family named {self.family!r}")
        # SciPy returns NaN, and raises nothing, for parameters outside of the family's domain.
        invalid = np.isnan(self._family().cdf(0.0, **self.parameters))
        if invalid.any():
            row = int(np.flatnonzero(invalid)[0])
            parameters = {name: float(value[row]) for name, value in self.parameters.items()}
            raise ValueError(
                f"{self.family} has no distribution with the parameters of row {row}, {parameters}"
            )

    @classmethod
    def from_frozen(cls, frozen: Any) -> ScipyFamily:
        """Return the family of a frozen distribution of scipy.stats with parameters for each row.

        An example is ``scipy.stats.gamma(a, scale=scale)`` with arrays.
        """
        shapes = [name.strip() for name in (frozen.dist.shapes or "").split(",") if name.strip()]
        by_position = dict(zip([*shapes, "loc", "scale"], frozen.args, strict=False))
        return cls(frozen.dist.name, by_position | frozen.kwds)

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))

    def __getitem__(self, index: Any) -> ScipyFamily:
        rows = keep_row_axis(index)
        return ScipyFamily(
            self.family, {name: value[rows] for name, value in self.parameters.items()}
        )

    def cdf(self, y: np.ndarray | float) -> np.ndarray:
        return self._evaluate_at_values("cdf", y)

    def pdf(self, y: np.ndarray | float) -> np.ndarray:
        """Return the density at values as of :meth:`cdf`, in 1/units of y."""
        return self._evaluate_at_values("pdf", y)

    def ppf(self, q: np.ndarray | float) -> np.ndarray:
        return self._evaluate_at_levels("ppf", check_levels(q))

    def extended_cdf(self, y: np.ndarray | float) -> np.ndarray:
        """Return ``cdf(y)``, or 1 - log P(Y > y) where that is rounded to 1, elementwise.

        The continuation ends where SciPy's ``sf`` is rounded to 0.
        """
        levels = self.cdf(y)
        if (levels == 1).any():
            above = np.where(levels == 1, self._evaluate_at_values("sf", y), 0.0)
            levels = np.where(above > 0, 1 - np.log(np.where(above > 0, above, 1.0)), levels)
        return levels

    def extended_ppf(self, levels: np.ndarray) -> np.ndarray:
        beyond = levels > 1
        quantiles = self.ppf(np.where(beyond, 0.5, levels))
        if not beyond.any():
            return quantiles
        survival = np.exp(1 - np.where(beyond, levels, 1.0))
        return np.where(beyond, self._evaluate_at_levels("isf", survival), quantiles)

    def standard_form(self) -> StandardForm | None:
        """Return the common form if all rows have the same shape, as in a Gamma GLM, else None."""
        shapes = {
            name: value for name, value in self.parameters.items() if name not in ("loc", "scale")
        }
        if not len(self) or any((value != value[0]).any() for value in shapes.values()):
            return None
        standard = ScipyFamily(
            self.family, {name: value[:1] for name, value in shapes.items()} | {"loc": np.zeros(1)}
        )
        return StandardForm(
            self.parameters.get("loc", np.zeros(len(self))),
            self.parameters.get("scale", np.ones(len(self))),
            lambda levels: standard.extended_ppf(np.reshape(levels, (1, -1))).reshape(
                np.shape(levels)
            ),
        )

    def mean(self) -> np.ndarray:
        return self._family().mean(**self.parameters)

    def var(self) -> np.ndarray:
        return self._family().var(**self.parameters)

    def _evaluate_at_levels(self, method: str, q: np.ndarray) -> np.ndarray:
        parameters = {
            name: value[:, None] if q.ndim else value for name, value in self.parameters.items()
        }
        return getattr(self._family(), method)(q, **parameters)

    def _evaluate_at_values(self, method: str, y: np.ndarray | float) -> np.ndarray:
        names = list(self.parameters)

        def evaluate(values: np.ndarray, *parameters: np.ndarray) -> np.ndarray:
            by_name = dict(zip(names, parameters, strict=True))
            return getattr(self._family(), method)(values, **by_name)

        return apply_by_row(evaluate, len(self), y, *self.parameters.values())

    def _family(self) -> Any:
        from scipy import stats

        return getattr(stats, self.family)


def is_frozen_family(value: Any) -> bool:
    """Return whether a value is a frozen continuous distribution of scipy.stats."""
    from scipy import stats

    # Attributes are looked up without __getattr__: distributions of ngboost return None for a name
    # that they do not have, or delegate it to the frozen distribution that they contain.
    dist, args, kwds = (getattr_static(value, name, None) for name in ("dist", "args", "kwds"))
    is_scipy_family = isinstance(dist, stats.rv_continuous) and isinstance(
        getattr(stats, dist.name, None), type(dist)
    )
    return is_scipy_family and args is not None and kwds is not None


def as_distribution(value: Any) -> Distribution:
    """Return the prediction of ``predict_dist`` as a :class:`Distribution`.

    Parameters
    ----------
    value : Distribution or frozen distribution of scipy.stats
        A Distribution is returned unchanged; a frozen one becomes a :class:`ScipyFamily`. Others
        raise TypeError.

    Examples
    --------
    >>> from scipy import stats
    >>> as_distribution(stats.gamma(np.array([1.0, 4.0]), scale=2.0)).mean().tolist()
    [2.0, 8.0]
    """
    if isinstance(value, Distribution):
        return value
    if is_frozen_family(value):
        return ScipyFamily.from_frozen(value)
    raise TypeError(
        "predict_dist must give a kdgraph Distribution or a frozen distribution of scipy.stats,"
        f" got {type(value).__name__}"
    )
