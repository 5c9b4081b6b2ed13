"""Tests of outlier detectors of scikit-learn and of the user, with thresholds from held-out rows."""

from __future__ import annotations

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.covariance import EllipticEnvelope
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from kdgraph.config import compose
from kdgraph.config.components import build
from kdgraph.detection import OutlierEstimator
from kdgraph.features import FeatureMap
from kdgraph.metrics import auroc
from kdgraph.parents.networks import MultilayerPerceptron
from tests.companions import assert_rows_agree

DETECTORS = [
    IsolationForest(n_estimators=30, random_state=0),
    LocalOutlierFactor(n_neighbors=10),
    OneClassSVM(nu=0.2),
    EllipticEnvelope(random_state=0),
]
IDS = [type(detector).__name__ for detector in DETECTORS]

RAW = FeatureMap(source="rows", reduce="none", scale="none")
"""Features that are the rows in their original units."""


class ConstantScore(OutlierMixin, BaseEstimator):
    """Outlier detector of a user, with one score for all rows."""

    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    def fit(self, X, y=None):
        self.n_ = len(X)
        return self

    def score_samples(self, X) -> np.ndarray:
        return np.full(len(X), self.value) if np.isfinite(self.value) else np.full(len(X), -np.inf)


def novelty_clone(detector):
    """Return a clone that can score new rows."""
    return (
        clone(detector).set_params(novelty=True)
        if isinstance(detector, LocalOutlierFactor)
        else clone(detector)
    )


@pytest.mark.parametrize("detector", DETECTORS, ids=IDS)
def test_score_is_that_of_scikit_learn_but_not_the_threshold(blobs, detector):
    X, y, distant_rows = blobs
    wrapper = OutlierEstimator(detector=detector, features=RAW, target_fpr=0.1, random_state=0).fit(
        X[:400], y[:400], X_calibration=X[400:]
    )
    wrapped = novelty_clone(detector).fit(X[:400])
    for rows in (X[400:], distant_rows):
        np.testing.assert_allclose(
            wrapper.score_samples(rows), wrapped.score_samples(rows), rtol=1e-12
        )
    assert wrapper.offset_ == pytest.approx(
        np.sort(wrapper.score_samples(X[400:]))[19], rel=1e-12
    )  # the 20th of 200
    assert auroc(wrapper.ood_score(distant_rows), wrapper.ood_score(X[400:])) > 0.999 and set(
        wrapper.predict(distant_rows)
    ) == {-1}
    assert not hasattr(detector, "n_features_in_")  # the detector was cloned


@pytest.mark.parametrize("detector", DETECTORS, ids=IDS)
def test_rows_are_independent_and_distant_scores_are_finite(blobs, detector):
    X, _, distant_rows = blobs
    wrapper = OutlierEstimator(detector=detector, random_state=0).fit(X)
    rows = np.concatenate(
        [X[:20], *(distant_rows[:2] * scale for scale in (1e3, 1e30, 1e100, 1e306))]
    )
    scores = wrapper.ood_score(rows)
    assert np.isfinite(scores).all() and scores[20:].min() > scores[:20].max() - 1e-9
    assert_rows_agree(
        scores, np.concatenate([wrapper.ood_score(rows[i : i + 1]) for i in range(len(rows))])
    )


