"""Figures 1 and 2: four samples between two splits, their trees, and APHD of test samples among the
leaves.

``python -m experiments.p3.schematics --figures experiments/p3/pictures`` grows the trees and
computes every number that it draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from experiments.common.command import study_options
from experiments.common.markdown import number
from experiments.common.pictures import save_picture
from kdgraph.detection import aphd
from kdgraph.figures import style
from kdgraph.geometry import partition_of

PAPER = Path(__file__).parent
# Lower left, upper left, upper right, lower right: the first to the fourth sample of Section 3.1,
# each of a class of its own.
SAMPLES = np.array([[0.25, 0.25], [0.25, 0.75], [0.75, 0.75], [0.75, 0.25]])
LIKE_TRAINING = np.array([[0.16, 0.34], [0.33, 0.83], [0.66, 0.64], [0.86, 0.18]])
FROM_ELSEWHERE = np.array([[0.62, 0.88], [0.71, 0.68], [0.83, 0.84], [0.9, 0.62]])
THRESHOLD = 0.5  # Threshold between the APHD of both sets; the paper's is lost in the text
SEED = 0  # Seed of the forest: the first whose trees begin with different features, as in Figure 1
_FEATURES = ("x₁", "x₂")
_ROLES = (
    style.PlotStyle(style.BLUE),
    style.PlotStyle(style.VERMILLION, marker="^"),
    style.PlotStyle(style.GREEN, marker="D"),
    style.PlotStyle(style.ORANGE, marker="s"),
)
_SIDE, _HEIGHT = 1.5, 2.05  # inches: of a square, of the figures


def two_trees() -> RandomForestClassifier:
    """Return two trees that separate the samples, one by the vertical line first."""
    return RandomForestClassifier(2, max_features=1, bootstrap=False, random_state=SEED).fit(
        SAMPLES, np.arange(len(SAMPLES))
    )


def leaves(forest: RandomForestClassifier, X: np.ndarray) -> np.ndarray:
    """Return Int[n, 2] from 1, the leaf of each row in each tree, counted from the left."""
    ends = [np.flatnonzero(tree.tree_.children_left < 0) for tree in forest.estimators_]
    codes = partition_of(forest).encode(X)
    return np.stack(
        [len(end) - np.searchsorted(end, code) for end, code in zip(ends, codes.T, strict=True)],
        axis=1,
    )


def figure_1() -> Figure:
    """Draw the samples, both trees, and the embedding of the samples with its APHD."""
    forest = two_trees()
    with style.style_context():
        figure = style.new_figure(style.FULL_WIDTH, _HEIGHT)
        square = style.add_axes(figure, 0.42, 0.32, _SIDE, _SIDE)
        _regions(square)
        for x, role in zip(SAMPLES, _ROLES, strict=True):
            square.plot(*x, color=role.color, marker=role.marker, markersize=6, linestyle="")
        for i, tree in enumerate(forest.estimators_):
            axes = style.add_axes(figure, 2.05 + 1.75 * i, 0.32, 1.6, _SIDE)
            _tree(axes, tree, forest, i)
        _embedding(style.add_axes(figure, 5.62, 0.32, 1.3, _SIDE), leaves(forest, SAMPLES))
    return figure


def figure_2() -> Figure:
    """Draw test samples like the training samples, and others that crowd; and their APHD."""
    forest = two_trees()
    sets = {
        "in distribution": (LIKE_TRAINING, style.BLUE, "o"),
        "out of distribution": (FROM_ELSEWHERE, style.VERMILLION, "^"),
    }
    with style.style_context():
        figure = style.new_figure(style.FULL_WIDTH, _HEIGHT)
        scale = style.add_axes(figure, 4.75, 0.32, 2.1, _SIDE)
        for i, (name, (X, color, marker)) in enumerate(sets.items()):
            square = style.add_axes(figure, 0.42 + 2.1 * i, 0.32, _SIDE, _SIDE)
            _regions(square)
            square.plot(*X.T, color=color, marker=marker, markersize=5, linestyle="")
            square.set_title(name, fontsize=style.LABEL_SIZE + 0.5)
            result = aphd(leaves(forest, X))
            heights = 2 - i + np.linspace(0.24, -0.24, len(result))
            mark: dict[str, Any] = {"color": color, "marker": marker, "linestyle": ""}
            scale.plot(result, heights, markersize=4, clip_on=False, **mark)
            x, side = (0.94, "right") if i == 0 else (0.06, "left")
            word: dict[str, Any] = {"color": color, "fontsize": style.LABEL_SIZE}
            scale.text(x, 2 - i, name, ha=side, va="center", **word)
        scale.axvline(THRESHOLD, color=style.BLACK, linewidth=0.8, linestyle=(0, (1, 1.5)))
        scale.set(xlim=(0, 1), ylim=(0.5, 2.5), yticks=[], xlabel="APHD of each test sample")
        scale.set_title("dotted: a threshold", fontsize=style.NOTE_SIZE, color=style.GREY)
        scale.spines["left"].set_visible(False)
    return figure


def _regions(axes: Axes) -> None:
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    axes.set(xlabel=_FEATURES[0], ylabel=_FEATURES[1], facecolor=style.ID_SHADE)
    for cut in (axes.axvline, axes.axhline):
        cut(0.5, color=style.GREY, linewidth=1.0)


def _tree(
    axes: Axes, tree: DecisionTreeClassifier, forest: RandomForestClassifier, which: int
) -> None:
    """Draw questions, answers and leaves, with the sample that reaches each leaf below it."""
    word: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": style.NOTE_SIZE}
    for (x, y), (parent_x, parent_y), text, answer in _nodes(tree):
        axes.plot([parent_x, x], [parent_y, y], color=style.GREY, linewidth=0.8, zorder=1)
        if answer:
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
            axes.text(
                (parent_x + x) / 2, (parent_y + y) / 2, answer, color=style.GREY, bbox=box, **word
            )
        if text:
            box = {"facecolor": style.ID_SHADE, "edgecolor": style.GREY, "linewidth": 0.6}
            axes.text(x, y, text, bbox=box | {"boxstyle": "round,pad=0.25"}, **word)
    for leaf, role in zip(leaves(forest, SAMPLES)[:, which], _ROLES, strict=True):
        box = {"facecolor": "white", "edgecolor": style.BLACK, "linewidth": 0.6}
        axes.text(leaf - 1, 0, f"{leaf}", bbox=box | {"boxstyle": "circle,pad=0.25"}, **word)
        axes.plot(leaf - 1, -0.45, color=role.color, marker=role.marker, markersize=6, linestyle="")
    axes.set(xlim=(-0.4, 3.4), ylim=(-0.6, 2.3))
    axes.set_axis_off()
    axes.set_title(f"tree {which + 1}", fontsize=style.LABEL_SIZE + 0.5)


# Place, place of the parent, question or "", and the answer that leads to it.
Node = tuple[tuple[float, float], tuple[float, float], str, str]


def _nodes(tree: DecisionTreeClassifier) -> Iterator[Node]:
    """Yield the nodes from the root down: yes, above the threshold, leads to the left."""
    inside = tree.tree_

    def below(
        node: int, x: float, y: float, parent: tuple[float, float], answer: str
    ) -> Iterator[Node]:
        is_leaf = inside.children_left[node] < 0
        yield (
            (x, y),
            parent,
            "" if is_leaf else f"{_FEATURES[inside.feature[node]]} > {inside.threshold[node]:g}",
            answer,
        )
        if not is_leaf:
            yield from below(inside.children_right[node], x - y / 2, y - 1, (x, y), "yes")
            yield from below(inside.children_left[node], x + y / 2, y - 1, (x, y), "no")

    return below(0, 1.5, 2.0, (1.5, 2.0), "")


def _embedding(axes: Axes, result: np.ndarray) -> None:
    axes.set(xlim=(0, 4), ylim=(0, 5))
    axes.set_axis_off()
    for x, title in zip((1.4, 2.2, 3.3), ("tree 1", "2", "APHD"), strict=True):
        axes.text(
            x, 4.5, title, ha="center", va="center", fontsize=style.NOTE_SIZE, color=style.GREY
        )
    for i, (row, value, role) in enumerate(zip(result, aphd(result), _ROLES, strict=True)):
        axes.plot(0.4, 3.5 - i, color=role.color, marker=role.marker, markersize=6, linestyle="")
        for x, text in zip((1.4, 2.2, 3.3), (*map(str, row), number(float(value), 2)), strict=True):
            axes.text(x, 3.5 - i, text, ha="center", va="center", fontsize=style.LABEL_SIZE)


def main() -> None:
    """Draw both."""
    options = study_options(__doc__, pictures="outputs/p3_figures")
    for name, draw in (("figure1", figure_1), ("figure2", figure_2)):
        for path in save_picture(draw(), options.figures / name, PAPER):
            print(path)


if __name__ == "__main__":
    main()
