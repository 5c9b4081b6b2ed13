"""One Gaussian for each populated polytope, with diagonal covariance (Dey et al., Section 4.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.neighbors import NearestNeighbors

from kdgraph.geometry import Polytopes

LAMBDA = 1e-6
"""The constant of Eq. 10 that keeps variances from being 0 (Dey et al., Table 2)."""
_SAMPLE = 2000
"""Polytopes from which the typical spacing is measured; its standard error is then about 2 %."""
_FLAT = 1e-3
"""Least share of the average spacing that a feature keeps: features that are constant in training must not forbid every new value."""
_ROUNDING = 1e-12
"""A feature whose means differ by less than this share is constant: the mean of three times 0.1 is not 0.1. Trees see 6e-8 at best."""


@dataclass(frozen=True)
class PolytopeGaussians:
    """Means and variances of the Gaussians, Float[p, d] each."""

    means: np.ndarray
    variances: np.ndarray

    def log_density(self, X: np.ndarray, polytope: np.ndarray) -> np.ndarray:
        """Float[n]: log G(x; μ_r, Σ_r) of each row of ``X`` (Float[n, d]) at its own ``polytope`` (Int[n]); -inf where that is -1."""
        mean, variance = self.means[polytope], self.variances[polytope]
        with np.errstate(over="ignore"):  # from a distance of about 1e150 the square is infinite, and so is -log G
            log_density = -0.5 * ((X - mean) ** 2 / variance + np.log(2 * np.pi * variance)).sum(axis=1)
        return np.where(polytope >= 0, log_density, -np.inf)

    def nearest(self, X: np.ndarray) -> np.ndarray:
        """Int[n]: the polytope whose mean is nearest by Euclidean distance (Eq. 4 with the norm as distance)."""
        return NearestNeighbors(n_neighbors=1).fit(self.means).kneighbors(X, return_distance=False)[:, 0]


VarianceRule = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""(size Int[p], mean Float[p, d], biased variance Float[p, d]) → Float[p, d]."""


def fit_gaussians(X: np.ndarray, polytopes: Polytopes, rule: VarianceRule) -> PolytopeGaussians:
    """Means by Eq. 9 and variances by ``rule``, of the rows ``X`` (Float[n, d]) in each polytope."""
    size = polytopes.size[:, None]
    mean = polytopes.sum(X) / size
    variance = polytopes.sum((X - mean[polytopes.of_row]) ** 2) / size
    return PolytopeGaussians(mean, rule(polytopes.size, mean, variance))


def shrunk(size: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Variances drawn towards a pooled scale as if each polytope held one more row at that distance: (n_r·var_r + s²)/(n_r + 1).

    Nearly all polytopes of a fully grown forest hold one row, whose variance by Eq. 10 is 1e-6, while the few others' is 10⁴ times wider:
    no single density floor is then one distance. Here s² is, feature by feature, the spacing between neighbouring polytopes.
    """
    n = size[:, None]
    return (n * variance + _spacing(mean)) / (n + 1)


def as_printed(size: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Eq. 10: λ inside the mean, so that it vanishes as a polytope fills."""
    return variance + LAMBDA / size[:, None]


def per_sample(size: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Eq. 10 with λ added to every row's square, as the published implementation does."""
    return variance + LAMBDA


def _spacing(mean: np.ndarray) -> np.ndarray:
    """Float[d]: mean squared difference to the nearest other mean, along each feature, in units in which every feature has variance 1.

    Neighbours are found in those units too, so a change of a feature's unit changes nothing downstream.
    """
    if len(mean) < 2:
        return np.full(mean.shape[1], LAMBDA)
    unit = mean.std(axis=0)
    unit[np.ptp(mean, axis=0) <= _ROUNDING * np.abs(mean).max(axis=0)] = 1.0
    scaled = mean / unit
    some = scaled[:: max(1, len(scaled) // _SAMPLE)]
    neighbour = NearestNeighbors(n_neighbors=2).fit(scaled).kneighbors(some, return_distance=False)[:, 1]
    squared = np.mean((some - scaled[neighbour]) ** 2, axis=0)
    return np.maximum(np.maximum(squared, _FLAT * squared.mean()) * unit**2, LAMBDA * np.finfo(float).eps)
