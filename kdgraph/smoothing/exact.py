"""Distances between places and some rows each, by their definition; compiled by numba. Ours."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True, error_model="numpy")
def distances_to(at: np.ndarray, X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Float[m, k]: of places Float[m, d] to the rows Int[m, k] of X: Float[n, d], feature by feature; equal rows are at 0."""
    found = np.empty(rows.shape)
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            square = 0.0
            row = rows[i, j]
            for c in range(X.shape[1]):
                apart = at[i, c] - X[row, c]
                square += apart * apart
            found[i, j] = np.sqrt(square)
    return found
