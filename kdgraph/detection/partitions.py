"""Detectors that use the partition of the input space by a parent, and its training without labels.

The leaves of a forest, or the activation patterns of a network, partition the input space. The
detectors use the occupancy of leaves, the boxes of training rows in them, geodesic distance, or the
density of a kernel density graph (Dey et al.). The detectors without a reference are original to
kdgraph.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from kdgraph.base import Rows, seeded_clone
from kdgraph.base.rows import unseen_rows
from kdgraph.base.validation import apply_in_blocks
from kdgraph.density.graph import GraphLimits, KernelDensityGraph, PolytopeDistance
from kdgraph.detection.base import PostHocDetector
from kdgraph.geometry import (
    LeafBoxes,
    OutsideMeasure,
    Partition,
    finite_space_of,
    partition_of,
    polytopes_of,
    take_rows,
    tree_partition_of,
)
from kdgraph.geometry.partition import PolytopeIndex
from kdgraph.parameters import Count, OpenFraction
from kdgraph.parents.classifiers import clone_for_new_labels

TrainingLabels = Literal["given", "shuffled", "none"]
"""Training labels of the parent.

"given": the parent is trained as it is passed. "shuffled": a clone of it is trained on permuted
labels, or on random binary labels if labels are missing or constant. "none": a clone of it is
trained on random binary labels.
"""


@dataclass(eq=False, repr=False)
class PartitionDetector(PostHocDetector):
    """Base class of detectors that use the partition of their parent.

    The parent may be trained on random labels, and then it requires none.

    Parameters
    ----------
    estimator : estimator with a partition, default=None
        None is 100 extremely randomised trees. A frozen estimator is used unchanged with the given
        labels, and the training rows of the detector are those passed to ``fit``. Behind a
        pipeline, boxes and Gaussians are in the transformed space.
    labels : {"given", "shuffled", "none"}, default="given"
        Training labels of the parent, see :data:`~kdgraph.detection.partitions.TrainingLabels`. Use
        "none" if there are no labels.
    n_jobs : int or None, default=None
        Number of threads. It never changes a number.
    """

    estimator: Any = None
    _: KW_ONLY
    labels: TrainingLabels = "given"
    n_jobs: int | None = None

    def _partition(self) -> Partition:
        return self._partition_of(self.estimator_)

    def _partition_of(self, parent: Any) -> Partition:
        partition = partition_of(parent, n_jobs=self.n_jobs)
        if self.required_partition == "trees" and tree_partition_of(partition) is None:
            required = "a forest, a tree or boosted trees, or a pipeline that ends in them"
            raise TypeError(f"{type(self).__name__} needs {required}, got a network")
        return partition

    def _default_estimator(self) -> Any:
        return (
            ExtraTreesClassifier(100, n_jobs=self.n_jobs)
            if self.estimator is None
            else self.estimator
        )

    def _needs_unseen_rows(self) -> bool:
        # With other labels the parent is a clone that is fitted here.
        return self.labels == "given"

    def _needs_labels(self) -> bool:
        return self.labels == "given" and super()._needs_labels()

    def _fit_parent(
        self, parent: Any, train: Rows, calibration: Rows | None, random_state: Any
    ) -> Any:
        if isinstance(parent, FrozenEstimator):
            # Raise an error for a parent without a partition before a clone of it is trained.
            self._partition_of(parent)
        if self.labels == "given":
            return super()._fit_parent(parent, train, calibration, random_state)
        clone_parent = clone_for_new_labels if isinstance(parent, FrozenEstimator) else seeded_clone
        # A clone of a frozen estimator is the same fitted estimator, so the inner one is cloned.
        while isinstance(parent, FrozenEstimator):
            parent = parent.estimator
        rng = check_random_state(random_state)
        is_uninformative = self.labels == "none" or train.y is None or len(np.unique(train.y)) < 2
        y = rng.randint(2, size=len(train)) if is_uninformative else rng.permutation(train.y)
        copy = clone_parent(parent, rng)
        # The frozen parent may be set to one core; the clone uses ``n_jobs`` of the detector.
        threads = [name for name in copy.get_params() if name.split("__")[-1] == "n_jobs"]
        return copy.set_params(**dict.fromkeys(threads, self.n_jobs)).fit(train.X, y)


# Number of rows that replaces 0 for an empty leaf on the log scale.
_EMPTY_LEAF_COUNT = 0.5


@dataclass(eq=False, repr=False)
class LeafOccupancy(PartitionDetector):
    """Number of training rows that share the leaves of a row; few are out of distribution.

    The score is cheap and weak: rows outside the training range fall into the outermost leaves,
    which may be as full as any other. It needs a forest, a tree or boosted trees.

    With n_t(x) of n training rows in the leaf of x in tree t, the score is 1/T Σ_t n_t(x)/n or 1/T
    Σ_t log(n_t(x)/n). The boxes of the same leaves (:class:`LeafBox`) are a stronger score. A row
    that is scored out of bag does not count in its leaves, and with ``calibration="cross_fit"`` a
    score of a fold becomes the one of the same rank among those of the training rows.

    Parameters
    ----------
    scale : {"fraction", "log"}, default="fraction"
        "fraction": mean over trees of the fraction of training rows in the leaf of the row. "log":
        mean of the logarithm of it, which no single full leaf can outweigh. On the logarithmic
        scale an empty leaf counts as half a row.

    Attributes
    ----------
    leaf_sizes_ : Int[nodes]
        Number of training rows in each leaf, with nodes numbered over all trees.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(300, centers=3, random_state=0)
    >>> detector = LeafOccupancy(random_state=0).fit(X, y)
    >>> score = detector.score_samples(X)
    >>> bool(0 < score.min() < score.max() < 1)
    True
    """

    _: KW_ONLY
    scale: Literal["fraction", "log"] = "fraction"

    required_partition: ClassVar = "trees"

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        self._n_train = len(train)
        codes, starts = self._encode(train.X)
        nodes = codes + starts[:-1]
        self.leaf_sizes_ = np.bincount(nodes.ravel(), minlength=starts[-1])

    def _out_of_bag_scores(self, train: Rows, held_out: Rows) -> np.ndarray:
        # Of the rows in its leaves, the row itself does not count.
        fraction = self._log_or_fraction(self.leaf_sizes_ - 1, self._n_train - 1)
        codes, starts = self._encode(held_out.X)
        is_out = unseen_rows(held_out).source.is_out[unseen_rows(held_out).positions]
        total = np.where(is_out, fraction[codes + starts[:-1]], 0.0).sum(axis=1)
        return total / is_out.sum(axis=1)

    def _encode(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the leaf of each row in each tree, Int[n, T], and the first node of each tree."""
        partition = self._partition()
        trees = tree_partition_of(partition)
        assert trees is not None  # _partition raises an error for other partitions
        return partition.encode(X), trees.leaf_starts

    def _score(self, X: Any) -> np.ndarray:
        fraction = self._log_or_fraction(self.leaf_sizes_, self._n_train)
        codes, starts = self._encode(X)
        total = np.zeros(len(codes))
        # The sum runs in the order of the trees, so that it is independent of other rows.
        for leaves, start in zip(codes.T, starts[:-1], strict=True):
            total += fraction[start:][leaves]
        return total / codes.shape[1]

    def _scores_of_more_rows(
        self, scores: np.ndarray, train: Rows, detector: PostHocDetector, others: Rows
    ) -> np.ndarray:
        # In a smaller table the leaves of fully grown trees have as many rows, and those of flat
        # trees the same fraction of them. So a score becomes the one of the same rank among those
        # of the training rows; below the lowest it keeps its ratio to that.
        own, of_fold = np.sort(self._score(train.X)), np.sort(detector._score(others.X))
        rank = np.interp(scores, of_fold, np.linspace(0, 1, len(of_fold)))
        same_rank = np.interp(rank, np.linspace(0, 1, len(own)), own)
        below = scores + (own[0] - of_fold[0])
        if self.scale == "fraction":
            below = scores * (own[0] / of_fold[0])
        return np.where(scores < of_fold[0], below, same_rank)

    def _log_or_fraction(self, sizes: np.ndarray, n_rows: int) -> np.ndarray:
        """Return the fraction of the rows that a leaf of some size contains, or its logarithm."""
        if self.scale == "log":
            return np.log(np.maximum(sizes, _EMPTY_LEAF_COUNT) / n_rows)
        return sizes / n_rows


