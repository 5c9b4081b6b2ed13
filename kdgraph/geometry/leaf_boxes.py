"""Bounding boxes of the training rows in the leaves of trees.

A leaf of a tree is unbounded along the features that its path does not split on, so that rows far
from the data may fall into a leaf of training rows. The tight box of these training rows is
bounded. :class:`LeafBoxes` measures how often, or how far, a row lies outside of the box of its
leaf.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np

from kdgraph.compilation import kernel
from kdgraph.geometry.kinds import tree_partition_of
from kdgraph.geometry.partition import Locations, Partition, map_blocks

OutsideMeasure = Literal["fraction", "distance"]
"""Measure of the part of a row outside of a box, for each feature. "fraction": 1 if the value is
beyond the bounds, else 0. "distance": its distance to the bounds in units of the feature's range.
"""

# Queries of a block: they pass over the boxes of one tree after the other, and use these boxes
# together while they are in cache.
_QUERY_BLOCK = 1024
_FLOAT32_MAX = float(np.finfo(np.float32).max)

_compiled = kernel(boundscheck=False)


class LeafBoxes:
    """Tight boxes [min, max] of the training rows in each leaf of a tree ensemble, by feature.

    Parameters
    ----------
    partition : Partition
        Partition of a forest, of one tree or of boosted trees, also behind the transformers of a
        pipeline. Others have no leaves and raise TypeError.
    locations : Locations
        The training rows on this partition.
    min_samples : int, default=1
        Minimum number of training rows in a box. A leaf with fewer rows has the box of its nearest
        ancestor with as many, or of the root.
    in_bag : Bool[n, T] or None, default=None
        Rows that enter the boxes of each tree. None for all rows in all trees.

    Attributes
    ----------
    boxes : Float32[b, 2, d]
        Lower and upper bounds. They are infinite if all rows of a box miss that feature: the
        feature then bounds nothing.
    node_box : Int32[nodes]
        Index of the box of each leaf, -1 for other nodes; nodes are counted over all trees.
    feature_range : Float[d]
        Range of each feature over the training rows, 1 if the feature is constant.
    n_trees : int
        Number of trees, T.

    Notes
    -----
    Original to kdgraph. Bounds and queries are rounded to float32, the precision in which a forest
    compares. Rounding keeps the order of numbers, so that no training row is outside of its own
    box. A missing value is outside of no box.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from kdgraph.geometry import partition_of
    >>> X = np.array([[0.0], [1.0], [3.0], [4.0]])
    >>> partition = partition_of(DecisionTreeClassifier().fit(X, [0, 0, 1, 1]))
    >>> boxes = LeafBoxes(partition, partition.locate(X))
    >>> boxes.outside_by_feature(partition.locate([[0.5], [6.0]]), "distance")
    array([[0. ],
           [0.5]])
    """

    def __init__(
        self,
        partition: Partition,
        locations: Locations,
        min_samples: int = 1,
        in_bag: np.ndarray | None = None,
    ):
        trees = tree_partition_of(partition)
        if trees is None:
            raise TypeError("boxes need the leaves of trees, got a partition without leaves")
        points, self.n_jobs, self.n_trees = (
            _to_float32(locations.points),
            trees.n_jobs,
            trees.n_trees,
        )
        self.feature_range = _feature_ranges(points)
        self._starts = trees.leaf_starts[:-1]
        self.node_box = np.full(trees.leaf_starts[-1], -1, dtype=np.int32)
        leaf_boxes, n_boxes = [], 0
        for t, (start, nodes) in enumerate(zip(self._starts, locations.codes.T, strict=True)):
            rows, parents = slice(None) if in_bag is None else in_bag[:, t], trees.node_parents(t)
            boxes, box_node = _boxes_of_nodes(parents, nodes[rows], points[rows], min_samples)
            leaves = np.flatnonzero(trees.is_leaf[start : start + len(parents)])
            used_nodes, number = np.unique(box_node[leaves], return_inverse=True)
            self.node_box[start + leaves] = n_boxes + number
            leaf_boxes.append(boxes[used_nodes])
            n_boxes += len(used_nodes)
        self.boxes = np.concatenate(leaf_boxes)
        # A box that no value has entered has the bounds +inf and -inf; swapped, they bound nothing.
        is_empty = self.boxes[:, 0] > self.boxes[:, 1]
        self.boxes[:, 0][is_empty], self.boxes[:, 1][is_empty] = -np.inf, np.inf

    def outside_by_feature(
        self, locations: Locations, measure: OutsideMeasure = "fraction"
    ) -> np.ndarray:
        """Return the mean over trees of the outside part of each row, Float[n, d].

        Rows that were located on another partition raise ValueError.
        """
        # Shares are counted in integers and distances are added in the order of the trees, so that
        # neither other rows nor threads change a bit. Rows are sorted by the leaf of the first
        # tree: neighbours in space visit the same boxes.
        outside = np.empty(locations.points.shape)
        order = np.argsort(locations.codes[:, 0], kind="stable")
        blocks = [
            order[start : start + _QUERY_BLOCK] for start in range(0, len(locations), _QUERY_BLOCK)
        ]
        for rows, values in map_blocks(
            partial(self._block_by_feature, measure=measure), locations, blocks, self.n_jobs
        ):
            outside[rows] = values
        return outside

    def _block_by_feature(self, locations: Locations, measure: OutsideMeasure) -> np.ndarray:
        points = _to_float32(locations.points)
        box_of_row = self.node_box[locations.codes.T + self._starts[:, None]]
        # The compiled loops do not check bounds: with other boxes they would read beyond arrays.
        if (
            box_of_row.min() < 0
            or box_of_row.max() >= len(self.boxes)
            or self.boxes.shape[1:] != (2, points.shape[1])
        ):
            raise ValueError("codes and points do not come from the trees of these boxes")
        if measure == "fraction":
            count = np.zeros(points.shape, dtype=np.int32)
            _count_outside(points, box_of_row, self.boxes, count)
            return count / self.n_trees
        total = np.zeros(points.shape)
        _add_overshoot(points, box_of_row, self.boxes, total)
        return total / (self.n_trees * self.feature_range)


def _to_float32(points: np.ndarray) -> np.ndarray:
    """Return Float32[n, d]; values beyond the range of float32 become its largest number."""
    return np.ascontiguousarray(np.clip(points, -_FLOAT32_MAX, _FLOAT32_MAX), dtype=np.float32)


def _feature_ranges(points: np.ndarray) -> np.ndarray:
    """Return the range of each feature, Float[d], 1 if constant, as in ``MinMaxScaler``."""
    ranges = np.fmax.reduce(points, axis=0).astype(np.float64) - np.fmin.reduce(points, axis=0)
    return np.where(ranges > 0, ranges, 1.0)


def _boxes_of_nodes(
    parents: np.ndarray, nodes: np.ndarray, points: np.ndarray, min_samples: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return a box for each node of one tree, and the node whose box each node uses.

    ``parents``: Int[nodes], -1 for the root. Boxes are Float32[nodes, 2, d]. The node is the node
    itself, or its nearest ancestor with ``min_samples`` rows, Int[nodes].
    """
    boxes = np.empty((len(parents), 2, points.shape[1]), dtype=np.float32)
    boxes[:, 0], boxes[:, 1] = np.inf, -np.inf
    size, box_node = np.zeros_like(parents), np.arange(len(parents))
    nodes, order = np.ascontiguousarray(nodes), _top_down_order(parents)
    _fill_boxes(nodes, parents, order, points, min_samples, size, boxes, box_node)
    return boxes, box_node


