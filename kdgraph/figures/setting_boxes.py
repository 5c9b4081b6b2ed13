"""Boxes of a number that was measured many times, by setting and method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from kdgraph.figures.style import (
    BLACK,
    FULL_WIDTH,
    GREY,
    NOTE_SIZE,
    PlotStyle,
    add_axes,
    legend_label,
    new_figure,
    set_log_scale,
    shorten_text,
    style_context,
    styles_by_name,
    text_size,
)

_LEFT, _RIGHT, _BOTTOM, _HEAD, _GAP = 0.56, 0.1, 0.4, 0.42, 0.58  # inches
_HEIGHT, _KEY_SIZE = 1.9, 7.0
_FILL = 0.35  # alpha
_PATCH = 0.5  # inches of a patch of the key, with the room around it

ValuesBySetting = Mapping[str, Mapping[str, np.ndarray]]
"""Setting ("10³") → method → Float[r], one for each repetition."""


def plot_boxes_by_setting(
    panels: Mapping[str, ValuesBySetting],
    setting: str,
    ideal: Mapping[str, float] | None = None,
    *,
    log: tuple[str, ...] = (),
) -> Figure:
    """Boxes of the quartiles of repetitions, side by side for the methods of one setting; whiskers
    reach the farthest within 1.5 boxes.

    Parameters
    ----------
    panels : what was measured ("MSE") → setting → method → values. The first method is the parent;
    one may be missing in a setting.
    setting : what the settings are of ("rows").
    ideal : what was measured → a value that is drawn as a line, such as the level of an interval.
    log : panels with a logarithmic axis.

    Returns
    -------
    Figure
        A page wide, panels beside each other. Points beyond the whiskers are drawn.

    Raises
    ------
    ValueError
        No panel, or one with a setting without any value.

    References
    ----------
    Torres et al., "Model-free local recalibration of neural networks", 2024, Figure 4 (a to f).
    """
    if not panels or not all(
        found and all(map(len, found.values()))
        for settings in panels.values()
        for found in settings.values()
    ):
        raise ValueError(
            "boxes_by_setting needs at least one panel, and for every setting some values of each"
            " of its methods"
        )
    names = list(
        dict.fromkeys(
            name for settings in panels.values() for found in settings.values() for name in found
        )
    )
    width = (FULL_WIDTH - _LEFT - _RIGHT - (len(panels) - 1) * _GAP) / len(panels)
    with style_context():
        figure = new_figure(FULL_WIDTH, _BOTTOM + _HEIGHT + _HEAD)
        for i, (title, settings) in enumerate(panels.items()):
            axes = add_axes(figure, _LEFT + i * (width + _GAP), _BOTTOM, width, _HEIGHT)
            _draw_boxes(axes, settings, names)
            if ideal and title in ideal:
                axes.axhline(
                    ideal[title],
                    color=BLACK,
                    linewidth=0.7,
                    linestyle=(0, (1, 1.5)),
                    zorder=1,
                    gid="ideal",
                )
            if title in log:
                set_log_scale(axes, "y")
            axes.set(xlabel=setting)
            axes.set_title(title, fontsize=8, pad=3)
        _draw_legend(figure, names, panels, has_ideal=bool(ideal))
    return figure


def _draw_boxes(axes: Axes, settings: ValuesBySetting, names: list[str]) -> None:
    step = 0.8 / len(names)
    for place, found in enumerate(settings.values()):
        for name, role in styles_by_name(names).items():
            if name not in found:
                continue
            at = place + (names.index(name) - (len(names) - 1) / 2) * step
            line = {"color": role.color, "linewidth": 0.9}
            marks = {
                "marker": role.marker or "o",
                "markersize": 2.0,
                "markeredgewidth": 0.5,
                "markeredgecolor": role.color,
                "markerfacecolor": "white",
            }
            drawn = axes.boxplot(
                [found[name]],
                positions=[at],
                widths=0.78 * step,
                patch_artist=True,
                manage_ticks=False,
                boxprops=dict(line),
                whiskerprops=line,
                capprops=line,
                flierprops=marks,
                medianprops={"color": role.color, "linewidth": 1.6},
            )
            drawn["boxes"][0].set_facecolor((*_to_rgb(role.color), _FILL if role.filled else 0.0))
            drawn["boxes"][0].set_gid(f"box {name}")
            axes.plot([at], [np.median(found[name])], **_median_marker(role))
    axes.set(
        xlim=(-0.5, len(settings) - 0.5), xticks=range(len(settings)), xticklabels=list(settings)
    )
    axes.tick_params(axis="x", length=0)


def _draw_legend(
    figure: Figure, names: list[str], panels: Mapping[str, ValuesBySetting], *, has_ideal: bool
) -> None:
    """What the boxes are, as far as there is room for their names, and of how many repetitions."""
    width, height = figure.get_size_inches()
    looks = [styles_by_name(names)[name] for name in names]
    patches = [
        Patch(edgecolor=look.color, facecolor=(*_to_rgb(look.color), _FILL if look.filled else 0.0))
        for look in looks
    ]
    handles: list[Any] = list(
        zip(patches, (Line2D([], [], **_median_marker(look)) for look in looks), strict=True)
    )
    counts = {
        len(values)
        for settings in panels.values()
        for found in settings.values()
        for values in found.values()
    }
    many = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    note = f"{many} repetitions a box" + (" · dotted: ideal" if has_ideal else "")
    room = (
        width - _LEFT - _RIGHT - text_size(figure, note, NOTE_SIZE)[0] - 0.2 - _PATCH * len(names)
    )
    taken = [text_size(figure, name, _KEY_SIZE)[0] for name in names]
    labels = (
        list(names)
        if sum(taken) <= room
        else [shorten_text(figure, name, _KEY_SIZE, room / len(names)) for name in names]
    )
    place = {
        "loc": "upper left",
        "bbox_to_anchor": (_LEFT / width, 1),
        "borderaxespad": 0.3,
        "columnspacing": 1.2,
    }
    figure.legend(
        handles,
        [legend_label(label) for label in labels],
        ncols=len(names),
        fontsize=_KEY_SIZE,
        handler_map={tuple: HandlerTuple(ndivide=1)},
        **place,
    )
    figure.text(
        1 - _RIGHT / width,
        1 - 0.11 / height,
        note,
        ha="right",
        va="center",
        fontsize=NOTE_SIZE,
        color=GREY,
    )


def _median_marker(role: PlotStyle) -> dict[str, Any]:
    """On the median: what tells boxes apart in greyscale."""
    face = role.color if role.filled else "white"
    return {
        "linestyle": "",
        "marker": role.marker,
        "markersize": 3.2,
        "color": role.color,
        "markerfacecolor": face,
        "zorder": 3,
    }


def _to_rgb(color: str) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(color)
