"""Out-of-distribution scores of any classifier's probabilities: the largest of them, and their entropy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import xlogy

from kdgraph.detection.base import PostHocDetector


@dataclass(eq=False, repr=False)
class MaxProbability(PostHocDetector):
    """Maximum softmax probability (MSP): the parent's probability of its predicted class; the baseline of all others.

    Parameters
    ----------
    estimator : any classifier with ``predict_proba``. Cloned and fitted; ``FrozenEstimator(fitted)`` is used as it is.
    target_fpr : the share of what is in distribution that the threshold may give up.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen estimator give it rows that this was
        not fitted on, ``fit(X, y, X_calibration=…, y_calibration=…)``: see :class:`~kdgraph.parents.PostHoc`.
    random_state : seeds the held-out rows, and the parent where it has no seed of its own.

    Attributes
    ----------
    estimator_, offset_ : the fitted parent, and the threshold of the score.

    Notes
    -----
    A network of ReLUs grows more certain the farther it is asked, and its largest probability is 1 to the last bit there (Hein et al.
    2019): such rows are the most normal of all, and all alike.

    References
    ----------
    Hendrycks and Gimpel, "A baseline for detecting misclassified and out-of-distribution examples in neural networks", ICLR 2017.

    Examples
    --------
    >>> from sklearn.frozen import FrozenEstimator
    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> parent = FrozenEstimator(LogisticRegression().fit(X, [0, 0, 1, 1]))
    >>> detector = MaxProbability(parent).fit(X, X_calibration=X)
    >>> np.array_equal(detector.score_samples(X), parent.predict_proba(X).max(axis=1))
    True
    >>> detector.predict([[0.0], [-2.0]])  # on the boundary, and well inside a class
    array([-1,  1])
    """

    parent_says: ClassVar = "predict_proba"

    def _learns_from_training_rows(self) -> bool:
        return False

    def _score(self, X: Any) -> np.ndarray:
        return self.estimator_.predict_proba(X).max(axis=1)


@dataclass(eq=False, repr=False)
class Entropy(PostHocDetector):
    """Minus the entropy, in nats, of the parent's probabilities: Σ_k p_k log p_k, 0 where one class has all.

    Of two classes it ranks rows as :class:`MaxProbability` does.

    Parameters
    ----------
    estimator, target_fpr, calibration_size, random_state : as in :class:`MaxProbability`.

    Attributes
    ----------
    estimator_, offset_ : the fitted parent, and the threshold of the score.

    References
    ----------
    Shannon, "A mathematical theory of communication", 1948; as a score of this kind in, for one, Hendrycks, Mazeika and Dietterich, "Deep
    anomaly detection with outlier exposure", ICLR 2019.

    Examples
    --------
    >>> from sklearn.frozen import FrozenEstimator
    >>> from kdgraph.parents import GivenScores
    >>> proba = np.array([[1.0, 0.0], [0.5, 0.5]])
    >>> detector = Entropy(FrozenEstimator(GivenScores().fit(proba))).fit(proba, X_calibration=proba)
    >>> detector.score_samples(proba).round(3)
    array([ 0.   , -0.693])
    """

    parent_says: ClassVar = "predict_proba"

    def _learns_from_training_rows(self) -> bool:
        return False

    def _score(self, X: Any) -> np.ndarray:
        proba = self.estimator_.predict_proba(X)
        return xlogy(proba, proba).sum(axis=1)
