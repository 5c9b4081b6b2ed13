"""One half of the classes of a data set: so that a network can learn from some classes what is not its own, and be asked about others."""

from __future__ import annotations

from typing import Literal

import numpy as np

from kdgraph.data.dataset import Dataset
from kdgraph.errors import DataError

Half = Literal["first", "second"] | None
"""Of the sorted classes; of an odd number the first half is the smaller. None: all of them."""


def in_half(table: Dataset, half: Half) -> np.ndarray:
    """Bool[n]: rows whose class is in that half.

    Raises
    ------
    DataError
        If there are no two classes to divide.

    Examples
    --------
    >>> table = Dataset.from_labels("letters", np.zeros((3, 1)), ["a", "b", "c"])
    >>> in_half(table, "first").tolist(), in_half(table, "second").tolist()
    ([True, False, False], [False, True, True])
    """
    if half is None:
        return np.ones(len(table.y), dtype=bool)
    if len(table.classes) < 2:
        raise DataError(f"{table.name} has no classes to be divided into halves; give half=null, or choose another data set")
    is_first = table.y < len(table.classes) // 2
    return is_first if half == "first" else ~is_first
