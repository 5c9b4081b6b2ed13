"""Many small panels: what simulations look like, and how parent and methods do on each as a parameter grows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from kdgraph.figures.labels import NOTE_SIZE
from kdgraph.figures.points import check_points, class_points
from kdgraph.figures.style import BLACK, FULL_WIDTH, GREY, ID_SHADE, add_axes, new_figure, roles, styled

_NAME, _DATA, _RIGHT = 0.2, 0.72, 0.12  # inches: the row's name, its data, the figure's edge
_TICKS, _BETWEEN_GROUPS = 0.26, 0.06  # inches left of each panel, and more before a group
_HEIGHT, _GAP, _LABELLED_GAP, _BOTTOM = 0.72, 0.13, 0.37, 0.34  # inches: a panel, below it without and with an axis label, below the last
_HEAD, _LINE = 0.6, 0.17  # inches above the panels: legend, groups, quantities
_SMALL, _MARKER = 6.0, 1.9  # points


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


Panels = Mapping[str, Mapping[str, Repeated]]
"""Group ("random forest") → quantity ("error") → its curves."""


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
    columns = list(dict.fromkeys((group, quantity) for drawn in panels.values() for group in drawn for quantity in drawn[group]))
    labels = {row: {c: panels[row][c[0]][c[1]].x_label for c in columns if c[1] in panels[row].get(c[0], {})} for row in data}
    ends = [*({row for row, below in pairwise(data) if labels[row] != labels[below]}), list(data)[-1]]
    with styled():
        inner = sum(_LABELLED_GAP if row in ends else _GAP for row in list(data)[:-1])
        figure = new_figure(FULL_WIDTH, _HEAD + len(data) * _HEIGHT + inner + _BOTTOM)
        lefts, width = _places(columns)
        top = figure.get_figheight() - _HEAD
        for i, row in enumerate(data):
            bottom = top - _HEIGHT
            _show_data(add_axes(figure, _NAME, bottom, _DATA, _HEIGHT), row, data[row])
            drawn = {c: add_axes(figure, lefts[c], bottom, width, _HEIGHT) for c in columns if c in labels[row]}
            for (group, quantity), axes in drawn.items():
                _draw(axes, panels[row][group][quantity], labelled=row in ends)
            _one_scale_a_quantity(drawn)
            if i == 0:
                _head(figure, lefts, width, names_of(panels), band_of)
            top = bottom - (_LABELLED_GAP if row in ends else _GAP)
    return figure


def names_of(panels: Mapping[str, Panels]) -> list[str]:
    """Names of all curves, the parent's first, in the order in which they are met."""
    return list(dict.fromkeys(name for row in panels.values() for group in row.values() for one in group.values() for name in one.curves))


def _places(columns: list[tuple[str, str]]) -> tuple[dict[tuple[str, str], float], float]:
    """Left edge of each column in inches, and the width of a panel."""
    groups = list(dict.fromkeys(group for group, _ in columns))
    room = FULL_WIDTH - _NAME - _DATA - _RIGHT - len(columns) * _TICKS - len(groups) * _BETWEEN_GROUPS
    width = min(room / len(columns), 1.4)
    before = {c: (i + 1) * _TICKS + i * width + (groups.index(c[0]) + 1) * _BETWEEN_GROUPS for i, c in enumerate(columns)}
    return {column: _NAME + _DATA + shift for column, shift in before.items()}, width


def _show_data(axes: Axes, row: str, points: tuple[np.ndarray, np.ndarray]) -> None:
    class_points(axes, *points)
    axes.set(xticks=[], yticks=[], ylabel=row)
    axes.yaxis.label.set(fontsize=7, color=BLACK)
    axes.spines[:].set_visible(False)


def _draw(axes: Axes, measured: Repeated, *, labelled: bool) -> None:
    if measured.id_until is not None:
        axes.axvspan(measured.x[0], measured.id_until, color=ID_SHADE, linewidth=0, zorder=0, gid="id_region")
    if measured.prior is not None:
        axes.axhline(measured.prior, color=BLACK, linewidth=0.6, linestyle=(0, (1, 1.5)), zorder=1, gid="prior")
    few = len(measured.x) <= 12  # more markers than that are one thick line here
    for name, role in roles(list(measured.curves)).items():
        low, middle, high = np.nanquantile(measured.curves[name], [0.25, 0.5, 0.75], axis=0)
        style = role.line() | {"linewidth": 0.9, "markersize": _MARKER if few else 0, "markeredgewidth": 0.5}
        axes.plot(measured.x, middle, label=name, clip_on=False, zorder=3, **style)
        axes.fill_between(measured.x, low, high, color=role.color, alpha=0.22, linewidth=0, gid=f"band {name}")
    axes.tick_params(labelsize=_SMALL, length=2, pad=1.2)
    axes.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    if measured.log:
        axes.set_xscale("log")
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


def _one_scale_a_quantity(drawn: Mapping[tuple[str, str], Axes]) -> None:
    """Give the panels of a quantity in one row the scale that holds all of them, with some room at both ends."""
    for quantity in {quantity for _, quantity in drawn}:
        same = [axes for (_, other), axes in drawn.items() if other == quantity]
        low = min(axes.dataLim.y0 for axes in same)
        high = max(axes.dataLim.y1 for axes in same)
        room = 0.06 * max(high - low, 0.01)
        for axes in same:
            axes.set_ylim(low - room, high + room)


def _head(figure: Figure, lefts: Mapping[tuple[str, str], float], width: float, names: list[str], band_of: str) -> None:
    """What the lines are, and above the first row what its columns are."""
    total, height = figure.get_size_inches()
    lines = [Line2D([], [], label=name, linewidth=1.1) for name in names]
    for line, role in zip(lines, roles(names).values(), strict=True):
        line.set(**role.line() | {"markersize": 3.0, "markeredgewidth": 0.7})
    figure.legend(
        handles=lines, ncols=len(lines), loc="upper left", bbox_to_anchor=(_NAME / total, 1), borderaxespad=0.25, columnspacing=1.4
    )
    note = f"lines: medians, bands: 25 to 75 % of {band_of}"
    figure.text(1 - _RIGHT / total, 1 - 0.1 / height, note, ha="right", va="center", fontsize=NOTE_SIZE, color=GREY)
    for group in dict.fromkeys(group for group, _ in lefts):
        inside = [left for (other, _), left in lefts.items() if other == group]
        ends, y = (min(inside) / total, (max(inside) + width) / total), (height - _HEAD + 1.2 * _LINE) / height
        figure.add_artist(Line2D(ends, (y, y), color=GREY, linewidth=0.5, gid="group"))
        figure.text(sum(ends) / 2, y + 0.03 / height, group, ha="center", va="bottom", fontsize=7.5)
    for (_, quantity), left in lefts.items():
        figure.text((left + width / 2) / total, (height - _HEAD + 0.05) / height, quantity, ha="center", va="bottom", fontsize=NOTE_SIZE)


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
                _check_one(f"{quantity!r} of {group!r} in {row!r}", measured)


def _check_one(which: str, measured: Repeated) -> None:
    if np.ndim(measured.x) != 1 or len(measured.x) < 2 or not (np.diff(measured.x) > 0).all():
        raise ValueError(f"{which} needs two or more increasing values of {measured.x_label}")
    for name, values in measured.curves.items():
        if np.ndim(values) != 2 or np.shape(values)[1] != len(measured.x) or np.isnan(values).all(axis=0).any():
            rule = f"a row of {len(measured.x)} numbers for each repetition, and a number in each column"
            raise ValueError(f"the curve {name!r} of {which} must have {rule}, got shape {np.shape(values)}")
