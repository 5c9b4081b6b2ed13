"""Tests of TOOD: leaves of the forest, training labels and parameters."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from kdgraph.detection import TreeHamming
from kdgraph.metrics import auroc
from kdgraph.parents import column_encoder

SMALL = {"set_size": 40, "repeats": 6, "random_state": 0}


def forest(**more) -> ExtraTreesClassifier:
    return ExtraTreesClassifier(20, random_state=0, **more)


@pytest.fixture(scope="module")
def parent(blobs):
    return forest().fit(blobs[0][:400], blobs[1][:400])


def test_score_is_the_aphd_of_the_leaves(blobs, parent):
    """Compare with all pairs of leaves of ``forest.apply``."""
    X, _, distant_rows = blobs
    detector = TreeHamming(FrozenEstimator(parent), labels="given", **SMALL).fit(
        X[:400], X_calibration=X[400:]
    )
    assert detector.estimator_.estimator is parent
    for rows in (X[400:450], distant_rows[:50]):
        leaves = parent.apply(rows)
        expected = cdist(leaves, leaves, "hamming").sum(axis=1) / 49
        np.testing.assert_allclose(detector.score_samples(rows), expected, rtol=0, atol=1e-12)
    assert (
        detector.score_samples(distant_rows[:50]).max() < detector.score_samples(X[400:450]).min()
    )
    assert set(detector.predict(distant_rows[:50])) == {-1}


def test_clone_of_a_frozen_parent_is_fitted_on_shuffled_labels(blobs, parent):
    X, y, _ = blobs
    expected_leaves = parent.apply(X)
    detector = TreeHamming(FrozenEstimator(parent), n_jobs=2, **SMALL).fit(
        X[:400], y[:400], X_calibration=X[400:]
    )
    clone_of_parent = detector.estimator_
    assert clone_of_parent is not parent and clone_of_parent.get_params() == {
        **parent.get_params(),
        "n_jobs": 2,
    }
    np.testing.assert_array_equal(parent.apply(X), expected_leaves)
    assert (
        clone_of_parent.score(X[:400], y[:400]) < 0.6 < 0.99 < parent.score(X[:400], y[:400])
    )  # a third is chance
    np.testing.assert_array_equal(clone_of_parent.classes_, parent.classes_)


@pytest.mark.parametrize("y", [None, np.zeros(400, dtype=int)], ids=["no labels", "one class"])
def test_missing_or_constant_labels_become_random(blobs, y):
    X, _, distant_rows = blobs
    detector = TreeHamming(random_state=0, set_size=40).fit(X[:400], y, X_calibration=X[400:])
    assert len(
        detector.estimator_.estimators_
    ) == 100 and detector.estimator_.classes_.tolist() == [0, 1]
    assert (
        detector.score_samples(X[400:440]).min()
        > 0.9
        > 0.1
        > detector.score_samples(distant_rows[:40]).max()
    )


def test_labels_none_ignores_all_labels(blobs, parent):
    X, y, _ = blobs
    detectors = [
        TreeHamming(FrozenEstimator(parent), labels="none", **SMALL).fit(X, labels)
        for labels in (y, None, y % 2)
    ]
    for detector in detectors:
        assert detector.estimator_ is not parent and detector.estimator_.classes_.tolist() == [0, 1]
        np.testing.assert_array_equal(
            detector.score_samples(X[:40]), detectors[0].score_samples(X[:40])
        )


def test_every_parameter_changes_the_score(blobs):
    X, y, _ = blobs
    base = {
        "labels": "shuffled",
        "level": "instance",
        "calibration_size": 0.3,
        "target_fpr": 0.05,
        **SMALL,
    }

    def scores(**changes) -> np.ndarray:
        detector = TreeHamming(forest(), **{**base, **changes}).fit(X, y)
        return detector.ood_score_of_sets(X, np.random.default_rng(0))

    default_scores = scores()
    np.testing.assert_array_equal(default_scores, scores())
    np.testing.assert_array_equal(default_scores, scores(n_jobs=2))
    alternatives = {
        "labels": "given",
        "level": "set",
        "set_size": 30,
        "repeats": 7,
        "target_fpr": 0.2,
        "calibration_size": 0.4,
        "calibration": "cross_fit",
        "random_state": 1,
    }
    assert set(alternatives) | {"estimator", "n_jobs", "cv"} == set(TreeHamming().get_params())
    for name, value in alternatives.items():
        changed_scores = scores(**{name: value})
        assert changed_scores.shape != default_scores.shape or not np.allclose(
            changed_scores, default_scores, atol=1e-6
        ), name


def test_mean_score_is_independent_of_the_set_size(blobs):
    """The standard error of 2000 drawn sets is far below the tolerance."""
    X, y, _ = blobs
    means = []
    for size in (2, 10, 100):
        detector = TreeHamming(
            forest(max_depth=3), set_size=size, repeats=2000, random_state=0
        ).fit(X, y)
        means.append(
            (detector.offset_ - detector.ood_score_of_sets(X, np.random.default_rng(0))).mean()
        )
    assert np.ptp(means) < 0.01 and means[0] < 0.95


@pytest.mark.parametrize("names", [["u", "v", "w"], [10, 20, 30], [0.5, 1.25, 7.75]], ids=str)
def test_labels_and_targets_of_any_type_are_supported(blobs, names):
    X, y, distant_rows = blobs
    labels = np.array(names)[y]
    parent = (RandomForestRegressor if isinstance(names[0], float) else RandomForestClassifier)(
        10, random_state=0
    )
    for estimator, kind in (
        (parent, "given"),
        (parent, "shuffled"),
        (FrozenEstimator(clone(parent).fit(X, labels)), "shuffled"),
    ):
        detector = TreeHamming(estimator, labels=kind, **SMALL).fit(X, labels)
        assert auroc(detector.ood_score(distant_rows[:40]), detector.ood_score(X[:40])) == 1


@pytest.mark.filterwarnings("ignore:.*X_calibration=")  # the parent may have seen these rows
def test_single_trees_and_categories_are_supported(blobs):
    X, y, distant_rows = blobs
    TreeHamming(DecisionTreeClassifier(random_state=0), **SMALL).fit(X, y).score_samples(
        distant_rows
    )
    rng = np.random.default_rng(0)
    codes = np.column_stack(
        [X[:, 0], rng.integers(3, size=len(X)), np.where(rng.random(len(X)) < 0.1, np.nan, X[:, 1])]
    )
    encoded = make_pipeline(column_encoder([False, True, False]), forest())
    frozen = FrozenEstimator(clone(encoded).fit(codes, y))
    for estimator, kind in (
        (encoded, "given"),
        (encoded, "shuffled"),
        (frozen, "given"),
        (frozen, "shuffled"),
    ):
        detector = TreeHamming(estimator, labels=kind, **SMALL).fit(codes, y)
        leaves = unfreeze(detector.estimator_)[-1].apply(
            unfreeze(detector.estimator_)[:-1].transform(codes[:40])
        )
        expected = cdist(leaves, leaves, "hamming").sum(axis=1) / 39
        np.testing.assert_allclose(detector.score_samples(codes[:40]), expected, rtol=0, atol=1e-12)
    frame = pd.DataFrame(codes, columns=list("abc"))
    np.testing.assert_array_equal(
        TreeHamming(encoded, **SMALL).fit(frame, y).score_samples(frame),
        TreeHamming(encoded, **SMALL).fit(codes, y).score_samples(codes),
    )


def unfreeze(estimator):
    return estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator


def test_theorem_4_1_requires_all_features_out_of_range():
    """Test that disjoint hulls are not sufficient for axis-aligned trees, unlike in the paper.

    Test rows are shifted by 2 along k of ten axes. The means are those of pairwise comparisons of
    leaves (scipy's ``cdist``) over other seeds; the standard deviation of a seed is 0.05 at k = 5.
    """
    rng = np.random.default_rng(0)
    X, test = rng.random((2000, 10)), rng.random((300, 10))
    detector = TreeHamming(labels="none", random_state=0).fit(X)
    shifted = {
        k: detector.score_samples(test + 2.0 * (np.arange(10) < k)).mean() for k in (0, 1, 5, 9, 10)
    }
    assert shifted == pytest.approx({0: 0.998, 1: 0.990, 5: 0.770, 9: 0.223, 10: 0}, abs=0.1)
    assert shifted[10] == 0 and np.all(np.diff(list(shifted.values())) < 0)


def test_parent_without_leaves_raises_before_training(blobs, monkeypatch):
    X, y, _ = blobs
    frozen = LogisticRegression().fit(X, y)
    monkeypatch.setattr(LogisticRegression, "fit", lambda self, X, y: pytest.fail("trained"))
    with pytest.raises(TypeError, match="LogisticRegression has no partition to read"):
        TreeHamming(FrozenEstimator(frozen)).fit(X, y)


def test_network_raises(blobs):
    from kdgraph.parents.networks import MultilayerPerceptron

    X, y, _ = blobs
    network = MultilayerPerceptron(
        hidden=(4,), max_epochs=1, patience=None, device="cpu", random_state=0
    ).fit(X, y)
    with pytest.raises(
        TypeError,
        match=(
            "TreeHamming needs a forest, a tree or boosted trees, or a pipeline that ends in them,"
            " got a network"
        ),
    ):
        TreeHamming(FrozenEstimator(network)).fit(X, y)
