"""Rows like the training rows: of their shape and type, numbers apart from categories, from
generators that do not depend on each other.

Rows that are not from the training distribution: spheres, shells, boxes and noise around the origin
of the scaled features.

They work on vectors and on images, which are then vectors of pixels. Where features are
categorical, the numeric ones move, and the categories of each row are those of a training row drawn
at random.

Rows of noise that says nothing: images of independent pixels, vectors that fill the box of the
training rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from kdgraph.data.dataset import Dataset, OodSet, Splits
from kdgraph.errors import DataError, ParameterError
from kdgraph.parameters import Count, NonNegative, Positive, check_parameters


def count_numeric_features(train: Dataset) -> int:
    """Numbers in a row: of an image, its pixels times its channels; categories are none."""
    n = math.prod(train.X.shape[1:]) - int(train.is_categorical.sum())
    if not n:
        raise DataError(
            f"{train.name} has no numeric feature, and these rows out of distribution are points in"
            " space; give ood=none"
        )
    return n


def numeric_rows(train: Dataset) -> np.ndarray:
    """Float[n, d]: the training rows as flat vectors, without categories; a missing value is its
    feature's mean.
    """
    if not train.needs_encoding:
        return train.X.reshape(len(train.X), -1)
    X = train.X[:, ~train.is_categorical]
    known = ~np.isnan(X)
    mean = np.where(known, X, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.where(known, X, mean)


def match_training_rows(train: Dataset, X: np.ndarray, seed: int) -> np.ndarray:
    """Rows X: Float64[n, d] of numbers as rows of the shape and type of ``train``'s; what an image
    cannot hold is not cut off.

    ``seed`` decides from which training rows categories are taken.
    """
    if train.are_images:
        return X.reshape(len(X), *train.X.shape[1:]).astype(train.X.dtype, copy=False)
    if not train.is_categorical.any():
        return X
    rows = train.X[np.random.default_rng(seed).integers(len(train.X), size=len(X))]
    rows[:, ~train.is_categorical] = X
    return rows


def draw_seed(rng: np.random.Generator) -> int:
    """Another generator's seed."""
    return int(rng.integers(2**63))


def set_generator(family: int, value: float, *more: int) -> np.random.Generator:
    """The generator of one set of a family: made from its value, not from its place among the
    others.
    """
    return np.random.default_rng([family, *more, int(np.float64(value).view(np.uint64))])


def largest_norm(X: np.ndarray, rows_at_a_time: int = 256) -> float:
    """The largest L2 norm of the rows of X: Float[n, …], in float64, some rows at a time: images
    are held in float32.
    """
    flat = X.reshape(len(X), -1)
    blocks = (
        flat[start : start + rows_at_a_time].astype(np.float64)
        for start in range(0, len(flat), rows_at_a_time)
    )
    return max(float(np.linalg.norm(block, axis=1).max()) for block in blocks)


DirectionSampling = Literal["uniform", "cube"]


class Sphere:
    """Rows at exact distances from the origin, one set for each radius: Figure 1 of Dey et al.
    (2024), in any dimension.

    Parameters
    ----------
    radii : distances from the origin, in scaled features. After ``max_norm`` scaling the training
    rows lie within 1.
    n : rows of each set.
    draw : "uniform" draws directions uniformly, as normalised Gaussians. "cube" normalises uniform
        draws from [-1, 1]^d, as the results of Dey et al. (2024), "Deep discriminative to kernel
        density graph", were made; these crowd towards the diagonals.
    unit : what a radius of 1 is. "feature" is 1 in scaled features. "max_norm" is the largest L2
        norm of the training rows, within which they lie whatever their scale: that of an image,
        whose pixels are in [0, 1], can be a hundred.

    Notes
    -----
    A set's generator is made from the radius itself, so that radii can be added or left out without
    a change to the other sets.
    """

    def __init__(
        self,
        radii: Sequence[NonNegative] = (0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5),
        n: Count = 1000,
        draw: DirectionSampling = "uniform",
        unit: Literal["feature", "max_norm"] = "feature",
    ) -> None:
        self.radii = radii
        self.n = n
        self.draw: DirectionSampling = draw
        self.unit = unit
        check_parameters(self)

    def sets(self, splits: Splits, rng: np.random.Generator) -> Iterator[OodSet]:
        """One set for each radius, with rows like the training rows, drawn when it is asked for;
        its ``params`` give the radius.
        """
        train = splits.train
        family = int(rng.integers(2**63))
        unit = largest_norm(numeric_rows(train)) if self.unit == "max_norm" else 1.0
        for radius in map(float, self.radii):
            X = random_directions(
                self.n, count_numeric_features(train), set_generator(family, radius), self.draw
            )
            X *= unit * radius
            yield OodSet("sphere", match_training_rows(train, X, family), {"radius": radius})


