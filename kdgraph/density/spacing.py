"""Spacing between neighbouring polytopes, of all rows and without each of some rows.

The spacing is the mean squared step, by feature, from the mean of a polytope to that of its nearest
neighbour. It is the unit of distance to polytopes and of their variances. :func:`spacing_between`
computes it, and :func:`spacings_without` what it becomes where one row is left out, for many rows
in the time of a few. Original to kdgraph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kdgraph.compilation import kernel
from kdgraph.smoothing.neighbours import NeighbourSearch

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
    """Return the mean squared step between neighbouring means (Float[p, d]), Float[d].

    A change of a feature's unit cancels out: neighbours are the nearest in units in which every
    feature has variance 1, and a feature keeps at least a thousandth of the average squared step in
    these units. Of more than 2,000 means, every s-th one steps to its neighbour among all; a single
    one has the spacing :data:`VARIANCE_LAMBDA`. ``rounding``: spread up to which a feature is
    constant, Float[d] or float, if more than the rounding of its values.

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
    """Return :func:`spacing_between` of the means without each of some rows, Float[m, d].

    ``means``: Float[p, d], of the polytopes of all rows; ``polytope``: Int[m], of each row that is
    left out; ``own_mean``: Float[m, d], of the other rows of this polytope; ``is_gone``: Bool[m],
    where there are none, so that the polytope is gone too. Without any mean left the spacing is
    that of one.

    A row changes the units and moves one mean. A squared distance in the new units is at least the
    smallest ratio of an old squared unit to the new one times the old distance. So a mean is
    compared with the one that moved and with those that were near before, and with all others only
    if one of them may be as near by this bound.

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
