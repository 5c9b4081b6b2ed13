"""Out-of-distribution scores of any classifier's probabilities: the largest of them, and their
entropy.

Out-of-distribution scores of a network's logits, before the softmax takes their size away.

ODIN: the softmax at a high temperature, after a small step of the input towards what the network
predicts.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import logsumexp, softmax, xlogy

from kdgraph.base import Rows
from kdgraph.base.network_access import (
    ODIN_STEP_SIZES,
    access_network,
    input_spread,
    logits_after_step,
)
from kdgraph.detection.base import PostHocDetector
from kdgraph.errors import ParameterError
from kdgraph.metrics import fpr95
from kdgraph.parameters import NonNegative, Positive


@dataclass(eq=False, repr=False)
class MaxProbability(PostHocDetector):
    """Maximum softmax probability (MSP): the parent's probability of its predicted class; the
    baseline of all others.

    Parameters
    ----------
    estimator : any classifier with ``predict_proba``. Cloned and fitted;
    ``FrozenEstimator(fitted)`` is used as it is.
    target_fpr : the share of what is in distribution that the threshold may give up.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen
        estimator give it rows that this was not fitted on, ``fit(X, y, X_calibration=…,
        y_calibration=…)``: see :class:`~kdgraph.base.PostHoc`.
    random_state : seeds the held-out rows, and the parent where it has no seed of its own.

    Attributes
    ----------
    estimator_, offset_ : the fitted parent, and the threshold of the score.

    Notes
    -----
    A network of ReLUs grows more certain the farther it is asked, and its largest probability is 1
    to the last bit there (Hein et al. 2019): such rows are the most normal of all, and all alike.

    References
    ----------
    Hendrycks and Gimpel, "A baseline for detecting misclassified and out-of-distribution examples
    in neural networks", ICLR 2017.

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

    required_method: ClassVar = "predict_proba"

    def _requires_training_rows(self) -> bool:
        return False

    def _score(self, X: Any) -> np.ndarray:
        return self.estimator_.predict_proba(X).max(axis=1)


@dataclass(eq=False, repr=False)
class Entropy(PostHocDetector):
    """Minus the entropy, in nats, of the parent's probabilities: Σ_k p_k log p_k, 0 where one class
    has all.

    Of two classes it ranks rows as :class:`MaxProbability` does.

    Parameters
    ----------
    estimator, target_fpr, calibration_size, random_state : as in :class:`MaxProbability`.

    Attributes
    ----------
    estimator_, offset_ : the fitted parent, and the threshold of the score.

    References
    ----------
    Shannon, "A mathematical theory of communication", 1948; as a score of this kind in, for one,
    Hendrycks, Mazeika and Dietterich, "Deep anomaly detection with outlier exposure", ICLR 2019.

    Examples
    --------
    >>> from sklearn.frozen import FrozenEstimator
    >>> from kdgraph.parents import PrecomputedScores
    >>> proba = np.array([[1.0, 0.0], [0.5, 0.5]])
    >>> detector = Entropy(FrozenEstimator(PrecomputedScores().fit(proba))).fit(proba, X_calibration=proba)
    >>> detector.score_samples(proba).round(3)
    array([ 0.   , -0.693])
    """

    required_method: ClassVar = "predict_proba"

    def _requires_training_rows(self) -> bool:
        return False

    def _score(self, X: Any) -> np.ndarray:
        proba = self.estimator_.predict_proba(X)
        return xlogy(proba, proba).sum(axis=1)


