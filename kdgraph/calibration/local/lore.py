"""Local recalibration (LoRe): the confidence of a row is the share of right predictions among calibration rows that are like it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from kdgraph.calibration.local.base import Local
from kdgraph.calibration.top_label.base import TopLabelCalibrator, filled, fills_rows
from kdgraph.metrics import TopLabel
from kdgraph.parents import Rows


@dataclass(eq=False, repr=False)
class LocalRecalibration(Local, TopLabelCalibrator):
    """LoRe (Luo et al.): the kernel-weighted share of right predictions among calibration rows in the same bin of confidence.

    Parameters
    ----------
    estimator : any classifier with ``predict_proba``. Cloned and fitted; ``FrozenEstimator(fitted)`` is used as it is.
    features, kernel, bandwidth, bandwidths, bins, choice, n_jobs : as in :class:`~kdgraph.calibration.local.base.Local`.
    fill_proba, calibration_size, random_state : as in :class:`~kdgraph.calibration.top_label.TopLabelCalibrator`; ``random_state`` also
        seeds the feature map.

    Attributes
    ----------
    bandwidth_, bins_, brier_, map_, neighbours_, groups_, fallback_ : as in :class:`~kdgraph.calibration.local.base.Local`.

    Notes
    -----
    p̂'(x) = Σ k(x, xᵢ) 1[f(xᵢ) = yᵢ] / Σ k(x, xᵢ) over the calibration rows i in the bin of p̂(x) (Eq. 6). As γ → ∞ it is histogram binning,
    as γ → 0 the nearest neighbour in the bin (the paper's arg min k is arg max), and with the kernel "group" histogram binning group by
    group. Where no row of the bin is near it is the bin's share, and where the bin is empty the parent's own confidence.

    The paper fixes γ = 0.2 for t-SNE and 0.4 for principal components of features that it does not scale, so that their meaning depends on
    the network. Here γ counts in units of the features' spread, and is chosen on the calibration rows unless it is given. t-SNE has no
    place for new rows: it embeds the rows of ``fit`` and those in ``X_test`` together, which only ``protocol=paper`` does with test rows.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Section 4.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_moons(600, noise=0.3, random_state=0)
    >>> model = LocalRecalibration(RandomForestClassifier(50, random_state=0), kernel="geodesic", random_state=0).fit(X, y)
    >>> model.bandwidth_, model.predict_confidence(X[:2]).round(2)
    (12.8, array([0.98, 0.97]))
    """

    def predict_confidence(self, X, groups=None) -> np.ndarray:
        """Float[n] in [0, 1]: the probability that :meth:`predict` is right; ``groups``, [n], for the kernel "group"."""
        return self._said(X, groups)[2]

    @available_if(fills_rows)
    def predict_proba(self, X, groups=None) -> np.ndarray:
        """Float[n, K]: rows with the confidence at the predicted class; finite, and they sum to 1."""
        return filled(*self._said(X, groups))

    def _said(self, X: Any, groups: Any) -> tuple[np.ndarray, TopLabel, np.ndarray]:
        X = self._checked(X)
        proba = self.estimator_.predict_proba(X)
        return proba, TopLabel.of(proba), np.clip(self._around(X, proba, groups)[0], 0.0, 1.0)

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        proba = self.estimator_.predict_proba(calibration.X)
        self._learn(calibration, proba, TopLabel.of(proba).correct(calibration.y))

    def _own(self, proba: np.ndarray) -> np.ndarray:
        return np.asarray(TopLabel.of(proba).confidence, dtype=np.float64)
