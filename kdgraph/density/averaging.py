"""Average of query posteriors over the grid of their parameters.

With some hundred rows, the parameters of least NLL on a grid are partly chosen by noise. On 18
two-class tables with 240 training rows, out-of-bag parameters chosen in this way cost .006 nats
against those of the same number of other rows, on 17 tables. :func:`average_posteriors` takes the
average of all candidates instead, each with the weight of its likelihood, and mixes it with maps of
itself and of the vote (:mod:`kdgraph.density.maps`). Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from kdgraph.base import Rows
from kdgraph.density.graph import KernelDensityGraph, QueryResult
from kdgraph.density.maps import PosteriorMaps, fit_posterior_maps, likelihood_weights
from kdgraph.density.posterior import (
    PSEUDO_COUNT_GRID,
    additive_smoothing,
    fit_vote_power,
    grid_nll,
    temper,
)

EXPONENT_STEP = 2
"""Every second exponent of the search is averaged: neighbours differ by little."""
_PSEUDO_COUNTS = PSEUDO_COUNT_GRID[::2]
_VOTE_SHARES = np.linspace(0, 1, 21)
# Rows of the search whose masses at all exponents are in memory at once.
_CHUNK_ROWS = 4096
# Masses that are kept between their two uses: 16 MB.
_MOST_MASSES = 2_000_000


@dataclass(frozen=True)
class AveragedPosterior:
    """Weighted average of query posteriors, mixed with maps of itself and of the vote.

    P(y|x) = Σ_β u_β·vote^β/Σ + Σ_k Σ_a w_ka·(masses_k + a·prior)/(Σ masses_k + a), then
    :class:`~kdgraph.density.maps.PosteriorMaps` of it.

    Attributes
    ----------
    exponents : Float[k]
        Exponents that :meth:`KernelDensityGraph.query` has to evaluate.
    pseudo_counts : Float[a]
        Pseudo-counts.
    kernel_weights : Float[k, a]
        Weights w.
    vote_powers, vote_weights : Float[b]
        Powers β of the vote, and weights u.
    prior : Float[K]
        Class prior.
    maps : PosteriorMaps
        Maps of the average and of the vote.

    Notes
    -----
    Original to kdgraph.
    """

    exponents: np.ndarray
    pseudo_counts: np.ndarray
    kernel_weights: np.ndarray
    vote_powers: np.ndarray
    vote_weights: np.ndarray
    prior: np.ndarray
    maps: PosteriorMaps = field(default_factory=PosteriorMaps)

    def __call__(
        self, query_result: QueryResult, graph: KernelDensityGraph
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the posterior, Float[n, K], and the log density, Float[n]."""
        vote = graph.partition.vote(query_result.locations)
        return self.mix(query_result.masses, vote), query_result.log_density

    def mix(self, masses: np.ndarray, vote: np.ndarray) -> np.ndarray:
        """Return the posterior, Float[n, K], of masses Float[n, K, k] and votes Float[n, K]."""
        return self.maps(self.average(masses, vote), vote)

    def average(self, masses: np.ndarray, vote: np.ndarray) -> np.ndarray:
        """Return the average before the maps, Float[n, K]."""
        total = np.zeros_like(vote)
        for power, weight in zip(self.vote_powers, self.vote_weights, strict=True):
            if weight:
                total += weight * temper(vote, power)
        for k, weights in enumerate(self.kernel_weights):
            for pseudo_count, weight in zip(self.pseudo_counts, weights, strict=True):
                if weight:
                    total += weight * additive_smoothing(masses[:, :, k], pseudo_count, self.prior)
        # The weights sum to 1 up to rounding.
        return total / total.sum(axis=1, keepdims=True)

    def describe(self) -> dict[str, float]:
        """Return the means of the parameters, by weight, for the record."""
        vote_share = float(self.vote_weights.sum())
        kernel = self.kernel_weights.sum(axis=1)
        return {
            "exponent": float(kernel @ self.exponents / kernel.sum()) if kernel.any() else 0.0,
            "n_exponents": len(self.exponents),
            "vote_share": vote_share,
            "vote_power": float(self.vote_weights @ self.vote_powers / vote_share)
            if vote_share
            else 1.0,
            **self.maps.describe(),
        }


