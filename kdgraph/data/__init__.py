"""What comes in: simulations that know their posterior, tables, rows out of distribution, and the
split into roles.
"""

from __future__ import annotations

from kdgraph.data.dataset import (
    Dataset,
    FetchableTable,
    OodSet,
    OodSource,
    PosteriorSimulation,
    RegressionSimulation,
    Scaling,
    Simulation,
    Splits,
    Table,
)
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
