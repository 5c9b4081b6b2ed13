"""Global recalibration by an increasing curve through PIT values (Kuleshov et al. 2018)."""

from __future__ import annotations

import numpy as np

from kdgraph.distributions import LinearMap, PitMap
from kdgraph.recalibration.global_pit import GlobalPit


class IsotonicPit(GlobalPit):
    """Recalibrate a regressor's predictive distributions by a continuous increasing function of PIT values, one for all rows.

    Parameters
    ----------
    estimator : any regressor with ``predict_dist``; cloned and fitted, unless frozen.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen estimator give it rows that this was
        not fitted on, ``fit(X, y, X_calibration=…, y_calibration=…)``: see :class:`~kdgraph.parents.PostHoc`.
    random_state : seeds the held-out rows, PIT values at steps (:func:`~kdgraph.recalibration.pits.pits_of`), and the parent where it has
        no seed of its own.

    Attributes
    ----------
    estimator_ : the fitted parent.
    pit_map_ : R; ``n_clipped_`` as of :class:`~kdgraph.recalibration.GlobalPit`.

    Notes
    -----
    Kuleshov et al. regress, isotonically, the share of PIT values up to p on p. That share never falls, so the regression gives it back;
    what is left of it is the line from one to the next. Here it goes through (p_(i), i / (n + 1)), from (0, 0) to (1, 1): new
    distributions have the tails of the old, and no steps, unlike those of :class:`~kdgraph.recalibration.GlobalPit`. Where outcomes lie
    beyond all that the parent holds possible, as beyond a narrow ensemble, they end at the farthest of them.

    References
    ----------
    Kuleshov, Fenner and Ermon, "Accurate uncertainties for deep learning using calibrated regression", ICML 2018, Algorithm 1.

    Examples
    --------
    >>> from kdgraph.parents import GaussianLinear
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 1))
    >>> y = X[:, 0] + rng.exponential(size=2000)
    >>> low, high = IsotonicPit(GaussianLinear(), random_state=0).fit(X, y).predict_dist([[0.0]]).interval(0.9)
    >>> round(float(low[0]), 1), round(float(high[0]), 1)  # the truth: 0.05 to 3.00
    (-0.0, 2.9)
    """

    def _map_of(self, pits: np.ndarray) -> PitMap:
        return LinearMap.of(pits)
