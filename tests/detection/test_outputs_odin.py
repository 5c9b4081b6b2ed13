"""ODIN against its definition on a linear network, and the choice of the step."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.frozen import FrozenEstimator

from kdgraph.detection import MaxProbability, Odin
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
    return MultilayerPerceptron(hidden=(), **QUICK).fit(blobs[0][:400], blobs[1][:400])


@pytest.fixture(scope="module")
def curved(blobs):
    return MultilayerPerceptron(hidden=(16,), **QUICK).fit(blobs[0][:400], blobs[1][:400])


def fitted(network, blobs, **options) -> Odin:
    return Odin(FrozenEstimator(network), **options).fit(
        blobs[0][:400], X_calibration=blobs[0][400:]
    )


def by_hand(linear, X: np.ndarray, temperature: float, epsilon: float, unit: float) -> np.ndarray:
    """The paper's Eq. 1 and 2 of logits XWᵀ + b, whose gradient is known."""
    weight, bias = (
        values.detach().numpy().astype(np.float64)
        for values in (linear.module_[-1].weight, linear.module_[-1].bias)
    )
    proba = softmax((X @ weight.T + bias) / temperature, axis=1)
    gradient = (weight[proba.argmax(axis=1)] - proba @ weight) / temperature
    moved = X - epsilon * unit * np.sign(-gradient)
    return softmax((moved @ weight.T + bias) / temperature, axis=1).max(axis=1)


@pytest.mark.parametrize(
    ("temperature", "epsilon"), [(1000.0, 0.0), (1000.0, 0.1), (1.0, 0.1), (3.0, 0.5)]
)
def test_odin_score_matches_its_definition(linear, blobs, temperature, epsilon):
    """To what rounding of logits up to 50 to float32 makes of a probability."""
    detector = fitted(linear, blobs, temperature=temperature, epsilon=epsilon)
    unit = np.sqrt(blobs[0][:400].var(axis=0).mean())  # the spread of the training rows
    np.testing.assert_allclose(
        detector.score_samples(blobs[0]),
        by_hand(linear, blobs[0], temperature, epsilon, unit),
        rtol=0,
        atol=3e-5,
    )
    assert detector.mean_scores_ is None and detector.describe() == {
        "offset": detector.offset_,
        "epsilon": epsilon,
        "unit": pytest.approx(unit),
    }


def test_zero_step_and_unit_temperature_give_the_maximum_probability(curved, blobs):
    usual = MaxProbability(FrozenEstimator(curved)).fit(
        blobs[0][:400], X_calibration=blobs[0][400:]
    )
    np.testing.assert_array_equal(
        fitted(curved, blobs, temperature=1.0, epsilon=0.0).ood_score(blobs[2]),
        usual.ood_score(blobs[2]),
    )


def test_auto_chooses_the_step_with_the_highest_mean_on_held_out_rows(curved, blobs):
    X, _, distant = blobs
    steps = (0.05, 5.0, 0.0, 50.0)
    chosen = fitted(curved, blobs, epsilons=steps)
    means = [fitted(curved, blobs, epsilon=step).score_samples(X[400:]).mean() for step in steps]
    np.testing.assert_array_equal(chosen.mean_scores_, means)
    assert chosen.epsilon_ == steps[int(np.argmax(means))] != 0.0
    np.testing.assert_array_equal(
        chosen.score_samples(distant),
        fitted(curved, blobs, epsilon=chosen.epsilon_).score_samples(distant),
    )
    assert fitted(curved, blobs, epsilons=[0.0]).epsilon_ == 0.0


def test_every_parameter_changes_the_score(curved, blobs):
    usual = fitted(curved, blobs).ood_score(blobs[2])
    for changed in (
        {"temperature": 10.0},
        {"epsilon": 0.01},
        {"epsilons": [0.0, 0.02]},
        {"target_fpr": 0.3},
    ):
        assert not np.allclose(
            fitted(curved, blobs, **changed).ood_score(blobs[2]), usual, rtol=0, atol=1e-9
        ), changed


def test_rows_are_independent_and_distant_scores_are_finite(curved, blobs):
    detector = fitted(curved, blobs)
    X = np.concatenate([blobs[0][:20], blobs[0][:5] * 1e20, blobs[0][:5] * 1e300])
    together = detector.ood_score(X)
    assert np.isfinite(together).all()
    assert_rows_agree(
        together, np.concatenate([detector.ood_score(X[i : i + 1]) for i in range(len(X))])
    )


def test_invalid_parameters_are_rejected(curved, blobs):
    for options, message in (
        ({"epsilons": []}, r"epsilons must have at least one number, got \[\]"),
        ({"epsilon": -1.0}, r"epsilon must be in \[0, inf\) or one of auto, got -1.0"),
        ({"epsilons": [0.1, -0.1]}, r"epsilons must be a list of which each is in \[0, inf\)"),
        ({"temperature": 0.0}, r"temperature must be in \(0, inf\), got 0.0"),
    ):
        with pytest.raises(ParameterError, match=message):
            fitted(curved, blobs, **options)


def test_ood_rows_may_choose_the_step_with_a_warning(curved, blobs):
    X, _, distant = blobs
    steps = (0.0, 0.05, 0.5, 5.0)
    detector = Odin(FrozenEstimator(curved), temperature=1.0, epsilons=steps)
    with pytest.warns(
        UserWarning, match="^Odin: rows out of distribution chose epsilon; rows like them"
    ) as told:
        detector.fit(X[:400], X_calibration=X[400:], X_ood=distant)
    passing = []
    for step in steps:
        each = fitted(curved, blobs, temperature=1.0, epsilon=step)
        lowest = np.sort(each.score_samples(X[400:]))[::-1][int(np.ceil(0.95 * len(X[400:]))) - 1]
        passing.append((each.score_samples(distant) >= lowest).mean())
    assert (
        told[0].filename == __file__
        and detector.mean_scores_ is None
        and detector.fpr95_ is not None
    )
    np.testing.assert_allclose(detector.fpr95_, passing, rtol=0, atol=1e-12)
    assert (
        detector.epsilon_
        == steps[int(np.argmin(passing))]
        != fitted(curved, blobs, temperature=1.0, epsilons=steps).epsilon_
    )
