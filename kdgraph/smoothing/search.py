"""Rows made ready for the compiled loops, and what these find around some places."""

from __future__ import annotations

import numpy as np

from kdgraph.smoothing.bandwidths import Kernel
from kdgraph.smoothing.frame import Frame
from kdgraph.smoothing.means import LocalMeans, Neighbourhoods

SQUARINGS = 4
"""Of bandwidths that are each half the one before, every fourth takes an exponential: three squarings make 8 times its relative error."""


class Search:
    """Rows in a frame, ready to be looked at from places. Ours.

    Parameters
    ----------
    frame : where features are put, and in which precision.
    at, X : Float[m, d], the places, and Float[n, d], the rows.
    near : which rows each place looks at.
    kernel : of which distances.
    """

    def __init__(self, frame: Frame, at: np.ndarray, X: np.ndarray, near: Neighbourhoods, kernel: Kernel):
        self.frame, self.at, self.X, self.near = frame, at, X, near
        self.kernel: Kernel = kernel
        self.values = np.ascontiguousarray(near.values.T)
        self.cells = self._tiles()

    def _tiles(self) -> np.ndarray:
        """Float[r d'], the rows in their order, feature by feature in tiles that begin anew where a label does."""
        from kdgraph.smoothing.kernels import TILE

        near, d = self.near, self.frame.put(self.X[:0]).shape[1]
        cells = np.empty(len(near.rows) * d, self.frame.dtype)
        ranges = np.unique(np.stack([near.first, near.last])[:, ~near.alone], axis=1)
        for first, last in ranges.T:
            for start in range(first, last, TILE):
                tile = self.frame.put(self.X[near.rows[start : min(start + TILE, last)]])
                cells[start * d : start * d + tile.size] = tile.T.ravel()
        return cells

    def around(self, places: np.ndarray, rates: np.ndarray) -> LocalMeans:
        """Means around some places, Int[p], at rates, Float[b] (Luo et al., 2022, Eq. 4 and 6)."""
        from kdgraph.smoothing.kernels import means_of_block

        near, shape = self.near, (len(rates), len(places))
        mean, n_eff, total, nearest = np.empty((*shape, len(self.values))), np.empty(shape), np.empty(shape), np.empty(len(places))
        squarings, bases = octaves(rates)
        means_of_block(
            self.frame.put(self.at[places]),
            self.cells,
            near.first[places],
            near.last[places],
            near.own[places],
            self.kernel == "gaussian",
            bases,
            squarings,
            near.weight,
            self.values,
            mean,
            n_eff,
            total,
            nearest,
        )
        with np.errstate(over="ignore", under="ignore"):
            return LocalMeans(mean, n_eff, near.unit * total * np.exp(-rates[:, None] * nearest))


def octaves(rates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Int[b] and Float[b]: how often the weights at a base rate are squared to be those at each rate, exp(-r D)² = exp(-2 r D).

    Both follow from a rate alone, so that its weights do not depend on which other bandwidths there are. Ours.
    """
    squarings = np.mod(np.frexp(rates)[1], SQUARINGS)
    return squarings, np.ldexp(rates, -squarings)
