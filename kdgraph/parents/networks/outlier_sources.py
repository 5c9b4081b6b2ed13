"""Sources of outliers for networks that train with them.

Outliers are made from the training rows alone (noise, permuted rows, mixtures: Hein et al. 2019,
Section 5) or drawn from another data set (Hendrycks et al. 2019). The papers are cited in
:mod:`~kdgraph.parents.networks.exposure`.
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

from kdgraph.data.dataset import (
    TEST,
    TRAIN,
    ClassHalf,
    Dataset,
    FetchableTable,
    Simulation,
    is_in_class_half,
)
from kdgraph.data.images.pixels import match_image_shape
from kdgraph.errors import DataError, ParameterError
from kdgraph.parameters import ClosedFraction, Count, NonNegative, check_parameters

OutlierSampler = Callable[[int, np.random.Generator], np.ndarray]
"""Function (n, generator) → Float32[n, …] that draws outliers of the shape of the training rows."""

# Range of the standard deviation of the Gaussian filter in pixels, drawn uniformly. Hein et al.
# 2019, Section 5.
_SMOOTHING_SD_RANGE = (1.0, 2.5)


class OutlierSource(BaseEstimator):
    """Base class of the sources of outliers.

    A subclass is a dataclass of its parameters and implements ``make_sampler``.

    Notes
    -----
    Original to kdgraph.

    Examples
    --------
    A subclass whose outliers are on a sphere around the origin:

    >>> class SphereOutliers(OutlierSource):
    ...     def make_sampler(self, rows, rng):
    ...         def sample(n, rng):
    ...             directions = rng.normal(size=(n, *rows.shape[1:])).astype(np.float32)
    ...             return 10 * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    ...
    ...         return sample
    >>> rng = np.random.default_rng(0)
    >>> sample = SphereOutliers().make_sampler(np.zeros((5, 3), np.float32), rng)
    >>> np.linalg.norm(sample(4, rng), axis=1).round(3).tolist()
    [10.0, 10.0, 10.0, 10.0]
    """

    def make_sampler(self, rows: np.ndarray, rng: np.random.Generator) -> OutlierSampler:
        """Return a function that draws outliers for training rows, as the network receives them.

        Rows are vectors Float32[n, d] or images Float32[n, c, h, w]. ``rng`` is for choices that
        are made once. Each draw has its own generator.
        """
        raise NotImplementedError

    def check(self, prefix: str) -> None:
        """Raise ParameterError if a parameter is out of range; messages start with ``prefix``."""
        check_parameters(self, prefix)


@dataclass(eq=False, repr=False, kw_only=True)
class NoiseOutliers(OutlierSource):
    """Uniform noise.

    Vectors are in the bounding box of the training rows, pixels of images in [0, 1].

    Parameters
    ----------
    margin : float, default=0.0
        Extension of the box on each side for vectors, as a fraction of the range of each feature.
    smoothed_fraction : float, default=0.5
        Fraction of the images that are smoothed, so that they have low frequencies like natural
        images.

    Notes
    -----
    Images are smoothed as by Hein et al.: with a Gaussian filter whose standard deviation, 1 to 2.5
    pixels, is drawn anew for each batch. Then each image is rescaled to [0, 1]. Hein et al. smooth
    all images, and half of their smoothed images are training images with permuted pixels. This is
    :class:`MixedOutliers` of this class and of :class:`PermutedOutliers`, both with
    ``smoothed_fraction=1``.

    Examples
    --------
    >>> rows = np.array([[0, 5], [1, 7]], dtype=np.float32)
    >>> sample = NoiseOutliers().make_sampler(rows, np.random.default_rng(0))
    >>> outliers = sample(100, np.random.default_rng(1))
    >>> outliers.min(axis=0).round(1).tolist(), outliers.max(axis=0).round(1).tolist()
    ([0.0, 5.0], [1.0, 7.0])
    """

    margin: NonNegative = 0.0
    smoothed_fraction: ClosedFraction = 0.5

    def make_sampler(self, rows: np.ndarray, rng: np.random.Generator) -> OutlierSampler:
        """Return a function that draws noise for training rows Float32[n, …]."""
        shape, are_images = rows.shape[1:], rows.ndim == 4
        low, high = np.float32(0), np.float32(1)
        if not are_images:
            low, high = rows.min(axis=0), rows.max(axis=0)
            extension = np.float32(self.margin) * (high - low)
            low, high = low - extension, high + extension

        def draw(n: int, rng: np.random.Generator) -> np.ndarray:
            noise = low + (high - low) * rng.random((n, *shape), dtype=np.float32)
            return _smooth_fraction(noise, self.smoothed_fraction, rng) if are_images else noise

        return draw


@dataclass(eq=False, repr=False, kw_only=True)
class PermutedOutliers(OutlierSource):
    """Training rows whose columns (of vectors) or pixels (of images) are permuted.

    Each column of vectors is drawn separately. So every feature keeps its distribution, and the
    dependence between features is lost.

    Parameters
    ----------
    smoothed_fraction : float, default=0.0
        Fraction of the images that are smoothed, as in :class:`NoiseOutliers`.

    References
    ----------
    Images: Hein et al. (2019), Section 5. Columns: the synthetic class of Shi and Horvath,
    "Unsupervised learning with random forest predictors", Journal of Computational and Graphical
    Statistics 15, 2006, Addcl1.

    Examples
    --------
    >>> rows = np.array([[0, 5], [1, 7]], dtype=np.float32)
    >>> sample = PermutedOutliers().make_sampler(rows, np.random.default_rng(0))
    >>> sorted(set(sample(100, np.random.default_rng(1))[:, 1].tolist()))
    [5.0, 7.0]
    """

    smoothed_fraction: ClosedFraction = 0.0

    def make_sampler(self, rows: np.ndarray, rng: np.random.Generator) -> OutlierSampler:
        """Return a function that draws permuted training rows, with replacement."""

        def draw_vectors(n: int, rng: np.random.Generator) -> np.ndarray:
            return rows[rng.integers(len(rows), size=(n, rows.shape[1])), np.arange(rows.shape[1])]

        def draw_images(n: int, rng: np.random.Generator) -> np.ndarray:
            flat = rows[rng.integers(len(rows), size=n)].reshape(n, rows.shape[1], -1)
            order = rng.permuted(np.tile(np.arange(flat.shape[2]), (n, 1)), axis=1)
            permuted = np.take_along_axis(flat, order[:, None], axis=2).reshape(n, *rows.shape[1:])
            return _smooth_fraction(permuted, self.smoothed_fraction, rng)

        return draw_images if rows.ndim == 4 else draw_vectors


@dataclass(eq=False, repr=False, kw_only=True)
class MixedOutliers(OutlierSource):
    """Outliers of several sources in equal proportions, in random order.

    Parameters
    ----------
    sources : mapping of str to OutlierSource
        Sources by name.

    Notes
    -----
    Original to kdgraph.

    Examples
    --------
    >>> rows = np.array([[0, 5], [1, 7]], dtype=np.float32)
    >>> mixed = MixedOutliers(sources={"noise": NoiseOutliers(), "permuted": PermutedOutliers()})
    >>> sample = mixed.make_sampler(rows, np.random.default_rng(0))
    >>> sample(5, np.random.default_rng(1)).shape
    (5, 2)
    """

    sources: Mapping[str, Any]

    def check(self, prefix: str) -> None:
        """Raise ParameterError if there is no source, or a parameter of one is out of range."""
        if not self.sources:
            raise ParameterError(
                f"{prefix}sources must have at least one kind of outliers, got none"
            )
        for name, source in self.sources.items():
            source.check(f"{prefix}sources.{name}.")

    def make_sampler(self, rows: np.ndarray, rng: np.random.Generator) -> OutlierSampler:
        """Return a function that draws from each source, for training rows Float32[n, …]."""
        samplers = [source.make_sampler(rows, rng) for source in self.sources.values()]

        def draw(n: int, rng: np.random.Generator) -> np.ndarray:
            sizes = np.diff(np.linspace(0, n, len(samplers) + 1).round().astype(int)).tolist()
            return rng.permutation(
                np.concatenate(
                    [sampler(size, rng) for sampler, size in zip(samplers, sizes, strict=True)]
                )
            )

        return draw


def outlier_source_from_name(name: str) -> OutlierSource | str:
    """Return the source that a name stands for; an unknown name is returned unchanged.

    The names are "noise", "permuted" and "mixed". With "mixed", images are smoothed as by Hein et
    al. (2019, Section 5).
    """
    if name == "mixed":
        return MixedOutliers(
            sources={
                "noise": NoiseOutliers(smoothed_fraction=1.0),
                "permuted": PermutedOutliers(smoothed_fraction=1.0),
            }
        )
    sources = {"noise": NoiseOutliers, "permuted": PermutedOutliers}
    return sources[name]() if name in sources else name


def row_sampler(rows: np.ndarray) -> OutlierSampler:
    """Return a function that draws from given rows Float32[m, …], with replacement."""
    return lambda n, rng: rows[rng.integers(len(rows), size=n)]


def _smooth_fraction(images: np.ndarray, fraction: float, rng: np.random.Generator) -> np.ndarray:
    """Smooth each image with probability ``fraction``, and rescale the smoothed ones to [0, 1]."""
    is_smoothed, width = rng.random(len(images)) < fraction, rng.uniform(*_SMOOTHING_SD_RANGE)
    if not is_smoothed.any():
        return images
    smooth = gaussian_filter(images[is_smoothed], sigma=(0, 0, width, width))
    low, high = smooth.min(axis=(1, 2, 3), keepdims=True), smooth.max(axis=(1, 2, 3), keepdims=True)
    images[is_smoothed] = (smooth - low) / np.maximum(high - low, np.finfo(np.float32).tiny)
    return images


@dataclass(eq=False, repr=False, kw_only=True)
class DatasetOutliers(OutlierSource):
    """Rows of another data set, which serve as outliers.

    If the data set has official training rows, outliers come from them, so that its test rows can
    still be used for tests. Images are converted to images like the training images: to their size
    by bilinear interpolation, from colours to grey, or from grey to colours by repetition. If the
    training rows are vectors of as many numbers, images are converted to vectors of pixels. Vectors
    must have as many features as the training rows. They are not scaled, but expected on the scale
    of the rows that the network receives.

    Parameters
    ----------
    source : data source
        Source of the rows, as in the config group ``dataset``.
    class_half : {"first", "second"} or None, default=None
        Use only the rows of that half of the sorted classes; with an odd number, the first half is
        the smaller one. So the other half can be used for tests (``class_half`` of
        :class:`~kdgraph.data.ood.OtherDataset`). None: all rows.
    n : int, default=10_000
        Largest number of rows that are kept in memory, drawn at random.

    References
    ----------
    Hendrycks, Mazeika, Dietterich, "Deep anomaly detection with outlier exposure", ICLR 2019, who
    use 80 Million Tiny Images for CIFAR.

    Examples
    --------
    >>> from kdgraph.data.tables import SklearnTable
    >>> source = DatasetOutliers(source=SklearnTable("iris"))
    >>> rng = np.random.default_rng(0)
    >>> sample = source.make_sampler(np.zeros((5, 4), np.float32), rng)
    >>> sample(3, rng).shape
    (3, 4)
    """

    source: Any
    class_half: ClassHalf = None
    n: Count = 10_000

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Download the rows if they are not on this machine."""
        if isinstance(self.source, FetchableTable):
            self.source.prefetch(progress)

    def make_sampler(self, rows: np.ndarray, rng: np.random.Generator) -> OutlierSampler:
        """Return a function that draws rows of the other data set, for training rows Float32[n, …].

        DataError is raised if they cannot be converted to the shape of the training rows, and
        ParameterError for a ``class_half`` of a simulation.
        """
        if isinstance(self.source, Simulation):
            if self.class_half is not None:
                raise ParameterError(
                    f"class_half must be null, since {self.source.name} is a simulation and not"
                    f" divided, got {self.class_half}"
                )
            X = self.source.sample(self.n, rng)[0]
        else:
            with warnings.catch_warnings():
                # The warnings concern labels, which are not used here.
                warnings.simplefilter("ignore", UserWarning)
                table = self.source.load()
            candidates = _training_rows(table, self.class_half)
            X = table.X[rng.permutation(candidates)[: self.n]]
        return row_sampler(
            np.ascontiguousarray(
                _match_shape(rows.shape[1:], X, self.source.name), dtype=np.float32
            )
        )


