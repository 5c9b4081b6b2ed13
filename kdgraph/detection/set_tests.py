"""Detectors of sets by one statistic of the whole set: rivals of TOOD on equal terms.

As for TOOD (:class:`~kdgraph.detection.TreeHamming`), it is known which rows belong together. The
detectors are the mean over the set of any score of rows, the maximum mean discrepancy (Gretton et
al. 2012), a classifier two-sample test (Lopez-Paz and Oquab 2017), and Kolmogorov-Smirnov tests of
single features (Rabanser et al. 2019). Each gives one score to a set, in standard deviations of the
scores of sets of held-out rows. The mean and the base classes are original to kdgraph.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from scipy.spatial.distance import cdist, pdist
from scipy.stats import ks_2samp
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdgraph.base import Rows, seeded_clone
from kdgraph.detection.base import FeatureDetector, PostHocDetector, apply_in_fixed_blocks
from kdgraph.detection.outputs import MaxProbability
from kdgraph.detection.sets import ScoreLevel, SetDetector, check_row_detector
from kdgraph.errors import DataError
from kdgraph.metrics import holm
from kdgraph.parameters import Count, Positive, Range, RequiredPartition

# Relative to the largest number. A smaller spread is the rounding error of a constant statistic.
_MIN_RELATIVE_SPREAD = 1e-12


@dataclass(eq=False, repr=False)
class SetStatisticDetector(SetDetector):
    """Base class of detectors with one statistic for each set, larger for sets farther out.

    The score of a set is (m - s) / d for its statistic s, with mean m and standard deviation d of
    the statistics of sets of held-out rows. This makes the scores of different statistics
    comparable. Sets of few held-out rows share rows; more than ``target_fpr`` of new sets are then
    out.

    A subclass implements ``_represent(X)`` as for :class:`~kdgraph.detection.SetDetector`, and
    ``_statistic(representation)``, which returns the statistic of one set.

    Parameters
    ----------
    repeats : int, default=100
        Number of sets that the evaluation draws, each with one score.

    Attributes
    ----------
    null_mean_, null_std_ : float
        Mean and standard deviation of the statistics of sets of held-out rows; the latter is 1 if
        all of them are equal.

    Examples
    --------
    >>> from kdgraph.detection import KolmogorovSmirnov
    >>> rng = np.random.default_rng(0)
    >>> detector = KolmogorovSmirnov(set_size=50, random_state=0).fit(rng.normal(size=(400, 2)))
    >>> sorted(set(detector.describe()) & {"null_mean", "null_std"})
    ['null_mean', 'null_std']
    """

    _: KW_ONLY
    repeats: Count = 100

    level: ClassVar[ScoreLevel] = "set"  # type: ignore[misc]

    def fit(self, X, y=None, *, X_calibration=None, y_calibration=None):
        """Fit as :meth:`kdgraph.detection.PostHocDetector.fit`, and standardise the scores."""
        self.null_mean_, self.null_std_ = 0.0, 1.0
        super().fit(X, y, X_calibration=X_calibration, y_calibration=y_calibration)
        # Up to here scores are minus the statistics. The same map of all of them keeps their order.
        statistics = -self.calibration_scores_
        spread = float(statistics.std())
        is_constant = spread <= _MIN_RELATIVE_SPREAD * np.abs(statistics).max()
        self.null_mean_, self.null_std_ = float(statistics.mean()), 1.0 if is_constant else spread
        self.calibration_scores_ = self._standardise(-self.calibration_scores_)
        self.offset_ = float(self._standardise(-self.offset_))
        return self

    def describe(self) -> dict[str, Any]:
        return {
            **super().describe(),
            "null_mean": self.null_mean_,
            "null_std": self.null_std_,
        }

    def _statistic(self, representation: Any) -> float:
        raise NotImplementedError

    def _score_set(self, representation: Any) -> np.ndarray:
        return self._standardise(np.array([self._statistic(representation)]))

    def _standardise(self, statistic: Any) -> Any:
        return (self.null_mean_ - statistic) / self.null_std_


@dataclass(eq=False, repr=False)
class SetMean(SetStatisticDetector):
    """Detector of sets by the mean of any score of rows, which separates sets even if it is weak.

    Parameters
    ----------
    estimator : estimator or None, default=None
        Parent of the row detector. None is the default parent of the row detector.
    row_detector : PostHocDetector or None, default=None
        Detector of single rows, fitted after the parent in place of its own ``estimator``. None for
        :class:`~kdgraph.detection.MaxProbability`.

    Examples
    --------
    >>> from kdgraph.detection import LeafBox
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(400, 2)), rng.integers(2, size=400)
    >>> detector = SetMean(row_detector=LeafBox(), set_size=50, random_state=0).fit(X, y)
    >>> shifted = rng.normal(size=(50, 2)) + 1
    >>> bool(detector.ood_score(shifted).mean() > 0 > detector.ood_score(X[:50]).mean())
    True
    """

    estimator: Any = None
    _: KW_ONLY
    row_detector: Any = None

    @property
    def required_method(self) -> str | None:  # type: ignore[override]
        """Method that the row detector needs of the parent, if any."""
        return self._row_detector_class().required_method

    @property
    def required_partition(self) -> RequiredPartition | None:  # type: ignore[override]
        """Kind of partition that the row detector needs of the parent, if it needs one of it."""
        return self._row_detector_class().required_partition

    def _row_detector_class(self) -> Any:
        return MaxProbability if self.row_detector is None else self.row_detector

    def _row_detector_after(self, parent: Any) -> PostHocDetector:
        detector = MaxProbability(None) if self.row_detector is None else clone(self.row_detector)
        # Rows of a fold are passed as held-out rows, so the row detector always has held-out rows.
        return detector.set_params(estimator=parent, calibration="held_out")

    def _check_parent(self) -> Any:
        check_row_detector("row_detector", self.row_detector, "LeafBox()")
        return super()._check_parent()

    def _default_estimator(self) -> Any:
        if isinstance(self.row_detector, PostHocDetector) or self.row_detector is None:
            return self._row_detector_after(self.estimator)._default_estimator()
        return self.estimator  # an error follows

    def _distance_estimator(self) -> Any:
        return self._row_detector_after(self.estimator)._distance_estimator()

    def _needs_labels(self) -> bool:
        return self._default_estimator() is not None and super()._needs_labels()

    def _requires_training_rows(self) -> bool:
        return True

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        parent = None if self.estimator_ is None else FrozenEstimator(self.estimator_)
        detector = seeded_clone(self._row_detector_after(parent), self.random_state)
        self.row_detector_ = detector.fit(train.X, train.y, X_calibration=calibration.X)

    def _represent(self, X: Any) -> np.ndarray:
        return -self.row_detector_.score_samples(X)

    def _statistic(self, representation: np.ndarray) -> float:
        # Divided first, so that a sum of very large scores stays finite.
        return float((representation / len(representation)).sum())


@dataclass(eq=False, repr=False)
class FeatureSetDetector(SetStatisticDetector, FeatureDetector):
    """Base class of two-sample tests that compare the features of a set with training rows.

    The threshold is of sets of held-out rows, because the features of rows that the parent has
    memorised differ from those of new rows. A subclass implements ``_fit_features`` as for
    :class:`~kdgraph.detection.base.FeatureDetector`, and ``_statistic(features)``.

    Examples
    --------
    >>> class MeanDistance(FeatureSetDetector):  # of a set from the training rows
    ...     def _fit_features(self, features, train, rng):
    ...         self.mean_ = features.mean(axis=0)
    ...
    ...     def _statistic(self, representation):
    ...         return float(np.linalg.norm(representation.mean(axis=0) - self.mean_))
    >>> rng = np.random.default_rng(0)
    >>> detector = MeanDistance(set_size=50, random_state=0).fit(rng.normal(size=(400, 2)))
    >>> bool(detector.ood_score(rng.normal(size=(50, 2)) + 1).mean() > 0)
    True
    """

    estimator: Any = None

    def _represent(self, X: Any) -> np.ndarray:
        return apply_in_fixed_blocks(X, self._scaled_features)


def _draw_reference(
    features: np.ndarray, n_reference: int, rng: np.random.RandomState
) -> np.ndarray:
    """Return at most ``n_reference`` rows of features, drawn without replacement."""
    if len(features) < 2:
        raise DataError(
            f"a set is compared with at least two training rows, got n_samples = {len(features)};"
            " pass more rows"
        )
    if len(features) <= n_reference:
        return features
    return features[np.sort(rng.choice(len(features), n_reference, replace=False))]


_ReferenceSize = Annotated[int, Range(2)]


@dataclass(eq=False, repr=False)
class MaximumMeanDiscrepancy(FeatureSetDetector):
    """Detector of sets by the maximum mean discrepancy (MMD) to training rows.

    Parameters
    ----------
    bandwidth : float or None, default=None
        Standard deviation σ of the Gaussian kernel in the units of the features. None is the median
        distance of two of the training rows that are compared.
    n_reference : int, default=1000
        Number of training rows that sets are compared with; all if there are fewer.

    Attributes
    ----------
    reference_, bandwidth_ : Float[n, d], float
        Features of the training rows that sets are compared with, and the width σ of the kernel.

    Notes
    -----
    For rows s_i of a set and reference rows r_j, and k(u, v) = exp(-|u - v|² / (2σ²)), the
    statistic is the unbiased estimate of MMD²,

        mean_{i≠j} k(s_i, s_j) - 2 mean_{ij} k(s_i, r_j) + mean_{i≠j} k(r_i, r_j).

    References
    ----------
    Gretton, Borgwardt, Rasch, Schölkopf and Smola, "A kernel two-sample test", Journal of Machine
    Learning Research 13, 2012, Eq. 3; Section 8 for the median distance.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> detector = MaximumMeanDiscrepancy(set_size=50, random_state=0).fit(X)
    >>> bool(detector.ood_score(rng.normal(size=(50, 2)) + 1).mean() > 0)
    True
    """

    _: KW_ONLY
    bandwidth: Positive | None = None
    n_reference: _ReferenceSize = 1000

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "bandwidth": self.bandwidth_}

    def _fit_features(self, features: np.ndarray, train: Rows, rng: np.random.RandomState) -> None:
        self.reference_ = _draw_reference(features, self.n_reference, rng)
        distances = pdist(self.reference_)
        self.bandwidth_ = (
            _median_of_positive(distances) if self.bandwidth is None else float(self.bandwidth)
        )
        self._reference_mean = float(self._kernel(distances).mean())

    def _kernel(self, distances: np.ndarray) -> np.ndarray:
        # Rows far away have a kernel of 0, and the square of their distance may overflow.
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(-((distances / self.bandwidth_) ** 2) / 2)

    def _statistic(self, representation: np.ndarray) -> float:
        # The sum over pairs of a set is over half of them, as the kernel is symmetric.
        within = self._kernel(pdist(representation)).mean()
        between = self._kernel(cdist(representation, self.reference_)).mean()
        return float(within - 2 * between + self._reference_mean)


def _median_of_positive(distances: np.ndarray) -> float:
    """Return the median of the distances above 0, so that no kernel has the width 0."""
    positive = distances[distances > 0]
    if not len(positive):
        raise ValueError(
            "all training rows have equal features, so that their median distance gives no"
            " bandwidth; set a bandwidth, or choose other features"
        )
    return float(np.median(positive))


# Ranges of a feature by which rows may lie outside of the training range before they are cut off:
# trees see only the order, and logistic regression stays finite.
_CLIP_RANGES = 3.0
_N_TREES = 25
_N_MIN_SPLIT = 5


@dataclass(eq=False, repr=False)
class ClassifierTwoSample(FeatureSetDetector):
    """Detector of sets by how well a classifier separates their rows from training rows.

    The statistic is the AUROC of the predictions of rows that the classifier was not fitted on, as
    a mean over folds. Rows of the two classes have the same total weight.

    Parameters
    ----------
    classifier : {"forest", "logistic"}, default="forest"
        Classifier that is trained for each set. "forest": 25 extremely randomised trees.
        "logistic": logistic regression of standardised features, which sees shifts of means only.
    n_folds : int, default=2
        Number of folds. Each row is predicted by a classifier that was fitted on the other folds.
    n_reference : int, default=300
        Number of training rows that a set is separated from (``reference_``); all if there are
        fewer.

    References
    ----------
    Lopez-Paz and Oquab, "Revisiting classifier two-sample tests", ICLR 2017, Section 3.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> detector = ClassifierTwoSample(set_size=50, random_state=0).fit(X)
    >>> bool(detector.ood_score(rng.normal(size=(50, 2)) + 2).mean() > 0)
    True
    """

    _: KW_ONLY
    classifier: Literal["forest", "logistic"] = "forest"
    n_folds: Annotated[int, Range(2)] = 2
    n_reference: _ReferenceSize = 300

    def _fit_features(self, features: np.ndarray, train: Rows, rng: np.random.RandomState) -> None:
        self.reference_ = _draw_reference(features, self.n_reference, rng)
        # The seed is that of every set, so that the score of a set is a function of its rows.
        self._seed = int(rng.randint(np.iinfo(np.int32).max))
        if len(self.reference_) < self.n_folds:
            raise ValueError(
                f"n_folds={self.n_folds} needs as many training rows, got {len(self.reference_)};"
                " use fewer folds"
            )
        low, high = self.reference_.min(axis=0), self.reference_.max(axis=0)
        # Halves are added, as a difference of very large numbers would overflow.
        margin = np.minimum(_CLIP_RANGES * (high / 2 - low / 2), np.finfo(np.float32).max / 4)
        self._bounds = low - margin, high + margin

    def _unfitted_classifier(self) -> Any:
        if self.classifier == "forest":
            return ExtraTreesClassifier(
                _N_TREES,
                min_samples_split=_N_MIN_SPLIT,
                class_weight="balanced",
                random_state=self._seed,
            )
        return make_pipeline(
            StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=1000)
        )

    def _statistic(self, representation: np.ndarray) -> float:
        if len(representation) < self.n_folds:
            raise ValueError(
                f"a set must have a row for each of n_folds={self.n_folds} folds, got"
                f" {len(representation)} rows; use larger sets or fewer folds"
            )
        # Folds are drawn by position. In a fixed order they do not depend on that of the rows.
        rows = representation[np.lexsort(representation.T)]
        X = np.clip(np.concatenate([rows, self.reference_]), *self._bounds)
        is_set = np.arange(len(X)) < len(representation)
        folds = StratifiedKFold(self.n_folds, shuffle=True, random_state=self._seed)
        aurocs = []
        for train, test in folds.split(X, is_set):
            classifier = self._unfitted_classifier().fit(X[train], is_set[train])
            aurocs.append(roc_auc_score(is_set[test], classifier.predict_proba(X[test])[:, 1]))
        return float(np.mean(aurocs))


@dataclass(eq=False, repr=False)
class KolmogorovSmirnov(FeatureSetDetector):
    """Detector of sets by Kolmogorov-Smirnov tests of each feature against training rows.

    It sees shifts of single features, and no change of their dependence alone.

    The statistic is the largest of the d two-sample Kolmogorov-Smirnov statistics. Sets are ranked
    as by the smallest p-value with Holm's correction; :meth:`feature_p_values` returns all of them.

    References
    ----------
    Rabanser, Günnemann and Lipton, "Failing loudly: an empirical study of methods for detecting
    dataset shift", NeurIPS 2019, Section 3.2. Holm, "A simple sequentially rejective multiple test
    procedure", Scandinavian Journal of Statistics 6, 1979, in place of Bonferroni's.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> detector = KolmogorovSmirnov(set_size=50, random_state=0).fit(X)
    >>> detector.feature_p_values(rng.normal(size=(50, 2)) + [0, 1]) < 0.05
    array([False,  True])
    """

    def feature_p_values(self, X) -> np.ndarray:
        """Return the p-value of each feature for X as one set, with Holm's correction, Float[d]."""
        features = self._represent(self._validate_X(X))
        return holm(ks_2samp(features, self.reference_, axis=0).pvalue)

    def _fit_features(self, features: np.ndarray, train: Rows, rng: np.random.RandomState) -> None:
        self.reference_ = np.sort(features, axis=0)

    def _statistic(self, representation: np.ndarray) -> float:
        m, n = len(representation), len(self.reference_)
        above, below = np.arange(1, m + 1) / m, np.arange(m) / m
        largest = 0.0
        # The distribution function of the set is constant between its rows, and that of the
        # reference increases, so that the two are farthest apart at or just before a row of the
        # set. This takes O(m log n) for a feature.
        for rows, reference in zip(
            np.sort(representation, axis=0).T, self.reference_.T, strict=True
        ):
            at_rows = np.searchsorted(reference, rows, "right") / n
            before_rows = np.searchsorted(reference, rows, "left") / n
            largest = max(largest, (above - at_rows).max(), (before_rows - below).max())
        return float(largest)
