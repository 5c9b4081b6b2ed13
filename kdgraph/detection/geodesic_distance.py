"""Geodesic distance to the training rows, in the geometry of the parent itself."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kdgraph.detection.on_partition import PartitionDetector
from kdgraph.geometry import polytopes_of, take_rows
from kdgraph.geometry.partition import PolytopeIndex
from kdgraph.parameters import Count
from kdgraph.parents import Rows

_BLOCK = 256
"""Rows that are compared with all training rows at once, where more than the nearest is asked for."""


@dataclass(eq=False, repr=False)
class GeodesicDistance(PartitionDetector):
    """The geodesic distance of a row to the nearest training row, or to the k-th nearest one.

    Geodesic similarity K is the share of trees in which two rows share a leaf (Eq. 14), of networks the share of activation paths on which
    they agree (Eq. 16); the distance is 1 - K (Eq. 17).

    It sees combinations that were not there in training. On a forest it is blind far outside: rows beyond the data share the outermost
    leaves with real training rows, whatever their distance (of breast_cancer moved by three times its range the AUROC is .19). There
    :class:`~kdgraph.detection.LeafBox` and :class:`~kdgraph.detection.GraphDensity` see.

    Parameters
    ----------
    estimator : a forest or tree of scikit-learn, a network of :mod:`kdgraph.parents.networks`, or a pipeline that ends in one; None for
        100 extremely randomised trees. Cloned and fitted; ``FrozenEstimator(fitted)`` is used as it is with given labels, and the training
        rows are those that ``fit`` is given.
    neighbor : 1 for the nearest training row, k for the k-th nearest.
    labels : what the parent is trained on, see :data:`~kdgraph.detection.on_partition.Labels`; "none" where there are no labels.
    target_fpr : the share of what is in distribution that the threshold may give up.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen estimator give it rows that this was
        not fitted on, ``fit(X, y, X_calibration=…, y_calibration=…)``: see :class:`~kdgraph.parents.PostHoc`.
    n_jobs : threads; never changes a number.
    random_state : seeds the held-out rows, and the parent where it has no seed of its own.

    Attributes
    ----------
    estimator_ : the fitted parent.
    partition_, codes_ : its partition, and the codes of the training rows on it, Int[n, …].
    offset_ : the threshold of ``score_samples``, which is K.

    References
    ----------
    Dey et al., Deep discriminative to kernel density graph for in- and out-of-distribution calibrated inference, Eq. 14, 16 and 17.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(300, centers=3, random_state=0)
    >>> detector = GeodesicDistance(random_state=0).fit(X, y)
    >>> detector.score_samples(X[:1]).round(1), bool(detector.predict(X).mean() > 0.5)
    (array([1.]), True)
    """

    _: KW_ONLY
    neighbor: Count = 1

    @cached_property
    def _index(self) -> PolytopeIndex:
        return self.partition_.index(self.codes_, self._polytopes.size[:, None].astype(float), rows=self._polytopes.row)

    def __getstate__(self) -> dict[str, Any]:
        """Without the index, which follows from the rest."""
        return {name: value for name, value in super().__getstate__().items() if name != "_index"}

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: polytopes, the share of them that hold one row, the threshold."""
        return {"n_polytopes": len(self._polytopes), "singleton_share": self._polytopes.singleton_share, **super().describe()}

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        if self.neighbor > len(train):
            raise ValueError(f"neighbor must be at most the number of training rows, got neighbor={self.neighbor} of {len(train)} rows")
        self.__dict__.pop("_index", None)  # of an earlier fit
        self.partition_ = self._partition()
        self.codes_ = self.partition_.encode(train.X)
        self._polytopes = polytopes_of(self.codes_)

    def _score(self, X: Any) -> np.ndarray:
        codes = self.partition_.encode(X)
        if self.neighbor == 1:
            return self._to_nearest(codes)
        return np.concatenate([self._to_kth(codes[start : start + _BLOCK]) for start in range(0, len(codes), _BLOCK)])

    def _to_nearest(self, codes: np.ndarray) -> np.ndarray:
        nearest = self._index.masses(codes, np.empty(0))[1]
        similarity = self.partition_.paired_similarity(codes, take_rows(self.codes_, self._polytopes.row[nearest]))
        return np.where(nearest >= 0, similarity, 0.0)  # where none shares anything

    def _to_kth(self, codes: np.ndarray) -> np.ndarray:
        """Rows of one polytope are each a neighbour."""
        similarity = self.partition_.similarity(codes, take_rows(self.codes_, self._polytopes.row))[:, self._polytopes.of_row]
        return -np.partition(-similarity, self.neighbor - 1, axis=1)[:, self.neighbor - 1]
