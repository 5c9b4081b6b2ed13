"""What training with outliers has in common: when it happens, where outliers come from, what a step
sees of them.

What outliers cost: outlier exposure, CEDA, and margins of the energy.

ACET: the worst outliers near those that are drawn.
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

from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, NonNegative, Positive, Range, check_parameters
from kdgraph.parents.networks.outlier_sources import (
    OutlierSampler,
    OutlierSource,
    outlier_source_from_name,
)
from kdgraph.parents.networks.torch_state import map_batches

OutlierLossFunction = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(logits Float32[b, K] of training rows, their weights Float32[b], logits Float32[m, K] of
outliers) → a scalar.
"""

OutlierTransform = Callable[[nn.Module, Tensor], Tensor]
"""(module, outliers Float32[m, …]) → Float32[m, …]: those that are learnt from instead."""


@dataclass(frozen=True)
class OutlierLoss:
    """What each step of a training sees beside its rows; ours.

    Attributes
    ----------
    sampler : outliers, as many as the step has training rows.
    loss_function : what they cost.
    weight : of that, in the loss.
    transform : what becomes of them first, or None.
    fitted_values : what was found out before, for the record.
    """

    sampler: OutlierSampler
    loss_function: OutlierLossFunction
    weight: float
    transform: OutlierTransform | None = None
    fitted_values: Mapping[str, Any] = field(default_factory=dict)

    def sample_rows(self, module: nn.Module, n: int, rng: np.random.Generator) -> Tensor:
        """Float32[n, …]: outliers, on the device of the module."""
        drawn = torch.from_numpy(self.sampler(n, rng)).to(next(module.parameters()).device)
        return drawn if self.transform is None else self.transform(module, drawn)

    def loss(self, outputs: Tensor, weights: Tensor, outlier_outputs: Tensor) -> Tensor:
        """``weight`` × the cost, a scalar, of logits Float32[b, K], weights Float32[b] and logits
        Float32[m, K] of outliers.
        """
        return self.weight * self.loss_function(outputs, weights, outlier_outputs)


@dataclass(eq=False, repr=False, kw_only=True)
class Exposure(BaseEstimator):
    """Training with outliers: cross-entropy on training rows, or another loss, + ``weight`` × what
    outliers cost (Hendrycks et al. 2019).

    A subclass is a dataclass too; it implements ``cost``, or ``beside`` where that has to look at
    the network first.

    Parameters
    ----------
    outliers : where they come from: "noise", "permuted" or "mixed", half of each, which are made of
        the training rows alone (:func:`~kdgraph.parents.networks.outlier_sources.outlier_source_from_name`); or any
        :class:`~kdgraph.parents.networks.outlier_sources.OutlierSource`. Each step draws as many new
        ones as it has training rows.
    weight : of what they cost. 0 draws none.
    start : "trained": the network is first trained without them, then tuned with them for a fixed
        number of epochs. "scratch": they are in its one training, which stops as ever by the loss
        of training or held-out rows alone.
    epochs, learning_rate : of the tuning; the rate falls along a cosine towards 0. The rest is as
        in training.

    Notes
    -----
    Where batches are normalised, training rows and outliers pass through the network together, so
    that the statistics are of both, as in the published implementations of outlier exposure and
    energy fine-tuning.
    """

    outliers: Literal["noise", "permuted", "mixed"] | OutlierSource = "noise"
    weight: NonNegative = 1.0
    start: Literal["trained", "scratch"] = "scratch"
    epochs: Annotated[int, Range(0)] = 10
    learning_rate: Positive = 1e-3

    @property
    def outlier_source(self) -> OutlierSource:
        """The outliers, made of their word if that is what they are."""
        return (
            outlier_source_from_name(self.outliers)
            if isinstance(self.outliers, str)
            else self.outliers
        )

    def check(self, prefix: str = "exposure.") -> None:
        """Raise ParameterError for a parameter out of range, here or of the outliers."""
        check_parameters(self, prefix)
        if not isinstance(self.outlier_source, OutlierSource):
            rule = "noise, permuted, mixed, or Outliers of kdgraph.parents.networks"
            raise ParameterError(f"{prefix}outliers must be {rule}, got {self.outliers!r}")
        self.outlier_source.check(f"{prefix}outliers.")

    def outlier_loss(self, logits: Tensor, weights: Tensor, outlier_logits: Tensor) -> Tensor:
        """A scalar; see :data:`Cost` for the shapes."""
        raise NotImplementedError

    def auxiliary_loss(
        self,
        module: nn.Module,
        rows: np.ndarray,
        sampler: OutlierSampler,
        device: str,
        rng: np.random.Generator,
    ) -> OutlierLoss | None:
        """What each step sees: of a ``module`` before its training (on the CPU), training rows
        Float32[n, …], and what draws outliers.

        None where they weigh nothing: then the training is the one without them, to the bit.
        """
        return OutlierLoss(sampler, self.outlier_loss, self.weight) if self.weight else None

    def describe(self) -> dict[str, str]:
        """Its class and that of the outliers, for the record."""
        return {"exposure": type(self).__name__, "outliers": type(self.outlier_source).__name__}


