"""Proximity-informed calibration: the two maps of ProCal (Xiong et al. 2023)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.stats import gaussian_kde
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from kdgraph.base import Rows
from kdgraph.calibration.top_label.base import SAME, TopLabelCalibrator, fill_rows, fills_rows
from kdgraph.errors import ParameterError
from kdgraph.features import FeatureMap
from kdgraph.metrics import TopLabel
from kdgraph.metrics.reliability_bins import bin_edges, bin_of
from kdgraph.parameters import Count, Fraction
from kdgraph.smoothing.neighbours import distances_of


@dataclass(eq=False, repr=False)
class Proximity(TopLabelCalibrator):
    """Base class of confidences that depend on the parent's confidence and on proximity.

    A subclass implements ``_learn(confidence, proximity, correct, weight)`` and ``_at(confidence,
    proximity)``.

    Parameters
    ----------
    estimator, fill_proba, calibration_size, random_state : as in
    :class:`~kdgraph.calibration.top_label.TopLabelCalibrator`.
    features : where distances are measured, a :class:`~kdgraph.features.FeatureMap`; None: what the
        parent's last hidden layer, its leaves or the rows are, unreduced, in units of their spread.
    neighbours : how many; as many as there are, where these are fewer.

    Notes
    -----
    Proximity is exp(-mean distance to the nearest neighbours), in (0, 1]; a calibration row is none
    of its own. Distances are Euclidean, over √d (original to kdgraph, so that proximities of
    many features are not all close to 0).

    References
    ----------
    Xiong et al., "Proximity-informed calibration for deep neural networks", NeurIPS 2023, Section 3
    (10 neighbours).
    """

    _: KW_ONLY
    features: FeatureMap | None = None
    neighbours: Count = 10

    paper_protocol: ClassVar = None  # theirs are calibration rows, also in their paper

    def predict_confidence(self, X) -> np.ndarray:
        """Return the probability that :meth:`predict` is correct, Float[n]."""
        return self._predict_parts(X)[2]

    @available_if(fills_rows)
    def predict_proba(self, X) -> np.ndarray:
        """Return rows that sum to 1, with the confidence at the predicted class, Float[n, K]."""
        return fill_rows(*self._predict_parts(X))

    def proximity(self, X) -> np.ndarray:
        """Return the proximity of rows to calibration rows, Float[n] in (0, 1]."""
        return self._proximity(self.map_.transform_sparse(self.estimator_, self._validate_X(X)))

    def _predict_parts(self, X: Any) -> tuple[np.ndarray, TopLabel, np.ndarray]:
        X = self._validate_X(X)
        proba = self.estimator_.predict_proba(X)
        top_label = TopLabel.of(proba)
        near = self._proximity(self.map_.transform_sparse(self.estimator_, X))
        return (
            proba,
            top_label,
            np.clip(self._at(np.asarray(top_label.confidence, dtype=np.float64), near), 0.0, 1.0),
        )

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        top_label = TopLabel.of(self.estimator_.predict_proba(calibration.X))
        self.map_ = self._fitted_map(calibration.X)
        seen = self.map_.transform_sparse(self.estimator_, calibration.X)
        self.index_ = NearestNeighbors(
            n_neighbors=min(self.neighbours, max(len(calibration) - 1, 1))
        ).fit(seen)
        correct = top_label.correct(calibration.y)
        self.accuracy_ = float(np.average(correct, weights=calibration.weight))
        near = self._proximity(None if len(calibration) > 1 else seen)
        self._learn(
            np.asarray(top_label.confidence, dtype=np.float64), near, correct, calibration.weight
        )

    def _fitted_map(self, X: Any) -> FeatureMap:
        map_ = FeatureMap(reduce="none") if self.features is None else clone(self.features)
        if map_.is_transductive:
            raise ParameterError(
                f"features.reduce={map_.reduce} has no place for new rows, which need neighbours;"
                " use none, pca or umap"
            )
        if map_.random_state is None:
            map_.set_params(
                random_state=check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
            )
        return map_.fit(self.estimator_, X)

    @np.errstate(under="ignore")
    def _proximity(self, seen: Any) -> np.ndarray:
        """Return the proximity, Float[n]; for None, that of calibration rows to the others."""
        distance = distances_of(self.index_, seen, self.index_.n_neighbors)
        return np.exp(-distance.mean(axis=1) / np.sqrt(max(self.index_.n_features_in_, 1)))

    def _learn(
        self, confidence: np.ndarray, proximity: np.ndarray, correct: np.ndarray, weight: np.ndarray
    ) -> None:
        raise NotImplementedError

    def _at(self, confidence: np.ndarray, proximity: np.ndarray) -> np.ndarray:
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class DensityRatio(Proximity):
    """ProCal's density-ratio map of confidence and proximity, for continuous confidences.

    Parameters
    ----------
    estimator, features, neighbours, fill_proba, calibration_size, random_state : as in
        :class:`Proximity`.

    Notes
    -----
    P(right | p, D) = π f(p, D | right) / (π f(p, D | right) + (1 - π) f(p, D | wrong)), with π the
    share of right calibration rows and Gaussian kernels of scipy, whose bandwidths are Scott's
    rule. Where the rows of a kind are too few for a density, or all lie on one line, the confidence
    is the parent's; where neither density reaches, it is π.

    References
    ----------
    Xiong et al., "Proximity-informed calibration for deep neural networks", NeurIPS 2023, Section
    5.
    """

    def _learn(
        self, confidence: np.ndarray, proximity: np.ndarray, correct: np.ndarray, weight: np.ndarray
    ) -> None:
        points = np.stack([confidence, proximity])
        self.points_ = tuple((points[:, kind], weight[kind]) for kind in (correct, ~correct))
        try:
            for points, weight in self.points_:
                gaussian_kde(points, weights=weight)
        except (ValueError, np.linalg.LinAlgError):  # too few, or all on one line
            self.points_ = ()

    def _at(self, confidence: np.ndarray, proximity: np.ndarray) -> np.ndarray:
        if not self.points_:
            return confidence
        at = np.stack([confidence, proximity])
        right, wrong = (
            share * gaussian_kde(points, weights=weight)(at)
            for share, (points, weight) in zip(
                (self.accuracy_, 1 - self.accuracy_), self.points_, strict=True
            )
        )
        total = right + wrong
        return np.where(total > 0, right / np.where(total > 0, total, 1), self.accuracy_)


@dataclass(eq=False, repr=False)
class BinMeanShift(Proximity):
    """ProCal's bin-mean-shift: each bin moves part of the way towards its accuracy.

    Parameters
    ----------
    estimator, features, neighbours, fill_proba, calibration_size, random_state : as in
    :class:`Proximity`.
    proximity_bins : of equal mass.
    bins : of equal mass too, of confidence, in each bin of proximity.
    shift : λ, how much of the way.

    Notes
    -----
    p̂' = p̂ + λ (acc(B) - conf(B)); in an empty bin nothing is moved.

    References
    ----------
    Xiong et al., "Proximity-informed calibration for deep neural networks", NeurIPS 2023, Section
    5.
    """

    _: KW_ONLY
    proximity_bins: Count = 5
    bins: Count = 5
    shift: Fraction = 0.5

    def _learn(
        self, confidence: np.ndarray, proximity: np.ndarray, correct: np.ndarray, weight: np.ndarray
    ) -> None:
        self.proximity_edges_ = bin_edges(proximity, self.proximity_bins, "mass")
        row = bin_of(proximity - SAME, self.proximity_edges_)
        self.edges_, self.gaps_ = [], []
        for i in range(len(self.proximity_edges_) - 1):
            mine = row == i
            edges = (
                bin_edges(confidence[mine], self.bins, "mass")
                if mine.any()
                else np.array([0.0, 1.0])
            )
            cell = bin_of(confidence[mine] - SAME, edges)
            mass, gap = (
                np.bincount(cell, of, minlength=len(edges) - 1)
                for of in (weight[mine], (weight * (correct - confidence))[mine])
            )
            self.edges_.append(edges)
            self.gaps_.append(gap / np.where(mass > 0, mass, 1))

    def _at(self, confidence: np.ndarray, proximity: np.ndarray) -> np.ndarray:
        row = bin_of(proximity - SAME, self.proximity_edges_)
        moved = confidence.copy()
        for i in np.unique(row).tolist():
            mine = row == i
            moved[mine] += (
                self.shift * self.gaps_[i][bin_of(confidence[mine] - SAME, self.edges_[i])]
            )
        return moved
