"""Tests of scores of probabilities by hand and against scipy, for any classifier."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import entropy
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

from kdgraph.detection import Entropy, MaxProbability
from kdgraph.parents import PrecomputedScores, column_encoder

PROBA = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])


def scores_of_proba(kind, proba: np.ndarray) -> np.ndarray:
    """Return the scores of rows that are probabilities."""
    return (
        kind(FrozenEstimator(PrecomputedScores().fit(proba)))
        .fit(proba, X_calibration=proba)
        .score_samples(proba)
    )


def test_scores_equal_a_hand_calculation():
    np.testing.assert_array_equal(scores_of_proba(MaxProbability, PROBA), [0.5, 1.0, 1 / 3])
    expected = [0.2 * np.log(0.2) + 0.5 * np.log(0.5) + 0.3 * np.log(0.3), 0.0, -np.log(3)]
    np.testing.assert_allclose(scores_of_proba(Entropy, PROBA), expected, rtol=0, atol=1e-15)


@settings(max_examples=20, deadline=None)
@given(
    arrays(np.float64, (5, 4), elements=st.floats(0, 1)).filter(
        lambda a: (a.sum(axis=1) > 0.01).all()
    )
)
def test_entropy_agrees_with_scipy(weights):
    proba = weights / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        scores_of_proba(Entropy, proba), -entropy(proba, axis=1), rtol=0, atol=1e-12
    )


def test_both_scores_rank_two_classes_equally():
    p = np.random.default_rng(0).random(200)
    proba = np.column_stack([p, 1 - p])
    np.testing.assert_array_equal(
        *(scores_of_proba(kind, proba).argsort() for kind in (MaxProbability, Entropy))
    )


@pytest.mark.parametrize("kind", [MaxProbability, Entropy])
def test_scores_use_the_probabilities_of_any_classifier(kind, blobs):
    X, y, distant_rows = blobs
    classifier = LogisticRegression(max_iter=500).fit(X[:400], y[:400])
    detector = kind(FrozenEstimator(classifier)).fit(X[:400], X_calibration=X[400:])
    proba = classifier.predict_proba(distant_rows)
    expected = proba.max(axis=1) if kind is MaxProbability else -entropy(proba, axis=1)
    np.testing.assert_allclose(detector.score_samples(distant_rows), expected, rtol=0, atol=1e-12)
    frame = pd.DataFrame(
        {
            "a": X[:, 0],
            "b": np.where(X[:, 1] > 0, "u", "v"),
            "c": np.where(X[:, 2] > 0, np.nan, X[:, 2]),
        }
    )
    parent = make_pipeline(
        column_encoder([False, True, False]), RandomForestClassifier(10, random_state=0)
    )
    encoded = frame.assign(b=(frame["b"] == "u").astype(float))
    detector = kind(parent, random_state=0).fit(encoded, y)
    assert np.isfinite(detector.ood_score(encoded)).all() and detector.describe() == {
        "offset": detector.offset_
    }


def test_rows_between_classes_have_higher_scores():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) + np.where(np.arange(300) % 2, 3.0, -3.0)[:, None]
    for kind in (MaxProbability, Entropy):
        detector = kind(LogisticRegression(), random_state=0).fit(X, np.arange(300) % 2)
        between, within = detector.ood_score([[0.0, 0.0], [3.0, 3.0]])
        assert between > 0 > within


def test_parent_without_probabilities_raises():
    with pytest.raises(
        TypeError, match="MaxProbability needs an estimator with predict_proba, got Ridge"
    ):
        MaxProbability(Ridge()).fit(PROBA, [0, 1, 2])
