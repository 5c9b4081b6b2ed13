"""Equations of the kernel density graph, as plain array code (Dey et al. 2024).

Each function is one equation, with arrays of all pairs. Nothing else of the package calls them:
they are for reading, and tests compare the fast code with them.

========  ===========================  =========================================================
equation  function                     fast code
========  ===========================  =========================================================
4         :func:`nearest_polytope`     :class:`~kdgraph.smoothing.neighbours.NearestMean`
5, 13     :func:`class_densities`      :class:`~kdgraph.density.published.NearestPosterior`
6, 7      :func:`confidence`           :func:`~kdgraph.density.classifiers.blend_with_prior`
9, 10     :func:`gaussians`            :mod:`~kdgraph.density.gaussians`
11        :func:`class_ratios`         :class:`~kdgraph.density.graph.PolytopeCounts`
14        :func:`forest_similarity`    :mod:`~kdgraph.geometry.forest`
15        :func:`exponent`             :class:`~kdgraph.density.posterior.PosteriorParameters`
16        :func:`network_similarity`   :mod:`~kdgraph.geometry.activations`
17        :func:`geodesic_distance`    distance "geodesic" of the graph
own       :func:`query_posterior`      :class:`~kdgraph.density.posterior.QueryPosterior`
own       :func:`out_of_bag_kernel`    :class:`~kdgraph.density.graph.OutOfBagCounts`
========  ===========================  =========================================================

Eq. 1 to 3 define the problem, Eq. 8 is the argmax of Eq. 7, and Eq. 12 is the limit that Eq. 15
has. The last two are original to kdgraph.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

LAMBDA = 1e-6
"""λ of Eq. 10 (Table 2)."""


def forest_similarity(codes: np.ndarray, other_codes: np.ndarray) -> np.ndarray:
    """Return K(r, s) = t_rs / T (Eq. 14), Float[n, m], of leaves Int[n, T] and Int[m, T].

    >>> forest_similarity(np.array([[3, 5]]), np.array([[3, 5], [3, 6], [4, 6]])).tolist()
    [[1.0, 0.5, 0.0]]
    """
    return (codes[:, None, :] == other_codes[None, :, :]).mean(axis=2)


def network_similarity(
    layers: Sequence[np.ndarray], other_layers: Sequence[np.ndarray]
) -> np.ndarray:
    """Return the fraction of activation paths with equal modes (Eq. 16), Float[n, m].

    A path passes one unit of each layer, so that the fraction is a product over layers.

    Parameters
    ----------
    layers, other_layers : sequence of Bool[n, units] and of Bool[m, units]
        Which units of each layer are on.
    """
    agreement = [
        forest_similarity(on, other) for on, other in zip(layers, other_layers, strict=True)
    ]
    return np.prod(agreement, axis=0)


def geodesic_distance(similarity: np.ndarray) -> np.ndarray:
    """Return d(r, s) = 1 - K(r, s) (Eq. 17), Float[n, m], of similarities Float[n, m]."""
    return 1 - similarity


def exponent(k: float, n: int) -> float:
    """Return k log n, the power of K in the weights w_rs for n training rows (Eq. 15)."""
    return k * math.log(n)


def nearest_polytope(distance: np.ndarray) -> np.ndarray:
    """Return the polytope of least distance (Eq. 4), Int[n], of distances Float[n, p]."""
    return distance.argmin(axis=1)


def gaussians(X: np.ndarray, polytope_of_row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means (Eq. 9) and variances (Eq. 10) of the polytopes, both Float[p, d].

    ``X``: Float[n, d], training rows; ``polytope_of_row``: Int[n].

    >>> gaussians(np.array([[0.0], [2.0], [7.0]]), np.array([0, 0, 1]))[0].tolist()
    [[1.0], [7.0]]
    """
    member = np.arange(polytope_of_row.max() + 1)[:, None] == polytope_of_row
    size = member.sum(axis=1)[:, None]
    mean = member @ X / size
    squares = np.array(
        [((X[rows] - m) ** 2).sum(axis=0) for rows, m in zip(member, mean, strict=True)]
    )
    return mean, (squares + LAMBDA) / size


