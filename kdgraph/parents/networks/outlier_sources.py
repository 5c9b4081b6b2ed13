"""Outliers made of the training rows alone: noise, rows whose parts are permuted, and mixtures.

Outliers that are rows of another data set.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.base import BaseEstimator

from kdgraph.data.dataset import TEST, TRAIN, Dataset, Fetched, Half, Simulation, in_half
from kdgraph.data.images.pixels import like_images_of
from kdgraph.errors import DataError, ParameterError
from kdgraph.parameters import Count, NonNegative, Share, check_parameters

OutlierSampler = Callable[[int, np.random.Generator], np.ndarray]
"""(n, generator) → Float32[n, …]: new outliers, of the shape of the training rows."""

_SMOOTHING_SD_RANGE = (1.0, 2.5)
"""Pixels: the standard deviations of the Gaussian filter are drawn uniformly between them (Hein et
al. 2019, Section 5).
"""


class OutlierSource(BaseEstimator):
    """Where a network that trains with outliers has them from; ours. A subclass is a dataclass of
    its parameters, and has ``like``.
    """

    def make_sampler(self, rows: np.ndarray, rng: np.random.Generator) -> OutlierSampler:
        """What draws outliers for training rows, Float32[n, d] or images Float32[n, c, h, w], as
        the network sees them.

        ``rng`` is for what is chosen once; each draw has a generator of its own.
        """
        raise NotImplementedError

    def check(self, prefix: str) -> None:
        """Raise ParameterError for a parameter out of range, whose name begins with ``prefix``."""
        check_parameters(self, prefix)


@dataclass(eq=False, repr=False, kw_only=True)
class NoiseOutliers(OutlierSource):
    """Uniform noise: of vectors in the box of the training rows, of images in [0, 1] for each
    pixel.

    Parameters
    ----------
    margin : of vectors, how far the box reaches beyond the training rows on each side, as a share
    of each feature's range.
    smoothed_fraction : share of the images that are smoothed, which gives them low frequencies as pictures
        have them.

    Notes
    -----
    Images are smoothed as Hein et al. do it: with a Gaussian filter of 1 to 2.5 pixels, drawn anew
    for each batch, after which each image is stretched to [0, 1]. They smooth all, and half of what
    they smooth are training images whose pixels are permuted (:class:`MixedOutliers` of this and of
    :class:`PermutedOutliers`, both with ``smoothed=1``).

    References
    ----------
    Hein, Andriushchenko, Bitterwolf, "Why ReLU networks yield high-confidence predictions far away
    from the training data and how to mitigate the problem", CVPR 2019, Section 5.

    Examples
    --------
    >>> rows = np.array([[0, 5], [1, 7]], dtype=np.float32)
    >>> drawn = NoiseOutliers().make_sampler(rows, np.random.default_rng(0))(100, np.random.default_rng(1))
    >>> drawn.min(axis=0).round(1).tolist(), drawn.max(axis=0).round(1).tolist()
    ([0.0, 5.0], [1.0, 7.0])
    """

    margin: NonNegative = 0.0
    smoothed_fraction: Share = 0.5

    def make_sampler(self, rows: np.ndarray, rng: np.random.Generator) -> OutlierSampler:
        """What draws noise like the training rows Float32[n, …]."""
        shape, are_images = rows.shape[1:], rows.ndim == 4
        low, high = (
            (np.float32(0), np.float32(1)) if are_images else _bounding_box(rows, self.margin)
        )

        def draw(n: int, rng: np.random.Generator) -> np.ndarray:
            noise = low + (high - low) * rng.random((n, *shape), dtype=np.float32)
            return _smooth_fraction(noise, self.smoothed_fraction, rng) if are_images else noise

        return draw


@dataclass(eq=False, repr=False, kw_only=True)
class PermutedOutliers(OutlierSource):
    """Training rows of which the parts are in disorder: columns of vectors, each permuted by
    itself, or the pixels of each image.

    Each value of a vector is one that its feature has, as often as it has it; only what goes with
    what is lost.

    Parameters
    ----------
    smoothed_fraction : share of the images that are smoothed, as in :class:`NoiseOutliers`.

    References
    ----------
    Hein et al. (2019), Section 5, of images. Of columns: as the synthetic class of Shi and Horvath,
    "Unsupervised learning with random forest predictors", Journal of Computational and Graphical
    Statistics 15, 2006, Addcl1.
    """

    smoothed_fraction: Share = 0.0

    def make_sampler(self, rows: np.ndarray, rng: np.random.Generator) -> OutlierSampler:
        """What draws permuted rows of the training rows Float32[n, …], with replacement."""

        def columns(n: int, rng: np.random.Generator) -> np.ndarray:
            return rows[rng.integers(len(rows), size=(n, rows.shape[1])), np.arange(rows.shape[1])]

        def pixels(n: int, rng: np.random.Generator) -> np.ndarray:
            flat = rows[rng.integers(len(rows), size=n)].reshape(n, rows.shape[1], -1)
            order = rng.permuted(np.tile(np.arange(flat.shape[2]), (n, 1)), axis=1)
            permuted = np.take_along_axis(flat, order[:, None], axis=2).reshape(n, *rows.shape[1:])
            return _smooth_fraction(permuted, self.smoothed_fraction, rng)

        return pixels if rows.ndim == 4 else columns


@dataclass(eq=False, repr=False, kw_only=True)
class MixedOutliers(OutlierSource):
    """Outliers of several kinds in equal shares, in any order; ours.

    Parameters
    ----------
    sources : name → :class:`OutlierSource`.
    """

    sources: Mapping[str, Any]

    def check(self, prefix: str) -> None:
        """Raise ParameterError for a parameter of a part that is out of range, and where there is
        no part.
        """
        if not self.sources:
            raise ParameterError(f"{prefix}parts must have at least one kind of outliers, got none")
        for name, part in self.sources.items():
            part.check(f"{prefix}parts.{name}.")

    def make_sampler(self, rows: np.ndarray, rng: np.random.Generator) -> OutlierSampler:
        """What draws from each part for training rows Float32[n, …]."""
        draws = [part.make_sampler(rows, rng) for part in self.sources.values()]

        def draw(n: int, rng: np.random.Generator) -> np.ndarray:
            sizes = np.diff(np.linspace(0, n, len(draws) + 1).round().astype(int)).tolist()
            return rng.permutation(
                np.concatenate([of(size, rng) for of, size in zip(draws, sizes, strict=True)])
            )

        return draw


def outlier_source_from_name(name: str) -> OutlierSource | str:
    """What a word stands for: "noise", "permuted", or "mixed", in which images are smoothed as
    those of Hein et al. (2019, Section 5).

    Any other word stays one.
    """
    if name == "mixed":
        return MixedOutliers(
            sources={
                "noise": NoiseOutliers(smoothed_fraction=1.0),
                "permuted": PermutedOutliers(smoothed_fraction=1.0),
            }
        )
    made = {"noise": NoiseOutliers, "permuted": PermutedOutliers}
    return made[name]() if name in made else name


def row_sampler(rows: np.ndarray) -> OutlierSampler:
    """What draws from given rows Float32[m, …], with replacement; ours."""
    return lambda n, rng: rows[rng.integers(len(rows), size=n)]


def _bounding_box(rows: np.ndarray, margin: float) -> tuple[np.ndarray, np.ndarray]:
    low, high = rows.min(axis=0), rows.max(axis=0)
    return low - np.float32(margin) * (high - low), high + np.float32(margin) * (high - low)


def _smooth_fraction(images: np.ndarray, fraction: float, rng: np.random.Generator) -> np.ndarray:
    """Each image smoothed with the probability ``fraction``, and stretched to [0, 1] then."""
    chosen, width = rng.random(len(images)) < fraction, rng.uniform(*_SMOOTHING_SD_RANGE)
    if not chosen.any():
        return images
    smooth = gaussian_filter(images[chosen], sigma=(0, 0, width, width))
    low, high = smooth.min(axis=(1, 2, 3), keepdims=True), smooth.max(axis=(1, 2, 3), keepdims=True)
    images[chosen] = (smooth - low) / np.maximum(high - low, np.finfo(np.float32).tiny)
    return images


@dataclass(eq=False, repr=False, kw_only=True)
class DatasetOutliers(OutlierSource):
    """Rows of another data set: of its official training rows where it has them, so that its test
    rows can still test.

    Images become images like the training images: of their size by bilinear interpolation, grey
    from colours, colours from grey by repeating it; or vectors of pixels, where the training rows
    are vectors of as many numbers. Vectors must have as many features as the training rows have,
    and nothing scales them: they are taken to be on the scale of the rows that the network sees.

    Parameters
    ----------
    source : where the rows come from, as in the group ``dataset``.
    half : "first" or "second": only the rows of that half of the sorted classes, of an odd number
        the first half being the smaller; so the other half can test (``half`` of
        :class:`~kdgraph.data.ood.OtherDataset`). None: all.
    n : rows that are kept in memory, drawn at random; all where there are fewer.

    References
    ----------
    Hendrycks, Mazeika, Dietterich, "Deep anomaly detection with outlier exposure", ICLR 2019, who
    take 80 Million Tiny Images for CIFAR.
    """

    source: Any
    half: Half = None
    n: Count = 10_000

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Make sure that the rows are on this machine."""
        if isinstance(self.source, Fetched):
            self.source.prefetch(progress)

    def make_sampler(self, rows: np.ndarray, rng: np.random.Generator) -> OutlierSampler:
        """What draws rows of the other data set for training rows Float32[n, …].

        Raises
        ------
        DataError : if they cannot be made like these.
        """
        if isinstance(self.source, Simulation):
            if self.half is not None:
                raise ParameterError(
                    f"half must be null, since {self.source.name} is a simulation and not divided,"
                    f" got {self.half}"
                )
            X = self.source.sample(self.n, rng)[0]
        else:
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", UserWarning
                )  # of what matters where labels are learnt
                table = self.source.load()
            among = _training_rows(table, self.half)
            X = table.X[rng.permutation(among)[: self.n]]
        return row_sampler(
            np.ascontiguousarray(
                _match_shape(rows.shape[1:], X, self.source.name), dtype=np.float32
            )
        )


