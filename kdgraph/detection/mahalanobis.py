"""Detectors by the Mahalanobis distance to the nearest class, of one layer or of several.

:class:`Mahalanobis` compares features of one layer, or rows (Lee et al. 2018; Ren et al. 2021).
:class:`LayerwiseMahalanobis` adds the other two parts of the method of Lee et al.: a step of the
input towards the nearest class, and a weighted sum over layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import expit
from sklearn.covariance import LedoitWolf
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.utils.multiclass import type_of_target
from threadpoolctl import threadpool_limits

from kdgraph.base import Rows
from kdgraph.base.network_access import access_network, input_spread
from kdgraph.base.rows import unseen_rows
from kdgraph.detection.base import (
    FeatureDetector,
    PostHocDetector,
    apply_in_fixed_blocks,
    clip_scores,
    scale_into_range,
)
from kdgraph.errors import DataError, ParameterError
from kdgraph.metrics import auroc
from kdgraph.parameters import NonNegative, Positive

# Bound of features. Whitening multiplies by up to 1e30, and squares of the product stay finite.
_MAX_WHITENABLE = 1e60
# Relative to the largest variance. A smaller variance is the rounding error of a constant.
_MIN_VARIANCE_RATIO = 1e-14


@dataclass(frozen=True)
class _WhitenedMeans:
    """Group means, Float[c, m], in units of a shared covariance Σ; Σ⁻¹ = W·Wᵀ, W ``whitening``."""

    centre: np.ndarray  # subtracted before the product with W, so that no digits are lost
    whitening: np.ndarray
    means: np.ndarray

    @classmethod
    def from_groups(cls, features: np.ndarray, group: np.ndarray) -> _WhitenedMeans:
        """Fit means and covariance of features Float[n, m] in nonempty groups Int[n] from 0."""
        if len(features) < 2:
            raise DataError(
                "a covariance is fitted to at least two training rows, got"
                f" n_samples = {len(features)}; pass more rows"
            )
        # The covariance is inverted by its eigenvectors. Variances that are rounding errors are
        # raised to a small fraction of the largest one before the division. Without any variance,
        # distances are Euclidean.
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
        whitening = axes / np.sqrt(spread)
        return cls(centre, whitening, means @ whitening)

    def squared_distances(self, features: np.ndarray) -> np.ndarray:
        """Return Float[n, c], the squared distance of features Float[n, m] to each mean."""
        return cdist((features - self.centre) @ self.whitening, self.means, "sqeuclidean")

    def min_squared_distance(self, features: np.ndarray) -> np.ndarray:
        """Return Float64[n], the squared distance of features Float[n, m] to the nearest mean."""
        bounded, factor = scale_into_range(features.astype(np.float64), _MAX_WHITENABLE)
        with np.errstate(over="ignore"):
            return self.squared_distances(bounded).min(axis=1) * factor * factor

    def distance_tensor(self, features: Any) -> Any:
        """Return the squared distance to the nearest mean, [n], of features, a tensor [n, m]."""
        # In float64, since the whitening of directions with little variance is large. The gradient
        # of the minimum is that of the distance to the nearest mean.
        features = features.double()
        whitened = (features - features.new_tensor(self.centre)) @ features.new_tensor(
            self.whitening
        )
        return (whitened[:, None] - features.new_tensor(self.means)).square().sum(2).amin(1)


@dataclass(eq=False, repr=False)
class Mahalanobis(FeatureDetector):
    """Negative squared Mahalanobis distance of features to the nearest class of training rows.

    The score is -min_c (φ - μ_c)ᵀ Σ⁻¹ (φ - μ_c), with class means μ_c of the features φ and one
    pooled covariance Σ of their residuals. Σ is the estimate of Ledoit and Wolf (2004), which is
    shrunk towards a multiple of the identity and invertible for any number of rows; the papers use
    the maximum likelihood estimate.

    Parameters
    ----------
    relative : bool, default=False
        Subtract the squared distance to the mean of all training rows, with their covariance, from
        the distance to the nearest of at least two classes.

    Attributes
    ----------
    feature_classes_ : array of shape (c,) or None
        Sorted labels, each of which has a mean; None if there is one mean, because labels are
        missing or continuous.
    class_means_, overall_mean_ : object
        Means and covariance of the classes and, if ``relative``, of all rows.

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
    >>> detector.predict([[20, 20], [20, 26], [26, 20], [10, 10]])
    array([ 1,  1, -1, -1])
    """

    _: KW_ONLY
    relative: bool = False

    def _fit_features(self, features: np.ndarray, train: Rows, rng: np.random.RandomState) -> None:
        bounded, _ = scale_into_range(features, _MAX_WHITENABLE)
        self.feature_classes_, group = _class_indices(train.y, len(bounded))
        self.class_means_ = _WhitenedMeans.from_groups(bounded, group)
        self.overall_mean_ = None
        if self.relative:
            if group.max() == 0:
                raise ValueError(
                    "relative=true compares classes with all rows, and needs labels of at least two"
                    " classes"
                )
            self.overall_mean_ = _WhitenedMeans.from_groups(
                bounded, np.zeros(len(bounded), dtype=np.intp)
            )

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "means": len(self.class_means_.means)}

    def _score_features(self, features: np.ndarray) -> np.ndarray:
        bounded, factor = scale_into_range(features, _MAX_WHITENABLE)
        distance = self.class_means_.squared_distances(bounded).min(axis=1)
        if self.overall_mean_ is not None:
            distance -= self.overall_mean_.squared_distances(bounded)[:, 0]
        with np.errstate(over="ignore"):
            return -distance * factor * factor


def _class_indices(y: Any, n: int) -> tuple[np.ndarray | None, np.ndarray]:
    """Return sorted labels or None, and Int[n], the class of each row, 0 for continuous targets."""
    if y is None or type_of_target(y).startswith("continuous"):
        return None, np.zeros(n, dtype=np.intp)
    return np.unique(y, return_inverse=True)


MAHALANOBIS_STEP_SIZES = (0.0, 0.0005, 0.001, 0.0014, 0.002, 0.005, 0.01)
"""Candidates for the step size ε with "auto": those of the published code of Lee et al."""
# Below this number of held-out rows, the same ones fit the weights and select the step.
_MIN_ROWS_TO_SPLIT = 20


@dataclass(frozen=True)
class _LayerMeans:
    """Class means of several layers of a fitted network."""

    network: Any
    layers: tuple[str, ...]
    means: tuple[_WhitenedMeans, ...]

    @classmethod
    def fit(cls, parent: Any, layers: Sequence[str] | None, rows: Rows) -> _LayerMeans:
        """Fit the means of all classes on training rows of the parent."""
        access = access_network(parent)
        names = tuple(access.network.activation_names_ if layers is None else layers)
        if not names:
            raise ValueError(
                "the network has no activation functions to take features from, got layers=null;"
                " name layers, which layer_names_ lists"
            )
        _, group = _class_indices(rows.y, len(rows))
        features = access.network.pooled_features(access.network_input(rows.X), names)
        # The order of sums depends on the number of BLAS threads.
        with threadpool_limits(1, user_api="blas"):
            means = tuple(
                _WhitenedMeans.from_groups(each.astype(np.float64), group) for each in features
            )
        return cls(access.network, names, means)

    def score(self, inputs: np.ndarray, step: float) -> np.ndarray:
        """Return the score of each layer after a step of the network input, Float64[n, L]."""
        return np.stack(
            [
                -means.min_squared_distance(each)
                for means, each in zip(self.means, self._features(inputs, step), strict=True)
            ],
            axis=1,
        )

    def _features(self, inputs: np.ndarray, step: float) -> Iterator[np.ndarray]:
        """Yield the features of each layer, Float32[n, m]; each has a step of its own."""
        if not step:
            yield from self.network.pooled_features(inputs, self.layers)
            return
        for layer, means in zip(self.layers, self.means, strict=True):
            gradient = self.network.input_gradient(
                inputs,
                lambda outputs, of=means: of.distance_tensor(self.network.pool(outputs)),
                layer,
            )
            # A gradient that overflows is NaN and has no sign. It becomes 0, so that the number
            # stays.
            stepped = inputs - step * np.sign(np.nan_to_num(gradient))
            yield self.network.pooled_features(stepped, [layer])[0]


@dataclass(eq=False, repr=False)
class LayerwiseMahalanobis(PostHocDetector):
    """Weighted sum of Mahalanobis scores of several layers of a network, after an input step.

    Parameters
    ----------
    estimator : network of :mod:`kdgraph.parents.networks`, or a pipeline that ends in one
        The parent.
    layers : sequence of str or None, default=None
        Names of the layers (``layer_names_`` of the network); None for all activation functions.
        Outputs are averaged over the pixels of each channel, as in the paper.
    epsilon : float or "auto", default="auto"
        Step ε by which each input of the network goes up or down, in units of the spread of the
        inputs over training rows. "auto" selects the value of ``epsilons`` with the highest AUROC
        of held-out rows against adversarial ones, the first in case of ties.
    epsilons : sequence of float
        Candidates of "auto".
    weights : {"signed", "nonnegative"}, default="signed"
        "signed": any weights of the layers, as in the paper. "nonnegative": weights from 0, so that
        no row gains by a distance; if all of them would be 0, each layer has the weight 1 in units
        of its standard deviation.
    adversarial_step : float, default=0.05
        Step δ of the adversarial rows, in the same units; that of the published code.

    Attributes
    ----------
    layers_ : tuple of str
        Names of the L layers.
    weights_, intercept_ : Float[L], float
        Weights of the layers and constant of the score.
    epsilon_, input_scale_ : float
        Step, and the spread of the inputs, which is its unit.
    aurocs_ : list of float or None
        AUROC for each of ``epsilons``; None if it did not select the step.

    Notes
    -----
    The score of layer l is M_l(x) = -min_c (φ_l(x̃) - μ_lc)ᵀ Σ_l⁻¹ (φ_l(x̃) - μ_lc), where x̃ is
    the row after a step ε·sign(-∇ₓ) of the distance to its nearest class in that layer, and Σ_l the
    estimate of :class:`Mahalanobis`. The score of the row is Σ_l α_l M_l + b, with α and b of a
    logistic regression of rows in distribution against adversarial ones made from them, x +
    δ·sign(∇ₓ L(x)) with the cross-entropy L of the predicted class (Goodfellow et al. 2015). ε is
    selected on one half of the held-out rows by weights of the other half; then all of them fit the
    weights. The published code keeps only adversarial rows that change the prediction, and adds
    rows with random noise. Signed weights may be negative, and distant rows may then pass. Pixels
    are not clipped at 0 and 1.

    References
    ----------
    Lee et al. 2018 (see :class:`Mahalanobis`), Eq. 2 to 4 and Algorithm 1; Section 3.1 for the
    adversarial rows.

    Examples
    --------
    >>> from kdgraph.parents.networks import MultilayerPerceptron
    >>> X, y = np.repeat([[-1.0], [1.0]], 50, axis=0), np.repeat([0, 1], 50)
    >>> X = X + np.random.default_rng(0).normal(scale=0.2, size=X.shape)
    >>> network = MultilayerPerceptron(hidden=(8, 8), max_epochs=1, device="cpu", random_state=0)
    >>> detector = LayerwiseMahalanobis(network, random_state=0).fit(X, y)
    >>> len(detector.layers_), detector.weights_.shape
    (2, (2,))
    """

    _: KW_ONLY
    layers: Sequence[str] | None = None
    epsilon: NonNegative | Literal["auto"] = "auto"
    epsilons: Sequence[NonNegative] = MAHALANOBIS_STEP_SIZES
    weights: Literal["signed", "nonnegative"] = "signed"
    adversarial_step: Positive = 0.05

    required_partition: ClassVar = "network"

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        if self.epsilon == "auto" and not len(self.epsilons):
            raise ParameterError("epsilons must have at least one number, got []")
        self.input_scale_ = input_spread(self.estimator_, train.X)
        self.layer_means_ = _LayerMeans.fit(self.estimator_, self.layers, train)
        self.layers_ = self.layer_means_.layers
        steps = [float(e) for e in (self.epsilons if self.epsilon == "auto" else [self.epsilon])]
        pairs = self._adversarial_pairs(train, calibration, steps)
        self.aurocs_ = None
        if self.epsilon == "auto":
            self.aurocs_ = [_auroc_of_halves(*pair, self.weights) for pair in pairs]
        best = 0 if self.aurocs_ is None else int(np.argmax(self.aurocs_))
        self.epsilon_ = steps[best]
        self.weights_, self.intercept_ = _fit_weights(*pairs[best], self.weights)

    def _adversarial_pairs(
        self, train: Rows, calibration: Rows, steps: Sequence[float]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return layer scores, Float[n, L], of held-out and of adversarial rows for each step."""
        if calibration.unseen is None:
            folds = [(self.estimator_, self.layer_means_, calibration)]
        else:
            # A row that the parent was fitted on is compared with means of the other folds, in the
            # layers of the parent that was fitted on these.
            source = unseen_rows(calibration).source
            fold = source.fold[unseen_rows(calibration).positions]
            folds = [
                (
                    parent,
                    _LayerMeans.fit(parent, self.layers, train[source.fold != f]),
                    calibration[fold == f],
                )
                for f, parent in enumerate(source.fold_estimators)
            ]
        pairs = []
        for parent, means, rows in folds:
            access = access_network(parent)
            inputs = np.asarray(access.network_input(rows.X))
            # The gradient of the log probability of the predicted class.
            gradient = access.network.input_gradient(
                inputs, lambda logits: logits.log_softmax(dim=1).amax(dim=1)
            )
            moved = inputs - self.input_scale_ * self.adversarial_step * np.sign(
                np.nan_to_num(gradient)
            )
            pairs.append(
                [[means.score(X, self.input_scale_ * e) for X in (inputs, moved)] for e in steps]
            )
        return [
            (
                np.concatenate([of_fold[i][0] for of_fold in pairs]),
                np.concatenate([of_fold[i][1] for of_fold in pairs]),
            )
            for i in range(len(steps))
        ]

    def describe(self) -> dict[str, Any]:
        return {
            **super().describe(),
            "epsilon": self.epsilon_,
            "unit": self.input_scale_,
            "weights": dict(zip(self.layers_, self.weights_.tolist(), strict=True)),
        }

    def _score(self, X: Any) -> np.ndarray:
        return apply_in_fixed_blocks(X, self._score_block)

    def _score_block(self, X: Any) -> np.ndarray:
        inputs = np.asarray(access_network(self.estimator_).network_input(X))
        scores = self.layer_means_.score(inputs, self.input_scale_ * self.epsilon_)
        with np.errstate(over="ignore", invalid="ignore"):
            return clip_scores(scores @ self.weights_ + self.intercept_)


