"""Training with outliers.

An :class:`Exposure` adds a loss on outliers to the training of a classifier. It determines where
the outliers come from, when the training with them happens, and what their loss is:

- outlier exposure: Hendrycks, Mazeika, Dietterich, "Deep anomaly detection with outlier exposure",
  ICLR 2019;
- CEDA and ACET: Hein, Andriushchenko, Bitterwolf, "Why ReLU networks yield high-confidence
  predictions far away from the training data and how to mitigate the problem", CVPR 2019;
- margins of the energy: Liu, Wang, Owens, Li, "Energy-based out-of-distribution detection",
  NeurIPS 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from kdgraph.docstrings import inherit_descriptions
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, NonNegative, Positive, Range, check_parameters
from kdgraph.parents.networks.outlier_sources import (
    OutlierSampler,
    OutlierSource,
    outlier_source_from_name,
)
from kdgraph.parents.networks.torch_state import map_batches

OutlierLossFunction = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Function (logits, weights, outlier logits) → scalar.

The arguments are Float32[b, K] and Float32[b] for training rows and Float32[m, K] for outliers.
"""

OutlierTransform = Callable[[nn.Module, Tensor], Tensor]
"""Function (module, outliers Float32[m, …]) → Float32[m, …] that replaces the drawn outliers."""


@dataclass(frozen=True)
class OutlierLoss:
    """Loss on outliers that is added in every training step.

    The ``sampler`` draws outliers, as many as a step has training rows, and the ``transform``, if
    there is one, replaces them. ``fitted_values`` were determined before the training, for the
    record. Original to kdgraph.
    """

    sampler: OutlierSampler
    loss_function: OutlierLossFunction
    weight: float
    transform: OutlierTransform | None = None
    fitted_values: Mapping[str, Any] = field(default_factory=dict)

    def sample_rows(self, module: nn.Module, n: int, rng: np.random.Generator) -> Tensor:
        """Return new outliers Float32[n, …] on the device of the module."""
        outliers = torch.from_numpy(self.sampler(n, rng)).to(next(module.parameters()).device)
        return outliers if self.transform is None else self.transform(module, outliers)

    def loss(self, outputs: Tensor, weights: Tensor, outlier_outputs: Tensor) -> Tensor:
        """Return ``weight`` × the loss of the outliers, a scalar.

        The arguments are logits Float32[b, K], weights Float32[b] and outlier logits Float32[m, K].
        """
        return self.weight * self.loss_function(outputs, weights, outlier_outputs)


