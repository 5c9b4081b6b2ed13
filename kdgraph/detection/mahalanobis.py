"""Mahalanobis distance to the nearest class, and how much nearer that is than to all rows together."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.covariance import LedoitWolf
from sklearn.utils.multiclass import type_of_target

from kdgraph.detection.feature_detector import FeatureDetector, within_reach
from kdgraph.parents import Rows

_REACH = 1e60
"""Whitened by up to 1e30, squares of it stay finite."""
_NO_SPREAD = 1e-14
"""Of the largest variance: below it, spread is what rounding has made of none."""


@dataclass(frozen=True)
class Whitened:
    """Means in units of a shared covariance. Ours.

    Attributes
    ----------
    centre : Float[m], of all rows; it is taken from features before they are multiplied, so that no digits are lost.
    map : Float[m, m], with which Σ⁻¹ = map·mapᵀ.
    means : Float[c, m], whitened.
    """

    centre: np.ndarray
    map: np.ndarray
    means: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray, group: np.ndarray) -> Whitened:
        """Of features Float[n, m] in groups Int[n] from 0, none of them empty."""
        centre = features.mean(axis=0)
        centred = features - centre
        means = np.stack([centred[group == c].mean(axis=0) for c in range(group.max() + 1)])
        covariance = LedoitWolf(assume_centered=True).fit(centred - means[group]).covariance_
        variance, axes = np.linalg.eigh(covariance)
        spread = np.maximum(variance, _NO_SPREAD * variance[-1]) if variance[-1] > 0 else np.ones(len(variance))
        map_ = axes / np.sqrt(spread)
        return cls(centre, map_, means @ map_)

    def squared_distances(self, features: np.ndarray) -> np.ndarray:
        """Float[n, c]: of features Float[n, m] to each mean; a row is added up by itself."""
        return cdist((features - self.centre) @ self.map, self.means, "sqeuclidean")


@dataclass(eq=False, repr=False)
class Mahalanobis(FeatureDetector):
    """Minus the squared Mahalanobis distance of a row's features to the nearest class of training rows.

    Parameters
    ----------
    estimator : the parent; None: there is none, and the features are the rows. Cloned and fitted; ``FrozenEstimator(fitted)`` is used as it
        is.
    relative : subtract the squared distance to the mean of all training rows, with their covariance, from that to the nearest class: how
        unlike every class, rather than how unlike anything.
    features : what is compared, see :class:`~kdgraph.detection.feature_detector.FeatureDetector`.
    target_fpr : the share of what is in distribution that the threshold may give up.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen estimator give it rows that this was
        not fitted on, ``fit(X, y, X_calibration=…, y_calibration=…)``: see :class:`~kdgraph.parents.PostHoc`.
    random_state : seeds the held-out rows, and the parent where it has no seed of its own.

    Attributes
    ----------
    estimator_, offset_, map_, units_ : the fitted parent, the threshold of the score, the feature map, what features are divided by.
    classes_of_features_ : [c] labels, sorted, each of which has a mean; None where there is one mean: without labels, or with targets that
        are numbers with fractions.
    within_, overall_ : what distances are measured with, to the classes and (``relative``) to all rows.

    Raises
    ------
    ValueError : for ``relative`` with less than two classes.

    Notes
    -----
    -min_c (φ - μ_c)ᵀ Σ⁻¹ (φ - μ_c), with class means μ_c and one covariance Σ of what is left of the features φ without them. Σ is that of
    Ledoit and Wolf (2004), which is shrunk towards a multiple of the identity, so that it can be inverted however few rows there are; the
    papers take the maximum likelihood estimate. Lee et al. also add up several layers and move the input, by weights that are learnt from
    rows out of distribution; here it is one layer, and nothing is learnt from such rows.

    References
    ----------
    Lee, Lee, Lee and Shin, "A simple unified framework for detecting out-of-distribution samples and adversarial attacks", NeurIPS 2018,
    Eq. 1 and 2. Ren et al., "A simple fix to Mahalanobis distance for improving near-OOD detection", 2021: ``relative``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 200)
    >>> X = rng.normal(size=(400, 2)) * [1, 3] + 20 * y[:, None]
    >>> detector = Mahalanobis().fit(X, y, X_calibration=X)
    >>> detector.predict([[20, 20], [20, 26], [26, 20], [10, 10]])  # along the axis on which rows vary more, and between the classes
    array([ 1,  1, -1, -1])
    """

    _: KW_ONLY
    relative: bool = False

    def _learn(self, features: np.ndarray, train: Rows, rng: np.random.RandomState) -> None:
        near, _ = within_reach(features, _REACH)
        self.classes_of_features_, group = _classes(train.y, len(near))
        self.within_ = Whitened.of(near, group)
        self.overall_ = None
        if self.relative:
            if group.max() == 0:
                raise ValueError("relative=true compares classes with all rows, and needs labels of at least two classes")
            self.overall_ = Whitened.of(near, np.zeros(len(near), dtype=np.intp))

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: the threshold, and how many means there are."""
        return {**super().describe(), "means": len(self.within_.means)}

    def _score_of(self, features: np.ndarray) -> np.ndarray:
        near, factor = within_reach(features, _REACH)
        distance = self.within_.squared_distances(near).min(axis=1)
        if self.overall_ is not None:
            distance -= self.overall_.squared_distances(near)[:, 0]
        with np.errstate(over="ignore"):
            return -distance * factor * factor


def _classes(y: Any, n: int) -> tuple[np.ndarray | None, np.ndarray]:
    """Labels, sorted, or None, and Int[n], the class of each row; of regression all rows are one."""
    if y is None or type_of_target(y).startswith("continuous"):
        return None, np.zeros(n, dtype=np.intp)
    return np.unique(y, return_inverse=True)
