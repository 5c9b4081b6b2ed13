"""Tests of confidence against the radius."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from kdgraph.figures import plot_confidence_against_radius
from kdgraph.figures.style import spread_positions

RADII = np.array([0.0, 1.0, 2.0, 3.0])


def artist_by_gid(axes, gid: str):
    return next(artist for artist in axes.get_children() if artist.get_gid() == gid)


def test_curves_prior_and_shaded_region(curves, texts_of) -> None:
    figure = plot_confidence_against_radius(curves, RADII, 0.5, id_radius=1.5)
    (axes,) = figure.axes
    lines = {line.get_label(): line for line in axes.lines}
    for name, values in curves.items():
        np.testing.assert_array_equal(lines[name].get_xdata(), RADII)
        np.testing.assert_array_equal(lines[name].get_ydata(), values)
    assert set(artist_by_gid(axes, "prior").get_ydata()) == {0.5}
    region = artist_by_gid(axes, "id_region")
    assert (region.get_x(), region.get_width()) == (0, 1.5)
    assert {"random forest", "kdf", "prior 0.500", "ID", " OOD →"} <= set(texts_of(figure))
    assert figure.get_size_inches()[0] == 3.5


def test_bands_are_drawn_and_named(curves, texts_of) -> None:
    band = (curves["kdf"] - 0.1, curves["kdf"] + 0.05)
    figure = plot_confidence_against_radius(
        curves, RADII, 0.5, bands={"kdf": band}, band_of="25 to 75 % of 10 seeds"
    )
    vertices = artist_by_gid(figure.axes[0], "band kdf").get_paths()[0].vertices
    assert vertices[:, 1].min() == pytest.approx(0.4)
    assert figure.axes[0].get_ylim()[0] < 0.4
    assert "bands: 25 to 75 % of 10 seeds" in texts_of(figure)


def test_labels_are_at_line_ends_in_the_colour_of_the_line(curves) -> None:
    (axes,) = plot_confidence_against_radius(curves, RADII, 0.3).axes
    colors = {line.get_label(): line.get_color() for line in axes.lines}
    for label in axes.texts:
        if label.get_text() in curves:
            assert label.get_color() == colors[label.get_text()]
            assert label.xy[1] == pytest.approx(curves[label.get_text()][-1])


@pytest.mark.parametrize("prior", [0.01, 0.5, 0.99])
def test_labels_of_coinciding_line_ends_are_legible(prior: float, assert_legible) -> None:
    names = [
        "random_forest",
        "kdf",
        "isotonic",
        "gated_isotonic",
        "random_forest-kernel_density_forest-density_gate",
    ]
    curves = {name: np.linspace(0.95, prior, 4) for name in names}
    assert_legible(
        plot_confidence_against_radius(
            curves, RADII, prior, bands={"kdf": (curves["kdf"], curves["kdf"])}, band_of="10 seeds"
        )
    )


@pytest.mark.parametrize("largest_radius", [1.5, 20])
def test_region_names_are_legible_for_small_and_large_radii(
    curves, largest_radius: float, assert_legible
) -> None:
    assert_legible(plot_confidence_against_radius(curves, RADII / 3 * largest_radius, 0.5))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7), st.floats(0.01, 0.14))
@settings(max_examples=60, deadline=None)
def test_spread_positions_keep_order_gap_and_limits(targets: list[float], gap: float) -> None:
    positions = spread_positions(targets, gap, 0, 1)
    sorted_positions = positions[np.argsort(targets, kind="stable")]
    assert (np.diff(sorted_positions) >= gap - 1e-9).all()
    assert sorted_positions[0] >= -1e-9
    assert sorted_positions[-1] <= 1 + 1e-9


def test_spread_positions_minimise_squared_distances() -> None:
    targets, gap = np.array([0.1, 0.5, 0.52, 0.53, 0.9]), 0.1
    optimum = minimize(
        lambda z: ((z - targets) ** 2).sum(),
        targets,
        method="SLSQP",
        options={"ftol": 1e-14},
        constraints=[
            {"type": "ineq", "fun": lambda z, i=i, j=j: z[j] - z[i] - gap}
            for i, j in pairwise(range(5))
        ],
    )
    # The tolerance is that of the solver.
    np.testing.assert_allclose(spread_positions(targets, gap), optimum.x, atol=1e-6)
    np.testing.assert_array_equal(spread_positions([0.9, 0.1], gap), [0.9, 0.1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"curves": {}}, "needs a curve and two or more increasing radii"),
        ({"radii": [0, 2, 1, 3]}, "needs a curve and two or more increasing radii"),
        (
            {"curves": {"kdf": [1, 2]}},
            r"the curve 'kdf' must hold one finite number for each of 4 radii, got shape \(2,\)",
        ),
        ({"bands": {"kdf": (RADII, RADII)}}, "band_of must describe the bands"),
        (
            {"bands": {"isotonic": (RADII, RADII)}, "band_of": "10 seeds"},
            r"bands without a curve: \['isotonic'\]",
        ),
    ],
)
def test_invalid_input_raises(curves, change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plot_confidence_against_radius(**{"curves": curves, "radii": RADII, "prior": 0.5, **change})
