"""Learned sum of out-of-distribution scores of a forest, for rows near to and far from the data.

The density of training rows detects rows far away, and the confidence of a forest rows of a new
class between the known ones. :class:`ForestScoreEnsemble` weights four scores
(:class:`~kdgraph.detection.forest_scores.ForestScores`) by how well they separate training rows,
scored out of bag, from outliers that are made of the training rows. Original to kdgraph.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from kdgraph.base import Rows
from kdgraph.detection.base import _MAX_SCORE, PostHocDetector
from kdgraph.detection.conformal import UpperTails
from kdgraph.detection.forest_scores import SCORE_NAMES, ForestScores, in_bag_rows
from kdgraph.errors import DataError
from kdgraph.geometry import KIND_NAMES, forest_partition_of, partition_kind, partition_of
from kdgraph.geometry.forest import ForestPartition
from kdgraph.geometry.partition import Locations
from kdgraph.parameters import Range

# Weights before any outlier is seen, and the strength with which the fit is drawn to them. On 42
# tables any strength from .001 to .1 gave the same AUROC to .002.
_PRIOR_WEIGHT = 0.5
_RIDGE = 0.01
# Training rows that are scored out of bag, rows of each kind of outlier, and pairs of the two.
_MAX_INLIERS = 1200
_N_OUTLIERS = 400
_N_PAIRS = 1500
# Size of the forests that are fitted without a class.
_MAX_LEFT_OUT_TREES = 100
_MAX_LEFT_OUT_ROWS = 1000
# Left-out classes with fewer rows, or that leave a class with one row, are not tried.
_MIN_CLASS_ROWS = 5
# Rows that stand in for out-of-bag rows if a forest has none.
_HELD_OUT_SIZE = 0.3


@dataclass(eq=False, repr=False)
class ForestScoreEnsemble(PostHocDetector):
    """Learned sum of density, class distance, leaf boxes and entropy of a forest.

    Each score becomes a negative log tail probability among in-distribution rows, extrapolated for
    rows far away (:class:`~kdgraph.detection.conformal.UpperTails`). Their sum has weights of at
    least 0, which are fitted to training rows and to outliers made of training rows: columns
    permuted, uniform in the box of the data, features crossed between rows of different classes,
    rows blown up, and classes that another forest has not seen.

    Parameters
    ----------
    estimator : forest or tree classifier, or pipeline that ends in one, default=None
        None is a random forest of 200 trees. Training rows are scored out of bag if the forest has
        ``bootstrap=True`` and was fitted on the rows that are passed to ``fit``. Otherwise the
        held-out rows are scored; the threshold is then only approximately valid, because the
        weights are fitted to the same rows.
    n_left_out : int, default=3
        Number of classes that are left out in turn, each with a forest of its own; with 0, or with
        fewer than three classes, there are none.
    n_jobs : int or None, default=None
        Number of threads. It never changes a number.

    Attributes
    ----------
    scores_, tails_ : ForestScores, UpperTails
        The four scores, and their distribution over in-distribution rows.
    weights_ : Float[4]
        Weight of each score.

    Notes
    -----
    With t_j the negative log tail probability of score j, the score is -Σ_j w_j·t_j(x), and w ≥ 0
    minimises

        Σ_g c_g · mean over pairs of log(1 + exp(Σ_j w_j·(t_j(inlier) - t_j(outlier)))) + λ/2·|w -
        w0|²

    over the groups g of outliers. This is a smooth bound of 1 - AUROC of each group, and convex.
    Left-out classes together count as much as all other groups together, and are compared with the
    other classes by the forest without them. No row out of distribution enters.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> detector = ForestScoreEnsemble(random_state=0).fit(X[y < 2], y[y < 2])
    >>> far, new_class = X[:5] * 3, X[y == 2]
    >>> [bool((detector.ood_score(rows) > 0).mean() > 0.7) for rows in (far, new_class)]
    [True, True]
    """

    estimator: Any = None
    _: KW_ONLY
    n_left_out: Annotated[int, Range(0)] = 3
    n_jobs: int | None = None

    required_method: ClassVar = "predict_proba"
    required_partition: ClassVar = "forest"

    def contributions(self, X) -> np.ndarray:
        """Return Float[n, 4], the terms w_j·t_j of each row; their sum is minus the score."""
        return self._contributions(self._validate_X(X))

    def describe(self) -> dict[str, Any]:
        weights = dict(zip(SCORE_NAMES, self.weights_.tolist(), strict=True))
        return {"weights": weights, **super().describe()}

    def _default_estimator(self) -> Any:
        return (
            RandomForestClassifier(200, n_jobs=self.n_jobs)
            if self.estimator is None
            else self.estimator
        )

    def _distance_estimator(self) -> Any:
        return self._default_estimator()

    def _needs_labels(self) -> bool:
        return True

    def _requires_training_rows(self) -> bool:
        return True

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        rng = np.random.default_rng(
            check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        )
        locations, labels = self._locate(train.X), self._class_positions(train.y)
        partition = self._forest_partition()
        in_bag = in_bag_rows(partition, locations.codes)
        self.scores_ = ForestScores(partition, locations, labels, in_bag, rng)
        inliers = (
            self.scores_.score(self._locate(calibration.X)[:_MAX_INLIERS])
            if in_bag is None
            else _out_of_bag_scores(self.scores_, locations, labels, in_bag, rng)
        )
        self.tails_ = UpperTails(inliers)
        inlier_tails = self.tails_(inliers)
        differences = [
            _pair_differences(
                self.tails_(self.scores_.score(partition.locate(outliers))), inlier_tails, rng
            )
            for outliers in synthetic_outliers(locations.points, labels, rng)
        ]
        left_out_differences = [
            _pair_differences(*tails, rng)
            for tails in left_out_tails(partition, locations.points, labels, self.n_left_out, rng)
        ]
        self.weights_ = fit_weights(differences, left_out_differences)

    def _score(self, X: Any) -> np.ndarray:
        return -self._contributions(X).sum(axis=1)

    def _leave_out(self, rows: Rows, parent: Any) -> Rows:
        return rows if self._unseen_source() == "oob" else super()._leave_out(rows, parent)

    def _out_of_bag_scores(self, train: Rows, held_out: Rows) -> np.ndarray:
        partition, locations = self._forest_partition(), self._locate(train.X)
        in_bag = in_bag_rows(partition, locations.codes)
        if in_bag is None:
            raise DataError(
                f"calibration='oob' needs the rows that the {type(partition.forest).__name__} was"
                " fitted on, as it got them and in their order; pass those, or use"
                " calibration='cross_fit'"
            )
        rows = np.flatnonzero(~in_bag.all(axis=1))
        labels = self._class_positions(train.y)
        scores = self.scores_.score_training_rows(locations, labels, in_bag, rows)
        return -np.clip(
            self.weights_ * self.tails_(scores), None, _MAX_SCORE / len(SCORE_NAMES)
        ).sum(axis=1)

    def _contributions(self, X: Any) -> np.ndarray:
        terms = self.weights_ * self.tails_(self.scores_.score(self._locate(X)))
        return np.clip(terms, None, _MAX_SCORE / len(SCORE_NAMES))

    def _locate(self, X: Any) -> Locations:
        return partition_of(self.estimator_, n_jobs=self.n_jobs).locate(X)

    def _forest_partition(self) -> ForestPartition:
        partition = forest_partition_of(partition_of(self.estimator_, n_jobs=self.n_jobs))
        if partition is None:
            raise TypeError(
                f"{type(self).__name__} needs a forest or tree of scikit-learn, or a pipeline that"
                f" ends in one, got {KIND_NAMES[partition_kind(self.estimator_) or 'network']}"
            )
        return partition

    def _class_positions(self, y: Any) -> np.ndarray:
        """Return the positions of labels in the classes of the parent, Int[n]."""
        classes = self.estimator_.classes_
        position = np.clip(np.searchsorted(classes, y), 0, len(classes) - 1)
        if (classes[position] != y).any():
            unknown = np.setdiff1d(y, classes)
            raise ValueError(
                f"y contains classes that the estimator was not fitted on: {unknown[:3].tolist()};"
                " pass the rows that it was fitted on"
            )
        return position


def synthetic_outliers(
    points: np.ndarray, labels: np.ndarray, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Return an iterator over four kinds of outliers, Float[m, d], that are made of training rows.

    They are rows whose columns are permuted independently, which keeps all marginal distributions;
    rows uniform in the box of the training rows; rows with a random part of the features of one
    training row and the other part of a row of another class; and rows blown up around the mean,
    with noise.
    """
    n, d = points.shape
    yield rng.permuted(points, axis=0)[:_N_OUTLIERS]
    yield rng.uniform(points.min(axis=0), points.max(axis=0), size=(_N_OUTLIERS, d))
    first = rng.integers(n, size=_N_OUTLIERS)
    # A random row of another class: rows are sorted by class, and the block of the own class is
    # skipped. With a single class it is any row.
    by_class = np.argsort(labels, kind="stable")
    start, end = (
        np.searchsorted(labels[by_class], labels[first], side) for side in ("left", "right")
    )
    size = np.where(end - start < n, end - start, 0)
    rank = rng.integers(n - size)
    second = by_class[np.where(rank < start, rank, rank + size)]
    takes_first = rng.random((len(first), d)) < rng.uniform(0.2, 0.8, size=(len(first), 1))
    yield np.where(takes_first, points[first], points[second])
    mean, deviation = points.mean(axis=0), points.std(axis=0)
    factor, noise = (
        rng.uniform(low, high, size=(_N_OUTLIERS, 1)) for low, high in ((1.2, 2.5), (0.1, 1.0))
    )
    rows = points[rng.integers(n, size=_N_OUTLIERS)]
    yield mean + factor * (rows - mean) + noise * deviation * rng.standard_normal(rows.shape)


