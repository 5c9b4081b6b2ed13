"""Posterior of the nearest polytope and its search."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from kdgraph.density import KernelDensityGraph
from kdgraph.density.published import NearestPosterior, printed_variances, search_nearest_posterior


@pytest.fixture
def graph(problem):
    """Graph of the training rows with the printed variances."""
    return KernelDensityGraph(
        problem.partition,
        problem.partition.locate(problem.train.X),
        problem.train.one_hot(len(problem.prior)),
        variance=printed_variances,
    )


def test_nearest_posterior_search_runs_its_passes(problem, graph):
    evaluated = []

    def objective(proba, rows):
        evaluated.append(proba)
        return [3.0, 1.0, 2.0, 1.0, 0.5][len(evaluated) - 1]

    stages = [lambda _: np.array([1.0, 2.0, 3.0]), lambda k: k + np.array([0.0, 0.25])]
    fitted_posterior, log_density = search_nearest_posterior(
        graph,
        problem.partition.locate(problem.held_out.X),
        problem.held_out,
        problem.prior,
        stages,
        objective,
    )
    assert len(evaluated) == 5
    assert (
        fitted_posterior.exponent == 2.25
    )  # 2 is the first of the best; in the second pass, which starts there, 2.25 is better
    assert log_density.shape == (len(problem.held_out),)


def test_first_of_equally_good_exponents_is_chosen(problem, graph):
    locations = problem.partition.locate(problem.held_out.X)
    fitted_posterior, _ = search_nearest_posterior(
        graph,
        locations,
        problem.held_out,
        problem.prior,
        [lambda _: np.array([1.0, 2.0]), lambda k: np.array([k + 1])],
        lambda *_: 1.0,
    )
    assert fitted_posterior.exponent == 1.0


def test_nearest_posterior_is_bayes_rule():
    masses = np.array([[4.0, 1.0], [0.0, 3.0], [2.0, 2.0]])  # n_ry; n_y = 6, 6
    prior = np.array([0.25, 0.75])
    fitted_posterior = NearestPosterior.from_masses(1.0, masses, prior)
    joint = masses / 6 * prior
    query_result = SimpleNamespace(
        polytope=np.array([0, 1, 2, 0]), log_density=np.array([0.0, -3.0, 1.0, -1e6])
    )
    posterior, log_density = fitted_posterior(query_result, None)
    np.testing.assert_allclose(
        posterior, (joint / joint.sum(axis=1, keepdims=True))[query_result.polytope], atol=1e-15
    )
    np.testing.assert_allclose(
        log_density,
        query_result.log_density + np.log(joint.sum(axis=1))[query_result.polytope],
        rtol=1e-14,
    )


def test_class_without_mass_has_probability_zero():
    fitted_posterior = NearestPosterior.from_masses(
        1.0, np.array([[4.0, 0.0], [2.0, 0.0]]), np.array([1.0, 0.0])
    )
    posterior, _ = fitted_posterior(
        SimpleNamespace(polytope=np.array([0, -1]), log_density=np.array([0.0, -np.inf])), None
    )
    assert posterior.tolist() == [[1, 0], [1, 0]]
