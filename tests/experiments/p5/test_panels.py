"""What the drawn panels hold, of rows whose numbers are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from experiments.p5.panels import (
    Fit,
    Plane,
    line_and_curve,
    predicted_against_observed,
    valley_panels,
)


def artist(axes, gid):
    (result,) = [each for each in axes.get_children() if each.get_gid() == gid]
    return result


def test_the_highlighted_row_has_its_density_and_pit_value():
    x = np.linspace(2, 20, 50)
    fit = Fit(
        x[::-1].copy(),
        y=5 * x[::-1] ** 2,
        true=5 * x[::-1] ** 2,
        mean=100 * x[::-1] - 300,
        sd=400.0,
    )
    row = 5
    rows, means, density, cells = line_and_curve(
        fit, [49, row], [np.arange(40, 50), np.arange(8)]
    ).axes
    at, height = artist(density, "density").get_data()
    assert np.trapezoid(height, at) == pytest.approx(1, abs=1e-3)
    assert at[height.argmax()] == pytest.approx(fit.mean[row], abs=10)
    share = norm.cdf(fit.y[row], fit.mean[row], 400.0)
    assert f"{share:.4f}" in density.texts[0].get_text()
    (truth,), (line,) = (
        [each for each in means.lines if each.get_gid() == gid] for gid in ("truth", "line")
    )
    assert (np.diff(truth.get_xdata()) > 0).all() and line.get_ydata()[0] == -100
    assert artist(rows, "density").get_xdata().min() == pytest.approx(fit.x[row], abs=0.2)
    assert [len(each.get_offsets()) for each in cells.collections] == [50, 8, 10]


def test_a_prediction_that_is_right_lies_on_zero():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 2))
    true = (X**2).sum(axis=1)
    figure = valley_panels(
        Plane(X, true + 1, true, {"network": true + 2, "local": true}),
        lambda at: (at**2).sum(axis=1),
    )
    titled = {axes.get_title(loc="left")[:1]: axes for axes in figure.axes}
    errors = titled["d"]
    assert np.allclose(artist(errors, "rows local").get_offsets()[:, 1], 0)
    assert np.allclose(artist(errors, "rows network").get_offsets()[:, 1], 2)
    assert np.allclose(artist(titled["c"], "predicted").get_array(), true + 2)


def test_prices_outside_the_axes_are_counted():
    y = np.linspace(100, 1000, 2000)
    mean = y.copy()
    mean[0] = 1e5
    (axes,) = predicted_against_observed(y, mean, [10, 1500], "price").axes
    assert axes.get_title(loc="left") == "2,000 test rows, 1 predicted above"
    assert [text.get_text() for text in axes.texts] == [f"{y[10]:,.0f}", f"{y[1500]:,.0f}"]
