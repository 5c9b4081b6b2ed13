"""Base classes of out-of-distribution detectors.

A detector is fitted after a parent. It scores rows, higher for more normal ones, and takes its
threshold from held-out rows by split conformal prediction. Detectors that compare features of rows
share :class:`FeatureDetector`. Original to kdgraph.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import OutlierMixin, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state

from kdgraph.base import PostHoc, Rows, seeded_clone, select_rows
from kdgraph.base.frozen import is_bagged, skip_row_checks, unwrap_frozen
from kdgraph.base.held_out import hold_rows_out
from kdgraph.base.rows import on_one_thread, unseen_rows
from kdgraph.base.validation import has_transformer_steps
from kdgraph.detection.conformal import conformal_offset, conformal_p_values
from kdgraph.features import FeatureMap, FeatureSource, features_of
from kdgraph.metrics import benjamini_hochberg
from kdgraph.parameters import CalibrationMode, OpenFraction, check_parameters, check_value

# Largest number of rows in a block. A batch of a network has the same number, or a fraction of it.
_BLOCK_ROWS = 256


def apply_in_fixed_blocks(X: Any, function: Callable[[Any], np.ndarray]) -> np.ndarray:
    """Return ``function`` of all rows, [n, …], computed in blocks of one size up to 256 rows.

    The same rows in the same order give the same bits on one machine, for any number of threads,
    and the value of a row is independent of the other rows to 1e-10. It is not independent to the
    bit: BLAS kernels for wide vectors add in an order that depends on the position of a row in its
    block.
    """
    # A matrix product adds in another order for another number of rows or threads. So every block
    # has the same number of rows, the last one padded with copies of its last row, and BLAS runs on
    # one thread. Fewer rows than a block are padded to a power of two: one row costs one row.
    block_rows = min(_BLOCK_ROWS, 1 << max(len(X) - 1, 0).bit_length())
    with on_one_thread("blas"):
        blocks = [
            function(select_rows(X, np.minimum(np.arange(start, start + block_rows), len(X) - 1)))
            for start in range(0, len(X), block_rows)
        ]
    return np.concatenate(blocks)[: len(X)]


# Relative distance of the threshold below the score of its held-out row: the rounding error of
# sums of some hundred terms.
_THRESHOLD_TOLERANCE = 1e-13


@dataclass(eq=False, repr=False)
class PostHocDetector(OutlierMixin, PostHoc):
    """Out-of-distribution detector of rows that is fitted after a parent.

    ``score_samples`` is higher for more normal rows, ``decision_function`` is ``score_samples``
    minus ``offset_``, the threshold, and ``ood_score`` is minus that: positive for rows out of
    distribution. ``predict`` returns 1 in distribution and -1 out of distribution, as
    scikit-learn's ``OutlierMixin`` requires.

    The threshold is fitted on held-out rows, which the parent has not seen (see
    :class:`~kdgraph.base.PostHoc`). With ``calibration="oob"`` or "cross_fit" no row is held out.
    Scores that are means over trees, or functions of class probabilities, are computed out of bag
    behind a forest with ``bootstrap=True``, and densities by leaving the row out. All other scores
    are those of detectors that are fitted on all folds but one; where these need parents of their
    own, "oob" warns of their cost.

    A subclass implements ``_score(X)``, which returns Float[n] for validated rows, higher for more
    normal ones. It may implement ``_fit_after(train, held_out)`` if the score has parameters to fit
    (``y`` are the labels as passed, or None), ``_fit_parent`` if it needs another parent, and
    ``_default_estimator``. The score of a row depends on no other row beyond rounding (1e-10),
    except in a :class:`~kdgraph.detection.SetDetector`.

    Parameters
    ----------
    target_fpr : float, default=0.05
        Target false positive rate: the fraction of in-distribution rows that may fall below the
        threshold.

    Attributes
    ----------
    offset_ : float
        Threshold of ``score_samples``.
    calibration_scores_ : Float[m]
        Scores of the calibration rows, in increasing order.

    Examples
    --------
    >>> class Magnitude(PostHocDetector):  # minus the largest absolute value, without a parent
    ...     def _default_estimator(self):
    ...         return None
    ...
    ...     def _needs_labels(self):
    ...         return False
    ...
    ...     def _score(self, X):
    ...         return -np.abs(X).max(axis=1)
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    >>> detector = Magnitude(None, target_fpr=0.1, random_state=0).fit(X)
    >>> detector.score_samples([[0.5, 0.0], [3.0, 0.0]]), detector.predict([[0.5, 0.0], [3.0, 0.0]])
    (array([-0.5, -3. ]), array([ 1, -1]))
    """

    _: KW_ONLY
    target_fpr: OpenFraction = 0.05

    def fit(self, X, y=None, *, X_calibration=None, y_calibration=None):
        """Fit the parent, the score and, on held-out rows, the threshold.

        Parameters
        ----------
        X : Float[n, d], images Float[n, c, h, w] or data frame
            Training rows.
        y : array of shape (n,) or None, default=None
            Labels of any type, or targets. None is allowed if nothing requires labels, as with a
            frozen estimator.
        X_calibration : array, data frame or None, default=None
            Rows from the training distribution that the parent has not seen. Pass them after a
            frozen parent.
        y_calibration : array or None, default=None
            Labels of ``X_calibration``. No threshold depends on them.

        Raises
        ------
        TypeError
            If the estimator lacks the method that the score requires.
        ValueError
            If X contains infinity, or NaN that the parent does not support; if required labels are
            missing; if the score has no finite threshold.
        """
        check_parameters(self)
        parent, rng = self._check_parent(), check_random_state(self.random_state)
        if y is None and self._needs_labels():
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; or"
                " freeze a fitted estimator"
            )
        all_rows = Rows.unweighted(*self._validate_rows(X, y, reset=True))
        train, held_out = self._split_rows(all_rows, X_calibration, y_calibration, rng)
        # The parent gets no calibration rows, even if it uses such rows: they belong to the
        # threshold.
        self.estimator_ = self._fit_parent(parent, train, None, rng)
        if self.calibration_ != "held_out":
            held_out = self._leave_out(held_out, parent)
        with skip_row_checks():
            self._fit_after(train, held_out)
            scores = (
                self._held_out_scores(held_out.X, rng)
                if self.calibration_ == "held_out"
                else self._left_out_scores(train, held_out, rng)
            )
        self.calibration_scores_ = np.sort(scores)
        self.offset_ = conformal_offset(scores, self.target_fpr)
        # The threshold is the score of a held-out row. An equal row may be rounded differently in
        # another block, and must not be out of distribution for that reason.
        self.offset_ -= _THRESHOLD_TOLERANCE * abs(self.offset_)
        if not np.isfinite(self.offset_):
            raise ValueError(
                f"{type(self).__name__} has no threshold: the score of too many held-out rows is"
                f" {self.offset_}"
            )
        return self

    def score_samples(self, X) -> np.ndarray:
        """Return Float[n], the scores of the rows; higher is more normal."""
        return self._score(self._validate_X(X))

    def decision_function(self, X) -> np.ndarray:
        """Return Float[n], ``score_samples`` minus the threshold; negative is out."""
        return self.score_samples(X) - self.offset_

    def predict(self, X) -> np.ndarray:
        """Return Int[n], 1 in distribution and -1 out of distribution."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def p_value(self, X) -> np.ndarray:
        """Return Float[n], conformal p-values of being in distribution, small for rows farther out.

        See :func:`~kdgraph.detection.conformal.conformal_p_values`.
        """
        return self.ood_score_and_p_value(X)[1]

    def ood_score_and_p_value(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Return :meth:`ood_score` and :meth:`p_value`, each Float[n], in one pass."""
        score = self.score_samples(X)
        return -(score - self.offset_), conformal_p_values(self.calibration_scores_, score)

    def flag_outliers(self, X, fdr: float = 0.1) -> np.ndarray:
        """Return which rows, Bool[n], are out of distribution at a false discovery rate.

        It depends on all rows of X (:func:`~kdgraph.metrics.benjamini_hochberg`): ``fdr`` is the
        largest expected fraction of rows in distribution among the flagged ones.
        """
        check_value("fdr", fdr, OpenFraction)
        return benjamini_hochberg(self.p_value(X), fdr)

    def fit_predict(self, X, y=None, **held_out) -> np.ndarray:
        """Fit the detector and return Int[n], :meth:`predict` of the training rows.

        Unlike the method of scikit-learn's mixin it passes the labels on, which a parent requires.
        """
        return self.fit(X, y, **held_out).predict(X)

    def ood_score(self, X) -> np.ndarray:
        """Return Float[n], minus ``decision_function``; positive is out of distribution."""
        return -self.decision_function(X)

    def describe(self) -> dict[str, Any]:
        """Return the fitted values for the record."""
        return {"offset": self.offset_}

    def _fit_parent(
        self, parent: Any, train: Rows, calibration: Rows | None, random_state: Any
    ) -> Any:
        if parent is None:
            return None
        return super()._fit_parent(parent, train, calibration, random_state)

    def _score(self, X: Any) -> np.ndarray:
        raise NotImplementedError

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        pass  # most scores have nothing to fit

    def _held_out_scores(self, X: Any, rng: np.random.RandomState) -> np.ndarray:
        """Return the scores, Float[m], of which the threshold is a quantile."""
        return self._score(X)

    def _hold_out(self, rows: Rows, seed: int) -> tuple[np.ndarray, np.ndarray]:
        # Labels are of any kind. Rows are drawn alike, and by class if one would lose its last
        # training row, which a classifier needs.
        train, held_out = super()._hold_out(rows, seed)
        parent = unwrap_frozen(self._default_estimator())
        if rows.y is None or parent is None or not is_classifier(parent):
            return train, held_out
        strata = np.unique(rows.y, return_inverse=True)[1]
        n_classes = strata.max() + 1
        # Where all labels differ, they are no classes.
        if len(np.unique(strata[train])) == n_classes or n_classes == len(rows):
            return train, held_out
        return hold_rows_out(len(rows), strata, self.calibration_size, seed)

    def _leave_out(self, rows: Rows, parent: Any) -> Rows:
        return self._add_unseen_outputs(rows, parent, always=True)

    def _left_out_scores(
        self, train: Rows, held_out: Rows, rng: np.random.RandomState
    ) -> np.ndarray:
        """Return scores of training rows, Float[m], each by what was fitted without the row.

        ``held_out`` are the training rows with outputs of the parents of their folds, or out-of-bag
        outputs.
        """
        if self._unseen_source() == "oob":
            return self._out_of_bag_scores(train, held_out)
        # The whole detector is fitted once for each fold: its score may depend on the training rows
        # in other ways than through the parent.
        source, scores = unseen_rows(held_out).source, []
        fold = source.fold[unseen_rows(held_out).positions]
        for f, parent in enumerate(source.fold_estimators):
            detector = copy.copy(self)
            detector.estimator_ = parent
            fold_rows, others = held_out[fold == f], train[source.fold != f]
            detector._fit_after(others, replace(fold_rows, unseen=None))
            of_fold = detector._held_out_scores(fold_rows.X, rng)
            scores.append(self._scores_of_more_rows(of_fold, train, detector, others))
            self._keep_of_fold(detector)
        return np.concatenate(scores)

    def _scores_of_more_rows(
        self, scores: np.ndarray, train: Rows, detector: PostHocDetector, others: Rows
    ) -> np.ndarray:
        """Return scores, Float[m], by the detector of a fold as numbers of this one.

        Some scores depend on the number of rows: those of ``train``, and of ``others`` in the fold.
        """
        return scores

    def _keep_of_fold(self, detector: PostHocDetector) -> None:
        pass

    def takes_out_of_bag_outputs(self) -> bool:
        return False

    def _unseen_source(self) -> CalibrationMode:
        goes_out_of_bag = self.calibration_ == "oob" and self._scores_out_of_bag()
        return "oob" if goes_out_of_bag else "cross_fit"

    def _scores_out_of_bag(self) -> bool:
        """Return whether training rows are scored by the trees that they are out of bag in.

        Only some scores are means over trees. The others need parents of folds.
        """
        has_scores = type(self)._out_of_bag_scores is not PostHocDetector._out_of_bag_scores
        return has_scores and is_bagged(self.estimator_)

    def _out_of_bag_scores(self, train: Rows, held_out: Rows) -> np.ndarray:
        """Return scores, Float[m], of training rows by the trees that they are out of bag in."""
        raise NotImplementedError

    def _requires_training_rows(self) -> bool:
        return True

    def _needs_labels(self) -> bool:
        return not isinstance(self.estimator, FrozenEstimator)

    def _validate_calibration_rows(self, X: Any, y: Any) -> Rows:
        return (
            Rows.unweighted(self._validate_rows(X)[0])
            if y is None
            else super()._validate_calibration_rows(X, y)
        )


# Bound of all scores, so that sums of two scores are finite.
_MAX_SCORE = float(np.finfo(np.float64).max) / 4
# Relative to the largest number. A smaller spread is the rounding error of a constant.
_MIN_RELATIVE_SPREAD = 1e-14


@dataclass(eq=False, repr=False)
class FeatureDetector(PostHocDetector):
    """Base class of detectors that compare features of a row with those of the training rows.

    A subclass implements ``_fit_features(features, train, rng)`` for training rows, and
    ``_score_features(features)``, which returns Float[n], higher for more normal rows. It gets
    blocks of one size (:func:`~kdgraph.detection.base.apply_in_fixed_blocks`), so no row changes
    the score of another beyond rounding (1e-10). Features are finite and up to 1.8e308; scores are
    clipped at a quarter of that.

    Parameters
    ----------
    estimator : estimator or None, default=None
        Parent. With None there is no parent, and the features are the rows.
    features : FeatureMap or None, default=None
        Features that are compared, see :class:`~kdgraph.features.FeatureMap`. None selects the
        inputs of the last linear layer of a network, or the features of precomputed scores,
        unchanged. If there is no such layer, it selects the rows after the transformers of the
        parent, each column divided by its range over the training rows, since columns have
        different units: the distance to the fifth neighbour separates wine from uniform noise with
        an AUROC of .989 in ranges and .79 without. ``FeatureMap(source="rows", reduce="none",
        scale="none")`` keeps the units.

    Attributes
    ----------
    feature_map_ : FeatureMap
        Fitted feature map.
    scale_ : Float[m]
        Divisors of the features: ranges of columns, or 1.
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

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        rng = check_random_state(self.random_state)
        unfitted = self._default_feature_map(train.X) if self.features is None else self.features
        self.feature_map_ = seeded_clone(unfitted, rng)
        # The order of sums depends on the number of BLAS threads.
        with on_one_thread("blas"):
            self.feature_map_.fit(self.estimator_, train.X)
            features = apply_in_fixed_blocks(train.X, self._raw_features)
            scale_columns = self.features is None and self.feature_map_.source == "rows"
            self.scale_ = _column_ranges(features) if scale_columns else np.ones(features.shape[1])
            self._fit_features(features / self.scale_, train, rng)

    def _fit_fold_parents(self, rows: Rows, parent: Any, fold: np.ndarray) -> Sequence[Any]:
        # Rows that no transformer changes are the same features behind every parent.
        features = self._default_feature_map(rows.X) if self.features is None else self.features
        if features.source == "rows" and not has_transformer_steps(parent):
            return [self.estimator_] * (int(fold.max()) + 1)
        return super()._fit_fold_parents(rows, parent, fold)

    def _default_feature_map(self, X: Any) -> FeatureMap:
        # A layer of the network or precomputed scores, else the rows.
        source: FeatureSource = "layer"
        try:
            features_of(self.estimator_, select_rows(X, slice(0, 1)), source)
        except (TypeError, ValueError):
            source = "rows"
        return FeatureMap(source=source, reduce="none", scale="none")

    def _scaled_features(self, X: Any) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.nan_to_num(self._raw_features(X) / self.scale_)

    def _raw_features(self, X: Any) -> np.ndarray:
        # Reductions overflow for rows with numbers beyond the root of the largest float.
        with np.errstate(over="ignore", invalid="ignore"):
            features = self.feature_map_.transform(self.estimator_, X)
        return np.nan_to_num(features, nan=np.finfo(np.float64).max)

    def _score(self, X: Any) -> np.ndarray:
        return apply_in_fixed_blocks(X, self._score_block)

    def _score_block(self, X: Any) -> np.ndarray:
        return clip_scores(self._score_features(self._scaled_features(X)))


def _column_ranges(features: np.ndarray) -> np.ndarray:
    """Return Float[m], the range of each column; a constant column gets the mean of the others."""
    low, high = features.min(axis=0), features.max(axis=0)
    ranges = np.minimum(high / 2 - low / 2, np.finfo(np.float64).max / 2) * 2
    varies = ranges > _MIN_RELATIVE_SPREAD * np.maximum(np.abs(low), np.abs(high))
    return np.where(varies, ranges, ranges[varies].mean() if varies.any() else 1.0)


def clip_scores(score: np.ndarray) -> np.ndarray:
    """Return Float[n], scores clipped to finite bounds; NaN becomes the lower bound."""
    return np.clip(np.nan_to_num(score, nan=-_MAX_SCORE), -_MAX_SCORE, _MAX_SCORE)


def scale_into_range(features: np.ndarray, limit: float) -> tuple[np.ndarray, np.ndarray]:
    """Return rows scaled into ±``limit``, so that squares are finite, and divisors, Float[n]."""
    largest = np.maximum(features.max(axis=1), -features.min(axis=1))
    factor = np.maximum(largest / limit, 1.0)
    return features / factor[:, None], factor
