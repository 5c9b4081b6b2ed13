"""Image encoders with a dense head, and the supervised contrastive loss that pretrains them.

The network is that of Dey et al. (2024), Section 5.2 and Appendix F: an image model, a projection
to an embedding, and dense layers. The loss is that of Khosla et al. (2020).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, Positive, Range
from kdgraph.parents.networks.classifier import NetworkClassifier
from kdgraph.parents.networks.convolutional import check_image_shape, random_view
from kdgraph.parents.networks.image_models import IMPORT_PATH_PATTERN, load_image_model
from kdgraph.parents.networks.torch_state import map_batches
from kdgraph.parents.networks.training import Examples, train


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


class EmbeddingLayer(nn.Module):
    """Linear projection of the features to ``size`` outputs, or, without one, the features."""

    def __init__(self, features: int, size: int | None):
        # The features pass as one token each, with three axes. ActivationPartition takes as the
        # dense head what follows the last tensor of more than two axes. Neither this projection
        # nor a pooling layer of the encoder belongs to the head.
        super().__init__()
        self.projection = nn.Identity() if size is None else nn.Linear(features, size)

    def forward(self, features: Tensor) -> Tensor:
        """Map Float[n, features] to Float[n, size]."""
        return self.projection(features[:, None]).flatten(1)


class EncoderModule(nn.Module):
    """Module ``head(embedding(encoder(images)))``; the embedding is the input of the head.

    The encoder maps Float[n, c, h, w] to Float[n, features]. Without an ``embedding_size`` the
    embedding is the features; ``hidden`` are the units of the hidden layers of the head.
    """

    def __init__(
        self,
        encoder: nn.Module,
        features: int,
        embedding_size: int | None,
        hidden: Sequence[int],
        n_classes: int,
    ):
        super().__init__()
        self.encoder = encoder
        self.embedding = EmbeddingLayer(features, embedding_size)
        widths = [embedding_size or features, *hidden]
        layers = [
            layer
            for n_inputs, n_units in pairwise(widths)
            for layer in (nn.Linear(n_inputs, n_units), nn.ReLU())
        ]
        self.head = nn.Sequential(*layers, nn.Linear(widths[-1], n_classes))

    def forward(self, images: Tensor) -> Tensor:
        """Map images Float[n, c, h, w] to logits Float[n, K]."""
        return self.head(self.embedding(self.encoder(images)))


@dataclass(eq=False, repr=False, kw_only=True)
class EncoderNetwork(NetworkClassifier):
    """Image model with a projection to an embedding and a dense head.

    The default head is that of Dey et al., Appendix F: an embedding of 256 numbers, a dense layer
    of 200 units, the logits. In the paper the encoder is first trained with the contrastive loss:
    ``pretrain="contrastive"``. ``transform(X, "embedding")`` returns the input of the head.

    Parameters
    ----------
    model : str, default="resnet20"
        "resnet20" is the untrained residual network of kdgraph. "package.module:factory" is a
        function that returns a torch module from images to features, tokens or maps (the last two
        are averaged). Otherwise it is a folder or name that ``AutoModel`` of transformers can load,
        from the cache of the user or else the network (``pip install 'kdgraph[encoders]'``). Its
        features are its pooled output, or the mean of its last tokens.
    model_options : mapping of str to object, or None, default=None
        Keyword arguments of the factory or of ``AutoModel``.
    weights : {"pretrained", "random"}, default="pretrained"
        "pretrained" are the weights that come with the model (those of a factory, random ones for
        "resnet20"); "random" are new ones.
    image_size : int or None, default=None
        Height and width to which images are resized, bilinearly. None: the size in the config of a
        model of transformers, otherwise no resizing.
    embedding_size : int or None, default=256
        Outputs m of the linear projection. None: no projection; the embedding is the features of
        the encoder.
    hidden : sequence of int, default=(200,)
        Units of each hidden layer of the head.
    pretrain : {"none", "contrastive"}, default="none"
        With "contrastive", encoder and projection are first trained with the supervised contrastive
        loss, with the same optimizer and batches.
    pretrain_epochs : int, default=100
        Epochs of the pretraining, without early stopping.
    temperature : float, default=0.1
        τ of the contrastive loss.
    augment : bool, default=False
        Pretrain on two random views of each image (shifted by up to 4 pixels, and mirrored in half
        of the cases) instead of the image.
    freeze : bool, default=False
        Keep the encoder fixed while the rest is trained; also the projection, if it was pretrained.
        The outputs of the fixed part are computed once.

    Attributes
    ----------
    pretraining_history_ : list of dict
        As ``history_``, of the contrastive training; empty without one.

    Notes
    -----
    A grey image is repeated for the channels of the model. Models of transformers receive images,
    in [0, 1], normalised as their image processor specifies; the module of a factory must normalise
    images itself.

    References
    ----------
    Dey et al., Deep discriminative to kernel density graph for in- and out-of-distribution
    calibrated inference. Khosla et al., Supervised contrastive learning, NeurIPS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> images, y = rng.random((20, 1, 8, 8), dtype=np.float32), np.arange(20) % 2
    >>> network = EncoderNetwork(
    ...     model_options={"depth": 8, "width": 2}, embedding_size=4, max_epochs=1, device="cpu"
    ... )
    >>> network.fit(images, y).transform(images, "embedding").shape
    (20, 4)
    """

    model: str = "resnet20"
    model_options: Mapping[str, Any] | None = None
    weights: Literal["pretrained", "random"] = "pretrained"
    image_size: Count | None = None
    embedding_size: Count | None = 256
    hidden: Sequence[Count] = (200,)
    pretrain: Literal["none", "contrastive"] = "none"
    pretrain_epochs: Annotated[int, Range(0)] = 100
    temperature: Positive = 0.1
    augment: bool = False
    freeze: bool = False

    images_only: ClassVar[bool] = True

    def imported_names(self) -> list[str]:
        """Return the names that ``fit`` imports: the factory of ``model``, or transformers.

        Transformers is such a name because it can load code that comes with a model.
        """
        if self.model == "resnet20":
            return []
        return [self.model] if IMPORT_PATH_PATTERN.fullmatch(self.model) else ["transformers"]

    def _make_module(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        check_image_shape(self, input_shape, 1, f"model={self.model!r}")
        if self.freeze and self.exposure is not None:
            raise ParameterError(
                "freeze must be false with an exposure, which trains the whole network, got True"
            )
        encoder, features = load_image_model(
            self.model,
            input_shape,
            weights=self.weights,
            image_size=self.image_size,
            options=self.model_options,
        )
        return EncoderModule(
            encoder, features, self.embedding_size, [int(units) for units in self.hidden], n_outputs
        )

    def _train(self, module, examples, validation, options, **train_options):
        """Pretrain the encoder if required, then train the module, or its trainable part."""
        assert isinstance(module, EncoderModule)
        if train_options.get("stage") == "exposure":  # which continues the training
            return super()._train(module, examples, validation, options, **train_options)
        # The checkpoint of the pretraining is kept until the training ends: a resumed fit loads the
        # pretrained encoder from it.
        checkpoint = train_options["checkpoint"]
        pretraining_checkpoint = checkpoint and checkpoint.for_stage("pretraining")
        self.pretraining_history_ = []
        if self.pretrain == "contrastive":
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
        trainable_part: nn.Module = module
        if self.freeze:
            frozen_part, trainable_part = _split_at_trainable(
                module, freeze_projection=self.pretrain == "contrastive"
            )
            examples = self._precompute_outputs(frozen_part, examples, options.device)
            validation = validation and self._precompute_outputs(
                frozen_part, validation, options.device
            )
        result = super()._train(trainable_part, examples, validation, options, **train_options)
        if pretraining_checkpoint:
            pretraining_checkpoint.remove()
        return result

    def _precompute_outputs(
        self, frozen_part: nn.Module, examples: Examples, device: str
    ) -> Examples:
        """Return the examples with the outputs of the frozen part as inputs."""
        frozen_part.to(device).eval()
        try:
            (outputs,) = map_batches(
                examples.inputs.numpy(),
                lambda batch: (frozen_part(batch),),
                input_shape=self.input_shape_,
                device=device,
                n_jobs=self.n_jobs,
            )
        finally:
            frozen_part.to("cpu")
        return replace(examples, inputs=torch.from_numpy(outputs))


def _split_at_trainable(
    module: EncoderModule, *, freeze_projection: bool
) -> tuple[nn.Module, nn.Module]:
    """Return the frozen part and the trainable part, which images pass in this order."""
    if freeze_projection:
        return nn.Sequential(module.encoder, module.embedding), module.head
    return module.encoder, nn.Sequential(module.embedding, module.head)
