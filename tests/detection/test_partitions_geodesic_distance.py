"""Tests of geodesic distance against comparisons of all pairs, on forests and networks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.frozen import FrozenEstimator

from kdgraph.detection import GeodesicDistance, partitions
from kdgraph.geometry import partition_of

ROUNDING = 1e-12
"""Tolerance of a mean over trees, and of 1 minus the mean."""


@pytest.fixture(scope="module")
def forest(blobs):
    return FrozenEstimator(
        ExtraTreesClassifier(15, random_state=0).fit(blobs[0][:400], blobs[1][:400])
    )


@pytest.fixture(scope="module")
def network(blobs):
    from kdgraph.parents.networks import MultilayerPerceptron

    quick = {"max_epochs": 5, "patience": None, "device": "cpu", "random_state": 0}
    return FrozenEstimator(
        MultilayerPerceptron(hidden=(12, 8), **quick).fit(blobs[0][:400], blobs[1][:400])
    )


@pytest.mark.parametrize("neighbor", [1, 2, 7])
def test_forest_distance_is_the_hamming_distance_of_leaves(blobs, forest, neighbor, monkeypatch):
    X, _, distant_rows = blobs
    monkeypatch.setattr(partitions, "_QUERY_BLOCK", 64)
    rows = np.concatenate([X[400:], distant_rows[:20]])
    detector = GeodesicDistance(forest, neighbor=neighbor).fit(X[:400], X_calibration=X[400:])
    distances = np.sort(
        cdist(forest.estimator.apply(rows), forest.estimator.apply(X[:400]), "hamming"), axis=1
    )[:, neighbor - 1]
    np.testing.assert_allclose(1 - detector.score_samples(rows), distances, rtol=0, atol=ROUNDING)
    assert np.ptp(distances) > 0.4


@pytest.mark.parametrize("neighbor", [1, 3])
def test_network_distance_is_that_of_activation_paths(blobs, network, neighbor):
    """Compare with the similarity of all pairs; rows that share a code are separate neighbours."""
    X = blobs[0]
    detector = GeodesicDistance(network, neighbor=neighbor).fit(X[:400], X_calibration=X[400:])
    assert detector.describe()["n_polytopes"] < 300
    partition = partition_of(network)
    locations, codes = partition.locate(X[:400]), partition.encode(X[400:])
    similarity = np.sort(partition.similarity(codes, locations.codes), axis=1)[:, -neighbor]
    np.testing.assert_allclose(detector.score_samples(X[400:]), similarity, rtol=0, atol=ROUNDING)


def test_row_without_shared_leaf_has_similarity_zero(blobs, forest):
    """The training rows are in a few leaves of the forest."""
    X, y, _ = blobs
    detector = GeodesicDistance(forest).fit(X[y == 0][:5], X_calibration=X[y == 0][5:])
    leaves, train_leaves = forest.estimator.apply(X[y == 1]), forest.estimator.apply(X[y == 0][:5])
    shares_no_leaf = (cdist(leaves, train_leaves, "hamming") == 1).all(axis=1)
    assert shares_no_leaf.any() and not shares_no_leaf.all()
    np.testing.assert_array_equal(detector.score_samples(X[y == 1]) == 0, shares_no_leaf)


def test_refit_replaces_the_training_rows(blobs, forest):
    X = blobs[0]
    detector = GeodesicDistance(forest).fit(X[:50], X_calibration=X[400:])
    scores_of_few = detector.score_samples(X[50:400])
    scores_of_more = detector.fit(X[:400], X_calibration=X[400:]).score_samples(X[50:400])
    assert scores_of_few.mean() < 0.9 and (scores_of_more == 1).all()


@pytest.mark.filterwarnings("ignore:.*X_calibration=")  # the parent may have seen these rows
def test_neighbor_beyond_the_training_rows_is_refused(blobs, forest):
    X, _, _ = blobs
    with pytest.raises(
        ValueError,
        match="neighbor must be at most the number of training rows, got neighbor=51 of 50 rows",
    ):
        GeodesicDistance(forest, neighbor=51).fit(X[:50], X_calibration=X[50:])
