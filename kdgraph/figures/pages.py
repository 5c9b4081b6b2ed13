"""Pages of small panels: how parent and methods do on each of many data sets."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from kdgraph.figures.panels import (
    BOTTOM,
    GAP,
    HEAD,
    HEIGHT,
    Column,
    Panels,
    Repeated,
    check_repeated,
    columns_of,
    draw_repeated,
    head,
    names_of,
    one_scale_a_quantity,
    places,
)
from kdgraph.figures.style import BLACK, FULL_WIDTH, add_axes, fitted, new_figure, styled, text_size

_NAME, _TICKS = 0.24, 0.31  # inches: the row's name, left of each panel
_SIZE = 6.5  # points
ROWS = 10
"""Data sets on a page of 9.3 inches; Dey et al. have 12."""


def dataset_pages(panels: Mapping[str, Panels], *, band_of: str | None, rows: int = ROWS) -> list[Figure]:
    """One row for each data set, as Figures 5 to 8 of Dey et al.: each quantity for each group of models, on as many pages as it takes.

    Lines are medians over repetitions, bands go from their 25 % to their 75 % quantile; a quantity that was measured at one value of its
    parameter is a point and a bar for each model. Panels of one row and quantity have one scale, in whichever group they are, and panels
    below each other one range of the parameter.

    Parameters
    ----------
    panels : row → group → quantity → :class:`Repeated`. What a row lacks of another's groups and quantities stays empty. The curves of all
        groups have the same names, the parent's first.
    band_of : what the repetitions are, e.g. "10 seeds"; None where there is one, so that nothing has a band.
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
    _check(panels, rows)
    columns, names = columns_of(panels.values()), names_of(panels.values())
    shown = list(panels)
    with styled():
        return [_page({row: panels[row] for row in shown[i : i + rows]}, columns, names, band_of) for i in range(0, len(shown), rows)]


def _page(panels: Mapping[str, Panels], columns: list[Column], names: list[str], band_of: str | None) -> Figure:
    figure = new_figure(FULL_WIDTH, HEAD + len(panels) * HEIGHT + (len(panels) - 1) * GAP + BOTTOM)
    lefts, width = places(columns, _NAME, _TICKS)
    head(figure, lefts, width, names, band_of)
    ranges = {(g, q): _range([row[g][q] for row in panels.values() if q in row.get(g, {})]) for g, q in columns}
    lowest = {column: row for row, groups in panels.items() for column in columns if column[1] in groups.get(column[0], {})}
    for i, (row, groups) in enumerate(panels.items()):
        bottom = figure.get_figheight() - HEAD - HEIGHT - i * (HEIGHT + GAP)
        drawn = {c: add_axes(figure, lefts[c], bottom, width, HEIGHT) for c in columns if c[1] in groups.get(c[0], {})}
        for (group, quantity), axes in drawn.items():
            draw_repeated(axes, groups[group][quantity], labelled=lowest[group, quantity] == row, layered=True)
            if len(groups[group][quantity].x) > 1:
                axes.set_xlim(*ranges[group, quantity])
        one_scale_a_quantity(drawn)
        _name(figure, row, bottom)
    return figure


def _range(measured: list[Repeated]) -> tuple[float, float]:
    """First and last value of the parameter that any of them has."""
    return min((float(one.x[0]) for one in measured), default=0.0), max((float(one.x[-1]) for one in measured), default=1.0)


def _name(figure: Figure, row: str, bottom: float) -> None:
    """The row's name from bottom to top, on two lines if it is too long for one."""
    total, height = figure.get_size_inches()
    room = HEIGHT + GAP - 0.04
    lines = [row] if text_size(figure, row, _SIZE)[0] <= room else _halves(row)
    text = "\n".join(fitted(figure, line, _SIZE, room) for line in lines)
    where = 0.5 * _NAME / total, (bottom + HEIGHT / 2) / height
    figure.text(*where, text, rotation=90, ha="center", va="center", ma="center", fontsize=_SIZE, linespacing=1.05, color=BLACK)


def _halves(name: str) -> list[str]:
    """The name cut after the separator nearest to its middle."""
    cuts = [i + 1 for i, letter in enumerate(name[:-1]) if letter in "_- ."]
    cut = min(cuts, key=lambda i: abs(i - len(name) / 2), default=len(name))
    return [part for part in (name[:cut].rstrip(), name[cut:]) if part]


def _check(panels: Mapping[str, Panels], rows: int) -> None:
    if not any(drawn for groups in panels.values() for drawn in groups.values()):
        raise ValueError("dataset_pages needs a panel in at least one row")
    if rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows}")
    names = names_of(panels.values())
    for row, groups in panels.items():
        for group, drawn in groups.items():
            for quantity, measured in drawn.items():
                which = f"{quantity!r} of {group!r} in {row!r}"
                if list(measured.curves) != names:  # what a line is goes by its position
                    raise ValueError(f"{which} must have the curves that all have, {names}, got {list(measured.curves)}")
                check_repeated(which, measured, at_least=1)
