"""Local calibration error against the bandwidth.

At small bandwidths the error is that of single rows, at large ones that of a whole bin of
confidence (Luo et al., UAI 2022).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

from kdgraph.figures.drawing import draw_band
from kdgraph.figures.local import MIN_EFFECTIVE_ROWS
from kdgraph.figures.run_figures import (
    RunFigureData,
    columns_by_model,
    register_figure,
    select_column,
)
from kdgraph.figures.style import (
    COLUMN_WIDTH,
    FULL_WIDTH,
    LABEL_SIZE,
    NOTE_SIZE,
    PlotStyle,
    add_axes,
    draw_legend_above,
    label_line_ends,
    legend_handles,
    legend_height,
    mean_and_sd_over_runs,
    new_figure,
    note_above,
    set_log_scale,
    shorten_text,
    style_context,
    styles_by_name,
    text_size,
)

# Inches around the panels, between rows, and between columns.
_LEFT, _TOP, _BOTTOM, _GAP, _BETWEEN = 0.46, 0.2, 0.36, 0.12, 0.14
# Inches: a panel of one run, a panel of several runs, title of a column, line of the note.
_HEIGHT, _HIGHER, _TITLE, _NOTE = 0.95, 1.5, 0.18, 0.13
_LONGEST_LABEL, _LABEL = 1.0, 0.34  # inches: the longest name, distance of an axis label
_MARKER, _FEW_MARKER = 3.5, 1.6  # points
# More curves have a legend: their ends, at which MLCE equals MCE, are too close for labels.
_MAX_LABELLED_CURVES = 4
LceValues = Mapping[str, np.ndarray]
"""Values by name, Float[b], or Float[s, b] with a row for each run; NaN where a run has none. The
first name is the parent, the others are methods.
"""


@dataclass(frozen=True)
class LceCurves:
    """Local calibration errors at b bandwidths in one feature space.

    Attributes
    ----------
    bandwidths : Float[b]
        Increasing positive bandwidths.
    mlce, lce : mapping of str to Float[b] or Float[s, b]
        Largest error of any row, and mean error over rows, in [0, 1].
    mlce_n_eff, n_eff : mapping of str to Float[b] or Float[s, b]
        Effective number of rows: that of the row with the largest error, and the median over rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import LceCurves
    >>> bandwidths = np.array([0.1, 0.2, 0.4])
    >>> lce, mlce = {"forest": np.array([0.12, 0.1, 0.08])}, {"forest": np.array([0.5, 0.4, 0.2])}
    >>> n_eff = {"forest": np.array([10.0, 40.0, 160.0])}
    >>> list(LceCurves(bandwidths, mlce, lce, mlce_n_eff=n_eff, n_eff=n_eff).lce)
    ['forest']
    """

    bandwidths: np.ndarray
    mlce: LceValues
    lce: LceValues
    mlce_n_eff: LceValues
    n_eff: LceValues


def plot_lce_against_bandwidth(
    spaces: Mapping[str, LceCurves], *, band_of: str | None = None, log: bool = False
) -> Figure:
    """Plot largest and mean local calibration error against the bandwidth.

    A third panel shows the effective number of rows of the mean. Each feature space has a column.
    As the bandwidth grows, MLCE becomes MCE and mean LCE becomes ECE.

    Parameters
    ----------
    spaces : mapping of str to LceCurves
        Curves of each space by title; all have the same names. The title of a single space is not
        drawn. With several runs, the line is the mean, and the band is one standard deviation to
        both sides, limited to [0, 1]; numbers of rows are medians over runs. Markers are small
        where there are fewer than :data:`~kdgraph.figures.local.MIN_EFFECTIVE_ROWS` rows.
    band_of : str, default=None
        Difference between runs, e.g. "60 seeds"; required if there are several.
    log : bool, default=False
        Whether errors are on logarithmic axes, from 0.8 times the smallest mean. At large
        bandwidths many curves are close to 0.

    Returns
    -------
    Figure
        Figure of one column for one space, else as wide as the page. Up to four curves are named at
        their ends. More curves, or all with ``log``, have a legend.

    Raises
    ------
    ValueError
        If there are fewer than two bandwidths, curves do not fit them, names differ, or ``band_of``
        is missing.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Figures 1, 3 and 5 to 15
    (MLCE) and 16 to 19 (average LCE).

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import LceCurves, plot_lce_against_bandwidth
    >>> bandwidths, n_eff = np.array([0.1, 0.2, 0.4]), {"forest": np.array([10.0, 40.0, 160.0])}
    >>> lce, mlce = {"forest": np.array([0.12, 0.1, 0.08])}, {"forest": np.array([0.5, 0.4, 0.2])}
    >>> curves = LceCurves(bandwidths, mlce, lce, mlce_n_eff=n_eff, n_eff=n_eff)
    >>> figure = plot_lce_against_bandwidth({"inputs": curves})
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['MLCE', 'mean LCE', 'effective rows (log)']
    """
    _check_spaces(spaces, band_of)
    names = list(next(iter(spaces.values())).mlce)
    with style_context():
        figure, panels, labels = _make_panels(
            list(spaces), names, banded=band_of is not None, log=log
        )
        for column, (title, curves) in enumerate(spaces.items()):
            x = np.asarray(curves.bandwidths, dtype=np.float64)
            for axes, (label, values, n_eff) in zip(
                panels[title], _panel_contents(curves), strict=True
            ):
                # Bands of many curves overlap, so they are more transparent.
                alpha = 0.13 if len(names) <= _MAX_LABELLED_CURVES else 0.07
                for name, style in styles_by_name(names).items():
                    _draw_curve(
                        axes,
                        name,
                        style,
                        x,
                        np.atleast_2d(values[name]),
                        np.atleast_2d(n_eff[name]),
                        counts=values is n_eff,
                        alpha=alpha,
                    )
                _format_axes(axes, x, label, column=column, last=values is n_eff, log=log)
                # The panel of effective rows is logarithmic, and its lines have the same colours.
                if labels and column == len(spaces) - 1 and values is not n_eff:
                    ends = [float(mean_and_sd_over_runs(values[name])[0][-1]) for name in names]
                    colors = [style.color for style in styles_by_name(names).values()]
                    label_line_ends(axes, labels, ends, colors)
        _share_limits(list(panels.values()), log=log)
        _draw_note(figure, panels, band_of)
    return figure


def _panel_contents(curves: LceCurves) -> list[tuple[str, LceValues, LceValues]]:
    return [
        ("MLCE", curves.mlce, curves.mlce_n_eff),
        ("mean LCE", curves.lce, curves.n_eff),
        ("effective rows", curves.n_eff, curves.n_eff),
    ]


def _make_panels(
    titles: list[str], names: list[str], *, banded: bool, log: bool
) -> tuple[Figure, dict[str, list[Axes]], list[str]]:
    """Return a figure with three panels for each title, and labels unless it has a legend."""
    # The height of the figure depends on the legend, and the width of its panels on the longest
    # label. Both are therefore measured on a blank figure first.
    blank, total_width = new_figure(1, 1), COLUMN_WIDTH if len(titles) == 1 else FULL_WIDTH
    labels = (
        [shorten_text(blank, name, LABEL_SIZE, _LONGEST_LABEL) for name in names]
        if len(names) <= _MAX_LABELLED_CURVES and not log
        else []
    )
    handles = [] if labels else legend_handles(names)
    right = 0.12 + max((text_size(blank, label, LABEL_SIZE)[0] for label in labels), default=0.0)
    width = (total_width - _LEFT - right - _BETWEEN * (len(titles) - 1)) / len(titles)
    heights = [_HEIGHT if labels and not banded else _HIGHER] * 2 + [_HEIGHT]  # from top to bottom
    title = _TITLE if len(titles) > 1 else 0.0
    note = _NOTE if banded and not title else 0.0  # two lines
    head = title + note + _TOP + legend_height(handles, total_width)
    figure = new_figure(total_width, _BOTTOM + sum(heights) + 2 * _GAP + head)
    draw_legend_above(figure, handles)
    bottoms = [_BOTTOM + sum(heights[row + 1 :]) + _GAP * (2 - row) for row in range(3)]
    panels = {}
    for column, panel_title in enumerate(titles):
        left = _LEFT + column * (width + _BETWEEN)
        panels[panel_title] = [
            add_axes(figure, left, bottom, width, height)
            for bottom, height in zip(bottoms, heights, strict=True)
        ]
        if title:
            panels[panel_title][0].set_title(shorten_text(figure, panel_title, 8.0, width))
    return figure, panels, labels


def _draw_curve(
    axes: Axes,
    name: str,
    plot_style: PlotStyle,
    x: np.ndarray,
    y: np.ndarray,
    n_eff: np.ndarray,
    *,
    counts: bool,
    alpha: float,
) -> None:
    """Draw one curve with its band; ``y`` and ``n_eff`` are Float[s, b].

    The line is the mean over runs, or the median if ``y`` is a number of rows. Markers are small
    where there are few effective rows.
    """
    line = plot_style.line(zorder=3, clip_on=False, marker="")
    median_n_eff = np.nanmedian(n_eff, axis=0)
    center, sd = mean_and_sd_over_runs(y)
    if counts:
        center = median_n_eff
    elif len(y) > 1:
        draw_band(axes, x, np.clip([center - sd, center + sd], 0, 1), plot_style, name, alpha)
    axes.plot(x, center, label=name, **line)
    for size, has_size in (
        (_MARKER, median_n_eff >= MIN_EFFECTIVE_ROWS),
        (_FEW_MARKER, median_n_eff < MIN_EFFECTIVE_ROWS),
    ):
        marks = plot_style.line(
            linestyle="", markersize=size, markeredgewidth=0.8, zorder=3, clip_on=False
        )
        axes.plot(x[has_size], center[has_size], **marks)


def _format_axes(
    axes: Axes, bandwidths: np.ndarray, label: str, *, column: int, last: bool, log: bool
) -> None:
    set_log_scale(axes, "x")
    axes.set(xlim=(bandwidths[0], bandwidths[-1]))
    axes.xaxis.set_major_locator(LogLocator(numticks=6))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    if column == 0:
        axes.set_ylabel(f"{label} (log)" if last or log else label)
        axes.yaxis.set_label_coords(-_LABEL / axes.get_window_extent().width * axes.figure.dpi, 0.5)
    else:
        axes.tick_params(labelleft=False)
    if last:
        set_log_scale(axes, "y")
        axes.yaxis.set_major_locator(LogLocator(numticks=4))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(
            lambda rows, _: f"{rows:g}" if rows < 1000 else f"{rows / 1000:g}k"
        )
        axes.set_ylim(bottom=1)
        axes.set_xlabel("bandwidth γ (log scale)")
    else:
        axes.tick_params(labelbottom=False)
        if log:
            set_log_scale(axes, "y")
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.yaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        else:
            axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
            axes.set_ylim(bottom=0)


def _share_limits(columns: list[list[Axes]], *, log: bool) -> None:
    """Give the panels of a row the same limits; on logarithmic axes, bands that reach 0 are cut."""
    for index, row in enumerate(zip(*columns, strict=True)):
        highest = max(axes.get_ylim()[1] for axes in row)
        for axes in row:
            axes.set_ylim(top=highest)
        if log and index < 2:
            lines = [line for axes in row for line in axes.lines]
            line_values = np.concatenate(
                [np.asarray(line.get_ydata(), dtype=np.float64) for line in lines]
            )
            for axes in row:
                # Zeros have no position on a logarithmic axis, so the limit depends on positive
                # values only.
                axes.set_ylim(bottom=0.8 * line_values[line_values > 0].min(initial=1.0))


def _draw_note(figure: Figure, panels: Mapping[str, list[Axes]], band_of: str | None) -> None:
    above, points = next(iter(panels.values()))[0], 5.0
    lines = [f"small: fewer than {MIN_EFFECTIVE_ROWS:g} effective rows"]
    if band_of is not None:
        lines.insert(0, f"lines, bands: mean ± 1 sd of {band_of}")
    if len(panels) > 1:
        lines, points = ["; ".join(lines)], points + 72 * _TITLE
    for line_index, text in enumerate(reversed(lines)):
        short = shorten_text(figure, text, NOTE_SIZE, figure.get_figwidth() - _LEFT - 0.1)
        note_above(above, short, above.get_xlim()[0], "left", points + 72 * _NOTE * line_index)


def _check_spaces(spaces: Mapping[str, LceCurves], band_of: str | None) -> None:
    if not spaces:
        raise ValueError("lce_against_bandwidth needs a space")
    names = list(next(iter(spaces.values())).mlce)
    for title, curves in spaces.items():
        b = np.asarray(curves.bandwidths)
        if b.ndim != 1 or len(b) < 2 or not (np.diff(b) > 0).all() or b[0] <= 0:
            raise ValueError(
                "lce_against_bandwidth needs two or more increasing bandwidths above 0 in"
                f" {title!r}"
            )
        panels = {
            "MLCE": curves.mlce,
            "mean LCE": curves.lce,
            "effective rows of MLCE": curves.mlce_n_eff,
            "effective rows": curves.n_eff,
        }
        for label, curves_by_name in panels.items():
            if not names or list(curves_by_name) != names:
                raise ValueError(
                    f"every panel must have the same curves, {names}, got"
                    f" {list(curves_by_name)} in {label!r} of {title!r}"
                )
            for name, values in curves_by_name.items():
                _check_curve(f"{label} of {name!r} in {title!r}", np.asarray(values), len(b))
                if np.ndim(values) == 2 and band_of is None:
                    raise ValueError("band_of must describe how runs differ, e.g. '60 seeds'")


def _check_curve(name: str, values: np.ndarray, n: int) -> None:
    if (
        values.ndim not in (1, 2)
        or values.shape[-1] != n
        or np.isnan(np.atleast_2d(values)).all(axis=0).any()
        or np.isinf(values).any()
    ):
        raise ValueError(
            f"{name} must be a finite number, or one from some run, for each of {n} bandwidths,"
            f" got shape {values.shape}"
        )


@register_figure("lce_against_bandwidth")
def plot_lce_against_bandwidth_from_run(
    run: RunFigureData, tables: Sequence[str] = ("lce_by_bandwidth",)
) -> Any:
    """Plot MLCE and mean LCE against the bandwidth, a column for each table.

    Tables, which may refer to different spaces, are omitted if they were not computed at two or
    more bandwidths.
    """
    spaces = {
        key.removeprefix("lce_by_bandwidth").strip("_") or "features": curves
        for key in tables
        if (curves := _lce_curves(run, key)) is not None
    }
    return plot_lce_against_bandwidth(spaces) if spaces else None


def _lce_curves(run: RunFigureData, key: str) -> LceCurves | None:
    """Return the curves of a table, or None if it was not computed or contains no errors."""
    curves = columns_by_model(run, key)
    if curves is None:
        return None
    # The rows of the table are not necessarily sorted by bandwidth.
    bandwidths, order = np.unique(curves[run.names[0]]["bandwidth"], return_index=True)
    curves = {
        name: {column: values[order] for column, values in columns.items()}
        for name, columns in curves.items()
    }
    if len(bandwidths) < 2 or any(np.isnan(columns["lce"]).any() for columns in curves.values()):
        return None
    return LceCurves(
        bandwidths,
        *(select_column(curves, column) for column in ("mlce", "lce", "mlce_n_eff", "n_eff")),
    )
