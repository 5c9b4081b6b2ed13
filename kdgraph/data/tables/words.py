"""Words as vectors, by hashing: nothing is learnt from any row, so none of test either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from kdgraph.parameters import Range

HashCount = Annotated[int, Range(2)]
"""Columns that words are hashed into; two words of one column are the same word from there on."""


def hashed(texts: Sequence[str], n_features: int) -> np.ndarray:
    """Counts of hashed words, each row divided by its L2 norm: Float64[n, n_features].

    >>> hashed(["Rain, rain; go away"], 8).round(2).tolist()
    [[-0.41, 0.0, 0.0, 0.0, 0.82, 0.0, 0.41, 0.0]]
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    return HashingVectorizer(n_features=n_features, norm="l2").transform(texts).toarray()


def hash_names(n_features: int) -> tuple[str, ...]:
    """Names hash_0, hash_1 and so on."""
    return tuple(f"hash_{i}" for i in range(n_features))
