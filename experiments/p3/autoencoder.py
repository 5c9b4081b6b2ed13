"""Convolutional autoencoder of images, and classifiers of its latents.

Forests, which require vectors, are fitted to latents of images in TOOD (Section 5.1, Appendix C).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor, nn

from kdgraph.base.validation import check_single_precision
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, Positive, Range, check_parameters
from kdgraph.parents.networks.convolutional import check_image_shape
from kdgraph.parents.networks.network import Network
from kdgraph.parents.networks.torch_state import default_torch_state, map_batches, to_float32
from kdgraph.parents.networks.training import TrainingLoss

DownsamplingName = Literal["pooling", "stride"]
"""Method of a layer to make an image smaller.

"pooling" is a convolution followed by max pooling; "stride" is a strided convolution.
"""


class AutoencoderModule(nn.Module):
    """Module ``decoder(encoder(images))`` that reconstructs images.

    ``widths`` are the channels of the images, followed by the output channels of each of L layers,
    and ``strides``, Int[L], the factors by which they divide height and width. The decoder inverts
    the ``downsampling`` with transposed convolutions; those that invert pooling do not overlap.
    """

    def __init__(
        self, widths: Sequence[int], strides: Sequence[int], downsampling: DownsamplingName
    ):
        super().__init__()
        layers = list(zip(pairwise(widths), strides, strict=True))
        down = [
            layer
            for (n_inputs, n_outputs), step in layers
            for layer in _downsampling_layers(n_inputs, n_outputs, step, downsampling)
        ]
        up = [
            layer
            for (n_inputs, n_outputs), step in reversed(layers)
            for layer in (_upsampling_layers(n_outputs, n_inputs, step, downsampling), nn.ReLU())
        ]
        self.encoder = nn.Sequential(*down)
        self.decoder = nn.Sequential(*up[:-1], nn.Sigmoid())

    def forward(self, images: Tensor) -> Tensor:
        """Reconstruct images Float[n, c, h, w]; values are in [0, 1]."""
        return self.decoder(self.encoder(images))


def _downsampling_layers(
    n_inputs: int, n_outputs: int, step: int, downsampling: DownsamplingName
) -> list[nn.Module]:
    if downsampling == "stride":
        return [nn.Conv2d(n_inputs, n_outputs, 3, stride=step, padding=1), nn.ReLU()]
    pooling = [nn.MaxPool2d(step)] if step > 1 else []
    return [nn.Conv2d(n_inputs, n_outputs, 3, padding=1), nn.ReLU(), *pooling]


def _upsampling_layers(
    n_inputs: int, n_outputs: int, step: int, downsampling: DownsamplingName
) -> nn.Module:
    if downsampling == "stride":
        return nn.ConvTranspose2d(
            n_inputs, n_outputs, 3, stride=step, padding=1, output_padding=step - 1
        )
    return nn.ConvTranspose2d(n_inputs, n_outputs, step, stride=step)


class ReconstructionLoss(nn.Module):
    """Mean squared error over pixels and rows, weighted by row."""

    def forward(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Return the loss of images Float[n, c, h, w], twice, and weights Float[n], a scalar."""
        return (weights * (outputs - targets).square().flatten(1).mean(dim=1)).mean()


