"""Log densities of the rows that populate the polytopes, each without the row itself.

A density floor needs the density of in-distribution rows that the density does not contain. Where
no row is held out, each training row is left out in turn. :func:`leave_one_out` does so exactly, in
the time of one search for neighbours, for distances in units of the spacing between polytopes. For
other distances, :func:`log_density_by_folds` leaves out one fold after the other. Original to
kdgraph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from kdgraph.density.gaussians import (
    MIN_LIKELIHOOD_GAIN,
    SAMPLE_SIZE,
    SHRINKAGE_GRID,
    PolytopeMoments,
    limit_spacing,
    mean_units,
)
from kdgraph.density.nearest_mean import NearestMean

# Rows whose density is computed without them, every s-th one of more than twice as many. At a floor
# that 1 of 500 rows is below, the standard error of this fraction is then a fifth of it.
MAX_LEFT_OUT_ROWS = 10_000
# Means that are compared for a row. The unit of distance without the row differs a little from the
# unit with it, so that the nearest mean may be another one of the nearest few.
_N_CANDIDATES = 4
# Folds of log_density_by_folds.
_N_FOLDS = 5


def left_out_positions(n_rows: int) -> np.ndarray:
    """Return the positions of the rows that are left out, Int[m]: all, or every s-th of many."""
    return np.arange(0, n_rows, max(1, n_rows // MAX_LEFT_OUT_ROWS))


def leave_one_out(
    moments: PolytopeMoments, points: np.ndarray, polytope_of_row: np.ndarray
) -> tuple[PolytopeMoments, np.ndarray]:
    """Choose the shrinkage of the spacing by leave-one-out, and return the left-out densities.

    Parameters
    ----------
    moments : PolytopeMoments
        Moments of all rows.
    points : Float[n, d]
        The rows.
    polytope_of_row : Int[n]
        Polytope of each row.

    Returns
    -------
    moments : PolytopeMoments
        The moments with the chosen spacing.
    log_density : Float[m]
        Log density of each of the rows at :func:`left_out_positions`, without the row: that of the
        nearest mean in units of the spacing. -inf if no other row is left.

    Notes
    -----
    Original to kdgraph. A row that is a polytope is taken out with it, also from the spacing
    between polytopes and its unit. Otherwise a row far from all others would widen the spacing by
    which its own distance is measured: with 100 rows and 20 sparse features, 4.9 % of new rows were
    then below a floor for .5 %. A row of a larger polytope is taken out of its mean and variance.
    With more than 2,000 polytopes the spacing is that of a sample, and one row does not matter.
    """
    rows = left_out_positions(len(points))
    left_out = _LeftOutRows(moments, points[rows], polytope_of_row[rows])
    log_densities = [left_out.log_density(weight) for weight in SHRINKAGE_GRID]
    likelihood = [float(values[np.isfinite(values)].sum()) / len(rows) for values in log_densities]
    best = int(np.argmax(likelihood))
    if not likelihood[best] > likelihood[0] + MIN_LIKELIHOOD_GAIN:
        best = 0
    spacing = _shrink(moments.spacing, SHRINKAGE_GRID[best])
    return replace(moments, given_spacing=spacing), log_densities[best]


class _LeftOutRows:
    """Rows of polytopes, and what is left of means, variances and spacing without each of them."""

    def __init__(self, moments: PolytopeMoments, rows: np.ndarray, polytope: np.ndarray):
        self._rows, self._polytope, self._moments = rows, polytope, moments
        size = moments.sizes[polytope][:, None].astype(np.float64)
        self._is_single = size[:, 0] == 1
        # n·mean - x and the sum of squares without x, by the update of Welford (1962).
        others, mean = np.maximum(size - 1, 1), moments.mean[polytope]
        self._own_mean = mean + (mean - rows) / others
        self._own_squares = np.maximum(
            size * moments.variance[polytope] - (rows - mean) ** 2 * (size / others), 0
        )
        self._own_size = size
        self._spacing = np.broadcast_to(moments.spacing, rows.shape)
        if len(moments.mean) <= SAMPLE_SIZE and self._is_single.any():
            self._spacing = np.where(
                self._is_single[:, None], _spacing_without(moments, polytope), self._spacing
            )
        self._candidates = self._nearest_means()

    def _nearest_means(self) -> np.ndarray:
        """Return the polytopes with the nearest means other than each row's own, Int[m, c]."""
        n_means = len(self._moments.mean)
        search = NearestMean(self._moments.mean, np.sqrt(self._moments.spacing))
        nearest = search.nearest(self._rows, min(_N_CANDIDATES + 1, n_means))
        is_own = nearest == self._polytope[:, None]
        # The own polytope goes to the end, where it is cut off; if it is not among the nearest, the
        # last one is.
        order = np.argsort(is_own, axis=1, kind="stable")
        return np.take_along_axis(nearest, order, axis=1)[:, : max(nearest.shape[1] - 1, 0)]

    def log_density(self, weight: float) -> np.ndarray:
        """Return the log densities with a spacing that is shrunk by ``weight``, Float[m]."""
        spacing, rows, moments = _shrink(self._spacing, weight), self._rows, self._moments
        distance = np.full(len(rows), np.inf)
        mean, variance = np.zeros_like(rows), np.ones_like(rows)
        options = [
            (moments.mean[r], moments.variance[r] * moments.sizes[r][:, None], moments.sizes[r])
            for r in self._candidates.T
        ]
        # What is left of the row's own polytope is the last option.
        options.append((self._own_mean, self._own_squares, self._own_size[:, 0] - 1))
        for centre, squares, size in options:
            own_distance = np.where(size > 0, ((rows - centre) ** 2 / spacing).sum(axis=1), np.inf)
            is_nearer = (own_distance < distance)[:, None]
            distance = np.minimum(distance, own_distance)
            mean = np.where(is_nearer, centre, mean)
            variance = np.where(is_nearer, (squares + spacing) / (size[:, None] + 1), variance)
        log_density = -0.5 * ((rows - mean) ** 2 / variance + np.log(2 * np.pi * variance))
        return np.where(np.isfinite(distance), log_density.sum(axis=1), -np.inf)