def left_out_tails(
    partition: ForestPartition,
    points: np.ndarray,
    labels: np.ndarray,
    n_left_out: int,
    rng: np.random.Generator,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Return an iterator over scores of classes that a smaller forest has not seen.

    Each item is a pair of tail probabilities (:class:`~kdgraph.detection.conformal.UpperTails`): of
    rows of a left-out class, Float[a, 4], and of rows of the other classes out of sample, Float[b,
    4]. ``n_left_out`` classes are drawn at random and left out in turn, if two classes remain.
    """
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 3:
        return
    for k in rng.permutation(classes)[:n_left_out]:
        outliers = points[labels == k]
        others = rng.permutation(np.flatnonzero(labels != k))[:_MAX_LEFT_OUT_ROWS]
        counts = np.unique(labels[others], return_counts=True)[1]
        if len(outliers) < _MIN_CLASS_ROWS or len(counts) < 2 or counts.min() < 2:
            continue
        scores, inliers = _fit_forest_scores(partition.forest, points[others], labels[others], rng)
        tails = UpperTails(inliers)
        yield (
            tails(scores.score(scores.partition.locate(outliers[:_N_OUTLIERS]))),
            tails(inliers),
        )


def _fit_forest_scores(
    forest: Any, points: np.ndarray, labels: np.ndarray, rng: np.random.Generator
) -> tuple[ForestScores, np.ndarray]:
    """Return the scores of a smaller clone of the forest, and scores of the rows out of sample."""
    copy = clone(forest).set_params(random_state=int(rng.integers(np.iinfo(np.int32).max)))
    if hasattr(forest, "estimators_"):
        copy.set_params(n_estimators=min(len(forest.estimators_), _MAX_LEFT_OUT_TREES))
    has_bootstrap = getattr(forest, "bootstrap", False)
    n_held_out = 0 if has_bootstrap else math.ceil(_HELD_OUT_SIZE * len(points))
    copy.fit(points[n_held_out:], labels[n_held_out:])
    partition = ForestPartition(copy, getattr(forest, "n_jobs", None))
    positions = np.searchsorted(copy.classes_, labels[n_held_out:])
    locations = partition.locate(points[n_held_out:])
    in_bag = in_bag_rows(partition, locations.codes)
    scores = ForestScores(partition, locations, positions, in_bag, rng)
    if in_bag is None:
        # Without a bootstrap, some rows are held out; with one, all rows in bag everywhere is a
        # matter of very few rows, which are then scored in sample.
        held_out = points[:n_held_out] if n_held_out else points
        return scores, scores.score(partition.locate(held_out))
    return scores, _out_of_bag_scores(scores, locations, positions, in_bag, rng)


def _out_of_bag_scores(
    scores: ForestScores,
    locations: Locations,
    labels: np.ndarray,
    in_bag: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return out-of-bag scores of at most ``_MAX_INLIERS`` training rows, Float[m, 4]."""
    rows = np.flatnonzero(~in_bag.all(axis=1))
    rows = np.sort(rng.permutation(rows)[:_MAX_INLIERS])
    return scores.score_training_rows(locations, labels, in_bag, rows)


def _pair_differences(
    outliers: np.ndarray, inliers: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the differences of random pairs of an outlier and an inlier, Float[_N_PAIRS, 4]."""
    return (
        outliers[rng.integers(len(outliers), size=_N_PAIRS)]
        - inliers[rng.integers(len(inliers), size=_N_PAIRS)]
    )


def fit_weights(synthetic: list[np.ndarray], left_out: list[np.ndarray]) -> np.ndarray:
    """Return weights of s scores, Float[s], at least 0, that rank outliers above inliers.

    ``synthetic`` and ``left_out`` are differences of scores between an outlier and an inlier,
    Float[m, s], one array for each group of outliers. Groups of one list have the same weight, and
    both lists together have the same, if both have groups. The pairwise logistic loss is that of
    RankNet (Burges et al. 2005), the groups and the prior are original to kdgraph.
    """
    kinds = [groups for groups in (synthetic, left_out) if groups]
    differences = np.concatenate([group for groups in kinds for group in groups])
    pair_weight = np.concatenate(
        [
            np.full(len(group), 1 / (len(kinds) * len(groups) * len(group)))
            for groups in kinds
            for group in groups
        ]
    )
    prior = np.full(differences.shape[1], _PRIOR_WEIGHT)

    @np.errstate(under="ignore")
    def loss_and_gradient(weights: np.ndarray) -> tuple[float, np.ndarray]:
        margin = differences @ weights
        loss = pair_weight @ np.logaddexp(0.0, -margin)
        gradient = -(pair_weight * expit(-margin)) @ differences
        return (
            loss + 0.5 * _RIDGE * ((weights - prior) ** 2).sum(),
            gradient + _RIDGE * (weights - prior),
        )

    # BLAS adds in another order for another number of threads.
    with threadpool_limits(1, user_api="blas"):
        result = minimize(
            loss_and_gradient,
            prior,
            jac=True,
            bounds=[(0.0, None)] * len(prior),
            method="L-BFGS-B",
            options={"maxiter": 500, "ftol": 1e-14, "gtol": 1e-8},
        )
    return result.x
