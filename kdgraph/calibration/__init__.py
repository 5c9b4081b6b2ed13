"""Maps from a parent's scores to probabilities."""

from kdgraph.calibration.baselines import Refit, ScoreMap, Uncalibrated

__all__ = ["Refit", "ScoreMap", "Uncalibrated"]
