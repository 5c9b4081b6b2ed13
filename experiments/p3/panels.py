"""Panels of curves with bands, side by side, each curve with its name at its end, for the figures
of this study.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from kdgraph.figures import style

# Inches; between rows of panels, beside their labels.
_LEFT, _BETWEEN, _BOTTOM, _HEIGHT, _TOP, _ROW = 0.48, 0.3, 0.38, 1.75, 0.36, 0.24


@dataclass(frozen=True)
class Curve:
    """Repetitions of one curve, drawn as their mean and the range of the middle 90 % of them."""

    x: np.ndarray  # Float[v], increasing
    y: np.ndarray  # Float[s, v], a row for each repetition; one has no band
    role: style.PlotStyle


@dataclass(frozen=True)
class Panel:
    """Curves by name, on common axes; a curve with an empty name has no label."""

    curves: Mapping[str, Curve]
    xlabel: str
    log: bool = False
    ylim: tuple[float, float] | None = None  # this and ticks follow from the curves by default
    ticks: list[float] = field(default_factory=list)


def side_by_side(
    panels: Mapping[str, Panel], *, ylabel: str, note: str, columns: int = 3
) -> Figure:
    """Draw panels by title, as wide as a page, in rows of ``columns``, with a line above them."""
    _check(panels)
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    with style.style_context():
        blank = style.new_figure(1, 1)
        names = [name for panel in panels.values() for name in panel.curves]
        margin = 0.16 + max(style.text_size(blank, name, style.LABEL_SIZE)[0] for name in names)
        width = (style.FULL_WIDTH - _LEFT - columns * margin - (columns - 1) * _BETWEEN) / columns
        step = _BOTTOM + _HEIGHT + _ROW
        figure = style.new_figure(style.FULL_WIDTH, rows * step - _ROW + _TOP)
        for i, (title, panel) in enumerate(panels.items()):
            row, column = divmod(i, columns)
            left = _LEFT + column * (width + margin + _BETWEEN)
            axes = style.add_axes(figure, left, (rows - 1 - row) * step + _BOTTOM, width, _HEIGHT)
            _draw(axes, panel)
            axes.set_title(title, fontsize=style.LABEL_SIZE + 0.5, pad=3)
            if column == 0:
                axes.set_ylabel(ylabel)
            if i == 0:
                style.note_above(axes, note, axes.get_xlim()[0], "left", 15)
    return figure


def _draw(axes: Axes, panel: Panel) -> None:
    for name, curve in panel.curves.items():
        few = len(curve.x) <= 20  # more markers than that are one thick line
        plot_style: dict[str, Any] = {**curve.role.line(), "markersize": 3.0 * few}
        axes.plot(curve.x, curve.y.mean(axis=0), label=name, zorder=3, **plot_style)
        if len(curve.y) > 1:
            low, high = np.quantile(curve.y, [0.05, 0.95], axis=0)
            band: dict[str, Any] = {"color": curve.role.color, "alpha": 0.18, "linewidth": 0}
            axes.fill_between(curve.x, low, high, gid=f"band {name}", **band)
    ends = [curve.x[[0, -1]] for curve in panel.curves.values()]
    axes.set_xlim(min(end[0] for end in ends), max(end[1] for end in ends))
    if panel.log:
        style.set_log_scale(axes, "x")
    if panel.ticks:
        axes.xaxis.set_major_locator(FixedLocator(panel.ticks))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.set_xlabel(panel.xlabel)
    if panel.ylim is not None:
        axes.set_ylim(*panel.ylim)
    named = {name: curve for name, curve in panel.curves.items() if name}
    ends = [float(curve.y.mean(axis=0)[-1]) for curve in named.values()]
    style.label_line_ends(axes, list(named), ends, [curve.role.color for curve in named.values()])


def _check(panels: Mapping[str, Panel]) -> None:
    if not panels:
        raise ValueError("side_by_side needs at least one panel")
    for title, panel in panels.items():
        for name, curve in panel.curves.items():
            if (
                np.ndim(curve.y) != 2
                or np.shape(curve.y)[1:] != np.shape(curve.x)
                or not len(curve.y)
            ):
                raise ValueError(
                    f"{name!r} of {title!r} must have a row of {len(curve.x)} numbers for each"
                    f" repetition, got {np.shape(curve.y)}"
                )