_MAX_ENERGY_ROWS = 10_000
"""Training rows, at most, and as many outliers, whose energies say where the margins are: their
quantiles do not need more.
"""


@dataclass(eq=False, repr=False, kw_only=True)
class OutlierExposure(Exposure):
    """Outliers should get the same probability of every class.

    Parameters
    ----------
    weight : λ; 0.5 is that of the paper for images.
    **others : those of :class:`Exposure`.

    Notes
    -----
    The cost of an outlier is the cross-entropy of the uniform distribution with p, -(1/K) Σ_k log
    p_k.

    References
    ----------
    Hendrycks, Mazeika, Dietterich, "Deep anomaly detection with outlier exposure", ICLR 2019,
    Section 4.3.
    """

    weight: NonNegative = 0.5

    def outlier_loss(self, logits: Tensor, weights: Tensor, outlier_logits: Tensor) -> Tensor:
        """The mean over outliers; a scalar, see :data:`Cost` for the shapes."""
        return -outlier_logits.log_softmax(dim=1).mean()


@dataclass(eq=False, repr=False, kw_only=True)
class Ceda(Exposure):
    """Confidence enhancing data augmentation: the largest probability of an outlier should be low.

    Parameters
    ----------
    weight : λ.
    **others : those of :class:`Exposure`.

    Notes
    -----
    The cost of an outlier is max_k log p_k, which is at least -log K.

    References
    ----------
    Hein, Andriushchenko, Bitterwolf, "Why ReLU networks yield high-confidence predictions far away
    from the training data and how to mitigate the problem", CVPR 2019, Section 4.
    """

    def outlier_loss(self, logits: Tensor, weights: Tensor, outlier_logits: Tensor) -> Tensor:
        """The mean over outliers; a scalar, see :data:`Cost` for the shapes."""
        return max_log_probability(outlier_logits).mean()


@dataclass(eq=False, repr=False, kw_only=True)
class EnergyMargin(Exposure):
    """Energies of training rows should be below one margin, those of outliers above another; the
    energy is -log Σ_k exp(logit_k).

    Parameters
    ----------
    weight : 0.1 is that of the paper.
    start : "trained", as the paper has it. With "scratch" both margins must be given, since there
    is no network that says them.
    margin_in, margin_out : m_in and m_out; None: what the network that the tuning begins with says,
        see Notes. The paper has -23 and -5 for CIFAR-10 and its network.
    **others : those of :class:`Exposure`.

    Notes
    -----
    The cost is the mean of max(0, E - m_in)² over training rows + the mean of max(0, m_out - E)²
    over outliers (Liu et al., Eq. 8).

    The paper looks for margins around the mean energies of both. Here m_in is the median energy of
    training rows, so that half of them have nothing to pay, and m_out is the median energy of
    outliers, but at least the 95 % quantile of training rows: a network may well give outliers the
    lower energy, and what is asked of it must still be that they lie apart.

    References
    ----------
    Liu, Wang, Owens, Li, "Energy-based out-of-distribution detection", NeurIPS 2020, Section 3.3.
    """

    weight: NonNegative = 0.1
    start: Literal["trained", "scratch"] = "trained"
    margin_in: float | None = None
    margin_out: float | None = None

    def check(self, prefix: str = "exposure.") -> None:
        """Raise ParameterError for a parameter out of range, for margins that are missing or the
        wrong way round.
        """
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

    def auxiliary_loss(
        self,
        module: nn.Module,
        rows: np.ndarray,
        sampler: OutlierSampler,
        device: str,
        rng: np.random.Generator,
    ) -> OutlierLoss | None:
        """The same, once the margins are known."""
        if not self.weight:
            return None
        low, high = self.margin_in, self.margin_out
        if low is None or high is None:
            some = rows[rng.permutation(len(rows))[:_MAX_ENERGY_ROWS]]
            inside, outside = (energies(module, X, device) for X in (some, sampler(len(some), rng)))
            low = float(np.median(inside)) if low is None else low
            high = (
                max(float(np.quantile(inside, 0.95)), float(np.median(outside)), low)
                if high is None
                else high
            )
            low = min(low, high)
        cost = partial(energy_margin_loss, margin_in=low, margin_out=high)
        return OutlierLoss(
            sampler, cost, self.weight, fitted_values={"margin_in": low, "margin_out": high}
        )


def max_log_probability(logits: Tensor) -> Tensor:
    """Float32[n]: max_k log p_k (Hein et al. 2019, Section 4) of logits Float32[n, K]."""
    return logits.max(dim=1).values - logits.logsumexp(dim=1)


