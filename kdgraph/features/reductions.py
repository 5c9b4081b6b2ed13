"""Reductions of features to few dimensions, the second part φ₂ of a feature map.

They are those of Luo et al. 2022, Section 3.2, by scikit-learn and umap-learn. t-SNE and UMAP are
wrapped so that a row always has the same embedding, whichever rows are embedded with it.
Original to kdgraph.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse
from sklearn.decomposition import PCA, TruncatedSVD
from threadpoolctl import threadpool_limits

from kdgraph.errors import ParameterError
from kdgraph.extras import is_installed, needs_library

ReductionName = Literal["none", "pca", "tsne", "umap"]
"""Name of a reduction.

- pca: principal components; for leaves, which are sparse, singular vectors without centring.
- tsne: t-SNE, only for rows that it was fitted on (:class:`TsneEmbedding`).
- umap: UMAP, which needs ``pip install 'kdgraph[umap]'``.

For leaves, t-SNE and UMAP start from 50 singular vectors.
"""

DEFAULT_DIMENSIONS: dict[str, int] = {"pca": 20, "tsne": 2, "umap": 2}
"""Dimensions of Luo et al. 2022, Section 3.2, for tables.

For images they use 50 principal components, and 3 dimensions of t-SNE.
"""

MAX_DENSE_SIZE = 2**27
"""Maximum size of leaves as a dense array, in numbers: 1 GiB.

