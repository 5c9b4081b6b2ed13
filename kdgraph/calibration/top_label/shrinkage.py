"""Confidence by class that is shrunk towards the confidence of all classes.

Salamon et al. fit every class separately. With few calibration rows such a fit is unreliable, so
:class:`ShrinkageCalibrator` averages it with the fit of all rows; the weights are numbers of rows.
Shrinkage is original to kdgraph. :class:`ClassPrecision` is the simplest member: the accuracy of
the predicted class, whatever the score.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from sklearn.utils import check_random_state

from kdgraph.base import Rows
from kdgraph.base.rows import on_one_thread
from kdgraph.calibration.top_label.base import (
    N_FOLDS,
    NEVER,
    ClassAccuracy,
    TopLabelCalibrator,
    can_cross_validate,
    draw_folds,
    warn_of_labels,
)
from kdgraph.metrics import TopLabel, nll_top
from kdgraph.parameters import NonNegative

_nll_top_by_row = cast("Callable[..., np.ndarray]", nll_top.by_row)

PoolSize = NonNegative | Literal["cv"]
POOL_GRID = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0)
"""Candidates of "cv". The NLL is flat between them; the last one nearly removes the classes."""


class ShrinkageTerms(NamedTuple):
    """Confidences of rows before shrinkage, Float[n] each.

    ``own`` is the confidence from the row's predicted class alone, ``own_rows`` the number of
    calibration rows of the class that support it at this score, and ``shared`` the confidence that
    is fitted to all classes.
    """

    own: np.ndarray
    own_rows: np.ndarray
    shared: np.ndarray

    def combine(self, pool: float) -> np.ndarray:
        """Return the average with weights ``own_rows`` and ``pool``, Float[n]."""
        if pool == 0:
            return self.own
        return (self.own_rows * self.own + pool * self.shared) / (self.own_rows + pool)


@dataclass(eq=False, repr=False)
class ShrinkageCalibrator(TopLabelCalibrator):
    """Base class of confidences by class that are shrunk towards the confidence of all classes.

    A subclass implements ``_fit_rows(rows)``, whose X are the parent's probabilities Float[n, K]
    and whose weights are not 0; ``_own_confidence``, ``_own_rows`` and ``_shared_confidence`` of
    ``(proba, top_label)``, which are the :class:`ShrinkageTerms`; and ``_has_class_parameters``,
    which is True if anything is fitted by class.

    Parameters
    ----------
    pool : float or "cv", default=0.0
        Weight m of the shared confidence, in rows: c(k, s) = (n c_own + m c_shared) / (n + m),
        where n calibration rows of the class support c_own at the score s. With 0 each class is
        separate, as in Salamon et al. "cv" chooses among 0, 1, 3, 10, … 10,000 the value with the
        least NLL of correctness (Eq. 14) on calibration rows, in five folds that ``random_state``
        draws; confidences are clipped to at least 1e-12 from 0 and 1. If fewer than two rows are
        correct, or incorrect, cross-validation is impossible and m is 10,000.

    Attributes
    ----------
    pool_, pool_nll_ : float, Float[10] or None
        The value m, and the NLL in nats per row for each candidate of "cv"; None if nothing was
        chosen.
    precision_ : ndarray of shape (K,)
        Accuracy of each class (Conf1) before shrinkage, that of all rows for a class that is never
        predicted.
    rows_ : ndarray of shape (K,)
        Total weight of the calibration rows of each class.

    Notes
    -----
    With few rows, a class without an error has a confidence of 1, or its curve falls to 0 at its
    only error; one contradicting row then costs as much as the clip of the NLL permits. After
    shrinkage, an accuracy is the mean of a beta distribution whose prior is worth m rows of the
    shared confidence, so errors of other classes at such a score stay possible. The number n is the
    weight of all rows of the class for a parametric curve, such as a temperature; for bins it is
    the weight of the bin, for kernels their sum at the score.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from kdgraph.calibration.top_label import BetaCalibration
    >>> calibrator = BetaCalibration(GaussianNB(), pool="cv", random_state=0)
    >>> _ = calibrator.fit(*load_breast_cancer(return_X_y=True))
    >>> calibrator.pool_nll_.shape, bool(calibrator.pool_nll_.min() < calibrator.pool_nll_.max())
    ((10,), True)
    """

    _: KW_ONLY
    pool: PoolSize = 0.0

    def describe(self) -> dict[str, Any]:
        """Return the fitted values for the record: the pool and the NLL of its candidates."""
        if not self.pool:
            return {}
        nll = (
            None
            if self.pool_nll_ is None
            else {
                f"{pool:g}": float(value)
                for pool, value in zip(POOL_GRID, self.pool_nll_, strict=True)
            }
        )
        return {"pool": self.pool_, "pool_nll": nll}

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        self._fit_scores(
            Rows(calibration.predict(self.estimator_), calibration.y, calibration.weight)
        )

    def _fit_scores(self, rows: Rows) -> Rows:
        """Fit to the parent's probabilities, and return the rows of positive weight in float64."""
        rows = rows[rows.weight > 0]
        rows = Rows(np.asarray(rows.X, dtype=np.float64), rows.y, rows.weight)
        chooses = self.pool == "cv" and self._has_class_parameters
        fixed = 0.0 if self.pool == "cv" or not self._has_class_parameters else float(self.pool)
        self.pool_, self.pool_nll_ = fixed, None
        # One thread: several add in another order, and they made small fits 15 times as slow on a
        # busy machine.
        with on_one_thread():
            if chooses:
                self.pool_, self.pool_nll_ = self._choose_pool(rows)
            self._fit_rows(rows)
        return rows

    def _choose_pool(self, rows: Rows) -> tuple[float, np.ndarray | None]:
        """Return the pool with the least cross-validated NLL, and the NLL of each candidate."""
        top_label = TopLabel.from_proba(rows.X)
        if not can_cross_validate(top_label.correct(rows.y)):
            return POOL_GRID[-1], None
        fold = draw_folds(
            top_label.predicted,
            top_label.correct(rows.y),
            N_FOLDS,
            check_random_state(self.random_state),
        )
        # The three terms do not depend on the pool: one fit per fold serves all candidates.
        terms = ShrinkageTerms(*np.empty((3, len(rows))))
        for held_out in (fold == f for f in range(N_FOLDS)):
            fold_model = copy(self)
            fold_model.pool_ = POOL_GRID[-1]  # not 0, so that the shared confidence is fitted
            # Warnings of a fold are hidden: the final fit warns of all rows.
            with warnings.catch_warnings(action="ignore"):
                fold_model._fit_rows(rows[~held_out])
            fold_terms = fold_model._terms(rows.X[held_out], top_label[held_out])
            for values, fold_values in zip(terms, fold_terms, strict=True):
                values[held_out] = fold_values
        nll = [
            _nll_top_by_row(
                rows.y, TopLabel(top_label.predicted, terms.combine(pool), top_label.n_classes)
            )
            for pool in POOL_GRID
        ]
        mean_nll = np.average(nll, axis=1, weights=rows.weight)
        return POOL_GRID[int(mean_nll.argmin())], mean_nll

    def _confidence(self, proba: np.ndarray, top_label: TopLabel) -> np.ndarray:
        if self.pool_:
            return self._terms(proba, top_label).combine(self.pool_)
        return self._own_confidence(proba, top_label)

    def _terms(self, proba: np.ndarray, top_label: TopLabel) -> ShrinkageTerms:
        return ShrinkageTerms(
            self._own_confidence(proba, top_label),
            self._own_rows(proba, top_label),
            self._shared_confidence(proba, top_label),
        )

    def _warn_unless_pooled(self, labels: Any, sentence: str) -> None:
        """Warn of classes without a fit, unless shrinkage replaces it by the shared one."""
        warn_of_labels([] if self.pool_ else labels, sentence)

    @property
    def _has_class_parameters(self) -> bool:
        raise NotImplementedError

    def _fit_rows(self, rows: Rows) -> None:
        raise NotImplementedError

    def _own_confidence(self, proba: np.ndarray, top_label: TopLabel) -> np.ndarray:
        raise NotImplementedError

    def _own_rows(self, proba: np.ndarray, top_label: TopLabel) -> np.ndarray:
        raise NotImplementedError

    def _shared_confidence(self, proba: np.ndarray, top_label: TopLabel) -> np.ndarray:
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class ClassPrecision(ShrinkageCalibrator):
    """Accuracy of the calibration rows of the same predicted class, whatever their scores.

    Salamon et al., Eq. 1 (Conf1): the diagonal of a confusion matrix whose columns, one for each
    predicted class, sum to 1. They recommend it where nearly all scores are 1 (Section XIII D).

    Attributes
    ----------
    shared_ : float
        Accuracy of all rows.

    Examples
    --------
    >>> from kdgraph.parents import PrecomputedScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = np.array([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7]]), np.array([0, 1, 1, 1])
    >>> model = ClassPrecision(FrozenEstimator(PrecomputedScores().fit(X)))
    >>> model = model.fit(X, y, X_calibration=X, y_calibration=y)
    >>> model.predict_confidence([[0.6, 0.4], [0.0, 1.0]])
    array([0.5, 1. ])
    """

    @property
    def _has_class_parameters(self) -> bool:
        return True

    def _fit_rows(self, rows: Rows) -> None:
        top_label = TopLabel.from_proba(rows.X)
        correct = top_label.correct(rows.y)
        accuracy = ClassAccuracy.from_rows(
            top_label.predicted, correct, rows.weight, len(self.classes_)
        )
        self.precision_, self.rows_ = accuracy.precision, accuracy.rows
        self.shared_ = float(np.average(correct, weights=rows.weight))
        self._warn_unless_pooled(self.classes_[accuracy.empty], NEVER)

    def _own_confidence(self, proba: np.ndarray, top_label: TopLabel) -> np.ndarray:
        return self.precision_[top_label.predicted]

    def _own_rows(self, proba: np.ndarray, top_label: TopLabel) -> np.ndarray:
        return self.rows_[top_label.predicted]

    def _shared_confidence(self, proba: np.ndarray, top_label: TopLabel) -> np.ndarray:
        return np.full(len(top_label), self.shared_)
