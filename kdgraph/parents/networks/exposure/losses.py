"""What outliers cost: outlier exposure, CEDA, and margins of the energy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from kdgraph.errors import ParameterError
from kdgraph.parameters import NonNegative
from kdgraph.parents.networks.exposure.base import Exposure, OutliersBeside
from kdgraph.parents.networks.exposure.outliers import Draw
from kdgraph.parents.networks.inference import in_batches

ENERGY_ROWS = 10_000
"""Training rows, at most, and as many outliers, whose energies say where the margins are: their quantiles do not need more."""


@dataclass(eq=False, repr=False, kw_only=True)
class OutlierExposure(Exposure):
    """Outliers should get the same probability of every class.

    Parameters
    ----------
    weight : λ; 0.5 is that of the paper for images.
    **others : those of :class:`Exposure`.

    Notes
    -----
    The cost of an outlier is the cross-entropy of the uniform distribution with p, -(1/K) Σ_k log p_k.

    References
    ----------
    Hendrycks, Mazeika, Dietterich, "Deep anomaly detection with outlier exposure", ICLR 2019, Section 4.3.
    """

    weight: NonNegative = 0.5

    def cost(self, logits: Tensor, weights: Tensor, of_outliers: Tensor) -> Tensor:
        """The mean over outliers; a scalar, see :data:`Cost` for the shapes."""
        return -of_outliers.log_softmax(dim=1).mean()


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
    Hein, Andriushchenko, Bitterwolf, "Why ReLU networks yield high-confidence predictions far away from the training data and how to
    mitigate the problem", CVPR 2019, Section 4.
    """

    def cost(self, logits: Tensor, weights: Tensor, of_outliers: Tensor) -> Tensor:
        """The mean over outliers; a scalar, see :data:`Cost` for the shapes."""
        return largest_log_probability(of_outliers).mean()


@dataclass(eq=False, repr=False, kw_only=True)
class EnergyMargin(Exposure):
    """Energies of training rows should be below one margin, those of outliers above another; the energy is -log Σ_k exp(logit_k).

    Parameters
    ----------
    weight : 0.1 is that of the paper.
    start : "trained", as the paper has it. With "scratch" both margins must be given, since there is no network that says them.
    margin_in, margin_out : m_in and m_out; None: what the network that the tuning begins with says, see Notes. The paper has -23 and -5
        for CIFAR-10 and its network.
    **others : those of :class:`Exposure`.

    Notes
    -----
    The cost is the mean of max(0, E - m_in)² over training rows + the mean of max(0, m_out - E)² over outliers (Liu et al., Eq. 8).

    The paper looks for margins around the mean energies of both. Here m_in is the median energy of training rows, so that half of them have
    nothing to pay, and m_out is the median energy of outliers, but at least the 95 % quantile of training rows: a network may well give
    outliers the lower energy, and what is asked of it must still be that they lie apart.

    References
    ----------
    Liu, Wang, Owens, Li, "Energy-based out-of-distribution detection", NeurIPS 2020, Section 3.3.
    """

    weight: NonNegative = 0.1
    start: Literal["trained", "scratch"] = "trained"
    margin_in: float | None = None
    margin_out: float | None = None

    def check(self, prefix: str = "exposure.") -> None:
        """Raise ParameterError for a parameter out of range, for margins that are missing or the wrong way round."""
        super().check(prefix)
        low, high = self.margin_in, self.margin_out
        if self.start == "scratch" and (low is None or high is None):
            raise ParameterError(
                f"{prefix}margin_in and margin_out must be numbers with start=scratch, which has no energies to begin with"
            )
        if low is not None and high is not None and low > high:
            raise ParameterError(f"{prefix}margin_in must not be above margin_out, {high:g}, got {low:g}")

    def beside(self, module: nn.Module, rows: np.ndarray, draw: Draw, device: str, rng: np.random.Generator) -> OutliersBeside | None:
        """The same, once the margins are known."""
        if not self.weight:
            return None
        low, high = self.margin_in, self.margin_out
        if low is None or high is None:
            some = rows[rng.permutation(len(rows))[:ENERGY_ROWS]]
            inside, outside = (energies(module, X, device) for X in (some, draw(len(some), rng)))
            low = float(np.median(inside)) if low is None else low
            high = max(float(np.quantile(inside, 0.95)), float(np.median(outside)), low) if high is None else high
            low = min(low, high)
        cost = partial(margin_cost, margin_in=low, margin_out=high)
        return OutliersBeside(draw, cost, self.weight, learnt={"margin_in": low, "margin_out": high})


def largest_log_probability(logits: Tensor) -> Tensor:
    """Float32[n]: max_k log p_k (Hein et al. 2019, Section 4) of logits Float32[n, K]."""
    return logits.max(dim=1).values - logits.logsumexp(dim=1)


def margin_cost(logits: Tensor, weights: Tensor, of_outliers: Tensor, *, margin_in: float, margin_out: float) -> Tensor:
    """Liu et al. (2020), Eq. 8: a scalar, of logits Float32[b, K], weights Float32[b] and logits Float32[m, K] of outliers."""
    above = (-logits.logsumexp(dim=1) - margin_in).clamp(min=0)
    below = (margin_out + of_outliers.logsumexp(dim=1)).clamp(min=0)
    return (weights * above.square()).mean() + below.square().mean()


def energies(module: nn.Module, X: np.ndarray, device: str) -> np.ndarray:
    """Float64[n]: -log Σ exp of the logits (Liu et al. 2020, Section 3) that a module gives rows X, Float32[n, …].

    The module is on the CPU, before and after; it works on the device.
    """
    module.to(device).eval()
    try:
        found = in_batches(X, lambda batch: (torch.logsumexp(module(batch).double(), dim=1),), input_shape=X.shape[1:], device=device)
    finally:
        module.to("cpu")
    return -found[0]
