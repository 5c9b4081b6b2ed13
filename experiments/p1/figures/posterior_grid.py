"""Maps of posteriors for many simulations and models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from experiments.p1.figures.panels import check_class_points, draw_class_points
from kdgraph.figures.drawing import shorten_lines, write_text
from kdgraph.figures.posterior import PlotExtent, check_map, draw_colorbar, outline_training_box
from kdgraph.figures.style import (
    BLACK,
    FULL_WIDTH,
    add_axes,
    new_figure,
    posterior_colormap,
    style_context,
)

# Inches: name and ticks of a row, between maps, the colour bar and the space around it.
_LEFT, _GAP, _BEFORE_BAR, _BAR, _RIGHT = 0.34, 0.05, 0.09, 0.08, 0.46
_BOTTOM, _LINE = 0.17, 0.13  # inches below the maps, and of each line of a title
_SMALL, _TITLE = 6.0, 7.0  # points


def plot_posterior_grid(
    data: Mapping[str, tuple[np.ndarray, np.ndarray]],
    maps: Mapping[str, Mapping[str, np.ndarray]],
    extent: PlotExtent,
    id_box: PlotExtent,
    *,
    class_label: str,
) -> Figure:
    """Plot the data and the map of each model, one row per simulation (Dey et al., Figure 4).

    ``data`` are training rows and their classes, (Float[n, 2], Int[n]), by row of the figure.
    ``maps`` are probabilities in [0, 1], Float[g, h], by row and title; row 0 of a map is the
    lowest y, column 0 the lowest x. A line break in a title makes a second line. A map that a row
    does not have stays empty. Data and maps of other shapes or rows raise ValueError.

    ``extent`` are the outer edges x0, x1, y0, y1 of every map, ``id_box`` those of the region of
    the training data, which is outlined. ``class_label`` is that of the colour bar, whose scale all
    maps share.
    """
    _check_rows(data, maps)
    titles = list(dict.fromkeys(title for row_maps in maps.values() for title in row_maps))
    columns = ["data", *titles]
    gaps = (len(columns) - 1) * _GAP
    panel = min((FULL_WIDTH - _LEFT - _BEFORE_BAR - _BAR - _RIGHT - gaps) / len(columns), 1.6)
    top = 0.05 + _LINE * max(title.count("\n") + 1 for title in columns)
    height = _BOTTOM + len(data) * panel + (len(data) - 1) * _GAP + top
    with style_context():
        maps_width = len(columns) * (panel + _GAP) - _GAP
        figure = new_figure(_LEFT + maps_width + _BEFORE_BAR + _BAR + _RIGHT, height)
        for i, row in enumerate(data):
            bottom = _BOTTOM + (len(data) - 1 - i) * (panel + _GAP)
            for j, title in enumerate(columns):
                if j and title not in maps[row]:
                    continue
                axes = add_axes(figure, _LEFT + j * (panel + _GAP), bottom, panel, panel)
                _draw_content(axes, data[row] if j == 0 else maps[row][title], extent)
                outline_training_box(axes, id_box, extent, labelled=i == 0 and j == 1, size=_SMALL)
                _format_axes(axes, extent, first=j == 0, last=i == len(data) - 1)
                if j == 0:
                    axes.set_ylabel(row, fontsize=_TITLE, color=BLACK, labelpad=1)
            if i == 0:
                for j, title in enumerate(columns):
                    text = shorten_lines(figure, title, _TITLE, panel + _GAP)
                    place = _LEFT + j * (panel + _GAP) + panel / 2, bottom + panel + 0.04
                    above: dict[str, Any] = {"ha": "center", "va": "bottom", "linespacing": 1.1}
                    write_text(figure, *place, text, fontsize=_TITLE, **above)
        left, bar_height = figure.get_figwidth() - _RIGHT - _BAR, len(data) * (panel + _GAP) - _GAP
        bar = add_axes(figure, left, _BOTTOM, _BAR, bar_height)
        draw_colorbar(Normalize(0, 1), bar, class_label)
    return figure


def _draw_content(
    axes: Axes, content: np.ndarray | tuple[np.ndarray, np.ndarray], extent: PlotExtent
) -> None:
    if isinstance(content, tuple):
        draw_class_points(axes, *content)
    else:
        axes.imshow(
            content, cmap=posterior_colormap(), norm=Normalize(0, 1), extent=extent, aspect="auto"
        )


def _format_axes(axes: Axes, extent: PlotExtent, *, first: bool, last: bool) -> None:
    # The outer panels have ticks, away from the ends, where labels of neighbours would overlap.
    x, y = (
        [low + fraction * (high - low) for fraction in (0.25, 0.5, 0.75)]
        for low, high in (extent[:2], extent[2:])
    )
    axes.set(xlim=extent[:2], ylim=extent[2:], xticks=x, yticks=y)
    axes.tick_params(labelsize=_SMALL, length=1.5, pad=1)
    axes.tick_params(left=first, labelleft=first, bottom=last, labelbottom=last)
    axes.spines[:].set_visible(False)


def _check_rows(
    data: Mapping[str, tuple[np.ndarray, np.ndarray]], maps: Mapping[str, Mapping[str, np.ndarray]]
) -> None:
    if not data or set(data) != set(maps):
        raise ValueError(
            f"posterior_grid needs data and maps of the same rows, got {list(data)} and"
            f" {list(maps)}"
        )
    for row, points in data.items():
        check_class_points(row, *points)
    for row, row_maps in maps.items():
        for title, values in row_maps.items():
            check_map(f"the map {title!r} of {row!r}", values, (0, 1))
