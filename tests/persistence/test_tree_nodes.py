"""Trees of compiled libraries, whose nodes are followed without checks of bounds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from kdgraph.persistence.tree_nodes import problem_of_tree

RNG = np.random.default_rng(0)


def test_fitted_trees_have_no_problem():
    X, y = RNG.normal(size=(100, 3)), RNG.integers(0, 2, 100)
    for estimator in RandomForestClassifier(5, random_state=0).fit(X, y):
        tree = estimator.tree_
        arrays = tree.children_left, tree.children_right, tree.feature
        assert problem_of_tree(*arrays, tree.n_features) is None


@pytest.mark.parametrize(
    ("left", "right", "feature", "problem"),
    [
        ([1, -1, -1], [9, -1, -1], [0, -1, -1], "leads nowhere"),
        ([1, -1, -1], [0, -1, -1], [0, -1, -1], "leads nowhere"),
        ([1, -1, -1], [1, -1, -1], [0, -1, -1], "leads nowhere"),
        ([1, -1, -1], [2, -1, -1], [3, -1, -1], "does not exist"),
        ([1, -1, -1], [2, -1, -1], [-2, -1, -1], "does not exist"),
        ([1, -1], [2, -1, -1], [0, -1, -1], "different lengths"),
        ([*range(1, 601), -1], [-1] * 601, [0] * 601, "more than 500 levels"),
    ],
)
def test_nodes_that_lead_nowhere_are_found(left, right, feature, problem):
    message = problem_of_tree(*map(np.array, (left, right, feature)), 3)
    assert message is not None and problem in message


def test_pruned_nodes_may_have_no_parent():
    arrays = [1, -1, -1, -1], [2, -1, -1, -1], [0, -1, -1, -1]
    assert problem_of_tree(*map(np.array, arrays), 1) is None
