"""Averages over the rows around a place: kernels of distances in feature space, and of any other dissimilarity."""

from __future__ import annotations

from kdgraph.smoothing.bandwidths import Kernel, check_bandwidths, rms_of
from kdgraph.smoothing.by_distance import local_means_by_distance
from kdgraph.smoothing.by_features import local_means
from kdgraph.smoothing.means import LocalMeans

__all__ = ["Kernel", "LocalMeans", "check_bandwidths", "local_means", "local_means_by_distance", "rms_of"]
