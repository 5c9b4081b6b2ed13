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


def by_gid(axes, start: str) -> dict[str, np.ndarray]:
    return {
        line.get_gid(): np.array(line.get_xydata())
        for line in axes.lines
        if (line.get_gid() or "").startswith(start)
    }


def test_methods_are_placed_at_their_mean_rank(figure) -> None:
    axes = figure.axes[0]
    (scale,) = by_gid(axes, "scale").values()
    lines = by_gid(axes, "line ")
    assert set(lines) == {f"line {name}" for name in MEANS}
    for name, mean in MEANS.items():
        expected = np.interp(mean, [1, len(MEANS)], scale[:, 0])
        assert lines[f"line {name}"][0] == pytest.approx([expected, scale[0, 1]])
    assert scale[0, 0] < scale[1, 0]  # the best at the left


def test_bars_join_groups_and_never_overlap(figure) -> None:
    axes = figure.axes[0]
    (scale,) = by_gid(axes, "scale").values()
    bars = [
        np.array(line.get_xydata()) for line in axes.lines if line.get_gid() == "not significant"
    ]
    ends = [
        [np.interp(MEANS[group[i]], [1, len(MEANS)], scale[:, 0]) for i in (0, -1)]
        for group in GROUPS
    ]
    assert [bar[:, 0].tolist() for bar in bars] == [pytest.approx(end, abs=0.04) for end in ends]
    for i, one in enumerate(bars):
        for other in bars[:i]:
            apart = other[1, 0] < one[0, 0] or one[1, 0] < other[0, 0]
            assert apart or one[0, 1] != other[0, 1]


def test_the_critical_difference_is_drawn_to_scale_if_it_fits_there(figure) -> None:
    first, second = figure.axes
    (scale,) = by_gid(first, "scale").values()
    (bar,) = by_gid(first, "critical difference").values()
    assert (bar[1, 0] - bar[0, 0]) / (scale[1, 0] - scale[0, 0]) * (
        len(MEANS) - 1
    ) == pytest.approx(1.1)
    assert by_gid(second, "critical difference") == {}


def test_text_describes_the_figure(figure, texts_of) -> None:
    result = texts_of(figure)
    for words in (
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
        assert result.count(words) == 1, words
    assert {"1.50", "4.50", *MEANS} <= set(result)


def test_the_parent_is_grey_and_the_best_are_bold_unless_all_are(figure) -> None:
    first, second = ({text.get_text(): text for text in axes.texts} for axes in figure.axes)
    assert first["random_forest (parent)"].get_color() == GREY and first["kdf"].get_color() != GREY
    assert {name for name in MEANS if first[name].get_weight() == "bold"} == {"kdf", "isotonic"}
    assert not any(second[name].get_weight() == "bold" for name in MEANS)


def test_no_two_lines_cross(figure) -> None:
    """Left: a better method's line is above; right: a worse one's is."""
    axes = figure.axes[0]
    bends = {name.removeprefix("line "): xy for name, xy in by_gid(axes, "line ").items()}
    left = sorted((xy for xy in bends.values() if xy[2, 0] < xy[1, 0]), key=lambda xy: xy[0, 0])
    right = sorted((xy for xy in bends.values() if xy[2, 0] > xy[1, 0]), key=lambda xy: -xy[0, 0])
    for side in (left, right):
        depths = [xy[1, 1] for xy in side]
        assert depths == sorted(depths) and len(set(depths)) == len(depths)
    assert len(left) == 3 and len(right) == 2


def test_many_long_names_are_legible(figure, assert_legible) -> None:
    assert_legible(figure)
    names = [
        f"random_forest-kdf calibrator.alpha=0.00{i} calibrator.vote_power={i}" for i in range(30)
    ]
    many = RankSummary(
        {name: 1 + 0.9 * i for i, name in enumerate(names)},
        6.0,
        [names[i : i + 6] for i in range(25)],
        60,
        1e-9,
    )
    assert_legible(plot_critical_difference_diagram({"error": many}))
    near = RankSummary(
        {name: 2.0 + 1e-6 * i for i, name in enumerate("abc")}, 1.0, [["a", "b", "c"]], 5, 0.9
    )
    assert_legible(plot_critical_difference_diagram({"error": near}))


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
