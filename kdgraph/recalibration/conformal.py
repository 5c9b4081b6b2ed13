"""Conformal recalibrators: intervals that cover with the nominal probability.

Both estimators recalibrate on some calibration rows and correct the intervals by the others, so
that coverage is guaranteed for any parent. :class:`ConformalPit` has one correction for each cell
of rows (Romano et al. 2019), :class:`LocalisedConformalPit` one for each row, from the held-out
rows near to it (Guan 2023). Their combination with local recalibration is original to kdgraph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kdgraph.base import Rows
from kdgraph.base.validation import check_per_row, is_dataframe
from kdgraph.distributions import ConformalIntervals, Distribution, LocalisedIntervals
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, Positive
from kdgraph.recalibration.base import NeighbourRegressor, SplitConformalRegressor
from kdgraph.smoothing.neighbour_weights import NeighbourWeighting
from kdgraph.smoothing.neighbours import NeighbourSearch

_NO_CELL = -1
"""Cell of a row whose value or group no held-out row has."""


@dataclass(eq=False, repr=False)
class ConformalPit(SplitConformalRegressor):
    """Recalibrator whose intervals cover at least the nominal fraction of new rows.

    It recalibrates on some calibration rows and corrects the intervals by the others; by all, if
    there is no recalibrator and cells do not depend on standard deviations.

    Mean, quantiles and CRPS are those of the recalibrator.
    :class:`~kdgraph.distributions.ConformalIntervals` describes the guarantee and its source. A row
    whose value or group is missing, or does not occur among the rows that correct, gets the
    correction of all of them.

    Parameters
    ----------
    cells : int, default=1
        Number of cells of rows, each with its own correction and its own guarantee. Cells are
        intervals of predicted standard deviations with equal numbers of recalibrating rows. 1: the
        same correction for all rows.
    column : int or str, default=None
        Column of X, by position or name, whose values define the cells instead.
    by_group : bool, default=False
        Use the groups that are passed to ``fit`` and ``predict_dist`` as cells instead.

    Attributes
    ----------
    held_out_cells_ : Int[h]
        Cells of the rows that correct intervals.
    edges_ : ndarray of shape (c - 1,) or (c,)
        Standard deviations between cells; or the values of the column, or the groups.

    Examples
    --------
    >>> from kdgraph.parents import GaussianLinear
    >>> from kdgraph.recalibration import LocalPit
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(900, 1))
    >>> y = X[:, 0] * rng.normal(size=900)
    >>> model = ConformalPit(GaussianLinear(), LocalPit(None, k=50), random_state=0)
    >>> low, high = model.fit(X[:600], y[:600]).predict_dist(X[600:]).interval(0.9)
    >>> bool(((low <= y[600:]) & (y[600:] <= high)).mean() > 0.85)
    True
    """

    cells: Count = 1
    column: int | str | None = None
    by_group: bool = False

    @property
    def takes_groups(self) -> bool:
        return self.by_group

    def describe(self) -> dict[str, Any]:
        return {"cells": len(np.unique(self.held_out_cells_))} | super().describe()

    def predict_dist(self, X, groups=None) -> Distribution:
        """Return the corrected distributions of n rows, with the subgroup of each row, [n]."""
        X = self._validate_X(X)
        return self._correct(self._parent_distribution(X), X, groups)

    def _recalibrate(self, base: Distribution, X: Any) -> Distribution:
        return self._correct(base, X, None)

    def _correct(self, base: Distribution, X: Any, groups: Any) -> Distribution:
        recalibrated = base if self.recalibrator is None else self._recalibrated_distribution(X)
        cells = self._cells_of(X, recalibrated, groups)
        held_out, y, held_out_cells = self.held_out_, self.y_held_out_, self.held_out_cells_
        if (cells == _NO_CELL).any():
            # Rows without a cell get the correction of all held-out rows. These enter twice: once
            # in their own cell, and once, together, in the cell of rows without a cell.
            in_cell, all_rows = np.flatnonzero(held_out_cells != _NO_CELL), np.arange(len(y))
            twice = np.concatenate([in_cell, all_rows])
            held_out_cells = np.concatenate(
                [held_out_cells[in_cell], np.full(len(all_rows), _NO_CELL)]
            )
            held_out, y = held_out[twice], y[twice]
        return ConformalIntervals(recalibrated, held_out, y, cells, held_out_cells)

    def _fit_correction(self, train: Rows, recalibrating: Rows, held_out: Rows) -> None:
        if self._has_value_cells():
            self.edges_ = _distinct_values(self._cell_values(held_out.X, held_out.group))
        else:
            self.edges_ = self._spread_edges(recalibrating)
        self.held_out_cells_ = self._cells_of(held_out.X, self.held_out_, held_out.group)

    def _requires_recalibrating_rows(self) -> bool:
        if (self.cells > 1) + (self.column is not None) + self.by_group > 1:
            settings = f"cells={self.cells}, column={self.column} and by_group={self.by_group}"
            raise ParameterError(
                f"cells must be defined by one parameter, got {settings}; set only one of them"
            )
        return self.cells > 1

    def _smallest_cell_size(self) -> int:
        return int(np.unique(self.held_out_cells_, return_counts=True)[1].min())

    def _spread_edges(self, recalibrating: Rows) -> np.ndarray:
        """Return the standard deviations between cells."""
        # They come from rows other than the held-out ones, so that held-out and new rows of a cell
        # are exchangeable.
        if self.cells == 1 or not len(recalibrating):
            return np.empty(0)
        return np.unique(
            np.quantile(
                np.sqrt(self._recalibrated_rows(recalibrating).var()),
                np.arange(1, self.cells) / self.cells,
                method="inverted_cdf",
            )
        )

    def _cells_of(self, X: Any, recalibrated: Distribution, groups: Any) -> np.ndarray:
        if not self._has_value_cells():
            # The edges are spreads of other rows: an equal spread that is rounded differently stays
            # in the cell below.
            spread = np.sqrt(recalibrated.var()) * (1 - 1e-12)
            return np.searchsorted(self.edges_, spread, side="left")
        cells = np.full(len(recalibrated), _NO_CELL)
        if self.by_group and groups is None:
            return cells
        values = self._cell_values(X, groups)
        for position, value in enumerate(self.edges_.tolist()):
            cells[values == value] = position
        return cells

    def _has_value_cells(self) -> bool:
        return self.by_group or self.column is not None

    def _cell_values(self, X: Any, groups: Any) -> np.ndarray:
        if self.by_group:
            if groups is None:
                raise ValueError(
                    f"{type(self).__name__} needs the group of each row: groups, and"
                    " groups_calibration where there are such rows"
                )
            return check_per_row("groups", groups, len(X))
        if is_dataframe(X):
            return np.asarray(
                X[self.column] if isinstance(self.column, str) else X.iloc[:, self.column]
            )
        if isinstance(self.column, str):
            raise ValueError(
                f"column={self.column} is a name, and X is an array without names; give its"
                " position"
            )
        return np.asarray(X)[:, self.column]


def _distinct_values(values: np.ndarray) -> np.ndarray:
    """Return the different values, sorted, without None and NaN; text as text."""
    from pandas import isna

    return np.unique(np.array(values[~isna(values)].tolist()))


_N_CENTRES, _N_POTENTIAL_NEIGHBOURS = 300, 10_000
"""Number of first recalibrating rows around which the radius is sought, and of their potential
neighbours.
"""
_N_BISECTIONS = 30
_MIN_SATISFIED = 0.95
"""Fraction of these rows that must have enough neighbours.

