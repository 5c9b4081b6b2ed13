"""Figures 2 and 3: outputs of classifiers, and the confidence by a histogram of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from experiments.common.titles import titles
from experiments.p2.figures.curves import SCORE
from experiments.p2.figures.study import Study
from kdgraph.figures import style

# Kind of a classifier, its output, its possible confidence (Section III), and calibrators for it.
GROUPS = titles("p2", "figures.schematics")["groups"]
_ROW, _HEAD = 0.44, 0.3  # inches
# Inches: where the input, the classifier, what it puts out, the confidence and calibrators begin.
_COLUMNS = (0.06, 0.82, 2.1, 3.62, 5.0)
_ARROW = {"arrowstyle": "-|>", "color": style.GREY, "linewidth": 0.8}
_BOX = (0.82, 1.0)  # inches: left end and width of the classifier
_TITLES = ("input", "", "what it puts out", "confidence in the class", "calibrators here")


def figure2() -> Figure:
    """Draw three groups of classifiers by the information in their outputs."""
    height = _HEAD + _ROW * len(GROUPS)
    with style.style_context():
        figure = style.new_figure(style.FULL_WIDTH, height)
        axes = style.add_axes(figure, 0, 0, style.FULL_WIDTH, height)
        axes.set(xlim=(0, style.FULL_WIDTH), ylim=(0, height))
        axes.set_axis_off()
        for x, title in zip(_COLUMNS, _TITLES, strict=True):
            axes.text(
                x, height - 0.12, title, fontsize=style.NOTE_SIZE, color=style.GREY, va="center"
            )
        for i, group in enumerate(GROUPS):
            _group(axes, height - _HEAD - _ROW * (i + 0.5), *group)
    return figure


def _group(
    axes: Axes, y: float, information: str, output: str, confidence: str, calibrators: str
) -> None:
    left, width = _BOX
    box: dict[str, Any] = {"boxstyle": "round,pad=0,rounding_size=0.05", "edgecolor": style.GREY}
    axes.add_patch(FancyBboxPatch((left, y - 0.13), width, 0.26, facecolor=style.ID_SHADE, **box))
    axes.text(left + width / 2, y, information, ha="center", va="center", fontsize=style.LABEL_SIZE)
    axes.text(_COLUMNS[0], y, "vector X", va="center", fontsize=style.LABEL_SIZE)
    for x, text, color in zip(
        _COLUMNS[2:],
        (output, confidence, calibrators),
        (style.BLACK, style.BLUE, style.GREY),
        strict=True,
    ):
        axes.text(x, y, text, va="center", fontsize=style.LABEL_SIZE, color=color)
    for start, end in ((0.54, left), (left + width, _COLUMNS[2] - 0.04), (3.3, _COLUMNS[3] - 0.04)):
        axes.annotate("", (end, y), (start, y), arrowprops=_ARROW | {"shrinkA": 2, "shrinkB": 2})


def figure3(study: Study, name: str = "Baseplate", bins: int = 10) -> Figure:
    """Draw right and wrong rows of one class by the score, and the share right in each bin."""
    result = study.bins(name, bins)
    edges = 10 * np.append(result.lower, result.upper[-1])
    right = result.count * np.nan_to_num(result.accuracy)
    shown = int(np.argmin(np.abs(result.lower - 0.5)))  # a bin in the middle stands for all
    with style.style_context():
        figure = style.new_figure(style.FULL_WIDTH, 2.15)
        width, height = (style.FULL_WIDTH - 1.3) / 2, 1.55
        left, other = (
            style.add_axes(figure, 0.5 + i * (width + 0.7), 0.38, width, height) for i in range(2)
        )
        bar: dict[str, Any] = {"fill": True, "edgecolor": style.BLACK, "linewidth": 0.4}
        wrong = {"facecolor": style.ORANGE, "hatch": "////", "label": "wrong"}
        left.stairs(result.count, edges, baseline=right, **wrong, **bar)
        left.stairs(right, edges, facecolor=style.BLUE, label="right", **bar)
        other.stairs(
            result.accuracy, edges, baseline=None, color=style.BLACK, linewidth=1.4, gid="share"
        )
        _annotate(left, other, edges[shown : shown + 2], right[shown], result.count[shown])
        for axes, label in ((left, f"rows predicted as {name}"), (other, "share right")):
            axes.axvspan(*edges[shown : shown + 2], color=style.ID_SHADE, zorder=0)
            axes.set(xlim=(0, 10), xlabel=SCORE, ylabel=label)
        other.set_ylim(0, 1.02)
    return figure


def _annotate(left: Axes, right: Axes, edges: np.ndarray, n_right: float, n: float) -> None:
    """Write the counts of one bin and their ratio, and the titles of right and wrong rows."""
    share = n_right / n
    annotation, x = {"fontsize": style.LABEL_SIZE, "arrowprops": _ARROW}, edges.mean()
    text = f"{n_right:.0f} right of {n:.0f}"
    left.annotate(text, (x, n), (x, 2.8 * n), ha="center", **annotation)
    text = f"{n_right:.0f} / {n:.0f} = {share:.2f}"
    right.annotate(text, (x, share), (edges[0] - 0.6, share + 0.2), ha="right", **annotation)
    left.legend(loc="upper right", fontsize=style.LABEL_SIZE)
