"""Counts of words as few numbers, learnt in the parent's own pipeline from its training rows alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from kdgraph.data.dataset import Dataset
from kdgraph.errors import DataError
from kdgraph.parameters import Count, check_parameters


@dataclass(frozen=True)
class Topics:
    """Counts of words weighted by how rare a word is (TF-IDF), then reduced to their largest singular vectors: latent semantic analysis.

    Deerwester et al., "Indexing by latent semantic analysis", 1990. It stands where :class:`~kdgraph.parents.Preprocess` does, in front of
    any parent, for data sets of texts whose words are counted or hashed.

    Parameters
    ----------
    dimensions : singular vectors; at most as many as there are columns less one.
    normalize : divide each row of singular vectors by its length, so that a text counts by its direction. Without, a text with few words
        that training texts have lies near 0: single rows are then the nearer to all others the stranger they are, and sets of them crowd.
    """

    dimensions: Count = 100
    normalize: bool = True

    def __post_init__(self) -> None:
        check_parameters(self)

    def around(self, estimator: Any, dataset: Dataset, *, has_missing: bool | None = None) -> Any:
        """``estimator`` behind the weights and the singular vectors; rows of length 1 where asked for, then each column of variance 1.

        Raises
        ------
        DataError
            For images, categories, missing and negative values, which are no counts of words, and for a single column.
        """
        hashed = dataset.feature_names[:1] == ("hash_0",)  # which may count down, where two words share a column
        unsuited = dataset.are_images or dataset.needs_encoding or has_missing or dataset.X.shape[1] < 2
        if unsuited or (not hashed and dataset.X.min(initial=0.0) < 0):
            raise DataError(f"{dataset.name} has no counts of words to learn topics from; choose preprocess=default")
        reduce = TruncatedSVD(min(self.dimensions, dataset.X.shape[1] - 1), random_state=0)  # of a search whose end hardly depends on it
        direct = [("direct", Normalizer())] if self.normalize else []
        return Pipeline([("weigh", TfidfTransformer()), ("reduce", reduce), *direct, ("scale", StandardScaler()), ("model", estimator)])
