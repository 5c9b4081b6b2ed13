"""What simulations of a regression ask of rows before they say what is true there."""

from __future__ import annotations

import numpy as np

from kdgraph.errors import DataError


def rows_of(X: np.ndarray, name: str, d: int) -> np.ndarray:
    """X as Float64[n, d]; ours.

    Raises
    ------
    DataError
        For another number of features, or values that are not finite, with the name of the simulation.
    """
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != d:
        raise DataError(f"{name} has {d} features: X must have shape (n, {d}), got {X.shape}")
    if not np.isfinite(X).all():
        raise DataError(f"{name} has a distribution only where all features are finite; drop other rows")
    return X
