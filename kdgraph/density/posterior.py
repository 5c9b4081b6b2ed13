"""Posterior inside the training distribution, and the fit of its parameters.

:class:`QueryPosterior` mixes the classes of the rows around a query with the probabilities of the
parent. Its parameters, exponent k·log n (Dey et al. 2024, Eq. 15), pseudo-count, weight and power
of the parent, are fitted by :func:`fit_posterior` on rows that are each predicted without
themselves; :mod:`kdgraph.density.out_of_sample` has the three sources of such rows. The posterior
and its fit are original to kdgraph; Dey et al. evaluate the posterior at the centre of the nearest
polytope (:mod:`kdgraph.density.published`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from kdgraph.base import Rows
from kdgraph.density.graph import KernelDensityGraph, QueryResult
from kdgraph.density.likelihood import clipped_nll, grid_nll, likelihood_weights, weight_of_best
from kdgraph.density.maps import PosteriorMaps, fit_posterior_maps

Automatic = float | Literal["auto"]
"""A parameter: a number, or "auto" to fit it."""

EXPONENT_FACTOR_GRID = np.geomspace(0.02, 20, 24)
"""Factors of log n in the exponent of Eq. 15: from nearly flat (a power of 0.14 at 1,000 rows) to
the nearest polytope alone.
"""
PSEUDO_COUNT_GRID = np.geomspace(1e-5, 10, 13)
"""Pseudo-counts a of the search."""
PARENT_WEIGHT_GRID = np.linspace(0, 1, 5)
"""Weights v of the parent in the search."""
PARENT_POWER_GRID = np.geomspace(0.1, 10, 41)
"""Powers β of the parent's probabilities, inverse temperatures. They are below 1 for an
overconfident network, and above 1 for a forest, whose fully grown trees are underconfident.
"""
# An average needs fewer exponents and pseudo-counts than a search, neighbours of which differ by
# little, and more weights of the parent.
_AVERAGE_STEP = 2
_AVERAGE_WEIGHTS = np.linspace(0, 1, 21)

# Rows of the fit whose masses at all exponents are in memory at once, so that memory does not grow
# with rows × classes × exponents.
_CHUNK_ROWS = 4096
# Masses that are kept between their two uses: 16 MB.
_MOST_MASSES = 2_000_000


@dataclass(frozen=True)
class QueryPosterior:
    """Weighted average over candidates of class masses around the query and of the parent.

    P(y|x) = Σ_β u_β·q^β/Σ + Σ_k Σ_a w_ka·(masses_k + a·prior)/(Σ masses_k + a), where q are the
    probabilities of the parent, then the ``maps`` of it. All weights add up to 1.

    Attributes
    ----------
    exponents : Float[k]
        Exponents that :meth:`KernelDensityGraph.query` has to evaluate.
    pseudo_counts : Float[a]
        Pseudo-counts.
    kernel_weights : Float[k, a]
        Weights w.
    parent_powers, parent_weights : Float[b]
        Powers β of the parent's probabilities, and weights u.
    prior : Float[K]
        Class prior.
    maps : PosteriorMaps or None, default=None
        Maps of the average and of the parent; None for a single candidate.

    Notes
    -----
    Original to kdgraph.
    """

    exponents: np.ndarray
    pseudo_counts: np.ndarray
    kernel_weights: np.ndarray
    parent_powers: np.ndarray
    parent_weights: np.ndarray
    prior: np.ndarray
    maps: PosteriorMaps | None = None

    def __call__(
        self, query_result: QueryResult, graph: KernelDensityGraph
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the posterior, Float[n, K], and the log density, Float[n]."""
        parent_proba = None
        if self.maps is not None or self.parent_weights.any():
            parent_proba = graph.partition.parent_proba(query_result.locations)
        return self.mix(query_result.masses, parent_proba), query_result.log_density

    def mix(self, masses: np.ndarray, parent_proba: np.ndarray | None) -> np.ndarray:
        """Return the posterior, Float[n, K].

        Parameters
        ----------
        masses : Float[n, K, k]
            Class masses at each exponent.
        parent_proba : Float[n, K] or None
            Probabilities of the parent; None where they have no weight.
        """
        average = self._average(masses, parent_proba)
        if self.maps is None or parent_proba is None:
            return average
        # The weights of many candidates add up to 1 up to rounding.
        return self.maps(average / average.sum(axis=1, keepdims=True), parent_proba)

    def _average(self, masses: np.ndarray, parent_proba: np.ndarray | None) -> np.ndarray:
        """Return the average of the candidates, Float[n, K]."""
        total = np.zeros((len(masses), len(self.prior)))
        if parent_proba is not None:
            for power, weight in zip(self.parent_powers, self.parent_weights, strict=True):
                if weight:
                    total += weight * temper(parent_proba, power)
        for k, weights in enumerate(self.kernel_weights):
            for pseudo_count, weight in zip(self.pseudo_counts, weights, strict=True):
                if weight:
                    total += weight * additive_smoothing(masses[:, :, k], pseudo_count, self.prior)
        return total

    def describe(self) -> dict[str, float]:
        """Return the means of the parameters, by weight, for the record."""
        by_exponent, by_count = self.kernel_weights.sum(axis=1), self.kernel_weights.sum(axis=0)
        kernel, parent_weight = float(by_count.sum()), float(self.parent_weights.sum())
        return {
            "exponent": float(by_exponent @ self.exponents) / kernel if kernel else 0.0,
            "n_exponents": len(self.exponents),
            "pseudo_count": float(by_count @ self.pseudo_counts) / kernel if kernel else 0.0,
            "parent_weight": parent_weight,
            "parent_power": float(self.parent_weights @ self.parent_powers) / parent_weight
            if parent_weight
            else 1.0,
            **({} if self.maps is None else self.maps.describe()),
        }


