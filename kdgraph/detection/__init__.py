"""Out-of-distribution detectors with a threshold, for single rows and for sets of rows."""

from kdgraph.detection.base import PostHocDetector, conformal_offset
from kdgraph.detection.features import (
    KthNeighbourDistance,
    Mahalanobis,
    OutlierEstimator,
    VirtualLogit,
)
from kdgraph.detection.outputs import Energy, Entropy, MaxLogit, MaxProbability, Odin
from kdgraph.detection.partitions import GeodesicDistance, GraphDensity, LeafBox, LeafOccupancy
from kdgraph.detection.score_ensemble import ForestScoreEnsemble
from kdgraph.detection.sets import ScoreLevel, SetDetector, SetTest, TreeHamming, aphd, draw_sets

__all__ = [
    "Energy",
    "Entropy",
    "ForestScoreEnsemble",
    "GeodesicDistance",
    "GraphDensity",
    "KthNeighbourDistance",
    "LeafBox",
    "LeafOccupancy",
    "Mahalanobis",
    "MaxLogit",
    "MaxProbability",
    "Odin",
    "OutlierEstimator",
    "PostHocDetector",
    "ScoreLevel",
    "SetDetector",
    "SetTest",
    "TreeHamming",
    "VirtualLogit",
    "aphd",
    "conformal_offset",
    "draw_sets",
]
