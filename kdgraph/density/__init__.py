"""Kernel density graphs on a partition: the kernel density forest, the density floor, the gate."""

from kdgraph.density.floor import blend, conformal_log_floor
from kdgraph.density.gate import DensityGate
from kdgraph.density.graph import KernelDensityGraph
from kdgraph.density.kdf import KernelDensityForest

__all__ = ["DensityGate", "KernelDensityForest", "KernelDensityGraph", "blend", "conformal_log_floor"]
