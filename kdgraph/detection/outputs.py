"""Out-of-distribution scores of a classifier's outputs: its probabilities or its logits.

Maximum softmax probability (Hendrycks and Gimpel 2017) and entropy need probabilities only. The
maximum logit, the energy score (Liu et al. 2020) and ODIN (Liang et al. 2018) need a network.
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
class ProbabilityDetector(PostHocDetector):
    """Base class of detectors whose score is a function of the parent's class probabilities.

    A subclass implements ``_score_proba(proba)``, which returns Float[n], higher for more normal
    rows.
    """

    required_method: ClassVar = "predict_proba"

    def _requires_training_rows(self) -> bool:
        return False

    def takes_out_of_bag_outputs(self) -> bool:
        return True

    def _scores_out_of_bag(self) -> bool:
        return True

    def _score(self, X: Any) -> np.ndarray:
        return self._score_proba(Rows.unweighted(X).predict(self.estimator_))

    def _left_out_scores(
        self, train: Rows, held_out: Rows, rng: np.random.RandomState
    ) -> np.ndarray:
        return self._score_proba(held_out.predict(self.estimator_))

    def _score_proba(self, proba: np.ndarray) -> np.ndarray:
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class MaxProbability(ProbabilityDetector):
    """Maximum softmax probability (MSP), the baseline of out-of-distribution scores.

    A ReLU network becomes more confident with the distance from the training data, and its largest
    probability is exactly 1 far away (Hein et al. 2019). Such rows get the highest score of all.

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
    >>> detector.predict([[0.0], [-2.0]])  # on the boundary, and well inside a class
    array([-1,  1])
    """

    def _score_proba(self, proba: np.ndarray) -> np.ndarray:
        return proba.max(axis=1)


@dataclass(eq=False, repr=False)
class Entropy(ProbabilityDetector):
    """Negative entropy of the parent's probabilities in nats, Σ_k p_k log p_k.

    It is 0 if one class has probability 1. For two classes it ranks rows as
    :class:`MaxProbability`.

    References
    ----------
    Hendrycks, Mazeika and Dietterich, "Deep anomaly detection with outlier exposure", ICLR 2019.

    Examples
    --------
    >>> from sklearn.frozen import FrozenEstimator
    >>> from kdgraph.parents import PrecomputedScores
    >>> proba = np.array([[1.0, 0.0], [0.5, 0.5]])
    >>> detector = Entropy(FrozenEstimator(PrecomputedScores().fit(proba)))
    >>> detector.fit(proba, X_calibration=proba).score_samples(proba).round(3)
    array([ 0.   , -0.693])
    """

    def _score_proba(self, proba: np.ndarray) -> np.ndarray:
        return xlogy(proba, proba).sum(axis=1)


@dataclass(eq=False, repr=False)
class LogitDetector(PostHocDetector):
    """Base class of detectors whose score is a function of the logits of a network.

    Parameters
    ----------
    estimator : network of :mod:`kdgraph.parents.networks`, or a pipeline that ends in one
        The parent.
    """

    required_partition: ClassVar = "network"

    def _requires_training_rows(self) -> bool:
        return False


@dataclass(eq=False, repr=False)
class MaxLogit(LogitDetector):
    """Largest logit of a network.

    References
    ----------
    Hendrycks et al., "Scaling out-of-distribution detection for real-world settings", ICML 2022.

    Examples
    --------
    >>> from kdgraph.parents.networks import MultilayerPerceptron
    >>> X, y = np.repeat([[-1.0], [1.0]], 50, axis=0), np.repeat([0, 1], 50)
    >>> network = MultilayerPerceptron(hidden=(8,), max_epochs=1, device="cpu", random_state=0)
    >>> detector = MaxLogit(network, random_state=0).fit(X, y)
    >>> np.array_equal(detector.score_samples(X), detector.estimator_.logits(X).max(axis=1))
    True
    """

    def _score(self, X: Any) -> np.ndarray:
        return access_network(self.estimator_).logits(X).max(axis=1)


@dataclass(eq=False, repr=False)
class Energy(LogitDetector):
    """Negative free energy of the logits f, T·log Σ_k exp(f_k / T).

    If the logits are log probabilities, as in an ensemble that averages the probabilities of its
    members, the energy is 0 everywhere, and the score is uninformative at T = 1.

    Parameters
    ----------
    temperature : float, default=1.0
        Temperature T, 1 in the paper. The score tends to the largest logit for T → 0.

    References
    ----------
    Liu, Wang, Owens and Li, "Energy-based out-of-distribution detection", NeurIPS 2020, Eq. 4.

    Examples
    --------
    >>> from kdgraph.parents.networks import MultilayerPerceptron
    >>> X, y = np.repeat([[-1.0], [1.0]], 50, axis=0), np.repeat([0, 1], 50)
    >>> network = MultilayerPerceptron(hidden=(8,), max_epochs=1, device="cpu", random_state=0)
    >>> detector = Energy(network, random_state=0).fit(X, y)
    >>> logits = detector.estimator_.logits(X)
    >>> np.allclose(detector.score_samples(X), np.log(np.exp(logits).sum(axis=1)))
    True
    """

    _: KW_ONLY
    temperature: Positive = 1.0

    @np.errstate(under="ignore")
    def _score(self, X: Any) -> np.ndarray:
        return self.temperature * logsumexp(
            access_network(self.estimator_).logits(X) / self.temperature, axis=1
        )


@dataclass(eq=False, repr=False)
class Odin(LogitDetector):
    """ODIN: largest softmax probability at a high temperature, after a small step of the input.

    The step raises the confidence more for rows like the training rows than for others.

    The score is max_k S_k(x̃; T) with S(x; T) = softmax(f(x)/T) and x̃ = x - ε·sign(-∇ₓ log S_ŷ(x;
    T)), where ŷ is the predicted class. Pixels are not clipped at 0 and 1. The paper selects ε, and
    T in its appendix, by rows out of distribution; ``fit(…, X_ood=…)`` does the same for ε, as
    ``protocol=paper`` does in a run.

    Parameters
    ----------
    temperature : float, default=1000.0
        Temperature T.
    epsilon : float or "auto", default="auto"
        Step ε by which each input of the network goes up or down, in units of the spread of the
        inputs over training rows; 0 to 0.004 in the paper, for images divided by their standard
        deviation. "auto" selects the value of ``epsilons`` with the highest mean score of the
        held-out rows, the first in case of ties.
    epsilons : sequence of float
        Candidates of "auto".

    Attributes
    ----------
    epsilon_, input_scale_ : float
        Step, and the spread of the inputs, which is its unit.
    mean_scores_ : list of float or None
        Mean score of the held-out rows for each of ``epsilons``; None if it did not select the
        step.
    fpr95_ : list of float or None
        Fraction of the ``X_ood`` rows that pass where 95 % of the held-out rows do, for each of
        ``epsilons``; None without such rows.

    References
    ----------
    Liang, Li and Srikant, "Enhancing the reliability of out-of-distribution image detection in
    neural networks", ICLR 2018, Eq. 1 and 2. Hsu, Shen, Jin and Kira, "Generalized ODIN", CVPR
    2020, Section 3.2: the choice of ε.

    Examples
    --------
    >>> from kdgraph.parents.networks import MultilayerPerceptron
    >>> X, y = np.repeat([[-1.0], [1.0]], 50, axis=0), np.repeat([0, 1], 50)
    >>> network = MultilayerPerceptron(hidden=(8,), max_epochs=1, device="cpu", random_state=0)
    >>> detector = Odin(network, epsilon=0.01, random_state=0).fit(X, y)
    >>> without_step = softmax(detector.estimator_.logits(X) / 1000, axis=1).max(axis=1)
    >>> np.all(detector.score_samples(X) > without_step)
    np.True_
    """

    _: KW_ONLY
    temperature: Positive = 1000.0
    epsilon: NonNegative | Literal["auto"] = "auto"
    epsilons: Sequence[NonNegative] = ODIN_STEP_SIZES

    paper_protocol: ClassVar = "ood"

    def fit(self, X, y=None, *, X_ood=None, **held_out):
        """Fit the detector, with optional rows out of distribution.

        Parameters
        ----------
        X, y, **held_out
            See :meth:`~kdgraph.detection.PostHocDetector.fit`.
        X_ood : array, data frame or None, default=None
            Rows out of distribution that select ε as in the paper, with a warning that rows like
            these are no longer unseen for the method: the first ε at which the fewest of them pass
            where 95 % of the held-out rows do.
        """
        self._X_ood = X_ood
        try:
            super().fit(X, y, **held_out)
        finally:
            del self._X_ood
        if self.fpr95_ is not None:
            message = "rows out of distribution chose epsilon; rows like them are no longer unseen"
            warnings.warn(f"{type(self).__name__}: {message}", stacklevel=2)
        return self

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        self.mean_scores_ = self.fpr95_ = None
        self.input_scale_ = input_spread(self.estimator_, train.X)
        if self.epsilon != "auto":
            self.epsilon_ = float(self.epsilon)
            return
        if not len(self.epsilons):
            raise ParameterError("epsilons must have at least one number, got []")
        scores = self._scores_by_epsilon(calibration, self.epsilons)
        if self._X_ood is None:
            self.mean_scores_ = [float(score.mean()) for score in scores]
            self.epsilon_ = float(self.epsilons[int(np.argmax(self.mean_scores_))])
            return
        ood_rows = Rows.unweighted(self._validate_rows(self._X_ood)[0])
        ood_scores = self._scores_by_epsilon(ood_rows, self.epsilons)
        self.fpr95_ = [fpr95(-out, -score) for out, score in zip(ood_scores, scores, strict=True)]
        self.epsilon_ = float(self.epsilons[int(np.argmin(self.fpr95_))])

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "epsilon": self.epsilon_, "unit": self.input_scale_}

    def _score(self, X: Any) -> np.ndarray:
        return self._scores_by_epsilon(Rows.unweighted(X), [self.epsilon_])[0]

    def _left_out_scores(
        self, train: Rows, held_out: Rows, rng: np.random.RandomState
    ) -> np.ndarray:
        return self._scores_by_epsilon(held_out, [self.epsilon_])[0]

    @np.errstate(under="ignore")
    def _scores_by_epsilon(self, rows: Rows, epsilons: Sequence[float]) -> list[np.ndarray]:
        sizes = [self.input_scale_ * step for step in epsilons]

        def scores(parent: Any, X: Any) -> np.ndarray:
            logits = logits_after_step(parent, X, self.temperature, sizes)
            return np.stack(
                [softmax(each / self.temperature, axis=1).max(axis=1) for each in logits], axis=1
            )

        return list(rows.apply(self.estimator_, scores).T)
