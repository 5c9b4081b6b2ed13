from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binom, norm

from kdgraph.data.simulations import Spiral


def polar(r, angle) -> np.ndarray:
    return np.column_stack([r * np.cos(angle), r * np.sin(angle)])


def density_by_order(r: float, angle: float, m: int, std: float, turns: float = 2.0) -> np.ndarray:
    """Return the density of the angle at radius r for both classes: Float[2].

    It is a sum over the position of the row in the order and over turns of the circle.
    """
    position = np.arange(m)
    weight = binom.pmf(position, m - 1, r)
    images = 2 * np.pi * np.arange(-30, 31)
    mean = np.linspace(0, 2 * np.pi * turns, m)
    return np.array(
        [
            (weight * norm.pdf(angle - c * np.pi + images[:, None], mean, std).sum(axis=0)).sum()
            for c in (0, 1)
        ]
    )


@pytest.mark.parametrize(("n", "std"), [(2, 0.8), (20, 0.8), (200, 0.3), (200, 0.1), (2000, 3.0)])
def test_sample_posterior_is_the_sum_over_positions_in_order(n, std):
    rng = np.random.default_rng(0)
    r, angle = rng.uniform(0, 1, 40), rng.uniform(-np.pi, np.pi, 40)
    density = np.array([density_by_order(a, b, n // 2, std) for a, b in zip(r, angle, strict=True)])
    has_density = density.sum(axis=1) > 1e-3
    expected = density / density.sum(axis=1, keepdims=True)
    assert has_density.sum() > 10
    np.testing.assert_allclose(
        Spiral(noise_std=std).posterior(polar(r, angle), n=n)[has_density],
        expected[has_density],
        atol=2e-6,
    )
    np.testing.assert_allclose(
        Spiral(noise_std=std).density(polar(r, angle), n=n)[has_density],
        density.mean(axis=1)[has_density] / r[has_density],
        rtol=1e-6,
    )


def test_population_posterior_is_a_ratio_of_wrapped_normals():
    rng = np.random.default_rng(0)
    r, angle = rng.uniform(0, 1, 200), rng.uniform(-np.pi, np.pi, 200)
    for std in (0.05, 0.3, 0.8, 5.0, 40.0):
        images = 2 * np.pi * np.arange(-80, 81)
        logs = [
            logsumexp(
                norm.logpdf((angle - 4 * np.pi * r - c * np.pi)[:, None] + images, scale=std),
                axis=1,
            )
            for c in (0, 1)
        ]
        expected = np.exp(logs[0] - logsumexp(logs, axis=0))
        np.testing.assert_allclose(
            Spiral(noise_std=std).posterior(polar(r, angle))[:, 0], expected, atol=1e-9
        )


def test_sample_posterior_tends_to_the_population_posterior():
    X = polar(np.linspace(0.05, 0.95, 50), np.linspace(0, 40, 50))
    gaps = [
        np.abs(Spiral().posterior(X, n=n) - Spiral().posterior(X)).max()
        for n in (100, 1000, 100_000)
    ]
    assert gaps[0] > 0.1 > gaps[1] > gaps[2]
    assert gaps[2] < 1e-3


def test_sample_posterior_is_close_to_a_wider_normal():
    """Compare with a normal of variance .8² + (4π)² r(1-r)/(n/2) for n = 1000."""
    r, angle = np.linspace(0.02, 0.98, 60), np.linspace(0, 50, 60)
    std = np.sqrt(0.64 + (4 * np.pi) ** 2 * r * (1 - r) / 500)
    images = 2 * np.pi * np.arange(-5, 6)[:, None]
    first, second = (
        norm.pdf(
            np.remainder(angle - 4 * np.pi * r - c * np.pi, 2 * np.pi) + images, scale=std
        ).sum(axis=0)
        for c in (0, 1)
    )
    np.testing.assert_allclose(
        Spiral().posterior(polar(r, angle), n=1000)[:, 0], first / (first + second), atol=0.005
    )


def test_sample_posterior_agrees_with_monte_carlo():
    """Draw one row of each of 20,000 spirals of 20 rows, so that rows are independent.

    In cells, z² has mean 1 with standard deviation .1 for 200 cells.
    """
    simulation, rng = Spiral(), np.random.default_rng(5)
    rows = [simulation.sample(20, rng) for _ in range(20_000)]
    X, y = np.array([X[0] for X, _ in rows]), np.array([y[0] for _, y in rows])
    cell = np.floor((X + 1) * 8).astype(int) @ [16, 1]

    def mean_square(p: np.ndarray) -> tuple[float, int]:
        variance = np.bincount(cell, p * (1 - p))
        z2 = (np.bincount(cell, (y == 0) - p) ** 2)[variance > 3] / variance[variance > 3]
        return z2.mean(), len(z2)

    value, cells = mean_square(simulation.posterior(X, n=20)[:, 0])
    assert abs(value - 1) < 5 * np.sqrt(2 / cells)
    assert mean_square(simulation.posterior(X)[:, 0])[0] > 2


def test_only_the_sample_posterior_is_calibrated_on_samples():
    """Compare the Brier score with its expected value Σ p(1-p), in standard errors.

    There are 120 samples of 1000 rows.
    """
    simulation = Spiral()
    excess = {1000: [], None: []}
    for seed in range(120):
        X, y = simulation.sample(1000, np.random.default_rng(seed))
        for n, values in excess.items():
            p = simulation.posterior(X, n=n)[:, 0]
            values.append(((y == 0) - p) @ ((y == 0) - p) / 1000 - (p * (1 - p)).mean())
    z = {
        n: np.mean(values) / (np.std(values, ddof=1) / np.sqrt(120)) for n, values in excess.items()
    }
    assert abs(z[1000]) < 3.5
    assert z[None] > 6


def test_half_turn_swaps_the_classes():
    X = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    X[0] = 0
    for n in (None, 30, 1000):
        np.testing.assert_allclose(
            Spiral().posterior(-X, n=n), Spiral().posterior(X, n=n)[:, ::-1], atol=1e-12
        )
    assert Spiral().posterior([[0.0, 0.0]]).tolist() == [[0.5, 0.5]]


def test_density_integrates_to_one_over_the_angle():
    """Integrate over the angle by the trapezoidal rule, exact to 1e-9 for periodic functions."""
    r, angle = np.meshgrid(
        np.linspace(0.1, 0.9, 5), np.linspace(0, 2 * np.pi, 256, endpoint=False), indexing="ij"
    )
    for n in (None, 50):
        mass = Spiral().density(polar(r.ravel(), angle.ravel()), n=n).reshape(r.shape) * r
        np.testing.assert_allclose(mass.mean(axis=1) * 2 * np.pi, 1, atol=1e-9)


def test_only_mirrored_classes_are_negatives_of_each_other():
    for mirrored in (True, False):
        X, y = Spiral(mirrored=mirrored).sample(500, np.random.default_rng(0))
        first, second = X[y == 0], -X[y == 1]
        pairs = {tuple(row) for row in first} & {tuple(row) for row in second}
        assert len(pairs) == (250 if mirrored else 0)


def test_radii_are_uniform_and_increase_with_the_angle():
    X, y = Spiral(noise_std=0.05).sample(4000, np.random.default_rng(0))
    r = np.hypot(*X[y == 0].T)
    assert np.mean(r) == pytest.approx(0.5, abs=0.03)  # 5 standard errors of 2000 uniform radii
    from_arm = np.angle(np.exp(1j * (np.arctan2(X[y == 0, 1], X[y == 0, 0]) - 4 * np.pi * r)))
    assert (
        np.abs(from_arm).max() < 1.2
    )  # 4π times the largest gap of an empirical distribution, 0.06, and 5 x 0.05
