"""Gaussians of polytopes, and the coordinates in which their distances are measured.

Each populated polytope has one Gaussian with diagonal covariance (Dey et al. 2024, Section 4.1).
:class:`PolytopeMoments` holds the moments of the rows in each polytope; a rule of type
:data:`VarianceRule` turns them into variances; :class:`PolytopeGaussians` evaluates the densities.
:func:`neighbour_whitening` replaces the features by coordinates in which neighbouring polytopes
differ by independent steps of size 1, a metric that respects correlations between features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn.covariance import LedoitWolf
from sklearn.neighbors import NearestNeighbors

from kdgraph.density.spacing import (
    CONSTANT_TOLERANCE,
    MIN_STEP_FRACTION,
    SHRINKAGE_GRID,
    choose_shrinkage,
    spacing_between,
    subsample,
)
from kdgraph.geometry import Polytopes
from kdgraph.smoothing.nearest_mean import NearestMean, clip_coordinates

# Points among which the neighbours of a sample are searched for the whitening.
_MAX_NEIGHBOURS = 32_000
# The first pass finds neighbours in units of the spread of each feature, the second one along the
# axes of the first.
_WHITENING_PASSES = 2


@dataclass(frozen=True)
class Whitening:
    """Linear map to coordinates in which neighbours differ by uncorrelated steps of size 1.

    Steps have this size on average over nearest neighbours, in each coordinate.

    Attributes
    ----------
    directions : Float[d, d]
        Directions of the axes, one in each row.

    Notes
    -----
    Original to kdgraph.
    """

    directions: np.ndarray

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Return the coordinates of ``points`` (Float[n, d]) along the axes, Float[n, d]."""
        # einsum adds in a fixed order. BLAS adds in an order that depends on n, so that a point's
        # coordinates would depend on the other points.
        return np.einsum("ij,kj->ik", clip_coordinates(points), self.directions)

    def rounding(self, points: np.ndarray) -> np.ndarray:
        """Return the spread up to which coordinates of ``points`` may be rounding alone, Float[d].

        Along an axis on which features cancel, as where one feature is a copy of another, all rows
        have the coordinate 0 up to the rounding of the terms.
        """
        largest = np.abs(points).max(axis=0, initial=0.0)
        return CONSTANT_TOLERANCE * (np.abs(self.directions) @ largest)

    @property
    def log_volume(self) -> float:
        """Log volume, along the axes, of a unit cube of the original features."""
        return float(np.linalg.slogdet(self.directions)[1])


def neighbour_whitening(points: np.ndarray) -> Whitening:
    """Fit a whitening to the differences between points and their nearest neighbours.

    Parameters
    ----------
    points : Float[n, d]
        The points.

    Returns
    -------
    Whitening
        The map. With fewer than three points it only scales features to unit variance.

    Notes
    -----
    Original to kdgraph. The covariance of all points measures the distance between classes, and
    the covariance of a class measures its extent. If a class is curved or consists of several
    pieces, neither measures what is near; the differences between neighbours do. Their covariance
    is shrunk as in Ledoit and Wolf (2004), "A well-conditioned estimator for large-dimensional
    covariance matrices", in units of each feature's own step. So a change of a feature's unit
    cancels out.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=(500, 1)) + 1e-4 * rng.normal(size=(500, 2))  # correlated features
    >>> whitening = neighbour_whitening(x)
    >>> together, apart = np.linalg.norm(whitening(np.array([[0.1, 0.1], [0.1, -0.1]])), axis=1)
    >>> bool(apart > 3 * together)
    True
    """
    spread = points.std(axis=0)
    spread[spread <= CONSTANT_TOLERANCE * np.abs(points).max(axis=0, initial=0.0)] = 0.0
    directions = np.diag(1.0 / np.where(spread > 0, spread, 1.0))
    if len(points) < 3:
        return Whitening(directions)
    sample = subsample(points)
    # Neighbours among many rows are those among a part of them, in steps that are a little longer.
    points = subsample(points, _MAX_NEIGHBOURS)
    for _ in range(_WHITENING_PASSES):
        whitening = Whitening(directions)
        neighbour_ids = (
            NearestNeighbors(n_neighbors=2)
            .fit(whitening(points))
            .kneighbors(whitening(sample), return_distance=False)[:, 1]
        )
        directions = _whitening_directions(sample - points[neighbour_ids], spread)
    return Whitening(directions)


