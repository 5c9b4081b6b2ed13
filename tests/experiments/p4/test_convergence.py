"""Tests of errors against the sample size."""

from __future__ import annotations

import re

import numpy as np
import pytest

from experiments.p4.convergence import plot_convergence

SIZES = np.array([100, 1000, 10_000, 100_000])


def random_errors(draws: int = 9) -> dict[str, np.ndarray]:
    noise = np.random.default_rng(0).lognormal(0, 0.2, (3, draws, 4))
    return {
        f"γ = {g}": c / np.sqrt(SIZES) * noise[i]
        for i, (g, c) in enumerate(((0.05, 8), (0.2, 4), (0.8, 1.6)))
    }


def plot_with(**changes):
    return plot_convergence(
        **{
            "n": SIZES,
            "errors": random_errors(),
            "slope": -0.5,
            "ylabel": "error",
            "draws_of": "9 samples",
        }
        | changes
    )


def test_lines_are_medians_and_bands_cut_extreme_draws(texts_of) -> None:
    errors = random_errors()
    figure = plot_with(errors=errors)
    (axes,) = figure.axes
    lines = {line.get_label(): line for line in axes.lines}
    bands = {artist.get_gid(): artist for artist in axes.collections}
    for name, values in errors.items():
        np.testing.assert_allclose(lines[name].get_ydata(), np.median(values, axis=0))
        first_vertices = bands[f"band {name}"].get_paths()[0].vertices
        first_vertices = first_vertices[first_vertices[:, 0] == 100, 1]
        inside = (values[:, 0] >= first_vertices.min()) & (values[:, 0] <= first_vertices.max())
        assert inside.sum() == 7  # of nine: the outermost two are cut
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert "lines: medians, bands: 5 to 95 % of 9 samples" in texts_of(figure)


@pytest.mark.parametrize(("slope", "name"), [(-0.5, "1/√n"), (-1.0, "slope -1")])
def test_rate_line_has_its_slope_and_is_above_all_curves(slope: float, name: str, texts_of) -> None:
    figure = plot_with(slope=slope)
    (rate,) = [line for line in figure.axes[0].lines if line.get_gid() == "rate"]
    x, y = np.log(rate.get_xdata()), np.log(rate.get_ydata())
    np.testing.assert_allclose(np.diff(y) / np.diff(x), slope)
    ratios = [rate.get_ydata() / np.median(values, axis=0) for values in random_errors().values()]
    assert np.min(ratios) == pytest.approx(1.4)
    assert name in texts_of(figure)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"errors": {"one": random_errors()["γ = 0.2"]}},
        {"errors": dict.fromkeys("abcdef", random_errors()["γ = 0.2"])},
    ],
)
def test_text_is_legible(changes, assert_legible) -> None:
    assert_legible(plot_with(**changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"errors": {}}, "convergence draws one to 6 curves, got 0"),
        (
            {"errors": dict.fromkeys("abcdefg", random_errors()["γ = 0.2"])},
            "convergence draws one to 6 curves, got 7",
        ),
        ({"n": SIZES[:1]}, "two or more increasing sizes above 0"),
        ({"n": SIZES[::-1]}, "two or more increasing sizes above 0"),
        (
            {"errors": {"a": np.zeros((2, 4))}},
            (
                "errors of 'a' must be finite and above 0, one for each draw and size, got shape"
                " (2, 4)"
            ),
        ),
        ({"errors": {"a": np.ones((2, 3))}}, "got shape (2, 3)"),
    ],
)
def test_invalid_input_raises(changes, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        plot_with(**changes)
