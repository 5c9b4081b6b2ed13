"""Comparison of scores up to rounding, so that a step of a calibration curve never separates equal
scores.

What a calibrator knows of each class before it fits anything (Salamon et al., Eq. 1), and what it
says where it cannot fit.

Folds of calibration rows for whoever judges the confidence in a prediction on rows that it was not
fitted on.

What calibrators of top-label confidence share: whose score they see, whose prediction they keep,
and how they may fill a row.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from kdgraph.base import PostHocClassifier, Rows
from kdgraph.base.posthoc import display_label
from kdgraph.metrics import TopLabel

SAME = 1e-13
"""Scores in [0, 1] that differ by at most this much count as equal.

A matrix product adds in an order that depends on the CPU and on a row's place in its block, so two
equal rows can have scores that differ in the last bits (by up to 6e-16 behind a logistic regression
of 37 features). Where a curve has a step at a score of a calibration row, the last bit would decide
between two sides that may be .4 apart.
"""


def distinct(score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct scores in rising order, Float[m], and the position among them of each of
    Float[n], Int[n].

    As ``numpy.unique`` with ``return_inverse``, with scores that are at most :data:`SAME` apart
    taken as one, the lowest of them. Ours.

    >>> distinct(np.array([0.5, 0.1 + 0.2, 0.3]))
    (array([0.3, 0.5]), array([1, 0, 0]))
    """
    order = np.argsort(score, kind="stable")
    rising = np.asarray(score, dtype=np.float64)[order]
    first = np.diff(rising, prepend=-np.inf) > SAME
    position = np.empty(len(rising), dtype=np.intp)
    position[order] = np.cumsum(first) - 1
    return rising[first], position


