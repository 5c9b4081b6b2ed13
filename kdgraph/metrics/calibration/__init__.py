"""Is the stated confidence right? From the edges of bins to binned calibration errors, and the one that smooths instead of binning."""

from __future__ import annotations

from kdgraph.metrics.calibration.bins import ReliabilityBins, reliability_bins
from kdgraph.metrics.calibration.edges import Edges, Strategy, bin_edges, bin_of

__all__ = ["Edges", "ReliabilityBins", "Strategy", "bin_edges", "bin_of", "reliability_bins"]
