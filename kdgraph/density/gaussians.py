"""Axes along which neighbouring polytopes differ by independent steps of size 1: a metric that
knows which features move together.

One Gaussian for each populated polytope, with diagonal covariance (Dey et al., Section 4.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn.covariance import LedoitWolf
from sklearn.neighbors import NearestNeighbors

from kdgraph.geometry import Polytopes
from kdgraph.smoothing.neighbours import nearest_of_candidates

_WHITENING_SAMPLE = 2000
"""Points whose nearest neighbour is looked for; a covariance of 100 features is then known to a few
per cent.
"""
_WHITENING_PASSES = 2
"""Neighbours are found by the spread of the features first, then once more along the axes that
these neighbours gave.
"""
_MIN_STEP_FRACTION = 1e-3
"""Share of the average squared step below which a feature is flat, and of the largest that an axis
keeps: what hardly varies in training must not forbid every new value.
"""
_CONSTANT_TOLERANCE = 1e-12
"""Of its largest value: a feature that varies by less is constant, as the mean of three times 0.1
is not 0.1.
"""
_MAX_COORDINATE = 1e100
"""Coordinates are cut here, so that their sums stay finite."""


@dataclass(frozen=True)
class Whitening:
    """A linear map to coordinates in which nearest neighbours differ, on average, by an
    uncorrelated step of size 1 in each. Ours.

    Attributes
    ----------
    directions : Float[d, d], an axis a row.
    """

    directions: np.ndarray

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Float[n, d]: points (Float[n, d]) along the axes; whatever points come with a point, up
        to rounding.
        """
        return np.einsum(
            "ij,kj->ik", np.clip(points, -_MAX_COORDINATE, _MAX_COORDINATE), self.directions
        )  # BLAS adds in an order that n decides

    @property
    def log_volume(self) -> float:
        """Log of the volume that a unit cube of the points' own features has along the axes;
        ours.
        """
        return float(np.linalg.slogdet(self.directions)[1])


