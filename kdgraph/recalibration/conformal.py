"""Local recalibration with a guarantee: intervals that hold their share of rows, whatever the model (ours, by Romano et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kdgraph.distributions import ConformalIntervals, Distribution
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count
from kdgraph.parents import Rows
from kdgraph.parents.rows import is_frame, one_each
from kdgraph.recalibration.halves import HalvesOfRows

_UNKNOWN = -1
"""Where a cell stands that no row that corrects belongs to."""


@dataclass(eq=False, repr=False)
class ConformalPit(HalvesOfRows):
    """Recalibrate on some calibration rows, and correct the intervals on the others so that they hold at least their share of new rows.

    Parameters
    ----------
    estimator : any regressor with ``predict_dist``; cloned and fitted, unless frozen.
    recalibrator : what recalibrates, such as :class:`~kdgraph.recalibration.LocalPit`, its ``estimator`` left None; None: nothing does.
    share : of the calibration rows, that correct; all of them where nothing recalibrates, and no cell is by standard deviations.
    cells : each of so many cells of rows has its own correction, and its own guarantee: by predicted standard deviations, as many of the
        rows that recalibrate in each. 1: one for all.
    column : cells are the values of this column of X instead, by position or name.
    by_group : cells are the subgroups instead that ``fit`` and ``predict_dist`` are told.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen estimator give it rows that this was
        not fitted on, ``fit(X, y, X_calibration=…, y_calibration=…)``: see :class:`~kdgraph.parents.PostHoc`.
    random_state : seeds the held-out rows, their division, the recalibrator and the parent, where these have no seed of their own.

    Attributes
    ----------
    estimator_ : the fitted parent.
    recalibrated_ : the fitted recalibrator behind it, or the parent.
    held_, y_held_, cell_held_ : predicted distributions, outcomes and cells of the rows that correct.
    edges_ : Float[c - 1] of standard deviations; or the values of the column, or the groups.

    Notes
    -----
    Mean, quantiles and CRPS are the recalibrator's; :class:`~kdgraph.distributions.ConformalIntervals` says what is guaranteed and by whom.
    Local recalibration by itself falls short where neighbours are few: of 50 of 200 rows, intervals of nominally 95 % hold 93.7 %. A row
    whose value or group none of the rows that correct has, or of which nobody says it, gets the correction of all of them.

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
        """What was learnt, for the record: how many rows correct, in how many cells, and the highest level of finite intervals in all."""
        return {"cells": len(np.unique(self.cell_held_))} | super().describe()

    def predict_dist(self, X, groups=None) -> Distribution:
        """Distributions of the n rows of X: Float[n, d] or a data frame; ``groups``, [n], says to which each row belongs."""
        X = self._checked(X)
        return self._corrected(self._base(X), X, groups)

    def _after(self, base: Distribution, X: Any) -> Distribution:
        return self._corrected(base, X, None)

    def _corrected(self, base: Distribution, X: Any, groups: Any) -> Distribution:
        said = self._said(X) if self.recalibrator is not None else base
        cell = self._cells(X, said, groups)
        if (cell == _UNKNOWN).any():  # the correction of all, whose rows are a cell of their own
            known, everyone = np.flatnonzero(self.cell_held_ != _UNKNOWN), np.arange(len(self.y_held_))
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
        """Of other rows than those that correct, which are then exchangeable with new ones in each cell."""
        if self.cells == 1 or not len(rest):
            return np.empty(0)
        return np.unique(np.quantile(np.sqrt(self._said(rest.X).var()), np.arange(1, self.cells) / self.cells, method="inverted_cdf"))

    def _cells(self, X: Any, said: Distribution, groups: Any) -> np.ndarray:
        """Int[n], which cell each row is in."""
        if not self._by_value():
            # The edges are spreads of other rows: an equal one that is rounded differently stays below.
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
                    f"{type(self).__name__} needs the group of each row: groups, and groups_calibration where there are such rows"
                )
            return one_each("groups", groups, len(X))
        if is_frame(X):
            return np.asarray(X[self.column] if isinstance(self.column, str) else X.iloc[:, self.column])
        if isinstance(self.column, str):
            raise ValueError(f"column={self.column} is a name, and X is an array without names; give its position")
        return np.asarray(X)[:, self.column]


def _values(values: np.ndarray) -> np.ndarray:
    """The different ones, sorted, but None and NaN, which are nobody's value; text as text, not as objects."""
    from pandas import isna

    return np.unique(np.array(values[~isna(values)].tolist()))
