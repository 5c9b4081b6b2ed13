"""Leaf occupancy: counted by scikit-learn's own ``apply``."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.tree import DecisionTreeClassifier

from kdgraph.detection import LeafOccupancy

ROUNDING = 1e-12
"""Of a mean over trees."""


@pytest.fixture(scope="module")
def parent(blobs):
    return FrozenEstimator(
        ExtraTreesClassifier(15, max_depth=6, random_state=0).fit(blobs[0][:400], blobs[1][:400])
    )


@pytest.mark.parametrize("n_train", [400, 30])
def test_the_score_is_the_mean_share_of_training_rows_in_the_leaf(blobs, parent, n_train):
    """Of the rows that it is given: of 30, most leaves have none, which counts as half a row among
    logarithms.
    """
    X = blobs[0]
    train, rows = parent.estimator.apply(X[:n_train]), parent.estimator.apply(X[400:])
    members = (rows[:, None, :] == train).sum(axis=1)
    assert (members == 0).any() == (n_train == 30)
    share = LeafOccupancy(parent).fit(X[:n_train], X_calibration=X[400:])
    np.testing.assert_allclose(
        share.score_samples(X[400:]), (members / n_train).mean(axis=1), rtol=ROUNDING
    )
    log = LeafOccupancy(parent, scale="log").fit(X[:n_train], X_calibration=X[400:])
    expected = np.log(np.where(members == 0, 0.5, members) / n_train).mean(axis=1)
    np.testing.assert_allclose(log.score_samples(X[400:]), expected, rtol=ROUNDING)


def test_scores_equal_a_hand_calculation():
    """One tree with one threshold between 2 and 10: three rows on its left, one on its right, of
    which the left one is normal.
    """
    X, y = np.array([[0.0], [1.0], [2.0], [10.0]]), [0, 0, 0, 1]
    detector = LeafOccupancy(
        FrozenEstimator(DecisionTreeClassifier().fit(X, y)), target_fpr=0.3
    ).fit(X, X_calibration=X)
    np.testing.assert_array_equal(
        detector.score_samples([[-5.0], [5.9], [6.1], [99.0]]), [0.75, 0.75, 0.25, 0.25]
    )
    assert detector.leaf_sizes_.tolist() == [0, 3, 1]  # the root is no leaf