@dataclass(eq=False, repr=False)
class LeafBox(PartitionDetector):
    """Distance of a row from the boxes of training rows in its leaves, by feature.

    A tree assigns every row to a leaf, at any distance from the training rows. Rows from another
    distribution, and rows with an unusual combination of features, lie outside of the tight box
    around the training rows of the leaf (``boxes_``). The parent is a forest, a tree or boosted
    trees.

    Parameters
    ----------
    measure : {"fraction", "distance"}, default="fraction"
        "fraction": each feature in which a row is outside counts as 1, so the score is bounded.
        "distance": it counts by its distance to the box, in units of the range of the feature over
        the training rows, so the score also orders distant rows.
    min_samples : int, default=5
        Minimum number of training rows in a box. A leaf with fewer rows has the box of its nearest
        ancestor with as many.

    Notes
    -----
    With B_t(x) = Π_j [l_tj, u_tj] the box of the leaf of x in tree t, T trees and d features,

        score(x) = -1/(T·d) Σ_t Σ_j 1[x_j outside [l_tj, u_tj]]

    takes O(T·d) for each row after the descent of the trees. Boxes of single rows exclude nearly
    everything: for breast_cancer with permuted columns the AUROC is .94 with ``min_samples=1`` and
    .98 with 5. Trees with random thresholds partition the space more evenly than trees that search
    for the best one, and do about as well on random labels.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> detector = LeafBox(random_state=0).fit(X, y)
    >>> row = X.iloc[[0]].assign(hue=3.0)
    >>> detector.explained_feature_names()[detector.explain(row)[0] > 0.9]
    array(['hue'], dtype=object)
    """

    _: KW_ONLY
    measure: OutsideMeasure = "fraction"
    min_samples: Count = 5

    required_partition: ClassVar = "trees"

    def explain(self, X) -> np.ndarray:
        """Return Float[n, d], the outside measure of each feature as a mean over trees.

        Its mean over features is minus ``score_samples``. With ``measure="fraction"`` it is the
        fraction of trees whose box does not contain the row in that feature.
        """
        return self._outside_by_feature(self._validate_X(X))

    def explained_feature_names(self) -> np.ndarray:
        """Return Str[d], the column names of :meth:`explain`, "x0", "x1", … by default."""
        parent, names = self.estimator_, getattr(self, "feature_names_in_", None)
        while isinstance(parent, FrozenEstimator):
            parent = parent.estimator
        if isinstance(parent, Pipeline) and len(parent) > 1:
            try:
                return parent[:-1].get_feature_names_out(names)
            except AttributeError:  # not every transformer can name its output
                names = None
        return (
            np.array([f"x{j}" for j in range(len(self.boxes_.feature_range))], dtype=object)
            if names is None
            else names
        )

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        partition = self._partition()
        locations, in_bag = partition.locate(train.X, with_proba=False), None
        if calibration.unseen is not None and self._unseen_source() == "oob":
            in_bag = ~calibration.unseen.source.is_out
        self.boxes_ = LeafBoxes(partition, locations, self.min_samples, in_bag)

    def _out_of_bag_scores(self, train: Rows, held_out: Rows) -> np.ndarray:
        # A row is inside of each box that was drawn around it and others: trees that have it in bag
        # add 0 to the sum over trees, and only the number of trees has to change.
        n_out = unseen_rows(held_out).source.is_out[unseen_rows(held_out).positions].sum(axis=1)
        return self._score(held_out.X) * self.boxes_.n_trees / n_out

    def _outside_by_feature(self, X: Any) -> np.ndarray:
        locations = self._partition().locate(X, with_proba=False)
        return self.boxes_.outside_by_feature(locations, self.measure)

    def _score(self, X: Any) -> np.ndarray:
        return -self._outside_by_feature(X).mean(axis=1)


