from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from kdgraph.data.simulations import Circle
from tests.variations import others_slow


def density_by_angle(x1: float, x2: float, w: float, s: float) -> float:
    """Return the density of a class before the cut, integrated over the angle in four quadrants."""

    def integrand(t: float) -> float:
        cos, sin = np.cos(t), np.sin(t)
        return norm.pdf(x1 / cos, w, s) * norm.pdf(x2 / sin, w, s) / abs(cos * sin)

    peaks = [
        np.arccos(np.clip(abs(x1) / w, 0, 1)),
        np.arcsin(np.clip(abs(x2) / w, 0, 1)),
        np.arctan2(abs(x2), abs(x1)),
    ]
    total = 0.0
    for quadrant in range(4):
        quadrant_peaks = peaks if quadrant % 2 == 0 else [np.pi / 2 - p for p in peaks]
        low, high = quadrant * np.pi / 2, (quadrant + 1) * np.pi / 2
        inside = [low + p for p in quadrant_peaks if 1e-9 < p < np.pi / 2 - 1e-9]
        total += quad(
            integrand,
            low + 1e-12,
            high - 1e-12,
            points=inside,
            limit=2000,
            epsabs=1e-13,
            epsrel=1e-10,
        )[0]
    return total / (2 * np.pi)


def density_on_axis(x2: float, w: float, s: float) -> float:
    """Return the limit of the density as x1 → 0.

    There t is near π/2 or -π/2, where x1 = a cos t has density 1/(2π |a|) at 0. Radii below 0.02
    are left out: they have probability 1e-13 and make the density infinite on the axis itself.
    """
    inverse = quad(lambda a: norm.pdf(a, w, s) / a, 0.02, w + 9 * s, points=[w], epsabs=1e-13)[0]
    return inverse * (norm.pdf(x2, w, s) + norm.pdf(-x2, w, s)) / (2 * np.pi)


@pytest.mark.parametrize("s", others_slow([0.1, 0.25]))
@pytest.mark.parametrize(
    "point", [(0.5, 0.5), (0.9, -0.1), (-0.3, 0.7), (0.02, 0.99), (0.6, -0.005), (0.2, 0.1)]
)
def test_density_per_axis_is_the_integral_over_the_angle(point, s):
    simulation = Circle(noise_std=s)
    expected = [
        density_by_angle(*point, w, s) / z
        for w, z in zip(simulation.radii, simulation.box_fractions, strict=True)
    ]
    np.testing.assert_allclose(
        np.exp(simulation.log_densities([point])[0]), expected, rtol=1e-7, atol=1e-12
    )


@pytest.mark.parametrize("x2", [0.75, 1.0, 0.5, -0.9])
@pytest.mark.parametrize("off_axis", [0.0, -0.0, 1e-300, 8.9e-16])
def test_density_on_the_axes_is_its_limit(x2, off_axis):
    """Compare on the axes and at 8.9e-16, which the paper's grid has instead of 0.

    The relative tolerance 1e-6 is the contribution of radii below 0.02.
    """
    simulation = Circle()
    expected = [
        density_on_axis(x2, w, 0.1) / z
        for w, z in zip(simulation.radii, simulation.box_fractions, strict=True)
    ]
    for point in ([off_axis, x2], [x2, off_axis]):
        np.testing.assert_allclose(
            np.exp(simulation.log_densities([point])[0]), expected, rtol=1e-6
        )


def test_posterior_is_continuous_at_an_axis():
    x1 = np.array([0.0, 1e-14, 1e-9, 1e-6, 1e-4])
    p = Circle().posterior(np.column_stack([x1, np.full(5, 0.85)]))[:, 0]
    np.testing.assert_allclose(p, p[0], atol=1e-5)


def test_density_of_a_row_does_not_depend_on_other_rows():
    X = np.random.default_rng(0).uniform(-1, 1, (700, 2))
    X[::50, 0] = 0
    together = Circle().log_densities(X)
    alone = np.vstack([Circle().log_densities(row[None]) for row in X[:100]])
    np.testing.assert_allclose(together[:100], alone, rtol=1e-11)


@pytest.mark.parametrize("noise", ["per_axis", "radial"])
def test_circle_has_the_symmetries_of_the_square(noise):
    X = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    simulation = Circle(noise=noise)
    expected = simulation.log_densities(X)
    for mirrored in (X[:, ::-1], X * [-1, 1], -X):
        np.testing.assert_allclose(simulation.log_densities(mirrored), expected, rtol=1e-11)


@pytest.mark.parametrize("noise", ["per_axis", "radial"])
def test_box_fractions_agree_with_paper_and_monte_carlo(noise):
    """Compare with the published .775 and .998, and with 200,000 draws within 5 standard errors."""
    rng, simulation = np.random.default_rng(0), Circle(noise=noise)
    np.testing.assert_allclose(simulation.box_fractions, [0.775, 0.998], atol=5e-4)
    for c, z in enumerate(simulation.box_fractions):
        inside = (
            (np.abs(simulation._draw_candidates(np.full(200_000, c), rng)) < 1).all(axis=1).mean()
        )
        assert abs(inside - z) < 5 * np.sqrt(z * (1 - z) / 200_000)


def test_radial_density_integrates_to_the_distribution_of_radii():
    """Check that the mass within r < 1 is P(radius < r), by the trapezoidal rule to 1e-4."""
    r = np.linspace(1e-6, 0.99, 1000)
    simulation = Circle(noise="radial")
    density = np.exp(simulation.log_densities(np.column_stack([r / np.sqrt(2), r / np.sqrt(2)])))
    mass = np.trapezoid(density * (2 * np.pi * r)[:, None], r, axis=0)
    expected = norm.cdf(0.99, simulation.radii, 0.1) / simulation.box_fractions
    np.testing.assert_allclose(mass, expected, atol=1e-4)


def test_swapped_radii_swap_the_classes():
    X = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    np.testing.assert_allclose(
        Circle(radii=[0.75, 1.0]).posterior(X), Circle().posterior(X)[:, ::-1], atol=1e-14
    )
