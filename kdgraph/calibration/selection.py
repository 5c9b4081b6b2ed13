"""Which of the maps to use, said by the calibration rows themselves."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state

from kdgraph.calibration.baselines import MapName, Uncalibrated, score_map
from kdgraph.metrics import nll
from kdgraph.parameters import OpenFraction, Range
from kdgraph.parents import Rows

Candidate = Literal["none"] | MapName


class BestMap(Uncalibrated):
    """Of several maps from the parent's scores to probabilities, the one with the least cross-validated NLL on the calibration rows.

    Each candidate is fitted on all folds of the calibration rows but one and judged on that one; the best is fitted once more on all of
    them. A map that bends to the rows it is fitted on, as isotonic regression does with few of them, is thus not judged on these.

    Parameters
    ----------
    estimator, calibration_size, random_state : as in :class:`~kdgraph.calibration.Uncalibrated`; ``random_state`` also draws the folds.
    candidates : names; of equally good ones the first is taken.
    folds : of the cross-validation; fewer where a class has fewer calibration rows.

    Attributes
    ----------
    chosen_ : name of the map.
    nll_ : cross-validated NLL of each candidate, in nats a row; its probabilities count as at least 1e-6.
    """

    def __init__(
        self,
        estimator: Any,
        *,
        candidates: Sequence[Candidate] = ("none", "temperature", "sigmoid", "isotonic"),
        folds: Annotated[int, Range(2)] = 5,
        calibration_size: OpenFraction = 0.3,
        random_state: Any = None,
    ):
        super().__init__(estimator, calibration_size=calibration_size, random_state=random_state)
        self.candidates: Sequence[Candidate] = candidates
        self.folds = folds

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        if not self.candidates:
            raise ValueError("candidates must name at least one map, got none")
        folds = min(self.folds, int(np.bincount(calibration.y, minlength=len(self.classes_)).min()))
        self.nll_: dict[Candidate, float] = self._cross_validated(calibration, folds) if folds >= 2 else {}
        if not self.nll_:
            warnings.warn(f"a class has a single calibration row: no map can be judged, {self.candidates[0]} is used", stacklevel=4)
        self.chosen_: Candidate = min(self.nll_, key=self.nll_.__getitem__) if self.nll_ else self.candidates[0]
        self.calibrated_ = self._fitted(self.chosen_, calibration)

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: the map, and the cross-validated NLL of every candidate."""
        return {"chosen": self.chosen_, "calibration_nll": self.nll_.get(self.chosen_), "nll": self.nll_}

    def _cross_validated(self, rows: Rows, folds: int) -> dict[Candidate, float]:
        parts = StratifiedKFold(folds, shuffle=True, random_state=check_random_state(self.random_state)).split(rows.y, rows.y)
        proba: dict[Candidate, np.ndarray] = {name: np.empty((len(rows), len(self.classes_))) for name in self.candidates}
        for learnt, judged in parts:
            for name, found in proba.items():
                found[judged] = self._fitted(name, rows[learnt]).predict_proba(rows[judged].X)
        return {name: float(nll(rows.y, found)) for name, found in proba.items()}

    def _fitted(self, name: Candidate, rows: Rows) -> Any:
        """The map ``name`` behind the parent, fitted on ``rows``."""
        return self.estimator_ if name == "none" else score_map(self.estimator_, name, rows, self.classes_)
