"""Means over the rows around a row: Laplacian weights of distances in feature space, made and consumed in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.parameters import Positive, check_value

BLOCK = 2**16
"""Distances at a time: 512 KB, which stay in a core's cache. Of 10,000 rows all at once, 2**22 take twice as long as 2**16."""


@dataclass(frozen=True)
class LocalMeans:
    """Weighted means around m rows at b bandwidths.

    Attributes
    ----------
    mean : Float[b, m]; NaN where no row is left to look at.
    n_eff : Float[b, m], effective sample size (Σw)² / Σw²: how many rows of equal weight would have as uncertain a mean (Kish,
        "Survey sampling", 1965). From 1, where one row has all the weight, to the number of rows; NaN where ``mean`` is.
    """

    mean: np.ndarray
    n_eff: np.ndarray


def local_means(
    at: np.ndarray, X: np.ndarray, values: np.ndarray, bandwidths: Sequence[float], *, leave_one_out: bool = False
) -> LocalMeans:
    """Average ``values`` of the rows of ``X`` around each row of ``at``, with weights exp(-‖x - x'‖₁ / (d γ)).

    Parameters
    ----------
    at : Float[m, d], where to look.
    X : Float[n, d] with ``values``, Float[n]: what is averaged.
    bandwidths : γ, in units of the features.
    leave_one_out : ``at`` is ``X``, and no row counts among its own neighbours.

    Raises
    ------
    ParameterError
        A bandwidth that is not above 0, or none.

    Notes
    -----
    Weights are relative to that of the nearest row, which changes neither a mean nor n_eff. So the sum of the weights is at least 1 at any
    bandwidth: as γ → 0 the mean becomes the nearest row's value (that of all nearest where several are equally near), as γ → ∞ the mean
    over all rows.

    Distances are computed once for all bandwidths and never kept. Each row is summed by itself in the order of ``X``, without BLAS, so that
    neither the size of a block nor the number of cores changes a bit.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, section 3.2 (the kernel).

    Examples
    --------
    >>> X, values = [[0.0], [1.0], [5.0]], [0.0, 1.0, 1.0]
    >>> around = local_means([[0.4]], X, values, [0.01, 1e9])
    >>> around.mean.round(3).tolist(), around.n_eff.round(3).tolist()
    ([[0.0], [0.667]], [[1.0], [3.0]])
    """
    from scipy.spatial.distance import cdist  # here, not above: who measures ECE does not wait for scipy

    at, X, values = (np.asarray(array, dtype=np.float64) for array in (at, X, values))
    check_bandwidths(bandwidths)
    mean, n_eff = np.full((2, len(bandwidths), len(at)), np.nan)
    if len(X) <= leave_one_out:
        return LocalMeans(mean, n_eff)
    step = max(1, BLOCK // len(X))
    for start in range(0, len(at), step):
        rows = slice(start, start + step)
        apart = cdist(at[rows], X, "cityblock")
        apart /= X.shape[1]
        if leave_one_out:
            i = np.arange(len(apart))
            apart[i, start + i] = np.inf
        apart -= apart.min(axis=1, keepdims=True)
        for b, bandwidth in enumerate(bandwidths):
            mean[b, rows], n_eff[b, rows] = _weighted(apart, values, bandwidth)
    return LocalMeans(mean, n_eff)


def _weighted(apart: np.ndarray, values: np.ndarray, bandwidth: float) -> tuple[np.ndarray, np.ndarray]:
    """Float[m] each: means and effective sample sizes of distances Float[m, n]."""
    with np.errstate(over="ignore", under="ignore"):  # a distance in tiny bandwidths is infinite, a weight far away 0
        weight = np.exp(apart / -bandwidth)
        total = weight.sum(axis=1)
        mean = (weight * values).sum(axis=1) / total
        weight *= weight
        return mean, total**2 / weight.sum(axis=1)


def check_bandwidths(bandwidths: Sequence[float]) -> None:
    """Raise :class:`ParameterError` unless there is a bandwidth and all are above 0, as γ of Luo et al. (2022) is."""
    if len(bandwidths) == 0:
        raise ParameterError("bandwidths must hold at least one number above 0, got none")
    for bandwidth in bandwidths:
        check_value("bandwidth", bandwidth, Positive)


def rms_of(X: np.ndarray) -> float:
    """Ours: the root mean square distance from the mean, per dimension, of Float[n, d]: one number for the whole space; 1 if it is 0.

    >>> rms_of(np.array([[0.0, 1.0], [2.0, 1.0]])) == 0.5**0.5
    True
    """
    return float(np.sqrt(np.square(X - X.mean(axis=0)).mean())) or 1.0
