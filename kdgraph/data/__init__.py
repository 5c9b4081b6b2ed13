"""What comes in: simulations that know their posterior, tables, rows out of distribution, and the split into roles."""

from __future__ import annotations

from kdgraph.data.dataset import Dataset, OodSet, PosteriorSimulation, Simulation, Splits, Table
from kdgraph.data.scaling import Scaling
from kdgraph.data.splits import make_splits

__all__ = ["Dataset", "OodSet", "PosteriorSimulation", "Scaling", "Simulation", "Splits", "Table", "make_splits"]
