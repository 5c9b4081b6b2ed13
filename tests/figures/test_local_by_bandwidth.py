"""Tests of local calibration error against the bandwidth."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from kdgraph.figures import LceCurves, plot_lce_against_bandwidth
from kdgraph.figures.style import BLUE, GREY
from tests.variations import others_slow

LONG_NAME = "random_forest-kernel_density_forest-density_gate-of_a_long_name"
BANDWIDTHS = np.array([0.05, 0.2, 0.8, 12.8])
METHODS = (
    "none",
    "temperature",
    "histogram",
    "isotonic",
    "MMCE",
    "group temperature",
    "group histogram",
    "LoRe, t-SNE",
    "LoRe, PCA",
)


def make_curves(names: tuple[str, ...] = ("random forest", "kdf"), runs: int = 0) -> LceCurves:
    rng = np.random.default_rng(0)
    shapes = (
        [0.9, 0.5, 0.3, 0.2],
        [0.2, 0.1, 0.05, 0.02],
        [1.0, 3.0, 30.0, 40.0],
        [1.5, 30.0, 400.0, 20_000.0],
    )
    curves = [
        {name: np.array(shape) / (1 + 0.1 * i) for i, name in enumerate(names)} for shape in shapes
    ]
    if runs:
        curves = [
            {name: values * rng.uniform(0.9, 1.1, (runs, 1)) for name, values in by_name.items()}
            for by_name in curves
        ]
    return LceCurves(BANDWIDTHS, *curves)


def test_curves_are_drawn_with_parent_dashed_and_method_solid() -> None:
    curves = make_curves()
    figure = plot_lce_against_bandwidth({"features": curves})
    assert figure.get_size_inches()[0] == 3.5
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "MLCE",
        "mean LCE",
        "effective rows (log)",
    ]
    for axes, expected in zip(figure.axes, (curves.mlce, curves.lce, curves.n_eff), strict=True):
        lines = {line.get_label(): line for line in axes.lines}
        for name, values in expected.items():
            np.testing.assert_array_equal(
                lines[name].get_xydata(), np.column_stack([BANDWIDTHS, values])
            )
        assert (lines["random forest"].get_color(), lines["kdf"].get_color()) == (GREY, BLUE)
        assert (lines["random forest"].get_linestyle(), lines["kdf"].get_linestyle()) == ("--", "-")
        assert axes.get_xscale() == "log"
        assert not axes.collections  # one run has no band
    assert [axes.get_yscale() for axes in figure.axes] == ["linear", "linear", "log"]


def test_markers_are_small_where_effective_rows_are_few() -> None:
    figure = plot_lce_against_bandwidth({"features": make_curves(("kdf",))})
    for axes, few in zip(figure.axes, ([0.05, 0.2], [0.05], [0.05]), strict=True):
        marks = [line for line in axes.lines if line.get_linestyle() == "None"]
        large, small = sorted(marks, key=lambda line: -line.get_markersize())
        assert small.get_xdata().tolist() == few
        assert large.get_xdata().tolist() == [b for b in BANDWIDTHS if b not in few]


def test_several_runs_give_means_and_bands_of_one_sd(texts_of) -> None:
    curves = make_curves(runs=7)
    curves.lce["kdf"][2, 1] = np.nan  # one run has no value
    curves.lce["kdf"][:, 3] = [0.0] * 6 + [0.01]  # the band is cut at 0
    figure = plot_lce_against_bandwidth({"features": curves}, band_of="7 seeds")
    assert "lines, bands: mean ± 1 sd of 7 seeds" in texts_of(figure)
    axes = figure.axes[1]
    (line,) = [line for line in axes.lines if line.get_label() == "kdf"]
    np.testing.assert_allclose(line.get_ydata(), np.nanmean(curves.lce["kdf"], axis=0))
    (band,) = [artist for artist in axes.collections if artist.get_gid() == "band kdf"]
    corners = band.get_paths()[0].vertices
    for b, bandwidth in enumerate(BANDWIDTHS):
        values = [value for value in curves.lce["kdf"][:, b] if not np.isnan(value)]
        mean, sd = np.mean(values), np.std(values, ddof=1)
        ends = corners[np.isclose(corners[:, 0], bandwidth), 1]
        np.testing.assert_allclose(
            [ends.min(), ends.max()], [max(mean - sd, 0), mean + sd], atol=1e-12
        )
    (rows,) = [line for line in figure.axes[2].lines if line.get_label() == "kdf"]
    np.testing.assert_allclose(rows.get_ydata(), np.median(curves.n_eff["kdf"], axis=0))


def test_spaces_are_columns_with_one_scale() -> None:
    wide = make_curves(runs=3)
    narrow = replace(wide, mlce={name: 0.5 * values for name, values in wide.mlce.items()})
    figure = plot_lce_against_bandwidth({"t-SNE": wide, "PCA": narrow}, band_of="3 seeds")
    assert figure.get_size_inches()[0] == 7.0
    columns = [figure.axes[:3], figure.axes[3:]]
    assert [column[0].get_title() for column in columns] == ["t-SNE", "PCA"]
    for left, right in zip(*columns, strict=True):
        assert left.get_ylim() == right.get_ylim()
        assert left.get_ylabel() and not right.get_ylabel()


def test_many_curves_have_a_legend_and_distinct_styles() -> None:
    figure = plot_lce_against_bandwidth({"PCA": make_curves(METHODS, runs=2)}, band_of="2 seeds")
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(METHODS)
    styles = {(line.get_color(), line.get_linestyle()) for line in legend.get_lines()}
    assert len(styles) == len(METHODS)
    labelled_figure = plot_lce_against_bandwidth({"PCA": make_curves(METHODS[:4])})
    assert not labelled_figure.legends and {
        text.get_text() for text in labelled_figure.axes[0].texts
    } >= set(METHODS[:4])


def test_errors_on_logarithmic_axes_begin_below_the_smallest_mean() -> None:
    curves = make_curves(METHODS, runs=3)
    # The band extends below 0, and the mean is the smallest of all.
    curves.lce["none"][:, 3] = [0.0, 0.0, 0.001]
    figure = plot_lce_against_bandwidth(
        {"a": curves, "b": make_curves(METHODS, runs=3)}, band_of="3 seeds", log=True
    )
    mlce, lce, rows = figure.axes[:3]
    assert [axes.get_yscale() for axes in (mlce, lce, rows)] == ["log"] * 3
    assert lce.get_ylim()[0] == figure.axes[4].get_ylim()[0] == pytest.approx(0.8 * 0.001 / 3)
    assert rows.get_ylim()[0] == 1
    assert len(plot_lce_against_bandwidth({"a": make_curves()}, log=True).legends) == 1


@pytest.mark.parametrize(
    "names",
    [
        ("kdf",),
        ("random_forest", "kdf"),
        (LONG_NAME, "kdf", "isotonic", "temperature"),
        METHODS,
        (LONG_NAME, *METHODS),
    ],
)
@pytest.mark.parametrize(
    ("spaces", "runs", "log"),
    others_slow([(1, 0, False), (1, 2, True), (2, 2, False), (3, 2, True)], (3, 2, True)),
)
def test_curves_are_legible(
    names: tuple[str, ...], spaces: int, runs: int, log: bool, assert_legible
) -> None:
    spaces_by_title = {f"space {i}": make_curves(names, runs) for i in range(spaces)}
    assert_legible(
        plot_lce_against_bandwidth(spaces_by_title, band_of="2 seeds" if runs else None, log=log)
    )


KDF = make_curves(("kdf",))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bandwidths": np.array([0.2])}, "two or more increasing bandwidths above 0 in 'PCA'"),
        (
            {"bandwidths": np.array([0.2, 0.1, 0.4, 0.8])},
            "two or more increasing bandwidths above 0",
        ),
        (
            {"bandwidths": np.array([0.0, 0.1, 0.4, 0.8])},
            "two or more increasing bandwidths above 0",
        ),
        (
            {"lce": {"isotonic": np.zeros(4)}},
            "every panel must have the same curves, ['kdf'], got ['isotonic'] in 'mean LCE' of 'PCA'",
        ),
        ({"mlce": {}}, "every panel must have the same curves, [], got [] in 'MLCE' of 'PCA'"),
        (
            {"mlce": {"kdf": np.full(4, np.nan)}},
            (
                "MLCE of 'kdf' in 'PCA' must be a finite number, or one from some run, for each of"
                " 4 bandwidths"
            ),
        ),
        ({"mlce": {"kdf": np.zeros((2, 3))}}, "for each of 4 bandwidths, got shape (2, 3)"),
        (
            {"mlce": {"kdf": np.zeros((2, 4))}},
            "band_of must describe how runs differ, e.g. '60 seeds'",
        ),
    ],
)
def test_invalid_curves_raise(changes, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        plot_lce_against_bandwidth({"PCA": replace(KDF, **changes)})


def test_missing_space_and_different_names_raise() -> None:
    with pytest.raises(ValueError, match="needs a space"):
        plot_lce_against_bandwidth({})
    with pytest.raises(
        ValueError,
        match=re.escape("the same curves, ['kdf'], got ['random forest', 'kdf'] in 'MLCE' of 'b'"),
    ):
        plot_lce_against_bandwidth({"a": KDF, "b": make_curves()})
