"""TOOD: leaves of the right forest, labels that say something or nothing, and that every parameter
counts.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from kdgraph.detection import TreeHamming
from kdgraph.metrics import auroc
from kdgraph.parents import column_encoder
from tests.sklearn_checks import with_checks

SMALL = {"set_size": 40, "repeats": 6, "random_state": 0}
ONE_ROW = {
    "check_methods_subset_invariance": "the score of a row belongs to it and the rows of its set"
}
NO_LABELS = dict.fromkeys(
    ("check_outliers_train", "check_outliers_fit_predict"),
    "they fit without labels, and true ones are needed",
)
ONE_ANSWER = dict.fromkeys(
    ("check_outliers_train", "check_outliers_fit_predict"), "all rows of a set have the same answer"
)


def expected_failures(detector: TreeHamming) -> dict[str, str]:
    return (
        ONE_ROW
        | (NO_LABELS if detector.labels == "given" else {})
        | (ONE_ANSWER if detector.level == "set" else {})
    )


def forest(**more) -> ExtraTreesClassifier:
    return ExtraTreesClassifier(20, random_state=0, **more)


def bootstrapped() -> RandomForestClassifier:
    """Each tree has not seen some rows; those that it is grown on are alone in their leaves, and at
    any usual threshold none is out.
    """
    return RandomForestClassifier(20, random_state=0)


@with_checks(
    [
        TreeHamming(bootstrapped(), labels="given", random_state=0),
        TreeHamming(make_pipeline(SimpleImputer(), bootstrapped()), level="set", random_state=0),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings(
    "ignore:.* held-out rows are fewer than set_size"
)  # the checks have few rows
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def parent(blobs):
    return forest().fit(blobs[0][:400], blobs[1][:400])


def test_the_score_is_the_aphd_of_the_forests_own_leaves(blobs, parent):
    """Read by forest.apply, and compared pair by pair."""
    X, _, distant = blobs
    detector = TreeHamming(FrozenEstimator(parent), labels="given", **SMALL).fit(
        X[:400], X_calibration=X[400:]
    )
    assert detector.estimator_.estimator is parent
    for rows in (X[400:450], distant[:50]):
        leaves = parent.apply(rows)
        expected = cdist(leaves, leaves, "hamming").sum(axis=1) / 49
        np.testing.assert_allclose(detector.score_samples(rows), expected, rtol=0, atol=1e-12)
    assert detector.score_samples(distant[:50]).max() < detector.score_samples(X[400:450]).min()
    assert set(detector.predict(distant[:50])) == {-1}


def test_shuffled_labels_are_learnt_by_a_clone_of_the_frozen_parent(blobs, parent):
    X, y, _ = blobs
    before = parent.apply(X)
    detector = TreeHamming(FrozenEstimator(parent), n_jobs=2, **SMALL).fit(
        X[:400], y[:400], X_calibration=X[400:]
    )
    ours = detector.estimator_
    assert ours is not parent and ours.get_params() == {**parent.get_params(), "n_jobs": 2}
    np.testing.assert_array_equal(parent.apply(X), before)
    assert (
        ours.score(X[:400], y[:400]) < 0.6 < 0.99 < parent.score(X[:400], y[:400])
    )  # a third is chance
    np.testing.assert_array_equal(ours.classes_, parent.classes_)


@pytest.mark.parametrize("y", [None, np.zeros(400, dtype=int)], ids=["no labels", "one class"])
def test_single_class_labels_are_replaced_by_coin_flips(blobs, y):
    X, _, distant = blobs
    detector = TreeHamming(random_state=0, set_size=40).fit(X[:400], y, X_calibration=X[400:])
    assert len(
        detector.estimator_.estimators_
    ) == 100 and detector.estimator_.classes_.tolist() == [0, 1]
    assert (
        detector.score_samples(X[400:440]).min()
        > 0.9
        > 0.1
        > detector.score_samples(distant[:40]).max()
    )


def test_labels_none_are_coin_flips(blobs, parent):
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

    def scores(**changed) -> np.ndarray:
        detector = TreeHamming(forest(), **{**base, **changed}).fit(X, y)
        return detector.ood_score_of_sets(X, np.random.default_rng(0))

    usual = scores()
    np.testing.assert_array_equal(usual, scores())
    np.testing.assert_array_equal(usual, scores(n_jobs=2))
    others = {
        "labels": "given",
        "level": "set",
        "set_size": 30,
        "repeats": 7,
        "target_fpr": 0.2,
        "calibration_size": 0.4,
        "random_state": 1,
    }
    assert set(others) | {"estimator", "n_jobs"} == set(TreeHamming().get_params())
    for name, value in others.items():
        result = scores(**{name: value})
        assert result.shape != usual.shape or not np.allclose(result, usual, atol=1e-6), name


def test_sets_of_another_size_have_the_same_mean(blobs):
    """Over pairs of different rows; 2000 drawn sets have a deviation well below the tolerance."""
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
def test_labels_and_targets_of_any_type(blobs, names):
    X, y, distant = blobs
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
        assert auroc(detector.ood_score(distant[:40]), detector.ood_score(X[:40])) == 1


@pytest.mark.filterwarnings("ignore:.*X_calibration=")  # the parent may be in sample here
def test_single_tree_and_categorical_columns_are_supported(blobs):
    X, y, distant = blobs
    TreeHamming(DecisionTreeClassifier(random_state=0), **SMALL).fit(X, y).score_samples(distant)
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
        leaves = _inner(detector.estimator_)[-1].apply(
            _inner(detector.estimator_)[:-1].transform(codes[:40])
        )
        expected = cdist(leaves, leaves, "hamming").sum(axis=1) / 39
        np.testing.assert_allclose(detector.score_samples(codes[:40]), expected, rtol=0, atol=1e-12)
    frame = pd.DataFrame(codes, columns=list("abc"))
    np.testing.assert_array_equal(
        TreeHamming(encoded, **SMALL).fit(frame, y).score_samples(frame),
        TreeHamming(encoded, **SMALL).fit(codes, y).score_samples(codes),
    )


def _inner(estimator):
    return estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator


def test_theorem_4_1_needs_every_feature_to_be_out_of_range():
    """Hulls that do not meet are not enough for trees along the axes, unlike the paper has it.

    Test rows are shifted by 2 along k of ten axes. The means are those of pairwise comparisons of
    leaves (scipy's ``cdist``) over other seeds; of one seed the deviation is 0.05 at k = 5.
    """
    rng = np.random.default_rng(0)
    X, test = rng.random((2000, 10)), rng.random((300, 10))
    detector = TreeHamming(labels="none", random_state=0).fit(X)
    shifted = {
        k: detector.score_samples(test + 2.0 * (np.arange(10) < k)).mean() for k in (0, 1, 5, 9, 10)
    }
    assert shifted == pytest.approx({0: 0.998, 1: 0.990, 5: 0.770, 9: 0.223, 10: 0}, abs=0.1)
    assert shifted[10] == 0 and np.all(np.diff(list(shifted.values())) < 0)


def test_parent_without_leaves_is_refused_before_training(blobs, monkeypatch):
    X, y, _ = blobs
    frozen = LogisticRegression().fit(X, y)
    monkeypatch.setattr(LogisticRegression, "fit", lambda self, X, y: pytest.fail("trained"))
    with pytest.raises(TypeError, match="LogisticRegression has no partition to read"):
        TreeHamming(FrozenEstimator(frozen)).fit(X, y)


def test_a_network_is_refused(blobs):
    from kdgraph.parents.networks import MultilayerPerceptron

    X, y, _ = blobs
    network = MultilayerPerceptron(
        hidden=(4,), max_epochs=1, patience=None, device="cpu", random_state=0
    ).fit(X, y)
    with pytest.raises(
        TypeError,
        match=(
            "TreeHamming needs a forest or tree of scikit-learn, or a pipeline that ends in one,"
            " got a network"
        ),
    ):
        TreeHamming(FrozenEstimator(network)).fit(X, y)
