"""ODIN as a calibrator: its definition on a linear network, and the choice of temperature and
step.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.datasets import make_blobs
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline

from kdgraph.calibration import OdinCalibration, ScoreMap
from kdgraph.calibration.odin import ODIN_STEP_SIZES, TEMPERATURES
from kdgraph.errors import ParameterError
from kdgraph.metrics import fpr95
from kdgraph.parents import column_encoder
from kdgraph.parents.networks import MultilayerPerceptron
from tests.companions import assert_rows_agree

QUICK = {
    "learning_rate": 0.02,
    "batch_size": 32,
    "max_epochs": 8,
    "patience": None,
    "device": "cpu",
    "random_state": 0,
}
X, Y = make_blobs(600, centers=3, n_features=4, cluster_std=5.0, random_state=0)
UNIT = np.sqrt(X[:300].var(axis=0).mean())
"""The spread of the training rows."""
HELD_OUT = {"X_calibration": X[300:], "y_calibration": Y[300:]}


@pytest.fixture(scope="module")
def linear_network():
    return MultilayerPerceptron(hidden=(), **QUICK).fit(X[:300], Y[:300])


@pytest.fixture(scope="module")
def network():
    """Return an overconfident network."""
    return MultilayerPerceptron(hidden=(32, 16), **{**QUICK, "max_epochs": 40}).fit(
        X[:300], Y[:300]
    )


def nll(y: np.ndarray, proba: np.ndarray) -> float:
    """Return the mean negative log likelihood in nats, without clipping."""
    return -float(np.log(proba[np.arange(len(y)), y]).mean())


def fit_odin(network, **options) -> OdinCalibration:
    return OdinCalibration(FrozenEstimator(network), **options).fit(X[:300], Y[:300], **HELD_OUT)


@pytest.mark.parametrize(
    ("temperature", "epsilon"), [(1.0, 0.0), (1.0, 0.2), (4.0, 0.2), (1000.0, 0.0014)]
)
def test_probabilities_follow_the_definition_on_a_linear_network(
    linear_network, temperature, epsilon
):
    """softmax(f(x̃)/T) with x̃ = x - ε·sign(-∇ log S_ŷ(x; T)) and logits XWᵀ + b.

    The tolerance is that of float32 for logits up to 50.
    """
    weight, bias = (
        values.detach().numpy().astype(np.float64)
        for values in (linear_network.module_[-1].weight, linear_network.module_[-1].bias)
    )
    proba = softmax((X @ weight.T + bias) / temperature, axis=1)
    gradient = (weight[proba.argmax(axis=1)] - proba @ weight) / temperature
    expected = softmax(
        ((X - epsilon * UNIT * np.sign(-gradient)) @ weight.T + bias) / temperature, axis=1
    )
    calibrated = fit_odin(linear_network, temperature=temperature, epsilon=epsilon)
    np.testing.assert_allclose(calibrated.predict_proba(X), expected, rtol=0, atol=2e-5)
    assert calibrated.tried_ is None and calibrated.describe() == {
        "temperature": temperature,
        "epsilon": epsilon,
        "unit": pytest.approx(UNIT),
    }


def test_step_of_0_is_temperature_scaling(network):
    """Both optimisers agree to three digits with scikit-learn's temperature."""
    odin = fit_odin(network, epsilon=0.0)
    scaled = ScoreMap(FrozenEstimator(network), method="temperature").fit(
        X[:300], Y[:300], **HELD_OUT
    )
    np.testing.assert_allclose(odin.predict_proba(X), scaled.predict_proba(X), rtol=0, atol=1e-3)
    assert odin.temperature_ > 1.5


def test_auto_has_the_least_nll_of_all_pairs(network):
    calibrated = fit_odin(network)
    epsilons, temperatures, losses = map(np.array, zip(*calibrated.tried_, strict=True))
    assert epsilons.tolist() == list(ODIN_STEP_SIZES)
    best = int(losses.argmin())
    assert (calibrated.epsilon_, calibrated.temperature_) == (epsilons[best], temperatures[best])
    for e, t, loss in calibrated.tried_:
        proba = fit_odin(network, epsilon=e, temperature=t).predict_proba(X[300:])
        assert nll(Y[300:], proba) == pytest.approx(loss, abs=1e-12)
    assert nll(Y[300:], calibrated.predict_proba(X[300:])) == losses[best] <= losses[0]


