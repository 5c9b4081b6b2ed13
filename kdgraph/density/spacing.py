"""Spacing between neighbouring polytopes, of all rows and without each of some rows.

The spacing is the mean squared step, by feature, from the mean of a polytope to that of its nearest
neighbour. It is the unit of distance to polytopes and of their variances.
:func:`spacing_between` computes it, and :func:`spacings_without` what it becomes where one row is
left out, for many rows in the time of a few. Original to kdgraph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from sklearn.neighbors import NearestNeighbors

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
# A feature that varies by less than this fraction of its largest value is constant: in floating
# point the mean of three times 0.1 is not 0.1. Trees distinguish 6e-8 at best.
CONSTANT_TOLERANCE = 1e-12

# Squared distances that differ by less, relatively, are equal; of equally near means the first one
# is the neighbour.
_TIE = 1e-12
# Near means that are searched for a row or mean, by a product of matrices with so many features.
_N_NEAR, _MIN_PRODUCT_FEATURES = 6, 4
# Where the last of them is within this multiple of the squared distance of the nearest, more means
# are listed: all up to the second multiple, but at most so many.
_CLEAR_DISTANCE, _LISTED_DISTANCE, _MOST_LISTED = 1.02, 1.25, 64
# Relative rounding of distances, and of each product in a difference of products.
_SLACK, _PRODUCT_ROUNDING = 1e-9, 1e-15
# Where what is left of a sum is a smaller fraction of it, it is added up again.
_MAX_CANCELLATION = 1e-3

_compiled = njit(nogil=True, cache=True, boundscheck=False)


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
        # The loops are compiled for arrays in C order.
        scaled, numbers = np.ascontiguousarray(means / unit), np.arange(len(means))
        if len(means) <= SAMPLE_SIZE:
            nearest = _listed_neighbours(scaled, 1 + 2 * _TIE)[0][:, 0]
        else:
            numbers = subsample(numbers)
            search = NearestNeighbors(n_neighbors=2).fit(scaled)
            nearest = search.kneighbors(scaled[numbers], return_distance=False)[:, 1]
        return cls(unit, numbers, (scaled[numbers] - scaled[nearest]) ** 2)

    @property
    def spacing(self) -> np.ndarray:
        """Mean squared step by feature, Float[d], see :func:`spacing_between`."""
        return limit_spacing(self.squared.mean(axis=0)) * self.unit**2

    def spacings_without(self, gone: np.ndarray) -> np.ndarray:
        """Return the spacing without the step of each of some means.

        Parameters
        ----------
        gone : Int[m]
            Numbers of means, -1 for none.

        Returns
        -------
        Float[m, d]
            Spacings, in which unit and other steps are those of all means.
        """
        position = np.minimum(np.searchsorted(self.numbers, gone), len(self.numbers) - 1)
        steps = self.numbers[position] == gone
        squared = np.where(
            steps[:, None],
            _sums_without(self.squared)[position] / (len(self.numbers) - 1),
            self.squared.mean(axis=0),
        )
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

    A feature is constant if its means differ by no more than their rounding, or ``rounding``.
    """
    unit = means.std(axis=0)
    least = np.maximum(CONSTANT_TOLERANCE * np.abs(means).max(axis=0), rounding)
    unit[np.ptp(means, axis=0) <= least] = 1.0
    return unit


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
    Original to kdgraph. A row changes the unit of each feature a little, and the neighbours of a
    few means. With ρ the factors of the squared unit, in [a, b], a squared distance changes by a
    factor in [a, b] too. So a mean keeps its neighbour if that is not the polytope of the row, the
    second nearest is farther by more than b/a, and what is left of the polytope is farther too; the
    other means compare the near ones that were listed before, or all.

    Examples
    --------
    >>> means = np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 30.0]])
    >>> without_last = spacings_without(means, np.array([2]), means[2:], np.array([True]))
    >>> np.array_equal(without_last[0], spacing_between(means[:2]))
    True
    """
    spacing = np.full((len(polytope), means.shape[1]), VARIANCE_LAMBDA)
    several = np.flatnonzero(len(means) - is_gone.astype(int) > 1)
    if not len(several):
        return spacing
    unit = mean_units(means)
    means = np.ascontiguousarray(means / unit)
    own_mean = np.ascontiguousarray(own_mean[several] / unit)
    rows = polytope[several], own_mean, is_gone[several]
    squared_units, is_constant = _variances_without(means, *rows)
    squared_units = np.where(is_constant, unit**-2.0, squared_units)
    # Of a constant feature, no distance can change.
    factors = np.where(is_constant, np.nan, 1 / squared_units)
    lowest, highest = np.fmin.reduce(factors, axis=1), np.fmax.reduce(factors, axis=1)
    neighbours = _listed_neighbours(means, _CLEAR_DISTANCE)
    steps = (means - means[neighbours[0][:, 0]]) ** 2
    squared = np.empty((len(several), means.shape[1]))
    _mean_steps_without(
        means,
        *neighbours,
        steps,
        _sums_without(steps),
        np.argsort(rows[0], kind="stable"),
        *rows,
        1 / squared_units,
        np.where(np.isnan(lowest), 1.0, lowest),
        np.where(np.isnan(highest), 1.0, highest),
        np.ones((1, means.shape[1])),
        squared,
    )
    spacing[several] = limit_spacing(squared / squared_units) * squared_units * unit**2
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

    Parameters
    ----------
    points : Float[m, d]
        The rows.
    means, polytope, own_mean, is_gone
        As for :func:`spacings_without`.
    spacing : Float[m, d]
        Squared unit of distance of each row.
    common_spacing : Float[d]
        Squared unit that is close to that of most rows, in which a few near means are searched.

    Returns
    -------
    Int[m]
        Of equally near means the first one; -1 if there is none.

    Examples
    --------
    >>> means, ones = np.array([[0.0], [4.0]]), np.ones((1, 1))
    >>> nearest_means_without(
    ...     means[:1], means, np.array([0]), means[:1], np.array([True]), ones, ones[0]
    ... )
    array([1])
    """
    unit = np.sqrt(common_spacing)
    near, bound = _near_means(points / unit, means / unit, _N_NEAR)
    lowest = (common_spacing / spacing).min(axis=1)
    nearest = np.empty(len(points), dtype=np.int64)
    _nearest_means_without(
        np.ascontiguousarray(points),
        np.ascontiguousarray(means),
        polytope,
        np.ascontiguousarray(own_mean),
        is_gone,
        np.ascontiguousarray(1 / spacing),
        near,
        bound * lowest,
        nearest,
    )
    return nearest


