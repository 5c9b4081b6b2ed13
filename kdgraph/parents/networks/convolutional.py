"""Small convolutional networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from kdgraph.parameters import Positive, Range
from kdgraph.parents.networks.classifier import NetworkClassifier
from kdgraph.parents.networks.network import Network

_SMALLEST = {"simple": 3, "lenet": 12}
"""Height and width that leave the last convolution a pixel: 3 - 2 = 1, and (12 / 2 - 4) / 2 = 1."""


@dataclass(eq=False, repr=False, kw_only=True)
class ConvolutionalNetwork(NetworkClassifier):
    """A small convolutional network with ReLU, for images Float[n, channels, height, width].

    Parameters
    ----------
    architecture : "simple", 3 filters of 3×3, a dense layer of 10 and the logits (Dey et al., Section 5.2.1); "lenet", LeNet-5 of LeCun et
        al. with max pooling: 6 and 16 filters of 5×5, dense layers of 120 and 84.
    learning_rate, max_epochs : larger and fewer than the multilayer perceptron's: at 3e-4, circles and rectangles of 100×100 pixels took
        more than ten minutes on one core, and where classes can be told apart without error the validation loss never stops falling.
    **others : those of :class:`NetworkClassifier`.

    Notes
    -----
    Weights start as Glorot and Bengio's uniform ones and biases at 0, Keras' way and so that of Dey et al. With torch's own start, 6 of 24
    small networks never learnt to tell a circle from a rectangle (2,000 images, 8 epochs); with this one all 24 did.

    References
    ----------
    Dey et al., Deep discriminative to kernel density graph for in- and out-of-distribution calibrated inference.

    LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document recognition, Proceedings of the IEEE 86, 1998.
    """

    architecture: Literal["simple", "lenet"] = "simple"
    learning_rate: Positive = 1e-3
    max_epochs: Annotated[int, Range(0)] = 20

    images_only: ClassVar[bool] = True

    def _make_module(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        check_image_shape(self, input_shape, _SMALLEST[self.architecture], f"architecture={self.architecture!r}")
        layers = _simple(input_shape[0]) if self.architecture == "simple" else _lenet(input_shape[0])
        body = nn.Sequential(*layers, nn.Flatten())
        with torch.no_grad():
            width = body(torch.zeros(1, *input_shape)).shape[1]
        for after in (10,) if self.architecture == "simple" else (120, 84):
            body.extend([nn.Linear(width, after), nn.ReLU()])
            width = after
        return body.append(nn.Linear(width, n_outputs)).apply(_start)


def check_image_shape(estimator: Network, shape: tuple[int, ...], smallest: int, of: str) -> None:
    """Raise ValueError unless one row is an image (channels, height, width) of at least ``smallest`` × ``smallest`` pixels. Ours."""
    name = type(estimator).__name__
    if len(shape) != 3:
        raise ValueError(f"{name} needs images, X of shape (n, channels, height, width), got rows of shape {shape}; reshape X")
    if min(shape[1:]) < smallest:
        raise ValueError(f"{name} with {of} needs images of at least {smallest}×{smallest} pixels, got {shape[1]}×{shape[2]}")


def _start(layer: nn.Module) -> None:
    if isinstance(layer, nn.Conv2d | nn.Linear):
        nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(cast("Tensor", layer.bias))


def _simple(channels: int) -> list[nn.Module]:
    return [nn.Conv2d(channels, 3, 3), nn.ReLU()]


def _lenet(channels: int) -> list[nn.Module]:
    first = [nn.Conv2d(channels, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    return [*first, nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)]
