"""Confidence from the rows around a row: local recalibration (LoRe) and what it is compared
with.
"""

from kdgraph.calibration.local.lore import LocalClassShares, LocalRecalibration
from kdgraph.calibration.local.proximity import BinMeanShift, DensityRatio

__all__ = ["BinMeanShift", "DensityRatio", "LocalClassShares", "LocalRecalibration"]
