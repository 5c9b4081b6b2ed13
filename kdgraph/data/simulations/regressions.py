"""Regression simulations whose true conditional distributions are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kdgraph.data.simulations.base import RegressionSource
from kdgraph.data.source import numbered_names
from kdgraph.distributions import Normal, ScipyFamily
from kdgraph.errors import ParameterError
from kdgraph.parameters import Positive


@dataclass(eq=False, repr=False)
class Heteroscedastic(RegressionSource[Normal]):
    """A parabola with normal noise that grows with x.

    Y = 10 + 5 X² + N(0, (noise X)²), with X uniform on (low, high).

    Parameters
    ----------
    low : float, default=2.0
        Lower end of X. It must be above 0 and below ``high``.
    high : float, default=20.0
        Upper end of X.
    noise : float, default=30.0
        Standard deviation of the noise at X = 1. The standard deviation is proportional to X.

    Notes
    -----
    The best straight line has slope 5 (low + high). Its mean squared distance to the parabola is
    25 (high - low)⁴ / 180, which is 14580 on (2, 20).

    References
    ----------
    Torres et al. (2024), "Model-free local recalibration of neural networks", Section 4.1, Eq. 4,
    with X uniform on (2, 20).

    Examples
    --------
    >>> truth = Heteroscedastic().distribution(np.array([[2.0], [10.0]]))
    >>> truth.mean().tolist(), truth.scale.tolist()
    ([30.0, 510.0], [60.0, 300.0])
    """

    low: Positive = 2.0
    high: Positive = 20.0
    noise: Positive = 30.0

    name = "heteroscedastic"
    feature_names = ("x",)
    _support = "x is finite and above 0"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low >= self.high:
            raise ParameterError(f"high must be above low, {self.low:g}, got {self.high:g}")

    def _draw_features(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(self.low, self.high, size=(n, 1))

    def _in_support(self, X: np.ndarray) -> np.ndarray:
        return np.isfinite(X) & (X > 0)

    def _true_distribution(self, X: np.ndarray) -> Normal:
        x = X[:, 0]
        return Normal(10 + 5 * x**2, self.noise * x)


_CIRCUIT_RANGES = np.array([0.0, 40 * np.pi, 0.0, 1.0]), np.array([100.0, 560 * np.pi, 1.0, 11.0])
"""Lower and upper ends of resistance, angular frequency, inductance and capacitance."""


@dataclass(eq=False, repr=False)
class FriedmanSimulation(RegressionSource[Normal]):
    """Friedman's regressions, with known true distributions and new rows in every run.

    Y = m(x) + N(0, noise²), as in scikit-learn's ``make_friedman1`` to ``make_friedman3``.

    Parameters
    ----------
    number : {1, 2, 3}, default=1
        Number of the regression. 1: m(x) = 10 sin(π x1 x2) + 20 (x3 - ½)² + 10 x4 + 5 x5, with 10
        features that are uniform on (0, 1). 2 and 3: impedance and phase of a circuit with
        resistance x1 and reactance x2 x3 - 1/(x2 x4). They have no distribution where x2 or x4 is
        0, or x1 in 3.
    noise : float, default=1.0
        Standard deviation of the noise.

    References
    ----------
    Friedman, "Multivariate adaptive regression splines", Annals of Statistics 19, 1991; Breiman,
    "Bagging predictors", Machine Learning 24, 1996.

    Examples
    --------
    >>> FriedmanSimulation(1).distribution(np.full((1, 10), 0.5)).mean().round(3).tolist()
    [14.571]
    """

    number: Literal[1, 2, 3] = 1
    noise: Positive = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.name = f"friedman{self.number}_truth"
        self.feature_names = numbered_names(10 if self.number == 1 else 4)

    def _draw_features(self, n: int, rng: np.random.Generator) -> np.ndarray:
        low, high = (np.zeros(10), np.ones(10)) if self.number == 1 else _CIRCUIT_RANGES
        return rng.uniform(low, high, size=(n, len(self.feature_names)))

    def _true_distribution(self, X: np.ndarray) -> Normal:
        # The formulas of make_friedman1 to make_friedman3, which return only sampled targets.
        noise = np.full(len(X), self.noise)
        if self.number == 1:
            hill = 10 * np.sin(np.pi * X[:, 0] * X[:, 1])
            return Normal(hill + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4], noise)
        resistance, frequency, inductance, capacitance = X.T
        reactance = frequency * inductance - 1 / (frequency * capacitance)
        if self.number == 2:
            return Normal(np.hypot(resistance, reactance), noise)
        return Normal(np.arctan(reactance / resistance), noise)


_MIN_MEAN = 1e-300
"""Smallest mean of the Gamma distributions.

