"""Tests of leaf occupancy against counts of scikit-learn's ``apply``."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.tree import DecisionTreeClassifier

from kdgraph.detection import LeafOccupancy

ROUNDING = 1e-12
"""Tolerance of a mean over trees."""


@pytest.fixture(scope="module")
def parent(blobs):
    return FrozenEstimator(
        ExtraTreesClassifier(15, max_depth=6, random_state=0).fit(blobs[0][:400], blobs[1][:400])
    )


@pytest.mark.parametrize("n_train", [400, 30])
def test_score_is_the_mean_fraction_of_rows_in_the_leaf(blobs, parent, n_train):
    """Count the rows passed to fit; an empty leaf counts as half a row on the log scale."""
    X = blobs[0]
    train_leaves, leaves = parent.estimator.apply(X[:n_train]), parent.estimator.apply(X[400:])
    members = (leaves[:, None, :] == train_leaves).sum(axis=1)
    assert (members == 0).any() == (n_train == 30)
    share_detector = LeafOccupancy(parent).fit(X[:n_train], X_calibration=X[400:])
    np.testing.assert_allclose(
        share_detector.score_samples(X[400:]), (members / n_train).mean(axis=1), rtol=ROUNDING
    )
    log_detector = LeafOccupancy(parent, scale="log").fit(X[:n_train], X_calibration=X[400:])
    expected = np.log(np.where(members == 0, 0.5, members) / n_train).mean(axis=1)
    np.testing.assert_allclose(log_detector.score_samples(X[400:]), expected, rtol=ROUNDING)


def test_scores_equal_a_hand_calculation():
    """Test a tree with a threshold between 2 and 10, three rows at its left and one at its right."""
    X, y = np.array([[0.0], [1.0], [2.0], [10.0]]), [0, 0, 0, 1]
    detector = LeafOccupancy(
        FrozenEstimator(DecisionTreeClassifier().fit(X, y)), target_fpr=0.3
    ).fit(X, X_calibration=X)
    np.testing.assert_array_equal(
        detector.score_samples([[-5.0], [5.9], [6.1], [99.0]]), [0.75, 0.75, 0.25, 0.25]
    )
    assert detector.leaf_sizes_.tolist() == [0, 3, 1]  # the root is not a leaf
