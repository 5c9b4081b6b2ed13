"""Leave-one-out densities against a refit without the row, written again from the definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kdgraph.density.gaussians import (
    MAX_EXACT_POLYTOPES,
    LeftOutRows,
    PolytopeMoments,
    rest_of_polytopes,
)
from kdgraph.geometry import polytopes_of
from kdgraph.smoothing.neighbours import NearestMean

LAMBDA, LEAST_FRACTION, TIE = 1e-6, 1e-3, 1e-12
WEIGHTS = (0.0, 0.01, 0.1, 1.0)


def first_of_nearest(squared: np.ndarray) -> int:
    """Return the position of the smallest number, of those equal to rounding the first."""
    return int(np.flatnonzero(squared <= squared.min() * (1 + TIE))[0])


def mean_of(rows: np.ndarray) -> np.ndarray:
    """Return the mean of rows; of equal ones it is the row itself, in spite of rounding."""
    mean = rows.mean(axis=0)
    return mean + (rows - mean).mean(axis=0)


def spacing_of(means: np.ndarray) -> np.ndarray:
    """Return the mean squared step from each mean to the nearest other one, by feature."""
    n, d = means.shape
    if n < 2:
        return np.full(d, LAMBDA)
    spread = np.ptp(means, axis=0)
    constant = spread <= TIE * np.abs(means).max(axis=0)
    scaled = means / np.where(constant, 1.0, means.std(axis=0))
    steps = np.zeros(d)
    for s in range(n):
        squared = ((scaled - scaled[s]) ** 2).sum(axis=1)
        squared[s] = np.inf
        steps += (scaled[first_of_nearest(squared)] - scaled[s]) ** 2 / n
    steps = np.maximum(np.maximum(steps, LEAST_FRACTION * steps.mean()), LAMBDA * 2.0**-52)
    return steps * np.where(constant, 1.0, means.std(axis=0)) ** 2


def log_density_without(points, polytope_of_row, i, weight) -> float:
    """Return the log density of row i at the nearest polytope of the other rows."""
    others = np.delete(np.arange(len(points)), i)
    groups = [others[polytope_of_row[others] == r] for r in np.unique(polytope_of_row)]
    groups = [group for group in groups if len(group)]
    if not groups:
        return -np.inf
    means = np.array([mean_of(points[group]) for group in groups])
    spacing = spacing_of(means)
    spacing = (1 - weight) * spacing + weight * spacing.mean()
    nearest = first_of_nearest((((points[i] - means) ** 2) / spacing).sum(axis=1))
    group = points[groups[nearest]]
    variance = (len(group) * group.var(axis=0) + spacing) / (len(group) + 1)
    terms = (points[i] - means[nearest]) ** 2 / variance + np.log(2 * np.pi * variance)
    return float(-0.5 * terms.sum())


def log_densities_by_refits(points, polytope_of_row) -> tuple[float, np.ndarray]:
    """Return the weight of the shrinkage that makes rows most likely, and their log densities."""
    rows = range(len(points))
    values = [
        np.array([log_density_without(points, polytope_of_row, i, weight) for i in rows])
        for weight in WEIGHTS
    ]
    likelihood = [each[np.isfinite(each)].sum() / len(points) for each in values]
    best = int(np.argmax(likelihood))
    # A gain of a nat, and more than the rounding of a mean with a row that is far away.
    best = best if likelihood[best] > likelihood[0] + 1 + 1e-9 * abs(likelihood[0]) else 0
    return WEIGHTS[best], values[best]


def left_out_rows(points, polytope_of_row) -> tuple[np.ndarray, np.ndarray]:
    """Return the spacing that was chosen, and the log densities."""
    polytopes = polytopes_of(polytope_of_row[:, None])
    moments = PolytopeMoments.of(points, polytopes)
    left_out = LeftOutRows(moments, points, polytopes.polytope_of_row)
    search = NearestMean(moments.mean, np.sqrt(left_out.spacing))
    return left_out.spacing, left_out.log_density(search)


def check_against_refits(points, polytope_of_row) -> None:
    chosen, log_density = left_out_rows(points, polytope_of_row)
    # Polytopes are numbered by first appearance, which decides among equally near ones.
    polytope_of_row = polytopes_of(polytope_of_row[:, None]).polytope_of_row
    weight, expected = log_densities_by_refits(points, polytope_of_row)
    # Sums are added in another order; a density far out is a large number.
    np.testing.assert_allclose(log_density, expected, rtol=1e-7, atol=1e-7)
    numbers = np.unique(polytope_of_row)
    spacing = spacing_of(np.array([mean_of(points[polytope_of_row == r]) for r in numbers]))
    expected_spacing = (1 - weight) * spacing + weight * spacing.mean()
    np.testing.assert_allclose(chosen, expected_spacing, rtol=1e-7)


@st.composite
def tables(draw) -> tuple[np.ndarray, np.ndarray]:
    """Return rows, some of them equal or far away, features that may be constant, and polytopes."""
    n, d = draw(st.integers(2, 14)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    points = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4, d)
    if draw(st.booleans()):
        points = rng.integers(0, draw(st.integers(1, 4)), size=(n, d)).astype(float)
    if draw(st.booleans()):
        points = points[rng.integers(n, size=n)]
    if draw(st.booleans()):
        points[:, rng.integers(d)] = draw(st.sampled_from([0.0, 0.3, -1e6]))
    if draw(st.booleans()):
        points[rng.integers(n)] *= 10.0 ** draw(st.integers(1, 5))
    return points, rng.integers(draw(st.integers(1, n)), size=n)


@settings(deadline=None, max_examples=60)
@given(tables())
# The sum of eleven times 0.3, divided by eleven, is not 0.3.
@example((np.full((14, 1), 0.3), np.repeat([0, 1], [11, 3])))
def test_left_out_densities_are_those_of_refits(table):
    check_against_refits(*table)


@pytest.mark.parametrize("n_polytopes", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2])
def test_few_polytopes_are_left_out_exactly(n_polytopes, size):
    rng = np.random.default_rng(n_polytopes)
    polytope_of_row = np.repeat(np.arange(n_polytopes), size)
    check_against_refits(rng.normal(size=(len(polytope_of_row), 3)), polytope_of_row)


def test_distant_row_has_the_density_of_the_others():
    """Its own distance does not widen the spacing by which it is measured."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(30, 2))
    points[7] = [300.0, -200.0]
    check_against_refits(points, np.arange(30))
    assert left_out_rows(points, np.arange(30))[1][7] < -1e5


