"""Images that leave the training distribution by degrees in what they mean: other intensities, blends, other shapes."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np

from kdgraph.data.dataset import Dataset, OodSet, Splits
from kdgraph.data.ood.rows import generator_of
from kdgraph.data.simulations.plane import balanced_labels
from kdgraph.data.simulations.shapes import Canvas, Intensity, half_axes
from kdgraph.errors import DataError, ParameterError
from kdgraph.parameters import Count, Positive, Range, Share, check_parameters

Axis = Annotated[float, Range(0.01)]
"""Half of an ellipse's width, in pixels: a circle's radius is both of its axes."""


class SemanticShifts:
    """The three shifts of Dey et al. (2024), "Deep discriminative to kernel density graph", Figure 3 D to F, Section 5.2.1, a set a value.

    Images have the size and the channels of the training images, which must be :class:`kdgraph.data.simulations.Shapes`; radius, sides,
    intensity, rotated and inside must be as there.

    Parameters
    ----------
    intensities : sets "intensity": circles and rectangles as in training, painted with another intensity, of 255 (panel D).
    epsilons : sets "blend": ε · circle + (1 - ε) · rectangle of two independent images (Eq. 20, panel E).
    axes : sets "ellipse": ellipses of this half width and of half height ``radius``, in pixels (panel F). Below half a pixel an ellipse is
        painted one pixel wide.
    n : images of each set.
    radius, sides, intensity, rotated, inside : of the data set.

    Notes
    -----
    The text of panel D adds a shift to all RGB values of an image "similar to the training points", while every background is 0; here the
    background stays 0 and only the shape's intensity changes.

    A set's generator is made from the family and the value, so that values can be added or left out without a change to the other sets.
    """

    def __init__(
        self,
        intensities: Sequence[Intensity] = (0, 16, 32, 48, 64, 80, 96, 112, 127, 143, 159, 175, 191, 207, 223, 239, 255),
        epsilons: Sequence[Share] = (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1),
        axes: Sequence[Axis] = (0.01, 2, 4, 6, 8, 10, 12, 15, 20, 25, 30, 35, 40),
        n: Count = 200,
        radius: Positive = 10.0,
        sides: Sequence[Positive] = (50.0, 20.0),
        intensity: Intensity = 127.0,
        rotated: bool = False,
        inside: bool = True,
    ) -> None:
        self.intensities = intensities
        self.epsilons = epsilons
        self.axes = axes
        self.n = n
        self.radius = radius
        self.sides = sides
        self.intensity = intensity
        self.rotated = rotated
        self.inside = inside
        check_parameters(self)
        if len(sides) != 2:
            raise ParameterError(f"sides must be a width and a height, got {list(sides)}")

    def sets(self, splits: Splits, rng: np.random.Generator) -> Iterator[OodSet]:
        """One set for each value, drawn when it is asked for: 200 images of 3 × 100 × 100 are 24 MB, and there are 41 sets."""
        train = splits.train
        canvas = self._canvas(train)
        family = int(rng.integers(2**63))
        for name, parameter, values, draw, id_values in (
            ("intensity", "intensity", self.intensities, self._recoloured, (self.intensity,)),
            ("blend", "epsilon", self.epsilons, self._blended, (0.0, 1.0)),
            ("ellipse", "axis", self.axes, self._ellipses, (self.radius,)),
        ):
            for value in map(float, values):
                X = draw(value, canvas, generator_of(family, value, zlib.crc32(name.encode())))
                yield OodSet(name, X, {parameter: value}, tuple(map(float, id_values)))

    def _canvas(self, train: Dataset) -> Canvas:
        if not train.are_images or train.X.shape[2] != train.X.shape[3]:
            rows = f"{train.name} has rows of shape {train.X.shape[1:]}"
            raise DataError(f"shifts of shapes need square images, and {rows}; choose dataset=shapes or another ood")
        return Canvas(train.X.shape[2], train.X.shape[1], self.rotated, self.inside)

    def _recoloured(self, intensity: float, canvas: Canvas, rng: np.random.Generator) -> np.ndarray:
        is_box = balanced_labels(self.n, 2, rng) == 1
        return canvas.paint(half_axes(is_box, self.radius, self.sides), is_box, intensity, rng)

    def _blended(self, epsilon: float, canvas: Canvas, rng: np.random.Generator) -> np.ndarray:
        """Eq. 20."""
        shares = []
        for is_box, share in ((np.zeros(self.n, dtype=bool), epsilon), (np.ones(self.n, dtype=bool), 1 - epsilon)):
            shares.append(canvas.paint(half_axes(is_box, self.radius, self.sides), is_box, share * self.intensity, rng))
        return shares[0] + shares[1]

    def _ellipses(self, axis: float, canvas: Canvas, rng: np.random.Generator) -> np.ndarray:
        half = np.tile([axis, float(self.radius)], (self.n, 1))
        return canvas.paint(half, np.zeros(self.n, dtype=bool), self.intensity, rng)
