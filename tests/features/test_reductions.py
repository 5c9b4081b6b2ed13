"""Reductions against direct calls of scikit-learn."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_info, threadpool_limits

from kdgraph.errors import ParameterError
from kdgraph.features.reductions import TsneEmbedding, make_reduction, to_dense


@pytest.fixture(scope="module")
def features():
    """Return features of unequal spread, Float[60, 6]."""
    return np.random.default_rng(0).normal(size=(60, 6)) * np.arange(1, 7)


def test_principal_components_match_scikit_learn(features):
    reduction = make_reduction("pca", 3, features, 0).fit(features)
    assert isinstance(reduction, PCA)
    assert np.array_equal(
        reduction.transform(features), PCA(3, random_state=0).fit(features).transform(features)
    )


def test_sparse_features_are_reduced_by_singular_vectors(features):
    sparse = csr_array(np.where(features > 0, features, 0))
    reduction = make_reduction("pca", 3, sparse, 0).fit(sparse)
    assert np.array_equal(
        reduction.transform(sparse), TruncatedSVD(3, random_state=0).fit(sparse).transform(sparse)
    )


@pytest.mark.parametrize("make", [to_dense, csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("shape", "expected"), [((60, 6), 6), ((60, 2), 2), ((3, 6), 3), ((60, 1), 1)]
)
def test_dimensions_are_bounded_by_rows_and_columns(make, shape, expected, features):
    rows = make(np.abs(features[: shape[0], : shape[1]]))
    if make is csr_array and shape[1] == 1:
        assert make_reduction("pca", 20, rows, 0) is None  # one leaf is one dimension as it is
        return
    assert make_reduction("pca", 20, rows, 0).fit(rows).transform(rows).shape == (
        shape[0],
        expected,
    )


def test_none_reduces_nothing(features):
    assert make_reduction("none", 3, features, 0) is None


def test_t_sne_matches_scikit_learn_on_one_thread(features):
    reduction = TsneEmbedding(2, 0).fit(features)
    with threadpool_limits(1):
        expected = TSNE(2, perplexity=59 / 3, init="pca", random_state=0, n_jobs=1).fit_transform(
            features
        )
    assert np.array_equal(reduction.transform(features), expected)
    assert np.array_equal(reduction.transform(features[[7, 3]]), expected[[7, 3]])


@pytest.fixture
def thread_counts(monkeypatch):
    """Maximum number of threads while t-SNE and its SVD are fitted; t-SNE itself is replaced."""
    threads = {}

    def max_threads() -> int:
        return max(library["num_threads"] for library in threadpool_info())

    def fit_transform(model, features):
        threads["t-SNE"] = max_threads(), model.n_jobs
        return np.zeros((len(features), 2))

    fit = TruncatedSVD.fit
    monkeypatch.setattr(TSNE, "fit_transform", fit_transform)
    monkeypatch.setattr(
        TruncatedSVD, "fit", lambda model, X: threads.update(svd=max_threads()) or fit(model, X)
    )
    return threads


def test_t_sne_and_its_svd_run_on_one_thread(thread_counts, features):
    sparse = csr_array(np.tile(np.abs(features), 10))
    with threadpool_limits(2):
        assert max(library["num_threads"] for library in threadpool_info()) == 2
        TsneEmbedding(2, 3).fit(sparse)
    assert thread_counts == {"svd": 1, "t-SNE": (1, 1)}


def make_one_hot(rows: int, columns: int) -> csr_array:
    return csr_array(
        (np.ones(rows), np.random.default_rng(0).integers(0, columns, rows), np.arange(rows + 1)),
        shape=(rows, columns),
    )


@pytest.mark.parametrize("columns", [50, 51, 1000])
def test_t_sne_of_sparse_features_starts_from_fifty_dimensions(columns, monkeypatch):
    shapes = []
    monkeypatch.setattr(
        TsneEmbedding,
        "_fit_embedding",
        lambda _, reduced: shapes.append(reduced.shape) or reduced[:, :2],
    )
    monkeypatch.setattr("kdgraph.features.reductions.MAX_DENSE_SIZE", 60 * 50)
    sparse = make_one_hot(60, columns)
    reduction = TsneEmbedding(2, 0).fit(sparse)
    assert shapes == [(60, 50)]
    assert np.array_equal(reduction.transform(sparse[[7, 3]]), reduction.embedding_[[7, 3]])
    with pytest.raises(ValueError, match="row 1 is new"):
        reduction.transform(
            csr_array(([1.0, 2.0], sparse.indices[[7, 3]], [0, 1, 2]), shape=(2, columns))
        )


def test_large_arrays_of_leaves_are_refused(monkeypatch):
    monkeypatch.setattr("kdgraph.features.reductions.MAX_DENSE_SIZE", 2**27)
    sparse = make_one_hot(1000, 2**18)
    with pytest.raises(ParameterError) as caught:
        to_dense(sparse)
    size = "1,000 rows × 262,144 leaves are an array of 2.0 GiB"
    assert (
        str(caught.value) == f"reduce=none is for few leaves, and {size}, above 1; use reduce=pca"
    )


@pytest.mark.parametrize(("dimensions", "columns"), [(3, 6), (2, 1), (4, 6)])
def test_t_sne_in_other_dimensions(dimensions, columns, features):
    assert TsneEmbedding(dimensions, 0).fit(features[:12, :columns]).embedding_.shape == (
        12,
        dimensions,
    )


def test_equal_rows_have_equal_embeddings(features):
    repeated = np.vstack([features[:10], features[:5]])
    reduction = TsneEmbedding(2, 0).fit(repeated).transform(repeated)
    assert np.array_equal(reduction[:5], reduction[10:])
    assert (
        len(np.unique(TsneEmbedding(2, 0).fit(np.ones((8, 3))).transform(np.ones((8, 3))), axis=0))
        == 1
    )


@pytest.mark.parametrize(
    ("rows", "new_rows"),
    [([0, 1], "row 0 and 1 more are"), ([1], "row 1 is")],
    ids=["both are new", "one is"],
)
def test_t_sne_refuses_new_rows(rows, new_rows, features):
    queries = features[:2].copy()
    queries[rows] += 1e-12
    with pytest.raises(ValueError, match="t-SNE") as caught:
        TsneEmbedding(2, 0).fit(features).transform(queries)
    assert (
        str(caught.value)
        == f"t-SNE cannot embed rows that it was not fitted on, and {new_rows} new; use pca or"
        " umap"
    )


def test_t_sne_of_three_rows_is_refused(features):
    with pytest.raises(ValueError, match=r"^t-SNE needs four rows, got 3$"):
        TsneEmbedding(2, 0).fit(features[:3])


def test_umap_needs_the_extra(features, monkeypatch):
    monkeypatch.setattr("kdgraph.extras.find_spec", lambda library: None)
    with pytest.raises(
        ParameterError, match=r"^reduce=umap needs umap: pip install 'kdgraph\[umap\]'$"
    ):
        make_reduction("umap", 2, features, 0)


@pytest.mark.skipif(importlib.util.find_spec("umap") is None, reason="umap-learn is not installed")
def test_umap_embeds_new_rows(features):
    reduction = make_reduction("umap", 2, features, 0).fit(features)
    assert reduction.transform(features[:5]).shape == (5, 2)
