"""A Gamma regression whose mean is Rosenbrock's function: a curved valley in the plane, with noise that grows up its sides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kdgraph.data.simulations.known_features import rows_of
from kdgraph.parameters import Positive, check_parameters

if TYPE_CHECKING:
    from kdgraph.distributions import Distribution

_SMALLEST_MEAN = 1e-300
"""The function is 0 at (a, a²), where no Gamma distribution has its mean; no row of a sample is there."""


class Rosenbrock:
    """Y ~ Gamma with mean f(x) = (a - x1)² + b (x2 - x1²)² and a shape that is the same everywhere; x1 uniform on (-2, 2), x2 on (-1, 5).

    Parameters
    ----------
    a : where the valley's floor is lowest, at x = (a, a²).
    b : how steep its sides are.
    shape : of the Gamma distributions: their standard deviation is the mean over √shape, a tenth of it at 100.

    Notes
    -----
    Torres et al. (2024), "Model-free local recalibration of neural networks", section 4.2, with a = 1, b = 10 and shape 100. The mean
    squared distance of y to the true mean is E f² / shape, 57.5 with these values, which is what no prediction can go below.

    Examples
    --------
    >>> truth = Rosenbrock().distribution(np.array([[0.0, 1.0], [2.0, 0.0]]))
    >>> truth.mean().tolist(), np.sqrt(truth.var()).round(6).tolist()
    ([11.0, 161.0], [1.1, 16.1])
    """

    name = "rosenbrock"
    classes = np.empty(0)
    feature_names: tuple[str, ...] = ("x1", "x2")

    def __init__(self, a: float = 1.0, b: Positive = 10.0, shape: Positive = 100.0) -> None:
        self.a = a
        self.b = b
        self.shape = shape
        check_parameters(self)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw ``n`` independent rows. X: Float[n, 2], y: Float[n]."""
        X = rng.uniform((-2.0, -1.0), (2.0, 5.0), size=(n, 2))
        return X, rng.gamma(self.shape, self._mean(X) / self.shape)

    def distribution(self, X: np.ndarray) -> Distribution:
        """The true distributions of y at the n rows of X: Float[n, 2]; the law goes on outside of where rows are drawn."""
        from kdgraph.distributions import ScipyFamily

        mean = np.maximum(self._mean(rows_of(X, self.name, 2)), _SMALLEST_MEAN)
        return ScipyFamily("gamma", {"a": self.shape, "scale": mean / self.shape})

    def _mean(self, X: np.ndarray) -> np.ndarray:
        x1, x2 = X.T
        return (self.a - x1) ** 2 + self.b * (x2 - x1**2) ** 2
