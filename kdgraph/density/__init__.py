"""Kernel density graphs on a partition: kernel density forests and networks, the density floor, the
gate.
"""

from kdgraph.density.classifiers import KernelDensityForest, KernelDensityNetwork
from kdgraph.density.floor import blend_with_prior, conformal_log_floor
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