class Annulus:
    """Rows uniform by volume between two spheres around the origin. Ours: one set in place of many
    radii.

    Parameters
    ----------
    inner, outer : radii of the two spheres, in scaled features.
    n : rows.
    """

    def __init__(self, inner: NonNegative = 2.0, outer: Positive = 5.0, n: Count = 1000) -> None:
        self.inner = inner
        self.outer = outer
        self.n = n
        check_parameters(self)
        if not inner < outer:
            raise ParameterError(f"inner must be less than outer = {outer}, got {inner}")

    def sets(self, splits: Splits, rng: np.random.Generator) -> list[OodSet]:
        """One set with rows like the training rows.

        The share of the volume within radius r is (r^d - inner^d) / (outer^d - inner^d); its
        inverse is taken relative to ``outer``, because 5^784 is beyond float64.
        """
        train = splits.train
        d = count_numeric_features(train)
        hollow = (self.inner / self.outer) ** d
        radius = self.outer * (hollow + rng.random(self.n) * (1 - hollow)) ** (1 / d)
        X = radius[:, None] * random_directions(self.n, d, rng)
        return [
            OodSet(
                "annulus",
                match_training_rows(train, X, draw_seed(rng)),
                {"inner": float(self.inner), "outer": float(self.outer)},
            )
        ]


class Box:
    """Rows uniform in the box [low, high]^d, outside of a box in it where training data may be:
    Figure 1 of Dey et al. (2024), of any size.

    Parameters
    ----------
    low, high : ends of every feature, in scaled features.
    hole : ends of the box that is left out, or None. The default leaves out where the simulations
        live: [-2, 2]² without [-1, 1]² is the region that the paper draws as out of distribution.
    n : rows.
    """

    def __init__(
        self,
        low: float = -2.0,
        high: float = 2.0,
        hole: Sequence[float] | None = (-1.0, 1.0),
        n: Count = 1000,
    ) -> None:
        self.low = low
        self.high = high
        self.hole = hole
        self.n = n
        check_parameters(self)
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
        """One set with rows like the training rows; rows in the hole are drawn again."""
        train = splits.train
        X = rng.uniform(self.low, self.high, (self.n, count_numeric_features(train)))
        again = self._in_hole(X)
        while again.any():
            X[again] = rng.uniform(self.low, self.high, (again.sum(), X.shape[1]))
            again = self._in_hole(X)
        return [
            OodSet(
                "box",
                match_training_rows(train, X, draw_seed(rng)),
                {"low": float(self.low), "high": float(self.high)},
            )
        ]

    def _in_hole(self, X: np.ndarray) -> np.ndarray:
        if self.hole is None:
            return np.zeros(len(X), dtype=bool)
        low, high = self.hole
        return np.all(np.clip(X, low, high) == X, axis=1)