def _training_rows(table: Dataset, half: Half) -> np.ndarray:
    """Int[m]: rows that train, of a half of the classes."""
    if table.roles is None:
        trains = np.ones(len(table.y), dtype=bool)
    elif len(table.classes) > 1:
        trains = table.roles == TRAIN
    else:  # images without labels: no row can train a classifier, and any can be an outlier, those that test last
        tests = table.roles == TEST
        trains = ~tests if not tests.all() else tests
    return np.flatnonzero(trains & in_half(table, half))


def _match_shape(shape: tuple[int, ...], X: np.ndarray, name: str) -> np.ndarray:
    """Rows of that shape."""
    if not len(X):
        raise DataError(
            f"{name} has no rows that train, and outliers are to be some; choose another data set"
        )
    if len(shape) == 3 and X.ndim == 4:
        try:
            return like_images_of(shape, X)[0]
        except ValueError as error:
            raise DataError(f"{name}: {error}; choose another data set for the outliers") from error
    if len(shape) == 1 and math.prod(X.shape[1:]) == shape[0]:
        X = X.reshape(len(X), -1)
        if np.isnan(X).any():
            raise DataError(
                f"{name} has missing values, and a network takes none; choose another data set for"
                " the outliers"
            )
        return X
    rule = f"and the network sees rows of shape {shape}"
    raise DataError(
        f"rows of {name} have the shape {X.shape[1:]}, {rule}; choose another data set for the"
        " outliers"
    )
