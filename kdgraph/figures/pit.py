"""Histograms of PIT values, overall and by cell, and coverage against the level.

Bands show the range of calibrated distributions by chance alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.drawing import (
    PanelGrid,
    draw_legend_line,
    line_handle,
    write_beside,
    write_note,
)
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
"""Probability that a calibrated distribution is inside the band, in one bin or at one level."""


@dataclass(frozen=True)
class CoverageCurve:
    """Fraction of rows inside central intervals.

    Attributes
    ----------
    level, coverage : Float[k]
        Increasing levels and the coverage at each, in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import CoverageCurve
    >>> level = np.linspace(0.1, 0.9, 9)
    >>> too_narrow = CoverageCurve(level, level**2)
    >>> bool((too_narrow.coverage < too_narrow.level).all())
    True
    """

    level: np.ndarray
    coverage: np.ndarray


# Steps have no markers: dashes tell methods apart where colours cannot be seen.
_STEP_DASHES = ("-", (0, (6, 1.2, 1, 1.2)), (0, (1, 1)))


def _step_styles(names: Sequence[str]) -> dict[str, PlotStyle]:
    """Return the style of each histogram, with other dashes for each of three methods."""
    styles = styles_by_name(names)
    methods = [name for name in names[1:] if name != "truth"]
    dashes = {name: _STEP_DASHES[i % len(_STEP_DASHES)] for i, name in enumerate(methods)}
    return {
        name: replace(style, linestyle=dashes.get(name, style.linestyle))
        for name, style in styles.items()
    }


def plot_pit_histogram(counts: Mapping[str, np.ndarray]) -> Figure:
    """Plot the density of PIT values by bin.

    The density of calibrated distributions is 1 everywhere, up to the band of chance.

    Parameters
    ----------
    counts : mapping of str to Int[b]
        Rows in each of b equal bins of [0, 1]; the first name is the parent, the others are
        methods. All names have the same bins and the same number of rows.

    Returns
    -------
    Figure
        Figure of one column. The band is the central 95 % of the binomial distribution of one bin's
        count. It accounts for the randomness of these rows, not of the rows on which a method was
        fitted.

    Raises
    ------
    ValueError
        If there are no counts, or numbers of rows or bins differ.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import plot_pit_histogram
    >>> counts = {"network": np.array([40, 10, 10, 40]), "global_pit": np.array([26, 24, 25, 25])}
    >>> figure = plot_pit_histogram(counts)
    >>> [(axes.get_xlabel(), axes.get_ylabel()) for axes in figure.axes]
    [('PIT value F(y | x)', 'density')]
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
        for name, style in _step_styles(list(counts)).items():
            label = legend_label(shorten_text(figure, name, _KEY_SIZE, _WIDTH - 1.0))
            _draw_density(axes, counts[name] * bins / n, edges, style, label, 1.2)
        axes.axhline(1, color=BLACK, linewidth=0.7, zorder=1.5, gid="uniform")
        axes.set(xlim=(0, 1), xlabel="PIT value F(y | x)", ylabel="density")
        fractions = (float(bin_counts.max()) / n for bin_counts in counts.values())
        axes.set_ylim(bottom=0, top=1.06 * max(float(high[0]), *fractions) * bins)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        _draw_legend(axes, band)
    return figure


def _draw_density(
    axes: Axes, density: np.ndarray, edges: np.ndarray, style: PlotStyle, label: str, width: float
) -> None:
    line = {"color": style.color, "linestyle": style.linestyle, "linewidth": width}
    axes.stairs(density, edges, label=label, baseline=None, **line)


def plot_coverage_against_level(curves: Mapping[str, CoverageCurve], n: int) -> Figure:
    """Plot the coverage of central intervals, and its difference from the level.

    Parameters
    ----------
    curves : mapping of str to CoverageCurve
        Curves by name; the first is the parent, the others are methods.
    n : int
        Number of rows behind every curve.

    Returns
    -------
    Figure
        Figure of one column. The band is the central 95 % of the binomial distribution at each
        level, as in :func:`plot_pit_histogram`.

    Raises
    ------
    ValueError
        If there is no curve.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import CoverageCurve, plot_coverage_against_level
    >>> level = np.linspace(0.1, 0.9, 9)
    >>> network, local_pit = CoverageCurve(level, level**2), CoverageCurve(level, level)
    >>> curves = {"network": network, "local_pit": local_pit}
    >>> figure = plot_coverage_against_level(curves, n=1000)
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['coverage - level', 'coverage']
    """
    if not curves:
        raise ValueError("coverage_against_level needs at least one curve")
    grid = np.linspace(0, 1, 201)[1:-1]
    low, high = binomial_interval(n, grid)
    with style_context():
        key = _KEY_LINE * (len(curves) + 1)
        figure = new_figure(COLUMN_WIDTH, _BOTTOM + _DIFFERENCE + _GAP + _HEIGHT + key + _TOP)
        below = add_axes(figure, _LEFT, _BOTTOM, _WIDTH, _DIFFERENCE)
        above = add_axes(figure, _LEFT, _BOTTOM + _DIFFERENCE + _GAP, _WIDTH, _HEIGHT, sharex=below)
        band = _draw_band(above, grid, low, high, f"calibrated, {n:,} rows")
        _draw_band(below, grid, low - grid, high - grid, "")
        for name, style in styles_by_name(list(curves)).items():
            curve, short = curves[name], shorten_text(figure, name, _KEY_SIZE, _WIDTH - 1.0)
            above.plot(curve.level, curve.coverage, label=legend_label(short), **style.line())
            below.plot(curve.level, curve.coverage - curve.level, **style.line())
        above.plot([0, 1], [0, 1], color=BLACK, linewidth=0.7, zorder=1.5, gid="ideal")
        below.axhline(0, color=BLACK, linewidth=0.7, zorder=1.5, gid="ideal")
        above.set(ylim=(0, 1.02), ylabel="coverage")
        above.tick_params(labelbottom=False)
        below.set(xlim=(0, 1), xlabel="level of the central interval", ylabel="coverage - level")
        below.yaxis.set_major_locator(MaxNLocator(4))
        _draw_legend(above, band)
    return figure


