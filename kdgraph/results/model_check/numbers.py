"""Numbers of a model and of its repairs, from predictions of rows outside of their fits.

Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from kdgraph.metrics import (
    TopLabel,
    brier,
    classwise_ece,
    ece,
    ece_if_calibrated,
    lce,
    nll,
    top_label_ece,
    top_label_ece_if_calibrated,
)
from kdgraph.metrics.calibration import simulated_errors
from kdgraph.metrics.reliability_bins import binned_rows
from kdgraph.results.model_check.choice import Choice, choose_by_loss

UNREPAIRED = "none"
"""Name of the model without a repair among the methods."""
MIN_GROUP_ROWS = 10
"""Groups with fewer rows have no numbers of their own."""
_LOCAL_ROWS, _LOCAL_DRAWS = 5000, 20
"""Rows whose neighbours are searched, and simulations of a calibrated model."""
_nll_by_row = cast("Callable[..., np.ndarray]", nll.by_row)


@dataclass(frozen=True)
class FarRows:
    """Outputs for one set of rows out of distribution.

    ``confidence``, Float[m], is the largest probability of each row, of all folds. ``auroc`` is the
    area under the ROC curve of the OOD score against the test rows, a mean over folds. None without
    a score of its own: minus the confidence has the same order as ``confidence``.
    """

    confidence: np.ndarray
    auroc: float | None


@dataclass(frozen=True)
class PooledPredictions:
    """Predictions of one method, pooled over folds.

    ``proba``, Float[n, K], are of the test rows, ``far`` maps sets of rows out of distribution to
    outputs. ``fit_seconds`` is the time of the fit after the model, a mean over folds,
    ``predict_ms`` that for a thousand rows in one call, the model's own included. ``predicted``,
    Int[n], are labels, as positions in the classes, where they may be others than those of the
    largest probability.
    """

    proba: np.ndarray
    far: Mapping[str, FarRows]
    fit_seconds: float | None = None
    predict_ms: float | None = None
    predicted: np.ndarray | None = None

    @property
    def top_label(self) -> TopLabel:
        """Predicted classes with their probabilities."""
        if self.predicted is None:
            return TopLabel.from_proba(self.proba)
        confidence = self.proba[np.arange(len(self.proba)), self.predicted]
        return TopLabel(self.predicted, confidence, self.proba.shape[1])


@dataclass(frozen=True)
class Calibration:
    """Numbers of one model on the pooled test rows; ``error``, ``nll`` and ``brier`` are means.

    ``nll`` is in nats, with probabilities of at least 1e-6. ECEs are in 15 bins of equal width;
    those ``by_chance`` are of a calibrated model with these confidences, a mean over simulations.
    ``calibrated_p`` is the fraction of such simulations with an ECE of at least this one: the
    p-value of the hypothesis that the confidences are correct. ``lce`` is of at most 5,000 rows;
    None for images.
    """

    error: float
    error_stderr: float
    nll: float
    nll_stderr: float
    brier: float
    ece: float
    ece_by_chance: float
    calibrated_p: float
    top_label_ece: float
    top_label_ece_by_chance: float
    classwise_ece: float
    lce: float | None
    lce_by_chance: float | None


@dataclass(frozen=True)
class GroupNumbers:
    """Numbers of one model on the test rows of one group.

    ``confidence`` is a mean, which equals 1 - error if the model is calibrated on the group,
    ``gap_stderr`` the standard error of confidence minus accuracy. ECEs are in 5 bins.
    """

    name: str
    rows: int
    error: float
    confidence: float
    gap_stderr: float
    ece: float
    ece_by_chance: float


@dataclass(frozen=True)
class ModelCheck:
    """A model and its repairs on the same rows.

    ``y``, Int[n], are labels of the test rows as positions in ``classes``. ``methods`` has the
    model without a repair (:data:`UNREPAIRED`) first. ``gates`` are methods whose probabilities
    tend to the prior far from the training data. Rows with the same number in ``units``, Int[n],
    belong together, such as those of one patient. ``X``, Float[n, m], are the columns in one unit,
    categories as columns of 0 and 1: the space in which rows are near each other; None for images.

    >>> y = np.array([0, 0, 1, 1] * 50)
    >>> sure = np.where(y[:, None] == [0, 1], 0.9, 0.1)
    >>> unsure = np.full((200, 2), 0.5)
    >>> methods = {"none": PooledPredictions(unsure, {}), "kdf": PooledPredictions(sure, {})}
    >>> check = ModelCheck(y, ["no", "yes"], methods, gates=frozenset({"kdf"}))
    >>> check.choice.chosen, check.helps, check.gated
    ('kdf', True, 'kdf')
    """

    y: np.ndarray
    classes: Sequence[str]
    methods: Mapping[str, PooledPredictions]
    gates: frozenset[str]
    groups: np.ndarray | None = None
    group_names: Sequence[str] = ()
    units: np.ndarray | None = None
    folds: int = 5
    X: np.ndarray | None = None

    @property
    def prior(self) -> float:
        """Fraction of the largest class."""
        return float(np.bincount(self.y, minlength=len(self.classes)).max() / len(self.y))

    @cached_property
    def choice(self) -> Choice:
        """The repair with the least NLL, with its uncertainty."""
        losses = {name: _nll_by_row(self.y, method.proba) for name, method in self.methods.items()}
        return choose_by_loss(losses, UNREPAIRED, units=self.units)

    @property
    def helps(self) -> bool:
        """True if the chosen repair is clearly better than the model."""
        return UNREPAIRED not in self.choice.as_good

    @property
    def gated(self) -> str | None:
        """The gate or density with the least NLL, None without any."""
        loss = {name: self.choice.methods[name].loss for name in self.methods if name in self.gates}
        return min(loss, key=loss.__getitem__) if loss else None

    @cached_property
    def calibration(self) -> dict[str, Calibration]:
        """Numbers of each method."""
        return {name: self._calibration(method) for name, method in self.methods.items()}

    def _calibration(self, method: PooledPredictions) -> Calibration:
        top, y = method.top_label, self.y
        wrong, loss = ~top.correct(y), _nll_by_row(y, method.proba)
        root = np.sqrt(len(y))
        return Calibration(
            error=float(wrong.mean()),
            error_stderr=float(wrong.std() / root),
            nll=float(loss.mean()),
            nll_stderr=float(loss.std() / root),
            brier=float(brier(y, method.proba)),
            ece=float(ece(y, top)),
            ece_by_chance=float(ece_if_calibrated(top)),
            calibrated_p=p_value_of_calibration(y, top),
            top_label_ece=float(top_label_ece(y, top)),
            top_label_ece_by_chance=float(top_label_ece_if_calibrated(top)),
            classwise_ece=float(classwise_ece(y, method.proba)),
            lce=self._lce(y, top),
            lce_by_chance=self._lce_by_chance(top),
        )

    def _lce(self, y: np.ndarray, top: TopLabel) -> float | None:
        if self.X is None:
            return None
        rows = np.random.default_rng(0).permutation(len(y))[:_LOCAL_ROWS]
        return float(lce(y[rows], top[rows], self.X[rows]))

    def _lce_by_chance(self, top: TopLabel) -> float | None:
        """Return the mean over simulations of a calibrated model: the error by chance alone."""
        if self.X is None:
            return None
        rng, k = np.random.default_rng(1), len(self.classes)
        errors = []
        for _ in range(_LOCAL_DRAWS):
            wrong = rng.random(len(top)) >= top.confidence
            errors.append(self._lce(np.where(wrong, (top.predicted + 1) % k, top.predicted), top))
        return float(np.mean(errors))

    def by_group(self, name: str) -> list[GroupNumbers]:
        """Return the numbers of one of the methods on each group of enough rows."""
        top = self.methods[name].top_label
        numbers = []
        for position, group in enumerate(self.group_names):
            is_in = np.asarray(self.groups) == position
            rows = int(is_in.sum())
            if rows < MIN_GROUP_ROWS:
                continue
            part, y = top[is_in], self.y[is_in]
            gap = part.confidence - part.correct(y)
            numbers.append(
                GroupNumbers(
                    name=str(group),
                    rows=rows,
                    error=float(1 - part.correct(y).mean()),
                    confidence=float(part.confidence.mean()),
                    gap_stderr=float(gap.std() / np.sqrt(rows)),
                    ece=float(ece(y, part, bins=5)),
                    ece_by_chance=float(ece_if_calibrated(part, bins=5)),
                )
            )
        return numbers


def p_value_of_calibration(
    y: np.ndarray, top_label: TopLabel, *, draws: int = 999, seed: int = 0
) -> float:
    """Return the p-value of the hypothesis that each prediction is right with its confidence.

    Labels Int[n] are positions in the classes. Resampling is that of Bröcker and Smith, "Increasing
    the reliability of reliability diagrams", Weather and Forecasting 22, 2007; the test is that of
    Vaicenavicius et al., "Evaluating model calibration in classification", AISTATS 2019, here with
    the ECE in 15 bins.

    >>> top_label = TopLabel(np.zeros(200, dtype=int), np.full(200, 0.75), 2)
    >>> p_value_of_calibration(np.zeros(200, dtype=int), top_label)
    0.001
    """
    rows = binned_rows(np.asarray(top_label.confidence, dtype=np.float64), 15, "uniform")
    measured = rows.error(top_label.correct(y), "l1", debiased=False)
    simulated = simulated_errors(rows, "l1", False, draws, np.random.default_rng(seed))
    # Sums of the same rows may differ in the last bit.
    at_least = simulated >= measured * (1 - 1e-12)
    return float((1 + at_least.sum()) / (1 + draws))
