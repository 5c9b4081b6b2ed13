"""Selection among calibrators of top-label confidence by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state

from kdgraph.base import Rows, seeded_clone
from kdgraph.calibration.selection import NONE, CrossValidatedChoice
from kdgraph.calibration.top_label.base import TopLabelCalibrator, can_cross_validate, draw_folds
from kdgraph.calibration.top_label.curves import BetaCalibration
from kdgraph.calibration.top_label.temperature import TemperatureScaling
from kdgraph.errors import ParameterError
from kdgraph.metrics import TopLabel, nll_top
from kdgraph.parents import PrecomputedScores
from kdgraph.parents.classifiers import PROBABILITY_SUM_TOLERANCE

_nll_top_by_row = cast("Callable[..., np.ndarray]", nll_top.by_row)


@dataclass(eq=False, repr=False)
class BestConfidence(CrossValidatedChoice, TopLabelCalibrator):
    """The calibrator of top-label confidence with the least cross-validated NLL.

    The uncalibrated parent is one of the candidates. All folds are calibration rows; see
    :class:`~kdgraph.calibration.selection.CrossValidatedChoice`.

    Parameters
    ----------
    estimator, fill_proba, calibration_size, random_state
        See :class:`TopLabelCalibrator`; ``random_state`` also draws the folds, and seeds candidates
        without a seed.
    candidates, default, margin, folds, min_rows
        See :class:`~kdgraph.calibration.selection.CrossValidatedChoice`. None: one shared
        temperature (sts), temperatures by class with shrinkage (csts), and beta calibration by
        class with shrinkage (beta). Folds are stratified by predicted class and correctness.

    Attributes
    ----------
    chosen_, evidence_, nll_
        See :class:`~kdgraph.calibration.selection.CrossValidatedChoice`. The NLL is that of
        correctness (Eq. 14 of Salamon et al.), in nats per row, with confidences at least 1e-12
        from 0 and 1: an incorrect prediction at a confidence of 1 costs 27.6, as in the metric
        nll_top.
    calibrated_ : estimator or None
        The chosen candidate, fitted behind the parent's scores; None for the parent's confidence.
    n_rows_ : float
        Total weight of the calibration rows, which is their number.

    Raises
    ------
    ParameterError
        If a candidate has no ``predict_confidence``, or the default is not a candidate.

    Notes
    -----
    Original to kdgraph. The parent predicts once, and candidates get its scores. If fewer than two
    calibration rows are correct, or incorrect, cross-validation is impossible, with a warning.

    A curve that is fitted to few rows is often 0 or 1 somewhere: a bin has one row, or a steep
    curve separates the few errors from the other rows. The next row that contradicts it costs up to
    27.6 nats, and few rows to cross-validate on rarely contain such a row, so that the choice
    cannot avoid these curves. Two rules prevent this. A candidate's confidence c, in folds and in
    the end, becomes (n c + 1/2) / (n + 1) for n rows, as if one more row, half correct, had been
    observed everywhere (Krichevsky and Trofimov 1981). No confidence is then more extreme than n
    rows can support, and the order of confidences is unchanged. And with fewer than ``min_rows``
    rows only the parent, the default and one shared temperature are compared.

    Behind forests on 16 tables, with 174 samples of 20 to 120 calibration rows, the mean NLL of
    correctness was .316 with both rules, .328 with the first one and .402 with none; that of the
    parent was .347. The largest loss against the parent fell from 5.63 to .11.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_moons(600, noise=0.3, random_state=0)
    >>> model = BestConfidence(RandomForestClassifier(50, random_state=0), random_state=0).fit(X, y)
    >>> model.chosen_, sorted(model.nll_)
    ('beta', ['beta', 'csts', 'none', 'sts'])
    """

    _too_few_rows: ClassVar = "fewer than two calibration rows are correct, or incorrect"

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        for name, candidate in self._candidates().items():
            if not hasattr(candidate, "predict_confidence"):
                raise ParameterError(
                    f"candidate {name} must have predict_confidence, {type(candidate).__name__} has"
                    " not; see BestCalibrator"
                )
        scores = _normalized_scores(calibration.predict(self.estimator_))
        self.n_rows_ = float(calibration.weight.sum())
        super()._fit_after(train, Rows(scores, calibration.y, calibration.weight))

    def _candidates(self) -> Mapping[str, Any]:
        if self.candidates is not None:
            return self.candidates
        return {
            "sts": TemperatureScaling(None),
            "csts": TemperatureScaling(None, by_class=True, pool="cv"),
            "beta": BetaCalibration(None, pool="cv"),
        }

    def _draw_folds(self, rows: Rows) -> np.ndarray | None:
        top_label = TopLabel.from_proba(rows.X)
        correct = top_label.correct(rows.y)
        if not can_cross_validate(correct):
            return None
        rng = check_random_state(self.random_state)
        return draw_folds(top_label.predicted, correct, self.folds, rng)

    def _cross_validate(self, train: Rows, rows: Rows, fold: np.ndarray) -> dict[str, np.ndarray]:
        # Warnings of a fold are hidden: the final fit of the chosen candidate warns of all rows.
        with warnings.catch_warnings(action="ignore"):
            return super()._cross_validate(train, rows, fold)

    def _loss(self, fitted: Any, rows: Rows) -> np.ndarray:
        top_label = TopLabel.from_proba(rows.X)
        if fitted is not None:
            # These rows are one fold; the candidate is fitted to the other ones.
            n_fitted = self.n_rows_ - rows.weight.sum()
            confidence = _bounded(fitted.predict_confidence(rows.X), n_fitted)
            top_label = TopLabel(top_label.predicted, confidence)
        return _nll_top_by_row(rows.y, top_label)

    def _fit_candidate(self, name: str, train: Rows, rows: Rows) -> Any:
        if name == NONE:
            return None
        # A frozen parent that returns its rows unchanged, so that candidates are fitted to scores.
        # Its training rows only define the classes.
        classes = np.arange(len(self.classes_))
        one_hot, label = np.repeat(np.eye(len(classes)), 3, axis=0), np.repeat(classes, 3)
        scores = FrozenEstimator(PrecomputedScores().fit(one_hot, label))
        candidate = seeded_clone(self._candidates()[name], self.random_state).set_params(
            estimator=scores
        )
        return candidate.fit(
            one_hot,
            label,
            X_calibration=rows.X,
            y_calibration=rows.y,
            sample_weight_calibration=rows.weight,
        )

    def _confidence(self, proba: np.ndarray, top_label: TopLabel) -> np.ndarray:
        if self.calibrated_ is None:
            return top_label.confidence
        confidence = self.calibrated_.predict_confidence(_normalized_scores(proba))
        return _bounded(confidence, self.n_rows_)


def _bounded(confidence: np.ndarray, n: float) -> np.ndarray:
    """Return the confidence with one more row everywhere that is half correct, Float[m]."""
    return (n * confidence + 0.5) / (n + 1)


def _normalized_scores(proba: np.ndarray) -> np.ndarray:
    """Return rows in float64, and divide those by their sum that are too far from 1."""
    # Only float32 rows need the division. It is not applied to the others, because the last bit can
    # decide on which side of a bin's edge a score lies.
    proba = np.asarray(proba, dtype=np.float64)
    total = proba.sum(axis=1, keepdims=True)
    return proba / np.where(np.abs(total - 1) > PROBABILITY_SUM_TOLERANCE / 2, total, 1)
