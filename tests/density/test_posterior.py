"""The fit of the posterior against plain loops over every candidate."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import log_loss

from kdgraph.base import Rows
from kdgraph.density import equations
from kdgraph.density import posterior as fit
from kdgraph.density.out_of_sample import HeldOutRows
from kdgraph.density.posterior import (
    EXPONENT_FACTOR_GRID,
    PARENT_POWER_GRID,
    PARENT_WEIGHT_GRID,
    PSEUDO_COUNT_GRID,
    PosteriorParameters,
    QueryPosterior,
    clipped_nll,
    fit_parent_power,
    fit_posterior,
    grid_nll,
)

NAMES = ("exponent", "pseudo_count", "parent_weight", "parent_power")


def fit_to_held_out(problem, rows, **fixed):
    """Return graph, source and best candidate of held-out rows."""
    n_classes = len(problem.prior)
    graph, source = HeldOutRows.with_graph(
        problem.partition, problem.train, rows, n_classes, "geodesic", None
    )
    posterior = fit_posterior(
        lambda exponents: source.masses_at(graph, exponents),
        source.parent_proba,
        rows,
        problem.prior,
        PosteriorParameters(**fixed),
        len(problem.train),
        average=False,
    )
    return graph, source, posterior


def search(problem, rows, **fixed) -> list[float]:
    """Return the parameters of the best candidate."""
    settings = fit_to_held_out(problem, rows, **fixed)[2].describe()
    return [settings[name] for name in NAMES]


def leave_one_out(problem, held_out, exponent):
    """Return the masses at each held-out row without that row, Float[m, K]."""
    all_rows = problem.train + held_out
    codes, labels = problem.partition.encode(all_rows.X), all_rows.one_hot(len(problem.prior))
    n = len(problem.train)
    kernel = equations.forest_similarity(codes[n:], codes) ** exponent
    kernel[np.arange(len(held_out)), n + np.arange(len(held_out))] = 0
    return kernel @ labels


def test_search_grids_cover_documented_ranges():
    assert (EXPONENT_FACTOR_GRID[0], EXPONENT_FACTOR_GRID[-1]) == (
        pytest.approx(0.02),
        pytest.approx(20),
    )
    assert (PARENT_WEIGHT_GRID[0], PARENT_WEIGHT_GRID[-1]) == (0, 1)
    assert (PSEUDO_COUNT_GRID > 0).all()


def test_clipped_nll_matches_log_loss(problem):
    proba = np.random.default_rng(0).dirichlet(np.ones(len(problem.prior)), len(problem.weighted))
    expected = log_loss(
        problem.weighted.y, proba, normalize=False, sample_weight=problem.weighted.weight
    )
    assert clipped_nll(proba, problem.weighted) == pytest.approx(expected, rel=1e-12)
    certain = np.eye(len(problem.prior))[(problem.held_out.y + 1) % len(problem.prior)]
    assert clipped_nll(certain, problem.held_out) == pytest.approx(-len(certain) * math.log(1e-6))


@pytest.mark.parametrize("n_rows", [1, 7, 512, 700])
@pytest.mark.parametrize("weights", ["equal", "unequal"])
def test_grid_of_candidates_has_the_nll_of_each(n_rows, weights):
    # In blocks of rows, and with products of probabilities where weights are equal.
    rng = np.random.default_rng(n_rows)
    masses = rng.random((n_rows, 3, 4)) * (rng.random((n_rows, 3, 4)) < 0.8)
    proba, prior = rng.dirichlet(np.full(3, 0.1), size=n_rows), np.array([0.2, 0.3, 0.5])
    weight = np.full(n_rows, 1.5) if weights == "equal" else rng.uniform(0, 2, n_rows)
    rows = Rows(rng.normal(size=(n_rows, 2)), rng.integers(3, size=n_rows), weight)
    pseudo_counts, fractions = np.array([1e-9, 0.1, 2.0]), np.array([0.0, 0.4, 1.0])
    scores = grid_nll(masses, proba, rows, prior, pseudo_counts, fractions)
    expected = np.empty((4, 3, 3))
    for k, a, v in np.ndindex(expected.shape):
        mass, added = masses[:, :, k], pseudo_counts[a]
        smoothed = (mass + added * prior) / (mass.sum(axis=1, keepdims=True) + added)
        expected[k, a, v] = clipped_nll(fractions[v] * proba + (1 - fractions[v]) * smoothed, rows)
    np.testing.assert_allclose(scores, expected, rtol=1e-11)


@pytest.mark.parametrize("rows", ["held_out", "weighted"])
def test_held_out_rows_are_predicted_without_their_own_mass(problem, rows):
    held_out = getattr(problem, rows)
    graph, source, _ = fit_to_held_out(problem, held_out)
    exponents = np.array([0.1, 1.0, 4.0, 20.0])
    masses = source.masses_at(graph, exponents)
    for j, exponent in enumerate(exponents):
        expected = leave_one_out(problem, held_out, exponent)
        # Masses up to 200.
        np.testing.assert_allclose(masses(slice(None))[:, :, j], expected, atol=1e-12)
        np.testing.assert_allclose(masses(slice(3, None, 5))[:, :, j], expected[3::5], atol=1e-12)


def dense_best_power(parent_proba, rows) -> float:
    """Return the best power of the grid, one candidate at a time, in log space."""

    def loss(power):
        proba = softmax(power * np.log(np.maximum(parent_proba, 1e-300)), axis=1)
        return -np.log(np.maximum(proba[np.arange(len(rows)), rows.y], 1e-6)) @ rows.weight

    return min(PARENT_POWER_GRID, key=loss)


@pytest.mark.slow
def test_search_returns_the_best_candidate(problem):
    held_out = problem.weighted
    parent_proba = problem.forest.predict_proba(held_out.X)
    best, lowest = None, math.inf
    exponents = [equations.exponent(k, len(problem.train)) for k in EXPONENT_FACTOR_GRID]
    masses_at = {exponent: leave_one_out(problem, held_out, exponent) for exponent in exponents}
    for power, exponent, a, v in itertools.product(
        (1.0, dense_best_power(parent_proba, held_out)),
        exponents,
        PSEUDO_COUNT_GRID,
        PARENT_WEIGHT_GRID,
    ):
        proba = equations.query_posterior(
            masses_at[exponent], parent_proba, problem.prior, a, v, power
        )
        own_proba = np.maximum(proba[np.arange(len(held_out)), held_out.y], 1e-6)
        score = -np.log(own_proba) @ held_out.weight
        if score < lowest - 1e-9:
            best, lowest = (exponent, a, v, power), score
    assert search(problem, held_out) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("chunk", [1, 13])
def test_fit_does_not_depend_on_chunk_size(problem, monkeypatch, chunk):
    expected = search(problem, problem.held_out)
    monkeypatch.setattr(fit, "_CHUNK_ROWS", chunk)
    assert search(problem, problem.held_out) == expected


def test_fixed_values_are_not_searched(problem):
    fixed = {"k": 0.5, "pseudo_count": 0.7, "parent_weight": 0.3, "parent_power": 1.7}
    expected = [equations.exponent(0.5, len(problem.train)), 0.7, 0.3, 1.7]
    assert search(problem, problem.held_out, **fixed) == pytest.approx(expected, rel=1e-12)


def test_parent_alone_needs_no_class_masses(problem):
    graph, _, posterior = fit_to_held_out(
        problem, problem.held_out, parent_weight=1.0, parent_power=1.0
    )
    assert len(posterior.exponents) == 0
    locations = problem.partition.locate(problem.test.X)
    actual, _ = posterior(graph.query(locations, posterior.exponents), graph)
    np.testing.assert_array_equal(actual, problem.partition.parent_proba(locations))


def test_power_is_below_one_for_an_overconfident_parent():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4000, 3))
    truth = softmax(logits, axis=1)
    y = (truth.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1)
    rows = Rows(logits, y, np.ones(len(y)))
    for inverse in (
        0.5,
        2.0,
    ):  # the grid's neighbours are 12 % apart; 4,000 rows find the temperature to a few percent
        assert fit_parent_power(softmax(logits / inverse, axis=1), rows) == pytest.approx(
            inverse, rel=0.13
        )


def test_query_posterior_mixes_masses_and_parent(problem):
    graph = fit_to_held_out(problem, problem.held_out)[0]
    posterior = QueryPosterior(
        np.array([2.0]),
        np.array([0.5]),
        np.array([[0.75]]),
        np.array([1.5]),
        np.array([0.25]),
        problem.prior,
    )
    query_result = graph.query(problem.partition.locate(problem.held_out.X), posterior.exponents)
    actual, log_density = posterior(query_result, graph)
    expected = equations.query_posterior(
        query_result.masses[:, :, 0],
        problem.forest.predict_proba(problem.held_out.X),
        problem.prior,
        0.5,
        0.25,
        1.5,
    )
    np.testing.assert_allclose(actual, expected, atol=1e-14)
    assert log_density is query_result.log_density
