"""Classification simulations of round and curved clouds of points.

``Moons``, ``Circles`` and ``Blobs`` draw their rows with scikit-learn. ``Trunk`` draws two
Gaussian classes in any dimension. Each further feature of ``Trunk`` carries less information
about the class (Trunk, 1979; Dey et al. 2024, Appendix C). ``Blobs`` and ``Trunk`` also return
their true posterior.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from kdgraph.errors import DataError
from kdgraph.parameters import Count, NonNegative, OpenFraction, Positive, Range, check_parameters


class _PlanarSklearnSimulation:
    """Two classes in the plane, with half of the rows each."""

    classes = np.arange(2)
    feature_names = ("x1", "x2")

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows in random order.

        Parameters
        ----------
        n : int
            Number of rows.
        rng : Generator
            Source of the seed for scikit-learn.

        Returns
        -------
        X : Float[n, 2]
            Rows.
        y : Int[n]
            Classes.
        """
        return self._make(n_samples=n, random_state=int(rng.integers(2**31 - 1)))

    def _make(self, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        """Call the function of scikit-learn that draws the rows."""
        raise NotImplementedError


class Moons(_PlanarSklearnSimulation):
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

    name = "moons"

    def __init__(self, noise_std: NonNegative = 0.2) -> None:
        self.noise_std = noise_std
        check_parameters(self)

    def _make(self, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        from sklearn.datasets import make_moons

        return make_moons(noise=self.noise_std, **options)


class Circles(_PlanarSklearnSimulation):
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

    name = "circles"

    def __init__(self, noise_std: NonNegative = 0.1, factor: OpenFraction = 0.5) -> None:
        self.noise_std = noise_std
        self.factor = factor
        check_parameters(self)

    def _make(self, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        from sklearn.datasets import make_circles

        return make_circles(noise=self.noise_std, factor=self.factor, **options)


class Blobs:
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
        """Numbers of the blobs, Int[K]."""
        return np.arange(self.n_blobs)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names x1, x2 and so on."""
        return tuple(f"x{i + 1}" for i in range(self.n_features))

    @property
    def centres(self) -> np.ndarray:
        """Centres of the blobs, Float[K, d]."""
        return np.random.default_rng(self.draw).uniform(-10, 10, (self.n_blobs, self.n_features))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows in random order, with class counts as equal as possible.

        Parameters
        ----------
        n : int
            Number of rows.
        rng : Generator
            Source of the seed for scikit-learn.

        Returns
        -------
        X : Float[n, d]
            Rows.
        y : Int[n]
            Classes.
        """
        from sklearn.datasets import make_blobs

        seed = int(rng.integers(2**31 - 1))
        X, y = make_blobs(
            n, self.n_features, centers=self.centres, cluster_std=self.noise_std, random_state=seed
        )[:2]
        return X, y

    def posterior(self, X: np.ndarray, n: int | None = None) -> np.ndarray:
        """Return the true class probabilities P(y|x).

        The class of the nearest centre is the most probable one. Its probability tends to 1 far
        away from the centres.

        Parameters
        ----------
        X : Float[m, d]
            Rows.
        n : int, default=None
            Not used, because the rows are independent.

        Returns
        -------
        Float[m, K]
            Class probabilities.
        """
        from scipy.special import softmax

        distance = ((np.asarray(X, dtype=np.float64)[:, None] - self.centres) ** 2).sum(axis=2)
        return softmax(-distance / (2 * self.noise_std**2), axis=1)


class Trunk:
    """Two Gaussian classes in any dimension, cut off at the box (-1, 1)^d.

    Class 0 is N(μ, I) and class 1 is N(-μ, I), with μ_i = 1/√i. This is *Trunk* of Dey et al.
    (2024), Appendix C.

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

    name = "trunk"

    def __init__(self, n_dims: Count = 2, truncated: bool = True) -> None:
        self.n_dims = n_dims
        self.truncated = truncated
        check_parameters(self)
        self.classes = np.arange(2)
        self.feature_names = tuple(f"x{i + 1}" for i in range(n_dims))

    @property
    def mu(self) -> np.ndarray:
        """Mean of class 0, Float[d]."""
        return 1 / np.sqrt(np.arange(1, self.n_dims + 1))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows, each from a random class, so that the class counts are multinomial.

        Parameters
        ----------
        n : int
            Number of rows.
        rng : Generator
            Source of the draws.

        Returns
        -------
        X : Float[n, d]
            Rows.
        y : Int[n]
            Classes.
        """
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
        """Return the true class probabilities P(y|x).

        Parameters
        ----------
        X : Float[m, d]
            Rows.
        n : int, default=None
            Not used, because the rows are independent.

        Returns
        -------
        Float[m, 2]
            Class probabilities.

        Raises
        ------
        DataError
            If X does not have d columns, or contains NaN or infinity.
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