@dataclass(eq=False, repr=False, kw_only=True)
class Exposure(BaseEstimator):
    """Training with outliers: training loss + ``weight`` × outlier loss (Hendrycks et al. 2019).

    A subclass is a dataclass too. It implements ``outlier_loss``, or ``auxiliary_loss`` if the loss
    depends on the network before the training.

    Parameters
    ----------
    outliers : {"noise", "permuted", "mixed"} or OutlierSource, default="noise"
        Source of the outliers. A name stands for outliers that are made from the training rows
        alone ("mixed" is half "noise", half "permuted"), see
        :func:`~kdgraph.parents.networks.outlier_sources.outlier_source_from_name`. Each step draws
        as many new outliers as it has training rows.
    weight : float, default=1.0
        Factor of the outlier loss. With 0 no outliers are drawn.
    start : {"trained", "scratch"}, default="scratch"
        With "trained" the network is first trained without outliers and then tuned with them for a
        fixed number of epochs. With "scratch" there is one training with outliers. It stops as
        usual by the loss of training or held-out rows alone.
    epochs : int, default=10
        Epochs of the tuning.
    learning_rate : float, default=1e-3
        Learning rate of the tuning, which falls along a cosine towards 0. All else is as in
        training.

    Notes
    -----
    With batch normalisation, training rows and outliers pass through the network together, so that
    the statistics cover both, as in the published implementations of outlier exposure and energy
    fine-tuning.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.parents.networks import Exposure, MultilayerPerceptron, OutlierExposure
    >>> issubclass(OutlierExposure, Exposure)
    True
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> mlp = MultilayerPerceptron(
    ...     exposure=OutlierExposure(outliers="noise", weight=0.5),
    ...     learning_rate=0.01,
    ...     max_epochs=5,
    ...     device="cpu",
    ...     random_state=0,
    ... )
    >>> sorted(mlp.fit(X, X[:, 0] > 0).history_[0])
    ['epoch', 'loss', 'outlier_loss', 'validation_loss']
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherit_descriptions(cls)

    outliers: Literal["noise", "permuted", "mixed"] | OutlierSource = "noise"
    weight: NonNegative = 1.0
    start: Literal["trained", "scratch"] = "scratch"
    epochs: Annotated[int, Range(0)] = 10
    learning_rate: Positive = 1e-3

    @property
    def outlier_source(self) -> OutlierSource:
        """Source of the outliers; a name is replaced by the source it stands for."""
        if isinstance(self.outliers, str):
            return outlier_source_from_name(self.outliers)
        return self.outliers

    def check(self, prefix: str = "exposure.") -> None:
        """Raise ParameterError if a parameter is out of range, here or of the outlier source."""
        check_parameters(self, prefix)
        if not isinstance(self.outlier_source, OutlierSource):
            rule = "noise, permuted, mixed, or an OutlierSource of kdgraph.parents.networks"
            raise ParameterError(f"{prefix}outliers must be {rule}, got {self.outliers!r}")
        self.outlier_source.check(f"{prefix}outliers.")

    def outlier_loss(self, logits: Tensor, weights: Tensor, outlier_logits: Tensor) -> Tensor:
        """Return the outlier loss, a scalar; see :data:`OutlierLossFunction` for the shapes."""
        raise NotImplementedError

    def auxiliary_loss(
        self,
        module: nn.Module,
        rows: np.ndarray,
        sampler: OutlierSampler,
        device: str,
        rng: np.random.Generator,
    ) -> OutlierLoss | None:
        """Return the auxiliary loss of a training, or None if its weight is 0.

        With None the training is the one without outliers, to the bit. ``module`` is as before the
        training with outliers, on the CPU, ``rows`` are training rows, Float32[n, …], ``device`` is
        that of the training, and ``rng`` is for choices before it.
        """
        return OutlierLoss(sampler, self.outlier_loss, self.weight) if self.weight else None

    def describe(self) -> dict[str, str]:
        """Return the class names of the exposure and of its outlier source, for the record."""
        return {"exposure": type(self).__name__, "outliers": type(self.outlier_source).__name__}


# Largest number of training rows and of outliers from whose energies margins are estimated. More
# rows would not change their quantiles much.
_MAX_ENERGY_ROWS = 10_000


@dataclass(eq=False, repr=False, kw_only=True)
class OutlierExposure(Exposure):
    """Outlier exposure: outliers should have the same probability for every class.

    Parameters
    ----------
    weight : float, default=0.5
        λ; the default is that of the paper for images.

    Notes
    -----
    The loss of an outlier is the cross-entropy of the uniform distribution with p, -(1/K) Σ_k log
    p_k (Hendrycks et al. 2019, Section 4.3).

    Examples
    --------
    >>> logits = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    >>> loss = OutlierExposure().outlier_loss
    >>> bool(loss(logits, torch.ones(2), logits[:1]) < loss(logits, torch.ones(2), logits[1:]))
    True
    """

    weight: NonNegative = 0.5

    def outlier_loss(self, logits: Tensor, weights: Tensor, outlier_logits: Tensor) -> Tensor:
        """Return the mean over outliers; see :data:`OutlierLossFunction` for the shapes."""
        return -outlier_logits.log_softmax(dim=1).mean()


@dataclass(eq=False, repr=False, kw_only=True)
class Ceda(Exposure):
    """Confidence enhancing data augmentation: outliers should have a low confidence.

    Notes
    -----
    The loss of an outlier is max_k log p_k, which is at least -log K (Hein et al. 2019, Section 4).

    Examples
    --------
    >>> logits = torch.zeros(1, 4)
    >>> round(float(Ceda().outlier_loss(logits, torch.ones(1), logits).exp()), 6)
    0.25
    """

    def outlier_loss(self, logits: Tensor, weights: Tensor, outlier_logits: Tensor) -> Tensor:
        """Return the mean over outliers; see :data:`OutlierLossFunction` for the shapes."""
        return max_log_probability(outlier_logits).mean()


@dataclass(eq=False, repr=False, kw_only=True)
class EnergyMargin(Exposure):
    """Energy margins: training rows should have low energies, outliers high ones.

    The energy is -log Σ_k exp(logit_k).

    Parameters
    ----------
    weight : float, default=0.1
        Factor of the loss; the default is that of the paper.
    start : {"trained", "scratch"}, default="trained"
        As in :class:`Exposure`; the default is that of the paper. With "scratch" both margins are
        required, since there is no trained network to estimate them from.
    margin_in, margin_out : float or None, default=None
        m_in and m_out. None: estimated from the network before the tuning, see Notes. The paper has
        -23 and -5 for CIFAR-10 and its network.

    Notes
    -----
    The loss is the mean of max(0, E - m_in)² over training rows + the mean of max(0, m_out - E)²
    over outliers (Liu et al. 2020, Eq. 8).

    The paper searches for margins around the mean energies of both. Here m_in is the median energy
    of training rows, so half of them have a loss of 0. m_out is the median energy of outliers, but
    at least the 95 % quantile of training rows: a network may assign lower energies to outliers
    than to training rows, and the loss must still separate them.

    Examples
    --------
    >>> exposure = EnergyMargin(margin_in=-5.0, margin_out=-1.0)
    >>> exposure.describe()
    {'exposure': 'EnergyMargin', 'outliers': 'NoiseOutliers'}
    """

    weight: NonNegative = 0.1
    start: Literal["trained", "scratch"] = "trained"
    margin_in: float | None = None
    margin_out: float | None = None

    def check(self, prefix: str = "exposure.") -> None:
        """Raise ParameterError for a parameter out of range, and missing or reversed margins."""
        super().check(prefix)
        low, high = self.margin_in, self.margin_out
        if self.start == "scratch" and (low is None or high is None):
            raise ParameterError(
                f"{prefix}margin_in and margin_out must be numbers with start=scratch, which has no"
                " energies to begin with"
            )
        if low is not None and high is not None and low > high:
            raise ParameterError(
                f"{prefix}margin_in must not be above margin_out, {high:g}, got {low:g}"
            )

    def auxiliary_loss(self, module, rows, sampler, device, rng):
        """Return the auxiliary loss with fixed margins, or None if its weight is 0."""
        if not self.weight:
            return None
        # Estimate the missing margins. m_out is never below the energies of most training rows,
        # and m_in never above m_out.
        low, high = self.margin_in, self.margin_out
        if low is None or high is None:
            sample = rows[rng.permutation(len(rows))[:_MAX_ENERGY_ROWS]]
            training_energies, outlier_energies = (
                energies(module, X, device) for X in (sample, sampler(len(sample), rng))
            )
            low = float(np.median(training_energies)) if low is None else low
            if high is None:
                most = np.quantile(training_energies, 0.95)
                high = max(float(most), float(np.median(outlier_energies)), low)
            low = min(low, high)
        margins = {"margin_in": low, "margin_out": high}
        loss_function = partial(energy_margin_loss, **margins)
        return OutlierLoss(sampler, loss_function, self.weight, fitted_values=margins)


def max_log_probability(logits: Tensor) -> Tensor:
    """Return max_k log p_k, Float32[n], of logits Float32[n, K] (Hein et al. 2019, Section 4)."""
    return logits.max(dim=1).values - logits.logsumexp(dim=1)


def energy_margin_loss(
    logits: Tensor, weights: Tensor, outlier_logits: Tensor, *, margin_in: float, margin_out: float
) -> Tensor:
    """Return the energy margin loss of Liu et al. (2020), Eq. 8, a scalar.

    Energies above m_in for training rows, and below m_out for outliers, have a loss. Logits are
    Float32[b, K] and Float32[m, K].
    """
    above = (-logits.logsumexp(dim=1) - margin_in).clamp(min=0)
    below = (margin_out + outlier_logits.logsumexp(dim=1)).clamp(min=0)
    return (weights * above.square()).mean() + below.square().mean()


def energies(module: nn.Module, X: np.ndarray, device: str) -> np.ndarray:
    """Return the energies -log Σ exp of the logits (Liu et al. 2020, Section 3), Float64[n].

    The module is moved to the device meanwhile, and is on the CPU in eval mode afterwards.
    """
    module.to(device).eval()
    try:
        (log_sums,) = map_batches(
            X,
            lambda batch: (torch.logsumexp(module(batch).double(), dim=1),),
            input_shape=X.shape[1:],
            device=device,
        )
    finally:
        module.to("cpu")
    return -log_sums


# Default radius for images (True) and for vectors (False).
_DEFAULT_RADIUS = {True: 0.3, False: 0.1}
# Sum of all step sizes in radii; a search can go from any point of the ball to any other.
_TOTAL_STEP_IN_RADII = 2.5


@dataclass(eq=False, repr=False, kw_only=True)
class Acet(Ceda):
    """Adversarial confidence enhancing training: CEDA on the worst outliers near the drawn ones.

    The worst outliers are those of highest confidence within a ball around the drawn outliers.

    Parameters
    ----------
    radius : float or None, default=None
        Radius of the ball in the maximum norm. For images it is in intensities; for vectors it is a
        fraction of the range of each feature in the training rows. None: 0.3 for images, as in the
        paper; 0.1 for vectors, where larger balls around noise contain in-distribution points.
    steps : int, default=40
        Steps of the search; the default is that of the paper. Each step needs a forward and a
        backward pass.

    Notes
    -----
    The search makes ``steps`` steps of size 2.5 radius / steps along the sign of the gradient of
    max_k log p_k. After each step it projects onto the ball and, for images, onto [0, 1]. The
    result is the visited point of highest confidence. The network is in eval mode during the
    search. Norm and radius are those of the paper. The search of the paper has no fixed step size;
    it halves the step size when a step fails (Hein et al. 2019, Section 4).

    Examples
    --------
    >>> from kdgraph.parents.networks import MultilayerPerceptron
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> network = MultilayerPerceptron(
    ...     hidden=(8,), exposure=Acet(steps=2), max_epochs=2, device="cpu", random_state=0
    ... )
    >>> network.fit(X, X[:, 0] > 0).describe()["exposure"]
    'Acet'
    """

    radius: Positive | None = None
    steps: Count = 40

    def auxiliary_loss(self, module, rows, sampler, device, rng):
        """Return the auxiliary loss with a search before each step, or None if its weight is 0."""
        ceda_loss = super().auxiliary_loss(module, rows, sampler, device, rng)
        if ceda_loss is None:
            return None
        are_images = rows.ndim == 4
        feature_ranges = (
            torch.ones(1) if are_images else torch.from_numpy(rows.max(axis=0) - rows.min(axis=0))
        )
        radius = _DEFAULT_RADIUS[are_images] if self.radius is None else self.radius
        bounds = (0.0, 1.0) if are_images else None

        def find_worst_outliers(module: nn.Module, outliers: Tensor) -> Tensor:
            radii = radius * feature_ranges.to(outliers.device)
            return projected_gradient_ascent(
                module, outliers, max_log_probability, radii, self.steps, bounds
            )

        return replace(ceda_loss, transform=find_worst_outliers)


def projected_gradient_ascent(
    module: nn.Module,
    start: Tensor,
    objective: Callable[[Tensor], Tensor],
    radius: Tensor,
    steps: int,
    bounds: tuple[float, float] | None = None,
) -> Tensor:
    """Maximise a function of the module's outputs within a ball around each row, Float32[n, …].

    The best visited point is returned for each row; ``start``, the centres, is the first one. The
    ``radius`` is in the maximum norm, one for all or one for each number of a row, and the steps
    along the sign of the gradient have the size 2.5 radius / steps. ``bounds`` limit all numbers.
    The module is in eval mode during the search; its weights and their gradients are unchanged.
    Original to kdgraph.
    """
    # Each iteration first evaluates the current points and then makes a step, so there are
    # steps + 1 evaluations. The objective may decrease along the way, so the best point is kept.
    was_training = module.training
    module.eval()
    best = points = start
    best_values = torch.full((len(start),), -torch.inf, device=start.device)
    for step in range(steps + 1):
        points = points.detach().requires_grad_()
        values = objective(module(points).float())
        is_better = values.detach() > best_values
        best = torch.where(is_better.view(-1, *[1] * (start.ndim - 1)), points.detach(), best)
        best_values = torch.where(is_better, values.detach(), best_values)
        if step < steps:
            (gradient,) = torch.autograd.grad(values.sum(), points)
            next_points = points.detach() + _TOTAL_STEP_IN_RADII / steps * radius * gradient.sign()
            next_points = torch.minimum(torch.maximum(next_points, start - radius), start + radius)
            points = next_points if bounds is None else next_points.clamp(*bounds)
    module.train(was_training)
    return best
