"""Detectors that look at how a parent cuts space, and what its trees may learn where labels are no help."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state

from kdgraph.detection.base import PostHocDetector
from kdgraph.geometry import Partition, forest_behind, partition_of
from kdgraph.parents import Rows, seeded_clone
from kdgraph.parents.latent import clone_for_other_labels

Labels = Literal["given", "shuffled", "none"]
"""given: the parent as it is trained. shuffled: a clone of it on permuted labels; coin flips where there are none, or all are the same.
none: a clone of it on coin flips, whatever labels there are."""


@dataclass(eq=False, repr=False)
class PartitionDetector(PostHocDetector):
    """A detector that stands on the partition of its parent; that may be one whose labels say nothing, so that it needs none. Ours.

    Parameters
    ----------
    estimator : a forest or tree of scikit-learn, or what else has a partition; None for 100 extremely randomised trees. Cloned and fitted;
        ``FrozenEstimator(fitted)`` is used as it is with given labels.
    labels : what the parent is trained on, see :data:`Labels`.
    n_jobs : threads; never changes a number.
    **others : those of :class:`~kdgraph.detection.PostHocDetector`.
    """

    estimator: Any = None
    _: KW_ONLY
    labels: Labels = "given"
    n_jobs: int | None = None

    def _partition(self) -> Partition:
        """That of the fitted parent."""
        return self._partition_of(self.estimator_)

    def _partition_of(self, parent: Any) -> Partition:
        partition = partition_of(parent, n_jobs=self.n_jobs)
        if self.parent_is == "forest" and forest_behind(partition) is None:
            what = "a forest or tree of scikit-learn, or a pipeline that ends in one"
            raise TypeError(f"{type(self).__name__} needs {what}, got a network")
        return partition

    def _default_estimator(self) -> Any:
        return ExtraTreesClassifier(100, n_jobs=self.n_jobs) if self.estimator is None else self.estimator

    def _needs_unseen_rows(self) -> bool:
        return self.labels == "given"  # else the parent is a clone, fitted here

    def _needs_labels(self) -> bool:
        return self.labels == "given" and super()._needs_labels()

    def _fitted_parent(self, parent: Any, train: Rows, calibration: Rows | None, random_state: Any) -> Any:
        if isinstance(parent, FrozenEstimator):
            self._partition_of(parent)  # before a clone of what has none is trained
        if self.labels == "given":
            return super()._fitted_parent(parent, train, calibration, random_state)
        copied = clone_for_other_labels if isinstance(parent, FrozenEstimator) else seeded_clone
        while isinstance(parent, FrozenEstimator):  # which a clone would leave as it is
            parent = parent.estimator
        rng = check_random_state(random_state)
        says_nothing = self.labels == "none" or train.y is None or len(np.unique(train.y)) < 2
        y = rng.randint(2, size=len(train)) if says_nothing else rng.permutation(train.y)
        copy = copied(parent, rng)
        threads = [name for name in copy.get_params() if name.split("__")[-1] == "n_jobs"]  # a frozen parent predicts on one core
        return copy.set_params(**dict.fromkeys(threads, self.n_jobs)).fit(train.X, y)
