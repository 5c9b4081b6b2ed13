"""Calibration rows in two parts: one recalibrates, the other corrects the intervals, which neither parent nor recalibrator has seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state

from kdgraph.distributions import Distribution
from kdgraph.parameters import OpenFraction
from kdgraph.parents import Rows
from kdgraph.parents.posthoc import learn_from_training_rows, seeded_clone
from kdgraph.recalibration.base import PostHocRegressor


@dataclass(eq=False, repr=False)
class HalvesOfRows(PostHocRegressor):
    """The ground of what corrects intervals by rows that nothing else has seen, as in split conformal prediction (Papadopoulos 2002).

    A subclass implements ``_learn_from(train, rest, held)`` of the training rows, those that recalibrate and those that correct, and
    ``_after``; and says in ``_needs_rest`` whether the former are needed where nothing recalibrates.

    Attributes
    ----------
    estimator_ : the fitted parent.
    recalibrated_ : the fitted recalibrator behind it, or the parent.
    held_, y_held_ : predicted distributions and outcomes of the rows that correct.
    """

    recalibrator: Any = None
    share: OpenFraction = 0.5

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: how many rows correct, the highest level of finite intervals, what the recalibrator says."""
        more = self.recalibrated_.describe() if hasattr(self.recalibrated_, "describe") else {}
        fewest = self._fewest()
        return {"n_correcting": len(self.y_held_), "highest_level": fewest / (fewest + 1)} | more

    def _learn_from(self, train: Rows, rest: Rows, held: Rows) -> None:
        raise NotImplementedError

    def _needs_rest(self) -> bool:
        raise NotImplementedError

    def _fewest(self) -> int:
        """How many rows the correction stands on that stands on the fewest."""
        return len(self.y_held_)

    def _carrier(self) -> Any:
        return None if self.recalibrator is None else self.estimator

    def _learns_from_training_rows(self) -> bool:
        return learn_from_training_rows([self.recalibrator])

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        order, n = np.random.default_rng(seed).permutation(len(calibration)), len(calibration)
        all_correct = self.recalibrator is None and not self._needs_rest()
        n_held = n if all_correct else min(max(round(self.share * n), 1), max(n - 1, 1))
        held, rest = calibration[np.sort(order[:n_held])], calibration[np.sort(order[n_held:])]
        self.recalibrated_ = self._recalibrated(train, rest)
        self.held_, self.y_held_ = self._said(held.X), held.y
        self._learn_from(train, rest, held)

    def _recalibrated(self, train: Rows, rest: Rows) -> Any:
        if self.recalibrator is None or not len(rest):
            return self.estimator_
        frozen = self.estimator_ if isinstance(self.estimator_, FrozenEstimator) else FrozenEstimator(self.estimator_)
        model = seeded_clone(self.recalibrator, self.random_state).set_params(estimator=frozen)
        return model.fit(train.X, train.y, X_calibration=rest.X, y_calibration=rest.y)

    def _said(self, X: Any) -> Distribution:
        return self._base(X) if self.recalibrated_ is self.estimator_ else self.recalibrated_.predict_dist(X)
