"""Image encoders with a dense head.

The network is that of Dey et al. (2024), Section 5.2 and Appendix F: an image model, a projection
to an embedding, and dense layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from kdgraph.errors import ParameterError
from kdgraph.parameters import Count
from kdgraph.parents.networks.classifier import NetworkClassifier
from kdgraph.parents.networks.convolutional import check_image_shape
from kdgraph.parents.networks.image_models import IMPORT_PATH_PATTERN, load_image_model
from kdgraph.parents.networks.torch_state import map_batches
from kdgraph.parents.networks.training import Examples


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
    of 200 units, the logits. ``transform(X, "embedding")`` returns the input of the head.

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
    freeze : bool, default=False
        Keep the encoder fixed while the rest is trained. Its outputs are computed once.

    Notes
    -----
    A grey image is repeated for the channels of the model. Models of transformers receive images,
    in [0, 1], normalised as their image processor specifies; the module of a factory must normalise
    images itself.

    References
    ----------
    Dey et al., Deep discriminative to kernel density graph for in- and out-of-distribution
    calibrated inference.

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
        """Train the module; with ``freeze``, its trainable part on the outputs of the other."""
        assert isinstance(module, EncoderModule)
        if self.freeze:
            frozen_part, module = self._frozen_and_trainable(module)
            examples = self._precompute_outputs(frozen_part, examples, options.device)
            validation = validation and self._precompute_outputs(
                frozen_part, validation, options.device
            )
        return super()._train(module, examples, validation, options, **train_options)

    def _frozen_and_trainable(self, module: EncoderModule) -> tuple[nn.Module, nn.Module]:
        """Return the parts of the module with ``freeze``, which images pass in this order."""
        return module.encoder, nn.Sequential(module.embedding, module.head)

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
