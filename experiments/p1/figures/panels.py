"""Figures of many small panels: methods on many data sets or simulations.

Each panel shows one quantity that was measured several times, as medians and quartiles over
repetitions. The layout follows Figures 1 and 5 to 8 of Dey et al. A row is a data set or a
simulation, a column is a quantity of a group of models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from kdgraph.figures.drawing import IDEAL_LINE, draw_band, shorten_lines, write_note, write_text
from kdgraph.figures.style import (
    BLACK,
    FULL_WIDTH,
    GREY,
    ID_SHADE,
    NOTE_SIZE,
    add_axes,
    legend_label,
    new_figure,
    posterior_colormap,
    set_log_scale,
    style_context,
    styles_by_name,
    text_size,
)

NAME, RIGHT = 0.2, 0.12  # inches: the row's name, the figure's edge
TICKS, BETWEEN_GROUPS = 0.26, 0.06  # inches left of each panel, and more before a group
# Inches: a panel, the space below it without and with an axis label, and below the last panel.
HEIGHT, GAP, LABELLED_GAP, BOTTOM = 0.72, 0.13, 0.37, 0.34
HEAD, LINE = 0.6, 0.17  # inches above the panels: legend, groups, quantities
SMALL, MARKER = 6.0, 1.9  # points


@dataclass(frozen=True)
class RepeatedCurves:
    """Curves of one quantity over one parameter, measured several times.

    ``x`` has increasing values of the parameter, Float[v]. Each of the ``curves``, Float[s, v], has
    a row for each repetition, NaN where one is missing; the first name is the parent's. ``prior``
    is the ideal value in the OOD region, drawn as a dotted line, ``id_until`` the end of the range
    of ``x`` that contains the training data, which is shaded.
    """

    x: np.ndarray
    curves: Mapping[str, np.ndarray]
    x_label: str
    log: bool = False
    prior: float | None = None
    id_until: float | None = None


CurvesByQuantity = Mapping[str, RepeatedCurves]
"""Curves by quantity, such as "error"."""
CurvesByGroup = Mapping[str, CurvesByQuantity]
"""Curves by group of models, such as "random forest", and quantity."""
PanelColumn = tuple[str, str]
"""Group and quantity."""


def each_panel(
    rows: Mapping[str, CurvesByGroup],
) -> Iterator[tuple[str, str, str, RepeatedCurves]]:
    """Yield row, group, quantity and curves of every panel."""
    for row, groups in rows.items():
        for group, quantities in groups.items():
            for quantity, curves in quantities.items():
                yield row, group, quantity, curves


def panel_columns(rows: Mapping[str, CurvesByGroup]) -> list[PanelColumn]:
    """Return group and quantity of every column that some row needs."""
    return list(dict.fromkeys((group, quantity) for _, group, quantity, _ in each_panel(rows)))


def curve_names(rows: Mapping[str, CurvesByGroup]) -> list[str]:
    """Return the names of all curves in order of first occurrence, the parent's first."""
    return list(dict.fromkeys(name for *_, curves in each_panel(rows) for name in curves.curves))


def panel_positions(
    columns: Sequence[PanelColumn], left: float, ticks: float = TICKS
) -> tuple[dict[PanelColumn, float], float]:
    """Return left edges of the columns and the width of a panel, in inches.

    ``left`` is the edge of the first column, ``ticks`` the space for tick labels before each.
    """
    groups = list(dict.fromkeys(group for group, _ in columns))
    available = FULL_WIDTH - left - RIGHT - len(columns) * ticks - len(groups) * BETWEEN_GROUPS
    # Few panels are not wider than 1.4 inches, so that they keep their proportions.
    width = min(available / len(columns), 1.4)
    offsets = {
        c: (i + 1) * ticks + i * width + (groups.index(c[0]) + 1) * BETWEEN_GROUPS
        for i, c in enumerate(columns)
    }
    return {column: left + offset for column, offset in offsets.items()}, width


