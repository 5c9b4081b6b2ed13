from __future__ import annotations

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer

from kdgraph.data.tables.text import hash_texts, hashed_feature_names


def test_hash_texts_agrees_with_scikit_learn():
    texts = ["Buy cheap watches", "", "a naïve café"]
    np.testing.assert_array_equal(
        hash_texts(texts, 16), HashingVectorizer(n_features=16).transform(texts).toarray()
    )
    assert hashed_feature_names(3) == ("hash_0", "hash_1", "hash_2")
