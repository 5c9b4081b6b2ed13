"""Simulations of geometric shapes, as images and as clouds of points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np

from kdgraph.data.simulations.base import ClassSimulation
from kdgraph.data.simulations.plane import balanced_labels
from kdgraph.data.source import Source, numbered_names
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, NonNegative, Positive, Range

PixelIntensity = Annotated[float, Range(0, 255, "both")]
"""Intensity of a pixel, from 0 to 255."""

_BLOCK_IMAGES = 32
"""Number of images that are painted at once.

The float64 coordinates of 32 images of 100 × 100 pixels stay in the cache (2.5 MB).
"""


@dataclass(frozen=True)
class ShapeCanvas:
    """A canvas for images of one shape on a black background (Dey et al. 2024, Section 5.2.1).

    ``size`` is the number of pixels along each side; pixel i has its centre at i + 0.5. All
    ``channels`` are equal. Shapes may be ``rotated`` by random angles, and if they are ``inside``,
    the border never cuts one.
    """

    size: int
    channels: int
    rotated: bool
    inside: bool

    def paint(
        self, half: np.ndarray, is_box: np.ndarray, intensity: float, rng: np.random.Generator
    ) -> np.ndarray:
        """Return images, Float32[n, channels, size, size], of ellipses and rectangles.

        Places are uniform over the image, or over those where the whole shape fits. A pixel belongs
        to a shape if its centre does. There is no anti-aliasing. A shape thinner than a pixel is
        painted one pixel wide. ``half`` has half of the width and of the height in pixels,
        Float[n, 2], ``is_box`` is True for rectangles, and ``intensity`` goes from 0 to 255.
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
        """Return the smallest distance of each centre from the border: Float[n, 2]."""
        if not self.inside:
            return np.zeros(half.shape)
        along_x, along_y = np.abs(half * axes), np.abs(half * axes[:, ::-1])
        parts = np.stack([along_x, along_y], axis=1)
        reach = np.where(is_box[:, None], parts.sum(axis=2), np.hypot(parts[..., 0], parts[..., 1]))
        if (largest := 2 * reach.max(initial=0)) > self.size:
            problem = f"a shape {largest:.4g} pixels wide does not fit into images of {self.size}"
            raise ParameterError(
                f"{problem}; raise size, make the shape smaller, or set inside to false"
            )
        return reach

    def _covered_pixels(
        self, centre: np.ndarray, half: np.ndarray, axes: np.ndarray, *, box: bool
    ) -> np.ndarray:
        """Return which pixels have their centre in the shape: Bool[m, size, size]."""
        pixel_centres = np.arange(self.size) + 0.5
        dx = (pixel_centres - centre[:, :1])[:, None, :]
        dy = (pixel_centres - centre[:, 1:])[:, :, None]
        (a, b), (cos, sin) = half.T[..., None, None], axes.T[..., None, None]
        u, v = dx / a, dy / b
        # Without rotation u stays a row and v a column, and only their sum has the full size:
        # 4000 images take 0.1 s instead of 0.6 s.
        if self.rotated:
            u, v = cos * dx / a + sin * dy / a, cos * dy / b - sin * dx / b
        return (np.abs(u) <= 1) & (np.abs(v) <= 1) if box else u**2 + v**2 <= 1


@dataclass(eq=False, repr=False)
class ShapeSource(Source):
    """Source of images of circles and rectangles (Dey et al. 2024, Section 5.2.1).

    Parameters
    ----------
    radius : float, default=10.0
        Radius of a circle, in pixels.
    sides : sequence of 2 floats, default=(50.0, 20.0)
        Width and height of a rectangle, in pixels.
    intensity : float, default=127.0
        Intensity of the pixels of the shape, from 0 to 255.
    rotated : bool, default=False
        If True, each rectangle is turned by a random angle. The paper does not mention angles, and
        its figure has none.
    inside : bool, default=True
        If True, centres are uniform where the whole shape fits. If False, they are uniform over the
        image, as in the paper's text.
    """

    radius: Positive = field(default=10.0, kw_only=True)
    sides: Sequence[Positive] = field(default=(50.0, 20.0), kw_only=True)
    intensity: PixelIntensity = field(default=127.0, kw_only=True)
    rotated: bool = field(default=False, kw_only=True)
    inside: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.sides) != 2:
            raise ParameterError(f"sides must be a width and a height, got {list(self.sides)}")

    def _canvas(self, size: int, channels: int) -> ShapeCanvas:
        return ShapeCanvas(size, channels, self.rotated, self.inside)

    def _half_axes(self, is_box: np.ndarray) -> np.ndarray:
        """Return half of the width and height of each rectangle (Bool[n]) or circle, [n, 2]."""
        return np.where(is_box[:, None], np.array(self.sides) / 2, self.radius)


