"""ViM: what is left of the features outside the space in which the training rows lie, as one more logit."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import logsumexp

from kdgraph.detection.blocks import in_full_blocks
from kdgraph.detection.feature_detector import FeatureDetector, cut_off, within_reach
from kdgraph.parameters import Count
from kdgraph.parents import Rows
from kdgraph.parents.inside import inside_of

_REACH = 1e100
"""Squares of it, and sums of millions of them, stay finite."""
_ROUNDING = 1e-6
"""Of the features' length: a residual below it may be what is left of sums in float32, and α makes no more of it than of this."""


@dataclass(eq=False, repr=False)
class VirtualLogit(FeatureDetector):
    """Virtual-logit matching (ViM): energy of the logits, less what of the features lies outside the training rows' principal space.

    Parameters
    ----------
    estimator : a network of :mod:`kdgraph.parents.networks`, also in a pipeline. Cloned and fitted; ``FrozenEstimator(fitted)`` is used as
        it is.
    dimensions : D of the principal space, less than there are features. None: 1,000 of more than 1,500 features and 512 of 768 to 1,500, as
        in the paper; half of fewer, and never more than half of those in which the training rows differ (ours): units that are always off,
        and fewer rows than features, leave directions in which training rows have no residual at all.
    features : whose residual it is, see :class:`~kdgraph.detection.feature_detector.FeatureDetector`.
    target_fpr : the share of what is in distribution that the threshold may give up.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen estimator give it rows that this was
        not fitted on, ``fit(X, y, X_calibration=…, y_calibration=…)``: see :class:`~kdgraph.parents.PostHoc`.
    random_state : seeds the held-out rows, and the parent where it has no seed of its own.

    Attributes
    ----------
    estimator_, offset_, map_, units_ : the fitted parent, the threshold of the score, the feature map, what features are divided by.
    origin_ : Float[m], from where features are seen; ``origin_is_``: "bias", -W⁺b, which the last linear layer (W, b) maps to logits of 0,
        as in the paper; or "mean", of the training rows, where the features are not what that layer takes.
    residual_ : Float[m, m - D], an orthonormal basis of what is no principal direction.
    alpha_ : α, which makes the mean residual of the training rows as large as the mean of their largest logits (by amount).

    Raises
    ------
    ValueError : for as many dimensions as there are features, or more.

    Notes
    -----
    log Σ_k exp(f_k) - α‖Rᵀ(φ - o)‖, of which the paper's score, the softmax probability of the virtual logit α‖·‖ beside the logits f, is a
    decreasing function. Principal directions are eigenvectors of the second moments of φ - o over training rows.

    References
    ----------
    Wang, Li, Feng and Zhang, "ViM: out-of-distribution with virtual-logit matching", CVPR 2022, Eq. 4 to 7.

    Examples
    --------
    >>> from kdgraph.parents.networks import MultilayerPerceptron
    >>> X, y = np.repeat([[-1.0], [1.0]], 50, axis=0), np.repeat([0, 1], 50)
    >>> network = MultilayerPerceptron(hidden=(8,), learning_rate=0.05, max_epochs=5, device="cpu", random_state=0)
    >>> detector = VirtualLogit(network, dimensions=4, random_state=0).fit(X, y)
    >>> detector.origin_is_, detector.residual_.shape
    ('bias', (8, 4))
    """

    _: KW_ONLY
    dimensions: Count | None = None

    parent_is: ClassVar = "network"

    def _default_estimator(self) -> Any:
        if self.estimator is None:
            raise ValueError(f"{type(self).__name__} needs an estimator, got None")
        return self.estimator

    def _learn(self, features: np.ndarray, train: Rows, rng: np.random.RandomState) -> None:
        near, _ = within_reach(features, _REACH)
        inside, m = inside_of(self.estimator_), near.shape[1]
        logits = inside.logits(train.X)
        self.origin_is_, self.origin_ = _origin(inside.network, near, logits)
        centred = near - self.origin_
        moments, axes = np.linalg.eigh(centred.T @ centred / len(near))
        rank = int((moments > _ROUNDING**2 * moments[-1]).sum())
        self.residual_ = np.ascontiguousarray(axes[:, : m - self._dimensions(m, rank)])  # of the smallest moments, which come first
        least = _ROUNDING * np.linalg.norm(centred, axis=1).sum()
        length = max(self._residual_length(near).sum(), least, np.finfo(np.float64).tiny)
        self.alpha_ = float(np.abs(logits.max(axis=1)).sum() / length)

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: the threshold, α, the principal dimensions, and the origin."""
        return {
            **super().describe(),
            "alpha": self.alpha_,
            "dimensions": self.residual_.shape[0] - self.residual_.shape[1],
            "origin": self.origin_is_,
        }

    @np.errstate(under="ignore")
    def _block_score(self, X: Any) -> np.ndarray:
        near, factor = within_reach(self._features(X), _REACH)
        energy = logsumexp(inside_of(self.estimator_).logits(X), axis=1)
        with np.errstate(over="ignore"):
            return cut_off(energy - self.alpha_ * self._residual_length(near) * factor)

    def _residual_length(self, features: np.ndarray) -> np.ndarray:
        return np.linalg.norm(in_full_blocks(features - self.origin_, lambda block: block @ self.residual_), axis=1)

    def _dimensions(self, m: int, rank: int) -> int:
        own = 1000 if m > 1500 else 512 if m >= 768 else m // 2
        found = min(own, rank // 2) if self.dimensions is None else self.dimensions
        if found >= m:
            raise ValueError(f"dimensions must be less than the {m} features, of which some have to be left, got {found}")
        return found


def _origin(network: Any, features: np.ndarray, logits: np.ndarray) -> tuple[Literal["bias", "mean"], np.ndarray]:
    """-W⁺b where the features are what the last linear layer of the network takes, and its output is the logits; else their mean."""
    linear = [part for part in network.module_.modules() if hasattr(part, "in_features") and hasattr(part, "out_features")]
    if linear and (linear[-1].out_features, linear[-1].in_features) == (logits.shape[1], features.shape[1]):
        weight = linear[-1].weight.detach().cpu().numpy().astype(np.float64)
        bias = np.zeros(len(weight)) if linear[-1].bias is None else linear[-1].bias.detach().cpu().numpy().astype(np.float64)
        found = features @ weight.T + bias
        if np.allclose(found, logits, rtol=1e-3, atol=1e-3 * np.abs(logits).max()):  # the network adds in float32
            return "bias", -np.linalg.pinv(weight) @ bias
    return "mean", features.mean(axis=0)
