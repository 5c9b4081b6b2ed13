"""Tests of feature maps against φ₂ ∘ φ₁ by hand, with one scale for the whole space."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from kdgraph.errors import ParameterError
from kdgraph.features import FeatureMap, features_of
from kdgraph.persistence import from_bytes, to_bytes


def rms(X: np.ndarray) -> float:
    """Return the root mean square distance from the mean, row by row."""
    mean = X.mean(axis=0)
    return float(np.sqrt(np.mean([np.mean((row - mean) ** 2) for row in X])))


def test_map_is_scaled_pca_of_the_hidden_layer(table, mlp):
    X, _ = table
    hidden = mlp.transform(X).astype(float)
    expected = PCA(3).fit(hidden).transform(hidden)
    feature_map = FeatureMap(dimensions=3, random_state=0).fit(mlp, X)
    assert feature_map.scale_ == pytest.approx(rms(expected))
    np.testing.assert_allclose(feature_map.transform(mlp, X), expected / rms(expected), atol=1e-12)
    assert rms(feature_map.transform(mlp, X)) == pytest.approx(1.0)
    unscaled = FeatureMap(dimensions=3, scale="none", random_state=0).fit(mlp, X)
    assert unscaled.scale_ == 1.0
    np.testing.assert_allclose(unscaled.transform(mlp, X), expected, atol=1e-12)


def test_scaling_keeps_the_shape_of_the_space():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2)) * [1.0, 100.0]
    parent = LogisticRegression().fit(X, X[:, 0] > 0)
    feature_map = FeatureMap(reduce="none").fit(parent, X).transform(parent, X)
    np.testing.assert_allclose(
        feature_map.std(axis=0)[1] / feature_map.std(axis=0)[0], X.std(axis=0)[1] / X.std(axis=0)[0]
    )


def test_scale_is_that_of_the_rows_in_fit(table, mlp):
    X, _ = table
    feature_map = FeatureMap(source="rows", reduce="none").fit(mlp, X[:100])
    assert feature_map.scale_ == pytest.approx(rms(X[:100]))
    assert np.array_equal(feature_map.transform(mlp, X[100:]), X[100:] / feature_map.scale_)


def test_leaves_with_and_without_reduction(table, forest):
    X, _ = table
    leaves = features_of(forest, X)
    unreduced = FeatureMap(reduce="none").fit(forest, X)
    assert unreduced.scale_ == pytest.approx(rms(leaves.toarray()))
    np.testing.assert_allclose(unreduced.transform(forest, X), leaves.toarray() / unreduced.scale_)
    assert issparse(unreduced.transform_sparse(forest, X)) and np.array_equal(
        unreduced.transform_sparse(forest, X).toarray(), unreduced.transform(forest, X)
    )
    svd = (
        TruncatedSVD(20, random_state=np.random.RandomState(0).randint(np.iinfo(np.int32).max))
        .fit(leaves)
        .transform(leaves)
    )
    reduced = FeatureMap(random_state=0).fit(forest, X)
    assert reduced.transform(forest, X).shape == (300, 20)  # the default number of dimensions
    np.testing.assert_allclose(reduced.transform(forest, X), svd / rms(svd), atol=1e-10)


@pytest.mark.parametrize("reduce", ["none", "pca"])
@pytest.mark.parametrize("source", ["rows", "leaves", "layer"])
def test_embedding_of_a_row_does_not_depend_on_other_rows(source, reduce, table, forest, mlp):
    parent, X = forest if source == "leaves" else mlp, table[0]
    feature_map = FeatureMap(source=source, reduce=reduce, dimensions=3, random_state=0).fit(
        parent, X
    )
    single = np.vstack([feature_map.transform(parent, X[i : i + 1]) for i in range(30)])
    # Matrix products with one row and with many rows may add in another order.
    np.testing.assert_allclose(single, feature_map.transform(parent, X)[:30], rtol=0, atol=1e-12)


@pytest.mark.parametrize("reduce", ["none", "pca"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_fewer_rows_than_dimensions(reduce, n, table, forest):
    linear = LogisticRegression().fit(*table)
    for parent in (forest, linear):
        feature_map = FeatureMap(reduce=reduce, random_state=0).fit(parent, table[0][:n])
        assert (
            np.isfinite(feature_map.transform(parent, table[0])).all()
            and len(feature_map.transform(parent, table[0])) == 300
        )


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9])
@pytest.mark.parametrize("reduce", ["none", "pca"])
def test_constant_features_are_not_scaled(reduce, value, table):
    parent = LogisticRegression().fit(table[0], table[1])
    X = np.full((20, 6), value)
    feature_map = FeatureMap(reduce=reduce, random_state=0).fit(parent, X)
    assert feature_map.scale_ == 1.0
    # The tolerance allows for the rounding of large numbers.
    np.testing.assert_allclose(
        np.ptp(feature_map.transform(parent, X), axis=0), 0, atol=1e-6 * value
    )


def test_rows_in_one_leaf_are_not_scaled(forest, table):
    X = np.repeat(table[0][:1], 9, axis=0)
    assert FeatureMap(reduce="none").fit(forest, X).scale_ == 1.0


@pytest.mark.parametrize("reduce", ["none", "pca"])
def test_a_tree_of_one_leaf_embeds_all_rows_equally(reduce, table):
    stump = DecisionTreeClassifier(min_samples_leaf=300).fit(*table)
    assert (
        FeatureMap(reduce=reduce).fit(stump, table[0]).transform(stump, table[0]).tolist()
        == [[1.0]] * 300
    )


def test_t_sne_embeds_only_rows_of_fit(table, mlp):
    X, _ = table
    feature_map = FeatureMap(reduce="tsne", dimensions=2, random_state=0).fit(mlp, X[:60])
    assert feature_map.is_transductive and not FeatureMap().is_transductive
    assert feature_map.transform(mlp, X[:60]).shape == (60, 2) and rms(
        feature_map.transform(mlp, X[:60])
    ) == pytest.approx(1.0)
    np.testing.assert_array_equal(
        feature_map.transform(mlp, X[7:9]), feature_map.transform(mlp, X[:60])[7:9]
    )
    with pytest.raises(ValueError, match="t-SNE") as caught:
        feature_map.transform(mlp, X[58:63])
    assert (
        str(caught.value)
        == "t-SNE cannot embed rows that it was not fitted on, and row 2 and 2 more are new;"
        " use pca or umap"
    )
    copy = FeatureMap(reduce="tsne", dimensions=2, random_state=0).fit(mlp, X[:60])
    assert np.array_equal(copy.transform(mlp, X[:60]), feature_map.transform(mlp, X[:60]))


def test_images_are_embedded(images, cnn):
    feature_map = FeatureMap(dimensions=4, random_state=0).fit(cnn, images[0])
    assert feature_map.transform(cnn, images[0]).shape == (40, 4)
    pixels = FeatureMap(source="rows", reduce="none").fit(cnn, images[0])
    np.testing.assert_allclose(
        pixels.transform(cnn, images[0]),
        images[0].reshape(40, -1) / rms(images[0].reshape(40, -1).astype(float)),
    )


@pytest.mark.parametrize(
    "options",
    [{}, {"reduce": "none"}, {"source": "rows"}, {"reduce": "tsne", "dimensions": 2}],
    ids=str,
)
def test_map_can_be_cloned_pickled_and_saved(options, table, forest):
    X = table[0][:50]
    feature_map = FeatureMap(**options, random_state=0).fit(forest, X)
    assert clone(feature_map).get_params() == feature_map.get_params() and not hasattr(
        clone(feature_map), "scale_"
    )
    for copy in (
        pickle.loads(pickle.dumps(feature_map)),
        from_bytes(to_bytes(feature_map), "it").value,
    ):
        assert np.array_equal(copy.transform(forest, X), feature_map.transform(forest, X))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"source": "pixels"},
            "source must be one of auto, rows, layer, logits, leaves, got 'pixels'",
        ),
        ({"reduce": "lda"}, "reduce must be one of none, pca, tsne, umap, got 'lda'"),
        ({"dimensions": 0}, "dimensions must be in [1, inf) or null, got 0"),
        ({"scale": "unit"}, "scale must be one of rms, none, got 'unit'"),
    ],
    ids=["source", "reduce", "dimensions", "scale"],
)
def test_invalid_parameters_are_refused(options, sentence, table, forest):
    with pytest.raises(ParameterError) as caught:
        FeatureMap(**options).fit(forest, table[0])
    assert str(caught.value) == sentence
