"""Tests of confidence against a shift."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.figures import plot_confidence_against_shift
from kdgraph.figures.style import BLACK, BLUE, GREY
from tests.variations import others_slow

VALUES = {
    "intensity": np.array([0.0, 100, 127, 255]),
    "epsilon of the blend": np.array([0.0, 0.5, 1]),
}
ID_VALUES = {"intensity": [127], "epsilon of the blend": [0, 1]}
CURVES = {
    "intensity": {"cnn": np.array([0.9, 0.95, 1, 0.97]), "kdn": np.array([0.5, 0.8, 0.98, 0.55])},
    "epsilon of the blend": {"cnn": np.array([1, 0.95, 1]), "kdn": np.array([0.97, 0.5, 0.99])},
}


def lines_by_gid(axes, gid: str) -> list:
    return [line for line in axes.lines if line.get_gid() == gid]


def test_panels_contain_the_curves_from_left_to_right() -> None:
    figure = plot_confidence_against_shift(CURVES, VALUES, 0.5, id_values=ID_VALUES)
    assert [axes.get_xlabel() for axes in figure.axes] == list(CURVES)
    assert figure.axes[0].get_position().x1 < figure.axes[1].get_position().x0
    assert [axes.get_ylabel() for axes in figure.axes] == ["mean max confidence", ""]
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    for axes, (panel, curves) in zip(figure.axes, CURVES.items(), strict=True):
        lines = {line.get_label(): line for line in axes.lines}
        for name, values in curves.items():
            np.testing.assert_array_equal(lines[name].get_xdata(), VALUES[panel])
            np.testing.assert_array_equal(lines[name].get_ydata(), values)
        assert (lines["cnn"].get_color(), lines["cnn"].get_linestyle()) == (GREY, "--")
        assert (lines["kdn"].get_color(), lines["kdn"].get_linestyle()) == (BLUE, "-")
        (prior,) = lines_by_gid(axes, "prior")
        assert (set(prior.get_ydata()), prior.get_color()) == ({0.5}, BLACK)


def test_id_values_are_marked_inside_the_panel() -> None:
    figure = plot_confidence_against_shift(CURVES, VALUES, 0.5, id_values=ID_VALUES)
    for axes, expected in zip(figure.axes, ID_VALUES.values(), strict=True):
        assert [line.get_xdata()[0] for line in lines_by_gid(axes, "id_value")] == expected
        assert [text.xy[0] for text in axes.texts if text.get_text() == "ID"] == expected
        low, high = axes.get_xlim()
        assert low < min(expected) and max(expected) < high
    assert not lines_by_gid(plot_confidence_against_shift(CURVES, VALUES, 0.5).axes[0], "id_value")


def test_last_panel_of_a_row_names_the_curves(texts_of) -> None:
    figure = plot_confidence_against_shift(CURVES, VALUES, 0.5)
    assert sorted(t for t in texts_of(figure) if t in ("cnn", "kdn", "prior 0.500")) == [
        "cnn",
        "kdn",
        "prior 0.500",
    ]
    assert {text.get_text() for text in figure.axes[1].texts} == {"cnn", "kdn", "prior 0.500"}


def test_bands_are_drawn_and_named(texts_of) -> None:
    kdn = CURVES["intensity"]["kdn"]
    bands = {"intensity": {"kdn": (kdn - 0.2, kdn)}}
    figure = plot_confidence_against_shift(
        CURVES, VALUES, 0.5, bands=bands, band_of="25 to 75 % of 10 seeds"
    )
    (band,) = [artist for artist in figure.axes[0].collections if artist.get_gid() == "band kdn"]
    assert band.get_paths()[0].vertices[:, 1].min() == pytest.approx(0.3)
    assert figure.axes[0].get_ylim()[0] < 0.3
    assert "bands: 25 to 75 % of 10 seeds" in texts_of(figure)


@pytest.mark.parametrize("n", others_slow([1, 2, 3, 4, 7]))
def test_any_number_of_panels_is_legible(n: int, assert_legible) -> None:
    names = [
        "convolutional",
        "kernel_density_network-isotonic-density_gate",
        "isotonic",
        "kdn",
        "sigmoid",
    ]
    values = {f"parameter {i} of the family": np.linspace(0, 10.0**i, 17) for i in range(n)}
    curves = {
        panel: {name: np.linspace(1, 0.5 + k / 1000, 17) for k, name in enumerate(names)}
        for panel in values
    }
    bands = {panel: {"kdn": (np.full(17, 0.4), np.full(17, 0.9))} for panel in values}
    id_values = {panel: [x[0], x[-1]] for panel, x in values.items()}
    figure = plot_confidence_against_shift(
        curves, values, 0.5, id_values=id_values, bands=bands, band_of="25 to 75 % of 10 seeds"
    )
    assert (
        figure.get_size_inches()[0] == pytest.approx(7.0)
        if n >= 3
        else figure.get_size_inches()[0] < 6
    )
    assert_legible(figure)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"curves": {}, "values": {}}, "needs a panel and values for each"),
        ({"values": {"intensity": [0, 1, 2, 3]}}, "needs a panel and values for each"),
        (
            {"values": VALUES | {"intensity": [0, 2, 1, 3]}},
            "the panel 'intensity' needs two or more increasing values",
        ),
        (
            {"curves": CURVES | {"intensity": {"cnn": [1, 1, 1, 1]}}},
            r"every panel must have the same curves, \['cnn'\], got \['cnn', 'kdn'\]",
        ),
        (
            {"curves": CURVES | {"intensity": {"cnn": [1, 1], "kdn": [1, 1, 1, 1]}}},
            (
                r"the curve 'cnn' of 'intensity' must hold one finite number for each of 4 values,"
                r" got shape \(2,\)"
            ),
        ),
        ({"bands": {"intensity": {"kdn": (0, 1)}}}, "band_of must describe the bands"),
        (
            {"bands": {"intensity": {"isotonic": (0, 1)}}, "band_of": "10 seeds"},
            r"bands without a curve: \['isotonic'\]",
        ),
    ],
)
def test_invalid_input_raises(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plot_confidence_against_shift(
            **{"curves": CURVES, "values": VALUES, "prior": 0.5, **changes}
        )
