"""A parabola with normal noise that grows with x: the regression on which a straight line is wrong in opposite ways here and there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kdgraph.errors import DataError, ParameterError
from kdgraph.parameters import Positive, check_parameters

if TYPE_CHECKING:
    from kdgraph.distributions import Normal


class Heteroscedastic:
    """Y = 10 + 5 X² + N(0, (noise X)²), X uniform on (low, high).

    Parameters
    ----------
    low, high : where X lies; 0 < low < high.
    noise : standard deviation of the noise at X = 1; it grows as X.

    Notes
    -----
    Torres et al. (2024), "Model-free local recalibration of neural networks", Section 4.1, Eq. 4, with X uniform on (2, 20). The best
    straight line has slope 5 (low + high), and its mean squared distance to the parabola is 25 (high - low)⁴ / 180: 14580 on (2, 20).

    >>> truth = Heteroscedastic().distribution(np.array([[2.0], [10.0]]))
    >>> truth.mean().tolist(), truth.scale.tolist()
    ([30.0, 510.0], [60.0, 300.0])
    """

    name = "heteroscedastic"
    classes = np.empty(0)
    feature_names: tuple[str, ...] = ("x",)

    def __init__(self, low: Positive = 2.0, high: Positive = 20.0, noise: Positive = 30.0) -> None:
        self.low = low
        self.high = high
        self.noise = noise
        check_parameters(self)
        if low >= high:
            raise ParameterError(f"high must be above low, {low:g}, got {high:g}")

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw ``n`` independent rows. X: Float[n, 1], y: Float[n]."""
        X = rng.uniform(self.low, self.high, size=(n, 1))
        return X, self.distribution(X).sample(1, rng)[:, 0]

    def distribution(self, X: np.ndarray) -> Normal:
        """The true distributions of y at the n rows of X: Float[n, 1], from 0; the law goes on outside of (low, high)."""
        from kdgraph.distributions import Normal

        X = np.asarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != 1:
            raise DataError(f"heteroscedastic has 1 feature: X must have shape (n, 1), got {X.shape}")
        if not (np.isfinite(X) & (X > 0)).all():
            raise DataError("heteroscedastic has a distribution only where x is finite and above 0; drop other rows")
        x = X[:, 0]
        return Normal(10 + 5 * x**2, self.noise * x)
