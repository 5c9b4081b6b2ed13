"""Means over the rows around a place by any dissimilarity, made and consumed in blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kdgraph.errors import DataError
from kdgraph.smoothing.bandwidths import check_bandwidths
from kdgraph.smoothing.means import LocalMeans, Neighbourhoods, neighbourhoods

BLOCK = 2**16
"""Distances at a time: 512 KB, which stay in a core's cache. Of 10,000 rows all at once, 2**22 take twice as long as 2**16."""

Distance = Callable[[np.ndarray, np.ndarray], np.ndarray]


def local_means_by_distance(
    distance: Distance,
    m: int,
    n: int,
    values: np.ndarray,
    bandwidths: Sequence[float],
    *,
    within_at: np.ndarray | None = None,
    within: np.ndarray | None = None,
    weight: np.ndarray | None = None,
    leave_one_out: bool = False,
) -> LocalMeans:
    """Average ``values`` of n rows around each of m places, with weights exp(-D / γ) of any dissimilarity D.

    Parameters
    ----------
    distance : function of positions of places, Int[p], and of rows, Int[q], that gives D: Float[p, q] ≥ 0; where it is infinite the weight
        is 0. With -log K of a similarity K in [0, 1] the weights are K^(1/γ).
    m, n : how many places and rows there are.
    values, bandwidths, within_at, within, weight, leave_one_out : as of :func:`~kdgraph.smoothing.local_means`.

    Raises
    ------
    ParameterError
        A bandwidth that is not above 0, or none.
    DataError
        Shapes that do not fit, a weight that is negative or not finite, a distance that is negative or NaN.

    Notes
    -----
    In float64, and in time m n. Each place is summed by itself in the order of the rows, without BLAS, so that the size of a block
    changes no bit of what is done here.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, section 4, of which their kernel of equal group,
    1[x, x' in same group], is D = 0 or ∞.

    Examples
    --------
    >>> group = np.array([0, 0, 1])
    >>> apart = lambda places, rows: np.where(group[places][:, None] == group[rows], 0, np.inf)
    >>> local_means_by_distance(apart, 3, 3, [0.0, 1.0, 1.0], [1.0]).mean.tolist()
    [[0.5, 0.5, 1.0]]
    """
    check_bandwidths(bandwidths)
    near = neighbourhoods(m, n, values, within_at=within_at, within=within, weight=weight, leave_one_out=leave_one_out)
    found = weighted_means(distance, near, 1 / np.asarray(bandwidths, dtype=np.float64))
    return found if np.ndim(values) > 1 else LocalMeans(found.mean[..., 0], found.n_eff, found.mass)


def weighted_means(distance: Distance, near: Neighbourhoods, rates: np.ndarray) -> LocalMeans:
    """Means with weights exp(-rate · D) at each rate, Float[b]; relative to the nearest row's (Luo et al., 2022, Eq. 4)."""
    shape = (len(rates), len(near.first))
    mean, n_eff, mass = np.full((*shape, near.values.shape[1]), np.nan), np.full(shape, np.nan), np.zeros(shape)
    with np.errstate(over="ignore", under="ignore"):  # a distance in tiny bandwidths is infinite, a weight far away 0
        for places in _blocks(near):
            here = slice(near.first[places[0]], near.last[places[0]])
            rows = near.rows[here]
            apart = _checked(distance(places, rows), (len(places), len(rows)))
            i = np.flatnonzero(near.own[places] >= 0)
            apart[i, near.own[places[i]] - here.start] = np.inf
            nearest = apart.min(axis=1)
            seen = np.isfinite(nearest)
            places, apart, nearest = places[seen], apart[seen], nearest[seen]
            apart -= nearest[:, None]
            for b, rate in enumerate(np.clip(rates, np.finfo(np.float64).tiny, np.finfo(np.float64).max)):
                mean[b, places], n_eff[b, places], total = _of_block(apart, near.values[here], near.weight[here], rate)
                mass[b, places] = near.unit * total * np.exp(-rate * nearest)
    return LocalMeans(mean, n_eff, mass)


def _checked(apart: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """A copy of what a distance gave for p places and q rows, Float[p, q]."""
    found = np.array(apart, dtype=np.float64)
    if found.shape != shape:
        raise DataError(f"distance must give a number for each of {shape[0]} places and {shape[1]} rows, got shape {found.shape}")
    bad = ~(found >= 0)
    if bad.any():
        raise DataError(f"distance must give numbers from 0 up, got {found[bad][0]:g} ({bad.sum()} such)")
    return found


def _blocks(near: Neighbourhoods) -> list[np.ndarray]:
    """Int[p] each: places that look at the same rows, so many that their distances fill a block; those that look at none are left out."""
    some = near.order[~near.alone[near.order]]
    blocks = []
    for places in np.split(some, np.flatnonzero(np.diff(near.first[some])) + 1):
        step = max(1, BLOCK // (near.last[places[0]] - near.first[places[0]])) if len(places) else 1
        blocks += [places[start : start + step] for start in range(0, len(places), step)]
    return blocks


def _of_block(apart: np.ndarray, values: np.ndarray, weight: np.ndarray, rate: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means Float[p, v], effective sample sizes and sums of weights Float[p], of distances Float[p, q] beyond the nearest row's."""
    w = np.exp(-rate * apart)
    if len(weight):
        w *= weight
    size = np.frexp(w.max(axis=1))[1] if len(weight) else np.zeros(len(w), dtype=int)
    w = np.ldexp(w, -size[:, None]) if size.any() else w  # by powers of two, so that squares of small weights are not 0
    total = w.sum(axis=1)
    mean = np.stack([(w * column).sum(axis=1) / total for column in values.T], axis=1)
    w *= w
    return mean, total**2 / w.sum(axis=1), np.ldexp(total, size)
