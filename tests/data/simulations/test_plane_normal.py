from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm, vonmises

from kdgraph.data.simulations.plane import (
    integrate,
    log_wrapped_normal,
    normal_interval_probability,
)


@pytest.mark.parametrize("std", [0.01, 0.5, 2.0, 8.9, 9.1, 1000.0])
def test_wrapped_normal_is_a_density_on_the_circle(std):
    angle = np.linspace(-np.pi, np.pi, 20_001)
    assert np.trapezoid(np.exp(log_wrapped_normal(angle, std)), angle) == pytest.approx(
        1, abs=1e-10
    )
    np.testing.assert_allclose(
        log_wrapped_normal(angle + 2 * np.pi, std),
        log_wrapped_normal(angle, std),
        rtol=1e-7,
        atol=1e-9,
    )


def test_wrapped_normal_with_a_width_for_each_angle():
    std = np.array([0.3, 0.8, 4.0])
    together = log_wrapped_normal(np.array([1.0, 3.0, -2.0]), std)
    alone = [
        log_wrapped_normal(np.array([a]), s)[0] for a, s in zip([1.0, 3.0, -2.0], std, strict=True)
    ]
    np.testing.assert_allclose(together, alone, rtol=1e-12)


def test_integral_and_interval_probability_agree_with_scipy():
    distribution = vonmises(3.0)
    assert integrate(distribution.pdf, -1, 2) == pytest.approx(
        quad(distribution.pdf, -1, 2)[0], abs=1e-10
    )
    np.testing.assert_allclose(
        normal_interval_probability(-1, np.array([0.0, 2.0]), 0.7),
        norm.cdf([0, 2], scale=0.7) - norm.cdf(-1, scale=0.7),
        atol=1e-15,
    )
