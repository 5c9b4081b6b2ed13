"""Outlier detectors of scikit-learn, or the user's own, as detectors like all others here."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from joblib import parallel_config
from sklearn.ensemble import IsolationForest
from sklearn.frozen import FrozenEstimator

from kdgraph.detection.feature_detector import FeatureDetector, within_reach
from kdgraph.parents import Rows, seeded_clone

_REACH = 1e15
"""Trees of scikit-learn take float32, and refuse what does not fit; rows that reach further are scaled down to it."""


@dataclass(eq=False, repr=False)
class OutlierEstimator(FeatureDetector):
    """Any outlier detector of scikit-learn's kind, fitted without labels on the features of the training rows.

    Parameters
    ----------
    estimator : the parent; None: there is none, and the features are the rows. Cloned and fitted; ``FrozenEstimator(fitted)`` is used as it
        is.
    detector : what has ``fit(X)`` and ``score_samples(X)``, higher for what is more normal, such as ``LocalOutlierFactor()`` (which is set
        to score new rows, ``novelty=True``), ``OneClassSVM()`` or a class of one's own. None: ``IsolationForest()``. It is cloned and
        fitted; a frozen one is used as it is. Its own threshold, and so its ``contamination``, has no say.
    features : what it looks at, see :class:`~kdgraph.detection.feature_detector.FeatureDetector`.
    target_fpr : the share of what is in distribution that the threshold may give up.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen estimator give it rows that this was
        not fitted on, ``fit(X, y, X_calibration=…, y_calibration=…)``: see :class:`~kdgraph.parents.PostHoc`.
    random_state : seeds the held-out rows, and parent and detector where they have no seed of their own.

    Attributes
    ----------
    estimator_, offset_, map_, units_ : the fitted parent, the threshold of the score, the feature map, what features are divided by.
    detector_ : the fitted detector.

    Raises
    ------
    TypeError : for a detector without one of these methods.

    Notes
    -----
    Far away some of them tell nothing apart: all rows beyond the outermost splits share the leaves of an isolation forest, and the kernel
    of a one-class SVM is 0.

    References
    ----------
    Liu, Ting and Zhou, "Isolation forest", ICDM 2008. Breunig, Kriegel, Ng and Sander, "LOF: identifying density-based local outliers",
    SIGMOD 2000. Schölkopf et al., "Estimating the support of a high-dimensional distribution", Neural Computation 13, 2001.

    Examples
    --------
    >>> from sklearn.neighbors import LocalOutlierFactor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> detector = OutlierEstimator(detector=LocalOutlierFactor(n_neighbors=10), random_state=0).fit(X)
    >>> detector.predict([[0.0, 0.0], [6.0, 6.0]])
    array([ 1, -1])
    """

    _: KW_ONLY
    detector: Any = None

    def _learn(self, features: np.ndarray, train: Rows, rng: np.random.RandomState) -> None:
        detector = IsolationForest() if self.detector is None else self.detector
        if hasattr(detector, "get_params"):
            detector = seeded_clone(detector, rng)
            if "novelty" in detector.get_params():
                detector.set_params(novelty=True)
        if not (hasattr(detector, "get_params") and hasattr(detector, "score_samples")):
            raise TypeError(f"detector must be an outlier detector of scikit-learn's kind, with fit and score_samples, got {detector!r}")
        if not isinstance(detector, FrozenEstimator):
            detector.fit(within_reach(features, _REACH)[0])
        self.detector_ = detector

    def _score_of(self, features: np.ndarray) -> np.ndarray:
        # One after the other: threads of an isolation forest add in the order in which they finish.
        with parallel_config(backend="sequential"), np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(self.detector_.score_samples(within_reach(features, _REACH)[0]), dtype=np.float64)
