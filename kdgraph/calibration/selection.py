"""Which of several calibrators to use, said by the calibration rows themselves."""

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
from kdgraph.calibration.baselines import ScoreMap, Uncalibrated
from kdgraph.errors import ParameterError
from kdgraph.metrics import nll
from kdgraph.parameters import NonNegative, Range

_nll_by_row = cast("Callable[..., np.ndarray]", nll.by_row)

NONE = "none"
"""The parent as it is, which always takes part."""


@dataclass(eq=False, repr=False)
class Choice:
    """Of several calibrators, and the parent as it is, the one with the least cross-validated loss
    on the calibration rows. Ours.

    Each candidate is fitted with all folds of the calibration rows but one and judged on that one;
    the best is fitted once more with all of them. One that bends to the rows it is fitted on, as
    isotonic regression does with few of them, is thus not judged on these.

    Such a choice is noisy where candidates are alike: the least of several noisy numbers is often
    not that of the best one. With a ``default``, of which there is reason to expect most, another
    has to be clearly better: its loss must be less by ``margin`` standard errors of the difference,
    which is paired by row.

    It stands before the calibrator that a subclass is, which implements ``_candidates()``,
    ``_fold_of(rows)``, ``_loss(...)`` and ``_fitted(...)``, and says of ``rows`` what they are.

    Parameters
    ----------
    candidates : calibrators by name, whose own ``estimator`` is replaced by the fitted parent;
    None: those of the subclass.
    default : name of the candidate that is used unless another is clearly better; None: the best
    one is, however close it is.
    margin : standard errors of the difference that count as clear.
    folds : of the cross-validation; fewer where there are too few rows of a kind.

    Attributes
    ----------
    chosen_ : name of the candidate, "none" for the parent as it is; of equally good ones the first,
    the parent before all others.
    evidence_ : by how many standard errors the best one's loss is below the default's; 0 if they
    are the same, None without a default.
    nll_ : cross-validated loss of each, a mean over rows.
    """

    _: KW_ONLY
    candidates: Mapping[str, Any] | None = None
    default: str | None = None
    margin: NonNegative = 2.0
    folds: Annotated[int, Range(2)] = 5

    _too_few: ClassVar[str]
    """What is said of rows of which there are too few to judge anybody."""

    def _requires_training_rows(self) -> bool:
        return any_requires_training_rows(self._candidates().values())

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        names = (NONE, *self._candidates())
        if self.default is not None and self.default not in names:
            raise ParameterError(
                f"default must be one of the candidates ({', '.join(names)}), got {self.default!r}"
            )
        fold = self._fold_of(calibration)
        if fold is not None:
            losses = self._cross_validated(train, calibration, fold)
            means = {
                name: float(np.average(by_row, weights=calibration.weight))
                for name, by_row in losses.items()
            }
            self.nll_, best = means, min(means, key=means.__getitem__)
            self.chosen_, self.evidence_ = self._choice(best, losses, calibration.weight)
        else:
            left = (
                "the parent stays as it is" if self.default is None else f"{self.default} is used"
            )
            warnings.warn(f"{self._too_few}: nothing can be judged, {left}", stacklevel=4)
            self.chosen_, self.evidence_ = self.default or NONE, None
            self.nll_ = {self.chosen_: None}
        self.calibrated_ = self._fitted(self.chosen_, train, calibration)

    def _choice(
        self, best: str, losses: Mapping[str, np.ndarray], weight: np.ndarray
    ) -> tuple[str, float | None]:
        """Who is used, and how clearly the best is better than the default, of losses of rows with
        weights Float[n].
        """
        if self.default is None:
            return best, None
        gained, n = losses[self.default] - losses[best], len(weight)
        mean = np.average(gained, weights=weight)
        error = np.sqrt(n / (n - 1) * np.sum((weight * (gained - mean)) ** 2)) / weight.sum()
        evidence = float(mean / error) if error else 0.0
        return (best if evidence > self.margin else self.default), evidence

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: the calibrator that was chosen, and the cross-validated
        NLL of each.
        """
        about = (
            {} if self.default is None else {"default": self.default, "evidence": self.evidence_}
        )
        return {
            "chosen": self.chosen_,
            "calibration_nll": self.nll_[self.chosen_],
            "nll": self.nll_,
            **about,
        }

    def _cross_validated(self, train: Rows, rows: Rows, fold: np.ndarray) -> dict[str, np.ndarray]:
        """Loss of each candidate by row; ``fold`` is Int[n]."""
        losses = {name: np.empty(len(rows)) for name in (NONE, *self._candidates())}
        for judged in (fold == f for f in range(fold.max() + 1)):
            for name, found in losses.items():
                found[judged] = self._loss(self._fitted(name, train, rows[~judged]), rows[judged])
        return losses

    def _candidates(self) -> Mapping[str, Any]:
        raise NotImplementedError

    def _fold_of(self, rows: Rows) -> np.ndarray | None:
        """Int[n]: the fold of each row; None where there are too few to judge anybody."""
        raise NotImplementedError

    def _fitted(self, name: str, train: Rows, rows: Rows) -> Any:
        """The candidate behind the parent, fitted with the calibration ``rows``."""
        raise NotImplementedError

    def _loss(self, fitted: Any, rows: Rows) -> np.ndarray:
        """Float[n]: of what it says of ``rows``."""
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class BestCalibrator(Choice, Uncalibrated):
    """Of several calibrators, and the parent as it is, the one with the least cross-validated NLL
    on the calibration rows. Ours.

    How it chooses is told by :class:`Choice`;
    :class:`~kdgraph.calibration.top_label.BestConfidence` does so among calibrators of top-label
    confidence.

    Parameters
    ----------
    estimator, calibration_size, random_state : as in :class:`~kdgraph.calibration.Uncalibrated`;
        ``random_state`` also draws the folds, and seeds candidates that have no seed of their own.
    candidates, default, margin, folds : as in :class:`Choice`. None: temperature, sigmoid and
        isotonic; no more folds than the rarest class has calibration rows.

    Attributes
    ----------
    chosen_, evidence_, nll_ : as in :class:`Choice`; in nats a row, and the label's probability
        counts as at least 1e-6.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_moons(600, noise=0.3, random_state=0)
    >>> BestCalibrator(RandomForestClassifier(50, random_state=0), random_state=0).fit(X, y).chosen_
    'sigmoid'
    """

    _too_few: ClassVar = "a class has fewer than two calibration rows"

    def _needs_unseen_rows(self) -> bool:
        return True

    def _candidates(self) -> Mapping[str, Any]:
        if self.candidates is not None:
            return self.candidates
        return {
            method: ScoreMap(None, method=method)
            for method in ("temperature", "sigmoid", "isotonic")
        }

    def _fold_of(self, rows: Rows) -> np.ndarray | None:
        folds = min(self.folds, int(np.bincount(rows.y, minlength=len(self.classes_)).min()))
        if folds < 2:
            return None
        found = np.empty(len(rows), dtype=np.intp)
        parts = StratifiedKFold(
            folds, shuffle=True, random_state=check_random_state(self.random_state)
        ).split(rows.y, rows.y)
        for f, (_, judged) in enumerate(parts):
            found[judged] = f
        return found

    def _loss(self, fitted: Any, rows: Rows) -> np.ndarray:
        return _nll_by_row(rows.y, fitted.predict_proba(rows.X))

    def _fitted(self, name: str, train: Rows, rows: Rows) -> Any:
        if name == NONE:
            return self.estimator_
        return self._behind(self._candidates()[name], train, rows)
