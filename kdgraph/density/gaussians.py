"""Gaussians of polytopes, and the coordinates in which their distances are measured.

Each populated polytope has one Gaussian with diagonal covariance (Dey et al. 2024, Section 4.1).
:class:`PolytopeMoments` holds the moments of the rows in each polytope, whose variances shrink
towards the spacing between polytopes; :class:`PolytopeGaussians` evaluates the densities.
:func:`neighbour_whitening` replaces the features by coordinates in which neighbouring polytopes
differ by independent steps of size 1, a metric that respects correlations between features.

A density floor needs the density of in-distribution rows that the density does not contain. Where
no row is held out, each training row is left out in turn: by :class:`LeftOutRows` for distances in
units of the spacing, and one fold after the other by :func:`log_density_by_folds` for others.
Variances, whitening and densities without a row are original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.covariance import LedoitWolf
from sklearn.neighbors import NearestNeighbors

from kdgraph.compilation import kernel
from kdgraph.density.spacing import (
    CONSTANT_TOLERANCE,
    MIN_STEP_FRACTION,
    NeighbourSteps,
    nearest_means_without,
    spacing_between,
    spacings_without,
    subsample,
)
from kdgraph.geometry import Polytopes
from kdgraph.smoothing.nearest_mean import NearestMean, clip_coordinates

# Points among which the neighbours of a sample are searched for the whitening.
_MAX_NEIGHBOURS = 32_000
# The first pass finds neighbours in units of the spread of each feature, the second one along the
# axes of the first.
_WHITENING_PASSES = 2
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


@dataclass(frozen=True)
class PolytopeMoments:
    """Moments of the rows in each polytope.

    Attributes
    ----------
    sizes : Int[p]
        Number of rows in each polytope.
    mean : Float[p, d]
        Mean by feature (Eq. 9 of Dey et al.).
    variance : Float[p, d]
        Biased variance by feature.
    """

    sizes: np.ndarray
    mean: np.ndarray
    variance: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, polytopes: Polytopes) -> PolytopeMoments:
        """Return the moments of rows, Float[n, d], in each polytope."""
        sizes = polytopes.sizes[:, None]
        mean = polytopes.sum_by_polytope(X) / sizes
        # What rounding left is added, so that the mean of equal rows is the row itself. Otherwise
        # it would choose between two polytopes of equal rows.
        mean += polytopes.sum_by_polytope(X - mean[polytopes.polytope_of_row]) / sizes
        squares = (X - mean[polytopes.polytope_of_row]) ** 2
        return cls(polytopes.sizes, mean, polytopes.sum_by_polytope(squares) / sizes)

    def shrink_variances(self, spacing: np.ndarray) -> np.ndarray:
        """Return variances shrunk towards the spacing between polytopes, Float[p, d].

        Each polytope has one more row, whose squared distance to the mean is ``spacing``, Float[d]:
        (n_r·var_r + s²)/(n_r + 1).

        Notes
        -----
        Nearly all polytopes of a fully grown forest contain one row. Their variance by Eq. 10 is
        1e-6, and that of the few others is 10⁴ times larger. A single density floor then does not
        correspond to a single distance.
        """
        n = self.sizes[:, None]
        return (n * self.variance + spacing) / (n + 1)


VarianceRule = Callable[[PolytopeMoments], np.ndarray]
"""Function of the moments that returns the variances of the Gaussians, Float[p, d]."""


def choose_spacing(
    moments: PolytopeMoments,
    held_out: np.ndarray | None = None,
    rounding: np.ndarray | float = 0.0,
) -> np.ndarray:
    """Return the spacing between the means, Float[d], shrunk where that suits held-out rows.

    ``held_out``: Float[m, d], None for no shrinkage; ``rounding``: see :func:`spacing_between`.
    """
    # A feature that is constant in all but a few training rows, such as a border pixel, forbids
    # every other value, and one held-out row with another value lowers the density floor for all
    # rows. So spacings shrunk towards their mean are tried too, and used if they make held-out rows
    # more likely by a clear margin.
    spacing = spacing_between(moments.mean, rounding)
    if held_out is None:
        return spacing
    sample, likelihood = subsample(held_out), []
    candidates = [_shrink(spacing, weight) for weight in SHRINKAGE_GRID]
    for candidate in candidates:
        gaussians = PolytopeGaussians(moments.mean, moments.shrink_variances(candidate))
        nearest = NearestMean(moments.mean, np.sqrt(candidate))(sample)
        likelihood.append(float(gaussians.log_density(sample, nearest).mean()))
    return candidates[choose_shrinkage(likelihood)]


def choose_shrinkage(likelihood: Sequence[float]) -> int:
    """Return the position in :data:`SHRINKAGE_GRID` of the largest mean log likelihood of rows.

    It is 0, for no shrinkage, unless the gain is clear.
    """
    best, none = int(np.argmax(likelihood)), likelihood[0]
    least = _MIN_LIKELIHOOD_GAIN + _MIN_RELATIVE_GAIN * abs(none)
    return best if likelihood[best] > none + least else 0


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


def left_out_positions(n_rows: int) -> np.ndarray:
    """Return the positions of the rows that are left out, Int[m]: all, or every s-th of many."""
    return np.arange(0, n_rows, max(1, n_rows // MAX_LEFT_OUT_ROWS))


class LeftOutRows:
    """Rows of polytopes, and what is left of means, variances and spacing without each of them.

    Parameters
    ----------
    moments : PolytopeMoments
        Moments of all rows.
    points : Float[n, d]
        The rows.
    polytope_of_row : Int[n]
        Polytope of each row.

    Attributes
    ----------
    spacing : Float[d]
        Spacing of all rows, with a shrinkage that is chosen by leave-one-out.

    Notes
    -----
    With at most 1,000 polytopes, each log density is exactly that of the moments of the other rows:
    means, variances, unit, neighbours and limits of the spacing, and the nearest of all means in
    its units. Three things are those of all rows: the parent, the merging of polytopes, and the
    shrinkage of the spacing, which makes these log densities most likely.

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
    >>> from kdgraph.geometry import polytopes_of
    >>> points, polytopes = np.array([[0.0], [1.0], [5.0]]), polytopes_of(np.arange(3)[:, None])
    >>> left_out = LeftOutRows(PolytopeMoments.of(points, polytopes), points, np.arange(3))
    >>> search = NearestMean(points, np.sqrt(left_out.spacing))
    >>> left_out.log_density(search).round(2).tolist()  # of the means 1 and 5, 0 and 5, 0 and 1
    [-2.02, -2.22, -16.57]
    """

    def __init__(self, moments: PolytopeMoments, points: np.ndarray, polytope_of_row: np.ndarray):
        rows = left_out_positions(len(points))
        own_mean, own_squares = rest_of_polytopes(points, polytope_of_row)
        self._rows, self._polytope = points[rows], polytope_of_row[rows]
        self._own_mean, self._own_squares = own_mean[rows], own_squares[rows]
        self._moments, self._n_others = moments, moments.sizes[self._polytope] - 1
        means, is_gone = moments.mean, self._n_others == 0
        self._is_exact = len(means) <= MAX_EXACT_POLYTOPES
        if self._is_exact:
            self.spacing = spacing_between(means)
            self._spacing = spacings_without(means, self._polytope, self._own_mean, is_gone)
        else:
            steps = NeighbourSteps.of(means)
            self.spacing = steps.spacing
            self._spacing = steps.spacings_without(np.where(is_gone, self._polytope, -1))
        some, likelihood = np.arange(0, len(rows), -(-len(rows) // _MAX_CHOOSING_ROWS)), []
        for weight in SHRINKAGE_GRID:
            log_density = self._log_density(some, weight)
            likelihood.append(float(log_density[np.isfinite(log_density)].sum()) / len(some))
        weight = SHRINKAGE_GRID[choose_shrinkage(likelihood)]
        self.spacing = _shrink(self.spacing, weight)
        self._spacing = _shrink(self._spacing, weight)

    def log_density(self, search: NearestMean) -> np.ndarray:
        """Return the log densities of the rows at :func:`left_out_positions`, Float[m].

        They are -inf if no other row is left. ``search`` is that by which new rows find their
        polytope. Of more than 2,000 means, it chooses those that a row is compared with, which are
        the nearest of at most 4,096.
        """
        every = np.arange(len(self._rows))
        if self._is_exact:
            return self._log_density(every)
        two = search.nearest(self._rows, 2)
        other = np.where(two[:, 0] == self._polytope, two[:, 1], two[:, 0])
        to_own = np.where(self._n_others > 0, self._distance(self._own_mean), np.inf)
        is_own = to_own < self._distance(self._moments.mean[other])
        return self._log_density_at(every, np.where(is_own, self._polytope, other), self._spacing)

    def _distance(self, means: np.ndarray) -> np.ndarray:
        return ((self._rows - means) ** 2 / self._spacing).sum(axis=1)

    def _log_density(self, rows: np.ndarray, weight: float = 0.0) -> np.ndarray:
        """Return log densities of some rows (Int[m]), by the nearest of all means.

        ``weight``: weight of a shrinkage of all spacings.
        """
        spacing = _shrink(self._spacing[rows], weight)
        nearest = nearest_means_without(
            self._rows[rows],
            self._moments.mean,
            self._polytope[rows],
            self._own_mean[rows],
            self._n_others[rows] == 0,
            spacing,
            _shrink(self.spacing, weight),
        )
        return self._log_density_at(rows, nearest, spacing)

    def _log_density_at(
        self, rows: np.ndarray, nearest: np.ndarray, spacing: np.ndarray
    ) -> np.ndarray:
        """Return log densities of some rows at a polytope of each, -inf at -1."""
        is_own, moments = nearest == self._polytope[rows], self._moments
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
