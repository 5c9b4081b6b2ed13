"""Convolutional classifiers for images.

:class:`ConvolutionalNetwork` is a small network, :class:`ResidualNetwork` a residual network for
small images (He et al. 2016, Section 4.2). :func:`random_view` is the augmentation, a crop and a
flip, with which He et al. train on CIFAR.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, NonNegative, Positive, Range
from kdgraph.parents.networks.classifier import NetworkClassifier
from kdgraph.parents.networks.network import Network


def random_view(
    images: Tensor, padding: int = 4, generator: torch.Generator | None = None
) -> Tensor:
    """Shift each image, Float[n, c, h, w], at random, and mirror it with probability 1/2.

    Shifts are up to ``padding`` pixels in each direction, with zeros at the border. The generator
    is on the CPU for any device of the images, so that a seed gives the same views on all devices;
    None: the generator of torch.
    """
    n, channels, height, width = images.shape
    shift = torch.randint(0, 2 * padding + 1, (2, n, 1), generator=generator)
    mirrored = torch.rand(n, 1, generator=generator) < 0.5
    rows = shift[0] + torch.arange(height)
    columns = shift[1] + torch.where(mirrored, torch.arange(width - 1, -1, -1), torch.arange(width))
    # One gather with broadcast indices [n, c, h, w] makes all crops and flips at once.
    rows = rows[:, None, :, None].to(images.device)
    columns = columns[:, None, None, :].to(images.device)
    image_ids = torch.arange(n, device=images.device)
    channel_ids = torch.arange(channels, device=images.device)
    return functional.pad(images, (padding,) * 4)[
        image_ids[:, None, None, None], channel_ids[None, :, None, None], rows, columns
    ]


class RandomView(nn.Module):
    """Layer that applies :func:`random_view` in training, and nothing in inference."""

    def __init__(self, padding: int = 4):
        super().__init__()
        self.padding = padding

    def forward(self, images: Tensor) -> Tensor:
        """Return views of images Float[n, c, h, w], of the same shape."""
        return random_view(images, self.padding) if self.training else images


# Smallest height and width: the last convolution then has one pixel. 3 - 2 = 1 for "simple", and
# (12 / 2 - 4) / 2 = 1 for "lenet".
_MIN_IMAGE_SIDES = {"simple": 3, "lenet": 12}


@dataclass(eq=False, repr=False, kw_only=True)
class ConvolutionalNetwork(NetworkClassifier):
    """Small convolutional network with ReLU, for images Float[n, channels, height, width].

    Parameters
    ----------
    architecture : {"simple", "lenet"}, default="simple"
        "simple" has 3 filters of 3×3, a dense layer of 10 and the logits (Dey et al., Section
        5.2.1). "lenet" is LeNet-5 of LeCun et al. with max pooling: 6 and 16 filters of 5×5, dense
        layers of 120 and 84.
    learning_rate : float, default=1e-3
        Learning rate, larger than that of the multilayer perceptron. With 3e-4, circles and
        rectangles of 100×100 pixels took more than ten minutes on one core.
    max_epochs : int, default=20
        Largest number of epochs, smaller than that of the multilayer perceptron: where classes can
        be separated without error, the validation loss never stops falling.

    Notes
    -----
    Initial weights are uniform as of Glorot and Bengio, and biases 0. This is the default of Keras,
    and so that of Dey et al. With the initial weights of torch, 6 of 24 small networks never
    learned to separate circles from rectangles (2,000 images, 8 epochs); with these all 24 did.

    References
    ----------
    Dey et al., Deep discriminative to kernel density graph for in- and out-of-distribution
    calibrated inference.

    LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document recognition,
    Proceedings of the IEEE 86, 1998.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> images, y = rng.random((20, 1, 8, 8), dtype=np.float32), np.arange(20) % 2
    >>> network = ConvolutionalNetwork(max_epochs=1, device="cpu", random_state=0)
    >>> network.fit(images, y).predict_proba(images).shape
    (20, 2)
    """

    architecture: Literal["simple", "lenet"] = "simple"
    learning_rate: Positive = 1e-3
    max_epochs: Annotated[int, Range(0)] = 20

    images_only: ClassVar[bool] = True

    def _make_module(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        check_image_shape(
            self,
            input_shape,
            _MIN_IMAGE_SIDES[self.architecture],
            f"architecture={self.architecture!r}",
        )
        channels, is_simple = input_shape[0], self.architecture == "simple"
        if is_simple:
            body = nn.Sequential(nn.Conv2d(channels, 3, 3), nn.ReLU())
        else:
            first = nn.Conv2d(channels, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)
            body = nn.Sequential(*first, nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2))
        body.append(nn.Flatten())
        with torch.no_grad():
            width = body(torch.zeros(1, *input_shape)).shape[1]
        for n_units in (10,) if is_simple else (120, 84):
            body.extend([nn.Linear(width, n_units), nn.ReLU()])
            width = n_units
        return body.append(nn.Linear(width, n_outputs)).apply(_init_glorot)


def check_image_shape(
    estimator: Network, shape: tuple[int, ...], min_side: int, setting: str
) -> None:
    """Raise ValueError unless one row is an image of a minimal size.

    The message names the estimator, and the ``setting``, a parameter and its value, that requires
    it. Original to kdgraph.
    """
    name = type(estimator).__name__
    if len(shape) != 3:
        raise ValueError(
            f"{name} needs images, X of shape (n, channels, height, width), got rows of shape"
            f" {shape}; reshape X"
        )
    if min(shape[1:]) < min_side:
        raise ValueError(
            f"{name} with {setting} needs images of at least {min_side}×{min_side} pixels, got"
            f" {shape[1]}×{shape[2]}"
        )


def _init_glorot(layer: nn.Module) -> None:
    """Initialise weights uniformly as of Glorot and Bengio, and biases with 0."""
    if isinstance(layer, nn.Conv2d | nn.Linear):
        nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(cast("Tensor", layer.bias))


# Smallest height and width; the last stage then has 2×2 pixels.
_MIN_RESIDUAL_IMAGE_SIDE = 8


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and a shortcut without parameters (option A of He et al. 2016).

    Every nonlinearity is a separate module, so that hooks can record each of them. The stride is
    that of the first convolution. The shortcut takes every ``stride``-th pixel and fills new
    channels with zeros.
    """

    def __init__(self, channels: int, filters: int, stride: int = 1):
        super().__init__()
        self.stride, self.new_channels = stride, filters - channels
        self.convolution1 = conv3x3(channels, filters, stride)
        self.norm1 = nn.BatchNorm2d(filters)
        self.relu1 = nn.ReLU()
        self.convolution2 = conv3x3(filters, filters)
        self.norm2 = nn.BatchNorm2d(filters)
        self.relu2 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Map Float[n, channels, h, w] to Float[n, filters, ⌈h/stride⌉, ⌈w/stride⌉]."""
        residual = self.norm2(self.convolution2(self.relu1(self.norm1(self.convolution1(x)))))
        shortcut = functional.pad(
            x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.new_channels)
        )
        return self.relu2(residual + shortcut)


def conv3x3(channels: int, filters: int, stride: int = 1) -> nn.Conv2d:
    """Return a 3×3 convolution without bias, which keeps the size for stride 1.

    The bias is left to batch normalisation. Initial weights are those of He et al. (2015).
    """
    layer = nn.Conv2d(channels, filters, kernel_size=3, stride=stride, padding=1, bias=False)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    return layer


def residual_layers(channels: int, depth: int = 20, width: int = 16) -> OrderedDict[str, nn.Module]:
    """Return the layers of a residual network up to the global average.

    These are a 3×3 convolution, three stages of ``(depth - 2) / 6`` blocks, and the mean over
    pixels. They map Float[n, channels, h, w], of any size, to Float[n, 4·width], where ``width`` is
    the number of filters of the first stage. A depth, the number of layers with weights, that is
    not 6n+2 raises ParameterError.
    """
    blocks, remainder = divmod(depth - 2, 6)
    if remainder or blocks < 1:
        raise ParameterError(
            f"depth must be 6n+2 for n from 1 (8, 14, 20, 32, 44, 56, 110), got {depth}"
        )
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        convolution=conv3x3(channels, width), norm=nn.BatchNorm2d(width), relu=nn.ReLU()
    )
    for stage in range(3):
        filters = width * 2**stage
        first = BasicBlock(filters // 2, filters, stride=2) if stage else BasicBlock(width, width)
        layers[f"stage{stage + 1}"] = nn.Sequential(
            first, *(BasicBlock(filters, filters) for _ in range(blocks - 1))
        )
    layers["mean"] = nn.AdaptiveAvgPool2d(1)
    layers["flatten"] = nn.Flatten()
    return layers


@dataclass(eq=False, repr=False, kw_only=True)
class ResidualNetwork(NetworkClassifier):
    """Residual network for small images, ResNet-20 by default (He et al. 2016, Section 4.2).

    It has 0.27 M parameters for 10 classes. The training defaults are those of the paper (momentum
    0.9, batches of 128, 64,000 steps on 50,000 images), except for the learning rate, which falls
    along a cosine instead of in two steps. ``patience`` is off: with a falling rate the best epochs
    are the last ones.

    Parameters
    ----------
    depth : int, default=20
        Number of layers with weights, 6n+2: 20, 32, 44, 56, 110.
    width : int, default=16
        Filters of the first stage; the others have two and four times as many.
    augment : bool, default=False
        Train on random crops of the images (with 4 pixels of zeros around them) and mirror half of
        them, as He et al. do.
    optimizer, learning_rate, weight_decay, schedule, batch_size, max_epochs, patience : optional
        As in :class:`Network`; the defaults are those above.

    References
    ----------
    He, Zhang, Ren, Sun, Deep residual learning for image recognition, CVPR 2016.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> images, y = rng.random((20, 1, 8, 8), dtype=np.float32), np.arange(20) % 2
    >>> network = ResidualNetwork(depth=8, width=2, max_epochs=1, device="cpu", random_state=0)
    >>> network.fit(images, y).predict_proba(images).shape
    (20, 2)
    """

    depth: Count = 20
    width: Count = 16
    augment: bool = False
    optimizer: Literal["adam", "sgd"] = "sgd"
    learning_rate: Positive = 0.1
    weight_decay: NonNegative = 1e-4
    schedule: Literal["constant", "cosine"] = "cosine"
    batch_size: Count = 128
    max_epochs: Annotated[int, Range(0)] = 164
    patience: Count | None = None

    images_only: ClassVar[bool] = True

    def _make_module(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        check_image_shape(self, input_shape, _MIN_RESIDUAL_IMAGE_SIDE, f"depth={self.depth}")
        if self.batch_size == 1:
            raise ParameterError(
                "batch_size must be at least 2, since batches are normalised, got 1"
            )
        layers = residual_layers(input_shape[0], self.depth, self.width)
        if self.augment:
            layers["view"] = RandomView()
            layers.move_to_end("view", last=False)
        layers["classes"] = nn.Linear(4 * self.width, n_outputs)
        return nn.Sequential(layers)
