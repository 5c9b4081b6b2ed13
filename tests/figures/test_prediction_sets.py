"""Tests of the figure of coverage and size of prediction sets."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.figures import SetCoverage, plot_coverage_of_sets


def make_part(kind: str, n: int) -> SetCoverage:
    rng = np.random.default_rng(n)
    coverage = rng.uniform(0.7, 1, n)
    return SetCoverage(
        kind,
        [f"c{i}" for i in range(n)] if kind else ["all rows"],
        np.full(n, 200),
        coverage,
        coverage - 0.05,
        np.minimum(coverage + 0.04, 1),
        rng.uniform(1, 3, n),
    )


def test_points_are_coverages_and_bars_sizes(texts_of, assert_legible) -> None:
    parts = [make_part("", 1), make_part("class", 4), make_part("group", 2)]
    figure = plot_coverage_of_sets(parts, 0.9)
    left, right = figure.axes
    points = [line for line in left.lines if line.get_marker() == "o"]
    np.testing.assert_allclose(
        np.concatenate([np.asarray(line.get_xdata()) for line in points]),
        np.concatenate([part.coverage for part in parts]),
    )
    np.testing.assert_allclose(
        [bar.get_width() for bar in right.patches], np.concatenate([part.size for part in parts])
    )
    # Points and bars of a part are at one height, from top to bottom.
    heights = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in points])
    np.testing.assert_allclose(
        [bar.get_y() + bar.get_height() / 2 for bar in right.patches], heights
    )
    assert (np.diff(heights) > 0).all() and left.yaxis_inverted()
    (target,) = (line for line in left.lines if line.get_gid() == "target")
    assert target.get_xdata() == [0.9, 0.9]
    assert {"all rows", "class c3", "group c1", "target 0.9"} <= set(texts_of(figure))
    assert_legible(figure)


def test_classes_with_the_lowest_coverage_are_shown(texts_of, assert_legible) -> None:
    part = make_part("class", 40)
    figure = plot_coverage_of_sets([part], at_most=5)
    shown = [text for text in texts_of(figure) if text.startswith("class c")]
    lowest = np.sort(np.argsort(part.coverage)[:5])
    assert shown == [f"class c{i}" for i in lowest]
    (note,) = (text for text in texts_of(figure) if text.startswith("bars: "))
    assert note.endswith("class: the 5 of 40 with the lowest coverage")
    assert_legible(figure)


def test_long_names_are_shortened(texts_of, assert_legible) -> None:
    names = ["a name that is far longer than the space beside the panel", "b"]
    part = make_part("class", 2)
    figure = plot_coverage_of_sets(
        [SetCoverage("class", names, part.rows, part.coverage, part.low, part.high, part.size)]
    )
    assert "…" in " ".join(texts_of(figure))
    assert_legible(figure)


def test_no_parts_are_refused() -> None:
    with pytest.raises(ValueError, match="coverage_of_sets needs a part of the rows, got none"):
        plot_coverage_of_sets([make_part("class", 0)])
