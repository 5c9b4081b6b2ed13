"""The local-linear correction of PIT values: what is a slope across the neighbourhood, of their
location and spread, is taken out; ours.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_LEAST_SPREAD, _MOST_STRETCH = 0.25, 4.0
"""No fitted spread is below a quarter of the neighbours' mean, and no residual is stretched or
shrunk more than fourfold.
"""
_LEAST_LEFT = 0.25
"""Of the variance, the least part that a plane through few neighbours is taken to leave to their
residuals.
"""


@njit(nogil=True, cache=True, error_model="numpy")
def _total(values: np.ndarray) -> float:
    """The sum, one number after the other, so that zeros at the end change no bit."""
    total = 0.0
    for value in values:
        total += value
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def _around(
    X: np.ndarray, near: np.ndarray, share: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Float[k, d], the rows ``near`` minus their weighted mean; Float[1, d], the place; Float[d,
    d], second moments; the ridge.
    """
    k, d = len(near), X.shape[1]
    off, here, square = np.empty((k, d)), np.empty((1, d)), np.zeros((d, d))
    for c in range(d):
        middle, low, high = 0.0, np.inf, -np.inf
        for j in range(k):
            value = X[near[j], c]
            off[j, c] = value
            middle += share[j] * value
            if share[j] > 0:
                low, high = min(low, value), max(high, value)
        off[:, c] -= middle
        here[0, c] = min(max(x[c], low), high) - middle
    _add_squares(off, share, square)
    variance = np.trace(square) / d
    return (
        off,
        here,
        square,
        (d + 1) * _total(share * share) * variance if variance > 0 else 1.0,
    )  # all rows at one place: no slope


@njit(nogil=True, cache=True, error_model="numpy")
def _add_squares(off: np.ndarray, weight: np.ndarray, square: np.ndarray) -> None:
    """Add the weighted second moments Float[d, d] of rows Float[k, d]."""
    for j in range(len(off)):
        for c in range(off.shape[1]):
            for e in range(c + 1):
                square[c, e] += weight[j] * off[j, c] * off[j, e]
    for c in range(off.shape[1]):
        for e in range(c):
            square[e, c] = square[c, e]


@njit(nogil=True, cache=True, error_model="numpy")
def _inverse(square: np.ndarray, ridge: float) -> np.ndarray:
    """Of second moments with the ridge: by Cholesky's decomposition, which compiles in a tenth of
    LAPACK's time; no pivot is near 0.
    """
    d = len(square)
    low, found = np.zeros((d, d)), np.zeros((d, d))
    for c in range(d):
        for e in range(c + 1):
            rest = square[c, e] + (ridge if c == e else 0.0)
            for f in range(e):
                rest -= low[c, f] * low[e, f]
            low[c, e] = np.sqrt(rest) if c == e else rest / low[e, e]
    for column in range(d):
        x = found[column]
        x[column] = 1.0
        for c in range(d):
            for e in range(c):
                x[c] -= low[c, e] * x[e]
            x[c] /= low[c, c]
        for c in range(d - 1, -1, -1):
            for e in range(c + 1, d):
                x[c] -= low[e, c] * x[e]
            x[c] /= low[c, c]
    return found


@njit(nogil=True, cache=True, error_model="numpy")
def _line(
    values: np.ndarray, off: np.ndarray, share: np.ndarray, inverse: np.ndarray
) -> tuple[float, np.ndarray]:
    """The weighted mean of values Float[k], and their slopes Float[d]."""
    mean, d = _total(share * values), off.shape[1]
    product, slope = np.zeros(d), np.zeros(d)
    for j in range(len(values)):
        for c in range(d):
            product[c] += share[j] * off[j, c] * (values[j] - mean)
    for c in range(d):
        for e in range(d):
            slope[c] += inverse[c, e] * product[e]
    return mean, slope


@njit(nogil=True, cache=True, error_model="numpy")
def _widening(
    off: np.ndarray, here: np.ndarray, share: np.ndarray, inverse: np.ndarray, ridge: float
) -> float:
    """How much wider than the residuals from a fitted plane the errors of its prediction here are,
    in standard deviations.
    """
    d, square = off.shape[1], share * share
    second, step, skew = np.zeros((d, d)), np.zeros(d), 0.0
    _add_squares(off, square, second)
    for c in range(d):
        for e in range(d):
            step[c] += inverse[c, e] * here[0, e]
    for j in range(len(off)):
        for c in range(d):
            skew += square[j] * off[j, c] * step[c]
    predicted = _total(square) + 2 * skew
    fitted = _total(square)
    for c in range(d):
        for e in range(d):
            predicted += step[c] * second[c, e] * step[e]
            product = 0.0
            for f in range(d):
                product += inverse[c, f] * second[f, e]
            fitted += product * ((1.0 if c == e else 0.0) + ridge * inverse[e, c])
    return np.sqrt((1 + predicted) / max(1 - fitted, _LEAST_LEFT))


