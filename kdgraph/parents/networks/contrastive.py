"""The supervised contrastive loss (Khosla et al. 2020) and what a network is made of while it trains with it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from kdgraph.parents.networks.augmentation import random_view


class SupervisedContrastiveLoss(nn.Module):
    """Rows of one class are pulled together on the unit sphere, and away from all others.

    Parameters
    ----------
    temperature : τ; 0.1 is what Khosla et al. found best.

    Notes
    -----
    L_sup_out, Eq. 2 of Khosla et al. (2020), for L2-normalised z, with A(i) all rows but i and P(i) those of them in i's class:
    L_i = -1/|P(i)| Σ_{p∈P(i)} log( exp(z_i·z_p/τ) / Σ_{a∈A(i)} exp(z_i·z_a/τ) ). The paper sums L_i over the batch; here it is the
    (weighted) mean over the anchors that have a positive, so that it does not grow with the batch.
    """

    def __init__(self, temperature: float = 0.1):
        super().__init__()
        self.temperature = temperature

    def forward(self, embeddings: Tensor, labels: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """The mean loss of a batch; 0 if no row has another of its class.

        Parameters
        ----------
        embeddings : Float[n, m], or Float[n, v, m] for v views of each row, which are each other's positives.
        labels : Int[n].
        sample_weight : Float[n] or None, the weight of each row as an anchor.
        """
        if embeddings.ndim == 3:
            views = embeddings.shape[1]
            labels = labels.repeat_interleave(views)
            sample_weight = None if sample_weight is None else sample_weight.repeat_interleave(views)
            embeddings = embeddings.flatten(0, 1)
        loss, positives = self._by_anchor(embeddings, labels)
        weight = (positives > 0).to(loss.dtype)
        if sample_weight is not None:
            weight = weight * sample_weight
        total = weight.sum()
        return (weight * loss).sum() / torch.where(total > 0, total, 1.0)

    def _by_anchor(self, embeddings: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Float[n]: L_i, 0 without positives; Float[n]: |P(i)|."""
        embeddings = functional.normalize(embeddings, dim=1)
        itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
        similarity = embeddings @ embeddings.T / self.temperature
        lowest = torch.finfo(similarity.dtype).min  # not -inf: the gradient of a row that is alone in its batch must be 0, not NaN
        log_share = similarity - similarity.masked_fill(itself, lowest).logsumexp(dim=1, keepdim=True)
        positive = (labels[:, None] == labels[None, :]) & ~itself
        n_positives = positive.sum(dim=1)
        summed = torch.where(positive, log_share, 0.0).sum(dim=1)
        return -summed / n_positives.clamp(min=1), n_positives


class ContrastiveViews(nn.Module):
    """An encoder as it trains with :class:`SupervisedContrastiveLoss`: images in, the embeddings of one or two views of each out.

    Parameters
    ----------
    encoder : maps Float[n, c, h, w] to Float[n, m].
    augment : whether two random views of each image are made while training; else the image itself is its only view.
    """

    def __init__(self, encoder: nn.Module, augment: bool = False):
        super().__init__()
        self.encoder = encoder
        self.augment = augment

    def forward(self, images: Tensor) -> Tensor:
        """Float[n, c, h, w] → Float[n, v, m], v the number of views."""
        if not (self.augment and self.training):
            return self.encoder(images)[:, None]
        both = self.encoder(torch.cat([random_view(images), random_view(images)]))
        return torch.stack(both.chunk(2), dim=1)
