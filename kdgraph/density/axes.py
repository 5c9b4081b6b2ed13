"""Axes along which neighbouring polytopes differ by independent steps of size 1: a metric that knows which features move together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.covariance import LedoitWolf
from sklearn.neighbors import NearestNeighbors

_SAMPLE = 2000
"""Points whose nearest neighbour is looked for; a covariance of 100 features is then known to a few per cent."""
_PASSES = 2
"""Neighbours are found by the spread of the features first, then once more along the axes that these neighbours gave."""
_FLAT = 1e-3
"""Share of the average squared step below which a feature is flat, and of the largest that an axis keeps: what hardly varies in training
must not forbid every new value."""
_ROUNDING = 1e-12
"""Of its largest value: a feature that varies by less is constant, as the mean of three times 0.1 is not 0.1."""
_FARTHEST = 1e100
"""Coordinates are cut here, so that their sums stay finite."""


@dataclass(frozen=True)
class Axes:
    """A linear map to coordinates in which nearest neighbours differ, on average, by an uncorrelated step of size 1 in each. Ours.

    Attributes
    ----------
    directions : Float[d, d], an axis a row.
    """

    directions: np.ndarray

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Float[n, d]: points (Float[n, d]) along the axes; whatever points come with a point, up to rounding."""
        return np.einsum("ij,kj->ik", np.clip(points, -_FARTHEST, _FARTHEST), self.directions)  # BLAS adds in an order that n decides

    @property
    def log_volume(self) -> float:
        """Log of the volume that a unit cube of the points' own features has along the axes; ours."""
        return float(np.linalg.slogdet(self.directions)[1])


def neighbour_axes(points: np.ndarray) -> Axes:
    """Axes from the covariance of the differences between points and their nearest neighbours, Float[n, d]. Ours.

    Notes
    -----
    The covariance of all rows says how far classes lie apart, that of a class how long it is. Where a class is bent, or in several pieces,
    neither says what is near; how neighbours differ does. Their covariance is shrunk as in Ledoit and Wolf (2004), "A well-conditioned
    estimator for large-dimensional covariance matrices", in units of each feature's own step, so a change of a feature's unit cancels out.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> along = rng.uniform(size=(500, 1)) + 1e-4 * rng.normal(size=(500, 2))  # two features that move together
    >>> axes = neighbour_axes(along)
    >>> together, apart = np.linalg.norm(axes(np.array([[0.1, 0.1], [0.1, -0.1]])), axis=1)
    >>> bool(apart > 3 * together)
    True
    """
    spread = points.std(axis=0)
    spread[spread <= _ROUNDING * np.abs(points).max(axis=0, initial=0.0)] = 0.0
    directions = np.diag(1.0 / np.where(spread > 0, spread, 1.0))
    if len(points) < 3:
        return Axes(directions)
    some = points[:: max(1, len(points) // _SAMPLE)]
    for _ in range(_PASSES):
        seen = Axes(directions)
        nearest = NearestNeighbors(n_neighbors=2).fit(seen(points)).kneighbors(seen(some), return_distance=False)[:, 1]
        directions = _whitening(some - points[nearest], spread)
    return Axes(directions)


def _whitening(steps: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Float[d, d]: axes, one a row, along which ``steps`` (Float[m, d]) are uncorrelated and of size 1; ``spread``: Float[d], of points."""
    unit = np.where(spread > 0, spread, 1.0)
    square = np.mean((steps / unit) ** 2, axis=0)
    if not square.any():
        return np.diag(1.0 / unit)
    flat = square < _FLAT * square.mean()
    size = np.sqrt(np.where(flat, 1.0, square)) * unit
    covariance = LedoitWolf(assume_centered=True).fit(steps / size).covariance_
    covariance[flat] = covariance[:, flat] = 0.0
    covariance[flat, flat] = 1.0  # an axis of its own, in the unit that it has without axes, where the spacing has its floor
    found, vectors = np.linalg.eigh(covariance)
    return (vectors / np.sqrt(np.maximum(found, _FLAT * found.max()))).T / size
