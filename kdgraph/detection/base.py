"""The ground that every detector stands on: a fitted parent, a score that is higher for what is normal, a threshold from held-out rows."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state

from kdgraph.parameters import OpenFraction, check_parameters
from kdgraph.parents import PostHoc, Rows
from kdgraph.parents.frozen import rows_checked

_SAME = 1e-13
"""Share of a held-out row's score by which the threshold lies below it: what rounding makes of sums of some hundred terms."""


@dataclass(eq=False, repr=False)
class PostHocDetector(OutlierMixin, PostHoc):
    """A detector of rows out of distribution that is fitted after a parent.

    ``score_samples`` is higher for what is more normal; ``decision_function`` is it minus ``offset_``, 0 at the threshold; ``predict``
    gives 1 in distribution and -1 out of it, as scikit-learn's ``OutlierMixin`` has it; ``ood_score`` is minus ``decision_function``:
    higher is farther out, above 0 is out.

    The threshold is learnt on held-out rows, which the parent has not seen; rows and parents are as :class:`~kdgraph.parents.PostHoc` has
    them.

    A subclass implements ``_score(X)``, Float[n] of rows that are checked, higher for what is more normal. It may implement
    ``_fit_after(train, held_out)``, where the score has something to learn (``y`` are labels as they came, or None), ``_fitted_parent``,
    where its parent is another one, and ``_default_estimator``; ``parent_says`` names the method that the parent must have. The score of a
    row depends on no other row, unless the class is a :class:`~kdgraph.detection.SetDetector`.

    Parameters
    ----------
    target_fpr : the share of what is in distribution that the threshold may give up.
    **others : those of :class:`~kdgraph.parents.PostHoc`.

    Attributes
    ----------
    estimator_ : the fitted parent.
    offset_ : the threshold of ``score_samples``.
    """

    _: KW_ONLY
    target_fpr: OpenFraction = 0.05

    def fit(self, X, y=None, *, X_calibration=None, y_calibration=None):
        """Fit the parent on X (Float[n, d], images Float[n, c, h, w] or a data frame) and y, the score, and its threshold on held-out rows.

        Parameters
        ----------
        y : [n] labels of any type, or targets; None where nothing needs them, as with a frozen estimator.
        X_calibration : rows from the training distribution that the parent has not seen; give them after a frozen parent.
        y_calibration : their labels, on which no threshold depends.

        Raises
        ------
        TypeError : for an estimator that does not say what the score is made of.
        ValueError : for infinity; for NaN, unless the parent takes it; for labels that are needed and not there; for a score without a
            finite threshold.
        """
        check_parameters(self)
        parent, rng = self._parent(), check_random_state(self.random_state)
        if y is None and self._needs_labels():
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None; or freeze a fitted estimator")
        everything = Rows.of(*self._validated(X, y, reset=True))
        train, held_out = self._divided(everything, X_calibration, y_calibration, rng)
        self.estimator_ = self._fitted_parent(parent, train, None, rng)  # also one that wants rows of its own gets none of the threshold's
        with rows_checked():
            self._fit_after(train, held_out)
        self.offset_ = conformal_offset(self._held_out_scores(held_out.X, rng), self.target_fpr)
        # It is the score of a held-out row, and an equal row may be rounded differently beside others: it must not be out for that.
        self.offset_ -= _SAME * abs(self.offset_)
        if not np.isfinite(self.offset_):
            raise ValueError(f"{type(self).__name__} has no threshold: the score of too many held-out rows is {self.offset_}")
        return self

    def score_samples(self, X) -> np.ndarray:
        """Float[n]: higher is more normal."""
        return self._score(self._checked(X))

    def decision_function(self, X) -> np.ndarray:
        """Float[n]: ``score_samples`` minus the threshold; below 0 is out of distribution."""
        return self.score_samples(X) - self.offset_

    def predict(self, X) -> np.ndarray:
        """Int[n]: 1 in distribution, -1 out of it."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def fit_predict(self, X, y=None, **held_out) -> np.ndarray:
        """Int[n]: :meth:`predict` of the rows that it was fitted on; scikit-learn's own leaves the labels out, which a parent needs."""
        return self.fit(X, y, **held_out).predict(X)

    def ood_score(self, X) -> np.ndarray:
        """Float[n]: minus ``decision_function``; higher is farther out of distribution, and above 0 is out by the threshold."""
        return -self.decision_function(X)

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record."""
        return {"offset": self.offset_}

    def _score(self, X: Any) -> np.ndarray:
        raise NotImplementedError

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        """Learn what the score needs beside the parent."""

    def _held_out_scores(self, X: Any, rng: np.random.RandomState) -> np.ndarray:
        """Float[m]: of held-out rows, what the threshold is a quantile of."""
        return self._score(X)

    def _learns_from_training_rows(self) -> bool:
        return True

    def _needs_labels(self) -> bool:
        return not isinstance(self.estimator, FrozenEstimator)

    def _given(self, X: Any, y: Any) -> Rows:
        return Rows.of(self._validated(X)[0]) if y is None else super()._given(X, y)


def conformal_offset(score: np.ndarray, target_fpr: float) -> float:
    """The score below which at most max(target_fpr, 1/(m + 1)) of what is in distribution falls in expectation: split conformal.

    Lei, G'Sell, Rinaldo, Tibshirani and Wasserman (2018), "Distribution-free predictive inference for regression", for scores.

    ``score``: Float[m], of held-out rows that are exchangeable with it. The ⌊(m + 1)·target_fpr⌋-th smallest, or the smallest.

    >>> conformal_offset(np.arange(100.0), 0.05)
    4.0
    """
    return float(np.sort(score)[max(math.floor((len(score) + 1) * target_fpr), 1) - 1])
