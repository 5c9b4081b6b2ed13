"""Detectors of sets of rows that come from one distribution.

TOOD (Algorithm 1) scores a row by the other rows of its set: rows of a set out of distribution
share the leaves of a forest more often. :class:`SetTest` tests a set with the scores of any
detector of single rows (original to kdgraph).
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

from kdgraph.base import Rows, select_rows
from kdgraph.detection.base import PostHocDetector
from kdgraph.detection.partitions import PartitionDetector, TrainingLabels
from kdgraph.metrics.set_tests import SHARES, Statistic, power_curve, set_p_values
from kdgraph.parameters import ClosedFraction, Count, OpenFraction, Range, check_parameters

ScoreLevel = Literal["instance", "set"]
"""Level of a score.

"instance": one score for each row, which depends on the set of the row. "set": one score for a
set, the mean over its rows. ``TreeHamming(level="set").ood_score_of_sets(X, rng)`` returns 10
numbers for the default of 10 sets of 100 rows, ``TreeHamming(level="instance")`` returns 1,000.
"""

# Two rows are the fewest that can be compared.
_SetSize = Annotated[int, Range(2)]


@dataclass(eq=False, repr=False)
class SetDetector(PostHocDetector):
    """Base class of detectors that score the rows of a set, all of them from one distribution.

    A set detector cannot score a single row. ``score_samples``, ``decision_function``, ``predict``
    and ``ood_score`` use X as one set. For evaluation, :meth:`ood_score_of_sets`, which identifies
    set detectors, returns one number for each unit (a row in a set, or a set). The threshold is
    that of sets of the same size, drawn from the held-out rows.

    A subclass implements ``_represent(X)``, an array or data frame with one row for each row of X,
    and ``_score_set(representation)``, which returns Float[m], higher for more normal rows of the
    set.

    Parameters
    ----------
    level : {"instance", "set"}, default="instance"
        Level of the score, see :data:`ScoreLevel`.
    set_size : int, default=100
        Number of rows in a set.
    repeats : int, default=10
        Number of sets that the evaluation draws.

    Attributes
    ----------
    set_size_ : int
        Number of rows in a set: ``set_size``, or all held-out rows if there are fewer.

    Examples
    --------
    >>> class Spread(SetDetector):  # minus the distance to the mean of the set
    ...     def _represent(self, X):
    ...         return X
    ...
    ...     def _score_set(self, representation):
    ...         return -np.linalg.norm(representation - representation.mean(axis=0), axis=1)
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X, X_ood = rng.normal(size=(500, 2)), 3 * rng.normal(size=(200, 2))
    >>> detector = Spread(LogisticRegression(), level="set", set_size=50, repeats=4, random_state=0)
    >>> detector.fit(X, X[:, 0] > 0).ood_score_of_sets(X_ood, rng) > 0
    array([ True,  True,  True,  True])
    """

    _: KW_ONLY
    level: ScoreLevel = "instance"
    set_size: _SetSize = 100
    repeats: Count = 10

    def ood_score_of_sets(self, X, rng: np.random.Generator) -> np.ndarray:
        """Return Float[units], scores of sets drawn without replacement; positive is out.

        Units are ``repeats × set_size_`` rows, set by set, for ``level="instance"``, and
        ``repeats`` sets for ``level="set"``. An X of at most ``set_size_`` rows is one set.
        """
        return self.offset_ - self._score_drawn_sets(self._validate_X(X), self.repeats, rng)

    def describe(self) -> dict[str, Any]:
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
        score = self._set_scores(self._represent(X))
        return score if self.level == "instance" else np.repeat(score, len(X))

    def _held_out_scores(self, X: Any, rng: np.random.RandomState) -> np.ndarray:
        """Return the scores of sets, at least 1/``target_fpr`` of them."""
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

    def _left_out_scores(
        self, train: Rows, held_out: Rows, rng: np.random.RandomState
    ) -> np.ndarray:
        self.set_size_ = self.set_size
        return super()._left_out_scores(train, held_out, rng)

    def _keep_of_fold(self, detector: PostHocDetector) -> None:
        assert isinstance(detector, SetDetector)
        self.set_size_ = min(self.set_size_, detector.set_size_)

    def _score_drawn_sets(self, X: Any, repeats: int, rng: np.random.Generator) -> np.ndarray:
        sets = draw_sets(len(X), self.set_size_, repeats, rng)
        drawn_ids, positions = np.unique(sets, return_inverse=True)
        representation = self._represent(select_rows(X, drawn_ids))
        return np.concatenate(
            [
                self._set_scores(select_rows(representation, rows))
                for rows in positions.reshape(sets.shape)
            ]
        )

    def _set_scores(self, representation: Any) -> np.ndarray:
        if len(representation) < 2:
            raise ValueError(
                f"{type(self).__name__} compares the rows of a set and needs at least two, got"
                f" n_samples = {len(representation)}; pass more rows"
            )
        score = self._score_set(representation)
        return score if self.level == "instance" else score.mean(keepdims=True)


def check_row_detector(name: str, detector: Any, example: str) -> None:
    """Raise TypeError unless a detector, the parameter ``name``, scores single rows, or is None."""
    if detector is not None and (
        not isinstance(detector, PostHocDetector) or isinstance(detector, SetDetector)
    ):
        raise TypeError(
            f"{name} must be a detector of single rows, got {type(detector).__name__}; use one of"
            f" kdgraph.detection, such as {example}"
        )


def draw_sets(n: int, size: int, repeats: int, rng: np.random.Generator) -> np.ndarray:
    """Return row numbers of sets that are drawn without replacement, Int[repeats, size].

    If n ≤ size, there is one set of all n rows, Int[1, n].

    Parameters
    ----------
    n, size, repeats : int
        Number of rows, of rows in a set, and of sets.
    rng : Generator
        Source of randomness.

    Examples
    --------
    >>> draw_sets(10, 4, 2, np.random.default_rng(0)).shape, draw_sets(2, 4, 2, None).tolist()
    ((2, 4), [[0, 1]])
    """
    if n <= size:
        return np.arange(n)[None]
    return np.stack([rng.choice(n, size, replace=False) for _ in range(repeats)])


def aphd(leaves: np.ndarray) -> np.ndarray:
    """Return the average pairwise Hamming distance of each tree embedding to the others of its set.

    Let H(u, v) be the fraction of trees in which u and v are in different leaves. Then APHD_i =
    1/(m - 1) Σ_{j≠i} H(i, j), Float[m] in [0, 1] (TOOD, Section 3.1). All rows together take
    O(m·T): a row with c_t - 1 other rows in its leaf of tree t has 1 - Σ_t (c_t - 1) / (T·(m - 1)).
    Counts are integers, so there is only one rounding.

    Parameters
    ----------
    leaves : Int[m, T]
        Leaf of each of m ≥ 2 rows in each of T trees, numbered from 0.

    Examples
    --------
    >>> aphd([[4, 4], [3, 2], [1, 1], [2, 3]])  # Figure 1 of the paper
    array([1., 1., 1., 1.])
    """
    leaves = np.asarray(leaves)
    if leaves.ndim != 2 or len(leaves) < 2:
        raise ValueError(
            f"leaves must have shape (rows, trees) with at least two rows, got shape {leaves.shape}"
        )
    m, n_trees = leaves.shape
    shared = np.full(m, -n_trees)
    for tree_leaves in leaves.T:
        shared += np.bincount(tree_leaves)[tree_leaves]
    return 1.0 - shared / (n_trees * (m - 1))


@dataclass(eq=False, repr=False)
class TreeHamming(PartitionDetector, SetDetector):
    """Set detector by the average pairwise Hamming distance (APHD) of tree embeddings.

    Rows like the training rows are spread over the leaves of a forest; rows from another
    distribution concentrate in few. The score of a row is its APHD to the other rows of its set,
    and a low one is out of distribution.

    Parameters
    ----------
    labels : {"given", "shuffled", "none"}, default="shuffled"
        "given": the forest is trained as it is passed (Algorithm 1). "shuffled": a clone is trained
        on permuted labels (Section 6), or on random binary labels if labels are missing or
        constant. "none": a clone is trained on random binary labels, so that class frequencies have
        no effect either.
    set_size : int, default=100
        Number of rows in a set; the spread of APHD depends on it.

    Notes
    -----
    With K equally probable regions, two rows from the training distribution are in different
    regions with probability 1 - 1/K (Theorem 4.2). Trees on the given labels stop where a leaf is
    pure, and rows of easy classes then share leaves as rows from another distribution do: for
    breast_cancer with permuted columns the AUROC is .23 with given labels, which is below chance,
    and .99 with shuffled ones. All rows of a set must be in, or all out of, distribution: a few
    outliers in a set of normal rows share leaves with hardly any of them.

    References
    ----------
    Tree-based Ensemble Learning for Out-of-distribution Detection (TOOD), Algorithm 1 and Sections
    4 to 6.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, X_ood = rng.normal(size=(300, 2)), rng.normal(size=(50, 2)) + 8
    >>> detector = TreeHamming(set_size=50, random_state=0).fit(X)
    >>> [float(detector.score_samples(rows).mean().round(2)) for rows in (X[:50], X_ood)]
    [0.99, 0.0]
    """

    labels: TrainingLabels = "shuffled"

    required_partition: ClassVar = "trees"

    def _represent(self, X: Any) -> np.ndarray:
        return self._partition().encode(X)

    def _score_set(self, representation: np.ndarray) -> np.ndarray:
        return aphd(representation)


@dataclass(eq=False, repr=False)
class SetTest(BaseEstimator):
    """Permutation test of a set of rows against a reference sample, by scores of a row detector.

    If the scores of single rows are good, their mean over a set detects sets as well as a method
    that requires sets, such as :class:`TreeHamming`. The set may have any size, and a few outliers
    among normal rows raise the mean. ``reference_`` are the scores of the reference rows, Float[n].

    Parameters
    ----------
    detector : fitted detector
        Detector with ``ood_score(X)``, Float[n], higher for rows farther out, independent for each
        row.
    statistic : str, default="mean"
        Statistic that is compared, see :data:`kdgraph.metrics.set_tests.Statistic`.
    false_alarm : float, default=0.05
        Fraction of in-distribution sets that may be classified as out of distribution.
    n_permutations : int, default=999
        Number of permutations N; the p-value is at least 1/(N + 1).
    random_state : int, RandomState or None, default=None
        Seed of the permutations, which are the same for every set.

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
        """Score the reference rows, which neither the detector nor its parent has seen."""
        check_parameters(self)
        if hasattr(self.detector, "ood_score_of_sets"):
            raise TypeError(
                f"{type(self.detector).__name__} scores sets of rows; a set test needs a detector"
                " of single rows"
            )
        if not hasattr(self.detector, "ood_score"):
            raise TypeError(f"{type(self.detector).__name__} has no ood_score; use a detector")
        self.reference_ = np.asarray(self.detector.ood_score(X), dtype=np.float64)
        return self

    def p_value(self, X: Any) -> float:
        """Return the p-value (k + 1)/(N + 1) of the set X.

        k of N permutations of X and the reference have a statistic that is at least as extreme.
        """
        options = {
            "statistic": self.statistic,
            "n_permutations": self.n_permutations,
            "rng": self._rng(),
        }
        return float(set_p_values(self._scores(X), self.reference_, **options)[0])

    def is_ood(self, X: Any) -> bool:
        """Return True if the p-value of the set X is at most ``false_alarm``."""
        return self.p_value(X) <= self.false_alarm

    def power(
        self,
        X_ood: Any,
        shares: Sequence[ClosedFraction] = SHARES,
        set_size: int = 50,
        n_sets: int = 200,
    ) -> dict[str, np.ndarray]:
        """Return the detection rate of sets by the fraction of their rows that are from ``X_ood``.

        Half of the reference rows are the reference, the other half the rows in distribution. The
        columns, [r] each, are those of :func:`kdgraph.metrics.set_tests.power_curve`.
        """
        options = {
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
            **options,
        )

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "reference_")
        return np.asarray(self.detector.ood_score(X), dtype=np.float64)

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(
            check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        )
