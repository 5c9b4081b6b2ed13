"""How a parent sees space: partitions, codes, geodesic similarity, polytopes."""

from kdgraph.geometry.forest import ForestPartition
from kdgraph.geometry.leaf_index import LeafIndex
from kdgraph.geometry.partition import Partition, PipelinePartition, partition_of
from kdgraph.geometry.place import Place
from kdgraph.geometry.polytopes import Polytopes, polytopes_of, take_rows

__all__ = [
    "ForestPartition",
    "LeafIndex",
    "Partition",
    "PipelinePartition",
    "Place",
    "Polytopes",
    "partition_of",
    "polytopes_of",
    "take_rows",
]