def _training_rows(table: Dataset, class_half: ClassHalf) -> np.ndarray:
    """Return the numbers of the training rows of a half of the classes, Int[m]."""
    if table.roles is None:
        is_training_row = np.ones(len(table.y), dtype=bool)
    elif len(table.classes) > 1:
        is_training_row = table.roles == TRAIN
    else:
        # Images without labels: they cannot train a classifier, but any of them can be an outlier.
        # Test rows are used only if there are no others.
        is_test_row = table.roles == TEST
        is_training_row = ~is_test_row if not is_test_row.all() else is_test_row
    return np.flatnonzero(is_training_row & is_in_class_half(table, class_half))


def _match_shape(shape: tuple[int, ...], X: np.ndarray, name: str) -> np.ndarray:
    if not len(X):
        raise DataError(
            f"{name} has no training rows to draw outliers from; choose another data set"
        )
    if len(shape) == 3 and X.ndim == 4:
        try:
            return match_image_shape(shape, X)[0]
        except ValueError as error:
            raise DataError(f"{name}: {error}; choose another data set for the outliers") from error
    if len(shape) == 1 and math.prod(X.shape[1:]) == shape[0]:
        X = X.reshape(len(X), -1)
        if np.isnan(X).any():
            raise DataError(
                f"{name} has missing values, which networks do not accept; choose another data set"
                " for the outliers"
            )
        return X
    raise DataError(
        f"rows of {name} have the shape {X.shape[1:]}, and the network requires rows of shape"
        f" {shape}; choose another data set for the outliers"
    )
