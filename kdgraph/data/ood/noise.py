"""Rows of noise that says nothing: images of independent pixels, vectors that fill the box of the training rows."""

from __future__ import annotations

import numpy as np

from kdgraph.data.dataset import Dataset, OodSet, Splits
from kdgraph.parameters import Count, check_parameters

LEVELS = 256
"""Intensities that a pixel can have."""


class UniformNoise:
    """Rows of independent uniform noise, of the shape of the training rows.

    Parameters
    ----------
    n : rows.

    Notes
    -----
    Of images, every pixel is an integer drawn uniformly from 0 to 255, divided by 255: the noise set of Dey et al. (2024), "Deep
    discriminative to kernel density graph", Tables 1 and 4 (1,000 images of 3 × 32 × 32), in the shape of the training images. So are the
    vectors of a data set of images that is read as vectors.

    Of other vectors, every feature is drawn uniformly between the smallest and the largest value that it has in the training rows, and a
    category uniformly among those that the source names. Each value alone is one that the data could have; only their combination is not.
    """

    def __init__(self, n: Count = 1000) -> None:
        self.n = n
        check_parameters(self)

    def sets(self, splits: Splits, rng: np.random.Generator) -> list[OodSet]:
        """One set with rows like the training rows."""
        train = splits.train
        shape = (self.n, *train.X.shape[1:])
        if train.are_images or "image_shape" in train.facts:
            X = rng.integers(0, LEVELS, shape).astype(train.X.dtype)
            X /= LEVELS - 1
            return [OodSet("noise", splits.scaling.apply(X))]
        return [OodSet("noise", _in_the_box(train, shape, rng))]


def _in_the_box(train: Dataset, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Float64[n, d]: uniform between the ends of each feature; NaN, a missing value, is no end."""
    low, high = np.fmin.reduce(train.X), np.fmax.reduce(train.X)  # a feature that is missing in every row stays so
    X = low + (high - low) * rng.random(shape)
    for feature in np.flatnonzero(train.is_categorical):
        X[:, feature] = rng.integers(0, len(train.categories[feature] or ()), len(X))
    return X
