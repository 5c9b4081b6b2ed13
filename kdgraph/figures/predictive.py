"""Predictive densities of a few chosen rows, of the parent and of what repairs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.labels import NOTE_SIZE
from kdgraph.figures.style import BLACK, FULL_WIDTH, GREY, add_axes, fitted, legend_label, new_figure, roles, styled

_LEFT, _RIGHT, _BOTTOM, _HEAD, _GAP = 0.3, 0.3, 0.38, 0.44, 0.3  # inches
_WIDEST, _HEIGHT = 2.6, 1.5
_KEY_SIZE = 7.0


@dataclass(frozen=True)
class PredictedRow:
    """What is predicted for one row.

    Attributes
    ----------
    title : what is written above its panel.
    at : Float[m], increasing values of the outcome.
    density : name → Float[m], in 1/units; the first is the parent; "truth" where it is known.
    y : the outcome, or None.
    """

    title: str
    at: np.ndarray
    density: Mapping[str, np.ndarray]
    y: float | None = None


def predictive_densities(rows: Sequence[PredictedRow], outcome: str = "y") -> Figure:
    """Densities before and after recalibration, a panel for each row, and where its outcome was.

    Parameters
    ----------
    rows : one to five; all have the same names.
    outcome : what y is called.

    Returns
    -------
    Figure
        A page wide at most. Each panel has a scale of its own, and no ticks of densities, whose areas are 1.

    Raises
    ------
    ValueError
        No row, more than five, different names, or arrays that do not fit.

    References
    ----------
    Torres et al., "Model-free local recalibration of neural networks", 2024, Figure 5 (b).
    """
    fits = all(np.shape(values) == np.shape(row.at) for row in rows for values in row.density.values())
    if not 1 <= len(rows) <= 5 or len({tuple(row.density) for row in rows}) != 1 or not rows[0].density or not fits:
        raise ValueError("predictive_densities needs one to five rows with the same names, and a density at each of their values")
    panel = min(_WIDEST, (FULL_WIDTH - _LEFT - _RIGHT - (len(rows) - 1) * _GAP) / len(rows))
    width = _LEFT + len(rows) * panel + (len(rows) - 1) * _GAP + _RIGHT
    names = list(rows[0].density)
    with styled():
        figure = new_figure(width, _BOTTOM + _HEIGHT + _HEAD)
        for i, row in enumerate(rows):
            axes = add_axes(figure, _LEFT + i * (panel + _GAP), _BOTTOM, panel, _HEIGHT)
            _draw(axes, row)
            axes.set_xlabel(outcome)
            axes.set_title(fitted(figure, row.title, NOTE_SIZE, panel), fontsize=NOTE_SIZE, pad=3)
        lines = [Line2D([], [], linewidth=1.2) for _ in names]
        for line, role in zip(lines, (roles(names)[name] for name in names), strict=True):
            line.set(color=role.color, linestyle=role.linestyle)
        labels = [fitted(figure, name, _KEY_SIZE, (width - _LEFT - _RIGHT) / len(names) - 0.5) for name in names]
        place = {"loc": "upper left", "bbox_to_anchor": (_LEFT / width, 1), "borderaxespad": 0.3, "columnspacing": 1.2}
        figure.legend(lines, [legend_label(label) for label in labels], ncols=len(names), fontsize=_KEY_SIZE, **place)
    return figure


def _draw(axes: Axes, row: PredictedRow) -> None:
    for name, role in roles(list(row.density)).items():
        axes.plot(row.at, row.density[name], color=role.color, linestyle=role.linestyle, linewidth=1.2, label=name)
    top = 1.08 * max(float(values.max()) for values in row.density.values())
    if row.y is not None:
        axes.plot([row.y, row.y], [0, top], color=BLACK, linewidth=0.7, linestyle=(0, (1, 1.5)), gid="outcome")
        axes.annotate("y", (row.y, top), (2.5, -1), textcoords="offset points", va="top", fontsize=NOTE_SIZE, color=GREY)
    axes.set(xlim=(row.at[0], row.at[-1]), ylim=(0, top), yticks=[])
    axes.xaxis.set_major_locator(MaxNLocator(3, prune="both"))
