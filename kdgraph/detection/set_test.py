"""Whether a set of rows comes from the training distribution, by any detector of single rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from kdgraph.metrics.set_tests import SHARES, Statistic, power_curve, set_p_values
from kdgraph.parameters import Count, OpenFraction, Share, check_parameters


@dataclass(eq=False, repr=False)
class SetTest(BaseEstimator):
    """A permutation test of sets of rows against a reference sample, on the score that a detector gives single rows.

    Ours: where scores of rows are good, their mean over a set judges the set as well as a method that must have sets, such as
    :class:`TreeHamming`; it may be of any size, and a few outliers among normal rows raise it.

    Parameters
    ----------
    detector : fitted; has ``ood_score(X)``, Float[n], higher for what is farther out, of each row by itself.
    statistic : what is compared, see :data:`kdgraph.metrics.set_tests.Statistic`.
    false_alarm : the share of sets from the distribution that may be called out of it.
    n_permutations : of the p-value, which is at least 1 over one more than these.
    random_state : draws the permutations, the same for every set.

    Attributes
    ----------
    reference_ : Float[n], scores of the reference rows.

    Examples
    --------
    >>> from kdgraph.detection import NearestNeighbours
    >>> rng = np.random.default_rng(0)
    >>> detector = NearestNeighbours(k=5, random_state=0).fit(rng.normal(size=(200, 2)))
    >>> test = SetTest(detector, random_state=0).fit(rng.normal(size=(100, 2)))
    >>> test.p_value(rng.normal(size=(20, 2)) + 3), bool(test.is_out(rng.normal(size=(20, 2))))
    (0.001, False)
    """

    detector: Any
    statistic: Statistic = "mean"
    false_alarm: OpenFraction = 0.05
    n_permutations: Count = 999
    random_state: int | np.random.RandomState | None = None

    def fit(self, X: Any) -> SetTest:
        """Score the reference: rows X of the training distribution that neither the detector nor its parent has seen.

        Raises
        ------
        TypeError : for a detector of sets, which gives a row by itself no score, and for what is none.
        """
        check_parameters(self)
        if hasattr(self.detector, "ood_score_of_sets"):
            raise TypeError(f"{type(self.detector).__name__} judges sets of rows by itself; a set test needs a score of single rows")
        if not hasattr(self.detector, "ood_score"):
            raise TypeError(f"{type(self.detector).__name__} has no ood_score; use a detector")
        self.reference_ = np.asarray(self.detector.ood_score(X), dtype=np.float64)
        return self

    def p_value(self, X: Any) -> float:
        """How often sets of the size of X, drawn from X and the reference together, look at least as far out: (k + 1)/(N + 1)."""
        how = {"statistic": self.statistic, "n_permutations": self.n_permutations, "rng": self._rng()}
        return float(set_p_values(self._scores(X), self.reference_, **how)[0])

    def is_out(self, X: Any) -> bool:
        """Whether X, as one set, is out of distribution: its p-value is at most ``false_alarm``."""
        return self.p_value(X) <= self.false_alarm

    def power(self, X_out: Any, shares: Sequence[Share] = SHARES, set_size: int = 50, n_sets: int = 200) -> dict[str, np.ndarray]:
        """How often sets are called out of distribution by the share of their rows that are from ``X_out``.

        Half of the reference rows stand for the reference then, the other half for the rows in distribution. Columns are ``share``,
        ``set_size`` and ``power``, as :func:`kdgraph.metrics.set_tests.power_curve` gives them; the share 0 has the false alarms. All
        shares are judged by the same permutations, so the points of the curve are not independent.
        """
        how = {"statistic": self.statistic, "false_alarm": self.false_alarm, "n_permutations": self.n_permutations, "rng": self._rng()}
        return power_curve(self._scores(X_out), self.reference_, shares=shares, set_size=set_size, n_sets=n_sets, **how)

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "reference_")
        return np.asarray(self.detector.ood_score(X), dtype=np.float64)

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
