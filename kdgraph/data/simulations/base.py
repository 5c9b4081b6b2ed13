"""Base classes of simulations of classes and of regressions. Original to kdgraph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

import numpy as np

from kdgraph.data.source import Source
from kdgraph.distributions import Distribution
from kdgraph.errors import DataError
from kdgraph.wording import counted

_Family = TypeVar("_Family", bound=Distribution)


@dataclass(eq=False, repr=False)
class SimulationSource(Source, ABC):
    """Simulation, which draws any number of rows."""

    name: str = field(init=False)
    feature_names: tuple[str, ...] = field(init=False)

    @abstractmethod
    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows in random order, with class counts as equal as possible.

        Parameters
        ----------
        n : int
            Number of rows.
        rng : Generator
            Source of the draws.

        Returns
        -------
        X : Float[n, d], or Float32[n, channels, size, size]
            Rows, or images in [0, 1].
        y : Int[n] or Float[n]
            Positions in ``classes``, or targets of a regression.
        """


class ClassSimulation(SimulationSource):
    """Simulation of classes, by default of two in the plane."""

    classes = np.arange(2)
    feature_names = ("x1", "x2")


class RegressionSource(SimulationSource, Generic[_Family]):
    """Simulation of rows Float[n, d] of a regression with known conditional distributions."""

    classes = np.empty(0)
    _support: ClassVar[str] = "all features are finite"
    """Condition under which the distribution exists, for messages."""

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        X = self._draw_features(n, rng)
        return X, self.distribution(X).sample(1, rng)[:, 0]

    def distribution(self, X: np.ndarray) -> _Family:
        """Return the true distribution of y at each row of X.

        The formula is also used outside of the ranges from which rows are drawn.

        Parameters
        ----------
        X : Float[n, d]
            Features.

        Raises
        ------
        DataError
            If X does not have d columns, or a row has no distribution.
        """
        X, d = np.asarray(X, dtype=np.float64), len(self.feature_names)
        if X.ndim != 2 or X.shape[1] != d:
            raise DataError(
                f"{self.name} has {counted(d, 'feature')}: X must have shape (n, {d}), got"
                f" {X.shape}"
            )
        if not self._in_support(X).all():
            raise DataError(
                f"{self.name} has a distribution only where {self._support}; drop other rows"
            )
        return self._true_distribution(X)

    def _in_support(self, X: np.ndarray) -> np.ndarray:
        return np.isfinite(X)

    @abstractmethod
    def _draw_features(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return Float[n, d]."""

    @abstractmethod
    def _true_distribution(self, X: np.ndarray) -> _Family:
        """Return the distributions at rows of X, Float64[n, d], of the right width and support."""
