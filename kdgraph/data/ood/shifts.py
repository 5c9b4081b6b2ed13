"""Test rows that are moved out of the training distribution: by the loss of the dependence of their
features, or by a shift.

Images that leave the training distribution by degrees in what they mean: other intensities, blends,
other shapes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np

from kdgraph.data.dataset import Dataset, OodSet, Splits
from kdgraph.data.ood.synthetic import set_generator
from kdgraph.data.simulations.plane import balanced_labels
from kdgraph.data.simulations.shapes import PixelIntensity, ShapeCanvas, half_axes
from kdgraph.errors import DataError, ParameterError
from kdgraph.parameters import Count, NonNegative, Positive, Range, Share, check_parameters


class PermutedColumns:
    """Test rows whose columns are permuted, each by a permutation of its own: every marginal stays,
    and all dependence goes.

    Ours, for tables; of images the columns are pixels. Categories and missing values are permuted
    as numbers are. What looks at one feature at a time cannot tell these rows from test rows; a row
    may still happen to be one that the data could have.

    Parameters
    ----------
    n : rows; all test rows where there are fewer.
    """

    def __init__(self, n: Count = 1000) -> None:
        self.n = n
        check_parameters(self)

    def sets(self, splits: Splits, rng: np.random.Generator) -> list[OodSet]:
        """One set with rows like the training rows."""
        drawn, rows = _draw_test_rows(splits.test, self.n, rng)
        return [OodSet("permuted", rng.permuted(drawn.X, axis=0), facts={"rows": rows})]


class ShiftedRows:
    """Test rows that are blown up and shifted: scale · (x - mean) + mean ± shift · std, feature by
    feature.

    Ours, for tables. Mean and standard deviation are those of the training rows. The sign is drawn
    once for each feature, so that all rows move together. A feature that is constant in training is
    not shifted, categories and missing values stay as they are, and pixels may leave [0, 1].

    Parameters
    ----------
    scale : what distances from the training mean are multiplied by.
    shift : in standard deviations of each feature. In d features it is shift · √d in units of the
        Mahalanobis distance, if they are independent.
    n : rows; all test rows where there are fewer.
    """

    def __init__(self, scale: Positive = 1.5, shift: NonNegative = 1.0, n: Count = 1000) -> None:
        self.scale = scale
        self.shift = shift
        self.n = n
        check_parameters(self)
        if scale == 1 and shift == 0:
            raise ParameterError(
                "scale 1 and shift 0 leave test rows as they are, in distribution; raise one of"
                " them"
            )

    def sets(self, splits: Splits, rng: np.random.Generator) -> list[OodSet]:
        """One set with rows like the training rows."""
        train = splits.train
        if train.is_categorical.all() and train.is_categorical.size:
            raise DataError(
                f"{train.name} has no numeric feature, and nothing else can be shifted; choose"
                " another ood"
            )
        sign = np.where(rng.random(train.X.shape[1:]) < 0.5, -1.0, 1.0)
        mean, std = _mean_and_std(train.X)
        drawn, rows = _draw_test_rows(splits.test, self.n, rng)
        X = drawn.X
        moved = (mean + self.scale * (X - mean) + self.shift * sign * std).astype(X.dtype)
        if train.is_categorical.any():
            moved[:, train.is_categorical] = X[:, train.is_categorical]
        params = {"scale": float(self.scale), "shift": float(self.shift)}
        return [
            OodSet("shifted", moved, params, facts={"rows": rows}, source_rows=drawn.source_rows)
        ]


def _draw_test_rows(test: Dataset, n: int, rng: np.random.Generator) -> tuple[Dataset, str]:
    """Rows drawn without replacement, and how many of how many."""
    chosen = rng.choice(len(test.y), min(n, len(test.y)), replace=False)
    return test.rows(chosen), f"made of {len(chosen):,} of {len(test.y):,} test rows"


def _mean_and_std(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each feature of Float[n, …] in float64, over the values that
    are known; 0 where there is none.
    """
    known = ~np.isnan(X)
    n = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, X, 0.0).sum(axis=0, dtype=np.float64) / n
    return mean, np.sqrt((np.where(known, X - mean, 0.0) ** 2).sum(axis=0, dtype=np.float64) / n)


