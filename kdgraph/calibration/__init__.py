"""Calibration of the probabilities of a fitted parent."""

from kdgraph.calibration.baselines import LinearPool, ScoreMap, Uncalibrated
from kdgraph.calibration.groupwise import GroupWise
from kdgraph.calibration.matrix_scaling import DirichletCalibration, MatrixScaling
from kdgraph.calibration.odin import OdinCalibration
from kdgraph.calibration.selection import BestCalibrator

__all__ = [
    "BestCalibrator",
    "DirichletCalibration",
    "GroupWise",
    "LinearPool",
    "MatrixScaling",
    "OdinCalibration",
    "ScoreMap",
    "Uncalibrated",
]
