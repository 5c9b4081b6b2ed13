"""Estimator checks of scikit-learn, for networks small enough to be trained fifty times."""

from __future__ import annotations

from kdgraph.parents.networks import MultilayerPerceptron
from kdgraph.parents.networks.exposure import OutlierExposure
from tests.sklearn_checks import with_checks

EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a row of weight two is in one batch, two equal rows may be in two"
    ),
}
OPTIONS = {
    "hidden": (16,),
    "learning_rate": 0.1,
    "batch_size": 32,
    "max_epochs": 5,
    "device": "cpu",
    "random_state": 0,
}
"""Learns the blobs of the checks in 50 ms."""


@with_checks(
    [
        MultilayerPerceptron(**OPTIONS),
        MultilayerPerceptron(
            **OPTIONS,
            patience=None,
            optimizer="sgd",
            batch_norm=True,
            dropout=0.1,
            exposure=OutlierExposure(start="trained", epochs=2),
        ),
        MultilayerPerceptron(
            **OPTIONS,
            loss="mmce",
            mmce_weight=(0.0, 2.0),
            stop_on="validation_accuracy",
            dropout=[0.1],
        ),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
