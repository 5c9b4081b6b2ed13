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

    Attributes
    ----------
    confidence : Float[m]
        Largest probability of each row, of all folds.
    auroc : float or None
        Area under the ROC curve of the OOD score against the test rows, a mean over folds. None
        without a score of its own: minus the confidence has the same order as ``confidence``.

    Examples
    --------
    >>> far = FarRows(confidence=np.array([0.9, 0.5]), auroc=None)
    >>> float(far.confidence.mean())
    0.7
    """

    confidence: np.ndarray
    auroc: float | None


@dataclass(frozen=True)
class PooledPredictions:
    """Predictions of one method, pooled over folds.

    Attributes
    ----------
    proba : Float[n, K]
        Class probabilities of the test rows.
    far : mapping of str to FarRows
        Set of rows out of distribution → outputs.
    fit_seconds : float or None
        Time of the fit after the model, a mean over folds.
    predict_ms : float or None
        Time for a thousand rows in one call, in milliseconds, the model's own included.
    predicted : Int[n] or None
        Labels that the method predicts, as positions in the classes, where they may be others than
        those of the largest probability.

    Examples
    --------
    >>> proba = np.array([[0.25, 0.75], [1.0, 0.0]])
    >>> PooledPredictions(proba, far={}).top_label.confidence
    array([0.75, 1.  ])
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
    """Numbers of one model on the pooled test rows.

    Attributes
    ----------
    error, nll, brier : float
        Means over rows; ``nll`` in nats, with probabilities of at least 1e-6.
    error_stderr, nll_stderr : float
        Their standard errors.
    ece, top_label_ece, classwise_ece : float
        Expected calibration errors in 15 bins of equal width.
    ece_by_chance, top_label_ece_by_chance : float
        The same of a calibrated model with these confidences, a mean over simulations.
    calibrated_p : float
        Share of such simulations with an ECE of at least this one: the p-value of the hypothesis
        that the confidences are correct.
    lce, lce_by_chance : float or None
        Local calibration error, of at most 5,000 rows, and that of a calibrated model. None for
        images.

    Examples
    --------
    >>> y = np.array([0, 0, 1, 1] * 50)
    >>> sure = np.where(y[:, None] == [0, 1], 0.9, 0.1)
    >>> unsure = np.full((200, 2), 0.5)
    >>> methods = {"none": PooledPredictions(unsure, {}), "kdf": PooledPredictions(sure, {})}
    >>> check = ModelCheck(y, ["no", "yes"], methods, gates=frozenset({"kdf"}))
    >>> {name: round(numbers.nll, 3) for name, numbers in check.calibration.items()}
    {'none': 0.693, 'kdf': 0.105}
    >>> round(check.calibration["kdf"].ece, 3)
    0.1
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
    """Numbers of one model on the rows of one group.

    Attributes
    ----------
    name : str
        Name of the group.
    rows : int
        Number of its test rows.
    error : float
        Fraction of wrong predictions.
    confidence : float
        Mean confidence, which equals 1 - error if the model is calibrated on the group.
    gap_stderr : float
        Standard error of confidence minus accuracy.
    ece, ece_by_chance : float
        Expected calibration error in 5 bins, and that of a calibrated model.

    Examples
    --------
    >>> y, groups = np.array([0, 0, 1, 1] * 50), np.arange(200) % 2
    >>> proba = np.where(y[:, None] == [0, 1], 0.9, 0.1)
    >>> methods = {"none": PooledPredictions(proba, far={})}
    >>> check = ModelCheck(y, ["no", "yes"], methods, frozenset(), groups, ["women", "men"])
    >>> [(group.name, group.rows, group.error) for group in check.by_group("none")]
    [('women', 100, 0.0), ('men', 100, 0.0)]
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

    Attributes
    ----------
    y : Int[n]
        Labels of the test rows, as positions in ``classes``.
    classes : sequence of str
        Names of the classes.
    methods : mapping of str to PooledPredictions
        The model without a repair (:data:`UNREPAIRED`) first, then its repairs.
    gates : frozenset of str
        Methods whose probabilities tend to the prior far from the training data.
    groups : Int[n] or None
        Group of each row.
    group_names : sequence of str
        Their names.
    units : Int[n] or None
        Rows with the same number belong together, such as those of one patient.
    folds : int
        Number of folds.
    X : Float[n, m] or None
        Columns of the rows in one unit, categories as columns of 0 and 1: the space in which rows
        are near each other. None for images.

    Examples
    --------
    A model that is never sure, and a repair that is right:

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
        """Return the numbers of one method on each group of enough rows.

        Parameters
        ----------
        name : str
            One of ``methods``.
        """
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

    Labels Int[n] are positions in the classes.

    References
    ----------
    Bröcker and Smith, "Increasing the reliability of reliability diagrams", Weather and Forecasting
    22, 2007: consistency resampling; Vaicenavicius et al., "Evaluating model calibration in
    classification", AISTATS 2019: the test, here with the ECE in 15 bins.

    Examples
    --------
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
