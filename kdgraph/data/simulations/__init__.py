"""Simulated data sets with known truth.

- The six simulations of Dey et al. (2024), "Deep discriminative to kernel density graph", Appendix
  C, and the images of shapes of its Section 5.2.1.
- Moons, circles and blobs, which scikit-learn draws.
- Point clouds of Tree-based Ensemble Learning for Out-of-distribution Detection (TOOD), Section 6.
- Regressions with their true distributions: those of Torres et al. (2024), Sections 4.1 to 4.3, and
  Friedman's.

In the simulations of Appendix C the density of each class is known in closed form or as one smooth
integral. So a classifier can be compared with the truth at every point. The default parameters are
those of the paper's figures. Where its text differs, an option selects the text's variant.
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