The others are isolated, as rows in many dimensions often are, and may get the whole line.
"""


@dataclass(eq=False, repr=False)
class LocalisedConformalPit(NeighbourRegressor, SplitConformalRegressor):
    """Recalibrator that corrects each interval by the held-out rows near to the row.

    Parameters
    ----------
    k : int, default=50
        Total weight of the neighbours of a row that at least 19 of 20 rows should reach; a row at
        the same place has weight 1. If no more rows than this correct intervals, all rows have the
        same correction. A finite interval of level 95 % needs about 20.
    radius : float, default=None
        Largest distance of a neighbour, in the units of the space; then k is not used.
    max_reference_rows : int or None, default=10000
        Largest number of rows that correct intervals; all others recalibrate. The guarantee of
        coverage holds for any number. With None, time and memory of ``fit`` grow with the square of
        the number of calibration rows.

    Attributes
    ----------
    space_, radius_ : FeatureSpace, float
        The space and the radius of all rows. They are fitted on the recalibrating rows, because a
        choice that depends on the held-out rows would break their exchangeability with new rows.
    coordinates_ : Float[h, d] or sparse matrix
        Held-out rows in the space.

    Notes
    -----
    The weight of a neighbour is 1 - (distance / radius)².
    :class:`~kdgraph.distributions.LocalisedIntervals` describes the guarantee and its source: it is
    coverage on average over all rows, as of one correction for all. With many features, few rows
    are near to any; ``feature_space="output"`` has two. Mean, quantiles and CRPS are the
    recalibrator's.

    Examples
    --------
    >>> from kdgraph.parents import GaussianLinear
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 1))
    >>> y = X[:, 0] * rng.normal(size=2000)  # the parent's intervals have one width
    >>> model = LocalisedConformalPit(GaussianLinear(), random_state=0).fit(X, y)
    >>> low, high = model.predict_dist([[0.2], [0.8]]).interval(0.9)
    >>> bool(high[1] - low[1] > 2 * (high[0] - low[0]))
    True
    """

    k: Count = 50
    radius: Positive | None = None
    max_reference_rows: Count | None = 10_000

    def describe(self) -> dict[str, Any]:
        """Return the fitted summary for the record, with the median effective number of neighbours.

        ``radius`` is None if all rows are neighbours.
        """
        weights = self.held_out_weights_
        n_eff = weights.sum(axis=1) ** 2 / np.square(weights).sum(axis=1)
        radius = self.radius_ if np.isfinite(self.radius_) else None
        return {"radius": radius, "n_eff_correcting": float(np.median(n_eff))} | super().describe()

    def _recalibrate(self, base: Distribution, X: Any) -> Distribution:
        recalibrated = base if self.recalibrator is None else self._recalibrated_distribution(X)
        neighbours, weights = self._find_neighbours(
            self.space_.coordinates(self.estimator_, X, base)
        )
        return LocalisedIntervals(
            recalibrated,
            self.held_out_,
            self.y_held_out_,
            neighbours,
            weights,
            self.held_out_neighbours_,
            self.held_out_weights_,
        )

    def _fit_correction(self, train: Rows, recalibrating: Rows, held_out: Rows) -> None:
        self.space_ = self._unfitted_space()
        fitting = recalibrating if len(recalibrating) else held_out
        fitted_coordinates = self.space_.fit(
            self.estimator_, train, fitting, self._calibration_distribution(fitting)
        )
        self.coordinates_ = self.space_.coordinates(
            self.estimator_, held_out.X, self._calibration_distribution(held_out)
        )
        self.radius_ = (
            float(self.radius)
            if self.radius is not None
            else self._choose_radius(fitted_coordinates, len(held_out))
        )
        self.held_out_neighbours_, self.held_out_weights_ = self._find_neighbours(self.coordinates_)

    def _requires_recalibrating_rows(self) -> bool:
        return True

    def _max_held_out_rows(self) -> int | None:
        return self.max_reference_rows

    def _choose_radius(self, coordinates: Any, n_held_out: int) -> float:
        """Return the radius in which most recalibrating rows have neighbours of total weight k."""
        # The weights are extrapolated to as many potential neighbours as there are held-out rows.
        # The total weight grows with the radius, so the smallest sufficient radius is bracketed by
        # doubling and then bisected. Distances are computed once, for a few rows, since a
        # quantile over 300 rows is accurate enough.
        candidates = coordinates[:_N_POTENTIAL_NEIGHBOURS]
        if self.k >= n_held_out or candidates.shape[0] < 2:
            return np.inf
        search = NeighbourSearch(candidates)
        # The nearest row is the row itself.
        distance = search.nearest(candidates[:_N_CENTRES], candidates.shape[0])[0][:, 1:]

        def is_too_small(radius: float) -> bool:
            mean_weight = np.maximum(1 - np.square(distance / radius), 0).mean(axis=1)
            return bool(np.quantile(mean_weight, 1 - _MIN_SATISFIED) * n_held_out < self.k)

        low, high = 0.0, float(distance.max())
        if high == 0:
            return np.inf
        while is_too_small(high):
            low, high = high, 2 * high
        for _ in range(_N_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if is_too_small(middle) else (low, middle)
        return high

    def _find_neighbours(self, coordinates: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the held-out neighbours of query points, Int[m, k], and weights, Float[m, k].

        The weights are all 0 if there is no neighbour.
        """
        search = NeighbourSearch(self.coordinates_)
        weighting = NeighbourWeighting(radius=self.radius_, n_fallback=1)
        blocks = [
            weighting.find_neighbours(search, coordinates[rows])
            for rows in weighting.query_blocks(search, coordinates)
        ]
        # Blocks have different numbers of neighbours; the arrays are as wide as the widest block.
        m, width = coordinates.shape[0], max((block.rows.shape[1] for block in blocks), default=1)
        neighbours, weights = np.zeros((m, width), dtype=np.intp), np.zeros((m, width))
        n_filled = 0
        for block in blocks:
            rows = slice(n_filled, n_filled + len(block.rows))
            neighbours[rows, : block.rows.shape[1]] = block.rows
            weights[rows, : block.rows.shape[1]] = np.where(block.empty[:, None], 0.0, block.weight)
            n_filled += len(block.rows)
        return neighbours, weights
