"""Spacing between neighbouring polytopes, and densities of rows without the row itself.

The spacing is the mean squared step, by feature, from the mean of a polytope to that of its nearest
neighbour. It is the unit of distance to polytopes and of their variances. :func:`spacing_between`
computes it, and :func:`spacings_without` what it becomes where one row is left out, for many rows
in the time of a few.

A density floor needs the density of in-distribution rows that the density does not contain. Where
no row is held out, each training row is left out in turn: by :class:`LeftOutRows` for distances in
units of the spacing, and one fold after the other by :func:`log_density_by_folds` for others.
Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kdgraph.compilation import kernel
from kdgraph.smoothing.nearest_mean import NearestMean
from kdgraph.smoothing.neighbours import NeighbourSearch

if TYPE_CHECKING:
    from kdgraph.density.gaussians import PolytopeMoments

VARIANCE_LAMBDA = 1e-6
"""Constant λ of Eq. 10, which keeps variances above 0 (Dey et al. 2024, Table 2)."""

SAMPLE_SIZE = 2000
"""Polytopes whose nearest neighbours are searched for the spacing, and points for a whitening.

The standard error of a spacing is then about 2 %, and a covariance of 100 features is accurate to a
few per cent.
"""

# A feature keeps at least this fraction of the average squared step. Without it, a feature that
# hardly varies in training would forbid every new value.
MIN_STEP_FRACTION = 1e-3
# A feature that deviates by less than this fraction of its mean is constant: in floating point the
# mean of three times 0.1 is not 0.1. Trees distinguish 6e-8 at best.
CONSTANT_TOLERANCE = 1e-12

# Squared distances that differ by less, relatively, are equal; of equally near means the first one
# is the neighbour. Otherwise, on a grid, rounding would choose the feature in which a mean steps.
_TIE = 1e-12
# Near means with which a row or mean is compared before all others are, if they have to be.
_N_NEAR = 32
# Rounding of squared distances, relatively, between means that are near to each other and not to 0.
_SLACK = 1e-6
SHRINKAGE_GRID = (0.0, 0.01, 0.1, 1.0)
"""Weights by which the spacings of the features are shrunk towards their mean."""
# Minimum gain of the mean log likelihood, in nats, that justifies this shrinkage. Where a row is so
# far away that the mean has no digits behind the point, a gain is a part of it.
_MIN_LIKELIHOOD_GAIN, _MIN_RELATIVE_GAIN = 1.0, 1e-9
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

# Sums may be added in any order, so that they are added at SIMD speed.
_compiled = kernel(boundscheck=False, fastmath={"contract", "reassoc", "nsz"})


def subsample(rows: np.ndarray, size: int = SAMPLE_SIZE) -> np.ndarray:
    """Return every s-th row of an array [n, …], about ``size`` of them and up to twice as many."""
    return rows[:: max(1, len(rows) // size)]


@dataclass(frozen=True)
class NeighbourSteps:
    """Steps from means of polytopes to the nearest other mean.

    Attributes
    ----------
    unit : Float[d]
        Units in which every feature of the means has variance 1.
    numbers : Int[k]
        Means that step: all up to 2,000, and every s-th one of more.
    squared : Float[k, d]
        Squared steps by feature, in these units.

    Notes
    -----
    Original to kdgraph.
    """

    unit: np.ndarray
    numbers: np.ndarray
    squared: np.ndarray

    @classmethod
    def of(cls, means: np.ndarray, rounding: np.ndarray | float = 0.0) -> NeighbourSteps:
        """Return the steps of at least two means, with parameters of :func:`spacing_between`."""
        unit = mean_units(means, rounding)
        scaled, numbers = means / unit, subsample(np.arange(len(means)))
        own, is_gone, ones = scaled[numbers], np.ones(len(numbers), dtype=bool), np.ones(len(unit))
        every = np.broadcast_to(ones, own.shape)
        nearest = nearest_means_without(own, scaled, numbers, own, is_gone, every, ones)
        return cls(unit, numbers, (own - scaled[nearest]) ** 2)

    @property
    def spacing(self) -> np.ndarray:
        """Mean squared step by feature, Float[d], see :func:`spacing_between`."""
        return limit_spacing(self.squared.mean(axis=0)) * self.unit**2

    def spacings_without(self, gone: np.ndarray) -> np.ndarray:
        """Return the spacing without the step of each of some means, Float[m, d].

        ``gone``: Int[m], their numbers, -1 for none. Unit and other steps are those of all means.
        """
        position = np.minimum(np.searchsorted(self.numbers, gone), len(self.numbers) - 1)
        steps = self.numbers[position] == gone
        # Sums over the steps before and after each one lose no digits to a step that is large.
        before, after = np.zeros_like(self.squared), np.zeros_like(self.squared)
        before[1:] = np.cumsum(self.squared[:-1], axis=0)
        after[:-1] = np.cumsum(self.squared[:0:-1], axis=0)[::-1]
        others = (before + after)[position] / (len(self.numbers) - 1)
        squared = np.where(steps[:, None], others, self.squared.mean(axis=0))
        return limit_spacing(squared) * self.unit**2


def spacing_between(means: np.ndarray, rounding: np.ndarray | float = 0.0) -> np.ndarray:
    """Return the mean squared step between neighbouring means, Float[d].

    Parameters
    ----------
    means : Float[p, d]
        Means of the polytopes. A single one has the spacing :data:`VARIANCE_LAMBDA`.
    rounding : Float[d] or float, default=0.0
        Spread up to which a feature is constant, if more than the rounding of its values.

    Returns
    -------
    Float[d]
        Spacing by feature. A change of a feature's unit cancels out: neighbours are the nearest in
        units in which every feature has variance 1, and a feature keeps at least a thousandth of
        the average squared step in these units.

    Notes
    -----
    Original to kdgraph. Of more than 2,000 means, every s-th one steps to its neighbour among all.

    Examples
    --------
    >>> spacing_between(np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 30.0]])).round(3).tolist()
    [2.0, 300.0]
    """
    if len(means) < 2:
        return np.full(means.shape[1], VARIANCE_LAMBDA)
    return NeighbourSteps.of(means, rounding).spacing


def mean_units(means: np.ndarray, rounding: np.ndarray | float = 0.0) -> np.ndarray:
    """Return units in which every feature of the means has variance 1, Float[d]; 1 if constant.

    A feature is constant if its means deviate by no more than their rounding, or ``rounding``.
    """
    unit = means.std(axis=0)
    least = np.maximum(CONSTANT_TOLERANCE * np.abs(means.mean(axis=0)), rounding)
    return np.where(unit <= least, 1.0, unit)


def limit_spacing(squared: np.ndarray) -> np.ndarray:
    """Return squared steps by feature, Float[…, d], raised to a fraction of their mean."""
    least = MIN_STEP_FRACTION * squared.mean(axis=-1, keepdims=True)
    return np.maximum(np.maximum(squared, least), VARIANCE_LAMBDA * np.finfo(float).eps)


def spacings_without(
    means: np.ndarray, polytope: np.ndarray, own_mean: np.ndarray, is_gone: np.ndarray
) -> np.ndarray:
    """Return the spacing of the means without each of some rows.

    Parameters
    ----------
    means : Float[p, d]
        Means of the polytopes of all rows.
    polytope : Int[m]
        Polytope of each row that is left out.
    own_mean : Float[m, d]
        Mean of the other rows of this polytope.
    is_gone : Bool[m]
        True where there are none, so that the polytope is gone too.

    Returns
    -------
    Float[m, d]
        :func:`spacing_between` of the remaining means, by row; where none is left as of one.

    Notes
    -----
    Original to kdgraph. A row changes the units and moves one mean. A squared distance in the new
    units is at least the smallest ratio of an old squared unit to the new one times the old
    distance. So a mean is compared with the one that moved and with those that were near before,
    and with all others only if one of them may be as near by this bound.

    Examples
    --------
    >>> means = np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 30.0]])
    >>> without_last = spacings_without(means, np.array([2]), means[2:], np.array([True]))
    >>> np.allclose(without_last[0], spacing_between(means[:2]), rtol=1e-12)
    True
    """
    spacing = np.full((len(polytope), means.shape[1]), VARIANCE_LAMBDA)
    moved = np.where(is_gone[:, None], np.inf, own_mean)
    is_same = (moved == means[polytope]).all(axis=1)  # where the rows of a polytope are equal
    if is_same.any():
        spacing[is_same] = spacing_between(means)
    rows = np.flatnonzero(~is_same & (len(means) - is_gone > 1))
    if len(rows):
        unit, units, squared = mean_units(means), *np.empty((2, len(rows), means.shape[1]))
        near, reach = _near_means(means / unit, means / unit)
        means, columns, moved = np.array(means, order="C"), means.T.copy(), moved[rows]
        _steps_without(means, columns, polytope[rows], moved, unit, near, reach, units, squared)
        spacing[rows] = limit_spacing(squared) * units**2
    return spacing


def nearest_means_without(
    points: np.ndarray,
    means: np.ndarray,
    polytope: np.ndarray,
    own_mean: np.ndarray,
    is_gone: np.ndarray,
    spacing: np.ndarray,
    common_spacing: np.ndarray,
) -> np.ndarray:
    """Return the number of the mean that is nearest to each of some rows without the row, Int[m].

    Of equally near means it is the first one; -1 if there is none. ``points``: Float[m, d];
    ``means``, ``polytope``, ``own_mean``, ``is_gone``: as for :func:`spacings_without`;
    ``spacing``: Float[m, d], squared unit of distance of each row; ``common_spacing``: Float[d],
    squared unit that is close to that of most rows, in which a few near means are searched.

    Examples
    --------
    >>> means, ones = np.array([[0.0], [4.0]]), np.ones((1, 1))
    >>> nearest_means_without(
    ...     means[:1], means, np.array([0]), means[:1], np.array([True]), ones, ones[0]
    ... )
    array([1])
    """
    unit = np.sqrt(common_spacing)
    near, reach = _near_means(points / unit, means / unit)
    least = (common_spacing / spacing).min(axis=1) * (1 - _SLACK)
    points, means = np.ascontiguousarray(points), np.array(means, order="C")
    moved, nearest = np.where(is_gone[:, None], np.inf, own_mean), np.empty(len(points), np.int64)
    inverses = np.ascontiguousarray(1 / np.sqrt(spacing))
    _nearest_of_each(points, means, polytope, moved, inverses, near, reach, least, nearest)
    return nearest


def _near_means(points: np.ndarray, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the means near to each point, nearest first, and their squared distances.

    The results are Int[m, k] and Float[m, k + 1]; no other mean is nearer than the last distance.
    """
    k = min(_N_NEAR, len(means))
    distance, near = NeighbourSearch(means).nearest(points, k)
    beyond = distance[:, -1:] if k < len(means) else np.full((len(points), 1), np.inf)
    return near, np.column_stack([distance, beyond]) ** 2


