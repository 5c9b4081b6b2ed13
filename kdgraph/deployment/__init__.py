"""Repaired models that predict data frames, in one file and without the configuration of a run.

:class:`DeployedModel` is a fitted model with the :class:`Schema` of its rows. ``kdg repair`` writes
one, :func:`kdgraph.load` reads it, and ``kdg predict`` predicts files with it.
:class:`PartitionPredictor` predicts the partitions of a Dask or Ray data set.
"""

from kdgraph.deployment.cells import Cells
from kdgraph.deployment.model import DeployedModel, PartitionPredictor
from kdgraph.deployment.schema import Schema, read_schema, schema_of

__all__ = ["Cells", "DeployedModel", "PartitionPredictor", "Schema", "read_schema", "schema_of"]
