"""Simulated data sets with known truth.

Those of Dey et al. (2024), "Deep discriminative to kernel density graph", Appendix C, have a known
density of each class, so that a classifier can be compared with the truth at every point.
"""

from __future__ import annotations

from kdgraph.data.simulations.clouds import Blobs, Circles, Moons, Trunk
from kdgraph.data.simulations.planar import Circle, GaussianXor, Polynomial, Sinewave, Spiral
from kdgraph.data.simulations.plane import PlaneSimulation, paper_grid
from kdgraph.data.simulations.regressions import (
    FriedmanSimulation,
    Heteroscedastic,
    Rosenbrock,
    Tran20,
)
from kdgraph.data.simulations.shapes import PointCloud, Shapes

__all__ = [
    "Blobs",
    "Circle",
    "Circles",
    "FriedmanSimulation",
    "GaussianXor",
    "Heteroscedastic",
    "Moons",
    "PlaneSimulation",
    "PointCloud",
    "Polynomial",
    "Rosenbrock",
    "Shapes",
    "Sinewave",
    "Spiral",
    "Tran20",
    "Trunk",
    "paper_grid",
]
