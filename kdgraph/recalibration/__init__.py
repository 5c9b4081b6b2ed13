"""Repair of the predictive distributions of regressors."""

from kdgraph.recalibration.global_pit import GlobalPit
from kdgraph.recalibration.posthoc import PostHocRegressor, Targets

__all__ = ["GlobalPit", "PostHocRegressor", "Targets"]
