"""What figures of many small panels share: one quantity measured several times, how it is drawn,
and the head above all panels.

Pages of small panels: how parent and methods do on each of many data sets.

Many small panels: what simulations look like, and how parent and methods do on each as a parameter
grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from kdgraph.figures.style import (
    BLACK,
    FULL_WIDTH,
    GREY,
    ID_SHADE,
    NOTE_SIZE,
    add_axes,
    check_class_points,
    draw_class_points,
    legend_label,
    new_figure,
    set_log_scale,
    shorten_text,
    style_context,
    styles_by_name,
    text_size,
)

NAME, RIGHT = 0.2, 0.12  # inches: the row's name, the figure's edge
TICKS, BETWEEN_GROUPS = 0.26, 0.06  # inches left of each panel, and more before a group
HEIGHT, GAP, LABELLED_GAP, BOTTOM = (
    0.72,
    0.13,
    0.37,
    0.34,
)  # inches: a panel, below it without and with an axis label, below the last
HEAD, LINE = 0.6, 0.17  # inches above the panels: legend, groups, quantities
SMALL, MARKER = 6.0, 1.9  # points


@dataclass(frozen=True)
class RepeatedCurves:
    """One quantity against one parameter, measured several times.

    Attributes
    ----------
    x : Float[v], increasing.
    curves : name → Float[s, v], a row for each repetition, NaN where one is missing; the first name
    is the parent's.
    x_label : what ``x`` is.
    log : whether ``x`` is on a logarithmic axis.
    prior : where a dotted line says what honesty far from the data would be, or None.
    id_until : the training data lie at ``x`` up to here, which is shaded, or None.
    """

    x: np.ndarray
    curves: Mapping[str, np.ndarray]
    x_label: str
    log: bool = False
    prior: float | None = None
    id_until: float | None = None


CurvesByQuantity = Mapping[str, RepeatedCurves]
"""Quantity ("error") → its curves."""
CurvesByGroup = Mapping[str, CurvesByQuantity]
"""Group ("random forest") → quantity → its curves."""
PanelColumn = tuple[str, str]
"""Group and quantity."""


def panel_columns(rows: Iterable[CurvesByGroup]) -> list[PanelColumn]:
    """Group and quantity of every column that some row needs."""
    return list(
        dict.fromkeys(
            (group, quantity) for drawn in rows for group in drawn for quantity in drawn[group]
        )
    )


def curve_names(rows: Iterable[CurvesByGroup]) -> list[str]:
    """Names of all curves, the parent's first, in the order in which they are met."""
    return list(
        dict.fromkeys(
            name
            for row in rows
            for group in row.values()
            for one in group.values()
            for name in one.curves
        )
    )


def panel_positions(
    columns: Sequence[PanelColumn], left: float, ticks: float = TICKS
) -> tuple[dict[PanelColumn, float], float]:
    """Left edge of each column in inches, and the width of a panel: columns begin at ``left``, tick
    labels take ``ticks`` before each.
    """
    groups = list(dict.fromkeys(group for group, _ in columns))
    room = FULL_WIDTH - left - RIGHT - len(columns) * ticks - len(groups) * BETWEEN_GROUPS
    width = min(room / len(columns), 1.4)
    before = {
        c: (i + 1) * ticks + i * width + (groups.index(c[0]) + 1) * BETWEEN_GROUPS
        for i, c in enumerate(columns)
    }
    return {column: left + shift for column, shift in before.items()}, width


def _draw_repeated(
    axes: Axes, measured: RepeatedCurves, *, labelled: bool, layered: bool = False
) -> None:
    """Medians as lines and quartiles as bands; a single value of the parameter gives a point and a
    bar for each curve, side by side.

    ``layered`` puts each line over the next one, which is wider: where two coincide, both are seen.
    """
    if measured.id_until is not None:
        axes.axvspan(
            measured.x[0], measured.id_until, color=ID_SHADE, linewidth=0, zorder=0, gid="id_region"
        )
    if measured.prior is not None:
        axes.axhline(
            measured.prior,
            color=BLACK,
            linewidth=0.6,
            linestyle=(0, (1, 1.5)),
            zorder=1,
            gid="prior",
        )
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
    if labelled:
        axes.set_xlabel(measured.x_label, fontsize=NOTE_SIZE, labelpad=1.5)
    else:
        axes.tick_params(labelbottom=False)


