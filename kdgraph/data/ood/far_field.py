"""Rows that are not from the training distribution: spheres, shells, boxes and noise around the origin of the scaled features.

They work on vectors and on images, which are then vectors of pixels. Where features are categorical, the numeric ones move, and the
categories of each row are those of a training row drawn at random.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from kdgraph.data.dataset import OodSet, Splits
from kdgraph.data.ood.rows import a_seed, generator_of, largest_norm, like_rows_of, n_features_of, numbers_of
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, NonNegative, Positive, check_parameters

Draw = Literal["uniform", "cube"]


class Sphere:
    """Rows at exact distances from the origin, one set for each radius: Figure 1 of Dey et al. (2024), in any dimension.

    Parameters
    ----------
    radii : distances from the origin, in scaled features. After ``max_norm`` scaling the training rows lie within 1.
    n : rows of each set.
    draw : "uniform" draws directions uniformly, as normalised Gaussians. "cube" normalises uniform draws from [-1, 1]^d, as the results of
        Dey et al. (2024), "Deep discriminative to kernel density graph", were made; these crowd towards the diagonals.
    unit : what a radius of 1 is. "feature" is 1 in scaled features. "max_norm" is the largest L2 norm of the training rows, within which
        they lie whatever their scale: that of an image, whose pixels are in [0, 1], can be a hundred.

    Notes
    -----
    A set's generator is made from the radius itself, so that radii can be added or left out without a change to the other sets.
    """

    def __init__(
        self,
        radii: Sequence[NonNegative] = (0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5),
        n: Count = 1000,
        draw: Draw = "uniform",
        unit: Literal["feature", "max_norm"] = "feature",
    ) -> None:
        self.radii = radii
        self.n = n
        self.draw: Draw = draw
        self.unit = unit
        check_parameters(self)

    def sets(self, splits: Splits, rng: np.random.Generator) -> Iterator[OodSet]:
        """One set for each radius, with rows like the training rows, drawn when it is asked for; its ``params`` give the radius."""
        train = splits.train
        family = int(rng.integers(2**63))
        unit = largest_norm(numbers_of(train)) if self.unit == "max_norm" else 1.0
        for radius in map(float, self.radii):
            X = directions(self.n, n_features_of(train), generator_of(family, radius), self.draw)
            X *= unit * radius
            yield OodSet("sphere", like_rows_of(train, X, family), {"radius": radius})


class Annulus:
    """Rows uniform by volume between two spheres around the origin. Ours: one set in place of many radii.

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

        The share of the volume within radius r is (r^d - inner^d) / (outer^d - inner^d); its inverse is taken relative to ``outer``,
        because 5^784 is beyond float64.
        """
        train = splits.train
        d = n_features_of(train)
        hollow = (self.inner / self.outer) ** d
        radius = self.outer * (hollow + rng.random(self.n) * (1 - hollow)) ** (1 / d)
        X = radius[:, None] * directions(self.n, d, rng)
        return [OodSet("annulus", like_rows_of(train, X, a_seed(rng)), {"inner": float(self.inner), "outer": float(self.outer)})]


class Box:
    """Rows uniform in the box [low, high]^d, outside of a box in it where training data may be: Figure 1 of Dey et al. (2024), of any size.

    Parameters
    ----------
    low, high : ends of every feature, in scaled features.
    hole : ends of the box that is left out, or None. The default leaves out where the simulations live: [-2, 2]² without [-1, 1]² is the
        region that the paper draws as out of distribution.
    n : rows.
    """

    def __init__(self, low: float = -2.0, high: float = 2.0, hole: Sequence[float] | None = (-1.0, 1.0), n: Count = 1000) -> None:
        self.low = low
        self.high = high
        self.hole = hole
        self.n = n
        check_parameters(self)
        if not low < high:
            raise ParameterError(f"low must be less than high = {high}, got {low}")
        if hole is not None and not (len(hole) == 2 and low <= hole[0] < hole[1] <= high and hole[1] - hole[0] <= 0.99 * (high - low)):
            rule = f"two increasing ends in [{low}, {high}] that leave 1 % of it free, or null"
            raise ParameterError(f"hole must be {rule}, got {list(hole)}")

    def sets(self, splits: Splits, rng: np.random.Generator) -> list[OodSet]:
        """One set with rows like the training rows; rows in the hole are drawn again."""
        train = splits.train
        X = rng.uniform(self.low, self.high, (self.n, n_features_of(train)))
        again = self._in_hole(X)
        while again.any():
            X[again] = rng.uniform(self.low, self.high, (again.sum(), X.shape[1]))
            again = self._in_hole(X)
        return [OodSet("box", like_rows_of(train, X, a_seed(rng)), {"low": float(self.low), "high": float(self.high)})]

    def _in_hole(self, X: np.ndarray) -> np.ndarray:
        if self.hole is None:
            return np.zeros(len(X), dtype=bool)
        low, high = self.hole
        return np.all(np.clip(X, low, high) == X, axis=1)


class GaussianNoise:
    """Rows of independent Gaussian noise, as in Tree-based Ensemble Learning for Out-of-distribution Detection (TOOD), Section 5.1.

    Parameters
    ----------
    std : standard deviation, in scaled features or in standard deviations of the training rows.
    like : "standard" is N(0, std²) in every feature. "train" has each training feature's mean, and ``std`` times its standard deviation:
        what is left of the data when the dependence of its features is lost.
    n : rows.
    clip : ends that numbers beyond are set to, (0, 1) for pixels as in that paper's Appendix A; None: nothing is cut off.
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
        X = self.std * rng.normal(size=(self.n, n_features_of(train)))
        if self.like == "train":
            flat = numbers_of(train)
            X = flat.mean(axis=0, dtype=np.float64) + X * flat.std(axis=0, dtype=np.float64)
        if self.clip is not None:
            low, high = map(float, self.clip)
            X = np.clip(X, low, high)
        return [OodSet("gaussian", like_rows_of(train, X, a_seed(rng)), {"std": float(self.std)})]


def directions(n: int, n_features: int, rng: np.random.Generator, draw: Draw = "uniform") -> np.ndarray:
    """``n`` unit vectors, Float[n, d]: normalised Gaussians (Muller, 1959), or normalised draws from the cube [-1, 1]^d."""
    X = rng.normal(size=(n, n_features)) if draw == "uniform" else rng.uniform(-1, 1, (n, n_features))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X