@dataclass(frozen=True)
class PosteriorParameters:
    """Parameters of the posterior that a user can fix.

    Attributes
    ----------
    k, pseudo_count, parent_weight, parent_power : float or "auto", default="auto"
        Factor of log n in the exponent, pseudo-count, weight and power of the parent's
        probabilities. "auto" for a fit.
    """

    k: Automatic = "auto"
    pseudo_count: Automatic = "auto"
    parent_weight: Automatic = "auto"
    parent_power: Automatic = "auto"

    def exponents(self, n_rows: int) -> np.ndarray:
        """Return the exponents k log n to try for n training rows (Eq. 15), Float[k]."""
        factors = EXPONENT_FACTOR_GRID if self.k == "auto" else np.array([self.k])
        return factors * math.log(n_rows)


def fit_posterior(
    masses_at: Callable[[np.ndarray], Callable[[slice], np.ndarray]],
    parent_proba: np.ndarray,
    rows: Rows,
    prior: np.ndarray,
    parameters: PosteriorParameters,
    n_rows: int,
    *,
    average: bool,
) -> QueryPosterior:
    """Fit the posterior to rows that are each predicted without themselves.

    Parameters
    ----------
    masses_at : callable
        Function of exponents (Float[k]) that returns a function of a slice of the rows, which
        returns their class masses, Float[c, K, k], without the mass of each row itself.
    parent_proba : Float[m, K]
        Probabilities of a parent that was not fitted on the rows.
    rows : Rows
        The rows, m of them.
    prior : Float[K]
        Class prior.
    parameters : PosteriorParameters
        Fixed parameters.
    n_rows : int
        Number of training rows n of Eq. 15.
    average : bool
        Average all candidates, with maps of the average. False for the candidate of least NLL.

    Returns
    -------
    QueryPosterior
        The posterior.

    Notes
    -----
    Original to kdgraph. All combinations of exponent, pseudo-count and weight of the parent are
    scored. The power of the parent's probabilities is fitted first, alone, by temperature scaling:
    they are tried with this power and with power 1, not with every power, which would multiply the
    grid by 41.

    With some hundred rows, the candidate of least NLL on a grid is partly chosen by noise. On 18
    two-class tables with 240 training rows, out-of-bag parameters chosen in this way cost .006 nats
    against those of the same number of other rows, on 17 tables. The weight of a candidate in the
    average is exp(-Σ NLL over the rows), with equal prior weights: Bayesian model averaging over
    the grid, where each row is predicted without itself. As the rows grow in number, one candidate
    takes all the weight.
    """
    step = _AVERAGE_STEP if average else 1
    exponents = parameters.exponents(n_rows)[::step]
    pseudo_counts = _grid(parameters.pseudo_count, PSEUDO_COUNT_GRID[::step])
    weights_grid = _AVERAGE_WEIGHTS if average else PARENT_WEIGHT_GRID
    parent_weights = _grid(parameters.parent_weight, weights_grid)
    powers = [parameters.parent_power]
    if parameters.parent_power == "auto":
        powers = list(dict.fromkeys([1.0, fit_parent_power(parent_proba, rows)]))
    masses_of = _remembered(masses_at(exponents), parent_proba.size * len(exponents))
    scores = np.zeros((len(powers), len(exponents), len(pseudo_counts), len(parent_weights)))
    for chunk in _chunks(len(rows)):
        masses = masses_of(chunk)
        for power_scores, power in zip(scores, powers, strict=True):
            tempered = temper(parent_proba[chunk], float(power))
            power_scores += grid_nll(
                masses, tempered, rows[chunk], prior, pseudo_counts, parent_weights
            )
    weights = likelihood_weights(scores) if average else weight_of_best(scores)
    kernel_weights = (weights * (1 - parent_weights)).sum(axis=(0, 3))
    is_used = kernel_weights.any(axis=1)
    posterior = QueryPosterior(
        exponents=exponents[is_used],
        pseudo_counts=pseudo_counts,
        kernel_weights=kernel_weights[is_used],
        parent_powers=np.array(powers, dtype=np.float64),
        parent_weights=(weights * parent_weights).sum(axis=(1, 2, 3)),
        prior=prior,
    )
    if not average:
        return posterior
    mixed = replace(posterior, maps=PosteriorMaps())
    own_proba = np.concatenate(
        [
            mixed.mix(masses_of(chunk)[:, :, is_used], parent_proba[chunk])
            for chunk in _chunks(len(rows))
        ]
    )
    return replace(posterior, maps=fit_posterior_maps(own_proba, parent_proba, rows))


