"""Scaling of features, fitted on training rows and applied to every other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kdgraph.errors import ParameterError

Scale = Literal["none", "min_max", "max_norm"]
"""none: as they are. min_max: each feature of the training rows to [0, 1]. max_norm: all divided by the training rows' largest L2 norm.

Images are already in [0, 1] and stay as they are, and so do categories. A missing value stays missing, and adds nothing to a norm.
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
    def fit(cls, X: np.ndarray, scale: Scale, categorical: np.ndarray | None = None) -> Scaling:
        """The scaling that ``scale`` means for training rows X: Float[n, d], or images, for which it must be "none".

        A constant feature has no range; min_max only shifts it to 0, and so max_norm leaves rows that are all 0. Features that are
        ``categorical`` (Bool[d]) are neither shifted nor scaled.
        """
        if X.ndim != 2 and scale != "none":
            raise ParameterError(f"scale must be none for images, which are in [0, 1] already, got {scale!r}; it is for vectors")
        kept = np.zeros(X.shape[1], dtype=bool) if categorical is None or scale == "none" else categorical
        if scale == "min_max":
            low, high = (np.where(kept | np.isnan(ends), 0.0, ends) for ends in (np.fmin.reduce(X), np.fmax.reduce(X)))
            return cls(low, np.where(kept, 1.0, _nonzero(high - low)))
        if scale == "max_norm":
            norm = _nonzero(np.linalg.norm(np.nan_to_num(X) * ~kept, axis=1).max())
            return cls(0.0, np.where(kept, 1.0, norm) if kept.any() else norm)
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