@_compiled
def _nearest_of_each(points, means, polytope, moved, inverses, near, reach, least, nearest):
    """Fill ``nearest``: Int[m] of :func:`nearest_means_without`.

    ``moved``: Float[m, d], means without each row, infinite if gone; the others are those of
    :func:`_nearest`, for each row.
    """
    none, squared = np.full(1, -1), np.empty(points.shape[1])
    for i in range(points.shape[0]):
        r, row = polytope[i], slice(i, i + 1)
        at, lists, bounds, out = points[row], near[row], reach[row], nearest[row]
        _swap(means[r], moved[i])
        _nearest(at, none, means, r, inverses[i], lists, bounds, least[i], out, squared)
        _swap(means[r], moved[i])


@_compiled
def _swap(a, b):
    """Exchange the values of two rows."""
    for j in range(a.shape[0]):
        a[j], b[j] = b[j], a[j]


@_compiled
def _nearest(points, numbers, means, r, inverse, near, reach, least, nearest, squared):
    """Fill the number of the mean that is nearest to each point, of equally near ones the first.

    ``numbers``: Int[q], mean at each point, which does not count for it, or -1; ``r``: number of
    the mean that has moved, infinitely far if it is gone; ``inverse``: Float[d], inverses of units;
    ``near``: Int[q, k], means that were near to the point; ``reach``: Float[q, k + 1], increasing,
    their squared distances before and one of all others at least, of which the fraction ``least``
    is left at least; ``nearest``: Int[q], -1 for none; ``squared``: Float[d], to which the squared
    steps to the nearest means are added.
    """
    # All points in one call, because numba counts references in each: as long as 20 distances.
    k, is_gone = near.shape[1], means[r, 0] == np.inf
    for i in range(points.shape[0]):
        has_moved, best, closest = numbers[i] == r, -1, np.inf
        if has_moved and is_gone:
            continue
        # First the mean that has moved, then those that were near, then all.
        for t in range(0 if is_gone else -1, k + means.shape[0]):
            if 0 <= t <= k and not has_moved and least * reach[i, t] > closest * (1 + 2 * _TIE):
                break
            if t == k and closest == 0:  # of means at the point itself, the first are in ``near``
                break
            c = r if t < 0 else near[i, t] if t < k else t - k
            if c == numbers[i]:
                continue
            distance = 0.0
            for j in range(points.shape[1]):
                distance += ((points[i, j] - means[c, j]) * inverse[j]) ** 2
            if distance < closest * (1 - _TIE) or (distance <= closest * (1 + _TIE) and c < best):
                best = c
            closest = min(closest, distance)
        nearest[i] = best
        for j in range(points.shape[1]):
            squared[j] += ((points[i, j] - means[best, j]) * inverse[j]) ** 2


