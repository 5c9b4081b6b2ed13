"""Rows of distributions against values and levels: shapes, blocks and checks that all families share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any

import numpy as np

from kdgraph.errors import ParameterError

VALUES_AT_A_TIME = 1 << 18
"""Of an array with a row for each of the n rows: 2 MB. No number depends on it."""


def blocks(n: int, width: int) -> Iterator[slice]:
    """Consecutive rows, so few that an array with ``width`` values for each has at most :data:`VALUES_AT_A_TIME` of them."""
    step = max(VALUES_AT_A_TIME // max(width, 1), 1)
    yield from (slice(first, min(first + step, n)) for first in range(0, n, step))


def by_row(function: Callable[..., np.ndarray], n: int, values: np.ndarray | float, *parameters: np.ndarray) -> np.ndarray:
    """``function(values, *parameters)`` with parameters Float[n] against values Float[n], Float[n, m] or a number.

    Raises
    ------
    ValueError
        If there is not one row of values for each of the n rows.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim > 2 or (values.ndim and len(values) != n):
        raise ValueError(f"there are distributions of {n} rows: values must have shape ({n},) or ({n}, m), got {values.shape}")
    return function(values, *(parameter[:, None] if values.ndim == 2 else parameter for parameter in parameters))


def checked_levels(q: np.ndarray | float) -> np.ndarray:
    """Levels as an array of the same shape, or a ParameterError; see :meth:`Distribution.ppf <kdgraph.distributions.Distribution.ppf>`."""
    q = np.asarray(q, dtype=np.float64)
    outside = ~((q >= 0) & (q <= 1))
    if outside.any():
        raise ParameterError(f"q must be in [0, 1], got {q[outside].ravel()[0] if q.ndim else float(q):g}")
    return q


def rows_at(index: Any) -> Any:
    """An index that keeps the axis of rows: one position becomes a list of one."""
    return [index] if isinstance(index, Integral) else index
