"""Which of several calibrators of top-label confidence to use, said by the calibration rows
themselves.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state

from kdgraph.base import Rows, seeded_clone
from kdgraph.calibration.selection import NONE, Choice
from kdgraph.calibration.top_label.base import TopLabelCalibrator, can_cross_validate, draw_folds
from kdgraph.calibration.top_label.curves import BetaCalibration
from kdgraph.calibration.top_label.temperature import TemperatureScaling
from kdgraph.errors import ParameterError
from kdgraph.metrics import TopLabel, nll_top
from kdgraph.parents import PrecomputedScores
from kdgraph.parents.classifiers import PROBABILITY_SUM_TOLERANCE

_nll_top_by_row = cast("Callable[..., np.ndarray]", nll_top.by_row)


@dataclass(eq=False, repr=False)
class BestConfidence(Choice, TopLabelCalibrator):
    """Of several calibrators of top-label confidence, and the parent as it is, the one with the
    least cross-validated NLL. Ours.

    How it chooses is told by :class:`~kdgraph.calibration.selection.Choice`; all of it is done on
    the calibration rows.

    Parameters
    ----------
    estimator, fill_proba, calibration_size, random_state : as in :class:`TopLabelCalibrator`;
        ``random_state`` also draws the folds, and seeds candidates that have no seed of their own.
    candidates, default, margin, folds : as in :class:`~kdgraph.calibration.selection.Choice`. None:
        shared temperature (sts), temperatures by class, pooled (csts), and beta calibration by
        class, pooled (beta). Rows of one predicted class that are all right, or all wrong, are
        dealt out to the folds evenly.

    Attributes
    ----------
    chosen_, evidence_, nll_ : as in :class:`~kdgraph.calibration.selection.Choice`; the NLL is that
        of being right (Eq. 14 of Salamon et al.), in nats a row, with confidences at least 1e-12
        from 0 and 1: a wrong row at a confidence of 1 costs 27.6, as it does in the metric nll_top.
    calibrated_ : the candidate that was chosen, fitted behind the parent's scores; None for the
        parent's own confidence.

    Raises
    ------
    ParameterError
        A candidate that has no ``predict_confidence``; a default that is none of them.

    Notes
    -----
    The parent is asked once; its candidates see its scores. Where fewer than two calibration rows
    are right, or wrong, nothing can be judged, with a warning.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_moons(600, noise=0.3, random_state=0)
    >>> model = BestConfidence(RandomForestClassifier(50, random_state=0), random_state=0).fit(X, y)
    >>> model.chosen_, sorted(model.nll_)
    ('beta', ['beta', 'csts', 'none', 'sts'])
    """

    _too_few: ClassVar = "fewer than two calibration rows are right, or wrong"

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        for name, candidate in self._candidates().items():
            if not hasattr(candidate, "predict_confidence"):
                raise ParameterError(
                    f"candidate {name} must have predict_confidence, {type(candidate).__name__} has"
                    " not; see BestCalibrator"
                )
        scores = _as_scores(self.estimator_.predict_proba(calibration.X))
        super()._fit_after(train, Rows(scores, calibration.y, calibration.weight))

    def _candidates(self) -> Mapping[str, Any]:
        if self.candidates is not None:
            return self.candidates
        csts, beta = (
            TemperatureScaling(None, by_class=True, pool="cv"),
            BetaCalibration(None, pool="cv"),
        )
        return {"sts": TemperatureScaling(None), "csts": csts, "beta": beta}

    def _fold_of(self, rows: Rows) -> np.ndarray | None:
        top = TopLabel.of(rows.X)
        correct = top.correct(rows.y)
        rng = check_random_state(self.random_state)
        return (
            draw_folds(top.predicted, correct, self.folds, rng)
            if can_cross_validate(correct)
            else None
        )

    def _cross_validated(self, train: Rows, rows: Rows, fold: np.ndarray) -> dict[str, np.ndarray]:
        with warnings.catch_warnings(
            action="ignore"
        ):  # of the rows of a fold; the one that is chosen warns of all rows
            return super()._cross_validated(train, rows, fold)

    def _loss(self, fitted: Any, rows: Rows) -> np.ndarray:
        top = TopLabel.of(rows.X)
        return _nll_top_by_row(
            rows.y,
            top if fitted is None else TopLabel(top.predicted, fitted.predict_confidence(rows.X)),
        )

    def _fitted(self, name: str, train: Rows, rows: Rows) -> Any:
        if name == NONE:
            return None
        classes = np.arange(len(self.classes_))
        each, label = (
            np.repeat(np.eye(len(classes)), 3, axis=0),
            np.repeat(classes, 3),
        )  # untrained: they say which classes there are
        scores = FrozenEstimator(PrecomputedScores().fit(each, label))
        candidate = seeded_clone(self._candidates()[name], self.random_state).set_params(
            estimator=scores
        )
        return candidate.fit(
            each,
            label,
            X_calibration=rows.X,
            y_calibration=rows.y,
            sample_weight_calibration=rows.weight,
        )

    def _confidence(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        if self.calibrated_ is None:
            return top.confidence
        return self.calibrated_.predict_confidence(_as_scores(proba))


def _as_scores(proba: np.ndarray) -> np.ndarray:
    """Float[n, K]: the same rows; those in single precision whose sum is too loosely 1 for scores,
    divided by it.

    No others, for whom a bit may decide on which side of a bin's edge they are.
    """
    proba = np.asarray(proba, dtype=np.float64)
    total = proba.sum(axis=1, keepdims=True)
    return proba / np.where(np.abs(total - 1) > PROBABILITY_SUM_TOLERANCE / 2, total, 1)
