"""Kernel density graphs on partitions.

Kernel density forests and networks, the density gate for any classifier, and the density floor
below which probabilities fall back to the class prior (Dey et al. 2024).
"""

from kdgraph.density.classifiers import (
    KernelDensityForest,
    KernelDensityNetwork,
    blend_with_prior,
    conformal_log_floor,
)
from kdgraph.density.gate import DensityGate
from kdgraph.density.graph import KernelDensityGraph

__all__ = [
    "DensityGate",
    "KernelDensityForest",
    "KernelDensityGraph",
    "KernelDensityNetwork",
    "blend_with_prior",
    "conformal_log_floor",
]
