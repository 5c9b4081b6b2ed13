"""The supervised contrastive loss (Khosla et al. 2020) and what a network is made of while it
trains with it.

An image model with a dense head (Dey et al., Section 5.2 and Appendix F).
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
from kdgraph.parents.networks.checkpoint import Checkpoint, ProgressCallback
from kdgraph.parents.networks.classifier import NetworkClassifier
from kdgraph.parents.networks.convolutional import check_image_shape, random_view
from kdgraph.parents.networks.image_models import IMPORT_PATH_PATTERN, load_image_model
from kdgraph.parents.networks.torch_state import map_batches
from kdgraph.parents.networks.training import Examples, TrainingOptions, TrainingResult, train


class SupervisedContrastiveLoss(nn.Module):
    """Rows of one class are pulled together on the unit sphere, and away from all others.

    Parameters
    ----------
    temperature : τ; 0.1 is what Khosla et al. found best.

    Notes
    -----
    L_sup_out, Eq. 2 of Khosla et al. (2020), for L2-normalised z, with A(i) all rows but i and P(i)
    those of them in i's class: L_i = -1/|P(i)| Σ_{p∈P(i)} log( exp(z_i·z_p/τ) / Σ_{a∈A(i)}
    exp(z_i·z_a/τ) ). The paper sums L_i over the batch; here it is the (weighted) mean over the
    anchors that have a positive, so that it does not grow with the batch.
    """

    def __init__(self, temperature: float = 0.1):
        super().__init__()
        self.temperature = temperature

    def forward(
        self, embeddings: Tensor, labels: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        """The mean loss of a batch; 0 if no row has another of its class.

        Parameters
        ----------
        embeddings : Float[n, m], or Float[n, v, m] for v views of each row, which are each other's
        positives.
        labels : Int[n].
        sample_weight : Float[n] or None, the weight of each row as an anchor.
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
        """Float[n]: L_i, 0 without positives; Float[n]: |P(i)|."""
        embeddings = functional.normalize(embeddings, dim=1)
        itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
        similarity = embeddings @ embeddings.T / self.temperature
        lowest = torch.finfo(
            similarity.dtype
        ).min  # not -inf: the gradient of a row that is alone in its batch must be 0, not NaN
        log_share = similarity - similarity.masked_fill(itself, lowest).logsumexp(
            dim=1, keepdim=True
        )
        positive = (labels[:, None] == labels[None, :]) & ~itself
        n_positives = positive.sum(dim=1)
        summed = torch.where(positive, log_share, 0.0).sum(dim=1)
        return -summed / n_positives.clamp(min=1), n_positives


class ContrastiveViews(nn.Module):
    """An encoder as it trains with :class:`SupervisedContrastiveLoss`: images in, the embeddings of
    one or two views of each out.

    Parameters
    ----------
    encoder : maps Float[n, c, h, w] to Float[n, m].
    augment : whether two random views of each image are made while training; else the image itself
        is its only view.
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


class EmbeddingLayer(nn.Module):
    """A linear projection of the features, or the features themselves.

    The features pass as one token each: :class:`kdgraph.geometry.ActivationPartition` takes for the
    dense head what comes after the last tensor of more than two axes, and neither this projection
    nor a pooling layer of the encoder belongs to it.
    """

    def __init__(self, features: int, size: int | None):
        super().__init__()
        self.projection = nn.Identity() if size is None else nn.Linear(features, size)

    def forward(self, features: Tensor) -> Tensor:
        """Float[n, features] → Float[n, size]."""
        return self.projection(features[:, None]).flatten(1)


class EncoderModule(nn.Module):
    """``head(embedding(encoder(images)))``; the embedding is what enters the head.

    Parameters
    ----------
    encoder : maps Float[n, c, h, w] to Float[n, features].
    features : their number.
    embedding_size : m, or None for the features themselves.
    hidden : units of the head's hidden layers.
    n_classes : K.
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
            for before, after in pairwise(widths)
            for layer in (nn.Linear(before, after), nn.ReLU())
        ]
        self.head = nn.Sequential(*layers, nn.Linear(widths[-1], n_classes))

    def forward(self, images: Tensor) -> Tensor:
        """Float[n, c, h, w] → logits Float[n, K]."""
        return self.head(self.embedding(self.encoder(images)))


