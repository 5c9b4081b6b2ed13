"""Random views of images: the crop and the flip with which He et al. (2016, Section 4.2) train on CIFAR."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def random_view(images: Tensor, padding: int = 4, generator: torch.Generator | None = None) -> Tensor:
    """Each image shifted by up to ``padding`` pixels each way, zeros moving in, and mirrored left to right in half of the cases.

    Parameters
    ----------
    images : Float[n, c, h, w].
    padding : pixels of zeros on each side from which a crop of the old size is taken.
    generator : on the CPU, whatever the device of the images, so that a seed gives the same views everywhere; None: torch's own.

    Returns
    -------
    Float[n, c, h, w].
    """
    n, channels, height, width = images.shape
    shift = torch.randint(0, 2 * padding + 1, (2, n, 1), generator=generator)
    mirrored = torch.rand(n, 1, generator=generator) < 0.5
    rows = shift[0] + torch.arange(height)
    columns = shift[1] + torch.where(mirrored, torch.arange(width - 1, -1, -1), torch.arange(width))
    rows, columns = rows[:, None, :, None].to(images.device), columns[:, None, None, :].to(images.device)
    each, channel = torch.arange(n, device=images.device), torch.arange(channels, device=images.device)
    return functional.pad(images, (padding,) * 4)[each[:, None, None, None], channel[None, :, None, None], rows, columns]


class RandomView(nn.Module):
    """:func:`random_view` while training, nothing else afterwards."""

    def __init__(self, padding: int = 4):
        super().__init__()
        self.padding = padding

    def forward(self, images: Tensor) -> Tensor:
        """Float[n, c, h, w] → Float[n, c, h, w]."""
        return random_view(images, self.padding) if self.training else images
