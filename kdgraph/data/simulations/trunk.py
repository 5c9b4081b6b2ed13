"""Trunk: two Gaussian classes whose further features say less and less."""

from __future__ import annotations

import numpy as np

from kdgraph.errors import DataError
from kdgraph.parameters import Count, check_parameters


class Trunk:
    """Class 0 is N(μ, I) and class 1 is N(-μ, I) in any dimension, with μ_i = 1/√i, cut off at the box (-1, 1)^d.

    *Trunk* of Dey et al. (2024), Appendix C.

    Parameters
    ----------
    n_dims : number of features d.
    truncated : keep only the box, each feature by itself, as the paper's results were made; False is the paper's text.

    Notes
    -----
    G. V. Trunk, "A problem of dimensionality: a simple example", 1979. P(0|x) = 1/(1 + exp(-2 μ·x)): with equal covariances the log odds
    are linear, and the box, symmetric about 0, keeps the same share of both classes. Outside the box no class has density: 1/2.

    >>> Trunk(n_dims=1).posterior([[0.0], [0.5], [7.0]]).round(3).tolist()
    [[0.5, 0.5], [0.731, 0.269], [0.5, 0.5]]
    """

    name = "trunk"

    def __init__(self, n_dims: Count = 2, truncated: bool = True) -> None:
        self.n_dims = n_dims
        self.truncated = truncated
        check_parameters(self)
        self.classes = np.arange(2)
        self.feature_names = tuple(f"x{i + 1}" for i in range(n_dims))

    @property
    def mu(self) -> np.ndarray:
        """Float[d]: the mean of class 0."""
        return 1 / np.sqrt(np.arange(1, self.n_dims + 1))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw ``n`` rows, each from a random class: the counts are multinomial. X: Float[n, d], y: Int[n]."""
        y = rng.integers(2, size=n)
        mean = (1 - 2 * y)[:, None] * self.mu
        X = mean + rng.normal(size=mean.shape)
        outside = np.abs(X) >= 1
        while self.truncated and outside.any():
            X[outside] = mean[outside] + rng.normal(size=outside.sum())
            outside = np.abs(X) >= 1
        return X, y

    def posterior(self, X: np.ndarray, n: int | None = None) -> np.ndarray:
        """P(y|x): Float[m, 2] at X: Float[m, d]; ``n`` changes nothing, since rows are independent."""
        X = np.asarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != self.n_dims:
            raise DataError(f"trunk has {self.n_dims} features: X must have shape (n, {self.n_dims}), got {X.shape}")
        if not np.isfinite(X).all():
            raise DataError("trunk has no posterior at NaN or infinity; drop such rows")
        size = np.maximum(np.abs(X).max(axis=1), 1.0)
        with np.errstate(over="ignore"):  # the sign of μ·x decides; log odds beyond float64 mean certainty
            log_odds = 2 * ((X / size[:, None]) @ self.mu) * size
            first = np.exp(-np.logaddexp(0, -log_odds))
            second = np.exp(-np.logaddexp(0, log_odds))
        proba = np.column_stack([first, second])
        if self.truncated:
            proba[(np.abs(X) > 1).any(axis=1)] = 0.5
        return proba
