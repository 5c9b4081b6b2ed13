"""Tests of the learned sum of forest scores: weights, outliers, and rows near and far."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import load_digits, make_blobs
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdgraph.detection import Entropy, ForestScoreEnsemble, GraphDensity
from kdgraph.detection.score_ensemble import fit_weights, left_out_tails, synthetic_outliers
from kdgraph.geometry.forest import ForestPartition
from kdgraph.metrics import auroc


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    return make_blobs(300, centers=4, n_features=4, cluster_std=2.0, random_state=0)


def small_forest() -> RandomForestClassifier:
    return RandomForestClassifier(40, random_state=0)


@pytest.fixture(scope="module")
def fitted(rows):
    return ForestScoreEnsemble(small_forest(), random_state=0).fit(*rows)


def test_score_is_minus_the_sum_of_contributions(fitted, rows):
    contributions = fitted.contributions(rows[0])
    assert contributions.shape == (300, 4) and (contributions >= 0).all()
    np.testing.assert_allclose(
        fitted.score_samples(rows[0]), -contributions.sum(axis=1), rtol=1e-12
    )
    assert fitted.describe()["weights"] == dict(
        zip(("density", "class_distance", "box", "entropy"), fitted.weights_, strict=True)
    )


def test_held_out_rows_change_the_threshold_only(rows):
    X, y = rows
    first, second = (
        ForestScoreEnsemble(small_forest(), random_state=0).fit(
            X[:200], y[:200], X_calibration=held_out, y_calibration=y[200:]
        )
        for held_out in (X[200:], X[200:] * 2)
    )
    np.testing.assert_array_equal(first.weights_, second.weights_)
    np.testing.assert_array_equal(first.score_samples(X), second.score_samples(X))
    assert first.offset_ > second.offset_


def test_frozen_forest_on_its_own_rows_scores_them_out_of_bag(rows):
    X, y = rows
    held_out = {"X_calibration": X[200:], "y_calibration": y[200:]}
    fitted = ForestScoreEnsemble(small_forest(), random_state=0).fit(X[:200], y[:200], **held_out)
    frozen = FrozenEstimator(small_forest().fit(X[:200], y[:200]))
    detector = ForestScoreEnsemble(frozen, random_state=0).fit(X[:200], y[:200], **held_out)
    np.testing.assert_array_equal(detector.ood_score(X), fitted.ood_score(X))


def test_forest_without_bootstrap_scores_held_out_rows(rows):
    X, y = rows
    held_out = {"X_calibration": X[200:], "y_calibration": y[200:]}
    detector = ForestScoreEnsemble(ExtraTreesClassifier(40, random_state=0), random_state=0).fit(
        X[:200], y[:200], **held_out
    )
    assert len(detector.tails_.sorted_scores) == 100
    assert (detector.ood_score(X + 100.0) > detector.ood_score(X).max()).all()


def test_pipeline_scores_are_those_of_its_forest_on_transformed_rows(rows):
    X, y = rows
    scaler = StandardScaler().fit(X)
    behind = ForestScoreEnsemble(
        make_pipeline(FrozenEstimator(scaler), small_forest()), random_state=0
    ).fit(X, y)
    alone = ForestScoreEnsemble(small_forest(), random_state=0).fit(scaler.transform(X), y)
    np.testing.assert_allclose(
        behind.ood_score(X), alone.ood_score(scaler.transform(X)), rtol=1e-10, atol=1e-10
    )


def test_unknown_labels_are_refused(rows):
    X, y = rows
    forest = FrozenEstimator(small_forest().fit(X[:200], y[:200]))
    with pytest.raises(
        ValueError,
        match=r"^y contains classes that the estimator was not fitted on: \[9\]; pass the rows that"
        " it was fitted on$",
    ):
        ForestScoreEnsemble(forest).fit(
            X[:200], np.where(y == 3, 9, y)[:200], X_calibration=X[200:], y_calibration=y[200:]
        )


def test_weights_minimise_the_pairwise_loss():
    """At a minimum under w ≥ 0 the gradient is 0, and not negative where a weight is 0."""
    rng = np.random.default_rng(0)
    synthetic = [rng.normal([1.0, 0.5, -1.0], size=(200, 3)) for _ in range(3)]
    left_out = [rng.normal([0.0, 2.0, -0.5], size=(100, 3))]
    weights = fit_weights(synthetic, left_out)
    # Ridge of .01 towards .5, see the notes of the class.
    gradient = 0.01 * (weights - 0.5)
    for groups in (synthetic, left_out):
        for group in groups:
            slope = -(expit(-group @ weights)[:, None] * group).mean(axis=0)
            gradient += 0.5 * slope / len(groups)
    assert (weights >= 0).all() and weights[2] == 0 and gradient[2] >= 0
    np.testing.assert_allclose(gradient[:2], 0, atol=1e-6)


def test_synthetic_outliers_are_made_of_training_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 5)), rng.integers(3, size=300)
    permuted, uniform, crossed, blown_up = synthetic_outliers(X, y, rng)
    np.testing.assert_array_equal(np.sort(permuted, axis=0), np.sort(X, axis=0))
    assert (uniform >= X.min(axis=0)).all() and (uniform <= X.max(axis=0)).all()
    source = np.array([[np.flatnonzero(X[:, j] == row[j])[0] for j in range(5)] for row in crossed])
    n_sources = np.array([len(np.unique(s)) for s in source])
    assert n_sources.max() == 2 and (n_sources == 2).mean() > 0.7
    assert all(len(np.unique(y[s])) == n for s, n in zip(source, n_sources, strict=True))
    assert (blown_up.std(axis=0) > 1.2 * X.std(axis=0)).all()


def test_rows_of_a_single_class_are_crossed_with_each_other():
    X = np.random.default_rng(0).normal(size=(50, 3))
    outliers = list(synthetic_outliers(X, np.zeros(50, dtype=int), np.random.default_rng(0)))
    assert [len(rows) for rows in outliers] == [50, 400, 400, 400]


@pytest.mark.parametrize(("n_classes", "n_left_out", "expected"), [(2, 3, 0), (4, 0, 0), (4, 3, 3)])
def test_classes_are_left_out_if_two_remain(rows, n_classes, n_left_out, expected):
    X, y = (part[rows[1] < n_classes] for part in rows)
    partition = ForestPartition(small_forest().fit(X, y))
    groups = list(left_out_tails(partition, X, y, n_left_out, np.random.default_rng(0)))
    assert len(groups) == expected
    # The clusters are far apart, so that a row of another cluster is an outlier.
    assert all(
        auroc(outliers.sum(axis=1), inliers.sum(axis=1)) > 0.9 for outliers, inliers in groups
    )


@pytest.mark.slow
def test_ensemble_detects_as_the_better_of_density_and_entropy():
    """AUROC as a mean over three digits that are left out in turn, for each set of rows."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    X, y = X[order], y[order]
    aurocs = {cls: [] for cls in (ForestScoreEnsemble, GraphDensity, Entropy)}
    for digit in range(3):
        is_left_out, is_first = y == digit, np.arange(len(X)) < 1000
        train, test = ~is_left_out & is_first, ~is_left_out & ~is_first
        ood_sets = (
            X[is_left_out],
            rng.permuted(X[test], axis=0),
            1.5 * X[test] + X.std(axis=0),
            rng.uniform(0, 16, size=(500, 64)),
        )
        for cls, values in aurocs.items():
            parent = RandomForestClassifier(60, random_state=0)
            detector = cls(parent, random_state=0).fit(X[train], y[train])
            scores = detector.ood_score(X[test])
            values.append([auroc(detector.ood_score(rows), scores) for rows in ood_sets])
    means = {cls: np.mean(values, axis=0) for cls, values in aurocs.items()}
    better = np.maximum(means[GraphDensity], means[Entropy])
    assert (means[ForestScoreEnsemble] > better - 0.01).all(), means
    # Left-out digits; the standard error of the difference of such means is about .004.
    assert means[ForestScoreEnsemble][0] > means[GraphDensity][0] + 0.02
