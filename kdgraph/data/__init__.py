"""Data sources and the division of their rows into roles.

Simulations draw rows with a known posterior, tables are read from files or downloaded, and
out-of-distribution sources produce rows that are not from the training distribution.
:func:`make_splits` makes training, calibration and test rows from a source.
"""

from __future__ import annotations

from kdgraph.data.dataset import (
    Dataset,
    FetchableTable,
    OodSet,
    OodSource,
    PosteriorSimulation,
    RegressionSimulation,
    Simulation,
    Splits,
    Table,
)
from kdgraph.data.scaling import Scaling
from kdgraph.data.splits import make_splits

__all__ = [
    "Dataset",
    "FetchableTable",
    "OodSet",
    "OodSource",
    "PosteriorSimulation",
    "RegressionSimulation",
    "Scaling",
    "Simulation",
    "Splits",
    "Table",
    "make_splits",
]
