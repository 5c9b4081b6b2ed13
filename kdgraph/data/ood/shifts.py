"""Out-of-distribution rows that are shifted test rows or shifted images of shapes.

Shifts of test rows are original to kdgraph.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from kdgraph.data.dataset import Dataset, OodSet, Splits
from kdgraph.data.ood.base import OodRows
from kdgraph.data.ood.synthetic import draw_seed, set_generator
from kdgraph.data.simulations.plane import balanced_labels
from kdgraph.data.simulations.shapes import PixelIntensity, ShapeCanvas, ShapeSource
from kdgraph.errors import DataError, ParameterError
from kdgraph.parameters import ClosedFraction, Count, NonNegative, Positive, Range


@dataclass(eq=False, repr=False)
class PermutedColumns(OodRows):
    """Test rows whose columns are permuted independently of each other.

    Every marginal distribution stays the same, and all dependence is lost. The columns of images
    are their pixels. Categories and missing values are permuted like numbers. A detector that looks
    at one feature at a time cannot separate these rows from test rows. A permuted row may by chance
    be one that the data could contain.

    Parameters
    ----------
    n : int, default=1000
        Number of rows; all test rows if there are fewer.

    Examples
    --------
    >>> PermutedColumns(n=100).n
    100
    """

    def sets(self, splits: Splits, rng: np.random.Generator) -> list[OodSet]:
        test_rows, rows = _draw_test_rows(splits.test, self.n, rng)
        return [OodSet("permuted", rng.permuted(test_rows.X, axis=0), facts={"rows": rows})]


@dataclass(eq=False, repr=False)
class ShiftedRows(OodRows):
    """Test rows that are scaled around the training mean and shifted.

    Each feature becomes scale · (x - mean) + mean ± shift · std. Mean and standard deviation are
    those of the training rows. The sign is drawn once for each feature, so that all rows move
    together. A feature that is constant in training is not shifted. Categories and missing values
    do not change, and pixels may leave [0, 1].

    Parameters
    ----------
    scale : float, default=1.5
        Factor of the distances from the training mean.
    shift : float, default=1.0
        Shift in standard deviations of each feature. For d independent features it is shift · √d in
        units of the Mahalanobis distance.
    n : int, default=1000
        Number of rows; all test rows if there are fewer.

    Examples
    --------
    >>> ShiftedRows(scale=2.0, shift=0.0).scale
    2.0
    """

    scale: Positive = 1.5
    shift: NonNegative = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale == 1 and self.shift == 0:
            raise ParameterError(
                "scale 1 and shift 0 leave test rows as they are, in distribution; raise one of"
                " them"
            )

    def sets(self, splits: Splits, rng: np.random.Generator) -> list[OodSet]:
        train = splits.learning
        if train.is_categorical.all() and train.is_categorical.size:
            raise DataError(
                f"{train.name} has no numeric feature, and nothing else can be shifted; choose"
                " another ood"
            )
        sign = np.where(rng.random(train.X.shape[1:]) < 0.5, -1.0, 1.0)
        mean, std = _mean_and_std(train.X)
        test_rows, rows = _draw_test_rows(splits.test, self.n, rng)
        X = test_rows.X
        # The arithmetic is float64; only the result gets the type of the rows.
        shifted = (mean + self.scale * (X - mean) + self.shift * sign * std).astype(X.dtype)
        if train.is_categorical.any():
            shifted[:, train.is_categorical] = X[:, train.is_categorical]
        params = {"scale": float(self.scale), "shift": float(self.shift)}
        return [
            OodSet(
                "shifted", shifted, params, facts={"rows": rows}, source_rows=test_rows.source_rows
            )
        ]


def _draw_test_rows(test: Dataset, n: int, rng: np.random.Generator) -> tuple[Dataset, str]:
    indices = rng.choice(len(test.y), min(n, len(test.y)), replace=False)
    return test.rows(indices), f"made of {len(indices):,} of {len(test.y):,} test rows"


def _mean_and_std(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of each feature of Float[n, …], in float64.

    Missing values are left out. Both are 0 for a feature without values.
    """
    is_present = ~np.isnan(X)
    n = np.maximum(is_present.sum(axis=0), 1)
    mean = np.where(is_present, X, 0.0).sum(axis=0, dtype=np.float64) / n
    return mean, np.sqrt(
        (np.where(is_present, X - mean, 0.0) ** 2).sum(axis=0, dtype=np.float64) / n
    )


_HalfAxis = Annotated[float, Range(0.01)]
"""Half of an ellipse's width, in pixels; for a circle it is the radius."""