def _near_means(points: np.ndarray, means: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return k of the nearest means to each point, and a squared distance of all others at least.

    The results are Int[m, k], or less if there are fewer means, and Float[m].
    """
    if k >= len(means):
        every = np.broadcast_to(np.arange(len(means)), (len(points), len(means)))
        return np.ascontiguousarray(every), np.full(len(points), np.inf)
    is_flat = means.shape[1] < _MIN_PRODUCT_FEATURES
    search = NearestNeighbors(n_neighbors=k, algorithm="kd_tree" if is_flat else "brute")
    distance, near = search.fit(means).kneighbors(points)
    # Distances are roots of differences of products, which have lost digits of large coordinates.
    largest = (means**2).sum(axis=1).max()
    lost = _PRODUCT_ROUNDING * means.shape[1] * ((points**2).sum(axis=1) + largest)
    return np.ascontiguousarray(near, dtype=np.int64), distance[:, -1] ** 2 * (1 - _SLACK) - lost


def _sums_without(values: np.ndarray) -> np.ndarray:
    """Return the sums over all rows but each one, Float[p, d], without cancellation."""
    before, after = np.zeros_like(values), np.zeros_like(values)
    before[1:] = np.cumsum(values[:-1], axis=0)
    after[:-1] = np.cumsum(values[:0:-1], axis=0)[::-1]
    return before + after


def _variances_without(
    means: np.ndarray, polytope: np.ndarray, own_mean: np.ndarray, is_gone: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the variances of the means without each row, and which features are constant.

    The parameters are those of :func:`spacings_without`; two means are left at least. Both results
    have the shape [m, d].
    """
    # Around the median, or the other one of two, the sums of squares of the others lose no digits
    # to a row far away.
    is_pair, stays = len(means) == 2, ~is_gone[:, None]
    middle = means[1 - polytope] if is_pair else np.median(means, axis=0)
    own = np.where(stays, own_mean - middle, 0.0)
    n = np.where(is_gone, len(means) - 1, len(means))[:, None]
    total, squares = own / n, own**2 / n
    if not is_pair:
        total += _sums_without(means - middle)[polytope] / n
        squares += _sums_without((means - middle) ** 2)[polytope] / n
    low = np.fmin(_extremes_without(means)[polytope], np.where(stays, own_mean, np.nan))
    high = np.fmax(-_extremes_without(-means)[polytope], np.where(stays, own_mean, np.nan))
    is_constant = high - low <= CONSTANT_TOLERANCE * np.maximum(np.abs(low), np.abs(high))
    return squares - total**2, is_constant


def _extremes_without(means: np.ndarray) -> np.ndarray:
    """Return the smallest value by feature without each mean, Float[p, d]."""
    order = np.argsort(means, axis=0, kind="stable")[:2]
    smallest, second = np.take_along_axis(means, order, axis=0)
    return np.where(np.arange(len(means))[:, None] == order[0], second, smallest)


def _listed_neighbours(
    means: np.ndarray, clear_distance: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the nearest means of each of at least two means (Float[p, d]), nearest first.

    The result is their numbers Int[p, l], lower bounds of their squared distances Float[p, l + 1],
    exact ones of the nearest, and how many there are, Int[p]: no other mean is nearer than the
    bound after the last one. There are more where that is below ``clear_distance`` times the
    squared distance of the nearest one.
    """
    p, every = len(means), np.arange(len(means))
    near, bound = _near_means(means, means, _N_NEAR)
    # The mean itself is the first one, or one of its equals is.
    near = np.take_along_axis(near, np.argsort(near == every[:, None], kind="stable"), axis=1)
    width = near.shape[1] - 1
    near = near[:, :width]
    squared = ((means[near] - means[:, None]) ** 2).sum(axis=2)
    order = np.lexsort((near, squared))
    numbers = np.take_along_axis(near, order, axis=1)
    distances = np.column_stack([np.take_along_axis(squared, order, axis=1), bound])
    n_listed = np.full(p, width)
    # Where these are about equally near, others may be as well.
    unclear = np.flatnonzero(bound <= clear_distance * distances[:, 0])
    if len(unclear):
        width = min(_MOST_LISTED, p - 1)
        numbers = np.pad(numbers, ((0, 0), (0, width - numbers.shape[1])))
        distances = np.pad(
            distances, ((0, 0), (0, width + 1 - distances.shape[1])), constant_values=np.inf
        )
        ones = np.ones((1, means.shape[1]))
        _list_neighbours(means, ones, unclear, numbers, distances, n_listed)
    # Of equally near means the first one is the neighbour.
    is_equal = distances[:, :-1] <= distances[:, :1] * (1 + _TIE)
    is_equal &= np.arange(numbers.shape[1]) < n_listed[:, None]
    position = np.argmin(np.where(is_equal, numbers, p), axis=1)
    first = numbers[every, position]
    numbers[every, position] = numbers[:, 0]
    numbers[:, 0] = first
    return numbers, distances, n_listed


@_compiled
def _squared_distance(a, i, b, k, inverses, q, limit):
    """Return Σ_j (a_ij - b_kj)²·inverses_qj, or a part of the sum that is above ``limit``.

    Rows are given by their numbers, because a view of each would take longer than the sum, and the
    limit is compared after every fourth term, which takes a fifth of the time.
    """
    total, first, d = 0.0, 0, a.shape[1]
    while first + 4 <= d and total <= limit:
        for j in range(first, first + 4):
            difference = a[i, j] - b[k, j]
            total += difference * difference * inverses[q, j]
        first += 4
    if total <= limit:
        for j in range(first, d):
            difference = a[i, j] - b[k, j]
            total += difference * difference * inverses[q, j]
    return total


@_compiled
def _list_neighbours(means, inverses, rows, numbers, distances, n_listed):
    """Fill the lists of :func:`_listed_neighbours` of some means, ``rows``: Int[k].

    ``inverses``: Float[1, d], ones.
    """
    # Lists are sorted by insertion: numba takes seconds to compile a call of a sort.
    p, width = numbers.shape
    for s in rows:
        n, bound = 0, np.inf
        for c in range(p):
            if c == s:
                continue
            limit = min(bound, _LISTED_DISTANCE * distances[s, 0]) if n > 0 else np.inf
            squared = _squared_distance(means, s, means, c, inverses, 0, limit)
            if squared > limit:
                continue
            k = n
            if n == width:
                bound = min(bound, max(squared, distances[s, n - 1]))
                if squared >= distances[s, n - 1]:
                    continue
                k = n - 1
            else:
                n += 1
            while k > 0 and distances[s, k - 1] > squared:
                numbers[s, k], distances[s, k] = numbers[s, k - 1], distances[s, k - 1]
                k -= 1
            numbers[s, k], distances[s, k] = c, squared
        limit = _LISTED_DISTANCE * distances[s, 0]
        while distances[s, n - 1] > limit:
            n -= 1
        n_listed[s] = n
        distances[s, n] = min(bound, limit) if n < p - 1 else np.inf


@_compiled
def _nearest_means_without(
    points, means, polytope, own_means, gone, inverses, near, bounds, nearest
):
    """Fill ``nearest``: Int[m] of :func:`nearest_means_without`.

    ``inverses``: Float[m, d], inverses of squared units; ``near``: Int[m, k], means near to each
    row; ``bounds``: Float[m], a squared distance of all others at least.
    """
    for i in range(points.shape[0]):
        r, best, closest = polytope[i], -1, np.inf
        if not gone[i]:
            best, closest = r, _squared_distance(points, i, own_means, i, inverses, i, np.inf)
        for k in range(near.shape[1]):
            c = near[i, k]
            most = closest * (1 + _TIE)
            squared = np.inf
            if c != r:
                squared = _squared_distance(points, i, means, c, inverses, i, most)
            if squared <= most:
                if best < 0 or c < best or squared < closest * (1 - _TIE):
                    best = c
                closest = min(closest, squared)
        if bounds[i] <= closest * (1 + 2 * _TIE):
            best = _nearest_without(
                points, i, means, -1, r, gone[i], own_means, inverses, i, closest
            )
        nearest[i] = best


@_compiled
def _nearest_without(points, i, means, skipped, r, is_gone, own_means, inverses, q, limit):
    """Return the number of the mean that is nearest to point i, of equally near ones the first.

    ``skipped``: number of a mean that does not count, or -1; ``r``: number of the mean that is gone
    or has become row q of ``own_means``: Float[m, d]; ``inverses``: Float[m, d], inverses of
    squared units, of which row q counts; ``limit``: a squared distance in which there is a mean.
    """
    best, nearest = -1, limit
    for c in range(means.shape[0]):
        if c == skipped or (c == r and is_gone):
            continue
        most = nearest * (1 + _TIE)
        if c == r:
            squared = _squared_distance(points, i, own_means, q, inverses, q, most)
        else:
            squared = _squared_distance(points, i, means, c, inverses, q, most)
        if squared > most:
            continue
        if best < 0 or squared < nearest * (1 - _TIE):
            best = c
        nearest = min(nearest, squared)
    return best


@_compiled
def _nearest_listed(s, means, numbers, distances, n, r, nearest, inverses, q, low):
    """Return the nearest to mean ``s`` of its ``n`` listed means and mean ``r``.

    ``nearest``: squared distance of what is left of mean r, or infinity; ``low``: least factor of
    squared distances in the units of row q of ``inverses``. The result is a number, -1 if there is
    no mean, and the squared distance.
    """
    best = r if nearest < np.inf else -1
    for k in range(n):
        c = numbers[s, k]
        most = nearest * (1 + _TIE)
        if distances[s, k] * low > nearest * (1 + 2 * _TIE):
            break
        if c == r:
            continue
        squared = _squared_distance(means, s, means, c, inverses, q, most)
        if squared > most:
            continue
        if best < 0 or c < best or squared < nearest * (1 - _TIE):
            best = c
        nearest = min(nearest, squared)
    return best, nearest


@_compiled
def _add_step(squared, i, points, k, means, c, own_means, r):
    """Add the squared step from point k to mean c, or to what is left of it if that is r.

    It is added to row i of ``squared``: Float[m, d]; row i of ``own_means`` is what is left.
    """
    for j in range(squared.shape[1]):
        target = own_means[i, j] if c == r else means[c, j]
        difference = points[k, j] - target
        squared[i, j] += difference * difference


@_compiled
def _mean_steps_without(
    means,
    numbers,
    distances,
    n_listed,
    steps,
    sums,
    order,
    polytope,
    own_means,
    gone,
    inverses,
    lowest,
    highest,
    ones,
    squared,
):
    """Fill the mean squared steps without each row, ``squared``: Float[m, d].

    ``steps``: Float[p, d], squared steps of all means to their neighbours; ``sums``: Float[p, d],
    their sums without each mean; ``order``: Int[m], rows polytope by polytope; ``lowest``,
    ``highest``: Float[m], bounds of the factors of squared distances; ``ones``: Float[1, d]. The
    others are those of :func:`spacings_without` and :func:`_listed_neighbours`.
    """
    p, d = means.shape
    nearest, from_r, last = np.empty(p, np.int64), np.empty(p), -1
    for i in order:
        r, is_gone, low, high = polytope[i], gone[i], lowest[i], highest[i] * (1 + 2 * _TIE)
        # By the triangle inequality, what is left of a polytope is far from a mean that its mean is
        # far from, which saves most of the distances.
        moved, reach = 0.0, np.sqrt(high / low) * (1 + _SLACK)
        if not is_gone:
            moved = np.sqrt(_squared_distance(own_means, i, means, r, ones, 0, np.inf))
            if r != last:
                last = r
                for s in range(p):
                    from_r[s] = np.sqrt(_squared_distance(means, s, means, r, ones, 0, np.inf))
        for j in range(d):
            squared[i, j] = sums[r, j]
        for s in range(p):
            first = numbers[s, 0]
            nearest[s] = first
            if s == r:
                continue
            if (
                first != r
                and distances[s, 0] * high < distances[s, 1] * low
                and (is_gone or from_r[s] - moved > reach * np.sqrt(distances[s, 0]))
            ):
                continue
            to_own = np.inf
            if not is_gone:
                to_own = _squared_distance(means, s, own_means, i, inverses, i, np.inf)
            best, closest = _nearest_listed(
                s, means, numbers, distances, n_listed[s], r, to_own, inverses, i, low
            )
            if distances[s, n_listed[s]] * low <= closest * (1 + 2 * _TIE):
                best = _nearest_without(
                    means, s, means, s, r, is_gone, own_means, inverses, i, closest
                )
            nearest[s] = best
            if best == first and best != r:
                continue
            for j in range(d):
                squared[i, j] -= steps[s, j]
            _add_step(squared, i, means, s, means, best, own_means, r)
        is_exact = True
        for j in range(d):
            is_exact = is_exact and squared[i, j] >= _MAX_CANCELLATION * sums[r, j]
        if not is_exact:
            for j in range(d):
                squared[i, j] = 0.0
            for s in range(p):
                if s != r:
                    _add_step(squared, i, means, s, means, nearest[s], own_means, r)
        if not is_gone:
            best = _nearest_without(
                own_means, i, means, r, -1, False, own_means, inverses, i, np.inf
            )
            _add_step(squared, i, own_means, i, means, best, own_means, r)
        n_left = p - 1 if is_gone else p
        for j in range(d):
            squared[i, j] /= n_left
