"""The families of scipy.stats, and whatever else has a distribution function and quantiles, as distributions of n rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import getattr_static
from typing import Any

import numpy as np

from kdgraph.distributions.distribution import Distribution, Standard
from kdgraph.distributions.rows import by_row, checked_levels, rows_at


@dataclass(frozen=True, eq=False)
class ScipyFamily(Distribution):
    """A continuous family of scipy.stats with a parameter vector for each row.

    Parameters
    ----------
    family : its name there, such as "gamma".
    parameters : name (``a``, ``loc``, ``scale``, …) → Float[n]; a parameter that is the same for all rows may be a number, but one must say
        how many rows there are.

    Examples
    --------
    >>> two = ScipyFamily("gamma", {"a": np.array([1.0, 4.0]), "scale": 2.0})
    >>> two.mean().tolist(), two[1:].ppf(np.array([0.5, 0.9])).round(2).tolist()
    ([2.0, 8.0], [[7.34, 13.36]])
    """

    family: str
    parameters: Mapping[str, Any]

    def __post_init__(self) -> None:
        given = {name: np.asarray(value, dtype=np.float64) for name, value in self.parameters.items()}
        shape = np.broadcast_shapes(*(value.shape for value in given.values()))
        if len(shape) != 1:
            raise ValueError(f"parameters must be one number a row, got shapes {[value.shape for value in given.values()]}")
        object.__setattr__(self, "parameters", {name: np.array(np.broadcast_to(value, shape)) for name, value in given.items()})
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
            raise ValueError(f"{self.family} has no distribution with the parameters of row {row}, {given}")

    @classmethod
    def of_frozen(cls, frozen: Any) -> ScipyFamily:
        """From a frozen distribution, such as ``scipy.stats.gamma(a, scale=scale)``, whose parameters have a value for each row."""
        shapes = [name.strip() for name in (frozen.dist.shapes or "").split(",") if name.strip()]
        given = dict(zip([*shapes, "loc", "scale"], frozen.args, strict=False)) | frozen.kwds
        return cls(frozen.dist.name, given)

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))

    def __getitem__(self, index: Any) -> ScipyFamily:
        return ScipyFamily(self.family, {name: value[rows_at(index)] for name, value in self.parameters.items()})

    def cdf(self, y: np.ndarray | float) -> np.ndarray:  # noqa: D102 - as in the base
        return self._of_values("cdf", y)

    def pdf(self, y: np.ndarray | float) -> np.ndarray:
        """Density, in 1/units of y, of y as in :meth:`cdf`."""
        return self._of_values("pdf", y)

    def ppf(self, q: np.ndarray | float) -> np.ndarray:  # noqa: D102
        return self._at("ppf", checked_levels(q))

    def levels(self, y: np.ndarray | float) -> np.ndarray:
        """``cdf(y)``; where that is 1 to the last bit, 1 - log P(Y > y), while SciPy's ``sf`` is above 0; see the base."""
        levels = self.cdf(y)
        if (levels == 1).any():
            above = np.where(levels == 1, self._of_values("sf", y), 0.0)
            levels = np.where(above > 0, 1 - np.log(np.where(above > 0, above, 1.0)), levels)
        return levels

    def at_levels(self, levels: np.ndarray) -> np.ndarray:  # noqa: D102 - as in the base
        beyond = levels > 1
        at = self.ppf(np.where(beyond, 0.5, levels))
        return np.where(beyond, self._at("isf", np.exp(1 - np.where(beyond, levels, 1.0))), at) if beyond.any() else at

    def standard(self) -> Standard | None:
        """Of a family whose shape is the same in all rows, such as a Gamma GLM's; see the base."""
        shapes = {name: value for name, value in self.parameters.items() if name not in ("loc", "scale")}
        if not len(self) or any((value != value[0]).any() for value in shapes.values()):
            return None
        one = ScipyFamily(self.family, {name: value[:1] for name, value in shapes.items()} | {"loc": np.zeros(1)})
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
        return getattr(self._family(), method)(q, **{name: value[:, None] if q.ndim else value for name, value in self.parameters.items()})

    def _of_values(self, method: str, y: np.ndarray | float) -> np.ndarray:
        names = list(self.parameters)

        def call(values: np.ndarray, *given: np.ndarray) -> np.ndarray:
            return getattr(self._family(), method)(values, **dict(zip(names, given, strict=True)))

        return by_row(call, len(self), y, *self.parameters.values())

    def _family(self) -> Any:
        from scipy import stats

        return getattr(stats, self.family)


def is_frozen_family(given: Any) -> bool:
    """Return whether ``given`` is a frozen continuous family of scipy.stats, which ScipyFamily takes.

    Attributes are looked up without ``__getattr__``: distributions of ngboost return None for a name that they do not have, or pass it on
    to the frozen distribution inside.
    """
    from scipy import stats

    dist, args, kwds = (getattr_static(given, name, None) for name in ("dist", "args", "kwds"))
    known = isinstance(dist, stats.rv_continuous) and isinstance(getattr(stats, dist.name, None), type(dist))
    return known and args is not None and kwds is not None


def as_distribution(given: Any) -> Distribution:
    """What a regressor's ``predict_dist`` gave, as a :class:`Distribution`: one as it is, a frozen one of scipy.stats as its family.

    Raises
    ------
    TypeError
        For anything else.
    """
    if isinstance(given, Distribution):
        return given
    if is_frozen_family(given):
        return ScipyFamily.of_frozen(given)
    raise TypeError(f"predict_dist must give a kdgraph Distribution or a frozen distribution of scipy.stats, got {type(given).__name__}")
