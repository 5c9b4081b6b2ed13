"""Histograms of PIT values, and coverage against the level of the interval, with what chance alone
does to calibrated distributions.

Histograms of PIT values, a panel for each cell of rows that are near each other.

PIT histograms and coverage, of one run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.run_figures import RunFigureData, columns_by_model, register_figure
from kdgraph.figures.style import (
    BLACK,
    COLUMN_WIDTH,
    FULL_WIDTH,
    GREY,
    ID_SHADE,
    NOTE_SIZE,
    PlotStyle,
    add_axes,
    legend_label,
    new_figure,
    shorten_text,
    style_context,
    styles_by_name,
    text_size,
)
from kdgraph.metrics import coverage_curve
from kdgraph.metrics import pit_histogram as histogram_of
from kdgraph.parameters import Count

_LEFT, _RIGHT, _TOP, _BOTTOM = 0.54, 0.12, 0.08, 0.36  # inches
_WIDTH, _HEIGHT, _DIFFERENCE, _GAP = COLUMN_WIDTH - _LEFT - _RIGHT, 1.7, 0.95, 0.12
_KEY_LINE, _KEY_SIZE = 0.15, 7.0
_BAND_COLOR = "#d9d9d9"
_BAND_PROBABILITY = 0.95
"""Probability that a calibrated distribution stays in the band, in one bin or at one level."""


@dataclass(frozen=True)
class CoverageCurve:
    """Share of rows inside central intervals.

    Attributes
    ----------
    level, coverage : Float[k] in [0, 1]; levels increase.
    """

    level: np.ndarray
    coverage: np.ndarray


def plot_pit_histogram(counts: Mapping[str, np.ndarray]) -> Figure:
    """Density of PIT values by bin; calibrated distributions give 1 everywhere, up to the band that
    chance alone explains.

    Parameters
    ----------
    counts : name → Int[b], rows in each of b equal bins of [0, 1]; the first is the parent, the
        others are methods. Names have the same bins and the same number of rows.

    Returns
    -------
    Figure
        One column wide. The band is the central 95 % of the binomial distribution of one bin's
        count: the chance of these rows, not that of the rows which a method has learnt from.
    """
    n, bins = _check_counts(counts)
    edges = np.arange(bins + 1) / bins
    with style_context():
        figure = new_figure(COLUMN_WIDTH, _BOTTOM + _HEIGHT + _KEY_LINE * (len(counts) + 1) + _TOP)
        axes = add_axes(figure, _LEFT, _BOTTOM, _WIDTH, _HEIGHT)
        low, high = binomial_interval(n, np.array([1 / bins]))
        band = _draw_band(
            axes,
            np.array([0.0, 1.0]),
            np.repeat(low * bins, 2),
            np.repeat(high * bins, 2),
            f"calibrated, {n:,} rows",
        )
        for name, role in styles_by_name(list(counts)).items():
            label = legend_label(shorten_text(figure, name, _KEY_SIZE, _WIDTH - 1.0))
            axes.stairs(
                counts[name] * bins / n,
                edges,
                color=role.color,
                linestyle=role.linestyle,
                linewidth=1.2,
                label=label,
                baseline=None,
            )
        axes.axhline(1, color=BLACK, linewidth=0.7, zorder=1.5, gid="uniform")
        axes.set(xlim=(0, 1), xlabel="PIT value F(y | x)", ylabel="density")
        axes.set_ylim(
            bottom=0,
            top=1.06
            * max(float(high[0]), *(float(found.max()) / n for found in counts.values()))
            * bins,
        )
        axes.yaxis.set_major_locator(MaxNLocator(5))
        _draw_legend(axes, band)
    return figure


def plot_coverage_against_level(curves: Mapping[str, CoverageCurve], n: int) -> Figure:
    """Share of outcomes inside central intervals against their level, and by how many points it
    misses the level.

    Parameters
    ----------
    curves : name → curve; the first is the parent, the others are methods.
    n : rows that every curve was measured on.

    Returns
    -------
    Figure
        One column wide. The band is the central 95 % of the binomial distribution at each level, as
        in :func:`plot_pit_histogram`.
    """
    if not curves:
        raise ValueError("coverage_against_level needs at least one curve")
    grid = np.linspace(0, 1, 201)[1:-1]
    low, high = binomial_interval(n, grid)
    with style_context():
        figure = new_figure(
            COLUMN_WIDTH,
            _BOTTOM + _DIFFERENCE + _GAP + _HEIGHT + _KEY_LINE * (len(curves) + 1) + _TOP,
        )
        below = add_axes(figure, _LEFT, _BOTTOM, _WIDTH, _DIFFERENCE)
        above = add_axes(figure, _LEFT, _BOTTOM + _DIFFERENCE + _GAP, _WIDTH, _HEIGHT, sharex=below)
        band = _draw_band(above, grid, low, high, f"calibrated, {n:,} rows")
        _draw_band(below, grid, low - grid, high - grid, "")
        for name, role in styles_by_name(list(curves)).items():
            _draw_coverage(
                above,
                below,
                legend_label(shorten_text(figure, name, _KEY_SIZE, _WIDTH - 1.0)),
                curves[name],
                role,
            )
        above.plot([0, 1], [0, 1], color=BLACK, linewidth=0.7, zorder=1.5, gid="ideal")
        below.axhline(0, color=BLACK, linewidth=0.7, zorder=1.5, gid="ideal")
        above.set(ylim=(0, 1.02), ylabel="coverage")
        above.tick_params(labelbottom=False)
        below.set(xlim=(0, 1), xlabel="level of the central interval", ylabel="coverage - level")
        below.yaxis.set_major_locator(MaxNLocator(4))
        _draw_legend(above, band)
    return figure


def binomial_interval(n: int, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the central 95 % of Binomial(n, share) / n, Float[k] each, of ``share``: Float[k]."""
    from scipy.stats import binom

    return tuple(
        binom.ppf(level, n, share) / n
        for level in ((1 - _BAND_PROBABILITY) / 2, (1 + _BAND_PROBABILITY) / 2)
    )


