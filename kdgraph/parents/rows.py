"""Rows of one role, in an array or in a data frame of pandas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Rows:
    """Rows of one role.

    Attributes
    ----------
    X : Float[n, d], images Float[n, c, h, w], or a data frame.
    y : after a classifier Int[n], positions in ``classes_``; after a regressor Float[n]; for a detector [n] labels as they came, or None.
    weight : Float[n].
    group : [n], which subgroup each row belongs to, or None where nobody said it.
    """

    X: Any
    y: Any
    weight: np.ndarray
    group: np.ndarray | None = None

    @classmethod
    def of(cls, X: Any, y: Any = None) -> Rows:
        """Rows that count alike."""
        return cls(X, y, np.ones(len(X)))

    def __len__(self) -> int:
        return len(self.weight)

    def __getitem__(self, index) -> Rows:
        y, group = (None if values is None else values[index] for values in (self.y, self.group))
        return Rows(take(self.X, index), y, self.weight[index], group)

    def __add__(self, other: Rows) -> Rows:
        """The rows of both, these first."""
        y, weight = np.concatenate([self.y, other.y]), np.concatenate([self.weight, other.weight])
        groups = [rows.group for rows in (self, other) if rows.group is not None]
        return Rows(stacked(self.X, other.X), y, weight, np.concatenate(groups) if len(groups) == 2 else None)

    def one_hot(self, n_classes: int) -> np.ndarray:
        """Float[n, K]: the weight of each row in the column of its class."""
        table = np.zeros((len(self), n_classes))
        table[np.arange(len(self)), self.y] = self.weight
        return table


def is_frame(X: Any) -> bool:
    """Whether X is a data frame of pandas."""
    return hasattr(X, "iloc") and hasattr(X, "columns")


def take(X: Any, index: Any) -> Any:
    """The rows of X (an array or a data frame) at the positions ``index``: a slice, Int[m] or Bool[n]."""
    return X.iloc[index] if is_frame(X) else X[index]


def has_missing(X: Any) -> bool:
    """Whether any value of X (Float[n, …] or a data frame) is missing."""
    if is_frame(X):
        return bool(X.isna().to_numpy().any())
    return bool(X.size and np.isnan(X.min()))  # without an array of flags as long as X


def one_each(name: str, values: Any, n: int) -> np.ndarray:
    """[n]: one of each row, as ``values`` must be; ``name`` is what an error calls them."""
    found = np.asarray(values)
    if found.shape != (n,):
        raise ValueError(f"{name} must have one for each of {n} rows, got shape {found.shape}")
    return found


def stacked(first: Any, then: Any) -> Any:
    """The rows of both, arrays or data frames, one after the other."""
    if not is_frame(first):
        return np.concatenate([first, then])
    import pandas as pd  # who has a frame has imported it

    return pd.concat([first, then], ignore_index=True)
