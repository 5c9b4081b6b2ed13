"""Out-of-distribution scores of rows behind a forest of classifiers, out of sample everywhere.

:class:`ForestScores` computes four scores of a row that fail on different rows: the log density of
the kernel density graph, the distance to training rows of the predicted class, the boxes of leaves,
and the entropy of the votes. It also computes them for training rows as if these were new: trees
that have a row in bag do not count, and the row is left out of every density and distance.
:class:`~kdgraph.detection.conformal.UpperTails` makes them comparable. Original to kdgraph.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import xlogy
from sklearn.neighbors import NearestNeighbors

from kdgraph.base.frozen import NoOutOfBagRows, out_of_bag_rows
from kdgraph.base.validation import apply_in_blocks
from kdgraph.density.graph import GraphLimits, KernelDensityGraph
from kdgraph.geometry import LeafBoxes
from kdgraph.geometry.forest import ForestPartition
from kdgraph.geometry.partition import Locations
from kdgraph.smoothing.neighbours import distances_of, draw_reference_rows, rank_in_sample

SCORE_NAMES = ("density", "class_distance", "box", "entropy")
"""Names of the scores of :class:`ForestScores`, in the order of its columns."""

_N_NEIGHBOURS = 5
# Largest number of rows of a class that a row is compared with, see KthNeighbourDistance.
_MAX_CLASS_ROWS = 50_000
_MIN_BOX_SAMPLES = 5
# Squared distance in units of the standard deviation, so that the logarithm of 0 is finite.
_MIN_SQUARED_DISTANCE = 1e-6
# Coordinates are clipped here, so that sums of their squares are finite.
_MAX_COORDINATE = 1e100


def in_bag_rows(partition: ForestPartition, codes: np.ndarray) -> np.ndarray | None:
    """Return which training rows are in bag in each tree, Bool[n, T], or None.

    ``codes`` are the leaves of the rows that the forest was fitted on, in the same order. None is
    returned if the trees were fitted on all rows, as without a bootstrap, or if the rows are not
    those that the forest was fitted on (:func:`~kdgraph.base.frozen.out_of_bag_rows`).
    """
    n_trees = codes.shape[1]
    try:
        is_out = [out_of_bag_rows(partition.forest, t, codes[:, t]) for t in range(n_trees)]
    except NoOutOfBagRows:
        return None
    in_bag = ~np.stack(is_out, axis=1)
    return None if in_bag.all() else in_bag


class ForestScores:
    """Four out-of-distribution scores of rows behind a forest; each is higher farther out.

    ``locations`` are those of n training rows, and ``labels`` their classes, as positions in the
    ``classes_`` of the forest. ``in_bag``, Bool[n, T], are the rows that each tree was fitted on
    (:func:`in_bag_rows`), which make up the boxes; None for all rows in every tree.
    ``random_state`` draws training rows of large classes.

    The columns of :meth:`score` are

    - ``density``: minus the log density at the nearest polytope of the kernel density graph in
      whitened coordinates (:class:`~kdgraph.detection.GraphDensity`),
    - ``class_distance``: log of the root mean square distance to the 5 nearest training rows of the
      predicted class, each feature in units of its standard deviation and weighted by its
      importance in the forest; of at most 50,000 rows of a class, with fewer neighbours in
      proportion, but at least 4,
    - ``box``: fraction of features outside of the box of in-bag rows in the leaf, as a mean over
      trees (:class:`~kdgraph.detection.LeafBox`),
    - ``entropy``: entropy of the forest's class probabilities.
    """

    def __init__(
        self,
        partition: ForestPartition,
        locations: Locations,
        labels: np.ndarray,
        in_bag: np.ndarray | None = None,
        random_state: Any = None,
    ):
        self.partition = partition
        self.graph = KernelDensityGraph(
            partition,
            locations,
            distance="whitened",
            limits=GraphLimits.of("auto"),
            leave_one_out=in_bag is not None,
        )
        self.boxes = LeafBoxes(partition, locations, _MIN_BOX_SAMPLES, in_bag)
        self._feature_weights = _importance_per_deviation(partition.forest, locations.points)
        weighted = self._weighted(locations.points)
        # Positions of the training rows that are in an index, and by class the index and the number
        # of neighbours.
        self._is_reference = np.zeros(len(labels), dtype=bool)
        self._class_indices: dict[int, tuple[NearestNeighbors, int]] = {}
        for k in np.unique(labels).tolist():
            members = np.flatnonzero(labels == k)
            rows = members[draw_reference_rows(len(members), _MAX_CLASS_ROWS, random_state)]
            self._is_reference[rows] = True
            n_neighbours = rank_in_sample(_N_NEIGHBOURS, len(members), len(rows))
            self._class_indices[k] = NearestNeighbors().fit(weighted[rows]), n_neighbours

    def score(self, locations: Locations) -> np.ndarray:
        """Return the scores of new rows, Float[m, 4], with columns :data:`SCORE_NAMES`."""
        proba = self.partition.parent_proba(locations)
        return np.column_stack(
            [
                -apply_in_blocks(self.graph.log_density, locations.points),
                self._class_distances(locations.points, proba),
                self.boxes.outside_by_feature(locations).mean(axis=1),
                -xlogy(proba, proba).sum(axis=1),
            ]
        )

    def score_training_rows(
        self, locations: Locations, labels: np.ndarray, in_bag: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        """Return the scores of training rows as if they were new, Float[m, 4].

        ``locations``, ``labels`` and ``in_bag`` are of all training rows, and ``rows`` positions of
        those that are out of bag in at least one tree; ValueError is raised for others.
        """
        out_of_bag = ~in_bag[rows]
        n_trees = out_of_bag.sum(axis=1)
        if not n_trees.all():
            raise ValueError(
                f"{(n_trees == 0).sum()} of {len(rows)} rows are in bag in every tree; score rows"
                " that are out of bag in one"
            )
        points, codes = locations.points[rows], locations.codes[rows]
        proba = np.zeros((len(rows), self.partition.trees[0].value.shape[2]))
        for t, tree in enumerate(self.partition.trees):
            proba += np.where(out_of_bag[:, t, None], tree.value[codes[:, t], 0, :], 0.0)
        proba /= n_trees[:, None]
        # A row is never outside of a box that was drawn around it and others. So trees that have
        # it in bag add 0 to the sum over trees, and only the divisor has to change.
        outside = self.boxes.outside_by_feature(Locations(points, codes)).mean(axis=1)
        return np.column_stack(
            [
                -self.graph.left_out_log_density(rows),
                self._class_distances(points, proba, labels[rows], self._is_reference[rows]),
                outside * self.partition.n_trees / n_trees,
                -xlogy(proba, proba).sum(axis=1),
            ]
        )

    def _weighted(self, points: np.ndarray) -> np.ndarray:
        # The coordinates of ``class_distance``.
        with np.errstate(over="ignore"):
            return np.clip(points * self._feature_weights, -_MAX_COORDINATE, _MAX_COORDINATE)

    def _class_distances(
        self,
        points: np.ndarray,
        proba: np.ndarray,
        own_labels: np.ndarray | None = None,
        is_reference: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the log distances to training rows of the most probable class, Float[m].

        With ``own_labels``, Int[m], the rows are training rows, and none is its own neighbour;
        ``is_reference``, Bool[m], marks those that other rows are compared with.
        """
        weighted, present = self._weighted(points), np.array(list(self._class_indices))
        predicted = present[proba[:, present].argmax(axis=1)]
        squared = np.full(len(points), np.nan)
        for k, (index, n_neighbours) in self._class_indices.items():
            is_predicted = predicted == k
            n_rows = index.n_samples_fit_
            distance = distances_of(index, weighted[is_predicted], min(n_neighbours + 1, n_rows))
            is_own = (
                np.zeros(len(distance), dtype=bool)
                if own_labels is None or is_reference is None
                else (own_labels[is_predicted] == k) & is_reference[is_predicted]
            )
            # The nearest neighbour of a training row is the row itself, or a twin of it that is
            # equally near.
            kept = (
                np.where(is_own[:, None], distance[:, 1:], distance[:, :-1])
                if n_rows > n_neighbours
                else np.where(is_own[:, None] & (np.arange(n_rows) == 0), np.nan, distance)
            )
            squared[is_predicted] = _mean_square(kept)
        # A row alone in its class has no neighbour there; the typical distance is neutral.
        is_known = ~np.isnan(squared)
        squared[~is_known] = np.median(squared[is_known]) if is_known.any() else 0.0
        return 0.5 * np.log(squared + _MIN_SQUARED_DISTANCE)


def _mean_square(distance: np.ndarray) -> np.ndarray:
    """Return the mean square of each row without its NaNs, NaN if there is nothing else."""
    is_known = ~np.isnan(distance)
    total = np.where(is_known, distance, 0.0)
    with np.errstate(invalid="ignore"):
        return (total**2).sum(axis=1) / is_known.sum(axis=1)


def _importance_per_deviation(forest: Any, points: np.ndarray) -> np.ndarray:
    deviation = points.std(axis=0)
    importance = forest.feature_importances_
    largest = importance.max(initial=0.0)
    weight = np.sqrt(importance / largest) if largest > 0 else np.ones(len(importance))
    return weight / np.where(deviation > 0, deviation, 1.0)
