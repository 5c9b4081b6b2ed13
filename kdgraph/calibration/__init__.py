"""Calibration of the probabilities of a fitted parent."""

from kdgraph.calibration.baselines import LinearPool, ScoreMap, Uncalibrated
from kdgraph.calibration.conformal import (
    Conditional,
    ConformalClassifier,
    ConformityScore,
    nonconformity_scores,
    row_uniforms,
)
from kdgraph.calibration.groupwise import GroupWise
from kdgraph.calibration.matrix_scaling import DirichletCalibration, MatrixScaling
from kdgraph.calibration.odin import OdinCalibration
from kdgraph.calibration.selection import BestCalibrator

__all__ = [
    "BestCalibrator",
    "Conditional",
    "ConformalClassifier",
    "ConformityScore",
    "DirichletCalibration",
    "GroupWise",
    "LinearPool",
    "MatrixScaling",
    "OdinCalibration",
    "ScoreMap",
    "Uncalibrated",
    "nonconformity_scores",
    "row_uniforms",
]
