"""Random views of images: the crop and the flip with which He et al. (2016, Section 4.2) train on
CIFAR.

Small convolutional networks.

Residual networks for small images (He et al. 2016, Section 4.2).
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
    """Each image shifted by up to ``padding`` pixels each way, zeros moving in, and mirrored left
    to right in half of the cases.

    Parameters
    ----------
    images : Float[n, c, h, w].
    padding : pixels of zeros on each side from which a crop of the old size is taken.
    generator : on the CPU, whatever the device of the images, so that a seed gives the same views
        everywhere; None: torch's own.

    Returns
    -------
    Float[n, c, h, w].
    """
    n, channels, height, width = images.shape
    shift = torch.randint(0, 2 * padding + 1, (2, n, 1), generator=generator)
    mirrored = torch.rand(n, 1, generator=generator) < 0.5
    rows = shift[0] + torch.arange(height)
    columns = shift[1] + torch.where(mirrored, torch.arange(width - 1, -1, -1), torch.arange(width))
    rows, columns = (
        rows[:, None, :, None].to(images.device),
        columns[:, None, None, :].to(images.device),
    )
    each, channel = (
        torch.arange(n, device=images.device),
        torch.arange(channels, device=images.device),
    )
    return functional.pad(images, (padding,) * 4)[
        each[:, None, None, None], channel[None, :, None, None], rows, columns
    ]


class RandomView(nn.Module):
    """:func:`random_view` while training, nothing else afterwards."""

    def __init__(self, padding: int = 4):
        super().__init__()
        self.padding = padding

    def forward(self, images: Tensor) -> Tensor:
        """Float[n, c, h, w] → Float[n, c, h, w]."""
        return random_view(images, self.padding) if self.training else images


_MIN_IMAGE_SIDES = {"simple": 3, "lenet": 12}
"""Height and width that leave the last convolution a pixel: 3 - 2 = 1, and (12 / 2 - 4) / 2 = 1."""


@dataclass(eq=False, repr=False, kw_only=True)
class ConvolutionalNetwork(NetworkClassifier):
    """A small convolutional network with ReLU, for images Float[n, channels, height, width].

    Parameters
    ----------
    architecture : "simple", 3 filters of 3×3, a dense layer of 10 and the logits (Dey et al.,
        Section 5.2.1); "lenet", LeNet-5 of LeCun et al. with max pooling: 6 and 16 filters of 5×5,
        dense layers of 120 and 84.
    learning_rate, max_epochs : larger and fewer than the multilayer perceptron's: at 3e-4, circles
        and rectangles of 100×100 pixels took more than ten minutes on one core, and where classes
        can be told apart without error the validation loss never stops falling.
    **others : those of :class:`NetworkClassifier`.

    Notes
    -----
    Weights start as Glorot and Bengio's uniform ones and biases at 0, Keras' way and so that of Dey
    et al. With torch's own start, 6 of 24 small networks never learnt to tell a circle from a
    rectangle (2,000 images, 8 epochs); with this one all 24 did.

    References
    ----------
    Dey et al., Deep discriminative to kernel density graph for in- and out-of-distribution
    calibrated inference.

    LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document recognition,
    Proceedings of the IEEE 86, 1998.
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
        layers = (
            _simple_layers(input_shape[0])
            if self.architecture == "simple"
            else _lenet_layers(input_shape[0])
        )
        body = nn.Sequential(*layers, nn.Flatten())
        with torch.no_grad():
            width = body(torch.zeros(1, *input_shape)).shape[1]
        for after in (10,) if self.architecture == "simple" else (120, 84):
            body.extend([nn.Linear(width, after), nn.ReLU()])
            width = after
        return body.append(nn.Linear(width, n_outputs)).apply(_init_glorot)


def check_image_shape(
    estimator: Network, shape: tuple[int, ...], min_side: int, setting: str
) -> None:
    """Raise ValueError unless one row is an image (channels, height, width) of at least
    ``min_side`` × ``min_side`` pixels. Ours.
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
    if isinstance(layer, nn.Conv2d | nn.Linear):
        nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(cast("Tensor", layer.bias))


def _simple_layers(channels: int) -> list[nn.Module]:
    return [nn.Conv2d(channels, 3, 3), nn.ReLU()]


def _lenet_layers(channels: int) -> list[nn.Module]:
    first = [nn.Conv2d(channels, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    return [*first, nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)]


_MIN_RESIDUAL_IMAGE_SIDE = 8
"""Height and width of which the last stage still has 2×2 pixels."""


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and a shortcut without parameters around them (option A of He et al.).

    Every nonlinearity is a module of its own, so that hooks see each of them.

    Parameters
    ----------
    channels, filters : of what goes in and what comes out.
    stride : of the first convolution; the shortcut takes every ``stride``-th pixel and fills new
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
        """Float[n, channels, h, w] → Float[n, filters, ⌈h/stride⌉, ⌈w/stride⌉]."""
        residual = self.norm2(self.convolution2(self.relu1(self.norm1(self.convolution1(x)))))
        shortcut = functional.pad(
            x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.new_channels)
        )
        return self.relu2(residual + shortcut)


def conv3x3(channels: int, filters: int, stride: int = 1) -> nn.Conv2d:
    """A 3×3 convolution that keeps the size (for stride 1), without a bias: batch norm has one.
    Weights as He et al. (2015) draw them.
    """
    layer = nn.Conv2d(channels, filters, kernel_size=3, stride=stride, padding=1, bias=False)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    return layer


def residual_layers(channels: int, depth: int = 20, width: int = 16) -> OrderedDict[str, nn.Module]:
    """The layers up to the global average: 3×3 convolution, three stages of ``(depth - 2) / 6``
    blocks, the mean over pixels.

    They map Float[n, channels, h, w], of any size, to Float[n, 4·width].

    Raises
    ------
    ParameterError : (a ValueError) for a depth that is not 6n+2.
    """
    blocks, rest = divmod(depth - 2, 6)
    if rest or blocks < 1:
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
    """ResNet-20 and its deeper sisters for small images (He et al. 2016, Section 4.2), 0.27 M
    parameters for 10 classes.

    Defaults of the training are theirs (momentum 0.9, batches of 128, 64,000 steps on 50,000
    images), but for the learning rate, which falls along a cosine instead of in two steps.
    ``patience`` is off: with a falling rate the best epochs are the last ones.

    Parameters
    ----------
    depth : 6n+2 layers with weights: 20, 32, 44, 56, 110.
    width : filters of the first stage; the others have two and four times as many.
    augment : train on random crops of the images (4 pixels of zeros around them) and mirror half of
    them, as He et al. did.
    **others : those of :class:`NetworkClassifier`.

    References
    ----------
    He, Zhang, Ren, Sun, Deep residual learning for image recognition, CVPR 2016.
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
