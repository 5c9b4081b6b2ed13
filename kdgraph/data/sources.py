"""Where rows come from: sources that can draw any number of them, sources that have a fixed number, and what is out of distribution."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

import numpy as np

from kdgraph.data.dataset import Dataset, OodSet, Splits
from kdgraph.distributions import Distribution


@runtime_checkable
class Simulation(Protocol):
    """A source that can draw any number of rows; ``classes`` is empty if it is a regression."""

    name: str
    classes: np.ndarray
    feature_names: tuple[str, ...]

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """X: Float[n, d] or Float[n, c, h, w], y: Int[n], Float[n] in regression."""
        ...


@runtime_checkable
class PosteriorSimulation(Simulation, Protocol):
    """A simulation that knows the truth."""

    def posterior(self, X: np.ndarray, n: int | None = None) -> np.ndarray:
        """P(y|x): Float[m, K] of a sample of ``n`` rows (None: of the population)."""
        ...


@runtime_checkable
class RegressionSimulation(Simulation, Protocol):
    """A simulation of a regression that knows the truth."""

    def distribution(self, X: np.ndarray) -> Distribution:
        """The true distributions of y at the n rows of X: Float[n, d]."""
        ...


@runtime_checkable
class Table(Protocol):
    """A source that has a fixed number of rows.

    One that reads more than the file that its parameter ``path`` names says so in ``reads``: parameter → function from its path to the
    files that are read. Their content is part of what a run is.
    """

    name: str

    def load(self) -> Dataset:
        """The whole table."""
        ...


@runtime_checkable
class Fetched(Table, Protocol):
    """A table that may have to be fetched before a run can start, once and in one process."""

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Make sure that the rows are on this machine, telling ``progress`` what is going on.

        Raises
        ------
        NotAtHand
            If they cannot be had, or what the source requires of them shuts them out.
        """
        ...


@runtime_checkable
class OodSource(Protocol):
    """A source of rows that are not from the training distribution; one that has to be fetched has ``prefetch`` as :class:`Fetched` has."""

    def sets(self, splits: Splits, rng: np.random.Generator) -> Iterable[OodSet]:
        """Sets of rows as a model takes them, drawn one at a time.

        ``splits.train`` says where the training distribution is, ``splits.test`` has the rows that a shift of rows in distribution starts
        from, and ``splits.scaling`` scales rows that come as they are measured.
        """
        ...
