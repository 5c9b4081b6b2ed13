"""Classification simulations of clouds of points: scikit-learn's, and Trunk's (1979)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from kdgraph.data.simulations.base import ClassSimulation
from kdgraph.data.source import numbered_names
from kdgraph.errors import DataError
from kdgraph.parameters import Count, NonNegative, OpenFraction, Positive, Range


def _draw_seed(rng: np.random.Generator) -> int:
    """Draw the seed with which scikit-learn draws the rows."""
    return int(rng.integers(2**31 - 1))


@dataclass(eq=False, repr=False)
class Moons(ClassSimulation):
    """Two interleaving half circles (``sklearn.datasets.make_moons``).

    Parameters
    ----------
    noise_std : float, default=0.2
        Standard deviation of the Gaussian noise on both axes.

    Examples
    --------
    >>> Moons().sample(5, np.random.default_rng(0))[1].tolist()
    [1, 1, 0, 0, 1]
    """

    noise_std: NonNegative = 0.2

    name = "moons"

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        from sklearn.datasets import make_moons

        return make_moons(n, noise=self.noise_std, random_state=_draw_seed(rng))


@dataclass(eq=False, repr=False)
class Circles(ClassSimulation):
    """A small circle inside a larger circle (``sklearn.datasets.make_circles``).

    The points are evenly spaced along the circles before the noise is added.

    Parameters
    ----------
    noise_std : float, default=0.1
        Standard deviation of the Gaussian noise on both axes.
    factor : float, default=0.5
        Radius of the inner circle, which is class 1. The outer circle has radius 1.

    Examples
    --------
    >>> X, y = Circles(noise_std=0.0).sample(4, np.random.default_rng(0))
    >>> sorted(np.hypot(X[:, 0], X[:, 1]).round(3).tolist())
    [0.5, 0.5, 1.0, 1.0]
    """

    noise_std: NonNegative = 0.1
    factor: OpenFraction = 0.5

    name = "circles"

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        from sklearn.datasets import make_circles

        return make_circles(
            n, noise=self.noise_std, factor=self.factor, random_state=_draw_seed(rng)
        )


@dataclass(eq=False, repr=False)
class Blobs(ClassSimulation):
    """Round Gaussian blobs, one for each class (``sklearn.datasets.make_blobs``).

    Parameters
    ----------
    n_blobs : int, default=3
        Number of classes. All classes have the same probability.
    n_features : int, default=2
        Number of dimensions.
    noise_std : float, default=2.0
        Standard deviation of each blob on each axis.
    draw : int, default=0
        Seed of the centres, which are uniform in [-10, 10] on each axis.

    Examples
    --------
    >>> blobs = Blobs()
    >>> blobs.posterior(blobs.centres).argmax(axis=1).tolist()
    [0, 1, 2]
    """

    n_blobs: Annotated[int, Range(2)] = 3
    n_features: Count = 2
    noise_std: Positive = 2.0
    draw: Annotated[int, Range(0)] = 0

    name = "blobs"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.classes = np.arange(self.n_blobs)
        self.feature_names = numbered_names(self.n_features)

    @property
    def centres(self) -> np.ndarray:
        """Centres of the blobs, Float[K, d]."""
        return np.random.default_rng(self.draw).uniform(-10, 10, (self.n_blobs, self.n_features))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        from sklearn.datasets import make_blobs

        return make_blobs(
            n,
            self.n_features,
            centers=self.centres,
            cluster_std=self.noise_std,
            random_state=_draw_seed(rng),
        )[:2]

    def posterior(self, X: np.ndarray, n: int | None = None) -> np.ndarray:
        """Return the true class probabilities P(y|x), Float[m, K], at the rows of X, Float[m, d].

        The class of the nearest centre is the most probable one. Its probability tends to 1 far
        away from the centres. ``n`` is not used, because the rows are independent.
        """
        from scipy.special import softmax

        distance = ((np.asarray(X, dtype=np.float64)[:, None] - self.centres) ** 2).sum(axis=2)
        return softmax(-distance / (2 * self.noise_std**2), axis=1)


@dataclass(eq=False, repr=False)
class Trunk(ClassSimulation):
    """Two Gaussian classes in any dimension, cut off at the box (-1, 1)^d.

    Class 0 is N(μ, I) and class 1 is N(-μ, I), with μ_i = 1/√i: each further feature carries less
    information. This is *Trunk* of Dey et al. (2024), Appendix C.

    Parameters
    ----------
    n_dims : int, default=2
        Number of features d.
    truncated : bool, default=True
        If True, only values in the box are drawn, for each feature separately, as in the paper's
        results. If False, nothing is cut off, as in the paper's text.

    Notes
    -----
    The posterior is P(0|x) = 1/(1 + exp(-2 μ·x)). The covariances are equal, so the log odds are
    linear. The box is symmetric about 0, so it keeps the same fraction of both classes. Outside of
    the box no class has density, and the posterior is 1/2.

    References
    ----------
    G. V. Trunk, "A problem of dimensionality: a simple example", 1979.

    Examples
    --------
    >>> Trunk(n_dims=1).posterior([[0.0], [0.5], [7.0]]).round(3).tolist()
    [[0.5, 0.5], [0.731, 0.269], [0.5, 0.5]]
    """

    n_dims: Count = 2
    truncated: bool = True

    name = "trunk"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.feature_names = numbered_names(self.n_dims)

    @property
    def mu(self) -> np.ndarray:
        """Mean of class 0, Float[d]."""
        return 1 / np.sqrt(np.arange(1, self.n_dims + 1))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows [n, d], each from a random class, so that the class counts are multinomial."""
        y = rng.integers(2, size=n)
        mean = (1 - 2 * y)[:, None] * self.mu
        X = mean + rng.normal(size=mean.shape)
        # The noise is independent between features, so each value outside is redrawn separately.
        outside = np.abs(X) >= 1
        while self.truncated and outside.any():
            X[outside] = mean[outside] + rng.normal(size=outside.sum())
            outside = np.abs(X) >= 1
        return X, y

    def posterior(self, X: np.ndarray, n: int | None = None) -> np.ndarray:
        """Return the true class probabilities P(y|x), Float[m, 2], at the rows of X, Float[m, d].

        ``n`` is not used, because the rows are independent. NaN and infinity raise DataError.
        """
        X = np.asarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != self.n_dims:
            raise DataError(
                f"trunk has {self.n_dims} features: X must have shape (n, {self.n_dims}), got"
                f" {X.shape}"
            )
        if not np.isfinite(X).all():
            raise DataError("trunk has no posterior at NaN or infinity; drop such rows")
        # The product is taken at unit scale first, so that it cannot overflow to inf - inf.
        size = np.maximum(np.abs(X).max(axis=1), 1.0)
        # Only the sign of μ·x matters where the log odds exceed float64: one class is certain.
        with np.errstate(over="ignore"):
            log_odds = 2 * ((X / size[:, None]) @ self.mu) * size
            first = np.exp(-np.logaddexp(0, -log_odds))
            second = np.exp(-np.logaddexp(0, log_odds))
        proba = np.column_stack([first, second])
        if self.truncated:
            proba[(np.abs(X) > 1).any(axis=1)] = 0.5
        return proba
