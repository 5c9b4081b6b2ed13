"""Losses of the log odds that a prediction is right (Salamon et al., Eq. 14 and 15), and the one
way to minimise them: scipy's L-BFGS-B.

A softmax with a temperature and an award for the predicted class (Salamon et al., Eq. 18), as log
odds of the confidence.

Temperature scaling of top-label confidence: one temperature or one for each predicted class, with
or without awards.
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
    NEVER,
    NOT_THERE,
    ONE_SIDED,
    ClassShares,
    warn_of,
)
from kdgraph.calibration.top_label.shrinkage import PooledCalibrator
from kdgraph.metrics import TopLabel
from kdgraph.parameters import NonNegative

Loss = Literal["nll", "brier", "full_nll"]
Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""From parameters, Float[p], to a mean over rows and its gradient, Float[p]."""

_FRESH_STARTS = 3
"""How often a fit that stops short of an optimum goes on from there."""
_SLACK = 1e-7
"""The largest slope at a minimum; what is minimised is a mean over rows, whose losses are near
1.
"""
_APART = 0.01
"""A confidence so near to 0 of a wrong row, or to 1 of a right one, is all but sure."""


class Minimum(NamedTuple):
    """Where a loss is least.

    Attributes
    ----------
    at : Float[p], the parameters.
    converged : whether the slope is 0 there, but for bounds.
    bounded : Bool[p], the parameters that are at a bound.
    """

    at: np.ndarray
    converged: bool
    bounded: np.ndarray


def binary_loss(z: np.ndarray, correct: np.ndarray, loss: Loss) -> tuple[np.ndarray, np.ndarray]:
    """Eq. 14 or 15 of Salamon et al. by row, and its derivative by z.

    Parameters
    ----------
    z : Float[n], log odds of the confidence.
    correct : Bool[n], whether the prediction is right.
    loss : "brier" is Eq. 15, the others Eq. 14, without the rounding that ``log(1 - p)`` has near
        1.

    Returns
    -------
    Float[n], Float[n].

    Examples
    --------
    >>> value, slope = binary_loss(np.zeros(2), np.array([True, False]), "nll")
    >>> value.round(4), slope
    (array([0.6931, 0.6931]), array([-0.5,  0.5]))
    """
    p = expit(z)
    away = np.where(correct, -expit(-z), p)  # p - correct
    if loss == "brier":
        return away**2, 2 * away * p * expit(-z)
    return np.logaddexp(0, np.where(correct, -z, z)), away


def minimised(
    objective: Objective,
    starts: Sequence[np.ndarray],
    bounds: Sequence[tuple[float | None, float | None]],
) -> Minimum:
    """Go down from the best of the ``starts``, Float[p] each, by scipy's L-BFGS-B: the end is no
    worse than any of them.

    Ours: a mean loss that has more than one minimum, as that of a temperature may, is looked at in
    several places.
    """
    best = min(starts, key=lambda parameters: objective(parameters)[0])
    low = np.array([-np.inf if least is None else least for least, _ in bounds])
    high = np.array([np.inf if most is None else most for _, most in bounds])
    options = {"ftol": 0, "gtol": _SLACK / 10, "maxiter": 1000}

    def is_flat(at: np.ndarray) -> bool:
        return bool(np.abs(np.clip(at - objective(at)[1], low, high) - at).max() <= _SLACK)

    for _ in range(
        _FRESH_STARTS
    ):  # one that gives up on its way, with what it remembers of the curvature, goes on without that
        found = minimize(
            objective, best, jac=True, method="L-BFGS-B", bounds=bounds, options=options
        )
        best = found.x if found.fun <= objective(best)[0] else best
        if is_flat(best):
            break
    return Minimum(best, is_flat(best), (best <= low + 1e-6) | (best >= high - 1e-6))


def lie_apart(z: np.ndarray, correct: np.ndarray) -> bool:
    """Whether log odds z, Float[n], of a curve that may be as steep as it likes tell right rows
    from wrong ones, Bool[n], but for one tie.

    Ours: then there is no finite optimum, and the last step before it is taken for one. Where rows
    do not lie apart, some right row has a score below that of a wrong one, and at least these two,
    at different z, cannot both be all but surely what they are.
    """
    unsure = expit(np.where(correct, z, -z)) <= 1 - _APART
    mixed = correct[unsure].any() and not correct[unsure].all()
    return bool(not unsure.any() or (mixed and not unsure.all() and np.ptp(z[unsure]) < 1e-6))


CLIP = 1e-12
"""The least score that has a logarithm."""
LOG_BETA = (-10.0, 10.0)
"""Bounds of the log of an inverse temperature, as scikit-learn has them."""
_GRID = np.linspace(-3, 3, 13)
"""Where the minimum over a log inverse temperature is first looked for: 20 times colder to 20 times
hotter.
"""


