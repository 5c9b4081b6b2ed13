"""Out-of-distribution scores of a network's logits, before the softmax takes their size away."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp

from kdgraph.detection.base import PostHocDetector
from kdgraph.parameters import Positive
from kdgraph.parents.inside import inside_of


@dataclass(eq=False, repr=False)
class MaxLogit(PostHocDetector):
    """The largest logit: how much speaks for the predicted class, whatever speaks for the others.

    Parameters
    ----------
    estimator : a network of :mod:`kdgraph.parents.networks`, also in a pipeline. Cloned and fitted; ``FrozenEstimator(fitted)`` is used as
        it is.
    target_fpr : the share of what is in distribution that the threshold may give up.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen estimator give it rows that this was
        not fitted on, ``fit(X, y, X_calibration=…, y_calibration=…)``: see :class:`~kdgraph.parents.PostHoc`.
    random_state : seeds the held-out rows, and the parent where it has no seed of its own.

    Attributes
    ----------
    estimator_, offset_ : the fitted parent, and the threshold of the score.

    References
    ----------
    Hendrycks et al., "Scaling out-of-distribution detection for real-world settings", ICML 2022.

    Examples
    --------
    >>> from kdgraph.parents.networks import MultilayerPerceptron
    >>> X, y = np.repeat([[-1.0], [1.0]], 50, axis=0), np.repeat([0, 1], 50)
    >>> network = MultilayerPerceptron(hidden=(8,), learning_rate=0.05, max_epochs=5, device="cpu", random_state=0)
    >>> detector = MaxLogit(network, random_state=0).fit(X, y)
    >>> np.array_equal(detector.score_samples(X), detector.estimator_.logits(X).max(axis=1))
    True
    """

    parent_is: ClassVar = "network"

    def _learns_from_training_rows(self) -> bool:
        return False

    def _score(self, X: Any) -> np.ndarray:
        return inside_of(self.estimator_).logits(X).max(axis=1)


@dataclass(eq=False, repr=False)
class Energy(PostHocDetector):
    """Minus the free energy of the logits f: T·log Σ_k exp(f_k / T).

    Parameters
    ----------
    estimator, target_fpr, calibration_size, random_state : as in :class:`MaxLogit`.
    temperature : T; 1 as in the paper. The score tends to the largest logit as T falls.

    Attributes
    ----------
    estimator_, offset_ : the fitted parent, and the threshold of the score.

    Notes
    -----
    A parent whose logits are log probabilities, such as an ensemble that takes the mean of its members' probabilities, has an energy of 0
    everywhere, and the score says nothing at T = 1.

    References
    ----------
    Liu, Wang, Owens and Li, "Energy-based out-of-distribution detection", NeurIPS 2020, Eq. 4.

    Examples
    --------
    >>> from kdgraph.parents.networks import MultilayerPerceptron
    >>> X, y = np.repeat([[-1.0], [1.0]], 50, axis=0), np.repeat([0, 1], 50)
    >>> network = MultilayerPerceptron(hidden=(8,), learning_rate=0.05, max_epochs=5, device="cpu", random_state=0)
    >>> detector = Energy(network, random_state=0).fit(X, y)
    >>> np.allclose(detector.score_samples(X), np.log(np.exp(detector.estimator_.logits(X)).sum(axis=1)))
    True
    """

    _: KW_ONLY
    temperature: Positive = 1.0

    parent_is: ClassVar = "network"

    def _learns_from_training_rows(self) -> bool:
        return False

    @np.errstate(under="ignore")
    def _score(self, X: Any) -> np.ndarray:
        return self.temperature * logsumexp(inside_of(self.estimator_).logits(X) / self.temperature, axis=1)
