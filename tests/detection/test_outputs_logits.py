"""Tests of scores of logits against the exact logits of a linear network, and far away."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdgraph.detection import Energy, MaxLogit
from kdgraph.parents.networks import MultilayerPerceptron
from tests.companions import assert_rows_agree
from tests.detection.conftest import QUICK


@pytest.fixture(scope="module")
def linear(blobs):
    return MultilayerPerceptron(hidden=(), **QUICK).fit(blobs[0], blobs[1])


@pytest.fixture(scope="module")
def exact_logits(blobs, linear):
    """Return the logits in float64."""
    last_layer = linear.module_[-1]
    return (
        blobs[0] @ last_layer.weight.detach().numpy().T.astype(np.float64)
        + last_layer.bias.detach().numpy()
    )


def test_score_is_the_largest_logit(blobs, linear, exact_logits):
    detector = MaxLogit(FrozenEstimator(linear)).fit(blobs[0], X_calibration=blobs[0])
    # The logits are up to 50 in float32.
    np.testing.assert_allclose(
        detector.score_samples(blobs[0]), exact_logits.max(axis=1), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize("temperature", [0.1, 1.0, 7.0])
def test_energy_is_the_log_of_the_sum_of_exponentials(blobs, linear, exact_logits, temperature):
    detector = Energy(FrozenEstimator(linear), temperature=temperature).fit(
        blobs[0], X_calibration=blobs[0]
    )
    expected = temperature * np.log(
        np.exp(exact_logits.astype(np.longdouble) / temperature).sum(axis=1)
    )
    np.testing.assert_allclose(
        detector.score_samples(blobs[0]), expected.astype(np.float64), rtol=0, atol=1e-4
    )


def test_energy_increases_from_the_largest_logit_with_temperature(blobs, linear):
    detectors = [
        Energy(FrozenEstimator(linear), temperature=t).fit(blobs[0], X_calibration=blobs[0])
        for t in (1e-3, 1.0, 10.0)
    ]
    low, medium, high = (detector.score_samples(blobs[0]) for detector in detectors)
    np.testing.assert_allclose(low, linear.logits(blobs[0]).max(axis=1), rtol=0, atol=1e-3)
    assert (low <= medium).all() and (medium < high).all()


@pytest.mark.parametrize("kind", [MaxLogit, Energy])
def test_network_in_a_pipeline_is_fitted(kind, blobs):
    X, y, _ = blobs
    pipeline = make_pipeline(StandardScaler(), MultilayerPerceptron(hidden=(8,), **QUICK))
    detector = kind(pipeline, random_state=0).fit(X, y)
    logits = detector.estimator_[-1].logits(detector.estimator_[0].transform(X))
    expected = logits.max(axis=1) if kind is MaxLogit else logsumexp(logits, axis=1)
    np.testing.assert_array_equal(detector.score_samples(X), expected)
    np.testing.assert_array_equal(detector.ood_score(X), detector.offset_ - expected)


@pytest.mark.parametrize("kind", [MaxLogit, Energy])
def test_rows_are_independent_and_distant_scores_are_finite(kind, blobs, linear):
    X = np.concatenate(
        [blobs[0][:10], blobs[0][:5] * 1e10, blobs[0][:5] * 1e40, blobs[0][:5] * 1e300]
    )
    detector = kind(FrozenEstimator(linear)).fit(blobs[0], X_calibration=blobs[0])
    scores = detector.ood_score(X)
    assert np.isfinite(scores).all() and len(np.unique(scores[:15])) == 15
    assert_rows_agree(
        scores, np.concatenate([detector.ood_score(X[i : i + 1]) for i in range(len(X))])
    )
