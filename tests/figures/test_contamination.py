"""Tests of power against the fraction of OOD rows."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.base import Evaluation
from kdgraph.figures import plot_power_against_contamination
from kdgraph.figures.run_figures import RunFigureData, registered_figures
from kdgraph.figures.style import BLUE, GREY

FRACTIONS = np.array([0.0, 0.1, 0.5, 1.0])


def make_panel(*names: str):
    return {name: (FRACTIONS, np.minimum(1, FRACTIONS + 0.1 * i)) for i, name in enumerate(names)}


def test_panels_are_sets_and_lines_are_models(texts_of):
    panels = {
        "near": make_panel("forest", "kdf"),
        "far": make_panel("forest", "kdf"),
        "noise": make_panel("forest", "kdf"),
    }
    figure = plot_power_against_contamination(panels, false_alarm=0.05, set_size=50)
    assert [axes.get_title() for axes in figure.axes] == ["near", "far", "noise"]
    for axes in figure.axes:
        lines = {
            line.get_label(): line for line in axes.lines if line.get_label() in ("forest", "kdf")
        }
        np.testing.assert_array_equal(lines["kdf"].get_xdata(), FRACTIONS)
        np.testing.assert_allclose(lines["kdf"].get_ydata(), np.minimum(1, FRACTIONS + 0.1))
        assert (lines["forest"].get_color(), lines["kdf"].get_color()) == (GREY, BLUE)
        (false_alarm_line,) = (line for line in axes.lines if line.get_gid() == "false alarm")
        assert set(false_alarm_line.get_ydata()) == {0.05}
    assert {
        "fraction of OOD rows in sets of 50 (square-root scale)",
        "power (fraction of sets detected)",
    } <= set(texts_of(figure))


@pytest.mark.parametrize(
    "panels",
    [
        {},
        {"near": {}},
        {"near": make_panel("a", "b"), "far": make_panel("a")},
        {"near": {"a": (FRACTIONS[::-1], FRACTIONS)}},
        {"near": {"a": (FRACTIONS[:1], FRACTIONS[:1])}},
        {"near": {"a": (FRACTIONS, FRACTIONS[:2])}},
    ],
)
def test_invalid_input_raises(panels):
    with pytest.raises(
        ValueError,
        match=r"^(power_against_contamination needs panels|the curve of 'a' in 'near' must have)",
    ):
        plot_power_against_contamination(panels)


def make_run_data(rows: list[dict]) -> RunFigureData:
    """Return a run with a table and the names of two models."""
    return RunFigureData(
        None, Evaluation([], {"contamination": rows}, []), (None, None), ("forest", "kdf")
    )  # type: ignore[arg-type]


def make_table_rows(model: str, ood: str, size: int, **params: float) -> list[dict]:
    return [
        {
            "of": model,
            "on": "ood",
            "ood": ood,
            **params,
            "fraction": fraction,
            "set_size": size,
            "power": fraction,
        }
        for fraction in (0.0, 1.0)
    ]


def test_run_figure_shows_the_largest_sets_scored_by_both_models():
    shift_params = {"scale": 1.5, "shift": 1.0}
    rows = [
        row
        for model in ("parent", "calibrated")
        for size in (10, 50)
        for row in make_table_rows(model, "near", size)
        + make_table_rows(model, "far", size, **shift_params)
    ]
    rows += make_table_rows("parent", "alone", 50) + [
        row
        for model in ("parent", "calibrated")
        for row in make_table_rows(model, "sphere", 50, radius=2.0)
    ]
    draw = registered_figures()["power_against_contamination"]
    figure = draw(make_run_data(rows))
    assert [axes.get_title() for axes in figure.axes] == ["near", "far", "sphere, radius 2"]
    assert [axes.get_title() for axes in draw(make_run_data(rows), at_most=1).axes] == ["near"]
    rows += [
        row
        for model in ("parent", "calibrated")
        for epsilon in (0.1, 0.2)
        for row in make_table_rows(model, "moved", 50, shade=0.5, kind=1.0, epsilon=epsilon)
        + make_table_rows(model, "box", 50, low=epsilon, high=2 * epsilon)
    ]
    titles = [axes.get_title() for axes in draw(make_run_data(rows), at_most=9).axes][3:]
    assert titles == [
        "moved, epsilon 0.1",
        "box, low 0.1, high 0.2",
        "moved, epsilon 0.2",
        "box, low 0.2, high 0.4",
    ]
    assert (
        draw(make_run_data([])) is None
        and draw(make_run_data(make_table_rows("parent", "alone", 50))) is None
    )
