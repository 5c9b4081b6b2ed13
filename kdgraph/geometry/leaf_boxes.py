"""The boxes of the training rows in the leaves of a forest, and how far other rows lie outside of
them.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
from numba import njit

from kdgraph.geometry.kinds import forest_partition_of
from kdgraph.geometry.partition import Locations, Partition, map_blocks

OutsideMeasure = Literal["share", "distance"]
"""share: whether a row is beyond the bounds of a feature, 1 or 0; distance: how far, in units of
the feature's range.
"""

_QUERY_BLOCK = 1024
"""Queries to a block: they pass over one tree's boxes after the other, and share them while they
are in cache.
"""
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_compiled = njit(nogil=True, cache=True, boundscheck=False)


class LeafBoxes:
    """For each leaf of a forest the tight box [min, max] of the training rows in it, feature by
    feature. Ours.

    Parameters
    ----------
    partition : of a forest or one tree, also behind the transformations of a pipeline.
    locations : the training rows on it.
    min_samples : training rows that a box holds at least: a leaf with fewer has the box of the
        nearest node above it with as many, or of the root.

    Attributes
    ----------
    boxes : Float32[b, 2, d], lower and upper bounds; infinite where all rows of a box miss that
    feature, which then bounds nothing.
    node_box : Int32[nodes], the box of each leaf, -1 for other nodes; they are counted over all
    trees.
    feature_range : Float[d], the range of each feature over the training rows, 1 where it is constant.
    n_trees : T.

    Raises
    ------
    TypeError : for a partition that has no leaves.

    Notes
    -----
    Bounds and queries are rounded to float32, in which a forest compares; that keeps the order of
    numbers, so no training row is outside of its own box. A missing value is outside of none.
    """

    def __init__(self, partition: Partition, locations: Locations, min_samples: int = 1):
        inner = forest_partition_of(partition)
        if inner is None:
            raise TypeError(
                "boxes are those of the leaves of a forest or tree, got a partition without leaves"
            )
        points, self.n_jobs, self.n_trees = (
            _to_float32(locations.points),
            inner.n_jobs,
            inner.n_trees,
        )
        self.feature_range, self._starts = _feature_ranges(points), inner.leaf_starts[:-1]
        self.node_box = np.full(inner.leaf_starts[-1], -1, dtype=np.int32)
        kept, n_boxes = [], 0
        for start, tree, nodes in zip(self._starts, inner.trees, locations.codes.T, strict=True):
            boxes, holder = _boxes_of_nodes(tree, nodes, points, min_samples)
            leaves = np.flatnonzero(tree.children_left < 0)
            used, number = np.unique(holder[leaves], return_inverse=True)
            self.node_box[start + leaves] = n_boxes + number
            kept.append(boxes[used])
            n_boxes += len(used)
        self.boxes = np.concatenate(kept)
        empty = self.boxes[:, 0] > self.boxes[:, 1]
        self.boxes[:, 0][empty], self.boxes[:, 1][empty] = -np.inf, np.inf

    def outside_by_feature(
        self, locations: Locations, measure: OutsideMeasure = "share"
    ) -> np.ndarray:
        """Float[n, d]: for each row and feature the mean over trees of what lies ``measure`` of the
        box of the row's leaf.

        Shares are counted in integers, distances are added in the order of the trees: neither other
        rows nor threads change a bit.
        """
        found = np.empty(locations.points.shape)
        order = np.argsort(
            locations.codes[:, 0], kind="stable"
        )  # neighbours in space meet the same boxes
        blocks = [
            order[start : start + _QUERY_BLOCK] for start in range(0, len(locations), _QUERY_BLOCK)
        ]
        for rows, values in map_blocks(
            partial(self._block_by_feature, measure=measure), locations, blocks, self.n_jobs
        ):
            found[rows] = values
        return found

    def _block_by_feature(self, locations: Locations, measure: OutsideMeasure) -> np.ndarray:
        points, boxes = (
            _to_float32(locations.points),
            self.node_box[locations.codes.T + self._starts[:, None]],
        )
        if (
            boxes.min() < 0
            or boxes.max() >= len(self.boxes)
            or self.boxes.shape[1:] != (2, points.shape[1])
        ):
            raise ValueError(
                "codes and points are not of the forest whose boxes these are"
            )  # the kernels below would read beyond them
        if measure == "share":
            count = np.zeros(points.shape, dtype=np.int32)
            _count_outside(points, boxes, self.boxes, count)
            return count / self.n_trees
        total = np.zeros(points.shape)
        _add_overshoot(points, boxes, self.boxes, total)
        return total / (self.n_trees * self.feature_range)


def _to_float32(points: np.ndarray) -> np.ndarray:
    """Float32[n, d]: beyond what float32 can hold lies its largest number."""
    return np.ascontiguousarray(np.clip(points, -_FLOAT32_MAX, _FLOAT32_MAX), dtype=np.float32)


def _feature_ranges(points: np.ndarray) -> np.ndarray:
    """Float[d]: as scikit-learn's ``MinMaxScaler`` has them."""
    found = np.fmax.reduce(points, axis=0).astype(np.float64) - np.fmin.reduce(points, axis=0)
    return np.where(found > 0, found, 1.0)


