"""What figures of many small panels share: one quantity measured several times, how it is drawn, and the head above all panels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from kdgraph.figures.labels import NOTE_SIZE
from kdgraph.figures.style import BLACK, FULL_WIDTH, GREY, ID_SHADE, legend_label, roles, set_log_scale

NAME, RIGHT = 0.2, 0.12  # inches: the row's name, the figure's edge
TICKS, BETWEEN_GROUPS = 0.26, 0.06  # inches left of each panel, and more before a group
HEIGHT, GAP, LABELLED_GAP, BOTTOM = 0.72, 0.13, 0.37, 0.34  # inches: a panel, below it without and with an axis label, below the last
HEAD, LINE = 0.6, 0.17  # inches above the panels: legend, groups, quantities
SMALL, MARKER = 6.0, 1.9  # points


@dataclass(frozen=True)
class Repeated:
    """One quantity against one parameter, measured several times.

    Attributes
    ----------
    x : Float[v], increasing.
    curves : name → Float[s, v], a row for each repetition, NaN where one is missing; the first name is the parent's.
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


Quantities = Mapping[str, Repeated]
"""Quantity ("error") → its curves."""
Panels = Mapping[str, Quantities]
"""Group ("random forest") → quantity → its curves."""
Column = tuple[str, str]
"""Group and quantity."""


def columns_of(rows: Iterable[Panels]) -> list[Column]:
    """Group and quantity of every column that some row needs."""
    return list(dict.fromkeys((group, quantity) for drawn in rows for group in drawn for quantity in drawn[group]))


def names_of(rows: Iterable[Panels]) -> list[str]:
    """Names of all curves, the parent's first, in the order in which they are met."""
    return list(dict.fromkeys(name for row in rows for group in row.values() for one in group.values() for name in one.curves))


def places(columns: Sequence[Column], left: float, ticks: float = TICKS) -> tuple[dict[Column, float], float]:
    """Left edge of each column in inches, and the width of a panel: columns begin at ``left``, tick labels take ``ticks`` before each."""
    groups = list(dict.fromkeys(group for group, _ in columns))
    room = FULL_WIDTH - left - RIGHT - len(columns) * ticks - len(groups) * BETWEEN_GROUPS
    width = min(room / len(columns), 1.4)
    before = {c: (i + 1) * ticks + i * width + (groups.index(c[0]) + 1) * BETWEEN_GROUPS for i, c in enumerate(columns)}
    return {column: left + shift for column, shift in before.items()}, width


def draw_repeated(axes: Axes, measured: Repeated, *, labelled: bool, layered: bool = False) -> None:
    """Medians as lines and quartiles as bands; a single value of the parameter gives a point and a bar for each curve, side by side.

    ``layered`` puts each line over the next one, which is wider: where two coincide, both are seen.
    """
    if measured.id_until is not None:
        axes.axvspan(measured.x[0], measured.id_until, color=ID_SHADE, linewidth=0, zorder=0, gid="id_region")
    if measured.prior is not None:
        axes.axhline(measured.prior, color=BLACK, linewidth=0.6, linestyle=(0, (1, 1.5)), zorder=1, gid="prior")
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


def _draw_lines(axes: Axes, measured: Repeated, layered: bool) -> None:
    few = len(measured.x) <= 12  # more markers than that are one thick line here
    for i, (name, role) in enumerate(roles(list(measured.curves)).items()):
        low, middle, high = np.nanquantile(measured.curves[name], [0.25, 0.5, 0.75], axis=0)
        below = i if layered else 0
        style: dict[str, Any] = {"linewidth": 0.9 + 0.25 * below, "markersize": (MARKER + 0.25 * below) * few, "markeredgewidth": 0.5}
        axes.plot(measured.x, middle, label=name, clip_on=False, zorder=3 - 0.01 * below, **role.line() | style)
        axes.fill_between(measured.x, low, high, color=role.color, alpha=0.22, linewidth=0, gid=f"band {name}")


