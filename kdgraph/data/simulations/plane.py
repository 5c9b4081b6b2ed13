"""Base classes and formulas of the five simulations in the plane (Dey et al. 2024, Appendix C).

The simulations have in common the box (-1, 1)² that contains all rows, Bayes' rule for equally
frequent classes, and the grid of points on which the paper measures Hellinger distances. The first
functions are textbook formulas: the normal distribution on a line, in an interval and around a
circle, and Gauss-Legendre quadrature. SciPy's ``ndtr`` and NumPy's ``leggauss`` compute them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np

from kdgraph.data.simulations.base import ClassSimulation
from kdgraph.errors import DataError
from kdgraph.parameters import Range


def log_normal(distance: np.ndarray, std: np.ndarray | float) -> np.ndarray:
    """Return the log density of N(0, std²) at ``distance``, elementwise."""
    return -0.5 * (distance / std) ** 2 - np.log(std * np.sqrt(2 * np.pi))


def normal_interval_probability(
    low: np.ndarray | float, high: np.ndarray | float, std: float
) -> np.ndarray:
    """Return P(low < N(0, std²) < high), elementwise."""
    # SciPy is imported late, because listing configurations on the command line does not need it.
    from scipy.special import ndtr

    return ndtr(np.asarray(high) / std) - ndtr(np.asarray(low) / std)


def log_wrapped_normal(angle: np.ndarray, std: np.ndarray | float) -> np.ndarray:
    """Return the log density, per radian, of N(0, std²) wrapped around the circle, elementwise.

    The density is W(a) = Σ_j exp(-(a + 2πj)² / 2 std²) / (std √2π).
    """
    # From std = 9 on, the wrapped density is 1/2π to the last bit (its first harmonic is
    # exp(-std²/2) = 3e-18), and so is that of 9.
    std = np.minimum(std, 9.0)
    # The sum is taken relative to the image nearest to 0, so that it cannot underflow.
    nearest = np.remainder(angle + np.pi, 2 * np.pi) - np.pi
    reach = int(np.ceil(9 * np.max(std, initial=0.0) / (2 * np.pi))) + 1
    relative = sum(
        np.exp(-2 * np.pi * j * (nearest + np.pi * j) / std**2) for j in range(-reach, reach + 1)
    )
    return log_normal(nearest, std) + np.log(relative)


def integrate(
    function: Callable[[np.ndarray], np.ndarray], low: float, high: float, panels: int = 256
) -> float:
    """Return the integral ∫ function over [low, high].

    The quadrature is 16-point Gauss-Legendre in each of ``panels`` equal panels. ``function`` takes
    and returns Float[panels, 16].
    """
    nodes, weights = np.polynomial.legendre.leggauss(16)
    edges = np.linspace(low, high, panels + 1)
    half = (high - low) / panels / 2
    points = (edges[:-1, None] + half) + half * nodes
    return float((function(points) * weights).sum() * half)


TruthName = Literal["exact", "paper_grid"]
"""Name of the truth that ``posterior`` returns.

"exact" is Bayes' rule. "paper_grid" is the truth of the paper's Hellinger distances.
"""
NoiseStd = Annotated[float, Range(0.01, 1, "both")]
"""Standard deviation of the noise, in the units of the box (-1, 1)²."""

_DRAWS_PER_UNIT_DENSITY = 1e5 * 0.02**2
"""Expected number of draws in a window of the paper's truth, per unit of density (40).

