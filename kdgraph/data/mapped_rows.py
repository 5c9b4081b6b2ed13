"""Arrays of rows that lie in a file where they would take much memory, and work by blocks on them.

An array of more than :data:`MAPPED_BYTES` is mapped to a file without a name, which the operating
system removes with the process, however that ends. It is an ordinary array of NumPy. What reads it
block by block (:func:`mapped_blocks`) returns the memory of each block, so that the process never
holds more than one. Original to kdgraph.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from kdgraph.errors import CannotWrite

MAPPED_BYTES = 100_000_000
"""Arrays of rows with more bytes are mapped; changes no number."""
MAPPED_BLOCK_BYTES = 16_000_000
"""Bytes of the rows that are worked on at a time, in arrays that are mapped."""


def empty_rows(shape: tuple[int, ...], dtype: Any = np.float64) -> np.ndarray:
    """Return an array [n, …] for rows, in memory if it is small, else mapped to a file.

    The file is in ``TMPDIR``, else in ``/var/tmp``: ``/tmp`` is itself in memory on some systems.
    """
    dtype = np.dtype(dtype)
    n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if n_bytes <= MAPPED_BYTES:
        return np.empty(shape, dtype)
    folder = os.environ.get("TMPDIR") or ("/var/tmp" if os.access("/var/tmp", os.W_OK) else None)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            # Space is taken now: a write to a mapped page without it would end the process.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            else:
                file.truncate(n_bytes)
            mapped = mmap.mmap(file.fileno(), n_bytes)
    except OSError as error:
        raise CannotWrite(
            f"{n_bytes / 1e9:.1f} GB of rows need space on disk, and {folder or 'its folder'} has"
            f" too little ({error.strerror or error}); name another folder with TMPDIR=DIR"
        ) from error
    return np.frombuffer(mapped, dtype).reshape(shape)


def is_mapped(X: np.ndarray) -> bool:
    """Return whether an array is one of :func:`empty_rows` that is mapped, or a view of it."""
    return _mapping_of(X) is not None


def mapped_blocks(*arrays: np.ndarray) -> Iterator[slice]:
    """Yield slices of the rows of arrays [n, …]: all of them, or blocks if one is mapped.

    After each block, the memory that it took is returned; what was written to it stays.
    """
    n = len(arrays[0])
    mappings = [mapping for X in arrays if (mapping := _mapping_of(X)) is not None]
    if not mappings:
        yield slice(0, n)
        return
    step = max(1, MAPPED_BLOCK_BYTES * n // max(X.nbytes for X in arrays))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
        for mapping in mappings:
            _release(mapping)


def select_mapped_rows(X: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return ``X[index]``, [m, …] of X [n, …], mapped to a file if X is and the result is large."""
    if not is_mapped(X):
        return X[index]
    index = np.asarray(index)
    index = np.flatnonzero(index) if index.dtype == bool else index
    taken = empty_rows((len(index), *X.shape[1:]), X.dtype)
    # The source is read forwards, block by block, whatever the order of the rows.
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    for rows in mapped_blocks(X):
        low, high = np.searchsorted(ordered, [rows.start, rows.stop])
        if low < high:
            taken[order[low:high]] = X[ordered[low:high]]
            release_rows(taken)
    return taken


def map_rows(function: Callable[[np.ndarray], np.ndarray], X: np.ndarray) -> np.ndarray:
    """Return ``function(X)``, Float[n, d], mapped to a file if X is.

    Each row of the result must depend on its own row of X only.
    """
    if not is_mapped(X):
        return function(X)
    result = empty_rows(X.shape)
    for rows in mapped_blocks(X, result):
        result[rows] = function(X[rows])
    return result


def release_rows(X: np.ndarray) -> None:
    """Return the memory of a mapped array [n, …] to the system; its content stays."""
    if (mapping := _mapping_of(X)) is not None:
        _release(mapping)


def extremes(X: np.ndarray) -> tuple[float, float]:
    """Return the smallest and the largest value of X [n, …]; NaN if one is missing."""
    bounds = [(X[rows].min(), X[rows].max()) for rows in mapped_blocks(X)]
    low, high = np.array(bounds).T
    return low.min(), high.max()


def column_extremes(X: np.ndarray, *, ignore_nan: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest value of each column of Float[n, d].

    Unless ``ignore_nan``, those of a column with a missing value are NaN.
    """
    lower, upper = (np.fmin, np.fmax) if ignore_nan else (np.minimum, np.maximum)
    low = high = None
    for rows in mapped_blocks(X):
        block_low, block_high = lower.reduce(X[rows], axis=0), upper.reduce(X[rows], axis=0)
        low = block_low if low is None else lower(low, block_low)
        high = block_high if high is None else upper(high, block_high)
    assert low is not None and high is not None
    return low, high


def _mapping_of(X: np.ndarray) -> mmap.mmap | None:
    base: Any = X
    while base is not None and not isinstance(base, mmap.mmap):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return base


def _release(mapping: mmap.mmap) -> None:
    # Pages of a shared mapping stay in the cache of the system, or are written to the file.
    if hasattr(mmap, "MADV_DONTNEED"):
        with suppress(OSError):
            mapping.madvise(mmap.MADV_DONTNEED)
