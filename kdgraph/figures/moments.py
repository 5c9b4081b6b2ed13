"""Estimated means and standard deviations against the true ones.

Estimated against true means, of one run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.run_figures import RunFigureData, register_figure
from kdgraph.figures.style import (
    BLACK,
    add_axes,
    legend_label,
    new_figure,
    shorten_text,
    style_context,
    styles_by_name,
)
from kdgraph.parameters import Count

_LEFT, _RIGHT, _BOTTOM, _HEAD, _GAP = 0.62, 0.12, 0.4, 0.26, 0.66  # inches
_PANEL = 2.45
_KEY_SIZE = 7.0
_DOT, _MANY = 4.0, 1500  # points², and how many rows have dots of that size; more have smaller ones

_PARENT_DOT_FACTOR = 5.0
"""How much larger the parent's dots are, so that they show below those of a method that changes
nothing.
"""


@dataclass(frozen=True)
class RowMoments:
    """Mean and standard deviation of a distribution for each row.

    Attributes
    ----------
    mean, sd : Float[n].
    """

    mean: np.ndarray
    sd: np.ndarray


def plot_mean_and_sd(truth: RowMoments, said: Mapping[str, RowMoments]) -> Figure:
    """Each row's estimated mean against its true mean, and the same of standard deviations; on the
    diagonal they are right.

    Parameters
    ----------
    truth : of n rows, which a simulation knows.
    said : name → of the same rows; the first is the parent, the others are methods.

    Returns
    -------
    Figure
        Two square panels, each with one scale on both axes. Dots are one image in SVG too.

    Raises
    ------
    ValueError
        Nothing to draw, or not the same number of rows.

    References
    ----------
    Torres et al., "Model-free local recalibration of neural networks", 2024, Figure 2.
    """
    if (
        not said
        or {len(given.mean) for given in said.values()} != {len(truth.mean)}
        or not len(truth.mean)
    ):
        raise ValueError(
            "mean_and_sd needs at least one name, and a mean and a standard deviation for each of"
            " the same rows"
        )
    width = _LEFT + 2 * _PANEL + _GAP + _RIGHT
    with style_context():
        figure = new_figure(width, _BOTTOM + _PANEL + _HEAD)
        for i, (what, words) in enumerate((("mean", "mean"), ("sd", "standard deviation"))):
            axes = add_axes(figure, _LEFT + i * (_PANEL + _GAP), _BOTTOM, _PANEL, _PANEL)
            _draw_panel(
                axes,
                getattr(truth, what),
                {name: getattr(given, what) for name, given in said.items()},
            )
            axes.set(xlabel=f"true {words}", ylabel=f"estimated {words}")
        room = (width - _LEFT - _RIGHT) / len(said) - 0.4
        marks = [
            Line2D([], [], color=r.color, linestyle="", marker=r.marker, markersize=3.5)
            for r in styles_by_name(list(said)).values()
        ]
        place = {
            "loc": "upper left",
            "bbox_to_anchor": (_LEFT / width, 1),
            "borderaxespad": 0.3,
            "fontsize": _KEY_SIZE,
        }
        figure.legend(
            marks,
            [legend_label(shorten_text(figure, name, _KEY_SIZE, room)) for name in said],
            ncols=len(said),
            **place,
        )
    return figure


def _draw_panel(axes: Axes, true: np.ndarray, said: Mapping[str, np.ndarray]) -> None:
    size = _DOT * min(1.0, (_MANY / len(true)) ** 0.5)
    for i, (name, role) in enumerate(styles_by_name(list(said)).items()):
        area = size if i else _PARENT_DOT_FACTOR * size
        axes.scatter(
            true,
            said[name],
            s=area,
            color=role.color,
            marker=role.marker,
            linewidths=0,
            rasterized=True,
            gid=f"rows {name}",
        )
    ends = np.concatenate([true, *said.values()])
    low, high = float(ends.min()), float(ends.max())
    room = 0.04 * (high - low or 1.0)
    limits = (low - room, high + room)
    axes.plot(limits, limits, color=BLACK, linewidth=0.8, zorder=3, gid="right")
    axes.set(xlim=limits, ylim=limits)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(4))


@register_figure("mean_and_sd")
def plot_mean_and_sd_from_run(run: RunFigureData, at_most: Count = 2000) -> Any:
    """Estimated against true means and standard deviations of the test rows; None where nobody
    knows the true ones.

    Parameters
    ----------
    at_most : rows that are drawn, the first ones.
    """
    said, truth = run.outputs_by_model("distribution", run.test), run.test.truth
    if said is None or truth is None:
        return None
    true, *others = (
        RowMoments(each[:at_most].mean(), np.sqrt(each[:at_most].var()))
        for each in (truth, *said.values())
    )
    return plot_mean_and_sd(true, dict(zip(said, others, strict=True)))
