"""Cross-validation of calibrators of top-label confidence: selection among them, cross-fitting."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, cast

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state

from kdgraph.base import Rows, seeded_clone
from kdgraph.base.posthoc import any_requires_training_rows
from kdgraph.calibration.selection import NONE, CrossValidatedChoice
from kdgraph.calibration.top_label.base import TopLabelCalibrator, can_cross_validate, draw_folds
from kdgraph.calibration.top_label.curves import BetaCalibration
from kdgraph.calibration.top_label.kernel_density import KernelDensityConfidence
from kdgraph.calibration.top_label.temperature import TemperatureScaling
from kdgraph.errors import ParameterError
from kdgraph.metrics import TopLabel, nll_top
from kdgraph.parameters import Range
from kdgraph.parents import PrecomputedScores
from kdgraph.parents.classifiers import PROBABILITY_SUM_TOLERANCE

_nll_top_by_row = cast("Callable[..., np.ndarray]", nll_top.by_row)


@dataclass(eq=False, repr=False)
class BestConfidence(CrossValidatedChoice, TopLabelCalibrator):
    """The calibrator of top-label confidence with the least cross-validated NLL.

    Candidates are the uncalibrated parent, one shared temperature (sts), temperatures by class with
    shrinkage (csts), and beta calibration by class with shrinkage (beta), or those that are passed.
    Folds of calibration rows are stratified by predicted class and correctness. The NLL is that of
    correctness (Eq. 14 of Salamon et al.), in nats per row, with confidences at least 1e-12 from 0
    and 1: an incorrect prediction at a confidence of 1 costs 27.6, as in the metric nll_top.

    Attributes
    ----------
    calibrated_ : estimator or None
        The chosen candidate, fitted behind the parent's scores; None for the parent's confidence.
    n_rows_ : float
        Total weight of the calibration rows, which is their number.

    Notes
    -----
    Original to kdgraph. The parent predicts once, and candidates get its scores. If fewer than two
    calibration rows are correct, or incorrect, cross-validation is impossible, with a warning.

    A curve that is fitted to few rows is often 0 or 1 somewhere, and few rows to cross-validate on
    rarely contain one that contradicts it. Two rules prevent that such a curve is chosen. A
    candidate's confidence c, in folds and in the end, becomes (n c + 1/2) / (n + 1) for n rows, as
    if one more row, half correct, had been observed everywhere (Krichevsky and Trofimov 1981). And
    with fewer than ``min_rows`` rows only the parent, the default and one shared temperature are
    compared.

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
        return _fit_to_scores(self, self._candidates()[name], rows)

    def _confidence(self, proba: np.ndarray, top_label: TopLabel) -> np.ndarray:
        if self.calibrated_ is None:
            return top_label.confidence
        confidence = self.calibrated_.predict_confidence(_normalized_scores(proba))
        return _bounded(confidence, self.n_rows_)


