"""Latent semantic analysis of word counts in front of a parent."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.feature_extraction.text import TfidfTransformer

from kdgraph.data.dataset import Dataset
from kdgraph.errors import DataError
from kdgraph.parents import LatentSemanticAnalysis


def make_word_counts(n: int = 40, d: int = 12) -> Dataset:
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    return Dataset.from_labels(
        "texts", rng.poisson(0.3 + 2.0 * (np.arange(d) % 2 == y[:, None])).astype(float), y
    )


@pytest.mark.parametrize("normalize", [True, False])
def test_weights_and_reduction_match_scikit_learn(normalize):
    data = make_word_counts()
    model = LatentSemanticAnalysis(3, normalize).wrap(
        ExtraTreesClassifier(10, random_state=0), data
    )
    model.fit(data.X, data.y)
    reduced = TruncatedSVD(3, random_state=0).fit_transform(
        TfidfTransformer().fit_transform(data.X)
    )
    reduced = reduced / np.linalg.norm(reduced, axis=1, keepdims=True) if normalize else reduced
    expected = (reduced - reduced.mean(axis=0)) / reduced.std(axis=0)
    assert np.allclose(model[:-1].transform(data.X), expected, atol=1e-10)
    assert model.score(data.X, data.y) == 1.0


def test_number_of_singular_vectors_is_bounded():
    data = make_word_counts(d=4)
    assert (
        LatentSemanticAnalysis(100).wrap(ExtraTreesClassifier(), data)["reduce"].n_components == 3
    )


def test_the_same_rows_give_the_same_topics():
    data = make_word_counts()
    first, second = (
        LatentSemanticAnalysis(5)
        .wrap(ExtraTreesClassifier(5, random_state=0), data)
        .fit(data.X, data.y)
        for _ in range(2)
    )
    assert np.array_equal(first[:-1].transform(data.X), second[:-1].transform(data.X))


def test_data_without_word_counts_are_refused():
    data = make_word_counts()
    for X in (np.where(data.X > 3, np.nan, data.X), data.X - 1.0, data.X[:, :1]):
        with pytest.raises(
            DataError,
            match=r"^numbers has no counts of words to learn topics from; choose preprocess=default$",
        ):
            LatentSemanticAnalysis().wrap(
                ExtraTreesClassifier(), Dataset.from_labels("numbers", X, data.y)
            )