def _check_counts(counts: Mapping[str, np.ndarray]) -> tuple[int, int]:
    sizes = {(int(np.sum(found)), len(found)) for found in counts.values()}
    if len(sizes) != 1 or 0 in next(iter(sizes)):
        raise ValueError(
            "pit_histogram needs counts of the same rows in the same bins, got (rows, bins)"
            f" {sorted(sizes)}"
        )
    return next(iter(sizes))


def _draw_band(axes: Axes, x: np.ndarray, low: np.ndarray, high: np.ndarray, label: str):
    return axes.fill_between(
        x, low, high, color=_BAND_COLOR, linewidth=0, zorder=0.5, label=label, gid="band"
    )


def _draw_coverage(
    above: Axes, below: Axes, label: str, found: CoverageCurve, role: PlotStyle
) -> None:
    above.plot(found.level, found.coverage, label=label, **role.line())
    below.plot(found.level, found.coverage - found.level, **role.line())


def _draw_legend(axes: Axes, band) -> None:
    """Names in their order, and the band last, above the axes."""
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(handles)), key=lambda i: handles[i] is band)
    where = {
        "loc": "lower left",
        "bbox_to_anchor": (0, 1.01),
        "labelspacing": 0.25,
        "fontsize": _KEY_SIZE,
    }
    axes.legend([handles[i] for i in order], [labels[i] for i in order], **where)
    note = {"ha": "right", "fontsize": _KEY_SIZE - 0.5, "color": GREY}
    axes.annotate(
        f"band: {100 * _BAND_PROBABILITY:g} %",
        (1, 1.01),
        (0, 5),
        xycoords="axes fraction",
        textcoords="offset points",
        **note,
    )


