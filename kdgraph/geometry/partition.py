"""How a parent cuts feature space into polytopes: one class for each kind of parent, found by :func:`partition_of`."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, Protocol

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble._forest import BaseForest
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.tree import BaseDecisionTree

from kdgraph.geometry.forest import ForestPartition
from kdgraph.geometry.leaf_index import LeafIndex
from kdgraph.geometry.place import Place


class Partition(Protocol):
    """What every partition offers; codes are opaque to everyone else."""

    def embed(self, X: np.ndarray) -> np.ndarray:
        """Float[n, d]: the space in which distances within a polytope are measured."""
        ...

    def encode(self, X: np.ndarray) -> np.ndarray:
        """Int[n, …]: the polytope of each row, as a code."""
        ...

    def place(self, X: np.ndarray) -> Place:
        """Both at once."""
        ...

    def similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Float[m, n]: geodesic similarity K of codes."""
        ...

    def vote(self, codes: np.ndarray) -> np.ndarray:
        """Float[n, K]: the parent's own probabilities."""
        ...

    def index(
        self, codes: np.ndarray, class_weights: np.ndarray, *, rows: np.ndarray | None = None, n_anchors: int | None = None
    ) -> LeafIndex:
        """Index of polytopes, the ``rows`` of ``codes`` that stand for them, for class masses and nearest polytopes."""
        ...


@singledispatch
def partition_of(parent: Any, *, n_jobs: int | None = None) -> Partition:
    """The partition of a fitted ``parent``: a forest or tree of scikit-learn, also at the end of a pipeline, frozen or calibrated.

    Raises
    ------
    TypeError : if ``parent`` does not cut feature space into polytopes that kdgraph can read.
    """
    inner = getattr(parent, "estimator_", None)  # a meta-estimator that keeps what it fitted, on all features
    several, selected = hasattr(parent, "estimators_"), hasattr(parent, "get_support")
    if inner is None or several or selected:
        raise TypeError(f"{type(parent).__name__} has no partition to read; pass a fitted forest or tree of scikit-learn")
    return partition_of(inner, n_jobs=n_jobs)


@partition_of.register(BaseForest)
@partition_of.register(BaseDecisionTree)
def _(parent: BaseForest | BaseDecisionTree, *, n_jobs: int | None = None) -> Partition:
    return ForestPartition(parent, n_jobs)


@partition_of.register
def _(parent: FrozenEstimator, *, n_jobs: int | None = None) -> Partition:
    return partition_of(parent.estimator, n_jobs=n_jobs)


@partition_of.register
def _(parent: CalibratedClassifierCV, *, n_jobs: int | None = None) -> Partition:
    return partition_of(parent.calibrated_classifiers_[0].estimator, n_jobs=n_jobs)


@partition_of.register
def _(parent: Pipeline, *, n_jobs: int | None = None) -> Partition:
    return PipelinePartition(parent, n_jobs)


class PipelinePartition:
    """The partition of a pipeline's last step, behind the transformations before it; Gaussians live in the transformed space."""

    def __init__(self, pipeline: Pipeline, n_jobs: int | None = None):
        self._before = pipeline[:-1]
        self._inner = partition_of(pipeline[-1], n_jobs=n_jobs)

    def _transform(self, X: np.ndarray) -> np.ndarray:
        return self._before.transform(X) if len(self._before) else X

    def embed(self, X: np.ndarray) -> np.ndarray:
        """Float[n, d]: the transformed rows."""
        return self._inner.embed(self._transform(X))

    def encode(self, X: np.ndarray) -> np.ndarray:
        """Codes of the last step at the transformed rows."""
        return self._inner.encode(self._transform(X))

    def place(self, X: np.ndarray) -> Place:
        """Both, with one pass through the transformations."""
        return self._inner.place(self._transform(X))

    def similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Geodesic similarity of codes of the last step."""
        return self._inner.similarity(a, b)

    def vote(self, codes: np.ndarray) -> np.ndarray:
        """The last step's own probabilities."""
        return self._inner.vote(codes)

    def index(
        self, codes: np.ndarray, class_weights: np.ndarray, *, rows: np.ndarray | None = None, n_anchors: int | None = None
    ) -> LeafIndex:
        """Index of the last step."""
        return self._inner.index(codes, class_weights, rows=rows, n_anchors=n_anchors)
