"""Feature maps from rows, through a parent and a reduction, to a space with a distance.

A feature map is φ = φ₂ ∘ φ₁ (Luo et al. 2022, Section 3.2). :func:`features_of` is φ₁, the
representation of rows inside a fitted parent: a layer or the logits of a network, the leaves of a
forest, or the rows themselves. :class:`FeatureMap` adds the reduction φ₂ of
:mod:`kdgraph.features.reductions` and a unit of distance, so that similar rows are close.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from kdgraph.base.network_access import access_network
from kdgraph.base.validation import check_squares
from kdgraph.features.reductions import ReductionName, make_reduction, to_dense
from kdgraph.geometry import partition_kind, partition_of, tree_partition_of
from kdgraph.parameters import Count, check_parameters
from kdgraph.parents import PrecomputedScores
from kdgraph.smoothing import rms_of

FeatureSource = Literal["auto", "rows", "layer", "logits", "leaves"]
"""Source of the features of a row.

- rows: the row itself, after the transformations in the parent's own pipeline.
- layer: the outputs of a layer of a network. Features that come with precomputed scores
  (``dataset.features``) are layers of these.
- logits: the logits of a network.
- leaves: for each tree of a forest or of boosted trees, the leaf that contains the row.
- auto: layer for a network, leaves for trees, rows for any other parent.
"""

# If the spread of the features, relative to the largest one, is below this, all rows are alike and
# the spread is rounding error.
_MIN_RELATIVE_SPREAD = 1e-14


def features_of(
    parent: Any,
    X: Any,
    source: FeatureSource = "auto",
    layer: str | None = None,
    *,
    allow_missing: bool = False,
) -> np.ndarray | csr_array:
    """Return the representation of rows inside a fitted parent (Luo et al., UAI 2022, Section 3.2).

    Parameters
    ----------
    parent : estimator
        Fitted parent, also in a pipeline or frozen.
    X : Float[n, d], images Float[n, c, h, w] or DataFrame
        Rows.
    source : FeatureSource, default="auto"
        See :data:`FeatureSource`.
    layer : str, default=None
        Name of a layer of a network; None for the input of its last linear layer. For precomputed
        scores, name of the features; None for the first ones.
    allow_missing : bool, default=False
        Return NaN for missing values of "rows", instead of an error.

    Returns
    -------
    Float64[n, m]
        Features. Leaves are sparse, with a column for each leaf of the T trees: 1/√T if the row
        lies in the leaf. The inner product of two rows is then the fraction of trees in which they
        share a leaf, the geodesic similarity (Dey et al. 2023, Eq. 14).

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X = np.array([[0.0], [1.0], [5.0], [6.0]])
    >>> forest = RandomForestClassifier(n_estimators=4, random_state=0).fit(X, [0, 0, 1, 1])
    >>> leaves = features_of(forest, X, "leaves")
    >>> (leaves @ leaves.T).toarray()[0].round(2).tolist()
    [1.0, 1.0, 0.0, 0.0]
    """
    source = _default_source(parent) if source == "auto" else source
    if source == "layer":
        scores = _precomputed_scores(parent)
        layer_features = access_network(parent).features if scores is None else scores.transform
        return layer_features(X, layer).astype(np.float64)
    if source == "logits":
        return access_network(parent).logits(X)
    if source == "leaves":
        return _leaf_features(parent, X)
    return _row_features(parent, X, allow_missing=allow_missing)


def _default_source(parent: Any) -> FeatureSource:
    scores = _precomputed_scores(parent)
    if scores is not None and scores.layer_widths:
        return "layer"
    sources: dict[str | None, FeatureSource] = {
        "network": "layer",
        "forest": "leaves",
        "boosted": "leaves",
    }
    return sources.get(partition_kind(_innermost_estimator(parent)), "rows")


def _innermost_estimator(parent: Any) -> Any:
    """Return the estimator inside frozen ones and inside those with an ``estimator_``."""
    # Two kinds of estimators are not opened. With several ``estimators_``, ``estimator_`` is a
    # template that is never fitted. After a selection of features, it has other columns than X.
    while True:
        if isinstance(parent, FrozenEstimator):
            parent = parent.estimator
        elif (
            hasattr(parent, "estimator_")
            and not hasattr(parent, "estimators_")
            and not hasattr(parent, "get_support")
        ):
            parent = parent.estimator_
        else:
            return parent


def _precomputed_scores(parent: Any) -> PrecomputedScores | None:
    inner = _innermost_estimator(parent)
    return inner if isinstance(inner, PrecomputedScores) else None


def _leaf_features(parent: Any, X: Any) -> csr_array:
    partition = partition_of(parent)
    trees = tree_partition_of(partition)
    if trees is None:
        raise TypeError(
            "leaves are those of trees, got"
            f" {type(_innermost_estimator(parent)).__name__}; use layer or rows"
        )
    starts, is_leaf = trees.leaf_starts, trees.is_leaf
    # A code is the number of a node in its tree, and ``starts`` its offset among the nodes of all
    # trees. The cumulative sum renumbers the nodes so that only leaves count.
    leaves = (np.cumsum(is_leaf) - 1)[partition.encode(X) + starts[:-1]]
    n, n_trees = leaves.shape
    row_ends = np.arange(n + 1) * n_trees
    values = np.full(n * n_trees, n_trees**-0.5)
    return csr_array((values, leaves.ravel(), row_ends), shape=(n, int(is_leaf.sum())))


def _row_features(parent: Any, X: Any, *, allow_missing: bool = False) -> np.ndarray:
    inner = _innermost_estimator(parent)
    while isinstance(inner, Pipeline):
        X, inner = inner[:-1].transform(X) if len(inner) > 1 else X, _innermost_estimator(inner[-1])
    rows = X.toarray() if issparse(X) else np.asarray(X)
    rows = rows.reshape(len(rows), -1).astype(np.float64)
    invalid = ~np.isfinite(rows) & ~(allow_missing & np.isnan(rows))
    if invalid.any():
        row, column = np.argwhere(invalid)[0]
        raise ValueError(
            f"rows have no finite distances, row {row} has {rows[row, column]:g} in column"
            f" {column}; impute in the parent's pipeline"
        )
    return rows


@dataclass(eq=False, repr=False)
class FeatureMap(BaseEstimator):
    """Feature map φ = φ₂ ∘ φ₁ of a parent, in few dimensions and in units of its spread.

    Axes are not standardised separately, because small principal components are noise: on
    Communities and Crime it increases the group-wise MCE by .05 to .5 at a given bandwidth.

    Parameters
    ----------
    source : FeatureSource, default="auto"
        See :data:`~kdgraph.features.feature_map.FeatureSource`.
    layer : str, default=None
        Name of a layer of a network; None for the input of the last linear layer, which is the last
        hidden one.
    reduce : ReductionName, default="pca"
        Reduction of the dimension; see :data:`~kdgraph.features.reductions.ReductionName`.
    dimensions : int, default=None
        Maximum number of dimensions. None for 20 principal components, or 2 dimensions of t-SNE and
        UMAP. The paper uses 20 principal components for tables, 50 for images, and 2 or 3
        dimensions of t-SNE.
    scale : {"rms", "none"}, default="rms"
        "rms" divides by the root mean square distance from the mean, per dimension, of the rows in
        ``fit``. It is one number, so the shape of the space stays the same and its units do not
        matter. "none" is the choice of the paper.
    random_state : int, RandomState or None, default=None
        Seed of the reduction.

    Attributes
    ----------
    reduction_ : transformer or None
        The fitted φ₂.
    scale_ : float
        Divisor of the reduced features.

    References
    ----------
    Luo et al., UAI 2022, Section 3.2 and Appendix A.

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
    source: FeatureSource = "auto"
    layer: str | None = None
    reduce: ReductionName = "pca"
    dimensions: Count | None = None
    scale: Literal["rms", "none"] = "rms"
    random_state: Any = None

    @property
    def is_transductive(self) -> bool:
        """True if the map only embeds rows that it was fitted on."""
        return self.reduce == "tsne"

    def fit(self, parent: Any, X: Any) -> FeatureMap:
        """Fit the reduction and the scale to rows behind a fitted parent, which may be images.

        Errors are those of :func:`~kdgraph.features.features_of`, and
        :class:`~kdgraph.errors.ParameterError` for a parameter out of range.
        """
        check_parameters(self)
        features = features_of(parent, X, self.source, self.layer)
        if self.scale == "rms":
            check_squares(features, type(_innermost_estimator(parent)).__name__)
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        self.reduction_ = make_reduction(self.reduce, self.dimensions, features, seed)
        if self.reduction_ is not None:
            # The explained variance ratios of a single row, or of identical rows, are 0 / 0.
            with np.errstate(invalid="ignore", divide="ignore"):
                self.reduction_.fit(features)
        self.scale_ = self._rms_scale(features) if self.scale == "rms" else 1.0
        return self

    def transform(self, parent: Any, X: Any) -> np.ndarray:
        """Return the embedding of rows behind a fitted parent, Float64[n, m].

        ValueError is raised for new rows, if the map :attr:`is_transductive`, and
        :class:`~kdgraph.errors.ParameterError` for leaves without a reduction whose array would
        have more than :data:`~kdgraph.features.reductions.MAX_DENSE_SIZE` numbers.
        """
        return to_dense(self.transform_sparse(parent, X))

    def transform_sparse(self, parent: Any, X: Any) -> np.ndarray | csr_array:
        """Return the same as :meth:`transform`, but sparse for leaves without a reduction.

        Searches for neighbours take sparse arrays.
        """
        return self._apply_reduction(features_of(parent, X, self.source, self.layer)) / self.scale_

    def _rms_scale(self, features: Any) -> float:
        """Return the RMS distance of the reduced features from their mean, per dimension."""
        reduced = self._apply_reduction(features)
        if issparse(reduced):
            # Centring would make the array dense, so the variance is a difference of two means.
            mean_square = reduced.multiply(reduced).mean()
            square_mean = np.square(reduced.mean(axis=0)).mean()
            variance = mean_square - square_mean
            is_positive = variance > _MIN_RELATIVE_SPREAD * mean_square
            spread = float(np.sqrt(variance)) if is_positive else 0.0
        else:
            spread = rms_of(reduced)
        return spread if spread > _MIN_RELATIVE_SPREAD * abs(features).max() else 1.0

    def _apply_reduction(self, features: Any) -> Any:
        if self.reduction_ is None:
            return features
        return np.asarray(self.reduction_.transform(features), dtype=np.float64)
