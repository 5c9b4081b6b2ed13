"""How often sets of rows are called out of distribution, against the share of their rows that are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, StrMethodFormatter

from kdgraph.figures.keys import key_above, key_height, role_handles
from kdgraph.figures.labels import NOTE_SIZE
from kdgraph.figures.style import BLACK, COLUMN_WIDTH, GREY, add_axes, fitted, new_figure, roles, styled

_LEFT, _RIGHT, _BOTTOM, _HEIGHT, _TITLE, _GAP = 0.4, 0.08, 0.36, 0.95, 0.2, 0.12  # inches
_COLUMNS = 2
_TICKS = (0.0, 0.05, 0.2, 0.5, 1.0)
Curve = tuple[np.ndarray, np.ndarray]
"""Shares, increasing in [0, 1], and power at each, Float[r]."""


def power_against_contamination(
    panels: Mapping[str, Mapping[str, Curve]], *, false_alarm: float | None = None, set_size: int | None = None
) -> Figure:
    """The power of a test of sets against the share of their rows that are out of distribution, a panel for each kind of such rows.

    Parameters
    ----------
    panels : title → name → its curve; the first name is the parent, the others are methods, the same in every panel.
    false_alarm : the rate that was asked for, a dotted line; the power at share 0 should be on it.
    set_size : rows of a set, which the axis names.

    Returns
    -------
    Figure
        One column wide, two panels in a row. Shares are on a square root scale, since rare outliers are what is hard.

    Raises
    ------
    ValueError
        No panel, panels with other names, or curves that are none.
    """
    _check(panels)
    names = list(next(iter(panels.values())))
    columns = min(_COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    panel = (COLUMN_WIDTH - _LEFT - _RIGHT - (columns - 1) * _GAP) / columns
    with styled():
        handles = role_handles(names)
        height = _BOTTOM + lines * (_HEIGHT + _TITLE) + key_height(handles, COLUMN_WIDTH)
        figure = new_figure(COLUMN_WIDTH, height)
        key_above(figure, handles)
        for place, (title, curves) in enumerate(panels.items()):
            row, column = divmod(place, columns)
            axes = add_axes(figure, _LEFT + column * (panel + _GAP), _BOTTOM + (lines - 1 - row) * (_HEIGHT + _TITLE), panel, _HEIGHT)
            _draw(axes, curves, false_alarm)
            axes.set_title(fitted(figure, title, NOTE_SIZE, panel), fontsize=NOTE_SIZE, pad=3)
            axes.tick_params(labelbottom=place + columns >= len(panels), labelleft=column == 0)
        middle = (_BOTTOM + lines * (_HEIGHT + _TITLE) / 2) / height
        figure.text(0.03, middle, "share of sets called out", rotation=90, ha="center", va="center", color=BLACK)
        of_what = "" if set_size is None else f", in sets of {set_size}"
        figure.text(0.5, 0.04 / height, f"share of rows out of distribution{of_what}", ha="center", va="bottom", color=BLACK)
    return figure


def _draw(axes: Axes, curves: Mapping[str, Curve], false_alarm: float | None) -> None:
    if false_alarm is not None:
        axes.axhline(false_alarm, color=GREY, linewidth=0.7, linestyle=":", zorder=1, gid="false alarm")
    for name, role in roles(list(curves)).items():
        share, power = curves[name]
        style: dict[str, Any] = role.line() | {"markersize": 3.0, "linewidth": 1.2}
        axes.plot(share, power, label=name, clip_on=False, zorder=2 if name == next(iter(curves)) else 3, **style)
    axes.set_xscale("function", functions=(lambda x: np.sqrt(np.clip(x, 0, None)), np.square))
    axes.set(xlim=(0, 1), ylim=(0, 1.03))
    axes.xaxis.set_major_locator(FixedLocator(_TICKS))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_major_locator(MaxNLocator(2, steps=[1, 5, 10]))


def _check(panels: Mapping[str, Mapping[str, Curve]]) -> None:
    known = {tuple(curves) for curves in panels.values()}
    if len(known) != 1 or () in known:
        raise ValueError(f"power_against_contamination needs panels with the same curves, got {sorted(known)}")
    for title, curves in panels.items():
        for name, (share, power) in curves.items():
            if np.shape(share) != np.shape(power) or np.ndim(share) != 1 or len(share) < 2 or not (np.diff(share) > 0).all():
                raise ValueError(f"the curve of {name!r} in {title!r} must have two increasing shares or more, and a power at each")
