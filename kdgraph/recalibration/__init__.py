"""Repair of the predictive distributions of regressors."""

from kdgraph.recalibration.base import PostHocRegressor
from kdgraph.recalibration.conformal import ConformalPit
from kdgraph.recalibration.density_pit import DensityPit
from kdgraph.recalibration.global_pit import GlobalPit
from kdgraph.recalibration.isotonic_pit import IsotonicPit
from kdgraph.recalibration.local_pit import LocalPit
from kdgraph.recalibration.localised import LocalisedConformalPit

__all__ = ["ConformalPit", "DensityPit", "GlobalPit", "IsotonicPit", "LocalPit", "LocalisedConformalPit", "PostHocRegressor"]
