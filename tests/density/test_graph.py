"""Queries of a graph against dense similarities of codes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from kdgraph.density import KernelDensityGraph

ROUNDING = 1e-11  # sums of at most 230 terms


def dense_similarity(a, b):
    return (a[:, None, :] == b[None, :, :]).mean(axis=2)


def populated_codes(graph):
    return graph.counts.codes[graph.polytopes.representatives]


@pytest.fixture(scope="module")
def problem_locations(problem):
    return problem.partition.locate(problem.train.X), problem.partition.locate(problem.test.X)


@pytest.fixture(scope="module")
def graph(problem, problem_locations):
    return KernelDensityGraph(
        problem.partition,
        problem_locations[0],
        problem.train.one_hot(len(problem.prior)),
    )


def test_masses_are_similarity_weighted_sums_over_rows(problem, problem_locations, graph):
    train, test = problem_locations
    labels = problem.train.one_hot(len(problem.prior))
    query_result = graph.query(test, np.array([0.4, 9.0]))
    for j, exponent in enumerate((0.4, 9.0)):
        np.testing.assert_allclose(
            query_result.masses[:, :, j],
            dense_similarity(test.codes, train.codes) ** exponent @ labels,
            rtol=ROUNDING,
        )
    assert query_result.locations is test


def test_nearest_polytope_has_most_common_leaves(problem, problem_locations, graph):
    train, test = problem_locations
    similarity = dense_similarity(test.codes, populated_codes(graph))
    query_result = graph.query(test, np.empty(0))
    assert np.array_equal(query_result.polytope, similarity.argmax(axis=1))
    assert np.array_equal(
        query_result.log_density,
        graph.gaussians.log_density(test.points, similarity.argmax(axis=1)),
    )
    assert np.array_equal(
        graph.log_density(problem.held_out.X),
        graph.query(problem.partition.locate(problem.held_out.X), np.empty(0)).log_density,
    )
    assert np.array_equal(populated_codes(graph)[graph.polytopes.polytope_of_row], train.codes)


def test_euclidean_distance_uses_means(problem, problem_locations):
    train, test = problem_locations
    graph = KernelDensityGraph(
        problem.partition,
        train,
        problem.train.one_hot(len(problem.prior)),
        distance="euclidean",
    )
    assert graph.distance == "euclidean"
    query_result = graph.query(test, np.array([1.0]))
    expected = cdist(test.points, graph.gaussians.means).argmin(axis=1)
    assert np.array_equal(query_result.polytope, expected)
    assert np.array_equal(
        query_result.log_density, graph.gaussians.log_density(test.points, expected)
    )


def test_rows_beyond_n_train_add_mass_but_no_gaussian(problem, problem_locations, graph):
    _, test = problem_locations
    n_classes = len(problem.prior)
    everyone = problem.train + problem.weighted
    larger_graph = KernelDensityGraph(
        problem.partition,
        problem.partition.locate(everyone.X),
        everyone.one_hot(n_classes),
        n_train=len(problem.train),
    )
    assert np.array_equal(larger_graph.gaussians.means, graph.gaussians.means)
    assert np.array_equal(larger_graph.gaussians.variances, graph.gaussians.variances)
    assert np.array_equal(larger_graph.polytopes.polytope_of_row, graph.polytopes.polytope_of_row)
    assert np.array_equal(populated_codes(larger_graph), populated_codes(graph))
    query_result, expected_result = (
        larger_graph.query(test, np.array([2.0])),
        graph.query(test, np.array([2.0])),
    )
    assert np.array_equal(query_result.polytope, expected_result.polytope)
    assert np.array_equal(query_result.log_density, expected_result.log_density)
    held_out = problem.partition.encode(problem.weighted.X)
    added_mass = dense_similarity(test.codes, held_out) ** 2.0 @ problem.weighted.one_hot(n_classes)
    np.testing.assert_allclose(
        query_result.masses[:, :, 0], expected_result.masses[:, :, 0] + added_mass, rtol=ROUNDING
    )


def test_duplicated_rows_double_masses_and_keep_means(problem, problem_locations, graph):
    train, test = problem_locations
    doubled_rows = np.concatenate([np.arange(len(train)), np.arange(len(train))])
    doubled = KernelDensityGraph(
        problem.partition,
        train[doubled_rows],
        problem.train[doubled_rows].one_hot(len(problem.prior)),
    )
    assert len(doubled.polytopes) == len(graph.polytopes)
    np.testing.assert_allclose(doubled.gaussians.means, graph.gaussians.means, rtol=1e-13)
    doubled_result, single_result = (
        doubled.query(test, np.array([3.0])),
        graph.query(test, np.array([3.0])),
    )
    np.testing.assert_allclose(doubled_result.masses, 2 * single_result.masses, rtol=ROUNDING)
    assert np.array_equal(doubled_result.polytope, single_result.polytope)