@dataclass(frozen=True)
class LogScores:
    """Log scores of rows: of the predicted class, and of the others.

    Attributes
    ----------
    own : Float[n], log y_k of the predicted class k.
    best : Float[n], the largest of the other classes.
    below : Float[n, K - 1], what the other classes are less than ``best``.
    """

    own: np.ndarray
    best: np.ndarray
    below: np.ndarray

    @classmethod
    def of(cls, proba: np.ndarray, predicted: np.ndarray) -> LogScores:
        """Of scores Float[n, K], K at least 2, and predicted classes Int[n]."""
        n, n_classes = proba.shape
        logs = np.log(np.maximum(proba.astype(np.float64, copy=False), CLIP))
        others = logs[np.arange(n_classes) != predicted[:, None]].reshape(n, n_classes - 1)
        best = others.max(axis=1)
        return cls(logs[np.arange(n), predicted], best, others - best[:, None])

    def __len__(self) -> int:
        return len(self.own)

    def __getitem__(self, index: np.ndarray) -> LogScores:
        return LogScores(self.own[index], self.best[index], self.below[index])

    def rest(self, beta: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """The log of the other classes' sum of y^beta, and its derivative by beta: their mean log
        score as the softmax weighs it.

        Parameters
        ----------
        beta : 1/T, one or Float[n].

        Returns
        -------
        Float[n], Float[n].
        """
        powers = np.exp(np.reshape(beta, (-1, 1)) * self.below)
        total = powers.sum(axis=1)
        return (
            beta * self.best + np.log(total),
            self.best + np.einsum("nk,nk->n", powers, self.below) / total,
        )

    def log_odds(self, beta: np.ndarray | float, shift: np.ndarray | float = 0.0) -> np.ndarray:
        """Float[n]: log odds of y_hat at the predicted class.

        Parameters
        ----------
        beta, shift : 1/T and A/T of the row's predicted class, one or Float[n] each.

        Notes
        -----
        Salamon et al., Eq. 18: the award stands at the predicted class alone, so with l = log y the
        confidence is the sigmoid of (l_k + A)/T - log sum over j ≠ k of exp(l_j/T).

        Examples
        --------
        >>> rows = LogScores.of(np.array([[0.8, 0.1, 0.1]]), np.array([0]))
        >>> np.exp(rows.log_odds(1.0)).round(6), np.exp(rows.log_odds(0.5)).round(4)
        (array([4.]), array([1.4142]))
        """
        return beta * self.own + shift - self.rest(beta)[0]


@dataclass(frozen=True)
class AwardedLoss:
    """The mean loss of rows under one temperature, and awards for groups of them.

    Attributes
    ----------
    rows : of n rows.
    correct, weight : Bool[n] and Float[n].
    truth : Float[n], log score of the row's label; "full_nll" asks for it.
    loss : as of :func:`~kdgraph.calibration.top_label.temperature.binary_loss`.
    award_of : Int[n], the award of each row; m: it has none.
    n_awards : m.
    ridge : times the sum of squared awards, beside the sum over rows.
    """

    rows: LogScores
    correct: np.ndarray
    weight: np.ndarray
    truth: np.ndarray
    loss: Loss = "nll"
    award_of: np.ndarray | int = 0
    n_awards: int = 0
    ridge: float = 0.0

    def __getitem__(self, index: np.ndarray) -> AwardedLoss:
        """Of these rows alone; without awards."""
        return AwardedLoss(
            self.rows[index], self.correct[index], self.weight[index], self.truth[index], self.loss
        )

    def with_awards(self, award_of: np.ndarray | int, n_awards: int, ridge: float) -> AwardedLoss:
        """Of the same rows, each with an award: Int[n], or one for all. Salamon et al., Eq. 18."""
        return replace(self, award_of=award_of, n_awards=n_awards, ridge=ridge)

    def __call__(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Value, and gradient Float[1 + m], at the log inverse temperature and the m shifts A/T.

        Shifts make the loss better conditioned than awards do: the log odds are linear in them.

        Notes
        -----
        Salamon et al., Eq. 14, 15 and 18. The K-class NLL is Eq. 14 and, of wrong rows, the log of
        the other classes' sum less their label's log score over T.
        """
        beta, shift = np.exp(parameters[0]), parameters[1:]
        log_rest, mean_rest = self.rows.rest(beta)
        z = beta * self.rows.own + np.append(shift, 0.0)[self.award_of] - log_rest
        value, slope = binary_loss(z, self.correct, self.loss)
        by_beta = slope * (self.rows.own - mean_rest)
        if self.loss == "full_nll":
            value = value + np.where(self.correct, 0, log_rest - beta * self.truth)
            by_beta = by_beta + np.where(self.correct, 0, mean_rest - self.truth)
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

    def minimised(self, start: np.ndarray) -> Minimum:
        """The least loss, no greater than that at ``start``, Float[1 + m]. By scipy."""
        grid = [np.concatenate([[log_beta], start[1:]]) for log_beta in _GRID]
        return minimised(self, [start, *grid], [LOG_BETA, *[(None, None)] * self.n_awards])


Fallback = Literal["precision", "shared"]


@dataclass(eq=False, repr=False)
class TemperatureScaling(PooledCalibrator):
    """A softmax of log scores over a temperature, with an award for the class that is predicted;
    its entry there is the confidence.

    STS is one temperature for all; CSTS (``by_class``) has one for each predicted class; TSwA
    (``awards``) has one temperature and an award for each class; CSTSwA has both for each class.

    Parameters
    ----------
    estimator, pool, fill_proba, calibration_size, random_state : as in :class:`PooledCalibrator`;
        what is shared is the temperature that is fitted to all rows, without awards (STS).
    by_class : a temperature for each predicted class.
    awards : an award for each predicted class, in units of log score.
    loss : what is minimised over calibration rows. "nll" (Eq. 14) and "brier" (Eq. 15): of the
        confidence in being right. "full_nll": of the label in the whole row after Eq. 18, which is
        usual temperature scaling.
    ridge : times the sum of squared awards, beside the sum of losses; 0 leaves them free. Above 0,
        and with one temperature for all, every class has an award, also one whose rows are all
        right or all wrong, or that is never predicted (0).
    fallback : of a class whose own parameters cannot be learnt. "shared": the temperature that is
        fitted to all rows, and no award. "precision": the share of its rows that are right, which
        is 0 or 1 where all are alike, so that one row that is otherwise costs what the NLL's clip
        makes of it.

    Attributes
    ----------
    temperature_, award_ : Float[K], by class; NaN where the confidence is ``precision_``.
    ``shared_temperature_``: the one of all rows.
    precision_ : Float[K]: the share of right predictions of each class (Conf1); of all rows where a
        class is never predicted; ``rows_``, Float[K], what the calibration rows of each class
        weigh.
    own_ : Bool[K]: whether all parameters of the class could be learnt.
    n_clipped_ : how many calibration rows have a score below 1e-12, which was taken for 1e-12.

    Notes
    -----
    Salamon et al., Eq. 16 to 18, and Sections IX to XI for the four. Temperatures lie in exp(±10),
    as scikit-learn's. The loss is least at a bound where a class is always right, or always wrong,
    or right rows can be told from wrong ones without fail; such a class is warned of. With 50
    calibration rows a class, on softmax scores of CIFAR-100 by a LeNet, CSTS has a binary test NLL
    of .375 with "precision" and of .335 with "shared" (STS: .344): some classes have one wrong row
    or none, hence the default. Each fit starts from the simpler one's optimum, so that more
    parameters never make the loss on the others' calibration rows greater.

    Examples
    --------
    >>> from kdgraph.parents import PrecomputedScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = np.array([[0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.4, 0.6], [0.4, 0.6], [0.4, 0.6]]), np.array([0, 0, 1, 1, 1, 0])
    >>> model = TemperatureScaling(FrozenEstimator(PrecomputedScores().fit(X)), by_class=True).fit(X, y, X_calibration=X, y_calibration=y)
    >>> model.predict_confidence(X[[0, 3]]).round(4), model.temperature_.round(3)
    (array([0.6667, 0.6667]), array([2.   , 0.585]))
    """

    _: KW_ONLY
    by_class: bool = False
    awards: bool = False
    loss: Loss = "nll"
    ridge: NonNegative = 0.0
    fallback: Fallback = "shared"

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: rows that were clipped, temperatures and awards (by
        class), classes without all of their own.
        """
        names = [str(label) for label in self.classes_]
        there = np.flatnonzero(~np.isnan(self.temperature_)).tolist()
        temperature: Any = {names[k]: float(self.temperature_[k]) for k in there}
        if not self.by_class:
            temperature = next(iter(temperature.values()), None)
        award = {"award": {names[k]: float(self.award_[k]) for k in there}} if self.awards else {}
        without = [names[k] for k in np.flatnonzero(~self.own_).tolist()]
        return {
            "n_clipped": self.n_clipped_,
            "temperature": temperature,
            **award,
            "fell_back": without,
            **super().describe(),
        }

    @property
    def _pools(self) -> bool:
        return self.by_class or self.awards

    def _learn_from(self, rows: Rows) -> None:
        proba, n_classes = rows.X, len(self.classes_)
        predicted = proba.argmax(axis=1)
        correct = predicted == rows.y
        self.n_clipped_ = int((proba < CLIP).any(axis=1).sum())
        self.temperature_, self.award_, self.shared_temperature_ = (
            np.full(n_classes, np.nan),
            np.zeros(n_classes),
            np.nan,
        )
        mixed = bool(correct.any() and not correct.all())
        shares = ClassShares.of(predicted, correct, rows.weight, n_classes)
        self.precision_, self.rows_, self.own_ = (
            shares.precision,
            shares.rows,
            self._learnable(shares, mixed),
        )
        kept = self.own_[predicted] | (mixed and (self.fallback == "shared" or self.pool_ > 0))
        if kept.any():
            truth = np.log(np.maximum(proba[np.arange(len(proba)), rows.y], CLIP))
            loss = AwardedLoss(
                LogScores.of(proba, predicted), correct, rows.weight, truth, self.loss
            )
            self._fit_classes(loss[kept], predicted[kept])
        self.award_[np.isnan(self.temperature_)] = np.nan

    def _learnable(self, shares: ClassShares, mixed: bool) -> np.ndarray:
        """Bool[K]: classes whose rows tell their parameters; the others are warned of. ``mixed``:
        some rows are right and some wrong.
        """
        if not mixed:
            warn_of(["any class"], ONE_SIDED)
        elif self.by_class or (self.awards and not self.ridge):
            self._warn_of(shares.empty, NEVER)
            self._warn_of(shares.one_sided, ONE_SIDED)
            return ~(shares.empty | shares.one_sided)
        return np.full(len(self.classes_), mixed)

    def _fit_classes(self, loss: AwardedLoss, predicted: np.ndarray) -> None:
        """The temperature that all rows share, and from there what each class has of its own."""
        found = loss.minimised(np.zeros(1))
        self.shared_temperature_ = float(np.exp(-found.at[0]))
        self._set(self.own_ | (self.fallback == "shared"), found.at[0])
        if self.by_class:
            self._fit_each(loss, predicted, found.at)
            return
        if self.awards:
            n_classes = len(self.classes_)
            award_of = np.where(self.own_[predicted], predicted, n_classes)
            found = loss.with_awards(award_of, n_classes, self.ridge).minimised(
                np.append(found.at, np.zeros(n_classes))
            )
            self._set(~np.isnan(self.temperature_), found.at[0], found.at[1:])
        warn_of([] if found.converged else ["any class"], NOT_THERE)

    def _fit_each(self, loss: AwardedLoss, predicted: np.ndarray, start: np.ndarray) -> None:
        """A temperature for each class, and an award; what runs to a bound is dropped."""
        bounded, converged = np.zeros_like(self.own_), np.ones_like(self.own_)
        for k in np.flatnonzero(self.own_).tolist():
            mine = loss[predicted == k]
            found = mine.minimised(start)
            if self.awards:
                mine = mine.with_awards(0, 1, self.ridge)
                found = mine.minimised(np.append(found.at, 0.0))
            log_beta, shift = found.at[0], found.at[1:].sum()
            apart = self.awards and lie_apart(
                mine.rows.log_odds(np.exp(log_beta), shift), mine.correct
            )
            bounded[k] = found.bounded[0] or apart
            converged[k] = found.converged or bounded[k]
            if not bounded[k]:
                self._set(k, log_beta, shift)
        self.own_ &= ~bounded
        if self.fallback == "precision":
            self.temperature_[bounded] = np.nan
        self._warn_of(bounded, BOUNDED)
        warn_of(self.classes_[~converged], NOT_THERE)

    def _set(
        self, where: np.ndarray | int, log_beta: float, shift: np.ndarray | float = 0.0
    ) -> None:
        """Keep T and A of these classes: shifts are A/T, one or one for each of all classes."""
        self.temperature_[where] = np.exp(-log_beta)
        self.award_[where] = np.broadcast_to(shift * np.exp(-log_beta), self.award_.shape)[where]

    def _warn_of(self, which: np.ndarray, sentence: str) -> None:
        """Of classes, Bool[K], for which something else stands."""
        if self.fallback == "shared":
            sentence = (
                sentence.partition(":")[0]
                + ": the temperature there is that of all rows, without an award"
            )
        self._warn_unless_pooled(self.classes_[which], sentence)

    def _own(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        found = self.precision_[top.predicted]
        own = ~np.isnan(self.temperature_[top.predicted])
        if own.any():
            k = top.predicted[own]
            rows = LogScores.of(proba[own], k)
            found[own] = expit(
                rows.log_odds(1 / self.temperature_[k], self.award_[k] / self.temperature_[k])
            )
        return found

    def _near(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        return self.rows_[top.predicted]

    def _shared(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        if np.isnan(
            self.shared_temperature_
        ):  # all rows are right, or all wrong, and so are those of each class
            return self.precision_[top.predicted]
        return expit(LogScores.of(proba, top.predicted).log_odds(1 / self.shared_temperature_))