# Number of rows that are compared with all training rows at once, for neighbours after the first.
_QUERY_BLOCK = 256


@dataclass(eq=False, repr=False)
class GeodesicDistance(PartitionDetector):
    """Geodesic distance of a row to its nearest, or k-th nearest, training row.

    The geodesic similarity K is the fraction of trees in which two rows share a leaf (Eq. 14), or
    for networks the fraction of activation paths on which they agree (Eq. 16). The distance is 1 -
    K (Eq. 17).

    On a forest it fails far away, where rows share the outermost leaves with training rows: for
    breast_cancer moved by three times its range the AUROC is .19.

    Parameters
    ----------
    neighbor : int, default=1
        1 for the nearest training row, k for the k-th nearest.

    Attributes
    ----------
    partition_, codes_ : Partition, Int[n, …]
        Partition of the parent, and the codes of the training rows in it.

    References
    ----------
    Dey et al., Eq. 14, 16 and 17.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(300, centers=3, random_state=0)
    >>> detector = GeodesicDistance(random_state=0).fit(X, y)
    >>> detector.score_samples(X[:1]).round(1), bool(detector.predict(X).mean() > 0.5)
    (array([1.]), True)
    """

    _: KW_ONLY
    neighbor: Count = 1

    @cached_property
    def _index(self) -> PolytopeIndex:
        return self.partition_.index(
            self.codes_,
            self._polytopes.sizes[:, None].astype(float),
            rows=self._polytopes.representatives,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the index, which is rebuilt from the rest."""
        return {name: value for name, value in super().__getstate__().items() if name != "_index"}

    def describe(self) -> dict[str, Any]:
        return {
            "n_polytopes": len(self._polytopes),
            "singleton_fraction": self._polytopes.singleton_fraction,
            **super().describe(),
        }

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        if self.neighbor > len(train):
            raise ValueError(
                "neighbor must be at most the number of training rows, got"
                f" neighbor={self.neighbor} of {len(train)} rows"
            )
        self.__dict__.pop("_index", None)  # of an earlier fit
        self.partition_ = self._partition()
        self.codes_ = self.partition_.encode(train.X)
        self._polytopes = polytopes_of(self.codes_)

    def _score(self, X: Any) -> np.ndarray:
        codes = self.partition_.encode(X)
        if self.neighbor == 1:
            return self._nearest_similarity(codes)
        return np.concatenate(
            [
                self._kth_similarity(codes[start : start + _QUERY_BLOCK])
                for start in range(0, len(codes), _QUERY_BLOCK)
            ]
        )

    def _nearest_similarity(self, codes: np.ndarray) -> np.ndarray:
        nearest = self._index.query(codes, np.empty(0))[1]
        similarity = self.partition_.paired_similarity(
            codes, take_rows(self.codes_, self._polytopes.representatives[nearest])
        )
        return np.where(nearest >= 0, similarity, 0.0)  # -1: no training row shares a leaf

    def _kth_similarity(self, codes: np.ndarray) -> np.ndarray:
        similarity = self.partition_.similarity(
            codes, take_rows(self.codes_, self._polytopes.representatives)
        )[:, self._polytopes.polytope_of_row]
        return -np.partition(-similarity, self.neighbor - 1, axis=1)[:, self.neighbor - 1]


@dataclass(eq=False, repr=False)
class GraphDensity(PartitionDetector):
    """Log density of the training rows at the nearest polytope, as in the density gate.

    Every polytope of ``graph_`` that contains training rows has a Gaussian, whose variances are
    shrunk towards the spacing between polytopes, which the held-out rows select. It also orders
    distant rows. The score is :meth:`kdgraph.density.DensityGate.ood_score` with another threshold.

    Parameters
    ----------
    distance : {"whitened", "scaled", "euclidean", "geodesic"}, default="whitened"
        Distance to the nearest polytope, as in :class:`~kdgraph.density.KernelDensityForest`;
        "whitened" uses the correlation of features. With "geodesic" the density is 0, and the score
        infinite, if a row shares no leaf with any training row.
    max_polytopes : int, float, "auto" or None, default="auto"
        Maximum number of polytopes, as in :class:`~kdgraph.density.DensityGate`.

    References
    ----------
    Dey et al., Sections 3.3 and 4.1.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> detector = GraphDensity(random_state=0).fit(X, y)
    >>> scores = detector.ood_score([[0.5, 0.5], [5.0, 5.0], [5e6, 5e6], [5e60, 5e60]])
    >>> bool((np.diff(scores) > 0).all())
    True
    """

    _: KW_ONLY
    distance: PolytopeDistance = "whitened"
    max_polytopes: Count | OpenFraction | Literal["auto"] | None = "auto"

    def _distance_estimator(self) -> Any:
        return finite_space_of(self._default_estimator())

    def describe(self) -> dict[str, Any]:
        polytopes = self.graph_.polytopes
        return {
            "n_polytopes": len(polytopes),
            "singleton_fraction": polytopes.singleton_fraction,
            "distance": self.graph_.distance,
            **super().describe(),
        }

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        partition = self._partition()
        leaves_out = self.calibration_ != "held_out"
        self.graph_ = KernelDensityGraph(
            partition,
            partition.locate(train.X, with_proba=False),
            None,
            distance=self.distance,
            limits=GraphLimits.of(self.max_polytopes),
            held_out=None if leaves_out else partition.embed(calibration.X),
            leave_one_out=leaves_out,
        )

    def _leave_out(self, rows: Rows, parent: Any) -> Rows:
        return rows

    def _left_out_scores(
        self, train: Rows, held_out: Rows, rng: np.random.RandomState
    ) -> np.ndarray:
        return self.graph_.floor_log_density

    def _score(self, X: Any) -> np.ndarray:
        return apply_in_blocks(self.graph_.log_density, X)
