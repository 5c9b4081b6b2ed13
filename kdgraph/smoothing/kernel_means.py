"""Kernel-weighted means of rows around query points.

:func:`local_means` uses distances in feature space, in float32 if a bound on the rounding error
allows it and in float64 otherwise. :func:`local_means_by_distance` accepts any dissimilarity and
computes it in blocks. The algorithm is original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kdgraph.errors import DataError
from kdgraph.parameters import check_value
from kdgraph.smoothing.neighbourhoods import (
    Frame,
    Kernel,
    LocalMeans,
    Neighbourhoods,
    build_neighbourhoods,
    check_bandwidths,
    needs_float64,
)

SQUARING_PERIOD = 4
"""Number of halved bandwidths that share one exponential.

The weights of the others are squares of its weights; three squarings multiply the relative error by
8.
"""


class KernelAverager:
    """Kernel means around query points [m, d], with rows [n, d] as the loops read them."""

    def __init__(
        self,
        frame: Frame,
        at: np.ndarray,
        X: np.ndarray,
        neighbourhoods: Neighbourhoods,
        kernel: Kernel,
    ):
        self.frame, self.at, self.X, self.neighbourhoods = frame, at, X, neighbourhoods
        self.kernel: Kernel = kernel
        self.values = np.ascontiguousarray(neighbourhoods.values.T)
        self.cells = self._tiles()

    def _tiles(self) -> np.ndarray:
        """Return the rows in tiles of features × rows, Float[r d']; a label begins a new tile."""
        from kdgraph.smoothing.pair_sums import TILE

        neighbourhoods = self.neighbourhoods
        d = self.frame.transform(self.X[:0]).shape[1]
        cells = np.empty(len(neighbourhoods.rows) * d, self.frame.dtype)
        ends = np.stack([neighbourhoods.first, neighbourhoods.last])
        ranges = np.unique(ends[:, ~neighbourhoods.isolated], axis=1)
        for first, last in ranges.T:
            for start in range(first, last, TILE):
                rows = neighbourhoods.rows[start : min(start + TILE, last)]
                tile = self.frame.transform(self.X[rows])
                cells[start * d : start * d + tile.size] = tile.T.ravel()
        return cells

    def average(self, query_ids: np.ndarray, rates: np.ndarray) -> LocalMeans:
        """Return the means around query points, Int[p], at rates, Float[b].

        These are Eq. 4 and 6 of Luo et al. (2022).
        """
        from kdgraph.smoothing.pair_sums import means_of_block

        neighbourhoods, shape = self.neighbourhoods, (len(rates), len(query_ids))
        mean, n_eff, total, nearest = (
            np.empty((*shape, len(self.values))),
            np.empty(shape),
            np.empty(shape),
            np.empty(len(query_ids)),
        )
        n_squarings, base_rates = split_rates(rates)
        means_of_block(
            self.frame.transform(self.at[query_ids]),
            self.cells,
            neighbourhoods.first[query_ids],
            neighbourhoods.last[query_ids],
            neighbourhoods.own[query_ids],
            self.kernel == "gaussian",
            base_rates,
            n_squarings,
            neighbourhoods.weight,
            self.values,
            mean,
            n_eff,
            total,
            nearest,
        )
        with np.errstate(over="ignore", under="ignore"):
            # The loops return weights relative to the nearest row's; this is their absolute sum.
            mass = neighbourhoods.weight_unit * total * np.exp(-rates[:, None] * nearest)
            return LocalMeans(mean, n_eff, mass)


def split_rates(rates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of squarings that lead to each rate, Int[b], and base rates, Float[b].

    Squared weights are the weights at twice the rate: exp(-r D)² = exp(-2 r D). Both results depend
    on the rate alone, so the weights do not depend on the other bandwidths.
    """
    n_squarings = np.mod(np.frexp(rates)[1], SQUARING_PERIOD)
    return n_squarings, np.ldexp(rates, -n_squarings)


def check_vectors(name: str, rows: np.ndarray, *, remedy: str = "") -> np.ndarray:
    """Return rows, [n, d], as finite float64; ``remedy`` ends the error message."""
    vectors = np.asarray(rows, dtype=np.float64)
    if vectors.ndim != 2 or vectors.shape[1] == 0:
        raise DataError(f"{name} must be vectors of features, one a row, got shape {vectors.shape}")
    invalid = ~np.isfinite(vectors)
    if invalid.any():
        row, feature = np.argwhere(invalid)[0]
        raise DataError(
            f"{name} must be finite for distances, got {vectors[row, feature]:g} in row {row}"
            f" ({invalid.sum()} such){remedy}"
        )
    return vectors


PAIRS_PER_BLOCK = 2**22
"""Number of pairs of a query point and a row in a task of a thread, which takes about 20 ms."""


def local_means(
    at: np.ndarray,
    X: np.ndarray,
    values: np.ndarray,
    bandwidths: Sequence[float],
    *,
    kernel: Kernel = "laplacian",
    within_at: np.ndarray | None = None,
    within: np.ndarray | None = None,
    weight: np.ndarray | None = None,
    leave_one_out: bool = False,
    n_jobs: int | None = None,
) -> LocalMeans:
    """Average values of rows around query points, with kernel weights by distance.

    The weights are exp(-‖x - x'‖₁ / (d γ)), or those of a Gaussian kernel.

    Parameters
    ----------
    at : array-like of shape (m, d)
        Query points.
    X : array-like of shape (n, d)
        Rows.
    values : array-like of shape (n,) or (n, v)
        Values of the rows; each column is averaged separately.
    bandwidths : sequence of float
        Bandwidths γ > 0, in units of the features.
    kernel : {"laplacian", "gaussian"}, default="laplacian"
        Kernel; "gaussian" is exp(-‖x - x'‖² / (2 d γ²)).
    within_at, within : array-like of shape (m,) and (n,), default=None
        Integer labels of query points and rows. Only rows with the label of the query point count.
        None: all rows count.
    weight : array-like of shape (n,), default=None
        Weights ≥ 0 of the rows, multiplied with those of the kernel. Weights below 1e-290 of the
        largest may count as 0. None: all are 1.
    leave_one_out : bool, default=False
        Leave each row out of its own mean; ``at`` must be ``X``.
    n_jobs : int, default=None
        Number of threads, as of joblib. Results do not depend on it.

    Returns
    -------
    LocalMeans
        Means, effective sample sizes and sums of weights.

    Raises
    ------
    ParameterError
        If there is no bandwidth, one is not above 0, or the kernel does not exist.
    DataError
        If shapes do not fit, a feature is not finite, or a weight is negative or not finite.

    Notes
    -----
    The kernel's weights are relative to that of the nearest row, which changes neither a mean nor
    n_eff. So their sum, with ``weight`` on top, is at least the nearest row's ``weight`` at any
    bandwidth. As γ → 0 the mean converges to the nearest row's value (the weighted mean of all
    nearest rows if several are equally near), as γ → ∞ to the weighted mean over all rows.

    Distances are computed once for all bandwidths and never stored: the time is O(m n d), the
    memory O((m + n) d). They are computed in float32 after the mean has been subtracted from the
    features, for each query point and bandwidth for which this changes no weight by more than a
    relative 1e-3, provided that ``weight`` varies by a factor of at most 1e6; otherwise in float64
    without the subtraction (the bound is in :mod:`kdgraph.smoothing.neighbourhoods`). Kernel
    weights relative to the nearest row's count as 0 below 2⁻¹²⁶ in float32, and below e⁻⁷⁰⁰ in
    float64. With features of similar spread, and γ of at least 0.1 of this spread, means are within
    1e-5 of the range of the values. The sum of each query point is separate and in the order of the
    rows, so neither the block size nor the number of threads changes a bit.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, section 3.2 (the kernel),
    Eq. 4 and 6 (the mean).

    Examples
    --------
    >>> X, values = [[0.0], [1.0], [5.0]], [0.0, 1.0, 1.0]
    >>> means = local_means([[0.4]], X, values, [0.01, 1e9])
    >>> means.mean.round(3).tolist(), means.n_eff.round(3).tolist()
    ([[0.0], [0.667]], [[1.0], [3.0]])
    """
    at, X = (check_vectors(name, array) for name, array in (("at", at), ("X", X)))
    if at.shape[1] != X.shape[1]:
        raise DataError(f"at and X must have the same features, got {at.shape[1]} and {X.shape[1]}")
    check_bandwidths(bandwidths)
    check_value("kernel", kernel, Kernel)
    neighbourhoods = build_neighbourhoods(
        len(at),
        len(X),
        values,
        within_at=within_at,
        within=within,
        weight=weight,
        leave_one_out=leave_one_out,
    )
    gammas = np.asarray(bandwidths, dtype=np.float64)
    shape = (len(gammas), len(at))
    means = LocalMeans(
        np.full((*shape, neighbourhoods.values.shape[1]), np.nan),
        np.full(shape, np.nan),
        np.zeros(shape),
    )
    if not neighbourhoods.isolated.all():
        # The precision of an entry depends on its query point, its bandwidth and the rows alone, so
        # that no other query point and no other bandwidth changes a bit of it.
        centred = Frame.centred(X)
        in_float64 = (
            needs_float64(centred, at, X, gammas, kernel) | neighbourhoods.has_uneven_weights
        )
        for is_float64 in (False, True):
            entries = (in_float64 == is_float64) & ~neighbourhoods.isolated
            if entries.any():
                frame = Frame.uncentred(X) if is_float64 else centred
                averager = KernelAverager(frame, at, X, neighbourhoods, kernel)
                _fill_entries(means, entries, averager, gammas, n_jobs)
    return means if np.ndim(values) > 1 else _drop_column_axis(means)


def _drop_column_axis(means: LocalMeans) -> LocalMeans:
    """Return means of a single column of values without their last axis."""
    return LocalMeans(means.mean[..., 0], means.n_eff, means.mass)


def _fill_entries(
    means: LocalMeans,
    entries: np.ndarray,
    averager: KernelAverager,
    gammas: np.ndarray,
    n_jobs: int | None,
) -> None:
    """Compute the entries of ``means`` where ``entries``, Bool[b, m], is True."""
    from joblib import Parallel, delayed  # imported late, because it is slow to import

    bandwidth_ids, order = np.flatnonzero(entries.any(axis=1)), averager.neighbourhoods.order
    query_ids = order[entries[:, order].any(axis=0)]
    # Query points are cut into blocks of about PAIRS_PER_BLOCK pairs. Those of one label are
    # consecutive, because the loops pass a tile of rows to several of them while it is cached.
    neighbourhoods = averager.neighbourhoods
    n_pairs = np.cumsum(neighbourhoods.last[query_ids] - neighbourhoods.first[query_ids])
    cuts = np.searchsorted(n_pairs, np.arange(PAIRS_PER_BLOCK, n_pairs[-1], PAIRS_PER_BLOCK))
    blocks = [block for block in np.split(query_ids, cuts) if len(block)]
    rates = averager.frame.rates(gammas[bandwidth_ids], averager.X.shape[1], averager.kernel)
    # Rates with the same base are consecutive, sorted by their squarings, so that the weights of
    # each continue from those of the one before. The squarings from the base are the same as
    # without it, so this changes no bit.
    by_base = np.lexsort(split_rates(rates))
    bandwidth_ids, rates = bandwidth_ids[by_base], rates[by_base]
    results = Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(averager.average)(block, rates) for block in blocks
    )
    # A block has all rates, but some of its entries may belong to the other precision.
    for block, result in zip(blocks, results, strict=True):
        for b, mean, n_eff, mass in zip(
            bandwidth_ids, result.mean, result.n_eff, result.mass, strict=True
        ):
            used = entries[b, block]
            means.mean[b, block[used]] = mean[used]
            means.n_eff[b, block[used]] = n_eff[used]
            means.mass[b, block[used]] = mass[used]


DISTANCES_PER_BLOCK = 2**16
"""Number of distances in a block, 512 KB, which stay in the cache of a core.

With 10,000 rows, 2**22 take twice as long as 2**16.
"""

DistanceFunction = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Function of positions of query points, Int[p], and of rows, Int[q]: their distances, Float[p, q].
"""


def local_means_by_distance(
    distance: DistanceFunction,
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
    """Average values of rows around query points, with weights exp(-D / γ) of a dissimilarity D.

    Computed in float64, in time O(m n). The sum of each query point is separate, in the order of
    the rows and without BLAS, so the block size changes no bit.

    Parameters
    ----------
    distance : callable
        Function of positions of query points, Int[p], and of rows, Int[q], that returns D ≥ 0,
        Float[p, q]. Where it is infinite the weight is 0. With -log K of a similarity K in [0, 1]
        the weights are K^(1/γ).
    m, n : int
        Number of query points and of rows.
    values : array-like of shape (n,) or (n, v)
        Values of the rows; each column is averaged separately.
    bandwidths : sequence of float
        Bandwidths γ > 0, in units of D.
    within_at, within, weight, leave_one_out
        See :func:`~kdgraph.smoothing.local_means`.

    Returns
    -------
    LocalMeans
        Means, effective sample sizes and sums of weights.

    Raises
    ------
    ParameterError
        If there is no bandwidth, or one is not above 0.
    DataError
        If shapes do not fit, a weight is negative or not finite, or a distance is negative or NaN.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, section 4. Its kernel for
    groups, 1[x, x' in same group], is D = 0 or ∞.

    Examples
    --------
    >>> group = np.array([0, 0, 1])
    >>> def distance(query_ids, rows):
    ...     return np.where(group[query_ids][:, None] == group[rows], 0, np.inf)
    >>> local_means_by_distance(distance, 3, 3, [0.0, 1.0, 1.0], [1.0]).mean.tolist()
    [[0.5, 0.5, 1.0]]
    """
    check_bandwidths(bandwidths)
    neighbourhoods = build_neighbourhoods(
        m, n, values, within_at=within_at, within=within, weight=weight, leave_one_out=leave_one_out
    )
    rates = 1 / np.asarray(bandwidths, dtype=np.float64)
    means = weighted_means(distance, neighbourhoods, rates)
    return means if np.ndim(values) > 1 else _drop_column_axis(means)


def weighted_means(
    distance: DistanceFunction, neighbourhoods: Neighbourhoods, rates: np.ndarray
) -> LocalMeans:
    """Return means with weights exp(-rate · D) relative to the nearest row's.

    These are Eq. 4 of Luo et al. (2022) at rates Float[b].
    """
    shape = (len(rates), len(neighbourhoods.first))
    mean, n_eff, mass = (
        np.full((*shape, neighbourhoods.values.shape[1]), np.nan),
        np.full(shape, np.nan),
        np.zeros(shape),
    )
    # A distance in units of a tiny bandwidth may overflow, and a weight at a large one underflow.
    with np.errstate(over="ignore", under="ignore"):
        for query_ids in _query_blocks(neighbourhoods):
            first = neighbourhoods.first[query_ids[0]]
            span = slice(first, neighbourhoods.last[query_ids[0]])
            rows = neighbourhoods.rows[span]
            distances = _check_distances(distance(query_ids, rows), (len(query_ids), len(rows)))
            i = np.flatnonzero(neighbourhoods.own[query_ids] >= 0)
            distances[i, neighbourhoods.own[query_ids[i]] - first] = np.inf
            # Query points that are infinitely far from all rows keep NaN and a mass of 0.
            nearest = distances.min(axis=1)
            is_finite = np.isfinite(nearest)
            query_ids, distances = query_ids[is_finite], distances[is_finite]
            nearest = nearest[is_finite]
            distances -= nearest[:, None]
            for b, rate in enumerate(
                np.clip(rates, np.finfo(np.float64).tiny, np.finfo(np.float64).max)
            ):
                mean[b, query_ids], n_eff[b, query_ids], total = _block_means(
                    distances, neighbourhoods.values[span], neighbourhoods.weight[span], rate
                )
                mass[b, query_ids] = neighbourhoods.weight_unit * total * np.exp(-rate * nearest)
    return LocalMeans(mean, n_eff, mass)


def _check_distances(distances: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return a validated copy of the distances of p query points and q rows, Float[p, q]."""
    checked = np.array(distances, dtype=np.float64)
    if checked.shape != shape:
        raise DataError(
            f"distance must give a number for each of {shape[0]} query points and {shape[1]} rows,"
            f" got shape {checked.shape}"
        )
    invalid = ~(checked >= 0)
    if invalid.any():
        raise DataError(
            f"distance must give numbers from 0 up, got {checked[invalid][0]:g}"
            f" ({invalid.sum()} such)"
        )
    return checked


def _query_blocks(neighbourhoods: Neighbourhoods) -> list[np.ndarray]:
    """Return blocks of query points with the same rows, Int[p] each; those without are absent."""
    first, last = neighbourhoods.first, neighbourhoods.last
    order = neighbourhoods.order[~neighbourhoods.isolated[neighbourhoods.order]]
    blocks = []
    for query_ids in np.split(order, np.flatnonzero(np.diff(first[order])) + 1):
        if len(query_ids):
            step = max(1, DISTANCES_PER_BLOCK // (last[query_ids[0]] - first[query_ids[0]]))
            blocks += [query_ids[i : i + step] for i in range(0, len(query_ids), step)]
    return blocks


def _block_means(
    distances: np.ndarray, values: np.ndarray, weight: np.ndarray, rate: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return means, effective sample sizes and sums of weights of one block.

    ``distances``, Float[p, q], are relative to that of the nearest row.
    """
    w = np.exp(-rate * distances)
    if len(weight):
        w *= weight
    # Weights are scaled by powers of two, so that squares of small weights do not underflow.
    exponent = np.frexp(w.max(axis=1))[1] if len(weight) else np.zeros(len(w), dtype=int)
    w = np.ldexp(w, -exponent[:, None]) if exponent.any() else w
    total = w.sum(axis=1)
    mean = np.stack([(w * column).sum(axis=1) / total for column in values.T], axis=1)
    w *= w
    return mean, total**2 / w.sum(axis=1), np.ldexp(total, exponent)
