"""Classifiers whose probabilities give way to the class prior below a density floor (Dey et al., Eq. 6 and 7)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from kdgraph.density.floor import ood_score
from kdgraph.geometry import NoPartitionError, Partition, check_kind, partition_of
from kdgraph.parameters import OpenFraction, Share
from kdgraph.parents import PostHocClassifier


@contextmanager
def _gate_as_way_out() -> Iterator[None]:
    try:
        yield
    except NoPartitionError as error:
        gate = f"DensityGate({error.name}(), partition=RandomForestClassifier())"
        raise TypeError(f"{error}; any classifier can stand in front of a forest's partition: {gate}") from None


@dataclass(eq=False, repr=False)
class FlooredClassifier(PostHocClassifier):
    """A density graph and a floor: what the kernel density forest and network, and the gate around any classifier, share.

    A subclass fits ``graph_`` and ``log_floor_``, and implements :meth:`proba_and_log_density`.

    Parameters
    ----------
    alpha : the expected share of in-distribution rows that a floor from held-out rows may give up.
    min_weight : the posterior keeps at least this weight, so that its argmax survives among equal priors.
    n_jobs : threads; never changes a number.
    **others : those of :class:`~kdgraph.parents.PostHocClassifier`.

    Attributes
    ----------
    graph_ : the populated polytopes.
    log_floor_ : the log density floor.
    """

    _: KW_ONLY
    alpha: OpenFraction = 0.005
    min_weight: Share = 1e-9
    n_jobs: int | None = None

    def _partition_parent(self) -> Any:
        """The estimator whose partition carries the density, not fitted yet."""
        return self._default_estimator()

    def _parent(self) -> Any:
        parent = super()._parent()
        with _gate_as_way_out():
            check_kind(self._partition_parent())
        return parent

    def _partition_of(self, fitted: Any, **reading: Any) -> Partition:
        """The partition of the fitted :meth:`_partition_parent`."""
        with _gate_as_way_out():
            return partition_of(fitted, n_jobs=self.n_jobs, **reading)

    def _learns_from_training_rows(self) -> bool:
        return True

    def proba_and_log_density(self, X) -> tuple[np.ndarray, np.ndarray]:
        """:meth:`predict_proba` and :meth:`log_density` of the rows X (Float[n, d]) at one visit to the graph."""
        raise NotImplementedError

    def predict_proba(self, X) -> np.ndarray:
        """Float[n, K]: class probabilities; rows are finite and sum to 1 however far ``X`` (Float[n, d]) is from the data."""
        return self.proba_and_log_density(X)[0]

    def log_density(self, X) -> np.ndarray:
        """Float[n]: the log density f that the floor is held against, that of the nearest polytope; -inf where none shares anything."""
        return self.proba_and_log_density(X)[1]

    def ood_score(self, X) -> np.ndarray:
        """Float[n]: log floor - log density. Higher is farther from the training data, and above 0 the prior has more than half the say."""
        return ood_score(self.log_density(X), self.log_floor_)

    def proba_and_ood_score(self, X) -> tuple[np.ndarray, np.ndarray]:
        """:meth:`predict_proba` and :meth:`ood_score`, as :meth:`proba_and_log_density`."""
        proba, log_density = self.proba_and_log_density(X)
        return proba, ood_score(log_density, self.log_floor_)

    def describe(self) -> dict[str, float | int]:
        """What was learnt, for the record: polytopes, the share of them that hold one row, what a search chose, the log floor."""
        polytopes = self.graph_.polytopes
        learnt = {"n_polytopes": len(polytopes), "singleton_share": polytopes.singleton_share}
        return {**learnt, **self._chosen(), "log_floor": self.log_floor_}

    def _chosen(self) -> dict[str, float]:
        """What was searched on held-out rows, by name."""
        return {}
