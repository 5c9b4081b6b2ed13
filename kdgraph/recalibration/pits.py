"""PIT values of calibration rows, ready for a map (Torres et al. 2024, Algorithm 1, step 4)."""

from __future__ import annotations

import warnings

import numpy as np

from kdgraph.distributions import Distribution

_INSIDE = np.nextafter(0.0, 1.0), np.nextafter(1.0, 0.0)
"""The smallest and the largest number in (0, 1)."""


def known_pits(base: Distribution, y: np.ndarray, *, stacklevel: int = 4) -> tuple[np.ndarray, int]:
    """PIT values F(y_i | x_i), Float[n], beyond (0, 1) as ``Distribution.levels`` has them, and how many are clipped.

    Those so far out that the predicted family cannot tell how far are the nearest number inside (0, 1), with a warning.
    """
    pits = base.levels(y)
    known = np.where(pits == 0, _INSIDE[0], np.where(pits == 1, _INSIDE[1], pits))
    clipped = int((known != pits).sum())
    if clipped:
        warnings.warn(
            f"{clipped} of {len(pits)} calibration rows lie where the predicted distribution function is 0 or 1 to the last "
            "bit: its tails are much too light, and how far out these rows are is lost",
            stacklevel=stacklevel,
        )
    return known, clipped