def neighbour_whitening(points: np.ndarray) -> Whitening:
    """Axes from the covariance of the differences between points and their nearest neighbours,
    Float[n, d]. Ours.

    Notes
    -----
    The covariance of all rows says how far classes lie apart, that of a class how long it is. Where
    a class is bent, or in several pieces, neither says what is near; how neighbours differ does.
    Their covariance is shrunk as in Ledoit and Wolf (2004), "A well-conditioned estimator for
    large-dimensional covariance matrices", in units of each feature's own step, so a change of a
    feature's unit cancels out.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> along = rng.uniform(size=(500, 1)) + 1e-4 * rng.normal(size=(500, 2))  # two features that move together
    >>> axes = neighbour_whitening(along)
    >>> together, apart = np.linalg.norm(axes(np.array([[0.1, 0.1], [0.1, -0.1]])), axis=1)
    >>> bool(apart > 3 * together)
    True
    """
    spread = points.std(axis=0)
    spread[spread <= _CONSTANT_TOLERANCE * np.abs(points).max(axis=0, initial=0.0)] = 0.0
    directions = np.diag(1.0 / np.where(spread > 0, spread, 1.0))
    if len(points) < 3:
        return Whitening(directions)
    some = points[:: max(1, len(points) // _WHITENING_SAMPLE)]
    for _ in range(_WHITENING_PASSES):
        seen = Whitening(directions)
        nearest = (
            NearestNeighbors(n_neighbors=2)
            .fit(seen(points))
            .kneighbors(seen(some), return_distance=False)[:, 1]
        )
        directions = _whitening_directions(some - points[nearest], spread)
    return Whitening(directions)


def _whitening_directions(steps: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Float[d, d]: axes, one a row, along which ``steps`` (Float[m, d]) are uncorrelated and of
    size 1; ``spread``: Float[d], of points.
    """
    unit = np.where(spread > 0, spread, 1.0)
    square = np.mean((steps / unit) ** 2, axis=0)
    if not square.any():
        return np.diag(1.0 / unit)
    flat = square < _MIN_STEP_FRACTION * square.mean()
    size = np.sqrt(np.where(flat, 1.0, square)) * unit
    covariance = LedoitWolf(assume_centered=True).fit(steps / size).covariance_
    covariance[flat] = covariance[:, flat] = 0.0
    covariance[flat, flat] = (
        # an axis of its own, in the unit that it has without axes, where the spacing has its floor
        1.0
    )
    found, vectors = np.linalg.eigh(covariance)
    return (vectors / np.sqrt(np.maximum(found, _MIN_STEP_FRACTION * found.max()))).T / size


VARIANCE_LAMBDA = 1e-6
"""The constant of Eq. 10 that keeps variances from being 0 (Dey et al., Table 2)."""
_SPACING_SAMPLE = 2000
"""Polytopes from which the typical spacing is measured, and held-out rows that judge it; its
standard error is then about 2 %.
"""
_SHRINKAGE_GRID = (0.0, 0.01, 0.1, 1.0)
"""How far the spacings of the features are drawn towards their mean."""
_MIN_LIKELIHOOD_GAIN = 1.0
"""By how much the mean log likelihood must be higher for that, in nats."""
_MIN_SPACING_FRACTION = 1e-3
"""Least share of the average spacing that a feature keeps: features that are constant in training
must not forbid every new value.
"""
_ROUNDING_GAUSSIANS = 1e-12
"""A feature whose means differ by less than this share is constant: the mean of three times 0.1 is
not 0.1. Trees see 6e-8 at best.
"""
_FARTHEST_GAUSSIANS = 1e100
"""Coordinates are cut here, where every mean is equally far, so that their squares stay finite."""


@dataclass(frozen=True)
class PolytopeMoments:
    """How many rows each polytope holds, Int[p], their mean and their biased variance by feature,
    Float[p, d] each.

    ``held_out``: Float[m, d] or None, rows that judge the spacing.
    """

    sizes: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    held_out: np.ndarray | None = None

    @cached_property
    def spacing(self) -> np.ndarray:
        """Float[d]: mean squared difference between neighbouring means, by feature, in which a
        change of a feature's unit cancels out.

        A feature that is constant in all but a few training rows, such as a border pixel, then
        forbids every other value, and one held-out row that has one pulls the floor down for all.
        So the features' spacings are also tried drawn towards their mean, and taken so if held-out
        rows are likelier by a clear margin.
        """
        own = self._spacing_by_feature()
        if self.held_out is None:
            return own
        drawn = [(1 - share) * own + share * own.mean() for share in _SHRINKAGE_GRID]
        some = _subsample(self.held_out)
        likelihood = [self._log_likelihood(some, spacing) for spacing in drawn]
        best = int(np.argmax(likelihood))
        return drawn[best] if likelihood[best] > likelihood[0] + _MIN_LIKELIHOOD_GAIN else own

    def shrink_variances(self, spacing: np.ndarray) -> np.ndarray:
        """Float[p, d]: variances as if each polytope held one more row, at the distance
        ``spacing``.
        """
        n = self.sizes[:, None]
        return (n * self.variance + spacing) / (n + 1)

    def _spacing_by_feature(self) -> np.ndarray:
        """Neighbours are found in units in which every feature has variance 1."""
        if len(self.mean) < 2:
            return np.full(self.mean.shape[1], VARIANCE_LAMBDA)
        unit = self.mean.std(axis=0)
        unit[np.ptp(self.mean, axis=0) <= _ROUNDING_GAUSSIANS * np.abs(self.mean).max(axis=0)] = 1.0
        scaled = self.mean / unit
        some = _subsample(scaled)
        neighbour = (
            NearestNeighbors(n_neighbors=2)
            .fit(scaled)
            .kneighbors(some, return_distance=False)[:, 1]
        )
        squared = np.mean((some - scaled[neighbour]) ** 2, axis=0)
        return np.maximum(
            np.maximum(squared, _MIN_SPACING_FRACTION * squared.mean()) * unit**2,
            VARIANCE_LAMBDA * np.finfo(float).eps,
        )

    def _log_likelihood(self, rows: np.ndarray, spacing: np.ndarray) -> float:
        """Mean over ``rows``: Float[m, d]."""
        nearest = NearestMean(self.mean, np.sqrt(spacing))(rows)
        return float(
            PolytopeGaussians(self.mean, self.shrink_variances(spacing))
            .log_density(rows, nearest)
            .mean()
        )


def polytope_moments(
    X: np.ndarray, polytopes: Polytopes, held_out: np.ndarray | None = None
) -> PolytopeMoments:
    """Of the rows ``X`` (Float[n, d]) in each polytope; the mean is Eq. 9."""
    size = polytopes.sizes[:, None]
    mean = polytopes.sum_by_polytope(X) / size
    return PolytopeMoments(
        polytopes.sizes,
        mean,
        polytopes.sum_by_polytope((X - mean[polytopes.polytope_of_row]) ** 2) / size,
        held_out,
    )


def _subsample(rows: np.ndarray) -> np.ndarray:
    return rows[:: max(1, len(rows) // _SPACING_SAMPLE)]


VarianceRule = Callable[[PolytopeMoments], np.ndarray]
"""Moments → variances of the Gaussians, Float[p, d]."""


def shrunk_variances(moments: PolytopeMoments) -> np.ndarray:
    """Variances drawn towards a pooled scale as if each polytope held one more row at that
    distance: (n_r·var_r + s²)/(n_r + 1).

    Nearly all polytopes of a fully grown forest hold one row, whose variance by Eq. 10 is 1e-6,
    while the few others' is 10⁴ times wider: no single density floor is then one distance. Float[p,
    d]; here s² is, feature by feature, the spacing between neighbouring polytopes.
    """
    return moments.shrink_variances(moments.spacing)


def printed_variances(moments: PolytopeMoments) -> np.ndarray:
    """Float[p, d]: Eq. 10, λ inside the mean, so that it vanishes as a polytope fills."""
    return moments.variance + VARIANCE_LAMBDA / moments.sizes[:, None]


def published_variances(moments: PolytopeMoments) -> np.ndarray:
    """Float[p, d]: Eq. 10 with λ added to every row's square, as the published implementation
    does.
    """
    return moments.variance + VARIANCE_LAMBDA


@dataclass(frozen=True)
class PolytopeGaussians:
    """Means and variances of the Gaussians, Float[p, d] each."""

    means: np.ndarray
    variances: np.ndarray

    def log_density(self, X: np.ndarray, polytope: np.ndarray) -> np.ndarray:
        """Float[n]: log G(x; μ_r, Σ_r) of each row of ``X`` (Float[n, d]) at its own ``polytope``
        (Int[n]); -inf where that is -1.
        """
        mean, variance = self.means[polytope], self.variances[polytope]
        with np.errstate(
            over="ignore"
        ):  # from a distance of about 1e150 the square is infinite, and so is -log G
            log_density = -0.5 * ((X - mean) ** 2 / variance + np.log(2 * np.pi * variance)).sum(
                axis=1
            )
        return np.where(polytope >= 0, log_density, -np.inf)


class NearestMean:
    """Finds the polytope whose mean is nearest by Euclidean distance (Eq. 4 with the norm as
    distance).

    ``scale``: Float[d] or 1.0, what counts as distance 1 along each feature. Of equally near means
    the lowest number is taken.
    """

    def __init__(self, means: np.ndarray, scale: np.ndarray | float = 1.0):
        self.scale = scale
        self._means = means / scale
        self._search = NearestNeighbors(n_neighbors=1).fit(self._means)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Int[n], for the rows ``X`` (Float[n, d])."""
        with np.errstate(over="ignore"):
            scaled = np.clip(X / self.scale, -_FARTHEST_GAUSSIANS, _FARTHEST_GAUSSIANS)
        return nearest_of_candidates(self._means, scaled, 1, self._candidates, 0.0)[1][:, 0]

    def _candidates(self, at: np.ndarray, k: int) -> np.ndarray:
        """Int[m, k], the nearest means to Float[m, d] as scikit-learn finds them, whose fast
        distances are rounded differently by batch.
        """
        return self._search.kneighbors(at, k, return_distance=False)
