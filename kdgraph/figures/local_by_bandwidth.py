"""Local calibration error against the bandwidth: from the error of single rows to that of a whole
bin of confidence.

Local calibration error against the bandwidth, of one run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

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

_LEFT, _TOP, _BOTTOM, _GAP, _BETWEEN = (
    0.46,
    0.2,
    0.36,
    0.12,
    0.14,
)  # inches around the panels, between rows and between columns
_HEIGHT, _HIGHER, _TITLE, _NOTE = (
    0.95,
    1.5,
    0.18,
    0.13,
)  # inches: a panel of one run and of several, a column's title, a line of the note
_LONGEST_LABEL, _LABEL = 1.0, 0.34  # inches; how far left of the axes what they show is named
_MARKER, _FEW_MARKER = 3.5, 1.6  # points
_MAX_LABELLED_CURVES = (
    4  # more curves than this are named in a key: their ends lie together, where MLCE is MCE
)
LceValues = Mapping[str, np.ndarray]
"""Name → Float[b], or Float[s, b], a row for each run, NaN where one has none; the first is the
parent, the others are methods.
"""


@dataclass(frozen=True)
class LceCurves:
    """Local calibration error at b bandwidths in one feature space, of one run or of s.

    Attributes
    ----------
    bandwidths : Float[b], increasing, above 0.
    mlce, lce : the largest error of any row, and the mean over rows, in [0, 1].
    mlce_n_eff, n_eff : effective number of rows behind each: of the one row, and the median over
        rows.
    """

    bandwidths: np.ndarray
    mlce: LceValues
    lce: LceValues
    mlce_n_eff: LceValues
    n_eff: LceValues


def plot_lce_against_bandwidth(
    spaces: Mapping[str, LceCurves], *, band_of: str | None = None, log: bool = False
) -> Figure:
    """Largest and mean local calibration error of each model, and the effective number of rows
    behind the mean: a column for each space.

    Towards the left an error is that of single rows, towards the right MLCE becomes MCE and mean
    LCE becomes ECE.

    Parameters
    ----------
    spaces : title → its curves, all of the same names; the title of a single space is not drawn. Of
        several runs the line is the mean, and the band one standard deviation to either side, cut
        at 0 and 1; rows are the median over runs. Where they are fewer than
        :data:`~kdgraph.figures.local.MIN_EFFECTIVE_ROWS` the marker is small.
    band_of : what varies between runs, e.g. "60 seeds"; required where there are several.
    log : errors are on logarithmic axes too, from 0.8 times the smallest mean: at large bandwidths
        many curves lie together near 0.

    Returns
    -------
    Figure
        One column wide with one space, the page's width with more. Up to four curves are named at
        their ends, more, or all with ``log``, in a key.

    Raises
    ------
    ValueError
        Fewer than two bandwidths, curves that do not fit them, names that differ, bands without
        what they are.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Figures 1, 3 and 5 to 15
    (MLCE) and 16 to 19 (average LCE).
    """
    _check_spaces(spaces, band_of)
    names = list(next(iter(spaces.values())).mlce)
    with style_context():
        figure, panels, labels = _make_panels(
            list(spaces), names, banded=band_of is not None, log=log
        )
        for column, (title, curves) in enumerate(spaces.items()):
            x = np.asarray(curves.bandwidths, dtype=np.float64)
            for axes, (what, drawn, behind) in zip(
                panels[title], _panel_contents(curves), strict=True
            ):
                alpha = (
                    0.13 if len(names) <= _MAX_LABELLED_CURVES else 0.07
                )  # bands of many lie over each other
                for name, role in styles_by_name(names).items():
                    _draw_curve(
                        axes,
                        name,
                        role,
                        x,
                        np.atleast_2d(drawn[name]),
                        np.atleast_2d(behind[name]),
                        counts=drawn is behind,
                        alpha=alpha,
                    )
                _format_axes(axes, x, what, column=column, last=drawn is behind, log=log)
                if (
                    labels and column == len(spaces) - 1 and drawn is not behind
                ):  # the last is logarithmic, and its lines are the same
                    ends = [float(mean_and_sd_over_runs(drawn[name])[0][-1]) for name in names]
                    label_line_ends(
                        axes, labels, ends, [role.color for role in styles_by_name(names).values()]
                    )
        _share_limits(list(panels.values()), log=log)
        _draw_note(figure, panels, band_of)
    return figure


def _panel_contents(curves: LceCurves) -> list[tuple[str, LceValues, LceValues]]:
    """What each panel is called, its lines, and the rows behind them."""
    return [
        ("MLCE", curves.mlce, curves.mlce_n_eff),
        ("mean LCE", curves.lce, curves.n_eff),
        ("effective rows", curves.n_eff, curves.n_eff),
    ]


def _make_panels(
    titles: list[str], names: list[str], *, banded: bool, log: bool
) -> tuple[Figure, dict[str, list[Axes]], list[str]]:
    """A figure with three panels for each title from top to bottom, and the names as they fit at
    the ends; none where a key has them.
    """
    measure, whole = new_figure(1, 1), COLUMN_WIDTH if len(titles) == 1 else FULL_WIDTH
    labels = (
        [shorten_text(measure, name, LABEL_SIZE, _LONGEST_LABEL) for name in names]
        if len(names) <= _MAX_LABELLED_CURVES and not log
        else []
    )
    handles = [] if labels else legend_handles(names)
    right = 0.12 + max((text_size(measure, label, LABEL_SIZE)[0] for label in labels), default=0.0)
    width = (whole - _LEFT - right - _BETWEEN * (len(titles) - 1)) / len(titles)
    heights = [_HEIGHT if labels and not banded else _HIGHER] * 2 + [_HEIGHT]  # from top to bottom
    title = _TITLE if len(titles) > 1 else 0.0
    note = _NOTE if banded and not title else 0.0  # two lines
    figure = new_figure(
        whole,
        _BOTTOM + sum(heights) + 2 * _GAP + title + note + _TOP + legend_height(handles, whole),
    )
    draw_legend_above(figure, handles)
    bottoms = [_BOTTOM + sum(heights[row + 1 :]) + _GAP * (2 - row) for row in range(3)]
    panels = {}
    for column, one in enumerate(titles):
        left = _LEFT + column * (width + _BETWEEN)
        panels[one] = [
            add_axes(figure, left, bottom, width, height)
            for bottom, height in zip(bottoms, heights, strict=True)
        ]
        if title:
            panels[one][0].set_title(shorten_text(figure, one, 8.0, width))
    return figure, panels, labels


def _draw_curve(
    axes: Axes,
    name: str,
    role: PlotStyle,
    x: np.ndarray,
    y: np.ndarray,
    n_eff: np.ndarray,
    *,
    counts: bool,
    alpha: float,
) -> None:
    """Means over runs with a band, or medians where ``y`` counts rows; markers are small where few
    rows are behind. Float[s, b] both.
    """
    line: dict[str, Any] = {**role.line(), "zorder": 3, "clip_on": False, "marker": ""}
    behind = np.nanmedian(n_eff, axis=0)
    middle, sd = mean_and_sd_over_runs(y)
    if counts:
        middle = behind
    elif len(y) > 1:
        low, high = np.clip([middle - sd, middle + sd], 0, 1)
        axes.fill_between(
            x, low, high, color=role.color, alpha=alpha, linewidth=0, gid=f"band {name}"
        )
    axes.plot(x, middle, label=name, **line)
    for size, here in (
        (_MARKER, behind >= MIN_EFFECTIVE_ROWS),
        (_FEW_MARKER, behind < MIN_EFFECTIVE_ROWS),
    ):
        marks: dict[str, Any] = {
            **line,
            "linestyle": "",
            "marker": role.marker,
            "markersize": size,
            "markeredgewidth": 0.8,
        }
        axes.plot(x[here], middle[here], **marks)


def _format_axes(
    axes: Axes, bandwidths: np.ndarray, what: str, *, column: int, last: bool, log: bool
) -> None:
    set_log_scale(axes, "x")
    axes.set(xlim=(bandwidths[0], bandwidths[-1]))
    axes.xaxis.set_major_locator(LogLocator(numticks=6))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    if column == 0:
        axes.set_ylabel(what)
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
        axes.set_xlabel("bandwidth γ")
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
    """The same limits along a row: one scale is labelled for all. On a logarithmic one bands that
    go down to 0 are cut.
    """
    for place, row in enumerate(zip(*columns, strict=True)):
        highest = max(axes.get_ylim()[1] for axes in row)
        for axes in row:
            axes.set_ylim(top=highest)
        if log and place < 2:
            drawn = np.concatenate(
                [
                    np.asarray(line.get_ydata(), dtype=np.float64)
                    for axes in row
                    for line in axes.lines
                ]
            )
            for axes in row:
                axes.set_ylim(bottom=0.8 * drawn[drawn > 0].min(initial=1.0))


def _draw_note(figure: Figure, panels: Mapping[str, list[Axes]], band_of: str | None) -> None:
    """Above titles, if there are any; on two lines in one column."""
    above, points = next(iter(panels.values()))[0], 5.0
    lines = [f"small: fewer than {MIN_EFFECTIVE_ROWS:g} effective rows"]
    if band_of is not None:
        lines.insert(0, f"lines, bands: mean ± 1 sd of {band_of}")
    if len(panels) > 1:
        lines, points = ["; ".join(lines)], points + 72 * _TITLE
    for place, text in enumerate(reversed(lines)):
        short = shorten_text(figure, text, NOTE_SIZE, figure.get_figwidth() - _LEFT - 0.1)
        note_above(above, short, above.get_xlim()[0], "left", points + 72 * _NOTE * place)


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
        for what, drawn in panels.items():
            if not names or list(drawn) != names:
                raise ValueError(
                    f"every panel must have the same curves, {names}, got {list(drawn)} in {what!r}"
                    f" of {title!r}"
                )
            for name, values in drawn.items():
                _check_curve(f"{what} of {name!r} in {title!r}", np.asarray(values), len(b))
                if np.ndim(values) == 2 and band_of is None:
                    raise ValueError("band_of must describe how runs differ, e.g. '60 seeds'")


def _check_curve(which: str, values: np.ndarray, n: int) -> None:
    if (
        values.ndim not in (1, 2)
        or values.shape[-1] != n
        or np.isnan(np.atleast_2d(values)).all(axis=0).any()
        or np.isinf(values).any()
    ):
        raise ValueError(
            f"{which} must be a finite number, or one from some run, for each of {n} bandwidths,"
            f" got shape {values.shape}"
        )


@register_figure("lce_against_bandwidth")
def plot_lce_against_bandwidth_from_run(
    run: RunFigureData, tables: Sequence[str] = ("lce_by_bandwidth",)
) -> Any:
    """MLCE and mean LCE against the bandwidth, a column for each of the tables that was measured at
    two or more.

    ``tables`` are keys in ``metrics``, which may have measured in different spaces.
    """
    spaces = {
        _space_title(key): curves for key in tables if (curves := _lce_curves(run, key)) is not None
    }
    return plot_lce_against_bandwidth(spaces) if spaces else None


def _space_title(key: str) -> str:
    return key.removeprefix("lce_by_bandwidth").strip("_") or "features"


def _lce_curves(run: RunFigureData, key: str) -> LceCurves | None:
    """What a table has of both models, in the order of the bandwidth; None where it was not
    measured, or nothing could be.
    """
    curves = columns_by_model(run, key)
    if curves is None:
        return None
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