def _draw_lines(axes: Axes, measured: RepeatedCurves, layered: bool) -> None:
    few = len(measured.x) <= 12  # more markers than that are one thick line here
    for i, (name, role) in enumerate(styles_by_name(list(measured.curves)).items()):
        low, middle, high = np.nanquantile(measured.curves[name], [0.25, 0.5, 0.75], axis=0)
        below = i if layered else 0
        style: dict[str, Any] = {
            "linewidth": 0.9 + 0.25 * below,
            "markersize": (MARKER + 0.25 * below) * few,
            "markeredgewidth": 0.5,
        }
        axes.plot(
            measured.x,
            middle,
            label=name,
            clip_on=False,
            zorder=3 - 0.01 * below,
            **role.line() | style,
        )
        axes.fill_between(
            measured.x, low, high, color=role.color, alpha=0.22, linewidth=0, gid=f"band {name}"
        )


def _draw_points(axes: Axes, measured: RepeatedCurves) -> None:
    for i, (name, role) in enumerate(styles_by_name(list(measured.curves)).items()):
        low, middle, high = np.nanquantile(measured.curves[name][:, 0], [0.25, 0.5, 0.75])
        axes.plot(
            [i, i],
            [low, high],
            color=role.color,
            alpha=0.4,
            linewidth=2.2,
            solid_capstyle="butt",
            gid=f"band {name}",
        )
        axes.plot(
            i,
            middle,
            label=name,
            zorder=3,
            **role.line() | {"linestyle": "", "markersize": 3.2, "markeredgewidth": 0.7},
        )
    axes.set(xticks=[], xlim=(-0.6, len(measured.curves) - 0.4))


def _share_quantity_limits(drawn: Mapping[PanelColumn, Axes]) -> None:
    """Give the panels of a quantity in one row the scale that holds all of them, with some room at
    both ends.
    """
    for quantity in {quantity for _, quantity in drawn}:
        same = [axes for (_, other), axes in drawn.items() if other == quantity]
        low = min(axes.dataLim.y0 for axes in same)
        high = max(axes.dataLim.y1 for axes in same)
        room = 0.06 * max(high - low, 0.01)
        for axes in same:
            axes.set_ylim(low - room, high + room)


def _draw_head(
    figure: Figure,
    lefts: Mapping[PanelColumn, float],
    width: float,
    names: Sequence[str],
    band_of: str | None,
) -> None:
    """What the lines are, and their bands if there are any, and above the first row what its
    columns are.
    """
    total, height = figure.get_size_inches()
    lines = [Line2D([], [], label=legend_label(name), linewidth=1.1) for name in names]
    for line, role in zip(lines, styles_by_name(names).values(), strict=True):
        line.set(**role.line() | {"markersize": 3.0, "markeredgewidth": 0.7})
    spacing = 1.4 if len(names) <= 4 else 0.8  # beside five names the note just has room
    place = {"loc": "upper left", "bbox_to_anchor": (NAME / total, 1), "borderaxespad": 0.25}
    figure.legend(handles=lines, ncols=len(lines), columnspacing=spacing, **place)
    if band_of is not None:
        note = f"lines: medians, bands: 25 to 75 % of {band_of}"
        figure.text(
            1 - RIGHT / total,
            1 - 0.1 / height,
            note,
            ha="right",
            va="center",
            fontsize=NOTE_SIZE,
            color=GREY,
        )
    for group in dict.fromkeys(group for group, _ in lefts):
        inside = [left for (other, _), left in lefts.items() if other == group]
        ends, y = (
            (min(inside) / total, (max(inside) + width) / total),
            (height - HEAD + 1.2 * LINE) / height,
        )
        figure.add_artist(Line2D(ends, (y, y), color=GREY, linewidth=0.5, gid="group"))
        figure.text(sum(ends) / 2, y + 0.03 / height, group, ha="center", va="bottom", fontsize=7.5)
    for (_, quantity), left in lefts.items():
        figure.text(
            (left + width / 2) / total,
            (height - HEAD + 0.05) / height,
            quantity,
            ha="center",
            va="bottom",
            fontsize=NOTE_SIZE,
        )


