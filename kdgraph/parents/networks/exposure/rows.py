"""Outliers that are rows of another data set."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kdgraph.data.dataset import TEST, TRAIN, Dataset
from kdgraph.data.halves import Half, in_half
from kdgraph.data.images.shape import like_images_of
from kdgraph.data.sources import Fetched, Simulation
from kdgraph.errors import DataError, ParameterError
from kdgraph.parameters import Count
from kdgraph.parents.networks.exposure.outliers import Draw, Outliers, from_rows


@dataclass(eq=False, repr=False, kw_only=True)
class RowsOutliers(Outliers):
    """Rows of another data set: of its official training rows where it has them, so that its test rows can still test.

    Images become images like the training images: of their size by bilinear interpolation, grey from colours, colours from grey by
    repeating it; or vectors of pixels, where the training rows are vectors of as many numbers. Vectors must have as many features as the
    training rows have, and nothing scales them: they are taken to be on the scale of the rows that the network sees.

    Parameters
    ----------
    source : where the rows come from, as in the group ``dataset``.
    half : "first" or "second": only the rows of that half of the sorted classes, of an odd number the first half being the smaller; so the
        other half can test (``half`` of :class:`~kdgraph.data.ood.OtherDataset`). None: all.
    n : rows that are kept in memory, drawn at random; all where there are fewer.

    References
    ----------
    Hendrycks, Mazeika, Dietterich, "Deep anomaly detection with outlier exposure", ICLR 2019, who take 80 Million Tiny Images for CIFAR.
    """

    source: Any
    half: Half = None
    n: Count = 10_000

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Make sure that the rows are on this machine."""
        if isinstance(self.source, Fetched):
            self.source.prefetch(progress)

    def like(self, rows: np.ndarray, rng: np.random.Generator) -> Draw:
        """What draws rows of the other data set for training rows Float32[n, …].

        Raises
        ------
        DataError : if they cannot be made like these.
        """
        if isinstance(self.source, Simulation):
            if self.half is not None:
                raise ParameterError(f"half must be null, since {self.source.name} is a simulation and not divided, got {self.half}")
            X = self.source.sample(self.n, rng)[0]
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of what matters where labels are learnt
                table = self.source.load()
            among = _chosen(table, self.half)
            X = table.X[rng.permutation(among)[: self.n]]
        return from_rows(np.ascontiguousarray(_like(rows.shape[1:], X, self.source.name), dtype=np.float32))


def _chosen(table: Dataset, half: Half) -> np.ndarray:
    """Int[m]: rows that train, of a half of the classes."""
    if table.roles is None:
        trains = np.ones(len(table.y), dtype=bool)
    elif len(table.classes) > 1:
        trains = table.roles == TRAIN
    else:  # images without labels: no row can train a classifier, and any can be an outlier, those that test last
        tests = table.roles == TEST
        trains = ~tests if not tests.all() else tests
    return np.flatnonzero(trains & in_half(table, half))


def _like(shape: tuple[int, ...], X: np.ndarray, name: str) -> np.ndarray:
    """Rows of that shape."""
    if not len(X):
        raise DataError(f"{name} has no rows that train, and outliers are to be some; choose another data set")
    if len(shape) == 3 and X.ndim == 4:
        try:
            return like_images_of(shape, X)[0]
        except ValueError as error:
            raise DataError(f"{name}: {error}; choose another data set for the outliers") from error
    if len(shape) == 1 and math.prod(X.shape[1:]) == shape[0]:
        X = X.reshape(len(X), -1)
        if np.isnan(X).any():
            raise DataError(f"{name} has missing values, and a network takes none; choose another data set for the outliers")
        return X
    rule = f"and the network sees rows of shape {shape}"
    raise DataError(f"rows of {name} have the shape {X.shape[1:]}, {rule}; choose another data set for the outliers")
