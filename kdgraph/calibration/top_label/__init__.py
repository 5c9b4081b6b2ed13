"""Calibrators of top-label confidence: how likely the predicted class is right, class by class. Predictions stay the parent's."""

from kdgraph.calibration.top_label.base import TopLabelCalibrator
from kdgraph.calibration.top_label.histogram import HistogramBinning

__all__ = ["HistogramBinning", "TopLabelCalibrator"]
