"""Dot plots of gains and of mean confidence show the numbers that they are given."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.figures import plot_gains, plot_mean_confidence
from kdgraph.figures.style import BLUE, GREY, VERMILLION


def test_intervals_have_the_colour_of_what_they_show():
    gains = {"helps": (0.2, 0.1, 0.3), "luck": (0.01, -0.1, 0.1), "hurts": (-0.2, -0.3, -0.1)}
    (axes,) = plot_gains(gains, xlabel="gain", chosen="helps").axes
    drawn = {
        line.get_gid().removeprefix("interval "): (
            tuple(line.get_segments()[0][:, 0]),
            line.get_colors()[0],
        )
        for line in axes.collections
    }
    assert {name: ends for name, (ends, _) in drawn.items()} == {
        name: (low, high) for name, (_, low, high) in gains.items()
    }
    from matplotlib.colors import to_rgba

    assert [tuple(color) for _, color in drawn.values()] == [
        to_rgba(color) for color in (BLUE, GREY, VERMILLION)
    ]
    assert [text.get_text() for text in axes.get_yticklabels()] == list(gains)
    notes = [text.get_text() for text in axes.texts]
    assert notes == ["95 % intervals; blue: above 0; orange: below 0; filled: chosen"]


def test_only_colours_that_are_drawn_are_explained():
    (axes,) = plot_gains({"luck": (0.01, -0.1, 0.1)}, xlabel="gain").axes
    assert [text.get_text() for text in axes.texts] == ["95 % intervals"]


def test_each_set_has_the_means_of_all_models():
    means = {"test rows": {"model": 0.9, "gate": 0.85}, "far": {"model": 0.95, "gate": 0.5}}
    figure = plot_mean_confidence(means, prior=0.5)
    (axes,) = figure.axes
    model, gate, prior = axes.lines
    np.testing.assert_array_equal(model.get_xdata(), [0.9, 0.95])
    np.testing.assert_array_equal(gate.get_xdata(), [0.85, 0.5])
    assert list(prior.get_xdata()) == [0.5, 0.5]
    assert axes.get_xlim()[0] <= 0.5 < axes.get_xlim()[1] == 1.0
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["model", "gate"]


@pytest.mark.parametrize("gains", [{}, {"a": (np.nan, 0.0, 1.0)}])
def test_gains_that_cannot_be_drawn_are_refused(gains):
    with pytest.raises(ValueError, match="plot_gains needs finite gains of at least one method"):
        plot_gains(gains, xlabel="gain")


@pytest.mark.parametrize("means", [{}, {"a": {"x": 0.1}, "b": {"y": 0.1}}])
def test_sets_of_other_models_are_refused(means):
    with pytest.raises(ValueError, match="needs the same models on every set"):
        plot_mean_confidence(means, 0.5)
