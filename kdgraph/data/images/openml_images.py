"""Image data sets of openml.org, with a column for each pixel and one for the label."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kdgraph.data.dataset import TEST, TRAIN, Dataset
from kdgraph.data.source import Source, numbered_names
from kdgraph.errors import DataError, ParameterError
from kdgraph.parameters import Count

if TYPE_CHECKING:
    from kdgraph.data.images.pixels import PixelLayout
    from kdgraph.data.openml.cache import OpenmlData
    from kdgraph.data.openml.client import FetchProgress


_MAX_PIXEL_VALUE = 255
"""Intensity that is scaled to 1."""


@dataclass(eq=False, repr=False)
class OpenmlImages(Source):
    """Images of openml.org, fetched once into the cache of openml-python and read from there.

    The published sets list the official training rows first and then the official test rows. Each
    row keeps this role. If the number of rows differs, the set is a subset with an unknown order.
    Then the rows have no roles, and ``facts["subset"]`` contains a description.

    Parameters
    ----------
    name : str
        Name of the data set.
    id : int
        Number of the data set, as in openml.org/d/554.
    shape : sequence of 3 ints
        Channels, height and width of an image.
    official : sequence of 2 ints
        Numbers of official training and test rows.
    flat : bool, default=False
        If True, rows are vectors of pixels, Float64[n, c·h·w], for parents that do not support
        images. If False, they are images Float32[n, c, h, w].

    Notes
    -----
    The layout of the columns of a set in colour is inferred from the images
    (:func:`kdgraph.data.images.pixels.infer_pixel_layout`), because OpenML's sets differ and do not
    document it: published notebooks read CIFAR-10 channel by channel, and SVHN pixel by pixel.

    The order of the rows was checked for MNIST only, by its first labels.

    Examples
    --------
    >>> images = OpenmlImages("mnist", 554, (1, 28, 28), (60000, 10000))
    >>> images.name, images.flat
    ('mnist', False)
    """

    name: str
    id: Count
    shape: Sequence[Count]
    official: Sequence[Count]
    flat: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.shape) != 3:
            raise ParameterError(
                f"shape must be channels, height and width, got {list(self.shape)}"
            )
        if len(self.official) != 2:
            raise ParameterError(
                "official must be a number of training rows and one of test rows, got"
                f" {list(self.official)}"
            )

    def prefetch(self, progress: FetchProgress | None = None) -> None:
        """Fetch the images if they are not on this machine."""
        from kdgraph.data.openml.client import fetch_dataset

        fetch_dataset(self.id, progress)

    def load(self) -> Dataset:
        """Return all rows, and fetch them first if they are not on this machine."""
        from kdgraph.data.images.pixels import infer_pixel_layout, read_pixel_table, reshape_pixels
        from kdgraph.data.openml.client import fetch_dataset

        data = fetch_dataset(self.id)
        source = f"{self.name} (OpenML {self.id})"
        if data.target is None:
            raise DataError(f"{source}: OpenML names no target, and images need a label for each")
        pixels, labels = read_pixel_table(data, data.target, source)
        shape = self._shape_of(pixels, source)
        layout = infer_pixel_layout(pixels, shape)
        # The division is in place: for MNIST as float64, each copy would take 440 MB.
        X = reshape_pixels(pixels, shape, layout).astype(np.float64 if self.flat else np.float32)
        X /= _MAX_PIXEL_VALUE
        names = numbered_names(pixels.shape[1], "pixel") if self.flat else None
        train, test = self.official
        roles = np.repeat(np.array([TRAIN, TEST], dtype=np.int8), [train, test])
        return Dataset.from_labels(
            self.name,
            X.reshape(pixels.shape) if self.flat else X,
            labels,
            names,
            roles=roles if len(X) == train + test else None,
            facts=self._facts(data, len(X), layout),
        )

    def _shape_of(self, pixels: np.ndarray, source: str) -> tuple[int, int, int]:
        c, h, w = map(int, self.shape)
        if math.prod((c, h, w)) != pixels.shape[1]:
            raise DataError(
                f"{source}: shape {[c, h, w]} needs {c * h * w} columns of pixels, and there are"
                f" {pixels.shape[1]}; correct dataset.shape or dataset.id"
            )
        return c, h, w

    def _facts(self, data: OpenmlData, n: int, layout: PixelLayout) -> dict[str, Any]:
        facts: dict[str, Any] = {
            **data.facts,
            "image_shape": list(map(int, self.shape)),
            "layout": layout,
            "flat": self.flat,
        }
        if n != sum(self.official):
            facts["subset"] = f"{n:,} of {sum(self.official):,} rows, without the official split"
            if "subset" in data.facts:
                facts["description"] = data.facts["subset"]
        return facts
