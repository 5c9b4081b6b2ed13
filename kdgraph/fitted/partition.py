"""Partitions of parents that were fitted elsewhere.

Original to kdgraph.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import get_tags

from kdgraph.fitted.parent import FittedParent
from kdgraph.geometry import (
    Locations,
    NoPartitionError,
    Partition,
    PipelinePartition,
    TreePartition,
    partition_of,
)


class FittedPartition(PipelinePartition):
    """Partition of a model from a file: its own, or that of the forest that was fitted here.

    Parameters
    ----------
    parent : FittedParent
        The parent, whose model is no network.
    n_jobs : int, default=None
        Number of threads. Results do not depend on it.

    Notes
    -----
    Original to kdgraph. Probabilities are those of the parent, in the order of its classes, whoever
    has grown the leaves.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import joblib
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from kdgraph.fitted import load_fitted
    >>> X = np.array([[0.0], [1.0]])
    >>> with TemporaryDirectory() as folder:
    ...     _ = joblib.dump(DecisionTreeClassifier().fit(X, [0, 1]), f"{folder}/tree.joblib")
    ...     parent = load_fitted(f"{folder}/tree.joblib", trust=True)
    >>> partition_of(parent).encode(X).tolist()
    [[1], [2]]
    """

    def __init__(self, parent: FittedParent, n_jobs: int | None = None):
        super().__init__(parent.estimator_, n_jobs)
        self._parent = parent

    @property
    def takes_missing(self) -> bool:
        """True if the model takes missing values, as forests and boosted trees may."""
        if not isinstance(self.inner, TreePartition):
            return False
        return self.inner.takes_missing or get_tags(self.inner.model).input_tags.allow_nan

    def locate(self, X: Any, *, with_proba: bool = True) -> Locations:
        """Return points, codes, and the probabilities of a classifier."""
        located = super().locate(X, with_proba=False)
        predicts = with_proba and hasattr(self._parent, "predict_proba")
        return replace(located, proba=self._parent.predict_proba(X) if predicts else None)

    def parent_proba(self, locations: Locations) -> np.ndarray:
        """Return the probabilities of the parent, Float[n, K], which rows are located with.

        Raises
        ------
        TypeError
            If the parent is a regressor.
        """
        if locations.proba is None:
            raise TypeError(f"the model in {self._parent.path} predicts no probabilities")
        return locations.proba


@partition_of.register
def _(parent: FittedParent, *, n_jobs: int | None = None, **network_options: Any) -> Partition:
    if parent.own_partition() == "network":
        return partition_of(parent.estimator_, n_jobs=n_jobs, **network_options)
    if getattr(parent, "estimator_", None) is None:
        raise NoPartitionError(parent)
    return FittedPartition(parent, n_jobs)
