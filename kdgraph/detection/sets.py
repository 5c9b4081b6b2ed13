"""Detectors that judge a row by the rows it comes with, as TOOD (Algorithm 1) does: their contract,
and how sets are drawn for them.

Tree-based out-of-distribution detection: how seldom the rows of a set share the leaves of a forest.

Whether a set of rows comes from the training distribution, by any detector of single rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from kdgraph.base import select_rows
from kdgraph.detection.base import PostHocDetector
from kdgraph.detection.partitions import PartitionDetector, TrainingLabels
from kdgraph.metrics.set_tests import SHARES, Statistic, power_curve, set_p_values
from kdgraph.parameters import Count, OpenFraction, Range, Share, check_parameters

ScoreLevel = Literal["instance", "set"]
"""instance: a score for each row, which depends on the set that it is in. set: one score for a set,
the mean over its rows.
"""

_SetSize = Annotated[int, Range(2)]
"""Rows that can be compared."""


@dataclass(eq=False, repr=False)
class SetDetector(PostHocDetector):
    """A detector whose score belongs to rows in a set, all of them from one distribution: it asks
    whether the set is out of distribution.

    That is another task than a detector of single rows has, which is not told which rows belong
    together; the two kinds of numbers do not compare, and of a row by itself a set detector says
    nothing. Who wants to evaluate one draws sets: ``ood_score_of_sets(X, rng)`` draws ``repeats``
    sets of ``set_size_`` rows from X and gives one number for each unit (a row in a set, or a set),
    so not one for each row of X. Having this method is how a detector says that it is one of these.
    ``score_samples``, ``decision_function``, ``predict`` and ``ood_score`` take X as one set.

    The threshold is that of sets of the same size, drawn from the held-out rows.

    A subclass implements ``_represent(X)``, what the score needs to know of each row, an array or
    data frame with a row for each, and ``_score_set(represented)``, Float[m] of rows in one
    set, higher for what is more normal.

    Parameters
    ----------
    level : "instance" or "set", see :data:`Level`.
    set_size, repeats : rows of a set, and how many sets the evaluation draws.
    **others : those of :class:`PostHocDetector`.

    Attributes
    ----------
    set_size_ : rows of a set: ``set_size``, or all held-out rows where there are fewer.
    """

    _: KW_ONLY
    level: ScoreLevel = "instance"
    set_size: _SetSize = 100
    repeats: Count = 10

    def ood_score_of_sets(self, X, rng: np.random.Generator) -> np.ndarray:
        """Float[units]: how far out of distribution sets are that are drawn from X, each without
        replacement; above 0 is out.

        Units are ``repeats × set_size_`` rows, set by set, at ``level="instance"``, and ``repeats``
        sets at ``level="set"``. An X of no more than ``set_size_`` rows is one set, as it is.
        """
        return self.offset_ - self._score_drawn_sets(self._validate_X(X), self.repeats, rng)

    def describe(self) -> dict[str, Any]:
        """What was learnt, and what its scores are of, for the record."""
        return {
            **super().describe(),
            "level": self.level,
            "set_size": self.set_size_,
            "repeats": self.repeats,
        }

    def _represent(self, X: Any) -> Any:
        raise NotImplementedError

    def _score_set(self, representation: Any) -> np.ndarray:
        raise NotImplementedError

    def _score(self, X: Any) -> np.ndarray:
        """Of X as one set; at ``level="set"`` all of its rows have its score."""
        score = self._set_scores(self._represent(X))
        return score if self.level == "instance" else np.repeat(score, len(X))

    def _held_out_scores(self, X: Any, rng: np.random.RandomState) -> np.ndarray:
        """Enough sets that a quantile of their own scores can be ``target_fpr``."""
        self.set_size_ = min(self.set_size, len(X))
        if self.set_size_ < self.set_size:
            name, size = type(self).__name__, self.set_size
            warnings.warn(
                f"{len(X)} held-out rows are fewer than set_size={size}: {name} scores sets of"
                f" {len(X)}",
                stacklevel=3,
            )
        draws = max(self.repeats, math.ceil(1 / self.target_fpr))
        return self._score_drawn_sets(
            X, draws, np.random.default_rng(rng.randint(np.iinfo(np.int32).max))
        )

    def _score_drawn_sets(self, X: Any, repeats: int, rng: np.random.Generator) -> np.ndarray:
        """Float[units]; of the rows of X only those that are drawn are represented."""
        sets = draw_sets(len(X), self.set_size_, repeats, rng)
        used, places = np.unique(sets, return_inverse=True)
        represented = self._represent(select_rows(X, used))
        return np.concatenate(
            [
                self._set_scores(select_rows(represented, rows))
                for rows in places.reshape(sets.shape)
            ]
        )

    def _set_scores(self, representation: Any) -> np.ndarray:
        """Float[m] or, at ``level="set"``, Float[1]."""
        if len(representation) < 2:
            raise ValueError(
                f"{type(self).__name__} compares the rows of a set and needs at least two, got"
                f" n_samples = {len(representation)}"
            )
        score = self._score_set(representation)
        return score if self.level == "instance" else score.mean(keepdims=True)


def draw_sets(n: int, size: int, repeats: int, rng: np.random.Generator) -> np.ndarray:
    """Int[repeats, size]: row numbers below n, none twice in one set. Where n ≤ size there is one
    set, Int[1, n]: all rows.
    """
    if n <= size:
        return np.arange(n)[None]
    return np.stack([rng.choice(n, size, replace=False) for _ in range(repeats)])


def aphd(leaves: np.ndarray) -> np.ndarray:
    """Float[m] in [0, 1]: average pairwise Hamming distance of each row's tree embedding to those
    of the other rows of its set.

    Parameters
    ----------
    leaves : Int[m, T] from 0, the leaf of each of m ≥ 2 rows in each of T trees.

    Notes
    -----
    With H(u, v) the share of trees in which u and v are in different leaves, APHD_i = 1/(m - 1)
    Σ_{j≠i} H(i, j) (TOOD, Section 3.1). A row that has c_t - 1 others beside it in its leaf of tree
    t shares Σ_t (c_t - 1) pairs of leaves with the set, so that

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
        raise ValueError(
            f"leaves must have shape (rows, trees) with at least two rows, got shape {leaves.shape}"
        )
    m, n_trees = leaves.shape
    shared = np.full(m, -n_trees)
    for of_tree in leaves.T:
        shared += np.bincount(of_tree)[of_tree]
    return 1.0 - shared / (n_trees * (m - 1))