def _draw_row(
    figure: Figure,
    groups: CurvesByGroup,
    bottom: float,
    lefts: Mapping[PanelColumn, float],
    width: float,
    labelled: Set[PanelColumn],
    *,
    layered: bool = False,
) -> dict[PanelColumn, Axes]:
    """Draw the panels of a row, which share the scale of a quantity; return their axes."""
    drawn = {}
    for (group, quantity), left in lefts.items():
        if quantity in groups.get(group, {}):
            axes = drawn[group, quantity] = add_axes(figure, left, bottom, width, HEIGHT)
            has_label = (group, quantity) in labelled
            _draw_repeated(axes, groups[group][quantity], labelled=has_label, layered=layered)
    _share_quantity_limits(drawn)
    return drawn


def _draw_repeated(
    axes: Axes, measured: RepeatedCurves, *, labelled: bool, layered: bool = False
) -> None:
    """Draw medians as lines and quartiles as bands.

    If the parameter has a single value, each curve is a point with a bar. ``layered`` makes each
    line wider than the one above it, so that lines that coincide are both visible.
    """
    if measured.id_until is not None:
        axes.axvspan(
            measured.x[0], measured.id_until, color=ID_SHADE, linewidth=0, zorder=0, gid="id_region"
        )
    if measured.prior is not None:
        line = IDEAL_LINE | {"linewidth": 0.6, "zorder": 1, "gid": "prior"}
        axes.axhline(measured.prior, **line)
    axes.tick_params(labelsize=SMALL, length=2, pad=1.2)
    axes.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    if len(measured.x) == 1:
        _draw_points(axes, measured)
        return
    _draw_lines(axes, measured, layered)
    if measured.log:
        set_log_scale(axes, "x")
        axes.xaxis.set_major_locator(LogLocator(numticks=4))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(2, steps=[1, 2, 5, 10]))
    axes.set_xlim(measured.x[0], measured.x[-1])
    axes.tick_params(labelbottom=labelled)
    if labelled:
        label = f"{measured.x_label} (log)" if measured.log else measured.x_label
        axes.set_xlabel(label, fontsize=NOTE_SIZE, labelpad=1.5)


def _draw_lines(axes: Axes, measured: RepeatedCurves, layered: bool) -> None:
    # More than 12 markers would merge into one thick line.
    has_markers = len(measured.x) <= 12
    for i, (name, plot_style) in enumerate(styles_by_name(list(measured.curves)).items()):
        low, middle, high = np.nanquantile(measured.curves[name], [0.25, 0.5, 0.75], axis=0)
        n_above = i if layered else 0
        line = plot_style.line(
            linewidth=0.9 + 0.25 * n_above,
            markersize=(MARKER + 0.25 * n_above) * has_markers,
            markeredgewidth=0.5,
            clip_on=False,
            zorder=3 - 0.01 * n_above,
        )
        axes.plot(measured.x, middle, label=name, **line)
        draw_band(axes, measured.x, (low, high), plot_style, name, alpha=0.22)


def _draw_points(axes: Axes, measured: RepeatedCurves) -> None:
    for i, (name, plot_style) in enumerate(styles_by_name(list(measured.curves)).items()):
        low, middle, high = np.nanquantile(measured.curves[name][:, 0], [0.25, 0.5, 0.75])
        bar: dict[str, Any] = {"alpha": 0.4, "linewidth": 2.2, "solid_capstyle": "butt"}
        axes.plot([i, i], [low, high], color=plot_style.color, gid=f"band {name}", **bar)
        dot = plot_style.line(linestyle="", markersize=3.2, markeredgewidth=0.7, zorder=3)
        axes.plot(i, middle, label=name, **dot)
    axes.set(xticks=[], xlim=(-0.6, len(measured.curves) - 0.4))


def _share_quantity_limits(panels: Mapping[PanelColumn, Axes]) -> None:
    for quantity in {quantity for _, quantity in panels}:
        panels_of_quantity = [axes for column, axes in panels.items() if column[1] == quantity]
        low = min(axes.dataLim.y0 for axes in panels_of_quantity)
        high = max(axes.dataLim.y1 for axes in panels_of_quantity)
        margin = 0.06 * max(high - low, 0.01)
        for axes in panels_of_quantity:
            axes.set_ylim(low - margin, high + margin)


