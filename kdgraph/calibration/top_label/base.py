"""Shared parts of the calibrators of top-label confidence.

:class:`TopLabelCalibrator` is their base class: the predicted class stays the parent's, and only
the confidence in it is calibrated (Salamon et al., Section III). The module also holds the accuracy
of each class, which is used where no curve can be fitted (Eq. 1), folds for cross-validation, and
comparisons of scores that ignore rounding. The functions are original to kdgraph.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from kdgraph.base import PostHocClassifier, Rows
from kdgraph.base.frozen import user_stacklevel
from kdgraph.metrics import TopLabel
from kdgraph.wording import display_label

SAME = 1e-13
"""Largest difference at which two scores in [0, 1] count as equal.

A matrix product adds in an order that depends on the CPU and on the position of a row in its block.
Equal rows can therefore have scores that differ in the last bits, which must not decide on which
side of a step of a curve they are.
"""
CONFIDENCE_CLIP = 1e-12
"""Smallest distance of a score or a confidence from 0 and 1 before its logarithm is taken."""
N_FOLDS = 5
"""Number of folds of the cross-validation of shrinkage."""

NEVER = "no calibration row is predicted as {}: the confidence there is that of all rows"
ONE_SIDED = (
    "the calibration rows predicted as {} are all correct or all incorrect: the confidence there is"
    " their accuracy"
)
BOUNDED = (
    "the fit of {} reaches a bound: the confidence there is the accuracy of the calibration rows"
)
NOT_CONVERGED = "the fit of {} did not converge: a better confidence may exist"


def distinct(score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rising scores, Float[m], and the position of each score among them.

    The function is ``numpy.unique`` with ``return_inverse``, except that neighbouring scores which
    differ by at most :data:`SAME` are merged into the lowest one.

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
    """Return the position of the lowest of rising knots that is as high as each score, Int[n].

    It is m for scores above all m knots. The search ignores rounding.
    """
    return np.searchsorted(knots, score - SAME, side="left")


def first_above(knots: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Return the position of the lowest knot above each score, Int[n]; see :func:`first_from`."""
    return np.searchsorted(knots, score + SAME, side="right")


@dataclass(frozen=True)
class ClassAccuracy:
    """Accuracy by predicted class, which is the confidence where no curve can be fitted.

    ``precision`` is the fraction of correct predictions of each class (Salamon et al., Eq. 1,
    Conf1), or that of all rows for a class that is never predicted (``empty``); ``rows`` is the
    total weight of its rows; it is ``one_sided`` if its predictions are all correct or all
    incorrect. All are [K].
    """

    precision: np.ndarray
    rows: np.ndarray
    empty: np.ndarray
    one_sided: np.ndarray

    @classmethod
    def from_rows(
        cls, group: np.ndarray, correct: np.ndarray, weight: np.ndarray, n_groups: int
    ) -> ClassAccuracy:
        """Return the accuracies of rows by predicted class, Int[n], or by another group of rows."""
        rows = np.bincount(group, weight, minlength=n_groups)
        n_correct, n_incorrect = (
            np.bincount(group, weight * flags, minlength=n_groups) for flags in (correct, ~correct)
        )
        empty = rows == 0
        precision = np.where(
            empty, np.average(correct, weights=weight), n_correct / np.where(empty, 1, rows)
        )
        return cls(precision, rows, empty, ~empty & ((n_correct == 0) | (n_incorrect == 0)))


def warn_of_labels(labels: Iterable[Any], sentence: str) -> None:
    """Warn with a sentence whose ``{}`` is replaced by the labels; without labels do nothing.

    The warning points to the first caller outside of this library.
    """
    names = [display_label(label) for label in labels]
    if names:
        others = f" and {len(names) - 5} more" if len(names) > 5 else ""
        warnings.warn(sentence.format(", ".join(names[:5]) + others), stacklevel=user_stacklevel())


def can_cross_validate(correct: np.ndarray) -> bool:
    """Return True if at least two rows are correct and two are incorrect, of Bool[n].

    A fit on all folds but one then has rows of both kinds.
    """
    return min(int(correct.sum()), int((~correct).sum())) >= 2


def draw_folds(
    predicted: np.ndarray, correct: np.ndarray, n_folds: int, rng: np.random.RandomState
) -> np.ndarray:
    """Return a random fold for each row, Int[n], stratified by predicted class and correctness.

    Unlike scikit-learn's ``StratifiedKFold`` it accepts classes with fewer rows than folds.
    Shrinkage is meant for these.
    """
    order = rng.permutation(len(predicted))
    order = order[np.lexsort((correct[order], predicted[order]))]
    fold = np.empty(len(predicted), dtype=np.intp)
    fold[order] = np.arange(len(predicted)) % n_folds
    return fold


