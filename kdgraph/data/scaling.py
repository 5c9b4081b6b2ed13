"""Scaling of features.

Original to kdgraph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kdgraph.data.mapped_rows import map_rows
from kdgraph.errors import ParameterError

ScalingName = Literal["none", "min_max", "max_norm"]
"""Names of the feature scalings.

"none" leaves the features unchanged. "min_max" maps each feature of the training rows to [0, 1].
"max_norm" divides all features by the largest L2 norm of a training row.

Images are already in [0, 1] and are not changed, and neither are categories. A missing value stays
missing and adds nothing to a norm.
"""


@dataclass(frozen=True)
class Scaling:
    """Map x ↦ (x - shift) / size, feature by feature; by default the identity.

    Attributes
    ----------
    shift : Float[d] or float, default=0.0
        Value that is subtracted from each feature, or from all of them.
    size : Float[d] or float, default=1.0
        Divisor of each feature, or of all of them; never 0.

    Examples
    --------
    >>> X = np.array([[0.0, 10.0], [4.0, 30.0]])
    >>> scaling = Scaling.fit(X, "min_max")
    >>> scaling.apply(np.array([[2.0, 40.0]])), scaling.undo(np.array([[0.5, 1.5]]))
    (array([[0.5, 1.5]]), array([[ 2., 40.]]))
    """

    shift: np.ndarray | float = 0.0
    size: np.ndarray | float = 1.0

    @classmethod
    def fit(
        cls, X: np.ndarray, scale: ScalingName, categorical: np.ndarray | None = None
    ) -> Scaling:
        """Fit a scaling to training rows.

        A constant feature has no range: "min_max" only shifts it to 0. "max_norm" leaves rows
        unchanged if all of them are 0.

        Parameters
        ----------
        X : Float[n, d] or images
            Training rows. Images require ``scale="none"``.
        scale : {"none", "min_max", "max_norm"}
            Kind of scaling.
        categorical : Bool[d], default=None
            Features that are neither shifted nor divided; None for no feature.

        Raises
        ------
        ParameterError
            If X contains images and ``scale`` is not "none".
        """
        if X.ndim != 2 and scale != "none":
            raise ParameterError(
                f"scale must be none for images, which are in [0, 1] already, got {scale!r}; it is"
                " for vectors"
            )
        unscaled = np.zeros(X.shape[1], dtype=bool)
        if categorical is not None and scale != "none":
            unscaled = categorical
        if scale == "min_max":
            # fmin and fmax ignore NaN. A feature without values has NaN bounds, which become 0.
            low, high = (
                np.where(unscaled | np.isnan(bound), 0.0, bound)
                for bound in (np.fmin.reduce(X), np.fmax.reduce(X))
            )
            return cls(low, np.where(unscaled, 1.0, _nonzero(high - low)))
        if scale == "max_norm":
            norm = _nonzero(np.linalg.norm(np.nan_to_num(X) * ~unscaled, axis=1).max())
            return cls(0.0, np.where(unscaled, 1.0, norm) if unscaled.any() else norm)
        return cls()

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Return scaled rows: Float[n, d].

        The identity returns X itself, without a copy.
        """
        return X if self._is_identity else map_rows(lambda x: (x - self.shift) / self.size, X)

    def undo(self, X: np.ndarray) -> np.ndarray:
        """Return rows in the units of the source, given scaled rows: Float[n, d].

        The identity returns X itself, without a copy.
        """
        return X if self._is_identity else X * self.size + self.shift

    @property
    def _is_identity(self) -> bool:
        return np.ndim(self.shift) == np.ndim(self.size) == 0 and self.shift == 0 and self.size == 1


def _nonzero(size: np.ndarray) -> np.ndarray:
    return np.where(size == 0, 1.0, size)
