"""Arrays on their way into the file and out of it: small ones of one type travel together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

_LARGE = 32_768
"""Bytes from which an array is a member of its own; a member of the zip costs about 0.1 ms, and a forest has thousands of arrays."""


class Pools:
    """Collects arrays; each is known by its pool, where it starts there, its shape and its order in memory."""

    def __init__(self) -> None:
        self._parts: list[list[np.ndarray]] = []
        self._lengths: list[int] = []
        self._open: dict[np.dtype, int] = {}

    def add(self, array: np.ndarray) -> list[Any]:
        """Take an array of any shape without Python objects; what is neither in C nor in Fortran order becomes C."""
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        flat = array.ravel(order)
        pool = self._pool_of(flat)
        start = self._lengths[pool]
        self._parts[pool].append(flat)
        self._lengths[pool] += len(flat)
        return [pool, start, list(array.shape), order]

    def _pool_of(self, flat: np.ndarray) -> int:
        if flat.nbytes < _LARGE:
            if flat.dtype in self._open:
                return self._open[flat.dtype]
            self._open[flat.dtype] = len(self._parts)
        self._parts.append([])
        self._lengths.append(0)
        return len(self._parts) - 1

    def arrays(self) -> list[np.ndarray]:
        """One array for each pool."""
        return [parts[0] if len(parts) == 1 else np.concatenate(parts) for parts in self._parts]


def taken(arrays: Sequence[np.ndarray], pool: int, start: int, shape: Sequence[int], order: str) -> np.ndarray:
    """The array that :meth:`Pools.add` described; it may share the memory of its pool, but of no other array."""
    size = math.prod(shape)
    if pool < 0 or start < 0 or min(shape, default=0) < 0 or order not in ("C", "F"):
        raise ValueError(f"there is no array of shape {list(shape)} at {start} of pool {pool}")
    flat = arrays[pool][start : start + size]
    if len(flat) != size:
        raise ValueError(f"an array of shape {list(shape)} leaves pool {pool}")
    return flat.reshape(shape, order=order)  # pyright: ignore[reportCallIssue, reportArgumentType] - its stubs want literals
