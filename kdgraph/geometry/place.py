"""Rows on a partition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Place:
    """Where rows lie on a partition: ``points`` Float[n, d] in its embedding space, and ``codes`` Int[n, …]."""

    points: np.ndarray
    codes: np.ndarray

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index) -> Place:
        return Place(self.points[index], self.codes[index])