def class_ratios(weights: np.ndarray, one_hot: np.ndarray) -> np.ndarray:
    """Return n_ry / n_y (Eq. 11), Float[p, K].

    Parameters
    ----------
    weights : Float[p, n]
        w between each polytope and the polytope of each training row.
    one_hot : Float[n, K]
        Class of each row.
    """
    masses = weights @ one_hot
    return masses / masses.sum(axis=0)


def log_gaussian(X: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return log G, Float[n], of rows Float[n, d] by mean and variance of their polytopes."""
    return -0.5 * ((X - mean) ** 2 / variance + np.log(2 * np.pi * variance)).sum(axis=1)


def class_densities(log_density: np.ndarray, ratios: np.ndarray) -> np.ndarray:
    """Return log f̂_y (Eq. 5 and 13), Float[n, K], of the nearest polytope of each row.

    ``log_density``: Float[n], log G there; ``ratios``: Float[n, K], n_ry / n_y there.
    """
    with np.errstate(divide="ignore"):
        return log_density[:, None] + np.log(ratios)


def confidence(log_densities: np.ndarray, prior: np.ndarray, log_floor: float) -> np.ndarray:
    """Return ĝ_y (Eq. 7) with b / log n added to every class density (Eq. 6), Float[n, K].

    ``log_densities``: Float[n, K]; ``prior``: Float[K]; ``log_floor``: log(b / log n).

    >>> densities = np.array([[0.9, 0.1], [1e-9, 1e-12]])
    >>> confidence(np.log(densities), np.array([0.5, 0.5]), -9.0).round(2).tolist()
    [[0.9, 0.1], [0.5, 0.5]]
    """
    joint = np.logaddexp(log_densities, log_floor) + np.log(prior)
    return np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])


def query_posterior(
    masses: np.ndarray,
    parent_proba: np.ndarray,
    prior: np.ndarray,
    pseudo_count: float,
    parent_weight: float,
    parent_power: float,
) -> np.ndarray:
    """Return v·q^β/Σ q^β + (1 - v)·(m + a·P) / (Σ m + a), Float[n, K].

    Parameters
    ----------
    masses : Float[n, K]
        m_y = Σ_i K(x, x_i)^p [y_i = y] around each row.
    parent_proba : Float[n, K]
        Probabilities q of the parent.
    prior : Float[K]
        Class prior P.
    pseudo_count, parent_weight, parent_power : float
        a, v and β.
    """
    powers = np.exp(parent_power * np.log(np.maximum(parent_proba, 1e-300)))
    tempered = powers / powers.sum(axis=1, keepdims=True)
    smoothed = (masses + pseudo_count * prior) / (masses.sum(axis=1, keepdims=True) + pseudo_count)
    return parent_weight * tempered + (1 - parent_weight) * smoothed


def out_of_bag_kernel(
    codes: np.ndarray, train_codes: np.ndarray, is_out: np.ndarray, own: np.ndarray | None = None
) -> np.ndarray:
    """Return K of rows and training rows by trees that these are out of bag in, Float[m, n].

    Parameters
    ----------
    codes : Int[m, T]
        Leaves of new rows, or with ``own`` of training rows.
    train_codes : Int[n, T]
        Leaves of all training rows.
    is_out : Bool[n, T]
        True where a training row is out of bag in a tree.
    own : Int[m], default=None
        Numbers of training rows. A tree then counts for a pair if both are out of bag in it, and no
        row is compared with itself. None for new rows, which no tree was fitted on.
    """
    counts = np.broadcast_to(is_out, (len(codes), *is_out.shape))
    if own is not None:
        counts = counts & is_out[own][:, None, :]
    agreement = ((codes[:, None, :] == train_codes[None, :, :]) & counts).sum(axis=2)
    similarity = agreement / np.maximum(counts.sum(axis=2), 1)
    if own is not None:
        similarity[np.arange(len(own)), own] = 0
    return similarity