class GaussianNoise:
    """Rows of independent Gaussian noise, as in Tree-based Ensemble Learning for
    Out-of-distribution Detection (TOOD), Section 5.1.

    Parameters
    ----------
    std : standard deviation, in scaled features or in standard deviations of the training rows.
    like : "standard" is N(0, std²) in every feature. "train" has each training feature's mean, and
        ``std`` times its standard deviation: what is left of the data when the dependence of its
        features is lost.
    n : rows.
    clip : ends that numbers beyond are set to, (0, 1) for pixels as in that paper's Appendix A;
        None: nothing is cut off.
    """

    def __init__(
        self,
        std: Positive = 1.0,
        like: Literal["standard", "train"] = "standard",
        n: Count = 1000,
        clip: Sequence[float] | None = None,
    ) -> None:
        self.std = std
        self.like = like
        self.n = n
        self.clip = clip
        check_parameters(self)
        if clip is not None and not (len(clip) == 2 and clip[0] < clip[1]):
            raise ParameterError(f"clip must be two increasing ends, or null, got {list(clip)}")

    def sets(self, splits: Splits, rng: np.random.Generator) -> list[OodSet]:
        """One set with rows like the training rows."""
        train = splits.train
        X = self.std * rng.normal(size=(self.n, count_numeric_features(train)))
        if self.like == "train":
            flat = numeric_rows(train)
            X = flat.mean(axis=0, dtype=np.float64) + X * flat.std(axis=0, dtype=np.float64)
        if self.clip is not None:
            low, high = map(float, self.clip)
            X = np.clip(X, low, high)
        return [
            OodSet(
                "gaussian", match_training_rows(train, X, draw_seed(rng)), {"std": float(self.std)}
            )
        ]


def random_directions(
    n: int, n_features: int, rng: np.random.Generator, draw: DirectionSampling = "uniform"
) -> np.ndarray:
    """``n`` unit vectors, Float[n, d]: normalised Gaussians (Muller, 1959), or normalised draws
    from the cube [-1, 1]^d.
    """
    X = (
        rng.normal(size=(n, n_features))
        if draw == "uniform"
        else rng.uniform(-1, 1, (n, n_features))
    )
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X


_N_INTENSITIES = 256
"""Intensities that a pixel can have."""


class UniformNoise:
    """Rows of independent uniform noise, of the shape of the training rows.

    Parameters
    ----------
    n : rows.

    Notes
    -----
    Of images, every pixel is an integer drawn uniformly from 0 to 255, divided by 255: the noise
    set of Dey et al. (2024), "Deep discriminative to kernel density graph", Tables 1 and 4 (1,000
    images of 3 × 32 × 32), in the shape of the training images. So are the vectors of a data set of
    images that is read as vectors.

    Of other vectors, every feature is drawn uniformly between the smallest and the largest value
    that it has in the training rows, and a category uniformly among those that the source names.
    Each value alone is one that the data could have; only their combination is not.
    """

    def __init__(self, n: Count = 1000) -> None:
        self.n = n
        check_parameters(self)

    def sets(self, splits: Splits, rng: np.random.Generator) -> list[OodSet]:
        """One set with rows like the training rows."""
        train = splits.train
        shape = (self.n, *train.X.shape[1:])
        if train.are_images or "image_shape" in train.facts:
            X = rng.integers(0, _N_INTENSITIES, shape).astype(train.X.dtype)
            X /= _N_INTENSITIES - 1
            return [OodSet("noise", splits.scaling.apply(X))]
        return [OodSet("noise", _uniform_in_ranges(train, shape, rng))]


def _uniform_in_ranges(
    train: Dataset, shape: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """Float64[n, d]: uniform between the ends of each feature; NaN, a missing value, is no end."""
    low, high = (
        np.fmin.reduce(train.X),
        np.fmax.reduce(train.X),
    )  # a feature that is missing in every row stays so
    X = low + (high - low) * rng.random(shape)
    for feature in np.flatnonzero(train.is_categorical):
        X[:, feature] = rng.integers(0, len(train.categories[feature] or ()), len(X))
    return X
