"""Rows outside of their prediction intervals, over the plane of two features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.drawing import write_beside, write_note
from kdgraph.figures.run_figures import RunFigureData, register_figure
from kdgraph.figures.style import (
    FULL_WIDTH,
    VERMILLION,
    add_axes,
    new_figure,
    shorten_text,
    style_context,
)
from kdgraph.parameters import OpenFraction

# Inches around and between the maps.
_LEFT, _GAP, _RIGHT, _BOTTOM, _TOP = 0.46, 0.16, 0.1, 0.52, 0.36
_PANEL, _TITLE_SIZE = 2.5, 8.0  # inches, points
# Points² of covered and missed rows, and the number of rows up to which dots have that size.
_DOT, _MISS, _MANY = 3.0, 9.0, 1000
_COVERED = "#bdbdbd"


def plot_interval_misses(
    points: np.ndarray,
    missed: Mapping[str, np.ndarray],
    level: float,
    axis_names: tuple[str, str] = ("x₁", "x₂"),
) -> Figure:
    """Plot the positions of rows whose outcome is outside of the central interval.

    If the interval is valid in all regions, the misses are spread evenly.

    Parameters
    ----------
    points : Float[n, 2]
        Positions of the rows.
    missed : mapping of str to Int[n]
        -1 where the outcome is below the interval, 1 above, 0 inside; the first name is the parent.
    level : float in (0, 1)
        Level of the interval.
    axis_names : tuple of two str, default=("x₁", "x₂")
        Names of the two features.

    Returns
    -------
    Figure
        Figure with a panel for each name. Misses are on top, as triangles that point towards the
        outcome. Dots are one image in SVG too.

    Raises
    ------
    ValueError
        If there is nothing to draw, or arrays do not fit.

    References
    ----------
    Torres et al., "Model-free local recalibration of neural networks", 2024, Figure 3 (e, f),
    without the direction.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import plot_interval_misses
    >>> rng = np.random.default_rng(0)
    >>> points = rng.uniform(-1, 1, (200, 2))
    >>> missed = {"network": rng.choice([-1, 0, 1], 200), "local_pit": np.zeros(200, dtype=int)}
    >>> figure = plot_interval_misses(points, missed, level=0.9)
    >>> [axes.get_title() for axes in figure.axes]
    ['network', 'local_pit']
    """
    if (
        not missed
        or np.ndim(points) != 2
        or np.shape(points)[1] != 2
        or {len(signs) for signs in missed.values()} != {len(points)}
    ):
        raise ValueError(
            "interval_misses needs points Float[n, 2], and for at least one name a number for each"
            " of them"
        )
    panel = min(_PANEL, (FULL_WIDTH - _LEFT - _RIGHT - (len(missed) - 1) * _GAP) / len(missed))
    width = _LEFT + len(missed) * panel + (len(missed) - 1) * _GAP + _RIGHT
    with style_context():
        figure = new_figure(width, _BOTTOM + panel + _TOP)
        for i, (name, signs) in enumerate(missed.items()):
            axes = add_axes(figure, _LEFT + i * (panel + _GAP), _BOTTOM, panel, panel)
            _draw_misses(axes, points, signs)
            axes.set(xlabel=axis_names[0], ylabel=axis_names[1] if i == 0 else "")
            axes.tick_params(labelleft=i == 0)
            axes.set_title(
                shorten_text(figure, name, _TITLE_SIZE, panel), fontsize=_TITLE_SIZE, pad=12
            )
            missed_rate, rate = 100 * np.mean(signs != 0), 100 * (1 - level)
            note = f"{missed_rate:.1f} % missed, {rate:.3g} % expected"
            write_beside(axes, note, (0.5, 1), (0, 3), ha="center")
        note = "▲ outcome above the interval   ▼ below   · inside"
        write_note(figure, 0.5 * width, 0.06, note, ha="center", va="bottom")
    return figure


def _draw_misses(axes: Axes, points: np.ndarray, signs: np.ndarray) -> None:
    # The area of all dots together stays constant if there are many rows.
    shrink = min(1.0, (_MANY / len(points)) ** 0.5)
    common = {"linewidths": 0, "rasterized": True}
    for sign, marker, color, size, gid in (
        (0, "o", _COVERED, _DOT, "inside"),
        (1, "^", VERMILLION, _MISS, "above"),
        (-1, "v", VERMILLION, _MISS, "below"),
    ):
        axes.scatter(
            *points[signs == sign].T,
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
        margin = 0.03 * (high - low or 1.0)
        limit(low - margin, high + margin)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(4))


@register_figure("interval_misses")
def plot_interval_misses_from_run(run: RunFigureData, level: OpenFraction = 0.95) -> Any:
    """Plot the test rows outside of the central interval.

    The figure is omitted unless there are two features.
    """
    distributions, X = run.outputs_by_model("distribution", run.test), run.splits.test.X
    if distributions is None or X.ndim != 2 or X.shape[1] != 2:
        return None
    y, missed = np.asarray(run.test.y), {}
    for name, distribution in distributions.items():
        low, high = distribution.interval(level)
        missed[name] = (y > high).astype(int) - (y < low)
    first, second = run.splits.test.feature_names
    return plot_interval_misses(X, missed, level, (first, second))
