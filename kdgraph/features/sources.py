"""The first half of a feature map: from rows to what a fitted parent sees in them (φ₁ of Luo et al., Section 3.2)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array, issparse

from kdgraph.geometry import kind_of, partition_of
from kdgraph.geometry.kinds import PipelinePartition
from kdgraph.parents import GivenScores
from kdgraph.parents.inside import inside_of

Source = Literal["auto", "rows", "layer", "logits", "leaves"]
"""rows: as they come, behind the parent's own transformations. layer: what a layer of a network puts out. logits: of a network. leaves: of
a forest, which tree puts a row into which leaf. auto: layer of a network, leaves of a forest, else rows. Features that come with given
scores (``dataset.features``) are layers of theirs."""


def features_of(parent: Any, X: Any, source: Source = "auto", layer: str | None = None) -> np.ndarray | csr_array:
    """What the fitted ``parent`` sees in rows.

    Parameters
    ----------
    parent : a classifier, also in a pipeline or frozen.
    X : Float[n, d], images Float[n, c, h, w] or a data frame.
    source : see :data:`Source`.
    layer : name of a layer of a network; None: what enters its last linear layer. Of given scores, the name of features; None: the first.

    Returns
    -------
    Float64[n, m]
        Leaves are sparse, a column for each leaf: 1/√T where a row lies in the leaf of one of the T trees, so that the inner product of two
        rows is the share of trees that put them into one leaf, the geodesic similarity of Dey et al., Eq. 14.

    Raises
    ------
    TypeError : for a layer of what is no network, leaves of what is no forest.
    ValueError : for a layer that is not there; for rows that are no numbers.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Section 3.2: the last hidden layer, for tables.
    """
    found = _found(parent) if source == "auto" else source
    if found == "layer":
        given = _given(parent)
        return (inside_of(parent).features if given is None else given.transform)(X, layer).astype(np.float64)
    if found == "logits":
        return inside_of(parent).logits(X)
    if found == "leaves":
        return _leaves(parent, X)
    return _rows(parent, X)


def _found(parent: Any) -> Source:
    """The source that suits the parent."""
    if (given := _given(parent)) is not None and given.given_layers:
        return "layer"
    sources: dict[str | None, Source] = {"network": "layer", "forest": "leaves"}
    return sources.get(kind_of(_innermost(parent)), "rows")


def _innermost(parent: Any) -> Any:
    """What is frozen, or keeps a fitted parent as ``estimator_``, such as a calibrator, gives way to it.

    With several, ``estimator_`` is a template that is never fitted; with a selection of features, it has seen others than come here.
    """
    from sklearn.frozen import FrozenEstimator

    while True:
        if isinstance(parent, FrozenEstimator):
            parent = parent.estimator
        elif hasattr(parent, "estimator_") and not hasattr(parent, "estimators_") and not hasattr(parent, "get_support"):
            parent = parent.estimator_
        else:
            return parent


def _given(parent: Any) -> GivenScores | None:
    """The scores of a model that was trained elsewhere, where the parent is such scores."""
    inner = _innermost(parent)
    return inner if isinstance(inner, GivenScores) else None


def _leaves(parent: Any, X: Any) -> csr_array:
    partition = partition_of(parent)
    inner: Any = partition
    while isinstance(inner, PipelinePartition):
        inner = inner.inner
    starts = getattr(inner, "leaf_starts", None)
    if starts is None:
        raise TypeError(f"leaves are those of a forest or tree, got {type(_innermost(parent)).__name__}; use layer or rows")
    is_leaf = np.concatenate([tree.tree_.children_left == -1 for tree in getattr(inner.forest, "estimators_", [inner.forest])])
    leaves = (np.cumsum(is_leaf) - 1)[partition.encode(X) + starts[:-1]]
    n, trees = leaves.shape
    ends = np.arange(n + 1) * trees
    return csr_array((np.full(n * trees, trees**-0.5), leaves.ravel(), ends), shape=(n, int(is_leaf.sum())))


def _rows(parent: Any, X: Any) -> np.ndarray:
    """Behind transformations of the parent's pipelines, where there are any, for these are what makes columns comparable."""
    from sklearn.pipeline import Pipeline

    inner = _innermost(parent)
    while isinstance(inner, Pipeline):
        X, inner = inner[:-1].transform(X) if len(inner) > 1 else X, _innermost(inner[-1])
    rows = X.toarray() if issparse(X) else np.asarray(X)
    rows = rows.reshape(len(rows), -1).astype(np.float64)
    if not np.isfinite(rows).all():
        row, column = np.argwhere(~np.isfinite(rows))[0]
        raise ValueError(
            f"rows have no finite distances, row {row} has {rows[row, column]:g} in column {column}; impute in the parent's pipeline"
        )
    return rows
