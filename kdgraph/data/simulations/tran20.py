"""A nonlinear regression in 20 features that depend on each other, of which 10 count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kdgraph.data.simulations.known_features import rows_of
from kdgraph.parameters import Positive, check_parameters

if TYPE_CHECKING:
    from kdgraph.distributions import Normal

_D, _CORRELATION = 20, 0.5


class Tran20:
    """Y = m(x) + N(0, noise²) with X normal in 20 dimensions, mean 0 and covariance 0.5^|i - j|; x11 to x20 tell nothing that x10 does not.

    m(x) = 5 + 10 x1 + 10/(x2² + 1) + 5 x3 x4 + 2 x4 + 5 x4² + 5 x5 + 2 x6 + 10/(x7² + 1) + 5 x8 x9 + 5 x9² + 5 x10

    Parameters
    ----------
    noise : standard deviation of the noise.

    Notes
    -----
    Tran, Nguyen, Nott and Kohn, "Bayesian deep net GLM and GLMM", JCGS 29, 2020, as Torres et al. (2024), section 4.3, Eq. 6, give it,
    with noise 1. Torres et al. have 1,000 to 1,000,000 rows, of which 80 % train, 10 % recalibrate and 10 % test.

    Examples
    --------
    >>> Tran20().distribution(np.zeros((1, 20))).mean().tolist()
    [25.0]
    """

    name = "tran20"
    classes = np.empty(0)
    feature_names: tuple[str, ...] = tuple(f"x{i + 1}" for i in range(_D))

    def __init__(self, noise: Positive = 1.0) -> None:
        self.noise = noise
        check_parameters(self)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw ``n`` independent rows. X: Float[n, 20], y: Float[n].

        Features are a walk, x_i = ½ x_{i-1} + √¾ z_i with standard normal z_i, which has this covariance.
        """
        X = rng.standard_normal((n, _D))
        for i in range(1, _D):
            X[:, i] = _CORRELATION * X[:, i - 1] + np.sqrt(1 - _CORRELATION**2) * X[:, i]
        return X, self.distribution(X).sample(1, rng)[:, 0]

    def distribution(self, X: np.ndarray) -> Normal:
        """The true distributions of y at the n rows of X: Float[n, 20]."""
        from kdgraph.distributions import Normal

        x1, x2, x3, x4, x5, x6, x7, x8, x9, x10 = rows_of(X, self.name, _D)[:, :10].T
        linear = 5 + 10 * x1 + 2 * x4 + 5 * x5 + 2 * x6 + 5 * x10
        hills = 10 / (x2**2 + 1) + 10 / (x7**2 + 1)
        products = 5 * x3 * x4 + 5 * x4**2 + 5 * x8 * x9 + 5 * x9**2
        return Normal(linear + hills + products, np.full(len(X), self.noise))
