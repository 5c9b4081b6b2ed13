"""Histograms of PIT values, a panel for each cell of rows that are near each other."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.labels import NOTE_SIZE
from kdgraph.figures.pit import binomial_band
from kdgraph.figures.style import BLACK, FULL_WIDTH, GREY, ID_SHADE, add_axes, fitted, legend_label, new_figure, roles, styled, text_size

_LEFT, _RIGHT, _BOTTOM, _HEAD = 0.48, 0.1, 0.38, 0.26  # inches
_GAP, _ROW_GAP, _HEIGHT, _COLUMNS = 0.16, 0.26, 1.05, 4
_KEY_SIZE = 7.0


def local_pit_histograms(cells: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    """Density of PIT values by bin in each cell: errors of opposite signs here and there, which one histogram of all rows hides.

    Parameters
    ----------
    cells : name of a cell → name → Int[b], its rows in each of b equal bins of [0, 1]; the first name is the parent, the others are
        methods. All names of a cell have the same rows; cells have different numbers of them.

    Returns
    -------
    Figure
        A page wide, up to four cells beside each other, all on one scale. The band is the central 95 % of the binomial distribution of one
        bin's count among the rows of the cell.

    Raises
    ------
    ValueError
        Nothing to draw, or counts that do not fit.

    References
    ----------
    Torres et al., "Model-free local recalibration of neural networks", 2024, Figures 1 (f) and 5 (c, d).
    """
    names, bins = _names_and_bins(cells)
    rows = -(-len(cells) // _COLUMNS)
    columns = -(-len(cells) // rows)
    width = (FULL_WIDTH - _LEFT - _RIGHT - (columns - 1) * _GAP) / columns
    height = _BOTTOM + rows * _HEIGHT + (rows - 1) * _ROW_GAP + 0.2 + _HEAD
    top = 1.06 * max(_highest(found, bins) for found in cells.values())
    with styled():
        figure = new_figure(FULL_WIDTH, height)
        for i, (cell, found) in enumerate(cells.items()):
            row, column = divmod(i, columns)
            bottom = _BOTTOM + (rows - 1 - row) * (_HEIGHT + _ROW_GAP)
            axes = add_axes(figure, _LEFT + column * (width + _GAP), bottom, width, _HEIGHT)
            _draw(axes, found, bins)
            axes.set(xlim=(0, 1), ylim=(0, top), xticks=[0, 0.5, 1], xticklabels=["0", "½", "1"])
            axes.yaxis.set_major_locator(MaxNLocator(3))
            last = i + columns >= len(cells)
            axes.tick_params(labelleft=column == 0, labelbottom=last)
            axes.set_xlabel("F(y | x)" if last else "")
            axes.set_ylabel("density" if column == 0 else "")
            n = f" · {int(next(iter(found.values())).sum()):,} rows"
            room = width - text_size(figure, n, NOTE_SIZE)[0] - 0.05
            axes.set_title(fitted(figure, cell, NOTE_SIZE, room) + n, fontsize=NOTE_SIZE, loc="left", pad=2.5)
        _head(figure, names)
    return figure


def _draw(axes: Axes, found: Mapping[str, np.ndarray], bins: int) -> None:
    n = int(next(iter(found.values())).sum())
    low, high = binomial_band(n, np.array([1 / bins]))
    axes.fill_between([0, 1], low[0] * bins, high[0] * bins, color=ID_SHADE, linewidth=0, zorder=0.5, gid="band")
    axes.axhline(1, color=BLACK, linewidth=0.6, zorder=1.5, gid="uniform")
    for name, role in roles(list(found)).items():
        edges = np.arange(bins + 1) / bins
        axes.stairs(found[name] * bins / n, edges, color=role.color, linestyle=role.linestyle, linewidth=1.0, baseline=None, label=name)


def _head(figure: Figure, names: list[str]) -> None:
    """What the lines are, and what the band is of."""
    width, height = figure.get_size_inches()
    note = "band: 95 % of calibrated cells, bin by bin"
    room = (width - text_size(figure, note, NOTE_SIZE)[0] - _LEFT - 0.3) / len(names) - 0.45
    lines = [Line2D([], [], linewidth=1.2) for _ in names]
    for line, role in zip(lines, (roles(names)[name] for name in names), strict=True):
        line.set(color=role.color, linestyle=role.linestyle)
    labels = [fitted(figure, name, _KEY_SIZE, room) for name in names]
    place = {"loc": "upper left", "bbox_to_anchor": (_LEFT / width, 1), "borderaxespad": 0.3, "columnspacing": 1.2}
    figure.legend(lines, [legend_label(label) for label in labels], ncols=len(names), fontsize=_KEY_SIZE, **place)
    figure.text(1 - _RIGHT / width, 1 - 0.11 / height, note, ha="right", va="center", fontsize=NOTE_SIZE, color=GREY)


def _highest(found: Mapping[str, np.ndarray], bins: int) -> float:
    n = int(next(iter(found.values())).sum())
    return max(float(binomial_band(n, np.array([1 / bins]))[1][0]), *(float(counts.max()) / n for counts in found.values())) * bins


def _names_and_bins(cells: Mapping[str, Mapping[str, np.ndarray]]) -> tuple[list[str], int]:
    names = {tuple(found) for found in cells.values()}
    bins = {len(counts) for found in cells.values() for counts in found.values()}
    same_rows = all(len({int(counts.sum()) for counts in found.values()} - {0}) == 1 for found in cells.values())
    if len(names) != 1 or len(bins) != 1 or not same_rows:
        raise ValueError("local_pit_histograms needs in every cell the same names, bins, and some rows, the same for all names")
    return list(next(iter(names))), next(iter(bins))
