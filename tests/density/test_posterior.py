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
    masses_without_own,
    search_nearest_posterior,
    search_query_posterior,
)
from kdgraph.metrics import ece

EXPONENTS = np.array([0.1, 1.0, 4.0, 20.0])


def graph_with_held_out(problem, held_out):
    all_rows = problem.train + held_out
    locations = problem.partition.locate(all_rows.X)
    graph = KernelDensityGraph(
        problem.partition,
        locations,
        all_rows.one_hot(len(problem.prior)),
        shrunk_variances,
        n_train=len(problem.train),
    )
    return graph, locations[len(problem.train) :]


def search_on(graph, locations, rows, prior, *, own_similarity, exponents, **options):
    """Search on held-out rows, as the variant of this package does."""

    def masses_of(chunk):
        own = None if own_similarity is None else own_similarity[chunk]
        return masses_without_own(graph, locations[chunk], rows[chunk], exponents, own, len(prior))[
            0
        ]

    vote = graph.partition.vote(locations)
    return search_query_posterior(masses_of, vote, rows, prior, exponents=exponents, **options)


def leave_one_out(problem, held_out, exponent):
    """Return the masses at each held-out row without that row, Float[m, K]."""
    all_rows = problem.train + held_out
    codes, labels = problem.partition.encode(all_rows.X), all_rows.one_hot(len(problem.prior))
    n, masses = len(problem.train), []
    for i in range(len(held_out)):
        other_rows = np.delete(np.arange(len(all_rows)), n + i)
        share = (codes[n + i] == codes[other_rows]).mean(axis=1)
        masses.append(share**exponent @ labels[other_rows])
    return np.array(masses)


def test_search_grids_cover_documented_ranges():
    assert (EXPONENT_FACTOR_GRID[0], EXPONENT_FACTOR_GRID[-1]) == (
        pytest.approx(0.02),
        pytest.approx(20),
    )
    assert (VOTE_SHARE_GRID[0], VOTE_SHARE_GRID[-1]) == (0, 1)
    assert (PSEUDO_COUNT_GRID > 0).all()


def test_clipped_nll_matches_log_loss(problem):
    proba = np.random.default_rng(0).dirichlet(np.ones(len(problem.prior)), len(problem.weighted))
    expected = log_loss(
        problem.weighted.y, proba, normalize=False, sample_weight=problem.weighted.weight
    )
    assert clipped_nll(proba, problem.weighted) == pytest.approx(expected, rel=1e-12)
    certain = np.eye(len(problem.prior))[(problem.held_out.y + 1) % len(problem.prior)]
    assert clipped_nll(certain, problem.held_out) == pytest.approx(-len(certain) * math.log(1e-6))


def unit_similarity(problem) -> np.ndarray:
    """K of each held-out row with itself."""
    return np.ones(len(problem.held_out))


@pytest.mark.parametrize("n_rows", [1, 7, 512, 700])
@pytest.mark.parametrize("weights", ["equal", "unequal"])
def test_grid_of_candidates_has_the_nll_of_each(n_rows, weights):
    # In blocks of rows, and with products of probabilities where weights are equal.
    rng = np.random.default_rng(n_rows)
    masses = rng.random((n_rows, 3, 4)) * (rng.random((n_rows, 3, 4)) < 0.8)
    vote, prior = rng.dirichlet(np.full(3, 0.1), size=n_rows), np.array([0.2, 0.3, 0.5])
    weight = np.full(n_rows, 1.5) if weights == "equal" else rng.uniform(0, 2, n_rows)
    rows = Rows(rng.normal(size=(n_rows, 2)), rng.integers(3, size=n_rows), weight)
    pseudo_counts, shares = np.array([1e-9, 0.1, 2.0]), np.array([0.0, 0.4, 1.0])
    scores = search.grid_nll(masses, vote, rows, prior, pseudo_counts, shares)
    expected = np.empty((4, 3, 3))
    for k, a, v in np.ndindex(expected.shape):
        smoothed = additive_smoothing(masses[:, :, k], pseudo_counts[a], prior)
        expected[k, a, v] = clipped_nll(shares[v] * vote + (1 - shares[v]) * smoothed, rows)
    np.testing.assert_allclose(scores, expected, rtol=1e-11)


@pytest.mark.parametrize("rows", ["held_out", "weighted"])
def test_search_leaves_out_the_own_mass_of_held_out_rows(problem, rows, monkeypatch):
    held_out, recorded_masses = getattr(problem, rows), []
    monkeypatch.setattr(
        search,
        "_grid_scores",
        lambda masses, *other_rows: (
            recorded_masses.append(masses) or np.zeros((len(EXPONENTS), 1, 1))
        ),
    )
    graph, locations = graph_with_held_out(problem, held_out)
    own_proba = graph.own_similarity(slice(len(problem.train), None))
    search_on(
        graph,
        locations,
        held_out,
        problem.prior,
        own_similarity=own_proba,
        exponents=EXPONENTS,
        pseudo_count=1.0,
        vote_share=0.0,
    )
    for j, exponent in enumerate(EXPONENTS):
        np.testing.assert_allclose(
            recorded_masses[0][:, :, j], leave_one_out(problem, held_out, exponent), atol=1e-12
        )  # masses up to 200