_HalfAxis = Annotated[float, Range(0.01)]
"""Half of an ellipse's width, in pixels: a circle's radius is both of its axes."""


class ShapeShifts:
    """The three shifts of Dey et al. (2024), "Deep discriminative to kernel density graph", Figure
    3 D to F, Section 5.2.1, a set a value.

    Images have the size and the channels of the training images, which must be
    :class:`kdgraph.data.simulations.Shapes`; radius, sides, intensity, rotated and inside must be
    as there.

    Parameters
    ----------
    intensities : sets "intensity": circles and rectangles as in training, painted with another
    intensity, of 255 (panel D).
    epsilons : sets "blend": ε · circle + (1 - ε) · rectangle of two independent images (Eq. 20,
    panel E).
    axes : sets "ellipse": ellipses of this half width and of half height ``radius``, in pixels
        (panel F). Below half a pixel an ellipse is painted one pixel wide.
    n : images of each set.
    radius, sides, intensity, rotated, inside : of the data set.

    Notes
    -----
    The text of panel D adds a shift to all RGB values of an image "similar to the training points",
    while every background is 0; here the background stays 0 and only the shape's intensity changes.

    A set's generator is made from the family and the value, so that values can be added or left out
    without a change to the other sets.
    """

    def __init__(
        self,
        intensities: Sequence[PixelIntensity] = (
            0,
            16,
            32,
            48,
            64,
            80,
            96,
            112,
            127,
            143,
            159,
            175,
            191,
            207,
            223,
            239,
            255,
        ),
        epsilons: Sequence[Share] = (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1),
        axes: Sequence[_HalfAxis] = (0.01, 2, 4, 6, 8, 10, 12, 15, 20, 25, 30, 35, 40),
        n: Count = 200,
        radius: Positive = 10.0,
        sides: Sequence[Positive] = (50.0, 20.0),
        intensity: PixelIntensity = 127.0,
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
        """One set for each value, drawn when it is asked for: 200 images of 3 × 100 × 100 are 24
        MB, and there are 41 sets.
        """
        train = splits.train
        canvas = self._canvas(train)
        family = int(rng.integers(2**63))
        for name, parameter, values, draw, id_values in (
            (
                "intensity",
                "intensity",
                self.intensities,
                self._paint_intensity_shift,
                (self.intensity,),
            ),
            ("blend", "epsilon", self.epsilons, self._paint_blend, (0.0, 1.0)),
            ("ellipse", "axis", self.axes, self._paint_ellipses, (self.radius,)),
        ):
            for value in map(float, values):
                X = draw(value, canvas, set_generator(family, value, zlib.crc32(name.encode())))
                yield OodSet(name, X, {parameter: value}, tuple(map(float, id_values)))

    def _canvas(self, train: Dataset) -> ShapeCanvas:
        if not train.are_images or train.X.shape[2] != train.X.shape[3]:
            rows = f"{train.name} has rows of shape {train.X.shape[1:]}"
            raise DataError(
                f"shifts of shapes need square images, and {rows}; choose dataset=shapes or"
                " another ood"
            )
        return ShapeCanvas(train.X.shape[2], train.X.shape[1], self.rotated, self.inside)

    def _paint_intensity_shift(
        self, intensity: float, canvas: ShapeCanvas, rng: np.random.Generator
    ) -> np.ndarray:
        is_box = balanced_labels(self.n, 2, rng) == 1
        return canvas.paint(half_axes(is_box, self.radius, self.sides), is_box, intensity, rng)

    def _paint_blend(
        self, epsilon: float, canvas: ShapeCanvas, rng: np.random.Generator
    ) -> np.ndarray:
        """Eq. 20."""
        shares = []
        for is_box, share in (
            (np.zeros(self.n, dtype=bool), epsilon),
            (np.ones(self.n, dtype=bool), 1 - epsilon),
        ):
            shares.append(
                canvas.paint(
                    half_axes(is_box, self.radius, self.sides), is_box, share * self.intensity, rng
                )
            )
        return shares[0] + shares[1]

    def _paint_ellipses(
        self, axis: float, canvas: ShapeCanvas, rng: np.random.Generator
    ) -> np.ndarray:
        half = np.tile([axis, float(self.radius)], (self.n, 1))
        return canvas.paint(half, np.zeros(self.n, dtype=bool), self.intensity, rng)
