"""The first half of a feature map: from rows to what a fitted parent sees in them (φ₁ of Luo et
al., Section 3.2).

A feature map: from rows, through a parent and a reduction, to a space in which near rows are alike.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from kdgraph.base.network_access import access_network
from kdgraph.features.reductions import ReductionName, make_reduction, to_dense
from kdgraph.geometry import partition_kind, partition_of
from kdgraph.geometry.kinds import PipelinePartition
from kdgraph.parameters import Count, check_parameters
from kdgraph.parents import PrecomputedScores
from kdgraph.smoothing import rms_of

FeatureSource = Literal["auto", "rows", "layer", "logits", "leaves"]
"""rows: as they come, behind the parent's own transformations. layer: what a layer of a network
puts out. logits: of a network. leaves: of a forest, which tree puts a row into which leaf. auto:
layer of a network, leaves of a forest, else rows. Features that come with given scores
(``dataset.features``) are layers of theirs.
"""


def features_of(
    parent: Any, X: Any, source: FeatureSource = "auto", layer: str | None = None
) -> np.ndarray | csr_array:
    """What the fitted ``parent`` sees in rows.

    Parameters
    ----------
    parent : a classifier, also in a pipeline or frozen.
    X : Float[n, d], images Float[n, c, h, w] or a data frame.
    source : see :data:`FeatureSource`.
    layer : name of a layer of a network; None: what enters its last linear layer. Of given scores,
        the name of features; None: the first.

    Returns
    -------
    Float64[n, m]
        Leaves are sparse, a column for each leaf: 1/√T where a row lies in the leaf of one of the T
        trees, so that the inner product of two rows is the share of trees that put them into one
        leaf, the geodesic similarity of Dey et al., Eq. 14.

    Raises
    ------
    TypeError : for a layer of what is no network, leaves of what is no forest.
    ValueError : for a layer that is not there; for rows that are no numbers.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Section 3.2: the last
    hidden layer, for tables.
    """
    found = _default_source(parent) if source == "auto" else source
    if found == "layer":
        given = _precomputed_scores(parent)
        return (access_network(parent).features if given is None else given.transform)(
            X, layer
        ).astype(np.float64)
    if found == "logits":
        return access_network(parent).logits(X)
    if found == "leaves":
        return _leaf_features(parent, X)
    return _row_features(parent, X)


def _default_source(parent: Any) -> FeatureSource:
    """The source that suits the parent."""
    if (given := _precomputed_scores(parent)) is not None and given.given_layers:
        return "layer"
    sources: dict[str | None, FeatureSource] = {"network": "layer", "forest": "leaves"}
    return sources.get(partition_kind(_innermost_estimator(parent)), "rows")


def _innermost_estimator(parent: Any) -> Any:
    """What is frozen, or keeps a fitted parent as ``estimator_``, such as a calibrator, gives way
    to it.

    With several, ``estimator_`` is a template that is never fitted; with a selection of features,
    it has seen others than come here.
    """
    from sklearn.frozen import FrozenEstimator

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
    """The scores of a model that was trained elsewhere, where the parent is such scores."""
    inner = _innermost_estimator(parent)
    return inner if isinstance(inner, PrecomputedScores) else None


def _leaf_features(parent: Any, X: Any) -> csr_array:
    partition = partition_of(parent)
    inner: Any = partition
    while isinstance(inner, PipelinePartition):
        inner = inner.inner
    starts = getattr(inner, "leaf_starts", None)
    if starts is None:
        raise TypeError(
            f"leaves are those of a forest or tree, got {type(_innermost_estimator(parent)).__name__}; use"
            " layer or rows"
        )
    is_leaf = np.concatenate(
        [
            tree.tree_.children_left == -1
            for tree in getattr(inner.forest, "estimators_", [inner.forest])
        ]
    )
    leaves = (np.cumsum(is_leaf) - 1)[partition.encode(X) + starts[:-1]]
    n, trees = leaves.shape
    ends = np.arange(n + 1) * trees
    return csr_array(
        (np.full(n * trees, trees**-0.5), leaves.ravel(), ends), shape=(n, int(is_leaf.sum()))
    )


def _row_features(parent: Any, X: Any) -> np.ndarray:
    """Behind transformations of the parent's pipelines, where there are any, for these are what
    makes columns comparable.
    """
    from sklearn.pipeline import Pipeline

    inner = _innermost_estimator(parent)
    while isinstance(inner, Pipeline):
        X, inner = inner[:-1].transform(X) if len(inner) > 1 else X, _innermost_estimator(inner[-1])
    rows = X.toarray() if issparse(X) else np.asarray(X)
    rows = rows.reshape(len(rows), -1).astype(np.float64)
    if not np.isfinite(rows).all():
        row, column = np.argwhere(~np.isfinite(rows))[0]
        raise ValueError(
            f"rows have no finite distances, row {row} has {rows[row, column]:g} in column"
            f" {column}; impute in the parent's pipeline"
        )
    return rows


_MIN_RELATIVE_SPREAD = 1e-14
"""Of the largest feature: below it, spread is what rounding has made of rows that are all alike."""


@dataclass(eq=False, repr=False)
class FeatureMap(BaseEstimator):
    """φ = φ₂ ∘ φ₁ (Luo et al., Section 3.2): what a parent sees in rows, in few dimensions, divided
    by one number.

    Parameters
    ----------
    source : what is looked at; see :data:`~kdgraph.features.feature_map.FeatureSource`.
    layer : of a network, the name of the layer; None: what enters the last linear layer, which is
    the last hidden one.
    reduce : to few dimensions, or not; see :data:`~kdgraph.features.reductions.ReductionName`.
    dimensions : at most so many; None: 20 principal components, 2 of t-SNE and UMAP. The paper has
        20 principal components for tables and 50 for images, 2 or 3 of t-SNE.
    scale : "rms": the root mean square distance from the mean, per dimension, of the rows in
        ``fit``: one number, so the shape of the space stays and its units do not matter. "none": as
        in the paper.
    random_state : of the reduction.

    Attributes
    ----------
    reduction_ : the fitted φ₂, or None.
    scale_ : what the embedding is divided by.

    Notes
    -----
    Each axis by itself is not standardised: on Communities and Crime that costs .05 to .5 of
    group-wise MCE at a given bandwidth, and 0 to .15 at one that calibration rows choose, since
    small principal components are noise (``experiments/p4/ablation.py``).

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Section 3.2 and Appendix
    A.

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
        """Whether it has a place only for rows that it was fitted on."""
        return self.reduce == "tsne"

    def fit(self, parent: Any, X: Any) -> FeatureMap:
        """Learn φ₂ and the unit from what the fitted ``parent`` sees in rows X (Float[n, d], images
        or a data frame).

        Raises
        ------
        ParameterError : for a parameter out of range, or an extra that is not installed.
        TypeError, ValueError : as of :func:`~kdgraph.features.features_of`.
        """
        check_parameters(self)
        features = features_of(parent, X, self.source, self.layer)
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        self.reduction_ = make_reduction(self.reduce, self.dimensions, features, seed)
        if self.reduction_ is not None:
            with np.errstate(
                invalid="ignore", divide="ignore"
            ):  # shares of the variance of one row, or of rows that are all alike
                self.reduction_.fit(features)
        self.scale_ = self._rms_scale(features) if self.scale == "rms" else 1.0
        return self

    def transform(self, parent: Any, X: Any) -> np.ndarray:
        """Float64[n, m]: where rows X lie.

        Raises
        ------
        ValueError : for new rows, where the map :attr:`is_transductive`.
        ParameterError : for leaves that nothing reduces, if they are more than
            :data:`~kdgraph.features.reductions.MAX_DENSE_SIZE` numbers.
        """
        return to_dense(self.transform_sparse(parent, X))

    def transform_sparse(self, parent: Any, X: Any) -> np.ndarray | csr_array:
        """As :meth:`transform`, but leaves that nothing reduces stay sparse, as searches for
        neighbours take them.
        """
        return self._apply_reduction(features_of(parent, X, self.source, self.layer)) / self.scale_

    def _rms_scale(self, features: Any) -> float:
        """The root mean square distance of the reduced features from their mean, per dimension; 1
        where they do not differ.
        """
        reduced = self._apply_reduction(features)
        if issparse(reduced):
            size, square = reduced.multiply(reduced).mean(), np.square(reduced.mean(axis=0)).mean()
            spread = (
                float(np.sqrt(size - square))
                if size - square > _MIN_RELATIVE_SPREAD * size
                else 0.0
            )
        else:
            spread = rms_of(reduced)
        return spread if spread > _MIN_RELATIVE_SPREAD * abs(features).max() else 1.0

    def _apply_reduction(self, features: Any) -> Any:
        if self.reduction_ is None:
            return features
        return np.asarray(self.reduction_.transform(features), dtype=np.float64)
