"""Tests of ODIN against its definition on a linear network, and of the choice of the step."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.frozen import FrozenEstimator

from kdgraph.detection import MaxProbability, Odin
from kdgraph.errors import ParameterError
from kdgraph.parents.networks import MultilayerPerceptron
from tests.companions import assert_rows_agree
from tests.detection.conftest import QUICK


@pytest.fixture(scope="module")
def linear(blobs):
    return MultilayerPerceptron(hidden=(), **QUICK).fit(blobs[0][:400], blobs[1][:400])


@pytest.fixture(scope="module")
def curved(blobs):
    return MultilayerPerceptron(hidden=(16,), **QUICK).fit(blobs[0][:400], blobs[1][:400])


def fit_odin(network, blobs, **options) -> Odin:
    return Odin(FrozenEstimator(network), **options).fit(
        blobs[0][:400], X_calibration=blobs[0][400:]
    )


def odin_score(
    linear, X: np.ndarray, temperature: float, epsilon: float, unit: float
) -> np.ndarray:
    """Return Eq. 1 and 2 of the paper for logits XWᵀ + b with an exact gradient."""
    weight, bias = (
        values.detach().numpy().astype(np.float64)
        for values in (linear.module_[-1].weight, linear.module_[-1].bias)
    )
    proba = softmax((X @ weight.T + bias) / temperature, axis=1)
    gradient = (weight[proba.argmax(axis=1)] - proba @ weight) / temperature
    perturbed = X - epsilon * unit * np.sign(-gradient)
    return softmax((perturbed @ weight.T + bias) / temperature, axis=1).max(axis=1)


@pytest.mark.parametrize(
    ("temperature", "epsilon"), [(1000.0, 0.0), (1000.0, 0.1), (1.0, 0.1), (3.0, 0.5)]
)
def test_score_agrees_with_its_definition(linear, blobs, temperature, epsilon):
    """The tolerance is the rounding error of logits up to 50 in float32."""
    detector = fit_odin(linear, blobs, temperature=temperature, epsilon=epsilon)
    unit = np.sqrt(blobs[0][:400].var(axis=0).mean())  # the spread of the training rows
    np.testing.assert_allclose(
        detector.score_samples(blobs[0]),
        odin_score(linear, blobs[0], temperature, epsilon, unit),
        rtol=0,
        atol=3e-5,
    )
    assert detector.mean_scores_ is None and detector.describe() == {
        "offset": detector.offset_,
        "epsilon": epsilon,
        "unit": pytest.approx(unit),
    }


def test_odin_without_step_is_the_maximum_probability(curved, blobs):
    max_probability = MaxProbability(FrozenEstimator(curved)).fit(
        blobs[0][:400], X_calibration=blobs[0][400:]
    )
    np.testing.assert_array_equal(
        fit_odin(curved, blobs, temperature=1.0, epsilon=0.0).ood_score(blobs[2]),
        max_probability.ood_score(blobs[2]),
    )


def test_auto_selects_the_step_with_the_highest_mean_score(curved, blobs):
    X, _, distant_rows = blobs
    steps = (0.05, 5.0, 0.0, 50.0)
    detector = fit_odin(curved, blobs, epsilons=steps)
    means = [fit_odin(curved, blobs, epsilon=step).score_samples(X[400:]).mean() for step in steps]
    np.testing.assert_array_equal(detector.mean_scores_, means)
    assert detector.epsilon_ == steps[int(np.argmax(means))] != 0.0
    np.testing.assert_array_equal(
        detector.score_samples(distant_rows),
        fit_odin(curved, blobs, epsilon=detector.epsilon_).score_samples(distant_rows),
    )
    assert fit_odin(curved, blobs, epsilons=[0.0]).epsilon_ == 0.0


def test_every_parameter_changes_the_score(curved, blobs):
    default_scores = fit_odin(curved, blobs).ood_score(blobs[2])
    for changes in (
        {"temperature": 10.0},
        {"epsilon": 0.01},
        {"epsilons": [0.0, 0.02]},
        {"target_fpr": 0.3},
    ):
        assert not np.allclose(
            fit_odin(curved, blobs, **changes).ood_score(blobs[2]),
            default_scores,
            rtol=0,
            atol=1e-9,
        ), changes


def test_rows_are_independent_and_distant_scores_are_finite(curved, blobs):
    detector = fit_odin(curved, blobs)
    X = np.concatenate([blobs[0][:20], blobs[0][:5] * 1e20, blobs[0][:5] * 1e300])
    scores = detector.ood_score(X)
    assert np.isfinite(scores).all()
    assert_rows_agree(
        scores, np.concatenate([detector.ood_score(X[i : i + 1]) for i in range(len(X))])
    )


def test_invalid_parameters_are_rejected(curved, blobs):
    for options, message in (
        ({"epsilons": []}, r"epsilons must have at least one number, got \[\]"),
        ({"epsilons": [0.1, -0.1]}, r"epsilons must be a list of which each is in \[0, inf\)"),
    ):
        with pytest.raises(ParameterError, match=message):
            fit_odin(curved, blobs, **options)


def test_ood_rows_select_the_step_with_a_warning(curved, blobs):
    X, _, distant_rows = blobs
    steps = (0.0, 0.05, 0.5, 5.0)
    detector = Odin(FrozenEstimator(curved), temperature=1.0, epsilons=steps)
    with pytest.warns(
        UserWarning, match="^Odin: rows out of distribution chose epsilon; rows like them"
    ) as warned:
        detector.fit(X[:400], X_calibration=X[400:], X_ood=distant_rows)
    expected_fpr95 = []
    for step in steps:
        candidate = fit_odin(curved, blobs, temperature=1.0, epsilon=step)
        threshold = np.sort(candidate.score_samples(X[400:]))[::-1][
            int(np.ceil(0.95 * len(X[400:]))) - 1
        ]
        expected_fpr95.append((candidate.score_samples(distant_rows) >= threshold).mean())
    assert (
        warned[0].filename == __file__
        and detector.mean_scores_ is None
        and detector.fpr95_ is not None
    )
    np.testing.assert_allclose(detector.fpr95_, expected_fpr95, rtol=0, atol=1e-12)
    assert (
        detector.epsilon_
        == steps[int(np.argmin(expected_fpr95))]
        != fit_odin(curved, blobs, temperature=1.0, epsilons=steps).epsilon_
    )