def energy_margin_loss(
    logits: Tensor, weights: Tensor, outlier_logits: Tensor, *, margin_in: float, margin_out: float
) -> Tensor:
    """Liu et al. (2020), Eq. 8: a scalar, of logits Float32[b, K], weights Float32[b] and logits
    Float32[m, K] of outliers.
    """
    above = (-logits.logsumexp(dim=1) - margin_in).clamp(min=0)
    below = (margin_out + outlier_logits.logsumexp(dim=1)).clamp(min=0)
    return (weights * above.square()).mean() + below.square().mean()


def energies(module: nn.Module, X: np.ndarray, device: str) -> np.ndarray:
    """Float64[n]: -log Σ exp of the logits (Liu et al. 2020, Section 3) that a module gives rows X,
    Float32[n, …].

    The module is on the CPU, before and after; it works on the device.
    """
    module.to(device).eval()
    try:
        found = map_batches(
            X,
            lambda batch: (torch.logsumexp(module(batch).double(), dim=1),),
            input_shape=X.shape[1:],
            device=device,
        )
    finally:
        module.to("cpu")
    return -found[0]


_DEFAULT_RADIUS = {True: 0.3, False: 0.1}
"""By whether rows are images."""
_TOTAL_STEP_IN_RADII = 2.5
"""What all steps add up to, in radii: they can go from any place of the ball to any other."""


@dataclass(eq=False, repr=False, kw_only=True)
class Acet(Ceda):
    """Adversarial confidence enhancing training: CEDA on the outliers of highest confidence within
    a ball around those that are drawn.

    Parameters
    ----------
    radius : of the ball in the maximum norm: of images in intensities, of vectors as a share of
        each feature's range in training rows. None: 0.3 of images, as in the paper; 0.1 of vectors,
        where larger balls around noise reach rows in distribution.
    steps : of the search; the paper has 40, each costs a pass forth and back.
    **others : those of :class:`Ceda`.

    Notes
    -----
    The search goes ``steps`` times by 2.5 radius / steps along the sign of the gradient of max_k
    log p_k, back into the ball and, of images, into [0, 1]; of all places on the way it takes the
    one of highest confidence. The network is in eval mode meanwhile. Norm and radius are the
    paper's; its search has no fixed size of a step, but halves it when one fails.

    References
    ----------
    Hein, Andriushchenko, Bitterwolf, "Why ReLU networks yield high-confidence predictions far away
    from the training data and how to mitigate the problem", CVPR 2019, Section 4.
    """

    radius: Positive | None = None
    steps: Count = 40

    def auxiliary_loss(
        self,
        module: nn.Module,
        rows: np.ndarray,
        sampler: OutlierSampler,
        device: str,
        rng: np.random.Generator,
    ) -> OutlierLoss | None:
        """The same, with the search before each step."""
        beside = super().auxiliary_loss(module, rows, sampler, device, rng)
        if beside is None:
            return None
        are_images = rows.ndim == 4
        span = (
            torch.ones(1) if are_images else torch.from_numpy(rows.max(axis=0) - rows.min(axis=0))
        )
        radius = _DEFAULT_RADIUS[are_images] if self.radius is None else self.radius

        def harder(module: nn.Module, outliers: Tensor) -> Tensor:
            reach = radius * span.to(outliers.device)
            return projected_gradient_ascent(
                module,
                outliers,
                max_log_probability,
                reach,
                self.steps,
                (0.0, 1.0) if are_images else None,
            )

        return replace(beside, transform=harder)


def projected_gradient_ascent(
    module: nn.Module,
    start: Tensor,
    objective: Callable[[Tensor], Tensor],
    radius: Tensor,
    steps: int,
    bounds: tuple[float, float] | None = None,
) -> Tensor:
    """Rows near ``start`` for which a function of the module's outputs is high, found by projected
    steps along the gradient's sign; ours.

    Parameters
    ----------
    module : is in eval mode meanwhile; its weights and their gradients stay as they are.
    start : Float32[n, …].
    objective : outputs Float32[n, K] → Float32[n].
    radius : Float32, one for all numbers of a row or one for each.
    steps : of size 2.5 radius / steps.
    bounds : no number of a row leaves this interval.

    Returns
    -------
    Float32[n, …]
        For each row the best of the places on the way, of which ``start`` is the first.
    """
    was_training = module.training
    module.eval()
    best, highest, place = start, torch.full((len(start),), -torch.inf, device=start.device), start
    for step in range(steps + 1):
        place = place.detach().requires_grad_()
        values = objective(module(place).float())
        better = values.detach() > highest
        best = torch.where(better.view(-1, *[1] * (start.ndim - 1)), place.detach(), best)
        highest = torch.where(better, values.detach(), highest)
        if step < steps:
            (gradient,) = torch.autograd.grad(values.sum(), place)
            moved = place.detach() + _TOTAL_STEP_IN_RADII / steps * radius * gradient.sign()
            moved = torch.minimum(torch.maximum(moved, start - radius), start + radius)
            place = moved if bounds is None else moved.clamp(*bounds)
    module.train(was_training)
    return best
