"""Parent of precomputed scores."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.base import clone

from kdgraph.parents import PrecomputedScores


def test_rows_are_returned_after_a_fit_without_rows():
    X = np.random.default_rng(0).dirichlet(np.ones(4), size=5)
    parent = PrecomputedScores().fit(np.empty((0, 4)), np.empty(0))
    np.testing.assert_array_equal(parent.predict_proba(X), X)
    np.testing.assert_array_equal(parent.predict(X), X.argmax(axis=1))
    assert parent.classes_.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("X", [[[0.5, 0.4]], [[1.5, -0.5]]], ids=["sum below 1", "negative"])
def test_rows_that_are_not_distributions_are_refused(X):
    with pytest.raises(ValueError, match=r"^X must be class probabilities, row 0 sums to "):
        PrecomputedScores().fit([[0.5, 0.5]]).predict_proba(X)


def test_features_follow_the_probabilities():
    rng = np.random.default_rng(0)
    P, A, B = rng.dirichlet(np.ones(3), size=4), rng.normal(size=(4, 2)), rng.normal(size=(4, 1))
    X = np.hstack([P, A, B])
    parent = clone(PrecomputedScores([("a", 2), ("b", 1)])).fit(X[:0])
    assert parent.classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(parent.predict_proba(X), P)
    for layer, expected in ((None, A), ("a", A), ("b", B)):
        np.testing.assert_array_equal(parent.transform(X, layer), expected)


@pytest.mark.parametrize(
    ("layers", "layer", "message"),
    [
        (
            [],
            None,
            "the given scores have no features; name arrays of the file in dataset.features",
        ),
        (
            [("hidden", 1)],
            "hiden",
            "the given scores have no features 'hiden'; did you mean 'hidden'?",
        ),
        ([("hidden", 1)], "x", "the given scores have no features 'x'; they have hidden"),
    ],
    ids=["no features", "misspelt", "unknown"],
)
def test_a_missing_layer_is_refused(layers, layer, message):
    X = [[0.5, 0.5] + [1.0] * len(layers)]
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        PrecomputedScores(layers).fit(X).transform(X, layer)
