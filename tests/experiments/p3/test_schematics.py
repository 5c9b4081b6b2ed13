"""Figures 1 and 2 are worked out: the trees have the leaves of Section 3.1, and APHD is that of a
naive count.
"""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from experiments.p3.schematics import (
    FROM_ELSEWHERE,
    LIKE_TRAINING,
    SAMPLES,
    THRESHOLD,
    figure_1,
    figure_2,
    leaves,
    two_trees,
)
from kdgraph.detection import aphd


def leaving(figure: Figure) -> list[str]:
    """Texts that the edge of the figure cuts."""
    figure.canvas.draw()
    width, height = figure.bbox.size
    boxes = {
        text.get_text(): text.get_window_extent()
        for text in figure.findobj(Text)
        if text.get_text() and text.get_visible()
    }
    return [
        text
        for text, box in boxes.items()
        if box.x0 < 0 or box.y0 < 0 or box.x1 > width or box.y1 > height
    ]


def naive(embedding: np.ndarray) -> list[float]:
    n = len(embedding)
    return [
        float(np.mean([(embedding[i] != embedding[j]).mean() for j in range(n) if j != i]))
        for i in range(n)
    ]


def test_the_embedding_is_that_of_the_text() -> None:
    """Lower left, upper left, upper right, lower right: "the fourth leaf node in the first tree and
    fourth leaf node in the second", ...
    """
    assert leaves(two_trees(), SAMPLES).tolist() == [[4, 4], [3, 2], [1, 1], [2, 3]]


def test_rows_that_crowd_have_the_smaller_aphd() -> None:
    forest = two_trees()
    spread, crowded = (leaves(forest, X) for X in (LIKE_TRAINING, FROM_ELSEWHERE))
    assert aphd(spread) == pytest.approx(naive(spread)) and aphd(crowded) == pytest.approx(
        naive(crowded)
    )
    assert aphd(crowded).max() < THRESHOLD < aphd(spread).min()


def test_a_tree_is_drawn_with_its_questions_and_leaves() -> None:
    figure = figure_1()
    printed = {axes.get_title(): [text.get_text() for text in axes.texts] for axes in figure.axes}
    assert printed["tree 1"].count("x₁ > 0.5") == 1 and printed["tree 1"].count("x₂ > 0.5") == 2
    assert printed["tree 2"].count("x₁ > 0.5") == 2 and printed["tree 2"].count("x₂ > 0.5") == 1
    assert all({"1", "2", "3", "4"} <= set(printed[f"tree {k}"]) for k in (1, 2))
    assert not leaving(figure)


def test_every_sample_has_its_aphd() -> None:
    figure = figure_2()
    drawn = [np.asarray(line.get_xdata(), dtype=float) for line in figure.axes[0].lines][:2]
    np.testing.assert_allclose(
        drawn, [aphd(leaves(two_trees(), X)) for X in (LIKE_TRAINING, FROM_ELSEWHERE)]
    )
    assert not leaving(figure)
