"""A scale for improvements, which end at 1 and fall without bound: half of the parent's error and twice as much lie equally far from 0."""

from __future__ import annotations

from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter
from numpy.typing import ArrayLike

_FAR = -0.999
"""Where the lowest of all numbers is drawn: 1,000 times the parent's error."""
_TICKS = (0.0, 1.0, -1.0, 0.5, -4.0, -0.5, 0.2, -0.2, 0.1, -0.1, 0.05, -0.05, 0.02, -0.02, 0.01, -0.01)
"""The first of these have a tick before others that would be too near."""
_BETWEEN = {"x": 0.3, "y": 0.16}  # least distance of two ticks: inches


def to_ratio(values: ArrayLike) -> np.ndarray:
    """Elementwise: improvements as they are, but v < 0 as v/(1 - v), which is minus the improvement with parent and method exchanged."""
    v = np.asarray(values, dtype=np.float64)
    return np.where(v < 0, v / (1 - np.minimum(v, 0)), v)


def from_ratio(places: ArrayLike) -> np.ndarray:
    """Elementwise the inverse of :func:`to_ratio`; places below -0.999 count as that."""
    u = np.asarray(places, dtype=np.float64)
    return np.where(u < 0, u / (1 + np.clip(u, _FAR, 0)), u)


def set_ratio_scale(axes: Axes, which: Literal["x", "y"], low: float, high: float) -> None:
    """Give one axis this scale, from the improvement ``low`` to ``high`` with some room at both ends, and ticks that are apart."""
    bottom, top = to_ratio(np.array([low, high]))
    room = 0.04 * max(top - bottom, 0.02)
    ends = from_ratio(np.array([bottom - room, top + room]))
    if which == "x":
        axes.set_xscale("function", functions=(to_ratio, from_ratio))
        axes.set_xlim(*ends)
    else:
        axes.set_yscale("function", functions=(to_ratio, from_ratio))
        axes.set_ylim(*ends)
    box, dpi = axes.get_window_extent(), axes.figure.dpi
    axis, inches = (axes.xaxis, box.width / dpi) if which == "x" else (axes.yaxis, box.height / dpi)
    axis.set_major_locator(FixedLocator(_ticks(*ends, apart=_BETWEEN[which] / inches)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: signed(value)))


def signed(value: float, digits: int | None = None) -> str:
    """+.5, 0, −1: an improvement with a true minus, to so many digits after the point if they are given."""
    size = f"{abs(value):.3g}" if digits is None else f"{abs(value):.{digits}f}"
    if float(size) == 0:
        return size if digits is None else size.removeprefix("0")
    return ("+" if value > 0 else "−") + size.removeprefix("0")


def _ticks(low: float, high: float, apart: float) -> list[float]:
    """Those of the ticks within the ends that are at least this share of the axis apart."""
    start, length = to_ratio(low), to_ratio(high) - to_ratio(low)
    chosen: dict[float, float] = {}
    for tick in _TICKS:
        where = float((to_ratio(tick) - start) / length)
        if 0 <= where <= 1 and all(abs(where - other) >= apart for other in chosen.values()):
            chosen[tick] = where
    return sorted(chosen)
