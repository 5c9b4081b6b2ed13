"""The search on held-out rows (Dey et al., below Eq. 15: "grid search on a hold-out dataset") for exponent, pseudo-count and vote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from kdgraph.density.graph import KernelDensityGraph
from kdgraph.density.posterior import NearestPosterior, QueryPosterior, smooth, tempered
from kdgraph.density.published import Stage
from kdgraph.geometry import Place
from kdgraph.metrics import ece
from kdgraph.parents import Rows

Criterion = Literal["nll", "ece"]
Objective = Callable[[np.ndarray, Rows], float]
"""(proba Float[m, K], rows) → what is to be small."""

K_GRID = np.geomspace(0.02, 20, 24)
"""Factors of log n in the exponent of Eq. 15: from nearly flat (a power of 0.14 at 1,000 rows) to the nearest polytope alone."""
PSEUDO_COUNTS = np.geomspace(1e-5, 10, 13)
VOTE_SHARES = np.linspace(0, 1, 5)
VOTE_POWERS = np.geomspace(0.1, 10, 41)
"""Inverse temperatures: below 1 for an overconfident network, above 1 for a forest, whose fully grown trees vote too evenly."""
_CLIP = 1e-6
"""Probabilities count as at least this in the search; without it one empty neighbourhood would decide."""
_CHUNK = 4096
"""Held-out rows whose masses at all exponents are kept at once, so that memory does not grow with rows × classes × exponents."""


def nll(proba: np.ndarray, rows: Rows) -> float:
    """Sum over rows of the weighted negative log likelihoods of ``proba``, Float[n, K], with the clip of the search."""
    return -float(np.log(np.maximum(proba[np.arange(len(rows)), rows.y], _CLIP)) @ rows.weight)


def search_query(
    graph: KernelDensityGraph,
    place: Place,
    held_out: Rows,
    prior: np.ndarray,
    *,
    own: np.ndarray | None,
    exponents: np.ndarray,
    pseudo_count: float | Literal["auto"] = "auto",
    vote_share: float | Literal["auto"] = "auto",
    vote_power: float | Literal["auto"] = "auto",
    criterion: Criterion = "nll",
) -> tuple[QueryPosterior, np.ndarray]:
    """The best :class:`QueryPosterior` on held-out rows, and the log density (Float[m]) at each of these rows.

    The vote is tried as it is and tempered by the power that makes its own NLL least (temperature scaling), not by every power.
    ``place`` says where the held-out rows lie. Where they are lenders of the graph, ``own`` (Float[m]) is the similarity of each to the
    polytope that holds its mass, and it is judged without that mass (leave-one-out).
    """
    pseudo_counts = PSEUDO_COUNTS if pseudo_count == "auto" else np.array([pseudo_count])
    vote_shares = VOTE_SHARES if vote_share == "auto" else np.array([vote_share])
    vote = graph.partition.vote(place)
    vote_powers = list(dict.fromkeys([1.0, best_power(vote, held_out)])) if vote_power == "auto" else [vote_power]
    scores = np.zeros((len(vote_powers), len(exponents), len(pseudo_counts), len(vote_shares)))
    log_density = np.empty(len(held_out))
    together = _CHUNK if criterion == "nll" else len(held_out)  # ECE is no sum over rows
    for start in range(0, len(held_out), together):
        chunk = slice(start, start + together)
        rows = held_out[chunk]
        visit = graph.visit(place[chunk], exponents)
        masses = visit.masses
        if own is not None:
            lent = own[chunk, None] ** exponents
            masses = np.maximum(masses - rows.one_hot(len(prior))[:, :, None] * lent[:, None, :], 0)
        for tried, power in zip(scores, vote_powers, strict=True):
            tried += _scores(masses, tempered(vote[chunk], power), rows, prior, pseudo_counts, vote_shares, criterion)
        log_density[chunk] = visit.log_density
    t, k, a, v = np.unravel_index(np.argmin(scores), scores.shape)
    found = QueryPosterior(
        exponent=float(exponents[k]),
        pseudo_count=float(pseudo_counts[a]),
        vote_share=float(vote_shares[v]),
        vote_power=float(vote_powers[t]),
        prior=prior,
    )
    return found, log_density


def best_power(vote: np.ndarray, rows: Rows) -> float:
    """The power of ``vote`` (Float[m, K]) with the least NLL on ``rows``: temperature scaling (Guo et al. 2017) on a grid of 1/T."""
    return float(VOTE_POWERS[np.argmin([nll(tempered(vote, power), rows) for power in VOTE_POWERS])])


def _scores(masses, vote, rows: Rows, prior, pseudo_counts, vote_shares, criterion: Criterion) -> np.ndarray:
    """Float[k, a, v]: the criterion of every candidate; NLL is a sum over rows, ECE counts every row alike."""
    if criterion == "nll":
        return _nll_scores(masses, vote, rows, prior, pseudo_counts, vote_shares)
    scores = np.empty((masses.shape[2], len(pseudo_counts), len(vote_shares)))
    for k, a, v in np.ndindex(scores.shape):
        proba = vote_shares[v] * vote + (1 - vote_shares[v]) * smooth(masses[:, :, k], pseudo_counts[a], prior)
        scores[k, a, v] = ece(rows.y, proba)
    return scores


def _nll_scores(masses, vote, rows: Rows, prior, pseudo_counts, vote_shares) -> np.ndarray:
    """As :func:`_scores` for NLL, which needs the true class's column only."""
    own = np.arange(len(rows)), rows.y
    true_mass, all_mass = masses[own], masses.sum(axis=1)
    a = pseudo_counts[:, None, None]
    share, vote_part = vote_shares[:, None], vote_shares[:, None] * vote[own]
    scores = np.empty((masses.shape[2], len(pseudo_counts), len(vote_shares)))
    for k in range(masses.shape[2]):
        smoothed = (true_mass[:, k] + a * prior[rows.y]) / (all_mass[:, k] + a)
        scores[k] = -np.log(np.maximum(vote_part + (1 - share) * smoothed, _CLIP)) @ rows.weight
    return scores


def search_nearest(
    graph: KernelDensityGraph, place: Place, held_out: Rows, prior: np.ndarray, stages: Sequence[Stage], objective: Objective = nll
) -> tuple[NearestPosterior, np.ndarray]:
    """The best :class:`NearestPosterior` on held-out rows, and the log density (Float[m]) at each of these rows.

    Each stage is a grid of exponents, Float[k], that may depend on the best exponent so far. Of equally good exponents the first stays.
    The class masses of all populated polytopes at all exponents of a stage are held at once.
    """
    visit, candidates, scores, best = graph.visit(place, np.empty(0)), [], [], 0
    for stage in stages:
        exponents = stage(candidates[best].exponent if candidates else 0.0)
        masses, _ = graph.masses(graph.codes, exponents)
        for j, exponent in enumerate(exponents):
            candidates.append(NearestPosterior.from_masses(float(exponent), masses[:, :, j], prior))
            scores.append(objective(candidates[-1](visit, graph)[0], held_out))
        best = int(np.argmin(scores))
    return candidates[best], candidates[best](visit, graph)[1]
