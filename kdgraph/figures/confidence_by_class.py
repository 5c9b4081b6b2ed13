"""Confidence against the parent's score, a panel for each predicted class, over the share of rows that was right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.labels import NOTE_SIZE
from kdgraph.figures.reliability import wilson_interval
from kdgraph.figures.style import BLACK, COLUMN_WIDTH, FULL_WIDTH, GREY, add_axes, fitted, new_figure, roles, styled
from kdgraph.metrics import ReliabilityBins

_LEFT, _RIGHT, _BOTTOM, _KEY = 0.44, 0.1, 0.36, 0.2  # inches
_HEIGHT, _TITLE, _GAP = 0.95, 0.2, 0.14
_TICK_SIZE, _DOT = 6.5, 2.0  # points


@dataclass(frozen=True)
class OfClass:
    """Rows whose predicted class is one and the same.

    Attributes
    ----------
    score : Float[n], the parent's largest probability.
    confidence : name → Float[n]; of methods, the parent's being the score.
    bins : of the score against whether the prediction is right.
    """

    score: np.ndarray
    confidence: Mapping[str, np.ndarray]
    bins: ReliabilityBins


def confidence_by_class(classes: Mapping[str, OfClass], parent: str) -> Figure:
    """What methods make of a score, class by class, and what was right: bars are 95 % intervals of the share in each bin of scores.

    Parameters
    ----------
    classes : title → the rows that are predicted as this class.
    parent : what the parent is called: its confidence is the score itself, the diagonal.

    Returns
    -------
    Figure
        One column wide for up to two classes, else two columns with up to five panels in a row; all panels have one scale.

    Raises
    ------
    ValueError
        No class, a class without rows, or classes with different methods.

    Notes
    -----
    Salamon et al., Figures 7 to 14. Intervals are Wilson's. Where the confidence depends on more than class and score, dots of one score
    lie above each other.
    """
    _check(classes)
    methods = list(next(iter(classes.values())).confidence)
    n = len(classes)
    width, columns = (COLUMN_WIDTH, n) if n <= 2 else (FULL_WIDTH, min(n, 5))
    rows = -(-n // columns)
    panel = (width - _LEFT - _RIGHT - (columns - 1) * _GAP) / columns
    low = np.floor(10 * min(float(found.score.min()) for found in classes.values())) / 10
    with styled():
        figure = new_figure(width, _BOTTOM + rows * (_HEIGHT + _TITLE) + _KEY)
        for place, (title, found) in enumerate(classes.items()):
            row, column = divmod(place, columns)
            bottom = _BOTTOM + (rows - 1 - row) * (_HEIGHT + _TITLE)
            axes = add_axes(figure, _LEFT + column * (panel + _GAP), bottom, panel, _HEIGHT)
            _draw(axes, found, [parent, *methods], low)
            axes.set_title(fitted(figure, title, NOTE_SIZE, panel), fontsize=NOTE_SIZE, pad=3)
            axes.tick_params(labelsize=_TICK_SIZE, labelbottom=place + columns >= n, labelleft=column == 0)
        figure.text(
            (_LEFT + width - _RIGHT) / 2 / width, 0.05 / figure.get_figheight(), "score of the predicted class", ha="center", va="bottom"
        )
        middle = (_BOTTOM + rows * (_HEIGHT + _TITLE) / 2) / figure.get_figheight()
        figure.text(0.04 / width, middle, "confidence", rotation=90, ha="left", va="center")
        _key(figure, [parent, *methods])
    return figure


def _draw(axes: Axes, found: OfClass, names: list[str], low: float) -> None:
    drawn = roles(names)
    axes.plot([low, 1], [low, 1], color=GREY, linewidth=0.9, linestyle=drawn[names[0]].linestyle, zorder=1, gid="parent")
    here = found.bins.count > 0
    share, count, where = found.bins.accuracy[here], found.bins.count[here], found.bins.confidence[here]
    axes.vlines(where, *wilson_interval(share, count), color=BLACK, linewidth=0.7, zorder=2, gid="intervals")
    axes.plot(where, share, linestyle="", marker="_", color=BLACK, markersize=4, markeredgewidth=0.9, zorder=2, gid="shares")
    for name in names[1:]:
        axes.plot(
            found.score, found.confidence[name], linestyle="", marker="o", markersize=_DOT, markeredgewidth=0,
            color=drawn[name].color, alpha=0.6, zorder=3, gid=f"confidence {name}", rasterized=len(found.score) > 500,
        )  # fmt: skip
    axes.set(xlim=(low - 0.03 * (1 - low), 1 + 0.03 * (1 - low)), ylim=(-0.03, 1.03))
    axes.xaxis.set_major_locator(MaxNLocator(2, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))


def _key(figure: Figure, names: list[str]) -> None:
    from matplotlib.lines import Line2D

    drawn = roles(names)
    parent_line: dict[str, Any] = {"color": GREY, "linewidth": 0.9, "linestyle": drawn[names[0]].linestyle}
    handles = [Line2D([], [], **parent_line, label=f"{names[0]} (the score)")]
    handles += [Line2D([], [], linestyle="", marker="o", markersize=3, color=drawn[name].color, label=name) for name in names[1:]]
    handles.append(Line2D([], [], color=BLACK, linewidth=0.7, marker="_", label="share right, 95 %"))
    figure.legend(
        handles=handles, ncols=len(handles), loc="upper center", borderaxespad=0.2, columnspacing=1.0, handlelength=1.6, fontsize=NOTE_SIZE
    )


def _check(classes: Mapping[str, OfClass]) -> None:
    if not classes:
        raise ValueError("confidence_by_class needs at least one class")
    methods = list(next(iter(classes.values())).confidence)
    for title, found in classes.items():
        lengths = {len(found.score), *map(len, found.confidence.values())}
        if list(found.confidence) != methods or lengths == {0} or len(lengths) != 1:
            raise ValueError(f"every class needs rows, and a confidence of {methods} for each of them; {title!r} does not have these")
