"""Scores in blocks of one size, so that the number of rows hardly changes how sums are rounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from kdgraph.parents import take

ROWS = 256
"""Of a block; a batch of a network is as many rows, or a fraction of it."""


def in_full_blocks(X: Any, function: Callable[[Any], np.ndarray]) -> np.ndarray:
    """``function`` of all rows of X (an array or a data frame), a block at a time; [n, …].

    A matrix product adds in another order for another number of rows or threads. So every block has :data:`ROWS` rows, the last one copies
    of its last row, which are cut off afterwards, and BLAS runs on one thread: the same rows in the same order give the same bits on one
    machine. A row's value does not depend on the rows beside it beyond rounding (1e-10, relative to the terms of its sums), and not to the
    bit: kernels for wide vectors add in an order that depends on the place of a row in its block. Ours.

    Parameters
    ----------
    X : n ≥ 1 rows.
    function : of a block; gives an array with a row for each of its rows.
    """
    with threadpool_limits(1, user_api="blas"):
        found = [function(take(X, np.minimum(np.arange(start, start + ROWS), len(X) - 1))) for start in range(0, len(X), ROWS)]
    return np.concatenate(found)[: len(X)]
