from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.data.dataset import PosteriorSimulation, Simulation
from kdgraph.data.simulations import Shapes
from kdgraph.data.simulations.shapes import ShapeCanvas
from kdgraph.errors import ParameterError


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def widths(images: np.ndarray) -> np.ndarray:
    """Return the numbers of pixels from the first to the last column that is not black: Int[n]."""
    columns = (images[:, 0] > 0).any(axis=1)
    return columns.shape[1] - columns.argmax(axis=1) - columns[:, ::-1].argmax(axis=1)


def polygon_contains(corners: np.ndarray, x: float, y: float) -> bool:
    """Return whether a point is on the same side of every edge of a convex polygon."""
    edges = np.roll(corners, -1, axis=0) - corners
    return (
        len(
            {
                side > 0
                for side in edges[:, 0] * (y - corners[:, 1]) - edges[:, 1] * (x - corners[:, 0])
            }
        )
        == 1
    )


def test_images_agree_with_the_paper():
    X, y = Shapes().sample(200, rng())
    assert X.shape == (200, 3, 100, 100)
    assert X.dtype == np.float32
    assert np.unique(X).tolist() == [0, np.float32(127 / 255)]
    assert (X[:, :1] == X).all()
    assert np.bincount(y).tolist() == [100, 100]
    assert not np.array_equal(y, np.sort(y))


def test_shapes_have_their_areas():
    """Compare areas: 50 · 20 pixels of a rectangle exactly, 100 π of a circle within .3 %."""
    X, y = Shapes().sample(400, rng())
    area = (X[:, 0] > 0).sum(axis=(1, 2))
    assert (area[y == 1] == 1000).all()
    assert area[y == 0].mean() == pytest.approx(100 * np.pi, rel=0.003)
    assert set(widths(X[y == 1])) == {50}
    assert set(widths(X[y == 0])) == {19, 20}  # the outermost column is as narrow as the rim


@settings(max_examples=30, deadline=None)
@given(st.floats(3, 15), st.floats(3, 15), st.booleans(), st.integers(0, 999))
def test_pixels_are_painted_if_their_centre_is_in_the_shape(a, b, box, seed):
    """Compare with an oracle that uses the corners of a box, or the foci of an ellipse.

    The centre and the angle are drawn again from a generator with the same seed.
    """
    canvas = ShapeCanvas(size=44, channels=1, rotated=True, inside=True)
    is_painted = canvas.paint(np.array([[a, b]]), np.array([box]), 255, rng(seed))[0, 0] > 0
    generator = rng(seed)
    t = generator.uniform(0, np.pi, 1)[0]
    turn = np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]])
    corners = np.array([[a, b], [-a, b], [-a, -b], [a, -b]]) @ turn.T
    reach = corners.max(axis=0) if box else np.sqrt((turn**2) @ np.array([a, b]) ** 2)
    centre = reach + generator.random(2) * (44 - 2 * reach)
    f = np.sqrt(abs(a**2 - b**2)) * (turn[:, 0] if a > b else turn[:, 1])
    for row in range(44):
        for column in range(44):
            p = np.array([column + 0.5, row + 0.5])
            if box:
                expected = polygon_contains(corners + centre, *p)
            else:
                expected = np.linalg.norm(p - centre - f) + np.linalg.norm(
                    p - centre + f
                ) <= 2 * max(a, b)
            assert is_painted[row, column] == expected


@pytest.mark.parametrize("rotated", [False, True])
def test_whole_shapes_are_never_cut(rotated):
    """Compare areas with those of whole shapes.

    Rotation by less than a pixel may cost a side of 50 pixels half a row; only a border would cost
    more.
    """
    X, y = Shapes(rotated=rotated).sample(400, rng())
    area = (X[:, 0] > 0).sum(axis=(1, 2))
    assert area[y == 1].min() >= (975 if rotated else 1000)
    assert area[y == 1].mean() == pytest.approx(1000, rel=0.002)
    assert area[y == 0].min() >= 305


def test_centres_are_uniform_over_the_image_if_shapes_may_be_cut():
    """Compare the visible fraction of cut shapes with its expected value.

    A point at (dx, dy) from the centre is in the image with probability (1 - |dx|/100)(1 -
    |dy|/100). Over a circle of radius r, |dx| has mean 4r/3π and |dx dy| has mean r²/2π; over a
    rectangle |dx| and |dy| have a quarter of the sides. The visible fraction has a standard
    deviation below .2: the tolerance is 4 standard errors of 1000 images.
    """
    X, y = Shapes(inside=False).sample(2000, rng())
    area = (X[:, 0] > 0).sum(axis=(1, 2))
    circle = 1 - 2 * (40 / (3 * np.pi)) / 100 + 100 / (2 * np.pi) / 100**2
    rectangle = (1 - 12.5 / 100) * (1 - 5 / 100)
    for k, full_area, fraction in ((0, 100 * np.pi, circle), (1, 1000, rectangle)):
        assert abs(area[y == k].mean() / full_area - fraction) < 4 * 0.2 / np.sqrt(1000)


def test_cut_shapes_still_show_their_class():
    X, y = Shapes(inside=False).sample(2000, rng())
    assert widths(X[y == 1]).min() >= 25
    assert widths(X[y == 0]).max() <= 20


def test_thin_shapes_are_painted_one_pixel_wide():
    images = ShapeCanvas(40, 1, rotated=False, inside=True).paint(
        np.tile([0.01, 10.0], (300, 1)), np.zeros(300, dtype=bool), 255, rng()
    )
    assert ((images > 0).any(axis=(1, 2, 3))).all()
    assert widths(images).max() == 1


def test_shapes_have_no_posterior():
    assert isinstance(Shapes(), Simulation)
    assert not isinstance(Shapes(), PosteriorSimulation)
    assert Shapes().classes.tolist() == ["circle", "rectangle"]


def test_images_are_reproducible_by_seed():
    a, b, c = (Shapes(size=60).sample(9, rng(seed))[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Shapes(sides=[20]), r"sides must be a width and a height, got \[20\]"),
        (lambda: Shapes(intensity=256), r"intensity must be in \[0, 255\], got 256"),
        (
            lambda: Shapes(size=40).sample(9, rng()),
            (
                "a shape 50 pixels wide does not fit into images of 40; raise size, make the shape"
                " smaller, or set inside to false"
            ),
        ),
    ],
)
def test_invalid_shapes_are_refused(build, message):
    with pytest.raises(ParameterError, match=f"^{message}$"):
        build()
