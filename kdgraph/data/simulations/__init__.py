"""The simulations of Dey et al. (2024), "Deep discriminative to kernel density graph": images of
shapes (Section 5.2.1), and the six of its Appendix C; those that scikit-learn draws; point clouds
of TOOD, Section 6; and regressions with their truth: those of Torres et al. (2024), Sections 4.1 to
4.3, and Friedman's.

In those of appendix C each class's density is known in closed form or as one smooth integral, so a
classifier can be compared with the truth at every point. Defaults are what the paper's figures were
made with; where its text says otherwise, the text's variant is an option.
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
