"""Means over the rows around a place, by distances in feature space: in float32 where that is enough, else in float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kdgraph.errors import DataError
from kdgraph.parameters import check_value
from kdgraph.smoothing.bandwidths import Kernel, check_bandwidths
from kdgraph.smoothing.frame import Frame, is_rough
from kdgraph.smoothing.means import LocalMeans, neighbourhoods
from kdgraph.smoothing.search import Search, octaves
from kdgraph.smoothing.vectors import vectors

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
    """Average ``values`` of the rows of ``X`` around each row of ``at``, with weights exp(-‖x - x'‖₁ / (d γ)) or a Gaussian's.

    Parameters
    ----------
    at : Float[m, d], where to look.
    X : Float[n, d], the rows.
    values : Float[n], what is averaged, or Float[n, v], each column by itself.
    bandwidths : γ, in units of the features.
    kernel : "laplacian", or "gaussian": exp(-‖x - x'‖² / (2 d γ²)).
    within_at, within : Int[m] and Int[n], labels; a place looks at the rows of its own label alone. All, where there are none.
    weight : Float[n] ≥ 0, of the rows, on top of the kernel's; those below 1e-290 of the largest may count as 0.
    leave_one_out : ``at`` is ``X``, and no row counts among its own neighbours.
    n_jobs : threads; never changes a number.

    Raises
    ------
    ParameterError
        A bandwidth that is not above 0, or none; no such kernel.
    DataError
        Shapes that do not fit, features that are not finite, a weight that is negative or not finite.

    Notes
    -----
    The kernel's weights are relative to that of the nearest row, which changes neither a mean nor n_eff. So their sum, with ``weight`` on
    top, is at least the nearest row's ``weight`` at any bandwidth: as γ → 0 the mean becomes the nearest row's value (the weighted mean of
    all nearest where several are equally near), as γ → ∞ the weighted mean over all rows.

    Distances are computed once for all bandwidths and never kept; it takes time m n d and memory (m + n) d. They are computed in float32
    of features from which the mean has been taken away, but of each place at each bandwidth only if that changes no weight by more than
    1 in 1,000 of itself, whatever the features, and ``weight`` differs by a factor of 1e6 at most; else in float64 of the features as they
    are (:mod:`kdgraph.smoothing.frame` has the bound). Kernel weights below 2⁻¹²⁶ of the nearest row's count as 0 in float32, e⁻⁷⁰⁰ in
    float64. With features of about the same spread and γ ≥ 0.1 of it means are within 1e-5 of the values' range. Each place is summed by
    itself in the order of the rows, so neither the size of a block nor the number of threads changes a bit.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, section 3.2 (the kernel), Eq. 4 and 6 (the mean).

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
    near = neighbourhoods(len(at), len(X), values, within_at=within_at, within=within, weight=weight, leave_one_out=leave_one_out)
    gammas = np.asarray(bandwidths, dtype=np.float64)
    shape = (len(gammas), len(at))
    found = LocalMeans(np.full((*shape, near.values.shape[1]), np.nan), np.full(shape, np.nan), np.zeros(shape))
    if not near.alone.all():
        centred = Frame.centred(X)
        rough = is_rough(centred, at, X, gammas, kernel) | near.uneven
        for exact in (False, True):
            asked = (rough == exact) & ~near.alone
            if asked.any():
                _fill(found, asked, Search(Frame.as_it_is(X) if exact else centred, at, X, near, kernel), gammas, n_jobs)
    return found if np.ndim(values) > 1 else LocalMeans(found.mean[..., 0], found.n_eff, found.mass)


def _fill(found: LocalMeans, asked: np.ndarray, search: Search, gammas: np.ndarray, n_jobs: int | None) -> None:
    """Put into ``found`` what is ``asked`` for, Bool[b, m]."""
    from joblib import Parallel, delayed  # here, not above: it takes a moment

    which, order = np.flatnonzero(asked.any(axis=1)), search.near.order
    places = order[asked[:, order].any(axis=0)]
    work = np.cumsum(search.near.last[places] - search.near.first[places])
    blocks = np.split(places, np.searchsorted(work, np.arange(PAIRS, work[-1], PAIRS)))
    blocks = [block for block in blocks if len(block)]
    rates = search.frame.rates(gammas[which], search.X.shape[1], search.kernel)
    by_base = np.lexsort(octaves(rates))
    which, rates = which[by_base], rates[by_base]
    results = Parallel(n_jobs=n_jobs, require="sharedmem")(delayed(search.around)(block, rates) for block in blocks)
    for block, part in zip(blocks, results, strict=True):
        for b, mean, n_eff, mass in zip(which, part.mean, part.n_eff, part.mass, strict=True):
            here = asked[b, block]
            found.mean[b, block[here]], found.n_eff[b, block[here]], found.mass[b, block[here]] = mean[here], n_eff[here], mass[here]
