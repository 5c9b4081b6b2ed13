"""The loops over pairs of a place and a row, compiled by numba: distances, and weighted sums at
every bandwidth. Original to kdgraph.

Rows lie feature by feature in tiles, so that the loops run over rows at SIMD speed. Measured on one
core with AVX2, of 50 features, a pair of a place and a row: 3 to 4 ns for its distance, 0.6 for a
weight and what it adds to three sums, 0.25 where a weight is the square of the one before. All of
it takes 6 ns at one bandwidth; ``torch.cdist`` in float32 34 for the distance alone, scipy's in
float64 41. A Gaussian by a product of matrices takes torch 8, as much as its squares of differences
take here, and what is near would be what is left of large numbers that cancel.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload
from numpy.polynomial import Chebyshev, Polynomial

TILE = 512
"""Rows of a tile: with fewer, what is done for each tile shows; with more, 52 features of it leave
the second cache.
"""
TOGETHER = 8
"""Places that pass over a tile one after the other."""

_COMPILED: Any = {
    "nogil": True,
    "cache": True,
    "boundscheck": False,
    "error_model": "numpy",
    "fastmath": {"contract"},
}
_compiled = njit(**_COMPILED)
_reordered = njit(**_COMPILED | {"fastmath": {"contract", "reassoc", "nnan", "nsz"}})

_SLOPE = Chebyshev.interpolate(lambda r: np.expm1(r * math.log(2)) / r, 5, (-0.5, 0.5)).convert(
    kind=Polynomial
)
_EXP2 = tuple(
    np.float32(c) for c in _SLOPE.coef
)  # 2^r = 1 + r · (these in r) for |r| <= 1/2: 5e-8 of it, which is float32's rounding
_LOG2E = 1 / math.log(2)
_LEAST = np.float32(-126)  # powers below 2^-126 count as 0
_ZERO, _ONE = np.float32(0), np.float32(1)
_INT32 = ir.IntType(32)


def _add_to_exponent(context, builder, signature, arguments):
    y, whole = arguments
    exponent = builder.shl(builder.fptosi(whole, _INT32), ir.Constant(_INT32, 23))
    return builder.bitcast(builder.add(builder.bitcast(y, _INT32), exponent), ir.FloatType())


_times_power_of_two: Any = intrinsic(
    lambda _, y, whole: (types.float32(types.float32, types.float32), _add_to_exponent)
)
"""Float32 y · 2^whole, of a Float32 without a fraction."""


@_compiled
def city_blocks(tile, a, b, n, one, two):
    """Fill ``one`` and ``two``: Float[n] with Σ |x - a| and Σ |x - b| of the places ``a`` and
    ``b``: Float[d], d a multiple of 4.

    ``tile``: Float[d, n]. Two places and four features to a step: what is read is used twice, and
    what is written is written once for four features (1.5 times as fast as one place at a time).
    """
    one[:n] = 0
    two[:n] = 0
    for t in range(0, a.shape[0], 4):
        c0, c1, c2, c3 = tile[t], tile[t + 1], tile[t + 2], tile[t + 3]
        a0, a1, a2, a3 = a[t], a[t + 1], a[t + 2], a[t + 3]
        b0, b1, b2, b3 = b[t], b[t + 1], b[t + 2], b[t + 3]
        for i in range(n):
            x0, x1, x2, x3 = c0[i], c1[i], c2[i], c3[i]
            one[i] += (abs(x0 - a0) + abs(x1 - a1)) + (abs(x2 - a2) + abs(x3 - a3))
            two[i] += (abs(x0 - b0) + abs(x1 - b1)) + (abs(x2 - b2) + abs(x3 - b3))


@_compiled
def squares(tile, a, b, n, one, two):
    """As :func:`city_blocks`, Σ (x - a)² and Σ (x - b)²."""
    one[:n] = 0
    two[:n] = 0
    for t in range(0, a.shape[0], 4):
        c0, c1, c2, c3 = tile[t], tile[t + 1], tile[t + 2], tile[t + 3]
        a0, a1, a2, a3 = a[t], a[t + 1], a[t + 2], a[t + 3]
        b0, b1, b2, b3 = b[t], b[t + 1], b[t + 2], b[t + 3]
        for i in range(n):
            x0, x1, x2, x3 = c0[i] - a0, c1[i] - a1, c2[i] - a2, c3[i] - a3
            z0, z1, z2, z3 = c0[i] - b0, c1[i] - b1, c2[i] - b2, c3[i] - b3
            one[i] += (x0 * x0 + x1 * x1) + (x2 * x2 + x3 * x3)
            two[i] += (z0 * z0 + z1 * z1) + (z2 * z2 + z3 * z3)


def smallest(x):
    """The smallest of Float[n] ≥ 0, found among their bits, which are in the same order: 0.12 ns
    each, against 0.33 for numbers.
    """


@overload(smallest, jit_options=_COMPILED)
def _smallest(x):
    integer = np.int32 if x.dtype == types.float32 else np.int64

    def of_bits(x):
        bits = x.view(integer)
        least, where = bits[0], 0
        for i in range(bits.shape[0]):
            least = min(least, bits[i])
        while bits[where] != least:
            where += 1
        return x[where]

    return of_bits


def weights(apart, nearest, rate, out):
    """``out``: Float[n] = exp(-rate · (apart - nearest)). In float32 through 2^x of a whole number
    and of a rest, a polynomial.
    """


@overload(weights, jit_options=_COMPILED)
def _weights(apart, nearest, rate, out):
    def in_float32(apart, nearest, rate, out):
        power = np.float32(rate * _LOG2E)
        for i in range(out.shape[0]):
            x = max((nearest - apart[i]) * power, _LEAST)
            whole = np.rint(x)
            r = x - whole
            y = _EXP2[0] + r * (
                _EXP2[1] + r * (_EXP2[2] + r * (_EXP2[3] + r * (_EXP2[4] + r * _EXP2[5])))
            )
            out[i] = _times_power_of_two(_ONE + r * y, whole) if x > _LEAST else _ZERO

    def in_float64(apart, nearest, rate, out):
        for i in range(out.shape[0]):
            x = (apart[i] - nearest) * rate
            out[i] = (
                math.exp(-x) if x < 700.0 else 0.0
            )  # most rows are farther, where this is called for

    return in_float32 if apart.dtype == types.float32 else in_float64


@_compiled
def scale_of(apart, nearest, first, weight):
    """A power of two near 1/√w, with w the ``weight`` of the nearest of n rows from ``first`` on,
    at distances ``apart``: Float[n].

    The largest product of a kernel weight and a ``weight`` is between w and 1; times this both it
    and its square are in float64, and no bit of a sum changes but by the power of two.
    """
    where = 0
    while apart[where] != nearest:
        where += 1
    return math.ldexp(1.0, -(math.frexp(weight[first + where])[1] // 2))


@_compiled
def square(w, least):
    """Square ``w``: Float[n], those not above ``least`` to 0: it keeps off numbers so small that
    processors take long over them.
    """
    for i in range(w.shape[0]):
        x = w[i] if w[i] > least else w.dtype.type(0)
        w[i] = x * x


@_reordered
def sums(w, values):
    """(Σ w, Σ w², Σ w · values) of Float[n] each, in float64; the order of addition depends on n
    alone.
    """
    total, of_squares, of_values = 0.0, 0.0, 0.0
    for i in range(w.shape[0]):
        x = np.float64(w[i])
        total += x
        of_squares += x * x
        of_values += x * values[i]
    return total, of_squares, of_values


@_compiled
def add_up(apart, nearest, first, bases, squarings, weight, scale, values, out):
    """Add to ``out``: Float[b, v, 3] the sums over n rows from ``first`` on at distances ``apart``:
    Float[n], tile by tile.

    The weights of bandwidth b are those at rate ``bases[b]``, ``squarings[b]`` times squared; where
    the base is that of the bandwidth before, they are made from its weights, which must be squared
    less often. ``weight``: Float[rows] on top of them, times ``scale``, or empty.
    """
    least = np.sqrt(np.finfo(apart.dtype).tiny)
    buffer, weighted = np.empty(TILE, apart.dtype), np.empty(TILE)
    for start in range(0, apart.shape[0], TILE):
        stop = min(start + TILE, apart.shape[0])
        w, scaled = buffer[: stop - start], weighted[: stop - start]
        for b in range(bases.shape[0]):
            known = b > 0 and bases[b] == bases[b - 1]
            if not known:
                weights(apart[start:stop], nearest, bases[b], w)
            for _ in range(squarings[b] - squarings[b - 1] if known else squarings[b]):
                square(w, least)
            if weight.shape[0] > 0:
                for i in range(stop - start):
                    scaled[i] = w[i] * (weight[first + start + i] * scale)
            for c in range(values.shape[0]):
                column = values[c, first + start : first + stop]
                total, of_squares, of_values = (
                    sums(scaled, column) if weight.shape[0] > 0 else sums(w, column)
                )
                out[b, c, 0] += total
                out[b, c, 1] += of_squares
                out[b, c, 2] += of_values


@_compiled
def fill_distances(at, cells, first, last, squared, apart):
    """Fill m rows of ``apart`` with the distances of ``at``: Float[m, d] from the rows from
    ``first`` to ``last``.

    Of an odd number of places the row of ``apart`` after the last is written to as well.
    """
    d = at.shape[1]
    for start in range(first, last, TILE):
        stop = min(start + TILE, last)
        tile = cells[d * start : d * stop].reshape((d, stop - start))
        for q in range(0, at.shape[0], 2):
            p = min(q + 1, at.shape[0] - 1)
            one, two = (
                apart[q, start - first : stop - first],
                apart[q + 1, start - first : stop - first],
            )
            if squared:
                squares(tile, at[q], at[p], stop - start, one, two)
            else:
                city_blocks(tile, at[q], at[p], stop - start, one, two)


@_compiled
def means_of_block(
    at,
    cells,
    first,
    last,
    own,
    squared,
    bases,
    squarings,
    weight,
    values,
    mean,
    n_eff,
    total,
    nearest,
):
    """Means around the places ``at``: Float[p, d], of which each looks at the rows from ``first``
    to ``last``: Int[p] without its ``own``.

    ``cells``: Float[n d], the rows in tiles of features × rows, one range after the other;
    ``bases`` and ``squarings``: of :func:`add_up`, of distances that are sums of squares or of
    absolute values; ``weight``: Float[n] or empty; ``values``: Float[v, n]. Filled are ``mean``:
    Float[b, p, v], ``n_eff`` and ``total``: Float[b, p], the sum of the weights relative to the
    nearest row's, and ``nearest``: Float[p], its distance.
    """
    width = 0
    for q in range(at.shape[0]):
        width = max(width, last[q] - first[q])
    apart = np.empty((TOGETHER, width), at.dtype)
    found = np.empty((bases.shape[0], values.shape[0], 3))
    start = 0
    while start < at.shape[0]:
        low, high = first[start], last[start]
        stop = start + 1
        while (
            stop < min(start + TOGETHER, at.shape[0]) and first[stop] == low and last[stop] == high
        ):
            stop += 1
        fill_distances(at[start:stop], cells, low, high, squared, apart)
        for q in range(start, stop):
            here = apart[q - start, : high - low]
            if own[q] >= 0:
                here[own[q] - low] = np.inf
            least = smallest(here)
            nearest[q] = least
            found[:] = 0.0
            scale = scale_of(here, least, low, weight) if weight.shape[0] > 0 else 1.0
            add_up(here, least, low, bases, squarings, weight, scale, values, found)
            for b in range(bases.shape[0]):
                total[b, q] = found[b, 0, 0] / scale
                n_eff[b, q] = found[b, 0, 0] * found[b, 0, 0] / found[b, 0, 1]
                for c in range(values.shape[0]):
                    mean[b, q, c] = found[b, c, 2] / found[b, c, 0]
        start = stop