@_compiled
def _steps_without(means, columns, polytope, moved, unit, near, reach, units, squared):
    """Fill the units and the mean squared steps in them without each row, both Float[m, d].

    ``columns``: Float[d, p], the means by feature; ``moved``: Float[m, d], means without each row,
    infinite if gone; ``unit``: Float[d], of all means; ``near``, ``reach``: see :func:`_nearest`.
    """
    d, p = columns.shape
    every, nearest, inverse = np.arange(p), np.empty(p, np.int64), np.empty(d)
    for i in range(polytope.shape[0]):
        r, is_gone, least = polytope[i], moved[i, 0] == np.inf, 1.0
        n = p - is_gone
        for j in range(d):
            # The first n values of a column are those that are left.
            columns[j, r] = columns[j, p - 1] if is_gone else moved[i, j]
            total, squares = 0.0, 0.0
            for s in range(n):
                total += columns[j, s]
            for s in range(n):
                squares += (columns[j, s] - total / n) ** 2
            columns[j, r] = means[r, j]
            units[i, j] = np.sqrt(squares / n)
            if units[i, j] <= CONSTANT_TOLERANCE * abs(total / n):
                units[i, j] = 1.0
            if squares > 0:  # otherwise no distance has a part in this feature
                least = min(least, (unit[j] / units[i, j]) ** 2 * (1 - _SLACK))
            inverse[j], squared[i, j] = 1 / units[i, j], 0.0
        _swap(means[r], moved[i])
        _nearest(means, every, means, r, inverse, near, reach, least, nearest, squared[i])
        _swap(means[r], moved[i])
        for j in range(d):
            squared[i, j] /= n


def choose_shrinkage(likelihood: Sequence[float]) -> int:
    """Return the position in :data:`SHRINKAGE_GRID` of the largest mean log likelihood of rows.

    It is 0, for no shrinkage, unless the gain is clear.
    """
    best, none = int(np.argmax(likelihood)), likelihood[0]
    least = _MIN_LIKELIHOOD_GAIN + _MIN_RELATIVE_GAIN * abs(none)
    return best if likelihood[best] > none + least else 0


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
