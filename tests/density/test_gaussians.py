"""Gaussians against SciPy and against loops over polytopes; units, constant features, single
polytopes.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal
from sklearn.ensemble import ExtraTreesClassifier

from kdgraph.density.gaussians import (
    VARIANCE_LAMBDA,
    PolytopeGaussians,
    PolytopeMoments,
    choose_spacing,
)
from kdgraph.density.graph import KernelDensityGraph
from kdgraph.density.published import printed_variances, published_variances
from kdgraph.geometry import partition_of, polytopes_of
from kdgraph.smoothing.neighbours import NearestMean


def make_polytopes(n: int = 60, d: int = 3, seed: int = 0):
    """(X, polytopes): rows in groups of 1 to 6, in random order."""
    rng = np.random.default_rng(seed)
    polytopes = polytopes_of(rng.integers(0, n // 3, (n, 1)))
    return rng.normal(0, 1, (n, d)) * [1.0, 30.0, 0.02][:d] + 5, polytopes


def moments_by_loops(X, polytopes):
    """Eq. 9 and the sum of squares of Eq. 10, polytope by polytope."""
    members = [X[polytopes.polytope_of_row == r] for r in range(len(polytopes))]
    return (
        np.array([len(m) for m in members]),
        np.array([m.mean(0) for m in members]),
        np.array([((m - m.mean(0)) ** 2).sum(0) for m in members]),
    )


def shrunk_variances(moments):
    return moments.shrink_variances(choose_spacing(moments))


RULES = [shrunk_variances, printed_variances, published_variances]


def fit_gaussians(X, polytopes, rule):
    moments = PolytopeMoments.of(X, polytopes)
    return PolytopeGaussians(moments.mean, rule(moments))


def squared_spacing(mean):
    """Float[d]: by brute force, the mean squared difference to the nearest mean, neighbours found
    where every feature has variance 1.
    """
    unit = mean.std(axis=0)
    distance = cdist(mean / unit, mean / unit)
    np.fill_diagonal(distance, np.inf)
    squared = ((mean - mean[distance.argmin(axis=1)]) ** 2 / unit**2).mean(axis=0)
    return np.maximum(squared, 1e-3 * squared.mean()) * unit**2


def test_mean_of_equal_rows_is_the_row_itself():
    """The sum of eleven times 0.3, divided by eleven, is not 0.3."""
    moments = PolytopeMoments.of(np.full((14, 1), 0.3), polytopes_of(np.arange(14)[:, None] // 11))
    assert moments.mean.tolist() == [[0.3], [0.3]]


def test_means_and_variances_match_equations():
    X, polytopes = make_polytopes()
    n, mean, squares = moments_by_loops(X, polytopes)
    expected = {
        printed_variances: (squares + VARIANCE_LAMBDA) / n[:, None],
        published_variances: (squares + VARIANCE_LAMBDA * n[:, None]) / n[:, None],
        shrunk_variances: (squares + squared_spacing(mean)) / (n[:, None] + 1),
    }
    assert VARIANCE_LAMBDA == 1e-6
    for rule, variance in expected.items():
        result = fit_gaussians(X, polytopes, rule)
        np.testing.assert_allclose(result.means, mean, rtol=1e-13)
        np.testing.assert_allclose(
            result.variances, variance, rtol=1e-9, atol=1e-14
        )  # sums of squares of numbers near 5


def test_log_density_matches_scipy():
    X, polytopes = make_polytopes()
    gaussians = fit_gaussians(X, polytopes, printed_variances)
    polytope = np.random.default_rng(1).integers(0, len(polytopes), len(X))
    expected = [
        multivariate_normal(gaussians.means[r], np.diag(gaussians.variances[r])).logpdf(x)
        for x, r in zip(X, polytope, strict=True)
    ]
    np.testing.assert_allclose(gaussians.log_density(X, polytope), expected, rtol=1e-10)


def test_log_density_without_polytope_is_minus_infinity():
    X, polytopes = make_polytopes()
    result = fit_gaussians(X, polytopes, shrunk_variances).log_density(X[:3], np.array([0, -1, 1]))
    assert np.isneginf(result).tolist() == [False, True, False]


@pytest.mark.parametrize("distance", [1e150, 1e160, 1e300])
def test_log_density_is_never_nan_at_any_distance(distance):
    result = PolytopeGaussians(np.zeros((1, 2)), np.full((1, 2), 1e-6)).log_density(
        np.array([[distance, -distance]]), np.array([0])
    )
    assert result[0] < -1e300


def test_nearest_mean_is_the_euclidean_neighbour():
    X, polytopes = make_polytopes()
    gaussians = fit_gaussians(X, polytopes, shrunk_variances)
    queries = np.random.default_rng(2).normal(5, 20, (50, 3))
    assert np.array_equal(
        NearestMean(gaussians.means)(queries), cdist(queries, gaussians.means).argmin(axis=1)
    )


@settings(deadline=None, max_examples=30)
@given(power=st.integers(-20, 20), column=st.integers(0, 2))
def test_shrunk_variances_follow_a_change_of_units(power, column):
    X, polytopes = make_polytopes()
    scale = np.ones(3)
    scale[column] = 2.0**power  # a power of two changes no digit, so neighbours stay neighbours
    np.testing.assert_allclose(
        fit_gaussians(X * scale, polytopes, shrunk_variances).variances,
        fit_gaussians(X, polytopes, shrunk_variances).variances * scale**2,
        rtol=1e-9,
    )


@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, 1 / 3, -1e9, 1e-9])
def test_constant_feature_allows_other_values(constant):
    X, polytopes = make_polytopes()
    X = np.column_stack([X, np.full(len(X), constant)])
    gaussians = fit_gaussians(X, polytopes, shrunk_variances)
    assert np.isfinite(gaussians.variances).all()
    assert (
        gaussians.variances[:, 3].min() > 1e-5
    )  # 1e-3 of the mean spacing, halved for each row and more; 0.1 must not count as spread
    assert np.isfinite(
        gaussians.log_density(X + np.array([0, 0, 0, 0.01]), polytopes.polytope_of_row)
    ).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n", [1, 5])
def test_variance_rules_support_one_polytope(rule, n):
    X = np.random.default_rng(0).normal(size=(n, 2))
    gaussians = fit_gaussians(X, polytopes_of(np.zeros((n, 4), dtype=int)), rule)
    assert gaussians.variances.min() >= VARIANCE_LAMBDA / 6
    assert np.isfinite(gaussians.log_density(X, np.zeros(n, dtype=int))).all()


@pytest.mark.parametrize("rule", RULES)
def test_variance_rules_support_identical_rows(rule):
    gaussians = fit_gaussians(np.full((6, 2), 0.1), polytopes_of(np.arange(6)[:, None] // 2), rule)
    assert (gaussians.variances > 0).all()
    assert np.isfinite(gaussians.log_density(np.full((1, 2), 0.1), np.array([0]))).all()


def test_spacing_of_many_polytopes_uses_a_sample():
    rng = np.random.default_rng(0)
    X = rng.random((6000, 2))
    single_row_polytopes = polytopes_of(np.arange(6000)[:, None])
    sampled = fit_gaussians(X, single_row_polytopes, shrunk_variances).variances[0] * 2
    np.testing.assert_allclose(
        sampled, squared_spacing(X), rtol=0.1
    )  # 2,000 of 6,000 squared distances: standard error 2 %, here five


@pytest.mark.parametrize("unit", [1.0, np.array([0.5, 2.0, 1.0])])
def test_nearest_mean_respects_scale(unit):
    rng = np.random.default_rng(0)
    means, X = rng.normal(size=(200, 3)), 2 * rng.normal(size=(500, 3))
    assert np.array_equal(NearestMean(means, unit)(X), cdist(X / unit, means / unit).argmin(axis=1))


@pytest.mark.parametrize("d", [6, 40])  # by tree, and by matrix products
def test_lowest_of_equally_near_means_in_batches_of_any_size(d):
    rng = np.random.default_rng(d)
    means, X = (
        1e3 + rng.integers(0, 2, (60, d)),
        1e3 + rng.integers(0, 2, (300, d)),
    )  # integers, as counts and pixels are: many ties
    nearest = NearestMean(means.astype(float))
    together = nearest(X)
    assert np.array_equal(together, np.concatenate([nearest(X[i : i + 1]) for i in range(len(X))]))
    squared = ((X[:, None] - means) ** 2).sum(axis=2)
    assert ((squared == squared.min(axis=1, keepdims=True)).sum(axis=1) > 4).any()
    assert np.array_equal(together, squared.argmin(axis=1))


@pytest.mark.parametrize("distance", [1e150, 1e300])
def test_nearest_mean_from_any_distance(distance):
    means = np.array([[0.0, 0.0], [1.0, 1.0]])
    assert NearestMean(means, 1e-3)(
        np.array([[distance, distance], [-distance, 0.0]])
    ).tolist() == [0, 0]


def test_held_out_rows_choose_spacing_of_nearly_constant_features():
    rng = np.random.default_rng(0)
    X, held_out = rng.normal(size=(400, 3)), rng.normal(size=(100, 3))
    X[:, 2], held_out[:, 2] = 0, 0
    X[0, 2] = 1e-3  # one row in 400 sets the feature's scale; a held-out row far exceeds it
    single_row_polytopes = polytopes_of(np.arange(400)[:, None])
    moments = PolytopeMoments.of(X, single_row_polytopes)
    plain_spacing = choose_spacing(moments)
    assert np.array_equal(choose_spacing(moments, held_out), plain_spacing)
    held_out[0, 2] = 1.0
    chosen_spacing = choose_spacing(moments, held_out)
    assert chosen_spacing[2] > 100 * plain_spacing[2]
    expected = [
        (1 - weight) * plain_spacing + weight * plain_spacing.mean() for weight in (0.01, 0.1, 1.0)
    ]
    assert any(np.allclose(chosen_spacing, candidate, rtol=1e-12) for candidate in expected)


@pytest.mark.parametrize("copies", [1, 3])
def test_an_axis_on_which_features_cancel_is_no_feature(copies):
    """All rows have the coordinate 0 there, up to rounding, which has no unit of its own."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)

    def with_copies(rows):
        return np.column_stack([rows, *[rows[:, 0] * (2 + i) for i in range(copies)]])

    partition = partition_of(ExtraTreesClassifier(20, random_state=0).fit(with_copies(X), y))
    graph = KernelDensityGraph(
        partition,
        partition.locate(with_copies(X)),
        np.eye(2)[y],
        distance="whitened",
    )
    assert graph.spacing.min() > 1e-6 * graph.spacing.max()
    near = with_copies(rng.normal(size=(50, 3)))
    # A change in the last bits of the coordinates changes the density in its last bits.
    exact = graph.log_density(near)
    rounded = graph.log_density(near * (1 + 1e-15 * rng.choice([-1, 1], near.shape)))
    np.testing.assert_allclose(rounded, exact, rtol=1e-9)
    apart = near.copy()
    apart[:, 3] += 1.0
    assert graph.log_density(apart).max() < exact.min() - 10