@dataclass(eq=False, repr=False)
class TreeHamming(PartitionDetector, SetDetector):
    """Whether a set of rows is out of distribution, by the average pairwise Hamming distance (APHD)
    of their tree embeddings.

    Rows like the training rows are spread over the leaves of a forest; rows from elsewhere crowd in
    few. The score of a row is its APHD to the other rows of its set, and a low one is out of
    distribution.

    Parameters
    ----------
    estimator : a forest or tree of scikit-learn, or a pipeline that ends in one; None for 100
        extremely randomised trees. Cloned and fitted; ``FrozenEstimator(fitted)`` is used as it is
        with given labels.
    labels : "given": the forest as it is trained (the paper's Algorithm 1). "shuffled": a clone of
        it that is trained on permuted labels, as in its Section 6; coin flips where there are no
        labels, or all are the same. "none": a clone on coin flips, whatever labels there are, so
        that the shares of classes do not count either.
    level : see :data:`~kdgraph.detection.sets.ScoreLevel`; the paper shows "instance".
    set_size, repeats : rows of a set, and how many sets the evaluation draws. Sets of other sizes
        have the same mean APHD and another spread around it, so scores compare at one size.
    target_fpr : the share of what is in distribution that the threshold may give up.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen
        estimator give it rows that this was not fitted on, ``fit(X, y, X_calibration=…,
        y_calibration=…)``: see :class:`~kdgraph.base.PostHoc`.
    n_jobs : threads; never changes a number.
    random_state : seeds the held-out rows, the permutation, the sets of the threshold, and the
        forest where it has no seed of its own.

    Attributes
    ----------
    estimator_ : the fitted forest whose leaves are compared.
    offset_, set_size_ : the threshold, and the rows of a set.

    Notes
    -----
    With K regions that are equally probable, two rows from the training distribution are in
    different ones with probability 1 - 1/K (Theorem 4.2). That rows outside the convex hull of the
    training rows all share their leaves (Theorem 4.1) holds where every feature that the trees
    split on is out of range: a tree goes on to tell apart the features that are not.

    Fully grown trees on labels that say nothing have to separate every training row from its
    neighbours. Trees on the given labels stop where a class is alone, and rows of easy classes then
    share leaves as rows from elsewhere do: of digits 5 to 9 against 0 to 4 the AUROC is .48 with
    given labels and above .99 with shuffled ones; of breast_cancer with permuted columns it is .23,
    the wrong way round, and .99.

    A set must be all in or all out of distribution. A few outliers in a set of normal rows share
    leaves with hardly any of them: with 2 % of noise in sets of 100 rows of breast_cancer, the
    AUROC within a set is .25, noise having the higher APHD.

    References
    ----------
    Tree-based Ensemble Learning for Out-of-distribution Detection (TOOD), Algorithm 1 and Sections
    4 to 6.

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

    labels: TrainingLabels = "shuffled"

    required_partition: ClassVar = "forest"

    def _represent(self, X: Any) -> np.ndarray:
        return self._partition().encode(X)

    def _score_set(self, representation: np.ndarray) -> np.ndarray:
        return aphd(representation)


@dataclass(eq=False, repr=False)
class SetTest(BaseEstimator):
    """A permutation test of sets of rows against a reference sample, on the score that a detector
    gives single rows.

    Ours: where scores of rows are good, their mean over a set judges the set as well as a method
    that must have sets, such as :class:`TreeHamming`; it may be of any size, and a few outliers
    among normal rows raise it.

    Parameters
    ----------
    detector : fitted; has ``ood_score(X)``, Float[n], higher for what is farther out, of each row
    by itself.
    statistic : what is compared, see :data:`kdgraph.metrics.set_tests.Statistic`.
    false_alarm : the share of sets from the distribution that may be called out of it.
    n_permutations : of the p-value, which is at least 1 over one more than these.
    random_state : draws the permutations, the same for every set.

    Attributes
    ----------
    reference_ : Float[n], scores of the reference rows.

    Examples
    --------
    >>> from kdgraph.detection import KthNeighbourDistance
    >>> rng = np.random.default_rng(0)
    >>> detector = KthNeighbourDistance(k=5, random_state=0).fit(rng.normal(size=(200, 2)))
    >>> test = SetTest(detector, random_state=0).fit(rng.normal(size=(100, 2)))
    >>> test.p_value(rng.normal(size=(20, 2)) + 3), bool(test.is_ood(rng.normal(size=(20, 2))))
    (0.001, False)
    """

    detector: Any
    statistic: Statistic = "mean"
    false_alarm: OpenFraction = 0.05
    n_permutations: Count = 999
    random_state: int | np.random.RandomState | None = None

    def fit(self, X: Any) -> SetTest:
        """Score the reference: rows X of the training distribution that neither the detector nor
        its parent has seen.

        Raises
        ------
        TypeError : for a detector of sets, which gives a row by itself no score, and for what is
            none.
        """
        check_parameters(self)
        if hasattr(self.detector, "ood_score_of_sets"):
            raise TypeError(
                f"{type(self.detector).__name__} judges sets of rows by itself; a set test needs a"
                " score of single rows"
            )
        if not hasattr(self.detector, "ood_score"):
            raise TypeError(f"{type(self.detector).__name__} has no ood_score; use a detector")
        self.reference_ = np.asarray(self.detector.ood_score(X), dtype=np.float64)
        return self

    def p_value(self, X: Any) -> float:
        """How often sets of the size of X, drawn from X and the reference together, look at least
        as far out: (k + 1)/(N + 1).
        """
        how = {
            "statistic": self.statistic,
            "n_permutations": self.n_permutations,
            "rng": self._rng(),
        }
        return float(set_p_values(self._scores(X), self.reference_, **how)[0])

    def is_ood(self, X: Any) -> bool:
        """Whether X, as one set, is out of distribution: its p-value is at most ``false_alarm``."""
        return self.p_value(X) <= self.false_alarm

    def power(
        self, X_ood: Any, shares: Sequence[Share] = SHARES, set_size: int = 50, n_sets: int = 200
    ) -> dict[str, np.ndarray]:
        """How often sets are called out of distribution by the share of their rows that are from
        ``X_ood``.

        Half of the reference rows stand for the reference then, the other half for the rows in
        distribution. Columns are ``share``, ``set_size`` and ``power``, as
        :func:`kdgraph.metrics.set_tests.power_curve` gives them; the share 0 has the false alarms.
        All shares are judged by the same permutations, so the points of the curve are not
        independent.
        """
        how = {
            "statistic": self.statistic,
            "false_alarm": self.false_alarm,
            "n_permutations": self.n_permutations,
            "rng": self._rng(),
        }
        return power_curve(
            self._scores(X_ood),
            self.reference_,
            shares=shares,
            set_size=set_size,
            n_sets=n_sets,
            **how,
        )

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "reference_")
        return np.asarray(self.detector.ood_score(X), dtype=np.float64)

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(
            check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        )
