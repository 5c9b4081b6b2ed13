"""Out-of-distribution detectors with a threshold, for single rows and for sets of rows."""

from kdgraph.detection.base import PostHocDetector
from kdgraph.detection.conformal import UpperTails, conformal_offset, conformal_p_values
from kdgraph.detection.features import KthNeighbourDistance, OutlierEstimator, VirtualLogit
from kdgraph.detection.gate import ScoreGate
from kdgraph.detection.mahalanobis import LayerwiseMahalanobis, Mahalanobis
from kdgraph.detection.outputs import Energy, Entropy, MaxLogit, MaxProbability, Odin
from kdgraph.detection.partitions import GeodesicDistance, GraphDensity, LeafBox, LeafOccupancy
from kdgraph.detection.score_ensemble import ForestScoreEnsemble
from kdgraph.detection.set_tests import (
    ClassifierTwoSample,
    FeatureSetDetector,
    KolmogorovSmirnov,
    MaximumMeanDiscrepancy,
    SetMean,
    SetStatisticDetector,
)
from kdgraph.detection.sets import ScoreLevel, SetDetector, SetTest, TreeHamming, aphd, draw_sets

__all__ = [
    "ClassifierTwoSample",
    "Energy",
    "Entropy",
    "FeatureSetDetector",
    "ForestScoreEnsemble",
    "GeodesicDistance",
    "GraphDensity",
    "KolmogorovSmirnov",
    "KthNeighbourDistance",
    "LayerwiseMahalanobis",
    "LeafBox",
    "LeafOccupancy",
    "Mahalanobis",
    "MaxLogit",
    "MaxProbability",
    "MaximumMeanDiscrepancy",
    "Odin",
    "OutlierEstimator",
    "PostHocDetector",
    "ScoreGate",
    "ScoreLevel",
    "SetDetector",
    "SetMean",
    "SetStatisticDetector",
    "SetTest",
    "TreeHamming",
    "UpperTails",
    "VirtualLogit",
    "aphd",
    "conformal_offset",
    "conformal_p_values",
    "draw_sets",
]