@dataclass(eq=False, repr=False, kw_only=True)
class EncoderNetwork(NetworkClassifier):
    """Any image model, a projection to an embedding, and dense layers behind it.

    The default head is that of Dey et al., Appendix F: an embedding of 256 numbers, a dense layer
    of 200 units, the classes. They train the encoder with the contrastive loss first:
    ``pretrain="contrastive"``. ``transform(X, "embedding")`` gives what enters the head.

    Parameters
    ----------
    model : "resnet20", ours and untrained; "package.module:factory", which is called and gives a
        torch module from images to features, tokens or maps (the last two are averaged); or a
        folder or name that ``AutoModel`` of transformers loads, from the user's cache or else the
        network (``pip install 'kdgraph[encoders]'``): its pooled output, or the mean of its last
        tokens.
    model_options : keyword arguments of the factory or of ``AutoModel``.
    weights : "pretrained": those that come with the model (those that a factory gives, random ones
    for "resnet20"); "random": new ones.
    image_size : pixels to which images are resized, bilinearly; None: what the config of a model of
    transformers says, else as they are.
    embedding_size : m of the linear projection; None: none, and the features of the encoder are the
    embedding.
    hidden : units of each hidden layer of the head.
    pretrain : "contrastive": encoder and projection first learn with the supervised contrastive
    loss, with the same optimizer and batches.
    pretrain_epochs : of it; there is no early stopping.
    temperature : τ of that loss.
    augment : show it two random views of each image (shifted by up to 4 pixels, and mirrored in
    half of the cases) rather than the image.
    freeze : hold the encoder fixed while the rest learns, and the projection too if it was
        pretrained. What the fixed part puts out is computed once, and the rest learns from that.
    **others : those of :class:`NetworkClassifier`.

    Attributes
    ----------
    pretraining_history_ : as ``history_``, of the contrastive training; empty without one.

    Notes
    -----
    A grey image is repeated to the channels of the model. Models of transformers get images, in [0,
    1], normalised as their image processor says; what a factory gives must do that itself.

    References
    ----------
    Dey et al., Deep discriminative to kernel density graph for in- and out-of-distribution
    calibrated inference. Khosla et al., Supervised contrastive learning, NeurIPS 2020.
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
        """Return what ``fit`` imports by a name: the factory of ``model``, or transformers.

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

    def _train(
        self,
        module: nn.Module,
        examples: Examples,
        validation: Examples | None,
        options: TrainingOptions,
        *,
        seed: int,
        report: ProgressCallback,
        checkpoint: Checkpoint | None,
        **more: Any,
    ) -> TrainingResult:
        assert isinstance(module, EncoderModule)
        before = checkpoint.for_stage("pretraining") if checkpoint else None
        self.pretraining_history_ = []
        if self.pretrain == "contrastive":
            self.pretraining_history_ = self._pretrain_encoder(
                module, examples, options, seed, report, before
            ).history
        learns: nn.Module = module
        if self.freeze:
            fixed, learns = _split_at_trainable(
                module, freeze_projection=self.pretrain == "contrastive"
            )
            examples = self._precompute_outputs(fixed, examples, options.device)
            validation = validation and self._precompute_outputs(fixed, validation, options.device)
        trained = super()._train(
            learns,
            examples,
            validation,
            options,
            seed=seed,
            report=report,
            checkpoint=checkpoint,
            **more,
        )
        if before:
            before.remove()
        return trained

    def _tune(
        self,
        module: nn.Module,
        examples: Examples,
        validation: Examples | None,
        options: TrainingOptions,
        **more: Any,
    ) -> TrainingResult:
        return super()._train(module, examples, validation, options, **more)

    def _pretrain_encoder(
        self,
        module: EncoderModule,
        examples: Examples,
        options: TrainingOptions,
        seed: int,
        report: ProgressCallback,
        checkpoint: Checkpoint | None,
    ) -> TrainingResult:
        """Train encoder and projection in place."""
        return train(
            ContrastiveViews(nn.Sequential(module.encoder, module.embedding), self.augment),
            examples,
            SupervisedContrastiveLoss(self.temperature),
            replace(options, max_epochs=self.pretrain_epochs, patience=None),
            seed=seed,
            report=report,
            checkpoint=checkpoint,
            stage="pretraining",
        )

    def _precompute_outputs(
        self, frozen_part: nn.Module, examples: Examples, device: str
    ) -> Examples:
        """The examples as the fixed part of the module puts them out."""
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
    """The part that is fixed and the part that learns, in the order in which images pass through
    them.
    """
    if freeze_projection:
        return nn.Sequential(module.encoder, module.embedding), module.head
    return module.encoder, nn.Sequential(module.embedding, module.head)
