"""Temperature scaling of top-label confidence, by class and with class biases.

The four variants of Salamon et al. (STS, CSTS, TSwA and CSTSwA, Sections IX to XI) have one
temperature or one for each predicted class, with or without an award, a bias of the predicted
class. The module also holds the losses of correctness (Eq. 14 and 15) and their minimisation by
scipy's L-BFGS-B, which beta calibration shares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from kdgraph.base import Rows
from kdgraph.calibration.top_label.base import (
    BOUNDED,
    CONFIDENCE_CLIP,
    NEVER,
    NOT_CONVERGED,
    ONE_SIDED,
    ClassAccuracy,
    warn_of_labels,
)
from kdgraph.calibration.top_label.shrinkage import ShrinkageCalibrator
from kdgraph.metrics import TopLabel
from kdgraph.parameters import NonNegative

TopLabelLoss = Literal["nll", "brier", "full_nll"]
MeanLoss = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""Function from parameters, Float[p], to a mean over rows and its gradient, Float[p]."""

_MAX_RESTARTS = 3
"""Number of runs of an optimiser that stops before an optimum."""
_GRADIENT_TOLERANCE = 1e-7
"""Largest gradient at a minimum; the objective is a mean over rows whose losses are near 1."""
_CERTAINTY = 0.01
"""Distance from 0 or 1 below which a correct classification counts as nearly certain."""


class Minimum(NamedTuple):
    """Parameters, Float[p], where a loss is least.

    They have ``converged`` if the gradient vanishes there, apart from bounds; ``bounded``, Bool[p],
    is True for parameters at a bound.
    """

    parameters: np.ndarray
    converged: bool
    bounded: np.ndarray


def binary_loss(
    z: np.ndarray, correct: np.ndarray, loss: TopLabelLoss
) -> tuple[np.ndarray, np.ndarray]:
    """Return the loss of correctness by row, and its derivative with respect to the log odds z.

    All are [n]. "brier" is Eq. 15 of Salamon et al., the others are Eq. 14.
    """
    p = expit(z)
    residual = np.where(correct, -expit(-z), p)  # p - correct, without cancellation near 1
    if loss == "brier":
        return residual**2, 2 * residual * p * expit(-z)
    return np.logaddexp(0, np.where(correct, -z, z)), residual


def minimize_loss(
    objective: MeanLoss,
    starts: Sequence[np.ndarray],
    bounds: Sequence[tuple[float | None, float | None]],
) -> Minimum:
    """Minimise a mean loss from the best of several starts, Float[p], by scipy's L-BFGS-B.

    The result is not worse than any start. Several starts are needed because the loss of a
    temperature may have more than one minimum.
    """
    best = min(starts, key=lambda parameters: objective(parameters)[0])
    low = np.array([-np.inf if lower is None else lower for lower, _ in bounds])
    high = np.array([np.inf if upper is None else upper for _, upper in bounds])
    options = {"ftol": 0, "gtol": _GRADIENT_TOLERANCE / 10, "maxiter": 1000}

    def is_stationary(parameters: np.ndarray) -> bool:
        step = np.clip(parameters - objective(parameters)[1], low, high) - parameters
        return bool(np.abs(step).max() <= _GRADIENT_TOLERANCE)

    # L-BFGS-B can stop early because of its memory of the curvature. A new run from the same point
    # starts without this memory and usually continues.
    for _ in range(_MAX_RESTARTS):
        result = minimize(
            objective, best, jac=True, method="L-BFGS-B", bounds=bounds, options=options
        )
        best = result.x if result.fun <= objective(best)[0] else best
        if is_stationary(best):
            break
    return Minimum(best, is_stationary(best), (best <= low + 1e-6) | (best >= high - 1e-6))


