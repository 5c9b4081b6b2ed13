"""What is known of Figure 1: the diagonal of the joint distribution, the rest of each column, and
the shares of the diagonal in it.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from experiments.p2.figures.study import Study
from kdgraph.figures.style import (
    BLUE,
    FULL_WIDTH,
    GREY,
    NOTE_SIZE,
    add_axes,
    new_figure,
    style_context,
)

ROWS = ("right", "wrong", "share right (Conf1)")
NOT_KNOWN = (
    (
        "Counted by score: predicted classes, not the true ones. So no other entry of the joint"
        " distribution is known, and no sum of its rows:"
    ),
    (
        "the panel that is normalised by row (true positive rates) cannot be drawn, but for HTJ, of"
        " which the paper says that there are 1,227."
    ),
)
_LEFT, _CELL, _ROW, _TOP, _FOOT = 1.1, 0.525, 0.22, 0.62, 0.36  # inches


def figure1(study: Study) -> Figure:
    """A column for each predicted class: rows that are right, rows that are wrong, and the share of
    right ones.
    """
    names = [name for name in study.shown if len(study.mine(name))]
    counts = np.array([[len(scores) for scores in study.scores(name)] for name in names]).T
    share = counts[0] / counts.sum(axis=0)
    words = [
        *([f"{n:,}" for n in row] for row in counts.tolist()),
        [f"{value:.2f}".lstrip("0") for value in share],
    ]
    shades = [np.zeros(len(names)), np.zeros(len(names)), share]
    with style_context():
        figure = new_figure(FULL_WIDTH, _TOP + 3 * _ROW + _FOOT)
        axes = add_axes(
            figure, _LEFT, _FOOT, min(_CELL * len(names), FULL_WIDTH - _LEFT - 0.05), 3 * _ROW
        )
        for i, (row, shade) in enumerate(zip(words, shades, strict=True)):
            for j, text in enumerate(row):
                axes.axvspan(
                    j,
                    j + 1,
                    (2 - i) / 3,
                    (3 - i) / 3,
                    facecolor=BLUE,
                    alpha=0.65 * float(shade[j]),
                    linewidth=0,
                )
                axes.text(j + 0.5, 2.5 - i, text, ha="center", va="center", fontsize=NOTE_SIZE)
        axes.set(xlim=(0, len(names)), ylim=(0, 3))
        axes.set_xticks(
            np.arange(len(names)) + 0.5,
            [name.replace(" ", "\n") for name in names],
            fontsize=NOTE_SIZE,
        )
        axes.set_yticks([2.5, 1.5, 0.5], ROWS, fontsize=NOTE_SIZE)
        axes.tick_params(length=0, labeltop=True, labelbottom=False)
        axes.hlines([1, 2], 0, len(names), color="#cccccc", linewidth=0.4)
        title = f"predicted class, {int(counts.sum()):,} rows"
        axes.annotate(
            title,
            (0.5, 1),
            (0, 24),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="center",
            fontsize=7.5,
        )
        for i, line in enumerate(reversed(NOT_KNOWN)):
            figure.text(
                0.05 / FULL_WIDTH,
                (0.05 + 0.13 * i) / figure.get_figheight(),
                line,
                fontsize=NOTE_SIZE,
                color=GREY,
            )
    return figure