def test_balanced_levels_are_left_out_exactly_with_ties():
    levels = np.array(np.meshgrid([0, 1, 2], [0, 1, 2], [0, 1])).reshape(3, -1).T.astype(float)
    check_against_refits(levels, np.arange(len(levels)))


def test_the_only_row_has_no_density_without_itself():
    assert left_out_rows(np.zeros((1, 2)), np.zeros(1, int))[1].tolist() == [-np.inf]


def test_equal_rows_have_the_density_of_their_twins():
    """Without one of two equal rows, the other one is its polytope."""
    log_density = left_out_rows(np.zeros((2, 1)), np.array([0, 1]))[1]
    expected = -0.5 * np.log(2 * np.pi * LAMBDA / 2)  # of one row and one more at the spacing
    np.testing.assert_allclose(log_density, expected, rtol=1e-12)


def test_shrinkage_of_the_spacing_is_chosen_by_leave_one_out():
    rng = np.random.default_rng(0)
    points = np.column_stack([rng.normal(size=(60, 2)), np.zeros(60)])
    points[::8, 2] = rng.normal(size=8)  # a feature that hardly varies
    weight, expected = log_densities_by_refits(points, np.arange(60))
    assert weight == 1.0
    chosen, log_density = left_out_rows(points, np.arange(60))
    np.testing.assert_allclose(log_density, expected, rtol=1e-7)
    np.testing.assert_allclose(chosen, spacing_of(points).mean(), rtol=1e-7)


def test_left_out_moments_are_those_of_the_other_rows():
    rng = np.random.default_rng(0)
    points, polytope = rng.normal(size=(40, 3)), rng.integers(9, size=40)
    points[3] += 1e8  # in the sum of all squares, the others would be lost
    polytope[5] = 9
    mean, squares = rest_of_polytopes(points, polytope)
    for i in range(40):
        others = points[(polytope == polytope[i]) & (np.arange(40) != i)]
        if len(others):
            # A far row among the others costs the digits of its own size.
            scale = np.abs(others).max() ** 2
            np.testing.assert_allclose(mean[i], others.mean(axis=0), rtol=1e-12)
            expected = ((others - others.mean(axis=0)) ** 2).sum(axis=0)
            np.testing.assert_allclose(squares[i], expected, rtol=1e-9, atol=1e-14 * scale)
    assert mean[5].tolist() == points[5].tolist() and not squares[5].any()


@pytest.mark.parametrize(("n_features", "error"), [(2, 0.1), (10, 0.3)])
def test_many_polytopes_are_left_out_up_to_spacing(n_features, error):
    """One of 1,001 rows changes unit and neighbours of the spacing by little."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(MAX_EXACT_POLYTOPES + 1, n_features))
    polytope = np.arange(len(points))
    own = left_out_rows(points, polytope)[1]
    rows = np.arange(0, len(points), 250)
    expected = [log_density_without(points, polytope, i, 0.0) for i in rows]
    assert np.abs(own[rows] - expected).max() < error
