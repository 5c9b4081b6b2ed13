"""Kernel-weighted means of rows around places.

:func:`local_means` uses distances in feature space, in float32 where a bound on the rounding allows
it and in float64 otherwise. :func:`local_means_by_distance` accepts any dissimilarity and computes
it in blocks.
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
    check_bandwidths,
    is_rough,
    neighbourhoods,
)

SQUARINGS = 4
"""Of bandwidths that are each half the one before, every fourth takes an exponential: three
squarings make 8 times its relative error.
"""


class Search:
    """Rows in a frame, prepared for the compiled loops. Original to kdgraph.

    Parameters
    ----------
    frame : where features are put, and in which precision.
    at, X : Float[m, d], the places, and Float[n, d], the rows.
    near : which rows each place looks at.
    kernel : of which distances.
    """

    def __init__(
        self, frame: Frame, at: np.ndarray, X: np.ndarray, near: Neighbourhoods, kernel: Kernel
    ):
        self.frame, self.at, self.X, self.near = frame, at, X, near
        self.kernel: Kernel = kernel
        self.values = np.ascontiguousarray(near.values.T)
        self.cells = self._tiles()

    def _tiles(self) -> np.ndarray:
        """Return the rows feature by feature in tiles; each label begins a new tile, Float[r
        d'].
        """
        from kdgraph.smoothing.pair_sums import TILE

        near, d = self.near, self.frame.put(self.X[:0]).shape[1]
        cells = np.empty(len(near.rows) * d, self.frame.dtype)
        ranges = np.unique(np.stack([near.first, near.last])[:, ~near.alone], axis=1)
        for first, last in ranges.T:
            for start in range(first, last, TILE):
                tile = self.frame.put(self.X[near.rows[start : min(start + TILE, last)]])
                cells[start * d : start * d + tile.size] = tile.T.ravel()
        return cells

    def around(self, places: np.ndarray, rates: np.ndarray) -> LocalMeans:
        """Return means around places, Int[p], at rates, Float[b] (Luo et al., 2022, Eq. 4 and
        6).
        """
        from kdgraph.smoothing.pair_sums import means_of_block

        near, shape = self.near, (len(rates), len(places))
        mean, n_eff, total, nearest = (
            np.empty((*shape, len(self.values))),
            np.empty(shape),
            np.empty(shape),
            np.empty(len(places)),
        )
        squarings, bases = octaves(rates)
        means_of_block(
            self.frame.put(self.at[places]),
            self.cells,
            near.first[places],
            near.last[places],
            near.own[places],
            self.kernel == "gaussian",
            bases,
            squarings,
            near.weight,
            self.values,
            mean,
            n_eff,
            total,
            nearest,
        )
        with np.errstate(over="ignore", under="ignore"):
            return LocalMeans(mean, n_eff, near.unit * total * np.exp(-rates[:, None] * nearest))


def octaves(rates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how often weights at a base rate are squared, Int[b], and the base rates, Float[b].

    Squared weights are the weights at twice the rate: exp(-r D)² = exp(-2 r D). Both results depend
    on the rate alone, so the weights do not depend on the other bandwidths. Original to kdgraph.
    """
    squarings = np.mod(np.frexp(rates)[1], SQUARINGS)
    return squarings, np.ldexp(rates, -squarings)


def vectors(name: str, rows: np.ndarray, *, way_out: str = "") -> np.ndarray:
    """Return rows as finite vectors, Float[n, d].

    Parameters
    ----------
    name : what a message calls them.
    rows : Float[n, d].
    way_out : what a message ends with.

    Raises
    ------
    DataError
        Rows that are not vectors, or have something that is not finite.
    """
    found = np.asarray(rows, dtype=np.float64)
    if found.ndim != 2 or found.shape[1] == 0:
        raise DataError(f"{name} must be vectors of features, one a row, got shape {found.shape}")
    bad = ~np.isfinite(found)
    if bad.any():
        row, feature = np.argwhere(bad)[0]
        raise DataError(
            f"{name} must be finite for distances, got {found[row, feature]:g} in row {row}"
            f" ({bad.sum()} such){way_out}"
        )
    return found


PAIRS = 2**22
"""Pairs of a place and a row in a block, the work of a thread at a time: some 20 ms."""


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
    """Average ``values`` of the rows of ``X`` around each row of ``at``, with weights exp(-‖x -
    x'‖₁ / (d γ)) or a Gaussian's.

    Parameters
    ----------
    at : Float[m, d], where to look.
    X : Float[n, d], the rows.
    values : Float[n], what is averaged, or Float[n, v], each column separately.
    bandwidths : γ, in units of the features.
    kernel : "laplacian", or "gaussian": exp(-‖x - x'‖² / (2 d γ²)).
    within_at, within : Int[m] and Int[n], labels; a place looks at the rows of its own label alone.
    All, where there are none.
    weight : Float[n] ≥ 0, of the rows, on top of the kernel's; those below 1e-290 of the largest
    may count as 0.
    leave_one_out : ``at`` is ``X``, and no row counts among its own neighbours.
    n_jobs : threads; never changes a number.

    Raises
    ------
    ParameterError
        A bandwidth that is not above 0, or none; no such kernel.
    DataError
        Shapes that do not fit, features that are not finite, a weight that is negative or not
        finite.

    Notes
    -----
    The kernel's weights are relative to that of the nearest row, which changes neither a mean nor
    n_eff. So their sum, with ``weight`` on top, is at least the nearest row's ``weight`` at any
    bandwidth: as γ → 0 the mean becomes the nearest row's value (the weighted mean of all nearest
    where several are equally near), as γ → ∞ the weighted mean over all rows.

    Distances are computed once for all bandwidths and never kept; it takes time m n d and memory (m
    + n) d. They are computed in float32 of features from which the mean has been taken away, but of
    each place at each bandwidth only if that changes no weight by more than 1 in 1,000 of itself,
    whatever the features, and ``weight`` differs by a factor of 1e6 at most; else in float64 of the
    features as they are (:mod:`kdgraph.smoothing.neighbourhoods` has the bound). Kernel weights
    below 2⁻¹²⁶ of the nearest row's count as 0 in float32, e⁻⁷⁰⁰ in float64. With features of about
    the same spread and γ ≥ 0.1 of it means are within 1e-5 of the values' range. Each place is
    summed separately in the order of the rows, so neither the size of a block nor the number of
    threads changes a bit.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, section 3.2 (the kernel),
    Eq. 4 and 6 (the mean).

    Examples
    --------
    >>> X, values = [[0.0], [1.0], [5.0]], [0.0, 1.0, 1.0]
    >>> around = local_means([[0.4]], X, values, [0.01, 1e9])
    >>> around.mean.round(3).tolist(), around.n_eff.round(3).tolist()
    ([[0.0], [0.667]], [[1.0], [3.0]])
    """
    at, X = (vectors(name, array) for name, array in (("at", at), ("X", X)))
    if at.shape[1] != X.shape[1]:
        raise DataError(f"at and X must have the same features, got {at.shape[1]} and {X.shape[1]}")
    check_bandwidths(bandwidths)
    check_value("kernel", kernel, Kernel)
    near = neighbourhoods(
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
    found = LocalMeans(
        np.full((*shape, near.values.shape[1]), np.nan), np.full(shape, np.nan), np.zeros(shape)
    )
    if not near.alone.all():
        centred = Frame.centred(X)
        rough = is_rough(centred, at, X, gammas, kernel) | near.uneven
        for exact in (False, True):
            asked = (rough == exact) & ~near.alone
            if asked.any():
                _fill(
                    found,
                    asked,
                    Search(Frame.as_it_is(X) if exact else centred, at, X, near, kernel),
                    gammas,
                    n_jobs,
                )
    return found if np.ndim(values) > 1 else LocalMeans(found.mean[..., 0], found.n_eff, found.mass)


def _fill(
    found: LocalMeans, asked: np.ndarray, search: Search, gammas: np.ndarray, n_jobs: int | None
) -> None:
    """Compute the entries of ``found`` that ``asked`` marks, Bool[b, m]."""
    from joblib import Parallel, delayed  # here, not above: it takes a moment

    which, order = np.flatnonzero(asked.any(axis=1)), search.near.order
    places = order[asked[:, order].any(axis=0)]
    work = np.cumsum(search.near.last[places] - search.near.first[places])
    blocks = np.split(places, np.searchsorted(work, np.arange(PAIRS, work[-1], PAIRS)))
    blocks = [block for block in blocks if len(block)]
    rates = search.frame.rates(gammas[which], search.X.shape[1], search.kernel)
    by_base = np.lexsort(octaves(rates))
    which, rates = which[by_base], rates[by_base]
    results = Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(search.around)(block, rates) for block in blocks
    )
    for block, part in zip(blocks, results, strict=True):
        for b, mean, n_eff, mass in zip(which, part.mean, part.n_eff, part.mass, strict=True):
            here = asked[b, block]
            found.mean[b, block[here]], found.n_eff[b, block[here]], found.mass[b, block[here]] = (
                mean[here],
                n_eff[here],
                mass[here],
            )


BLOCK = 2**16
"""Distances at a time: 512 KB, which stay in a core's cache. Of 10,000 rows all at once, 2**22 take
twice as long as 2**16.
"""

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
    """Average ``values`` of n rows around each of m places, with weights exp(-D / γ) of any
    dissimilarity D.

    Parameters
    ----------
    distance : function of positions of places, Int[p], and of rows, Int[q], that gives D: Float[p,
        q] ≥ 0; where it is infinite the weight is 0. With -log K of a similarity K in [0, 1] the
        weights are K^(1/γ).
    m, n : how many places and rows there are.
    values, bandwidths, within_at, within, weight, leave_one_out : as of
        :func:`~kdgraph.smoothing.local_means`.

    Raises
    ------
    ParameterError
        A bandwidth that is not above 0, or none.
    DataError
        Shapes that do not fit, a weight that is negative or not finite, a distance that is negative
        or NaN.

    Notes
    -----
    In float64, and in time m n. Each place is summed separately in the order of the rows, without
    BLAS, so that the size of a block changes no bit of what is done here.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, section 4, of which their
    kernel of equal group, 1[x, x' in same group], is D = 0 or ∞.

    Examples
    --------
    >>> group = np.array([0, 0, 1])
    >>> apart = lambda panel_positions, rows: np.where(group[panel_positions][:, None] == group[rows], 0, np.inf)
    >>> local_means_by_distance(apart, 3, 3, [0.0, 1.0, 1.0], [1.0]).mean.tolist()
    [[0.5, 0.5, 1.0]]
    """  # noqa: E501
    check_bandwidths(bandwidths)
    near = neighbourhoods(
        m, n, values, within_at=within_at, within=within, weight=weight, leave_one_out=leave_one_out
    )
    found = weighted_means(distance, near, 1 / np.asarray(bandwidths, dtype=np.float64))
    return found if np.ndim(values) > 1 else LocalMeans(found.mean[..., 0], found.n_eff, found.mass)


def weighted_means(distance: Distance, near: Neighbourhoods, rates: np.ndarray) -> LocalMeans:
    """Return means with weights exp(-rate · D) relative to the nearest row's (Luo et al., Eq.
    4).
    """
    shape = (len(rates), len(near.first))
    mean, n_eff, mass = (
        np.full((*shape, near.values.shape[1]), np.nan),
        np.full(shape, np.nan),
        np.zeros(shape),
    )
    with np.errstate(
        over="ignore", under="ignore"
    ):  # a distance in tiny bandwidths is infinite, a weight far away 0
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
            for b, rate in enumerate(
                np.clip(rates, np.finfo(np.float64).tiny, np.finfo(np.float64).max)
            ):
                mean[b, places], n_eff[b, places], total = _of_block(
                    apart, near.values[here], near.weight[here], rate
                )
                mass[b, places] = near.unit * total * np.exp(-rate * nearest)
    return LocalMeans(mean, n_eff, mass)


def _checked(apart: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return a checked copy of the distances of p places and q rows, Float[p, q]."""
    found = np.array(apart, dtype=np.float64)
    if found.shape != shape:
        raise DataError(
            f"distance must give a number for each of {shape[0]} places and {shape[1]} rows, got"
            f" shape {found.shape}"
        )
    bad = ~(found >= 0)
    if bad.any():
        raise DataError(
            f"distance must give numbers from 0 up, got {found[bad][0]:g} ({bad.sum()} such)"
        )
    return found


def _blocks(near: Neighbourhoods) -> list[np.ndarray]:
    """Return blocks of places that use the same rows, Int[p] each, without places that use none."""
    some = near.order[~near.alone[near.order]]
    blocks = []
    for places in np.split(some, np.flatnonzero(np.diff(near.first[some])) + 1):
        step = max(1, BLOCK // (near.last[places[0]] - near.first[places[0]])) if len(places) else 1
        blocks += [places[start : start + step] for start in range(0, len(places), step)]
    return blocks


def _of_block(
    apart: np.ndarray, values: np.ndarray, weight: np.ndarray, rate: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return means, effective sample sizes and sums of weights of one block.

    ``apart``, Float[p, q], are distances minus that of the nearest row.
    """
    w = np.exp(-rate * apart)
    if len(weight):
        w *= weight
    size = np.frexp(w.max(axis=1))[1] if len(weight) else np.zeros(len(w), dtype=int)
    w = (
        np.ldexp(w, -size[:, None]) if size.any() else w
    )  # by powers of two, so that squares of small weights are not 0
    total = w.sum(axis=1)
    mean = np.stack([(w * column).sum(axis=1) / total for column in values.T], axis=1)
    w *= w
    return mean, total**2 / w.sum(axis=1), np.ldexp(total, size)
