"""Losses of classification: (logits Float32[b, K], targets Int[b], weights Float32[b]) → the mean over rows of weight × loss."""

from __future__ import annotations

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


LOSSES: dict[str, Loss] = {"cross_entropy": cross_entropy, "binary_cross_entropy": binary_cross_entropy}
"""By the name that an estimator's ``loss`` has."""
