"""Scores for being out of distribution, each with a threshold: of single rows, and of sets of rows."""

from kdgraph.detection.base import PostHocDetector, conformal_offset
from kdgraph.detection.sets import Level, SetDetector, drawn_sets
from kdgraph.detection.tree_hamming import TreeHamming, aphd

__all__ = ["Level", "PostHocDetector", "SetDetector", "TreeHamming", "aphd", "conformal_offset", "drawn_sets"]
