"""Tests of the gate whose weight is an out-of-distribution score, against its formula."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

from kdgraph import KernelDensityForest
from kdgraph.calibration import ScoreMap
from kdgraph.config import check, compose
from kdgraph.detection import (
    ForestScoreEnsemble,
    GraphDensity,
    KthNeighbourDistance,
    Mahalanobis,
    MaxProbability,
    ScoreGate,
    TreeHamming,
    conformal_p_values,
)
from kdgraph.errors import ConfigError, ParameterError
from kdgraph.metrics import auroc
from tests.variations import others_slow

WAYS = ["held_out", "oob", "cross_fit"]


def small_forest() -> RandomForestClassifier:
    return RandomForestClassifier(40, random_state=0)


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    return make_blobs(400, centers=5, n_features=4, cluster_std=1.5, random_state=1)


@pytest.mark.parametrize("way", WAYS)
def test_probabilities_are_blended_by_the_tail_probability(rows, way):
    X, y = rows
    gate = ScoreGate(
        ScoreMap(small_forest()), detector=GraphDensity(None), calibration=way, cv=3, random_state=0
    ).fit(X, y)
    assert gate.detector_.calibration_ == gate.estimator_.calibration_ == way
    X_new = np.concatenate([X[:50], X[:50] * 3, X[:50] + 100])
    score, scores = gate.detector_.score_samples(X_new), gate.detector_.calibration_scores_
    # Exponential tail beyond the lowest tenth of the scores, by hand.
    start = np.quantile(scores, 0.1)
    mean_excess = (start - scores)[scores < start].mean()
    beyond = 0.1 * np.exp(-(start - score) / mean_excess)
    threshold = 0.1 * np.exp(
        -(start - np.sort(scores)[max(int((len(scores) + 1) * 0.01), 1) - 1]) / mean_excess
    )
    if (len(scores) + 1) * 0.01 >= 1:
        weight = np.where(score < start, np.minimum(1, beyond / threshold), 1)
        weight = np.maximum(weight, 1e-9)[:, None]
        expected = weight * gate.estimator_.predict_proba(X_new) + (1 - weight) * gate.prior_
        np.testing.assert_allclose(gate.predict_proba(X_new), expected, rtol=1e-9)
    np.testing.assert_allclose(
        gate.predict_proba(X_new[100:]), np.tile(gate.prior_, (50, 1)), atol=1e-6
    )
    proba, ood_score = gate.proba_and_ood_score(X_new)
    np.testing.assert_array_equal(proba, gate.predict_proba(X_new))
    np.testing.assert_array_equal(ood_score, gate.ood_score(X_new))
    is_inside = ood_score <= 0
    np.testing.assert_array_equal(proba[is_inside], gate.estimator_.predict_proba(X_new)[is_inside])


@pytest.mark.parametrize("way", others_slow(WAYS))
def test_about_a_fraction_alpha_of_new_rows_changes(way):
    X, y = make_blobs(3400, centers=3, n_features=3, cluster_std=2.0, random_state=0)
    gate = ScoreGate(small_forest(), alpha=0.1, calibration=way, cv=3, random_state=0)
    gate.fit(X[:400], y[:400])
    fraction = (gate.ood_score(X[400:]) > 0).mean()
    # The fraction given m = 120 or 400 calibration rows is Beta(.1·m, .9·m): standard deviation .027
    # for 120 rows. The bounds are 3 of them.
    assert 0.02 < fraction < 0.18


def test_a_new_class_between_the_known_ones_loses_confidence(rows):
    X, y = rows
    known = y != 2
    model = KernelDensityForest(small_forest(), random_state=0)
    gate = ScoreGate(model, alpha=0.05, calibration="oob", random_state=0).fit(X[known], y[known])
    new = X[~known]
    before, after = gate.estimator_.predict_proba(new), gate.predict_proba(new)
    assert after.max(axis=1).mean() < before.max(axis=1).mean() - 0.05
    assert auroc(gate.ood_score(new), gate.ood_score(X[known])) > 0.7


def test_the_detector_is_fitted_after_the_innermost_parent(rows):
    X, y = rows
    forest = small_forest().fit(X, y)
    model = KernelDensityForest(FrozenEstimator(forest), random_state=0).fit(X, y)
    gate = ScoreGate(FrozenEstimator(model), calibration="oob", random_state=0).fit(X, y)
    expected = ForestScoreEnsemble(FrozenEstimator(forest), calibration="oob", random_state=0).fit(
        X, y
    )
    assert gate.detector_.estimator_.estimator is forest
    assert len(gate.detector_.calibration_scores_) == len(expected.calibration_scores_) == 400


def test_detector_with_its_own_parent_gates_any_classifier(rows):
    X, y = rows
    detector = ForestScoreEnsemble(small_forest())
    gate = ScoreGate(GaussianNB(), detector=detector, random_state=0).fit(X, y)
    assert isinstance(gate.detector_.estimator_, RandomForestClassifier)
    assert not hasattr(detector, "estimator_"), "the detector that was passed must stay unfitted"


@pytest.mark.parametrize(
    ("detector", "message"),
    [
        (TreeHamming(None), "detector of single rows, got TreeHamming"),
        (small_forest(), "got RandomForestClassifier"),
    ],
)
def test_detectors_of_sets_and_others_are_refused(rows, detector, message):
    with pytest.raises(TypeError, match=message):
        ScoreGate(small_forest(), detector=detector).fit(*rows)


def test_parents_without_the_partition_of_the_detector_are_refused(rows):
    with pytest.raises(TypeError, match="forest"):
        ScoreGate(GaussianNB()).fit(*rows)
    with pytest.raises(ConfigError, match="gate=score needs the partition of a forest"):
        check(compose(["dataset=moons", "method=network_isotonic", "gate=score"]))
    with pytest.raises(ParameterError, match="alpha"):
        ScoreGate(small_forest(), alpha=1.0).fit(*rows)


@pytest.mark.parametrize(
    "detector", [KthNeighbourDistance(None), Mahalanobis(None), MaxProbability(None)]
)
def test_any_detector_gates_a_forest_without_bootstrap(rows, detector):
    X, y = rows
    forest = ExtraTreesClassifier(20, random_state=0)
    gate = ScoreGate(forest, detector=detector, random_state=0).fit(X, y)
    assert np.allclose(gate.predict_proba(X).sum(axis=1), 1)


@pytest.mark.parametrize("way", WAYS)
def test_p_values_of_detectors_are_about_uniform(way):
    X, y = make_blobs(2400, centers=3, n_features=3, cluster_std=2.0, random_state=0)
    detector = GraphDensity(small_forest(), calibration=way, cv=3, random_state=0)
    p = detector.fit(X[:400], y[:400]).p_value(X[400:])
    assert p.min() > 0 and p.max() <= 1
    # 120 or 400 calibration rows: the largest distance of their distribution function is below
    # 1.63/√120 = .15 with probability .99 (Kolmogorov).
    assert np.abs(np.sort(p) - np.arange(1, 2001) / 2000).max() < 0.15


@given(
    st.lists(st.integers(-5, 5), min_size=1, max_size=30),
    st.lists(st.integers(-6, 6), min_size=1, max_size=10),
)
@settings(max_examples=50)
def test_conformal_p_values_count_calibration_scores(calibration, scores):
    p = conformal_p_values(np.sort(np.array(calibration, float)), np.array(scores, float))
    expected = [(1 + sum(c <= s for c in calibration)) / (len(calibration) + 1) for s in scores]
    np.testing.assert_allclose(p, expected, rtol=1e-15)
