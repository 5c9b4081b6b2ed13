"""Scaling of features, fitted on training rows and applied to every other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kdgraph.errors import ParameterError

Scale = Literal["none", "min_max", "max_norm"]
"""none: as they are. min_max: each feature of the training rows to [0, 1]. max_norm: all divided by the training rows' largest L2 norm.

Images are already in [0, 1] and stay as they are.
"""


@dataclass(frozen=True)
class Scaling:
    """The map x ↦ (x - shift) / size, feature by feature; by default the identity.

    Attributes
    ----------
    shift : Float[d], or one number for all features.
    size : Float[d], or one number for all features; never 0.
    """

    shift: np.ndarray | float = 0.0
    size: np.ndarray | float = 1.0

    @classmethod
    def fit(cls, X: np.ndarray, scale: Scale) -> Scaling:
        """The scaling that ``scale`` means for training rows X: Float[n, d], or images, for which it must be "none".

        A constant feature has no range; min_max only shifts it to 0, and so max_norm leaves rows that are all 0.
        """
        if X.ndim != 2 and scale != "none":
            raise ParameterError(f"scale must be none for images, which are in [0, 1] already, got {scale!r}; it is for vectors")
        if scale == "min_max":
            low, high = X.min(axis=0), X.max(axis=0)
            return cls(low, _nonzero(high - low))
        if scale == "max_norm":
            return cls(0.0, _nonzero(np.linalg.norm(X, axis=1).max()))
        return cls()

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Rows as they are measured to rows as they are learnt from: Float[n, d]. The identity gives X itself, no copy."""
        return X if self._is_identity else (X - self.shift) / self.size

    def undo(self, X: np.ndarray) -> np.ndarray:
        """Rows as they are learnt from to rows as they are measured: Float[n, d]. The identity gives X itself, no copy."""
        return X if self._is_identity else X * self.size + self.shift

    @property
    def _is_identity(self) -> bool:
        return np.ndim(self.shift) == np.ndim(self.size) == 0 and self.shift == 0 and self.size == 1


def _nonzero(size: np.ndarray) -> np.ndarray:
    return np.where(size == 0, 1.0, size)
