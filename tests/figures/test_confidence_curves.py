"""Tests of confidence curves by class."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_hex

from kdgraph.figures import ClassPanel, plot_confidence_curves
from kdgraph.metrics import reliability_bins
from tests.variations import others_slow

RNG = np.random.default_rng(0)
GRID = np.linspace(0.1, 1, 50)


def make_bins(n: int = 60, low: float = 0.1):
    score = RNG.uniform(low, 1, n)
    return reliability_bins(score, RNG.random(n) < score, bins=10)


def make_panel(sets=("test set 1", "test set 2")) -> ClassPanel:
    rows = RNG.uniform(0.1, 1, 40)
    return ClassPanel(
        {"kde": (GRID, GRID**2), "tswa": (rows, rows**2)}, {name: make_bins() for name in sets}
    )


def line_points(axes, gid: str) -> np.ndarray:
    return np.concatenate([line.get_xydata() for line in axes.lines if line.get_gid() == gid])


@pytest.mark.parametrize(
    ("n", "width", "columns"),
    others_slow([(1, 3.5, 1), (2, 3.5, 2), (3, 7.0, 3), (6, 7.0, 3), (11, 7.0, 4)]),
)
def test_class_panels_are_legible(n, width, columns, assert_legible, texts_of):
    panels = {f"class {k}, {k:,} rows": make_panel() for k in range(n)}
    figure = plot_confidence_curves(panels, identity="PhANNs", low=0.15)
    assert figure.get_size_inches()[0] == width and [
        axes.get_title() for axes in figure.axes
    ] == list(panels)
    assert len({round(axes.get_position().x0, 6) for axes in figure.axes}) == columns
    assert {
        "PhANNs",
        "kde",
        "tswa",
        "accuracy and 95 % interval, test set 1",
        "accuracy and 95 % interval, test set 2",
    } <= set(texts_of(figure))
    assert_legible(figure)


def test_increasing_scores_are_a_line_and_unordered_ones_dots():
    panel = make_panel()
    (axes,) = plot_confidence_curves({"a": panel}).axes
    np.testing.assert_array_equal(
        line_points(axes, "curve kde"), np.column_stack(panel.curves["kde"])
    )
    np.testing.assert_array_equal(
        line_points(axes, "cloud tswa"), np.column_stack(panel.curves["tswa"])
    )
    cloud = next(line for line in axes.lines if line.get_gid() == "cloud tswa")
    assert cloud.get_linestyle() == "None" and cloud.get_marker() == "o"


def test_curves_and_axis_begin_at_low_and_steps_cut_there_are_dashed():
    (axes,) = plot_confidence_curves({"a": make_panel(["test"])}, low=0.25).axes
    assert (
        line_points(axes, "curve kde")[:, 0].min() >= 0.25
        and axes.get_xlim()[0] < 0.25 < axes.get_xlim()[0] + 0.03
    )
    steps = [line for line in axes.lines if line.get_gid() == "steps test"]
    (cut_step,) = (line for line in steps if line.get_xdata()[0] == pytest.approx(0.25))
    full_steps = next(line for line in steps if line is not cut_step)
    np.testing.assert_allclose([cut_step.get_xdata()[0], cut_step.get_xdata()[-1]], [0.25, 0.3])
    assert (
        full_steps.get_xdata()[0] == pytest.approx(0.3)
        and full_steps.get_linestyle() == "-" != cut_step.get_linestyle()
    )


def test_steps_and_intervals_of_few_rows_are_faded():
    bins = reliability_bins(np.repeat([0.35, 0.45], [9, 10]), np.ones(19, dtype=bool), bins=10)
    (axes,) = plot_confidence_curves({"a": ClassPanel({}, {"test": bins})}, identity=None).axes
    steps = [line for line in axes.lines if line.get_gid() == "steps test"]
    bars = [artist for artist in axes.collections if artist.get_gid() == "intervals test"]
    assert [line.get_xdata()[0] for line in steps] == pytest.approx([0.4, 0.3])
    assert steps[0].get_alpha() == 1 and steps[1].get_alpha() < 0.5
    assert bars[1].get_alpha() < 0.5 * bars[0].get_alpha()


def test_steps_are_accuracies_interrupted_at_empty_bins():
    score = np.array([0.15, 0.18, 0.35, 0.45, 0.48])
    bins = reliability_bins(score, np.array([1, 0, 1, 0, 0], dtype=bool), bins=10)
    (axes,) = plot_confidence_curves({"a": ClassPanel({}, {"test": bins})}, identity=None).axes
    (x, y), expected = line_points(axes, "steps test").T, [0.1, 0.2, np.nan, 0.3, 0.4, 0.4, 0.5]
    np.testing.assert_allclose(x, expected)
    np.testing.assert_allclose(y, [0.5, 0.5, np.nan, 1, 1, 0, 0])
    (bars,) = (artist for artist in axes.collections if artist.get_gid() == "intervals test")
    assert [segment[:, 0].mean() for segment in bars.get_segments()] == pytest.approx(
        [0.15, 0.35, 0.45]
    )
    assert all(
        low <= accuracy <= high
        for (low, high), accuracy in zip(
            (segment[:, 1] for segment in bars.get_segments()), [0.5, 1, 0], strict=True
        )
    )
    assert "identity" not in {line.get_gid() for line in axes.lines}


def test_second_set_is_dashed_red_unlike_all_curves():
    names = [f"m{i}" for i in range(7)]
    figure = plot_confidence_curves(
        {"a": ClassPanel(dict.fromkeys(names, (GRID, GRID)), {"1": make_bins(), "2": make_bins()})}
    )
    (axes,) = figure.axes
    styles = {
        line.get_gid(): (to_hex(line.get_color()), line.get_linestyle()) for line in axes.lines
    }
    assert styles["steps 1"] == ("#000000", "-") and styles["steps 2"] == ("#d55e00", "--")
    curves = [
        (to_hex(line.get_color()), str(line._dash_pattern))
        for line in axes.lines
        if str(line.get_gid()).startswith("curve")
    ]
    assert len(set(curves)) == 7 and "#d55e00" not in dict(curves)


def test_note_is_legible_below_the_panels(assert_legible, texts_of):
    figure = plot_confidence_curves(
        {f"{k}": make_panel() for k in range(10)},
        note="the 10 of 100 classes that are predicted most often",
    )
    assert "the 10 of 100 classes that are predicted most often" in texts_of(figure)
    assert_legible(figure)


@pytest.mark.parametrize(
    ("panels", "message"),
    [
        ({}, r"^confidence_curves draws 1 to 20 classes, got 0"),
        (
            {str(k): make_panel() for k in range(100)},
            r"^confidence_curves draws 1 to 20 classes, got 100; choose the most important ones$",
        ),
        ({"a": ClassPanel({})}, r"^the class 'a' needs a curve or bins with rows"),
        (
            {"a": ClassPanel({"kde": (GRID, GRID[1:])})},
            r"^the class 'a' needs .* as many confidences as scores$",
        ),
        (
            {"a": make_panel(["1", "2"]), "b": make_panel(["3"])},
            r"^confidence_curves draws at most two sets of rows, got 1, 2, 3$",
        ),
    ],
)
def test_invalid_input_raises(panels, message):
    with pytest.raises(ValueError, match=message):
        plot_confidence_curves(panels)
