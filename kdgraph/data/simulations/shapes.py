"""Shapes: images of a circle or of a rectangle somewhere on black, and the canvas that such images
are painted on.

Point clouds whose first two features draw circles, lines or squares, and whose others are noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from kdgraph.data.simulations.plane import balanced_labels
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, NonNegative, Positive, Range, check_parameters

PixelIntensity = Annotated[float, Range(0, 255, "both")]
"""Of a pixel, of 255."""

_BLOCK_IMAGES = 32
"""Images of 100 × 100 pixels whose float64 coordinates stay in the cache (2.5 MB)."""


@dataclass(frozen=True)
class ShapeCanvas:
    """Where shapes are painted, one in each image, on black, as those of Dey et al. (2024), Section
    5.2.1.

    Attributes
    ----------
    size : pixels along each side; pixel i has its centre at i + 0.5.
    channels : all of them the same.
    rotated : whether each shape is turned by a random angle.
    inside : whether no shape is cut by the border.
    """

    size: int
    channels: int
    rotated: bool
    inside: bool

    def paint(
        self, half: np.ndarray, is_box: np.ndarray, intensity: float, rng: np.random.Generator
    ) -> np.ndarray:
        """Paint ellipses and rectangles at random places: Float32[n, channels, size, size] in [0,
        1].

        A pixel belongs to a shape if its centre does; there is no anti-aliasing. What is thinner
        than a pixel is painted a pixel wide.

        Parameters
        ----------
        half : Float[n, 2], half of the width and of the height, in pixels.
        is_box : Bool[n], which ones are rectangles; the others are ellipses.
        intensity : of all the shape's pixels, of 255.
        rng : places are uniform over the image, or where the whole shape fits.
        """
        half = np.maximum(half, 0.5)
        angle = rng.uniform(0, np.pi, len(half)) if self.rotated else np.zeros(len(half))
        axes = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        reach = self._border_distance(half, is_box, axes)
        centre = reach + rng.random(half.shape) * (self.size - 2 * reach)
        images = np.empty((len(half), self.channels, self.size, self.size), dtype=np.float32)
        for box in (False, True):
            painted = np.flatnonzero(is_box == box)
            for start in range(0, len(painted), _BLOCK_IMAGES):
                rows = painted[start : start + _BLOCK_IMAGES]
                images[rows] = self._covered_pixels(centre[rows], half[rows], axes[rows], box=box)[
                    :, None
                ] * np.float32(intensity / 255)
        return images

    def _border_distance(
        self, half: np.ndarray, is_box: np.ndarray, axes: np.ndarray
    ) -> np.ndarray:
        """How far from the border a centre must be: Float[n, 2]."""
        if not self.inside:
            return np.zeros(half.shape)
        along_x, along_y = np.abs(half * axes), np.abs(half * axes[:, ::-1])
        parts = np.stack([along_x, along_y], axis=1)
        reach = np.where(is_box[:, None], parts.sum(axis=2), np.hypot(parts[..., 0], parts[..., 1]))
        if (largest := 2 * reach.max(initial=0)) > self.size:
            what = f"a shape {largest:.4g} pixels wide does not fit into images of {self.size}"
            raise ParameterError(
                f"{what}; raise size, make the shape smaller, or set inside to false"
            )
        return reach

    def _covered_pixels(
        self, centre: np.ndarray, half: np.ndarray, axes: np.ndarray, *, box: bool
    ) -> np.ndarray:
        """Which pixels have their centre in the rectangle or ellipse: Bool[m, size, size], rows of
        pixels first.
        """
        at = np.arange(self.size) + 0.5
        dx, dy = (at - centre[:, :1])[:, None, :], (at - centre[:, 1:])[:, :, None]
        (a, b), (cos, sin) = half.T[..., None, None], axes.T[..., None, None]
        u, v = dx / a, dy / b
        # otherwise u is a row and v a column, and only their sum is a square: 4000 images take .1
        # s, not .6 s
        if self.rotated:
            u, v = cos * dx / a + sin * dy / a, cos * dy / b - sin * dx / b
        return (np.abs(u) <= 1) & (np.abs(v) <= 1) if box else u**2 + v**2 <= 1


class Shapes:
    """Images of a grey circle (class "circle") or a grey rectangle (class "rectangle") at a random
    place on black.

    Dey et al. (2024), "Deep discriminative to kernel density graph", Section 5.2.1, Figure 3. The
    classes have names, not numbers, so that records, predictions and pictures say which is which.

    Parameters
    ----------
    size : pixels along each side of an image.
    channels : colours, all of the same intensity.
    radius : of a circle, in pixels.
    sides : width and height of a rectangle, in pixels.
    intensity : of the shape's pixels, of 255.
    rotated : turn each rectangle by a random angle; the paper says nothing of angles, and its
    picture has none.
    inside : keep shapes whole: centres are uniform where the shape fits. False is the paper's text,
        centres uniform over the image.

    Notes
    -----
    The text has centres "randomly sampled within a square with sides 100", which is the image, and
    does not say what becomes of shapes that leave it. If they were cut, 60 % of the rectangles
    would not have the sides that the text gives them, and 36 % of the circles would not be circles;
    and as a cut shape is one with shorter axes, the border would vary by itself, in training too,
    what ellipses out of distribution are there to vary
    (:class:`kdgraph.data.ood.shifts.ShapeShifts`). So shapes are whole by default. Either way
    the class can be seen in every image, so that the best possible error is 0: with the default
    sizes what is left of a cut rectangle is at least 25 pixels wide, and a circle at most 20.

    P(y|x) is 0 or 1 on these images and not defined on any other, so there is no posterior.

    >>> X, y = Shapes(size=60).sample(2, np.random.default_rng(0))
    >>> X.shape, X.dtype.name, (255 * np.unique(X)).tolist(), sorted((X[:, 0] > 0).sum(axis=(1, 2)).tolist())
    ((2, 3, 60, 60), 'float32', [0.0, 127.0], [311, 1000])
    """

    name = "shapes"

    def __init__(
        self,
        size: Count = 100,
        channels: Count = 3,
        radius: Positive = 10.0,
        sides: Sequence[Positive] = (50.0, 20.0),
        intensity: PixelIntensity = 127.0,
        rotated: bool = False,
        inside: bool = True,
    ) -> None:
        self.size = size
        self.channels = channels
        self.radius = radius
        self.sides = sides
        self.intensity = intensity
        self.rotated = rotated
        self.inside = inside
        check_parameters(self)
        if len(sides) != 2:
            raise ParameterError(f"sides must be a width and a height, got {list(sides)}")
        self.classes = np.array(["circle", "rectangle"])
        self.feature_names: tuple[str, ...] = ()

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw ``n`` images in random order, as many of each class as ``n`` allows.

        Returns
        -------
        X : Float32[n, channels, size, size] in [0, 1]
        y : Int[n], positions in ``classes``
        """
        y = balanced_labels(n, 2, rng)
        canvas = ShapeCanvas(self.size, self.channels, self.rotated, self.inside)
        return (
            canvas.paint(half_axes(y == 1, self.radius, self.sides), y == 1, self.intensity, rng),
            y,
        )