def check_repeated_curves(which: str, measured: RepeatedCurves, *, at_least: int = 2) -> None:
    """Refuse curves that do not fit their parameter, or that no repetition has a number for.

    Raises
    ------
    ValueError
        One line that names ``which``.
    """
    if (
        np.ndim(measured.x) != 1
        or len(measured.x) < at_least
        or not (np.diff(measured.x) > 0).all()
    ):
        many = "two or more increasing values" if at_least > 1 else "one or more increasing values"
        raise ValueError(f"{which} needs {many} of {measured.x_label}")
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


_NAME, _TICKS = 0.24, 0.31  # inches: the row's name, left of each panel
_PAGE_FONT_SIZE = 6.5  # points
MAX_ROWS_PER_PAGE = 10
"""Data sets on a page of 9.3 inches; Dey et al. have 12."""


def plot_dataset_pages(
    panels: Mapping[str, CurvesByGroup], *, band_of: str | None, rows: int = MAX_ROWS_PER_PAGE
) -> list[Figure]:
    """One row for each data set, as Figures 5 to 8 of Dey et al.: each quantity for each group of
    models, on as many pages as it takes.

    Lines are medians over repetitions, bands go from their 25 % to their 75 % quantile; a quantity
    that was measured at one value of its parameter is a point and a bar for each model. Panels of
    one row and quantity have one scale, in whichever group they are, and panels below each other
    one range of the parameter.

    Parameters
    ----------
    panels : row → group → quantity → :class:`RepeatedCurves`. What a row lacks of another's groups and
        quantities stays empty. The curves of all groups have the same names, the parent's first.
    band_of : what the repetitions are, e.g. "10 seeds"; None where there is one, so that nothing
    has a band.
    rows : the most on a page.

    Returns
    -------
    list of Figure
        As wide as the page, with the same columns on each.

    Raises
    ------
    ValueError
        No row, curves that do not fit their parameter.
    """
    _check_pages(panels, rows)
    columns, names = panel_columns(panels.values()), curve_names(panels.values())
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
    lefts, width = panel_positions(columns, _NAME, _TICKS)
    _draw_head(figure, lefts, width, names, band_of)
    ranges = {
        (g, q): _parameter_range([row[g][q] for row in panels.values() if q in row.get(g, {})])
        for g, q in columns
    }
    lowest = {
        column: row
        for row, groups in panels.items()
        for column in columns
        if column[1] in groups.get(column[0], {})
    }
    for i, (row, groups) in enumerate(panels.items()):
        bottom = figure.get_figheight() - HEAD - HEIGHT - i * (HEIGHT + GAP)
        drawn = {
            c: add_axes(figure, lefts[c], bottom, width, HEIGHT)
            for c in columns
            if c[1] in groups.get(c[0], {})
        }
        for (group, quantity), axes in drawn.items():
            _draw_repeated(
                axes, groups[group][quantity], labelled=lowest[group, quantity] == row, layered=True
            )
            if len(groups[group][quantity].x) > 1:
                axes.set_xlim(*ranges[group, quantity])
        _share_quantity_limits(drawn)
        _draw_row_name(figure, row, bottom)
    return figure


def _parameter_range(measured: list[RepeatedCurves]) -> tuple[float, float]:
    """First and last value of the parameter that any of them has."""
    return min((float(one.x[0]) for one in measured), default=0.0), max(
        (float(one.x[-1]) for one in measured), default=1.0
    )


