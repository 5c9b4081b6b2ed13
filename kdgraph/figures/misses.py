"""Which rows a prediction interval misses, over the plane of two features.

Rows outside of their intervals, of one run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.run_figures import RunFigureData, register_figure
from kdgraph.figures.style import (
    FULL_WIDTH,
    GREY,
    NOTE_SIZE,
    VERMILLION,
    add_axes,
    new_figure,
    shorten_text,
    style_context,
)
from kdgraph.parameters import OpenFraction

_LEFT, _GAP, _RIGHT, _BOTTOM, _TOP = (
    0.46,
    0.16,
    0.1,
    0.52,
    0.36,
)  # inches around and between the maps
_PANEL, _TITLE_SIZE = 2.5, 8.0  # inches, points
_DOT, _MISS, _MANY = (
    3.0,
    9.0,
    1000,
)  # points² of covered and missed rows, and up to how many; more have smaller ones
_COVERED = "#bdbdbd"


def plot_interval_misses(
    points: np.ndarray,
    missed: Mapping[str, np.ndarray],
    level: float,
    axis_names: tuple[str, str] = ("x₁", "x₂"),
) -> Figure:
    """Rows whose outcome is outside of the central interval, where they lie: spread evenly if it
    holds everywhere alike.

    Parameters
    ----------
    points : Float[n, 2].
    missed : name → Int[n], -1 where the outcome is below the interval, 1 where it is above, 0
    inside; the first is the parent.
    level : of the interval, in (0, 1).
    axis_names : of the two features.

    Returns
    -------
    Figure
        A panel for each name. Misses lie on top: triangles that point to where the outcome was.
        Dots are one image in SVG too.

    Raises
    ------
    ValueError
        Nothing to draw, or arrays that do not fit.

    References
    ----------
    Torres et al., "Model-free local recalibration of neural networks", 2024, Figure 3 (e, f),
    without the direction.
    """
    if (
        not missed
        or np.ndim(points) != 2
        or np.shape(points)[1] != 2
        or {len(found) for found in missed.values()} != {len(points)}
    ):
        raise ValueError(
            "interval_misses needs points Float[n, 2], and for at least one name a number for each"
            " of them"
        )
    panel = min(_PANEL, (FULL_WIDTH - _LEFT - _RIGHT - (len(missed) - 1) * _GAP) / len(missed))
    width = _LEFT + len(missed) * panel + (len(missed) - 1) * _GAP + _RIGHT
    with style_context():
        figure = new_figure(width, _BOTTOM + panel + _TOP)
        for i, (name, found) in enumerate(missed.items()):
            axes = add_axes(figure, _LEFT + i * (panel + _GAP), _BOTTOM, panel, panel)
            _draw_misses(axes, points, found)
            axes.set(xlabel=axis_names[0], ylabel=axis_names[1] if i == 0 else "")
            axes.tick_params(labelleft=i == 0)
            axes.set_title(
                shorten_text(figure, name, _TITLE_SIZE, panel), fontsize=_TITLE_SIZE, pad=12
            )
            share = f"{100 * np.mean(found != 0):.1f} % missed, {100 * (1 - level):.3g} % expected"
            axes.annotate(
                share,
                (0.5, 1),
                (0, 3),
                xycoords="axes fraction",
                textcoords="offset points",
                ha="center",
                fontsize=NOTE_SIZE,
            )
        height = figure.get_size_inches()[1]
        note = "▲ outcome above the interval   ▼ below   · inside"
        figure.text(
            0.5, 0.06 / height, note, ha="center", va="bottom", fontsize=NOTE_SIZE, color=GREY
        )
    return figure


def _draw_misses(axes: Axes, points: np.ndarray, found: np.ndarray) -> None:
    shrink = min(1.0, (_MANY / len(points)) ** 0.5)
    common = {"linewidths": 0, "rasterized": True}
    for sign, marker, color, size, gid in (
        (0, "o", _COVERED, _DOT, "inside"),
        (1, "^", VERMILLION, _MISS, "above"),
        (-1, "v", VERMILLION, _MISS, "below"),
    ):
        axes.scatter(
            *points[found == sign].T,
            s=size * shrink,
            c=color,
            marker=marker,
            zorder=1 + abs(sign),
            gid=gid,
            **common,
        )
    for low, high, limit in zip(
        points.min(axis=0), points.max(axis=0), (axes.set_xlim, axes.set_ylim), strict=True
    ):
        room = 0.03 * (high - low or 1.0)
        limit(low - room, high + room)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(4))


@register_figure("interval_misses")
def plot_interval_misses_from_run(run: RunFigureData, level: OpenFraction = 0.95) -> Any:
    """Test rows outside of the central interval of this level, over the plane; None unless there
    are two features.
    """
    said, X = run.outputs_by_model("distribution", run.test), run.splits.test.X
    if said is None or X.ndim != 2 or X.shape[1] != 2:
        return None
    y, missed = np.asarray(run.test.y), {}
    for name, given in said.items():
        low, high = given.interval(level)
        missed[name] = (y > high).astype(int) - (y < low)
    first, second = run.splits.test.feature_names
    return plot_interval_misses(X, missed, level, (first, second))
