"""Residual networks for small images (He et al. 2016, Section 4.2)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from torch import Tensor, nn
from torch.nn import functional

from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, NonNegative, Positive, Range
from kdgraph.parents.networks.augmentation import RandomView
from kdgraph.parents.networks.classifier import NetworkClassifier
from kdgraph.parents.networks.convolutional import check_image_shape

_SMALLEST = 8
"""Height and width of which the last stage still has 2×2 pixels."""


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and a shortcut without parameters around them (option A of He et al.).

    Every nonlinearity is a module of its own, so that hooks see each of them.

    Parameters
    ----------
    channels, filters : of what goes in and what comes out.
    stride : of the first convolution; the shortcut takes every ``stride``-th pixel and fills new channels with zeros.
    """

    def __init__(self, channels: int, filters: int, stride: int = 1):
        super().__init__()
        self.stride, self.new_channels = stride, filters - channels
        self.convolution1 = convolution(channels, filters, stride)
        self.norm1 = nn.BatchNorm2d(filters)
        self.relu1 = nn.ReLU()
        self.convolution2 = convolution(filters, filters)
        self.norm2 = nn.BatchNorm2d(filters)
        self.relu2 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Float[n, channels, h, w] → Float[n, filters, ⌈h/stride⌉, ⌈w/stride⌉]."""
        residual = self.norm2(self.convolution2(self.relu1(self.norm1(self.convolution1(x)))))
        shortcut = functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.new_channels))
        return self.relu2(residual + shortcut)


def convolution(channels: int, filters: int, stride: int = 1) -> nn.Conv2d:
    """A 3×3 convolution that keeps the size (for stride 1), without a bias: batch norm has one. Weights as He et al. (2015) draw them."""
    layer = nn.Conv2d(channels, filters, kernel_size=3, stride=stride, padding=1, bias=False)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    return layer


def residual_layers(channels: int, depth: int = 20, width: int = 16) -> OrderedDict[str, nn.Module]:
    """The layers up to the global average: 3×3 convolution, three stages of ``(depth - 2) / 6`` blocks, the mean over pixels.

    They map Float[n, channels, h, w], of any size, to Float[n, 4·width].

    Raises
    ------
    ParameterError : (a ValueError) for a depth that is not 6n+2.
    """
    blocks, rest = divmod(depth - 2, 6)
    if rest or blocks < 1:
        raise ParameterError(f"depth must be 6n+2 for n from 1 (8, 14, 20, 32, 44, 56, 110), got {depth}")
    layers: OrderedDict[str, nn.Module] = OrderedDict(convolution=convolution(channels, width), norm=nn.BatchNorm2d(width), relu=nn.ReLU())
    for stage in range(3):
        filters = width * 2**stage
        first = BasicBlock(filters // 2, filters, stride=2) if stage else BasicBlock(width, width)
        layers[f"stage{stage + 1}"] = nn.Sequential(first, *(BasicBlock(filters, filters) for _ in range(blocks - 1)))
    layers["mean"] = nn.AdaptiveAvgPool2d(1)
    layers["flatten"] = nn.Flatten()
    return layers


@dataclass(eq=False, repr=False, kw_only=True)
class ResidualNetwork(NetworkClassifier):
    """ResNet-20 and its deeper sisters for small images (He et al. 2016, Section 4.2), 0.27 M parameters for 10 classes.

    Defaults of the training are theirs (momentum 0.9, batches of 128, 64,000 steps on 50,000 images), but for the learning rate, which
    falls along a cosine instead of in two steps. ``patience`` is off: with a falling rate the best epochs are the last ones.

    Parameters
    ----------
    depth : 6n+2 layers with weights: 20, 32, 44, 56, 110.
    width : filters of the first stage; the others have two and four times as many.
    augment : train on random crops of the images (4 pixels of zeros around them) and mirror half of them, as He et al. did.
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
        check_image_shape(self, input_shape, _SMALLEST, f"depth={self.depth}")
        if self.batch_size == 1:
            raise ParameterError("batch_size must be at least 2, since batches are normalised, got 1")
        layers = residual_layers(input_shape[0], self.depth, self.width)
        if self.augment:
            layers["view"] = RandomView()
            layers.move_to_end("view", last=False)
        layers["classes"] = nn.Linear(4 * self.width, n_outputs)
        return nn.Sequential(layers)
