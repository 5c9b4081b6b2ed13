"""Image encoders that are trained with the supervised contrastive loss first.

Dey et al. (2024), Section 5.2 and Appendix F, train their network so; the loss is that of Khosla
et al. (2020).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional

from kdgraph.parameters import Positive, Range
from kdgraph.parents.networks.convolutional import random_view
from kdgraph.parents.networks.encoder import EncoderModule, EncoderNetwork
from kdgraph.parents.networks.training import train


class SupervisedContrastiveLoss(nn.Module):
    """Loss that attracts rows of one class on the unit sphere and repels all others.

    Parameters
    ----------
    temperature : float, default=0.1
        τ; the default is the best value of Khosla et al.

    Notes
    -----
    L_sup_out, Eq. 2 of Khosla et al. (2020), for L2-normalised z. A(i) are all rows but i, and P(i)
    those of them in the class of i: L_i = -1/|P(i)| Σ_{p∈P(i)} log( exp(z_i·z_p/τ) / Σ_{a∈A(i)}
    exp(z_i·z_a/τ) ). The paper sums L_i over the batch. Here the loss is the (weighted) mean over
    the anchors that have a positive, so that it does not grow with the batch.

    Examples
    --------
    >>> embeddings = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
    >>> loss = SupervisedContrastiveLoss()
    >>> together, mixed = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])
    >>> bool(loss(embeddings, together) < loss(embeddings, mixed))
    True
    """

    def __init__(self, temperature: float = 0.1):
        super().__init__()
        self.temperature = temperature

    def forward(
        self, embeddings: Tensor, labels: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Return the mean loss of a batch; it is 0 if no row has another one of its class.

        Embeddings are Float[n, m], or Float[n, v, m] for v views of each row, which are positives
        of each other. Classes are Int[n], and weights of rows as anchors Float[n].
        """
        if embeddings.ndim == 3:
            views = embeddings.shape[1]
            labels = labels.repeat_interleave(views)
            sample_weight = (
                None if sample_weight is None else sample_weight.repeat_interleave(views)
            )
            embeddings = embeddings.flatten(0, 1)
        loss, positives = self._by_anchor(embeddings, labels)
        weight = (positives > 0).to(loss.dtype)
        if sample_weight is not None:
            weight = weight * sample_weight
        total = weight.sum()
        return (weight * loss).sum() / torch.where(total > 0, total, 1.0)

    def _by_anchor(self, embeddings: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return L_i (0 without positives) and |P(i)|, both Float[n]."""
        embeddings = functional.normalize(embeddings, dim=1)
        is_self = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
        similarity = embeddings @ embeddings.T / self.temperature
        # Mask with a finite number instead of -inf: the gradient of a row that is the only one in
        # its batch must be 0, not NaN.
        lowest = torch.finfo(similarity.dtype).min
        log_ratio = similarity - similarity.masked_fill(is_self, lowest).logsumexp(
            dim=1, keepdim=True
        )
        is_positive = (labels[:, None] == labels[None, :]) & ~is_self
        n_positives = is_positive.sum(dim=1)
        log_ratio_sums = torch.where(is_positive, log_ratio, 0.0).sum(dim=1)
        return -log_ratio_sums / n_positives.clamp(min=1), n_positives


class ContrastiveViews(nn.Module):
    """Encoder that returns the embeddings of one or two views of each image.

    It is trained with :class:`SupervisedContrastiveLoss` (Khosla et al. 2020). The encoder maps
    Float[n, c, h, w] to Float[n, m]. With ``augment`` there are two random views of each image in
    training; otherwise the image is its only view.
    """

    def __init__(self, encoder: nn.Module, augment: bool = False):
        super().__init__()
        self.encoder = encoder
        self.augment = augment

    def forward(self, images: Tensor) -> Tensor:
        """Map images Float[n, c, h, w] to embeddings Float[n, v, m] of v views."""
        if not (self.augment and self.training):
            return self.encoder(images)[:, None]
        embeddings = self.encoder(torch.cat([random_view(images), random_view(images)]))
        return torch.stack(embeddings.chunk(2), dim=1)


@dataclass(eq=False, repr=False, kw_only=True)
class ContrastiveEncoder(EncoderNetwork):
    """Encoder network whose encoder and projection are first trained with the contrastive loss.

    Parameters
    ----------
    pretrain_epochs : int, default=100
        Epochs of the pretraining, with the optimizer and the batches of the training, and without
        early stopping.
    temperature : float, default=0.1
        τ of the contrastive loss.
    augment : bool, default=False
        Pretrain on two random views of each image (shifted by up to 4 pixels, and mirrored in half
        of the cases) instead of the image.
    freeze : bool, default=False
        Keep encoder and projection fixed after the pretraining. Their outputs are computed once.

    Attributes
    ----------
    pretraining_history_ : list of dict
        As ``history_``, of the contrastive training.

    References
    ----------
    Khosla et al., Supervised contrastive learning, NeurIPS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> images = np.random.default_rng(0).random((20, 1, 8, 8), dtype=np.float32)
    >>> network = ContrastiveEncoder(
    ...     model_options={"depth": 8, "width": 2},
    ...     embedding_size=4,
    ...     max_epochs=1,
    ...     pretrain_epochs=2,
    ...     device="cpu",
    ... )
    >>> len(network.fit(images, np.arange(20) % 2).pretraining_history_)
    2
    """

    pretrain_epochs: Annotated[int, Range(0)] = 100
    temperature: Positive = 0.1
    augment: bool = False

    def _train(self, module, examples, validation, options, **train_options):
        """Pretrain the encoder, then train the module, or its trainable part."""
        assert isinstance(module, EncoderModule)
        if train_options.get("stage") == "exposure":  # which continues the training
            return super()._train(module, examples, validation, options, **train_options)
        # The checkpoint of the pretraining is kept until the training ends: a resumed fit loads the
        # pretrained encoder from it.
        checkpoint = train_options["checkpoint"]
        pretraining_checkpoint = checkpoint and checkpoint.for_stage("pretraining")
        self.pretraining_history_ = train(
            ContrastiveViews(nn.Sequential(module.encoder, module.embedding), self.augment),
            examples,
            SupervisedContrastiveLoss(self.temperature),
            replace(options, max_epochs=self.pretrain_epochs, patience=None),
            seed=train_options["seed"],
            report=train_options["report"],
            checkpoint=pretraining_checkpoint,
            stage="pretraining",
        ).history
        result = super()._train(module, examples, validation, options, **train_options)
        if pretraining_checkpoint:
            pretraining_checkpoint.remove()
        return result

    def _frozen_and_trainable(self, module: EncoderModule) -> tuple[nn.Module, nn.Module]:
        return nn.Sequential(module.encoder, module.embedding), module.head