@njit(nogil=True, cache=True, error_model="numpy")
def _certain(values: np.ndarray, fitted: np.ndarray, share: np.ndarray, d: int) -> float:
    """What part of d fitted slopes is not noise, from 0 to 1: 1 less the variance that noise would
    fit, over what is fitted.
    """
    noise = d * _total(share * share) * _total(share * values * values)
    explained = _total(share * fitted * fitted)
    return max(1 - noise / explained, 0.0) if explained > 0 else 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def _rise(off: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Float[p] of places Float[p, d]: how much a plane rises up to there."""
    rise = np.zeros(len(off))
    for j in range(len(off)):
        for c in range(len(slope)):
            rise[j] += slope[c] * off[j, c]
    return rise


def without_slopes(
    scores: np.ndarray, X: np.ndarray, rows: np.ndarray, weight: np.ndarray, at: np.ndarray
) -> np.ndarray:
    """Scores of neighbours as they would be at each place: without the slopes of their location and
    of their spread.

    Parameters
    ----------
    scores : Float[n], normal scores of PIT values.
    X : Float[n, d], where their rows lie.
    rows : Int[m, k], the neighbours of each place.
    weight : Float[m, k], not negative, at no place all 0.
    at : Float[m, d], the places.

    Returns
    -------
    Float[m, k] : a(x) + w(x) (z_i - a(x_i)) s(x) / s(x_i), with a the weighted regression of scores
    z on x, s of their distances from a.

    Notes
    -----
    Ours. Algorithm 1 of Torres et al. takes the neighbours' PIT values as they are, a local
    constant: to the side of the data, or where the parent's error has a slope, their mean is off in
    first order of the bandwidth, and their spread has the slope of the mean in it, and to the side
    that of the spread itself. With the slopes taken out all are off in second order, so that more
    neighbours may be taken. The spread is regressed as in Ruppert, Wand, Holst and Hössjer ("Local
    polynomial variance-function estimation", Technometrics 39, 1997), by absolute residuals, which
    far outcomes move less than squares. What they say is mostly noise where neighbours are few for
    so many features, so their slopes are multiplied with (1 - d v / (n_eff e))₊, of v their
    variance and e the part of it that is fitted (a positive-part shrinkage as of James and Stein,
    1961).

    A plane through few neighbours takes part of their noise with it, so that their residuals are
    too small, and is itself uncertain where x lies: w² = (1 + Σ l_i(x)²) / (1 - v), l_i(x) the
    weight of z_i in a(x), v what a takes of the weighted variance of noise that is alike everywhere
    (of equal weights, near to its d + 1 parameters over k). Without it, intervals hold too little
    where k is near to 10 d.

    Slopes are shrunk as by a ridge of (d + 1) / n_eff of the mean variance, so that few rows, or
    rows on a line, give none; beyond the range of the neighbours in a coordinate, x is where that
    ends: nothing is extrapolated.

    Examples
    --------
    >>> x = np.linspace(0, 1, 101)
    >>> every = np.arange(101)[None]
    >>> moved = without_slopes(3 * x, x[:, None], every, np.ones((1, 101)), np.array([[0.25]]))
    >>> bool(np.ptp(moved) < 0.1 and abs(moved.mean() - 0.75) < 0.03)
    True
    """
    scores, X, weight, at = (
        np.ascontiguousarray(each, dtype=np.float64) for each in (scores, X, weight, at)
    )
    return _moved(scores, X, weight, at, np.ascontiguousarray(rows, dtype=np.intp))


@njit(nogil=True, cache=True, error_model="numpy")
def _moved(
    scores: np.ndarray, X: np.ndarray, weight: np.ndarray, at: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    found = np.empty(rows.shape)
    for i in range(rows.shape[0]):
        near = rows[i]
        share = weight[i] / _total(weight[i])
        off, here, square, ridge = _around(X, near, share, at[i])
        inverse = _inverse(square, ridge)
        mean, slope = _line(scores[near], off, share, inverse)
        residual = scores[near] - mean - _rise(off, slope)
        spread, wider = _line(np.abs(residual), off, share, inverse)
        wider *= _certain(np.abs(residual) - spread, _rise(off, wider), share, len(wider))
        centre, wide = (
            mean + _rise(here, slope)[0],
            max(spread + _rise(here, wider)[0], _LEAST_SPREAD * spread),
        )
        there = np.maximum(spread + _rise(off, wider), _LEAST_SPREAD * spread)
        residual *= _widening(off, here, share, inverse, ridge)
        for j in range(len(near)):
            stretch = wide / there[j] if there[j] > 0 else 1.0
            found[i, j] = centre + residual[j] * min(max(stretch, 1 / _MOST_STRETCH), _MOST_STRETCH)
    return found