def _draw_points(axes: Axes, measured: Repeated) -> None:
    for i, (name, role) in enumerate(roles(list(measured.curves)).items()):
        low, middle, high = np.nanquantile(measured.curves[name][:, 0], [0.25, 0.5, 0.75])
        axes.plot([i, i], [low, high], color=role.color, alpha=0.4, linewidth=2.2, solid_capstyle="butt", gid=f"band {name}")
        axes.plot(i, middle, label=name, zorder=3, **role.line() | {"linestyle": "", "markersize": 3.2, "markeredgewidth": 0.7})
    axes.set(xticks=[], xlim=(-0.6, len(measured.curves) - 0.4))


def one_scale_a_quantity(drawn: Mapping[Column, Axes]) -> None:
    """Give the panels of a quantity in one row the scale that holds all of them, with some room at both ends."""
    for quantity in {quantity for _, quantity in drawn}:
        same = [axes for (_, other), axes in drawn.items() if other == quantity]
        low = min(axes.dataLim.y0 for axes in same)
        high = max(axes.dataLim.y1 for axes in same)
        room = 0.06 * max(high - low, 0.01)
        for axes in same:
            axes.set_ylim(low - room, high + room)


def head(figure: Figure, lefts: Mapping[Column, float], width: float, names: Sequence[str], band_of: str | None) -> None:
    """What the lines are, and their bands if there are any, and above the first row what its columns are."""
    total, height = figure.get_size_inches()
    lines = [Line2D([], [], label=legend_label(name), linewidth=1.1) for name in names]
    for line, role in zip(lines, roles(names).values(), strict=True):
        line.set(**role.line() | {"markersize": 3.0, "markeredgewidth": 0.7})
    spacing = 1.4 if len(names) <= 4 else 0.8  # beside five names the note just has room
    place = {"loc": "upper left", "bbox_to_anchor": (NAME / total, 1), "borderaxespad": 0.25}
    figure.legend(handles=lines, ncols=len(lines), columnspacing=spacing, **place)
    if band_of is not None:
        note = f"lines: medians, bands: 25 to 75 % of {band_of}"
        figure.text(1 - RIGHT / total, 1 - 0.1 / height, note, ha="right", va="center", fontsize=NOTE_SIZE, color=GREY)
    for group in dict.fromkeys(group for group, _ in lefts):
        inside = [left for (other, _), left in lefts.items() if other == group]
        ends, y = (min(inside) / total, (max(inside) + width) / total), (height - HEAD + 1.2 * LINE) / height
        figure.add_artist(Line2D(ends, (y, y), color=GREY, linewidth=0.5, gid="group"))
        figure.text(sum(ends) / 2, y + 0.03 / height, group, ha="center", va="bottom", fontsize=7.5)
    for (_, quantity), left in lefts.items():
        figure.text((left + width / 2) / total, (height - HEAD + 0.05) / height, quantity, ha="center", va="bottom", fontsize=NOTE_SIZE)


def check_repeated(which: str, measured: Repeated, *, at_least: int = 2) -> None:
    """Refuse curves that do not fit their parameter, or that no repetition has a number for.

    Raises
    ------
    ValueError
        One line that names ``which``.
    """
    if np.ndim(measured.x) != 1 or len(measured.x) < at_least or not (np.diff(measured.x) > 0).all():
        many = "two or more increasing values" if at_least > 1 else "one or more increasing values"
        raise ValueError(f"{which} needs {many} of {measured.x_label}")
    for name, values in measured.curves.items():
        if np.ndim(values) != 2 or np.shape(values)[1] != len(measured.x) or np.isnan(values).all(axis=0).any():
            rule = f"a row of {len(measured.x)} numbers for each repetition, and a number in each column"
            raise ValueError(f"the curve {name!r} of {which} must have {rule}, got shape {np.shape(values)}")
