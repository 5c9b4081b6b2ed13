"""Tests of pages of many data sets."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.p1.figures.panels import RepeatedCurves, plot_dataset_pages

NAMES = ["parent", "KDF or KDN", "isotonic", "sigmoid", "gated isotonic"]
RADII = np.linspace(1, 5, 9)


def make_quantities(sizes, level: float = 0.1, names=NAMES) -> dict[str, RepeatedCurves]:
    rng = np.random.default_rng(int(1000 * level))
    errors = {name: level + 0.02 * rng.random((3, len(sizes))) for name in names}
    confidences = {name: 0.6 + 0.1 * rng.random((3, len(RADII))) for name in names}
    return {
        "error": RepeatedCurves(np.array(sizes, dtype=float), errors, "rows", log=True),
        "max confidence": RepeatedCurves(RADII, confidences, "radius", prior=0.5),
    }


def make_dataset_rows(n: int, sizes=(100, 900)) -> dict:
    return {
        f"set {i}": {
            "forest": make_quantities(sizes, 0.1 + 0.01 * i),
            "network": make_quantities(sizes),
        }
        for i in range(n)
    }


@pytest.mark.slow
@pytest.mark.parametrize(("n", "pages"), [(1, [1]), (10, [10]), (11, [10, 1]), (25, [10, 10, 5])])
def test_data_sets_are_distributed_over_pages(n, pages, texts_of) -> None:
    figures = plot_dataset_pages(make_dataset_rows(n), band_of="3 seeds")
    names_by_page = [
        [text for text in texts_of(figure) if text.startswith("set ")] for figure in figures
    ]
    assert [len(names) for names in names_by_page] == pages
    assert [name for names in names_by_page for name in names] == [f"set {i}" for i in range(n)]
    assert [len(figure.axes) for figure in figures] == [4 * names for names in pages]


def test_lines_are_medians_of_the_data_set() -> None:
    panels = make_dataset_rows(2)
    (figure,) = plot_dataset_pages(panels, band_of="3 seeds")
    axes = figure.axes[4]  # the first panel of the second row
    for name, values in panels["set 1"]["forest"]["error"].curves.items():
        (line,) = [line for line in axes.lines if line.get_label() == name]
        np.testing.assert_array_equal(line.get_ydata(), np.sort(values, axis=0)[1])


def test_single_size_gives_points_and_bars() -> None:
    panels = make_dataset_rows(1, sizes=(900,))
    (figure,) = plot_dataset_pages(panels, band_of="3 seeds")
    axes = figure.axes[0]
    for i, (name, values) in enumerate(panels["set 0"]["forest"]["error"].curves.items()):
        (point,) = [line for line in axes.lines if line.get_label() == name]
        assert (list(point.get_xdata()), list(point.get_ydata())) == ([i], [np.median(values)])
        (bar,) = [line for line in axes.lines if line.get_gid() == f"band {name}"]
        np.testing.assert_allclose(bar.get_ydata(), np.quantile(values, [0.25, 0.75]))


@pytest.mark.parametrize(
    ("band_of", "notes"),
    [("3 seeds", ["lines: medians, bands: 25 to 75 % of 3 seeds"]), (None, [])],
)
def test_bands_are_noted_if_there_are_repetitions(band_of, notes) -> None:
    (figure,) = plot_dataset_pages(make_dataset_rows(1), band_of=band_of)
    assert [text.get_text() for text in figure.texts if "band" in text.get_text()] == notes


def test_panels_of_a_column_share_the_parameter_range() -> None:
    panels = make_dataset_rows(1, sizes=(100, 300)) | {
        "large": {"forest": make_quantities((120, 9000)), "network": make_quantities((120, 9000))}
    }
    (figure,) = plot_dataset_pages(panels, band_of="3 seeds")
    assert [axes.get_xlim() for axes in figure.axes if axes.get_xscale() == "log"] == [
        (100.0, 9000.0)
    ] * 4


@pytest.mark.parametrize("sizes", [(900,), (100, 900)])
def test_text_is_legible(sizes, assert_legible) -> None:
    names = [
        "analcatdata_authorship",
        "climate_model_simulation_crashes",
        "wdbc",
        "onelongnamewithoutanyseparatoratall",
    ]
    for figure in plot_dataset_pages(
        dict(zip(names, make_dataset_rows(4, sizes).values(), strict=True)), band_of="10 seeds"
    ):
        assert figure.get_size_inches()[0] == 7.0
        assert_legible(figure)


def test_lowest_panel_of_each_column_is_labelled() -> None:
    panels = make_dataset_rows(2)
    del panels["set 1"]["network"]
    (figure,) = plot_dataset_pages(panels, band_of="3 seeds")
    assert len(figure.axes) == 6
    assert [axes.get_xlabel() for axes in figure.axes] == [
        "",
        "",
        "rows (log)",
        "radius",
        "rows (log)",
        "radius",
    ]


@pytest.mark.parametrize(
    ("panels", "options", "message"),
    [
        ({}, {}, "a panel in at least one row"),
        ({"a": {}}, {}, "a panel in at least one row"),
        (make_dataset_rows(1), {"rows": 0}, "rows must be at least 1, got 0"),
        (
            {
                "a": {
                    "forest": make_quantities((100, 900)),
                    "network": make_quantities((100, 900), names=NAMES[:3]),
                }
            },
            {},
            "'error' of 'network' in 'a'",
        ),
        (
            {"a": {"forest": make_quantities((900, 100))}},
            {},
            "'error' of 'forest' in 'a' needs one or more increasing values of rows",
        ),
    ],
)
def test_invalid_input_raises(panels, options, message) -> None:
    with pytest.raises(ValueError, match=message):
        plot_dataset_pages(panels, band_of="3 seeds", **options)
