"""Scores for being out of distribution, each with a threshold: of single rows, and of sets of rows."""

from kdgraph.detection.base import PostHocDetector, conformal_offset
from kdgraph.detection.geodesic_distance import GeodesicDistance
from kdgraph.detection.graph_density import GraphDensity
from kdgraph.detection.leaf_box import LeafBox
from kdgraph.detection.leaf_occupancy import LeafOccupancy
from kdgraph.detection.logits import Energy, MaxLogit
from kdgraph.detection.mahalanobis import Mahalanobis
from kdgraph.detection.neighbours import NearestNeighbours
from kdgraph.detection.odin import Odin
from kdgraph.detection.outliers import OutlierEstimator
from kdgraph.detection.set_test import SetTest
from kdgraph.detection.sets import Level, SetDetector, drawn_sets
from kdgraph.detection.softmax import Entropy, MaxProbability
from kdgraph.detection.tree_hamming import TreeHamming, aphd
from kdgraph.detection.vim import VirtualLogit

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