def average_posteriors(
    masses_of: Callable[[slice], np.ndarray],
    vote: np.ndarray,
    rows: Rows,
    prior: np.ndarray,
    *,
    exponents: np.ndarray,
    pseudo_count: float | Literal["auto"] = "auto",
    vote_share: float | Literal["auto"] = "auto",
    vote_power: float | Literal["auto"] = "auto",
    scaling_share: float | Literal["auto"] = "auto",
    isotonic_share: float | Literal["auto"] = "auto",
    random_state: Any = None,
) -> AveragedPosterior:
    """Average query posteriors with weights proportional to their likelihood.

    Parameters
    ----------
    masses_of : callable
        Function of a slice of the rows that returns their class masses at all ``exponents``,
        Float[c, K, k], without the mass of each row itself.
    vote : Float[m, K]
        Class probabilities of the parent, which was not fitted on the rows.
    rows : Rows
        The rows, m of them.
    prior : Float[K]
        Class prior.
    exponents : Float[k]
        Exponents to average over.
    pseudo_count, vote_share, vote_power : float or "auto", default="auto"
        Fixed values, or "auto" for the average over a grid.
    scaling_share, isotonic_share : float or "auto", default="auto"
        Shares of the maps, see :func:`~kdgraph.density.maps.fit_posterior_maps`.
    random_state : int, RandomState or None, default=None
        Seed of the folds that choose the shares.

    Returns
    -------
    AveragedPosterior
        The average.

    Notes
    -----
    Original to kdgraph. The weight of a candidate is exp(-Σ NLL over the rows), with equal prior
    weights: Bayesian model averaging over the grid, where each row is predicted without itself. As
    the rows grow in number, one candidate takes all the weight, and the average is the search of
    :func:`~kdgraph.density.posterior.search_query_posterior`.
    """
    pseudo_counts = _PSEUDO_COUNTS if pseudo_count == "auto" else np.array([pseudo_count])
    vote_shares = _VOTE_SHARES if vote_share == "auto" else np.array([vote_share])
    powers = (
        list(dict.fromkeys([1.0, fit_vote_power(vote, rows)]))
        if vote_power == "auto"
        else [float(vote_power)]
    )
    scores = np.zeros((len(powers), len(exponents), len(pseudo_counts), len(vote_shares)))
    masses_of = _remembered(masses_of, vote.size * len(exponents))
    for chunk in _chunks(len(rows)):
        masses = masses_of(chunk)
        for power_scores, power in zip(scores, powers, strict=True):
            tempered = temper(vote[chunk], power)
            power_scores += grid_nll(
                masses, tempered, rows[chunk], prior, pseudo_counts, vote_shares
            )
    weights = likelihood_weights(scores)
    kernel_weights = (weights * (1 - vote_shares)).sum(axis=(0, 3))
    is_used = kernel_weights.any(axis=1)
    posterior = AveragedPosterior(
        exponents=exponents[is_used],
        pseudo_counts=pseudo_counts,
        kernel_weights=kernel_weights[is_used],
        vote_powers=np.array(powers),
        vote_weights=(weights * vote_shares).sum(axis=(1, 2, 3)),
        prior=prior,
    )
    if scaling_share == 0 and isotonic_share == 0:
        return posterior
    average = np.concatenate(
        [
            posterior.average(masses_of(chunk)[:, :, is_used], vote[chunk])
            for chunk in _chunks(len(rows))
        ]
    )
    maps = fit_posterior_maps(
        average,
        vote,
        rows,
        scaling_share=scaling_share,
        isotonic_share=isotonic_share,
        random_state=random_state,
    )
    return AveragedPosterior(**{**vars(posterior), "maps": maps})


def _remembered(
    masses_of: Callable[[slice], np.ndarray], size: int
) -> Callable[[slice], np.ndarray]:
    """Return a function that computes the masses of each chunk once, if they are few enough."""
    known: dict[int, np.ndarray] = {}

    def look_up(chunk: slice) -> np.ndarray:
        if chunk.start not in known:
            known[chunk.start] = masses_of(chunk)
        return known[chunk.start]

    return look_up if size <= _MOST_MASSES else masses_of


def _chunks(n_rows: int) -> list[slice]:
    """Return slices of all rows."""
    return [slice(start, start + _CHUNK_ROWS) for start in range(0, n_rows, _CHUNK_ROWS)]