def dense_best_power(vote, rows) -> float:
    """Return the best power of the grid, one candidate at a time, in log space."""

    def loss(power):
        proba = softmax(power * np.log(np.maximum(vote, 1e-300)), axis=1)
        return -np.log(np.maximum(proba[np.arange(len(rows)), rows.y], 1e-6)) @ rows.weight

    return min(VOTE_POWER_GRID, key=loss)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["nll", "ece"])
def test_search_returns_the_best_candidate(problem, criterion):
    held_out = problem.weighted
    graph, locations = graph_with_held_out(problem, held_out)
    vote = problem.forest.predict_proba(held_out.X)
    best, lowest = None, math.inf
    masses_at = {exponent: leave_one_out(problem, held_out, exponent) for exponent in EXPONENTS}
    for power, exponent, a, v in itertools.product(
        (1.0, dense_best_power(vote, held_out)), EXPONENTS, PSEUDO_COUNT_GRID, VOTE_SHARE_GRID
    ):
        masses = masses_at[exponent]
        smoothed = (masses + a * problem.prior) / (masses.sum(axis=1) + a)[:, None]
        proba = v * softmax(power * np.log(np.maximum(vote, 1e-300)), axis=1) + (1 - v) * smoothed
        own_proba = np.maximum(proba[np.arange(len(held_out)), held_out.y], 1e-6)
        score = (
            -np.log(own_proba) @ held_out.weight
            if criterion == "nll"
            else len(held_out) * ece(held_out.y, proba)
        )
        if score < lowest - 1e-9:
            best, lowest = (exponent, a, v, power), score
    fitted_posterior = search_on(
        graph,
        locations,
        held_out,
        problem.prior,
        own_similarity=unit_similarity(problem),
        exponents=EXPONENTS,
        criterion=criterion,
    )
    assert (
        fitted_posterior.exponent,
        fitted_posterior.pseudo_count,
        fitted_posterior.vote_share,
        fitted_posterior.vote_power,
    ) == best


@pytest.mark.parametrize("chunk", [1, 13])
def test_search_does_not_depend_on_chunk_size(problem, monkeypatch, chunk):
    graph, locations = graph_with_held_out(problem, problem.held_out)
    expected = search_on(
        graph,
        locations,
        problem.held_out,
        problem.prior,
        own_similarity=unit_similarity(problem),
        exponents=EXPONENTS,
    )
    monkeypatch.setattr(search, "_CHUNK_ROWS", chunk)
    fitted_posterior = search_on(
        graph,
        locations,
        problem.held_out,
        problem.prior,
        own_similarity=unit_similarity(problem),
        exponents=EXPONENTS,
    )
    for name in ("exponent", "pseudo_count", "vote_share", "vote_power"):
        assert getattr(fitted_posterior, name) == getattr(expected, name)


def test_fixed_values_are_not_searched(problem):
    graph, locations = graph_with_held_out(problem, problem.held_out)
    fitted_posterior = search_on(
        graph,
        locations,
        problem.held_out,
        problem.prior,
        own_similarity=unit_similarity(problem),
        exponents=np.array([2.5]),
        pseudo_count=0.7,
        vote_share=0.3,
        vote_power=1.7,
    )
    assert (
        fitted_posterior.exponent,
        fitted_posterior.pseudo_count,
        fitted_posterior.vote_share,
        fitted_posterior.vote_power,
    ) == (
        2.5,
        0.7,
        0.3,
        1.7,
    )


def test_vote_power_is_below_one_for_overconfident_votes():
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


def test_nearest_posterior_search_runs_its_passes(problem):
    graph = KernelDensityGraph(
        problem.partition,
        problem.partition.locate(problem.train.X),
        problem.train.one_hot(len(problem.prior)),
        printed_variances,
    )
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


def test_first_of_equally_good_exponents_is_chosen(problem):
    graph = KernelDensityGraph(
        problem.partition,
        problem.partition.locate(problem.train.X),
        problem.train.one_hot(len(problem.prior)),
        printed_variances,
    )
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


def test_additive_smoothing_adds_prior_pseudo_counts():
    masses = np.array([[3.0, 1.0], [0.0, 0.0]])
    assert np.array_equal(
        additive_smoothing(masses, 4.0, np.array([0.25, 0.75])), [[0.5, 0.5], [0.25, 0.75]]
    )


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


def test_query_posterior_mixes_masses_and_vote(problem):
    graph, locations = graph_with_held_out(problem, problem.held_out)
    fitted_posterior = QueryPosterior(2.0, 0.5, 0.25, 1.5, problem.prior)
    query_result = graph.query(locations, fitted_posterior.exponents)
    posterior, log_density = fitted_posterior(query_result, graph)
    vote = problem.forest.predict_proba(problem.held_out.X) ** 1.5
    vote /= vote.sum(axis=1, keepdims=True)
    expected = 0.25 * vote + 0.75 * additive_smoothing(
        query_result.masses[:, :, 0], 0.5, problem.prior
    )
    np.testing.assert_allclose(posterior, expected, atol=1e-14)
    assert log_density is query_result.log_density
