"""k-NN: how far the k-th nearest training row is.

Mahalanobis distance to the nearest class, and how much nearer that is than to all rows together.

ViM: what is left of the features outside the space in which the training rows lie, as one more
logit.

Outlier detectors of scikit-learn, or the user's own, as detectors like all others here.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from joblib import parallel_config
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from sklearn.covariance import LedoitWolf
from sklearn.ensemble import IsolationForest
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.multiclass import type_of_target

from kdgraph.base import Rows, seeded_clone
from kdgraph.base.network_access import access_network
from kdgraph.detection.base import (
    FeatureDetector,
    apply_in_fixed_blocks,
    clip_scores,
    scale_into_range,
)
from kdgraph.parameters import Count
from kdgraph.smoothing.neighbours import distances_of

_MAX_SQUARABLE = 1e100
"""Squares of differences, and sums of millions of them, stay finite."""


@dataclass(eq=False, repr=False)
class KthNeighbourDistance(FeatureDetector):
    """Minus the distance to the k-th nearest training row, in the space of features.

    Parameters
    ----------
    estimator : the parent; None: there is none, and the features are the rows. Cloned and fitted;
        ``FrozenEstimator(fitted)`` is used as it is.
    k : of all training rows, if they are fewer. The paper has 50 of 50,000 and 1,000 of 1.3 million
    rows.
    normalize : divide features by their length, as the paper does with those of a layer: a network
        tells classes apart by direction. None: where ``features`` is None and they are those of a
        layer; never of rows, whose length says where they are.
    features : where distances are measured, see :class:`~kdgraph.detection.base.FeatureDetector`.
    target_fpr : the share of what is in distribution that the threshold may give up.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen
        estimator give it rows that this was not fitted on, ``fit(X, y, X_calibration=…,
        y_calibration=…)``: see :class:`~kdgraph.base.PostHoc`.
    random_state : seeds the held-out rows, and the parent where it has no seed of its own.

    Attributes
    ----------
    estimator_, offset_, feature_map_, scale_ : the fitted parent, the threshold of the score, the feature
    map, what features are divided by.
    index_ : the training rows' features, as scikit-learn keeps them.
    normalizes_, k_ : what was done.

    References
    ----------
    Sun, Ming, Zhu and Li, "Out-of-distribution detection with deep nearest neighbors", ICML 2022.
    Ramaswamy, Rastogi and Shim, "Efficient algorithms for mining outliers from large data sets",
    SIGMOD 2000: of rows.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> detector = KthNeighbourDistance(k=2).fit(X, X_calibration=X)
    >>> detector.score_samples([[0.0], [10.0]])  # in units of the range, which is 3
    array([-0.33333333, -3.        ])
    """

    _: KW_ONLY
    k: Count = 5
    normalize: bool | None = None

    def _fit_features(self, features: np.ndarray, train: Rows, rng: np.random.RandomState) -> None:
        own = self.features is None and self.feature_map_.source == "layer"
        self.normalizes_ = own if self.normalize is None else self.normalize
        self.k_ = min(self.k, len(features))
        self.index_ = NearestNeighbors(n_neighbors=self.k_).fit(
            self._normalised_features(features)[0]
        )

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: the threshold, the number of neighbours, and whether
        features were normalised.
        """
        return {**super().describe(), "k": self.k_, "normalized": self.normalizes_}

    def _score_features(self, features: np.ndarray) -> np.ndarray:
        placed, factor = self._normalised_features(features)
        distance = distances_of(self.index_, placed, self.k_)[:, -1]
        with np.errstate(over="ignore"):
            return -distance * factor

    def _normalised_features(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where features lie, Float[n, m], and by how much distances must be scaled up, Float[n];
        from afar training rows are at 0.
        """
        near, factor = scale_into_range(features, _MAX_SQUARABLE)
        if not self.normalizes_:
            return near, factor
        length = np.linalg.norm(near, axis=1, keepdims=True)
        return near / np.where(length > 0, length, 1.0), np.ones(len(near))


_MAX_WHITENABLE = 1e60
"""Whitened by up to 1e30, squares of it stay finite."""
_MIN_VARIANCE_RATIO = 1e-14
"""Of the largest variance: below it, spread is what rounding has made of none."""


@dataclass(frozen=True)
class _WhitenedMeans:
    """Means in units of a shared covariance. Ours.

    Attributes
    ----------
    centre : Float[m], of all rows; it is taken from features before they are multiplied, so that no
    digits are lost.
    whitening : Float[m, m], with which Σ⁻¹ = map·mapᵀ.
    means : Float[c, m], whitened.
    """

    centre: np.ndarray
    whitening: np.ndarray
    means: np.ndarray

    @classmethod
    def from_groups(cls, features: np.ndarray, group: np.ndarray) -> _WhitenedMeans:
        """Of features Float[n, m] in groups Int[n] from 0, none of them empty."""
        centre = features.mean(axis=0)
        centred = features - centre
        means = np.stack([centred[group == c].mean(axis=0) for c in range(group.max() + 1)])
        covariance = LedoitWolf(assume_centered=True).fit(centred - means[group]).covariance_
        variance, axes = np.linalg.eigh(covariance)
        spread = (
            np.maximum(variance, _MIN_VARIANCE_RATIO * variance[-1])
            if variance[-1] > 0
            else np.ones(len(variance))
        )
        map_ = axes / np.sqrt(spread)
        return cls(centre, map_, means @ map_)

    def squared_distances(self, features: np.ndarray) -> np.ndarray:
        """Float[n, c]: of features Float[n, m] to each mean; a row is added up by itself."""
        return cdist((features - self.centre) @ self.whitening, self.means, "sqeuclidean")


@dataclass(eq=False, repr=False)
class Mahalanobis(FeatureDetector):
    """Minus the squared Mahalanobis distance of a row's features to the nearest class of training
    rows.

    Parameters
    ----------
    estimator : the parent; None: there is none, and the features are the rows. Cloned and fitted;
        ``FrozenEstimator(fitted)`` is used as it is.
    relative : subtract the squared distance to the mean of all training rows, with their
        covariance, from that to the nearest class: how unlike every class, rather than how unlike
        anything.
    features : what is compared, see :class:`~kdgraph.detection.base.FeatureDetector`.
    target_fpr : the share of what is in distribution that the threshold may give up.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen
        estimator give it rows that this was not fitted on, ``fit(X, y, X_calibration=…,
        y_calibration=…)``: see :class:`~kdgraph.base.PostHoc`.
    random_state : seeds the held-out rows, and the parent where it has no seed of its own.

    Attributes
    ----------
    estimator_, offset_, feature_map_, scale_ : the fitted parent, the threshold of the score, the feature
    map, what features are divided by.
    feature_classes_ : [c] labels, sorted, each of which has a mean; None where there is one
        mean: without labels, or with targets that are numbers with fractions.
    class_means_, overall_mean_ : what distances are measured with, to the classes and (``relative``) to all
        rows.

    Raises
    ------
    ValueError : for ``relative`` with less than two classes.

    Notes
    -----
    -min_c (φ - μ_c)ᵀ Σ⁻¹ (φ - μ_c), with class means μ_c and one covariance Σ of what is left of
    the features φ without them. Σ is that of Ledoit and Wolf (2004), which is shrunk towards a
    multiple of the identity, so that it can be inverted however few rows there are; the papers take
    the maximum likelihood estimate. Lee et al. also add up several layers and move the input, by
    weights that are learnt from rows out of distribution; here it is one layer, and nothing is
    learnt from such rows.

    References
    ----------
    Lee, Lee, Lee and Shin, "A simple unified framework for detecting out-of-distribution samples
    and adversarial attacks", NeurIPS 2018, Eq. 1 and 2. Ren et al., "A simple fix to Mahalanobis
    distance for improving near-OOD detection", 2021: ``relative``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 200)
    >>> X = rng.normal(size=(400, 2)) * [1, 3] + 20 * y[:, None]
    >>> detector = Mahalanobis().fit(X, y, X_calibration=X)
    >>> detector.predict([[20, 20], [20, 26], [26, 20], [10, 10]])  # along the axis on which rows vary more, and between the classes
    array([ 1,  1, -1, -1])
    """

    _: KW_ONLY
    relative: bool = False

    def _fit_features(self, features: np.ndarray, train: Rows, rng: np.random.RandomState) -> None:
        near, _ = scale_into_range(features, _MAX_WHITENABLE)
        self.feature_classes_, group = _class_indices(train.y, len(near))
        self.class_means_ = _WhitenedMeans.from_groups(near, group)
        self.overall_mean_ = None
        if self.relative:
            if group.max() == 0:
                raise ValueError(
                    "relative=true compares classes with all rows, and needs labels of at least two"
                    " classes"
                )
            self.overall_mean_ = _WhitenedMeans.from_groups(
                near, np.zeros(len(near), dtype=np.intp)
            )

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: the threshold, and how many means there are."""
        return {**super().describe(), "means": len(self.class_means_.means)}

    def _score_features(self, features: np.ndarray) -> np.ndarray:
        near, factor = scale_into_range(features, _MAX_WHITENABLE)
        distance = self.class_means_.squared_distances(near).min(axis=1)
        if self.overall_mean_ is not None:
            distance -= self.overall_mean_.squared_distances(near)[:, 0]
        with np.errstate(over="ignore"):
            return -distance * factor * factor


def _class_indices(y: Any, n: int) -> tuple[np.ndarray | None, np.ndarray]:
    """Labels, sorted, or None, and Int[n], the class of each row; of regression all rows are
    one.
    """
    if y is None or type_of_target(y).startswith("continuous"):
        return None, np.zeros(n, dtype=np.intp)
    return np.unique(y, return_inverse=True)


_REACH_VIM = 1e100
"""Squares of it, and sums of millions of them, stay finite."""
_MIN_RESIDUAL_RATIO = 1e-6
"""Of the features' length: a residual below it may be what is left of sums in float32, and α makes
no more of it than of this.
"""


@dataclass(eq=False, repr=False)
class VirtualLogit(FeatureDetector):
    """Virtual-logit matching (ViM): energy of the logits, less what of the features lies outside
    the training rows' principal space.

    Parameters
    ----------
    estimator : a network of :mod:`kdgraph.parents.networks`, also in a pipeline. Cloned and fitted;
        ``FrozenEstimator(fitted)`` is used as it is.
    dimensions : D of the principal space, less than there are features. None: 1,000 of more than
        1,500 features and 512 of 768 to 1,500, as in the paper; half of fewer, and never more than
        half of those in which the training rows differ (ours): units that are always off, and fewer
        rows than features, leave directions in which training rows have no residual at all.
    features : whose residual it is, see :class:`~kdgraph.detection.base.FeatureDetector`.
    target_fpr : the share of what is in distribution that the threshold may give up.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen
        estimator give it rows that this was not fitted on, ``fit(X, y, X_calibration=…,
        y_calibration=…)``: see :class:`~kdgraph.base.PostHoc`.
    random_state : seeds the held-out rows, and the parent where it has no seed of its own.

    Attributes
    ----------
    estimator_, offset_, feature_map_, scale_ : the fitted parent, the threshold of the score, the feature
    map, what features are divided by.
    origin_ : Float[m], from where features are seen; ``origin_kind_``: "bias", -W⁺b, which the last
        linear layer (W, b) maps to logits of 0, as in the paper; or "mean", of the training rows,
        where the features are not what that layer takes.
    residual_basis_ : Float[m, m - D], an orthonormal basis of what is no principal direction.
    alpha_ : α, which makes the mean residual of the training rows as large as the mean of their
        largest logits (by amount).

    Raises
    ------
    ValueError : for as many dimensions as there are features, or more.

    Notes
    -----
    log Σ_k exp(f_k) - α‖Rᵀ(φ - o)‖, of which the paper's score, the softmax probability of the
    virtual logit α‖·‖ beside the logits f, is a decreasing function. Principal directions are
    eigenvectors of the second moments of φ - o over training rows.

    References
    ----------
    Wang, Li, Feng and Zhang, "ViM: out-of-distribution with virtual-logit matching", CVPR 2022, Eq.
    4 to 7.

    Examples
    --------
    >>> from kdgraph.parents.networks import MultilayerPerceptron
    >>> X, y = np.repeat([[-1.0], [1.0]], 50, axis=0), np.repeat([0, 1], 50)
    >>> network = MultilayerPerceptron(hidden=(8,), learning_rate=0.05, max_epochs=5, device="cpu", random_state=0)
    >>> detector = VirtualLogit(network, dimensions=4, random_state=0).fit(X, y)
    >>> detector.origin_kind_, detector.residual_basis_.shape
    ('bias', (8, 4))
    """

    _: KW_ONLY
    dimensions: Count | None = None

    required_partition: ClassVar = "network"

    def _default_estimator(self) -> Any:
        if self.estimator is None:
            raise ValueError(f"{type(self).__name__} needs an estimator, got None")
        return self.estimator

    def _fit_features(self, features: np.ndarray, train: Rows, rng: np.random.RandomState) -> None:
        near, _ = scale_into_range(features, _REACH_VIM)
        inside, m = access_network(self.estimator_), near.shape[1]
        logits = inside.logits(train.X)
        self.origin_kind_, self.origin_ = _feature_origin(inside.network, near, logits)
        centred = near - self.origin_
        moments, axes = np.linalg.eigh(centred.T @ centred / len(near))
        rank = int((moments > _MIN_RESIDUAL_RATIO**2 * moments[-1]).sum())
        self.residual_basis_ = np.ascontiguousarray(
            axes[:, : m - self._principal_dimensions(m, rank)]
        )  # of the smallest moments, which come first
        least = _MIN_RESIDUAL_RATIO * np.linalg.norm(centred, axis=1).sum()
        length = max(self._residual_length(near).sum(), least, np.finfo(np.float64).tiny)
        self.alpha_ = float(np.abs(logits.max(axis=1)).sum() / length)

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: the threshold, α, the principal dimensions, and the
        origin.
        """
        return {
            **super().describe(),
            "alpha": self.alpha_,
            "dimensions": self.residual_basis_.shape[0] - self.residual_basis_.shape[1],
            "origin": self.origin_kind_,
        }

    @np.errstate(under="ignore")
    def _score_block(self, X: Any) -> np.ndarray:
        near, factor = scale_into_range(self._scaled_features(X), _REACH_VIM)
        energy = logsumexp(access_network(self.estimator_).logits(X), axis=1)
        with np.errstate(over="ignore"):
            return clip_scores(energy - self.alpha_ * self._residual_length(near) * factor)

    def _residual_length(self, features: np.ndarray) -> np.ndarray:
        return np.linalg.norm(
            apply_in_fixed_blocks(
                features - self.origin_, lambda block: block @ self.residual_basis_
            ),
            axis=1,
        )

    def _principal_dimensions(self, m: int, rank: int) -> int:
        own = 1000 if m > 1500 else 512 if m >= 768 else m // 2
        found = min(own, rank // 2) if self.dimensions is None else self.dimensions
        if found >= m:
            raise ValueError(
                f"dimensions must be less than the {m} features, of which some have to be left, got"
                f" {found}"
            )
        return found


def _feature_origin(
    network: Any, features: np.ndarray, logits: np.ndarray
) -> tuple[Literal["bias", "mean"], np.ndarray]:
    """-W⁺b where the features are what the last linear layer of the network takes, and its output
    is the logits; else their mean.
    """
    linear = [
        part
        for part in network.module_.modules()
        if hasattr(part, "in_features") and hasattr(part, "out_features")
    ]
    if linear and (linear[-1].out_features, linear[-1].in_features) == (
        logits.shape[1],
        features.shape[1],
    ):
        weight = linear[-1].weight.detach().cpu().numpy().astype(np.float64)
        bias = (
            np.zeros(len(weight))
            if linear[-1].bias is None
            else linear[-1].bias.detach().cpu().numpy().astype(np.float64)
        )
        found = features @ weight.T + bias
        if np.allclose(
            found, logits, rtol=1e-3, atol=1e-3 * np.abs(logits).max()
        ):  # the network adds in float32
            return "bias", -np.linalg.pinv(weight) @ bias
    return "mean", features.mean(axis=0)


_MAX_FLOAT32_FEATURE = 1e15
"""Trees of scikit-learn take float32, and refuse what does not fit; rows that reach further are
scaled down to it.
"""


@dataclass(eq=False, repr=False)
class OutlierEstimator(FeatureDetector):
    """Any outlier detector of scikit-learn's kind, fitted without labels on the features of the
    training rows.

    Parameters
    ----------
    estimator : the parent; None: there is none, and the features are the rows. Cloned and fitted;
        ``FrozenEstimator(fitted)`` is used as it is.
    detector : what has ``fit(X)`` and ``score_samples(X)``, higher for what is more normal, such as
        ``LocalOutlierFactor()`` (which is set to score new rows, ``novelty=True``),
        ``OneClassSVM()`` or a class of one's own. None: ``IsolationForest()``. It is cloned and
        fitted; a frozen one is used as it is. Its own threshold, and so its ``contamination``, has
        no say.
    features : what it looks at, see :class:`~kdgraph.detection.base.FeatureDetector`.
    target_fpr : the share of what is in distribution that the threshold may give up.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen
        estimator give it rows that this was not fitted on, ``fit(X, y, X_calibration=…,
        y_calibration=…)``: see :class:`~kdgraph.base.PostHoc`.
    random_state : seeds the held-out rows, and parent and detector where they have no seed of their
        own.

    Attributes
    ----------
    estimator_, offset_, feature_map_, scale_ : the fitted parent, the threshold of the score, the feature
    map, what features are divided by.
    detector_ : the fitted detector.

    Raises
    ------
    TypeError : for a detector without one of these methods.

    Notes
    -----
    Far away some of them tell nothing apart: all rows beyond the outermost splits share the leaves
    of an isolation forest, and the kernel of a one-class SVM is 0.

    References
    ----------
    Liu, Ting and Zhou, "Isolation forest", ICDM 2008. Breunig, Kriegel, Ng and Sander, "LOF:
    identifying density-based local outliers", SIGMOD 2000. Schölkopf et al., "Estimating the
    support of a high-dimensional distribution", Neural Computation 13, 2001.

    Examples
    --------
    >>> from sklearn.neighbors import LocalOutlierFactor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> detector = OutlierEstimator(detector=LocalOutlierFactor(n_neighbors=10), random_state=0).fit(X)
    >>> detector.predict([[0.0, 0.0], [6.0, 6.0]])
    array([ 1, -1])
    """

    _: KW_ONLY
    detector: Any = None

    def _fit_features(self, features: np.ndarray, train: Rows, rng: np.random.RandomState) -> None:
        detector = IsolationForest() if self.detector is None else self.detector
        if hasattr(detector, "get_params"):
            detector = seeded_clone(detector, rng)
            if "novelty" in detector.get_params():
                detector.set_params(novelty=True)
        if not (hasattr(detector, "get_params") and hasattr(detector, "score_samples")):
            raise TypeError(
                "detector must be an outlier detector of scikit-learn's kind, with fit and"
                f" score_samples, got {detector!r}"
            )
        if not isinstance(detector, FrozenEstimator):
            detector.fit(scale_into_range(features, _MAX_FLOAT32_FEATURE)[0])
        self.detector_ = detector

    def _score_features(self, features: np.ndarray) -> np.ndarray:
        # One after the other: threads of an isolation forest add in the order in which they finish.
        with parallel_config(backend="sequential"), np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(
                self.detector_.score_samples(scale_into_range(features, _MAX_FLOAT32_FEATURE)[0]),
                dtype=np.float64,
            )