def _draw_head(
    figure: Figure,
    lefts: Mapping[PanelColumn, float],
    width: float,
    names: Sequence[str],
    band_of: str | None,
) -> None:
    total, height = figure.get_size_inches()
    lines = [Line2D([], [], label=legend_label(name), linewidth=1.1) for name in names]
    for line, plot_style in zip(lines, styles_by_name(names).values(), strict=True):
        line.set(**plot_style.line(markersize=3.0, markeredgewidth=0.7))
    # With five names, the note fits next to the legend only if the spacing is small.
    spacing = 1.4 if len(names) <= 4 else 0.8
    placement = {"loc": "upper left", "bbox_to_anchor": (NAME / total, 1), "borderaxespad": 0.25}
    figure.legend(handles=lines, ncols=len(lines), columnspacing=spacing, **placement)
    if band_of is not None:
        note = f"lines: medians, bands: 25 to 75 % of {band_of}"
        write_note(figure, total - RIGHT, height - 0.1, note, ha="right", va="center")
    above: dict[str, Any] = {"ha": "center", "va": "bottom"}
    for group in dict.fromkeys(group for group, _ in lefts):
        group_lefts = [left for column, left in lefts.items() if column[0] == group]
        ends, y = (min(group_lefts), max(group_lefts) + width), height - HEAD + 1.2 * LINE
        relative = [end / total for end in ends], [y / height] * 2
        figure.add_artist(Line2D(*relative, color=GREY, linewidth=0.5, gid="group"))
        write_text(figure, sum(ends) / 2, y + 0.03, group, fontsize=7.5, **above)
    for (_, quantity), left in lefts.items():
        place = left + width / 2, height - HEAD + 0.05
        write_text(figure, *place, quantity, fontsize=NOTE_SIZE, **above)


def check_repeated_curves(which: str, measured: RepeatedCurves, *, at_least: int = 2) -> None:
    """Raise ValueError unless curves fit their parameter and have a number at each value.

    The parameter increases and has ``at_least`` one or two values. The message calls the curves
    ``which``.
    """
    x = measured.x
    if np.ndim(x) != 1 or len(x) < at_least or not (np.diff(x) > 0).all():
        number = "two" if at_least > 1 else "one"
        raise ValueError(f"{which} needs {number} or more increasing values of {measured.x_label}")
    for name, values in measured.curves.items():
        if (
            np.ndim(values) != 2
            or np.shape(values)[1] != len(measured.x)
            or np.isnan(values).all(axis=0).any()
        ):
            rule = (
                f"a row of {len(measured.x)} numbers for each repetition, and a number in each"
                " column"
            )
            raise ValueError(
                f"the curve {name!r} of {which} must have {rule}, got shape {np.shape(values)}"
            )


# Points². With two thousand dots of this size, the shape of the data can still be seen in panels
# that are three quarters of an inch wide.
_POINT_SIZE = 1.1


def draw_class_points(axes: Axes, X: np.ndarray, y: np.ndarray) -> None:
    """Draw points Float[n, 2] with classes Int[n], in the order of the rows.

    Class 0 has the colour of probability 1, the last class that of probability 0.
    """
    # The dots are one image in SVG too: as paths, two thousand of them in each of five panels take
    # 1.5 MB.
    last = max(int(y.max()), 1)
    axes.scatter(
        *X.T,
        s=_POINT_SIZE,
        c=posterior_colormap()(1 - y / last),
        linewidths=0,
        rasterized=True,
        gid="points",
    )


def check_class_points(name: str, X: np.ndarray, y: np.ndarray) -> None:
    """Raise ValueError unless there are rows, Float[n, 2], with a label for each, Int[n].

    The message calls the data ``name``.
    """
    if np.ndim(X) != 2 or np.shape(X)[1] != 2 or np.shape(y) != np.shape(X)[:1] or len(y) == 0:
        raise ValueError(
            f"the data {name!r} must be Float[n, 2] with labels Int[n], got shapes {np.shape(X)}"
            f" and {np.shape(y)}"
        )