def _top_down_order(parents: np.ndarray) -> np.ndarray:
    """Return the nodes of one tree, Int[nodes], each after its parent."""
    order = np.arange(len(parents))
    # scikit-learn, among others, numbers a parent before its children.
    if (parents < order).all():
        return order
    depth, ancestors = np.zeros_like(parents), parents
    while (ancestors >= 0).any():
        depth += ancestors >= 0
        ancestors = np.where(ancestors >= 0, parents[ancestors], -1)
    return np.argsort(depth, kind="stable")


@_compiled
def _fill_boxes(nodes, parents, order, points, min_samples, size, boxes, box_node):
    """Fill ``size``: Int[nodes], ``boxes`` and ``box_node`` of one tree."""
    # Three passes: rows into the boxes of their leaves, boxes of children into those of their
    # parents, from the leaves up, and then from the root down the nearest ancestor with enough
    # rows. A missing value (NaN) is neither smaller nor larger, so that it changes no bound.
    for i in range(nodes.shape[0]):
        box = boxes[nodes[i]]
        size[nodes[i]] += 1
        for j in range(points.shape[1]):
            value = points[i, j]
            if value < box[0, j]:
                box[0, j] = value
            if value > box[1, j]:
                box[1, j] = value
    for i in range(order.shape[0] - 1, -1, -1):
        node, parent = order[i], parents[order[i]]
        if parent < 0:
            continue
        box, parent_box = boxes[node], boxes[parent]
        size[parent] += size[node]
        for j in range(points.shape[1]):
            parent_box[0, j] = min(parent_box[0, j], box[0, j])
            parent_box[1, j] = max(parent_box[1, j], box[1, j])
    for i in range(order.shape[0]):
        node, parent = order[i], parents[order[i]]
        if parent >= 0 and size[node] < min_samples:
            box_node[node] = box_node[parent]


@_compiled
def _count_outside(points, box_of_row, boxes, count):
    """Add 1 to ``count``: Int32[m, d] for each tree whose box does not contain the row's feature.

    ``box_of_row``: Int32[T, m].
    """
    for t in range(box_of_row.shape[0]):
        for i in range(points.shape[0]):
            box = boxes[box_of_row[t, i]]
            for j in range(points.shape[1]):
                count[i, j] += np.int32(points[i, j] < box[0, j]) | np.int32(
                    points[i, j] > box[1, j]
                )


@_compiled
def _add_overshoot(points, box_of_row, boxes, total):
    """Add the distance of each row to the bounds of its boxes to ``total``: Float[m, d]."""
    for t in range(box_of_row.shape[0]):
        for i in range(points.shape[0]):
            box = boxes[box_of_row[t, i]]
            for j in range(points.shape[1]):
                value = np.float64(points[i, j])
                if value < box[0, j]:
                    total[i, j] += box[0, j] - value
                elif value > box[1, j]:
                    total[i, j] += value - box[1, j]
