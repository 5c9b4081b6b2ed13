"""Tests of features of rows inside a parent, against the parent's own methods."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import issparse
from sklearn.datasets import make_moons
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from kdgraph.calibration import Uncalibrated
from kdgraph.features import features_of
from kdgraph.geometry import partition_of


def test_rows_are_not_changed_without_a_pipeline(table):
    X, y = table
    parent = LogisticRegression().fit(X, y)
    for source in ("auto", "rows"):
        features = features_of(parent, X[:5].astype(np.float32), source)
        assert features.dtype == np.float64 and np.array_equal(features, X[:5].astype(np.float32))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda p: p,
        FrozenEstimator,
        make_pipeline,
        lambda p: FrozenEstimator(make_pipeline(FrozenEstimator(p))),
    ],
    ids=["as it is", "frozen", "in another pipeline", "in and out"],
)
def test_rows_are_transformed_by_the_pipeline(wrap, table):
    X, y = table
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    assert np.array_equal(features_of(wrap(pipeline), X), pipeline[0].transform(X))


def test_sparse_transformations_of_a_frame_become_dense(table):
    frame = pd.DataFrame({"town": ["Ulm", "Bonn", "Ulm", "Bonn"]})
    pipeline = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(frame, [0, 1, 0, 1])
    assert features_of(pipeline, frame).tolist() == [[0, 1], [1, 0], [0, 1], [1, 0]]


def test_features_of_a_calibrator_are_those_of_its_parent(table, forest):
    parent = Uncalibrated(FrozenEstimator(forest)).fit(*table)
    assert (features_of(parent, table[0]) != features_of(forest, table[0])).nnz == 0


@pytest.mark.parametrize(
    "parent",
    [
        # its estimator_ is never fitted
        BaggingClassifier(make_pipeline(StandardScaler(), LogisticRegression()), n_estimators=2),
        # its estimator_ has two features, not six
        RFE(DecisionTreeClassifier(), n_features_to_select=2),
    ],
    ids=lambda parent: type(parent).__name__,
)
def test_bagging_and_feature_selection_are_not_opened(parent, table):
    assert np.array_equal(features_of(parent.fit(*table), table[0]), table[0])


@pytest.mark.parametrize("forest_class", [RandomForestClassifier, ExtraTreesClassifier])
def test_the_inner_product_of_leaves_is_the_geodesic_similarity(forest_class, table):
    X, y = table
    forest = forest_class(20, random_state=0).fit(X, y)
    leaves = features_of(forest, X[:50])
    assert issparse(leaves) and leaves.dtype == np.float64
    partition = partition_of(forest)
    codes = partition.encode(X[:50])
    # The tolerance is the rounding error of 20 terms.
    np.testing.assert_allclose(
        (leaves @ leaves.T).toarray(), partition.similarity(codes, codes), atol=1e-14
    )
    assert (np.diff(leaves.indptr) == 20).all()


def test_each_row_is_in_one_leaf_of_a_tree(table):
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(*table)
    leaves = features_of(tree, table[0]).toarray()
    assert leaves.shape == (300, tree.get_n_leaves())
    leaf = np.unique(tree.apply(table[0]), return_inverse=True)[1]  # every leaf has a row
    assert np.array_equal(leaves.argmax(axis=1), leaf) and np.array_equal(
        leaves.sum(axis=1), np.ones(300)
    )


def test_only_leaves_have_columns(table, forest):
    leaves = features_of(forest, table[0])
    assert leaves.shape[1] == sum(tree.get_n_leaves() for tree in forest.estimators_)
    ends = np.cumsum([tree.get_n_leaves() for tree in forest.estimators_])
    # The columns are ordered tree by tree.
    assert np.array_equal(
        np.searchsorted(ends, leaves.indices, side="right"), np.tile(np.arange(20), 300)
    )


def test_leaves_are_found_inside_a_pipeline(table):
    X, y = table
    pipeline = make_pipeline(
        SimpleImputer(), StandardScaler(), RandomForestClassifier(5, random_state=0)
    ).fit(X, y)
    expected = features_of(pipeline[-1], pipeline[:-1].transform(X))
    for parent in (
        pipeline,
        FrozenEstimator(pipeline),
        make_pipeline(SimpleImputer(), pipeline).fit(X, y),
    ):
        assert (features_of(parent, X) != expected).nnz == 0
    missing = X.copy()
    missing[0, 0] = np.nan
    assert features_of(pipeline, missing).shape == expected.shape


def test_layers_and_logits_of_a_network(table, mlp):
    X, _ = table
    for source in ("auto", "layer"):
        features = features_of(mlp, X, source)
        assert (
            features.shape == (300, 5)
            and features.dtype == np.float64
            and np.array_equal(features, mlp.transform(X))
        )
    logits = features_of(mlp, X, "logits")
    # Probabilities are computed in float32.
    np.testing.assert_allclose(
        np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), mlp.predict_proba(X), atol=1e-6
    )
    name = next(
        name
        for name, module in mlp.module_.named_modules()
        if getattr(module, "out_features", None) == 8
    )
    assert np.array_equal(
        features_of(mlp, X, "layer", name), mlp.transform(X, name)
    ) and mlp.transform(X, name).shape == (300, 8)
    weight, bias = (
        parameter.detach().numpy().astype(float) for parameter in list(mlp.module_.parameters())[:2]
    )
    # The layer is computed in float32.
    np.testing.assert_allclose(features_of(mlp, X, "layer", name), X @ weight.T + bias, atol=1e-4)


def test_a_network_is_found_inside_pipelines_and_calibrators(table, mlp):
    X, y = table
    scaler = StandardScaler().fit(X)
    pipeline = make_pipeline(FrozenEstimator(scaler), FrozenEstimator(mlp)).fit(X, y)
    assert np.array_equal(features_of(pipeline, X, "layer"), mlp.transform(scaler.transform(X)))
    assert np.array_equal(
        features_of(Uncalibrated(FrozenEstimator(mlp)).fit(X, y), X), mlp.transform(X)
    )


def test_features_of_images(images, cnn):
    features = features_of(cnn, images[0])
    assert (
        features.ndim == 2
        and len(features) == 40
        and np.array_equal(features, cnn.transform(images[0]))
    )
    assert np.array_equal(
        features_of(cnn, images[0], "rows"), images[0].reshape(40, 144).astype(float)
    )


def test_pipelines_inside_wrappers_transform_rows(table):
    X, y = table
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    calibrated = Uncalibrated(FrozenEstimator(pipeline)).fit(X, y)
    for parent in (
        calibrated,
        FrozenEstimator(calibrated),
        Uncalibrated(FrozenEstimator(calibrated)).fit(X, y),
        make_pipeline(FrozenEstimator(calibrated)),
    ):
        assert np.array_equal(features_of(parent, X), pipeline[0].transform(X))


@pytest.mark.parametrize("source", ["leaves", "rows", "layer", "logits"])
def test_features_of_a_row_do_not_depend_on_other_rows(source, table, forest, mlp):
    parent, X = forest if source == "leaves" else mlp, table[0]
    together, single = (
        features_of(parent, X, source),
        [features_of(parent, X[i : i + 7], source) for i in range(0, 300, 7)],
    )
    single = np.vstack([rows.toarray() if issparse(rows) else rows for rows in single])
    assert np.array_equal(together.toarray() if issparse(together) else together, single)


def test_missing_sources_are_refused(table, forest, mlp):
    X, y = table
    linear = LogisticRegression().fit(X, y)
    missing = X.copy()
    missing[3, 2] = np.nan
    network = "pass a network of kdgraph.parents.networks"
    cases = [
        (
            lambda: features_of(linear, X, "layer"),
            TypeError,
            f"LogisticRegression has no logits or layers to read; {network}",
        ),
        (
            lambda: features_of(forest, X, "logits"),
            TypeError,
            f"RandomForestClassifier has no logits or layers to read; {network}",
        ),
        (
            lambda: features_of(mlp, X, "leaves"),
            TypeError,
            "leaves are those of trees, got MultilayerPerceptron; use layer or rows",
        ),
        (
            lambda: features_of(linear, X, "leaves"),
            TypeError,
            (
                "LogisticRegression has no partition to read; pass a fitted forest, tree or boosted"
                " trees, or a network of torch"
            ),
        ),
        (
            lambda: features_of(linear, missing),
            ValueError,
            (
                "rows have no finite distances, row 3 has nan in column 2; impute in the parent's"
                " pipeline"
            ),
        ),
    ]
    for call, error, sentence in cases:
        with pytest.raises(error) as caught:
            call()
        assert str(caught.value) == sentence
    with pytest.raises(ValueError, match="no_such") as caught:
        features_of(mlp, X, "layer", "no_such")
    assert "\n" not in str(caught.value)


def test_default_source_of_a_forest_is_leaves():
    X, y = make_moons(60, noise=0.2, random_state=0)
    assert issparse(features_of(FrozenEstimator(RandomForestClassifier(3).fit(X, y)), X))
    assert issparse(features_of(RandomForestClassifier(3).fit(X, y), X, "leaves"))