def fills_rows(self: TopLabelCalibrator) -> bool:
    """Return True if ``predict_proba`` exists; otherwise raise AttributeError."""
    if not self.fill_proba:
        raise AttributeError(
            f"{type(self).__name__} predicts only the confidence in its prediction;"
            " fill_proba=True adds full rows of probabilities"
        )
    return True


@dataclass(eq=False, repr=False)
class TopLabelCalibrator(PostHocClassifier):
    """Base class of calibrators of the confidence c(k, s) (Salamon et al., Eq. 2).

    c(k, s) is the probability that class k is correct where the parent predicts it with score s.
    The predicted class stays the parent's, also where the confidence falls below 1/K.

    A subclass implements ``_fit_confidence(proba, top_label, correct, weight)`` and
    ``_confidence(proba, top_label)``. The arguments are the parent's probabilities Float[n, K],
    their :class:`TopLabel`, the correctness of each prediction, Bool[n], and the weights, Float[n].

    Under ``protocol=paper`` the calibration rows are the test rows, because Salamon et al. draw
    their curves so.

    Parameters
    ----------
    fill_proba : bool, default=False
        Provide ``predict_proba`` too: the confidence at the predicted class, and the remainder in
        the proportions of the parent's other probabilities (equally if they are all 0). The largest
        entry of such a row can belong to another class than the predicted one.

    References
    ----------
    Salamon et al., "Estimating classification confidence using kernel densities", Section III.

    Examples
    --------
    A subclass whose confidence is the accuracy of each predicted class, whatever the score:

    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from kdgraph.calibration.top_label import TopLabelCalibrator
    >>> class AccuracyOfClass(TopLabelCalibrator):
    ...     def _fit_confidence(self, proba, top_label, correct, weight):
    ...         in_class = np.eye(proba.shape[1])[top_label.predicted]
    ...         self.accuracy_ = (weight * correct) @ in_class / (weight @ in_class)
    ...
    ...     def _confidence(self, proba, top_label):
    ...         return self.accuracy_[top_label.predicted]
    >>> tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    >>> calibrator = AccuracyOfClass(tree, random_state=0).fit(*load_iris(return_X_y=True))
    >>> calibrator.predict_confidence([[5.0, 3.4, 1.5, 0.2]])
    array([1.])
    """

    _: KW_ONLY
    fill_proba: bool = False

    paper_protocol: ClassVar = "in_sample"

    def _needs_many_rows(self) -> bool:
        return True

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        proba = calibration.predict(self.estimator_)
        top_label = TopLabel.from_proba(proba)
        self._fit_confidence(proba, top_label, top_label.correct(calibration.y), calibration.weight)

    def predict(self, X) -> np.ndarray:
        """Return the labels of the parent's largest probabilities, [n]."""
        predicted = self._scores(X).argmax(axis=1)
        return self.classes_[predicted]

    def predict_confidence(self, X) -> np.ndarray:
        """Return the probability that :meth:`predict` is correct, Float[n] in [0, 1]."""
        return self._predict_parts(X)[2]

    def predict_top_label(self, X) -> TopLabel:
        """Return predicted classes, as positions in ``classes_``, with their confidence."""
        _, top_label, confidence = self._predict_parts(X)
        return replace(top_label, confidence=confidence)

    @available_if(fills_rows)
    def predict_proba(self, X) -> np.ndarray:
        """Return rows that sum to 1, with the confidence at the predicted class, Float[n, K]."""
        return fill_rows(*self._predict_parts(X))

    def _predict_parts(self, X: Any) -> tuple[np.ndarray, TopLabel, np.ndarray]:
        proba = self._scores(X)
        top_label = TopLabel.from_proba(proba)
        return proba, top_label, self._confidence(proba, top_label)

    def _scores(self, X) -> np.ndarray:
        check_is_fitted(self)
        return self.estimator_.predict_proba(self._validate_X(X))

    def _fit_confidence(
        self, proba: np.ndarray, top_label: TopLabel, correct: np.ndarray, weight: np.ndarray
    ) -> None:
        raise NotImplementedError

    def _confidence(self, proba: np.ndarray, top_label: TopLabel) -> np.ndarray:
        raise NotImplementedError


def fill_rows(proba: np.ndarray, top_label: TopLabel, confidence: np.ndarray) -> np.ndarray:
    """Return rows of probabilities, Float[n, K], with a given confidence at the predicted class.

    The other entries divide the remainder in the proportions of the parent's probabilities.
    """
    rows = np.arange(len(proba))
    others = proba.copy()
    others[rows, top_label.predicted] = 0
    total = others.sum(axis=1, keepdims=True)
    equal = np.full_like(others, 1 / max(others.shape[1] - 1, 1))
    equal[rows, top_label.predicted] = 0
    proportions = np.where(total > 0, others / np.where(total > 0, total, 1), equal)
    result = proportions * (1 - confidence)[:, None]
    result[rows, top_label.predicted] = confidence
    return result
