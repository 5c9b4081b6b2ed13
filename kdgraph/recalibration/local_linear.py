"""Local-linear correction of the PIT values of neighbours.

The correction removes the slopes of their location and spread across the neighbourhood, so that
local recalibration has a smaller bias at the same number of neighbours. It is original to kdgraph.

The functions are compiled by numba and process one place after the other, because a vectorised
version would hold all centred neighbours, Float[m, k, d], at once. Sums over neighbours are
sequential, so that neighbours of weight 0 at the end of a row change no bit.
"""

from __future__ import annotations

import numpy as np

from kdgraph.compilation import kernel

_MIN_RELATIVE_SPREAD = 0.25
"""Smallest fitted spread, relative to the neighbours' mean spread."""
_MAX_STRETCH = 4.0
"""Largest factor by which a residual is stretched or shrunk."""
_MIN_RESIDUAL_VARIANCE = 0.25
"""Smallest fraction of the variance that a plane through few neighbours leaves to their residuals.
"""


def local_linear_scores(
    scores: np.ndarray,
    X: np.ndarray,
    rows: np.ndarray,
    weight: np.ndarray,
    coordinates: np.ndarray,
) -> np.ndarray:
    """Return the scores, Float[m, k], of k neighbours as they would be at each of m places.

    The normal scores of PIT values are Float[n] and the coordinates of their rows Float[n, d]; the
    neighbours of each place are Int[m, k], with weights Float[m, k] that are not negative, and not
    all 0 at any place. The result is a(x) + w(x) (z_i - a(x_i)) s(x) / s(x_i), where a is the
    weighted regression of scores z on coordinates x, and s is that of their absolute distances from
    a.

    Algorithm 1 of Torres et al. (2024) uses the neighbours' PIT values unchanged, which is a local
    constant. At the edge of the data, or where the parent's error has a slope, their mean is biased
    in first order of the bandwidth; their spread contains the slope of the mean and, at the edge,
    the slope of the spread. Without the slopes all biases are of second order, so that more
    neighbours can be used.

    The spread is regressed on absolute residuals, as in Ruppert, Wand, Holst and Hössjer ("Local
    polynomial variance-function estimation", Technometrics 39, 1997): outliers affect them less
    than squares. With few neighbours for many features the slopes of the spread are mostly noise.
    They are multiplied by (1 - d v / (n_eff e))₊, where v is the variance of the absolute residuals
    and e the fitted part of it (a positive-part shrinkage as in James and Stein, 1961).

    A plane through few neighbours fits part of their noise, so that their residuals are too small,
    and is itself uncertain at x. The factor w² = (1 + Σ l_i(x)²) / (1 - v) corrects both: l_i(x) is
    the weight of z_i in a(x), and v is the fraction of the weighted variance of homoscedastic noise
    that the plane fits (with equal weights about its d + 1 parameters divided by k). Without this
    factor, intervals cover too little if k is close to 10 d.

    Slopes are shrunk by a ridge of (d + 1) / n_eff times the mean variance, so that few rows, or
    rows on a line, give none. Nothing is extrapolated: a coordinate of x beyond the range of the
    neighbours is replaced by the end of the range.
    """
    scores, X, weight, coordinates = (
        np.ascontiguousarray(values, dtype=np.float64)
        for values in (scores, X, weight, coordinates)
    )
    rows = np.ascontiguousarray(rows, dtype=np.intp)
    return _correct_all(scores, X, weight, coordinates, rows)


# Numba compiles a function when it is first called from a compiled one; the helpers come first so
# that the file can be read bottom-up.


@kernel(error_model="numpy")
def _sum(values: np.ndarray) -> float:
    """Return the sequential sum, which zeros at the end do not change."""
    total = 0.0
    for value in values:
        total += value
    return total


@kernel(error_model="numpy")
def _add_second_moments(offsets: np.ndarray, weight: np.ndarray, moments: np.ndarray) -> None:
    """Add the weighted second moments of offsets Float[k, d] to Float[d, d]."""
    for j in range(len(offsets)):
        for c in range(offsets.shape[1]):
            for e in range(c + 1):
                moments[c, e] += weight[j] * offsets[j, c] * offsets[j, e]
    for c in range(offsets.shape[1]):
        for e in range(c):
            moments[e, c] = moments[c, e]


