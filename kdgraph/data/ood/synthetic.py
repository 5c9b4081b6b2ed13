"""Synthetic out-of-distribution rows: spheres, shells, boxes and noise.

All sources work on vectors and on images, which they treat as vectors of pixels. Points in space
are drawn around the origin of the scaled features; the categories of each row are those of a random
training row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kdgraph.data.dataset import Dataset, OodSet, Splits
from kdgraph.data.ood.base import OodRows
from kdgraph.errors import DataError, ParameterError
from kdgraph.parameters import NonNegative, Positive


def count_numeric_features(train: Dataset) -> int:
    """Return the number of numeric features of a row; for an image, pixels times channels."""
    n = math.prod(train.X.shape[1:]) - int(train.is_categorical.sum())
    if not n:
        raise DataError(
            f"{train.name} has no numeric feature, and these rows out of distribution are points in"
            " space; give ood=none"
        )
    return n


def numeric_rows(train: Dataset) -> np.ndarray:
    """Return the training rows as flat vectors without categories, Float[n, d].

    A missing value is replaced by the mean of its feature.
    """
    if not train.needs_encoding:
        return train.X.reshape(len(train.X), -1)
    X = train.X[:, ~train.is_categorical]
    is_present = ~np.isnan(X)
    mean = np.where(is_present, X, 0.0).sum(axis=0) / np.maximum(is_present.sum(axis=0), 1)
    return np.where(is_present, X, mean)


def match_training_rows(train: Dataset, X: np.ndarray, seed: int) -> np.ndarray:
    """Return rows of numbers, Float64[n, d], as rows of the shape and type of the training rows.

    Categories are those of training rows, which are drawn with ``seed``. Pixels outside of [0, 1]
    are not clipped.
    """
    if train.are_images:
        return X.reshape(len(X), *train.X.shape[1:]).astype(train.X.dtype, copy=False)
    if not train.is_categorical.any():
        return X
    rows = train.X[np.random.default_rng(seed).integers(len(train.X), size=len(X))]
    rows[:, ~train.is_categorical] = X
    return rows


def draw_seed(rng: np.random.Generator) -> int:
    """Draw the seed of another generator."""
    return int(rng.integers(2**63))


def set_generator(family: int, value: float, *extra_keys: int) -> np.random.Generator:
    """Return the generator of one set of a family.

    It depends on the value of the set, not on the set's position in the family.
    """
    return np.random.default_rng([family, *extra_keys, int(np.float64(value).view(np.uint64))])


def largest_norm(X: np.ndarray, rows_at_a_time: int = 256) -> float:
    """Return the largest L2 norm of the rows of X: Float[n, …].

    The norms are computed in float64 for blocks of rows, because images are float32.
    """
    flat = X.reshape(len(X), -1)
    blocks = (
        flat[start : start + rows_at_a_time].astype(np.float64)
        for start in range(0, len(flat), rows_at_a_time)
    )
    return max(float(np.linalg.norm(block, axis=1).max()) for block in blocks)


def _single_set(
    name: str, train: Dataset, X: np.ndarray, rng: np.random.Generator, **params: float
) -> list[OodSet]:
    """Return rows of numbers, Float64[n, d], as the only set."""
    rows = match_training_rows(train, X, draw_seed(rng))
    return [OodSet(name, rows, {key: float(value) for key, value in params.items()})]


DirectionSampling = Literal["uniform", "cube"]


@dataclass(eq=False, repr=False)
class Sphere(OodRows):
    """Rows at exact distances from the origin, one set for each radius.

    The out-of-distribution rows of Figure 1 of Dey et al. (2024), in any dimension.

    Parameters
    ----------
    radii : sequence of floats
        Distances from the origin, in scaled features. After ``max_norm`` scaling the training rows
        lie within 1.
    draw : {"uniform", "cube"}, default="uniform"
        "uniform" draws directions uniformly, as normalised Gaussians. "cube" normalises uniform
        draws from [-1, 1]^d, as in the results of Dey et al. (2024), "Deep discriminative to kernel
        density graph". These directions are denser near the diagonals.
    unit : {"feature", "max_norm"}, default="feature"
        Unit of the radii. "feature" is 1 in scaled features. "max_norm" is the largest L2 norm of
        the training rows, which may be large: for images with pixels in [0, 1] it can be a hundred.

    Notes
    -----
    The generator of a set depends on its radius, so adding or removing radii does not change the
    other sets.

    Examples
    --------
    >>> Sphere(radii=(1, 2), n=100).radii
    (1, 2)
    """

    radii: Sequence[NonNegative] = (0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5)
    draw: DirectionSampling = "uniform"
    unit: Literal["feature", "max_norm"] = "feature"

    def sets(self, splits: Splits, rng: np.random.Generator) -> Iterator[OodSet]:
        """Yield one set for each radius, with the radius in ``params``."""
        train, family = splits.learning, draw_seed(rng)
        unit = largest_norm(numeric_rows(train)) if self.unit == "max_norm" else 1.0
        for radius in map(float, self.radii):
            X = random_directions(
                self.n, count_numeric_features(train), set_generator(family, radius), self.draw
            )
            X *= unit * radius
            yield OodSet("sphere", match_training_rows(train, X, family), {"radius": radius})


@dataclass(eq=False, repr=False)
class Annulus(OodRows):
    """Rows that are uniform by volume between two spheres around the origin.

    One set replaces many radii. Original to kdgraph.

    Parameters
    ----------
    inner : float, default=2.0
        Radius of the inner sphere, in scaled features.
    outer : float, default=5.0
        Radius of the outer sphere, in scaled features.

    Examples
    --------
    >>> Annulus(inner=1.0, outer=3.0).outer
    3.0
    """

    inner: NonNegative = 2.0
    outer: Positive = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.inner < self.outer:
            raise ParameterError(f"inner must be less than outer = {self.outer}, got {self.inner}")

    def sets(self, splits: Splits, rng: np.random.Generator) -> list[OodSet]:
        train = splits.learning
        d = count_numeric_features(train)
        # The fraction of the volume within radius r is (r^d - inner^d) / (outer^d - inner^d). Its
        # inverse is computed relative to ``outer``, because 5^784 exceeds float64.
        hollow = (self.inner / self.outer) ** d
        radius = self.outer * (hollow + rng.random(self.n) * (1 - hollow)) ** (1 / d)
        X = radius[:, None] * random_directions(self.n, d, rng)
        return _single_set("annulus", train, X, rng, inner=self.inner, outer=self.outer)


@dataclass(eq=False, repr=False)
class Box(OodRows):
    """Rows that are uniform in the box [low, high]^d outside of a smaller box.

    The out-of-distribution region of Figure 1 of Dey et al. (2024), of any size.

    Parameters
    ----------
    low : float, default=-2.0
        Lower end of every feature, in scaled features.
    high : float, default=2.0
        Upper end of every feature, in scaled features.
    hole : sequence of 2 floats or None, default=(-1.0, 1.0)
        Ends of the smaller box that is left out. The default is the box of the simulations: the
        paper draws [-2, 2]² without [-1, 1]² as out of distribution.

    Examples
    --------
    >>> Box(hole=None).hole is None
    True
    """

    low: float = -2.0
    high: float = 2.0
    hole: Sequence[float] | None = (-1.0, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high, hole = self.low, self.high, self.hole
        if not low < high:
            raise ParameterError(f"low must be less than high = {high}, got {low}")
        if hole is not None and not (
            len(hole) == 2
            and low <= hole[0] < hole[1] <= high
            and hole[1] - hole[0] <= 0.99 * (high - low)
        ):
            rule = f"two increasing ends in [{low}, {high}] that leave 1 % of it free, or null"
            raise ParameterError(f"hole must be {rule}, got {list(hole)}")

    def sets(self, splits: Splits, rng: np.random.Generator) -> list[OodSet]:
        train = splits.learning
        X = rng.uniform(self.low, self.high, (self.n, count_numeric_features(train)))
        # Rejection sampling is exact, and most rows are accepted at once in many dimensions.
        in_hole = self._in_hole(X)
        while in_hole.any():
            X[in_hole] = rng.uniform(self.low, self.high, (in_hole.sum(), X.shape[1]))
            in_hole = self._in_hole(X)
        return _single_set("box", train, X, rng, low=self.low, high=self.high)

    def _in_hole(self, X: np.ndarray) -> np.ndarray:
        if self.hole is None:
            return np.zeros(len(X), dtype=bool)
        low, high = self.hole
        return np.all(np.clip(X, low, high) == X, axis=1)


@dataclass(eq=False, repr=False)
class GaussianNoise(OodRows):
    """Rows of independent Gaussian noise.

    The noise of Tree-based Ensemble Learning for Out-of-distribution Detection (TOOD), Section 5.1.

    Parameters
    ----------
    std : float, default=1.0
        Standard deviation, in scaled features or in standard deviations of the training rows.
    like : {"standard", "train"}, default="standard"
        "standard" is N(0, std²) in every feature. "train" has the mean of each training feature,
        and ``std`` times its standard deviation: the training distribution without the dependence
        of its features.
    clip : sequence of 2 floats or None, default=None
        Ends to which numbers are clipped, (0, 1) for pixels as in that paper's Appendix A. None
        does not clip.

    Examples
    --------
    >>> GaussianNoise(std=2.0, like="train").like
    'train'
    """

    std: Positive = 1.0
    like: Literal["standard", "train"] = "standard"
    clip: Sequence[float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        clip = self.clip
        if clip is not None and not (len(clip) == 2 and clip[0] < clip[1]):
            raise ParameterError(f"clip must be two increasing ends, or null, got {list(clip)}")

    def sets(self, splits: Splits, rng: np.random.Generator) -> list[OodSet]:
        train = splits.learning
        X = self.std * rng.normal(size=(self.n, count_numeric_features(train)))
        if self.like == "train":
            flat = numeric_rows(train)
            X = flat.mean(axis=0, dtype=np.float64) + X * flat.std(axis=0, dtype=np.float64)
        if self.clip is not None:
            low, high = map(float, self.clip)
            X = np.clip(X, low, high)
        return _single_set("gaussian", train, X, rng, std=self.std)


def random_directions(
    n: int, n_features: int, rng: np.random.Generator, draw: DirectionSampling = "uniform"
) -> np.ndarray:
    """Return ``n`` unit vectors, Float[n, d].

    They are normalised Gaussians (Muller, 1959), or normalised draws from the cube [-1, 1]^d.
    """
    shape = n, n_features
    X = rng.normal(size=shape) if draw == "uniform" else rng.uniform(-1, 1, shape)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X


_N_INTENSITIES = 256
"""Number of intensities of a pixel."""


@dataclass(eq=False, repr=False)
class UniformNoise(OodRows):
    """Rows of independent uniform noise, of the shape of the training rows.

    Notes
    -----
    For images, every pixel is an integer drawn uniformly from 0 to 255, divided by 255. This is the
    noise set of Dey et al. (2024), "Deep discriminative to kernel density graph", Tables 1 and 4
    (1,000 images of 3 × 32 × 32), in the shape of the training images. Images that are read as
    vectors are treated in the same way.

    For other vectors, every feature is drawn uniformly between its smallest and its largest value
    in the training rows. A category is drawn uniformly from the categories of the source. Each
    single value is possible in the data; only the combination is not.

    Examples
    --------
    >>> UniformNoise(n=100).n
    100
    """

    def sets(self, splits: Splits, rng: np.random.Generator) -> list[OodSet]:
        train = splits.learning
        shape = (self.n, *train.X.shape[1:])
        if train.are_images or "image_shape" in train.facts:
            X = rng.integers(0, _N_INTENSITIES, shape).astype(train.X.dtype)
            X /= _N_INTENSITIES - 1
            return [OodSet("noise", splits.scaling.apply(X))]
        return [OodSet("noise", _uniform_in_ranges(train, shape, rng))]


def _uniform_in_ranges(
    train: Dataset, shape: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    # Missing values (NaN) do not count. A feature that is missing in every row stays missing.
    low, high = np.fmin.reduce(train.X), np.fmax.reduce(train.X)
    X = low + (high - low) * rng.random(shape)
    for feature in np.flatnonzero(train.is_categorical):
        X[:, feature] = rng.integers(0, len(train.categories[feature] or ()), len(X))
    return X
