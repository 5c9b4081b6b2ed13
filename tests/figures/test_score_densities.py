"""Tests of densities of scores."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.patches import StepPatch

from kdgraph.figures import plot_score_densities
from kdgraph.metrics import reliability_bins

AT = np.linspace(1.5, 10, 50)
DENSITIES = {
    "right: 640 predicted as Baseplate": (AT, AT**2),
    "wrong: 287 predicted as Baseplate": (AT, 100 - AT**2),
}
CONFIDENCE = {"KDE(b_mon2), b = 0.3": (AT, AT / 10)}
NOTE = (
    "new scores are drawn from those of the 1,075 right rows; 2,628 of 3,000 are predicted as such"
)


def bins():
    rng = np.random.default_rng(0)
    score = rng.uniform(0.2, 1, 200)
    return reliability_bins(score, rng.random(200) < score, bins=10)


def get_lines(axes) -> dict:
    return {line.get_gid(): line for line in axes.lines}


def test_each_line_is_in_its_panel() -> None:
    figure = plot_score_densities(DENSITIES, CONFIDENCE)
    left, right = figure.axes
    for axes, kind, lines in ((left, "density", DENSITIES), (right, "confidence", CONFIDENCE)):
        assert list(get_lines(axes)) == [f"{kind} {name}" for name in lines]
        for name, (x, y) in lines.items():
            np.testing.assert_array_equal(
                get_lines(axes)[f"{kind} {name}"].get_xydata(), np.stack([x, y], axis=1)
            )
        assert axes.get_xlim() == (1.5, 10)
        looks = [(line.get_color(), line.get_linestyle()) for line in axes.lines]
        assert len(set(looks)) == len(looks)


def test_steps_are_accuracies_and_empty_bins_have_none() -> None:
    result = bins()
    _, right = plot_score_densities(DENSITIES, CONFIDENCE, result).axes
    (steps,) = [patch for patch in right.patches if isinstance(patch, StepPatch)]
    np.testing.assert_array_equal(steps.get_data()[0], result.accuracy)
    assert np.isnan(steps.get_data()[0][:2]).all()
    (intervals,) = [
        collection for collection in right.collections if isinstance(collection, LineCollection)
    ]
    assert len(intervals.get_segments()) == (result.count > 0).sum()


def test_a_logarithmic_axis_shows_the_lowest_line_and_no_more_than_five_decades() -> None:
    lines = {"few": (AT, np.full(50, 1e-9)), "many": (AT, np.linspace(1, 1000, 50))}
    left, _ = plot_score_densities(lines, CONFIDENCE, log=True).axes
    low, high = left.get_ylim()
    assert left.get_yscale() == "log" and 1e-3 < low <= 1e-2 and 1000 < high < 2000


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize(
    "more", [{}, {"note": NOTE, "log": True, "density_label": "rows per unit of score"}]
)
def test_words_are_legible(n, more, assert_legible, texts_of) -> None:
    lines = {f"right, predicted as another class {i}: 10,000": (AT, AT) for i in range(n)}
    figure = plot_score_densities(lines, lines, bins(), **more)
    assert figure.get_size_inches()[0] == 7.0
    assert_legible(figure)
    assert set(lines) <= set(texts_of(figure))


@pytest.mark.parametrize(
    ("densities", "message"),
    [
        ({}, "^score_densities draws 1 to 4 lines of densities, got 0$"),
        (
            {str(i): (AT, AT) for i in range(5)},
            "^score_densities draws 1 to 4 lines of densities, got 5$",
        ),
        (
            {"a": (AT, AT[1:])},
            r"^'a' of densities needs one value for each score, got shapes \(50,\) and \(49,\)$",
        ),
    ],
)
def test_invalid_input_raises(densities, message) -> None:
    with pytest.raises(ValueError, match=message):
        plot_score_densities(densities, CONFIDENCE)
