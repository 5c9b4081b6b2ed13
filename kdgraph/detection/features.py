"""Detectors that compare features of a row with those of the training rows.

The distance to the k-th nearest neighbour (Sun et al. 2022), virtual-logit matching (Wang et al.
2022), and any outlier detector with the interface of scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from joblib import parallel_config
from scipy.special import logsumexp
from sklearn.ensemble import IsolationForest
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import NearestNeighbors

from kdgraph.base import Rows, seeded_clone
from kdgraph.base.network_access import access_network
from kdgraph.detection.base import (
    FeatureDetector,
    apply_in_fixed_blocks,
    clip_scores,
    scale_into_range,
)
from kdgraph.errors import ParameterError
from kdgraph.extras import needs_library
from kdgraph.parameters import Count
from kdgraph.smoothing.neighbours import distances_of, draw_reference_rows, rank_in_sample

# Bound of features. Squares of differences, and sums of millions of them, stay finite.
_MAX_SQUARABLE = 1e100


@dataclass(eq=False, repr=False)
class KthNeighbourDistance(FeatureDetector):
    """Negative distance to the k-th nearest training row in feature space.

    Parameters
    ----------
    k : int, default=5
        Number of the neighbour, at most the number of training rows. The paper uses 50 for 50,000
        and 1,000 for 1.3 million training rows.
    normalize : bool or None, default=None
        If True, features are divided by their length, as in the paper, since a network separates
        classes by direction. None normalizes default features of a layer only, and never rows,
        whose length is informative.
    max_reference_rows : int or None, default=50000
        Largest number of training rows that a row is compared with. If there are more, so many are
        drawn at random, and k is reduced in proportion to ``k_``
        (:func:`~kdgraph.smoothing.neighbours.rank_in_sample`). None for all rows. With 50,000 of
        170,000 to 206,000 rows, the AUROC of a left-out class was lower by .005 on average over
        three simulations.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device that searches the neighbours; the distances are the same to the bit. "cuda" needs
        torch. "auto": the device of the network whose layer or logits are compared, and the CPU for
        other features.

    References
    ----------
    Sun, Ming, Zhu and Li, "Out-of-distribution detection with deep nearest neighbors", ICML 2022.
    Ramaswamy, Rastogi and Shim, "Efficient algorithms for mining outliers from large data sets",
    SIGMOD 2000: of rows. Sugiyama and Borgwardt, "Rapid distance-based outlier detection via
    sampling", NeurIPS 2013: of a sample of the training rows.

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
    max_reference_rows: Count | None = 50_000
    device: Literal["auto", "cpu", "cuda"] = "auto"

    def _fit_features(self, features: np.ndarray, train: Rows, rng: np.random.RandomState) -> None:
        is_default_layer = self.features is None and self.feature_map_.source == "layer"
        self.normalizes_ = is_default_layer if self.normalize is None else self.normalize
        reference = features[draw_reference_rows(len(features), self.max_reference_rows, rng)]
        self.k_ = rank_in_sample(min(self.k, len(features)), len(features), len(reference))
        self._n_unused = len(features) - len(reference)
        self.index_ = NearestNeighbors(n_neighbors=self.k_).fit(
            self._normalised_features(reference)[0]
        )

    def describe(self) -> dict[str, Any]:
        summary = {**super().describe(), "k": self.k_, "normalized": self.normalizes_}
        if self._n_unused:
            summary["n_reference"] = int(self.index_.n_samples_fit_)
        return summary

    def _score(self, X: Any) -> np.ndarray:
        distances = self._distance_function()
        return apply_in_fixed_blocks(X, lambda block: self._score_block(block, distances))

    def _score_block(
        self, X: Any, distances: Callable[[np.ndarray, int], np.ndarray] | None = None
    ) -> np.ndarray:
        normalised, factor = self._normalised_features(self._scaled_features(X))
        distance = (distances or self._distance_function())(normalised, self.k_)[:, -1]
        with np.errstate(over="ignore"):
            return clip_scores(-distance * factor)

    def _distance_function(self) -> Callable[[np.ndarray, int], np.ndarray]:
        """Return the search on the device: a function of points and k to distances, Float[n, k]."""
        network = None
        if self.device == "auto" and self.feature_map_.source in ("layer", "logits"):
            with suppress(TypeError):  # features of no network, which were computed elsewhere
                network = access_network(self.estimator_).network
        if self.device == "cpu" or (self.device == "auto" and network is None):
            return partial(distances_of, self.index_)
        try:
            from kdgraph.parents.networks.device_search import DeviceSearch, device_of
            from kdgraph.parents.networks.torch_state import check_cuda
        except ModuleNotFoundError as error:
            subject = f"{type(self).__name__}.device={self.device!r}"
            raise ParameterError(needs_library(subject, "torch")) from error
        if self.device == "cuda":
            check_cuda()
        elif device_of(network) == "cpu":
            return partial(distances_of, self.index_)
        return DeviceSearch(self.index_).distances

    def _normalised_features(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the features, Float[n, m], and a factor for their distances, Float[n]."""
        bounded, factor = scale_into_range(features, _MAX_SQUARABLE)
        if not self.normalizes_:
            return bounded, factor
        length = np.linalg.norm(bounded, axis=1, keepdims=True)
        return bounded / np.where(length > 0, length, 1.0), np.ones(len(bounded))


# Relative to the length of the features. A smaller residual may be rounding error of sums in
# float32, so α is bounded by this residual.
_MIN_RESIDUAL_RATIO = 1e-6


@dataclass(eq=False, repr=False)
class VirtualLogit(FeatureDetector):
    """Virtual-logit matching (ViM): energy of the logits minus a scaled residual of the features.

    The residual is the part of the features outside the principal space of the training rows.

    The score is log Σ_k exp(f_k) - α‖Rᵀ(φ - o)‖ with logits f, features φ, origin o and basis R.
    Principal directions are eigenvectors of the second moments of φ - o over training rows. The
    default for fewer than 768 features, and the bound by the rank, are original to kdgraph.

    Parameters
    ----------
    estimator : network of :mod:`kdgraph.parents.networks`, or a pipeline that ends in one
        The parent.
    dimensions : int or None, default=None
        Dimension D of the principal space, less than the number of features (else ValueError). None
        uses 1,000 for more than 1,500 features and 512 for 768 to 1,500, as in the paper, and half
        of them for fewer; at most half of the rank of the training features, because units that are
        always off, and fewer rows than features, leave directions without a residual.

    Attributes
    ----------
    origin_, origin_kind_ : Float[m], {"bias", "mean"}
        Origin of the features: -W⁺b, which the last linear layer (W, b) maps to logits of 0, as in
        the paper; or the mean of the training rows, if the features are not the input of that
        layer.
    residual_basis_, alpha_ : Float[m, m - D], float
        Orthonormal basis of the complement of the principal space, and the scale α, which makes the
        mean residual of the training rows equal to their mean absolute largest logit.

    References
    ----------
    Wang, Li, Feng and Zhang, "ViM: out-of-distribution with virtual-logit matching", CVPR 2022, Eq.
    4 to 7.

    Examples
    --------
    >>> from kdgraph.parents.networks import MultilayerPerceptron
    >>> X, y = np.repeat([[-1.0], [1.0]], 50, axis=0), np.repeat([0, 1], 50)
    >>> network = MultilayerPerceptron(hidden=(8,), max_epochs=1, device="cpu", random_state=0)
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
        bounded, _ = scale_into_range(features, _MAX_SQUARABLE)
        inner, m = access_network(self.estimator_), bounded.shape[1]
        logits = inner.logits(train.X)
        self.origin_kind_, self.origin_ = _feature_origin(inner.network, bounded, logits)
        centred = bounded - self.origin_
        moments, axes = np.linalg.eigh(centred.T @ centred / len(bounded))
        rank = int((moments > _MIN_RESIDUAL_RATIO**2 * moments[-1]).sum())
        # The eigenvalues ascend, so the residual directions come first.
        self.residual_basis_ = np.ascontiguousarray(
            axes[:, : m - self._principal_dimensions(m, rank)]
        )
        min_total_length = _MIN_RESIDUAL_RATIO * np.linalg.norm(centred, axis=1).sum()
        total_length = max(
            self._residual_length(bounded).sum(), min_total_length, np.finfo(np.float64).tiny
        )
        self.alpha_ = float(np.abs(logits.max(axis=1)).sum() / total_length)

    def describe(self) -> dict[str, Any]:
        return {
            **super().describe(),
            "alpha": self.alpha_,
            "dimensions": self.residual_basis_.shape[0] - self.residual_basis_.shape[1],
            "origin": self.origin_kind_,
        }

    @np.errstate(under="ignore")
    def _score_block(self, X: Any) -> np.ndarray:
        bounded, factor = scale_into_range(self._scaled_features(X), _MAX_SQUARABLE)
        energy = logsumexp(access_network(self.estimator_).logits(X), axis=1)
        with np.errstate(over="ignore"):
            return clip_scores(energy - self.alpha_ * self._residual_length(bounded) * factor)

    def _residual_length(self, features: np.ndarray) -> np.ndarray:
        return np.linalg.norm(
            apply_in_fixed_blocks(
                features - self.origin_, lambda block: block @ self.residual_basis_
            ),
            axis=1,
        )

    def _principal_dimensions(self, m: int, rank: int) -> int:
        default = 1000 if m > 1500 else 512 if m >= 768 else m // 2
        dimensions = min(default, rank // 2) if self.dimensions is None else self.dimensions
        if dimensions >= m:
            raise ValueError(
                f"dimensions must be less than the {m} features, of which some have to be left, got"
                f" {dimensions}"
            )
        return dimensions


def _feature_origin(
    network: Any, features: np.ndarray, logits: np.ndarray
) -> tuple[Literal["bias", "mean"], np.ndarray]:
    """Return -W⁺b of the last linear layer if it maps features to logits, else their mean."""
    linear_layers = [
        module
        for module in network.module_.modules()
        if hasattr(module, "in_features") and hasattr(module, "out_features")
    ]
    if linear_layers and (linear_layers[-1].out_features, linear_layers[-1].in_features) == (
        logits.shape[1],
        features.shape[1],
    ):
        weight = linear_layers[-1].weight.detach().cpu().numpy().astype(np.float64)
        bias = (
            np.zeros(len(weight))
            if linear_layers[-1].bias is None
            else linear_layers[-1].bias.detach().cpu().numpy().astype(np.float64)
        )
        predicted_logits = features @ weight.T + bias
        # The network adds in float32, hence the tolerance.
        if np.allclose(predicted_logits, logits, rtol=1e-3, atol=1e-3 * np.abs(logits).max()):
            return "bias", -np.linalg.pinv(weight) @ bias
    return "mean", features.mean(axis=0)


# Trees of scikit-learn convert rows to float32 and reject overflow, so larger rows are scaled down.
_MAX_FLOAT32_FEATURE = 1e15


@dataclass(eq=False, repr=False)
class OutlierEstimator(FeatureDetector):
    """Any outlier detector with the interface of scikit-learn, fitted on features without labels.

    Far from the training rows an isolation forest and a one-class SVM are constant.

    Parameters
    ----------
    detector : estimator or None, default=None
        Outlier detector with ``fit(X)`` and ``score_samples(X)``, higher for more normal rows, such
        as ``LocalOutlierFactor()`` (set to ``novelty=True``) or a user's class; ``detector_`` is
        fitted. None is ``IsolationForest()``. A frozen detector is used unchanged. Its threshold,
        and so its ``contamination``, is not used.

    References
    ----------
    Liu, Ting and Zhou, "Isolation forest", ICDM 2008. Breunig, Kriegel, Ng and Sander, "LOF:
    identifying density-based local outliers", SIGMOD 2000. Schölkopf et al., "Estimating the
    support of a high-dimensional distribution", Neural Computation 13, 2001.

    Examples
    --------
    >>> from sklearn.neighbors import LocalOutlierFactor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> lof = LocalOutlierFactor(n_neighbors=10)
    >>> detector = OutlierEstimator(detector=lof, random_state=0).fit(X)
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
        # Threads of an isolation forest add in the order in which they finish, so use one thread.
        with parallel_config(backend="sequential"), np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(
                self.detector_.score_samples(scale_into_range(features, _MAX_FLOAT32_FEATURE)[0]),
                dtype=np.float64,
            )