_LEFT_PIT_LOCAL, _RIGHT_PIT_LOCAL, _BOTTOM_PIT_LOCAL, _HEAD = 0.48, 0.1, 0.38, 0.26  # inches
_GAP_PIT_LOCAL, _ROW_GAP, _HEIGHT_PIT_LOCAL, _COLUMNS = 0.16, 0.26, 1.05, 4
_KEY_SIZE_PIT_LOCAL = 7.0


def plot_local_pit_histograms(cells: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    """Density of PIT values by bin in each cell: errors of opposite signs here and there, which one
    histogram of all rows hides.

    Parameters
    ----------
    cells : name of a cell → name → Int[b], its rows in each of b equal bins of [0, 1]; the first
        name is the parent, the others are methods. All names of a cell have the same rows; cells
        have different numbers of them.

    Returns
    -------
    Figure
        A page wide, up to four cells beside each other, all on one scale. The band is the central
        95 % of the binomial distribution of one bin's count among the rows of the cell.

    Raises
    ------
    ValueError
        Nothing to draw, or counts that do not fit.

    References
    ----------
    Torres et al., "Model-free local recalibration of neural networks", 2024, Figures 1 (f) and 5
    (c, d).
    """
    names, bins = _check_cells(cells)
    rows = -(-len(cells) // _COLUMNS)
    columns = -(-len(cells) // rows)
    width = (
        FULL_WIDTH - _LEFT_PIT_LOCAL - _RIGHT_PIT_LOCAL - (columns - 1) * _GAP_PIT_LOCAL
    ) / columns
    height = _BOTTOM_PIT_LOCAL + rows * _HEIGHT_PIT_LOCAL + (rows - 1) * _ROW_GAP + 0.2 + _HEAD
    top = 1.06 * max(_highest_density(found, bins) for found in cells.values())
    with style_context():
        figure = new_figure(FULL_WIDTH, height)
        for i, (cell, found) in enumerate(cells.items()):
            row, column = divmod(i, columns)
            bottom = _BOTTOM_PIT_LOCAL + (rows - 1 - row) * (_HEIGHT_PIT_LOCAL + _ROW_GAP)
            axes = add_axes(
                figure,
                _LEFT_PIT_LOCAL + column * (width + _GAP_PIT_LOCAL),
                bottom,
                width,
                _HEIGHT_PIT_LOCAL,
            )
            _draw_cell(axes, found, bins)
            axes.set(xlim=(0, 1), ylim=(0, top), xticks=[0, 0.5, 1], xticklabels=["0", "½", "1"])
            axes.yaxis.set_major_locator(MaxNLocator(3))
            last = i + columns >= len(cells)
            axes.tick_params(labelleft=column == 0, labelbottom=last)
            axes.set_xlabel("F(y | x)" if last else "")
            axes.set_ylabel("density" if column == 0 else "")
            n = f" · {int(next(iter(found.values())).sum()):,} rows"
            room = width - text_size(figure, n, NOTE_SIZE)[0] - 0.05
            axes.set_title(
                shorten_text(figure, cell, NOTE_SIZE, room) + n,
                fontsize=NOTE_SIZE,
                loc="left",
                pad=2.5,
            )
        _draw_cells_head(figure, names)
    return figure


def _draw_cell(axes: Axes, found: Mapping[str, np.ndarray], bins: int) -> None:
    n = int(next(iter(found.values())).sum())
    low, high = binomial_interval(n, np.array([1 / bins]))
    axes.fill_between(
        [0, 1], low[0] * bins, high[0] * bins, color=ID_SHADE, linewidth=0, zorder=0.5, gid="band"
    )
    axes.axhline(1, color=BLACK, linewidth=0.6, zorder=1.5, gid="uniform")
    for name, role in styles_by_name(list(found)).items():
        edges = np.arange(bins + 1) / bins
        axes.stairs(
            found[name] * bins / n,
            edges,
            color=role.color,
            linestyle=role.linestyle,
            linewidth=1.0,
            baseline=None,
            label=name,
        )


def _draw_cells_head(figure: Figure, names: list[str]) -> None:
    """What the lines are, and what the band is of."""
    width, height = figure.get_size_inches()
    note = "band: 95 % of calibrated cells, bin by bin"
    room = (width - text_size(figure, note, NOTE_SIZE)[0] - _LEFT_PIT_LOCAL - 0.3) / len(
        names
    ) - 0.45
    lines = [Line2D([], [], linewidth=1.2) for _ in names]
    for line, role in zip(lines, (styles_by_name(names)[name] for name in names), strict=True):
        line.set(color=role.color, linestyle=role.linestyle)
    labels = [shorten_text(figure, name, _KEY_SIZE_PIT_LOCAL, room) for name in names]
    place = {
        "loc": "upper left",
        "bbox_to_anchor": (_LEFT_PIT_LOCAL / width, 1),
        "borderaxespad": 0.3,
        "columnspacing": 1.2,
    }
    figure.legend(
        lines,
        [legend_label(label) for label in labels],
        ncols=len(names),
        fontsize=_KEY_SIZE_PIT_LOCAL,
        **place,
    )
    figure.text(
        1 - _RIGHT_PIT_LOCAL / width,
        1 - 0.11 / height,
        note,
        ha="right",
        va="center",
        fontsize=NOTE_SIZE,
        color=GREY,
    )


def _highest_density(found: Mapping[str, np.ndarray], bins: int) -> float:
    n = int(next(iter(found.values())).sum())
    return (
        max(
            float(binomial_interval(n, np.array([1 / bins]))[1][0]),
            *(float(counts.max()) / n for counts in found.values()),
        )
        * bins
    )


def _check_cells(cells: Mapping[str, Mapping[str, np.ndarray]]) -> tuple[list[str], int]:
    names = {tuple(found) for found in cells.values()}
    bins = {len(counts) for found in cells.values() for counts in found.values()}
    same_rows = all(
        len({int(counts.sum()) for counts in found.values()} - {0}) == 1 for found in cells.values()
    )
    if len(names) != 1 or len(bins) != 1 or not same_rows:
        raise ValueError(
            "local_pit_histograms needs in every cell the same names, bins, and some rows, the same"
            " for all names"
        )
    return list(next(iter(names))), next(iter(bins))


@register_figure("pit_histogram")
def plot_pit_histogram_from_run(run: RunFigureData, *, bins: Count = 20) -> Any:
    """PIT values of the test rows, the parent's against the recalibrated ones.

    Parameters
    ----------
    bins : as of :func:`kdgraph.metrics.pit_histogram`.
    """
    said = run.outputs_by_model("distribution", run.test)
    if said is None:
        return None
    y = np.asarray(run.test.y)
    return plot_pit_histogram(
        {name: histogram_of(y, given, bins=bins)["count"] for name, given in said.items()}
    )


@register_figure("coverage_against_level")
def plot_coverage_against_level_from_run(run: RunFigureData) -> Any:
    """Share of test rows inside central intervals of 5 % to 99 %."""
    said = run.outputs_by_model("distribution", run.test)
    if said is None:
        return None
    y = np.asarray(run.test.y)
    found = {name: coverage_curve(y, given) for name, given in said.items()}
    return plot_coverage_against_level(
        {name: CoverageCurve(table["level"], table["coverage"]) for name, table in found.items()},
        run.test.n,
    )


@register_figure("local_pit_histograms")
def plot_local_pit_histograms_from_run(run: RunFigureData, table: str = "local_pit") -> Any:
    """PIT values of the test rows by cell, of the table that metrics=regression_local makes;
    ``table`` is its key in ``metrics``.
    """
    found = columns_by_model(run, table)
    if found is None:
        return None
    cells = dict.fromkeys(found[run.names[0]]["cell"].tolist())
    return plot_local_pit_histograms(
        {
            str(cell): {name: of["count"][of["cell"] == cell] for name, of in found.items()}
            for cell in cells
        }
    )
