"""Tree-based out-of-distribution detection: how seldom the rows of a set share the leaves of a forest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kdgraph.detection.on_partition import Labels, PartitionDetector
from kdgraph.detection.sets import SetDetector


def aphd(leaves: np.ndarray) -> np.ndarray:
    """Float[m] in [0, 1]: average pairwise Hamming distance of each row's tree embedding to those of the other rows of its set.

    Parameters
    ----------
    leaves : Int[m, T] from 0, the leaf of each of m ≥ 2 rows in each of T trees.

    Notes
    -----
    With H(u, v) the share of trees in which u and v are in different leaves, APHD_i = 1/(m - 1) Σ_{j≠i} H(i, j) (TOOD, Section 3.1). A row
    that has c_t - 1 others beside it in its leaf of tree t shares Σ_t (c_t - 1) pairs of leaves with the set, so that

        APHD_i = 1 - Σ_t (c_t - 1) / (T·(m - 1))

    takes O(m·T) for all rows together; counts are integers, so there is one rounding.

    Examples
    --------
    >>> aphd([[4, 4], [3, 2], [1, 1], [2, 3]])  # Figure 1 of the paper
    array([1., 1., 1., 1.])
    >>> aphd([[0, 0], [0, 1], [0, 1]])
    array([0.5 , 0.25, 0.25])
    """
    leaves = np.asarray(leaves)
    if leaves.ndim != 2 or len(leaves) < 2:
        raise ValueError(f"leaves must have shape (rows, trees) with at least two rows, got shape {leaves.shape}")
    m, n_trees = leaves.shape
    shared = np.full(m, -n_trees)
    for of_tree in leaves.T:
        shared += np.bincount(of_tree)[of_tree]
    return 1.0 - shared / (n_trees * (m - 1))


@dataclass(eq=False, repr=False)
class TreeHamming(PartitionDetector, SetDetector):
    """Whether a set of rows is out of distribution, by the average pairwise Hamming distance (APHD) of their tree embeddings.

    Rows like the training rows are spread over the leaves of a forest; rows from elsewhere crowd in few. The score of a row is its APHD to
    the other rows of its set, and a low one is out of distribution.

    Parameters
    ----------
    estimator : a forest or tree of scikit-learn, or a pipeline that ends in one; None for 100 extremely randomised trees. Cloned and
        fitted; ``FrozenEstimator(fitted)`` is used as it is with given labels.
    labels : "given": the forest as it is trained (the paper's Algorithm 1). "shuffled": a clone of it that is trained on permuted labels,
        as in its Section 6; coin flips where there are no labels, or all are the same. "none": a clone on coin flips, whatever labels
        there are, so that the shares of classes do not count either.
    level : see :data:`~kdgraph.detection.sets.Level`; the paper shows "instance".
    set_size, repeats : rows of a set, and how many sets the evaluation draws. Sets of other sizes have the same mean APHD and another
        spread around it, so scores compare at one size.
    target_fpr : the share of what is in distribution that the threshold may give up.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen estimator give it rows that this was
        not fitted on, ``fit(X, y, X_calibration=…, y_calibration=…)``: see :class:`~kdgraph.parents.PostHoc`.
    n_jobs : threads; never changes a number.
    random_state : seeds the held-out rows, the permutation, the sets of the threshold, and the forest where it has no seed of its own.

    Attributes
    ----------
    estimator_ : the fitted forest whose leaves are compared.
    offset_, set_size_ : the threshold, and the rows of a set.

    Notes
    -----
    With K regions that are equally probable, two rows from the training distribution are in different ones with probability 1 - 1/K
    (Theorem 4.2). That rows outside the convex hull of the training rows all share their leaves (Theorem 4.1) holds where every feature
    that the trees split on is out of range: a tree goes on to tell apart the features that are not.

    Fully grown trees on labels that say nothing have to separate every training row from its neighbours. Trees on the given labels stop
    where a class is alone, and rows of easy classes then share leaves as rows from elsewhere do: of digits 5 to 9 against 0 to 4 the AUROC
    is .48 with given labels and above .99 with shuffled ones; of breast_cancer with permuted columns it is .23, the wrong way round, and
    .99.

    A set must be all in or all out of distribution. A few outliers in a set of normal rows share leaves with hardly any of them: with 2 %
    of noise in sets of 100 rows of breast_cancer, the AUROC within a set is .25, noise having the higher APHD.

    References
    ----------
    Tree-based Ensemble Learning for Out-of-distribution Detection (TOOD), Algorithm 1 and Sections 4 to 6.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, far = rng.normal(size=(300, 2)), rng.normal(size=(50, 2)) + 8
    >>> detector = TreeHamming(set_size=50, random_state=0).fit(X)
    >>> detector.score_samples(rng.normal(size=(50, 2))).mean().round(2), detector.score_samples(far).mean().round(2)
    (np.float64(0.99), np.float64(0.0))
    >>> np.unique(detector.predict(far))
    array([-1])
    """

    labels: Labels = "shuffled"

    parent_is: ClassVar = "forest"

    def _represent(self, X: Any) -> np.ndarray:
        return self._partition().encode(X)

    def _score_together(self, represented: np.ndarray) -> np.ndarray:
        return aphd(represented)
