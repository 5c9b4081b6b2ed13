"""Losses of classification: (logits Float32[b, K], targets Int[b], weights Float32[b]) → the mean over rows of weight × loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from kdgraph.parents.networks.training import Loss


def cross_entropy(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """-log p of the row's class, as torch has it."""
    return (weights * F.cross_entropy(logits, targets, reduction="none")).mean()


def binary_cross_entropy(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """-(1/K) Σ_k of log p_k for the row's class and log(1 - p_k) for the others, where p is the softmax (binary cross-entropy by class).

    The published implementation of Dey et al. (2024) trains its network for tables with it, as Keras' ``binary_crossentropy``.

    Exact where p rounds to 1: the complement of the largest p is summed from the others, which are at most 1/2.
    """
    log_p = logits.log_softmax(dim=1)
    top = log_p.argmax(dim=1, keepdim=True)
    others = log_p.scatter(1, top, -torch.inf)
    log_complement = torch.log1p(-others.exp()).scatter(1, top, others.logsumexp(dim=1, keepdim=True))
    own = F.one_hot(targets, logits.shape[1]).bool()
    return -(weights * torch.where(own, log_p, log_complement).mean(dim=1)).mean()


def mean_calibration_error(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """The maximum mean calibration error of Kumar et al. (2018) of a batch: ``kdgraph.metrics.mmce`` with a gradient, a scalar.

    The root of the mean over pairs of rows of ``(c_i - a_i) (c_j - a_j) exp(-|c_i - c_j| / 0.4)``, with c the largest probability and a 1
    where it is that of the row's class. Which class that is does not follow the weights smoothly and is a constant to the gradient. A row's
    ``c - a`` counts with its weight.
    """
    confidence, predicted = logits.softmax(dim=1).max(dim=1)
    gap = weights * (confidence - (predicted == targets).to(confidence.dtype))
    blocks = zip(gap.split(MMCE_BLOCK), confidence.split(MMCE_BLOCK), strict=True)
    pairs = sum(own @ torch.exp(-(c[:, None] - confidence).abs() / MMCE_WIDTH) @ gap for own, c in blocks)
    return (torch.as_tensor(pairs).clamp(min=0) / len(gap) ** 2 + MMCE_EPSILON).sqrt()


MMCE_WIDTH = 0.4
"""Of the Laplacian kernel on confidences, that of Kumar et al. (2018)."""
MMCE_EPSILON = 1e-10
"""Under the root, whose slope would be infinite at 0; so a batch without any error has 1e-5."""
MMCE_BLOCK = 1024
"""Rows of the kernel at a time: held-out rows may be many, batches are one block."""


@dataclass(frozen=True)
class Mmce:
    """Cross-entropy + ``weight`` × :func:`mean_calibration_error` of the batch.

    Kumar, Sarawagi, Jain, "Trainable calibration measures for neural networks from kernel mean embeddings", ICML 2018. It is their
    MMCE over all pairs, not the variant that weights right and wrong rows apart. Each batch has its own; of several it is their mean.
    """

    weight: float

    def __call__(self, logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """A scalar, of logits Float32[b, K], targets Int[b] and weights Float32[b]."""
        loss = cross_entropy(logits, targets, weights)
        return loss + self.weight * mean_calibration_error(logits, targets, weights) if self.weight else loss


LOSSES: dict[str, Loss] = {"cross_entropy": cross_entropy, "binary_cross_entropy": binary_cross_entropy}
"""By the name that an estimator's ``loss`` has."""