def _draw_row_name(figure: Figure, row: str, bottom: float) -> None:
    """The row's name from bottom to top, on two lines if it is too long for one."""
    total, height = figure.get_size_inches()
    room = HEIGHT + GAP - 0.04
    lines = [row] if text_size(figure, row, _PAGE_FONT_SIZE)[0] <= room else _split_name(row)
    text = "\n".join(shorten_text(figure, line, _PAGE_FONT_SIZE, room) for line in lines)
    where = 0.5 * _NAME / total, (bottom + HEIGHT / 2) / height
    figure.text(
        *where,
        text,
        rotation=90,
        ha="center",
        va="center",
        ma="center",
        fontsize=_PAGE_FONT_SIZE,
        linespacing=1.05,
        color=BLACK,
    )


def _split_name(name: str) -> list[str]:
    """The name cut after the separator nearest to its middle."""
    cuts = [i + 1 for i, letter in enumerate(name[:-1]) if letter in "_- ."]
    cut = min(cuts, key=lambda i: abs(i - len(name) / 2), default=len(name))
    return [part for part in (name[:cut].rstrip(), name[cut:]) if part]


def _check_pages(panels: Mapping[str, CurvesByGroup], rows: int) -> None:
    if not any(drawn for groups in panels.values() for drawn in groups.values()):
        raise ValueError("dataset_pages needs a panel in at least one row")
    if rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows}")
    names = curve_names(panels.values())
    for row, groups in panels.items():
        for group, drawn in groups.items():
            for quantity, measured in drawn.items():
                which = f"{quantity!r} of {group!r} in {row!r}"
                if list(measured.curves) != names:  # what a line is goes by its position
                    raise ValueError(
                        f"{which} must have the curves that all have, {names}, got"
                        f" {list(measured.curves)}"
                    )
                check_repeated_curves(which, measured, at_least=1)


_DATA_WIDTH = 0.72  # inches


def plot_simulation_summary(
    data: Mapping[str, tuple[np.ndarray, np.ndarray]],
    panels: Mapping[str, CurvesByGroup],
    *,
    band_of: str,
) -> Figure:
    """One row for each simulation, as Figure 1 of Dey et al.: its data, then each quantity for each
    group of models.

    Lines are medians over repetitions, bands go from their 25 % to their 75 % quantile. Panels of
    one row and quantity have one scale, in whichever group they are.

    Parameters
    ----------
    data : row → Float[n, 2] and Int[n], the first two features of some training rows, and their
    classes.
    panels : row → group → quantity → :class:`RepeatedCurves`. What a row lacks of another's groups and
    quantities stays empty.
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
    _check_summary(data, panels)
    columns = panel_columns(panels.values())
    labels = {
        row: {
            c: panels[row][c[0]][c[1]].x_label for c in columns if c[1] in panels[row].get(c[0], {})
        }
        for row in data
    }
    ends = [
        *({row for row, below in pairwise(data) if labels[row] != labels[below]}),
        list(data)[-1],
    ]
    with style_context():
        inner = sum(LABELLED_GAP if row in ends else GAP for row in list(data)[:-1])
        figure = new_figure(FULL_WIDTH, HEAD + len(data) * HEIGHT + inner + BOTTOM)
        lefts, width = panel_positions(columns, NAME + _DATA_WIDTH)
        top = figure.get_figheight() - HEAD
        for i, row in enumerate(data):
            bottom = top - HEIGHT
            _draw_data(add_axes(figure, NAME, bottom, _DATA_WIDTH, HEIGHT), row, data[row])
            drawn = {
                c: add_axes(figure, lefts[c], bottom, width, HEIGHT)
                for c in columns
                if c in labels[row]
            }
            for (group, quantity), axes in drawn.items():
                _draw_repeated(axes, panels[row][group][quantity], labelled=row in ends)
            _share_quantity_limits(drawn)
            if i == 0:
                _draw_head(figure, lefts, width, curve_names(panels.values()), band_of)
            top = bottom - (LABELLED_GAP if row in ends else GAP)
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
    if not any(drawn for groups in panels.values() for drawn in groups.values()):
        raise ValueError("simulation_summary needs a panel in at least one row")
    for row, points in data.items():
        check_class_points(row, *points)
    for row, groups in panels.items():
        for group, drawn in groups.items():
            for quantity, measured in drawn.items():
                check_repeated_curves(f"{quantity!r} of {group!r} in {row!r}", measured)
