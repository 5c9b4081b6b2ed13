"""Tests of PIT histograms and coverage curves."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from kdgraph.figures import (
    CoverageCurve,
    plot_coverage_against_level,
    plot_local_pit_histograms,
    plot_pit_histogram,
)
from kdgraph.figures.pit import binomial_interval
from kdgraph.figures.style import BLUE, GREY

COUNTS = {"linear": np.array([5, 40, 30, 25]), "global_pit": np.array([26, 24, 20, 30])}
LEVELS = np.array([0.1, 0.5, 0.9])
CURVES = {
    "linear": CoverageCurve(LEVELS, np.array([0.2, 0.6, 0.85])),
    "global_pit": CoverageCurve(LEVELS, np.array([0.11, 0.49, 0.9])),
}


def test_steps_are_densities() -> None:
    (axes,) = plot_pit_histogram(COUNTS).axes
    steps = [patch for patch in axes.patches if patch.get_gid() is None]
    for patch, counts, color in zip(steps, COUNTS.values(), (GREY, BLUE), strict=True):
        values, edges, _ = patch.get_data()
        np.testing.assert_allclose(values, counts * 4 / 100)
        np.testing.assert_allclose(edges, [0, 0.25, 0.5, 0.75, 1])
        assert patch.get_edgecolor()[:3] == pytest.approx(
            tuple(int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
        )
    assert axes.get_ylim()[0] == 0 and axes.get_ylim()[1] > 1.6


def test_band_is_the_binomial_interval_of_one_bin() -> None:
    (axes,) = plot_pit_histogram(COUNTS).axes
    (band,) = (artist for artist in axes.collections if artist.get_gid() == "band")
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (
        pytest.approx(17 * 4 / 100),
        pytest.approx(34 * 4 / 100),
    )  # 17 and 34 of 100 rows
    low, high = binomial_interval(100, np.array([0.25]))
    assert binom.cdf(100 * low - 1, 100, 0.25)[0] < 0.025 <= binom.cdf(100 * low, 100, 0.25)[0]
    assert binom.cdf(100 * high - 1, 100, 0.25)[0] < 0.975 <= binom.cdf(100 * high, 100, 0.25)[0]


def test_coverage_curves_and_their_differences() -> None:
    below, above = plot_coverage_against_level(CURVES, 200).axes
    for axes, level in ((above, 0), (below, LEVELS)):
        lines = [line for line in axes.lines if line.get_gid() != "ideal"]
        for line, curve in zip(lines, CURVES.values(), strict=True):
            np.testing.assert_array_equal(line.get_xdata(), LEVELS)
            np.testing.assert_allclose(line.get_ydata(), curve.coverage - level)


@pytest.mark.parametrize("n", [1, 2, 6])
def test_any_number_of_models_is_legible(n, assert_legible, texts_of) -> None:
    names = [
        "linear",
        *(f"gaussian_linear-global_pit_with_a_very_long_name {i}" for i in range(1, n)),
    ]
    histogram = plot_pit_histogram(dict.fromkeys(names, COUNTS["linear"]))
    curve = plot_coverage_against_level(dict.fromkeys(names, CURVES["linear"]), 123_456)
    assert_legible(histogram)
    assert_legible(curve)
    assert {"linear", "calibrated, 100 rows", "band: 95 %"} <= set(texts_of(histogram))
    assert {"linear", "calibrated, 123,456 rows", "band: 95 %"} <= set(texts_of(curve))


@pytest.mark.parametrize("counts", [[1], [1, 0, 0], [100_000, 200_000]])
def test_few_and_many_rows_are_legible(counts, assert_legible) -> None:
    assert_legible(plot_pit_histogram({"linear": np.array(counts)}))


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({}, r"got \(rows, bins\) \[\]"),
        (
            {"a": np.array([1, 2]), "b": np.array([1, 1])},
            r"got \(rows, bins\) \[\(2, 2\), \(3, 2\)\]",
        ),
        ({"a": np.array([0, 0])}, r"got \(rows, bins\) \[\(0, 2\)\]"),
    ],
)
def test_different_rows_or_bins_raise(counts, message) -> None:
    with pytest.raises(
        ValueError,
        match=f"^pit_histogram needs counts of the same rows in the same bins, {message}$",
    ):
        plot_pit_histogram(counts)


def test_no_curve_raises() -> None:
    with pytest.raises(ValueError, match=r"^coverage_against_level needs at least one curve$"):
        plot_coverage_against_level({}, 10)


def test_histograms_differ_without_colours() -> None:
    """Steps have no markers, so that dashes are all that is left in black and white."""
    counts = {name: np.full(4, 25) for name in ("parent", "a", "b", "c")}
    figures = [plot_pit_histogram(counts), plot_local_pit_histograms({"cell": counts})]
    for figure in figures:
        dashes = [patch.get_linestyle() for patch in figure.axes[0].patches]
        assert len({str(dash) for dash in dashes}) == 4