@dataclass(eq=False, repr=False)
class Shapes(ShapeSource, ClassSimulation):
    """Images of a grey circle or a grey rectangle at a random place on a black background.

    Dey et al. (2024), "Deep discriminative to kernel density graph", Section 5.2.1, Figure 3. The
    classes are named "circle" and "rectangle", so that records and figures are easy to read.

    Parameters
    ----------
    size : int, default=100
        Number of pixels along each side of an image.
    channels : int, default=3
        Number of channels, all with the same intensity.

    Notes
    -----
    The text has centres "randomly sampled within a square with sides 100", which is the image. It
    does not state what happens to shapes that cross the border. If the border cut them, 60 % of the
    rectangles would have other sides than those of the text, and 36 % of the circles would not be
    circles. A cut shape is like a shape with shorter axes. So the border would vary the axes in the
    training images too, and these axes are what the out-of-distribution ellipses are meant to vary
    (:class:`kdgraph.data.ood.shifts.ShapeShifts`). Therefore shapes are whole by default. In both
    cases every image shows its class, so the best possible error is 0: with the default sizes a cut
    rectangle is at least 25 pixels wide, and a circle at most 20.

    P(y|x) is 0 or 1 on these images and not defined on others, so there is no posterior.

    Examples
    --------
    >>> X, y = Shapes(size=60).sample(2, np.random.default_rng(0))
    >>> X.shape, X.dtype.name, (255 * np.unique(X)).tolist()
    ((2, 3, 60, 60), 'float32', [0.0, 127.0])
    >>> sorted((X[:, 0] > 0).sum(axis=(1, 2)).tolist())
    [311, 1000]
    """

    size: Count = 100
    channels: Count = 3

    name = "shapes"
    classes = np.array(["circle", "rectangle"])
    feature_names = ()

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        y = balanced_labels(n, 2, rng)
        canvas = self._canvas(self.size, self.channels)
        return canvas.paint(self._half_axes(y == 1), y == 1, self.intensity, rng), y


CloudShape = Literal["circles", "lines", "squares"]
"""Name of a pair of shapes, one for each class.

"circles" have radius 1 and ½, "lines" are the diagonals of a square, and "squares" have sides of 2
and 1.
"""
_SHAPE_SIZES = np.array([1.0, 0.5])
"""Radius, or half of a side, of the circles and squares of class 0 and class 1."""


@dataclass(eq=False, repr=False)
class PointCloud(ClassSimulation):
    """Points along two shapes in the plane, with uniform noise in all further dimensions.

    The noise of the further dimensions is uniform in [-1, 1].

    Parameters
    ----------
    shape : {"circles", "lines", "squares"}
        Pair of shapes; see :data:`CloudShape`.
    n_dims : int, default=2
        Number of features d. The shapes are in the first two.
    noise_std : float, default=0.05
        Standard deviation of the Gaussian noise on each axis of the shape.

    Notes
    -----
    The clouds of Tree-based Ensemble Learning for Out-of-distribution Detection (TOOD), Figures 6
    and 7. The paper has only their names and that "two dimensional projections look like" them.
    Sizes, noise and classes are original to kdgraph.

    Examples
    --------
    >>> X, y = PointCloud("circles", n_dims=3, noise_std=0.0).sample(4, np.random.default_rng(0))
    >>> X.shape, y.tolist(), np.hypot(X[:, 0], X[:, 1]).round(3).tolist()
    ((4, 3), [1, 1, 0, 0], [0.5, 0.5, 1.0, 1.0])
    """

    shape: CloudShape
    n_dims: Annotated[int, Range(2)] = 2
    noise_std: NonNegative = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        self.name = f"cloud_{self.shape}"
        self.feature_names = numbered_names(self.n_dims)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
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
    along, end, upright = (
        rng.uniform(-1, 1, len(y)),
        rng.choice([-1.0, 1.0], len(y)),
        rng.random(len(y)) < 0.5,
    )
    side = np.column_stack([along, end])
    return _SHAPE_SIZES[y, None] * np.where(upright[:, None], side[:, ::-1], side)


_OUTLINE_SAMPLERS = {"circles": _sample_circles, "lines": _sample_lines, "squares": _sample_squares}
"""Functions that draw points uniformly along the shapes: (Int[n], rng) → Float[n, 2]."""
