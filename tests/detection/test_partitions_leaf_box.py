"""The leaf box: its score by the trees' own decision paths, what it explains, and any forest as it
is.
"""

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
"""Means over trees and over features are taken in another order."""


@pytest.fixture(scope="module")
def parent(blobs):
    return RandomForestClassifier(12, random_state=0).fit(blobs[0][:400], blobs[1][:400])


@pytest.fixture(scope="module")
def fitted(blobs, parent):
    return LeafBox(FrozenEstimator(parent)).fit(blobs[0][:400], X_calibration=blobs[0][400:])


def by_hand(forest, train: np.ndarray, x: np.ndarray, min_samples: int) -> np.ndarray:
    """Float[d]: share of trees whose box ``x`` leaves, by masks of rows that share a node."""
    train, x = train.astype(np.float32), x.astype(np.float32)
    outside = np.zeros(len(x))
    for tree in forest.estimators_:
        passed = (
            tree.decision_path(train)
            .toarray()
            .astype(bool)[:, np.sort(tree.decision_path(x[None]).indices)]
        )
        last = np.flatnonzero(passed.sum(axis=0) >= min_samples)[-1]
        inside = train[passed[:, last]]
        outside += (x < inside.min(axis=0)) | (x > inside.max(axis=0))
    return outside / len(forest.estimators_)


