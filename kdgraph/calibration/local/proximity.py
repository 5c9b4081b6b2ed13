"""Proximity-informed calibration: the two maps of ProCal (Xiong et al. 2023)."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.stats import gaussian_kde
from sklearn.neighbors import NearestNeighbors

from kdgraph.base import Rows, seeded_clone
from kdgraph.base.frozen import user_stacklevel
from kdgraph.calibration.top_label.base import SAME, TopLabelCalibrator
from kdgraph.errors import ParameterError
from kdgraph.features import FeatureMap
from kdgraph.metrics import TopLabel
from kdgraph.metrics.reliability_bins import bin_edges, bin_of
from kdgraph.parameters import Count, Fraction
from kdgraph.smoothing.neighbours import distances_of, draw_reference_rows, rank_in_sample


@dataclass(eq=False, repr=False)
class ProximityCalibrator(TopLabelCalibrator):
    """Base class of confidences that depend on the parent's confidence and on proximity.

    A subclass implements ``_fit_map(confidence, proximity, correct, weight)`` and
    ``_evaluate_map(confidence, proximity)``, whose arguments are Float[n] and, for ``correct``,
    Bool[n].

    Parameters
    ----------
    features : FeatureMap or None, default=None
        Features in which distances are measured. None: the parent's last hidden layer, its leaves
        or the rows, without reduction, in units of their spread.
    neighbours : int, default=10
        Number of nearest neighbours; all other calibration rows if these are fewer.
    max_reference_rows : int or None, default=50000
        Largest number of calibration rows among which neighbours are searched. If there are more,
        so many are drawn at random, and the number of neighbours is reduced in proportion
        (:func:`~kdgraph.smoothing.neighbours.rank_in_sample`). None for all rows, as in the paper.

    Attributes
    ----------
    map_ : FeatureMap
        Fitted feature map.
    index_ : NearestNeighbors
        Index of the calibration rows among which neighbours are searched.
    accuracy_ : float
        Fraction of correct predictions among the calibration rows.

    Notes
    -----
    Proximity is exp(-mean distance to the nearest neighbours), in (0, 1]; a calibration row is not
    its own neighbour. Distances are Euclidean, divided by √d for d features (original to kdgraph,
    so that proximities of many features are not all close to 0).

    Beyond ``max_reference_rows`` the time of ``fit`` grows with the number of calibration rows and
    not with its square, and that of a prediction does not grow.

    References
    ----------
    Xiong et al., "Proximity-informed calibration for deep neural networks", NeurIPS 2023, Section 3
    (10 neighbours) and Section 5 (the maps).
    """

    _: KW_ONLY
    features: FeatureMap | None = None
    neighbours: Count = 10
    max_reference_rows: Count | None = 50_000

    paper_protocol: ClassVar = None  # the paper uses calibration rows too

    def proximity(self, X) -> np.ndarray:
        """Return the proximity of rows to calibration rows, Float[n] in (0, 1]."""
        features = self.map_.transform_sparse(self.estimator_, self._validate_X(X))
        return self._proximity_of(features)

    def _predict_parts(self, X: Any) -> tuple[np.ndarray, TopLabel, np.ndarray]:
        X = self._validate_X(X)
        proba = self.estimator_.predict_proba(X)
        top_label = TopLabel.from_proba(proba)
        proximity = self._proximity_of(self.map_.transform_sparse(self.estimator_, X))
        confidence = self._evaluate_map(
            np.asarray(top_label.confidence, dtype=np.float64), proximity
        )
        return proba, top_label, np.clip(confidence, 0.0, 1.0)

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        top_label = TopLabel.from_proba(calibration.predict(self.estimator_))
        self.map_ = self._fit_feature_map(calibration.X)
        features = self.map_.transform_sparse(self.estimator_, calibration.X)
        n = len(calibration)
        reference = draw_reference_rows(n, self.max_reference_rows, self.random_state)
        is_reference = np.zeros(n, dtype=bool)
        is_reference[reference] = True
        n_reference = int(is_reference.sum())
        n_neighbours = rank_in_sample(min(self.neighbours, n), n, n_reference)
        self.index_ = NearestNeighbors(n_neighbors=min(n_neighbours, max(n_reference - 1, 1))).fit(
            features[is_reference]
        )
        correct = top_label.correct(calibration.y)
        self.accuracy_ = float(np.average(correct, weights=calibration.weight))
        proximity = np.empty(n)
        # A single calibration row has no other row; it is its own neighbour.
        proximity[is_reference] = self._proximity_of(None if n_reference > 1 else features)
        if n_reference < n:
            proximity[~is_reference] = self._proximity_of(features[~is_reference])
        confidence = np.asarray(top_label.confidence, dtype=np.float64)
        self._fit_map(confidence, proximity, correct, calibration.weight)

    def _fit_feature_map(self, X: Any) -> FeatureMap:
        features = FeatureMap(reduce="none") if self.features is None else self.features
        map_ = seeded_clone(features, self.random_state)
        if map_.is_transductive:
            raise ParameterError(
                f"features.reduce={map_.reduce} has no place for new rows, which need neighbours;"
                " use none, pca or umap"
            )
        return map_.fit(self.estimator_, X)

    @np.errstate(under="ignore")
    def _proximity_of(self, features: Any) -> np.ndarray:
        """Return the proximity, Float[n]; for None, that of calibration rows to the others."""
        distance = distances_of(self.index_, features, self.index_.n_neighbors)
        return np.exp(-distance.mean(axis=1) / np.sqrt(max(self.index_.n_features_in_, 1)))

    def _fit_map(
        self, confidence: np.ndarray, proximity: np.ndarray, correct: np.ndarray, weight: np.ndarray
    ) -> None:
        raise NotImplementedError

    def _evaluate_map(self, confidence: np.ndarray, proximity: np.ndarray) -> np.ndarray:
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class DensityRatio(ProximityCalibrator):
    """ProCal's density-ratio map of confidence and proximity, for continuous confidences.

    Attributes
    ----------
    points_ : tuple
        Confidence and proximity, Float[2, m], and weight, Float[m], of the correct and of the
        incorrect calibration rows; empty if these have no densities.

    Notes
    -----
    P(correct | p, D) = π f(p, D | correct) / (π f(p, D | correct) + (1 - π) f(p, D | incorrect)),
    where π is the accuracy of the calibration rows. The densities f are SciPy's Gaussian kernels
    with the bandwidths of Scott's rule, of at most ``max_reference_rows`` rows. If the correct or
    the incorrect rows are too few for a density, or all lie on one line, the confidence is the
    parent's, with a warning; where both densities are 0, it is π.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_moons(600, noise=0.3, random_state=0)
    >>> model = DensityRatio(RandomForestClassifier(50, random_state=0), random_state=0).fit(X, y)
    >>> model.predict_confidence(X[:3]).shape
    (3,)
    """

    def _fit_map(
        self, confidence: np.ndarray, proximity: np.ndarray, correct: np.ndarray, weight: np.ndarray
    ) -> None:
        # A density is a sum over its rows, so that it has as many as the search, too.
        rows = draw_reference_rows(len(weight), self.max_reference_rows, self.random_state)
        points, correct, weight = (
            np.stack([confidence, proximity])[:, rows],
            correct[rows],
            weight[rows],
        )
        self.points_ = tuple((points[:, mask], weight[mask]) for mask in (correct, ~correct))
        # The densities are built in each prediction; building them here only shows if they exist.
        try:
            with warnings.catch_warnings(action="ignore"):  # of one row that has all the weight
                for points, weight in self.points_:
                    gaussian_kde(points, weights=weight)
        except (ValueError, np.linalg.LinAlgError):  # too few, or all on one line
            self.points_ = ()
            warnings.warn(
                f"DensityRatio keeps the parent's confidence: {int((~correct).sum())} of"
                f" {len(correct)} calibration rows are predicted incorrectly, and correct and"
                " incorrect ones need a density each, of three rows or more that are not on one"
                " line; use more rows, or TemperatureScaling",
                stacklevel=user_stacklevel(),
            )

    def _evaluate_map(self, confidence: np.ndarray, proximity: np.ndarray) -> np.ndarray:
        if not self.points_:
            return confidence
        query = np.stack([confidence, proximity])
        correct, incorrect = (
            fraction * gaussian_kde(points, weights=weight)(query)
            for fraction, (points, weight) in zip(
                (self.accuracy_, 1 - self.accuracy_), self.points_, strict=True
            )
        )
        total = correct + incorrect
        return np.where(total > 0, correct / np.where(total > 0, total, 1), self.accuracy_)


@dataclass(eq=False, repr=False)
class BinMeanShift(ProximityCalibrator):
    """ProCal's bin-mean-shift: the confidences of each bin move towards the accuracy of the bin.

    p̂' = p̂ + λ (acc(B) - conf(B)) for the bin B of the row; rows of an empty bin keep p̂.

    Parameters
    ----------
    proximity_bins : int, default=5
        Number of bins of proximity, with equal mass.
    bins : int, default=5
        Number of bins of confidence, with equal mass, in each bin of proximity.
    shift : float, default=0.5
        Fraction λ of the gap between confidence and accuracy, in [0, 1].

    Attributes
    ----------
    proximity_edges_ : ndarray of shape (p + 1,)
        Edges of the bins of proximity, Float[p + 1].
    edges_, gaps_ : list of ndarray
        For each bin of proximity, the edges of its bins of confidence, Float[b + 1], and the
        accuracy minus the mean confidence of each, Float[b]; 0 for an empty bin.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_moons(600, noise=0.3, random_state=0)
    >>> model = BinMeanShift(RandomForestClassifier(50, random_state=0), random_state=0).fit(X, y)
    >>> len(model.edges_)
    5
    """

    _: KW_ONLY
    proximity_bins: Count = 5
    bins: Count = 5
    shift: Fraction = 0.5

    def _fit_map(
        self, confidence: np.ndarray, proximity: np.ndarray, correct: np.ndarray, weight: np.ndarray
    ) -> None:
        # SAME is subtracted before a bin is looked up, so that a score which exceeds an edge only
        # by rounding is in the bin below it.
        self.proximity_edges_ = bin_edges(proximity, self.proximity_bins, "mass")
        proximity_bin = bin_of(proximity - SAME, self.proximity_edges_)
        self.edges_, self.gaps_ = [], []
        for i in range(len(self.proximity_edges_) - 1):
            mask = proximity_bin == i
            edges = (
                bin_edges(confidence[mask], self.bins, "mass")
                if mask.any()
                else np.array([0.0, 1.0])
            )
            cell = bin_of(confidence[mask] - SAME, edges)
            mass, gap = (
                np.bincount(cell, values, minlength=len(edges) - 1)
                for values in (weight[mask], (weight * (correct - confidence))[mask])
            )
            self.edges_.append(edges)
            self.gaps_.append(gap / np.where(mass > 0, mass, 1))

    def _evaluate_map(self, confidence: np.ndarray, proximity: np.ndarray) -> np.ndarray:
        proximity_bin = bin_of(proximity - SAME, self.proximity_edges_)
        shifted = confidence.copy()
        for i in np.unique(proximity_bin).tolist():
            mask = proximity_bin == i
            cell = bin_of(confidence[mask] - SAME, self.edges_[i])
            shifted[mask] += self.shift * self.gaps_[i][cell]
        return shifted
