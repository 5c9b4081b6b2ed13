"""Where neighbours are looked for: the input, a layer of a network, the output, or the leaves of a forest; and in which units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.frozen import FrozenEstimator

from kdgraph.distributions import Distribution
from kdgraph.features import features_of
from kdgraph.geometry import kind_of
from kdgraph.parents import Rows
from kdgraph.parents.posthoc import seeded_clone

Where = Literal["input", "given", "layer", "output", "geodesic"]
"""input: the rows, behind the parent's own transformations; given: the rows as they come, categories as their positions; layer: what a
layer of a network puts out; output: predicted mean and standard deviation; geodesic: 1 - K, K the share of a forest's trees that put two
rows into one leaf (Dey et al., Eq. 14)."""
Units = Literal["sd", "raw", "whiten"]
"""sd: of each feature its standard deviation over calibration rows; raw: as they come; whiten: principal components, each in its own."""

_NO_SPREAD = 1e-12
"""Of the largest spread: below it, spread is what rounding has made of nothing."""


@dataclass
class Space:
    """A space for neighbours, fitted on calibration rows.

    Parameters
    ----------
    where, units : see :data:`Where` and :data:`Units`; leaves have no units.
    layer : of a network, its name; None: what enters the last linear layer, which is the last hidden one.
    forest : for "geodesic", a forest of scikit-learn, cloned and fitted on the parent's training rows, unless frozen; None: the parent
        is one, or 100 trees of at least 20 rows a leaf.
    random_state : of that forest.

    Notes
    -----
    Torres et al. measure Euclidean distances in units as they come. On their third data set, diamonds, standard deviations instead of raw
    units take another 1 % off the error.
    """

    where: Where = "input"
    units: Units = "sd"
    layer: str | None = None
    forest: Any = None
    random_state: Any = None

    def fit(self, parent: Any, train: Rows, calibration: Rows, base: Distribution) -> Any:
        """Fit behind the fitted ``parent`` and give the coordinates of the calibration rows, of which ``base`` is predicted."""
        self.forest_ = self._fitted_forest(parent, train) if self.where == "geodesic" else None
        found = self._features(parent, calibration.X, base)
        if self.where == "geodesic":
            return found
        self.middle_ = found.mean(axis=0)
        self.matrix_ = _matrix(found - self.middle_, self.units)
        return self._scaled(found)

    def of(self, parent: Any, X: Any, base: Distribution) -> Any:
        """Float[n, d], coordinates of rows of which ``base`` is predicted; sparse leaves for "geodesic"."""
        found = self._features(parent, X, base)
        return found if self.where == "geodesic" else self._scaled(found)

    def _features(self, parent: Any, X: Any, base: Distribution) -> Any:
        if self.where == "output":
            return np.column_stack([base.mean(), np.sqrt(base.var())])
        if self.where == "layer":
            return features_of(parent, X, "layer", self.layer)
        if self.where == "geodesic":
            rows = X if self.forest_ is None else features_of(parent, X, "rows")
            return features_of(parent if self.forest_ is None else self.forest_, rows, "leaves")
        return features_of(None if self.where == "given" else parent, X, "rows")

    def _scaled(self, features: np.ndarray) -> np.ndarray:
        centred = features - self.middle_
        return centred * self.matrix_ if self.matrix_.ndim == 1 else centred @ self.matrix_

    def _fitted_forest(self, parent: Any, train: Rows) -> Any:
        """None where the parent's own leaves are meant."""
        if isinstance(self.forest, FrozenEstimator):
            return self.forest
        if self.forest is None and kind_of(getattr(parent, "estimator", parent)) == "forest":
            return None
        from sklearn.ensemble import RandomForestRegressor

        forest = RandomForestRegressor(100, min_samples_leaf=20) if self.forest is None else self.forest
        return seeded_clone(forest, self.random_state).fit(features_of(parent, train.X, "rows"), train.y)


def _matrix(centred: np.ndarray, units: Units) -> np.ndarray:
    """What centred features are multiplied with: Float[d], or Float[d, r] of r directions in which they differ."""
    if units == "raw":
        return np.ones(centred.shape[1])
    if units == "sd":
        spread = np.sqrt(np.square(centred).mean(axis=0))
        flat = spread <= _NO_SPREAD * np.abs(centred).max(initial=1.0)
        return 1 / np.where(flat, 1.0, spread)
    _, spread, directions = np.linalg.svd(centred / np.sqrt(len(centred)), full_matrices=False)
    kept = spread > _NO_SPREAD * spread.max(initial=0.0)
    return directions[kept].T / spread[kept] if kept.any() else np.ones(centred.shape[1])