@dataclass(eq=False, repr=False)
class CrossFittedConfidence(TopLabelCalibrator):
    """Any calibrator of top-label confidence, cross-fitted on the calibration rows.

    The calibrator is fitted to all folds of the calibration rows but one, for each fold. A
    calibration row gets its confidence from the fit without its fold, so that the loss on these
    rows is an estimate for new ones, where that of one fit to all of them is too low. A new row
    gets the mean confidence of all fits.

    Parameters
    ----------
    calibrator : estimator or None, default=None
        Calibrator with ``predict_confidence``, whose own ``estimator`` is replaced by the fitted
        parent; ``random_state`` seeds it if it has no seed. None: kernel densities,
        :class:`KernelDensityConfidence`.
    folds : int, default=5
        Number of folds, drawn by ``random_state`` and stratified by predicted class and
        correctness.

    Attributes
    ----------
    calibrators_ : list of estimator
        Fitted calibrators, one for each fold; a single one, fitted to all rows, if cross-validation
        is impossible.
    fold_ : ndarray of shape (n,) or None
        Fold of each calibration row, Int[n].
    confidence_ : ndarray of shape (n,) or None
        Cross-fitted confidence of the calibration rows, Float[n].
    nll_ : float or None
        Mean NLL of correctness (Eq. 14) of ``confidence_``, in nats per row, with confidences at
        least 1e-12 from 0 and 1.

    Notes
    -----
    Salamon et al., Section VIII, third approach: "use cross-validation on test data". How
    confidences of the folds become one for a new row is not stated there; the mean is that of
    scikit-learn's ``CalibratedClassifierCV``. With fewer than two correct calibration rows, or two
    incorrect ones, cross-validation is impossible: one calibrator is fitted to all rows, with a
    warning.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_moons(600, noise=0.3, random_state=0)
    >>> model = CrossFittedConfidence(RandomForestClassifier(50, random_state=0), random_state=0)
    >>> model = model.fit(X, y)
    >>> len(model.calibrators_), model.confidence_.shape
    (5, (180,))
    """

    _: KW_ONLY
    calibrator: Any = None
    folds: Annotated[int, Range(2)] = 5

    def describe(self) -> dict[str, Any]:
        """Return the fitted values for the record: the number of fits and the cross-fitted NLL."""
        return {"fits": len(self.calibrators_), "cross_fitted_nll": self.nll_}

    def _requires_training_rows(self) -> bool:
        return any_requires_training_rows([self.calibrator])

    def _fit_confidence(
        self, proba: np.ndarray, top_label: TopLabel, correct: np.ndarray, weight: np.ndarray
    ) -> None:
        raise NotImplementedError  # the labels are needed too, see _fit_after

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        calibrator = KernelDensityConfidence(None) if self.calibrator is None else self.calibrator
        if not hasattr(calibrator, "predict_confidence"):
            raise ParameterError(
                f"calibrator must have predict_confidence, {type(calibrator).__name__} has not; use"
                " one of kdgraph.calibration.top_label"
            )
        scores = _normalized_scores(calibration.predict(self.estimator_))
        rows = Rows(scores, calibration.y, calibration.weight)
        top_label = TopLabel.from_proba(scores)
        correct = top_label.correct(rows.y)
        self.fold_, self.confidence_, self.nll_ = None, None, None
        if not can_cross_validate(correct):
            warnings.warn(
                "fewer than two calibration rows are correct, or incorrect: cross-fitting is"
                f" impossible, {type(calibrator).__name__} is fitted to all of them",
                stacklevel=4,
            )
            self.calibrators_ = [_fit_to_scores(self, calibrator, rows)]
            return
        self.fold_ = draw_folds(
            top_label.predicted, correct, self.folds, check_random_state(self.random_state)
        )
        self.calibrators_, self.confidence_ = [], np.empty(len(rows))
        for held_out in (self.fold_ == f for f in range(self.folds)):
            fitted = _fit_to_scores(self, calibrator, rows[~held_out])
            # Fewer rows than folds leave folds empty.
            if held_out.any():
                self.confidence_[held_out] = fitted.predict_confidence(scores[held_out])
            self.calibrators_.append(fitted)
        by_row = _nll_top_by_row(
            rows.y, TopLabel(top_label.predicted, self.confidence_, top_label.n_classes)
        )
        self.nll_ = float(np.average(by_row, weights=rows.weight))

    def _confidence(self, proba: np.ndarray, top_label: TopLabel) -> np.ndarray:
        scores = _normalized_scores(proba)
        return np.mean([one.predict_confidence(scores) for one in self.calibrators_], axis=0)


def _fit_to_scores(model: TopLabelCalibrator, calibrator: Any, rows: Rows) -> Any:
    # The X of the rows are scores. A frozen parent that returns its rows unchanged lets calibrators
    # be fitted to them; its training rows only define the classes.
    classes = np.arange(len(model.classes_))
    one_hot, label = np.repeat(np.eye(len(classes)), 3, axis=0), np.repeat(classes, 3)
    scores = FrozenEstimator(PrecomputedScores().fit(one_hot, label))
    fitted = seeded_clone(calibrator, model.random_state).set_params(estimator=scores)
    return fitted.fit(
        one_hot,
        label,
        X_calibration=rows.X,
        y_calibration=rows.y,
        sample_weight_calibration=rows.weight,
    )


def _bounded(confidence: np.ndarray, n: float) -> np.ndarray:
    # As if one more row, half correct, had been observed everywhere.
    return (n * confidence + 0.5) / (n + 1)


def _normalized_scores(proba: np.ndarray) -> np.ndarray:
    """Return rows in float64, and divide those by their sum that are too far from 1."""
    # Only float32 rows need the division. It is not applied to the others, because the last bit can
    # decide on which side of a bin's edge a score lies.
    proba = np.asarray(proba, dtype=np.float64)
    total = proba.sum(axis=1, keepdims=True)
    return proba / np.where(np.abs(total - 1) > PROBABILITY_SUM_TOLERANCE / 2, total, 1)
