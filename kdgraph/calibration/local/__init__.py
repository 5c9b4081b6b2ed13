"""Local calibration: LoRe, and the two maps of ProCal with which it is compared."""

from kdgraph.calibration.local.lore import LocalClassShares, LocalRecalibration
from kdgraph.calibration.local.proximity import BinMeanShift, DensityRatio

__all__ = ["BinMeanShift", "DensityRatio", "LocalClassShares", "LocalRecalibration"]
