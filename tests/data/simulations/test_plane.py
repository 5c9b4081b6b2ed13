"""Properties of all simulations in the plane, and of Trunk where they apply."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kdgraph.data.dataset import Simulation
from kdgraph.data.simulations import (
    Circle,
    GaussianXor,
    Polynomial,
    Sinewave,
    Spiral,
    Trunk,
    paper_grid,
)
from kdgraph.data.simulations.plane import balanced_labels, posterior_from_log_densities
from kdgraph.errors import DataError
from tests.variations import others_slow

PLANE_SIMULATIONS = {
    "gaussian_xor": GaussianXor(),
    "spiral": Spiral(),
    "spiral of the text": Spiral(noise_std=0.3),
    "circle": Circle(),
    "circle of the text": Circle(radii=[0.75, 1.0], noise="radial"),
    "circle, wide": Circle(noise_std=0.4),
    "sinewave": Sinewave(),
    "sinewave of the text": Sinewave(frequency=np.pi, first="cos"),
    "polynomial": Polynomial(),
    "polynomial, other": Polynomial(noise_std=0.3, exponents=[2, 5]),
}
ALL_SIMULATIONS = {
    **PLANE_SIMULATIONS,
    "trunk": Trunk(),
    "trunk of the text": Trunk(truncated=False),
}
each_plane_simulation = pytest.mark.parametrize(
    "simulation", PLANE_SIMULATIONS.values(), ids=PLANE_SIMULATIONS.keys()
)
each_simulation = pytest.mark.parametrize(
    "simulation", ALL_SIMULATIONS.values(), ids=ALL_SIMULATIONS.keys()
)

EXTREME_POINTS = np.array(
    [
        [a, b]
        for a in (0.0, -0.0, 5e-324, 1e-15, 0.5, 1.0, -1.0, 1 + 1e-12, 1e6, -1e308)
        for b in (0.0, 1e-300, -0.7, 1.0, 1e6, 1e308)
    ]
)


@each_simulation
def test_posterior_is_a_distribution_at_awkward_points(simulation):
    for n in (None, 1, 2, 51, 100_000):
        p = simulation.posterior(EXTREME_POINTS, n=n)
        assert p.shape == (len(EXTREME_POINTS), 2)
        assert (p >= 0).all()
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=4e-16)


@settings(max_examples=60, deadline=None)
@given(
    X=arrays(np.float64, (3, 2), elements=st.floats(allow_nan=False, allow_infinity=False)),
    name=st.sampled_from(sorted(ALL_SIMULATIONS)),
)
def test_posterior_is_a_distribution_at_any_float(X, name):
    p = ALL_SIMULATIONS[name].posterior(X)
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=4e-16)


@settings(max_examples=60, deadline=None)
@given(
    X=arrays(np.float64, (3, 2), elements=st.floats(-1, 1)),
    name=st.sampled_from(sorted(PLANE_SIMULATIONS)),
    n=st.integers(1, 3000),
)
def test_posterior_on_paper_grid_lies_between_posterior_and_half(X, name, n):
    simulation = PLANE_SIMULATIONS[name]
    exact, grid = simulation.posterior(X), simulation.posterior_on_paper_grid(X)
    assert (np.abs(grid - 0.5) <= np.abs(exact - 0.5) + 1e-15).all()
    assert ((grid - 0.5) * (exact - 0.5) >= 0).all()
    np.testing.assert_allclose(simulation.posterior(X, n).sum(axis=1), 1, atol=4e-16)


@each_plane_simulation
def test_posterior_is_uniform_and_density_zero_outside_the_box(simulation):
    outside = np.array([[1.0001, 0], [0, -1.0001], [3, 3], [1e6, 0], [np.inf, 0]])
    assert (simulation.posterior(outside) == 0.5).all()
    assert (simulation.posterior_on_paper_grid(outside) == 0.5).all()
    assert (simulation.density(outside) == 0).all()


@each_simulation
@pytest.mark.parametrize("n", [1, 2, 7, 300])
def test_sample_has_n_rows_and_is_reproducible_by_seed(simulation, n):
    X, y = simulation.sample(n, np.random.default_rng(3))
    repeated, y_repeated = simulation.sample(n, np.random.default_rng(3))
    other_seed, _ = simulation.sample(n, np.random.default_rng(4))
    assert X.shape == (n, 2)
    assert set(y.tolist()) <= {0, 1}
    np.testing.assert_array_equal(X, repeated)
    np.testing.assert_array_equal(y, y_repeated)
    assert not np.isin(X, other_seed).any()


@each_plane_simulation
def test_sample_lies_in_the_box(simulation):
    X, _ = simulation.sample(5000, np.random.default_rng(0))
    assert (np.abs(X) < 1).all()


@pytest.mark.parametrize(
    "simulation", [Spiral(), Circle(), Sinewave(), Polynomial()], ids=lambda s: s.name
)
def test_classes_are_balanced_with_a_random_odd_row(simulation):
    counts = [
        np.bincount(simulation.sample(11, np.random.default_rng(seed))[1], minlength=2)
        for seed in range(40)
    ]
    assert {tuple(c.tolist()) for c in counts} == {(5, 6), (6, 5)}
    assert np.bincount(simulation.sample(400, np.random.default_rng(0))[1]).tolist() == [200, 200]


def test_balanced_labels_are_in_random_order():
    y = balanced_labels(1000, 2, np.random.default_rng(0))
    assert (
        440 < y[:500].sum() + (1 - y[500:]).sum() < 560
    )  # binomial-like, sd 16; sorted labels give 0 or 1000


@pytest.mark.parametrize(
    "name", others_slow([name for name in PLANE_SIMULATIONS if not name.startswith("spiral")])
)
def test_density_agrees_with_monte_carlo(name):
    """Compare counts of 200,000 rows in 30 × 30 cells with the integrated density.

    The density is averaged over 8 × 8 midpoints of a cell. χ² per cell is 1, with standard
    deviation 0.06 for 500 cells.
    """
    simulation, n, cells, points_per_cell = PLANE_SIMULATIONS[name], 200_000, 30, 8
    X, _ = simulation.sample(n, np.random.default_rng(1))
    observed = np.histogram2d(X[:, 0], X[:, 1], bins=cells, range=[[-1, 1]] * 2)[0]
    ticks = (np.arange(cells * points_per_cell) + 0.5) / (cells * points_per_cell) * 2 - 1
    points = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 2)
    mass = (
        simulation.density(points)
        .reshape(cells, points_per_cell, cells, points_per_cell)
        .mean(axis=(1, 3))
        * (2 / cells) ** 2
    )
    assert mass.sum() == pytest.approx(1, abs=2e-3)
    is_populated = n * mass > 20
    chi2 = ((observed - n * mass) ** 2 / (n * mass))[is_populated]
    assert abs(chi2.mean() - 1) < 5 * np.sqrt(2 / is_populated.sum())


@pytest.mark.parametrize(
    "name", others_slow(name for name in ALL_SIMULATIONS if not name.startswith("spiral"))
)
def test_posterior_agrees_with_monte_carlo(name):
    """Compare labels of 200,000 rows with their posteriors in cells: mean squared z-score 1.

    The rows of a spiral are not independent; its own tests are exact.
    """
    simulation = ALL_SIMULATIONS[name]
    X, y = simulation.sample(200_000, np.random.default_rng(2))
    p = simulation.posterior(X)[:, 0]
    cell = np.floor((np.clip(X, -1.5, 1.5) + 1.5) * 20).astype(int) @ [61, 1]
    difference = np.bincount(cell, (y == 0) - p)
    variance = np.bincount(cell, p * (1 - p))
    z2 = (difference**2)[variance > 5] / variance[variance > 5]
    assert len(z2) > 50
    assert abs(z2.mean() - 1) < 5 * np.sqrt(2 / len(z2))


@each_plane_simulation
def test_truth_selects_the_posterior(simulation):
    X = paper_grid()[::37]
    parameters = {
        name: value
        for name, value in vars(simulation).items()
        if name not in ("classes", "box_fractions", "truth")
    }
    on_grid = type(simulation)(**parameters, truth="paper_grid")
    np.testing.assert_array_equal(on_grid.posterior(X), simulation.posterior_on_paper_grid(X))
    q = simulation.posterior_on_paper_grid(X)
    if simulation.name == "gaussian_xor":
        np.testing.assert_array_equal(q, simulation.posterior(X))
    else:
        empty = np.exp(-40 * simulation.density(X))[:, None]
        np.testing.assert_allclose(
            q, simulation.posterior(X) * (1 - empty) + 0.5 * empty, atol=1e-15
        )


@pytest.mark.slow
def test_paper_grid_truth_agrees_with_counts_in_windows():
    """Repeat the paper's procedure 30 times for Polynomial, where windows are sparse.

    The counts agree with q, and not with Bayes' posterior.
    """
    simulation, rng = Polynomial(), np.random.default_rng(0)
    centres = rng.choice(paper_grid(), 300, replace=False)
    expected = 40 * simulation.density(centres)
    centres = centres[(expected > 0.05) & (expected < 3)]
    fractions = np.full((30, len(centres)), 0.5)
    for fractions_of_repetition in fractions:
        X, y = simulation.sample(100_000, rng)
        for i, centre in enumerate(centres):
            labels = y[(np.abs(X - centre) < 0.01).all(axis=1)]
            fractions_of_repetition[i] = (labels == 0).mean() if labels.size else 0.5
    mean_fraction = fractions.mean(axis=0)
    noise = fractions.std(axis=0, ddof=1) / np.sqrt(30)
    q, p = simulation.posterior_on_paper_grid(centres)[:, 0], simulation.posterior(centres)[:, 0]
    assert len(centres) > 10
    assert np.sqrt(np.mean((mean_fraction - q) ** 2)) < 1.5 * np.sqrt(np.mean(noise**2))
    assert np.sqrt(np.mean((mean_fraction - p) ** 2)) > 4 * np.sqrt(np.mean(noise**2))


@pytest.mark.parametrize(
    ("simulation", "half", "sparse"),
    [
        (Spiral(), 0.20, None),
        (Circle(), 0.09, 0.29),
        (Sinewave(), 0.34, 0.57),
        (Polynomial(), 0.46, 0.62),
    ],
    ids=lambda v: getattr(v, "name", v),
)
def test_density_explains_the_published_truth(simulation, half, sparse):
    """Compare fractions of the grid where the published truth is 1/2 or windows are sparse.

    The truth is exactly 1/2 if all of 1000 windows are empty; a window is sparse if it expects less
    than one draw. The tolerance is .02, since the fractions are known to whole percents and a
    window blurs the border of the spiral's disc.
    """
    draws = 40 * simulation.density(paper_grid())
    assert np.exp(-1000 * draws).mean() == pytest.approx(half, abs=0.02)
    if sparse is not None:
        assert (draws < 1).mean() == pytest.approx(sparse, abs=0.01)


def test_first_coordinate_of_the_paper_grid_varies_fastest():
    grid = paper_grid()
    assert grid.shape == (40_000, 2)
    np.testing.assert_allclose(grid[:3], [[-1, -1], [-0.99, -1], [-0.98, -1]], atol=1e-12)
    np.testing.assert_allclose(grid[-1], [0.99, 0.99], atol=1e-12)


def test_bayes_rule_does_not_underflow():
    logs = np.array([[-1e5, -1e5 - 1], [-np.inf, -np.inf], [-np.inf, -1e300], [800.0, 0.0]])
    expected = [[1 / (1 + np.exp(-1)), 1 / (1 + np.e)], [0.5, 0.5], [0, 1], [1, 0]]
    np.testing.assert_allclose(posterior_from_log_densities(logs), expected, atol=1e-12)


def test_all_sources_are_simulations():
    assert all(isinstance(simulation, Simulation) for simulation in ALL_SIMULATIONS.values())


def test_points_outside_the_plane_are_refused():
    with pytest.raises(
        DataError, match=r"^circle lives in the plane: X must have shape \(n, 2\), got \(4, 3\)$"
    ):
        Circle().posterior(np.zeros((4, 3)))
    with pytest.raises(
        DataError, match=r"^spiral has no density at NaN, which X has in row 1; drop such rows$"
    ):
        Spiral().posterior([[0, 0], [0, np.nan]])