def binomial_interval(n: int, probability: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the central 95 % of Binomial(n, p) / n for probabilities Float[k]."""
    from scipy.stats import binom

    return tuple(
        binom.ppf(level, n, probability) / n
        for level in ((1 - _BAND_PROBABILITY) / 2, (1 + _BAND_PROBABILITY) / 2)
    )


def _check_counts(counts: Mapping[str, np.ndarray]) -> tuple[int, int]:
    sizes = {(int(np.sum(bin_counts)), len(bin_counts)) for bin_counts in counts.values()}
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


def _draw_legend(axes: Axes, band) -> None:
    handles, labels = axes.get_legend_handles_labels()
    # The sort is stable, so curves keep their order and the band is last.
    order = sorted(range(len(handles)), key=lambda i: handles[i] is band)
    axes.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="lower left",
        bbox_to_anchor=(0, 1.01),
        labelspacing=0.25,
        fontsize=_KEY_SIZE,
    )
    note = f"band: {100 * _BAND_PROBABILITY:g} %"
    write_beside(axes, note, (1, 1.01), (0, 5), ha="right", color=GREY)


_CELL_LEFT, _CELL_RIGHT, _CELL_BOTTOM, _HEAD = 0.48, 0.1, 0.38, 0.26  # inches
_CELL_GAP, _ROW_GAP, _CELL_HEIGHT, _COLUMNS = 0.16, 0.26, 1.05, 4


def plot_local_pit_histograms(cells: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    """Plot the density of PIT values by bin in each cell of similar rows.

    Errors of opposite signs in different cells cancel in one histogram of all rows.

    Parameters
    ----------
    cells : mapping of cell to name to Int[b]
        Rows of the cell in each of b equal bins of [0, 1]; the first name is the parent, the others
        are methods. All names of a cell have the same number of rows, which may differ between
        cells.

    Returns
    -------
    Figure
        Figure as wide as the page, with up to four cells in a row, all on one scale. The band is
        the central 95 % of the binomial distribution of one bin's count among the rows of the cell.

    Raises
    ------
    ValueError
        If there is nothing to draw, or counts do not fit.

    References
    ----------
    Torres et al., "Model-free local recalibration of neural networks", 2024, Figures 1 (f) and 5
    (c, d).

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import plot_local_pit_histograms
    >>> low = {"network": np.array([60, 25, 15]), "local_pit": np.array([33, 33, 34])}
    >>> high = {"network": np.array([15, 25, 60]), "local_pit": np.array([34, 33, 33])}
    >>> figure = plot_local_pit_histograms({"x < 0": low, "x > 0": high})
    >>> len(figure.axes)
    2
    """
    names, bins = _check_cells(cells)
    columns = -(-len(cells) // -(-len(cells) // _COLUMNS))
    width = (FULL_WIDTH - _CELL_LEFT - _CELL_RIGHT - (columns - 1) * _CELL_GAP) / columns
    corner, gaps = (_CELL_LEFT, _CELL_BOTTOM), (_CELL_GAP, _ROW_GAP)
    grid = PanelGrid(len(cells), columns, *corner, width, _CELL_HEIGHT, *gaps)
    top = 1.06 * max(_highest_density(counts_by_name, bins) for counts_by_name in cells.values())
    with style_context():
        figure = new_figure(FULL_WIDTH, grid.top - _ROW_GAP + 0.2 + _HEAD)
        for i, (cell, counts_by_name) in enumerate(cells.items()):
            axes = grid.add_axes(figure, i)
            _draw_cell(axes, counts_by_name, bins)
            axes.set(xlim=(0, 1), ylim=(0, top), xticks=[0, 0.5, 1], xticklabels=["0", "½", "1"])
            axes.yaxis.set_major_locator(MaxNLocator(3))
            axes.tick_params(labelleft=grid.is_leftmost(i), labelbottom=grid.is_lowest(i))
            axes.set_xlabel("F(y | x)" if grid.is_lowest(i) else "")
            axes.set_ylabel("density" if grid.is_leftmost(i) else "")
            n = f" · {int(next(iter(counts_by_name.values())).sum()):,} rows"
            available = width - text_size(figure, n, NOTE_SIZE)[0] - 0.05
            title = shorten_text(figure, cell, NOTE_SIZE, available) + n
            axes.set_title(title, fontsize=NOTE_SIZE, loc="left", pad=2.5)
        _draw_cells_head(figure, names)
    return figure


def _draw_cell(axes: Axes, counts_by_name: Mapping[str, np.ndarray], bins: int) -> None:
    n = int(next(iter(counts_by_name.values())).sum())
    low, high = binomial_interval(n, np.array([1 / bins]))
    axes.fill_between(
        [0, 1], low[0] * bins, high[0] * bins, color=ID_SHADE, linewidth=0, zorder=0.5, gid="band"
    )
    axes.axhline(1, color=BLACK, linewidth=0.6, zorder=1.5, gid="uniform")
    edges = np.arange(bins + 1) / bins
    for name, style in _step_styles(list(counts_by_name)).items():
        _draw_density(axes, counts_by_name[name] * bins / n, edges, style, name, 1.0)


def _draw_cells_head(figure: Figure, names: list[str]) -> None:
    width, height = figure.get_size_inches()
    note = "band: 95 % of calibrated cells, bin by bin"
    space = width - text_size(figure, note, NOTE_SIZE)[0] - _CELL_LEFT - 0.3
    lines = [line_handle(_step_styles(names)[name]) for name in names]
    available = space / len(names) - 0.45
    draw_legend_line(figure, lines, names, _CELL_LEFT, available, columnspacing=1.2)
    write_note(figure, width - _CELL_RIGHT, height - 0.11, note, ha="right", va="center")


def _highest_density(counts_by_name: Mapping[str, np.ndarray], bins: int) -> float:
    n = int(next(iter(counts_by_name.values())).sum())
    band = float(binomial_interval(n, np.array([1 / bins]))[1][0])
    return max(band, *(float(counts.max()) / n for counts in counts_by_name.values())) * bins


def _check_cells(cells: Mapping[str, Mapping[str, np.ndarray]]) -> tuple[list[str], int]:
    names = {tuple(counts_by_name) for counts_by_name in cells.values()}
    bins = {len(counts) for counts_by_name in cells.values() for counts in counts_by_name.values()}
    same_rows = all(
        len({int(counts.sum()) for counts in counts_by_name.values()} - {0}) == 1
        for counts_by_name in cells.values()
    )
    if len(names) != 1 or len(bins) != 1 or not same_rows:
        raise ValueError(
            "local_pit_histograms needs in every cell the same names, bins, and some rows, the same"
            " for all names"
        )
    return list(next(iter(names))), next(iter(bins))


@register_figure("pit_histogram")
def plot_pit_histogram_from_run(run: RunFigureData, *, bins: Count = 20) -> Any:
    """Plot the PIT values of the test rows before and after recalibration."""
    distributions = run.outputs_by_model("distribution", run.test)
    if distributions is None:
        return None
    y = np.asarray(run.test.y)
    return plot_pit_histogram(
        {
            name: histogram_of(y, distribution, bins=bins)["count"]
            for name, distribution in distributions.items()
        }
    )


@register_figure("coverage_against_level")
def plot_coverage_against_level_from_run(run: RunFigureData) -> Any:
    """Plot the coverage of central intervals from 5 % to 99 % on the test rows."""
    distributions = run.outputs_by_model("distribution", run.test)
    if distributions is None:
        return None
    y = np.asarray(run.test.y)
    tables = {name: coverage_curve(y, distribution) for name, distribution in distributions.items()}
    return plot_coverage_against_level(
        {name: CoverageCurve(table["level"], table["coverage"]) for name, table in tables.items()},
        run.test.n_rows,
    )


@register_figure("local_pit_histograms")
def plot_local_pit_histograms_from_run(run: RunFigureData, table: str = "local_pit") -> Any:
    """Plot the PIT values of the test rows by cell, with ``metrics=regression_local``."""
    columns_by_name = columns_by_model(run, table)
    if columns_by_name is None:
        return None
    cells = dict.fromkeys(columns_by_name[run.names[0]]["cell"].tolist())
    return plot_local_pit_histograms(
        {
            str(cell): {
                name: columns["count"][columns["cell"] == cell]
                for name, columns in columns_by_name.items()
            }
            for cell in cells
        }
    )
