"""Kernel averages over the rows around a query point, nearest neighbours and means."""

from __future__ import annotations

from kdgraph.smoothing.kernel_means import local_means, local_means_by_distance
from kdgraph.smoothing.neighbourhoods import Kernel, LocalMeans, check_bandwidths, rms_of

__all__ = [
    "Kernel",
    "LocalMeans",
    "check_bandwidths",
    "local_means",
    "local_means_by_distance",
    "rms_of",
]
