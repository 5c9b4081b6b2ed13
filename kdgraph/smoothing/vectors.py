"""Rows as vectors between which there are distances."""

from __future__ import annotations

import numpy as np

from kdgraph.errors import DataError


def vectors(name: str, rows: np.ndarray, *, way_out: str = "") -> np.ndarray:
    """Float[n, d], finite, of the rows called ``name``; ours.

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
        raise DataError(f"{name} must be finite for distances, got {found[row, feature]:g} in row {row} ({bad.sum()} such){way_out}")
    return found
