"""Partition of each kind of parent.

:func:`partition_of` returns the partition of a fitted parent: of a forest, of a network, or of
whatever one of them is inside of (a pipeline, a frozen, calibrated or tuned estimator). The other
functions check before fitting whether a parent has a partition. All but the partitions themselves
is original to kdgraph.
"""

from __future__ import annotations

import sys
from functools import singledispatch
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.tree import BaseDecisionTree

from kdgraph.base import PostHoc
from kdgraph.base.frozen import FOREST_BASE, fitted_inside, unwrap_frozen
from kdgraph.base.validation import IMPUTATION_ADVICE, has_missing, is_meta_estimator
from kdgraph.geometry.boosting import boosted_partition_class
from kdgraph.geometry.forest import ForestPartition, TreePartition
from kdgraph.geometry.partition import Locations, Partition, PolytopeIndex


class NoPartitionError(TypeError):
    """Error for a parent whose partition into polytopes kdgraph cannot read.

    Its ``name`` is that of the class of the parent.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from kdgraph.geometry import NoPartitionError, partition_of
    >>> try:
    ...     partition_of(GaussianNB().fit([[0.0], [1.0]], [0, 1]))
    ... except NoPartitionError as error:
    ...     error.name
    'GaussianNB'
    """

    def __init__(self, parent: Any) -> None:
        accepted = "a fitted forest, tree or boosted trees, or a network of torch"
        super().__init__(f"{type(parent).__name__} has no partition to read; pass {accepted}")
        self.name = type(parent).__name__


@singledispatch
def partition_of(parent: Any, *, n_jobs: int | None = None, **network_options: Any) -> Partition:
    """Return the partition of a fitted parent.

    Parameters
    ----------
    parent : estimator or torch module
        A forest or tree of scikit-learn; boosted trees of scikit-learn, XGBoost, LightGBM or
        CatBoost; a torch module, or an estimator with a torch module as ``module_``. Also at the
        end of a pipeline, frozen, calibrated or tuned.
    n_jobs : int, default=None
        Number of threads. Results do not depend on it.
    **network_options
        Options of :class:`~kdgraph.geometry.activations.ActivationPartition`, for networks only.

    Raises
    ------
    NoPartitionError
        If ``parent`` has no partition into polytopes that kdgraph can read.
    TypeError
        If ``network_options`` are passed for trees.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tree = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    >>> partition_of(tree).encode([[0.2], [0.9]])
    array([[1],
           [2]], dtype=int32)
    """
    if isinstance(parent, Pipeline):
        return PipelinePartition(parent, n_jobs, **network_options)
    # A frozen network has the attributes of the network.
    if _is_network(parent) and not isinstance(parent, FrozenEstimator):
        # The module imports torch, which forests do not need.
        from kdgraph.geometry.activations import ActivationPartition

        return ActivationPartition(parent, n_jobs, **network_options)
    is_forest = isinstance(parent, FOREST_BASE | BaseDecisionTree)
    tree_partition = ForestPartition if is_forest else boosted_partition_class(parent)
    if tree_partition is not None:
        if network_options:
            raise TypeError(
                f"{', '.join(network_options)} can be set for networks only, got"
                f" {type(parent).__name__}"
            )
        return tree_partition(parent, n_jobs)
    inner = fitted_inside(parent)
    if inner is None:
        raise NoPartitionError(parent)
    return partition_of(inner, n_jobs=n_jobs, **network_options)


PartitionKind = Literal["forest", "boosted", "network"]
"""Kind of a partition: of independent trees, of boosted trees, or of a network."""


def partition_kind(parent: Any) -> PartitionKind | None:
    """Return the kind of a parent's partition, or None if its class has none.

    Parameters
    ----------
    parent : object
        The parent, fitted or not; also at the end of a pipeline, frozen, calibrated or tuned.
        Parents that are not fitted may have no torch module yet: every class that creates one
        counts as a network.

    Examples
    --------
    >>> from sklearn.ensemble import ExtraTreesClassifier
    >>> partition_kind(ExtraTreesClassifier()), partition_kind(None)
    ('forest', None)
    """
    if isinstance(parent, Pipeline):
        return partition_kind(parent.steps[-1][1])
    if isinstance(
        parent,
        FrozenEstimator | CalibratedClassifierCV | GridSearchCV | RandomizedSearchCV | PostHoc,
    ):
        return partition_kind(parent.estimator)
    if isinstance(parent, FOREST_BASE | BaseDecisionTree):
        return "forest"
    if boosted_partition_class(parent) is not None:
        return "boosted"
    return "network" if _is_network(parent) or hasattr(parent, "_make_module") else None


KIND_NAMES = {"forest": "a forest", "boosted": "boosted trees", "network": "a network"}
"""Names of the kinds of partitions in messages."""


def finite_space_of(parent: Any) -> Any:
    """Return the estimator in whose feature space features must be finite to measure distances.

    It is the parent, fitted or not; None for boosted trees, which take missing values: the graph
    replaces them where it measures distances.

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    >>> finite_space_of(RandomForestClassifier(10))
    RandomForestClassifier(n_estimators=10)
    >>> finite_space_of(HistGradientBoostingClassifier()) is None
    True
    """
    return None if partition_kind(parent) == "boosted" else parent


