"""Tests of critical difference diagrams."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.figures import RankSummary, plot_critical_difference_diagram
from kdgraph.figures.style import GREY

MEANS = {"kdf": 1.5, "isotonic": 2.5, "random_forest (parent)": 3.0, "sigmoid": 4.5, "refit": 3.5}
GROUPS = [
    ["kdf", "isotonic"],
    ["isotonic", "random_forest (parent)", "refit"],
    ["refit", "sigmoid"],
]
RANKED = RankSummary(MEANS, 1.1, GROUPS, 20, 0.004)


@pytest.fixture
def figure():
    return plot_critical_difference_diagram(
        {"error": RANKED, "ECE (15 bins)": RankSummary(MEANS, 9.0, [list(MEANS)], 3, 0.2)}
    )


def points_by_gid(axes, start: str) -> dict[str, np.ndarray]:
    return {
        line.get_gid(): np.array(line.get_xydata())
        for line in axes.lines
        if (line.get_gid() or "").startswith(start)
    }


def test_method_lines_start_at_mean_ranks(figure) -> None:
    axes = figure.axes[0]
    (scale,) = points_by_gid(axes, "scale").values()
    lines = points_by_gid(axes, "line ")
    assert set(lines) == {f"line {name}" for name in MEANS}
    for name, mean in MEANS.items():
        expected = np.interp(mean, [1, len(MEANS)], scale[:, 0])
        assert lines[f"line {name}"][0] == pytest.approx([expected, scale[0, 1]])
    assert scale[0, 0] < scale[1, 0]  # the best at the left


def test_bars_join_groups_and_never_overlap(figure) -> None:
    axes = figure.axes[0]
    (scale,) = points_by_gid(axes, "scale").values()
    bars = [
        np.array(line.get_xydata()) for line in axes.lines if line.get_gid() == "not significant"
    ]
    ends = [
        [np.interp(MEANS[group[i]], [1, len(MEANS)], scale[:, 0]) for i in (0, -1)]
        for group in GROUPS
    ]
    assert [bar[:, 0].tolist() for bar in bars] == [pytest.approx(end, abs=0.04) for end in ends]
    for i, second in enumerate(bars):
        for first in bars[:i]:
            are_disjoint = first[1, 0] < second[0, 0] or second[1, 0] < first[0, 0]
            assert are_disjoint or second[0, 1] != first[0, 1]


def test_critical_difference_is_drawn_to_scale_if_it_fits(figure) -> None:
    first, second = figure.axes
    (scale,) = points_by_gid(first, "scale").values()
    (bar,) = points_by_gid(first, "critical difference").values()
    assert (bar[1, 0] - bar[0, 0]) / (scale[1, 0] - scale[0, 0]) * (
        len(MEANS) - 1
    ) == pytest.approx(1.1)
    assert points_by_gid(second, "critical difference") == {}


def test_text_describes_the_figure(figure, texts_of) -> None:
    texts = texts_of(figure)
    for text in (
        "error",
        "mean rank over 20 data sets; Friedman p = 0.004",
        "critical difference 1.10",
        "ECE (15 bins)",
        "mean rank over 3 data sets; Friedman p = 0.200",
        "critical difference 9.00, more than any two can be apart",
        (
            "bars join methods that do not differ significantly (Nemenyi's test); bold: not"
            " significantly worse than the best"
        ),
    ):
        assert texts.count(text) == 1, text
    assert {"1.50", "4.50", *MEANS} <= set(texts)


def test_parent_is_grey_and_best_group_is_bold_unless_it_is_all(figure) -> None:
    first, second = ({text.get_text(): text for text in axes.texts} for axes in figure.axes)
    assert first["random_forest (parent)"].get_color() == GREY and first["kdf"].get_color() != GREY
    assert {name for name in MEANS if first[name].get_weight() == "bold"} == {"kdf", "isotonic"}
    assert not any(second[name].get_weight() == "bold" for name in MEANS)


def test_lines_do_not_cross(figure) -> None:
    """At the left the line of a better method is above, at the right that of a worse one."""
    axes = figure.axes[0]
    corners_by_name = {
        name.removeprefix("line "): xy for name, xy in points_by_gid(axes, "line ").items()
    }
    left = sorted(
        (xy for xy in corners_by_name.values() if xy[2, 0] < xy[1, 0]), key=lambda xy: xy[0, 0]
    )
    right = sorted(
        (xy for xy in corners_by_name.values() if xy[2, 0] > xy[1, 0]), key=lambda xy: -xy[0, 0]
    )
    for side in (left, right):
        heights = [xy[1, 1] for xy in side]
        assert heights == sorted(heights) and len(set(heights)) == len(heights)
    assert len(left) == 3 and len(right) == 2


@pytest.mark.slow
def test_many_long_names_are_legible(figure, assert_legible) -> None:
    assert_legible(figure)
    names = [
        f"random_forest-kdf calibrator.alpha=0.00{i} calibrator.parent_power={i}" for i in range(30)
    ]
    many = RankSummary(
        {name: 1 + 0.9 * i for i, name in enumerate(names)},
        6.0,
        [names[i : i + 6] for i in range(25)],
        60,
        1e-9,
    )
    assert_legible(plot_critical_difference_diagram({"error": many}))
    nearly_tied = RankSummary(
        {name: 2.0 + 1e-6 * i for i, name in enumerate("abc")}, 1.0, [["a", "b", "c"]], 5, 0.9
    )
    assert_legible(plot_critical_difference_diagram({"error": nearly_tied}))


@pytest.mark.parametrize(
    ("panels", "message"),
    [
        ({}, "critical_difference_diagram needs a panel"),
        (
            {"error": RankSummary({"a": 1.0, "b": 2.0}, 1.0, [], 5, 0.1)},
            (
                "'error' must have three methods or more with mean ranks from 1 to their number,"
                " got {'a': 1.0, 'b': 2.0}"
            ),
        ),
        (
            {"error": RankSummary({"a": 1.0, "b": 2.0, "c": float("nan")}, 1.0, [], 5, 0.1)},
            (
                "'error' must have three methods or more with mean ranks from 1 to their number,"
                " got {'a': 1.0, 'b': 2.0, 'c': nan}"
            ),
        ),
        (
            {"error": RankSummary({"a": 1.0, "b": 2.0, "c": 3.0}, 1.0, [["a", "x"]], 5, 0.1)},
            "a group of 'error' has 'x', which has no rank",
        ),
    ],
)
def test_invalid_input_raises_with_reason(panels, message) -> None:
    with pytest.raises(ValueError, match=r"\w") as caught:
        plot_critical_difference_diagram(panels)
    assert str(caught.value) == message


def test_names_that_are_too_wide_are_broken_instead_of_cut(texts_of, assert_legible) -> None:
    names = [
        "KDF",
        "kernel density forest with whitened densities, seed=500",
        "random_forest-isotonic_top_label-density_gate",
    ]
    summary = RankSummary({n: 1.0 + i for i, n in enumerate(names)}, 0.5, [], 9, 0.01)
    figure = plot_critical_difference_diagram({"NLL": summary})
    texts = texts_of(figure)
    assert "kernel density forest with\nwhitened densities, seed=500" in texts
    assert "random_forest-isotonic_\ntop_label-density_gate" in texts
    assert not any("…" in text for text in texts)
    assert_legible(figure)
