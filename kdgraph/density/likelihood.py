"""Likelihood of candidate posteriors, by which a fit chooses and weights them.

Original to kdgraph.
"""

from __future__ import annotations

import numpy as np

from kdgraph.base import Rows

MIN_PROBABILITY = 1e-6
"""Least probability of a row's class. Without it, one empty neighbourhood would decide."""
# Rows that are scored at once, so that all candidates of an exponent stay in the cache.
_GRID_ROWS = 512
# Weights below this fraction of the largest one are left out; their sum changes nothing.
_MIN_RELATIVE_WEIGHT = 1e-3


def clipped_nll(proba: np.ndarray, rows: Rows) -> float:
    """Return the weighted sum of negative log likelihoods, of probabilities Float[n, K].

    Probabilities count as at least :data:`MIN_PROBABILITY`.
    """
    return nll_of_true_class(proba[np.arange(len(rows)), rows.y], rows)


def mean_nll(proba: np.ndarray, rows: Rows) -> float:
    """Return :func:`clipped_nll` of the probabilities Float[n, K] by unit of weight, in nats."""
    return clipped_nll(proba, rows) / float(rows.weight.sum())


def nll_of_true_class(proba: np.ndarray, rows: Rows) -> float:
    """Return :func:`clipped_nll` of the probabilities of each row's class, Float[n]."""
    return -float(np.log(np.maximum(proba, MIN_PROBABILITY)) @ rows.weight)


@np.errstate(under="ignore")
def likelihood_weights(nll: np.ndarray) -> np.ndarray:
    """Return weights proportional to exp(-nll) with sum 1, without those that are negligible.

    >>> likelihood_weights(np.array([1.0, 1.0, 100.0]))
    array([0.5, 0.5, 0. ])
    """
    weights = np.exp(nll.min() - nll)
    weights[weights < _MIN_RELATIVE_WEIGHT] = 0.0
    return weights / weights.sum()


def weight_of_best(nll: np.ndarray) -> np.ndarray:
    """Return weight 1 for the first of the smallest values, and 0 for all others.

    >>> weight_of_best(np.array([3.0, 1.0, 1.0]))
    array([0., 1., 0.])
    """
    weights = np.zeros(nll.shape)
    weights.flat[np.argmin(nll)] = 1.0
    return weights


def grid_nll(
    masses: np.ndarray,
    parent_proba: np.ndarray,
    rows: Rows,
    prior: np.ndarray,
    pseudo_counts: np.ndarray,
    parent_weights: np.ndarray,
) -> np.ndarray:
    """Return the NLL of every candidate, Float[k, a, v].

    Parameters
    ----------
    masses : Float[m, K, k]
        Class masses at each of k exponents.
    parent_proba : Float[m, K]
        Tempered probabilities of the parent.
    rows : Rows
        The rows, m of them.
    prior : Float[K]
        Class prior.
    pseudo_counts, parent_weights : Float[a], Float[v]
        The grid.
    """
    # NLL needs the column of the true class only, so that the whole grid of pseudo-counts and
    # weights of an exponent is one array operation: Float[a, v, m].
    true_class = np.arange(len(rows)), rows.y
    true_mass, total_mass = masses[true_class], masses.sum(axis=1)
    a = pseudo_counts[:, None, None]
    scores = np.zeros((masses.shape[2], len(pseudo_counts), len(parent_weights)))
    for start in range(0, len(rows), _GRID_ROWS):
        block = slice(start, start + _GRID_ROWS)
        scaled_prior, true_proba = a * prior[rows.y[block]], parent_proba[true_class][block]
        of_parent, weight = parent_weights[:, None] * true_proba, 1 - parent_weights[:, None]
        for k in range(masses.shape[2]):
            smoothed = (true_mass[block, k] + scaled_prior) / (total_mass[block, k] + a)
            proba = of_parent + weight * smoothed
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
