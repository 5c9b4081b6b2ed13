"""Calibrators of top-label confidence: how likely the predicted class is right, class by class. Predictions stay the parent's."""

from kdgraph.calibration.top_label.base import TopLabelCalibrator
from kdgraph.calibration.top_label.best import BestConfidence
from kdgraph.calibration.top_label.beta import BetaCalibration
from kdgraph.calibration.top_label.cumulative import CumulativeConfidence
from kdgraph.calibration.top_label.histogram import HistogramBinning
from kdgraph.calibration.top_label.isotonic import IsotonicConfidence
from kdgraph.calibration.top_label.kernel_density import KernelDensityConfidence
from kdgraph.calibration.top_label.pooling import PooledCalibrator
from kdgraph.calibration.top_label.precision import ClassPrecision
from kdgraph.calibration.top_label.temperature import TemperatureScaling
from kdgraph.calibration.top_label.venn_abers import VennAbers

__all__ = [
    "BestConfidence",
    "BetaCalibration",
    "ClassPrecision",
    "CumulativeConfidence",
    "HistogramBinning",
    "IsotonicConfidence",
    "KernelDensityConfidence",
    "PooledCalibrator",
    "TemperatureScaling",
    "TopLabelCalibrator",
    "VennAbers",
]
