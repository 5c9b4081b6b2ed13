"""Scores for being out of distribution, each with a threshold: of single rows, and of sets of
rows.
"""

from kdgraph.detection.base import PostHocDetector, conformal_offset
from kdgraph.detection.features import (
    Mahalanobis,
    NearestNeighbours,
    OutlierEstimator,
    VirtualLogit,
)
from kdgraph.detection.outputs import Energy, Entropy, MaxLogit, MaxProbability, Odin
from kdgraph.detection.partitions import GeodesicDistance, GraphDensity, LeafBox, LeafOccupancy
from kdgraph.detection.sets import Level, SetDetector, SetTest, TreeHamming, aphd, drawn_sets

__all__ = [
    "Energy",
    "Entropy",
    "GeodesicDistance",
    "GraphDensity",
    "LeafBox",
    "LeafOccupancy",
    "Level",
    "Mahalanobis",
    "MaxLogit",
    "MaxProbability",
    "NearestNeighbours",
    "Odin",
    "OutlierEstimator",
    "PostHocDetector",
    "SetDetector",
    "SetTest",
    "TreeHamming",
    "VirtualLogit",
    "aphd",
    "conformal_offset",
    "drawn_sets",
]
