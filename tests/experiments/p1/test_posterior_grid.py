"""Tests of grids of posterior maps."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.p1.figures.posterior_grid import plot_posterior_grid
from tests.variations import others_slow

EXTENT, BOX = (-2.0, 2.0, -2.0, 2.0), (-1.0, 1.0, -1.0, 1.0)
TITLES = [
    "truth",
    "random forest",
    "KDF\ngeodesic",
    "KDF\nEuclidean",
    "network",
    "KDN\ngeodesic",
    "KDN\nEuclidean",
]
ROWS = ["Gaussian XOR", "spiral", "circle", "sinewave", "polynomial"]


def plot_grid(rows=ROWS, titles=TITLES, missing_maps=()):
    rng = np.random.default_rng(0)
    maps = {
        row: {title: rng.random((12, 12)) for title in titles if (row, title) not in missing_maps}
        for row in rows
    }
    data = {row: (rng.uniform(-1, 1, (30, 2)), np.arange(30) % 2) for row in rows}
    return plot_posterior_grid(data, maps, EXTENT, BOX, class_label="P(class 0 | x)"), maps


def test_maps_are_in_their_rows_and_columns() -> None:
    figure, maps = plot_grid()
    panels = [axes for axes in figure.axes if axes.images]
    assert len(panels) == len(ROWS) * len(TITLES)
    for axes, values in zip(
        panels, (values for row in maps.values() for values in row.values()), strict=True
    ):
        (image,) = axes.images
        np.testing.assert_array_equal(image.get_array(), values)
        assert (image.norm.vmin, image.norm.vmax, tuple(image.get_extent()), image.origin) == (
            0,
            1,
            EXTENT,
            "lower",
        )
    first, second = panels[0].get_position(), panels[1].get_position()
    assert first.x1 < second.x0 and first.y0 == second.y0
    assert panels[len(TITLES)].get_position().y1 < first.y0


def test_data_panels_have_the_extent_of_the_maps() -> None:
    figure, _ = plot_grid()
    data_panels = [
        axes
        for axes in figure.axes
        if any(artist.get_gid() == "points" for artist in axes.collections)
    ]
    assert [axes.get_ylabel() for axes in data_panels] == ROWS
    assert {(*axes.get_xlim(), *axes.get_ylim()) for axes in data_panels} == {EXTENT}


def test_the_training_region_is_outlined_in_every_panel() -> None:
    figure, _ = plot_grid(rows=["spiral"])
    for axes in figure.axes[:-1]:  # the last is the colour bar
        boxes = [patch.get_bbox() for patch in axes.patches if patch.get_gid() == "id_box"]
        assert [(box.x0, box.x1, box.y0, box.y1) for box in boxes] == [
            BOX,
            BOX,
        ]  # white below black


def test_missing_map_leaves_its_position_empty() -> None:
    complete_figure, _ = plot_grid()
    figure, _ = plot_grid(missing_maps={("spiral", "truth")})
    assert len(complete_figure.axes) - len(figure.axes) == 1
    panel_bounds = {tuple(axes.get_position().bounds) for axes in complete_figure.axes}
    assert {tuple(axes.get_position().bounds) for axes in figure.axes} < panel_bounds


@pytest.mark.parametrize(
    ("rows", "titles"),
    others_slow(
        [
            (ROWS[:2], ["a name that is far too long for its column", *TITLES]),
            (ROWS[:1], TITLES[:2]),
            (ROWS, TITLES),
        ]
    ),
)
def test_text_is_legible(rows, titles, assert_legible, texts_of) -> None:
    figure, _ = plot_grid(rows, titles)
    assert figure.get_size_inches()[0] <= 7.0 + 1e-9
    assert_legible(figure)
    assert {"P(class 0 | x)", "ID", "OOD", "data", *rows} <= set(texts_of(figure))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": {}, "maps": {}}, "data and maps of the same rows"),
        ({"maps": {"circle": {}}}, "data and maps of the same rows"),
        (
            {"maps": {"spiral": {"truth": np.zeros(3)}}},
            r"the map 'truth' of 'spiral' must be two-dimensional, got shape \(3,\)",
        ),
        (
            {"maps": {"spiral": {"truth": np.full((2, 2), 1.1)}}},
            r"must lie in \[0, 1\], got 1.1 to 1.1",
        ),
        (
            {"maps": {"spiral": {"truth": np.full((2, 2), np.nan)}}},
            r"must lie in \[0, 1\], got nan",
        ),
        (
            {"data": {"spiral": (np.zeros((0, 2)), np.zeros(0))}},
            r"the data 'spiral' must be Float\[n, 2\]",
        ),
    ],
)
def test_invalid_input_raises(change, message) -> None:
    arguments = {
        "data": {"spiral": (np.zeros((3, 2)), np.zeros(3))},
        "maps": {"spiral": {"truth": np.zeros((2, 2))}},
    }
    with pytest.raises(ValueError, match=message):
        plot_posterior_grid(**arguments | change, extent=EXTENT, id_box=BOX, class_label="P")
