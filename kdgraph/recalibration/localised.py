"""Intervals with a guarantee and a correction for each row: localised conformal prediction (Guan 2023) behind any recalibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kdgraph.distributions import Distribution, LocalisedIntervals
from kdgraph.parameters import Count, Positive
from kdgraph.parents import Rows
from kdgraph.recalibration.halves import HalvesOfRows
from kdgraph.recalibration.where import Space, Units, Where
from kdgraph.smoothing.near import Nearness
from kdgraph.smoothing.neighbours import NeighbourSearch

_CENTRES, _OTHERS = 300, 10_000
"""Rows, the first of those that recalibrate, around which the radius is looked for, and among which."""
_HALVINGS = 30
_MOST = 0.95
"""Of these rows so many have enough near to them; the others, far out in many features, may have the whole line."""


@dataclass(eq=False, repr=False)
class LocalisedConformalPit(HalvesOfRows):
    """Recalibrate on some calibration rows, and correct each interval by those of the others that are near.

    Parameters
    ----------
    estimator : any regressor with ``predict_dist``; cloned and fitted, unless frozen.
    recalibrator, share : as in :class:`~kdgraph.recalibration.ConformalPit`; some rows never correct.
    where, layer, units, forest : the space in which rows are near; see :class:`~kdgraph.recalibration.where.Space`.
    k : how much the rows near to one count together, in 19 of 20 cases at least, a row at the same place counting 1; where no more rows
        correct, all have one correction. A finite interval of level 95 % needs about 20.
    radius : or how far away, in the units of the space, a row may be; then k is not used.
    calibration_size, random_state : as in :class:`~kdgraph.recalibration.ConformalPit`.

    Attributes
    ----------
    estimator_, recalibrated_, held_, y_held_ : as of :class:`~kdgraph.recalibration.ConformalPit`.
    space_, at_ : the space, fitted on the rows that recalibrate, and the rows that correct in it: Float[h, d], or sparse.
    radius_ : that of all rows, by those that recalibrate: they alone may choose it.

    Notes
    -----
    Rows count by 1 - (distance / radius)². :class:`~kdgraph.distributions.LocalisedIntervals` says what is guaranteed and by whom: the
    share of all rows, as of one correction for all; what is promised at a place is that of a cell of
    :class:`~kdgraph.recalibration.ConformalPit`. In many features few rows are near to any; ``where="output"`` has two. Mean, quantiles
    and CRPS are the recalibrator's.

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
        """What was learnt, for the record; ``n_eff_correcting``: the median effective number of rows near to one that corrects."""
        n_eff = self.weight_held_.sum(axis=1) ** 2 / np.square(self.weight_held_).sum(axis=1)
        radius = self.radius_ if np.isfinite(self.radius_) else None  # None: all rows are near
        return {"radius": radius, "n_eff_correcting": float(np.median(n_eff))} | super().describe()

    def _learns_from_training_rows(self) -> bool:
        """A forest of its own, whose leaves are the space, is fitted on them."""
        return self.where == "geodesic" or super()._learns_from_training_rows()

    def _carrier(self) -> Any:
        return None if self.where == "output" and self.recalibrator is None else self.estimator

    def _after(self, base: Distribution, X: Any) -> Distribution:
        said = self._said(X) if self.recalibrator is not None else base
        near, weight = self._near(self.space_.of(self.estimator_, X, base))
        return LocalisedIntervals(said, self.held_, self.y_held_, near, weight, self.near_held_, self.weight_held_)

    def _learn_from(self, train: Rows, rest: Rows, held: Rows) -> None:
        self.space_ = Space(self.where, self.units, self.layer, self.forest, self.random_state)
        chooses = rest if len(rest) else held
        at_rest = self.space_.fit(self.estimator_, train, chooses, self._base(chooses.X))
        self.at_ = self.space_.of(self.estimator_, held.X, self._base(held.X))
        self.radius_ = float(self.radius) if self.radius is not None else self._radius(at_rest, len(held))
        self.near_held_, self.weight_held_ = self._near(self.at_)

    def _needs_rest(self) -> bool:
        return True

    def _radius(self, at: Any, n_held: int) -> float:
        """In which most of the rows that recalibrate would have rows near to them that count k, if as many were there as correct."""
        others = at[:_OTHERS]
        if self.k >= n_held or others.shape[0] < 2:
            return np.inf
        distance = NeighbourSearch(others).nearest(others[:_CENTRES], others.shape[0])[0][:, 1:]  # the nearest is the row itself

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
        """Int[m, k], Float[m, k]: rows that correct near to places Float[m, d], and how much they count; where there is none, nothing."""
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
