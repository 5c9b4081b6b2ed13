"""Tests of posterior maps."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from kdgraph.figures import plot_posterior_maps
from tests.variations import others_slow

EXTENT, BOX = (-2, 2, -2, 2), (-1, 1, -1, 1)


def test_panels_contain_the_maps_from_left_to_right(maps, texts_of) -> None:
    figure = plot_posterior_maps(maps, EXTENT, BOX, class_label="P(class 0 | x)")
    *panels, bar = figure.axes
    assert [axes.get_title() for axes in panels] == list(maps)
    assert sorted(axes.get_position().x0 for axes in panels) == [
        axes.get_position().x0 for axes in panels
    ]
    for axes, values in zip(panels, maps.values(), strict=True):
        (image,) = axes.images
        np.testing.assert_array_equal(image.get_array(), values)
        assert image.get_clim() == (0, 1)
        assert list(image.get_extent()) == list(EXTENT)
        assert image.origin == "lower"
    assert bar.get_ylabel() == "P(class 0 | x)"
    assert {"ID", "OOD"} <= set(texts_of(figure))


def test_three_maps_fill_the_page_and_panels_are_square(maps) -> None:
    figure = plot_posterior_maps(maps, EXTENT, BOX, class_label="P")
    width, height = figure.get_size_inches()
    assert width == pytest.approx(7.0)
    box = figure.axes[0].get_position()
    assert box.width * width == pytest.approx(box.height * height)


def test_training_region_is_outlined_in_every_panel(maps) -> None:
    figure = plot_posterior_maps(maps, EXTENT, BOX, class_label="P")
    for axes in figure.axes[:-1]:
        boxes = [
            patch.get_bbox().extents.tolist()
            for patch in axes.patches
            if isinstance(patch, Rectangle)
        ]
        assert boxes == [[-1, -1, 1, 1]] * 2
    assert not plot_posterior_maps(maps, EXTENT, None, class_label="P").axes[0].patches


def test_points_are_in_the_first_panel_within_its_limits(maps) -> None:
    points = np.array([[0.1, 0.2], [5.0, 0.0]])
    first, second, *_ = plot_posterior_maps(maps, EXTENT, BOX, class_label="P", points=points).axes
    (dots,) = first.lines
    np.testing.assert_array_equal(dots.get_xydata(), points)
    assert not second.lines
    assert first.get_xlim() == (-2, 2)


def test_limits_set_the_colour_scale(maps) -> None:
    figure = plot_posterior_maps(
        {"kdf": maps["kdf"]}, EXTENT, BOX, class_label="largest probability", limits=(0.1, 1.0)
    )
    panel, bar = figure.axes
    assert panel.images[0].get_clim() == (0.1, 1.0)
    assert bar.get_ylim() == (0.1, 1.0)
    assert bar.get_ylabel() == "largest probability"


@pytest.mark.parametrize("n", others_slow([1, 2, 4, 5], 5))
def test_any_number_of_maps_is_legible(maps, n: int, assert_legible) -> None:
    maps_by_title = {f"random_forest-kernel_density_forest {i}": maps["kdf"] for i in range(n)}
    figure = plot_posterior_maps(maps_by_title, EXTENT, BOX, class_label="P(class 0 | x)")
    assert figure.get_size_inches()[0] <= 7.0 + 1e-9
    assert_legible(figure)


def test_values_outside_of_the_limits_raise(maps) -> None:
    with pytest.raises(ValueError, match=r"the map 'kdf' must lie in \[0.0, 1.0\], got 2 to 2"):
        plot_posterior_maps(maps | {"kdf": np.full((3, 3), 2.0)}, EXTENT, BOX, class_label="P")
    with pytest.raises(ValueError, match="the map 'kdf' must lie in"):
        plot_posterior_maps({"kdf": np.full((3, 3), np.nan)}, EXTENT, BOX, class_label="P")
    with pytest.raises(
        ValueError, match=r"the map 'kdf' must be two-dimensional, got shape \(9,\)"
    ):
        plot_posterior_maps({"kdf": np.full(9, 0.5)}, EXTENT, BOX, class_label="P")
    with pytest.raises(ValueError, match="at least one map"):
        plot_posterior_maps({}, EXTENT, BOX, class_label="P")
