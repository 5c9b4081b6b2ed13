"""Scores of logits, against the logits of a linear network, which are known, and what they are of
far away.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from kdgraph.detection import Energy, MaxLogit
from kdgraph.errors import ParameterError
from kdgraph.parents.networks import MultilayerPerceptron
from tests.companions import assert_rows_agree

QUICK = {
    "learning_rate": 0.02,
    "batch_size": 64,
    "max_epochs": 4,
    "patience": None,
    "device": "cpu",
    "random_state": 0,
}


@pytest.fixture(scope="module")
def linear(blobs):
    return MultilayerPerceptron(hidden=(), **QUICK).fit(blobs[0], blobs[1])


@pytest.fixture(scope="module")
def known(blobs, linear):
    """Logits, in float64."""
    last = linear.module_[-1]
    return blobs[0] @ last.weight.detach().numpy().T.astype(np.float64) + last.bias.detach().numpy()


def test_max_logit_score_is_minus_the_largest_logit(blobs, linear, known):
    detector = MaxLogit(FrozenEstimator(linear)).fit(blobs[0], X_calibration=blobs[0])
    np.testing.assert_allclose(
        detector.score_samples(blobs[0]), known.max(axis=1), rtol=0, atol=1e-4
    )  # logits up to 50 in float32


@pytest.mark.parametrize("temperature", [0.1, 1.0, 7.0])
def test_energy_is_the_log_of_the_sum_of_exponentials(blobs, linear, known, temperature):
    detector = Energy(FrozenEstimator(linear), temperature=temperature).fit(
        blobs[0], X_calibration=blobs[0]
    )
    expected = temperature * np.log(np.exp(known.astype(np.longdouble) / temperature).sum(axis=1))
    np.testing.assert_allclose(
        detector.score_samples(blobs[0]), expected.astype(np.float64), rtol=0, atol=1e-4
    )


def test_energy_tends_to_the_largest_logit_and_rises_with_temperature(blobs, linear):
    scores = [
        Energy(FrozenEstimator(linear), temperature=t).fit(blobs[0], X_calibration=blobs[0])
        for t in (1e-3, 1.0, 10.0)
    ]
    cold, usual, warm = (detector.score_samples(blobs[0]) for detector in scores)
    np.testing.assert_allclose(cold, linear.logits(blobs[0]).max(axis=1), rtol=0, atol=1e-3)
    assert (cold <= usual).all() and (usual < warm).all()


@pytest.mark.parametrize("kind", [MaxLogit, Energy])
def test_pipeline_and_unfitted_parent_give_the_same_score(kind, blobs):
    X, y, _ = blobs
    pipeline = make_pipeline(StandardScaler(), MultilayerPerceptron(hidden=(8,), **QUICK))
    detector = kind(pipeline, random_state=0).fit(X, y)
    logits = detector.estimator_[-1].logits(detector.estimator_[0].transform(X))
    expected = logits.max(axis=1) if kind is MaxLogit else logsumexp(logits, axis=1)
    np.testing.assert_array_equal(detector.score_samples(X), expected)
    np.testing.assert_array_equal(detector.ood_score(X), detector.offset_ - expected)


@pytest.mark.parametrize("kind", [MaxLogit, Energy])
def test_far_rows_have_finite_scores_and_no_row_changes_anothers(kind, blobs, linear):
    X = np.concatenate(
        [blobs[0][:10], blobs[0][:5] * 1e10, blobs[0][:5] * 1e40, blobs[0][:5] * 1e300]
    )
    detector = kind(FrozenEstimator(linear)).fit(blobs[0], X_calibration=blobs[0])
    together = detector.ood_score(X)
    assert np.isfinite(together).all() and len(np.unique(together[:15])) == 15
    assert_rows_agree(
        together, np.concatenate([detector.ood_score(X[i : i + 1]) for i in range(len(X))])
    )


def test_parent_without_logits_and_temperature_zero_are_refused(blobs):
    X, y, _ = blobs
    with pytest.raises(TypeError, match="DecisionTreeClassifier has no logits or layers to read"):
        MaxLogit(DecisionTreeClassifier()).fit(X, y)
    with pytest.raises(ParameterError, match=r"temperature must be in \(0, inf\), got 0"):
        Energy(DecisionTreeClassifier(), temperature=0).fit(X, y)