For 500 trees that were grown on 1,000 rows, these are about 2,000 rows.
"""

# Dimensions of sparse features before t-SNE and UMAP, as scikit-learn advises. Leaves as a dense
# array would have a column for each leaf of the forest.
_MAX_SPARSE_COMPONENTS = 50


class TsneEmbedding:
    """Embedding of the rows of ``fit`` by t-SNE (van der Maaten and Hinton 2008).

    Other rows cannot be embedded. Rows are found by a digest of their features; equal rows all have
    the embedding of the first one.
    """

    def __init__(self, dimensions: int, random_state: Any = None) -> None:
        self.dimensions = dimensions
        self.random_state = random_state

    def fit(self, features: Any) -> TsneEmbedding:
        """Embed features, Float[n, d] or sparse.

        It runs on one thread. The sums of scikit-learn depend on the number of threads, and t-SNE
        depends on every bit of them.
        """
        self.svd_ = None
        if issparse(features) and features.shape[1] > _MAX_SPARSE_COMPONENTS:
            with threadpool_limits(1):
                self.svd_ = TruncatedSVD(
                    min(_MAX_SPARSE_COMPONENTS, features.shape[0]), random_state=self.random_state
                ).fit(features)
        self.embedding_ = self._fit_embedding(self._preprocess(features)).astype(np.float64)
        self.row_of_digest_: dict[str, int] = {}
        for i, digest in enumerate(_row_digests(features)):
            self.row_of_digest_.setdefault(digest, i)
        return self

    def transform(self, features: Any) -> np.ndarray:
        """Return the embedding of rows that are among those of ``fit``, Float[k, m]."""
        positions = np.array(
            [self.row_of_digest_.get(digest, -1) for digest in _row_digests(features)],
            dtype=np.intp,
        )
        embedding = self.embedding_[positions]
        new_rows = np.flatnonzero(positions < 0)
        if len(new_rows):
            embedding[new_rows] = self._embed_new(features, new_rows)
        return embedding

    def _preprocess(self, features: Any) -> np.ndarray:
        """Return features as a dense array, Float[n, d], with at most 50 columns if sparse."""
        return (
            self.svd_.transform(features)
            if issparse(features) and self.svd_ is not None
            else to_dense(features)
        )

    def _fit_embedding(self, features: np.ndarray) -> np.ndarray:
        from sklearn.manifold import TSNE

        n, max_perplexity = len(features), (len(features) - 1) / 3
        if n < 4:
            raise ValueError(f"t-SNE needs four rows, got {n}")
        # The start by principal components fails for fewer rows or columns than dimensions, and for
        # identical rows. The Barnes-Hut approximation exists for up to three dimensions.
        has_components = min(features.shape) >= self.dimensions and np.ptp(features, axis=0).any()
        with threadpool_limits(1):
            model = TSNE(
                self.dimensions,
                perplexity=min(30.0, max_perplexity),
                init="pca" if has_components else "random",
                method="barnes_hut" if self.dimensions < 4 else "exact",
                random_state=self.random_state,
                n_jobs=1,
            )
            return model.fit_transform(features)

    def _embed_new(self, features: Any, new_rows: np.ndarray) -> np.ndarray:
        first, n_more = new_rows[0], len(new_rows) - 1
        new = f"row {first} and {n_more} more are" if n_more else f"row {first} is"
        raise ValueError(
            f"t-SNE cannot embed rows that it was not fitted on, and {new} new; use pca or umap"
        )


class UmapEmbedding(TsneEmbedding):
    """Embedding by UMAP (McInnes et al. 2018), which also embeds new rows.

    Rows of ``fit`` keep their embedding. New rows are embedded one by one, which takes some tens of
    milliseconds for each row: together they would change the embeddings of each other.
    """

    def _fit_embedding(self, features: np.ndarray) -> np.ndarray:
        from umap import UMAP  # pyright: ignore[reportMissingImports] - an extra

        self.umap_ = UMAP(n_components=self.dimensions, random_state=self.random_state, n_jobs=1)
        return self.umap_.fit_transform(features)

    def _embed_new(self, features: Any, new_rows: np.ndarray) -> np.ndarray:
        return np.concatenate(
            [self.umap_.transform(self._preprocess(features[i : i + 1])) for i in new_rows]
        )


def make_reduction(
    name: ReductionName, dimensions: int | None, features: Any, random_state: Any
) -> Any:
    """Return an unfitted reduction with ``fit`` and ``transform``; None for "none".

    Principal components are at most as many as there are rows and columns of the features.
    """
    dimensions = dimensions or DEFAULT_DIMENSIONS.get(name, 1)
    n_components = min(dimensions, *features.shape)
    # Singular vectors need two columns. A single column is not reduced.
    if issparse(features) and features.shape[1] == 1:
        name = "none" if name == "pca" else name
    factories: dict[str, Callable[[], Any]] = {
        "none": lambda: None,
        "pca": lambda: (
            TruncatedSVD(n_components, random_state=random_state)
            if issparse(features)
            else PCA(n_components, random_state=random_state)
        ),
        "tsne": lambda: TsneEmbedding(dimensions, random_state),
        "umap": lambda: _make_umap(dimensions, random_state),
    }
    return factories[name]()


def _make_umap(dimensions: int, random_state: Any) -> UmapEmbedding:
    if not is_installed("umap"):
        raise ParameterError(needs_library("reduce=umap", "umap"))
    return UmapEmbedding(dimensions, random_state)


def to_dense(features: Any) -> np.ndarray:
    """Return features as a dense array Float[n, d] of at most :data:`MAX_DENSE_SIZE` numbers."""
    if not issparse(features):
        return features
    rows, columns = features.shape
    if rows * columns > MAX_DENSE_SIZE:
        size = (
            f"{rows:,} rows × {columns:,} leaves are an array of"
            f" {rows * columns * 8 / 2**30:.1f} GiB"
        )
        raise ParameterError(
            f"reduce=none is for few leaves, and {size}, above {MAX_DENSE_SIZE * 8 / 2**30:g}; use"
            " reduce=pca"
        )
    return features.toarray()


def _row_digests(features: Any) -> list[str]:
    """Return a digest of each row; for sparse rows, of column numbers and values."""
    if issparse(features):
        columns, values = features.indices.astype(np.int64), features.data
        rows = [
            columns[start:end].tobytes() + values[start:end].tobytes()
            for start, end in pairwise(features.indptr)
        ]
    else:
        rows = [row.tobytes() for row in np.ascontiguousarray(features)]
    return [hashlib.blake2b(row, digest_size=16).hexdigest() for row in rows]
