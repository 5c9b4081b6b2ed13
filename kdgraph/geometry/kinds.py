"""How a parent cuts feature space into polytopes: one class for each kind of parent, found by
:func:`partition_of`.
"""

from __future__ import annotations

import sys
from functools import singledispatch
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble._forest import BaseForest
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.tree import BaseDecisionTree

from kdgraph.base.frozen import unwrap_frozen
from kdgraph.base.rows import IMPUTATION_ADVICE, has_missing, is_meta_estimator
from kdgraph.geometry.forest import ForestPartition
from kdgraph.geometry.partition import Locations, Partition, PolytopeIndex


class NoPartitionError(TypeError):
    """A parent that does not cut feature space into polytopes that kdgraph can read; ours."""

    def __init__(self, parent: Any) -> None:
        what = "a fitted forest or tree of scikit-learn, or a network of torch"
        super().__init__(f"{type(parent).__name__} has no partition to read; pass {what}")
        self.name = type(parent).__name__


@singledispatch
def partition_of(parent: Any, *, n_jobs: int | None = None, **network_options: Any) -> Partition:
    """The partition of a fitted ``parent``.

    Parameters
    ----------
    parent : a forest or tree of scikit-learn, a torch module or an estimator that keeps one as
        ``module_``; also at the end of a pipeline, frozen or calibrated.
    n_jobs : threads; never changes a number.
    network_options : how a network is read, see :class:`~kdgraph.geometry.activations.ActivationPartition`.

    Raises
    ------
    TypeError : if ``parent`` does not cut feature space into polytopes that kdgraph can read, or
        not in the way that ``network_options`` says.
    """
    if _is_network(parent):
        from kdgraph.geometry.activations import (
            ActivationPartition,
        )  # imports torch, which forests do without

        return ActivationPartition(parent, n_jobs, **network_options)
    inner = getattr(
        parent, "estimator_", None
    )  # a meta-estimator that keeps what it fitted, on all features
    several, selected = hasattr(parent, "estimators_"), hasattr(parent, "get_support")
    if inner is None or several or selected:
        raise NoPartitionError(parent)
    return partition_of(inner, n_jobs=n_jobs, **network_options)


@partition_of.register(BaseForest)
@partition_of.register(BaseDecisionTree)
def _(
    parent: BaseForest | BaseDecisionTree, *, n_jobs: int | None = None, **reading: Any
) -> Partition:
    if reading:
        raise TypeError(
            f"{', '.join(reading)} say how a network is read, got {type(parent).__name__}"
        )
    return ForestPartition(parent, n_jobs)


@partition_of.register
def _(parent: FrozenEstimator, *, n_jobs: int | None = None, **reading: Any) -> Partition:
    return partition_of(parent.estimator, n_jobs=n_jobs, **reading)


@partition_of.register
def _(parent: CalibratedClassifierCV, *, n_jobs: int | None = None, **reading: Any) -> Partition:
    return partition_of(parent.calibrated_classifiers_[0].estimator, n_jobs=n_jobs, **reading)


@partition_of.register
def _(
    parent: GridSearchCV | RandomizedSearchCV, *, n_jobs: int | None = None, **reading: Any
) -> Partition:
    return partition_of(parent.best_estimator_, n_jobs=n_jobs, **reading)


@partition_of.register
def _(parent: Pipeline, *, n_jobs: int | None = None, **reading: Any) -> Partition:
    return PipelinePartition(parent, n_jobs, **reading)


def partition_kind(parent: Any) -> Literal["forest", "network"] | None:
    """What cuts the space of ``parent``, fitted or not, as far as its class tells; also at the end
    of a pipeline, frozen or calibrated.

    Ours. It is asked before anything is fitted, so a network may not be there yet: who makes a
    module is one.

    >>> from sklearn.ensemble import ExtraTreesClassifier
    >>> partition_kind(ExtraTreesClassifier()), partition_kind(None)
    ('forest', None)
    """
    if isinstance(parent, Pipeline):
        return partition_kind(parent.steps[-1][1])
    if isinstance(
        parent, FrozenEstimator | CalibratedClassifierCV | GridSearchCV | RandomizedSearchCV
    ):
        return partition_kind(parent.estimator)
    if isinstance(parent, BaseForest | BaseDecisionTree):
        return "forest"
    return "network" if _is_network(parent) or hasattr(parent, "_make_module") else None


def check_has_partition(parent: Any) -> None:
    """Refuse an estimator of scikit-learn that has no partition, before it is fitted; ours.

    Other classes may keep a network once they are fitted, and meta-estimators an estimator with a
    partition.

    Raises
    ------
    NoPartitionError
        ``parent`` is of scikit-learn, stands alone or at the end of a pipeline, and is no forest.
    """
    last = unwrap_frozen(parent)
    while isinstance(last, Pipeline):
        last = unwrap_frozen(last.steps[-1][1])
    if (
        partition_kind(last) is None
        and type(last).__module__.startswith("sklearn.")
        and not is_meta_estimator(last)
    ):
        raise NoPartitionError(last)


def _is_network(parent: Any) -> bool:
    """Whether ``parent`` is or keeps a torch module; who has one has imported torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(getattr(parent, "module_", parent), torch.nn.Module)


class PipelinePartition:
    """The partition of the last step of scikit-learn's pipelines, behind the transformations before
    it; Gaussians live in that space.
    """

    def __init__(self, pipeline: Pipeline, n_jobs: int | None = None, **network_options: Any):
        self._transformers = pipeline[:-1]
        self.inner = partition_of(pipeline[-1], n_jobs=n_jobs, **network_options)

    def _transform(self, X: Any) -> np.ndarray:
        """Float[n, d], dense and without NaN, of the rows that the pipeline takes: an array or a
        data frame.
        """
        transformed = self._transformers.transform(X) if len(self._transformers) else X
        points = transformed.toarray() if issparse(transformed) else np.asarray(transformed)
        if has_missing(points):
            raise ValueError(
                "Input X contains NaN behind the pipeline's transformations, where distances are"
                f" measured; {IMPUTATION_ADVICE}"
            )
        return points

    def embed(self, X: Any) -> np.ndarray:
        """Float[n, d]: the transformed rows."""
        return self.inner.embed(self._transform(X))

    def encode(self, X: Any) -> np.ndarray:
        """[n, …]: codes of the last step at the transformed rows."""
        return self.inner.encode(self._transform(X))

    def locate(self, X: Any) -> Locations:
        """Both, with one pass through the transformations."""
        return self.inner.locate(self._transform(X))

    def similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Float[m, n]: geodesic similarity of codes of the last step."""
        return self.inner.similarity(a, b)

    def paired_similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Float[n]: the same of codes side by side."""
        return self.inner.paired_similarity(a, b)

    def vote(self, locations: Locations) -> np.ndarray:
        """Float[n, K]: the last step's own probabilities."""
        return self.inner.vote(locations)

    def index(
        self,
        codes: np.ndarray,
        class_weights: np.ndarray,
        *,
        rows: np.ndarray | None = None,
        n_anchors: int | None = None,
    ) -> PolytopeIndex:
        """Index of the last step; arguments as of :class:`Partition`."""
        return self.inner.index(codes, class_weights, rows=rows, n_anchors=n_anchors)


def forest_partition_of(partition: Partition) -> ForestPartition | None:
    """The partition of the forest itself, of scikit-learn, behind any transformations; None where
    it is a network's.
    """
    while isinstance(partition, PipelinePartition):
        partition = partition.inner
    return partition if isinstance(partition, ForestPartition) else None
