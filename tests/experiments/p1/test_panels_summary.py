"""Tests of the summary of many simulations."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.p1.figures.panels import RepeatedCurves, plot_simulation_summary
from kdgraph.figures.style import GREY

ROWS = np.array([50.0, 100, 1000, 10000])
RADII = np.linspace(0, 10, 21)


def repeated_curves(
    level: float, names=("parent", "geodesic", "Euclidean"), x=ROWS, **options
) -> RepeatedCurves:
    rng = np.random.default_rng(int(1000 * level))
    return RepeatedCurves(
        x,
        {name: level + 0.1 * rng.random((5, len(x))) for name in names},
        **{"x_label": "training rows", "log": True} | options,
    )


def curves_by_group(level: float) -> dict:
    confidence_options = {
        "x": RADII,
        "x_label": "radius",
        "log": False,
        "prior": 0.5,
        "id_until": 1.0,
    }
    return {
        group: {
            "error": repeated_curves(level + shift),
            "Hellinger": repeated_curves(level),
            "max confidence": repeated_curves(0.6, **confidence_options),
        }
        for group, shift in (("random forest and KDF", 0.0), ("network and KDN", 0.2))
    }


def class_points(n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(0).uniform(-1, 1, (n, 2)), np.arange(n) % 2


@pytest.fixture
def figure():
    return plot_simulation_summary(
        {"spiral": class_points(), "circle": class_points()},
        {"spiral": curves_by_group(0.1), "circle": curves_by_group(0.3)},
        band_of="5 seeds",
    )


def test_lines_are_medians_and_bands_are_quartiles(figure) -> None:
    axes = figure.axes[1]  # the first panel after the data
    expected = curves_by_group(0.1)["random forest and KDF"]["error"].curves
    for name, values in expected.items():
        (line,) = [line for line in axes.lines if line.get_label() == name]
        np.testing.assert_array_equal(line.get_xdata(), ROWS)
        quartile_1, median, quartile_3 = np.sort(values, axis=0)[1:4]  # of five repetitions
        np.testing.assert_allclose(line.get_ydata(), median, rtol=1e-15)
        (band,) = [artist for artist in axes.collections if artist.get_gid() == f"band {name}"]
        edges = {tuple(vertex) for vertex in band.get_paths()[0].vertices}
        assert set(zip(ROWS, quartile_1, strict=True)) <= edges
        assert set(zip(ROWS, quartile_3, strict=True)) <= edges
    assert (axes.lines[0].get_color(), axes.get_xscale()) == (GREY, "log")


def test_missing_repetition_is_ignored(figure) -> None:
    curves = repeated_curves(0.1, names=("parent",))
    curves.curves["parent"][0] = np.nan
    axes = plot_simulation_summary(
        {"spiral": class_points()}, {"spiral": {"forest": {"error": curves}}}, band_of="5 seeds"
    ).axes[1]
    np.testing.assert_allclose(
        axes.lines[0].get_ydata(), np.median(curves.curves["parent"][1:], axis=0), rtol=1e-15
    )


def test_quantities_share_a_scale_within_a_row_only(figure) -> None:
    first, second = figure.axes[:7], figure.axes[7:]
    for row in (first, second):
        for left, right in zip(row[1:4], row[4:7], strict=True):
            assert left.get_ylim() == right.get_ylim()
            assert all(
                left.get_ylim()[0] < band.get_datalim(left.transData).y0
                for band in left.collections
            )
    assert first[1].get_ylim() != second[1].get_ylim()


def test_prior_and_training_region_are_marked_if_known(figure) -> None:
    marks_by_panel = [
        {artist.get_gid() for artist in (*axes.lines, *axes.patches)} & {"prior", "id_region"}
        for axes in figure.axes[:4]
    ]
    assert marks_by_panel == [set(), set(), set(), {"prior", "id_region"}]


def test_only_the_last_row_of_a_parameter_is_labelled() -> None:
    trunk = {
        group: {
            "error": repeated_curves(0.2, x=np.array([1.0, 50, 100]), x_label="features", log=False)
        }
        for group in curves_by_group(0.1)
    }
    data = dict.fromkeys(["spiral", "circle", "Trunk"], class_points())
    figure = plot_simulation_summary(
        data,
        {"spiral": curves_by_group(0.1), "circle": curves_by_group(0.3), "Trunk": trunk},
        band_of="5 seeds",
    )
    assert [axes.get_xlabel() for axes in figure.axes if axes.get_ylabel() == ""] == [
        *[""] * 6,
        *["training rows (log)", "training rows (log)", "radius"] * 2,
        *["features"] * 2,
    ]


@pytest.mark.parametrize("n", [1, 6])
def test_text_is_legible(n, assert_legible, texts_of) -> None:
    names = ["Gaussian XOR", "spiral", "circle", "sinewave", "polynomial", "Trunk"][:n]
    figure = plot_simulation_summary(
        dict.fromkeys(names, class_points()),
        {name: curves_by_group(0.05 * i) for i, name in enumerate(names)},
        band_of="10 seeds",
    )
    assert figure.get_size_inches()[0] == 7.0
    assert_legible(figure)
    assert {
        "parent",
        "geodesic",
        "Euclidean",
        "lines: medians, bands: 25 to 75 % of 10 seeds",
    } <= set(texts_of(figure))


def test_classes_have_the_colours_of_posterior_maps(figure) -> None:
    from kdgraph.figures import posterior_colormap

    (dots,) = [artist for artist in figure.axes[0].collections if artist.get_gid() == "points"]
    expected = posterior_colormap()([1.0, 0.0])  # class 0 has the colour of P(class 0) = 1
    np.testing.assert_allclose(dots.get_facecolors()[:2], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("data", "panels", "message"),
    [
        ({}, {}, "data and panels of the same rows"),
        ({"a": class_points()}, {"b": curves_by_group(0.1)}, "data and panels of the same rows"),
        ({"a": class_points()}, {"a": {}}, "a panel in at least one row"),
        (
            {"a": (np.zeros((3, 3)), np.zeros(3))},
            {"a": curves_by_group(0.1)},
            r"the data 'a' must be Float\[n, 2\]",
        ),
        (
            {"a": class_points()},
            {"a": {"g": {"q": repeated_curves(0.1, x=ROWS[::-1])}}},
            "'q' of 'g' in 'a' needs two or more increasing values",
        ),
        (
            {"a": class_points()},
            {"a": {"g": {"q": RepeatedCurves(ROWS, {"parent": np.zeros(4)}, "rows")}}},
            (
                r"the curve 'parent' of 'q' of 'g' in 'a' must have a row of 4 numbers for each"
                r" repetition.*got shape \(4,\)"
            ),
        ),
        (
            {"a": class_points()},
            {"a": {"g": {"q": RepeatedCurves(ROWS, {"parent": np.full((2, 4), np.nan)}, "rows")}}},
            "a number in each column",
        ),
    ],
)
def test_invalid_input_raises(data, panels, message) -> None:
    with pytest.raises(ValueError, match=message):
        plot_simulation_summary(data, panels, band_of="5 seeds")
