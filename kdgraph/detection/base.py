"""Scores in blocks of one size, so that the number of rows hardly changes how sums are rounded.

The ground that every detector stands on: a fitted parent, a score that is higher for what is
normal, a threshold from held-out rows.

The ground of detectors that look at features of rows, whatever the parent says of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import OutlierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from kdgraph.base import PostHoc, Rows, select_rows
from kdgraph.base.frozen import skip_row_checks
from kdgraph.features import FeatureMap, FeatureSource, features_of
from kdgraph.parameters import OpenFraction, check_parameters

_BLOCK_ROWS = 256
"""Of a block; a batch of a network is as many rows, or a fraction of it."""


def apply_in_fixed_blocks(X: Any, function: Callable[[Any], np.ndarray]) -> np.ndarray:
    """``function`` of all rows of X (an array or a data frame), a block at a time; [n, …].

    A matrix product adds in another order for another number of rows or threads. So every block has
    :data:`ROWS` rows, the last one copies of its last row, which are cut off afterwards, and BLAS
    runs on one thread: the same rows in the same order give the same bits on one machine. A row's
    value does not depend on the rows beside it beyond rounding (1e-10, relative to the terms of its
    sums), and not to the bit: kernels for wide vectors add in an order that depends on the place of
    a row in its block. Ours.

    Parameters
    ----------
    X : n ≥ 1 rows.
    function : of a block; gives an array with a row for each of its rows.
    """
    with threadpool_limits(1, user_api="blas"):
        found = [
            function(select_rows(X, np.minimum(np.arange(start, start + _BLOCK_ROWS), len(X) - 1)))
            for start in range(0, len(X), _BLOCK_ROWS)
        ]
    return np.concatenate(found)[: len(X)]


_THRESHOLD_TOLERANCE = 1e-13
"""Share of a held-out row's score by which the threshold lies below it: what rounding makes of sums
of some hundred terms.
"""


@dataclass(eq=False, repr=False)
class PostHocDetector(OutlierMixin, PostHoc):
    """A detector of rows out of distribution that is fitted after a parent.

    ``score_samples`` is higher for what is more normal; ``decision_function`` is it minus
    ``offset_``, 0 at the threshold; ``predict`` gives 1 in distribution and -1 out of it, as
    scikit-learn's ``OutlierMixin`` has it; ``ood_score`` is minus ``decision_function``: higher is
    farther out, above 0 is out.

    The threshold is learnt on held-out rows, which the parent has not seen; rows and parents are as
    :class:`~kdgraph.base.PostHoc` has them.

    A subclass implements ``_score(X)``, Float[n] of rows that are checked, higher for what is more
    normal. It may implement ``_fit_after(train, held_out)``, where the score has something to learn
    (``y`` are labels as they came, or None), ``_fit_parent``, where its parent is another one,
    and ``_default_estimator``; ``required_method`` names the method that the parent must have. The
    score of a row depends on no other row, unless the class is a
    :class:`~kdgraph.detection.SetDetector`.

    Parameters
    ----------
    target_fpr : the share of what is in distribution that the threshold may give up.
    **others : those of :class:`~kdgraph.base.PostHoc`.

    Attributes
    ----------
    estimator_ : the fitted parent.
    offset_ : the threshold of ``score_samples``.
    """

    _: KW_ONLY
    target_fpr: OpenFraction = 0.05

    def fit(self, X, y=None, *, X_calibration=None, y_calibration=None):
        """Fit the parent on X (Float[n, d], images Float[n, c, h, w] or a data frame) and y, the
        score, and its threshold on held-out rows.

        Parameters
        ----------
        y : [n] labels of any type, or targets; None where nothing needs them, as with a frozen
        estimator.
        X_calibration : rows from the training distribution that the parent has not seen; give them
        after a frozen parent.
        y_calibration : their labels, on which no threshold depends.

        Raises
        ------
        TypeError : for an estimator that does not say what the score is made of.
        ValueError : for infinity; for NaN, unless the parent takes it; for labels that are needed
            and not there; for a score without a finite threshold.
        """
        check_parameters(self)
        parent, rng = self._check_parent(), check_random_state(self.random_state)
        if y is None and self._needs_labels():
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; or"
                " freeze a fitted estimator"
            )
        everything = Rows.of(*self._validate_rows(X, y, reset=True))
        train, held_out = self._split_rows(everything, X_calibration, y_calibration, rng)
        self.estimator_ = self._fit_parent(
            parent, train, None, rng
        )  # also one that wants rows of its own gets none of the threshold's
        with skip_row_checks():
            self._fit_after(train, held_out)
        self.offset_ = conformal_offset(self._held_out_scores(held_out.X, rng), self.target_fpr)
        # It is the score of a held-out row, and an equal row may be rounded differently beside
        # others: it must not be out for that.
        self.offset_ -= _THRESHOLD_TOLERANCE * abs(self.offset_)
        if not np.isfinite(self.offset_):
            raise ValueError(
                f"{type(self).__name__} has no threshold: the score of too many held-out rows is"
                f" {self.offset_}"
            )
        return self

    def score_samples(self, X) -> np.ndarray:
        """Float[n]: higher is more normal."""
        return self._score(self._validate_X(X))

    def decision_function(self, X) -> np.ndarray:
        """Float[n]: ``score_samples`` minus the threshold; below 0 is out of distribution."""
        return self.score_samples(X) - self.offset_

    def predict(self, X) -> np.ndarray:
        """Int[n]: 1 in distribution, -1 out of it."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def fit_predict(self, X, y=None, **held_out) -> np.ndarray:
        """Int[n]: :meth:`predict` of the rows that it was fitted on; scikit-learn's own leaves the
        labels out, which a parent needs.
        """
        return self.fit(X, y, **held_out).predict(X)

    def ood_score(self, X) -> np.ndarray:
        """Float[n]: minus ``decision_function``; higher is farther out of distribution, and above 0
        is out by the threshold.
        """
        return -self.decision_function(X)

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record."""
        return {"offset": self.offset_}

    def _score(self, X: Any) -> np.ndarray:
        raise NotImplementedError

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        """Learn what the score needs beside the parent."""

    def _held_out_scores(self, X: Any, rng: np.random.RandomState) -> np.ndarray:
        """Float[m]: of held-out rows, what the threshold is a quantile of."""
        return self._score(X)

    def _requires_training_rows(self) -> bool:
        return True

    def _needs_labels(self) -> bool:
        return not isinstance(self.estimator, FrozenEstimator)

    def _validate_calibration_rows(self, X: Any, y: Any) -> Rows:
        return (
            Rows.of(self._validate_rows(X)[0])
            if y is None
            else super()._validate_calibration_rows(X, y)
        )


def conformal_offset(score: np.ndarray, target_fpr: float) -> float:
    """The score below which at most max(target_fpr, 1/(m + 1)) of what is in distribution falls in
    expectation: split conformal.

    Lei, G'Sell, Rinaldo, Tibshirani and Wasserman (2018), "Distribution-free predictive inference
    for regression", for scores.

    ``score``: Float[m], of held-out rows that are exchangeable with it. The ⌊(m + 1)·target_fpr⌋-th
    smallest, or the smallest.

    >>> conformal_offset(np.arange(100.0), 0.05)
    4.0
    """
    return float(np.sort(score)[max(math.floor((len(score) + 1) * target_fpr), 1) - 1])


_MAX_SCORE = float(np.finfo(np.float64).max) / 4
"""No score is larger, so that sums of two are finite."""
_MIN_RELATIVE_SPREAD = 1e-14
"""Of the largest number: below it, spread is what rounding has made of none."""


@dataclass(eq=False, repr=False)
class FeatureDetector(PostHocDetector):
    """A detector that compares features of a row with those of the training rows. Ours: what those
    of the papers share.

    A subclass implements ``_learn(features, train, rng)``, of training rows, and
    ``_score_features(features)``, Float[n], higher for what is more normal. It gets blocks of one size
    (:func:`~kdgraph.detection.base.apply_in_fixed_blocks`), so no row changes another's score beyond
    rounding. Features are finite, and up to 1.8e308; scores are cut off at ±:data:`FARTHEST`.

    Parameters
    ----------
    estimator : the parent; None: there is none, and the features are the rows.
    features : what is compared, a :class:`~kdgraph.features.FeatureMap`; None: what enters the last
        linear layer of a network, or the features of given scores, as they are; else the rows
        behind the parent's own transformations, each column divided by its range over the training
        rows, since columns have units of their own; ``FeatureMap(source="rows", reduce="none",
        scale="none")`` leaves these.
    **others : those of :class:`PostHocDetector`.

    Attributes
    ----------
    feature_map_ : the fitted feature map.
    scale_ : Float[m], what features are divided by: ranges of columns, or 1.

    Notes
    -----
    Of wine, whose columns differ by factors of a thousand, uniform noise is told by the distance to
    the fifth neighbour with an AUROC of .79 in the units that the columns come in, .987 in standard
    deviations, and .989 in ranges; of the digits 0 to 4, digits 5 to 9 with .98, .92 and .975.
    """

    estimator: Any = None
    _: KW_ONLY
    features: FeatureMap | None = None

    def _fit_features(self, features: np.ndarray, train: Rows, rng: np.random.RandomState) -> None:
        raise NotImplementedError

    def _score_features(self, features: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _default_estimator(self) -> Any:
        return self.estimator

    def _distance_estimator(self) -> Any:
        return self.estimator

    def _needs_labels(self) -> bool:
        return self.estimator is not None and super()._needs_labels()

    def _fit_parent(
        self, parent: Any, train: Rows, calibration: Rows | None, random_state: Any
    ) -> Any:
        return (
            None
            if parent is None
            else super()._fit_parent(parent, train, calibration, random_state)
        )

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        rng = check_random_state(self.random_state)
        self.feature_map_ = (
            self._default_feature_map(train.X) if self.features is None else clone(self.features)
        )
        if self.feature_map_.random_state is None:
            self.feature_map_.set_params(random_state=rng.randint(np.iinfo(np.int32).max))
        with threadpool_limits(1, user_api="blas"):  # sums depend on how many there are
            self.feature_map_.fit(self.estimator_, train.X)
            features = apply_in_fixed_blocks(train.X, self._raw_features)
            of_columns = self.features is None and self.feature_map_.source == "rows"
            self.scale_ = _column_ranges(features) if of_columns else np.ones(features.shape[1])
            self._fit_features(features / self.scale_, train, rng)

    def _default_feature_map(self, X: Any) -> FeatureMap:
        """Of the layer of a network or of given scores; of the rows where there is no such
        layer.
        """
        source: FeatureSource = "layer"
        try:
            features_of(self.estimator_, select_rows(X, slice(0, 1)), source)
        except (TypeError, ValueError):
            source = "rows"
        return FeatureMap(source=source, reduce="none", scale="none")

    def _scaled_features(self, X: Any) -> np.ndarray:
        """Float64[n, m], finite and in units, of one block."""
        with np.errstate(over="ignore"):
            return np.nan_to_num(self._raw_features(X) / self.scale_)

    def _raw_features(self, X: Any) -> np.ndarray:
        """Float64[n, m], finite, of one block."""
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # a reduction of rows that reach further than the root of the largest number
            features = self.feature_map_.transform(self.estimator_, X)
        return np.nan_to_num(features, nan=np.finfo(np.float64).max)

    def _score(self, X: Any) -> np.ndarray:
        return apply_in_fixed_blocks(X, self._score_block)

    def _score_block(self, X: Any) -> np.ndarray:
        """Float[n] of one block; a subclass may ask the parent more than features."""
        return clip_scores(self._score_features(self._scaled_features(X)))


def _column_ranges(features: np.ndarray) -> np.ndarray:
    """Float[m], of each column the range; of one that is constant, which has no unit, the mean of
    the others.
    """
    low, high = features.min(axis=0), features.max(axis=0)
    ranges = np.minimum(high / 2 - low / 2, np.finfo(np.float64).max / 2) * 2
    varies = ranges > _MIN_RELATIVE_SPREAD * np.maximum(np.abs(low), np.abs(high))
    return np.where(varies, ranges, ranges[varies].mean() if varies.any() else 1.0)


def clip_scores(score: np.ndarray) -> np.ndarray:
    """Float[n], between ±:data:`FARTHEST`; NaN, of what is too far for any arithmetic, is the
    least. Ours.
    """
    return np.clip(np.nan_to_num(score, nan=-_MAX_SCORE), -_MAX_SCORE, _MAX_SCORE)


def scale_into_range(features: np.ndarray, limit: float) -> tuple[np.ndarray, np.ndarray]:
    """Features with no number beyond ±``limit``, and Float[n], by how much each row was scaled down
    for that; 1 for most. Ours.

    So squares stay finite, and lengths can be scaled up again.
    """
    largest = np.maximum(features.max(axis=1), -features.min(axis=1))
    factor = np.maximum(largest / limit, 1.0)
    return features / factor[:, None], factor
