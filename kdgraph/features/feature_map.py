"""A feature map: from rows, through a parent and a reduction, to a space in which near rows are alike."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from kdgraph.features.reductions import Reduction, dense, reduction_of
from kdgraph.features.sources import Source, features_of
from kdgraph.parameters import Count, check_parameters
from kdgraph.smoothing import rms_of

_NO_SPREAD = 1e-14
"""Of the largest feature: below it, spread is what rounding has made of rows that are all alike."""


@dataclass(eq=False, repr=False)
class FeatureMap(BaseEstimator):
    """φ = φ₂ ∘ φ₁ (Luo et al., Section 3.2): what a parent sees in rows, in few dimensions, divided by one number.

    Parameters
    ----------
    source : what is looked at; see :data:`~kdgraph.features.sources.Source`.
    layer : of a network, the name of the layer; None: what enters the last linear layer, which is the last hidden one.
    reduce : to few dimensions, or not; see :data:`~kdgraph.features.reductions.Reduction`.
    dimensions : at most so many; None: 20 principal components, 2 of t-SNE and UMAP. The paper has 20 principal components for tables and
        50 for images, 2 or 3 of t-SNE.
    scale : "rms": the root mean square distance from the mean, per dimension, of the rows in ``fit``: one number, so the shape of the space
        stays and its units do not matter. "none": as in the paper.
    random_state : of the reduction.

    Attributes
    ----------
    reduction_ : the fitted φ₂, or None.
    unit_ : what the embedding is divided by.

    Notes
    -----
    Each axis by itself is not standardised: on Communities and Crime that costs .05 to .5 of group-wise MCE at a given bandwidth, and 0 to
    .15 at one that calibration rows choose, since small principal components are noise (``experiments/p4/ablation.py``).

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Section 3.2 and Appendix A.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    >>> FeatureMap(source="rows", dimensions=2).fit(forest, X).transform(forest, X[:5]).shape
    (5, 2)
    """

    _: KW_ONLY
    source: Source = "auto"
    layer: str | None = None
    reduce: Reduction = "pca"
    dimensions: Count | None = None
    scale: Literal["rms", "none"] = "rms"
    random_state: Any = None

    @property
    def is_joint(self) -> bool:
        """Whether it has a place only for rows that it was fitted on."""
        return self.reduce == "tsne"

    def fit(self, parent: Any, X: Any) -> FeatureMap:
        """Learn φ₂ and the unit from what the fitted ``parent`` sees in rows X (Float[n, d], images or a data frame).

        Raises
        ------
        ParameterError : for a parameter out of range, or an extra that is not installed.
        TypeError, ValueError : as of :func:`~kdgraph.features.features_of`.
        """
        check_parameters(self)
        features = features_of(parent, X, self.source, self.layer)
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        self.reduction_ = reduction_of(self.reduce, self.dimensions, features, seed)
        if self.reduction_ is not None:
            with np.errstate(invalid="ignore", divide="ignore"):  # shares of the variance of one row, or of rows that are all alike
                self.reduction_.fit(features)
        self.unit_ = self._unit(features) if self.scale == "rms" else 1.0
        return self

    def transform(self, parent: Any, X: Any) -> np.ndarray:
        """Float64[n, m]: where rows X lie.

        Raises
        ------
        ValueError : for new rows, where the map :attr:`is_joint`.
        ParameterError : for leaves that nothing reduces, if they are more than :data:`~kdgraph.features.reductions.LARGEST` numbers.
        """
        return dense(self.vectors(parent, X))

    def vectors(self, parent: Any, X: Any) -> np.ndarray | csr_array:
        """As :meth:`transform`, but leaves that nothing reduces stay sparse, as searches for neighbours take them."""
        return self._reduced(features_of(parent, X, self.source, self.layer)) / self.unit_

    def _unit(self, features: Any) -> float:
        """The root mean square distance of the reduced features from their mean, per dimension; 1 where they do not differ."""
        reduced = self._reduced(features)
        if issparse(reduced):
            size, square = reduced.multiply(reduced).mean(), np.square(reduced.mean(axis=0)).mean()
            spread = float(np.sqrt(size - square)) if size - square > _NO_SPREAD * size else 0.0
        else:
            spread = rms_of(reduced)
        return spread if spread > _NO_SPREAD * abs(features).max() else 1.0

    def _reduced(self, features: Any) -> Any:
        if self.reduction_ is None:
            return features
        return np.asarray(self.reduction_.transform(features), dtype=np.float64)
