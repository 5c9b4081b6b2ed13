"""What simulations of a regression ask of rows before they say what is true there.

A parabola with normal noise that grows with x: the regression on which a straight line is wrong in
opposite ways here and there.

The three nonlinear regressions of Friedman, any number of rows of them, with their true
distributions.

A Gamma regression whose mean is Rosenbrock's function: a curved valley in the plane, with noise
that grows up its sides.

A nonlinear regression in 20 features that depend on each other, of which 10 count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from kdgraph.errors import DataError, ParameterError
from kdgraph.parameters import Positive, check_parameters

if TYPE_CHECKING:
    from kdgraph.distributions import Distribution, Normal


def _validate_features(X: np.ndarray, name: str, d: int) -> np.ndarray:
    """X as Float64[n, d]; ours.

    Raises
    ------
    DataError
        For another number of features, or values that are not finite, with the name of the
        simulation.
    """
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != d:
        raise DataError(f"{name} has {d} features: X must have shape (n, {d}), got {X.shape}")
    if not np.isfinite(X).all():
        raise DataError(
            f"{name} has a distribution only where all features are finite; drop other rows"
        )
    return X


class Heteroscedastic:
    """Y = 10 + 5 X² + N(0, (noise X)²), X uniform on (low, high).

    Parameters
    ----------
    low, high : where X lies; 0 < low < high.
    noise : standard deviation of the noise at X = 1; it grows as X.

    Notes
    -----
    Torres et al. (2024), "Model-free local recalibration of neural networks", Section 4.1, Eq. 4,
    with X uniform on (2, 20). The best straight line has slope 5 (low + high), and its mean squared
    distance to the parabola is 25 (high - low)⁴ / 180: 14580 on (2, 20).

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
        """The true distributions of y at the n rows of X: Float[n, 1], from 0; the law goes on
        outside of (low, high).
        """
        from kdgraph.distributions import Normal

        X = np.asarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != 1:
            raise DataError(
                f"heteroscedastic has 1 feature: X must have shape (n, 1), got {X.shape}"
            )
        if not (np.isfinite(X) & (X > 0)).all():
            raise DataError(
                "heteroscedastic has a distribution only where x is finite and above 0; drop other"
                " rows"
            )
        x = X[:, 0]
        return Normal(10 + 5 * x**2, self.noise * x)


_CIRCUIT_RANGES = np.array([0.0, 40 * np.pi, 0.0, 1.0]), np.array([100.0, 560 * np.pi, 1.0, 11.0])
"""Ends of resistance, angular frequency, inductance and capacitance, which are uniform between
them.
"""


class FriedmanSimulation:
    """Y = m(x) + N(0, noise²), as scikit-learn's ``make_friedman1`` to ``make_friedman3`` have it,
    drawn anew in every run.

    Parameters
    ----------
    number : 1: m(x) = 10 sin(π x1 x2) + 20 (x3 - ½)² + 10 x4 + 5 x5 with 10 features uniform on (0,
        1). 2 and 3: impedance and phase of a circuit of resistance x1 and reactance x2 x3 - 1/(x2
        x4).
    noise : standard deviation of the noise.

    References
    ----------
    Friedman, "Multivariate adaptive regression splines", Annals of Statistics 19, 1991; Breiman,
    "Bagging predictors", Machine Learning 24, 1996.

    Examples
    --------
    >>> FriedmanSimulation(1).distribution(np.full((1, 10), 0.5)).mean().round(3).tolist()
    [14.571]
    """

    classes = np.empty(0)

    def __init__(self, number: Literal[1, 2, 3] = 1, noise: Positive = 1.0) -> None:
        self.number = number
        self.noise = noise
        check_parameters(self)
        self.name = f"friedman{number}_truth"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names x1, x2 and so on."""
        return tuple(f"x{i + 1}" for i in range(self._n_features))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw ``n`` independent rows. X: Float[n, 10], of 2 and 3 Float[n, 4]; y: Float[n]."""
        low, high = (np.zeros(10), np.ones(10)) if self.number == 1 else _CIRCUIT_RANGES
        X = rng.uniform(low, high, size=(n, self._n_features))
        return X, self.distribution(X).sample(1, rng)[:, 0]

    def distribution(self, X: np.ndarray) -> Normal:
        """The true distributions of y at the n rows of X: Float[n, 10], of 2 and 3 Float[n, 4]; of
        these x2, x4 and, of 3, x1 not 0.
        """
        from kdgraph.distributions import Normal

        X = _validate_features(X, self.name, self._n_features)
        if self.number == 1:
            hill = 10 * np.sin(np.pi * X[:, 0] * X[:, 1])
            return Normal(
                hill + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4],
                np.full(len(X), self.noise),
            )
        resistance, frequency, inductance, capacitance = X.T
        reactance = frequency * inductance - 1 / (frequency * capacitance)
        return Normal(
            (
                np.hypot(resistance, reactance)
                if self.number == 2
                else np.arctan(reactance / resistance)
            ),
            np.full(len(X), self.noise),
        )

    @property
    def _n_features(self) -> int:
        return 10 if self.number == 1 else 4


