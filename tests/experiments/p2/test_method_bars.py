"""Tests of bars of methods by class."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from experiments.p2.figures.method_bars import plot_method_bars
from kdgraph.figures.style import GREY

PHANNS = [
    "Major capsid",
    "Minor capsid",
    "Baseplate",
    "Major tail",
    "Minor tail",
    "Portal",
    "Tail fiber",
    "Tail shaft",
    "Collar",
    "HTJ",
    "Other",
]
METHODS = ["histogram", "KDE(b_mon)", "KDE(b_mon2)", "STS", "CSTS", "TSwA", "CwOC", "uncalibrated"]
SETS = ["test set 1", "test set 2"]


def random_values(methods=METHODS, classes=PHANNS, sets=2) -> dict[str, dict[str, list[float]]]:
    rng = np.random.default_rng(0)
    return {
        method: {name: rng.uniform(0.1, 0.6, sets).tolist() for name in classes}
        for method in methods
    }


def bars_of_set(figure, method: str, set_name: str) -> list[Rectangle]:
    return [bar for bar in all_bars(figure.axes[0]) if bar.get_gid() == f"{method}, {set_name}"]


def all_bars(axes) -> list[Rectangle]:
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def test_bar_heights_are_values_in_the_group_of_their_class() -> None:
    values = random_values()
    figure = plot_method_bars(values, ylabel="NLL", sets=SETS)
    (axes,) = figure.axes
    centres = axes.get_xticks()
    half_width = np.diff(centres)[0] / 2
    for method, class_values in values.items():
        for j, set_name in enumerate(SETS):
            bars = bars_of_set(figure, method, set_name)
            assert [bar.get_height() for bar in bars] == [
                set_values[j] for set_values in class_values.values()
            ]
            for bar, centre in zip(bars, centres, strict=True):
                assert (
                    centre - half_width < bar.get_x()
                    and bar.get_x() + bar.get_width() < centre + half_width
                )


def test_bars_do_not_overlap_and_are_ordered_by_method_and_set() -> None:
    figure = plot_method_bars(random_values(), ylabel="NLL", sets=SETS)
    (axes,) = figure.axes
    bars = sorted(all_bars(axes), key=lambda bar: bar.get_x())
    ends = [bar.get_x() + bar.get_width() for bar in bars]
    assert all(
        end <= next_bar.get_x() + 1e-9 for end, next_bar in zip(ends, bars[1:], strict=False)
    )
    assert [bar.get_gid() for bar in bars] == [
        f"{method}, {set_name}" for method in METHODS for set_name in SETS
    ] * len(PHANNS)


def test_first_set_is_lighter_and_uncalibrated_is_grey() -> None:
    order = ["uncalibrated", *METHODS[:-1]]
    figure = plot_method_bars(random_values(order), ylabel="NLL", sets=SETS)
    colors = {
        method: [
            to_rgb(bars_of_set(figure, method, set_name)[0].get_facecolor()) for set_name in SETS
        ]
        for method in order
    }
    assert all(sum(first) > sum(second) for first, second in colors.values())
    assert colors["uncalibrated"][1] == to_rgb(GREY)
    assert len({second for _, second in colors.values()}) == len(order)


def test_repeated_colours_are_hatched() -> None:
    methods = [f"method {i}" for i in range(15)]
    figure = plot_method_bars(random_values(methods, ["a", "b"], 1), ylabel="NLL", sets=["test"])
    styles = {
        (bar.get_facecolor(), bar.get_hatch())
        for bar in (bars_of_set(figure, method, "test")[0] for method in methods)
    }
    assert len(styles) == len(methods)


def test_missing_value_leaves_a_gap() -> None:
    incomplete = random_values()
    incomplete["STS"]["HTJ"] = [np.nan, np.nan]
    figure, complete_figure = (
        plot_method_bars(values, ylabel="NLL", sets=SETS)
        for values in (incomplete, random_values())
    )
    assert np.isnan(bars_of_set(figure, "STS", "test set 1")[PHANNS.index("HTJ")].get_height())
    positions = [
        bars_of_set(drawing, "CwOC", "test set 2")[PHANNS.index("HTJ")].get_x()
        for drawing in (figure, complete_figure)
    ]
    assert positions[0] == positions[1]


@pytest.mark.parametrize(
    ("methods", "classes", "sets"),
    [
        (METHODS, PHANNS, SETS),
        (METHODS, PHANNS, ["in sample"]),
        (METHODS[:1], ["a"], SETS),
        (METHODS, [str(digit) for digit in range(10)], SETS),
        (
            [f"a long name of a method, the {i}th" for i in range(9)],
            ["a class whose name is long", "b"],
            ["one", "two", "three"],
        ),
    ],
)
def test_text_is_legible_and_the_legend_names_all_methods(
    methods, classes, sets, assert_legible, texts_of
) -> None:
    figure = plot_method_bars(
        random_values(methods, classes, len(sets)),
        ylabel="NLL of right or wrong, in nats",
        sets=sets,
    )
    assert figure.get_size_inches()[0] == 7.0
    assert_legible(figure)
    assert set(methods) <= set(texts_of(figure))
    assert any(set_name in text for text in texts_of(figure) for set_name in sets) == (
        len(sets) > 1
    )


@pytest.mark.parametrize(
    ("values", "sets", "message"),
    [
        ({}, SETS, "^method_bars needs a method, a class and a set of rows$"),
        ({"a": {}}, SETS, "^method_bars needs a method, a class and a set of rows$"),
        ({"a": {"x": []}}, [], "^method_bars needs a method, a class and a set of rows$"),
        (
            {"a": {"x": [1.0]}, "b": {"y": [1.0]}},
            ["s"],
            r"^every method must have the same classes, \['x'\], got \['y'\] for 'b'$",
        ),
        (
            {"a": {"x": [1.0]}},
            SETS,
            (
                r"^'a' needs a finite number, or NaN, for each of \['test set 1', 'test set 2'\] in"
                r" 'x', got \[1.0\]$"
            ),
        ),
        (
            {"a": {"x": [np.inf]}},
            ["s"],
            r"^'a' needs a finite number, or NaN, for each of \['s'\] in 'x', got \[inf\]$",
        ),
    ],
)
def test_invalid_input_raises(values, sets, message) -> None:
    with pytest.raises(ValueError, match=message):
        plot_method_bars(values, ylabel="NLL", sets=sets)
