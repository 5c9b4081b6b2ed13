"""Whom each row belongs to: what a metric of groups needs beside predictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kdgraph.errors import DataError

Grouped = Any
"""Int[n], Bool[n], texts [n], or a :class:`Groups` from who calls a metric; its body always has a :class:`Groups`."""


@dataclass(frozen=True)
class Groups:
    """The group of each row; what the groups of Luo et al. (UAI 2022), Section 5.3, are here.

    Attributes
    ----------
    position : Int[n], positions in the names: from 0, and below their number.
    names : of the groups, of which some may have no row.
    """

    position: np.ndarray
    names: tuple[str, ...]

    @classmethod
    def of(cls, values: Any) -> Groups:
        """Groups of [n] whole numbers, texts or truth values: the values that there are, sorted; ours.

        Raises
        ------
        ValueError
            In one line, for anything else.
        """
        array = np.asarray(values)
        is_text = array.dtype.kind == "U" or (array.dtype == object and all(isinstance(value, str) for value in array.flat))
        if array.ndim != 1 or array.size == 0 or not (is_text or array.dtype.kind in "iub"):
            found = f"{array.dtype} of shape {array.shape}"
            raise ValueError(f"groups must be one whole number or one text for each row, and at least one, got {found}")
        names, position = np.unique(array.astype(str) if is_text else array, return_inverse=True)
        return cls(position, tuple(map(str, names.tolist())))

    def rows(self) -> Iterator[tuple[str, np.ndarray]]:
        """Name and row numbers, Int[m] in their order, of each group; m may be 0. Ours.

        Raises
        ------
        DataError
            A position that is none of a name.
        """
        bad = np.flatnonzero((self.position < 0) | (self.position >= len(self.names)))
        if len(bad):
            rule = f"groups must be positions in {len(self.names)} names, from 0 to {len(self.names) - 1}"
            raise DataError(f"{rule}, got {self.position[bad[0]]} in row {bad[0]} ({len(bad)} such); leave out rows of no group")
        order = np.argsort(self.position, kind="stable")
        ends = np.cumsum(np.bincount(self.position, minlength=len(self.names)))
        yield from zip(self.names, np.split(order, ends[:-1]), strict=True)

    def __len__(self) -> int:
        return len(self.position)
