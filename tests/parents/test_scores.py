"""The parent of given scores says what it is given."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.parents import GivenScores


def test_it_needs_no_rows_and_gives_rows_back():
    X = np.random.default_rng(0).dirichlet(np.ones(4), size=5)
    parent = GivenScores().fit(np.empty((0, 4)), np.empty(0))
    np.testing.assert_array_equal(parent.predict_proba(X), X)
    np.testing.assert_array_equal(parent.predict(X), X.argmax(axis=1))
    assert parent.classes_.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("X", [[[0.5, 0.4]], [[1.5, -0.5]]])
def test_rows_that_are_no_distributions_are_refused(X):
    with pytest.raises(ValueError, match=r"^X must be class probabilities, row 0 sums to "):
        GivenScores().fit([[0.5, 0.5]]).predict_proba(X)
