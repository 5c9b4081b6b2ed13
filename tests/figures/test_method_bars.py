"""Tests of bars of methods by class."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from kdgraph.figures import plot_method_bars
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


def make_numbers(methods=METHODS, classes=PHANNS, sets=2) -> dict[str, dict[str, list[float]]]:
    rng = np.random.default_rng(0)
    return {
        method: {name: rng.uniform(0.1, 0.6, sets).tolist() for name in classes}
        for method in methods
    }


def bars_of(figure, method: str, set_name: str) -> list[Rectangle]:
    return [bar for bar in bars_in(figure.axes[0]) if bar.get_gid() == f"{method}, {set_name}"]


def bars_in(axes) -> list[Rectangle]:
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def test_bar_height_and_group_match_the_number() -> None:
    numbers = make_numbers()
    figure = plot_method_bars(numbers, ylabel="NLL", sets=SETS)
    (axes,) = figure.axes
    centres = axes.get_xticks()
    reach = np.diff(centres)[0] / 2
    for method, of_method in numbers.items():
        for j, model in enumerate(SETS):
            drawn = bars_of(figure, method, model)
            assert [bar.get_height() for bar in drawn] == [
                values[j] for values in of_method.values()
            ]
            for bar, centre in zip(drawn, centres, strict=True):
                assert (
                    centre - reach < bar.get_x() and bar.get_x() + bar.get_width() < centre + reach
                )


def test_no_bar_lies_over_another_and_order_is_method_then_set() -> None:
    figure = plot_method_bars(make_numbers(), ylabel="NLL", sets=SETS)
    (axes,) = figure.axes
    drawn = sorted(bars_in(axes), key=lambda bar: bar.get_x())
    ends = [bar.get_x() + bar.get_width() for bar in drawn]
    assert all(end <= after.get_x() + 1e-9 for end, after in zip(ends, drawn[1:], strict=False))
    assert [bar.get_gid() for bar in drawn] == [
        f"{method}, {set_name}" for method in METHODS for set_name in SETS
    ] * len(PHANNS)


def test_the_first_set_is_lighter_and_uncalibrated_is_grey_at_any_position() -> None:
    order = ["uncalibrated", *METHODS[:-1]]
    figure = plot_method_bars(make_numbers(order), ylabel="NLL", sets=SETS)
    colors = {
        method: [to_rgb(bars_of(figure, method, model)[0].get_facecolor()) for model in SETS]
        for method in order
    }
    assert all(sum(left) > sum(right) for left, right in colors.values())
    assert colors["uncalibrated"][1] == to_rgb(GREY)
    assert len({right for _, right in colors.values()}) == len(order)


def test_repeated_colours_are_hatched() -> None:
    methods = [f"method {i}" for i in range(15)]
    figure = plot_method_bars(make_numbers(methods, ["a", "b"], 1), ylabel="NLL", sets=["test"])
    looks = {
        (bar.get_facecolor(), bar.get_hatch())
        for bar in (bars_of(figure, method, "test")[0] for method in methods)
    }
    assert len(looks) == len(methods)


def test_missing_number_leaves_an_empty_place() -> None:
    numbers = make_numbers()
    numbers["STS"]["HTJ"] = [np.nan, np.nan]
    figure, full = (
        plot_method_bars(values, ylabel="NLL", sets=SETS) for values in (numbers, make_numbers())
    )
    assert np.isnan(bars_of(figure, "STS", "test set 1")[PHANNS.index("HTJ")].get_height())
    same = [
        bars_of(one, "CwOC", "test set 2")[PHANNS.index("HTJ")].get_x() for one in (figure, full)
    ]
    assert same[0] == same[1]


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
def test_text_is_legible_and_legend_has_all_methods(
    methods, classes, sets, assert_legible, texts_of
) -> None:
    figure = plot_method_bars(
        make_numbers(methods, classes, len(sets)),
        ylabel="NLL of right or wrong, in nats",
        sets=sets,
    )
    assert figure.get_size_inches()[0] == 7.0
    assert_legible(figure)
    assert set(methods) <= set(texts_of(figure))
    assert any(model in text for text in texts_of(figure) for model in sets) == (len(sets) > 1)


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