@pytest.mark.parametrize("epsilon", [0.08, 0.5])
def test_temperature_is_as_good_as_a_grid_with_exact_gradients(network, epsilon):
    """The search keeps the direction fixed, which costs at most 0.002 nats on these rows."""
    calibrated = fit_odin(network, epsilon=epsilon)
    grid = [
        nll(Y[300:], fit_odin(network, epsilon=epsilon, temperature=t).predict_proba(X[300:]))
        for t in np.geomspace(2, 8, 15)
    ]
    assert calibrated.tried_[0][2] < min(grid) + 2e-3


def test_fixed_temperature_is_kept_while_the_step_is_chosen(network):
    calibrated = fit_odin(network, temperature=3.0, epsilons=[0.0, 0.3, 1.0])
    losses = [
        nll(Y[300:], fit_odin(network, temperature=3.0, epsilon=e).predict_proba(X[300:]))
        for e in (0.0, 0.3, 1.0)
    ]
    np.testing.assert_allclose([loss for *_, loss in calibrated.tried_], losses, rtol=0, atol=1e-12)
    assert (
        calibrated.temperature_ == 3.0
        and calibrated.epsilon_ == (0.0, 0.3, 1.0)[int(np.argmin(losses))]
    )


def test_weights_of_calibration_rows_count(network):
    weight = np.where(Y[300:] == 0, 1.0, 0.0)
    weighted = OdinCalibration(FrozenEstimator(network), epsilon=0.0).fit(
        X[:300], Y[:300], **HELD_OUT, sample_weight_calibration=weight
    )
    subset = OdinCalibration(FrozenEstimator(network), epsilon=0.0).fit(
        X[:300], Y[:300], X_calibration=X[300:][Y[300:] == 0], y_calibration=Y[300:][Y[300:] == 0]
    )
    assert (
        weighted.temperature_ == subset.temperature_ != fit_odin(network, epsilon=0.0).temperature_
    )


def test_ood_rows_choose_with_a_warning(network):
    X_ood = X[:80] * 0.2 + np.random.default_rng(0).normal(size=(80, 4))
    calibrated = OdinCalibration(FrozenEstimator(network), epsilons=[0.0, 0.1, 0.5])
    with pytest.warns(
        UserWarning, match="OdinCalibration: rows out of distribution chose temperature and epsilon"
    ) as caught:
        calibrated.fit(X[:300], Y[:300], **HELD_OUT, X_ood=X_ood)
    assert caught[0].filename == __file__
    pairs = [(e, t) for t in TEMPERATURES for e in (0.0, 0.1, 0.5)]
    assert [(e, t) for e, t, _ in calibrated.tried_] == pairs
    pass_rates = []
    for e, t in pairs:
        candidate = fit_odin(network, epsilon=e, temperature=t)
        pass_rates.append(
            fpr95(*(-candidate.predict_proba(rows).max(axis=1) for rows in (X_ood, X[300:])))
        )
    assert [rate for *_, rate in calibrated.tried_] == pass_rates
    assert (calibrated.epsilon_, calibrated.temperature_) == pairs[int(np.argmin(pass_rates))]
    assert not hasattr(calibrated, "_X_ood")
    with pytest.raises(ValueError, match="4 features"):
        calibrated.fit(X[:300], Y[:300], **HELD_OUT, X_ood=X_ood[:, :2])


def test_data_frames_in_a_pipeline():
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, 1.0, 2.0), "c": X[:, 2]})
    parent = make_pipeline(
        column_encoder([False, True, False]), MultilayerPerceptron(hidden=(8,), **QUICK)
    )
    models = [
        OdinCalibration(parent, random_state=0).fit(rows, np.array(list("uvw"))[Y])
        for rows in (frame, frame.to_numpy())
    ]
    np.testing.assert_array_equal(
        models[0].predict_proba(frame), models[1].predict_proba(frame.to_numpy())
    )
    assert set(models[0].predict(frame)) <= set("uvw")


def test_extreme_rows_are_independent_and_finite(network):
    calibrated = fit_odin(network, epsilon=0.05)
    rows = np.concatenate([X[:20], X[:5] * 1e20, X[:5] * 1e300])
    together = calibrated.predict_proba(rows)
    assert np.isfinite(together).all() and np.allclose(together.sum(axis=1), 1)
    assert_rows_agree(
        together,
        np.concatenate([calibrated.predict_proba(rows[i : i + 1]) for i in range(len(rows))]),
    )


def test_invalid_parameters_are_refused(network):
    with pytest.raises(ParameterError, match=r"epsilons must have at least one number, got \[\]"):
        fit_odin(network, epsilons=[])
    with pytest.raises(
        ParameterError, match=r"temperature must be in \(0, inf\) or one of auto, got 0"
    ):
        fit_odin(network, temperature=0)
