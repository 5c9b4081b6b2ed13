"""Geodesic distance: by comparing codes pair by pair, on forests and on networks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from kdgraph.detection import GeodesicDistance
from kdgraph.detection import partitions as geodesic_distance
from kdgraph.geometry import partition_of

ROUNDING = 1e-12
"""Of a mean over trees, and of 1 minus it."""


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
    X, _, distant = blobs
    monkeypatch.setattr(geodesic_distance, "_QUERY_BLOCK", 64)
    rows = np.concatenate([X[400:], distant[:20]])
    detector = GeodesicDistance(forest, neighbor=neighbor).fit(X[:400], X_calibration=X[400:])
    distances = np.sort(
        cdist(forest.estimator.apply(rows), forest.estimator.apply(X[:400]), "hamming"), axis=1
    )[:, neighbor - 1]
    np.testing.assert_allclose(1 - detector.score_samples(rows), distances, rtol=0, atol=ROUNDING)
    assert np.ptp(distances) > 0.4


@pytest.mark.parametrize("neighbor", [1, 3])
def test_network_distance_is_that_of_activation_paths(blobs, network, neighbor):
    """Similarity of all pairs, from the partition; many training rows share a code, and each of
    them is a neighbour.
    """
    X = blobs[0]
    detector = GeodesicDistance(network, neighbor=neighbor).fit(X[:400], X_calibration=X[400:])
    assert detector.describe()["n_polytopes"] < 300
    partition = partition_of(network)
    place, codes = partition.locate(X[:400]), partition.encode(X[400:])
    similarity = np.sort(partition.similarity(codes, place.codes), axis=1)[:, -neighbor]
    np.testing.assert_allclose(detector.score_samples(X[400:]), similarity, rtol=0, atol=ROUNDING)


def test_row_without_shared_leaf_has_the_largest_distance(blobs, forest):
    """Training rows in a few leaves, of a forest that knows others."""
    X, y, _ = blobs
    detector = GeodesicDistance(forest).fit(X[y == 0][:5], X_calibration=X[y == 0][5:])
    leaves, own = forest.estimator.apply(X[y == 1]), forest.estimator.apply(X[y == 0][:5])
    strangers = (cdist(leaves, own, "hamming") == 1).all(axis=1)
    assert strangers.any() and not strangers.all()
    np.testing.assert_array_equal(detector.score_samples(X[y == 1]) == 0, strangers)


def test_refit_replaces_the_training_rows(blobs, forest):
    X = blobs[0]
    detector = GeodesicDistance(forest).fit(X[:50], X_calibration=X[400:])
    few = detector.score_samples(X[50:400])
    more = detector.fit(X[:400], X_calibration=X[400:]).score_samples(X[50:400])
    assert few.mean() < 0.9 and (more == 1).all()


@pytest.mark.filterwarnings("ignore:.*X_calibration=")  # the parent may be in sample here
def test_invalid_parameters_are_refused(blobs, forest):
    X, y, _ = blobs
    with pytest.raises(
        ValueError,
        match="neighbor must be at most the number of training rows, got neighbor=51 of 50 rows",
    ):
        GeodesicDistance(forest, neighbor=51).fit(X[:50], X_calibration=X[50:])
    with pytest.raises(TypeError, match="LogisticRegression has no partition to read"):
        GeodesicDistance(FrozenEstimator(LogisticRegression().fit(X, y))).fit(X)