def _grid(value: Automatic, grid: np.ndarray) -> np.ndarray:
    """Return the grid, or the fixed value alone."""
    return grid if value == "auto" else np.array([value])


def fit_parent_power(parent_proba: np.ndarray, rows: Rows) -> float:
    """Return the power of the parent's probabilities with the smallest NLL on ``rows``.

    This is temperature scaling (Guo et al. 2017) of Float[m, K] on :data:`PARENT_POWER_GRID`.
    """
    nll = [clipped_nll(temper(parent_proba, power), rows) for power in PARENT_POWER_GRID]
    return float(PARENT_POWER_GRID[np.argmin(nll)])


def temper(proba: np.ndarray, power: float) -> np.ndarray:
    """Return probabilities, Float[n, K], raised to ``power`` and normalised.

    This divides the logits by a temperature of 1/power.
    """
    if power == 1:
        return proba
    raised = (proba / proba.max(axis=1, keepdims=True)) ** power
    return raised / raised.sum(axis=1, keepdims=True)


def additive_smoothing(masses: np.ndarray, pseudo_count: float, prior: np.ndarray) -> np.ndarray:
    """Return class fractions, Float[n, K], of masses after the addition of pseudo-counts.

    ``masses``: Float[n, K]; ``pseudo_count``: number of added rows, whose classes follow the
    ``prior``, Float[K].
    """
    return (masses + pseudo_count * prior) / (masses.sum(axis=1, keepdims=True) + pseudo_count)


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
