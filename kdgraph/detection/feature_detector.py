"""The ground of detectors that look at features of rows, whatever the parent says of them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from kdgraph.detection.base import PostHocDetector
from kdgraph.detection.blocks import in_full_blocks
from kdgraph.features import FeatureMap, Source, features_of
from kdgraph.parents import Rows, take

FARTHEST = float(np.finfo(np.float64).max) / 4
"""No score is larger, so that sums of two are finite."""
_NO_SPREAD = 1e-14
"""Of the largest number: below it, spread is what rounding has made of none."""


@dataclass(eq=False, repr=False)
class FeatureDetector(PostHocDetector):
    """A detector that compares features of a row with those of the training rows. Ours: what those of the papers share.

    A subclass implements ``_learn(features, train, rng)``, of training rows, and ``_score_of(features)``, Float[n], higher for what is more
    normal. It gets blocks of one size (:func:`~kdgraph.detection.blocks.in_full_blocks`), so no row changes another's score
    beyond rounding.
    Features are finite, and up to 1.8e308; scores are cut off at ±:data:`FARTHEST`.

    Parameters
    ----------
    estimator : the parent; None: there is none, and the features are the rows.
    features : what is compared, a :class:`~kdgraph.features.FeatureMap`; None: what enters the last linear layer of a network, or the
        features of given scores, as they are; else the rows behind the parent's own transformations, each column divided by its range over
        the training rows, since columns have units of their own; ``FeatureMap(source="rows", reduce="none", scale="none")`` leaves these.
    **others : those of :class:`PostHocDetector`.

    Attributes
    ----------
    map_ : the fitted feature map.
    units_ : Float[m], what features are divided by: ranges of columns, or 1.

    Notes
    -----
    Of wine, whose columns differ by factors of a thousand, uniform noise is told by the distance to the fifth neighbour with an AUROC of
    .79 in the units that the columns come in, .987 in standard deviations, and .989 in ranges; of the digits 0 to 4, digits 5 to 9 with
    .98, .92 and .975.
    """

    estimator: Any = None
    _: KW_ONLY
    features: FeatureMap | None = None

    def _learn(self, features: np.ndarray, train: Rows, rng: np.random.RandomState) -> None:
        raise NotImplementedError

    def _score_of(self, features: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _default_estimator(self) -> Any:
        return self.estimator

    def _carrier(self) -> Any:
        return self.estimator

    def _needs_labels(self) -> bool:
        return self.estimator is not None and super()._needs_labels()

    def _fitted_parent(self, parent: Any, train: Rows, calibration: Rows | None, random_state: Any) -> Any:
        return None if parent is None else super()._fitted_parent(parent, train, calibration, random_state)

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        rng = check_random_state(self.random_state)
        self.map_ = self._own_map(train.X) if self.features is None else clone(self.features)
        if self.map_.random_state is None:
            self.map_.set_params(random_state=rng.randint(np.iinfo(np.int32).max))
        with threadpool_limits(1, user_api="blas"):  # sums depend on how many there are
            self.map_.fit(self.estimator_, train.X)
            features = in_full_blocks(train.X, self._seen)
            of_columns = self.features is None and self.map_.source == "rows"
            self.units_ = _ranges(features) if of_columns else np.ones(features.shape[1])
            self._learn(features / self.units_, train, rng)

    def _own_map(self, X: Any) -> FeatureMap:
        """Of the layer of a network or of given scores; of the rows where there is no such layer."""
        source: Source = "layer"
        try:
            features_of(self.estimator_, take(X, slice(0, 1)), source)
        except (TypeError, ValueError):
            source = "rows"
        return FeatureMap(source=source, reduce="none", scale="none")

    def _features(self, X: Any) -> np.ndarray:
        """Float64[n, m], finite and in units, of one block."""
        with np.errstate(over="ignore"):
            return np.nan_to_num(self._seen(X) / self.units_)

    def _seen(self, X: Any) -> np.ndarray:
        """Float64[n, m], finite, of one block."""
        with np.errstate(over="ignore", invalid="ignore"):  # a reduction of rows that reach further than the root of the largest number
            features = self.map_.transform(self.estimator_, X)
        return np.nan_to_num(features, nan=np.finfo(np.float64).max)

    def _score(self, X: Any) -> np.ndarray:
        return in_full_blocks(X, self._block_score)

    def _block_score(self, X: Any) -> np.ndarray:
        """Float[n] of one block; a subclass may ask the parent more than features."""
        return cut_off(self._score_of(self._features(X)))


def _ranges(features: np.ndarray) -> np.ndarray:
    """Float[m], of each column the range; of one that is constant, which has no unit, the mean of the others."""
    low, high = features.min(axis=0), features.max(axis=0)
    ranges = np.minimum(high / 2 - low / 2, np.finfo(np.float64).max / 2) * 2
    varies = ranges > _NO_SPREAD * np.maximum(np.abs(low), np.abs(high))
    return np.where(varies, ranges, ranges[varies].mean() if varies.any() else 1.0)


def cut_off(score: np.ndarray) -> np.ndarray:
    """Float[n], between ±:data:`FARTHEST`; NaN, of what is too far for any arithmetic, is the least. Ours."""
    return np.clip(np.nan_to_num(score, nan=-FARTHEST), -FARTHEST, FARTHEST)


def within_reach(features: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """Features with no number beyond ±``reach``, and Float[n], by how much each row was scaled down for that; 1 for most. Ours.

    So squares stay finite, and lengths can be scaled up again.
    """
    largest = np.maximum(features.max(axis=1), -features.min(axis=1))
    factor = np.maximum(largest / reach, 1.0)
    return features / factor[:, None], factor
