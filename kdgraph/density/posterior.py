"""Posteriors inside the training distribution, and the search for their parameters.

:class:`QueryPosterior` averages the classes around the query itself and mixes them with the vote of
the parent; :class:`NearestPosterior` is the posterior of the nearest polytope (Dey et al. 2024,
Eq. 5 to 13). Exponent, pseudo-count and vote are chosen on held-out rows ("grid search on a
hold-out dataset", Dey et al., below Eq. 15) by :func:`search_query_posterior` and
:func:`search_nearest_posterior`. :class:`PublishedSettings` lists where the published
implementations for forests and for networks differ. The query posterior and its search are original
to kdgraph.
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
"""Function of the best exponent so far that returns the exponents to try next, Float[k]."""
SearchCriterion = Literal["nll", "ece"]
"""Criterion of the search: negative log likelihood or expected calibration error."""
SearchObjective = Callable[[np.ndarray, Rows], float]
"""Function of probabilities (Float[m, K]) and rows that the search minimises."""

EXPONENT_FACTOR_GRID = np.geomspace(0.02, 20, 24)
"""Factors of log n in the exponent of Eq. 15: from nearly flat (a power of 0.14 at 1,000 rows) to
the nearest polytope alone.
"""
PSEUDO_COUNT_GRID = np.geomspace(1e-5, 10, 13)
"""Pseudo-counts a of the search."""
VOTE_SHARE_GRID = np.linspace(0, 1, 5)
"""Weights v of the parent's vote in the search."""
VOTE_POWER_GRID = np.geomspace(0.1, 10, 41)
"""Powers β of the vote in the search, inverse temperatures. They are below 1 for an overconfident
network, and above 1 for a forest, whose fully grown trees are underconfident.
"""

# Minimum probability in the search. Without it, one empty neighbourhood would determine the result.
MIN_PROBABILITY = 1e-6
# Held-out rows whose masses at all exponents are in memory at once, so that memory does not grow
# with rows × classes × exponents.
_CHUNK_ROWS = 4096
# Rows that are scored at once, so that all candidates of an exponent stay in the cache.
_GRID_ROWS = 512


@dataclass(frozen=True)
class PublishedSettings:
    """Settings of the published implementations for one family of parents.

    Attributes
    ----------
    n_bins : int
        Number of bins of the expected calibration error by which the version of October 2023
        ("reference") chose the exponent.
    figure1_exponent : callable
        Function of the number of training rows that returns the exponent of the version of August
        2023 ("figure1").
    """

    n_bins: int
    figure1_exponent: Callable[[int], float]


def _forest_exponent(n: int) -> float:
    """Return the exponent of "figure1" for forests."""
    return 1.0 + math.log10(n) // 3


FOREST_SETTINGS = PublishedSettings(n_bins=9, figure1_exponent=_forest_exponent)
NETWORK_SETTINGS = PublishedSettings(n_bins=19, figure1_exponent=math.log2)

# The published grid moved several times. This is the one of the version that made the stored
# numbers of Figures 2 and 5 to 8, for forests and networks alike; the last version searches 1 to 2
# for networks, which is too narrow for tables of many classes: on satimage it leaves an ECE of .20
# where .025 is stored.
REFERENCE_GRIDS: tuple[ExponentGrid, ...] = (
    lambda _: np.arange(1.0, 20.0, 2.0),
    lambda k: k + np.arange(0, 2, 0.2),
)
"""Exponents that the version of October 2023 ("reference") searched, in two passes."""