def _whitening_directions(steps: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Return axes, Float[d, d], along which ``steps`` are uncorrelated and of size 1.

    ``steps``: Float[m, d]; ``spread``: Float[d], of the points.
    """
    unit = np.where(spread > 0, spread, 1.0)
    squared_step = np.mean((steps / unit) ** 2, axis=0)
    if not squared_step.any():
        return np.diag(1.0 / unit)
    is_flat = squared_step < MIN_STEP_FRACTION * squared_step.mean()
    size = np.sqrt(np.where(is_flat, 1.0, squared_step)) * unit
    covariance = LedoitWolf(assume_centered=True).fit(steps / size).covariance_
    # A flat feature is an axis alone. Its unit is that of the metric without whitening, in which
    # the spacing has its minimum.
    covariance[is_flat] = covariance[:, is_flat] = 0.0
    covariance[is_flat, is_flat] = 1.0
    eigenvalues, vectors = np.linalg.eigh(covariance)
    eigenvalues = np.maximum(eigenvalues, MIN_STEP_FRACTION * eigenvalues.max())
    return (vectors / np.sqrt(eigenvalues)).T / size


@dataclass(frozen=True)
class PolytopeMoments:
    """Moments of the rows in each polytope.

    Attributes
    ----------
    sizes : Int[p]
        Number of rows in each polytope.
    mean : Float[p, d]
        Mean by feature.
    variance : Float[p, d]
        Biased variance by feature.
    held_out : Float[m, d] or None, default=None
        Held-out rows that choose the shrinkage of the spacing. None for no shrinkage.
    given_spacing : Float[d] or None, default=None
        Spacing that was chosen in another way, see :class:`~kdgraph.density.spacing.LeftOutRows`.
    rounding : Float[d] or float, default=0.0
        Spread up to which a feature is constant, if more than the rounding of its values.
    """

    sizes: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    held_out: np.ndarray | None = None
    given_spacing: np.ndarray | None = None
    rounding: np.ndarray | float = 0.0

    @cached_property
    def spacing(self) -> np.ndarray:
        """Mean squared difference between neighbouring means, Float[d], by feature.

        A change of a feature's unit cancels out.
        """
        # A feature that is constant in all but a few training rows, such as a border pixel, forbids
        # every other value, and one held-out row with another value lowers the density floor for
        # all rows. So spacings shrunk towards their mean are tried too, and used if they make
        # held-out rows more likely by a clear margin.
        if self.given_spacing is not None:
            return self.given_spacing
        spacing = spacing_between(self.mean, self.rounding)
        if self.held_out is None:
            return spacing
        candidates = [(1 - weight) * spacing + weight * spacing.mean() for weight in SHRINKAGE_GRID]
        sample = subsample(self.held_out)
        likelihood = [self._log_likelihood(sample, candidate) for candidate in candidates]
        return candidates[choose_shrinkage(likelihood)]

    def shrink_variances(self, spacing: np.ndarray) -> np.ndarray:
        """Return variances, Float[p, d], with one more row in each polytope.

        The squared distance of this row to the mean is ``spacing``, Float[d].
        """
        n = self.sizes[:, None]
        return (n * self.variance + spacing) / (n + 1)

    def _log_likelihood(self, rows: np.ndarray, spacing: np.ndarray) -> float:
        """Return the mean log density of ``rows`` (Float[m, d]) under shrunk Gaussians."""
        nearest = NearestMean(self.mean, np.sqrt(spacing))(rows)
        return float(
            PolytopeGaussians(self.mean, self.shrink_variances(spacing))
            .log_density(rows, nearest)
            .mean()
        )


def polytope_moments(
    X: np.ndarray,
    polytopes: Polytopes,
    held_out: np.ndarray | None = None,
    rounding: np.ndarray | float = 0.0,
) -> PolytopeMoments:
    """Return the moments of rows Float[n, d] in each polytope; the mean is Eq. 9 of Dey et al.

    ``held_out`` and ``rounding`` are those of :class:`PolytopeMoments`.
    """
    sizes = polytopes.sizes[:, None]
    mean = polytopes.sum_by_polytope(X) / sizes
    # What rounding left is added, so that the mean of equal rows is the row itself. Otherwise it
    # would choose between two polytopes of equal rows.
    mean += polytopes.sum_by_polytope(X - mean[polytopes.polytope_of_row]) / sizes
    return PolytopeMoments(
        polytopes.sizes,
        mean,
        polytopes.sum_by_polytope((X - mean[polytopes.polytope_of_row]) ** 2) / sizes,
        held_out,
        rounding=rounding,
    )


VarianceRule = Callable[[PolytopeMoments], np.ndarray]
"""Function of the moments that returns the variances of the Gaussians, Float[p, d]."""


def shrunk_variances(moments: PolytopeMoments) -> np.ndarray:
    """Return variances shrunk towards the spacing between polytopes, Float[p, d].

    Each polytope has one more row at that distance: (n_r·var_r + s²)/(n_r + 1), where s² is, by
    feature, the spacing between neighbouring polytopes.

    Notes
    -----
    Original to kdgraph. Nearly all polytopes of a fully grown forest contain one row. Their
    variance by Eq. 10 is 1e-6, and that of the few others is 10⁴ times larger. A single density
    floor then does not correspond to a single distance.
    """
    return moments.shrink_variances(moments.spacing)


@dataclass(frozen=True)
class PolytopeGaussians:
    """Gaussians of the polytopes, with diagonal covariances (Dey et al. 2024, Section 4.1).

    Attributes
    ----------
    means : Float[p, d]
        Means.
    variances : Float[p, d]
        Variances by feature.
    """

    means: np.ndarray
    variances: np.ndarray

    @cached_property
    def _log_scales(self) -> np.ndarray:
        """Logarithm of |2πΣ_r|, Float[p]: a logarithm takes as long as many products."""
        return np.log(2 * np.pi * self.variances).sum(axis=1)

    def __getstate__(self) -> dict[str, np.ndarray]:
        """Return means and variances, from which the rest follows."""
        return {"means": self.means, "variances": self.variances}

    def log_density(self, X: np.ndarray, polytope: np.ndarray) -> np.ndarray:
        """Return log G(x; μ_r, Σ_r), Float[n], of rows Float[n, d] at their polytopes r (Int[n]).

        It is -inf where the polytope is -1.
        """
        # At distances above about 1e150 the square overflows to infinity, which is correct.
        with np.errstate(over="ignore"):
            squares = (X - self.means[polytope]) ** 2
            squares /= self.variances[polytope]
            log_density = -0.5 * (squares.sum(axis=1) + self._log_scales[polytope])
        return np.where(polytope >= 0, log_density, -np.inf)
