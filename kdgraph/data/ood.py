"""Rows that are not from the training distribution: spheres, shells, boxes and noise around the origin of the scaled features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from kdgraph.data.dataset import Dataset, OodSet
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, NonNegative, Positive, check_parameters

Draw = Literal["uniform", "cube"]


class Sphere:
    """Rows at exact distances from the origin, one set for each radius.

    Parameters
    ----------
    radii : distances from the origin, in scaled features. After ``max_norm`` scaling the training rows lie within 1.
    n : rows of each set.
    draw : "uniform" draws directions uniformly, as normalised Gaussians. "cube" normalises uniform draws from [-1, 1]^d, as the results of
        Dey et al., "Deep discriminative to kernel density graph", were made; these crowd towards the diagonals.

    Notes
    -----
    A set's generator is made from the radius itself, so that radii can be added or left out without a change to the other sets.
    """

    def __init__(
        self,
        radii: Sequence[NonNegative] = (0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5),
        n: Count = 1000,
        draw: Draw = "uniform",
    ) -> None:
        self.radii = radii
        self.n = n
        self.draw: Draw = draw
        check_parameters(self)

    def sets(self, train: Dataset, rng: np.random.Generator) -> list[OodSet]:
        """One set for each radius, with as many features as ``train``; its ``params`` give the radius."""
        family = int(rng.integers(2**63))
        return [OodSet("sphere", self._rows(float(r), train.X.shape[1], family), {"radius": float(r)}) for r in self.radii]

    def _rows(self, radius: float, n_features: int, family: int) -> np.ndarray:
        own = np.random.default_rng([family, int(np.float64(radius).view(np.uint64))])
        return radius * directions(self.n, n_features, own, self.draw)


class Annulus:
    """Rows uniform by volume between two spheres around the origin.

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

    def sets(self, train: Dataset, rng: np.random.Generator) -> list[OodSet]:
        """One set with as many features as ``train``.

        The share of the volume within radius r is (r^d - inner^d) / (outer^d - inner^d); its inverse is taken relative to ``outer``,
        because 5^784 is beyond float64.
        """
        d = train.X.shape[1]
        hollow = (self.inner / self.outer) ** d
        radius = self.outer * (hollow + rng.random(self.n) * (1 - hollow)) ** (1 / d)
        X = radius[:, None] * directions(self.n, d, rng)
        return [OodSet("annulus", X, {"inner": float(self.inner), "outer": float(self.outer)})]


class Box:
    """Rows uniform in the box [low, high]^d, outside of a box in it where training data may be.

    Parameters
    ----------
    low, high : ends of every feature, in scaled features.
    hole : ends of the box that is left out, or None. The default leaves out where the simulations live: [-2, 2]² without [-1, 1]² is the
        region that Dey et al., "Deep discriminative to kernel density graph", draw as out of distribution.
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

    def sets(self, train: Dataset, rng: np.random.Generator) -> list[OodSet]:
        """One set with as many features as ``train``; rows in the hole are drawn again."""
        X = rng.uniform(self.low, self.high, (self.n, train.X.shape[1]))
        again = self._in_hole(X)
        while again.any():
            X[again] = rng.uniform(self.low, self.high, (again.sum(), X.shape[1]))
            again = self._in_hole(X)
        return [OodSet("box", X, {"low": float(self.low), "high": float(self.high)})]

    def _in_hole(self, X: np.ndarray) -> np.ndarray:
        if self.hole is None:
            return np.zeros(len(X), dtype=bool)
        low, high = self.hole
        return np.all(np.clip(X, low, high) == X, axis=1)


class GaussianNoise:
    """Rows of independent Gaussian noise.

    Parameters
    ----------
    std : standard deviation, in scaled features or in standard deviations of the training rows.
    like : "standard" is N(0, std²) in every feature. "train" has each training feature's mean, and ``std`` times its standard deviation:
        what is left of the data when the dependence of its features is lost.
    n : rows.
    """

    def __init__(self, std: Positive = 1.0, like: Literal["standard", "train"] = "standard", n: Count = 1000) -> None:
        self.std = std
        self.like = like
        self.n = n
        check_parameters(self)

    def sets(self, train: Dataset, rng: np.random.Generator) -> list[OodSet]:
        """One set with as many features as ``train``."""
        X = self.std * rng.normal(size=(self.n, train.X.shape[1]))
        if self.like == "train":
            X = train.X.mean(axis=0) + X * train.X.std(axis=0)
        return [OodSet("gaussian", X, {"std": float(self.std)})]


def directions(n: int, n_features: int, rng: np.random.Generator, draw: Draw = "uniform") -> np.ndarray:
    """``n`` unit vectors, Float[n, d]: normalised Gaussians, or normalised draws from the cube [-1, 1]^d."""
    X = rng.normal(size=(n, n_features)) if draw == "uniform" else rng.uniform(-1, 1, (n, n_features))
    return X / np.linalg.norm(X, axis=1, keepdims=True)
