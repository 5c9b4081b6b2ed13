"""Codes and probabilities of forests against scikit-learn's own apply and predict_proba."""

from __future__ import annotations

import numpy as np
import pytest
from joblib import delayed, parallel_config
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomTreesEmbedding,
)
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from kdgraph.calibration import Uncalibrated
from kdgraph.geometry import ForestPartition, partition_of
from kdgraph.geometry import forest as forest_module

FORESTS = {
    "random forest": RandomForestClassifier(20, random_state=0),
    "extra trees": ExtraTreesClassifier(20, random_state=0),
    "shallow, balanced": RandomForestClassifier(
        20, max_depth=3, class_weight="balanced_subsample", random_state=0
    ),
    "tree": DecisionTreeClassifier(random_state=0),
}


@pytest.fixture(scope="module", params=FORESTS)
def fitted_forest(request, blobs):
    return FORESTS[request.param].fit(*blobs)


@pytest.fixture(scope="module")
def queries(blobs):
    """In the data, far away, and on both sides of float32's rounding."""
    X = blobs[0]
    return np.vstack([X[:200], 1e6 * X[:20], X[:50] * (1 + 1e-8), X[:50].astype(np.float32)])


@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize("n_jobs", [None, 1, 2, 64])
def test_codes_equal_forest_apply(fitted_forest, queries, n_jobs, is_packed, monkeypatch):
    monkeypatch.setattr(ForestPartition, "_pays_to_pack", lambda self, n_rows: is_packed)
    codes = ForestPartition(fitted_forest, n_jobs).encode(queries)
    assert codes.dtype == np.int32
    assert np.array_equal(codes, fitted_forest.apply(queries).reshape(len(queries), -1))


@pytest.mark.slow
def test_codes_from_processes_are_those_of_threads(fitted_forest, queries, monkeypatch):
    X = queries.copy()
    X[::3, 0] = np.nan
    expected = ForestPartition(fitted_forest).encode(X)
    monkeypatch.setattr(forest_module, "_MIN_STEPS_TO_SEND", 0)
    tasks = []
    monkeypatch.setattr(
        forest_module, "delayed", lambda function: tasks.append(function) or delayed(function)
    )
    partition = ForestPartition(fitted_forest, n_jobs=2)
    with parallel_config(backend="loky", n_jobs=2):
        codes = partition.encode(X)
    assert tasks == [forest_module._encode_by_trees] * min(2, partition.n_trees)
    assert codes.dtype == np.int32 and np.array_equal(codes, expected)


def test_parent_proba_equals_predict_proba_to_the_last_bit(fitted_forest, queries):
    partition = ForestPartition(fitted_forest)
    assert np.array_equal(
        partition.parent_proba(partition.locate(queries)), fitted_forest.predict_proba(queries)
    )


def test_rows_at_thresholds_get_the_leaves_of_the_forest(fitted_forest, blobs):
    tree = getattr(fitted_forest, "estimators_", [fitted_forest])[0].tree_
    inner = tree.children_left >= 0
    X = np.repeat(blobs[0][:1], inner.sum(), axis=0)
    X[np.arange(len(X)), tree.feature[inner]] = tree.threshold[inner]
    X = np.vstack([X, np.nextafter(X, -np.inf), np.nextafter(X, np.inf)])
    assert np.array_equal(
        ForestPartition(fitted_forest).encode(X), fitted_forest.apply(X).reshape(len(X), -1)
    )


def test_missing_values_go_where_the_trees_send_them(fitted_forest, blobs):
    X, y = blobs
    rng = np.random.default_rng(0)
    X = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    forest = clone(fitted_forest).fit(X, y)
    trees = getattr(forest, "estimators_", [forest])
    is_split = [tree.tree_.children_left >= 0 for tree in trees]
    missing_left = [
        tree.tree_.missing_go_to_left[split] for tree, split in zip(trees, is_split, strict=True)
    ]
    assert 0 < np.concatenate(missing_left).mean() < 1
    partition = ForestPartition(forest)
    assert partition._pays_to_pack(len(X)) and not partition._pays_to_pack(1)
    assert np.array_equal(partition.encode(X), forest.apply(X).reshape(len(X), -1))


def test_values_beyond_float32_get_the_leaves_of_the_largest_ones(fitted_forest):
    largest = float(np.finfo(np.float32).max)
    signs = np.array([[1, 1, 1], [-1, 1, -1], [-1, -1, -1]])
    partition = ForestPartition(fitted_forest)
    assert np.array_equal(partition.encode(1e300 * signs), partition.encode(largest * signs))


def test_similarity_is_the_fraction_of_trees_with_equal_leaves(spiral, spiral_forest):
    partition = ForestPartition(spiral_forest)
    a, b = partition.encode(spiral[0][:12]), partition.encode(spiral[0][5:25])
    expected = [[sum(int(s == t) for s, t in zip(r, q, strict=True)) / 30 for q in b] for r in a]
    assert partition.similarity(a, b).tolist() == expected


