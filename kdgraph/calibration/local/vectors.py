"""Local recalibration of whole rows: class shares among calibration rows that are like a row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kdgraph.calibration.local.base import Local
from kdgraph.parents import PostHocClassifier, Rows


@dataclass(eq=False, repr=False)
class LocalClassShares(Local, PostHocClassifier):
    """LoRe for whole rows: the kernel-weighted shares of all classes among calibration rows in the same bin of confidence. Ours.

    Unlike :class:`LocalRecalibration` it may predict another class than the parent.

    Parameters
    ----------
    estimator, calibration_size, random_state : as in :class:`LocalRecalibration`.
    features, kernel, bandwidth, bandwidths, bins, choice, n_jobs : as in :class:`~kdgraph.calibration.local.base.Local`; the Brier score is
        that of all classes.

    Notes
    -----
    p̂'ₖ(x) = Σ k(x, xᵢ) 1[yᵢ = k] / Σ k(x, xᵢ), over rows with like confidence in whatever class: Eq. 6 of Luo et al., UAI 2022, with labels
    in the place of right predictions.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_moons(600, noise=0.3, random_state=0)
    >>> model = LocalClassShares(RandomForestClassifier(50, random_state=0), kernel="geodesic", random_state=0).fit(X, y)
    >>> model.predict_proba(X[:1]).sum().round(6)
    np.float64(1.0)
    """

    def predict_proba(self, X, groups=None) -> np.ndarray:
        """Float[n, K]: rows are finite and sum to 1; ``groups``, [n], for the kernel "group"."""
        X = self._checked(X)
        found = np.clip(self._around(X, self.estimator_.predict_proba(X), groups)[0], 0.0, 1.0)
        return found / found.sum(axis=1, keepdims=True)

    def predict(self, X, groups=None) -> np.ndarray:
        """[n] labels: those of the largest shares; ``groups``, [n], for the kernel "group"."""
        largest = self.predict_proba(X, groups).argmax(axis=1)
        return self.classes_[largest]

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        self._learn(calibration, self.estimator_.predict_proba(calibration.X), np.eye(len(self.classes_))[calibration.y])

    def _own(self, proba: np.ndarray) -> np.ndarray:
        return proba
