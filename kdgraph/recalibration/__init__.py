"""Repair of the predictive distributions of regressors."""

from kdgraph.recalibration.base import PostHocRegressor
from kdgraph.recalibration.global_pit import GlobalPit

__all__ = ["GlobalPit", "PostHocRegressor"]
