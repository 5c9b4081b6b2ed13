"""Spacing between polytopes, and without each row against a computation from the start."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.density import gaussians
from kdgraph.density.gaussians import (
    SAMPLE_SIZE,
    VARIANCE_LAMBDA,
    NeighbourSteps,
    nearest_means_without,
    spacing_between,
    spacings_without,
)
from tests.variations import others_slow

RNG = np.random.default_rng(0)
LEVELS = np.array(np.meshgrid(*[np.arange(3)] * 4)).reshape(4, -1).T.astype(float)
TABLES = {
    "normal": RNG.normal(size=(80, 5)),
    "two features": RNG.normal(size=(120, 2)),
    "heavy tails": RNG.standard_t(1.5, size=(90, 4)),
    "mostly 0": RNG.exponential(size=(100, 12)) * (RNG.random((100, 12)) < 0.15),
    "many ties": LEVELS,
    "two values": RNG.integers(0, 2, size=(90, 8)).astype(float),
    "equal means": RNG.normal(size=(30, 3))[RNG.integers(30, size=70)],
    "far offset": 1e6 + RNG.normal(size=(60, 3)),
    "small units": 1e-150 * RNG.normal(size=(60, 3)),
}


def steps_by_loop(means: np.ndarray) -> np.ndarray:
    """Return the mean squared step to the nearest other mean in units of standard deviations."""
    scaled, steps = means / means.std(axis=0), []
    for s in range(len(means)):
        squared = ((scaled - scaled[s]) ** 2).sum(axis=1)
        squared[s] = np.inf
        first = np.flatnonzero(squared <= squared.min() * (1 + 1e-12))[0]
        steps.append((means[first] - means[s]) ** 2)
    return np.mean(steps, axis=0)


@pytest.mark.parametrize("name", ["normal", "two features", "heavy tails", "many ties"])
def test_spacing_is_the_mean_squared_step_to_the_nearest_mean(name):
    means = TABLES[name]
    expected = steps_by_loop(means)  # no feature is below a thousandth of the others
    np.testing.assert_allclose(spacing_between(means), expected, rtol=1e-10)


def test_change_of_a_unit_changes_the_spacing_by_its_square():
    means, factor = TABLES["heavy tails"], np.array([1e-6, 1.0, 1e5, 3.0])
    expected = spacing_between(means) * factor**2
    np.testing.assert_allclose(spacing_between(means * factor), expected, rtol=1e-10)


def test_feature_of_tiny_steps_gets_a_thousandth_of_the_mean():
    means = np.column_stack([np.arange(50.0) ** 2, np.repeat([0.0, 1.0], 25)])
    steps = spacing_between(means) / means.var(axis=0)
    assert steps[1] == pytest.approx(1e-3 * steps.sum() / 2, rel=2e-3)


def test_single_mean_has_the_least_spacing():
    assert spacing_between(np.zeros((1, 2))).tolist() == [VARIANCE_LAMBDA] * 2


def test_many_means_step_to_their_neighbours_among_all():
    means = RNG.normal(size=(2 * SAMPLE_SIZE + 1, 2))
    steps = NeighbourSteps.of(means)
    assert steps.numbers.tolist() == list(range(0, 2 * SAMPLE_SIZE + 1, 2))
    scaled = means / means.std(axis=0)
    for k in (0, 17, 1999):
        squared = ((scaled - scaled[2 * k]) ** 2).sum(axis=1)
        squared[2 * k] = np.inf
        expected = (scaled[squared.argmin()] - scaled[2 * k]) ** 2
        np.testing.assert_allclose(steps.squared[k], expected, rtol=1e-9)


@pytest.fixture(params=[2, 32])
def n_near(request, monkeypatch):
    """Number of listed means: after few of them, bounds decide whether others are compared."""
    monkeypatch.setattr(gaussians, "_N_NEAR", request.param)


@pytest.mark.usefixtures("n_near")
@pytest.mark.parametrize("name", others_slow(TABLES))
@pytest.mark.parametrize("is_gone", [True, False])
def test_spacings_without_rows_are_those_of_the_remaining_means(name, is_gone):
    means = TABLES[name]
    polytope = np.arange(len(means))
    moved = means + 0.1 * means.std(axis=0) * np.random.default_rng(1).normal(size=means.shape)
    actual = spacings_without(means, polytope, moved, np.full(len(means), is_gone))
    for r in polytope:
        rest = means.copy()
        rest[r] = moved[r]
        expected = spacing_between(np.delete(rest, r, axis=0) if is_gone else rest)
        # Of an offset of 1e6, variances lose ten digits.
        np.testing.assert_allclose(actual[r], expected, rtol=1e-6 if "offset" in name else 1e-8)


def test_spacing_without_a_step_is_the_mean_of_the_others():
    steps = NeighbourSteps.of(TABLES["heavy tails"])
    steps = NeighbourSteps(steps.unit, 2 * steps.numbers, steps.squared)  # every second one
    actual = steps.spacings_without(np.array([6, 7, -1]))
    expected = np.delete(steps.squared, 3, axis=0).mean(axis=0) * steps.unit**2
    np.testing.assert_allclose(actual[0], expected, rtol=1e-10)
    np.testing.assert_array_equal(actual[1:], [steps.spacing] * 2)


@pytest.mark.usefixtures("n_near")
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("is_gone", [True, False])
def test_nearest_means_skip_means_without_rows(name, is_gone):
    means = TABLES[name]
    rng = np.random.default_rng(1)
    polytope, scale = rng.integers(len(means), size=60), means.std(axis=0)
    points = means[polytope] + 0.3 * scale * rng.normal(size=(60, means.shape[1]))
    moved = means[polytope] + 0.3 * scale * rng.normal(size=points.shape)
    units = scale**2 * rng.uniform(0.5, 2.0, size=points.shape)
    nearest = nearest_means_without(
        points, means, polytope, moved, np.full(60, is_gone), units, scale**2
    )
    for i in range(60):
        rest = means.copy()
        rest[polytope[i]] = np.inf if is_gone else moved[i]
        squared = ((points[i] - rest) ** 2 / units[i]).sum(axis=1)
        assert nearest[i] == np.flatnonzero(squared <= squared.min() * (1 + 1e-12))[0]