@dataclass(eq=False, repr=False)
class ShapeShifts(ShapeSource):
    """The three shifts of images of shapes of Dey et al. (2024), with one set for each value.

    The training images must be :class:`kdgraph.data.simulations.Shapes`. The shifted images have
    their size and channels; ``radius``, ``sides``, ``intensity``, ``rotated`` and ``inside`` must
    have the same values as there.

    Parameters
    ----------
    intensities : sequence of floats
        Intensities, from 0 to 255, of the sets "intensity": circles and rectangles as in training
        with another intensity (panel D).
    epsilons : sequence of floats
        Weights ε of the sets "blend": ε · circle + (1 - ε) · rectangle of two independent images
        (Eq. 20, panel E).
    axes : sequence of floats
        Half widths, in pixels, of the sets "ellipse", whose half height is ``radius`` (panel F).
        Below half a pixel an ellipse is painted one pixel wide.
    n : int, default=200
        Number of images of each set.

    Notes
    -----
    Dey et al. (2024), "Deep discriminative to kernel density graph", Section 5.2.1, Figure 3 D to
    F. The text of panel D adds a shift to all RGB values of an image "similar to the training
    points", while every background is 0. Here the background stays 0, and only the intensity of the
    shape changes.

    The generator of a set depends on the family and the value, so adding or removing values does
    not change the other sets.

    Examples
    --------
    >>> shifts = ShapeShifts(epsilons=(0, 0.5, 1))
    >>> len(shifts.intensities), len(shifts.epsilons), len(shifts.axes)
    (17, 3, 13)
    """

    intensities: Sequence[PixelIntensity] = (
        *(0, 16, 32, 48, 64, 80, 96, 112, 127, 143, 159, 175, 191, 207, 223, 239, 255),
    )
    epsilons: Sequence[ClosedFraction] = (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1)
    axes: Sequence[_HalfAxis] = (0.01, 2, 4, 6, 8, 10, 12, 15, 20, 25, 30, 35, 40)
    n: Count = 200

    def sets(self, splits: Splits, rng: np.random.Generator) -> Iterator[OodSet]:
        """Yield one set for each value, drawn when it is requested from square training images.

        A set of 200 images of 3 × 100 × 100 takes 24 MB, and there are 41 sets by default.
        """
        canvas = self._training_canvas(splits.learning)
        # All three families depend on one draw; set_generator derives a generator for each value.
        family = draw_seed(rng)
        for name, parameter, values, draw, id_values in (
            ("intensity", "intensity", self.intensities, self._paint_shapes, (self.intensity,)),
            ("blend", "epsilon", self.epsilons, self._paint_blend, (0.0, 1.0)),
            ("ellipse", "axis", self.axes, self._paint_ellipses, (self.radius,)),
        ):
            for value in map(float, values):
                X = draw(value, canvas, set_generator(family, value, zlib.crc32(name.encode())))
                yield OodSet(name, X, {parameter: value}, tuple(map(float, id_values)))

    def _training_canvas(self, train: Dataset) -> ShapeCanvas:
        """Return a canvas of the size and channels of the training images."""
        if not train.are_images or train.X.shape[2] != train.X.shape[3]:
            rows = f"{train.name} has rows of shape {train.X.shape[1:]}"
            raise DataError(
                f"shifts of shapes need square images, and {rows}; choose dataset=shapes or"
                " another ood"
            )
        return self._canvas(train.X.shape[2], train.X.shape[1])

    def _paint_shapes(
        self, intensity: float, canvas: ShapeCanvas, rng: np.random.Generator
    ) -> np.ndarray:
        is_box = balanced_labels(self.n, 2, rng) == 1
        return canvas.paint(self._half_axes(is_box), is_box, intensity, rng)

    def _paint_blend(
        self, epsilon: float, canvas: ShapeCanvas, rng: np.random.Generator
    ) -> np.ndarray:
        """Paint blends of a circle and a rectangle (Eq. 20)."""
        circles, boxes = (
            canvas.paint(self._half_axes(is_box), is_box, weight * self.intensity, rng)
            for is_box, weight in (
                (np.zeros(self.n, dtype=bool), epsilon),
                (np.ones(self.n, dtype=bool), 1 - epsilon),
            )
        )
        return circles + boxes

    def _paint_ellipses(
        self, axis: float, canvas: ShapeCanvas, rng: np.random.Generator
    ) -> np.ndarray:
        half = np.tile([axis, float(self.radius)], (self.n, 1))
        return canvas.paint(half, np.zeros(self.n, dtype=bool), self.intensity, rng)
