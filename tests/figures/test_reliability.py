"""Tests of reliability diagrams and their intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from kdgraph.figures import plot_reliability_diagram
from kdgraph.figures.reliability import clopper_pearson_interval, wilson_interval
from kdgraph.figures.style import BLUE, GREY
from kdgraph.metrics import reliability_bins

ECE = {"random forest": 0.051, "kdf": 0.0354}


def test_points_are_non_empty_bins_with_area_by_rows(bins) -> None:
    _, above = plot_reliability_diagram(bins, ece=ECE).axes
    points = [artist for artist in above.collections if artist.get_gid() == "bins"]
    drawn = [
        row
        for artist in points
        for row in np.column_stack([artist.get_offsets(), artist.get_sizes()])
    ]
    expected, counts = [], []
    for model_bins in bins.values():
        for is_shown in (model_bins.count >= 10, (model_bins.count > 0) & (model_bins.count < 10)):
            expected += list(
                np.column_stack([model_bins.confidence, model_bins.accuracy])[is_shown]
            )
            counts += list(model_bins.count[is_shown])
    np.testing.assert_array_equal([row[:2] for row in drawn], expected)
    order = np.argsort(counts, kind="stable")
    sizes = np.array([row[2] for row in drawn])[order]
    assert (np.diff(sizes)[np.diff(np.sort(counts)) > 0] > 0).all()


def test_lines_join_adjacent_bins_and_sparse_bins_are_faded(texts_of) -> None:
    confidence = np.repeat([0.55, 0.65, 0.75, 0.85, 0.95], [9, 10, 1, 20, 30])
    model_bins = reliability_bins(confidence, np.arange(len(confidence)) % 2 == 0, bins=10)
    figure = plot_reliability_diagram({"forest": model_bins}, ece={"forest": 0.1})
    _, above = figure.axes
    line = above.lines[0]
    joined = np.isfinite(line.get_ydata())
    np.testing.assert_array_equal(model_bins.count[joined], [10, 20, 30])
    # The bin of one row interrupts the line between those of 10 and 20 rows.
    assert np.isnan(line.get_ydata()[np.flatnonzero(model_bins.count == 1)]).all()
    full, faded = (artist for artist in above.collections if artist.get_gid() == "bins")
    assert full.get_alpha() == 1 and faded.get_alpha() < 0.5
    np.testing.assert_allclose(faded.get_offsets()[:, 0], [0.55, 0.75])
    assert "bars: 95 % intervals; faded: fewer than 10 rows" in texts_of(figure)


def test_parent_is_dashed_and_grey_and_method_blue(bins) -> None:
    _, above = plot_reliability_diagram(bins, ece=ECE).axes
    parent, _, method, _, diagonal = above.lines  # a line and its legend entry for each model
    np.testing.assert_array_equal(diagonal.get_xydata(), [[0, 0], [1, 1]])
    assert (parent.get_color(), method.get_color()) == (GREY, BLUE)
    assert parent.get_linestyle() == "--"
    assert method.get_linestyle() == "-"


def test_a_curve_below_an_equal_one_is_seen_between_its_dashes(bins) -> None:
    (curve,) = list(bins.values())[:1]
    names = ["model", "temperature", "gated_temperature"]
    figure = plot_reliability_diagram(dict.fromkeys(names, curve), ece=dict.fromkeys(names, 0.1))
    _, above = figure.axes
    drawn = [line for line in above.lines if len(line.get_xdata()) == len(curve.confidence)]
    assert [line.is_dashed() for line in drawn] == [True, False, True]


def test_histogram_has_the_counts_of_the_bins(bins) -> None:
    below, _ = plot_reliability_diagram(bins, ece=ECE).axes
    outlines = [patch for patch in below.patches if patch.get_gid() != "parent rows"]
    for patch, model_bins in zip(outlines, bins.values(), strict=True):
        values, edges, _ = patch.get_data()
        np.testing.assert_array_equal(values, model_bins.count)
        np.testing.assert_array_equal(edges, np.append(model_bins.lower, model_bins.upper[-1]))
    assert below.get_ylim()[0] == 0
    assert below.get_ylabel() == "rows"


def test_legend_has_models_with_their_ece_and_the_interval(bins, texts_of) -> None:
    texts = texts_of(plot_reliability_diagram(bins, ece=ECE))
    assert "random forest   ECE 0.051" in texts
    assert "kdf   ECE 0.035" in texts
    assert "perfectly calibrated" in texts
    assert any(text.startswith("bars: 95 % intervals") for text in texts)


@pytest.mark.parametrize(
    ("interval", "method"), [(wilson_interval, "wilson"), (clopper_pearson_interval, "exact")]
)
@pytest.mark.parametrize(("correct", "rows"), [(0, 1), (1, 1), (3, 10), (50, 50), (997, 1000)])
def test_intervals_agree_with_scipy(interval, method: str, correct: int, rows: int) -> None:
    low, high = interval(np.array([correct / rows]), np.array([rows]))
    expected = binomtest(correct, rows).proportion_ci(method=method)
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_rounded_fractions_give_exact_intervals() -> None:
    rows = np.full(50, 49)
    low, high = clopper_pearson_interval(np.arange(50) / 49, rows)  # 28 / 49 · 49 is not exactly 28
    expected = [binomtest(k, 49).proportion_ci() for k in range(50)]
    np.testing.assert_allclose(
        np.transpose([low, high]), [[ci.low, ci.high] for ci in expected], atol=1e-12
    )


def test_bars_are_the_requested_intervals(bins, texts_of) -> None:
    for interval, function, note in (
        ("wilson", wilson_interval, "bars: 95 % intervals"),
        ("clopper_pearson", clopper_pearson_interval, "bars: exact 95 % intervals"),
    ):
        figure = plot_reliability_diagram(bins, ece=ECE, interval=interval)
        assert any(text.split(";")[0] == note for text in texts_of(figure))
        _, above = figure.axes
        collections = [artist for artist in above.collections if artist.get_gid() == "intervals"]
        ends = {tuple(segment[:, 1]) for bars in collections for segment in bars.get_segments()}
        expected = {
            tuple(np.ravel(function(model_bins.accuracy[i : i + 1], model_bins.count[i : i + 1])))
            for model_bins in bins.values()
            for i in np.flatnonzero(model_bins.count)
        }
        assert ends == expected
        assert above.get_ylim()[0] <= np.min(list(ends))


def test_limits_contain_all_intervals(bins) -> None:
    few_rows = reliability_bins(
        np.array([0.31, 0.9, 0.95, 1.0]), np.array([False, True, True, True])
    )  # an interval down to 0
    _, above = plot_reliability_diagram(bins | {"few": few_rows}, ece=ECE | {"few": 0.1}).axes
    (x0, x1), (y0, y1) = above.get_xlim(), above.get_ylim()
    for collection in above.collections:
        points = (
            np.concatenate(collection.get_segments())
            if collection.get_gid() == "intervals"
            else np.asarray(collection.get_offsets())
        )
        assert points.min(axis=0)[0] >= x0
        assert points.min(axis=0)[1] >= y0 - 1e-12
        assert points.max(axis=0)[0] <= x1
        assert points.max(axis=0)[1] <= y1


@pytest.mark.parametrize("n", [1, 3, 6])
def test_any_number_of_models_is_legible(bins, n: int, assert_legible) -> None:
    names = [f"random_forest-kernel_density_forest-density_gate {i}" for i in range(n)]
    assert_legible(
        plot_reliability_diagram(dict.fromkeys(names, bins["kdf"]), ece=dict.fromkeys(names, 0.1))
    )


@pytest.mark.parametrize("strategy", ["uniform", "mass"])
@pytest.mark.parametrize("interval", ["wilson", "clopper_pearson"])
def test_one_row_fills_one_bin(strategy, interval, assert_legible) -> None:
    single_bin = reliability_bins(np.array([1.0]), np.array([True]), bins=1, strategy=strategy)
    assert_legible(
        plot_reliability_diagram({"forest": single_bin}, ece={"forest": 0.0}, interval=interval)
    )


def test_different_names_raise(bins) -> None:
    with pytest.raises(ValueError, match="needs bins and an ECE for the same names"):
        plot_reliability_diagram(bins, ece={"kdf": 0.1})
