"""Global recalibration by an increasing curve through PIT values (Kuleshov et al. 2018)."""

from __future__ import annotations

from typing import Any

from kdgraph.distributions import Distribution, LinearMap, Recalibrated
from kdgraph.parents import Rows
from kdgraph.recalibration.base import PostHocRegressor
from kdgraph.recalibration.pits import pits_of


class IsotonicPit(PostHocRegressor):
    """Recalibrate a regressor's predictive distributions by a continuous increasing function of PIT values, one for all rows.

    Parameters
    ----------
    estimator : any regressor with ``predict_dist``; cloned and fitted, unless frozen.
    calibration_size : share of the rows to hold out where ``fit`` is not given any.
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
    >>> import numpy as np
    >>> from kdgraph.parents import GaussianLinear
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 1))
    >>> y = X[:, 0] + rng.exponential(size=2000)
    >>> low, high = IsotonicPit(GaussianLinear(), random_state=0).fit(X, y).predict_dist([[0.0]]).interval(0.9)
    >>> round(float(low[0]), 1), round(float(high[0]), 1)  # the truth: 0.05 to 3.00
    (-0.0, 2.9)
    """

    def describe(self) -> dict[str, int | float]:
        """What was learnt, for the record; see :meth:`Pits.describe <kdgraph.recalibration.pits.Pits.describe>`."""
        return self.about_pits_

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        pits = pits_of(self._base(calibration.X), calibration.y, self.random_state)
        self.about_pits_, self.n_clipped_ = pits.describe(), pits.n_clipped
        self.pit_map_ = LinearMap.of(pits.values)

    def _after(self, base: Distribution, X: Any) -> Distribution:
        return Recalibrated(base, self.pit_map_)