@pytest.mark.parametrize(
    ("m", "n", "trees"),
    [(1, 1, 1), (2, 3, 4), (7, 512, 5), (3, 513, 6), (8, 1100, 30), (0, 5, 4), (5, 0, 4)],
)
def test_similarity_supports_any_number_of_rows_and_trees(m, n, trees, spiral):
    X, y = spiral
    partition = ForestPartition(
        RandomForestClassifier(trees, max_leaf_nodes=9, random_state=0).fit(X, y)
    )
    codes = partition.encode(np.random.default_rng(0).normal(size=(m + n, 2)))
    a, b = codes[:m], codes[m:]
    expected = np.array([(row == b).sum(axis=1) / trees for row in a]).reshape(m, n)
    similarity = partition.similarity(a, b)
    assert similarity.shape == (m, n) and np.array_equal(similarity, expected)
    if m and n:
        assert np.array_equal(partition.paired_similarity(a[:1], b[:1]), similarity[0, :1])
        assert np.array_equal(
            partition.similarity(np.asfortranarray(a), b.astype(np.int64)), expected
        )


def test_embedding_of_a_forest_is_the_features(spiral, spiral_forest):
    locations = ForestPartition(spiral_forest).locate(spiral[0].astype(np.float32))
    assert locations.points.dtype == np.float64
    assert np.array_equal(locations.points, spiral[0].astype(np.float32))
    assert np.array_equal(locations[3:5].codes, locations.codes[3:5])
    assert len(locations) == 600


@pytest.mark.parametrize(
    "wrap",
    [
        FrozenEstimator,
        lambda f: Pipeline([("forest", f)]),
        lambda f: FrozenEstimator(Pipeline([("forest", f)])),
    ],
)
def test_partition_of_unwraps_wrappers_without_transformation(wrap, spiral, spiral_forest):
    assert np.array_equal(
        partition_of(wrap(spiral_forest)).encode(spiral[0]), spiral_forest.apply(spiral[0])
    )


class UserForest(ExtraTreesClassifier):
    """Subclass of a public forest."""


@pytest.mark.parametrize("library", ["user", "scikit-learn", "quantile-forest"])
def test_forests_of_other_classes_have_a_partition(library, spiral):
    if library == "quantile-forest":
        quantile_forest = pytest.importorskip("quantile_forest")
        forest = quantile_forest.RandomForestQuantileRegressor(5, random_state=0)
    else:
        forest_class = UserForest if library == "user" else RandomTreesEmbedding
        forest = forest_class(5, random_state=0)
    forest.fit(*spiral)
    assert np.array_equal(partition_of(forest).encode(spiral[0]), forest.apply(spiral[0]))


def test_meta_estimator_has_partition_of_its_fitted_estimator(spiral):
    parent = Uncalibrated(RandomForestClassifier(10, random_state=0), random_state=0).fit(*spiral)
    assert np.array_equal(
        partition_of(parent).encode(spiral[0]), parent.estimator_.apply(spiral[0])
    )


@pytest.mark.parametrize("frozen", [True, False])
def test_calibrated_classifier_has_partition_of_its_first_forest(spiral, spiral_forest, frozen):
    parent = (
        FrozenEstimator(spiral_forest) if frozen else RandomForestClassifier(10, random_state=0)
    )
    calibrated = CalibratedClassifierCV(parent, cv=2).fit(*spiral)
    first = calibrated.calibrated_classifiers_[0].estimator
    assert np.array_equal(partition_of(calibrated).encode(spiral[0]), first.apply(spiral[0]))


def test_pipeline_partition_applies_transformers_first(blobs, queries):
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(10, random_state=0)).fit(
        *blobs
    )
    partition, scaled = partition_of(pipeline), pipeline[0].transform(queries)
    place = partition.locate(queries)
    assert np.array_equal(place.codes, pipeline[1].apply(scaled))
    assert np.array_equal(partition.encode(queries), place.codes)
    assert np.array_equal(place.points, scaled)
    assert np.array_equal(partition.embed(queries), scaled)
    assert np.array_equal(partition.parent_proba(place), pipeline.predict_proba(queries))
    assert np.array_equal(
        partition.similarity(place.codes[:3], place.codes[:3]).diagonal(), np.ones(3)
    )
    assert partition.index(place.codes[:1], np.ones((1, 2))).query(
        place.codes[:1], np.array([1.0])
    )[1].tolist() == [0]


@pytest.mark.parametrize(
    "parent",
    [
        LogisticRegression(),
        BaggingClassifier(
            DecisionTreeClassifier(), n_estimators=2
        ),  # its estimator_ is a template that is never fitted
        IsolationForest(n_estimators=2),
        RFE(
            DecisionTreeClassifier(), n_features_to_select=1
        ),  # its estimator_ was fitted on one feature, not two
    ],
    ids=lambda parent: type(parent).__name__,
)
def test_estimators_without_partition_raise(parent, spiral):
    name = type(parent).__name__
    with pytest.raises(TypeError) as caught:
        partition_of(parent.fit(*spiral))
    assert (
        str(caught.value)
        == f"{name} has no partition to read; pass a fitted forest, tree or boosted trees, or a"
        " network of torch"
    )


@pytest.mark.parametrize("parent", [RandomForestClassifier(), DecisionTreeClassifier()])
def test_unfitted_forest_raises(parent):
    with pytest.raises(
        NotFittedError, match=f"^This {type(parent).__name__} instance is not fitted yet"
    ):
        partition_of(parent)