def _boxes_of_nodes(
    tree: Any, nodes: np.ndarray, points: np.ndarray, min_samples: int
) -> tuple[np.ndarray, np.ndarray]:
    """Float32[nodes, 2, d]: a box for each node of one tree; Int[nodes]: itself, or the nearest
    above it with ``min_samples`` rows.
    """
    above = np.zeros(tree.node_count, dtype=np.int64)
    for children in (tree.children_left, tree.children_right):
        inner = np.flatnonzero(children >= 0)
        above[children[inner]] = inner
    boxes = np.empty((tree.node_count, 2, points.shape[1]), dtype=np.float32)
    boxes[:, 0], boxes[:, 1] = np.inf, -np.inf
    size, holder = np.zeros_like(above), np.arange(tree.node_count)
    _fill_boxes(np.ascontiguousarray(nodes), above, points, min_samples, size, boxes, holder)
    return boxes, holder


@_compiled
def _fill_boxes(nodes, parent_node, points, min_samples, size, boxes, holder):
    """Fill ``size``: Int[nodes], ``boxes`` and ``holder`` of one tree; ``parent_node``: Int[nodes], which
    comes before what it is above.
    """
    for i in range(nodes.shape[0]):
        box = boxes[nodes[i]]
        size[nodes[i]] += 1
        for j in range(points.shape[1]):
            value = points[i, j]  # a missing one is neither smaller nor larger
            if value < box[0, j]:
                box[0, j] = value
            if value > box[1, j]:
                box[1, j] = value
    for node in range(parent_node.shape[0] - 1, 0, -1):
        box, wider = boxes[node], boxes[parent_node[node]]
        size[parent_node[node]] += size[node]
        for j in range(points.shape[1]):
            wider[0, j] = min(wider[0, j], box[0, j])
            wider[1, j] = max(wider[1, j], box[1, j])
    for node in range(1, parent_node.shape[0]):
        if size[node] < min_samples:
            holder[node] = holder[parent_node[node]]


@_compiled
def _count_outside(points, box_of_row, boxes, count):
    """Add 1 to ``count``: Int32[m, d] for each tree whose box a row leaves in that feature;
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
    """Add to ``total``: Float[m, d] how far each row lies beyond the bounds of its box, tree by
    tree.
    """
    for t in range(box_of_row.shape[0]):
        for i in range(points.shape[0]):
            box = boxes[box_of_row[t, i]]
            for j in range(points.shape[1]):
                value = np.float64(points[i, j])
                if value < box[0, j]:
                    total[i, j] += box[0, j] - value
                elif value > box[1, j]:
                    total[i, j] += value - box[1, j]
