"""Log densities of the rows that populate the polytopes, each without the row itself.

A density floor needs the density of in-distribution rows that the density does not contain. Where
no row is held out, each training row is left out in turn: by :class:`LeftOutRows` for distances in
units of the spacing between polytopes, and one fold after the other by
:func:`log_density_by_folds` for other distances. Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from kdgraph.compilation import kernel
from kdgraph.density.gaussians import SHRINKAGE_GRID, PolytopeMoments, choose_shrinkage
from kdgraph.density.spacing import NeighbourSteps, nearest_means_without, spacings_without
from kdgraph.smoothing.nearest_mean import NearestMean

# Rows whose density is computed without them, every s-th one of more than twice as many. At a floor
# that 1 of 500 rows is below, the standard error of this fraction is then a fifth of it.
MAX_LEFT_OUT_ROWS = 10_000
# Polytopes up to which the spacing without each row is exact. The time is that of the square of
# their number: with 1,000 normal rows of 4 to 100 features, a tenth to a seventh of the fit of a
# forest of 100 trees, and up to a half where its trees are shallow.
MAX_EXACT_POLYTOPES = 1000
# Rows that choose the shrinkage of the spacing, every s-th one of more.
_MAX_CHOOSING_ROWS = 500
# Folds of log_density_by_folds.
_N_FOLDS = 5


def left_out_positions(n_rows: int) -> np.ndarray:
    """Return the positions of the rows that are left out, Int[m]: all, or every s-th of many."""
    return np.arange(0, n_rows, max(1, n_rows // MAX_LEFT_OUT_ROWS))


class LeftOutRows:
    """Rows of polytopes, and what is left of means, variances and spacing without each of them.

    Parameters
    ----------
    moments : PolytopeMoments
        Moments of all rows, without held-out rows.
    points : Float[n, d]
        The rows.
    polytope_of_row : Int[n]
        Polytope of each row.

    Attributes
    ----------
    moments : PolytopeMoments
        The moments with the spacing that was chosen by leave-one-out.

    Notes
    -----
    Original to kdgraph. With at most 1,000 polytopes, each log density is exactly that of the
    moments of the other rows: means, variances, unit, neighbours and limits of the spacing, and the
    nearest of all means in its units. Three things are those of all rows: the parent, the merging
    of polytopes, and the shrinkage of the spacing, which makes these log densities most likely.

    A row far from all others would otherwise widen the spacing by which its own distance is
    measured: with 100 rows and 20 sparse features, 6.6 % of new rows were below a floor for 2 %
    that left rows out of their polytopes alone.

    With more polytopes, the spacing lacks the step of a row that is a polytope alone, if that is
    among the steps that are averaged, and is that of all rows otherwise. On eight distributions of
    1,001 rows, each row a polytope, the errors of the log densities were up to .02 nats in the
    median, and .05 to 12 nats for one row in a hundred, largest for counts. One of the 1,001 rows
    more, or none, was below a floor for .2 %.

    Examples
    --------
    >>> from kdgraph.density.gaussians import polytope_moments
    >>> from kdgraph.geometry import polytopes_of
    >>> points, polytopes = np.array([[0.0], [1.0], [5.0]]), polytopes_of(np.arange(3)[:, None])
    >>> left_out = LeftOutRows(polytope_moments(points, polytopes), points, np.arange(3))
    >>> search = NearestMean(points, np.sqrt(left_out.moments.spacing))
    >>> left_out.log_density(search).round(2).tolist()  # of the means 1 and 5, 0 and 5, 0 and 1
    [-2.02, -2.22, -16.57]
    """

    def __init__(self, moments: PolytopeMoments, points: np.ndarray, polytope_of_row: np.ndarray):
        rows = left_out_positions(len(points))
        own_mean, own_squares = rest_of_polytopes(points, polytope_of_row)
        self._rows, self._polytope = points[rows], polytope_of_row[rows]
        self._own_mean, self._own_squares = own_mean[rows], own_squares[rows]
        self._n_others = moments.sizes[self._polytope] - 1
        means, is_gone = moments.mean, self._n_others == 0
        self._is_exact = len(means) <= MAX_EXACT_POLYTOPES
        if self._is_exact:
            spacing = moments.spacing
            self._spacing = spacings_without(means, self._polytope, self._own_mean, is_gone)
        else:
            steps = NeighbourSteps.of(means)
            spacing = steps.spacing
            self._spacing = steps.spacings_without(np.where(is_gone, self._polytope, -1))
        self.moments = replace(moments, given_spacing=spacing)
        weight = SHRINKAGE_GRID[choose_shrinkage(self._likelihoods())]
        self.moments = replace(moments, given_spacing=_shrink(spacing, weight))
        self._spacing = _shrink(self._spacing, weight)

    def _likelihoods(self) -> list[float]:
        """Return the mean log likelihood of some rows at each weight of the shrinkage."""
        rows = np.arange(0, len(self._rows), -(-len(self._rows) // _MAX_CHOOSING_ROWS))
        log_densities = [self._log_density(rows, weight) for weight in SHRINKAGE_GRID]
        return [float(values[np.isfinite(values)].sum()) / len(rows) for values in log_densities]

    def log_density(self, search: NearestMean) -> np.ndarray:
        """Return the log densities of the rows at :func:`left_out_positions`, Float[m].

        Parameters
        ----------
        search : NearestMean
            Search by which new rows find their polytope. Of more than 2,000 means, it chooses those
            that a row is compared with, which are the nearest of at most 4,096.

        Returns
        -------
        Float[m]
            Log density of each row without the row, -inf if no other row is left.
        """
        every = np.arange(len(self._rows))
        if self._is_exact:
            return self._log_density(every)
        two = search.nearest(self._rows, 2)
        other = np.where(two[:, 0] == self._polytope, two[:, 1], two[:, 0])
        to_own = np.where(self._n_others > 0, self._distance(self._own_mean), np.inf)
        is_own = to_own < self._distance(self.moments.mean[other])
        return self._log_density_at(every, np.where(is_own, self._polytope, other), self._spacing)

    def _distance(self, means: np.ndarray) -> np.ndarray:
        """Return the squared distances of the rows to means, Float[m]."""
        return ((self._rows - means) ** 2 / self._spacing).sum(axis=1)

    def _log_density(self, rows: np.ndarray, weight: float = 0.0) -> np.ndarray:
        """Return log densities of some rows (Int[m]), by the nearest of all means.

        ``weight``: weight of a shrinkage of all spacings.
        """
        spacing = _shrink(self._spacing[rows], weight)
        nearest = nearest_means_without(
            self._rows[rows],
            self.moments.mean,
            self._polytope[rows],
            self._own_mean[rows],
            self._n_others[rows] == 0,
            spacing,
            _shrink(self.moments.spacing, weight),
        )
        return self._log_density_at(rows, nearest, spacing)

    def _log_density_at(
        self, rows: np.ndarray, nearest: np.ndarray, spacing: np.ndarray
    ) -> np.ndarray:
        """Return log densities of some rows at a polytope of each, -inf at -1."""
        is_own, moments = nearest == self._polytope[rows], self.moments
        size = np.where(is_own, self._n_others[rows], moments.sizes[nearest])[:, None]
        mean = np.where(is_own[:, None], self._own_mean[rows], moments.mean[nearest])
        squares = np.where(
            is_own[:, None], self._own_squares[rows], moments.variance[nearest] * size
        )
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            variance = (squares + spacing) / (size + 1)
            terms = (self._rows[rows] - mean) ** 2 / variance + np.log(2 * np.pi * variance)
        return np.where(nearest >= 0, -0.5 * terms.sum(axis=1), -np.inf)


def rest_of_polytopes(
    points: np.ndarray, polytope_of_row: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and sum of squared deviations of the other rows of each row's polytope.

    Both are Float[n, d], like the points, of row i the row itself and 0 if there are no others.
    Sums over the rows before and after each one lose no digits to a row that is far from the
    others, as a difference to the sum of all would. ``polytope_of_row``: Int[n].

    Examples
    --------
    >>> mean, squares = rest_of_polytopes(np.array([[0.0], [2.0], [9.0]]), np.array([0, 0, 0]))
    >>> mean.ravel().tolist(), squares.ravel().tolist()
    ([5.5, 4.5, 1.0], [24.5, 40.5, 2.0])
    """
    order = np.argsort(polytope_of_row, kind="stable")
    starts = np.flatnonzero(np.diff(polytope_of_row[order], prepend=-1, append=-1))
    # The loop is compiled for arrays in C order.
    points = np.ascontiguousarray(points, dtype=np.float64)
    mean, squares = points.copy(), np.zeros(points.shape)
    sizes = np.diff(starts)
    if (sizes > 1).any():
        # Around one in the middle, the others are close to 0 though one row may be far away.
        by_value = np.array([np.lexsort((column, polytope_of_row)) for column in points.T])
        middle = np.take_along_axis(points, by_value.T[starts[:-1] + sizes // 2], axis=0)
        _fill_rest(points, order, starts, middle, mean, squares)
    return mean, squares


@kernel(boundscheck=False)
def _fill_rest(points, order, starts, middle, mean, squares):
    """Fill the moments of :func:`rest_of_polytopes`.

    ``order``: Int[n], rows polytope by polytope; ``starts``: Int[p + 1], where each begins;
    ``middle``: Float[p, d], a value of each in the middle of the others, by feature.
    """
    for g in range(len(starts) - 1):
        first, end = starts[g], starts[g + 1]
        n = end - first
        if n == 1:
            continue
        for j in range(points.shape[1]):
            if n == 2:
                a, b = order[first], order[first + 1]
                mean[a, j], mean[b, j] = points[b, j], points[a, j]
                continue
            total, square = 0.0, 0.0
            for k in range(first, end):
                i = order[k]
                value = points[i, j] - middle[g, j]
                mean[i, j], squares[i, j] = total, square
                total, square = total + value, square + value * value
            total, square = 0.0, 0.0
            for k in range(end - 1, first - 1, -1):
                i = order[k]
                value = points[i, j] - middle[g, j]
                average = (mean[i, j] + total) / (n - 1)
                rest = squares[i, j] + square - (n - 1) * average * average
                mean[i, j], squares[i, j] = middle[g, j] + average, max(rest, 0.0)
                total, square = total + value, square + value * value


def _shrink(spacing: np.ndarray, weight: float) -> np.ndarray:
    """Return spacings, Float[…, d], shrunk towards their mean over features."""
    return (1 - weight) * spacing + weight * spacing.mean(axis=-1, keepdims=True)


def log_density_by_folds(
    make_graph: Callable[[np.ndarray, np.ndarray], Any], locations: Any
) -> np.ndarray:
    """Return log densities, Float[m], of rows by graphs of the rows outside of their folds.

    The rows are those at :func:`left_out_positions` of ``locations``. ``make_graph`` is a function
    of the positions of the rows of a graph and of those of a fold.
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
