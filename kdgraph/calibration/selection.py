"""Selection among calibrators by cross-validation on the calibration rows.

:class:`CrossValidatedChoice` is the mixin that chooses; :class:`BestCalibrator` uses it for full
rows of probabilities. Original to kdgraph.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, cast

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state

from kdgraph.base import Rows
from kdgraph.base.posthoc import any_requires_training_rows
from kdgraph.calibration.baselines import (
    ScoreMap,
    Uncalibrated,
    fit_behind_parent,
    needs_many_rows,
)
from kdgraph.errors import ParameterError
from kdgraph.metrics import nll
from kdgraph.parameters import NonNegative, Range

_nll_by_row = cast("Callable[..., np.ndarray]", nll.by_row)

NONE = "none"
"""Name of the uncalibrated parent, which is always a candidate."""


@dataclass(eq=False, repr=False)
class CrossValidatedChoice:
    """Mixin that chooses the calibrator with the least cross-validated loss.

    Each candidate is fitted to all folds of the calibration rows but one and evaluated on that
    fold; the best candidate is fitted to all of them. So a flexible candidate, such as isotonic
    regression with few rows, is not evaluated on the rows of its fit.

    The choice is noisy if candidates are similar: the least of several noisy numbers often does not
    belong to the best candidate. A ``default`` is a candidate that is expected to be good. Another
    one must then be clearly better: its loss must be lower by ``margin`` standard errors of the
    difference, which is paired by row.

    The mixin precedes the calibrator in the bases of a subclass. The subclass implements
    ``_candidates()``, ``_draw_folds(rows)``, ``_loss(...)`` and ``_fit_candidate(...)``, and
    defines what ``rows`` contain.

    Parameters
    ----------
    candidates : mapping of str to estimator, or None, default=None
        Calibrators by name, whose own ``estimator`` is replaced by the fitted parent;
        ``random_state`` seeds those without a seed. None: those of the subclass.
    default : str or None, default=None
        Name of the candidate that is used unless another one is clearly better. None: the best one
        is used.
    margin : float, default=2.0
        Number of standard errors of the difference that is clear.
    folds : int, default=5
        Number of folds, drawn by ``random_state``; fewer if there are too few rows of a class.
    min_rows : int, default=100
        Smallest number of calibration rows for a comparison of all candidates. With fewer rows, the
        parent, the default and rigid candidates are compared: not those that fit steps or curves of
        several parameters without a penalty.

    Attributes
    ----------
    chosen_ : str
        Name of the chosen candidate, "none" for the uncalibrated parent; the first of equally good
        ones, and the parent before all others.
    evidence_ : float or None
        Difference between the losses of the default and the best candidate in standard errors; 0 if
        they are the same, None without a default.
    nll_ : dict of str to float
        Cross-validated loss of each candidate, a mean over rows.
    """

    _: KW_ONLY
    candidates: Mapping[str, Any] | None = None
    default: str | None = None
    margin: NonNegative = 2.0
    folds: Annotated[int, Range(2)] = 5
    min_rows: Annotated[int, Range(0)] = 100

    _too_few_rows: ClassVar[str]
    """Reason in the warning if cross-validation is impossible."""

    def _requires_training_rows(self) -> bool:
        return any_requires_training_rows(self._candidates().values())

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        names = (NONE, *self._candidates())
        if self.default is not None and self.default not in names:
            raise ParameterError(
                f"default must be one of the candidates ({', '.join(names)}), got {self.default!r}"
            )
        # Losses are of rows outside each fit; the chosen candidate is then fitted to all rows.
        fold = self._draw_folds(calibration)
        if fold is not None:
            losses = self._cross_validate(train, calibration, fold)
            self.nll_ = {
                name: float(np.average(by_row, weights=calibration.weight))
                for name, by_row in losses.items()
            }
            best = min(self.nll_, key=self.nll_.__getitem__)
            self.chosen_, self.evidence_ = self._choose(best, losses, calibration.weight)
        else:
            consequence = (
                "the parent stays uncalibrated"
                if self.default is None
                else f"{self.default} is used"
            )
            warnings.warn(
                f"{self._too_few_rows}: cross-validation is impossible, {consequence}", stacklevel=4
            )
            self.chosen_, self.evidence_ = self.default or NONE, None
            self.nll_ = {self.chosen_: None}
        self.calibrated_ = self._fit_candidate(self.chosen_, train, calibration)

    def _choose(
        self, best: str, losses: Mapping[str, np.ndarray], weight: np.ndarray
    ) -> tuple[str, float | None]:
        """Return the choice, and the gain of the best over the default in standard errors."""
        if self.default is None:
            return best, None
        gain, n = losses[self.default] - losses[best], len(weight)
        mean = np.average(gain, weights=weight)
        error = np.sqrt(n / (n - 1) * np.sum((weight * (gain - mean)) ** 2)) / weight.sum()
        evidence = float(mean / error) if error else 0.0
        return (best if evidence > self.margin else self.default), evidence

    def describe(self) -> dict[str, Any]:
        """Return the fitted values for the record: the choice, and the NLL of each candidate."""
        about_default = (
            {} if self.default is None else {"default": self.default, "evidence": self.evidence_}
        )
        return {
            "chosen": self.chosen_,
            "calibration_nll": self.nll_[self.chosen_],
            "nll": self.nll_,
            **about_default,
        }

    def _cross_validate(self, train: Rows, rows: Rows, fold: np.ndarray) -> dict[str, np.ndarray]:
        """Return the loss of each candidate by row; ``fold`` is Int[n]."""
        losses = {name: np.empty(len(rows)) for name in self._compared(rows)}
        for held_out in (fold == f for f in range(fold.max() + 1)):
            for name, loss in losses.items():
                fitted = self._fit_candidate(name, train, rows[~held_out])
                loss[held_out] = self._loss(fitted, rows[held_out])
        return losses

    def _compared(self, rows: Rows) -> tuple[str, ...]:
        """Return the names of the candidates to compare on these rows, that of the parent first."""
        # Few rows make a flexible candidate predict 0 or 1 somewhere, and too few of them are left
        # out of a fit to contain a row that contradicts it.
        candidates = self._candidates()
        has_enough_rows = len(rows) >= self.min_rows
        return (
            NONE,
            *(
                name
                for name, candidate in candidates.items()
                if has_enough_rows or name == self.default or not needs_many_rows(candidate)
            ),
        )

    def _candidates(self) -> Mapping[str, Any]:
        """Return the candidates by name, without the parent."""
        raise NotImplementedError

    def _draw_folds(self, rows: Rows) -> np.ndarray | None:
        """Return the fold of each row, Int[n]; None if there are too few rows."""
        raise NotImplementedError

    def _fit_candidate(self, name: str, train: Rows, rows: Rows) -> Any:
        """Return the candidate behind the parent, fitted to calibration ``rows``."""
        raise NotImplementedError

    def _loss(self, fitted: Any, rows: Rows) -> np.ndarray:
        """Return the loss of a fitted candidate by row, Float[n]."""
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class BestCalibrator(CrossValidatedChoice, Uncalibrated):
    """The calibrator with the least cross-validated NLL on the calibration rows.

    Candidates are the uncalibrated parent, temperature, sigmoid and isotonic, or those that are
    passed; there are at most as many folds as calibration rows of the rarest class. The NLL is in
    nats per row, with the label's probability clipped to at least 1e-6.
    :class:`~kdgraph.calibration.top_label.BestConfidence` chooses among calibrators of top-label
    confidence.

    With fewer than ``min_rows`` rows isotonic regression is not compared: it gives a class the
    probability 0 below its lowest row. Behind forests on 12 tables, with 20 calibration rows, a
    choice that included it raised the NLL by up to .81 against the parent; without it the largest
    loss was .07.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_moons(600, noise=0.3, random_state=0)
    >>> BestCalibrator(RandomForestClassifier(50, random_state=0), random_state=0).fit(X, y).chosen_
    'sigmoid'
    """

    _too_few_rows: ClassVar = "a class has fewer than two calibration rows"

    def _needs_unseen_rows(self) -> bool:
        return True

    def _candidates(self) -> Mapping[str, Any]:
        if self.candidates is not None:
            return self.candidates
        return {
            method: ScoreMap(None, method=method)
            for method in ("temperature", "sigmoid", "isotonic")
        }

    def _draw_folds(self, rows: Rows) -> np.ndarray | None:
        n_folds = min(self.folds, int(np.bincount(rows.y, minlength=len(self.classes_)).min()))
        if n_folds < 2:
            return None
        rng = check_random_state(self.random_state)
        splits = StratifiedKFold(n_folds, shuffle=True, random_state=rng).split(rows.y, rows.y)
        fold = np.empty(len(rows), dtype=np.intp)
        for f, (_, held_out) in enumerate(splits):
            fold[held_out] = f
        return fold

    def _loss(self, fitted: Any, rows: Rows) -> np.ndarray:
        is_parent = fitted is self.estimator_
        proba = rows.predict(fitted) if is_parent else fitted._predict_rows(rows)
        return _nll_by_row(rows.y, proba)

    def _fit_candidate(self, name: str, train: Rows, rows: Rows) -> Any:
        if name == NONE:
            return self.estimator_
        return fit_behind_parent(self, self._candidates()[name], train, rows)