_PAGE_NAME, _PAGE_TICKS = 0.24, 0.31  # inches: the row's name, left of each panel
_PAGE_FONT_SIZE = 6.5  # points
MAX_ROWS_PER_PAGE = 10
"""Data sets on a page of 9.3 inches; Dey et al. show 12."""


def plot_dataset_pages(
    panels: Mapping[str, CurvesByGroup], *, band_of: str | None, rows: int = MAX_ROWS_PER_PAGE
) -> list[Figure]:
    """Plot each quantity on many data sets, one row per data set.

    The figures follow Figures 5 to 8 of Dey et al. and fill as many pages as needed, with the same
    columns. Lines are medians over repetitions, bands go from the 25 % to the 75 % quantile. A
    quantity that was measured at one value of its parameter is a point and a bar for each model.
    The panels of one quantity have the same scale within a row, and the same range of the parameter
    within a column. A panel that a row does not have stays empty.

    The curves of all groups have the same names, the parent's first; others raise ValueError.
    ``band_of`` describes the repetitions: "10 seeds". None if there is only one, so that there are
    no bands. ``rows`` is the largest number of rows on a page.
    """
    _check_pages(panels, rows)
    columns, names = panel_columns(panels), curve_names(panels)
    shown = list(panels)
    with style_context():
        return [
            _plot_page({row: panels[row] for row in shown[i : i + rows]}, columns, names, band_of)
            for i in range(0, len(shown), rows)
        ]


def _plot_page(
    panels: Mapping[str, CurvesByGroup],
    columns: list[PanelColumn],
    names: list[str],
    band_of: str | None,
) -> Figure:
    figure = new_figure(FULL_WIDTH, HEAD + len(panels) * HEIGHT + (len(panels) - 1) * GAP + BOTTOM)
    lefts, width = panel_positions(columns, _PAGE_NAME, _PAGE_TICKS)
    _draw_head(figure, lefts, width, names, band_of)
    ranges = {
        (g, q): _parameter_range([row[g][q] for row in panels.values() if q in row.get(g, {})])
        for g, q in columns
    }
    # A later row replaces an earlier one, so the row of the lowest panel of each column remains.
    # That panel gets the label of the axis.
    lowest = {
        column: row
        for row, groups in panels.items()
        for column in columns
        if column[1] in groups.get(column[0], {})
    }
    for i, (row, groups) in enumerate(panels.items()):
        bottom = figure.get_figheight() - HEAD - HEIGHT - i * (HEIGHT + GAP)
        labelled = {column for column in columns if lowest.get(column) == row}
        row_axes = _draw_row(figure, groups, bottom, lefts, width, labelled, layered=True)
        for (group, quantity), axes in row_axes.items():
            if len(groups[group][quantity].x) > 1:
                axes.set_xlim(*ranges[group, quantity])
        _draw_row_name(figure, row, bottom)
    return figure


def _parameter_range(measured: list[RepeatedCurves]) -> tuple[float, float]:
    return min((float(curves.x[0]) for curves in measured), default=0.0), max(
        (float(curves.x[-1]) for curves in measured), default=1.0
    )


def _draw_row_name(figure: Figure, row: str, bottom: float) -> None:
    available = HEIGHT + GAP - 0.04
    lines = [row] if text_size(figure, row, _PAGE_FONT_SIZE)[0] <= available else _split_name(row)
    text = shorten_lines(figure, "\n".join(lines), _PAGE_FONT_SIZE, available)
    centered: dict[str, Any] = {"ha": "center", "va": "center", "ma": "center"}
    style: dict[str, Any] = {"fontsize": _PAGE_FONT_SIZE, "linespacing": 1.05, "color": BLACK}
    place = 0.5 * _PAGE_NAME, bottom + HEIGHT / 2
    write_text(figure, *place, text, rotation=90, **centered, **style)


