"""Repair of the predictive distributions of regressors."""

from kdgraph.recalibration.base import PostHocRegressor
from kdgraph.recalibration.conformal import ConformalPit, LocalisedConformalPit
from kdgraph.recalibration.density_pit import DensityPit
from kdgraph.recalibration.global_pit import GlobalPit, IsotonicPit, ResidualScale
from kdgraph.recalibration.local_pit import LocalPit

__all__ = [
    "ConformalPit",
    "DensityPit",
    "GlobalPit",
    "IsotonicPit",
    "LocalPit",
    "LocalisedConformalPit",
    "PostHocRegressor",
    "ResidualScale",
]