@dataclass(eq=False, repr=False)
class MaxLogit(PostHocDetector):
    """The largest logit: how much speaks for the predicted class, whatever speaks for the others.

    Parameters
    ----------
    estimator : a network of :mod:`kdgraph.parents.networks`, also in a pipeline. Cloned and fitted;
        ``FrozenEstimator(fitted)`` is used as it is.
    target_fpr : the share of what is in distribution that the threshold may give up.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen
        estimator give it rows that this was not fitted on, ``fit(X, y, X_calibration=…,
        y_calibration=…)``: see :class:`~kdgraph.base.PostHoc`.
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

    required_partition: ClassVar = "network"

    def _requires_training_rows(self) -> bool:
        return False

    def _score(self, X: Any) -> np.ndarray:
        return access_network(self.estimator_).logits(X).max(axis=1)


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
    A parent whose logits are log probabilities, such as an ensemble that takes the mean of its
    members' probabilities, has an energy of 0 everywhere, and the score says nothing at T = 1.

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

    required_partition: ClassVar = "network"

    def _requires_training_rows(self) -> bool:
        return False

    @np.errstate(under="ignore")
    def _score(self, X: Any) -> np.ndarray:
        return self.temperature * logsumexp(
            access_network(self.estimator_).logits(X) / self.temperature, axis=1
        )


@dataclass(eq=False, repr=False)
class Odin(PostHocDetector):
    """The largest softmax probability at temperature T of a row that was moved a little towards
    what the network predicts.

    Of rows like the training rows such a step raises the confidence more than of others.

    Parameters
    ----------
    estimator : a network of :mod:`kdgraph.parents.networks`, also in a pipeline. Cloned and fitted;
        ``FrozenEstimator(fitted)`` is used as it is.
    temperature : T; 1000 as in the paper.
    epsilon : ε, by which each number that the network takes goes up or down, in units of the spread
        of these numbers over training rows, as the paper's images are divided by their standard
        deviation; there it is 0 to 0.004. "auto": the one of ``epsilons`` with the highest mean
        score of the held-out rows, the first of several; no row out of distribution is asked.
    epsilons : what "auto" chooses from.
    target_fpr : the share of what is in distribution that the threshold may give up. "auto" looks
    at the same held-out rows.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen
        estimator give it rows that this was not fitted on, ``fit(X, y, X_calibration=…,
        y_calibration=…)``: see :class:`~kdgraph.base.PostHoc`.
    random_state : seeds the held-out rows, and the parent where it has no seed of its own.

    Attributes
    ----------
    estimator_, offset_ : the fitted parent, and the threshold of the score.
    epsilon_, input_scale_ : the step, and the spread that it is a multiple of.
    mean_scores_ : the mean score of the held-out rows for each of ``epsilons``; None where nothing was
    chosen by it.
    fpr95_ : the share of rows out of distribution that passes where 95 % of the held-out rows do,
        for each of ``epsilons``; None where there were no such rows to choose by.

    Notes
    -----
    The score is max_k S_k(x̃; T) with S(x; T) = softmax(f(x)/T) and x̃ = x - ε·sign(-∇ₓ log S_ŷ(x;
    T)), where ŷ is the predicted class. The step is one in the numbers that the network takes,
    behind the transformations of a pipeline; pixels are not cut off at 0 and 1. The paper chooses
    ε, and T in its appendix, by rows out of distribution, which nobody has before they come:
    ``fit(…, X_ood=…)`` does so for ε, and in a run ``protocol=paper``.

    References
    ----------
    Liang, Li and Srikant, "Enhancing the reliability of out-of-distribution image detection in
    neural networks", ICLR 2018, Eq. 1 and 2. Hsu, Shen, Jin and Kira, "Generalized ODIN: detecting
    out-of-distribution image without learning from out-of-distribution data", CVPR 2020, Section
    3.2: the choice of ε.

    Examples
    --------
    >>> from kdgraph.parents.networks import MultilayerPerceptron
    >>> X, y = np.repeat([[-1.0], [1.0]], 50, axis=0), np.repeat([0, 1], 50)
    >>> network = MultilayerPerceptron(hidden=(8,), learning_rate=0.05, max_epochs=5, device="cpu", random_state=0)
    >>> detector = Odin(network, epsilon=0.01, random_state=0).fit(X, y)
    >>> np.all(detector.score_samples(X) > softmax(detector.estimator_.logits(X) / 1000, axis=1).max(axis=1))
    np.True_
    """

    _: KW_ONLY
    temperature: Positive = 1000.0
    epsilon: NonNegative | Literal["auto"] = "auto"
    epsilons: Sequence[NonNegative] = ODIN_STEP_SIZES

    required_partition: ClassVar = "network"
    paper_protocol: ClassVar = "ood"

    def fit(self, X, y=None, *, X_ood=None, **held_out):
        """As :meth:`~kdgraph.detection.PostHocDetector.fit`.

        Parameters
        ----------
        X_ood : rows out of distribution, like X, that choose ε as the paper does: the first at
            which the fewest of them pass where 95 % of the held-out rows do.

        Warns
        -----
        UserWarning : for ``X_ood``: what is measured on rows like these is no longer out of
            distribution for the method.
        """
        self._X_ood = X_ood
        try:
            super().fit(X, y, **held_out)
        finally:
            del self._X_ood
        if self.fpr95_ is not None:
            told = (
                "rows out of distribution chose epsilon; of rows like them it is no longer true"
                " that nothing was seen"
            )
            warnings.warn(f"{type(self).__name__}: {told}", stacklevel=2)
        return self

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        self.mean_scores_ = self.fpr95_ = None
        self.input_scale_ = input_spread(self.estimator_, train.X)
        if self.epsilon != "auto":
            self.epsilon_ = float(self.epsilon)
            return
        if not len(self.epsilons):
            raise ParameterError("epsilons must have at least one number, got []")
        scores = self._scores_by_epsilon(calibration.X, self.epsilons)
        if self._X_ood is None:
            self.mean_scores_ = [float(score.mean()) for score in scores]
            self.epsilon_ = float(self.epsilons[int(np.argmax(self.mean_scores_))])
            return
        outside = self._scores_by_epsilon(self._validate_rows(self._X_ood)[0], self.epsilons)
        self.fpr95_ = [fpr95(-out, -score) for out, score in zip(outside, scores, strict=True)]
        self.epsilon_ = float(self.epsilons[int(np.argmin(self.fpr95_))])

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: the threshold, the step, and its unit."""
        return {**super().describe(), "epsilon": self.epsilon_, "unit": self.input_scale_}

    def _requires_training_rows(self) -> bool:
        return False

    def _score(self, X: Any) -> np.ndarray:
        return self._scores_by_epsilon(X, [self.epsilon_])[0]

    @np.errstate(under="ignore")
    def _scores_by_epsilon(self, X: Any, epsilons: Sequence[float]) -> list[np.ndarray]:
        """Float[n] for each step."""
        logits = logits_after_step(
            self.estimator_, X, self.temperature, [self.input_scale_ * step for step in epsilons]
        )
        return [softmax(found / self.temperature, axis=1).max(axis=1) for found in logits]
