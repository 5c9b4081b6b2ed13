"""Parts that figures draw alike: ideal values, bands, text at distances, grids of panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kdgraph.figures.style import (
    BLACK,
    GREY,
    NOTE_SIZE,
    PlotStyle,
    add_axes,
    legend_label,
    shorten_text,
)

IDEAL_LINE: dict[str, Any] = {"color": BLACK, "linewidth": 0.7, "linestyle": (0, (1, 1.5))}
"""Dotted line at a value that a model should have, such as the largest class prior."""
PARENT_FILL = "#d9d9d9"
"""Fill of the parent's histogram behind the outlines of methods."""


def draw_band(
    axes: Axes,
    x: np.ndarray,
    ends: tuple[np.ndarray, np.ndarray] | np.ndarray,
    style: PlotStyle,
    name: str,
    alpha: float = 0.2,
) -> None:
    """Fill the area between two ends, Float[n] each, around the curve of that name."""
    low, high = ends
    axes.fill_between(x, low, high, color=style.color, alpha=alpha, linewidth=0, gid=f"band {name}")


def draw_outline(
    axes: Axes, heights: np.ndarray, edges: np.ndarray, style: PlotStyle, label: str
) -> None:
    """Draw the outline of a histogram, Float[b] over Float[b + 1]; the parent's is filled."""
    if not style.filled:
        axes.stairs(heights, edges, fill=True, color=PARENT_FILL, gid="parent rows")
    axes.stairs(
        heights, edges, color=style.color, linestyle=style.linestyle, linewidth=1.1, label=label
    )


def shorten_lines(figure: Figure, text: str, size: float, width: float) -> str:
    """Return text without the middle of those lines that are wider than ``width`` inches."""
    return "\n".join(shorten_text(figure, line, size, width) for line in text.split("\n"))


def write_text(figure: Figure, left: float, bottom: float, text: str, **style: Any) -> None:
    """Write text at a position in inches."""
    width, height = figure.get_size_inches()
    figure.text(left / width, bottom / height, text, **style)


def write_note(figure: Figure, left: float, bottom: float, text: str, **style: Any) -> None:
    """Write small grey text at a position in inches."""
    write_text(figure, left, bottom, text, fontsize=NOTE_SIZE, color=GREY, **style)


def write_beside(
    axes: Axes,
    text: str,
    corner: tuple[float, float],
    points: tuple[float, float],
    xycoords: Any = "axes fraction",
    **style: Any,
) -> None:
    """Write small text at a distance in points from a position in units of ``xycoords``."""
    style = {"fontsize": NOTE_SIZE} | style
    axes.annotate(text, corner, points, xycoords=xycoords, textcoords="offset points", **style)


def line_handle(style: PlotStyle) -> Line2D:
    """Return a legend handle without a marker."""
    dashes: dict[str, Any] = {"linestyle": style.linestyle}
    return Line2D([], [], linewidth=1.2, color=style.color, **dashes)


def draw_legend_line(
    figure: Figure,
    handles: Sequence[Any],
    names: Sequence[str],
    left: float,
    available: float,
    **more: Any,
) -> None:
    """Draw a legend in one line at the upper edge, ``left`` inches from the left edge.

    Handles are artists or, with a ``handler_map``, tuples of them. Names are shortened to
    ``available`` inches each.
    """
    figure.legend(
        handles,
        [legend_label(shorten_text(figure, name, 7.0, available)) for name in names],
        ncols=len(names),
        fontsize=7.0,
        loc="upper left",
        bbox_to_anchor=(left / figure.get_figwidth(), 1),
        borderaxespad=0.3,
        **more,
    )


@dataclass(frozen=True)
class PanelGrid:
    """Layout of ``n`` panels in rows, which are filled from the left and from the top.

    Lengths are in inches: the lower left corner of the lowest row, the size of a panel, and the
    distances between columns and between rows.
    """

    n: int
    columns: int
    left: float
    bottom: float
    width: float
    height: float
    gap: float = 0.0
    row_gap: float = 0.0

    @property
    def rows(self) -> int:
        """Number of rows."""
        return -(-self.n // self.columns)

    @property
    def top(self) -> float:
        """Upper edge of the first row, with the distance between rows above it."""
        return self.bottom + self.rows * (self.height + self.row_gap)

    def add_axes(self, figure: Figure, i: int) -> Axes:
        """Add the axes of panel ``i``."""
        row, column = divmod(i, self.columns)
        return add_axes(
            figure,
            self.left + column * (self.width + self.gap),
            self.bottom + (self.rows - 1 - row) * (self.height + self.row_gap),
            self.width,
            self.height,
        )

    def is_lowest(self, i: int) -> bool:
        """Return whether no panel is below panel ``i``."""
        return i + self.columns >= self.n

    def is_leftmost(self, i: int) -> bool:
        """Return whether panel ``i`` begins a row."""
        return i % self.columns == 0
