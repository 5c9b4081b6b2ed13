"""Tests of leaf boxes against decision paths of trees, of explanations, and of any forest."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from kdgraph.detection import LeafBox, LeafOccupancy
from kdgraph.metrics import auroc
from kdgraph.parents import column_encoder

ROUNDING = 1e-12
"""Tolerance of means over trees and features in another order."""


@pytest.fixture(scope="module")
def parent(blobs):
    return RandomForestClassifier(12, random_state=0).fit(blobs[0][:400], blobs[1][:400])


@pytest.fixture(scope="module")
def fitted(blobs, parent):
    return LeafBox(FrozenEstimator(parent)).fit(blobs[0][:400], X_calibration=blobs[0][400:])


def outside_shares(forest, train: np.ndarray, x: np.ndarray, min_samples: int) -> np.ndarray:
    """Return Float[d], the fraction of trees whose box does not contain ``x``."""
    train, x = train.astype(np.float32), x.astype(np.float32)
    outside = np.zeros(len(x))
    for tree in forest.estimators_:
        shares_node = (
            tree.decision_path(train)
            .toarray()
            .astype(bool)[:, np.sort(tree.decision_path(x[None]).indices)]
        )
        box_node = np.flatnonzero(shares_node.sum(axis=0) >= min_samples)[-1]
        box_rows = train[shares_node[:, box_node]]
        outside += (x < box_rows.min(axis=0)) | (x > box_rows.max(axis=0))
    return outside / len(forest.estimators_)


@pytest.mark.parametrize("min_samples", [1, 5])
def test_score_is_minus_the_mean_outside_share(blobs, parent, min_samples):
    X, _, distant_rows = blobs
    detector = LeafBox(FrozenEstimator(parent), min_samples=min_samples).fit(
        X[:400], X_calibration=X[400:]
    )
    assert detector.estimator_.estimator is parent
    rows = np.concatenate([X[400:430], (X[400:410] + distant_rows[:10]) / 2, distant_rows[:3]])
    expected = np.array([outside_shares(parent, X[:400], x, min_samples) for x in rows])
    np.testing.assert_allclose(detector.explain(rows), expected, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(
        detector.score_samples(rows), -expected.mean(axis=1), rtol=0, atol=ROUNDING
    )
    assert 0 < expected[:30].mean() < 0.5 and (expected[-3:] == 1).all()


def test_explanation_identifies_the_shifted_feature(blobs, fitted):
    """Shift one feature at a time; other features may change too, since the leaves change."""
    X = blobs[0][400:450]
    for j in range(X.shape[1]):
        shifted = X.copy()
        shifted[:, j] += 60
        explanation = fitted.explain(shifted)
        assert (explanation[:, j] == 1).all() and np.delete(explanation, j, axis=1).mean() < 0.4
        assert auroc(fitted.ood_score(shifted), fitted.ood_score(X)) > 0.9


def test_distance_orders_rows_outside_of_all_boxes(blobs, parent):
    X, _, distant_rows = blobs
    rows = distant_rows[0] * np.array([1, 2, 10, 1e6, 1e30])[:, None]
    share_scores = (
        LeafBox(FrozenEstimator(parent)).fit(X[:400], X_calibration=X[400:]).score_samples(rows)
    )
    np.testing.assert_array_equal(share_scores, -np.ones(5))
    distance_detector = LeafBox(FrozenEstimator(parent), measure="distance").fit(
        X[:400], X_calibration=X[400:]
    )
    assert (np.diff(distance_detector.ood_score(rows)) > 0).all()
    np.testing.assert_allclose(
        distance_detector.score_samples(rows),
        -distance_detector.explain(rows).mean(axis=1),
        rtol=ROUNDING,
    )
    assert np.isfinite(distance_detector.score_samples(distant_rows[:1] * 1e200)).all()


def test_scores_are_independent_of_units(blobs):
    """Rescale by powers of two, without rounding; a tree with all features splits equally."""
    X, y, distant_rows = blobs
    factors = np.array([1.0, 1024.0, 1 / 64, 2.0])
    for measure in ("fraction", "distance"):
        scores = []
        for scale in (1.0, factors):
            detector = LeafBox(
                DecisionTreeClassifier(random_state=0), measure=measure, random_state=0
            ).fit(X * scale, y)
            scores.append(detector.ood_score(np.concatenate([X, distant_rows]) * scale))
        # Thresholds halfway between rows are rounded to float32.
        np.testing.assert_allclose(*scores, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("detector", [LeafBox, LeafOccupancy])
@pytest.mark.parametrize(
    "estimator", [RandomForestRegressor(5), DecisionTreeClassifier(), None], ids=str
)
def test_any_forest_or_tree_is_supported(blobs, detector, estimator):
    X, y, distant_rows = blobs
    fitted = detector(estimator, random_state=0).fit(X[:300], y[:300])
    assert np.isfinite(fitted.ood_score(np.concatenate([X, distant_rows]))).all()
    if detector is LeafBox:
        assert auroc(fitted.ood_score(distant_rows), fitted.ood_score(X[300:])) == 1


@pytest.mark.parametrize("detector", [LeafBox, LeafOccupancy])
def test_uninformative_labels(blobs, detector):
    X, y, distant_rows = blobs
    forest = ExtraTreesClassifier(10, random_state=0)
    unlabelled = detector(forest, labels="none", random_state=0).fit(X[:300])
    np.testing.assert_array_equal(
        unlabelled.ood_score(X),
        detector(forest, labels="none", random_state=0).fit(X[:300], y[:300]).ood_score(X),
    )
    shuffled = detector(forest, labels="shuffled", random_state=0).fit(X[:300], y[:300])
    assert set(shuffled.estimator_.classes_) == set(y) and set(unlabelled.estimator_.classes_) == {
        0,
        1,
    }
    with pytest.raises(
        ValueError,
        match=f"{detector.__name__} requires y to be passed, but the target y is None; or freeze",
    ):
        detector(forest).fit(X)
    if detector is LeafBox:
        assert auroc(unlabelled.ood_score(distant_rows), unlabelled.ood_score(X[300:])) == 1


@pytest.mark.filterwarnings("ignore:.*X_calibration=")  # the parent may have seen these rows
def test_explained_names_of_frames_and_pipelines(blobs, fitted):
    X, y, _ = blobs
    forest = ExtraTreesClassifier(5, random_state=0)
    assert fitted.explained_feature_names().tolist() == ["x0", "x1", "x2", "x3"]
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.array(["u", "v", "w"])[y])
    assert LeafBox(forest).fit(frame[["a", "b"]], y).explained_feature_names().tolist() == [
        "a",
        "b",
    ]
    frame_codes = frame.assign(kind=y.astype(float))
    encoded = make_pipeline(column_encoder([False, False, False, False, True]), clone(forest))
    for estimator in (encoded, FrozenEstimator(clone(encoded).fit(frame_codes, y))):
        detector = LeafBox(estimator).fit(frame_codes, y)
        explanation = detector.explain(frame_codes.iloc[:7])
        assert (
            explanation.shape == (7, len(detector.explained_feature_names()))
            and len(detector.explained_feature_names()) >= 5
        )
    scaled = LeafBox(make_pipeline(StandardScaler(), forest)).fit(frame[["a", "b"]], y)
    assert scaled.explained_feature_names().tolist() == ["a", "b"]
    nameless = LeafBox(make_pipeline(FunctionTransformer(np.square), forest)).fit(X, y)
    assert nameless.explained_feature_names().tolist() == ["x0", "x1", "x2", "x3"]


def test_missing_values_if_the_forest_supports_them(blobs):
    X, y, distant_rows = blobs
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    detector = LeafBox(RandomForestClassifier(10, random_state=0), random_state=0).fit(X, y)
    assert auroc(detector.ood_score(distant_rows), detector.ood_score(X)) == 1
    assert not detector.explain(np.full((1, 4), np.nan)).any()


@pytest.mark.filterwarnings("ignore:.*X_calibration=")  # the parent may have seen these rows
def test_network_raises(blobs):
    from kdgraph.parents.networks import MultilayerPerceptron

    X, y, _ = blobs
    network = MultilayerPerceptron(
        hidden=(4,), max_epochs=1, patience=None, device="cpu", random_state=0
    ).fit(X, y)
    for detector in (LeafBox, LeafOccupancy):
        message = "needs a forest, a tree or boosted trees, or a pipeline that ends in them, got a network"
        with pytest.raises(TypeError, match=f"{detector.__name__} {message}"):
            detector(FrozenEstimator(network)).fit(X, y)
