"""Maps from a parent's scores to probabilities."""

from kdgraph.calibration.baselines import Refit, ScoreMap, Uncalibrated
from kdgraph.calibration.selection import BestMap

__all__ = ["BestMap", "Refit", "ScoreMap", "Uncalibrated"]
