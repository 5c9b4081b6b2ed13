"""Local recalibration with a guarantee: intervals that hold their share of rows, whatever the model
(ours, by Romano et al. 2019).

Intervals with a guarantee and a correction for each row: localised conformal prediction (Guan 2023)
behind any recalibration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kdgraph.base import Rows
from kdgraph.base.rows import check_per_row, is_dataframe
from kdgraph.distributions import ConformalIntervals, Distribution, LocalisedIntervals
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, Positive
from kdgraph.recalibration.base import HalvesOfRows, Space, Units, Where
from kdgraph.smoothing.neighbours import Nearness, NeighbourSearch

_UNKNOWN = -1
"""Where a cell stands that no row that corrects belongs to."""


@dataclass(eq=False, repr=False)
class ConformalPit(HalvesOfRows):
    """Recalibrate on some calibration rows, and correct the intervals on the others so that they
    hold at least their share of new rows.

    Parameters
    ----------
    estimator : any regressor with ``predict_dist``; cloned and fitted, unless frozen.
    recalibrator : what recalibrates, such as :class:`~kdgraph.recalibration.LocalPit`, its
    ``estimator`` left None; None: nothing does.
    share : of the calibration rows, that correct; all of them where nothing recalibrates, and no
    cell is by standard deviations.
    cells : each of so many cells of rows has its own correction, and its own guarantee: by
        predicted standard deviations, as many of the rows that recalibrate in each. 1: one for all.
    column : cells are the values of this column of X instead, by position or name.
    by_group : cells are the subgroups instead that ``fit`` and ``predict_dist`` are told.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen
        estimator give it rows that this was not fitted on, ``fit(X, y, X_calibration=…,
        y_calibration=…)``: see :class:`~kdgraph.base.PostHoc`.
    random_state : seeds the held-out rows, their division, the recalibrator and the parent, where
        these have no seed of their own.

    Attributes
    ----------
    estimator_ : the fitted parent.
    recalibrated_ : the fitted recalibrator behind it, or the parent.
    held_, y_held_, cell_held_ : predicted distributions, outcomes and cells of the rows that
    correct.
    edges_ : Float[c - 1] of standard deviations; or the values of the column, or the groups.

    Notes
    -----
    Mean, quantiles and CRPS are the recalibrator's;
    :class:`~kdgraph.distributions.ConformalIntervals` says what is guaranteed and by whom. Local
    recalibration by itself falls short where neighbours are few: of 50 of 200 rows, intervals of
    nominally 95 % hold 93.7 %. A row whose value or group none of the rows that correct has, or of
    which nobody says it, gets the correction of all of them.

    Examples
    --------
    >>> from kdgraph.parents import GaussianLinear
    >>> from kdgraph.recalibration import LocalPit
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(900, 1))
    >>> y = X[:, 0] * rng.normal(size=900)
    >>> model = ConformalPit(GaussianLinear(), LocalPit(None, k=50), random_state=0).fit(X[:600], y[:600])
    >>> low, high = model.predict_dist(X[600:]).interval(0.9)
    >>> bool(((low <= y[600:]) & (y[600:] <= high)).mean() > 0.85)
    True
    """

    cells: Count = 1
    column: int | str | None = None
    by_group: bool = False

    @property
    def takes_groups(self) -> bool:
        """Whether each subgroup has its own correction."""
        return self.by_group

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: how many rows correct, in how many cells, and the
        highest level of finite intervals in all.
        """
        return {"cells": len(np.unique(self.cell_held_))} | super().describe()

    def predict_dist(self, X, groups=None) -> Distribution:
        """Distributions of the n rows of X: Float[n, d] or a data frame; ``groups``, [n], says to
        which each row belongs.
        """
        X = self._validate_X(X)
        return self._corrected(self._base(X), X, groups)

    def _after(self, base: Distribution, X: Any) -> Distribution:
        return self._corrected(base, X, None)

    def _corrected(self, base: Distribution, X: Any, groups: Any) -> Distribution:
        said = self._said(X) if self.recalibrator is not None else base
        cell = self._cells(X, said, groups)
        if (cell == _UNKNOWN).any():  # the correction of all, whose rows are a cell of their own
            known, everyone = (
                np.flatnonzero(self.cell_held_ != _UNKNOWN),
                np.arange(len(self.y_held_)),
            )
            twice = np.concatenate([known, everyone])
            cells = np.concatenate([self.cell_held_[known], np.full(len(everyone), _UNKNOWN)])
            return ConformalIntervals(said, self.held_[twice], self.y_held_[twice], cell, cells)
        return ConformalIntervals(said, self.held_, self.y_held_, cell, self.cell_held_)

    def _learn_from(self, train: Rows, rest: Rows, held: Rows) -> None:
        if self._by_value():
            self.edges_ = _values(self._value_of(held.X, held.group))
        else:
            self.edges_ = self._edges(rest)
        self.cell_held_ = self._cells(held.X, self.held_, held.group)

    def _needs_rest(self) -> bool:
        if (self.cells > 1) + (self.column is not None) + self.by_group > 1:
            told = f"cells={self.cells}, column={self.column} and by_group={self.by_group}"
            raise ParameterError(f"cells of rows are by one thing, got {told}; give one of them")
        return self.cells > 1

    def _fewest(self) -> int:
        return int(np.unique(self.cell_held_, return_counts=True)[1].min())

    def _edges(self, rest: Rows) -> np.ndarray:
        """Of other rows than those that correct, which are then exchangeable with new ones in each
        cell.
        """
        if self.cells == 1 or not len(rest):
            return np.empty(0)
        return np.unique(
            np.quantile(
                np.sqrt(self._said(rest.X).var()),
                np.arange(1, self.cells) / self.cells,
                method="inverted_cdf",
            )
        )

    def _cells(self, X: Any, said: Distribution, groups: Any) -> np.ndarray:
        """Int[n], which cell each row is in."""
        if not self._by_value():
            # The edges are spreads of other rows: an equal one that is rounded differently stays
            # below.
            return np.searchsorted(self.edges_, np.sqrt(said.var()) * (1 - 1e-12), side="left")
        cell = np.full(len(said), _UNKNOWN)
        if self.by_group and groups is None:
            return cell
        values = self._value_of(X, groups)
        for position, value in enumerate(self.edges_.tolist()):
            cell[values == value] = position
        return cell

    def _by_value(self) -> bool:
        return self.by_group or self.column is not None

    def _value_of(self, X: Any, groups: Any) -> np.ndarray:
        """[n]: the column, or the groups."""
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