@dataclass(frozen=True)
class QueryPosterior:
    """Posterior of the class masses around the query, mixed with the vote of the parent.

    P(y|x) = v·vote_y(x)^β / Σ_k vote_k(x)^β + (1 - v)·(Σ_i K(x, x_i)^p [y_i = y] + a·prior_y) /
    (Σ_i K(x, x_i)^p + a).

    Attributes
    ----------
    exponent : float
        Exponent p.
    pseudo_count : float
        Pseudo-count a.
    vote_share : float
        Weight v of the vote.
    vote_power : float
        Power β of the vote.
    prior : Float[K]
        Class prior.

    Notes
    -----
    Original to kdgraph. Dey et al. evaluate the posterior at the centre of the nearest polytope. At
    the query, the same sum is smooth and costs nothing more.
    """

    exponent: float
    pseudo_count: float
    vote_share: float
    vote_power: float
    prior: np.ndarray

    @property
    def exponents(self) -> np.ndarray:
        """Exponents that :meth:`KernelDensityGraph.query` has to evaluate, Float[1]."""
        return np.array([self.exponent])

    def __call__(
        self, query_result: QueryResult, graph: KernelDensityGraph
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the posterior, Float[n, K], and the log density, Float[n]."""
        masses = query_result.masses
        vote = graph.partition.vote(query_result.locations) if self.vote_share else masses
        return self.mix(masses, vote), query_result.log_density

    def mix(self, masses: np.ndarray, vote: np.ndarray) -> np.ndarray:
        """Return the posterior, Float[n, K], of masses Float[n, K, 1] and votes Float[n, K]."""
        smoothed = additive_smoothing(masses[:, :, 0], self.pseudo_count, self.prior)
        if not self.vote_share:
            return smoothed
        return self.vote_share * temper(vote, self.vote_power) + (1 - self.vote_share) * smoothed


@dataclass(frozen=True)
class NearestPosterior:
    """Posterior of the nearest polytope, p_y = (n_ry/n_y)·P_y / Σ (Eq. 5, 7, 13).

    The log density is log G plus the logarithm of that sum Σ over classes.

    Attributes
    ----------
    exponent : float
        Exponent of the class masses.
    log_joint : Float[p, K]
        log((n_ry/n_y)·P_y) of each polytope and class.
    exponents : Float[0]
        Exponents that :meth:`KernelDensityGraph.query` has to evaluate: none.
    """

    exponent: float
    log_joint: np.ndarray
    exponents = np.empty(0)

    def __call__(
        self, query_result: QueryResult, graph: KernelDensityGraph
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the posterior, Float[n, K], and the log density, Float[n]."""
        log_joint = self.log_joint[np.maximum(query_result.polytope, 0)]
        log_total = np.logaddexp.reduce(log_joint, axis=1)
        return np.exp(log_joint - log_total[:, None]), query_result.log_density + log_total

    @classmethod
    def from_masses(
        cls, exponent: float, masses: np.ndarray, prior: np.ndarray
    ) -> NearestPosterior:
        """Return the posterior from the class masses of the polytopes.

        Parameters
        ----------
        exponent : float
            Exponent of the class masses.
        masses : Float[p, K]
            n_ry of Eq. 11.
        prior : Float[K]
            Class prior.

        Returns
        -------
        NearestPosterior
            The posterior.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            log_joint = np.log(masses) - np.log(masses.sum(axis=0)) + np.log(prior)
        return cls(exponent, np.where(masses > 0, log_joint, -np.inf))


def temper(vote: np.ndarray, power: float) -> np.ndarray:
    """Return ``vote`` raised to ``power`` and normalised.

    This divides the logits by a temperature of 1/power.

    Parameters
    ----------
    vote : Float[n, K]
        Class probabilities.
    power : float
        The power.

    Returns
    -------
    Float[n, K]
        Class probabilities.
    """
    if power == 1:
        return vote
    raised = (vote / vote.max(axis=1, keepdims=True)) ** power
    return raised / raised.sum(axis=1, keepdims=True)


def additive_smoothing(masses: np.ndarray, pseudo_count: float, prior: np.ndarray) -> np.ndarray:
    """Return class fractions of masses after the addition of pseudo-counts.

    Parameters
    ----------
    masses : Float[n, K]
        Class masses.
    pseudo_count : float
        Number of added rows; their classes follow the prior.
    prior : Float[K]
        Class prior.

    Returns
    -------
    Float[n, K]
        Class fractions.
    """
    return (masses + pseudo_count * prior) / (masses.sum(axis=1, keepdims=True) + pseudo_count)


def clipped_nll(proba: np.ndarray, rows: Rows) -> float:
    """Return the weighted sum of negative log likelihoods, with probabilities of at least 1e-6.

    Parameters
    ----------
    proba : Float[n, K]
        Class probabilities.
    rows : Rows
        The rows, with classes and weights.

    Returns
    -------
    float
        The sum.
    """
    return nll_of_true_class(proba[np.arange(len(rows)), rows.y], rows)


def mean_nll(proba: np.ndarray, rows: Rows) -> float:
    """Return :func:`clipped_nll` of the probabilities Float[n, K] by unit of weight, in nats."""
    return clipped_nll(proba, rows) / float(rows.weight.sum())


def nll_of_true_class(proba: np.ndarray, rows: Rows) -> float:
    """Return :func:`clipped_nll` of the probabilities of each row's class, Float[n]."""
    return -float(np.log(np.maximum(proba, MIN_PROBABILITY)) @ rows.weight)


def masses_without_own(
    graph: KernelDensityGraph,
    locations: Locations,
    rows: Rows,
    exponents: np.ndarray,
    own_similarity: np.ndarray | None,
    n_classes: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the class masses around held-out rows, without their own, and their log densities.

    Parameters
    ----------
    graph : KernelDensityGraph
        The graph.
    locations : Locations
        Positions of the rows.
    rows : Rows
        Held-out rows, m of them.
    exponents : Float[k]
        Powers of the similarity.
    own_similarity : Float[m] or None
        Similarity of each row to the polytope that contains its mass, if the graph contains the
        masses of held-out rows; None if it does not.
    n_classes : int
        Number of classes K.

    Returns
    -------
    masses : Float[m, K, k]
        Class masses.
    log_density : Float[m]
        Log densities.
    """
    query_result = graph.query(locations, exponents)
    if own_similarity is None:
        return query_result.masses, query_result.log_density
    # Rounding may leave a negative mass where a row's own mass is all of it.
    own_mass = own_similarity[:, None] ** exponents
    own = rows.one_hot(n_classes)[:, :, None] * own_mass[:, None, :]
    return np.maximum(query_result.masses - own, 0), query_result.log_density


def search_query_posterior(
    masses_of: Callable[[slice], np.ndarray],
    vote: np.ndarray,
    rows: Rows,
    prior: np.ndarray,
    *,
    exponents: np.ndarray,
    pseudo_count: float | Literal["auto"] = "auto",
    vote_share: float | Literal["auto"] = "auto",
    vote_power: float | Literal["auto"] = "auto",
    criterion: SearchCriterion = "nll",
) -> QueryPosterior:
    """Search the best query posterior on rows that the parent was not fitted on.

    Parameters
    ----------
    masses_of : callable
        Function of a slice of the rows that returns their class masses at all ``exponents``,
        Float[c, K, k], without the mass of each row itself.
    vote : Float[m, K]
        Class probabilities of the parent.
    rows : Rows
        Rows of the search, m of them.
    prior : Float[K]
        Class prior.
    exponents : Float[k]
        Exponents to try.
    pseudo_count, vote_share, vote_power : float or "auto", default="auto"
        Fixed values, or "auto" for a search.
    criterion : {"nll", "ece"}, default="nll"
        Criterion to minimise.

    Returns
    -------
    QueryPosterior
        The best posterior.
    """
    # All combinations of exponent, pseudo-count and weight of the vote are scored. The power of the
    # vote is fitted first, alone, by temperature scaling: the vote is tried with this power and
    # with power 1, not with every power, which would multiply the grid by 41.
    pseudo_counts = PSEUDO_COUNT_GRID if pseudo_count == "auto" else np.array([pseudo_count])
    vote_shares = VOTE_SHARE_GRID if vote_share == "auto" else np.array([vote_share])
    vote_powers = (
        list(dict.fromkeys([1.0, fit_vote_power(vote, rows)]))
        if vote_power == "auto"
        else [vote_power]
    )
    scores = np.zeros((len(vote_powers), len(exponents), len(pseudo_counts), len(vote_shares)))
    # NLL is a sum over rows and can be accumulated by chunks; ECE cannot.
    chunk_rows = _CHUNK_ROWS if criterion == "nll" else len(rows)
    for start in range(0, len(rows), chunk_rows):
        chunk = slice(start, start + chunk_rows)
        masses = masses_of(chunk)
        for power_scores, power in zip(scores, vote_powers, strict=True):
            power_scores += _grid_scores(
                masses,
                temper(vote[chunk], power),
                rows[chunk],
                prior,
                pseudo_counts,
                vote_shares,
                criterion,
            )
    t, k, a, v = np.unravel_index(np.argmin(scores), scores.shape)
    return QueryPosterior(
        exponent=float(exponents[k]),
        pseudo_count=float(pseudo_counts[a]),
        vote_share=float(vote_shares[v]),
        vote_power=float(vote_powers[t]),
        prior=prior,
    )


def fit_vote_power(vote: np.ndarray, rows: Rows) -> float:
    """Return the power of ``vote`` with the smallest NLL on ``rows``.

    This is temperature scaling (Guo et al. 2017) on a grid of 1/T.

    Parameters
    ----------
    vote : Float[m, K]
        Class probabilities of the parent.
    rows : Rows
        The rows.

    Returns
    -------
    float
        A value of :data:`VOTE_POWER_GRID`.
    """
    return float(
        VOTE_POWER_GRID[
            np.argmin([clipped_nll(temper(vote, power), rows) for power in VOTE_POWER_GRID])
        ]
    )


def _grid_scores(
    masses, vote, rows: Rows, prior, pseudo_counts, vote_shares, criterion: SearchCriterion
) -> np.ndarray:
    """Return the criterion of every candidate, Float[k, a, v]."""
    if criterion == "nll":
        return grid_nll(masses, vote, rows, prior, pseudo_counts, vote_shares)
    scores = np.empty((masses.shape[2], len(pseudo_counts), len(vote_shares)))
    for k, a, v in np.ndindex(scores.shape):
        proba = vote_shares[v] * vote + (1 - vote_shares[v]) * additive_smoothing(
            masses[:, :, k], pseudo_counts[a], prior
        )
        scores[k, a, v] = ece(rows.y, proba)
    return scores


def grid_nll(masses, vote, rows: Rows, prior, pseudo_counts, vote_shares) -> np.ndarray:
    """Return the NLL of every candidate, Float[k, a, v]."""
    # NLL needs the column of the true class only, so that the whole grid of pseudo-counts and vote
    # weights of an exponent is one array operation: Float[a, v, m].
    true_class = np.arange(len(rows)), rows.y
    true_mass, total_mass = masses[true_class], masses.sum(axis=1)
    a = pseudo_counts[:, None, None]
    scores = np.zeros((masses.shape[2], len(pseudo_counts), len(vote_shares)))
    for start in range(0, len(rows), _GRID_ROWS):
        block = slice(start, start + _GRID_ROWS)
        scaled_prior, true_vote = a * prior[rows.y[block]], vote[true_class][block]
        weighted_vote, weight = vote_shares[:, None] * true_vote, 1 - vote_shares[:, None]
        for k in range(masses.shape[2]):
            smoothed = (true_mass[block, k] + scaled_prior) / (total_mass[block, k] + a)
            proba = weighted_vote + weight * smoothed
            np.maximum(proba, MIN_PROBABILITY, out=proba)
            scores[k] -= _weighted_log_sum(proba, rows.weight[block])
    return scores


def _weighted_log_sum(proba: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the sums of weight times log, Float[a, v], of probabilities Float[a, v, m].

    A logarithm takes several times as long as a product, so that rows of one weight are multiplied
    first: at most eight of them, each at least 1e-6.
    """
    if (weight != weight[0]).any():
        return np.log(proba) @ weight
    for _ in range(3):
        half = proba.shape[2] // 2
        if proba.shape[2] % 2:
            break
        proba = proba[:, :, :half] * proba[:, :, half:]
    return weight[0] * np.log(proba).sum(axis=2)


def search_nearest_posterior(
    graph: KernelDensityGraph,
    locations: Locations,
    held_out: Rows,
    prior: np.ndarray,
    exponent_grids: Sequence[ExponentGrid],
    objective: SearchObjective = clipped_nll,
) -> tuple[NearestPosterior, np.ndarray]:
    """Search the best posterior of the nearest polytope on held-out rows.

    Parameters
    ----------
    graph : KernelDensityGraph
        The graph.
    locations : Locations
        Positions of the held-out rows.
    held_out : Rows
        Held-out rows, m of them.
    prior : Float[K]
        Class prior.
    exponent_grids : sequence of callables
        Passes of the search, see :data:`ExponentGrid`. Of equally good exponents the first is used.
    objective : callable, default=clipped_nll
        Objective to minimise, see :data:`SearchObjective`.

    Returns
    -------
    posterior : NearestPosterior
        The best posterior.
    log_density : Float[m]
        Log density at each held-out row.
    """
    # The nearest polytopes of the rows are found once. The class masses of all populated polytopes
    # at all exponents of a pass are in memory at once. argmin returns the first of equal scores.
    query_result = graph.query(locations, np.empty(0))
    candidates, scores, best = [], [], 0
    for exponent_grid in exponent_grids:
        exponents = exponent_grid(candidates[best].exponent if candidates else 0.0)
        masses, _ = graph.query_codes(graph.codes, exponents)
        for j, exponent in enumerate(exponents):
            candidate = NearestPosterior.from_masses(float(exponent), masses[:, :, j], prior)
            candidates.append(candidate)
            scores.append(objective(candidate(query_result, graph)[0], held_out))
        best = int(np.argmin(scores))
    return candidates[best], candidates[best](query_result, graph)[1]
