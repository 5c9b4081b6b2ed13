"""Step functions, one for each row: where values and levels fall among steps, all rows at once; ours."""

from __future__ import annotations

import numpy as np

SAME = 1e-12
"""Two levels that differ relatively by less are one: (1 - 0.95)/2 is 0.025 to the 16th digit only."""


def count_in_rows(increasing: np.ndarray, values: np.ndarray, *, equal: bool) -> np.ndarray:
    """Int[n, j]: how many of a row's numbers, Float[n, k] increasing, are below each of its values, Float[n, j]; or, ``equal``, not above.

    By bisection of all rows together: log k steps over n·j numbers.

    >>> count_in_rows(np.array([[1.0, 2.0, 2.0]]), np.array([[2.0, 5.0]]), equal=False).tolist()
    [[1, 3]]
    """
    low, high = np.zeros(values.shape, dtype=np.intp), np.full(values.shape, increasing.shape[1], dtype=np.intp)
    for _ in range(increasing.shape[1].bit_length()):
        middle = (low + high) // 2
        at = np.take_along_axis(increasing, np.minimum(middle, increasing.shape[1] - 1), axis=1)
        more = (low < high) & ((at <= values) if equal else (at < values))
        low, high = np.where(more, middle + 1, low), np.where(more, high, middle)
    return low


def steps_up_to(weights: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Float[n, j]: the share of the first ``count``, Int[n, j], of a row's weights, Float[n, k], in their sum."""
    reached = np.cumsum(weights, axis=1, dtype=np.float64)
    share = np.take_along_axis(reached, np.maximum(count - 1, 0), axis=1) / reached[:, -1:]
    return np.where(count > 0, share, 0.0)


def steps_at(weights: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Int[n, j]: the first step at which a row's weights, Float[n, k], reach the share q, Float[n, j]; one that has weight.

    The left-continuous inverse of :func:`steps_up_to`, inf {i: share(i) >= q}; shares that are relatively within :data:`SAME` are equal.
    """
    reached = np.cumsum(weights, axis=1, dtype=np.float64)
    least = np.finfo(np.float64).tiny  # at level 0 the first step that has weight
    return np.minimum(count_in_rows(reached, np.maximum(q * (1 - SAME) * reached[:, -1:], least), equal=False), weights.shape[1] - 1)


def shares(weights: np.ndarray) -> np.ndarray:
    """Float64[n, k]: weights relative to their sum, in which zeros at the end change no bit."""
    return weights / np.cumsum(weights, axis=1, dtype=np.float64)[:, -1:]
