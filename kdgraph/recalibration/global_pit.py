"""Global recalibration: one distribution function of PIT values for all rows.

Global recalibration by an increasing curve through PIT values (Kuleshov et al. 2018).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.base import Rows
from kdgraph.distributions import Distribution, LinearMap, PitMap, Recalibrated, WeightedEcdf
from kdgraph.recalibration.base import PostHocRegressor, pits_of


class GlobalPit(PostHocRegressor):
    """Recalibrate a regressor's predictive distributions by the empirical distribution of its PIT
    values on held-out rows.

    Parameters
    ----------
    estimator : any regressor with ``predict_dist``; cloned and fitted, unless frozen.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen
        estimator give it rows that this was not fitted on, ``fit(X, y, X_calibration=…,
        y_calibration=…)``: see :class:`~kdgraph.base.PostHoc`.
    random_state : seeds the held-out rows, PIT values at steps
        (:func:`~kdgraph.recalibration.base.pits_of`), and the parent where it has no seed of its
        own.

    Attributes
    ----------
    estimator_ : the fitted parent.
    pit_map_ : distribution function R of the PIT values p_i = F(y_i | x_i) of the calibration rows.
    n_clipped_ : calibration rows so far out that the predicted family cannot tell how far
        (``Distribution.levels`` is 0 or 1); their p_i is the nearest number inside. Of a normal
        distribution there are none. More than none is told in a warning.

    Notes
    -----
    F_new(y | x) = R(F(y | x)), R the empirical distribution function (Kuleshov et al.); in the
    words of Torres et al., Algorithm 1 with every calibration row a neighbour, and weights that are
    all the same. The distributions are :class:`~kdgraph.distributions.Recalibrated`: exact weighted
    samples, not draws from them. What is wrong in the same way everywhere is repaired; what is
    wrong here and there in opposite ways is not.

    Examples
    --------
    >>> from kdgraph.parents import GaussianLinear
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 1))
    >>> y = X[:, 0] + rng.exponential(size=2000)  # skewed: no normal distribution fits
    >>> model = GlobalPit(GaussianLinear(), random_state=0).fit(X, y)
    >>> tail = lambda given: [round(float(bound[0]), 2) for bound in given.interval(0.9)]
    >>> tail(model.estimator_.predict_dist([[0.0]])), tail(model.predict_dist([[0.0]]))  # the truth: 0.05 to 3.00
    ([-0.7, 2.73], [-0.01, 2.86])
    """

    def describe(self) -> dict[str, int | float]:
        """What was learnt, for the record; see :meth:`Pits.describe
        <kdgraph.recalibration.base.Pits.describe>`.
        """
        return self.about_pits_

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        pits = pits_of(self._base(calibration.X), calibration.y, self.random_state)
        self.about_pits_, self.n_clipped_ = pits.describe(), pits.n_clipped
        self.pit_map_ = self._map_of(pits.values)

    def _map_of(self, pits: np.ndarray) -> PitMap:
        return WeightedEcdf.of(pits)

    def _after(self, base: Distribution, X: Any) -> Distribution:
        return Recalibrated(base, self.pit_map_)


class IsotonicPit(GlobalPit):
    """Recalibrate a regressor's predictive distributions by a continuous increasing function of PIT
    values, one for all rows.

    Parameters
    ----------
    estimator : any regressor with ``predict_dist``; cloned and fitted, unless frozen.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen
        estimator give it rows that this was not fitted on, ``fit(X, y, X_calibration=…,
        y_calibration=…)``: see :class:`~kdgraph.base.PostHoc`.
    random_state : seeds the held-out rows, PIT values at steps
        (:func:`~kdgraph.recalibration.base.pits_of`), and the parent where it has no seed of its
        own.

    Attributes
    ----------
    estimator_ : the fitted parent.
    pit_map_ : R; ``n_clipped_`` as of :class:`~kdgraph.recalibration.GlobalPit`.

    Notes
    -----
    Kuleshov et al. regress, isotonically, the share of PIT values up to p on p. That share never
    falls, so the regression gives it back; what is left of it is the line from one to the next.
    Here it goes through (p_(i), i / (n + 1)), from (0, 0) to (1, 1): new distributions have the
    tails of the old, and no steps, unlike those of :class:`~kdgraph.recalibration.GlobalPit`. Where
    outcomes lie beyond all that the parent holds possible, as beyond a narrow ensemble, they end at
    the farthest of them.

    References
    ----------
    Kuleshov, Fenner and Ermon, "Accurate uncertainties for deep learning using calibrated
    regression", ICML 2018, Algorithm 1.

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
