"""Temperature scaling of top-label confidence: one temperature or one for each predicted class, with or without awards."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import expit

from kdgraph.calibration.top_label.awarded_softmax import CLIP, AwardedLoss, LogScores
from kdgraph.calibration.top_label.class_shares import BOUNDED, NEVER, NOT_THERE, ONE_SIDED, ClassShares, warn_of
from kdgraph.calibration.top_label.losses import Loss, lie_apart
from kdgraph.calibration.top_label.pooling import PooledCalibrator
from kdgraph.metrics import TopLabel
from kdgraph.parameters import NonNegative
from kdgraph.parents import Rows

Fallback = Literal["precision", "shared"]


@dataclass(eq=False, repr=False)
class TemperatureScaling(PooledCalibrator):
    """A softmax of log scores over a temperature, with an award for the class that is predicted; its entry there is the confidence.

    STS is one temperature for all; CSTS (``by_class``) has one for each predicted class; TSwA (``awards``) has one temperature and an award
    for each class; CSTSwA has both for each class.

    Parameters
    ----------
    estimator, pool, fill_proba, calibration_size, random_state : as in :class:`PooledCalibrator`; what is shared is the temperature that is
        fitted to all rows, without awards (STS).
    by_class : a temperature for each predicted class.
    awards : an award for each predicted class, in units of log score.
    loss : what is minimised over calibration rows. "nll" (Eq. 14) and "brier" (Eq. 15): of the confidence in being right. "full_nll": of
        the label in the whole row after Eq. 18, which is usual temperature scaling.
    ridge : times the sum of squared awards, beside the sum of losses; 0 leaves them free. Above 0, and with one temperature for all, every
        class has an award, also one whose rows are all right or all wrong, or that is never predicted (0).
    fallback : of a class whose own parameters cannot be learnt. "shared": the temperature that is fitted to all rows, and no award.
        "precision": the share of its rows that are right, which is 0 or 1 where all are alike, so that one row that is otherwise
        costs what the NLL's clip makes of it.

    Attributes
    ----------
    temperature_, award_ : Float[K], by class; NaN where the confidence is ``precision_``. ``shared_temperature_``: the one of all rows.
    precision_ : Float[K]: the share of right predictions of each class (Conf1); of all rows where a class is never predicted; ``rows_``,
        Float[K], what the calibration rows of each class weigh.
    own_ : Bool[K]: whether all parameters of the class could be learnt.
    n_clipped_ : how many calibration rows have a score below 1e-12, which was taken for 1e-12.

    Notes
    -----
    Salamon et al., Eq. 16 to 18, and Sections IX to XI for the four. Temperatures lie in exp(±10), as scikit-learn's. The loss is least at
    a bound where a class is always right, or always wrong, or right rows can be told from wrong ones without fail; such a class is warned
    of. With 50 calibration rows a class, on softmax scores of CIFAR-100 by a LeNet, CSTS has a binary test NLL of .375 with "precision" and
    of .335 with "shared" (STS: .344): some classes have one wrong row or none, hence the default. Each fit starts from the simpler one's
    optimum, so that more parameters never make the loss on the others' calibration rows greater.

    Examples
    --------
    >>> from kdgraph.parents import GivenScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = np.array([[0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.4, 0.6], [0.4, 0.6], [0.4, 0.6]]), np.array([0, 0, 1, 1, 1, 0])
    >>> model = TemperatureScaling(FrozenEstimator(GivenScores().fit(X)), by_class=True).fit(X, y, X_calibration=X, y_calibration=y)
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
        """What was learnt, for the record: rows that were clipped, temperatures and awards (by class), classes without all of their own."""
        names = [str(label) for label in self.classes_]
        there = np.flatnonzero(~np.isnan(self.temperature_)).tolist()
        temperature: Any = {names[k]: float(self.temperature_[k]) for k in there}
        if not self.by_class:
            temperature = next(iter(temperature.values()), None)
        award = {"award": {names[k]: float(self.award_[k]) for k in there}} if self.awards else {}
        without = [names[k] for k in np.flatnonzero(~self.own_).tolist()]
        return {"n_clipped": self.n_clipped_, "temperature": temperature, **award, "fell_back": without, **super().describe()}

    @property
    def _pools(self) -> bool:
        return self.by_class or self.awards

    def _learn_from(self, rows: Rows) -> None:
        proba, n_classes = rows.X, len(self.classes_)
        predicted = proba.argmax(axis=1)
        correct = predicted == rows.y
        self.n_clipped_ = int((proba < CLIP).any(axis=1).sum())
        self.temperature_, self.award_, self.shared_temperature_ = np.full(n_classes, np.nan), np.zeros(n_classes), np.nan
        mixed = bool(correct.any() and not correct.all())
        shares = ClassShares.of(predicted, correct, rows.weight, n_classes)
        self.precision_, self.rows_, self.own_ = shares.precision, shares.rows, self._learnable(shares, mixed)
        kept = self.own_[predicted] | (mixed and (self.fallback == "shared" or self.pool_ > 0))
        if kept.any():
            truth = np.log(np.maximum(proba[np.arange(len(proba)), rows.y], CLIP))
            loss = AwardedLoss(LogScores.of(proba, predicted), correct, rows.weight, truth, self.loss)
            self._fit_classes(loss[kept], predicted[kept])
        self.award_[np.isnan(self.temperature_)] = np.nan

    def _learnable(self, shares: ClassShares, mixed: bool) -> np.ndarray:
        """Bool[K]: classes whose rows tell their parameters; the others are warned of. ``mixed``: some rows are right and some wrong."""
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
            found = loss.with_awards(award_of, n_classes, self.ridge).minimised(np.append(found.at, np.zeros(n_classes)))
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
            apart = self.awards and lie_apart(mine.rows.log_odds(np.exp(log_beta), shift), mine.correct)
            bounded[k] = found.bounded[0] or apart
            converged[k] = found.converged or bounded[k]
            if not bounded[k]:
                self._set(k, log_beta, shift)
        self.own_ &= ~bounded
        if self.fallback == "precision":
            self.temperature_[bounded] = np.nan
        self._warn_of(bounded, BOUNDED)
        warn_of(self.classes_[~converged], NOT_THERE)

    def _set(self, where: np.ndarray | int, log_beta: float, shift: np.ndarray | float = 0.0) -> None:
        """Keep T and A of these classes: shifts are A/T, one or one for each of all classes."""
        self.temperature_[where] = np.exp(-log_beta)
        self.award_[where] = np.broadcast_to(shift * np.exp(-log_beta), self.award_.shape)[where]

    def _warn_of(self, which: np.ndarray, sentence: str) -> None:
        """Of classes, Bool[K], for which something else stands."""
        if self.fallback == "shared":
            sentence = sentence.partition(":")[0] + ": the temperature there is that of all rows, without an award"
        self._warn_unless_pooled(self.classes_[which], sentence)

    def _own(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        found = self.precision_[top.predicted]
        own = ~np.isnan(self.temperature_[top.predicted])
        if own.any():
            k = top.predicted[own]
            rows = LogScores.of(proba[own], k)
            found[own] = expit(rows.log_odds(1 / self.temperature_[k], self.award_[k] / self.temperature_[k]))
        return found

    def _near(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        return self.rows_[top.predicted]

    def _shared(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        if np.isnan(self.shared_temperature_):  # all rows are right, or all wrong, and so are those of each class
            return self.precision_[top.predicted]
        return expit(LogScores.of(proba, top.predicted).log_odds(1 / self.shared_temperature_))
