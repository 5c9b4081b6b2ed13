"""The three nonlinear regressions of Friedman, any number of rows of them, with their true distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from kdgraph.data.simulations.known_features import rows_of
from kdgraph.parameters import Positive, check_parameters

if TYPE_CHECKING:
    from kdgraph.distributions import Normal

_CIRCUIT = np.array([0.0, 40 * np.pi, 0.0, 1.0]), np.array([100.0, 560 * np.pi, 1.0, 11.0])
"""Ends of resistance, angular frequency, inductance and capacitance, which are uniform between them."""


class FriedmanTruth:
    """Y = m(x) + N(0, noise²), as scikit-learn's ``make_friedman1`` to ``make_friedman3`` have it, drawn anew in every run.

    Parameters
    ----------
    number : 1: m(x) = 10 sin(π x1 x2) + 20 (x3 - ½)² + 10 x4 + 5 x5 with 10 features uniform on (0, 1). 2 and 3: impedance and phase of
        a circuit of resistance x1 and reactance x2 x3 - 1/(x2 x4).
    noise : standard deviation of the noise.

    References
    ----------
    Friedman, "Multivariate adaptive regression splines", Annals of Statistics 19, 1991; Breiman, "Bagging predictors", Machine Learning
    24, 1996.

    Examples
    --------
    >>> FriedmanTruth(1).distribution(np.full((1, 10), 0.5)).mean().round(3).tolist()
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
        return tuple(f"x{i + 1}" for i in range(self._d))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw ``n`` independent rows. X: Float[n, 10], of 2 and 3 Float[n, 4]; y: Float[n]."""
        low, high = (np.zeros(10), np.ones(10)) if self.number == 1 else _CIRCUIT
        X = rng.uniform(low, high, size=(n, self._d))
        return X, self.distribution(X).sample(1, rng)[:, 0]

    def distribution(self, X: np.ndarray) -> Normal:
        """The true distributions of y at the n rows of X: Float[n, 10], of 2 and 3 Float[n, 4]; of these x2, x4 and, of 3, x1 not 0."""
        from kdgraph.distributions import Normal

        X = rows_of(X, self.name, self._d)
        if self.number == 1:
            hill = 10 * np.sin(np.pi * X[:, 0] * X[:, 1])
            return Normal(hill + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4], np.full(len(X), self.noise))
        resistance, frequency, inductance, capacitance = X.T
        reactance = frequency * inductance - 1 / (frequency * capacitance)
        return Normal(
            np.hypot(resistance, reactance) if self.number == 2 else np.arctan(reactance / resistance), np.full(len(X), self.noise)
        )

    @property
    def _d(self) -> int:
        return 10 if self.number == 1 else 4
