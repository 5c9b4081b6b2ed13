"""What rows find on a graph, against dense similarities of codes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from kdgraph.density import KernelDensityGraph
from kdgraph.density.gaussians import shrunk_variances

ROUNDING = 1e-11  # sums of at most 230 terms


def similarity(a, b):
    return (a[:, None, :] == b[None, :, :]).mean(axis=2)


@pytest.fixture(scope="module")
def places(problem):
    return problem.partition.locate(problem.train.X), problem.partition.locate(problem.test.X)


@pytest.fixture(scope="module")
def graph(problem, places):
    return KernelDensityGraph(
        problem.partition, places[0], problem.train.one_hot(len(problem.prior)), shrunk_variances
    )


def test_masses_are_sums_over_rows(problem, places, graph):
    train, test = places
    labels = problem.train.one_hot(len(problem.prior))
    visit = graph.query(test, np.array([0.4, 9.0]))
    for j, exponent in enumerate((0.4, 9.0)):
        np.testing.assert_allclose(
            visit.masses[:, :, j],
            similarity(test.codes, train.codes) ** exponent @ labels,
            rtol=ROUNDING,
        )
    assert visit.locations is test


def test_the_nearest_polytope_shares_most_leaves_and_gives_its_density(problem, places, graph):
    train, test = places
    share = similarity(test.codes, graph.codes)
    visit = graph.query(test, np.empty(0))
    assert np.array_equal(visit.polytope, share.argmax(axis=1))
    assert np.array_equal(
        visit.log_density, graph.gaussians.log_density(test.points, share.argmax(axis=1))
    )
    assert np.array_equal(
        graph.log_density(problem.held_out.X),
        graph.query(problem.partition.locate(problem.held_out.X), np.empty(0)).log_density,
    )
    assert np.array_equal(graph.codes[graph.polytopes.polytope_of_row], train.codes)


def test_euclidean_distance_chooses_by_means(problem, places):
    train, test = places
    graph = KernelDensityGraph(
        problem.partition,
        train,
        problem.train.one_hot(len(problem.prior)),
        shrunk_variances,
        distance="euclidean",
    )
    visit = graph.query(test, np.array([1.0]))
    expected = cdist(test.points, graph.gaussians.means).argmin(axis=1)
    assert np.array_equal(visit.polytope, expected)
    assert np.array_equal(visit.log_density, graph.gaussians.log_density(test.points, expected))


def test_rows_beyond_n_train_lend_mass_but_carry_no_gaussian(problem, places, graph):
    _, test = places
    n_classes = len(problem.prior)
    everyone = problem.train + problem.weighted
    lent = KernelDensityGraph(
        problem.partition,
        problem.partition.locate(everyone.X),
        everyone.one_hot(n_classes),
        shrunk_variances,
        n_train=len(problem.train),
    )
    assert np.array_equal(lent.gaussians.means, graph.gaussians.means)
    assert np.array_equal(lent.gaussians.variances, graph.gaussians.variances)
    assert np.array_equal(lent.polytopes.polytope_of_row, graph.polytopes.polytope_of_row)
    assert np.array_equal(lent.codes, graph.codes)
    visit, alone = lent.query(test, np.array([2.0])), graph.query(test, np.array([2.0]))
    assert np.array_equal(visit.polytope, alone.polytope)
    assert np.array_equal(visit.log_density, alone.log_density)
    held_out = problem.partition.encode(problem.weighted.X)
    more = similarity(test.codes, held_out) ** 2.0 @ problem.weighted.one_hot(n_classes)
    np.testing.assert_allclose(visit.masses[:, :, 0], alone.masses[:, :, 0] + more, rtol=ROUNDING)


def test_weighted_sums_over_populated_polytopes(graph):
    values = np.random.default_rng(0).normal(size=(len(graph.polytopes), 5))
    expected = similarity(graph.codes, graph.codes) ** 1.7 @ values
    np.testing.assert_allclose(
        graph.weighted_sums(values, 1.7), expected, rtol=0, atol=1e-12
    )  # terms of both signs, of order 1


def test_duplicated_rows_double_the_mass_and_leave_means_alone(problem, places, graph):
    train, test = places
    twice = np.concatenate([np.arange(len(train)), np.arange(len(train))])
    doubled = KernelDensityGraph(
        problem.partition,
        train[twice],
        problem.train[twice].one_hot(len(problem.prior)),
        shrunk_variances,
    )
    assert len(doubled.polytopes) == len(graph.polytopes)
    np.testing.assert_allclose(doubled.gaussians.means, graph.gaussians.means, rtol=1e-13)
    found, once = doubled.query(test, np.array([3.0])), graph.query(test, np.array([3.0]))
    np.testing.assert_allclose(found.masses, 2 * once.masses, rtol=ROUNDING)
    assert np.array_equal(found.polytope, once.polytope)