def _split_name(name: str) -> list[str]:
    cuts = [i + 1 for i, letter in enumerate(name[:-1]) if letter in "_- ."]
    cut = min(cuts, key=lambda i: abs(i - len(name) / 2), default=len(name))
    return [part for part in (name[:cut].rstrip(), name[cut:]) if part]


def _check_pages(panels: Mapping[str, CurvesByGroup], rows: int) -> None:
    if not panel_columns(panels):
        raise ValueError("dataset_pages needs a panel in at least one row")
    if rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows}")
    names = curve_names(panels)
    for row, group, quantity, measured in each_panel(panels):
        which = f"{quantity!r} of {group!r} in {row!r}"
        # The style of a line depends on its position.
        if list(measured.curves) != names:
            raise ValueError(
                f"{which} must have the curves that all have, {names}, got {list(measured.curves)}"
            )
        check_repeated_curves(which, measured, at_least=1)


_DATA_WIDTH = 0.72  # inches


def plot_simulation_summary(
    data: Mapping[str, tuple[np.ndarray, np.ndarray]],
    panels: Mapping[str, CurvesByGroup],
    *,
    band_of: str,
) -> Figure:
    """Plot simulated data and each quantity, one row per simulation (Dey et al., Figure 1).

    Lines are medians over repetitions, bands go from the 25 % to the 75 % quantile. The panels of
    one quantity have the same scale within a row. A panel that a row does not have stays empty.

    ``data`` are the first two features of some training rows, and their classes: (Float[n, 2],
    Int[n]). ``band_of`` describes the repetitions: "10 seeds". Other data and curves raise
    ValueError.
    """
    _check_summary(data, panels)
    columns = panel_columns(panels)
    labels = {
        row: {
            c: panels[row][c[0]][c[1]].x_label for c in columns if c[1] in panels[row].get(c[0], {})
        }
        for row in data
    }
    # A row has axis labels if the next row has another parameter.
    labelled_rows = [
        *({row for row, below in pairwise(data) if labels[row] != labels[below]}),
        list(data)[-1],
    ]
    with style_context():
        gaps = sum(LABELLED_GAP if row in labelled_rows else GAP for row in list(data)[:-1])
        figure = new_figure(FULL_WIDTH, HEAD + len(data) * HEIGHT + gaps + BOTTOM)
        lefts, width = panel_positions(columns, NAME + _DATA_WIDTH)
        top = figure.get_figheight() - HEAD
        for i, row in enumerate(data):
            bottom = top - HEIGHT
            _draw_data(add_axes(figure, NAME, bottom, _DATA_WIDTH, HEIGHT), row, data[row])
            labelled = set(columns) if row in labelled_rows else set()
            _draw_row(figure, panels[row], bottom, lefts, width, labelled)
            if i == 0:
                _draw_head(figure, lefts, width, curve_names(panels), band_of)
            top = bottom - (LABELLED_GAP if row in labelled_rows else GAP)
    return figure


def _draw_data(axes: Axes, row: str, points: tuple[np.ndarray, np.ndarray]) -> None:
    draw_class_points(axes, *points)
    axes.set(xticks=[], yticks=[], ylabel=row)
    axes.yaxis.label.set(fontsize=7, color=BLACK)
    axes.spines[:].set_visible(False)


def _check_summary(
    data: Mapping[str, tuple[np.ndarray, np.ndarray]], panels: Mapping[str, CurvesByGroup]
) -> None:
    if not data or set(data) != set(panels):
        raise ValueError(
            f"simulation_summary needs data and panels of the same rows, got {list(data)} and"
            f" {list(panels)}"
        )
    if not panel_columns(panels):
        raise ValueError("simulation_summary needs a panel in at least one row")
    for row, points in data.items():
        check_class_points(row, *points)
    for row, group, quantity, measured in each_panel(panels):
        check_repeated_curves(f"{quantity!r} of {group!r} in {row!r}", measured)
