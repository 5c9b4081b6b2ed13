"""Simulations that scikit-learn draws: half circles, circles and blobs.

Trunk: two Gaussian classes whose further features say less and less.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from kdgraph.errors import DataError
from kdgraph.parameters import Count, NonNegative, OpenFraction, Positive, Range, check_parameters


class _PlanarSklearnSimulation:
    """Two classes in the plane, half of the rows each."""

    classes = np.arange(2)
    feature_names = ("x1", "x2")

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """X: Float[n, 2], y: Int[n], in random order."""
        return self._make(n_samples=n, random_state=int(rng.integers(2**31 - 1)))

    def _make(self, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError


class Moons(_PlanarSklearnSimulation):
    """Two half circles that reach into each other (``sklearn.datasets.make_moons``).

    Parameters
    ----------
    noise_std : standard deviation of Gaussian noise on both axes.

    >>> Moons().sample(5, np.random.default_rng(0))[1].tolist()
    [1, 1, 0, 0, 1]
    """

    name = "moons"

    def __init__(self, noise_std: NonNegative = 0.2) -> None:
        self.noise_std = noise_std
        check_parameters(self)

    def _make(self, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        from sklearn.datasets import make_moons

        return make_moons(noise=self.noise_std, **options)


class Circles(_PlanarSklearnSimulation):
    """A circle in another (``sklearn.datasets.make_circles``), whose points are evenly spaced
    before the noise.

    Parameters
    ----------
    noise_std : standard deviation of Gaussian noise on both axes.
    factor : radius of the inner circle, class 1; that of the outer one is 1.
    """

    name = "circles"

    def __init__(self, noise_std: NonNegative = 0.1, factor: OpenFraction = 0.5) -> None:
        self.noise_std = noise_std
        self.factor = factor
        check_parameters(self)

    def _make(self, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        from sklearn.datasets import make_circles

        return make_circles(noise=self.noise_std, factor=self.factor, **options)


class Blobs:
    """Round Gaussian blobs, one a class (``sklearn.datasets.make_blobs``), and their posterior.

    Parameters
    ----------
    n_blobs : classes, all with the same share.
    n_features : dimensions.
    noise_std : standard deviation of each blob on each axis.
    draw : which centres, uniform in [-10, 10] on each axis.
    """

    name = "blobs"

    def __init__(
        self,
        n_blobs: Annotated[int, Range(2)] = 3,
        n_features: Count = 2,
        noise_std: Positive = 2.0,
        draw: Annotated[int, Range(0)] = 0,
    ) -> None:
        self.n_blobs = n_blobs
        self.n_features = n_features
        self.noise_std = noise_std
        self.draw = draw
        check_parameters(self)

    @property
    def classes(self) -> np.ndarray:
        """[K], the numbers of the blobs."""
        return np.arange(self.n_blobs)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names x1, x2 and so on."""
        return tuple(f"x{i + 1}" for i in range(self.n_features))

    @property
    def centres(self) -> np.ndarray:
        """Float[K, d]."""
        return np.random.default_rng(self.draw).uniform(-10, 10, (self.n_blobs, self.n_features))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """X: Float[n, d], y: Int[n], in random order, as many of each class as can be."""
        from sklearn.datasets import make_blobs

        seed = int(rng.integers(2**31 - 1))
        X, y = make_blobs(
            n, self.n_features, centers=self.centres, cluster_std=self.noise_std, random_state=seed
        )[:2]
        return X, y

    def posterior(self, X: np.ndarray, n: int | None = None) -> np.ndarray:
        """P(y|x): Float[m, K]; the nearer centre is the likelier, and far away certain."""
        from scipy.special import softmax

        distance = ((np.asarray(X, dtype=np.float64)[:, None] - self.centres) ** 2).sum(axis=2)
        return softmax(-distance / (2 * self.noise_std**2), axis=1)


class Trunk:
    """Class 0 is N(μ, I) and class 1 is N(-μ, I) in any dimension, with μ_i = 1/√i, cut off at the
    box (-1, 1)^d.

    *Trunk* of Dey et al. (2024), Appendix C.

    Parameters
    ----------
    n_dims : number of features d.
    truncated : keep only the box, each feature by itself, as the paper's results were made; False
        is the paper's text.

    Notes
    -----
    G. V. Trunk, "A problem of dimensionality: a simple example", 1979. P(0|x) = 1/(1 + exp(-2
    μ·x)): with equal covariances the log odds are linear, and the box, symmetric about 0, keeps the
    same share of both classes. Outside the box no class has density: 1/2.

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
        """Draw ``n`` rows, each from a random class: the counts are multinomial. X: Float[n, d], y:
        Int[n].
        """
        y = rng.integers(2, size=n)
        mean = (1 - 2 * y)[:, None] * self.mu
        X = mean + rng.normal(size=mean.shape)
        outside = np.abs(X) >= 1
        while self.truncated and outside.any():
            X[outside] = mean[outside] + rng.normal(size=outside.sum())
            outside = np.abs(X) >= 1
        return X, y

    def posterior(self, X: np.ndarray, n: int | None = None) -> np.ndarray:
        """P(y|x): Float[m, 2] at X: Float[m, d]; ``n`` changes nothing, since rows are
        independent.
        """
        X = np.asarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != self.n_dims:
            raise DataError(
                f"trunk has {self.n_dims} features: X must have shape (n, {self.n_dims}), got"
                f" {X.shape}"
            )
        if not np.isfinite(X).all():
            raise DataError("trunk has no posterior at NaN or infinity; drop such rows")
        size = np.maximum(np.abs(X).max(axis=1), 1.0)
        with np.errstate(
            over="ignore"
        ):  # the sign of μ·x decides; log odds beyond float64 mean certainty
            log_odds = 2 * ((X / size[:, None]) @ self.mu) * size
            first = np.exp(-np.logaddexp(0, -log_odds))
            second = np.exp(-np.logaddexp(0, log_odds))
        proba = np.column_stack([first, second])
        if self.truncated:
            proba[(np.abs(X) > 1).any(axis=1)] = 0.5
        return proba
