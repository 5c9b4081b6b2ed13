"""The normal distribution on a line, in an interval and around a circle, and the quadrature that
averages it.

Textbook formulas; SciPy's ``ndtr`` and NumPy's Gauss-Legendre nodes do the work.

What the five simulations in the plane of Dey et al. (2024), Appendix C, share: the box they live
in, Bayes' rule, the paper's grid.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

import numpy as np

from kdgraph.errors import DataError
from kdgraph.parameters import Range, check_parameters


def log_normal(distance: np.ndarray, std: np.ndarray | float) -> np.ndarray:
    """Log density of N(0, std²) at ``distance``, elementwise."""
    return -0.5 * (distance / std) ** 2 - np.log(std * np.sqrt(2 * np.pi))


def normal_interval_probability(
    low: np.ndarray | float, high: np.ndarray | float, std: float
) -> np.ndarray:
    """P(low < N(0, std²) < high), elementwise."""
    from scipy.special import (
        ndtr,
    )  # here, not above: a command line that only lists configurations must not wait for scipy

    return ndtr(np.asarray(high) / std) - ndtr(np.asarray(low) / std)


def log_wrapped_normal(angle: np.ndarray, std: np.ndarray | float) -> np.ndarray:
    """Log density, per radian, of N(0, std²) wrapped around the circle, elementwise.

    W(a) = Σ_j exp(-(a + 2πj)² / 2 std²) / (std √2π), the sum taken relative to the image nearest to
    0, so that it cannot underflow.
    """
    # From std = 9 on, the wrapped density is 1/2π to the last bit (its first harmonic is
    # exp(-std²/2) = 3e-18), and so is that of 9.
    std = np.minimum(std, 9.0)
    nearest = np.remainder(angle + np.pi, 2 * np.pi) - np.pi
    reach = int(np.ceil(9 * np.max(std, initial=0.0) / (2 * np.pi))) + 1
    relative = sum(
        np.exp(-2 * np.pi * j * (nearest + np.pi * j) / std**2) for j in range(-reach, reach + 1)
    )
    return log_normal(nearest, std) + np.log(relative)


def integrate(
    function: Callable[[np.ndarray], np.ndarray], low: float, high: float, panels: int = 256
) -> float:
    """∫ function over [low, high] by 16-point Gauss-Legendre in each of ``panels`` equal panels; it
    takes and gives Float[panels, 16].
    """
    nodes, weights = np.polynomial.legendre.leggauss(16)
    edges = np.linspace(low, high, panels + 1)
    half = (high - low) / panels / 2
    points = (edges[:-1, None] + half) + half * nodes
    return float((function(points) * weights).sum() * half)


TruthName = Literal["exact", "paper_grid"]
"""Which truth ``posterior`` gives: Bayes' rule, or the truth that the paper's Hellinger distances
were measured against.
"""
NoiseStd = Annotated[float, Range(0.01, 1, "both")]
"""Standard deviation of the noise, in the units of the box (-1, 1)²."""

_DRAWS_PER_UNIT_DENSITY = 1e5 * 0.02**2
"""The paper's truth is a class share among 100,000 draws in a window of ±0.01 around each grid
point: 40 draws per unit of density.
"""


def paper_grid() -> np.ndarray:
    """The 200 × 200 points of the paper's Hellinger distances, ``arange(-1, 1, 0.01)`` on both
    axes: Float[40000, 2], x1 fastest.
    """
    ticks = np.arange(-1, 1, 0.01)
    x2, x1 = np.meshgrid(ticks, ticks, indexing="ij")
    return np.column_stack([x1.ravel(), x2.ravel()])


class PlaneSimulation(ABC):
    """Equally frequent classes in the box (-1, 1)², each with a density that is known.

    A subclass draws rows and gives the log density of each class at points of the box; everything
    else follows. Outside the box there is no density, and every class has the same posterior.
    """

    name: ClassVar[str]
    feature_names: tuple[str, ...] = ("x1", "x2")
    classes: np.ndarray

    def __init__(self, truth: TruthName = "exact") -> None:
        self.truth = truth
        self.classes = np.arange(2)
        check_parameters(self)

    @abstractmethod
    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw ``n`` rows in random order.

        Returns
        -------
        X : Float[n, 2]
        y : Int[n], positions in ``classes``
        """

    def posterior(self, X: np.ndarray, n: int | None = None) -> np.ndarray:
        """P(y|x): Float[m, K] at X: Float[m, 2], uniform where no class has density.

        ``n`` is the number of rows of the sample that the rows come from (None: the population). It
        matters to the spiral alone.
        """
        if self.truth == "paper_grid":
            return self.posterior_on_paper_grid(X)
        return posterior_from_log_densities(self.log_densities(X, n))

    def posterior_on_paper_grid(self, X: np.ndarray) -> np.ndarray:
        """The truth of the paper's Hellinger distances: Float[m, K] at X: Float[m, 2].

        The paper's truth is a class share among 100,000 draws in a window of ±0.01, set to 1/2
        where the window is empty, averaged over 1000 repetitions. A window expects L = 40 f(x)
        draws, f the mixture's density, and is empty with probability exp(-L), so the average is
        q(x) = P(y|x) (1 - exp(-L)) + exp(-L) / 2. It rewards saying 1/2 where there is little data.
        """
        logs = self.log_densities(X)
        empty = np.exp(-_DRAWS_PER_UNIT_DENSITY * np.exp(logs).mean(axis=1))[:, None]
        return posterior_from_log_densities(logs) * (1 - empty) + empty / logs.shape[1]

    def density(self, X: np.ndarray, n: int | None = None) -> np.ndarray:
        """Density of the mixture of the classes: Float[m] at X: Float[m, 2], per unit of area."""
        return np.exp(self.log_densities(X, n)).mean(axis=1)

    def log_densities(self, X: np.ndarray, n: int | None = None) -> np.ndarray:
        """Log density of each class: Float[m, K] at X: Float[m, 2]; -inf outside the box.

        The box's edge has no probability; it counts as inside, so that the paper's grid, which
        begins at -1, has a truth there.
        """
        X = np.asarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != 2:
            raise DataError(
                f"{self.name} lives in the plane: X must have shape (n, 2), got {X.shape}"
            )
        if np.isnan(X).any():
            raise DataError(
                f"{self.name} has no density at NaN, which X has in row"
                f" {np.argwhere(np.isnan(X))[0, 0]}; drop such rows"
            )
        logs = np.full((len(X), len(self.classes)), -np.inf)
        inside = (np.abs(X) <= 1).all(axis=1)
        logs[inside] = self._log_densities_in_box(X[inside], n)
        return logs

    @abstractmethod
    def _log_densities_in_box(self, X: np.ndarray, n: int | None) -> np.ndarray:
        """Log density of each class, Float[m, K], at X: Float[m, 2] in [-1, 1]²."""


