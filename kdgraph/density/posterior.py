"""Where the published implementations of Dey et al. for forests and for networks differ from each
other.

Posteriors inside the training distribution: around the query itself (ours), or of the nearest
polytope (Dey et al., Eq. 5 to 13).

The search on held-out rows (Dey et al., below Eq. 15: "grid search on a hold-out dataset") for
exponent, pseudo-count and vote.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kdgraph.base import Rows
from kdgraph.density.graph import KernelDensityGraph, QueryResult
from kdgraph.geometry import Locations
from kdgraph.metrics import ece

ExponentGrid = Callable[[float], np.ndarray]
"""The best exponent so far → exponents to try next, Float[k]."""


@dataclass(frozen=True)
class PublishedSettings:
    """One family of parents.

    Attributes
    ----------
    exponent_grids : the exponents that the version of October 2023 ("reference") searched, in two passes.
    n_bins : of the expected calibration error by which it chose.
    figure1_exponent : number of training rows → exponent of the version of August 2023 ("figure1").
    """

    exponent_grids: tuple[ExponentGrid, ...]
    n_bins: int
    figure1_exponent: Callable[[int], float]


def _forest_exponent(n: int) -> float:
    return 1.0 + math.log10(n) // 3


def _refined_forest_grid(k: float) -> np.ndarray:
    return k + np.arange(0, 2, 0.2)


def _refined_network_grid(k: float) -> np.ndarray:
    return k + np.arange(-0.06, 0.05, 0.01)


FOREST_SETTINGS = PublishedSettings(
    (lambda _: np.arange(1.0, 20.0, 2.0), _refined_forest_grid),
    n_bins=9,
    figure1_exponent=_forest_exponent,
)
NETWORK_SETTINGS = PublishedSettings(
    (lambda _: np.arange(1.0, 2.0, 0.1), _refined_network_grid),
    n_bins=19,
    figure1_exponent=math.log2,
)


@dataclass(frozen=True)
class QueryPosterior:
    """Class masses around the query itself, mixed with the parent's own vote.

    P(y|x) = v·vote_y(x)^β / Σ_k vote_k(x)^β + (1 - v)·(Σ_i K(x, x_i)^p [y_i = y] + a·prior_y) /
    (Σ_i K(x, x_i)^p + a).

    The paper reads the posterior at the nearest polytope's centre; around the query the same sum is
    smooth, and costs nothing more.
    """

    exponent: float
    pseudo_count: float
    vote_share: float
    vote_power: float
    prior: np.ndarray

    @property
    def exponents(self) -> np.ndarray:
        """Float[1]: what to ask :meth:`KernelDensityGraph.query` for."""
        return np.array([self.exponent])

    def __call__(
        self, query_result: QueryResult, graph: KernelDensityGraph
    ) -> tuple[np.ndarray, np.ndarray]:
        """Float[n, K] posterior and Float[n] log density."""
        smoothed = additive_smoothing(query_result.masses[:, :, 0], self.pseudo_count, self.prior)
        if not self.vote_share:
            return smoothed, query_result.log_density
        vote = temper(graph.partition.vote(query_result.locations), self.vote_power)
        return self.vote_share * vote + (1 - self.vote_share) * smoothed, query_result.log_density


@dataclass(frozen=True)
class NearestPosterior:
    """The posterior of the nearest polytope, p_y = (n_ry/n_y)·P_y / Σ (Eq. 5, 7, 13); the log
    density is log G plus that sum's log.

    ``log_joint``: Float[p, K], log((n_ry/n_y)·P_y).
    """

    exponent: float
    log_joint: np.ndarray
    exponents = np.empty(0)

    def __call__(
        self, query_result: QueryResult, graph: KernelDensityGraph
    ) -> tuple[np.ndarray, np.ndarray]:
        """Float[n, K] posterior and Float[n] log density."""
        log_share = self.log_joint[np.maximum(query_result.polytope, 0)]
        total = np.logaddexp.reduce(log_share, axis=1)
        return np.exp(log_share - total[:, None]), query_result.log_density + total

    @classmethod
    def from_masses(
        cls, exponent: float, masses: np.ndarray, prior: np.ndarray
    ) -> NearestPosterior:
        """From n_ry, Float[p, K], of Eq. 11."""
        with np.errstate(divide="ignore", invalid="ignore"):
            log_share = np.log(masses) - np.log(masses.sum(axis=0)) + np.log(prior)
        return cls(exponent, np.where(masses > 0, log_share, -np.inf))


def temper(vote: np.ndarray, power: float) -> np.ndarray:
    """Float[n, K]: ``vote`` raised to ``power``, as if its logits were divided by a temperature of
    1/power.
    """
    if power == 1:
        return vote
    raised = (vote / vote.max(axis=1, keepdims=True)) ** power
    return raised / raised.sum(axis=1, keepdims=True)


def additive_smoothing(masses: np.ndarray, pseudo_count: float, prior: np.ndarray) -> np.ndarray:
    """Float[n, K]: class shares of ``masses`` (Float[n, K]), with ``pseudo_count`` rows added that
    follow the prior.
    """
    return (masses + pseudo_count * prior) / (masses.sum(axis=1, keepdims=True) + pseudo_count)


SearchCriterion = Literal["nll", "ece"]
SearchObjective = Callable[[np.ndarray, Rows], float]
"""(proba Float[m, K], rows) → what is to be small."""

EXPONENT_FACTOR_GRID = np.geomspace(0.02, 20, 24)
"""Factors of log n in the exponent of Eq. 15: from nearly flat (a power of 0.14 at 1,000 rows) to
the nearest polytope alone.
"""
PSEUDO_COUNT_GRID = np.geomspace(1e-5, 10, 13)
VOTE_SHARE_GRID = np.linspace(0, 1, 5)
VOTE_POWER_GRID = np.geomspace(0.1, 10, 41)
"""Inverse temperatures: below 1 for an overconfident network, above 1 for a forest, whose fully
grown trees vote too evenly.
"""
_MIN_PROBABILITY = 1e-6
"""Probabilities count as at least this in the search; without it one empty neighbourhood would
decide.
"""
_CHUNK_ROWS = 4096
"""Held-out rows whose masses at all exponents are kept at once, so that memory does not grow with
rows × classes × exponents.
"""


def clipped_nll(proba: np.ndarray, rows: Rows) -> float:
    """Sum over rows of the weighted negative log likelihoods of ``proba``, Float[n, K], with the
    clip of the search.
    """
    return -float(
        np.log(np.maximum(proba[np.arange(len(rows)), rows.y], _MIN_PROBABILITY)) @ rows.weight
    )


def search_query_posterior(
    graph: KernelDensityGraph,
    locations: Locations,
    held_out: Rows,
    prior: np.ndarray,
    *,
    own_similarity: np.ndarray | None,
    exponents: np.ndarray,
    pseudo_count: float | Literal["auto"] = "auto",
    vote_share: float | Literal["auto"] = "auto",
    vote_power: float | Literal["auto"] = "auto",
    criterion: SearchCriterion = "nll",
) -> tuple[QueryPosterior, np.ndarray]:
    """The best :class:`QueryPosterior` on held-out rows, and the log density (Float[m]) at each of
    these rows.

    The vote is tried as it is and tempered by the power that makes its own NLL least (temperature
    scaling), not by every power. ``locations`` says where the held-out rows lie. Where they are lenders
    of the graph, ``own_similarity`` (Float[m]) is the similarity of each to the polytope that holds its mass,
    and it is judged without that mass (leave-one-out).
    """
    pseudo_counts = PSEUDO_COUNT_GRID if pseudo_count == "auto" else np.array([pseudo_count])
    vote_shares = VOTE_SHARE_GRID if vote_share == "auto" else np.array([vote_share])
    vote = graph.partition.vote(locations)
    vote_powers = (
        list(dict.fromkeys([1.0, fit_vote_power(vote, held_out)]))
        if vote_power == "auto"
        else [vote_power]
    )
    scores = np.zeros((len(vote_powers), len(exponents), len(pseudo_counts), len(vote_shares)))
    log_density = np.empty(len(held_out))
    together = _CHUNK_ROWS if criterion == "nll" else len(held_out)  # ECE is no sum over rows
    for start in range(0, len(held_out), together):
        chunk = slice(start, start + together)
        rows = held_out[chunk]
        visit = graph.query(locations[chunk], exponents)
        masses = visit.masses
        if own_similarity is not None:
            lent = own_similarity[chunk, None] ** exponents
            masses = np.maximum(masses - rows.one_hot(len(prior))[:, :, None] * lent[:, None, :], 0)
        for tried, power in zip(scores, vote_powers, strict=True):
            tried += _grid_scores(
                masses,
                temper(vote[chunk], power),
                rows,
                prior,
                pseudo_counts,
                vote_shares,
                criterion,
            )
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


def fit_vote_power(vote: np.ndarray, rows: Rows) -> float:
    """The power of ``vote`` (Float[m, K]) with the least NLL on ``rows``: temperature scaling (Guo
    et al. 2017) on a grid of 1/T.
    """
    return float(
        VOTE_POWER_GRID[
            np.argmin([clipped_nll(temper(vote, power), rows) for power in VOTE_POWER_GRID])
        ]
    )


def _grid_scores(
    masses, vote, rows: Rows, prior, pseudo_counts, vote_shares, criterion: SearchCriterion
) -> np.ndarray:
    """Float[k, a, v]: the criterion of every candidate; NLL is a sum over rows, ECE counts every
    row alike.
    """
    if criterion == "nll":
        return _grid_nll(masses, vote, rows, prior, pseudo_counts, vote_shares)
    scores = np.empty((masses.shape[2], len(pseudo_counts), len(vote_shares)))
    for k, a, v in np.ndindex(scores.shape):
        proba = vote_shares[v] * vote + (1 - vote_shares[v]) * additive_smoothing(
            masses[:, :, k], pseudo_counts[a], prior
        )
        scores[k, a, v] = ece(rows.y, proba)
    return scores


def _grid_nll(masses, vote, rows: Rows, prior, pseudo_counts, vote_shares) -> np.ndarray:
    """As :func:`_scores` for NLL, which needs the true class's column only."""
    own = np.arange(len(rows)), rows.y
    true_mass, all_mass = masses[own], masses.sum(axis=1)
    a = pseudo_counts[:, None, None]
    share, vote_part = vote_shares[:, None], vote_shares[:, None] * vote[own]
    scores = np.empty((masses.shape[2], len(pseudo_counts), len(vote_shares)))
    for k in range(masses.shape[2]):
        smoothed = (true_mass[:, k] + a * prior[rows.y]) / (all_mass[:, k] + a)
        scores[k] = (
            -np.log(np.maximum(vote_part + (1 - share) * smoothed, _MIN_PROBABILITY)) @ rows.weight
        )
    return scores


def search_nearest_posterior(
    graph: KernelDensityGraph,
    locations: Locations,
    held_out: Rows,
    prior: np.ndarray,
    exponent_grids: Sequence[ExponentGrid],
    objective: SearchObjective = clipped_nll,
) -> tuple[NearestPosterior, np.ndarray]:
    """The best :class:`NearestPosterior` on held-out rows, and the log density (Float[m]) at each
    of these rows.

    Each stage is a grid of exponents, Float[k], that may depend on the best exponent so far. Of
    equally good exponents the first stays. The class masses of all populated polytopes at all
    exponents of a stage are held at once.
    """
    visit, candidates, scores, best = graph.query(locations, np.empty(0)), [], [], 0
    for stage in exponent_grids:
        exponents = stage(candidates[best].exponent if candidates else 0.0)
        masses, _ = graph.query_codes(graph.codes, exponents)
        for j, exponent in enumerate(exponents):
            candidates.append(NearestPosterior.from_masses(float(exponent), masses[:, :, j], prior))
            scores.append(objective(candidates[-1](visit, graph)[0], held_out))
        best = int(np.argmin(scores))
    return candidates[best], candidates[best](visit, graph)[1]
