"""Global recalibration: the same map for all rows.

:class:`GlobalPit` uses the empirical distribution function of the PIT values of calibration rows,
:class:`IsotonicPit` a continuous increasing function through them (Kuleshov et al. 2018).
:class:`ResidualScale` replaces the spread alone, by that of the residuals of calibration rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from kdgraph.base import Rows
from kdgraph.distributions import (
    Distribution,
    LinearMap,
    Normal,
    PitMap,
    RankedEcdf,
    Recalibrated,
    ScipyFamily,
    WeightedEcdf,
)
from kdgraph.distributions.base import row_blocks
from kdgraph.distributions.row_pit_maps import rank_pits
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count
from kdgraph.recalibration.base import PostHocRegressor, compute_pits, hash_rows, uniform_numbers

_MAX_SEED = np.iinfo(np.int32).max


class _SharedMapPit(PostHocRegressor):
    """Base of recalibrators with one map of PIT values for all rows.

    Attributes
    ----------
    pit_map_ : PitMap
        Distribution function R of the PIT values p_i = F(y_i | x_i) of the calibration rows.
    n_clipped_ : int
        Number of calibration rows so far out, with a warning, that the predicted family does not
        define their distance: p_i is the number nearest to 0 or 1. A normal distribution has none.
    """

    def describe(self) -> dict[str, int | float]:
        """Return the summary of the PIT values for the record."""
        return self.pit_summary_

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        base = self._calibration_distribution(calibration)
        pits = compute_pits(base, calibration.y, self.random_state)
        self.pit_summary_, self.n_clipped_ = pits.describe(), pits.n_clipped
        self.pit_map_ = self._fit_map(pits.values)

    def _fit_map(self, pits: np.ndarray) -> PitMap:
        raise NotImplementedError

    def _recalibrate(self, base: Distribution, X: Any) -> Distribution:
        return Recalibrated(base, self.pit_map_)


@dataclass(eq=False, repr=False)
class GlobalPit(_SharedMapPit):
    """Recalibrator by the empirical distribution function of the PIT values on held-out rows.

    Parameters
    ----------
    draws : int, default=None
        Number of values that are drawn from the recalibrated distribution of each row, as in
        :class:`~kdgraph.recalibration.LocalPit`. None: the distribution itself.

    Notes
    -----
    F_new(y | x) = R(F(y | x)), where R is the empirical distribution function (Kuleshov et al.
    2018). This is Algorithm 1 of Torres et al. (2024) with all calibration rows as neighbours and
    equal weights. The distributions are exact weighted samples, not draws from them, unless
    ``draws`` is given. Errors that differ between regions are not repaired, if they cancel on
    average.

    Examples
    --------
    >>> from kdgraph.parents import GaussianLinear
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 1))
    >>> y = X[:, 0] + rng.exponential(size=2000)  # the true interval at 0 is 0.05 to 3.00
    >>> model = GlobalPit(GaussianLinear(), random_state=0).fit(X, y)
    >>> np.round(model.estimator_.predict_dist([[0.0]]).interval(0.9), 2).ravel().tolist()
    [-0.7, 2.73]
    >>> np.round(model.predict_dist([[0.0]]).interval(0.9), 2).ravel().tolist()
    [-0.01, 2.86]
    """

    draws: Count | None = None

    def _fit_map(self, pits: np.ndarray) -> PitMap:
        if self.draws is not None:
            self.ranked_pits_ = rank_pits(pits)
            self.draw_seed_ = int(check_random_state(self.random_state).randint(_MAX_SEED))
        return WeightedEcdf.from_pits(pits)

    def _recalibrate(self, base: Distribution, X: Any) -> Distribution:
        if self.draws is None:
            return super()._recalibrate(base, X)
        # All PIT values have the same weight, so a draw of one is a draw of its position.
        table, rank = self.ranked_pits_
        ranks = np.empty((len(base), self.draws), dtype=rank.dtype)
        hashes = hash_rows(X)
        for rows in row_blocks(len(base), self.draws):
            uniform = uniform_numbers(hashes[rows], self.draws, self.draw_seed_)
            positions = np.minimum((uniform * len(rank)).astype(np.intp), len(rank) - 1)
            ranks[rows] = np.sort(rank[positions], axis=1)
        weights = np.ones(ranks.shape, dtype=np.float32)
        return Recalibrated(base, RankedEcdf(weights, table, ranks))


class IsotonicPit(_SharedMapPit):
    """Recalibrator by a continuous increasing function of PIT values, the same for all rows.

    Notes
    -----
    Kuleshov et al. (2018) fit an isotonic regression of the fraction of PIT values up to p on p.
    This fraction never falls, so the regression reproduces it, and only the interpolation between
    its points remains. Here the line passes through (p_(i), i / (n + 1)), from (0, 0) to (1, 1):
    the new distributions have the tails of the old ones and no steps, unlike those of
    :class:`~kdgraph.recalibration.GlobalPit`. If outcomes are beyond everything that the parent
    considers possible (beyond a narrow ensemble, for example), the line ends at the farthest.

    References
    ----------
    Kuleshov, Fenner and Ermon, "Accurate uncertainties for deep learning using calibrated
    regression", ICML 2018, Algorithm 1.

    Examples
    --------
    >>> from kdgraph.parents import GaussianLinear
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 1))
    >>> y = X[:, 0] + rng.exponential(size=2000)  # the true interval at 0 is 0.05 to 3.00
    >>> model = IsotonicPit(GaussianLinear(), random_state=0).fit(X, y)
    >>> np.round(model.predict_dist([[0.0]]).interval(0.9), 1).ravel().tolist()
    [-0.0, 2.9]
    """

    def _fit_map(self, pits: np.ndarray) -> PitMap:
        return LinearMap.from_pits(pits)


class ResidualScale(PostHocRegressor):
    """Recalibrator by the root mean square residual of calibration rows, for (log)normal parents.

    The medians of the parent stay. The normal distribution of y, or of log y, gets one standard
    deviation for all rows.

    Attributes
    ----------
    spread_ : float
        Root mean square residual of calibration rows, in the units of y; for lognormal
        distributions that of log y.
    is_log_ : bool
        True for lognormal distributions.

    References
    ----------
    Torres et al. 2024, Section 4.2: "a Normal distribution with variance equal to the validation
    set MSE".

    Examples
    --------
    >>> from kdgraph.parents import GaussianLinear
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(1040, 20)), rng.normal(size=1040)
    >>> held_out = {"X_calibration": X[40:], "y_calibration": y[40:]}
    >>> model = ResidualScale(GaussianLinear()).fit(X[:40], y[:40], **held_out)
    >>> parent = np.sqrt(model.estimator_.predict_dist(X[:1]).var()[0])  # of few rows, too certain
    >>> round(float(parent), 2), round(model.spread_, 2)
    (0.95, 1.55)
    """

    def describe(self) -> dict[str, float]:
        """Return the fitted summary for the record, the spread."""
        return {"spread": self.spread_}

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        base = self._calibration_distribution(calibration)
        self.is_log_ = self._is_lognormal(self._parent_distribution(calibration.X[:1]))
        medians, y = base.ppf(0.5), calibration.y
        residuals = np.log(y / medians) if self.is_log_ else y - medians
        rms = float(np.sqrt(np.mean(np.square(residuals))))
        self.spread_ = max(rms, np.finfo(np.float64).tiny)

    def _recalibrate(self, base: Distribution, X: Any) -> Distribution:
        medians = base.ppf(0.5)
        if self.is_log_:
            return ScipyFamily("lognorm", {"s": self.spread_, "scale": medians})
        return Normal(medians, np.full(len(medians), self.spread_))

    @staticmethod
    def _is_lognormal(base: Distribution) -> bool:
        """Return whether distributions are lognormal; raise unless they are that or normal."""
        if isinstance(base, ScipyFamily) and base.family == "lognorm":
            return True
        if isinstance(base, Normal) or (isinstance(base, ScipyFamily) and base.family == "norm"):
            return False
        kind = base.family if isinstance(base, ScipyFamily) else type(base).__name__
        raise ParameterError(
            f"residual_scale is for normal or lognormal distributions, and the parent predicts"
            f" {kind}; use recalibrator=global_pit"
        )
