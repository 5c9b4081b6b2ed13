"""Many small panels: what simulations look like, and how parent and methods do on each as a parameter grows."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kdgraph.figures.panels import (
    BOTTOM,
    GAP,
    HEAD,
    HEIGHT,
    LABELLED_GAP,
    NAME,
    Panels,
    check_repeated,
    columns_of,
    draw_repeated,
    head,
    names_of,
    one_scale_a_quantity,
    places,
)
from kdgraph.figures.points import check_points, class_points
from kdgraph.figures.style import BLACK, FULL_WIDTH, add_axes, new_figure, styled

_DATA = 0.72  # inches


def simulation_summary(data: Mapping[str, tuple[np.ndarray, np.ndarray]], panels: Mapping[str, Panels], *, band_of: str) -> Figure:
    """One row for each simulation, as Figure 1 of Dey et al.: its data, then each quantity for each group of models.

    Lines are medians over repetitions, bands go from their 25 % to their 75 % quantile. Panels of one row and quantity have one scale, in
    whichever group they are.

    Parameters
    ----------
    data : row → Float[n, 2] and Int[n], the first two features of some training rows, and their classes.
    panels : row → group → quantity → :class:`Repeated`. What a row lacks of another's groups and quantities stays empty.
    band_of : what the repetitions are, e.g. "10 seeds".

    Returns
    -------
    Figure
        As wide as the page.

    Raises
    ------
    ValueError
        No row, data that are not two features with labels, curves that do not fit their parameter.
    """
    _check(data, panels)
    columns = columns_of(panels.values())
    labels = {row: {c: panels[row][c[0]][c[1]].x_label for c in columns if c[1] in panels[row].get(c[0], {})} for row in data}
    ends = [*({row for row, below in pairwise(data) if labels[row] != labels[below]}), list(data)[-1]]
    with styled():
        inner = sum(LABELLED_GAP if row in ends else GAP for row in list(data)[:-1])
        figure = new_figure(FULL_WIDTH, HEAD + len(data) * HEIGHT + inner + BOTTOM)
        lefts, width = places(columns, NAME + _DATA)
        top = figure.get_figheight() - HEAD
        for i, row in enumerate(data):
            bottom = top - HEIGHT
            _show_data(add_axes(figure, NAME, bottom, _DATA, HEIGHT), row, data[row])
            drawn = {c: add_axes(figure, lefts[c], bottom, width, HEIGHT) for c in columns if c in labels[row]}
            for (group, quantity), axes in drawn.items():
                draw_repeated(axes, panels[row][group][quantity], labelled=row in ends)
            one_scale_a_quantity(drawn)
            if i == 0:
                head(figure, lefts, width, names_of(panels.values()), band_of)
            top = bottom - (LABELLED_GAP if row in ends else GAP)
    return figure


def _show_data(axes: Axes, row: str, points: tuple[np.ndarray, np.ndarray]) -> None:
    class_points(axes, *points)
    axes.set(xticks=[], yticks=[], ylabel=row)
    axes.yaxis.label.set(fontsize=7, color=BLACK)
    axes.spines[:].set_visible(False)


def _check(data: Mapping[str, tuple[np.ndarray, np.ndarray]], panels: Mapping[str, Panels]) -> None:
    if not data or set(data) != set(panels):
        raise ValueError(f"simulation_summary needs data and panels of the same rows, got {list(data)} and {list(panels)}")
    if not any(drawn for groups in panels.values() for drawn in groups.values()):
        raise ValueError("simulation_summary needs a panel in at least one row")
    for row, points in data.items():
        check_points(row, *points)
    for row, groups in panels.items():
        for group, drawn in groups.items():
            for quantity, measured in drawn.items():
                check_repeated(f"{quantity!r} of {group!r} in {row!r}", measured)
