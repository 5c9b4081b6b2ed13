"""Tests of the default features of detectors: a layer, precomputed features, scaled columns."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdgraph.detection import KthNeighbourDistance
from kdgraph.features import FeatureMap
from kdgraph.parents.networks import MultilayerPerceptron


def test_columns_are_divided_by_their_ranges_over_training_rows():
    X = np.array([[0.0, 5.0, 1.0], [100.0, 5.0, 3.0], [50.0, 5.0, 5.0]])
    detector = KthNeighbourDistance(k=1).fit(X, X_calibration=X + 1000)
    np.testing.assert_array_equal(
        detector.scale_, [100.0, 52.0, 4.0]
    )  # a constant column has the mean of the others
    np.testing.assert_allclose(
        detector.score_samples([[150.0, 5.0, 3.0], [100.0, 57.0, 3.0], [50.0, 5.0, 13.0]]),
        [-0.5, -1.0, -2.0],
    )


def test_units_of_columns_change_scores_by_rounding_only(blobs):
    X, _, distant_rows = blobs
    units = np.array([1e-200, 1.0, 1e3, 1e100])
    scores, scaled_scores = (
        KthNeighbourDistance(random_state=0).fit(X * unit).score_samples(distant_rows * unit)
        for unit in (1.0, units)
    )
    np.testing.assert_allclose(scores, scaled_scores, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:.*X_calibration=")  # the parent may have seen these rows
def test_layers_and_user_defined_maps_are_not_scaled(blobs):
    X, y, _ = blobs
    network = MultilayerPerceptron(
        hidden=(8,), learning_rate=0.02, max_epochs=2, device="cpu", random_state=0
    ).fit(X, y)
    for options in (
        {"estimator": FrozenEstimator(network)},
        {"features": FeatureMap(source="rows", reduce="none", scale="none")},
    ):
        assert set(KthNeighbourDistance(**options, random_state=0).fit(X).scale_) == {1.0}
    forest = make_pipeline(StandardScaler(), RandomForestClassifier(3, random_state=0)).fit(X, y)
    detector = KthNeighbourDistance(FrozenEstimator(forest)).fit(X, X_calibration=X)
    # The features of a forest are its transformed rows, not its leaves.
    np.testing.assert_allclose(detector.scale_, np.ptp(forest[0].transform(X), axis=0))


@pytest.mark.parametrize(
    "X",
    [np.ones((9, 2)), np.full((9, 2), 1e308), 1e307 * np.linspace(-1, 1, 9)[:, None]],
    ids=["equal", "equal and huge", "whole range"],
)
def test_scores_of_extreme_rows_are_finite(X):
    score = (
        KthNeighbourDistance(k=1)
        .fit(X[::2], X_calibration=X)
        .score_samples(np.concatenate([X, -X]))
    )
    assert np.isfinite(score).all()


def test_random_state_reaches_the_feature_map(blobs):
    X = blobs[0]
    maps = [
        KthNeighbourDistance(features=FeatureMap(source="rows"), random_state=seed)
        .fit(X)
        .feature_map_
        for seed in (0, 0, 1)
    ]
    assert maps[0].random_state == maps[1].random_state != maps[2].random_state
    feature_map = FeatureMap(source="rows", random_state=3)
    detector = KthNeighbourDistance(features=feature_map, random_state=0).fit(X)
    assert detector.feature_map_.random_state == 3 and not hasattr(feature_map, "unit_")
