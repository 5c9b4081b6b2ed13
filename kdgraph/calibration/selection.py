"""Which of several calibrators to use, said by the calibration rows themselves."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, cast

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state

from kdgraph.calibration.baselines import ScoreMap, Uncalibrated
from kdgraph.errors import ParameterError
from kdgraph.metrics import nll
from kdgraph.parameters import NonNegative, Range
from kdgraph.parents import Rows

_nll_by_row = cast("Callable[..., np.ndarray]", nll.by_row)

NONE = "none"
"""The parent as it is, which always takes part."""


@dataclass(eq=False, repr=False)
class BestCalibrator(Uncalibrated):
    """Of several calibrators, and the parent as it is, the one with the least cross-validated NLL on the calibration rows. Ours.

    Each candidate is fitted with all folds of the calibration rows but one and judged on that one; the best is fitted once more with all of
    them. One that bends to the rows it is fitted on, as isotonic regression does with few of them, is thus not judged on these.

    Such a choice is noisy where candidates are alike: the least of several noisy numbers is often not that of the best one. With a
    ``default``, of which there is reason to expect most, another has to be clearly better: its NLL must be less by ``margin`` standard
    errors of the difference, which is paired by row.

    Parameters
    ----------
    estimator, calibration_size, random_state : as in :class:`~kdgraph.calibration.Uncalibrated`; ``random_state`` also draws the folds.
    candidates : calibrators by name, whose own ``estimator`` is replaced by the fitted parent. None: temperature, sigmoid and isotonic.
    default : name of the candidate that is used unless another is clearly better; None: the best one is, however close it is.
    margin : standard errors of the difference in NLL that count as clear.
    folds : of the cross-validation; fewer where a class has fewer calibration rows.

    Attributes
    ----------
    chosen_ : name of the candidate, "none" for the parent as it is; of equally good ones the first, the parent before all others.
    evidence_ : by how many standard errors the best one's NLL is below the default's; 0 if they are the same, None without a default.
    nll_ : cross-validated NLL of each, in nats a row; the label's probability counts as at least 1e-6.

    Notes
    -----
    Weights of held-out rows do not count.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_moons(600, noise=0.3, random_state=0)
    >>> BestCalibrator(RandomForestClassifier(50, random_state=0), random_state=0).fit(X, y).chosen_
    'sigmoid'
    """

    _: KW_ONLY
    candidates: Mapping[str, Any] | None = None
    default: str | None = None
    margin: NonNegative = 2.0
    folds: Annotated[int, Range(2)] = 5

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        names = (NONE, *self._candidates())
        if self.default is not None and self.default not in names:
            raise ParameterError(f"default must be one of the candidates ({', '.join(names)}), got {self.default!r}")
        folds = min(self.folds, int(np.bincount(calibration.y, minlength=len(self.classes_)).min()))
        if folds >= 2:
            losses = self._cross_validated(train, calibration, folds)
            self.nll_ = {name: float(by_row.mean()) for name, by_row in losses.items()}
            self.chosen_, self.evidence_ = self._choice(losses)
        else:
            left = "the parent stays as it is" if self.default is None else f"{self.default} is used"
            warnings.warn(f"a class has fewer than two calibration rows: nothing can be judged, {left}", stacklevel=4)
            self.chosen_, self.evidence_ = self.default or NONE, None
            self.nll_ = {self.chosen_: None}
        self.calibrated_ = self._fitted(self.chosen_, train, calibration)

    def _choice(self, losses: Mapping[str, np.ndarray]) -> tuple[str, float | None]:
        """Who is used, and how clearly the best is better than the default."""
        best = min(losses, key=lambda name: losses[name].mean())
        if self.default is None:
            return best, None
        gained = losses[self.default] - losses[best]
        error = gained.std(ddof=1) / np.sqrt(len(gained))
        evidence = float(gained.mean() / error) if error else 0.0
        return (best if evidence > self.margin else self.default), evidence

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: the calibrator that was chosen, and the cross-validated NLL of each."""
        about = {} if self.default is None else {"default": self.default, "evidence": self.evidence_}
        return {"chosen": self.chosen_, "calibration_nll": self.nll_[self.chosen_], "nll": self.nll_, **about}

    def _candidates(self) -> Mapping[str, Any]:
        if self.candidates is not None:
            return self.candidates
        return {method: ScoreMap(None, method=method) for method in ("temperature", "sigmoid", "isotonic")}

    def _cross_validated(self, train: Rows, rows: Rows, folds: int) -> dict[str, np.ndarray]:
        """NLL of each candidate by row."""
        proba = {name: np.empty((len(rows), len(self.classes_))) for name in (NONE, *self._candidates())}
        parts = StratifiedKFold(folds, shuffle=True, random_state=check_random_state(self.random_state)).split(rows.y, rows.y)
        for learnt, judged in parts:
            for name, found in proba.items():
                found[judged] = self._fitted(name, train, rows[learnt]).predict_proba(rows[judged].X)
        return {name: _nll_by_row(rows.y, found) for name, found in proba.items()}

    def _fitted(self, name: str, train: Rows, rows: Rows) -> Any:
        """The candidate behind the parent, fitted with the calibration ``rows``."""
        if name == NONE:
            return self.estimator_
        frozen = self.estimator_ if isinstance(self.estimator_, FrozenEstimator) else FrozenEstimator(self.estimator_)
        candidate = clone(self._candidates()[name]).set_params(estimator=frozen)
        given = {"X_calibration": rows.X, "y_calibration": self.classes_[rows.y]}
        return candidate.fit(train.X, self.classes_[train.y], **given)