def are_separable(z: np.ndarray, correct: np.ndarray) -> bool:
    """Return True if a steep curve separates correct from incorrect rows, up to one tie.

    There is no finite optimum then, and the last step of the optimiser, which has the log odds z,
    Float[n], is not an estimate.
    """
    # If the rows are not separable, some correct row has a lower score than an incorrect one. These
    # two rows have different z and cannot both be classified with near certainty. So it suffices to
    # look at the uncertain rows: none, or all of them at one z.
    uncertain = expit(np.where(correct, z, -z)) <= 1 - _CERTAINTY
    mixed = correct[uncertain].any() and not correct[uncertain].all()
    is_one_tie = mixed and not uncertain.all() and np.ptp(z[uncertain]) < 1e-6
    return bool(not uncertain.any() or is_one_tie)


LOG_BETA_BOUNDS = (-10.0, 10.0)
"""Bounds of the log of an inverse temperature; scikit-learn has the same."""
_LOG_BETA_GRID = np.linspace(-3, 3, 13)
"""Starts of the search for a log inverse temperature, for T from 1/20 to 20."""


@dataclass(frozen=True)
class LogScores:
    """Log scores of n rows: ``own`` of the predicted class, ``best`` of the others, Float[n].

    ``below`` are the log scores of the other classes minus the best of them, Float[n, K - 1].
    """

    own: np.ndarray
    best: np.ndarray
    below: np.ndarray

    @classmethod
    def from_proba(cls, proba: np.ndarray, predicted: np.ndarray) -> LogScores:
        """Return the log scores of Float[n, K] with K of at least 2, for classes Int[n]."""
        n, n_classes = proba.shape
        logs = np.log(np.maximum(proba.astype(np.float64, copy=False), CONFIDENCE_CLIP))
        others = logs[np.arange(n_classes) != predicted[:, None]].reshape(n, n_classes - 1)
        best = others.max(axis=1)
        return cls(logs[np.arange(n), predicted], best, others - best[:, None])

    def __len__(self) -> int:
        return len(self.own)

    def __getitem__(self, index: np.ndarray) -> LogScores:
        return LogScores(self.own[index], self.best[index], self.below[index])

    def log_sum_of_others(self, beta: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """Return the log of the sum of y^beta over the other classes, and its derivative, Float[n].

        The inverse temperature 1/T is one, or Float[n]. The derivative is with respect to it, and
        is the mean log score of the other classes under the softmax.
        """
        powers = np.exp(np.reshape(beta, (-1, 1)) * self.below)
        total = powers.sum(axis=1)
        return (
            beta * self.best + np.log(total),
            self.best + np.einsum("nk,nk->n", powers, self.below) / total,
        )

    def log_odds(self, beta: np.ndarray | float, shift: np.ndarray | float = 0.0) -> np.ndarray:
        """Return the log odds of the confidence, Float[n] (Salamon et al., Eq. 18).

        ``beta`` is 1/T and ``shift`` A/T. The award A is added at the predicted class only. With l
        = log y the confidence is the sigmoid of (l_k + A)/T - log sum over j ≠ k of exp(l_j/T).
        """
        return beta * self.own + shift - self.log_sum_of_others(beta)[0]


@dataclass(frozen=True)
class AwardedLoss:
    """Mean loss of n rows under one temperature and m awards for groups of rows.

    ``truth`` is the log score of the row's label, used by "full_nll"; ``award_of`` is the position
    of the award of each row, Int[n] or one for all, m if it has none; ``ridge`` is a factor of the
    sum of squared awards, which is added to the sum over rows.
    """

    rows: LogScores
    correct: np.ndarray
    weight: np.ndarray
    truth: np.ndarray
    loss: TopLabelLoss = "nll"
    award_of: np.ndarray | int = 0
    n_awards: int = 0
    ridge: float = 0.0

    def __getitem__(self, index: np.ndarray) -> AwardedLoss:
        # A subset of the rows, without awards.
        return AwardedLoss(
            self.rows[index], self.correct[index], self.weight[index], self.truth[index], self.loss
        )

    def with_awards(self, award_of: np.ndarray | int, n_awards: int, ridge: float) -> AwardedLoss:
        """Return the loss of the same rows with awards, Int[n] or one (Salamon et al., Eq. 18)."""
        return replace(self, award_of=award_of, n_awards=n_awards, ridge=ridge)

    def __call__(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the loss and its gradient, Float[1 + m] (Salamon et al., Eq. 14, 15 and 18).

        The parameters are the log inverse temperature and the m shifts A/T. The K-class NLL is Eq.
        14 plus, for incorrect rows, the log of the other classes' sum minus the label's log score
        over T.
        """
        # The parameters are shifts A/T, not awards A: the log odds are linear in shifts, which
        # conditions the loss better.
        beta, shift = np.exp(parameters[0]), parameters[1:]
        log_others, mean_others = self.rows.log_sum_of_others(beta)
        z = beta * self.rows.own + np.append(shift, 0.0)[self.award_of] - log_others
        value, slope = binary_loss(z, self.correct, self.loss)
        by_beta = slope * (self.rows.own - mean_others)
        if self.loss == "full_nll":
            value = value + np.where(self.correct, 0, log_others - beta * self.truth)
            by_beta = by_beta + np.where(self.correct, 0, mean_others - self.truth)
        award, total = shift / beta, self.weight.sum()
        award_of = np.broadcast_to(self.award_of, slope.shape)
        by_shift = (
            np.bincount(award_of, self.weight * slope, minlength=self.n_awards + 1)[:-1]
            + 2 * self.ridge * award / beta
        )
        penalty = self.ridge * award @ award
        by_log_beta = beta * (self.weight @ by_beta) - 2 * penalty
        return (
            float((self.weight @ value + penalty) / total),
            np.concatenate([[by_log_beta], by_shift]) / total,
        )

    def minimize(self, start: np.ndarray) -> Minimum:
        """Return a minimum that is not above the loss at ``start``, Float[1 + m], by scipy."""
        grid = [np.concatenate([[log_beta], start[1:]]) for log_beta in _LOG_BETA_GRID]
        bounds = [LOG_BETA_BOUNDS, *[(None, None)] * self.n_awards]
        return minimize_loss(self, [start, *grid], bounds)


FallbackRule = Literal["precision", "shared"]


@dataclass(eq=False, repr=False)
class TemperatureScaling(ShrinkageCalibrator):
    """Temperature scaling of the confidence, optionally by class and with awards.

    The confidence is the entry of the predicted class of a softmax of log scores over a
    temperature, with an award for this class. STS has one temperature; CSTS (``by_class``) has one
    for each predicted class; TSwA (``awards``) has one temperature and an award for each class;
    CSTSwA has both for each class.

    Parameters
    ----------
    by_class : bool, default=False
        Fit a temperature for each predicted class.
    awards : bool, default=False
        Fit an award for each predicted class, in units of log score.
    loss : "nll", "brier" or "full_nll", default="nll"
        Loss of the calibration rows. "nll" (Eq. 14) and "brier" (Eq. 15) are losses of correctness;
        "full_nll" is the NLL of the label under the full row of Eq. 18, which is usual temperature
        scaling.
    ridge : float, default=0.0
        Factor of the sum of squared awards, which is added to the sum of losses. If it is above 0,
        and there is one temperature, every class has an award, even if its rows are all correct or
        all incorrect, or if it is never predicted (award 0).
    fallback : "shared" or "precision", default="shared"
        Parameters of a class that cannot be fitted. "shared": the temperature of all rows, without
        an award. "precision": the accuracy of its rows; it is 0 or 1 if all are alike, and one
        contradicting row then costs as much as the clip of the NLL permits.

    Attributes
    ----------
    temperature_, award_, shared_temperature_ : ndarray of shape (K,), float
        Parameters of each class, Float[K], NaN where the confidence is ``precision_``; and the
        temperature of all rows.
    own_ : ndarray of shape (K,)
        Bool[K], True if all parameters of the class were fitted.
    n_clipped_ : int
        Number of calibration rows with a score below 1e-12, which was clipped.

    Notes
    -----
    Salamon et al., Eq. 16 to 18, and Sections IX to XI for the four variants. Temperatures lie in
    exp(±10), as in scikit-learn. The loss is least at a bound if a class is always correct, always
    incorrect or separable; a warning names such a class. With 50 calibration rows per class of
    CIFAR-100, behind a LeNet, CSTS has a test NLL of .375 with "precision" and of .335 with
    "shared" (STS: .344). Each fit starts from the optimum of the simpler one, so more parameters
    never increase the loss on calibration rows.

    Examples
    --------
    >>> from kdgraph.parents import PrecomputedScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = np.array([[0.8, 0.2]] * 3 + [[0.4, 0.6]] * 3), np.array([0, 0, 1, 1, 1, 0])
    >>> model = TemperatureScaling(FrozenEstimator(PrecomputedScores().fit(X)), by_class=True)
    >>> model = model.fit(X, y, X_calibration=X, y_calibration=y)
    >>> model.predict_confidence(X[[0, 3]]).round(4), model.temperature_.round(3)
    (array([0.6667, 0.6667]), array([2.   , 0.585]))
    """

    _: KW_ONLY
    by_class: bool = False
    awards: bool = False
    loss: TopLabelLoss = "nll"
    ridge: NonNegative = 0.0
    fallback: FallbackRule = "shared"

    def describe(self) -> dict[str, Any]:
        """Return the fitted values for the record, by class where these differ by class."""
        names = [str(label) for label in self.classes_]
        fitted = np.flatnonzero(~np.isnan(self.temperature_)).tolist()
        temperature: Any = {names[k]: float(self.temperature_[k]) for k in fitted}
        if not self.by_class:
            temperature = next(iter(temperature.values()), None)
        award = {"award": {names[k]: float(self.award_[k]) for k in fitted}} if self.awards else {}
        return {
            "n_clipped": self.n_clipped_,
            "temperature": temperature,
            **award,
            "fell_back": [names[k] for k in np.flatnonzero(~self.own_).tolist()],
            **super().describe(),
        }

    @property
    def _has_class_parameters(self) -> bool:
        return self.by_class or self.awards

    def _needs_many_rows(self) -> bool:
        return self._has_class_parameters  # one temperature is rigid

    def _fit_rows(self, rows: Rows) -> None:
        proba, n_classes = rows.X, len(self.classes_)
        predicted = proba.argmax(axis=1)
        correct = predicted == rows.y
        self.n_clipped_ = int((proba < CONFIDENCE_CLIP).any(axis=1).sum())
        self.temperature_, self.award_ = np.full(n_classes, np.nan), np.zeros(n_classes)
        self.shared_temperature_ = np.nan
        mixed = bool(correct.any() and not correct.all())
        accuracy = ClassAccuracy.from_rows(predicted, correct, rows.weight, n_classes)
        self.precision_, self.rows_ = accuracy.precision, accuracy.rows
        self.own_ = self._fittable_classes(accuracy, mixed)
        # Rows of classes that cannot be fitted still count in the shared temperature.
        uses_shared = mixed and (self.fallback == "shared" or self.pool_ > 0)
        used = self.own_[predicted] | uses_shared
        if used.any():
            truth = np.log(np.maximum(proba[np.arange(len(proba)), rows.y], CONFIDENCE_CLIP))
            loss = AwardedLoss(
                LogScores.from_proba(proba, predicted), correct, rows.weight, truth, self.loss
            )
            self._fit_parameters(loss[used], predicted[used])
        self.award_[np.isnan(self.temperature_)] = np.nan

    def _fittable_classes(self, accuracy: ClassAccuracy, mixed: bool) -> np.ndarray:
        """Return Bool[K], True for classes whose parameters can be fitted; warn of the others.

        ``mixed``: some rows are correct and some are incorrect.
        """
        if not mixed:
            warn_of_labels(["any class"], ONE_SIDED)
        elif self.by_class or (self.awards and not self.ridge):
            self._warn_of_fallback(accuracy.empty, NEVER)
            self._warn_of_fallback(accuracy.one_sided, ONE_SIDED)
            return ~(accuracy.empty | accuracy.one_sided)
        return np.full(len(self.classes_), mixed)

    def _fit_parameters(self, loss: AwardedLoss, predicted: np.ndarray) -> None:
        minimum = loss.minimize(np.zeros(1))
        self.shared_temperature_ = float(np.exp(-minimum.parameters[0]))
        self._set(self.own_ | (self.fallback == "shared"), minimum.parameters[0])
        if self.by_class:
            self._fit_each_class(loss, predicted, minimum.parameters)
            return
        if self.awards:
            n_classes = len(self.classes_)
            award_of = np.where(self.own_[predicted], predicted, n_classes)
            minimum = loss.with_awards(award_of, n_classes, self.ridge).minimize(
                np.append(minimum.parameters, np.zeros(n_classes))
            )
            log_beta, shift = minimum.parameters[0], minimum.parameters[1:]
            self._set(~np.isnan(self.temperature_), log_beta, shift)
        warn_of_labels([] if minimum.converged else ["any class"], NOT_CONVERGED)

    def _fit_each_class(self, loss: AwardedLoss, predicted: np.ndarray, start: np.ndarray) -> None:
        """Fit a temperature, and an award, for each class; discard fits that reach a bound."""
        bounded, converged = np.zeros_like(self.own_), np.ones_like(self.own_)
        for k in np.flatnonzero(self.own_).tolist():
            class_loss = loss[predicted == k]
            minimum = class_loss.minimize(start)
            if self.awards:
                # From the optimum without an award, so that the award never increases the loss.
                class_loss = class_loss.with_awards(0, 1, self.ridge)
                minimum = class_loss.minimize(np.append(minimum.parameters, 0.0))
            log_beta, shift = minimum.parameters[0], minimum.parameters[1:].sum()
            separable = self.awards and are_separable(
                class_loss.rows.log_odds(np.exp(log_beta), shift), class_loss.correct
            )
            bounded[k] = minimum.bounded[0] or separable
            converged[k] = minimum.converged or bounded[k]
            if not bounded[k]:
                self._set(k, log_beta, shift)
        self.own_ &= ~bounded
        if self.fallback == "precision":
            self.temperature_[bounded] = np.nan
        self._warn_of_fallback(bounded, BOUNDED)
        warn_of_labels(self.classes_[~converged], NOT_CONVERGED)

    def _set(
        self, classes: np.ndarray | int, log_beta: float, shift: np.ndarray | float = 0.0
    ) -> None:
        """Store T and A of some classes; shifts are A/T, one or one for each of all classes."""
        self.temperature_[classes] = np.exp(-log_beta)
        award = np.broadcast_to(shift * np.exp(-log_beta), self.award_.shape)
        self.award_[classes] = award[classes]

    def _warn_of_fallback(self, classes: np.ndarray, sentence: str) -> None:
        if self.fallback == "shared":
            reason = sentence.partition(":")[0]
            sentence = f"{reason}: the temperature there is that of all rows, without an award"
        self._warn_unless_pooled(self.classes_[classes], sentence)

    def _own_confidence(self, proba: np.ndarray, top_label: TopLabel) -> np.ndarray:
        confidence = self.precision_[top_label.predicted]
        fitted = ~np.isnan(self.temperature_[top_label.predicted])
        if fitted.any():
            k = top_label.predicted[fitted]
            rows = LogScores.from_proba(proba[fitted], k)
            confidence[fitted] = expit(
                rows.log_odds(1 / self.temperature_[k], self.award_[k] / self.temperature_[k])
            )
        return confidence

    def _own_rows(self, proba: np.ndarray, top_label: TopLabel) -> np.ndarray:
        return self.rows_[top_label.predicted]

    def _shared_confidence(self, proba: np.ndarray, top_label: TopLabel) -> np.ndarray:
        # Without a shared temperature all rows are correct, or all incorrect, in every class.
        if np.isnan(self.shared_temperature_):
            return self.precision_[top_label.predicted]
        return expit(
            LogScores.from_proba(proba, top_label.predicted).log_odds(1 / self.shared_temperature_)
        )
