"""A convolutional autoencoder: images as few numbers, for what takes vectors, as in TOOD (Section
5.1 and Appendix C) for a forest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor, nn

from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, Positive, Range, check_parameters
from kdgraph.parents.networks.convolutional import check_image_shape
from kdgraph.parents.networks.network import Network
from kdgraph.parents.networks.torch_state import default_torch_state, map_batches, to_float32
from kdgraph.parents.networks.training import TrainingLoss

DownsamplingName = Literal["pooling", "stride"]
"""How a layer makes an image smaller: a convolution and then max pooling, or a convolution that
takes steps.
"""


class AutoencoderModule(nn.Module):
    """``decoder(encoder(images))``, images again.

    Parameters
    ----------
    widths : channels of the images, and those that each of L layers puts out.
    strides : by how much each layer divides height and width, Int[L].
    downsampling : see :data:`DownsamplingName`; the decoder undoes it with transposed convolutions, that of
        pooling without overlap.
    """

    def __init__(
        self, widths: Sequence[int], strides: Sequence[int], downsampling: DownsamplingName
    ):
        super().__init__()
        layers = list(zip(pairwise(widths), strides, strict=True))
        down = [
            part
            for (before, after), step in layers
            for part in _downsampling_layers(before, after, step, downsampling)
        ]
        up = [
            part
            for (before, after), step in reversed(layers)
            for part in (_upsampling_layers(after, before, step, downsampling), nn.ReLU())
        ]
        self.encoder = nn.Sequential(*down)
        self.decoder = nn.Sequential(*up[:-1], nn.Sigmoid())

    def forward(self, images: Tensor) -> Tensor:
        """Float[n, c, h, w] → Float[n, c, h, w] in [0, 1]."""
        return self.decoder(self.encoder(images))


def _downsampling_layers(
    before: int, after: int, step: int, downsampling: DownsamplingName
) -> list[nn.Module]:
    if downsampling == "stride":
        return [nn.Conv2d(before, after, 3, stride=step, padding=1), nn.ReLU()]
    pooled = [nn.MaxPool2d(step)] if step > 1 else []
    return [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), *pooled]


def _upsampling_layers(
    before: int, after: int, step: int, downsampling: DownsamplingName
) -> nn.Module:
    if downsampling == "stride":
        return nn.ConvTranspose2d(before, after, 3, stride=step, padding=1, output_padding=step - 1)
    return nn.ConvTranspose2d(before, after, step, stride=step)


class ReconstructionLoss(nn.Module):
    """Mean squared error over pixels and rows, of rows by their weights."""

    def forward(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Images Float[n, c, h, w] twice, and Float[n] → Float[]."""
        return (weights * (outputs - targets).square().flatten(1).mean(dim=1)).mean()


