"""Tests of densities of scores."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.patches import StepPatch

from experiments.p2.figures.score_densities import plot_score_densities
from kdgraph.metrics import reliability_bins

SCORES = np.linspace(1.5, 10, 50)
DENSITIES = {
    "right: 640 predicted as Baseplate": (SCORES, SCORES**2),
    "wrong: 287 predicted as Baseplate": (SCORES, 100 - SCORES**2),
}
CONFIDENCE = {"KDE(b_mon2), b = 0.3": (SCORES, SCORES / 10)}
NOTE = (
    "new scores are drawn from those of the 1,075 right rows; 2,628 of 3,000 are predicted as such"
)


def random_bins():
    rng = np.random.default_rng(0)
    score = rng.uniform(0.2, 1, 200)
    return reliability_bins(score, rng.random(200) < score, bins=10)


def get_lines(axes) -> dict:
    return {line.get_gid(): line for line in axes.lines}


def test_lines_are_in_their_panels() -> None:
    figure = plot_score_densities(DENSITIES, CONFIDENCE)
    left, right = figure.axes
    for axes, kind, lines in ((left, "density", DENSITIES), (right, "confidence", CONFIDENCE)):
        assert list(get_lines(axes)) == [f"{kind} {name}" for name in lines]
        for name, (x, y) in lines.items():
            np.testing.assert_array_equal(
                get_lines(axes)[f"{kind} {name}"].get_xydata(), np.stack([x, y], axis=1)
            )
        assert axes.get_xlim() == (1.5, 10)
        styles = [(line.get_color(), line.get_linestyle()) for line in axes.lines]
        assert len(set(styles)) == len(styles)


def test_steps_are_accuracies_of_non_empty_bins() -> None:
    bins = random_bins()
    _, right = plot_score_densities(DENSITIES, CONFIDENCE, bins).axes
    (steps,) = [patch for patch in right.patches if isinstance(patch, StepPatch)]
    np.testing.assert_array_equal(steps.get_data()[0], bins.accuracy)
    assert np.isnan(steps.get_data()[0][:2]).all()
    (intervals,) = [artist for artist in right.collections if isinstance(artist, LineCollection)]
    assert len(intervals.get_segments()) == (bins.count > 0).sum()


def test_logarithmic_axis_covers_at_most_five_decades() -> None:
    lines = {"few": (SCORES, np.full(50, 1e-9)), "many": (SCORES, np.linspace(1, 1000, 50))}
    left, _ = plot_score_densities(lines, CONFIDENCE, log=True).axes
    low, high = left.get_ylim()
    assert left.get_yscale() == "log" and 1e-3 < low <= 1e-2 and 1000 < high < 2000


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize(
    "more", [{}, {"note": NOTE, "log": True, "density_label": "rows per unit of score"}]
)
def test_text_is_legible(n, more, assert_legible, texts_of) -> None:
    lines = {f"right, predicted as another class {i}: 10,000": (SCORES, SCORES) for i in range(n)}
    figure = plot_score_densities(lines, lines, random_bins(), **more)
    assert figure.get_size_inches()[0] == 7.0
    assert_legible(figure)
    assert set(lines) <= set(texts_of(figure))


@pytest.mark.parametrize(
    ("densities", "message"),
    [
        ({}, "^score_densities draws 1 to 4 lines of densities, got 0$"),
        (
            {str(i): (SCORES, SCORES) for i in range(5)},
            "^score_densities draws 1 to 4 lines of densities, got 5$",
        ),
        (
            {"a": (SCORES, SCORES[1:])},
            r"^'a' of densities needs one value for each score, got shapes \(50,\) and \(49,\)$",
        ),
    ],
)
def test_invalid_input_raises(densities, message) -> None:
    with pytest.raises(ValueError, match=message):
        plot_score_densities(densities, CONFIDENCE)