_MIN_MEAN = 1e-300
"""The function is 0 at (a, a²), where no Gamma distribution has its mean; no row of a sample is
there.
"""


class Rosenbrock:
    """Y ~ Gamma with mean f(x) = (a - x1)² + b (x2 - x1²)² and a shape that is the same everywhere;
    x1 uniform on (-2, 2), x2 on (-1, 5).

    Parameters
    ----------
    a : where the valley's floor is lowest, at x = (a, a²).
    b : how steep its sides are.
    shape : of the Gamma distributions: their standard deviation is the mean over √shape, a tenth of
        it at 100.

    Notes
    -----
    Torres et al. (2024), "Model-free local recalibration of neural networks", section 4.2, with a =
    1, b = 10 and shape 100. The mean squared distance of y to the true mean is E f² / shape, 57.5
    with these values, which is what no prediction can go below.

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
        """The true distributions of y at the n rows of X: Float[n, 2]; the law goes on outside of
        where rows are drawn.
        """
        from kdgraph.distributions import ScipyFamily

        mean = np.maximum(self._mean(_validate_features(X, self.name, 2)), _MIN_MEAN)
        return ScipyFamily("gamma", {"a": self.shape, "scale": mean / self.shape})

    def _mean(self, X: np.ndarray) -> np.ndarray:
        x1, x2 = X.T
        return (self.a - x1) ** 2 + self.b * (x2 - x1**2) ** 2


_N_FEATURES, _CORRELATION = 20, 0.5


class Tran20:
    """Y = m(x) + N(0, noise²) with X normal in 20 dimensions, mean 0 and covariance 0.5^|i - j|;
    x11 to x20 tell nothing that x10 does not.

    m(x) = 5 + 10 x1 + 10/(x2² + 1) + 5 x3 x4 + 2 x4 + 5 x4² + 5 x5 + 2 x6 + 10/(x7² + 1) + 5 x8 x9
    + 5 x9² + 5 x10

    Parameters
    ----------
    noise : standard deviation of the noise.

    Notes
    -----
    Tran, Nguyen, Nott and Kohn, "Bayesian deep net GLM and GLMM", JCGS 29, 2020, as Torres et al.
    (2024), section 4.3, Eq. 6, give it, with noise 1. Torres et al. have 1,000 to 1,000,000 rows,
    of which 80 % train, 10 % recalibrate and 10 % test.

    Examples
    --------
    >>> Tran20().distribution(np.zeros((1, 20))).mean().tolist()
    [25.0]
    """

    name = "tran20"
    classes = np.empty(0)
    feature_names: tuple[str, ...] = tuple(f"x{i + 1}" for i in range(_N_FEATURES))

    def __init__(self, noise: Positive = 1.0) -> None:
        self.noise = noise
        check_parameters(self)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw ``n`` independent rows. X: Float[n, 20], y: Float[n].

        Features are a walk, x_i = ½ x_{i-1} + √¾ z_i with standard normal z_i, which has this
        covariance.
        """
        X = rng.standard_normal((n, _N_FEATURES))
        for i in range(1, _N_FEATURES):
            X[:, i] = _CORRELATION * X[:, i - 1] + np.sqrt(1 - _CORRELATION**2) * X[:, i]
        return X, self.distribution(X).sample(1, rng)[:, 0]

    def distribution(self, X: np.ndarray) -> Normal:
        """The true distributions of y at the n rows of X: Float[n, 20]."""
        from kdgraph.distributions import Normal

        x1, x2, x3, x4, x5, x6, x7, x8, x9, x10 = _validate_features(X, self.name, _N_FEATURES)[
            :, :10
        ].T
        linear = 5 + 10 * x1 + 2 * x4 + 5 * x5 + 2 * x6 + 5 * x10
        hills = 10 / (x2**2 + 1) + 10 / (x7**2 + 1)
        products = 5 * x3 * x4 + 5 * x4**2 + 5 * x8 * x9 + 5 * x9**2
        return Normal(linear + hills + products, np.full(len(X), self.noise))