def half_axes(is_box: np.ndarray, radius: float, sides: Sequence[float]) -> np.ndarray:
    """Half of the width and height of a rectangle where ``is_box``, Bool[n], else the radius twice:
    Float[n, 2] (Section 5.2.1).
    """
    return np.where(is_box[:, None], np.array(sides) / 2, radius)


CloudShape = Literal["circles", "lines", "squares"]
"""Two of each, one a class: circles of radius 1 and ½, the diagonals of a square, squares with
sides of 2 and 1.
"""
_SHAPE_SIZES = np.array([1.0, 0.5])
"""Of the circles and squares of class 0 and class 1: radius, and half of a side."""


class PointCloud:
    """Points along two shapes of a kind in the plane, and uniform noise in [-1, 1] in every further
    dimension.

    The clouds of Tree-based Ensemble Learning for Out-of-distribution Detection (TOOD), Figures 6
    and 7, of which the paper gives the names and that "two dimensional projections look like" them;
    sizes, noise and classes are ours.

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

    def __init__(
        self, shape: CloudShape, n_dims: Annotated[int, Range(2)] = 2, noise_std: NonNegative = 0.05
    ) -> None:
        self.shape: CloudShape = shape
        self.n_dims = n_dims
        self.noise_std = noise_std
        check_parameters(self)
        self.name = f"cloud_{shape}"
        self.feature_names = tuple(f"x{i + 1}" for i in range(n_dims))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw ``n`` rows in random order, as many of each class as ``n`` allows. X: Float[n, d],
        y: Int[n].
        """
        y = balanced_labels(n, 2, rng)
        plane = _OUTLINE_SAMPLERS[self.shape](y, rng) + rng.normal(0, self.noise_std, (n, 2))
        return np.hstack([plane, rng.uniform(-1, 1, (n, self.n_dims - 2))]), y


def _sample_circles(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    angle = rng.uniform(0, 2 * np.pi, len(y))
    return _SHAPE_SIZES[y, None] * np.column_stack([np.cos(angle), np.sin(angle)])


def _sample_lines(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    along = rng.uniform(-1, 1, len(y))
    return np.column_stack([along, np.where(y == 0, along, -along)])


def _sample_squares(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A point of one side, and which of the four it is."""
    along, end, upright = (
        rng.uniform(-1, 1, len(y)),
        rng.choice([-1.0, 1.0], len(y)),
        rng.random(len(y)) < 0.5,
    )
    side = np.column_stack([along, end])
    return _SHAPE_SIZES[y, None] * np.where(upright[:, None], side[:, ::-1], side)


_OUTLINE_SAMPLERS = {"circles": _sample_circles, "lines": _sample_lines, "squares": _sample_squares}
"""Shape → (Int[n] of classes, generator) → Float[n, 2] of points on it, uniform in the angle or
along the line.
"""