@dataclass(eq=False, repr=False, kw_only=True)
class ConvolutionalAutoencoder(Network):
    """Convolutional autoencoder as a transformer of images.

    ``transform`` returns the latents of images, ``inverse_transform`` the images of latents. It is
    used in front of estimators for vectors, as in ``Pipeline([("encoder",
    ConvolutionalAutoencoder()), ("classifier", forest)])``. It does not use labels. The defaults
    are the network of the paper on TOOD (tree-based OOD detection) for images of 1×28×28, whose
    latents are 4×7×7 = 196 numbers. ``channels=(16, 32, 64), strides=(1, 2, 2),
    downsampling="stride"`` is its network for 3×32×32, with 64×8×8 = 4,096 numbers.

    Parameters
    ----------
    channels : sequence of int, default=(16, 4)
        Output channels of each layer of the encoder, which are 3×3 convolutions with ReLU. The
        decoder has them in reverse order, and a sigmoid after the last one.
    strides : sequence of int, default=(2, 2)
        Factor by which each layer divides height and width. These must be multiples of the product
        of all factors.
    downsampling : {"pooling", "stride"}, default="pooling"
        See :data:`DownsamplingName`.
    learning_rate : float, default=1e-3
        Learning rate of the paper.
    max_epochs : int, default=30
        Number of epochs of the paper.
    patience : int or None, default=None
        The paper does not stop early, so all rows are training rows.
    unlabelled_epochs : int, default=0
        Number of epochs on each further set of images that ``fit`` gets, after those on the
        training rows. The paper has 30 for CIFAR-10 and CIFAR-100, after 3 on the training rows,
        and its further sets are those that are scored afterwards.

    Attributes
    ----------
    latent_shape_ : tuple of int
        Channels, height and width of the latents, which ``transform`` returns flattened.
    reconstruction_error_ : float or None
        Mean squared error per pixel of the training rows during the epoch whose weights were kept,
        before any further set; None if nothing was trained.

    Notes
    -----
    The numbers of channels and the kernels are missing in the text of the paper. The rest of its
    description (layers, pooling, strides, activations) fits these networks. The first one is that
    of a common tutorial; the channels of the second one are a guess.

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
    unlabelled_epochs: Annotated[int, Range(0)] = 0

    images_only: ClassVar[bool] = True
    learns_from_labels: ClassVar[bool] = False
    """True if ``fit`` uses y; otherwise one fit serves all labels of the same rows."""

    def _make_module(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        """Return a new autoencoder, or the one that is trained further."""
        initial = getattr(self, "_initial_module", None)
        if initial is not None:
            return initial
        channels, strides = [int(c) for c in self.channels], [int(s) for s in self.strides]
        check_image_shape(self, input_shape, math.prod(strides), f"strides={tuple(strides)}")
        if any(side % math.prod(strides) for side in input_shape[1:]):
            raise ValueError(
                f"{type(self).__name__} needs images whose height and width are multiples of"
                f" {math.prod(strides)}, the product of strides={tuple(strides)}, got"
                f" {input_shape[1]}×{input_shape[2]}"
            )
        return AutoencoderModule([input_shape[0], *channels], strides, self.downsampling)

    def _loss(self) -> TrainingLoss:
        return ReconstructionLoss()

    def fit(self, X, y=None, X_unlabelled=()):
        """Train a new module to reconstruct the images, and then those of each further set.

        Images are Float[n, c, h, w] in [0, 1], and labels are not used. On each set of
        ``X_unlabelled``, Float[m, c, h, w], the module is trained for ``unlabelled_epochs``, one
        set after the other. Rows of these sets are no longer unseen. ParameterError is raised if
        channels and strides differ in number, or if there are further sets and
        ``unlabelled_epochs`` is 0, and ValueError for vectors, images whose size the strides do not
        divide, and values outside [0, 1].
        """
        check_parameters(self)
        if not len(self.channels) == len(self.strides) > 0:
            raise ParameterError(
                "channels and strides must have the same number of entries, one for each layer, got"
                f" {list(self.channels)} and {list(self.strides)}"
            )
        if len(X_unlabelled) and not self.unlabelled_epochs:
            raise ParameterError(
                "unlabelled_epochs must be at least 1 to train on further sets, got 0"
            )
        # Report a missing device before the images are validated.
        self._device()
        X = validate_data(self, X, dtype=[np.float64, np.float32], allow_nd=True)
        check_single_precision(X, type(self).__name__)
        if X.ndim == 4 and (X.min() < 0 or X.max() > 1):
            raise ValueError(
                f"{type(self).__name__} needs images in [0, 1], got {X.min():g} to {X.max():g};"
                " divide by the largest intensity"
            )
        self._fit_images(X)
        with default_torch_state(), torch.no_grad():
            self.latent_shape_ = tuple(
                self._autoencoder_module()
                .encoder(torch.zeros(1, *self.input_shape_).to(self._device()))
                .shape[1:]
            )
        self.reconstruction_error_ = (
            self.history_[self.best_epoch_ - 1]["loss"] if self.history_ else None
        )
        for images in X_unlabelled:
            self._train_further(images)
        return self

    def _fit_images(self, X: np.ndarray) -> None:
        self._fit_arrays(X, to_float32(X), np.ones(len(X)), math.prod(X.shape[1:]))

    def _train_further(self, images: Any) -> None:
        """Train the fitted module on a further set, from its weights and with a new optimiser."""
        images = self._validate_X(images)
        # Noise may leave [0, 1], which no output of the decoder can; its latents are trained too.
        images = np.clip(images, 0, 1)
        other = copy.copy(self)
        other.max_epochs, other.checkpoint = self.unlabelled_epochs, None
        other._initial_module = self._autoencoder_module()
        other._fit_images(images)
        self.module_ = other.module_
        self.history_ = [*self.history_, *other.history_]
        self.n_epochs_ = len(self.history_)

    def transform(self, X, layer: str | None = None) -> np.ndarray:
        """Return the latents of images, or the outputs of another layer, Float32[n, m]."""
        if layer is not None:
            return super().transform(X, layer)
        X, encoder = self._validate_X(X), self._autoencoder_module().encoder
        (latents,) = self._map_batches(X, lambda batch: (encoder(batch).flatten(1),))
        return latents

    def inverse_transform(self, Z) -> np.ndarray:
        """Return the images, Float32[n, c, h, w], of latents Float[n, m], with values in [0, 1].

        Rows of another size raise ValueError.
        """
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
        module = self._module_on_device()
        assert isinstance(module, AutoencoderModule)
        return module

    def describe(self) -> dict[str, Any]:
        """Return a summary of the training for the record, with the reconstruction error."""
        return super().describe() | {"reconstruction_error": self.reconstruction_error_}


class LatentClassifier(Pipeline):
    """Pipeline of a transformer and a classifier, both of which are parameters.

    A config can thus describe both. The estimator can be used wherever a pipeline of scikit-learn
    can: its polytopes, leaves and distances are those of the classifier, in the latent space.

    Parameters
    ----------
    encoder : transformer
        Such as :class:`ConvolutionalAutoencoder`.
    classifier : classifier
        Classifier of vectors, the outputs of the transformer.

    Notes
    -----
    Rows have the shape that ``encoder`` takes, which is not included in the tags of scikit-learn's
    own pipelines.

    Examples
    --------
    >>> from sklearn.ensemble import ExtraTreesClassifier
    >>> images = np.random.default_rng(0).random((20, 1, 8, 8), dtype=np.float32)
    >>> y = np.arange(20) % 2
    >>> encoder = ConvolutionalAutoencoder(max_epochs=1, device="cpu", random_state=0)
    >>> model = LatentClassifier(encoder, ExtraTreesClassifier(10, random_state=0))
    >>> model.fit(images, y).score(images, y)
    1.0
    """

    def __init__(self, encoder: Any, classifier: Any) -> None:
        super().__init__([("encoder", encoder), ("classifier", classifier)])

    def fit(self, X, y=None, *, X_unlabelled=(), **params):
        """Fit both steps to rows that the encoder takes, and their labels.

        The encoder is trained on ``X_unlabelled`` too, further sets of rows like X, such as those
        that are predicted afterwards; see
        :class:`ConvolutionalAutoencoder`. ``params`` are parameters of
        the ``fit`` of the steps, as for scikit-learn's pipelines.
        """
        if len(X_unlabelled):
            params["encoder__X_unlabelled"] = X_unlabelled
        return super().fit(X, y, **params)

    @property
    def paper_protocol(self) -> str | None:
        """State "unlabelled" if the encoder is trained on the rows to predict, as in TOOD."""
        return "unlabelled" if getattr(self.encoder, "unlabelled_epochs", 0) else None

    @property
    def encoder(self) -> Any:
        """The first step."""
        return self.steps[0][1]

    @property
    def classifier(self) -> Any:
        """The last step."""
        return self.steps[-1][1]

    def _validate_names(self, names: Any) -> None:
        """Allow steps with the names of parameters, which scikit-learn refuses.

        A step could hide a parameter there. Here they are the same objects.
        """

    def __getitem__(self, ind: Any) -> Any:
        return Pipeline(self.steps[ind]) if isinstance(ind, slice) else super().__getitem__(ind)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.encoder).input_tags
        return tags
