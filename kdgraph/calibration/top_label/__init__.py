"""Calibrators of top-label confidence, which keep the parent's predictions."""

from kdgraph.calibration.top_label.base import TopLabelCalibrator
from kdgraph.calibration.top_label.cumulative import CumulativeConfidence
from kdgraph.calibration.top_label.curves import (
    BetaCalibration,
    HistogramBinning,
    IsotonicConfidence,
    VennAbers,
)
from kdgraph.calibration.top_label.kernel_density import KernelDensityConfidence
from kdgraph.calibration.top_label.selection import BestConfidence, CrossFittedConfidence
from kdgraph.calibration.top_label.shrinkage import ClassPrecision, ShrinkageCalibrator
from kdgraph.calibration.top_label.temperature import TemperatureScaling

__all__ = [
    "BestConfidence",
    "BetaCalibration",
    "ClassPrecision",
    "CrossFittedConfidence",
    "CumulativeConfidence",
    "HistogramBinning",
    "IsotonicConfidence",
    "KernelDensityConfidence",
    "ShrinkageCalibrator",
    "TemperatureScaling",
    "TopLabelCalibrator",
    "VennAbers",
]
