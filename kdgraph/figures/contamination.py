"""How often sets of rows are called out of distribution, against the share of their rows that are.

How well sets of rows are judged that have some out of distribution: from the table that
metrics=detection makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, StrMethodFormatter

from kdgraph.figures.run_figures import RunFigureData, register_figure
from kdgraph.figures.style import (
    BLACK,
    COLUMN_WIDTH,
    GREY,
    NOTE_SIZE,
    add_axes,
    draw_legend_above,
    legend_handles,
    legend_height,
    new_figure,
    shorten_text,
    style_context,
    styles_by_name,
)
from kdgraph.parameters import Count

_LEFT, _RIGHT, _BOTTOM, _HEIGHT, _TITLE, _GAP = 0.4, 0.08, 0.36, 0.95, 0.2, 0.12  # inches
_COLUMNS = 2
_TICKS = (0.0, 0.05, 0.2, 0.5, 1.0)
PowerCurve = tuple[np.ndarray, np.ndarray]
"""Shares, increasing in [0, 1], and power at each, Float[r]."""


def plot_power_against_contamination(
    panels: Mapping[str, Mapping[str, PowerCurve]],
    *,
    false_alarm: float | None = None,
    set_size: int | None = None,
) -> Figure:
    """The power of a test of sets against the share of their rows that are out of distribution, a
    panel for each kind of such rows.

    Parameters
    ----------
    panels : title → name → its curve; the first name is the parent, the others are methods, the
    same in every panel.
    false_alarm : the rate that was asked for, a dotted line; the power at share 0 should be on it.
    set_size : rows of a set, which the axis names.

    Returns
    -------
    Figure
        One column wide, two panels in a row. Shares are on a square root scale, since rare outliers
        are what is hard.

    Raises
    ------
    ValueError
        No panel, panels with other names, or curves that are none.
    """
    _check_panels(panels)
    names = list(next(iter(panels.values())))
    columns = min(_COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    panel = (COLUMN_WIDTH - _LEFT - _RIGHT - (columns - 1) * _GAP) / columns
    with style_context():
        handles = legend_handles(names)
        height = _BOTTOM + lines * (_HEIGHT + _TITLE) + legend_height(handles, COLUMN_WIDTH)
        figure = new_figure(COLUMN_WIDTH, height)
        draw_legend_above(figure, handles)
        for place, (title, curves) in enumerate(panels.items()):
            row, column = divmod(place, columns)
            axes = add_axes(
                figure,
                _LEFT + column * (panel + _GAP),
                _BOTTOM + (lines - 1 - row) * (_HEIGHT + _TITLE),
                panel,
                _HEIGHT,
            )
            _draw_curves(axes, curves, false_alarm)
            axes.set_title(shorten_text(figure, title, NOTE_SIZE, panel), fontsize=NOTE_SIZE, pad=3)
            axes.tick_params(labelbottom=place + columns >= len(panels), labelleft=column == 0)
        middle = (_BOTTOM + lines * (_HEIGHT + _TITLE) / 2) / height
        figure.text(
            0.03,
            middle,
            "share of sets called out",
            rotation=90,
            ha="center",
            va="center",
            color=BLACK,
        )
        of_what = "" if set_size is None else f", in sets of {set_size}"
        figure.text(
            0.5,
            0.04 / height,
            f"share of rows out of distribution{of_what}",
            ha="center",
            va="bottom",
            color=BLACK,
        )
    return figure


def _draw_curves(axes: Axes, curves: Mapping[str, PowerCurve], false_alarm: float | None) -> None:
    if false_alarm is not None:
        axes.axhline(
            false_alarm, color=GREY, linewidth=0.7, linestyle=":", zorder=1, gid="false alarm"
        )
    for name, role in styles_by_name(list(curves)).items():
        share, power = curves[name]
        style: dict[str, Any] = role.line() | {"markersize": 3.0, "linewidth": 1.2}
        axes.plot(
            share,
            power,
            label=name,
            clip_on=False,
            zorder=2 if name == next(iter(curves)) else 3,
            **style,
        )
    axes.set_xscale("function", functions=(lambda x: np.sqrt(np.clip(x, 0, None)), np.square))
    axes.set(xlim=(0, 1), ylim=(0, 1.03))
    axes.xaxis.set_major_locator(FixedLocator(_TICKS))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_major_locator(MaxNLocator(2, steps=[1, 5, 10]))


def _check_panels(panels: Mapping[str, Mapping[str, PowerCurve]]) -> None:
    known = {tuple(curves) for curves in panels.values()}
    if len(known) != 1 or () in known:
        raise ValueError(
            f"power_against_contamination needs panels with the same curves, got {sorted(known)}"
        )
    for title, curves in panels.items():
        for name, (share, power) in curves.items():
            if (
                np.shape(share) != np.shape(power)
                or np.ndim(share) != 1
                or len(share) < 2
                or not (np.diff(share) > 0).all()
            ):
                raise ValueError(
                    f"the curve of {name!r} in {title!r} must have two increasing shares or more,"
                    " and a power at each"
                )


_TABLE_COLUMNS = ("of", "on", "ood", "share", "set_size", "power")
"""Columns of the table that are no parameters of a set."""


@register_figure("power_against_contamination")
def plot_power_against_contamination_from_run(
    run: RunFigureData,
    *,
    table: str = "contamination",
    false_alarm: float | None = 0.05,
    at_most: Count = 6,
) -> Any:
    """Power of a test of sets against the share of their rows that are out of distribution, at the
    largest size of a set.

    Parameters
    ----------
    table : a key in ``metrics``; one that both models have.
    false_alarm : the rate that is marked: that of the table.
    at_most : so many sets out of distribution, the first ones.
    """
    of = dict(zip(("parent", "calibrated"), run.names, strict=True))
    rows = [row for row in run.evaluation.tables.get(table, []) if row["on"] == "ood"]
    size = max((row["set_size"] for row in rows), default=0)
    rows = [
        row for row in rows if row["set_size"] == size
    ]  # of a set with fewer rows there is no such size
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for title, row in zip(_ood_set_titles(rows), rows, strict=True):
        found.setdefault(title, {}).setdefault(of[row["of"]], []).append(
            (row["share"], row["power"])
        )
    whole = [title for title, curves in found.items() if len(curves) == len(of)][:at_most]
    panels = {
        title: {name: tuple(np.array(curve).T) for name, curve in found[title].items()}
        for title in whole
    }
    return (
        plot_power_against_contamination(panels, false_alarm=false_alarm, set_size=size)
        if panels
        else None
    )


def _ood_set_titles(rows: list[dict[str, Any]]) -> list[str]:
    """Of each row the set's name, and of a family which of them: its only parameter, or of several
    those that are not the same in all.
    """
    params = [
        {name: value for name, value in row.items() if name not in _TABLE_COLUMNS} for row in rows
    ]
    family: dict[Any, list[dict[str, Any]]] = {}
    for row, of_row in zip(rows, params, strict=True):
        family.setdefault(row["ood"], []).append(of_row)
    return [
        ", ".join(
            [
                str(row["ood"]),
                *(
                    f"{name} {value:g}"
                    for name, value in of_row.items()
                    if _distinguishes_sets(name, of_row, family[row["ood"]])
                ),
            ]
        )
        for row, of_row in zip(rows, params, strict=True)
    ]


def _distinguishes_sets(name: str, params: dict[str, Any], family: list[dict[str, Any]]) -> bool:
    return len(params) == 1 or any(other.get(name) != params[name] for other in family)