def check_has_partition(parent: Any) -> None:
    """Raise NoPartitionError for an estimator of scikit-learn without a partition, before its fit.

    That is one, alone or at the end of a pipeline, that is neither made of trees nor a
    meta-estimator. Other classes pass: they may have a network once they are fitted, and
    meta-estimators may have an estimator with a partition.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> check_has_partition(SVC())
    Traceback (most recent call last):
    kdgraph.geometry.kinds.NoPartitionError: SVC has no partition to read; pass ...
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
    # An instance of a torch module exists only if torch has been imported, so that this check needs
    # no import.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(getattr(parent, "module_", parent), torch.nn.Module)


class PipelinePartition:
    """Partition of the last step of a scikit-learn pipeline, behind its transformers.

    Gaussians live in the transformed space.

    Parameters
    ----------
    pipeline : Pipeline
        The fitted pipeline.
    n_jobs : int, default=None
        Number of threads. Results do not depend on it.
    **network_options
        Options of :class:`~kdgraph.geometry.activations.ActivationPartition`, for networks only.

    Attributes
    ----------
    inner : Partition
        Partition of the last step.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X = np.array([[1.0], [3.0]])
    >>> pipeline = make_pipeline(StandardScaler(), DecisionTreeClassifier()).fit(X, [0, 1])
    >>> PipelinePartition(pipeline).embed(X).tolist()
    [[-1.0], [1.0]]
    """

    def __init__(self, pipeline: Pipeline, n_jobs: int | None = None, **network_options: Any):
        self._transformers = pipeline[:-1]
        self.inner = partition_of(pipeline[-1], n_jobs=n_jobs, **network_options)

    @property
    def takes_missing(self) -> bool:
        """True if the last step takes missing values, which its points keep."""
        return getattr(self.inner, "takes_missing", False)

    @property
    def transformers(self) -> list[Any]:
        """Transformers in front of the last step, in their order."""
        return [transformer for _, transformer in self._transformers.steps]

    def _transform(self, X: Any) -> Any:
        """Return the transformed rows, Float[n, d], dense and without missing values.

        A model that takes missing values gets what the transformers return: boosted trees take data
        frames, too.
        """
        transformed = self._transformers.transform(X) if len(self._transformers) else X
        if self.takes_missing:
            return transformed.toarray() if issparse(transformed) else transformed
        points = transformed.toarray() if issparse(transformed) else np.asarray(transformed)
        if has_missing(points):
            raise ValueError(
                "Input X contains NaN behind the pipeline's transformations, where distances are"
                f" measured; {IMPUTATION_ADVICE}"
            )
        return points

    def embed(self, X: Any) -> np.ndarray:
        """Return the points of the transformed rows in the space of the last step, Float[n, d].

        Transformed rows with missing values raise ValueError.
        """
        return self.inner.embed(self._transform(X))

    def encode(self, X: Any) -> np.ndarray:
        """Return the codes, [n, …], of the last step at the transformed rows."""
        return self.inner.encode(self._transform(X))

    def locate(self, X: Any, *, with_proba: bool = True) -> Locations:
        """Return points and codes of the rows, which are transformed once."""
        return self.inner.locate(self._transform(X), with_proba=with_proba)

    def similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the geodesic similarity, Float[m, n], of codes of the last step."""
        return self.inner.similarity(a, b)

    def paired_similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the similarity, Float[n], of codes at the same position in ``a`` and ``b``."""
        return self.inner.paired_similarity(a, b)

    def parent_proba(self, locations: Locations) -> np.ndarray:
        """Return the class probabilities of the last step, Float[n, K]."""
        return self.inner.parent_proba(locations)

    def index(
        self,
        codes: np.ndarray,
        class_weights: np.ndarray,
        *,
        rows: np.ndarray | None = None,
        n_anchors: int | None = None,
    ) -> PolytopeIndex:
        """Return an index of the last step, with parameters as for :class:`Partition`."""
        return self.inner.index(codes, class_weights, rows=rows, n_anchors=n_anchors)


def tree_partition_of(partition: Partition) -> TreePartition | None:
    """Return the partition of the trees themselves, behind any transformers of a pipeline.

    The result is None for the partition of a network.

    Examples
    --------
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> model = GradientBoostingClassifier(n_estimators=3).fit([[1.0], [3.0]], [0, 1])
    >>> tree_partition_of(partition_of(model)).n_trees
    3
    """
    while isinstance(partition, PipelinePartition):
        partition = partition.inner
    return partition if isinstance(partition, TreePartition) else None


def forest_partition_of(partition: Partition) -> ForestPartition | None:
    """Return the partition of the forest itself, behind any transformers of a pipeline.

    The result is None unless it is a forest or tree of scikit-learn.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> pipeline = make_pipeline(StandardScaler(), DecisionTreeClassifier())
    >>> partition = partition_of(pipeline.fit([[1.0], [3.0]], [0, 1]))
    >>> type(partition).__name__, type(forest_partition_of(partition)).__name__
    ('PipelinePartition', 'ForestPartition')
    """
    trees = tree_partition_of(partition)
    return trees if isinstance(trees, ForestPartition) else None
