"""Power of tests for out-of-distribution sets against the fraction of OOD rows.

The data are those of the table of ``metrics=detection``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, StrMethodFormatter

from kdgraph.figures.drawing import PanelGrid, write_text
from kdgraph.figures.run_figures import RunFigureData, register_figure
from kdgraph.figures.style import (
    BLACK,
    COLUMN_WIDTH,
    GREY,
    NOTE_SIZE,
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
"""Increasing fractions in [0, 1], Float[r], and the power at each, Float[r]."""


def plot_power_against_contamination(
    panels: Mapping[str, Mapping[str, PowerCurve]],
    *,
    false_alarm: float | None = None,
    set_size: int | None = None,
) -> Figure:
    """Plot the power of a set test against the fraction of OOD rows in a set.

    Parameters
    ----------
    panels : mapping of title to name to PowerCurve
        Curves for each kind of OOD rows. All panels have the same names; the first is the parent,
        the others are methods.
    false_alarm : float, default=None
        Nominal rate of false alarms, drawn as a dotted line. The power at fraction 0 should be on
        it.
    set_size : int, default=None
        Rows of a set, for the label of the axis.

    Returns
    -------
    Figure
        Figure of one column with two panels in a row. Fractions are on a square root scale, since
        small fractions are hardest to detect.

    Raises
    ------
    ValueError
        If there is no panel, panels have different names, or a curve is invalid.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import plot_power_against_contamination
    >>> fraction = np.array([0.0, 0.1, 0.5, 1.0])
    >>> forest, tood = np.array([0.05, 0.1, 0.4, 0.7]), np.array([0.05, 0.4, 1, 1])
    >>> curves = {"forest": (fraction, forest), "tood": (fraction, tood)}
    >>> figure = plot_power_against_contamination({"noise": curves}, false_alarm=0.05, set_size=50)
    >>> [axes.get_title() for axes in figure.axes]
    ['noise']
    """
    _check_panels(panels)
    names = list(next(iter(panels.values())))
    columns = min(_COLUMNS, len(panels))
    panel = (COLUMN_WIDTH - _LEFT - _RIGHT - (columns - 1) * _GAP) / columns
    grid = PanelGrid(len(panels), columns, _LEFT, _BOTTOM, panel, _HEIGHT, _GAP, _TITLE)
    with style_context():
        handles = legend_handles(names)
        figure = new_figure(COLUMN_WIDTH, grid.top + legend_height(handles, COLUMN_WIDTH))
        draw_legend_above(figure, handles)
        for i, (title, curves) in enumerate(panels.items()):
            axes = grid.add_axes(figure, i)
            _draw_curves(axes, curves, false_alarm)
            axes.set_title(shorten_text(figure, title, NOTE_SIZE, panel), fontsize=NOTE_SIZE, pad=3)
            axes.tick_params(labelbottom=grid.is_lowest(i), labelleft=grid.is_leftmost(i))
        text: dict[str, Any] = {"ha": "center", "color": BLACK}
        power = "power (fraction of sets detected)"
        middle = (_BOTTOM + grid.top) / 2
        write_text(figure, 0.03 * COLUMN_WIDTH, middle, power, rotation=90, va="center", **text)
        set_note = "" if set_size is None else f" in sets of {set_size}"
        label = f"fraction of OOD rows{set_note} (square-root scale)"
        write_text(figure, 0.5 * COLUMN_WIDTH, 0.04, label, va="bottom", **text)
    return figure


def _draw_curves(axes: Axes, curves: Mapping[str, PowerCurve], false_alarm: float | None) -> None:
    if false_alarm is not None:
        axes.axhline(
            false_alarm, color=GREY, linewidth=0.7, linestyle=":", zorder=1, gid="false alarm"
        )
    for name, plot_style in styles_by_name(list(curves)).items():
        zorder = 2 if name == next(iter(curves)) else 3
        line = plot_style.line(markersize=3.0, linewidth=1.2, clip_on=False, zorder=zorder)
        axes.plot(*curves[name], label=name, **line)
    # Matplotlib evaluates the scale beyond the limits too; clipping avoids roots of negative
    # numbers.
    axes.set_xscale("function", functions=(lambda x: np.sqrt(np.clip(x, 0, None)), np.square))
    axes.set(xlim=(0, 1), ylim=(0, 1.03))
    axes.xaxis.set_major_locator(FixedLocator(_TICKS))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_major_locator(MaxNLocator(2, steps=[1, 5, 10]))


def _check_panels(panels: Mapping[str, Mapping[str, PowerCurve]]) -> None:
    name_sets = {tuple(curves) for curves in panels.values()}
    if len(name_sets) != 1 or () in name_sets:
        raise ValueError(
            "power_against_contamination needs panels with the same curves, got"
            f" {sorted(name_sets)}"
        )
    for title, curves in panels.items():
        for name, (fraction, power) in curves.items():
            if (
                np.shape(fraction) != np.shape(power)
                or np.ndim(fraction) != 1
                or len(fraction) < 2
                or not (np.diff(fraction) > 0).all()
            ):
                raise ValueError(
                    f"the curve of {name!r} in {title!r} must have two or more increasing"
                    " fractions, and a power at each"
                )


_TABLE_COLUMNS = ("of", "on", "ood", "fraction", "set_size", "power")
"""Columns of the table that are not parameters of a set."""


@register_figure("power_against_contamination")
def plot_power_against_contamination_from_run(
    run: RunFigureData,
    *,
    table: str = "contamination",
    false_alarm: float | None = 0.05,
    at_most: Count = 6,
) -> Any:
    """Plot power against the fraction of OOD rows, at the largest set size.

    ``false_alarm`` is the nominal rate of the table. The first ``at_most`` OOD sets are drawn.
    """
    names = dict(zip(("parent", "calibrated"), run.names, strict=True))
    rows = [row for row in run.evaluation.tables.get(table, []) if row["on"] == "ood"]
    size = max((row["set_size"] for row in rows), default=0)
    # OOD sets that have too few rows for this size are omitted.
    rows = [row for row in rows if row["set_size"] == size]
    curves_by_title: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for title, row in zip(_ood_set_titles(rows), rows, strict=True):
        curves_by_title.setdefault(title, {}).setdefault(names[row["of"]], []).append(
            (row["fraction"], row["power"])
        )
    # A panel needs the curves of both models.
    complete_titles = [
        title for title, curves in curves_by_title.items() if len(curves) == len(names)
    ][:at_most]
    panels = {
        title: {name: tuple(np.array(curve).T) for name, curve in curves_by_title[title].items()}
        for title in complete_titles
    }
    return (
        plot_power_against_contamination(panels, false_alarm=false_alarm, set_size=size)
        if panels
        else None
    )


def _ood_set_titles(rows: list[dict[str, Any]]) -> list[str]:
    """Return the name of the OOD set of each row of the table, with its parameters.

    Of several parameters it has those that differ within the family.
    """
    # All other columns are parameters of the OOD set, and their names depend on the set.
    params = [
        {name: value for name, value in row.items() if name not in _TABLE_COLUMNS} for row in rows
    ]
    families: dict[Any, list[dict[str, Any]]] = {}
    for row, row_params in zip(rows, params, strict=True):
        families.setdefault(row["ood"], []).append(row_params)
    return [
        ", ".join(
            [
                str(row["ood"]),
                *(
                    f"{name} {value:g}"
                    for name, value in row_params.items()
                    if _distinguishes_sets(name, row_params, families[row["ood"]])
                ),
            ]
        )
        for row, row_params in zip(rows, params, strict=True)
    ]


def _distinguishes_sets(name: str, params: dict[str, Any], family: list[dict[str, Any]]) -> bool:
    return len(params) == 1 or any(sibling.get(name) != params[name] for sibling in family)