@kernel(error_model="numpy")
def _center(
    X: np.ndarray, neighbour_ids: np.ndarray, weight: np.ndarray, place: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Return neighbours and place minus the neighbours' weighted mean, moments and ridge."""
    k, d = len(neighbour_ids), X.shape[1]
    offsets, place_offset, moments = np.empty((k, d)), np.empty((1, d)), np.zeros((d, d))
    for c in range(d):
        mean, low, high = 0.0, np.inf, -np.inf
        for j in range(k):
            value = X[neighbour_ids[j], c]
            offsets[j, c] = value
            mean += weight[j] * value
            if weight[j] > 0:
                low, high = min(low, value), max(high, value)
        offsets[:, c] -= mean
        # The place is clipped to the range of the neighbours, so that no plane is extrapolated.
        place_offset[0, c] = min(max(place[c], low), high) - mean
    _add_second_moments(offsets, weight, moments)
    variance = np.trace(moments) / d
    # Σw² is 1 / n_eff. If all neighbours are at one place, any ridge gives slopes of 0.
    ridge = (d + 1) * _sum(weight * weight) * variance if variance > 0 else 1.0
    return offsets, place_offset, moments, ridge


@kernel(error_model="numpy")
def _fit_plane(
    values: np.ndarray, offsets: np.ndarray, weight: np.ndarray, inverse: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the weighted mean of values Float[k] and their slopes Float[d]."""
    mean, d = _sum(weight * values), offsets.shape[1]
    product, slope = np.zeros(d), np.zeros(d)
    for j in range(len(values)):
        for c in range(d):
            product[c] += weight[j] * offsets[j, c] * (values[j] - mean)
    for c in range(d):
        for e in range(d):
            slope[c] += inverse[c, e] * product[e]
    return mean, slope


@kernel(error_model="numpy")
def _rise(offsets: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Return the rise of a plane at offsets Float[p, d], Float[p]."""
    rise = np.zeros(len(offsets))
    for j in range(len(offsets)):
        for c in range(len(slope)):
            rise[j] += slope[c] * offsets[j, c]
    return rise


@kernel(error_model="numpy")
def _spread_factor(
    offsets: np.ndarray,
    place_offset: np.ndarray,
    weight: np.ndarray,
    inverse: np.ndarray,
    ridge: float,
) -> float:
    """Return w(x): the ratio of prediction errors at the place to residuals of the plane."""
    # With the moments S, the inverse A = (S + ridge I)⁻¹ and Q = Σ w_i² x_i x_iᵀ, the weight of z_i
    # in a(x) is l_i = w_i (1 + xᵀ A x_i). Then Σ l_i² = Σ w_i² + 2 Σ w_i² x_iᵀ A x + xᵀ A Q A x.
    # The variance that the plane fits is Σ w_i² + tr(A Q (I + ridge A)), of which the second term
    # replaces tr(A Q (2 I - S A)): S A = I - ridge A.
    d, squares = offsets.shape[1], weight * weight
    second, step, skew = np.zeros((d, d)), np.zeros(d), 0.0
    _add_second_moments(offsets, squares, second)
    for c in range(d):
        for e in range(d):
            step[c] += inverse[c, e] * place_offset[0, e]
    for j in range(len(offsets)):
        for c in range(d):
            skew += squares[j] * offsets[j, c] * step[c]
    predicted = _sum(squares) + 2 * skew
    fitted = _sum(squares)
    for c in range(d):
        for e in range(d):
            predicted += step[c] * second[c, e] * step[e]
            product = 0.0
            for f in range(d):
                product += inverse[c, f] * second[f, e]
            fitted += product * ((1.0 if c == e else 0.0) + ridge * inverse[e, c])
    return np.sqrt((1 + predicted) / max(1 - fitted, _MIN_RESIDUAL_VARIANCE))


@kernel(error_model="numpy")
def _shrinkage(values: np.ndarray, fitted: np.ndarray, weight: np.ndarray, d: int) -> float:
    """Return the fraction of d fitted slopes that is not noise, from 0 to 1.

    It is 1 minus the ratio of the variance that noise would fit to the fitted variance.
    """
    noise = d * _sum(weight * weight) * _sum(weight * values * values)
    explained = _sum(weight * fitted * fitted)
    return max(1 - noise / explained, 0.0) if explained > 0 else 0.0


@kernel(error_model="numpy")
def _correct_all(
    scores: np.ndarray,
    X: np.ndarray,
    weights: np.ndarray,
    coordinates: np.ndarray,
    rows: np.ndarray,
) -> np.ndarray:
    corrected = np.empty(rows.shape)
    for i in range(rows.shape[0]):
        neighbour_ids = rows[i]
        weight = weights[i] / _sum(weights[i])
        offsets, place_offset, moments, ridge = _center(X, neighbour_ids, weight, coordinates[i])
        # LAPACK, through numba. A Cholesky decomposition written out by hand was no faster: with
        # 1,000 neighbours, 300 places took 9.0 ms either way in 2 features, and 59 (LAPACK) and 61
        # ms in 20, since the second moments dominate; it compiled no faster either (4.5 and 3.1 s).
        inverse = np.linalg.inv(moments + ridge * np.eye(len(moments)))
        mean, slope = _fit_plane(scores[neighbour_ids], offsets, weight, inverse)
        residual = scores[neighbour_ids] - mean - _rise(offsets, slope)
        # The spread is a second plane, through absolute residuals. Its slopes are noisier than
        # those of the location and are therefore shrunk.
        mean_spread, spread_slope = _fit_plane(np.abs(residual), offsets, weight, inverse)
        spread_slope *= _shrinkage(
            np.abs(residual) - mean_spread, _rise(offsets, spread_slope), weight, len(spread_slope)
        )
        min_spread = _MIN_RELATIVE_SPREAD * mean_spread
        location = mean + _rise(place_offset, slope)[0]
        place_spread = max(mean_spread + _rise(place_offset, spread_slope)[0], min_spread)
        spread = np.maximum(mean_spread + _rise(offsets, spread_slope), min_spread)
        residual *= _spread_factor(offsets, place_offset, weight, inverse, ridge)
        # Residuals are moved to the place: rescaled by the ratio of spreads, within bounds, so that
        # no single neighbour with a tiny fitted spread dominates the tails.
        for j in range(len(neighbour_ids)):
            stretch = place_spread / spread[j] if spread[j] > 0 else 1.0
            stretch = min(max(stretch, 1 / _MAX_STRETCH), _MAX_STRETCH)
            corrected[i, j] = location + residual[j] * stretch
    return corrected
