"""Partitions of boosted trees against the trees and predictions of each library."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit, softmax
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdgraph.geometry import (
    BoostedPartition,
    LeafBoxes,
    finite_space_of,
    forest_partition_of,
    partition_kind,
    partition_of,
    polytopes_of,
    tree_partition_of,
)
from kdgraph.geometry.boosting import _CatBoostPartition, boosted_partition_class
from kdgraph.geometry.leaf_boxes import _top_down_order
from kdgraph.parents import BoostedTreesClassifier

MISSING = "{} is not installed; the extra boosting has it"


def library(name: str):
    return pytest.importorskip(name, reason=MISSING.format(name))


def classifier(name: str, n_rounds: int = 12, **options):
    """Return a small unfitted classifier of a library that prints nothing."""
    if name == "gradient_boosting":
        return GradientBoostingClassifier(n_estimators=n_rounds, random_state=0, **options)
    if name == "hist_gradient_boosting":
        return HistGradientBoostingClassifier(max_iter=n_rounds, random_state=0, **options)
    if name == "xgboost":
        return library(name).XGBClassifier(n_estimators=n_rounds, n_jobs=1, **options)
    if name == "lightgbm":
        return library(name).LGBMClassifier(n_estimators=n_rounds, n_jobs=1, verbose=-1, **options)
    return library("catboost").CatBoostClassifier(
        n_estimators=n_rounds, verbose=False, allow_writing_files=False, thread_count=1, **options
    )


LIBRARIES = ["gradient_boosting", "hist_gradient_boosting", "xgboost", "lightgbm", "catboost"]
NATIVE_MISSING = LIBRARIES[1:]


def table(n_classes: int = 3, n: int = 400, missing: bool = False):
    X, y = make_classification(
        n, 6, n_informative=5, n_redundant=0, n_classes=n_classes, random_state=0
    )
    if missing:
        X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    return X, y


def raw_predictions(model, X) -> np.ndarray:
    """Return what the trees of a classifier add up to, by the library itself, Float64[n, K]."""
    name = type(model).__name__
    if name == "CatBoostClassifier":
        raw = model.predict(X, prediction_type="RawFormulaVal")
    elif name == "XGBClassifier":
        raw = model.predict(X, output_margin=True)
    elif name == "LGBMClassifier":
        raw = model.predict(X, raw_score=True)
    else:
        raw = model.decision_function(X)
    return np.asarray(raw, dtype=np.float64).reshape(len(X), -1)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", LIBRARIES)
def test_codes_decide_what_the_library_predicts(name, n_classes):
    """Rows with the same leaf in every tree have the same prediction to the bit, and the values of
    leaves that follow from the predictions of some rows predict all others.
    """
    X, y = table(n_classes, missing=name in NATIVE_MISSING)
    model = classifier(name).fit(X, y)
    partition = partition_of(model)
    codes = partition.encode(X)
    raw = raw_predictions(model, X)
    assert (
        partition.n_trees
        == codes.shape[1]
        == 12 * (1 if n_classes == 2 or name == "catboost" else 3)
    )
    # Raw predictions are linear in the indicators of leaves: the fit is exact, up to the single
    # precision of XGBoost and of stored leaf values.
    leaves = np.zeros((len(X), partition.leaf_starts[-1]))
    np.put_along_axis(leaves, codes + partition.leaf_starts[:-1], 1.0, axis=1)
    _, first = np.unique(leaves, axis=0, return_index=True)
    coefficients, *_ = np.linalg.lstsq(leaves[first], raw[first], rcond=None)
    np.testing.assert_allclose(leaves @ coefficients, raw, atol=1e-5 * max(1.0, np.abs(raw).max()))
    polytopes = polytopes_of(codes)
    representatives = polytopes.representatives[polytopes.polytope_of_row]
    np.testing.assert_array_equal(raw, raw[representatives])


@pytest.mark.parametrize("name", LIBRARIES)
def test_leaves_are_those_of_the_call_of_the_library(name):
    X, y = table()
    model = classifier(name).fit(X, y)
    codes = partition_of(model).encode(X)
    calls = {
        "gradient_boosting": lambda: model.apply(X),
        "xgboost": lambda: model.get_booster().predict(
            library("xgboost").DMatrix(X), pred_leaf=True
        ),
        "lightgbm": lambda: model.booster_.predict(X, pred_leaf=True),
        "catboost": lambda: model.calc_leaf_indexes(X),
    }
    if name == "hist_gradient_boosting":
        # It has no call for leaves; its trees are walked row by row.
        trees = [tree for round_ in model._predictors for tree in round_]
        expected = np.array([[walk(tree.nodes, row) for tree in trees] for row in X])
    else:
        expected = np.asarray(calls[name]()).reshape(len(X), -1)
    np.testing.assert_array_equal(codes, expected)
    assert codes.dtype == np.int32 and codes.flags.f_contiguous


def walk(nodes, row) -> int:
    node = 0
    while not nodes[node]["is_leaf"]:
        goes_left = row[nodes[node]["feature_idx"]] <= nodes[node]["num_threshold"]
        node = nodes[node]["left" if goes_left else "right"]
    return node


@pytest.mark.parametrize("name", LIBRARIES)
def test_parents_lead_from_every_leaf_to_one_root(name):
    X, y = table()
    partition = partition_of(classifier(name).fit(X, y))
    for t in range(partition.n_trees):
        parents = partition.node_parents(t)
        assert (parents == -1).sum() == 1
        is_leaf = partition.is_leaf[partition.leaf_starts[t] : partition.leaf_starts[t + 1]]
        # A binary tree has one leaf more than inner nodes.
        assert is_leaf.sum() == (len(parents) + 1) // 2
        children = np.bincount(parents[parents >= 0], minlength=len(parents))
        assert set(children[~is_leaf]) <= {2}
        assert is_leaf[partition.encode(X)[:, t]].all()
        order = _top_down_order(parents)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        has_parent = parents >= 0
        assert (rank[parents[has_parent]] < rank[has_parent]).all()


@pytest.mark.parametrize("name", ["hist_gradient_boosting", "xgboost", "lightgbm"])
def test_rows_below_a_node_are_those_of_its_children(name):
    """Boxes grow towards the root: that of the root holds all training rows."""
    X, y = table()
    partition = partition_of(classifier(name).fit(X, y))
    boxes = LeafBoxes(partition, partition.locate(X), min_samples=len(X))
    np.testing.assert_array_equal(
        np.unique(boxes.boxes[:, 0], axis=0), [X.min(0).astype(np.float32)]
    )
    np.testing.assert_array_equal(
        np.unique(boxes.boxes[:, 1], axis=0), [X.max(0).astype(np.float32)]
    )


@pytest.mark.parametrize("name", LIBRARIES)
def test_parent_proba_is_the_prediction_of_the_library(name):
    X, y = table()
    model = classifier(name).fit(X, y)
    partition = partition_of(model)
    locations = partition.locate(X)
    np.testing.assert_array_equal(partition.parent_proba(locations), model.predict_proba(X))
    np.testing.assert_array_equal((locations[:10] + locations[10:]).proba, model.predict_proba(X))


@pytest.mark.parametrize("name", LIBRARIES)
def test_rows_are_located_without_a_prediction(name):
    X, y = table()
    partition = partition_of(classifier(name).fit(X, y))
    locations = partition.locate(X, with_proba=False)
    assert locations.proba is None
    np.testing.assert_array_equal(locations.codes, partition.locate(X).codes)


def test_leaves_are_those_of_the_last_fit():
    X, y = table()
    model = HistGradientBoostingClassifier(max_iter=5)
    first = partition_of(model.fit(X, y)).encode(X)
    again = partition_of(model.fit(X, np.roll(y, 1))).encode(X)
    other = HistGradientBoostingClassifier(max_iter=5).fit(X, np.roll(y, 1))
    np.testing.assert_array_equal(again, partition_of(other).encode(X))
    assert (first != again).any()


def test_parent_proba_of_a_regressor_is_refused():
    X, y = table()
    for model in (
        GradientBoostingRegressor(n_estimators=3),
        HistGradientBoostingRegressor(max_iter=3),
    ):
        partition = partition_of(model.fit(X, y))
        with pytest.raises(TypeError, match="predicts no probabilities"):
            partition.parent_proba(partition.locate(X))


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost"])
def test_trees_after_the_best_round_do_not_count(name):
    X, y = table()
    y = np.where(np.random.default_rng(0).random(len(y)) < 0.5, y, (y + 1) % 3)  # rows to overfit
    model = BoostedTreesClassifier(classifier(name, 200), patience=5, random_state=0).fit(X, y)
    inner = model.estimator_
    best = {
        "xgboost": lambda: inner.best_iteration + 1,
        "lightgbm": lambda: inner.best_iteration_,
        "catboost": lambda: inner.tree_count_,
    }[name]()
    trees = 1 if name == "catboost" else 3
    assert 0 < best < 100
    assert partition_of(model).n_trees == partition_of(inner).n_trees == best * trees


def test_other_growth_of_catboost_has_leaves_below_one_root():
    X, y = table()
    for policy in ("Depthwise", "Lossguide"):
        partition = partition_of(classifier("catboost", grow_policy=policy).fit(X, y))
        for t in range(partition.n_trees):
            assert partition.is_leaf[
                partition.leaf_starts[t] : partition.leaf_starts[t + 1]
            ].sum() == (len(partition.node_parents(t)) - 1)
        boxes = LeafBoxes(partition, partition.locate(X))
        assert (boxes.outside_by_feature(partition.locate(X)) == 0).all()


@given(depth=st.integers(0, 6))
@settings(max_examples=7, deadline=None)
def test_parents_of_a_symmetric_tree_share_the_first_splits(depth):
    class Stump:
        def get_tree_leaf_counts(self):
            return [2**depth]

        def get_all_params(self):
            return {}

    partition = _CatBoostPartition.__new__(_CatBoostPartition)
    partition.model = Stump()
    partition.leaf_starts = np.array([0, 2 ** (depth + 1) - 1])
    parents = partition.node_parents(0)
    for a in range(2**depth):
        for b in range(a):
            ancestors = [set(path(parents, leaf)) for leaf in (a, b)]
            # The number of common ancestors is one more than that of the splits that agree
            # before the first that does not: the lowest bit is the first split.
            differing = a ^ b
            agree = (differing & -differing).bit_length() - 1
            assert len(ancestors[0] & ancestors[1]) == agree + 1


def path(parents, node):
    while node >= 0:
        yield node
        node = parents[node]


def test_kinds_are_found_before_and_after_fitting():
    for model in (GradientBoostingClassifier(), HistGradientBoostingRegressor()):
        for parent in (
            model,
            FrozenEstimator(model),
            make_pipeline(StandardScaler(), model),
        ):
            assert partition_kind(parent) == "boosted"
            assert finite_space_of(parent) is None
    wrapper = BoostedTreesClassifier(HistGradientBoostingClassifier())
    assert partition_kind(wrapper) == "boosted"
    assert partition_kind(AdaBoostClassifier()) is None
    assert boosted_partition_class(AdaBoostClassifier()) is None


def test_linear_boosting_has_no_partition():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of booster="gblinear", which is to go
        X, y = table(2)
        model = library("xgboost").XGBClassifier(booster="gblinear", n_estimators=2).fit(X, y)
    with pytest.raises(TypeError, match="XGBClassifier has no partition to read"):
        partition_of(model)


def test_models_that_are_not_fitted_raise():
    for name in LIBRARIES:
        with pytest.raises(NotFittedError):
            partition_of(classifier(name))
    with pytest.raises(TypeError, match="output_bits can be set for networks only"):
        partition_of(GradientBoostingClassifier(), output_bits=False)


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_pipeline_has_the_trees_of_its_last_step(name):
    X, y = table()
    pipeline = make_pipeline(StandardScaler(), classifier(name)).fit(X, y)
    partition = partition_of(pipeline)
    trees = tree_partition_of(partition)
    assert isinstance(trees, BoostedPartition)
    assert forest_partition_of(partition) is None
    np.testing.assert_array_equal(partition.encode(X), trees.encode(pipeline[0].transform(X)))
    np.testing.assert_array_equal(
        partition.parent_proba(partition.locate(X)), pipeline.predict_proba(X)
    )


@pytest.mark.parametrize("name", NATIVE_MISSING)
def test_one_row_and_one_tree_keep_their_axes(name):
    X, y = table(2, missing=True)
    partition = partition_of(classifier(name, 1).fit(X, y))
    assert partition.encode(X[:1]).shape == (1, 1)
    assert partition.parent_proba(partition.locate(X[:1])).shape == (1, 2)


@pytest.mark.parametrize("name", ["hist_gradient_boosting", "lightgbm", "xgboost"])
def test_categories_of_a_data_frame_take_their_own_way(name):
    X, _ = table()
    colour = np.random.default_rng(0).integers(4, size=len(X))
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)]).assign(
        colour=pd.Categorical.from_codes(colour, ["red", "green", "blue", "none"])
    )
    frame.loc[:20, "colour"] = np.nan
    y = np.isin(frame["colour"], ["red", "blue"]).astype(int)
    options = {
        "hist_gradient_boosting": {"categorical_features": "from_dtype"},
        "xgboost": {"enable_categorical": True},
    }
    model = classifier(name, 3, **options.get(name, {})).fit(frame, y)
    partition = partition_of(model)
    codes = partition.encode(frame)
    # Only the set of the colour matters, and splits on sets separate it.
    assert not np.isin(codes[y == 0, 0], codes[y == 1, 0]).any()
    points = partition.embed(frame)
    np.testing.assert_array_equal(points[:, :6], X)
    np.testing.assert_array_equal(points[21:, 6], colour[21:])
    assert np.isnan(points[:21, 6]).all()


def test_structure_is_read_once_for_a_model(monkeypatch):
    lightgbm = library("lightgbm")
    X, y = table()
    model = classifier("lightgbm").fit(X, y)
    partition_of(model)
    monkeypatch.setattr(
        lightgbm.Booster, "dump_model", lambda *_, **__: pytest.fail("described twice")
    )
    assert partition_of(model).is_leaf.any()
    with pytest.raises(pytest.fail.Exception, match="described twice"):
        partition_of(model.fit(X, y))


@pytest.mark.slow
def test_no_library_is_imported_to_find_the_kind():
    code = (
        "import sys; from sklearn.svm import SVC; from kdgraph.geometry import partition_kind;"
        " assert partition_kind(SVC()) is None;"
        " assert not {'xgboost', 'lightgbm', 'catboost', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_binary_probabilities_follow_from_raw_predictions():
    """Parent probabilities have the column of the second class last, for each library."""
    X, y = table(2)
    for name in LIBRARIES:
        model = classifier(name).fit(X, y)
        partition = partition_of(model)
        proba = partition.parent_proba(partition.locate(X))
        raw = raw_predictions(model, X)[:, 0]
        np.testing.assert_allclose(logit(proba[:, 1]), raw, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(proba[:, 1], expit(raw), atol=1e-6)
    X, y = table(3)
    for name in LIBRARIES:
        model = classifier(name).fit(X, y)
        partition = partition_of(model)
        proba = partition.parent_proba(partition.locate(X))
        np.testing.assert_allclose(proba, softmax(raw_predictions(model, X), axis=1), atol=1e-6)
