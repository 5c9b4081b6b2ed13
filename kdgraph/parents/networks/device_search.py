"""Search for nearest rows on a CUDA device, with the same result as on the CPU.

:class:`DeviceSearch` ranks all rows by a matrix product in float32 on the device. The few best rows
are compared again in float64 on the CPU, and where the rounding of float32 may have missed a nearer
row, the CPU searches. Original to kdgraph.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from kdgraph.parents.networks.network import Network
from kdgraph.parents.networks.torch_state import default_torch_state
from kdgraph.smoothing.neighbours import distances_of, nearest_if_certain

# Candidates beyond k, so that the last one is usually farther away by more than the rounding.
_EXTRA_CANDIDATES = 12
# Bound of coordinates relative to the largest of the rows; squares stay finite in float32.
_MAX_COORDINATE = 1e8
# Smallest distance from the centre, relative to the largest coordinate, in float32.
_MIN_RADIUS = 1e-15
# Number of float32 values in a block on the device (512 MB). Results do not depend on it.
_BLOCK_SIZE = 1 << 27


def device_of(network: Any) -> str:
    """Return the device on which a network predicts; "cpu" for an object of another library."""
    return network._device() if isinstance(network, Network) else "cpu"


class DeviceSearch:
    """Search for the k nearest rows by Euclidean distance on a device of torch, "cuda" or "cpu".

    ``index`` is a fitted NearestNeighbors of dense, finite rows, Float[n, d]. The distances are
    those of :func:`~kdgraph.smoothing.neighbours.distances_of` to the bit.

    >>> from sklearn.neighbors import NearestNeighbors
    >>> index = NearestNeighbors().fit(np.arange(100.0)[:, None])
    >>> DeviceSearch(index, "cpu").distances(np.array([[7.25]]), 3)
    array([[0.25, 0.75, 1.25]])
    """

    def __init__(self, index: Any, device: str = "cuda"):
        self.index, self.device = index, device
        self.rows = np.ascontiguousarray(index._fit_X, dtype=np.float64)
        # Rows are centred and divided by their largest coordinate, because float32 has 7 digits and
        # its squares overflow at 1e19.
        self.centre = self.rows.mean(axis=0)
        centred = self.rows - self.centre
        self.unit = float(np.abs(centred).max(initial=0.0)) or 1.0
        centred /= self.unit
        self._half_squares = self._to_device(np.square(centred).sum(axis=1) / 2)
        self._columns = self._to_device(centred).T

    def _to_device(self, values: np.ndarray) -> torch.Tensor:
        with default_torch_state():
            return torch.from_numpy(values.astype(np.float32)).to(self.device)

    def distances(self, at: np.ndarray, k: int) -> np.ndarray:
        """Return the distances of points Float[m, d] to their k nearest rows, Float[m, k]."""
        at = np.ascontiguousarray(at, dtype=np.float64)
        width = min(k + _EXTRA_CANDIDATES, len(self.rows))
        # With u = 2⁻²⁴, inputs, products and sums of float32 change q·x by at most (d + 2) u |q||x|
        # in any order of the sum, and |x|²/2 - q·x by (d + 6) u (|q||x| + |x|²/2). For |x| up to
        # |q| + c with the distance c, two squared distances change by less than
        # 6 (d + 6) u (|q| + c)². TF32, which multiplies with 11 bits, would break this bound.
        rounding = 6 * (at.shape[1] + 6) * 2.0**-24
        distance, _, certain = nearest_if_certain(
            self.rows, at, k, self._candidates(at, width), self.centre, rounding
        )
        # At the centre, numbers too small for float32 have an error beyond this bound.
        certain &= np.linalg.norm(at - self.centre, axis=1) > _MIN_RADIUS * self.unit
        if not certain.all():
            distance[~certain] = distances_of(self.index, at[~certain], k)
        return distance

    @default_torch_state()
    def _candidates(self, at: np.ndarray, width: int) -> np.ndarray:
        """Return the positions of the ``width`` nearest rows up to rounding, Int[m, width]."""
        # A point beyond the bound of coordinates is searched on the CPU, since the rounding error
        # of its distances is then larger than any difference between them.
        with np.errstate(over="ignore"):
            scaled = (at - self.centre) / self.unit
        queries = self._to_device(np.clip(scaled, -_MAX_COORDINATE, _MAX_COORDINATE))
        positions = np.empty((len(at), width), dtype=np.intp)
        step = max(_BLOCK_SIZE // len(self.rows), 1)
        with torch.inference_mode():
            for first in range(0, len(at), step):
                block = slice(first, first + step)
                # Half of the squared distances, without the term of the query point.
                halves = torch.addmm(self._half_squares, queries[block], self._columns, alpha=-1)
                nearest = halves.topk(width, dim=1, largest=False, sorted=False).indices
                positions[block] = nearest.cpu().numpy()
        return positions