Rosenbrock's function is 0 at (a, a²), where a Gamma distribution with this mean does not exist.
A sampled row has probability 0 of lying there.
"""


@dataclass(eq=False, repr=False)
class Rosenbrock(RegressionSource[ScipyFamily]):
    """A Gamma regression whose mean is Rosenbrock's function.

    Y ~ Gamma with mean f(x) = (a - x1)² + b (x2 - x1²)² and a constant shape parameter; x1 is
    uniform on (-2, 2) and x2 on (-1, 5).

    Parameters
    ----------
    a : float, default=1.0
        Position of the minimum of f, which is at x = (a, a²).
    b : float, default=10.0
        Steepness of the sides of the valley.
    shape : float, default=100.0
        Shape parameter of the Gamma distributions. Their standard deviation is the mean divided by
        √shape, a tenth of the mean at 100.

    Notes
    -----
    Torres et al. (2024), "Model-free local recalibration of neural networks", Section 4.2, with a =
    1, b = 10 and shape 100. The mean squared distance of y to the true mean is E f² / shape, which
    is 57.5 with these values. No prediction can have a smaller mean squared error.

    Examples
    --------
    >>> truth = Rosenbrock().distribution(np.array([[0.0, 1.0], [2.0, 0.0]]))
    >>> truth.mean().tolist(), np.sqrt(truth.var()).round(6).tolist()
    ([11.0, 161.0], [1.1, 16.1])
    """

    a: float = 1.0
    b: Positive = 10.0
    shape: Positive = 100.0

    name = "rosenbrock"
    feature_names = ("x1", "x2")

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        X = self._draw_features(n, rng)
        return X, rng.gamma(self.shape, self._mean(X) / self.shape)

    def _draw_features(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return rng.uniform((-2.0, -1.0), (2.0, 5.0), size=(n, 2))

    def _true_distribution(self, X: np.ndarray) -> ScipyFamily:
        mean = np.maximum(self._mean(X), _MIN_MEAN)
        return ScipyFamily("gamma", {"a": self.shape, "scale": mean / self.shape})

    def _mean(self, X: np.ndarray) -> np.ndarray:
        x1, x2 = X.T
        return (self.a - x1) ** 2 + self.b * (x2 - x1**2) ** 2


_N_FEATURES, _CORRELATION = 20, 0.5


@dataclass(eq=False, repr=False)
class Tran20(RegressionSource[Normal]):
    """A nonlinear regression in 20 dependent features, of which the first 10 have an effect.

    Y = m(x) + N(0, noise²). X is normal in 20 dimensions, with mean 0 and covariance 0.5^|i - j|.
    Given x10, the features x11 to x20 carry no further information.

    m(x) = 5 + 10 x1 + 10/(x2² + 1) + 5 x3 x4 + 2 x4 + 5 x4² + 5 x5 + 2 x6 + 10/(x7² + 1) + 5 x8 x9
    + 5 x9² + 5 x10

    Parameters
    ----------
    noise : float, default=1.0
        Standard deviation of the noise.

    Notes
    -----
    Torres et al. (2024), Section 4.3, Eq. 6, state this regression with noise 1. They use 1,000 to
    1,000,000 rows: 80 % for training, 10 % for recalibration and 10 % for testing.

    References
    ----------
    Tran, Nguyen, Nott and Kohn, "Bayesian deep net GLM and GLMM", JCGS 29, 2020.

    Examples
    --------
    >>> Tran20().distribution(np.zeros((1, 20))).mean().tolist()
    [25.0]
    """

    noise: Positive = 1.0

    name = "tran20"
    feature_names = numbered_names(_N_FEATURES)

    def _draw_features(self, n: int, rng: np.random.Generator) -> np.ndarray:
        # The autoregression x_i = ½ x_{i-1} + √¾ z_i, with standard normal z_i, has exactly the
        # covariance 0.5^|i - j|.
        X = rng.standard_normal((n, _N_FEATURES))
        for i in range(1, _N_FEATURES):
            X[:, i] = _CORRELATION * X[:, i - 1] + np.sqrt(1 - _CORRELATION**2) * X[:, i]
        return X

    def _true_distribution(self, X: np.ndarray) -> Normal:
        x1, x2, x3, x4, x5, x6, x7, x8, x9, x10 = X[:, :10].T
        linear = 5 + 10 * x1 + 2 * x4 + 5 * x5 + 2 * x6 + 5 * x10
        hills = 10 / (x2**2 + 1) + 10 / (x7**2 + 1)
        products = 5 * x3 * x4 + 5 * x4**2 + 5 * x8 * x9 + 5 * x9**2
        return Normal(linear + hills + products, np.full(len(X), self.noise))
