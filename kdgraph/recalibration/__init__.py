"""Repair of the predictive distributions of regressors."""

from kdgraph.recalibration.base import PostHocRegressor
from kdgraph.recalibration.conformal import ConformalPit
from kdgraph.recalibration.global_pit import GlobalPit
from kdgraph.recalibration.isotonic_pit import IsotonicPit
from kdgraph.recalibration.local_pit import LocalPit

__all__ = ["ConformalPit", "GlobalPit", "IsotonicPit", "LocalPit", "PostHocRegressor"]
