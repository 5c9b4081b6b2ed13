"""The searches against plain loops over every candidate."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import log_loss

from kdgraph.base import Rows
from kdgraph.density import KernelDensityGraph
from kdgraph.density import posterior as search
from kdgraph.density.gaussians import printed_variances, shrunk_variances
from kdgraph.density.posterior import (
    EXPONENT_FACTOR_GRID,
    PSEUDO_COUNT_GRID,
    VOTE_POWER_GRID,
    VOTE_SHARE_GRID,
    NearestPosterior,
    QueryPosterior,
    additive_smoothing,
    clipped_nll,
    fit_vote_power,
    search_nearest_posterior,
    search_query_posterior,
)
from kdgraph.metrics import ece

EXPONENTS = np.array([0.1, 1.0, 4.0, 20.0])


def lent_graph(problem, held_out):
    everyone = problem.train + held_out
    place = problem.partition.locate(everyone.X)
    graph = KernelDensityGraph(
        problem.partition,
        place,
        everyone.one_hot(len(problem.prior)),
        shrunk_variances,
        n_train=len(problem.train),
    )
    return graph, place[len(problem.train) :]


def leave_one_out(problem, held_out, exponent):
    """Float[m, K]: masses at each held-out row with that row taken away altogether."""
    everyone = problem.train + held_out
    codes, labels = problem.partition.encode(everyone.X), everyone.one_hot(len(problem.prior))
    n, masses = len(problem.train), []
    for i in range(len(held_out)):
        rest = np.delete(np.arange(len(everyone)), n + i)
        share = (codes[n + i] == codes[rest]).mean(axis=1)
        masses.append(share**exponent @ labels[rest])
    return np.array(masses)


def test_the_grids_cover_what_they_say():
    assert (EXPONENT_FACTOR_GRID[0], EXPONENT_FACTOR_GRID[-1]) == (
        pytest.approx(0.02),
        pytest.approx(20),
    )
    assert (VOTE_SHARE_GRID[0], VOTE_SHARE_GRID[-1]) == (0, 1)
    assert (PSEUDO_COUNT_GRID > 0).all()


def test_the_objective_is_the_clipped_log_loss(problem):
    proba = np.random.default_rng(0).dirichlet(np.ones(len(problem.prior)), len(problem.weighted))
    expected = log_loss(
        problem.weighted.y, proba, normalize=False, sample_weight=problem.weighted.weight
    )
    assert clipped_nll(proba, problem.weighted) == pytest.approx(expected, rel=1e-12)
    certain = np.eye(len(problem.prior))[(problem.held_out.y + 1) % len(problem.prior)]
    assert clipped_nll(certain, problem.held_out) == pytest.approx(-len(certain) * math.log(1e-6))


def ones(problem) -> np.ndarray:
    """K of each held-out row with itself."""
    return np.ones(len(problem.held_out))


@pytest.mark.parametrize("rows", ["held_out", "weighted"])
def test_each_held_out_row_is_judged_without_its_own_mass(problem, rows, monkeypatch):
    held_out, seen = getattr(problem, rows), []
    monkeypatch.setattr(
        search,
        "_grid_scores",
        lambda masses, *rest: seen.append(masses) or np.zeros((len(EXPONENTS), 1, 1)),
    )
    graph, place = lent_graph(problem, held_out)
    own = graph.representative_similarity(slice(len(problem.train), None))
    search_query_posterior(
        graph,
        place,
        held_out,
        problem.prior,
        own_similarity=own,
        exponents=EXPONENTS,
        pseudo_count=1.0,
        vote_share=0.0,
    )
    for j, exponent in enumerate(EXPONENTS):
        np.testing.assert_allclose(
            seen[0][:, :, j], leave_one_out(problem, held_out, exponent), atol=1e-12
        )  # masses up to 200


def naive_best_power(vote, rows) -> float:
    """Of the grid, one candidate at a time, in log space."""

    def loss(power):
        proba = softmax(power * np.log(np.maximum(vote, 1e-300)), axis=1)
        return -np.log(np.maximum(proba[np.arange(len(rows)), rows.y], 1e-6)) @ rows.weight

    return min(VOTE_POWER_GRID, key=loss)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["nll", "ece"])
def test_the_best_of_all_candidates_is_taken(problem, criterion):
    held_out = problem.weighted
    graph, place = lent_graph(problem, held_out)
    vote = problem.forest.predict_proba(held_out.X)
    best, lowest = None, math.inf
    masses_at = {exponent: leave_one_out(problem, held_out, exponent) for exponent in EXPONENTS}
    for power, exponent, a, v in itertools.product(
        (1.0, naive_best_power(vote, held_out)), EXPONENTS, PSEUDO_COUNT_GRID, VOTE_SHARE_GRID
    ):
        masses = masses_at[exponent]
        smoothed = (masses + a * problem.prior) / (masses.sum(axis=1) + a)[:, None]
        proba = v * softmax(power * np.log(np.maximum(vote, 1e-300)), axis=1) + (1 - v) * smoothed
        own = np.maximum(proba[np.arange(len(held_out)), held_out.y], 1e-6)
        score = (
            -np.log(own) @ held_out.weight
            if criterion == "nll"
            else len(held_out) * ece(held_out.y, proba)
        )
        if score < lowest - 1e-9:
            best, lowest = (exponent, a, v, power), score
    found, log_density = search_query_posterior(
        graph,
        place,
        held_out,
        problem.prior,
        own_similarity=ones(problem),
        exponents=EXPONENTS,
        criterion=criterion,
    )
    assert (found.exponent, found.pseudo_count, found.vote_share, found.vote_power) == best
    assert np.array_equal(log_density, graph.log_density(held_out.X))


@pytest.mark.parametrize("chunk", [1, 13])
def test_the_chunk_of_rows_that_is_kept_at_once_changes_nothing(problem, monkeypatch, chunk):
    graph, place = lent_graph(problem, problem.held_out)
    expected = search_query_posterior(
        graph,
        place,
        problem.held_out,
        problem.prior,
        own_similarity=ones(problem),
        exponents=EXPONENTS,
    )
    monkeypatch.setattr(search, "_CHUNK_ROWS", chunk)
    found = search_query_posterior(
        graph,
        place,
        problem.held_out,
        problem.prior,
        own_similarity=ones(problem),
        exponents=EXPONENTS,
    )
    for name in ("exponent", "pseudo_count", "vote_share", "vote_power"):
        assert getattr(found[0], name) == getattr(expected[0], name)
    assert np.array_equal(found[1], expected[1])


def test_given_values_are_not_searched(problem):
    graph, place = lent_graph(problem, problem.held_out)
    found, _ = search_query_posterior(
        graph,
        place,
        problem.held_out,
        problem.prior,
        own_similarity=ones(problem),
        exponents=np.array([2.5]),
        pseudo_count=0.7,
        vote_share=0.3,
        vote_power=1.7,
    )
    assert (found.exponent, found.pseudo_count, found.vote_share, found.vote_power) == (
        2.5,
        0.7,
        0.3,
        1.7,
    )


def test_the_power_of_an_overconfident_vote_is_below_one_and_of_a_timid_one_above():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4000, 3))
    truth = softmax(logits, axis=1)
    y = (truth.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1)
    rows = Rows(logits, y, np.ones(len(y)))
    for inverse in (
        0.5,
        2.0,
    ):  # the grid's neighbours are 12 % apart; 4,000 rows find the temperature to a few percent
        assert fit_vote_power(softmax(logits / inverse, axis=1), rows) == pytest.approx(
            inverse, rel=0.13
        )


def test_the_search_at_the_nearest_polytope_goes_through_its_stages(problem):
    graph = KernelDensityGraph(
        problem.partition,
        problem.partition.locate(problem.train.X),
        problem.train.one_hot(len(problem.prior)),
        printed_variances,
    )
    tried = []

    def objective(proba, rows):
        tried.append(proba)
        return [3.0, 1.0, 2.0, 1.0, 0.5][len(tried) - 1]

    stages = [lambda _: np.array([1.0, 2.0, 3.0]), lambda k: k + np.array([0.0, 0.25])]
    found, log_density = search_nearest_posterior(
        graph,
        problem.partition.locate(problem.held_out.X),
        problem.held_out,
        problem.prior,
        stages,
        objective,
    )
    assert len(tried) == 5
    assert (
        found.exponent == 2.25
    )  # 2 was the first of the best, and of the second stage, which starts there, 2.25 was better
    assert log_density.shape == (len(problem.held_out),)


def test_of_equally_good_exponents_the_first_stays(problem):
    graph = KernelDensityGraph(
        problem.partition,
        problem.partition.locate(problem.train.X),
        problem.train.one_hot(len(problem.prior)),
        printed_variances,
    )
    place = problem.partition.locate(problem.held_out.X)
    found, _ = search_nearest_posterior(
        graph,
        place,
        problem.held_out,
        problem.prior,
        [lambda _: np.array([1.0, 2.0]), lambda k: np.array([k + 1])],
        lambda *_: 1.0,
    )
    assert found.exponent == 1.0


def test_smoothed_shares():
    masses = np.array([[3.0, 1.0], [0.0, 0.0]])
    assert np.array_equal(
        additive_smoothing(masses, 4.0, np.array([0.25, 0.75])), [[0.5, 0.5], [0.25, 0.75]]
    )


def test_the_posterior_of_the_nearest_polytope_is_bayes_rule():
    masses = np.array([[4.0, 1.0], [0.0, 3.0], [2.0, 2.0]])  # n_ry; n_y = 6, 6
    prior = np.array([0.25, 0.75])
    found = NearestPosterior.from_masses(1.0, masses, prior)
    joint = masses / 6 * prior
    visit = SimpleNamespace(
        polytope=np.array([0, 1, 2, 0]), log_density=np.array([0.0, -3.0, 1.0, -1e6])
    )
    posterior, log_density = found(visit, None)
    np.testing.assert_allclose(
        posterior, (joint / joint.sum(axis=1, keepdims=True))[visit.polytope], atol=1e-15
    )
    np.testing.assert_allclose(
        log_density, visit.log_density + np.log(joint.sum(axis=1))[visit.polytope], rtol=1e-14
    )


def test_a_class_without_mass_has_no_share_and_no_nan():
    found = NearestPosterior.from_masses(
        1.0, np.array([[4.0, 0.0], [2.0, 0.0]]), np.array([1.0, 0.0])
    )
    posterior, _ = found(
        SimpleNamespace(polytope=np.array([0, -1]), log_density=np.array([0.0, -np.inf])), None
    )
    assert posterior.tolist() == [[1, 0], [1, 0]]


def test_the_posterior_around_a_query_mixes_masses_and_vote(problem):
    graph, place = lent_graph(problem, problem.held_out)
    found = QueryPosterior(2.0, 0.5, 0.25, 1.5, problem.prior)
    visit = graph.query(place, found.exponents)
    posterior, log_density = found(visit, graph)
    vote = problem.forest.predict_proba(problem.held_out.X) ** 1.5
    vote /= vote.sum(axis=1, keepdims=True)
    expected = 0.25 * vote + 0.75 * additive_smoothing(visit.masses[:, :, 0], 0.5, problem.prior)
    np.testing.assert_allclose(posterior, expected, atol=1e-14)
    assert log_density is visit.log_density