The paper draws 100,000 rows and counts classes in a window of ±0.01 around each grid point.
"""


def paper_grid() -> np.ndarray:
    """Return the 200 × 200 points of the paper's Hellinger distances, Float[40000, 2].

    They are those of ``arange(-1, 1, 0.01)`` on both axes. The first coordinate varies fastest.

    Examples
    --------
    >>> from kdgraph.data.simulations import paper_grid
    >>> paper_grid().shape, paper_grid()[:2].round(2).tolist()
    ((40000, 2), [[-1.0, -1.0], [-0.99, -1.0]])
    """
    ticks = np.arange(-1, 1, 0.01)
    x2, x1 = np.meshgrid(ticks, ticks, indexing="ij")
    return np.column_stack([x1.ravel(), x2.ravel()])


@dataclass(eq=False, repr=False)
class PlaneSimulation(ClassSimulation):
    """Equally frequent classes in the box (-1, 1)², each with a known density.

    A subclass implements ``sample`` and ``_log_densities_in_box``. The posterior and the density
    follow from these. Outside of the box the density is 0, and all classes have the same posterior.

    Parameters
    ----------
    truth : {"exact", "paper_grid"}, default="exact"
        Truth that ``posterior`` returns.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.data.simulations import GaussianXor, PlaneSimulation
    >>> simulation = GaussianXor()
    >>> isinstance(simulation, PlaneSimulation)
    True
    >>> X, y = simulation.sample(100, np.random.default_rng(0))
    >>> X.shape, simulation.posterior(X).shape
    ((100, 2), (100, 2))
    >>> simulation.posterior(np.array([[5.0, 5.0]]))
    array([[0.5, 0.5]])
    """

    truth: TruthName = field(default="exact", kw_only=True)

    def posterior(self, X: np.ndarray, n: int | None = None) -> np.ndarray:
        """Return the true class probabilities P(y|x).

        Parameters
        ----------
        X : Float[m, 2]
            Rows.
        n : int, default=None
            Number of rows of the sample from which the rows come; None means the population. Only
            the spiral depends on it.

        Returns
        -------
        Float[m, K]
            Class probabilities, uniform where no class has density.

        Raises
        ------
        DataError
            If X does not have 2 columns, or contains NaN.
        """
        if self.truth == "paper_grid":
            return self.posterior_on_paper_grid(X)
        return posterior_from_log_densities(self.log_densities(X, n))

    def posterior_on_paper_grid(self, X: np.ndarray) -> np.ndarray:
        """Return the truth of the paper's Hellinger distances, Float[m, K], at X: Float[m, 2].

        The paper estimates the truth as the fraction of a class among 100,000 draws in a window of
        ±0.01. The value is 1/2 where the window is empty, and it is averaged over 1000 repetitions.
        A window contains L = 40 f(x) draws on average, where f is the density of the mixture. It is
        empty with probability exp(-L). So the average is q(x) = P(y|x) (1 - exp(-L)) + exp(-L) / 2.
        This truth rewards the prediction 1/2 where there is little data.
        """
        logs = self.log_densities(X)
        empty = np.exp(-_DRAWS_PER_UNIT_DENSITY * np.exp(logs).mean(axis=1))[:, None]
        return posterior_from_log_densities(logs) * (1 - empty) + empty / logs.shape[1]

    def density(self, X: np.ndarray, n: int | None = None) -> np.ndarray:
        """Return the density of the mixture of the classes, per unit of area, Float[m].

        See :meth:`posterior` for the parameters.
        """
        return np.exp(self.log_densities(X, n)).mean(axis=1)

    def log_densities(self, X: np.ndarray, n: int | None = None) -> np.ndarray:
        """Return the log density of each class, Float[m, K], which is -inf outside of the box.

        The edge of the box has probability 0. It counts as inside, because the paper's grid begins
        at -1 and needs a truth there. See :meth:`posterior` for the parameters.
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
        """Return the log density of each class, Float[m, K], at X: Float[m, 2] in [-1, 1]²."""


@dataclass(eq=False, repr=False)
class ScatterSimulation(PlaneSimulation):
    """Simulations with balanced classes whose rows [n, 2] are redrawn until they lie in the box.

    The label of a row is drawn once. Only its position is proposed again.
    """

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        y = balanced_labels(n, len(self.classes), rng)
        return draw_in_box(lambda labels: self._draw_candidates(labels, rng), y), y

    @abstractmethod
    def _draw_candidates(self, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw one row for each label in Int[m], before the cut at the box: Float[m, 2]."""


def balanced_labels(n: int, n_classes: int, rng: np.random.Generator) -> np.ndarray:
    """Draw labels Int[n] in random order, with class counts as equal as possible.

    Every class occurs n // K times. The remaining rows belong to random classes, so that each class
    has the fraction 1/K on average.
    """
    first = rng.integers(n_classes)
    return rng.permutation((np.arange(n) + first) % n_classes)


def draw_in_box(propose: Callable[[np.ndarray], np.ndarray], labels: np.ndarray) -> np.ndarray:
    """Draw rows Float[n, 2] until all of them lie in (-1, 1)².

    ``propose`` draws one row for each label: Int[m] → Float[m, 2]. A redrawn row keeps its label.
    """
    X = propose(labels)
    outside = np.flatnonzero((np.abs(X) >= 1).any(axis=1))
    while outside.size:
        redrawn = propose(labels[outside])
        X[outside] = redrawn
        outside = outside[(np.abs(redrawn) >= 1).any(axis=1)]
    return X


def posterior_from_log_densities(logs: np.ndarray) -> np.ndarray:
    """Return P(y|x), Float[m, K], by Bayes' rule for equally frequent classes.

    It is 1/K where all log densities, Float[m, K], are -inf.
    """
    # Dividing by the largest density first keeps at least one weight at 1.
    top = logs.max(axis=1, keepdims=True)
    no_density = np.isneginf(top)
    weights = np.exp(np.where(no_density, 0.0, logs - np.where(no_density, 0.0, top)))
    return weights / weights.sum(axis=1, keepdims=True)
