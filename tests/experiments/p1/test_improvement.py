"""Tests of the figure of improvements over the parent."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.p1.figures.improvement import plot_improvement_summary
from experiments.p1.figures.panels import RepeatedCurves
from kdgraph.figures.style import BLUE, GREY
from tests.variations import others_slow

FOREST = ["random forest", "KDF", "isotonic", "sigmoid", "gated isotonic", "refit on all rows"]
NETWORK = ["network", "KDN", "isotonic", "sigmoid", "gated isotonic"]
SIZES = np.array([100.0, 300, 1000, 9000])
RADII = np.linspace(1, 5, 9)


def make_improvements(names, x, spread=0.3, sets=21, seed=0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    curves = {name: 1 - np.exp(rng.normal(0, spread, (sets, len(x)))) for name in names}
    return curves | {names[0]: np.zeros((sets, len(x)))}


def make_strips(names, **options) -> RepeatedCurves:
    return RepeatedCurves(np.array([1.0]), make_improvements(names, [1], **options), "")


def make_lines(names, **options) -> RepeatedCurves:
    return RepeatedCurves(SIZES, make_improvements(names, SIZES, **options), "rows", log=True)


def make_extreme_curves(names) -> RepeatedCurves:
    return RepeatedCurves(RADII, make_improvements(names, RADII, spread=1.0), "radius")


def find_panel(figure, title: str, index: int = 0):
    return [axes for axes in figure.axes if axes.get_title() == title][index]


def test_lines_are_medians_and_bars_are_quartiles() -> None:
    measured = make_lines(FOREST)
    measured.curves["KDF"][:6, -1] = np.nan
    axes = find_panel(
        plot_improvement_summary(
            {"forest": {"error": measured, "OCE": make_extreme_curves(FOREST)}}, band_of="21 sets"
        ),
        "error",
    )
    for name in FOREST[1:]:
        columns = [np.sort(column[~np.isnan(column)]) for column in measured.curves[name].T]
        (line,) = [line for line in axes.lines if line.get_label() == name]
        np.testing.assert_allclose(
            line.get_ydata(), [column[len(column) // 2] for column in columns], rtol=1e-12
        )
        (bars,) = [artist for artist in axes.collections if artist.get_gid() == f"band {name}"]
        for (x, low), (_, high) in bars.get_segments():
            column = columns[int(np.flatnonzero(x == SIZES)[0])]
            np.testing.assert_allclose([low, high], np.quantile(column, [0.25, 0.75]), rtol=1e-12)
    assert (axes.lines[0].get_color(), set(axes.lines[0].get_ydata()), axes.get_xscale()) == (
        GREY,
        {0.0},
        "log",
    )
    assert "21 sets → 15–21" in [text.get_text() for text in axes.texts]


def test_strip_has_a_dot_per_data_set_and_quartiles() -> None:
    measured = make_strips(FOREST)
    measured.curves["KDF"][:2] = np.nan
    axes = find_panel(
        plot_improvement_summary({"forest": {"error": measured}}, band_of="21 sets"), "error"
    )
    for lane, name in enumerate(FOREST[1:]):
        values = measured.curves[name][:, 0]
        values = values[~np.isnan(values)]
        lines = {line.get_gid(): line for line in axes.lines}
        dots = lines[f"dots {name}"]
        assert sorted(dots.get_xdata()) == sorted(values)
        assert np.abs(np.asarray(dots.get_ydata()) - lane).max() < 0.4
        np.testing.assert_allclose(
            lines[f"band {name}"].get_xdata(), np.quantile(values, [0.25, 0.75])
        )
        assert set(lines[f"median {name}"].get_xdata()) == {np.median(values)}
        assert axes.get_xlim()[0] < values.min() and values.max() < axes.get_xlim()[1]
    assert [text.get_text() for text in axes.texts if text.get_text() in FOREST] == FOREST[1:]
    assert "19–21 sets" in [text.get_text() for text in axes.texts]


def test_dots_at_one_position_do_not_overlap() -> None:
    tied_improvements = RepeatedCurves(
        np.array([1.0]), {"parent": np.zeros((9, 1)), "KDF": np.full((9, 1), 0.25)}, ""
    )
    axes = find_panel(
        plot_improvement_summary({"forest": {"error": tied_improvements}}, band_of="9 sets"),
        "error",
    )
    (dots,) = [line for line in axes.lines if line.get_gid() == "dots KDF"]
    heights = np.sort(np.asarray(dots.get_ydata()))
    assert (np.diff(heights) > 0.05).all() and np.isclose(heights.mean(), 0)


def test_quantities_share_scales_and_colours_depend_on_position() -> None:
    figure = plot_improvement_summary(
        {
            "forest": {"error": make_strips(FOREST), "OCE": make_extreme_curves(FOREST)},
            "network": {
                "error": make_strips(NETWORK, spread=1.5, seed=1),
                "OCE": make_extreme_curves(NETWORK),
            },
        },
        band_of="21 sets",
    )
    assert find_panel(figure, "error", 0).get_xlim() == find_panel(figure, "error", 1).get_xlim()
    assert find_panel(figure, "OCE", 0).get_ylim() == find_panel(figure, "OCE", 1).get_ylim()
    colors = {line.get_label(): line.get_color() for axes in figure.axes for line in axes.lines}
    assert colors["KDF"] == colors["KDN"] == BLUE


@pytest.mark.parametrize("names", others_slow([FOREST[:2], FOREST]))
@pytest.mark.parametrize(
    "factories",
    [
        (make_strips, make_strips, make_strips, make_extreme_curves),
        (make_lines, make_lines, make_extreme_curves),
        (make_strips,),
        (make_lines, make_strips),
        (make_extreme_curves,),
        (make_strips, make_strips, make_strips),
    ],
    ids=lambda factories: "-".join(factory.__name__ for factory in factories),
)
def test_text_is_legible(factories, names, assert_legible, texts_of) -> None:
    quantities = {f"quantity {i}": factory(names) for i, factory in enumerate(factories)}
    figure = plot_improvement_summary(
        {"random forest": quantities, "random forest again": quantities}, band_of="21 data sets"
    )
    assert figure.get_size_inches()[0] == 7.0
    assert_legible(figure)
    assert set(names[1:]) <= set(texts_of(figure)) or factories == (make_lines, make_strips)


@pytest.mark.parametrize(
    ("panels", "message"),
    [
        ({}, "needs a group with a quantity"),
        ({"forest": {}}, "needs a group with a quantity"),
        (
            {"forest": {"error": make_strips(FOREST[:1])}},
            "'forest' needs the parent and the same methods",
        ),
        (
            {"forest": {"error": make_strips(FOREST), "OCE": make_extreme_curves(NETWORK)}},
            "'forest' needs the parent and the same methods",
        ),
        (
            {
                "forest": {
                    "error": RepeatedCurves(
                        np.array([1.0]), {"a": np.zeros((2, 1)), "b": np.full((2, 1), np.nan)}, ""
                    )
                }
            },
            "a number in each column",
        ),
    ],
)
def test_invalid_input_raises(panels, message) -> None:
    with pytest.raises(ValueError, match=message):
        plot_improvement_summary(panels, band_of="sets")
