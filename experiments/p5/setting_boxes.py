"""Box plots of repeated measurements by setting and method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from kdgraph.figures import style
from kdgraph.figures.drawing import IDEAL_LINE, draw_legend_line, write_note

_LEFT, _RIGHT, _BOTTOM, _HEAD, _GAP = 0.56, 0.1, 0.4, 0.42, 0.58  # inches
_HEIGHT, _KEY_SIZE = 1.9, 7.0
_FILL = 0.35  # alpha
_PATCH = 0.5  # inches of a patch of the legend, with the space around it

ValuesBySetting = Mapping[str, Mapping[str, np.ndarray]]
"""Value of each repetition, Float[r], by setting such as "10³" and by method."""


def plot_boxes_by_setting(
    panels: Mapping[str, ValuesBySetting],
    setting: str,
    ideal: Mapping[str, float] | None = None,
    *,
    log: tuple[str, ...] = (),
) -> Figure:
    """Plot boxes of the quartiles of repetitions, by setting and method.

    Whiskers end at the furthest value within 1.5 times the interquartile range. Values beyond them
    are drawn as points (Torres et al. 2024, Figure 4, a to f).

    ``panels`` has some values of each quantity by setting and method, or ValueError is raised. The
    first method is the parent; a setting may lack a method. ``setting`` is the label of the
    settings, such as "rows". ``ideal`` maps quantities to a value that is drawn as a line, such as
    the level of an interval; ``log`` names quantities with a logarithmic axis.
    """
    if not panels or not all(
        by_method and all(map(len, by_method.values()))
        for settings in panels.values()
        for by_method in settings.values()
    ):
        raise ValueError(
            "boxes_by_setting needs at least one panel, and for every setting some values of each"
            " of its methods"
        )
    by_setting = [by_method for settings in panels.values() for by_method in settings.values()]
    names = list(dict.fromkeys(name for by_method in by_setting for name in by_method))
    counts = {len(values) for by_method in by_setting for values in by_method.values()}
    width = (style.FULL_WIDTH - _LEFT - _RIGHT - (len(panels) - 1) * _GAP) / len(panels)
    with style.style_context():
        figure = style.new_figure(style.FULL_WIDTH, _BOTTOM + _HEIGHT + _HEAD)
        for i, (title, settings) in enumerate(panels.items()):
            axes = style.add_axes(figure, _LEFT + i * (width + _GAP), _BOTTOM, width, _HEIGHT)
            _draw_boxes(axes, settings, names)
            if ideal and title in ideal:
                axes.axhline(ideal[title], **IDEAL_LINE, zorder=1, gid="ideal")
            if title in log:
                style.set_log_scale(axes, "y")
            axes.set(xlabel=setting)
            axes.set_title(f"{title} (log scale)" if title in log else title, fontsize=8, pad=3)
        _draw_legend(figure, names, counts, has_ideal=bool(ideal))
    return figure


def _draw_boxes(axes: Axes, settings: ValuesBySetting, names: list[str]) -> None:
    step = 0.8 / len(names)
    for index, by_method in enumerate(settings.values()):
        for name, plot_style in style.styles_by_name(names).items():
            if name not in by_method:
                continue
            # The boxes of one setting are centred at its index; a missing method leaves a gap.
            position = index + (names.index(name) - (len(names) - 1) / 2) * step
            line_style = {"color": plot_style.color, "linewidth": 0.9}
            flier_style = {
                "marker": plot_style.marker or "o",
                "markersize": 2.0,
                "markeredgewidth": 0.5,
                "markeredgecolor": plot_style.color,
                "markerfacecolor": "white",
            }
            artists = axes.boxplot(
                [by_method[name]],
                positions=[position],
                widths=0.78 * step,
                patch_artist=True,
                manage_ticks=False,
                boxprops=dict(line_style),
                whiskerprops=line_style,
                capprops=line_style,
                flierprops=flier_style,
                medianprops={"color": plot_style.color, "linewidth": 1.6},
            )
            artists["boxes"][0].set(facecolor=_face(plot_style), gid=f"box {name}")
            axes.plot([position], [np.median(by_method[name])], **_median_marker(plot_style))
    axes.set(
        xlim=(-0.5, len(settings) - 0.5), xticks=range(len(settings)), xticklabels=list(settings)
    )
    axes.tick_params(axis="x", length=0)


def _draw_legend(figure: Figure, names: list[str], counts: set[int], *, has_ideal: bool) -> None:
    width, height = figure.get_size_inches()
    styles = [style.styles_by_name(names)[name] for name in names]
    handles = [
        (
            Patch(edgecolor=plot_style.color, facecolor=_face(plot_style)),
            Line2D([], [], **_median_marker(plot_style)),
        )
        for plot_style in styles
    ]
    n_repetitions = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    note = f"{n_repetitions} repetitions a box" + (" · dotted: ideal" if has_ideal else "")
    available = (
        width
        - _LEFT
        - _RIGHT
        - style.text_size(figure, note, style.NOTE_SIZE)[0]
        - 0.2
        - _PATCH * len(names)
    )
    widths = [style.text_size(figure, name, _KEY_SIZE)[0] for name in names]
    longest = np.inf if sum(widths) <= available else available / len(names)
    more: dict[str, Any] = {"handler_map": {tuple: HandlerTuple(ndivide=1)}, "columnspacing": 1.2}
    draw_legend_line(figure, handles, names, _LEFT, longest, **more)
    write_note(figure, width - _RIGHT, height - 0.11, note, ha="right", va="center")


def _median_marker(plot_style: style.PlotStyle) -> dict[str, Any]:
    """Return the style of the marker at a median, which identifies boxes in greyscale."""
    face = plot_style.color if plot_style.filled else "white"
    return {
        "linestyle": "",
        "marker": plot_style.marker,
        "markersize": 3.2,
        "color": plot_style.color,
        "markerfacecolor": face,
        "zorder": 3,
    }


def _face(plot_style: style.PlotStyle) -> tuple[float, float, float, float]:
    return to_rgba(plot_style.color, _FILL if plot_style.filled else 0.0)