def _shrink(spacing: np.ndarray, weight: float) -> np.ndarray:
    """Return spacings, Float[…, d], shrunk towards their mean over features."""
    return (1 - weight) * spacing + weight * spacing.mean(axis=-1, keepdims=True)


def _spacing_without(moments: PolytopeMoments, polytope: np.ndarray) -> np.ndarray:
    """Return the spacing without each of some polytopes, Float[m, d].

    ``polytope``: Int[m]. All means are neighbours of others here, not only a sample.
    """
    means = moments.mean
    p = len(means)
    if p < 3:
        return np.broadcast_to(moments.spacing, (len(polytope), means.shape[1]))
    unit = mean_units(means)
    neighbours = (
        NearestNeighbors(n_neighbors=3)
        .fit(means / unit)
        .kneighbors(means / unit, return_distance=False)
    )
    # The first neighbour of a mean is itself, unless another one is equal to it.
    first, second = neighbours[:, 1], neighbours[:, 2]
    steps = (means - means[first]) ** 2
    # Without polytope j its own step is gone, and polytopes whose neighbour it was step to their
    # second neighbour.
    change = -steps
    np.add.at(change, first, (means - means[second]) ** 2 - steps)
    squared = (steps.sum(axis=0) + change) / (p - 1)
    total, total_squares = means.sum(axis=0), ((means - means.mean(axis=0)) ** 2).sum(axis=0)
    centre = total / p
    deviation = means - centre
    variance = (total_squares - deviation**2 * (p / (p - 1))) / (p - 1)
    unit_without = np.where(variance > 0, np.sqrt(np.maximum(variance, 0)), unit)
    scaled = np.maximum(squared, 0)[polytope] / unit_without[polytope] ** 2
    return limit_spacing(scaled) * unit_without[polytope] ** 2


def log_density_by_folds(
    make_graph: Callable[[np.ndarray, np.ndarray], Any], locations: Any
) -> np.ndarray:
    """Return log densities of rows by graphs of the rows outside of their folds.

    Parameters
    ----------
    make_graph : callable
        Function of the positions of the rows of a graph and of those of a fold that returns the
        graph.
    locations : Locations
        Positions of all n rows on the partition.

    Returns
    -------
    Float[m]
        Log densities of the rows at :func:`left_out_positions`.
    """
    rows, log_density = left_out_positions(len(locations)), np.empty(len(locations))
    # Rows are assigned in turn, so that the folds need no random numbers.
    fold = np.arange(len(locations)) % _N_FOLDS
    for f in range(_N_FOLDS):
        members = rows[fold[rows] == f]
        if len(members):
            graph = make_graph(np.flatnonzero(fold != f), members)
            log_density[members] = graph.query(locations[members], np.empty(0)).log_density
    return log_density[rows]
