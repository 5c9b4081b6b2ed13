"""k-NN: how far the k-th nearest training row is."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from kdgraph.detection.feature_detector import FeatureDetector, within_reach
from kdgraph.parameters import Count
from kdgraph.parents import Rows
from kdgraph.smoothing.neighbours import distances_of

_REACH = 1e100
"""Squares of differences, and sums of millions of them, stay finite."""


@dataclass(eq=False, repr=False)
class NearestNeighbours(FeatureDetector):
    """Minus the distance to the k-th nearest training row, in the space of features.

    Parameters
    ----------
    estimator : the parent; None: there is none, and the features are the rows. Cloned and fitted; ``FrozenEstimator(fitted)`` is used as it
        is.
    k : of all training rows, if they are fewer. The paper has 50 of 50,000 and 1,000 of 1.3 million rows.
    normalize : divide features by their length, as the paper does with those of a layer: a network tells classes apart by direction. None:
        where ``features`` is None and they are those of a layer; never of rows, whose length says where they are.
    features : where distances are measured, see :class:`~kdgraph.detection.feature_detector.FeatureDetector`.
    target_fpr : the share of what is in distribution that the threshold may give up.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen estimator give it rows that this was
        not fitted on, ``fit(X, y, X_calibration=…, y_calibration=…)``: see :class:`~kdgraph.parents.PostHoc`.
    random_state : seeds the held-out rows, and the parent where it has no seed of its own.

    Attributes
    ----------
    estimator_, offset_, map_, units_ : the fitted parent, the threshold of the score, the feature map, what features are divided by.
    index_ : the training rows' features, as scikit-learn keeps them.
    normalizes_, k_ : what was done.

    References
    ----------
    Sun, Ming, Zhu and Li, "Out-of-distribution detection with deep nearest neighbors", ICML 2022.
    Ramaswamy, Rastogi and Shim, "Efficient algorithms for mining outliers from large data sets", SIGMOD 2000: of rows.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> detector = NearestNeighbours(k=2).fit(X, X_calibration=X)
    >>> detector.score_samples([[0.0], [10.0]])  # in units of the range, which is 3
    array([-0.33333333, -3.        ])
    """

    _: KW_ONLY
    k: Count = 5
    normalize: bool | None = None

    def _learn(self, features: np.ndarray, train: Rows, rng: np.random.RandomState) -> None:
        own = self.features is None and self.map_.source == "layer"
        self.normalizes_ = own if self.normalize is None else self.normalize
        self.k_ = min(self.k, len(features))
        self.index_ = NearestNeighbors(n_neighbors=self.k_).fit(self._placed(features)[0])

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: the threshold, the number of neighbours, and whether features were normalised."""
        return {**super().describe(), "k": self.k_, "normalized": self.normalizes_}

    def _score_of(self, features: np.ndarray) -> np.ndarray:
        placed, factor = self._placed(features)
        distance = distances_of(self.index_, placed, self.k_)[:, -1]
        with np.errstate(over="ignore"):
            return -distance * factor

    def _placed(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where features lie, Float[n, m], and by how much distances must be scaled up, Float[n]; from afar training rows are at 0."""
        near, factor = within_reach(features, _REACH)
        if not self.normalizes_:
            return near, factor
        length = np.linalg.norm(near, axis=1, keepdims=True)
        return near / np.where(length > 0, length, 1.0), np.ones(len(near))
