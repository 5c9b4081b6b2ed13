"""Geometry of parents: partitions, codes, polytopes and geodesic similarity."""

from kdgraph.geometry.boosting import BoostedPartition
from kdgraph.geometry.code_index import CodeIndex, code_similarity
from kdgraph.geometry.forest import ForestPartition, TreePartition
from kdgraph.geometry.kinds import (
    KIND_NAMES,
    NoPartitionError,
    PartitionKind,
    PipelinePartition,
    check_has_partition,
    finite_space_of,
    forest_partition_of,
    partition_kind,
    partition_of,
    tree_partition_of,
)
from kdgraph.geometry.leaf_boxes import LeafBoxes, OutsideMeasure
from kdgraph.geometry.leaf_index import LeafIndex
from kdgraph.geometry.partition import Locations, Partition, Polytopes, polytopes_of, take_rows

__all__ = [
    "KIND_NAMES",
    "BoostedPartition",
    "CodeIndex",
    "ForestPartition",
    "LeafBoxes",
    "LeafIndex",
    "Locations",
    "NoPartitionError",
    "OutsideMeasure",
    "Partition",
    "PartitionKind",
    "PipelinePartition",
    "Polytopes",
    "TreePartition",
    "check_has_partition",
    "code_similarity",
    "finite_space_of",
    "forest_partition_of",
    "partition_kind",
    "partition_of",
    "polytopes_of",
    "take_rows",
    "tree_partition_of",
]
