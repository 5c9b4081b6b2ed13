"""The second half of a feature map: to few dimensions (φ₂ of Luo et al., Section 3.2), by
scikit-learn and umap-learn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse
from sklearn.decomposition import PCA, TruncatedSVD
from threadpoolctl import threadpool_limits

from kdgraph.errors import ParameterError

ReductionName = Literal["none", "pca", "tsne", "umap"]
"""pca: principal components; of leaves, which are sparse, singular vectors without centring. tsne:
only of the rows that it was fitted on (:class:`TsneEmbedding`). umap: ``pip install
'kdgraph[umap]'``. Of leaves both begin with :data:`BEFORE` singular vectors.
"""
DEFAULT_DIMENSIONS: dict[str, int] = {"pca": 20, "tsne": 2, "umap": 2}
"""As Luo et al., Section 3.2, have them for tables; for images they take 50 principal components,
and 3 dimensions of t-SNE.
"""
_MAX_SPARSE_COMPONENTS = 50
"""Dimensions at most in which t-SNE and UMAP get what is sparse, as scikit-learn advises: dense,
leaves would be rows × all leaves.
"""
MAX_DENSE_SIZE = 2**27
"""Numbers that leaves may become as an array, 1 GiB; of 500 trees that were grown on 1,000 rows,
some 2,000 rows.
"""


class TsneEmbedding:
    """t-SNE (van der Maaten and Hinton 2008) of the rows that it was fitted on, which has no place
    for any other.

    Attributes
    ----------
    row_of_digest_ : digest of a row's features → its number in ``embedding_``, Float[n, m]. Of equal rows
    all have the place of the first.
    svd_ : of more than :data:`BEFORE` columns that are sparse, their singular vectors; else
        None.
    """

    def __init__(self, dimensions: int, random_state: Any = None) -> None:
        self.dimensions = dimensions
        self.random_state = random_state

    def fit(self, features: Any) -> TsneEmbedding:
        """Embed Float[n, d], or sparse; on one thread, since scikit-learn's sums depend on how many
        there are, and t-SNE on every bit.
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
        """Float[k, m]: where the rows are, which are among those of ``fit``.

        Raises
        ------
        ValueError : for any other row, where there is no place for it.
        """
        number = np.array(
            [self.row_of_digest_.get(digest, -1) for digest in _row_digests(features)],
            dtype=np.intp,
        )
        found = self.embedding_[number]
        if len(new := np.flatnonzero(number < 0)):
            found[new] = self._embed_new(features, new)
        return found

    def _preprocess(self, features: Any) -> np.ndarray:
        """Float[n, d], at most :data:`BEFORE` columns of what is sparse."""
        return (
            self.svd_.transform(features)
            if issparse(features) and self.svd_ is not None
            else to_dense(features)
        )

    def _fit_embedding(self, features: np.ndarray) -> np.ndarray:
        from sklearn.manifold import TSNE

        n, most = len(features), (len(features) - 1) / 3
        if n < 4:
            raise ValueError(f"t-SNE needs four rows, got {n}")
        start = (
            "pca"
            if min(features.shape) >= self.dimensions and np.ptp(features, axis=0).any()
            else "random"
        )
        method = "barnes_hut" if self.dimensions < 4 else "exact"
        with threadpool_limits(1):
            model = TSNE(
                self.dimensions,
                perplexity=min(30.0, most),
                init=start,
                method=method,
                random_state=self.random_state,
                n_jobs=1,
            )
            return model.fit_transform(features)

    def _embed_new(self, features: Any, new: np.ndarray) -> np.ndarray:
        others = f"row {new[0]} and {len(new) - 1} more are" if len(new) > 1 else f"row {new[0]} is"
        raise ValueError(
            f"t-SNE has no place for rows that it was not fitted on, and {others} new; use pca or"
            " umap"
        )


class UmapEmbedding(TsneEmbedding):
    """UMAP (McInnes et al. 2018): rows of ``fit`` are where it put them, and each new one where it
    puts that row alone.

    Rows that come together would move each other; one by one takes some tens of milliseconds a row.
    """

    def _fit_embedding(self, features: np.ndarray) -> np.ndarray:
        from umap import UMAP  # pyright: ignore[reportMissingImports] - an extra

        self.umap_ = UMAP(n_components=self.dimensions, random_state=self.random_state, n_jobs=1)
        return self.umap_.fit_transform(features)

    def _embed_new(self, features: Any, new: np.ndarray) -> np.ndarray:
        return np.concatenate(
            [self.umap_.transform(self._preprocess(features[i : i + 1])) for i in new]
        )


def make_reduction(
    name: ReductionName, dimensions: int | None, features: Any, random_state: Any
) -> Any:
    """An unfitted reduction of ``features`` (Float[n, d], or sparse) that has ``fit`` and
    ``transform``; None for "none".

    Where there are fewer rows or columns than ``dimensions``, as many as there are; of None
    :data:`DIMENSIONS`.
    """
    dimensions = dimensions or DEFAULT_DIMENSIONS.get(name, 1)
    most = min(dimensions, *features.shape)
    if (
        issparse(features) and features.shape[1] == 1
    ):  # all that there are, and singular vectors want two columns
        name = "none" if name == "pca" else name
    makers: dict[str, Callable[[], Any]] = {
        "none": lambda: None,
        "pca": lambda: (
            TruncatedSVD(most, random_state=random_state)
            if issparse(features)
            else PCA(most, random_state=random_state)
        ),
        "tsne": lambda: TsneEmbedding(dimensions, random_state),
        "umap": lambda: _make_umap(dimensions, random_state),
    }
    return makers[name]()


def to_dense(features: Any) -> np.ndarray:
    """Float[n, d]: leaves as an array, where a distance needs one. Ours.

    Raises
    ------
    ParameterError : if they would be more than :data:`LARGEST` numbers.
    """
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


def _make_umap(dimensions: int, random_state: Any) -> UmapEmbedding:
    if find_spec("umap") is None:
        raise ParameterError("reduce=umap needs umap-learn: pip install 'kdgraph[umap]'")
    return UmapEmbedding(dimensions, random_state)


def _row_digests(features: Any) -> list[str]:
    """One for each row; of what is sparse, of where its numbers are and of these."""
    if issparse(features):
        where, numbers, ends = features.indices.astype(np.int64), features.data, features.indptr
        rows = [where[i:j].tobytes() + numbers[i:j].tobytes() for i, j in pairwise(ends)]
    else:
        rows = [row.tobytes() for row in np.ascontiguousarray(features)]
    return [hashlib.blake2b(row, digest_size=16).hexdigest() for row in rows]