def _fit_weights(
    inside: np.ndarray, adversarial: np.ndarray, signs: str
) -> tuple[np.ndarray, float]:
    """Return the weights and the constant that separate two arrays of layer scores, Float[n, L]."""
    scores = np.concatenate([inside, adversarial])
    is_inside = np.repeat([1, 0], [len(inside), len(adversarial)])
    scaler = StandardScaler().fit(scores)
    standardised = scaler.transform(scores)
    if signs == "signed":
        regression = LogisticRegression(tol=1e-8, max_iter=1000).fit(standardised, is_inside)
        weights, constant = regression.coef_[0], float(regression.intercept_[0])
    else:
        weights, constant = _fit_nonnegative(standardised, is_inside)
    weights = weights / scaler.scale_
    return weights, float(constant - weights @ scaler.mean_)


def _fit_nonnegative(scores: np.ndarray, is_inside: np.ndarray) -> tuple[np.ndarray, float]:
    """Return weights from 0 and the constant of a logistic regression, of scores Float[n, L]."""
    sign = np.where(is_inside, 1.0, -1.0)

    # The loss of scikit-learn's regression, with its default penalty, and its gradient.
    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        weights, margin = parameters[:-1], sign * (scores @ parameters[:-1] + parameters[-1])
        slope = -sign * expit(-margin)
        gradient = np.append(slope @ scores + weights, slope.sum())
        return float(np.logaddexp(0, -margin).sum() + weights @ weights / 2), gradient

    n_layers = scores.shape[1]
    bounds = [(0, None)] * n_layers + [(None, None)]
    solution = minimize(loss, np.zeros(n_layers + 1), jac=True, method="L-BFGS-B", bounds=bounds).x
    weights = solution[:-1] if solution[:-1].any() else np.ones(n_layers)
    return weights, float(solution[-1])


def _auroc_of_halves(inside: np.ndarray, adversarial: np.ndarray, signs: str) -> float:
    """Return the AUROC on every second row, by weights of the others; layer scores Float[n, L]."""
    # A row and the adversarial one made from it are in the same half.
    first, second = (
        (slice(0, None, 2), slice(1, None, 2))
        if len(inside) >= _MIN_ROWS_TO_SPLIT
        else (slice(None), slice(None))
    )
    weights, _ = _fit_weights(inside[first], adversarial[first], signs)
    return auroc(-adversarial[second] @ weights, -inside[second] @ weights)
