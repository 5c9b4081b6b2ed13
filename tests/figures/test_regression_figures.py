"""Tests of the figures of regressions."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.figures import (
    PredictedRow,
    RowMoments,
    plot_interval_misses,
    plot_local_pit_histograms,
    plot_mean_and_sd,
    plot_predictive_densities,
)

RNG = np.random.default_rng(0)
LONG_NAME = "linear-local_pit_with_a_very_long_name_beyond_any_label"
CELLS = {
    f"x{i} -0.123 to 4.56, x2 0 to 1": {
        "linear": np.array([9, 1, 5]) * (i + 1),
        LONG_NAME: np.array([5, 5, 5]) * (i + 1),
    }
    for i in range(6)
}


def artists_by_gid(axes, gid):
    return list(axes.findobj(lambda artist: artist.get_gid() == gid))


@pytest.mark.parametrize("n", [1, 4, 5, 6])
def test_local_histograms_are_densities_on_one_scale(n, assert_legible):
    cells = dict(list(CELLS.items())[:n])
    figure = plot_local_pit_histograms(cells)
    assert len(figure.axes) == n and len({axes.get_ylim() for axes in figure.axes}) == 1
    for axes, counts_by_name in zip(figure.axes, cells.values(), strict=True):
        for steps, counts in zip(axes.patches, counts_by_name.values(), strict=True):
            np.testing.assert_allclose(steps.get_data().values, 3 * counts / counts.sum())
        assert f"{counts_by_name['linear'].sum()} rows" in axes.get_title(loc="left")
    assert_legible(figure)


def test_band_of_a_cell_depends_on_its_number_of_rows():
    widths = []
    for axes in plot_local_pit_histograms(
        {"few": {"a": np.array([5, 5])}, "many": {"a": np.array([500, 500])}}
    ).axes:
        (band,) = artists_by_gid(axes, "band")
        heights = band.get_paths()[0].vertices[:, 1]
        widths.append(np.ptp(heights))
    assert widths[0] == pytest.approx(1.2)  # 2 to 8 of 10 rows in a bin of two
    assert widths[1] == pytest.approx(1.96 * 4 * np.sqrt(0.25 / 1000), rel=0.05)


def test_dots_are_at_true_and_estimated_moments(assert_legible):
    truth = RowMoments(np.array([1.0, 2.0, 4.0]), np.array([1.0, 1.0, 2.0]))
    estimates = {
        "linear": RowMoments(np.array([1.5, 2.5, 3.0]), np.array([3.0, 3.0, 3.0])),
        "local_pit": truth,
    }
    figure = plot_mean_and_sd(truth, estimates)
    for axes, moment in zip(figure.axes, ("mean", "sd"), strict=True):
        for name, moments in estimates.items():
            (rows,) = artists_by_gid(axes, f"rows {name}")
            np.testing.assert_array_equal(
                rows.get_offsets(),
                np.column_stack([getattr(truth, moment), getattr(moments, moment)]),
            )
        assert axes.get_xlim() == axes.get_ylim()
    assert_legible(figure)


def test_triangles_are_at_the_missed_rows(assert_legible, texts_of):
    points = RNG.uniform(size=(10, 2))
    missed = {"linear": np.array([1, -1, -1] + [0] * 7), LONG_NAME: np.zeros(10, dtype=int)}
    figure = plot_interval_misses(points, missed, 0.9)
    first, second = figure.axes
    for gid, rows in (("above", [0]), ("below", [1, 2]), ("inside", range(3, 10))):
        (dots,) = artists_by_gid(first, gid)
        np.testing.assert_array_equal(dots.get_offsets(), points[list(rows)])
    assert not len(artists_by_gid(second, "above")[0].get_offsets())
    assert {"30.0 % missed, 10 % expected", "0.0 % missed, 10 % expected"} <= set(texts_of(figure))
    assert_legible(figure)


@pytest.mark.parametrize("n", [1, 5])
def test_lines_are_the_densities(n, assert_legible):
    outcomes = np.linspace(-10_000, 20_000, 50)
    density = {
        "linear": np.exp(-((outcomes / 5000) ** 2)),
        LONG_NAME: np.exp(-((outcomes / 2000) ** 2)),
        "truth": np.exp(-((outcomes / 1000) ** 2)),
    }
    figure = plot_predictive_densities(
        [PredictedRow(f"test row {i}", outcomes, density, 1234.0) for i in range(n)]
    )
    for axes in figure.axes:
        lines = {
            line.get_label(): line.get_ydata() for line in axes.lines if line.get_gid() is None
        }
        assert (
            all((lines[name] == values).all() for name, values in density.items())
            and lines.keys() == density.keys()
        )
        assert list(artists_by_gid(axes, "outcome")[0].get_xdata()) == [1234.0, 1234.0]
    assert_legible(figure)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (
            lambda: plot_local_pit_histograms({}),
            "local_pit_histograms needs in every cell the same names",
        ),
        (
            lambda: plot_local_pit_histograms(
                {"a": {"x": np.array([1])}, "b": {"y": np.array([1])}}
            ),
            "local_pit_histograms needs",
        ),
        (
            lambda: plot_local_pit_histograms(
                {"a": {"x": np.array([1, 2]), "y": np.array([1, 1])}}
            ),
            "local_pit_histograms needs",
        ),
        (
            lambda: plot_local_pit_histograms({"a": {"x": np.array([0, 0])}}),
            "local_pit_histograms needs",
        ),
        (
            lambda: plot_mean_and_sd(
                RowMoments(np.ones(2), np.ones(2)), {"a": RowMoments(np.ones(3), np.ones(3))}
            ),
            "mean_and_sd needs at least one",
        ),
        (
            lambda: plot_interval_misses(np.ones((3, 2)), {"a": np.zeros(2)}, 0.9),
            "interval_misses needs points",
        ),
        (
            lambda: plot_interval_misses(np.ones((3, 1)), {"a": np.zeros(3)}, 0.9),
            "interval_misses needs points",
        ),
        (lambda: plot_predictive_densities([]), "predictive_densities needs one to five rows"),
        (
            lambda: plot_predictive_densities([PredictedRow("r", np.ones(3), {"a": np.ones(2)})]),
            "predictive_densities needs one to five",
        ),
    ],
)
def test_arrays_that_do_not_fit_raise(draw, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        draw()
