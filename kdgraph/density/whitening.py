"""Coordinates in which neighbouring polytopes differ by independent steps of size 1.

:func:`neighbour_whitening` fits them: a metric that respects correlations between features.
Original to kdgraph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.covariance import LedoitWolf
from sklearn.neighbors import NearestNeighbors

from kdgraph.density.gaussians import CONSTANT_TOLERANCE, MIN_STEP_FRACTION, subsample
from kdgraph.smoothing.neighbours import clip_coordinates

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
    """Fit a whitening to the differences between points (Float[n, d]) and their nearest neighbours.

    With fewer than three points it only scales features to unit variance.

    The covariance of all points measures the distance between classes, and the covariance of a
    class measures its extent. If a class is curved or consists of several pieces, neither measures
    what is near; the differences between neighbours do. Their covariance is shrunk as in Ledoit and
    Wolf (2004), "A well-conditioned estimator for large-dimensional covariance matrices", in units
    of each feature's own step. So a change of a feature's unit cancels out.

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