@pytest.mark.parametrize("min_samples", [1, 5])
def test_score_is_minus_the_mean_fraction_of_features_outside(blobs, parent, min_samples):
    X, _, distant = blobs
    detector = LeafBox(FrozenEstimator(parent), min_samples=min_samples).fit(
        X[:400], X_calibration=X[400:]
    )
    assert detector.estimator_.estimator is parent
    rows = np.concatenate([X[400:430], (X[400:410] + distant[:10]) / 2, distant[:3]])
    expected = np.array([by_hand(parent, X[:400], x, min_samples) for x in rows])
    np.testing.assert_allclose(detector.explain(rows), expected, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(
        detector.score_samples(rows), -expected.mean(axis=1), rtol=0, atol=ROUNDING
    )
    assert 0 < expected[:30].mean() < 0.5 and (expected[-3:] == 1).all()


def test_explanation_names_the_changed_features(blobs, fitted):
    """One feature of a test row at a time goes far out; of the others fewer may be outside, for the
    row gets other leaves.
    """
    X = blobs[0][400:450]
    for j in range(X.shape[1]):
        moved = X.copy()
        moved[:, j] += 60
        result = fitted.explain(moved)
        assert (result[:, j] == 1).all() and np.delete(result, j, axis=1).mean() < 0.4
        assert auroc(fitted.ood_score(moved), fitted.ood_score(X)) > 0.9


def test_distances_order_rows_that_are_outside_in_all_features(blobs, parent):
    X, _, distant = blobs
    rows = distant[0] * np.array([1, 2, 10, 1e6, 1e30])[:, None]
    share = LeafBox(FrozenEstimator(parent)).fit(X[:400], X_calibration=X[400:]).score_samples(rows)
    np.testing.assert_array_equal(share, -np.ones(5))
    distance = LeafBox(FrozenEstimator(parent), measure="distance").fit(
        X[:400], X_calibration=X[400:]
    )
    assert (np.diff(distance.ood_score(rows)) > 0).all()
    np.testing.assert_allclose(
        distance.score_samples(rows), -distance.explain(rows).mean(axis=1), rtol=ROUNDING
    )
    assert np.isfinite(distance.score_samples(distant[:1] * 1e200)).all()


def test_units_of_features_do_not_matter_to_either(blobs):
    """By powers of two, which round nothing; trees that look at all features choose alike."""
    X, y, distant = blobs
    unit = np.array([1.0, 1024.0, 1 / 64, 2.0])
    for measure in ("fraction", "distance"):
        scores = []
        for scale in (1.0, unit):
            detector = LeafBox(
                DecisionTreeClassifier(random_state=0), measure=measure, random_state=0
            ).fit(X * scale, y)
            scores.append(detector.ood_score(np.concatenate([X, distant]) * scale))
        np.testing.assert_allclose(
            *scores, rtol=1e-6, atol=1e-12
        )  # thresholds halfway between rows are rounded to float32


@pytest.mark.parametrize("detector", [LeafBox, LeafOccupancy])
@pytest.mark.parametrize(
    "estimator", [RandomForestRegressor(5), DecisionTreeClassifier(), None], ids=str
)
def test_any_forest_or_tree(blobs, detector, estimator):
    X, y, distant = blobs
    fitted = detector(estimator, random_state=0).fit(X[:300], y[:300])
    assert np.isfinite(fitted.ood_score(np.concatenate([X, distant]))).all()
    if detector is LeafBox:
        assert auroc(fitted.ood_score(distant), fitted.ood_score(X[300:])) == 1


@pytest.mark.parametrize("detector", [LeafBox, LeafOccupancy])
def test_labels_none_and_shuffled_do_not_use_the_labels(blobs, detector):
    X, y, distant = blobs
    forest = ExtraTreesClassifier(10, random_state=0)
    without = detector(forest, labels="none", random_state=0).fit(X[:300])
    np.testing.assert_array_equal(
        without.ood_score(X),
        detector(forest, labels="none", random_state=0).fit(X[:300], y[:300]).ood_score(X),
    )
    shuffled = detector(forest, labels="shuffled", random_state=0).fit(X[:300], y[:300])
    assert set(shuffled.estimator_.classes_) == set(y) and set(without.estimator_.classes_) == {
        0,
        1,
    }
    with pytest.raises(
        ValueError,
        match=f"{detector.__name__} requires y to be passed, but the target y is None; or freeze",
    ):
        detector(forest).fit(X)
    if detector is LeafBox:
        assert auroc(without.ood_score(distant), without.ood_score(X[300:])) == 1


@pytest.mark.filterwarnings("ignore:.*X_calibration=")  # the parent may be in sample here
def test_explanation_uses_column_names_of_frames_and_pipelines(blobs, fitted):
    X, y, _ = blobs
    forest = ExtraTreesClassifier(5, random_state=0)
    assert fitted.explained_feature_names().tolist() == ["x0", "x1", "x2", "x3"]
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.array(["u", "v", "w"])[y])
    assert LeafBox(forest).fit(frame[["a", "b"]], y).explained_feature_names().tolist() == [
        "a",
        "b",
    ]
    coded = frame.assign(kind=y.astype(float))
    encoded = make_pipeline(column_encoder([False, False, False, False, True]), clone(forest))
    for estimator in (encoded, FrozenEstimator(clone(encoded).fit(coded, y))):
        detector = LeafBox(estimator).fit(coded, y)
        result = detector.explain(coded.iloc[:7])
        assert (
            result.shape == (7, len(detector.explained_feature_names()))
            and len(detector.explained_feature_names()) >= 5
        )
    scaled = LeafBox(make_pipeline(StandardScaler(), forest)).fit(frame[["a", "b"]], y)
    assert scaled.explained_feature_names().tolist() == ["a", "b"]
    nameless = LeafBox(make_pipeline(FunctionTransformer(np.square), forest)).fit(X, y)
    assert nameless.explained_feature_names().tolist() == ["x0", "x1", "x2", "x3"]


def test_missing_values_are_passed_if_the_forest_takes_them(blobs):
    X, y, distant = blobs
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    detector = LeafBox(RandomForestClassifier(10, random_state=0), random_state=0).fit(X, y)
    assert auroc(detector.ood_score(distant), detector.ood_score(X)) == 1
    assert not detector.explain(np.full((1, 4), np.nan)).any()


@pytest.mark.filterwarnings("ignore:.*X_calibration=")  # the parent may be in sample here
def test_a_network_is_refused(blobs):
    from kdgraph.parents.networks import MultilayerPerceptron

    X, y, _ = blobs
    network = MultilayerPerceptron(
        hidden=(4,), max_epochs=1, patience=None, device="cpu", random_state=0
    ).fit(X, y)
    for detector in (LeafBox, LeafOccupancy):
        what = (
            "needs a forest or tree of scikit-learn, or a pipeline that ends in one, got a network"
        )
        with pytest.raises(TypeError, match=f"{detector.__name__} {what}"):
            detector(FrozenEstimator(network)).fit(X, y)
