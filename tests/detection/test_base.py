"""Tests of the base class of detectors: signs, threshold, parents, labels, independent rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from kdgraph.density import KernelDensityForest
from kdgraph.detection import MaxProbability, conformal_offset
from kdgraph.errors import ParameterError
from kdgraph.metrics import benjamini_hochberg
from tests.companions import RoundedScores, assert_rows_agree

from .conftest import DistanceToMean, LeastConfident


def forest() -> RandomForestClassifier:
    return RandomForestClassifier(15, random_state=0)


@pytest.fixture(scope="module")
def fitted(blobs):
    X, y, _ = blobs
    return DistanceToMean(target_fpr=0.1, random_state=0).fit(X, y)


def test_scores_and_predictions_have_consistent_signs(fitted, blobs):
    X, _, distant_rows = blobs
    scores, distant_scores = fitted.score_samples(X), fitted.score_samples(distant_rows)
    assert distant_scores.max() < scores.min()
    rows = np.concatenate([X, distant_rows])
    np.testing.assert_array_equal(
        fitted.decision_function(rows), fitted.score_samples(rows) - fitted.offset_
    )
    np.testing.assert_array_equal(fitted.ood_score(rows), -fitted.decision_function(rows))
    np.testing.assert_array_equal(fitted.predict(rows), np.where(fitted.ood_score(rows) > 0, -1, 1))
    assert set(fitted.predict(distant_rows)) == {-1} and fitted.predict(X).mean() > 0.5


def test_score_at_the_threshold_is_in_distribution(fitted):
    fitted = clone(fitted).set_params(target_fpr=0.5).fit(np.arange(20.0)[:, None])
    row_at_threshold = fitted.mean_ + np.array([[fitted.offset_]])
    assert fitted.decision_function(row_at_threshold) == 0 and fitted.predict(row_at_threshold) == 1


def test_no_row_changes_the_score_of_another(fitted, blobs):
    X = np.concatenate([blobs[0][:20], blobs[2][:20]])
    scores = fitted.ood_score(X)
    assert_rows_agree(
        scores, np.concatenate([fitted.ood_score(X[i : i + 1]) for i in range(len(X))])
    )


@pytest.mark.parametrize("target_fpr", [0.02, 0.1, 0.4])
def test_false_positive_rate_is_the_target_on_average(target_fpr):
    """Compare the mean rate over 40 fits with 99 held-out rows with the target.

    The threshold of each fit has a standard deviation of √(α(1 - α)/99).
    """
    rng = np.random.default_rng(0)
    rates = []
    for seed in range(40):
        detector = DistanceToMean(target_fpr=target_fpr, random_state=seed).fit(
            rng.normal(size=(300, 3)), X_calibration=rng.normal(size=(99, 3))
        )
        rates.append((detector.predict(rng.normal(size=(1000, 3))) == -1).mean())
    error = np.sqrt(target_fpr * (1 - target_fpr) / 99 / 40)
    assert abs(np.mean(rates) - target_fpr) < 4 * error


def test_conformal_offset_has_the_expected_rank():
    score = np.arange(99.0)[::-1]
    assert [conformal_offset(score, rate) for rate in (0.5, 0.05, 0.01, 0.001)] == [49, 4, 0, 0]
    assert conformal_offset(np.array([3.0]), 0.05) == 3.0


def test_frozen_parent_is_unchanged_and_needs_no_labels(blobs):
    X, y, distant_rows = blobs
    parent = forest().fit(X[:300], y[:300])
    detector = LeastConfident(FrozenEstimator(parent)).fit(X[:300], X_calibration=X[300:])
    np.testing.assert_array_equal(
        detector.score_samples(distant_rows), parent.predict_proba(distant_rows).max(axis=1)
    )
    cloned = LeastConfident(parent, random_state=0).fit(
        X[:300], y[:300], X_calibration=X[300:], y_calibration=y[300:]
    )
    assert cloned.estimator_ is not parent and cloned.offset_ == detector.offset_
    assert not hasattr(clone(cloned), "estimator_")


@pytest.mark.parametrize(
    "names", [[0, 1, 2], [-1.0, 0.0, 7.0], ["u", "v", "w"], [True, False, True]], ids=str
)
def test_labels_are_of_any_type(blobs, names):
    X, y, distant_rows = blobs
    detector = LeastConfident(forest(), random_state=0).fit(X, np.array(names)[y])
    assert detector.estimator_.classes_.tolist() == sorted(set(names))
    assert detector.ood_score(distant_rows).shape == (200,)


def test_held_out_rows_are_not_in_the_training_rows(blobs):
    X, y, _ = blobs
    fitted_rows = []

    class RecordingDetector(LeastConfident):
        def _fit_after(self, train, calibration):
            fitted_rows.append((train.X, train.y, calibration.X))

    RecordingDetector(forest(), calibration_size=0.25, random_state=0).fit(X, y)
    train_rows, labels, held_out_rows = fitted_rows[0]
    assert (len(train_rows), len(labels), len(held_out_rows)) == (450, 450, 150)
    assert {row.tobytes() for row in train_rows} | {row.tobytes() for row in held_out_rows} == {
        row.tobytes() for row in X
    }
    by_row = {row.tobytes(): label for row, label in zip(X, y, strict=True)}
    assert labels.tolist() == [by_row[row.tobytes()] for row in train_rows]


def test_parent_gets_no_calibration_rows_of_the_threshold(blobs):
    X, y, _ = blobs
    parent = (
        LeastConfident(KernelDensityForest(forest(), calibration="held_out"), random_state=0)
        .fit(X, y, X_calibration=X[:50])
        .estimator_
    )
    # The parent held out 30 % of the 600 rows.
    assert len(parent.graph_.polytopes.polytope_of_row) == 420


def test_missing_values_and_frames_reach_the_parent(blobs):
    X, y, _ = blobs
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    frame = pd.DataFrame(X, columns=list("abcd"))
    parent = make_pipeline(SimpleImputer(), forest())
    scores = [
        LeastConfident(parent, random_state=0).fit(rows, y).ood_score(rows) for rows in (X, frame)
    ]
    np.testing.assert_array_equal(*scores)
    with pytest.raises(ValueError, match="Input X contains infinity"):
        LeastConfident(parent, random_state=0).fit(np.where(np.isnan(X), np.inf, X), y)


def test_calibration_rows_without_labels_or_features_are_refused(blobs):
    X, y, _ = blobs
    with pytest.raises(
        ValueError,
        match="requires y to be passed, but the target y is None; or freeze a fitted estimator",
    ):
        LeastConfident(forest()).fit(X)
    with pytest.raises(ValueError, match="y_calibration needs X_calibration"):
        LeastConfident(forest()).fit(X, y, y_calibration=y)
    with pytest.raises(ParameterError, match=r"target_fpr must be a number in \(0, 1\), got 'all'"):
        LeastConfident(forest(), target_fpr="all").fit(X, y)
    with pytest.raises(ValueError, match="4 features"):
        LeastConfident(forest()).fit(X, y, X_calibration=X[:, :2])
    with pytest.raises(
        TypeError, match="LeastConfident needs an estimator with predict_proba, got LinearSVC"
    ):
        LeastConfident(LinearSVC()).fit(X, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        LeastConfident(forest()).fit(X, y, X_calibration=X, y_calibration=y[:3])

    class InfiniteScore(DistanceToMean):
        def _score(self, X):
            return np.full(len(X), -np.inf)

    with pytest.raises(
        ValueError,
        match="InfiniteScore has no threshold: the score of too many held-out rows is -inf",
    ):
        InfiniteScore().fit(X)


def test_rounded_scores_at_the_threshold_are_in_distribution():
    """Score many rows k/10, up to the last bits, which depend on the position of a row.

    The threshold is then the score of many rows.
    """
    rng = np.random.default_rng(0)
    first = rng.integers(5, 11, 300) / 10
    X, y = np.column_stack([first, 1 - first]), np.arange(300) % 2
    detector = MaxProbability(FrozenEstimator(RoundedScores().fit(X, y)), target_fpr=0.3).fit(
        X, y, X_calibration=X
    )
    threshold = np.round(detector.offset_, 9)
    rows = np.tile([threshold, 1 - threshold], (50, 1))
    assert threshold in first and set(detector.predict(rows)) == {1} == set(
        detector.predict(rows[:1])
    )
    assert (detector.ood_score(rows) <= 0).all()
    assert set(detector.predict(rows - [0.1, -0.1])) == {-1}


def test_flagged_outliers_have_few_false_alarms(fitted, blobs):
    """Unlike the threshold of single rows, a batch without outliers has hardly any."""
    X, _, distant_rows = blobs
    rng = np.random.default_rng(0)
    # 2000 new rows in distribution: rows of the blobs with their own noise.
    inside = X[rng.integers(600, size=2000)] + rng.normal(0, 0.1, (2000, 4))
    rows = np.concatenate([inside, distant_rows])
    flagged = fitted.flag_outliers(rows, fdr=0.1)
    assert flagged[2000:].all()
    assert flagged[:2000].sum() < 0.2 * flagged.sum() < (fitted.predict(inside) == -1).sum()
    np.testing.assert_array_equal(flagged, benjamini_hochberg(fitted.p_value(rows), 0.1))
    score, p_value = fitted.ood_score_and_p_value(rows)
    np.testing.assert_array_equal(score, fitted.ood_score(rows))
    np.testing.assert_array_equal(p_value, fitted.p_value(rows))
    with pytest.raises(ParameterError, match=r"fdr must be in \(0, 1\), got 1"):
        fitted.flag_outliers(rows, fdr=1.0)


def test_p_values_control_the_false_discovery_rate():
    """Over 300 draws of training, held-out and new rows; 3 standard errors."""
    rng, rates = np.random.default_rng(1), []
    for _ in range(300):
        X = rng.normal(size=(300, 2))
        detector = DistanceToMean(random_state=0).fit(X[:100], X_calibration=X[100:])
        rows = np.concatenate([rng.normal(size=(90, 2)), rng.normal(size=(10, 2)) + 4])
        flagged = detector.flag_outliers(rows, fdr=0.2)
        rates.append(flagged[:90].sum() / max(flagged.sum(), 1))
    error = np.std(rates) / np.sqrt(300)
    # Bates et al. 2023, Theorem 2: at most .2 · 90 / 100, which is nearly exhausted.
    assert 0.18 - 0.05 < np.mean(rates) <= 0.18 + 3 * error
