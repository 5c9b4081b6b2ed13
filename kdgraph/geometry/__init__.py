"""Geometry of parents: partitions, codes, polytopes and geodesic similarity."""

from kdgraph.geometry.code_index import CodeIndex, code_similarity
from kdgraph.geometry.forest import ForestPartition, LeafIndex
from kdgraph.geometry.kinds import (
    NoPartitionError,
    PipelinePartition,
    check_has_partition,
    forest_partition_of,
    partition_kind,
    partition_of,
)
from kdgraph.geometry.leaf_boxes import LeafBoxes, OutsideMeasure
from kdgraph.geometry.partition import Locations, Partition, Polytopes, polytopes_of, take_rows

__all__ = [
    "CodeIndex",
    "ForestPartition",
    "LeafBoxes",
    "LeafIndex",
    "Locations",
    "NoPartitionError",
    "OutsideMeasure",
    "Partition",
    "PipelinePartition",
    "Polytopes",
    "check_has_partition",
    "code_similarity",
    "forest_partition_of",
    "partition_kind",
    "partition_of",
    "polytopes_of",
    "take_rows",
]
