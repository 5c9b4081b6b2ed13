"""Access to the network inside pipelines and other wrappers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdgraph.base.network_access import access_network
from kdgraph.calibration import Uncalibrated
from kdgraph.parents.networks import MultilayerPerceptron


@pytest.fixture(scope="module")
def network_parts():
    X, y = load_iris(return_X_y=True)
    scaler = StandardScaler().fit(X)
    network = MultilayerPerceptron(hidden=(8,), max_epochs=5, device="cpu", random_state=0).fit(
        scaler.transform(X), y
    )
    return X, y, scaler, network


def test_network_is_found_inside_wrappers(network_parts):
    X, y, scaler, network = network_parts
    pipeline = make_pipeline(scaler, network)
    wrapped = [
        pipeline,
        FrozenEstimator(pipeline),
        Uncalibrated(FrozenEstimator(pipeline), random_state=0).fit(X, y),
    ]
    scaled = scaler.transform(X)
    for parent in (*wrapped, make_pipeline(scaler, make_pipeline(network))):
        inside = access_network(parent)
        assert inside.network is network
        np.testing.assert_array_equal(inside.logits(X), network.logits(scaled))
        np.testing.assert_array_equal(inside.features(X), network.transform(scaled))
        np.testing.assert_array_equal(inside.features(X, "1"), network.transform(scaled, "1"))
        function = lambda logits: logits.logsumexp(dim=1)  # noqa: E731
        np.testing.assert_array_equal(
            inside.input_gradient(X, function), network.input_gradient(scaled, function)
        )
    np.testing.assert_array_equal(access_network(network).logits(scaled), network.logits(scaled))


def test_a_forest_is_refused(network_parts):
    X, y, scaler, _ = network_parts
    with pytest.raises(
        TypeError,
        match=(
            r"^Pipeline has no logits or layers to read; pass a network of"
            r" kdgraph\.parents\.networks$"
        ),
    ):
        access_network(make_pipeline(scaler, RandomForestClassifier(3).fit(X, y)))