@dataclass(eq=False, repr=False, kw_only=True)
class ConvolutionalAutoencoder(Network):
    """An autoencoder as a transformer: ``transform`` gives the latents of images,
    ``inverse_transform`` images of latents.

    It stands in front of what takes vectors, as in ``Pipeline([("encoder",
    ConvolutionalAutoencoder()), ("classifier", forest)])``. It sees no label. The defaults are the
    net of the tree-based detector's paper for images of 1×28×28, whose latents are 4×7×7 = 196
    numbers; ``channels=(16, 32, 64), strides=(1, 2, 2), downsampling="stride"`` is that for 3×32×32, with
    64×8×8 = 4,096.

    Parameters
    ----------
    channels : that each layer of the encoder puts out, of convolutions of 3×3 with ReLU; the
        decoder has them in reverse, and a sigmoid after the last one.
    strides : by how much each layer divides height and width, which must be multiples of their
    product.
    downsampling : see :data:`DownsamplingName`.
    learning_rate, max_epochs, patience : of the paper, which does not stop early; so every row is
    learnt from.
    **others : those of :class:`Network`.

    Attributes
    ----------
    latent_shape_ : channels, height and width of the latents, which ``transform`` gives flat.
    reconstruction_error_ : mean squared error per pixel of the training rows during the epoch whose
        weights were kept; None if none was trained.

    Notes
    -----
    The paper's text has lost its numbers of channels and its kernels. What is left of its
    description (layers, pooling, strides, what is activated how) fits these nets, the first of them
    a common tutorial's; the channels of the second are a guess.

    References
    ----------
    Tree-based Ensemble Learning for Out-of-distribution Detection (TOOD), Appendix C.1.

    Examples
    --------
    >>> images = np.random.default_rng(0).random((20, 1, 8, 8), dtype=np.float32)
    >>> encoder = ConvolutionalAutoencoder(max_epochs=1, device="cpu", random_state=0).fit(images)
    >>> latents = encoder.transform(images)
    >>> latents.shape, encoder.latent_shape_, encoder.inverse_transform(latents).shape
    ((20, 16), (4, 2, 2), (20, 1, 8, 8))
    """

    channels: Sequence[Count] = (16, 4)
    strides: Sequence[Count] = (2, 2)
    downsampling: DownsamplingName = "pooling"
    learning_rate: Positive = 1e-3
    max_epochs: Annotated[int, Range(0)] = 30
    patience: Count | None = None

    images_only: ClassVar[bool] = True
    learns_from_labels: ClassVar[bool] = False
    """Whether ``fit`` looks at y; who trains the same rows again with other labels can leave it as
    it is.
    """

    def _make_module(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        channels, strides = [int(c) for c in self.channels], [int(s) for s in self.strides]
        check_image_shape(self, input_shape, math.prod(strides), f"strides={tuple(strides)}")
        if any(side % math.prod(strides) for side in input_shape[1:]):
            rule = (
                f"images whose height and width are multiples of {math.prod(strides)}, the product"
                f" of strides={tuple(strides)}"
            )
            raise ValueError(
                f"{type(self).__name__} needs {rule}, got {input_shape[1]}×{input_shape[2]}"
            )
        return AutoencoderModule([input_shape[0], *channels], strides, self.downsampling)

    def _loss(self) -> TrainingLoss:
        return ReconstructionLoss()

    def fit(self, X, y=None):
        """Train a new module to give the images back.

        Parameters
        ----------
        X : Float[n, c, h, w] in [0, 1].
        y : ignored.

        Raises
        ------
        ParameterError : for a parameter outside its range, and channels and strides that are not as
        many.
        ValueError : for vectors, for images whose size the strides do not divide, or beyond [0, 1];
            for NaN or infinity, for a device that is not there, for a training that diverges.
        """
        check_parameters(self)
        if not len(self.channels) == len(self.strides) > 0:
            rule = "channels and strides must be as many, one of each for a layer"
            raise ParameterError(f"{rule}, got {list(self.channels)} and {list(self.strides)}")
        self._device()  # one that is not there is told before the rows are looked at
        X = validate_data(self, X, dtype=[np.float64, np.float32], allow_nd=True)
        if X.ndim == 4 and (X.min() < 0 or X.max() > 1):
            raise ValueError(
                f"{type(self).__name__} needs images in [0, 1], got {X.min():g} to {X.max():g};"
                " divide by the largest intensity"
            )
        self._fit_arrays(X, to_float32(X), np.ones(len(X)), math.prod(X.shape[1:]))
        with default_torch_state(), torch.no_grad():
            self.latent_shape_ = tuple(
                self._autoencoder_module()
                .encoder(torch.zeros(1, *self.input_shape_).to(self._device()))
                .shape[1:]
            )
        self.reconstruction_error_ = (
            self.history_[self.best_epoch_ - 1]["loss"] if self.history_ else None
        )
        return self

    def transform(self, X, layer: str | None = None) -> np.ndarray:
        """Float32[n, m]: the latents of images X, Float[n, c, h, w]; or what another layer puts
        out, one of ``layer_names_``, flattened.
        """
        if layer is not None:
            return super().transform(X, layer)
        X, encoder = self._validate_X(X), self._autoencoder_module().encoder
        (latents,) = self._map_batches(X, lambda batch: (encoder(batch).flatten(1),))
        return latents

    def inverse_transform(self, Z) -> np.ndarray:
        """Float32[n, c, h, w] in [0, 1]: images of latents Z, Float[n, m]."""
        check_is_fitted(self)
        Z, size = check_array(Z, dtype=[np.float64, np.float32]), math.prod(self.latent_shape_)
        if Z.shape[1] != size:
            raise ValueError(f"a row of latents has {size} numbers, got {Z.shape[1]}")
        decoder, shape = self._autoencoder_module().decoder, self.latent_shape_
        (images,) = map_batches(
            Z,
            lambda batch: (decoder(batch.unflatten(1, shape)),),
            input_shape=(size,),
            device=self._device(),
            n_jobs=self.n_jobs,
        )
        return images

    def _autoencoder_module(self) -> AutoencoderModule:
        """The module on the device."""
        module = self._module_on_device()
        assert isinstance(module, AutoencoderModule)
        return module

    def describe(self) -> dict[str, Any]:
        """What training came to, for the record; with the reconstruction error."""
        return super().describe() | {"reconstruction_error": self.reconstruction_error_}
