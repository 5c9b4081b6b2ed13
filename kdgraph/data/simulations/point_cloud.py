"""Point clouds whose first two features draw circles, lines or squares, and whose others are noise."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from kdgraph.data.simulations.plane import balanced_labels
from kdgraph.parameters import NonNegative, Range, check_parameters

Drawn = Literal["circles", "lines", "squares"]
"""Two of each, one a class: circles of radius 1 and ½, the diagonals of a square, squares with sides of 2 and 1."""
SIZES = np.array([1.0, 0.5])
"""Of the circles and squares of class 0 and class 1: radius, and half of a side."""


class PointCloud:
    """Points along two shapes of a kind in the plane, and uniform noise in [-1, 1] in every further dimension.

    The clouds of Tree-based Ensemble Learning for Out-of-distribution Detection (TOOD), Figures 6 and 7, of which the paper gives the
    names and that "two dimensional projections look like" them; sizes, noise and classes are ours.

    Parameters
    ----------
    shape : see :data:`Drawn`.
    n_dims : features d; the shape is in the first two.
    noise_std : standard deviation of Gaussian noise on each axis of the shape.

    Examples
    --------
    >>> X, y = PointCloud("circles", n_dims=3, noise_std=0.0).sample(4, np.random.default_rng(0))
    >>> X.shape, y.tolist(), np.hypot(X[:, 0], X[:, 1]).round(3).tolist()
    ((4, 3), [1, 1, 0, 0], [0.5, 0.5, 1.0, 1.0])
    """

    classes = np.arange(2)

    def __init__(self, shape: Drawn, n_dims: Annotated[int, Range(2)] = 2, noise_std: NonNegative = 0.05) -> None:
        self.shape: Drawn = shape
        self.n_dims = n_dims
        self.noise_std = noise_std
        check_parameters(self)
        self.name = f"cloud_{shape}"
        self.feature_names = tuple(f"x{i + 1}" for i in range(n_dims))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw ``n`` rows in random order, as many of each class as ``n`` allows. X: Float[n, d], y: Int[n]."""
        y = balanced_labels(n, 2, rng)
        plane = OUTLINES[self.shape](y, rng) + rng.normal(0, self.noise_std, (n, 2))
        return np.hstack([plane, rng.uniform(-1, 1, (n, self.n_dims - 2))]), y


def _circles(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    angle = rng.uniform(0, 2 * np.pi, len(y))
    return SIZES[y, None] * np.column_stack([np.cos(angle), np.sin(angle)])


def _lines(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    along = rng.uniform(-1, 1, len(y))
    return np.column_stack([along, np.where(y == 0, along, -along)])


def _squares(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A point of one side, and which of the four it is."""
    along, end, upright = rng.uniform(-1, 1, len(y)), rng.choice([-1.0, 1.0], len(y)), rng.random(len(y)) < 0.5
    side = np.column_stack([along, end])
    return SIZES[y, None] * np.where(upright[:, None], side[:, ::-1], side)


OUTLINES = {"circles": _circles, "lines": _lines, "squares": _squares}
"""Shape → (Int[n] of classes, generator) → Float[n, 2] of points on it, uniform in the angle or along the line."""
