"""Maps from a parent's scores to probabilities."""

from kdgraph.calibration.baselines import Refit, ScoreMap, Uncalibrated
from kdgraph.calibration.selection import BestCalibrator

__all__ = ["BestCalibrator", "Refit", "ScoreMap", "Uncalibrated"]
