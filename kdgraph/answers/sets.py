"""Scores that belong to sets of rows, and not to rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np


@dataclass(frozen=True)
class SetScores:
    """Out-of-distribution scores of sets that were drawn from some rows: an array to every metric, and nothing that can be cut by rows.

    Attributes
    ----------
    values : Float[units]. Their number may be that of the rows, and still none of them belongs to one.
    set_size : rows of a set at most.
    level : whether a unit is a row in a set ("instance"), or a set.
    """

    values: np.ndarray
    set_size: int
    level: Literal["instance", "set"]

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype, copy=copy)
