"""The mean of what several calibrators say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from kdgraph.calibration.baselines import ScoreMap, Uncalibrated
from kdgraph.errors import ParameterError
from kdgraph.parents import Rows
from kdgraph.parents.posthoc import learn_from_training_rows


@dataclass(eq=False, repr=False)
class LinearPool(Uncalibrated):
    """The mean of the probabilities of several calibrators of one parent, each fitted on the same calibration rows.

    Isotonic regression bends to the rows that it is fitted on, and one temperature cannot bend at all: they err in different places.

    Parameters
    ----------
    estimator, calibration_size, random_state : as in :class:`~kdgraph.calibration.Uncalibrated`; it seeds members without a seed, too.
    members : calibrators by name, whose own ``estimator`` is replaced by the fitted parent; None: temperature and isotonic.

    Attributes
    ----------
    members_ : the fitted calibrators by name.

    Raises
    ------
    ParameterError : without members.

    References
    ----------
    Stone, "The opinion pool", Annals of Mathematical Statistics 32, 1961. Ranjan and Gneiting, "Combining probability forecasts", JRSSB 72,
    2010: the mean of members that are calibrated each is not, but too close to the middle, unless they agree. Those that are fitted on few
    rows are too far from it.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_moons(600, noise=0.3, random_state=0)
    >>> pool = LinearPool(RandomForestClassifier(50, random_state=0), random_state=0).fit(X, y)
    >>> both = [member.predict_proba(X) for member in pool.members_.values()]
    >>> bool(np.allclose(pool.predict_proba(X), (both[0] + both[1]) / 2))
    True
    """

    _: KW_ONLY
    members: Mapping[str, Any] | None = None

    def _needs_unseen_rows(self) -> bool:
        return True

    def _learns_from_training_rows(self) -> bool:
        return learn_from_training_rows((self.members or {}).values())

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        members = self.members
        if members is None:
            members = {"temperature": ScoreMap(None, method="temperature"), "isotonic": ScoreMap(None, method="isotonic")}
        if not members:
            raise ParameterError("members must name at least one calibrator, got none")
        self.members_ = {name: self._behind(member, train, calibration) for name, member in members.items()}

    def predict_proba(self, X) -> np.ndarray:
        """Float[n, K]."""
        X = self._checked(X)
        return np.mean([member.predict_proba(X) for member in self.members_.values()], axis=0)
