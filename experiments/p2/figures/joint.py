"""Figure 1 on PhANNs: the joint distribution of true and predicted class.

Counts by score have its diagonal, the rest of each column, and the shares of the diagonal in it.
The proteins that have all scores give ten of its eleven rows; the row of class Other is what is
missing of the counts of all proteins.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common.titles import titles
from experiments.p2.figures.study import Study
from kdgraph.figures import plot_joint_distribution, style

# Proteins of all classes that are predicted as each: the right and wrong rows at threshold 0 that
# ``experiments.p2.phanns`` counts in the authors' ``test_set_stats.csv``.
PREDICTED = titles("p2", "figures.joint")["predicted"]
ROWS = ("right", "wrong", "share right (Conf1)")
NOT_KNOWN = titles("p2", "figures.joint")["not_known"]
_LEFT, _CELL, _ROW, _TOP, _FOOT = 1.1, 0.525, 0.22, 0.62, 0.36  # inches


def figure1_scores(study: Study) -> Figure:
    """Draw the joint distribution and its two normalisations, of the proteins with all scores."""
    result = study.top_label.predicted
    names = study.shown
    counts = pd.crosstab(np.array(study.classes)[study.y], np.array(study.classes)[result]).reindex(
        index=names, columns=names, fill_value=0
    )
    return plot_joint_distribution(with_other(counts).to_numpy(), names)


def with_other(counts: pd.DataFrame) -> pd.DataFrame:
    """Return counts by true (rows) and predicted class, with the row of class Other.

    It is the difference by predicted class of the other rows from all proteins, :data:`PREDICTED`.
    """
    rest = pd.Series(PREDICTED)[counts.columns] - counts.drop(index="Other").sum()
    if (rest < 0).any():
        name = rest.idxmin()
        raise ValueError(
            f"{PREDICTED[name] - rest[name]:,} proteins are predicted as {name}, more than the"
            f" {PREDICTED[name]:,} of all classes; give the scores of the test set of PhANNs"
        )
    whole = counts.copy()
    whole.loc["Other"] = rest
    return whole


def figure1(study: Study) -> Figure:
    """Draw for each predicted class the right and wrong rows, and the share of right ones."""
    names = [name for name in study.shown if len(study.predicted_as(name))]
    counts = np.array([[len(scores) for scores in study.scores(name)] for name in names]).T
    share = counts[0] / counts.sum(axis=0)
    words = [
        *([f"{n:,}" for n in row] for row in counts.tolist()),
        [f"{value:.2f}".lstrip("0") for value in share],
    ]
    shades = [np.zeros(len(names)), np.zeros(len(names)), share]
    with style.style_context():
        figure = style.new_figure(style.FULL_WIDTH, _TOP + 3 * _ROW + _FOOT)
        width = min(_CELL * len(names), style.FULL_WIDTH - _LEFT - 0.05)
        axes = style.add_axes(figure, _LEFT, _FOOT, width, 3 * _ROW)
        small: dict[str, Any] = {"fontsize": style.NOTE_SIZE}
        for i, (row, shade) in enumerate(zip(words, shades, strict=True)):
            for j, text in enumerate(row):
                filled: dict[str, Any] = {"facecolor": style.BLUE, "alpha": 0.65 * float(shade[j])}
                axes.axvspan(j, j + 1, (2 - i) / 3, (3 - i) / 3, linewidth=0, **filled)
                axes.text(j + 0.5, 2.5 - i, text, ha="center", va="center", **small)
        axes.set(xlim=(0, len(names)), ylim=(0, 3))
        words_ = [name.replace(" ", "\n") for name in names]
        axes.set_xticks(np.arange(len(names)) + 0.5, words_, **small)
        axes.set_yticks([2.5, 1.5, 0.5], ROWS, **small)
        axes.tick_params(length=0, labeltop=True, labelbottom=False)
        axes.hlines([1, 2], 0, len(names), color="#cccccc", linewidth=0.4)
        title = f"predicted class, {int(counts.sum()):,} rows"
        units: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        axes.annotate(title, (0.5, 1), (0, 24), ha="center", fontsize=7.5, **units)
        for i, line in enumerate(reversed(NOT_KNOWN)):
            x, y = 0.05 / style.FULL_WIDTH, (0.05 + 0.13 * i) / figure.get_figheight()
            figure.text(x, y, line, color=style.GREY, **small)
    return figure