def first_from(knots: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Return for each score the position of the lowest knot that is as high or higher, Int[n]; the
    number of knots above them all.

    ``knots``: Float[m], rising; ``score``: Float[n]. Ours.
    """
    return np.searchsorted(knots, score - SAME, side="left")


def first_above(knots: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Return for each score the position of the lowest knot that is higher, Int[n], as
    :func:`first_from`. Ours.
    """
    return np.searchsorted(knots, score + SAME, side="right")


_LIBRARY = str(Path(__file__).parents[2])
NEVER = "no calibration row is predicted as {}: the confidence there is that of all rows"
ONE_SIDED = (
    "the calibration rows predicted as {} are all right or all wrong: the confidence there is their"
    " share of right ones"
)
BOUNDED = (
    "the fit of {} runs to a bound: the confidence there is the share of right calibration rows"
)
NOT_THERE = "the fit of {} did not converge: the confidence there may be improved upon"


@dataclass(frozen=True)
class ClassShares:
    """Shares of right predictions, which stand where nothing else can be learnt.

    Attributes
    ----------
    precision : Float[K], the share of right predictions of each class (Salamon et al., Eq. 1,
        Conf1); where a class is never predicted, that of all rows.
    rows : Float[K], what the rows of each class weigh.
    empty : Bool[K], classes that no row is predicted as.
    one_sided : Bool[K], classes whose rows are all right or all wrong.
    """

    precision: np.ndarray
    rows: np.ndarray
    empty: np.ndarray
    one_sided: np.ndarray

    @classmethod
    def of(
        cls, group: np.ndarray, correct: np.ndarray, weight: np.ndarray, n_groups: int
    ) -> ClassShares:
        """Of the rows' groups Int[n], whether they are right, Bool[n], and what they weigh,
        Float[n]. Salamon et al., Eq. 1.
        """
        rows = np.bincount(group, weight, minlength=n_groups)
        right, wrong = (
            np.bincount(group, weight * kind, minlength=n_groups) for kind in (correct, ~correct)
        )
        empty = rows == 0
        precision = np.where(
            empty, np.average(correct, weights=weight), right / np.where(empty, 1, rows)
        )
        return cls(precision, rows, empty, ~empty & ((right == 0) | (wrong == 0)))


def warn_of(labels: Iterable[Any], sentence: str) -> None:
    """Warn, where the call came from outside of this library, with a sentence that has a place
    ``{}`` for labels, if there are any.
    """
    names = [display_label(label) for label in labels]
    if names:
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        warnings.warn(sentence.format(", ".join(names[:5]) + more), stacklevel=_depth() + 1)


def _depth() -> int:
    """How many frames of this library are above the caller's."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LIBRARY):
        frame, depth = frame.f_back, depth + 1
    return depth - 1


N_FOLDS = 5


def can_be_judged(correct: np.ndarray) -> bool:
    """Whether two rows at least are right and two wrong, Bool[n]: whoever is fitted on the other
    folds then sees some of both. Ours.
    """
    return min(int(correct.sum()), int((~correct).sum())) >= 2


def folds_of(
    predicted: np.ndarray, correct: np.ndarray, n_folds: int, rng: np.random.RandomState
) -> np.ndarray:
    """Int[n]: the fold of each row, at random; rows of one predicted class that are all right, or
    all wrong, are dealt out evenly. Ours.

    Unlike scikit-learn's ``StratifiedKFold`` it takes classes of fewer rows than folds, which are
    what pooling is for.

    Parameters
    ----------
    predicted : Int[n].
    correct : Bool[n].
    n_folds : from 2.
    rng : draws them.

    Examples
    --------
    >>> fold = folds_of(np.zeros(10, dtype=int), np.arange(10) < 5, 5, np.random.RandomState(0))
    >>> sorted(fold[:5].tolist()), sorted(fold[5:].tolist())
    ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])
    """
    order = rng.permutation(len(predicted))
    order = order[np.lexsort((correct[order], predicted[order]))]
    fold = np.empty(len(predicted), dtype=np.intp)
    fold[order] = np.arange(len(predicted)) % n_folds
    return fold


def fills_rows(self: TopLabelCalibrator) -> bool:
    """Whether there is a ``predict_proba``; AttributeError, with the way out, if not. Ours."""
    if not self.fill_proba:
        raise AttributeError(
            f"{type(self).__name__} gives the confidence in its prediction alone; fill_proba=True"
            " makes a row of it"
        )
    return True


@dataclass(eq=False, repr=False)
class TopLabelCalibrator(PostHocClassifier):
    """Confidence c(k, s) that class k is right where the parent predicts it with the score s
    (Salamon et al., Eq. 2).

    A subclass implements ``_fit_confidence(proba, top, correct, weight)`` and ``_confidence(proba,
    top)``: the parent's rows Float[n, K], their :class:`TopLabel`, whether each prediction is
    right, Bool[n], and what the rows weigh, Float[n]. The predicted class stays the parent's, also
    where the confidence falls below 1/K. Under ``protocol=paper`` the calibration rows are the test
    rows, which is how Salamon et al. draw their curves.

    Parameters
    ----------
    estimator : any classifier with ``predict_proba``. Cloned and fitted;
    ``FrozenEstimator(fitted)`` is used as it is.
    fill_proba : give ``predict_proba`` too: the confidence at the predicted class, and the rest in
        the proportions of the parent's other probabilities (equally where they are all 0). The
        largest of such a row can be another class than the predicted one.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen
        estimator give it rows that this was not fitted on, ``fit(X, y, X_calibration=…,
        y_calibration=…)``: see :class:`~kdgraph.base.PostHoc`.
    random_state : seeds the held-out rows, and the parent where it has no seed of its own.

    References
    ----------
    Salamon et al., Estimating classification confidence using kernel densities, Section III.
    """

    _: KW_ONLY
    fill_proba: bool = False

    paper_protocol: ClassVar = "in_sample"

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        proba = self.estimator_.predict_proba(calibration.X)
        top = TopLabel.of(proba)
        self._fit_confidence(proba, top, top.correct(calibration.y), calibration.weight)

    def predict(self, X) -> np.ndarray:
        """[n] labels: those of the parent's largest probabilities."""
        predicted = self._scores(X).argmax(axis=1)
        return self.classes_[predicted]

    def predict_confidence(self, X) -> np.ndarray:
        """Float[n] in [0, 1]: the probability that :meth:`predict` is right."""
        proba = self._scores(X)
        return self._confidence(proba, TopLabel.of(proba))

    @available_if(fills_rows)
    def predict_proba(self, X) -> np.ndarray:
        """Float[n, K]: rows with the confidence at the predicted class; finite, and they sum to
        1.
        """
        proba = self._scores(X)
        top = TopLabel.of(proba)
        return filled(proba, top, self._confidence(proba, top))

    def _scores(self, X) -> np.ndarray:
        check_is_fitted(self)
        return self.estimator_.predict_proba(self._validate_X(X))

    def _fit_confidence(
        self, proba: np.ndarray, top: TopLabel, correct: np.ndarray, weight: np.ndarray
    ) -> None:
        raise NotImplementedError

    def _confidence(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        raise NotImplementedError


def filled(proba: np.ndarray, top: TopLabel, confidence: np.ndarray) -> np.ndarray:
    """Float[n, K]: the confidence, Float[n], at the predicted class, and the rest as ``proba``,
    Float[n, K], divides it. Ours.

    >>> proba = np.array([[0.6, 0.3, 0.1]])
    >>> filled(proba, TopLabel.of(proba), np.array([0.2]))
    array([[0.2, 0.6, 0.2]])
    """
    rows = np.arange(len(proba))
    others = proba.copy()
    others[rows, top.predicted] = 0
    rest = others.sum(axis=1, keepdims=True)
    equal = np.full_like(others, 1 / max(others.shape[1] - 1, 1))
    equal[rows, top.predicted] = 0
    result = (
        np.where(rest > 0, others / np.where(rest > 0, rest, 1), equal) * (1 - confidence)[:, None]
    )
    result[rows, top.predicted] = confidence
    return result
