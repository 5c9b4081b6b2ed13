"""Rows on a partition (Dey et al., Section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Place:
    """Where rows lie on a partition.

    Attributes
    ----------
    points : Float[n, d], in the partition's embedding space.
    codes : Int[n, …], their polytopes.
    proba : Float[n, K], the parent's own probabilities where they come with the codes at no cost; None where codes alone give them.
    """

    points: np.ndarray
    codes: np.ndarray
    proba: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index) -> Place:
        return Place(self.points[index], self.codes[index], None if self.proba is None else self.proba[index])

    def __add__(self, other: Place) -> Place:
        """The rows of both, these first."""
        proba = None if self.proba is None or other.proba is None else np.concatenate([self.proba, other.proba])
        return Place(np.concatenate([self.points, other.points]), np.concatenate([self.codes, other.codes]), proba)