def _values(values: np.ndarray) -> np.ndarray:
    """The different ones, sorted, but None and NaN, which are nobody's value; text as text, not as
    objects.
    """
    from pandas import isna

    return np.unique(np.array(values[~isna(values)].tolist()))


_CENTRES, _OTHERS = 300, 10_000
"""Rows, the first of those that recalibrate, around which the radius is looked for, and among
which.
"""
_HALVINGS = 30
_MOST = 0.95
"""Of these rows so many have enough near to them; the others, far out in many features, may have
the whole line.
"""


@dataclass(eq=False, repr=False)
class LocalisedConformalPit(HalvesOfRows):
    """Recalibrate on some calibration rows, and correct each interval by those of the others that
    are near.

    Parameters
    ----------
    estimator : any regressor with ``predict_dist``; cloned and fitted, unless frozen.
    recalibrator, share : as in :class:`~kdgraph.recalibration.ConformalPit`; some rows never
    correct.
    where, layer, units, forest : the space in which rows are near; see
    :class:`~kdgraph.recalibration.base.Space`.
    k : how much the rows near to one count together, in 19 of 20 cases at least, a row at the same
        place counting 1; where no more rows correct, all have one correction. A finite interval of
        level 95 % needs about 20.
    radius : or how far away, in the units of the space, a row may be; then k is not used.
    calibration_size, random_state : as in :class:`~kdgraph.recalibration.ConformalPit`.

    Attributes
    ----------
    estimator_, recalibrated_, held_, y_held_ : as of :class:`~kdgraph.recalibration.ConformalPit`.
    space_, at_ : the space, fitted on the rows that recalibrate, and the rows that correct in it:
    Float[h, d], or sparse.
    radius_ : that of all rows, by those that recalibrate: they alone may choose it.

    Notes
    -----
    Rows count by 1 - (distance / radius)². :class:`~kdgraph.distributions.LocalisedIntervals` says
    what is guaranteed and by whom: the share of all rows, as of one correction for all; what is
    promised at a place is that of a cell of :class:`~kdgraph.recalibration.ConformalPit`. In many
    features few rows are near to any; ``where="output"`` has two. Mean, quantiles and CRPS are the
    recalibrator's.

    Examples
    --------
    >>> from kdgraph.parents import GaussianLinear
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 1))
    >>> y = X[:, 0] * rng.normal(size=2000)
    >>> low, high = LocalisedConformalPit(GaussianLinear(), random_state=0).fit(X, y).predict_dist([[0.2], [0.8]]).interval(0.9)
    >>> bool(high[1] - low[1] > 2 * (high[0] - low[0]))  # the parent's intervals are as wide as each other
    True
    """

    where: Where = "input"
    layer: str | None = None
    units: Units = "sd"
    forest: Any = None
    k: Count = 50
    radius: Positive | None = None

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record; ``n_eff_correcting``: the median effective number of
        rows near to one that corrects.
        """
        n_eff = self.weight_held_.sum(axis=1) ** 2 / np.square(self.weight_held_).sum(axis=1)
        radius = self.radius_ if np.isfinite(self.radius_) else None  # None: all rows are near
        return {"radius": radius, "n_eff_correcting": float(np.median(n_eff))} | super().describe()

    def _requires_training_rows(self) -> bool:
        """A forest of its own, whose leaves are the space, is fitted on them."""
        return self.where == "geodesic" or super()._requires_training_rows()

    def _distance_estimator(self) -> Any:
        return None if self.where == "output" and self.recalibrator is None else self.estimator

    def _after(self, base: Distribution, X: Any) -> Distribution:
        said = self._said(X) if self.recalibrator is not None else base
        near, weight = self._near(self.space_.of(self.estimator_, X, base))
        return LocalisedIntervals(
            said, self.held_, self.y_held_, near, weight, self.near_held_, self.weight_held_
        )

    def _learn_from(self, train: Rows, rest: Rows, held: Rows) -> None:
        self.space_ = Space(self.where, self.units, self.layer, self.forest, self.random_state)
        chooses = rest if len(rest) else held
        at_rest = self.space_.fit(self.estimator_, train, chooses, self._base(chooses.X))
        self.at_ = self.space_.of(self.estimator_, held.X, self._base(held.X))
        self.radius_ = (
            float(self.radius) if self.radius is not None else self._radius(at_rest, len(held))
        )
        self.near_held_, self.weight_held_ = self._near(self.at_)

    def _needs_rest(self) -> bool:
        return True

    def _radius(self, at: Any, n_held: int) -> float:
        """In which most of the rows that recalibrate would have rows near to them that count k, if
        as many were there as correct.
        """
        others = at[:_OTHERS]
        if self.k >= n_held or others.shape[0] < 2:
            return np.inf
        distance = NeighbourSearch(others).nearest(others[:_CENTRES], others.shape[0])[0][
            :, 1:
        ]  # the nearest is the row itself

        def too_few(radius: float) -> bool:
            counts = np.maximum(1 - np.square(distance / radius), 0).mean(axis=1)
            return bool(np.quantile(counts, 1 - _MOST) * n_held < self.k)

        low, high = 0.0, float(distance.max())
        if high == 0:
            return np.inf
        while too_few(high):
            low, high = high, 2 * high
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if too_few(middle) else (low, middle)
        return high

    def _near(self, at: Any) -> tuple[np.ndarray, np.ndarray]:
        """Int[m, k], Float[m, k]: rows that correct near to places Float[m, d], and how much they
        count; where there is none, nothing.
        """
        search = NeighbourSearch(self.at_)
        nearness = Nearness(radius=self.radius_, least=1)
        parts = [nearness.around(search, at[rows]) for rows in nearness.blocks(search, at)]
        width = max((part.rows.shape[1] for part in parts), default=1)
        rows, weight = np.zeros((at.shape[0], width), dtype=np.intp), np.zeros((at.shape[0], width))
        filled = 0
        for part in parts:
            here = slice(filled, filled + len(part.rows))
            rows[here, : part.rows.shape[1]] = part.rows
            weight[here, : part.rows.shape[1]] = np.where(part.empty[:, None], 0.0, part.weight)
            filled += len(part.rows)
        return rows, weight
