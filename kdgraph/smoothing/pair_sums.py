"""Compiled loops over pairs of a query point and a row: distances and weighted sums.

The rows are stored feature by feature in tiles, so that the loops run over rows at SIMD speed.
Measured on one core with AVX2 and 50 features, for each pair of a query point and a row: 3 to 4 ns
for its distance, 0.6 ns for a weight and its contribution to three sums, 0.25 ns if the weight is
the square of the previous one. The total is 6 ns at one bandwidth; ``torch.cdist`` in float32 takes
34 ns for the distance alone, SciPy's in float64 41 ns. A Gaussian by a matrix product takes torch
8 ns, as much as the squared differences here, and loses the digits of small distances by
cancellation. Original to kdgraph.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload
from numpy.polynomial import Chebyshev, Polynomial

from kdgraph.compilation import kernel

TILE = 512
"""Number of rows in a tile.

With fewer rows the overhead of each tile is measurable; with more, 52 features of it no longer fit
into the second-level cache.
"""
QUERIES_PER_TILE = 8
"""Number of query points that pass over a tile, one after the other, while it is cached."""

_OPTIONS: Any = {
    "boundscheck": False,
    "error_model": "numpy",
    "fastmath": {"contract"},
}
_compiled = kernel(**_OPTIONS)
_reordered = kernel(**_OPTIONS | {"fastmath": {"contract", "reassoc", "nnan", "nsz"}})

# 2^r = 1 + r · p(r) for |r| <= 1/2, with a polynomial p of degree 5, is accurate to 5e-8, which is
# the rounding of float32.
_EXP2_POLYNOMIAL = Chebyshev.interpolate(
    lambda r: np.expm1(r * math.log(2)) / r, 5, (-0.5, 0.5)
).convert(kind=Polynomial)
_EXP2 = tuple(np.float32(c) for c in _EXP2_POLYNOMIAL.coef)
_LOG2E = 1 / math.log(2)
_MIN_EXPONENT = np.float32(-126)
"""Powers of two with this exponent or a smaller one count as 0 in float32."""
_ZERO, _ONE = np.float32(0), np.float32(1)
_INT32 = ir.IntType(32)


def _add_to_exponent(context, builder, signature, arguments):
    """Generate code that adds an integer to the exponent bits (23 and up) of a float32."""
    y, integer = arguments
    exponent = builder.shl(builder.fptosi(integer, _INT32), ir.Constant(_INT32, 23))
    return builder.bitcast(builder.add(builder.bitcast(y, _INT32), exponent), ir.FloatType())


_times_power_of_two: Any = intrinsic(
    lambda _, y, integer: (types.float32(types.float32, types.float32), _add_to_exponent)
)
"""Return y · 2^integer of two float32 numbers, the second without a fraction."""


@_compiled
def manhattan_distances(tile, a, b, n, sums_a, sums_b):
    """Fill Float[n] with the distances Σ |x - a| and Σ |x - b| of n rows to two query points.

    ``tile`` has shape (d, n), ``a`` and ``b`` have shape (d,), d is a multiple of 4.
    """
    # A step takes two query points and four features: each feature is read once for both points,
    # and each sum is written once for four features. This is 1.5 times as fast as one point at a
    # time.
    sums_a[:n] = 0
    sums_b[:n] = 0
    for t in range(0, a.shape[0], 4):
        c0, c1, c2, c3 = tile[t], tile[t + 1], tile[t + 2], tile[t + 3]
        a0, a1, a2, a3 = a[t], a[t + 1], a[t + 2], a[t + 3]
        b0, b1, b2, b3 = b[t], b[t + 1], b[t + 2], b[t + 3]
        for i in range(n):
            x0, x1, x2, x3 = c0[i], c1[i], c2[i], c3[i]
            sums_a[i] += (abs(x0 - a0) + abs(x1 - a1)) + (abs(x2 - a2) + abs(x3 - a3))
            sums_b[i] += (abs(x0 - b0) + abs(x1 - b1)) + (abs(x2 - b2) + abs(x3 - b3))


@_compiled
def squared_distances(tile, a, b, n, sums_a, sums_b):
    """Fill Float[n] with Σ (x - a)² and Σ (x - b)²; see :func:`manhattan_distances`."""
    sums_a[:n] = 0
    sums_b[:n] = 0
    for t in range(0, a.shape[0], 4):
        c0, c1, c2, c3 = tile[t], tile[t + 1], tile[t + 2], tile[t + 3]
        a0, a1, a2, a3 = a[t], a[t + 1], a[t + 2], a[t + 3]
        b0, b1, b2, b3 = b[t], b[t + 1], b[t + 2], b[t + 3]
        for i in range(n):
            x0, x1, x2, x3 = c0[i] - a0, c1[i] - a1, c2[i] - a2, c3[i] - a3
            z0, z1, z2, z3 = c0[i] - b0, c1[i] - b1, c2[i] - b2, c3[i] - b3
            sums_a[i] += (x0 * x0 + x1 * x1) + (x2 * x2 + x3 * x3)
            sums_b[i] += (z0 * z0 + z1 * z1) + (z2 * z2 + z3 * z3)


def smallest(x):
    """Return the smallest of n numbers ≥ 0, Float[n]."""


@overload(smallest, jit_options=_OPTIONS)
def _smallest(x):
    integer = np.int32 if x.dtype == types.float32 else np.int64

    def smallest_by_bits(x):
        # The bits of numbers ≥ 0, read as integers, have the order of the numbers. A number takes
        # 0.12 ns, against 0.33 ns for a comparison of floats.
        bits = x.view(integer)
        least, position = bits[0], 0
        for i in range(bits.shape[0]):
            least = min(least, bits[i])
        while bits[position] != least:
            position += 1
        return x[position]

    return smallest_by_bits


def weights(distances, nearest, rate, out):
    """Fill ``out``, Float[n], with exp(-rate · (distances - nearest))."""


@overload(weights, jit_options=_OPTIONS)
def _weights(distances, nearest, rate, out):
    def weights_in_float32(distances, nearest, rate, out):
        # 2^x is computed from the integer next to x and the rest, a polynomial.
        power = np.float32(rate * _LOG2E)
        for i in range(out.shape[0]):
            x = max((nearest - distances[i]) * power, _MIN_EXPONENT)
            integer = np.rint(x)
            r = x - integer
            y = _EXP2[0] + r * (
                _EXP2[1] + r * (_EXP2[2] + r * (_EXP2[3] + r * (_EXP2[4] + r * _EXP2[5])))
            )
            out[i] = _times_power_of_two(_ONE + r * y, integer) if x > _MIN_EXPONENT else _ZERO

    def weights_in_float64(distances, nearest, rate, out):
        for i in range(out.shape[0]):
            x = (distances[i] - nearest) * rate
            # Most rows are farther than this where float64 is needed, so the branch saves most
            # exponentials.
            out[i] = math.exp(-x) if x < 700.0 else 0.0

    return weights_in_float32 if distances.dtype == types.float32 else weights_in_float64


@_compiled
def weight_scale(distances, nearest, first, weight):
    """Return a power of two close to 1/√w, with w the weight of the nearest row.

    ``distances``, Float[n], are those of the n rows from ``first`` on, and ``nearest`` their
    minimum.
    """
    # The largest product of a kernel weight and a weight is between w and 1. Multiplied by the
    # scale, both it and its square are in the range of float64, and a power of two changes no bit
    # of the mantissas.
    position = 0
    while distances[position] != nearest:
        position += 1
    return math.ldexp(1.0, -(math.frexp(weight[first + position])[1] // 2))


@_compiled
def square_weights(w, least):
    """Square weights, Float[n], in place; those not above ``least`` become 0."""
    # Without ``least`` there would be subnormal numbers, on which processors are slow.
    for i in range(w.shape[0]):
        x = w[i] if w[i] > least else w.dtype.type(0)
        w[i] = x * x


@_reordered
def weighted_sums(w, values):
    """Return Σ w, Σ w² and Σ w · values of weights and values, Float[n], in float64.

    The compiler may reorder the additions; the order depends on n alone.
    """
    total, square_total, value_total = 0.0, 0.0, 0.0
    for i in range(w.shape[0]):
        x = np.float64(w[i])
        total += x
        square_total += x * x
        value_total += x * values[i]
    return total, square_total, value_total


@_compiled
def add_weighted_sums(
    distances, nearest, first, base_rates, n_squarings, weight, scale, values, out
):
    """Add to ``out``, Float[b, v, 3], the weighted sums over n rows from ``first`` on.

    ``distances`` has shape (n,). The weights of bandwidth b are those at rate ``base_rates[b]``,
    squared ``n_squarings[b]`` times. ``weight``, Float[rows] or empty, times ``scale`` is on top.
    """
    # Rows are taken tile by tile, so that their weights stay in the cache for all bandwidths and
    # columns. If the previous bandwidth has the same base, its weights are squared further, without
    # an exponential; so the numbers of squarings must not decrease among equal bases.
    least = np.sqrt(np.finfo(distances.dtype).tiny)
    buffer, weighted = np.empty(TILE, distances.dtype), np.empty(TILE)
    for start in range(0, distances.shape[0], TILE):
        stop = min(start + TILE, distances.shape[0])
        w, scaled = buffer[: stop - start], weighted[: stop - start]
        for b in range(base_rates.shape[0]):
            has_same_base = b > 0 and base_rates[b] == base_rates[b - 1]
            if not has_same_base:
                weights(distances[start:stop], nearest, base_rates[b], w)
            for _ in range(
                n_squarings[b] - n_squarings[b - 1] if has_same_base else n_squarings[b]
            ):
                square_weights(w, least)
            if weight.shape[0] > 0:
                for i in range(stop - start):
                    scaled[i] = w[i] * (weight[first + start + i] * scale)
            for c in range(values.shape[0]):
                column = values[c, first + start : first + stop]
                total, square_total, value_total = (
                    weighted_sums(scaled, column)
                    if weight.shape[0] > 0
                    else weighted_sums(w, column)
                )
                out[b, c, 0] += total
                out[b, c, 1] += square_total
                out[b, c, 2] += value_total


@_compiled
def fill_distances(at, cells, first, last, squared, distances):
    """Fill m rows of ``distances`` with those of query points, Float[m, d], to a range of rows.

    The range is from ``first`` to ``last``; ``cells`` contains the rows in tiles, Float[n d]. With
    an odd number of query points the row of ``distances`` after the last is overwritten as well.
    """
    d = at.shape[1]
    for start in range(first, last, TILE):
        stop = min(start + TILE, last)
        tile = cells[d * start : d * stop].reshape((d, stop - start))
        for q in range(0, at.shape[0], 2):
            p = min(q + 1, at.shape[0] - 1)
            sums_q, sums_p = (
                distances[q, start - first : stop - first],
                distances[q + 1, start - first : stop - first],
            )
            if squared:
                squared_distances(tile, at[q], at[p], stop - start, sums_q, sums_p)
            else:
                manhattan_distances(tile, at[q], at[p], stop - start, sums_q, sums_p)


@_compiled
def means_of_block(
    at,
    cells,
    first,
    last,
    own,
    squared,
    base_rates,
    n_squarings,
    weight,
    values,
    mean,
    n_eff,
    total,
    nearest,
):
    """Fill the means around p query points, without the query points' own rows.

    ``cells`` are the rows in tiles of features × rows, one range after the other; ``first``,
    ``last`` and ``own``, Int[p], the range of each query point and its own row or -1. ``squared``:
    distances are sums of squared differences, otherwise of absolute ones. ``base_rates`` and
    ``n_squarings`` are those of :func:`add_weighted_sums`; ``values`` are [v, n].

    Filled are ``mean`` [b, p, v], ``n_eff`` and ``total`` [b, p], the sum of the weights relative
    to that of the nearest row, and ``nearest`` [p], the distance of that row.
    """
    # Consecutive query points with the same range of rows, up to QUERIES_PER_TILE, share the pass
    # over the tiles. All sums of a query point are separate, so its results do not depend on which
    # others are in the block.
    width = 0
    for q in range(at.shape[0]):
        width = max(width, last[q] - first[q])
    distances = np.empty((QUERIES_PER_TILE, width), at.dtype)
    sums = np.empty((base_rates.shape[0], values.shape[0], 3))
    start = 0
    while start < at.shape[0]:
        low, high = first[start], last[start]
        stop = start + 1
        while (
            stop < min(start + QUERIES_PER_TILE, at.shape[0])
            and first[stop] == low
            and last[stop] == high
        ):
            stop += 1
        fill_distances(at[start:stop], cells, low, high, squared, distances)
        for q in range(start, stop):
            own_distances = distances[q - start, : high - low]
            if own[q] >= 0:
                own_distances[own[q] - low] = np.inf
            least = smallest(own_distances)
            nearest[q] = least
            sums[:] = 0.0
            scale = weight_scale(own_distances, least, low, weight) if weight.shape[0] > 0 else 1.0
            add_weighted_sums(
                own_distances, least, low, base_rates, n_squarings, weight, scale, values, sums
            )
            for b in range(base_rates.shape[0]):
                total[b, q] = sums[b, 0, 0] / scale
                n_eff[b, q] = sums[b, 0, 0] * sums[b, 0, 0] / sums[b, 0, 1]
                for c in range(values.shape[0]):
                    mean[b, q, c] = sums[b, c, 2] / sums[b, c, 0]
        start = stop