def test_only_the_features_of_the_parent_change_the_score(blobs):
    X, y, distant_rows = blobs
    without_parent = OutlierEstimator(random_state=0).fit(X[:400], X_calibration=X[400:])
    assert (
        isinstance(without_parent.detector_, IsolationForest) and without_parent.estimator_ is None
    )
    with_parent = OutlierEstimator(
        FrozenEstimator(LogisticRegression(max_iter=500).fit(X, y)), random_state=0
    )
    np.testing.assert_array_equal(
        with_parent.fit(X[:400], y[:400], X_calibration=X[400:]).ood_score(distant_rows),
        without_parent.ood_score(distant_rows),
    )
    network = MultilayerPerceptron(
        hidden=(8,), learning_rate=0.02, max_epochs=4, device="cpu", random_state=0
    ).fit(X, y)
    lof = OutlierEstimator(FrozenEstimator(network), detector=LocalOutlierFactor()).fit(
        X[:400], X_calibration=X[400:]
    )
    layer = [network.transform(rows).astype(np.float64) for rows in (X[:400], distant_rows)]
    expected = LocalOutlierFactor(novelty=True).fit(layer[0]).score_samples(layer[1])
    np.testing.assert_allclose(lof.score_samples(distant_rows), expected, rtol=1e-9)
    pipeline = FrozenEstimator(
        make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)).fit(X, y)
    )
    svm = OutlierEstimator(pipeline, detector=OneClassSVM(), features=RAW).fit(
        X[:400], X_calibration=X[400:]
    )
    scale = pipeline.estimator[0].transform
    np.testing.assert_allclose(
        svm.score_samples(X), OneClassSVM().fit(scale(X[:400])).score_samples(scale(X)), rtol=1e-12
    )
    reduced = OutlierEstimator(
        features=FeatureMap(source="rows", dimensions=2), random_state=0
    ).fit(X)
    assert reduced.detector_.n_features_in_ == 2


def test_detector_without_seed_gets_one(blobs):
    X, _, distant_rows = blobs
    scores = [
        OutlierEstimator(detector=IsolationForest(n_estimators=10), random_state=seed)
        .fit(X)
        .ood_score(distant_rows)
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert not np.array_equal(scores[0], scores[2])


def test_number_of_joblib_threads_changes_no_bit(blobs):
    X, _, distant_rows = blobs
    wrapper = OutlierEstimator(
        detector=IsolationForest(n_estimators=40, n_jobs=2), random_state=0
    ).fit(X)
    expected = wrapper.score_samples(distant_rows)
    with parallel_config(backend="threading", n_jobs=4):
        for _ in range(3):
            np.testing.assert_array_equal(wrapper.score_samples(distant_rows), expected)


def test_user_defined_and_frozen_detectors(blobs):
    X, _, _ = blobs
    wrapper = OutlierEstimator(detector=ConstantScore(2.0), random_state=0).fit(X)
    assert (
        wrapper.offset_ == pytest.approx(2.0, rel=1e-12)
        and set(wrapper.predict(X)) == {1}
        and wrapper.detector_.n_ == 420
    )
    lof = LocalOutlierFactor(novelty=True).fit(X[:50])
    frozen = OutlierEstimator(detector=FrozenEstimator(lof), features=RAW, random_state=0).fit(X)
    assert_rows_agree(
        frozen.score_samples(X[:1]), lof.score_samples(np.repeat(X[:1], 256, axis=0))[:1]
    )
    # Scores of -inf are clipped.
    clipped = OutlierEstimator(detector=ConstantScore(np.nan), random_state=0).fit(X)
    assert np.isfinite(clipped.ood_score(X)).all()


@pytest.mark.parametrize("invalid", [LogisticRegression(), 5, "lof"], ids=repr)
def test_invalid_detector_raises(blobs, invalid):
    with pytest.raises(
        TypeError,
        match=(
            "detector must be an outlier detector of scikit-learn's kind, with fit and"
            " score_samples, got"
        ),
    ):
        OutlierEstimator(detector=invalid).fit(blobs[0])


@pytest.mark.parametrize(
    ("name", "option", "kind"),
    [
        ("isolation_forest", "n_estimators=7", IsolationForest),
        ("lof", "n_neighbors=7", LocalOutlierFactor),
        ("ocsvm", "nu=0.25", OneClassSVM),
    ],
)
def test_command_line_options_reach_the_detector(name, option, kind):
    node = compose([f"method={name}", f"detector.detector.{option}"]).detector
    inner = build(node, estimator=None, random_state=3, n_jobs=2).detector
    key, _, value = option.partition("=")
    assert isinstance(inner, kind) and getattr(inner, key) == float(value)
