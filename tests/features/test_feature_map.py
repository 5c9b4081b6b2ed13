"""Feature maps: φ₂ ∘ φ₁ by hand, one unit for the whole space, and a place for each row that
depends on no other.
"""

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
    """Row by row, from the definition."""
    mean = X.mean(axis=0)
    return float(np.sqrt(np.mean([np.mean((row - mean) ** 2) for row in X])))


def test_it_is_pca_of_what_the_parent_sees_over_one_number(table, mlp):
    X, _ = table
    seen = mlp.transform(X).astype(float)
    expected = PCA(3).fit(seen).transform(seen)
    found = FeatureMap(dimensions=3, random_state=0).fit(mlp, X)
    assert found.scale_ == pytest.approx(rms(expected))
    np.testing.assert_allclose(found.transform(mlp, X), expected / rms(expected), atol=1e-12)
    assert rms(found.transform(mlp, X)) == pytest.approx(1.0)
    unscaled = FeatureMap(dimensions=3, scale="none", random_state=0).fit(mlp, X)
    assert unscaled.scale_ == 1.0
    np.testing.assert_allclose(unscaled.transform(mlp, X), expected, atol=1e-12)


def test_the_shape_of_the_space_stays():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2)) * [1.0, 100.0]
    parent = LogisticRegression().fit(X, X[:, 0] > 0)
    found = FeatureMap(reduce="none").fit(parent, X).transform(parent, X)
    np.testing.assert_allclose(
        found.std(axis=0)[1] / found.std(axis=0)[0], X.std(axis=0)[1] / X.std(axis=0)[0]
    )


def test_the_unit_is_of_the_rows_in_fit(table, mlp):
    X, _ = table
    found = FeatureMap(source="rows", reduce="none").fit(mlp, X[:100])
    assert found.scale_ == pytest.approx(rms(X[:100]))
    assert np.array_equal(found.transform(mlp, X[100:]), X[100:] / found.scale_)


def test_leaves_reduced_and_as_they_are(table, forest):
    X, _ = table
    leaves = features_of(forest, X)
    plain = FeatureMap(reduce="none").fit(forest, X)
    assert plain.scale_ == pytest.approx(rms(leaves.toarray()))
    np.testing.assert_allclose(plain.transform(forest, X), leaves.toarray() / plain.scale_)
    assert issparse(plain.transform_sparse(forest, X)) and np.array_equal(
        plain.transform_sparse(forest, X).toarray(), plain.transform(forest, X)
    )
    svd = (
        TruncatedSVD(20, random_state=np.random.RandomState(0).randint(np.iinfo(np.int32).max))
        .fit(leaves)
        .transform(leaves)
    )
    reduced = FeatureMap(random_state=0).fit(forest, X)
    assert reduced.transform(forest, X).shape == (300, 20)  # as many as were asked for
    np.testing.assert_allclose(reduced.transform(forest, X), svd / rms(svd), atol=1e-10)


@pytest.mark.parametrize("reduce", ["none", "pca"])
@pytest.mark.parametrize("source", ["rows", "leaves", "layer"])
def test_where_a_row_lies_depends_on_no_other(source, reduce, table, forest, mlp):
    parent, X = forest if source == "leaves" else mlp, table[0]
    found = FeatureMap(source=source, reduce=reduce, dimensions=3, random_state=0).fit(parent, X)
    apart = np.vstack([found.transform(parent, X[i : i + 1]) for i in range(30)])
    # a product of one row and one of many rows may add in another order
    np.testing.assert_allclose(apart, found.transform(parent, X)[:30], rtol=0, atol=1e-12)


@pytest.mark.parametrize("reduce", ["none", "pca"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_fewer_rows_than_dimensions(reduce, n, table, forest):
    linear = LogisticRegression().fit(*table)
    for parent in (forest, linear):
        found = FeatureMap(reduce=reduce, random_state=0).fit(parent, table[0][:n])
        assert (
            np.isfinite(found.transform(parent, table[0])).all()
            and len(found.transform(parent, table[0])) == 300
        )


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9])
@pytest.mark.parametrize("reduce", ["none", "pca"])
def test_constant_features_have_no_unit(reduce, value, table):
    parent = LogisticRegression().fit(table[0], table[1])
    X = np.full((20, 6), value)
    found = FeatureMap(reduce=reduce, random_state=0).fit(parent, X)
    assert found.scale_ == 1.0
    np.testing.assert_allclose(
        np.ptp(found.transform(parent, X), axis=0), 0, atol=1e-6 * value
    )  # what rounding makes of large numbers


def test_rows_that_are_all_in_one_leaf_have_no_unit(forest, table):
    X = np.repeat(table[0][:1], 9, axis=0)
    assert FeatureMap(reduce="none").fit(forest, X).scale_ == 1.0


@pytest.mark.parametrize("reduce", ["none", "pca"])
def test_a_tree_of_one_leaf_puts_all_rows_in_one_place(reduce, table):
    stump = DecisionTreeClassifier(min_samples_leaf=300).fit(*table)
    assert (
        FeatureMap(reduce=reduce).fit(stump, table[0]).transform(stump, table[0]).tolist()
        == [[1.0]] * 300
    )


def test_t_sne_knows_its_own_rows_alone(table, mlp):
    X, _ = table
    found = FeatureMap(reduce="tsne", dimensions=2, random_state=0).fit(mlp, X[:60])
    assert found.is_transductive and not FeatureMap().is_transductive
    assert found.transform(mlp, X[:60]).shape == (60, 2) and rms(
        found.transform(mlp, X[:60])
    ) == pytest.approx(1.0)
    np.testing.assert_array_equal(found.transform(mlp, X[7:9]), found.transform(mlp, X[:60])[7:9])
    with pytest.raises(ValueError, match="t-SNE") as caught:
        found.transform(mlp, X[58:63])
    assert (
        str(caught.value)
        == "t-SNE cannot embed rows that it was not fitted on, and row 2 and 2 more are new;"
        " use pca or umap"
    )
    again = FeatureMap(reduce="tsne", dimensions=2, random_state=0).fit(mlp, X[:60])
    assert np.array_equal(again.transform(mlp, X[:60]), found.transform(mlp, X[:60]))


def test_images(images, cnn):
    found = FeatureMap(dimensions=4, random_state=0).fit(cnn, images[0])
    assert found.transform(cnn, images[0]).shape == (40, 4)
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
def test_it_is_cloned_pickled_and_saved(options, table, forest):
    X = table[0][:50]
    made = FeatureMap(**options, random_state=0).fit(forest, X)
    assert clone(made).get_params() == made.get_params() and not hasattr(clone(made), "unit_")
    for again in (pickle.loads(pickle.dumps(made)), from_bytes(to_bytes(made), "it").value):
        assert np.array_equal(again.transform(forest, X), made.transform(forest, X))


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
)
def test_a_parameter_that_is_none_is_told_in_one_line(options, sentence, table, forest):
    with pytest.raises(ParameterError) as caught:
        FeatureMap(**options).fit(forest, table[0])
    assert str(caught.value) == sentence