class ScatterSimulation(PlaneSimulation):
    """As many rows of each class as n allows; a row is proposed for its label again and again until
    it lies in the box.
    """

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw ``n`` rows in random order, as many of each class as ``n`` allows. X: Float[n, 2],
        y: Int[n].
        """
        y = balanced_labels(n, len(self.classes), rng)
        return draw_in_box(lambda labels: self._draw_candidates(labels, rng), y), y

    @abstractmethod
    def _draw_candidates(self, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One row for each of ``labels``, Int[m], before the box cuts: Float[m, 2]."""


def balanced_labels(n: int, n_classes: int, rng: np.random.Generator) -> np.ndarray:
    """Int[n] in random order: every class n // K times, and the rows left over to random classes,
    so that each has share 1/K on average.
    """
    first = rng.integers(n_classes)
    return rng.permutation((np.arange(n) + first) % n_classes)


def draw_in_box(propose: Callable[[np.ndarray], np.ndarray], labels: np.ndarray) -> np.ndarray:
    """Rows ``propose(labels)``, each drawn again for its own label until it lies in (-1, 1)²:
    Float[n, 2].
    """
    X = propose(labels)
    outside = np.flatnonzero((np.abs(X) >= 1).any(axis=1))
    while outside.size:
        again = propose(labels[outside])
        X[outside] = again
        outside = outside[(np.abs(again) >= 1).any(axis=1)]
    return X


def posterior_from_log_densities(logs: np.ndarray) -> np.ndarray:
    """Bayes' rule for equally frequent classes: rows of log densities Float[m, K] to P(y|x):
    Float[m, K]; 1/K where all are -inf.
    """
    top = logs.max(axis=1, keepdims=True)
    nowhere = np.isneginf(top)
    weights = np.exp(np.where(nowhere, 0.0, logs - np.where(nowhere, 0.0, top)))
    return weights / weights.sum(axis=1, keepdims=True)
