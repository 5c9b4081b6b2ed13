"""Local recalibration with a guarantee: intervals that hold their share of rows, whatever the model (ours, by Romano et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state

from kdgraph.distributions import ConformalIntervals, Distribution
from kdgraph.parameters import Count, OpenFraction
from kdgraph.parents import Rows
from kdgraph.parents.posthoc import seeded_clone
from kdgraph.parents.rows import is_frame
from kdgraph.recalibration.base import PostHocRegressor


@dataclass(eq=False, repr=False)
class ConformalPit(PostHocRegressor):
    """Recalibrate on some calibration rows, and correct the intervals on the others so that they hold at least their share of new rows.

    Parameters
    ----------
    estimator : any regressor with ``predict_dist``; cloned and fitted, unless frozen.
    recalibrator : what recalibrates, such as :class:`~kdgraph.recalibration.LocalPit`, its ``estimator`` left None; None: nothing does.
    share : of the calibration rows, that correct.
    cells : each of so many cells of rows has its own correction, and its own guarantee: by predicted standard deviations, as many of the
        rows that recalibrate in each. 1: one for all.
    column : cells are the values of this column of X instead, by position or name; a value that no such row has gets the correction of all.
    calibration_size : share of the rows to hold out where ``fit`` is not given any.
    random_state : seeds the held-out rows, their division, the recalibrator and the parent, where these have no seed of their own.

    Attributes
    ----------
    estimator_ : the fitted parent.
    recalibrated_ : the fitted recalibrator behind it, or the parent.
    held_, y_held_, cell_held_ : predicted distributions, outcomes and cells of the rows that correct.
    edges_ : Float[c - 1] of standard deviations, or the values of the column.

    Notes
    -----
    Mean, quantiles and CRPS are the recalibrator's; :class:`~kdgraph.distributions.ConformalIntervals` says what is guaranteed and by whom.
    Local recalibration by itself falls short where neighbours are few: of 50 of 200 rows, intervals of nominally 95 % hold 93.7 %.

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

    recalibrator: Any = None
    share: OpenFraction = 0.5
    cells: Count = 1
    column: int | str | None = None

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: how many rows correct, in how many cells; and what the recalibrator has to say."""
        more = self.recalibrated_.describe() if hasattr(self.recalibrated_, "describe") else {}
        return {"n_correcting": len(self.y_held_), "cells": len(np.unique(self.cell_held_))} | more

    def _carrier(self) -> Any:
        return None if self.recalibrator is None else self.estimator

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        order = np.random.default_rng(seed).permutation(len(calibration))
        n_held = min(max(round(self.share * len(calibration)), 1), max(len(calibration) - 1, 1))
        held, rest = calibration[np.sort(order[:n_held])], calibration[np.sort(order[n_held:])]
        self.recalibrated_ = self._recalibrated(train, rest)
        self.held_, self.y_held_ = self._said(held.X), held.y
        if self.column is not None:
            self.edges_ = np.unique(self._column(held.X))
        else:
            self.edges_ = self._edges(rest)
        self.cell_held_ = self._cells(held.X, self.held_)

    def _after(self, base: Distribution, X: Any) -> Distribution:
        said = self._said(X) if self.recalibrator is not None else base
        cell = self._cells(X, said)
        if (cell < 0).any():  # a value that none of the rows that correct has: theirs of all, a cell of its own
            everyone = np.arange(len(self.y_held_))
            twice = np.concatenate([everyone, everyone])
            cells = np.concatenate([self.cell_held_, np.full(len(everyone), -1)])
            return ConformalIntervals(said, self.held_[twice], self.y_held_[twice], cell, cells)
        return ConformalIntervals(said, self.held_, self.y_held_, cell, self.cell_held_)

    def _recalibrated(self, train: Rows, rest: Rows) -> Any:
        if self.recalibrator is None or not len(rest):
            return self.estimator_
        frozen = self.estimator_ if isinstance(self.estimator_, FrozenEstimator) else FrozenEstimator(self.estimator_)
        model = seeded_clone(self.recalibrator, self.random_state).set_params(estimator=frozen)
        return model.fit(train.X, train.y, X_calibration=rest.X, y_calibration=rest.y)

    def _edges(self, rest: Rows) -> np.ndarray:
        """Of other rows than those that correct, which are then exchangeable with new ones in each cell."""
        if self.cells == 1 or not len(rest):
            return np.empty(0)
        return np.unique(np.quantile(np.sqrt(self._said(rest.X).var()), np.arange(1, self.cells) / self.cells, method="inverted_cdf"))

    def _said(self, X: Any) -> Distribution:
        return self._base(X) if self.recalibrated_ is self.estimator_ else self.recalibrated_.predict_dist(X)

    def _cells(self, X: Any, said: Distribution) -> np.ndarray:
        """Int[n]; -1 for a value of the column that none of the rows that correct has."""
        if self.column is None:
            return np.searchsorted(self.edges_, np.sqrt(said.var()), side="left")
        values = self._column(X)
        cell = np.minimum(np.searchsorted(self.edges_, values), len(self.edges_) - 1)
        return np.where(self.edges_[cell] == values, cell, -1)

    def _column(self, X: Any) -> np.ndarray:
        if is_frame(X):
            return np.asarray(X[self.column] if isinstance(self.column, str) else X.iloc[:, self.column])
        if isinstance(self.column, str):
            raise ValueError(f"column={self.column} is a name, and X is an array without names; give its position")
        return np.asarray(X)[:, self.column]
