"""How a parent sees space: partitions, codes, geodesic similarity, polytopes."""

from kdgraph.geometry.code_index import CodeIndex, code_similarity
from kdgraph.geometry.forest import ForestPartition, LeafIndex
from kdgraph.geometry.kinds import (
    NoPartitionError,
    PipelinePartition,
    check_kind,
    forest_behind,
    kind_of,
    partition_of,
)
from kdgraph.geometry.leaf_boxes import LeafBoxes, Outside
from kdgraph.geometry.partition import Partition, Place, Polytopes, polytopes_of, take_rows

__all__ = [
    "CodeIndex",
    "ForestPartition",
    "LeafBoxes",
    "LeafIndex",
    "NoPartitionError",
    "Outside",
    "Partition",
    "PipelinePartition",
    "Place",
    "Polytopes",
    "check_kind",
    "code_similarity",
    "forest_behind",
    "kind_of",
    "partition_of",
    "polytopes_of",
    "take_rows",
]
