"""ODIN as a calibrator: its definition on a linear network, and who chooses temperature and
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
from sklearn.tree import DecisionTreeClassifier

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
HELD = {"X_calibration": X[300:], "y_calibration": Y[300:]}


@pytest.fixture(scope="module")
def linear():
    return MultilayerPerceptron(hidden=(), **QUICK).fit(X[:300], Y[:300])


@pytest.fixture(scope="module")
def network():
    """Too sure of itself."""
    return MultilayerPerceptron(hidden=(32, 16), **{**QUICK, "max_epochs": 40}).fit(
        X[:300], Y[:300]
    )


def nll(y: np.ndarray, proba: np.ndarray) -> float:
    """In nats; nothing is clipped."""
    return -float(np.log(proba[np.arange(len(y)), y]).mean())


def fitted(network, **options) -> OdinCalibration:
    return OdinCalibration(FrozenEstimator(network), **options).fit(X[:300], Y[:300], **HELD)


@pytest.mark.parametrize(
    ("temperature", "epsilon"), [(1.0, 0.0), (1.0, 0.2), (4.0, 0.2), (1000.0, 0.0014)]
)
def test_its_definition(linear, temperature, epsilon):
    """softmax(f(x̃)/T), x̃ = x - ε·sign(-∇ log S_ŷ(x; T)), of logits XWᵀ + b; in float32, up to
    50.
    """
    weight, bias = (
        values.detach().numpy().astype(np.float64)
        for values in (linear.module_[-1].weight, linear.module_[-1].bias)
    )
    proba = softmax((X @ weight.T + bias) / temperature, axis=1)
    gradient = (weight[proba.argmax(axis=1)] - proba @ weight) / temperature
    expected = softmax(
        ((X - epsilon * UNIT * np.sign(-gradient)) @ weight.T + bias) / temperature, axis=1
    )
    calibrated = fitted(linear, temperature=temperature, epsilon=epsilon)
    np.testing.assert_allclose(calibrated.predict_proba(X), expected, rtol=0, atol=2e-5)
    assert calibrated.tried_ is None and calibrated.describe() == {
        "temperature": temperature,
        "epsilon": epsilon,
        "unit": pytest.approx(UNIT),
    }


def test_without_a_step_it_is_temperature_scaling(network):
    """As scikit-learn has it: the same minimum, found to three digits."""
    ours = fitted(network, epsilon=0.0)
    theirs = ScoreMap(FrozenEstimator(network), method="temperature").fit(X[:300], Y[:300], **HELD)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=0, atol=1e-3)
    assert ours.temperature_ > 1.5


def test_auto_has_the_least_negative_log_likelihood_of_all_that_it_tried(network):
    calibrated = fitted(network)
    epsilons, temperatures, judged = map(np.array, zip(*calibrated.tried_, strict=True))
    assert epsilons.tolist() == list(ODIN_STEP_SIZES)
    best = int(judged.argmin())
    assert (calibrated.epsilon_, calibrated.temperature_) == (epsilons[best], temperatures[best])
    for e, t, loss in calibrated.tried_:
        proba = fitted(network, epsilon=e, temperature=t).predict_proba(X[300:])
        assert nll(Y[300:], proba) == pytest.approx(loss, abs=1e-12)
    assert nll(Y[300:], calibrated.predict_proba(X[300:])) == judged[best] <= judged[0]


@pytest.mark.parametrize("epsilon", [0.08, 0.5])
def test_the_temperature_is_that_of_a_fine_grid_with_its_own_gradient(network, epsilon):
    """The search holds the direction fixed; what that may cost is two thousandths of a nat here."""
    calibrated = fitted(network, epsilon=epsilon)
    grid = [
        nll(Y[300:], fitted(network, epsilon=epsilon, temperature=t).predict_proba(X[300:]))
        for t in np.geomspace(2, 8, 15)
    ]
    assert calibrated.tried_[0][2] < min(grid) + 2e-3


def test_a_given_temperature_is_kept_while_the_step_is_chosen(network):
    calibrated = fitted(network, temperature=3.0, epsilons=[0.0, 0.3, 1.0])
    losses = [
        nll(Y[300:], fitted(network, temperature=3.0, epsilon=e).predict_proba(X[300:]))
        for e in (0.0, 0.3, 1.0)
    ]
    np.testing.assert_allclose([loss for *_, loss in calibrated.tried_], losses, rtol=0, atol=1e-12)
    assert (
        calibrated.temperature_ == 3.0
        and calibrated.epsilon_ == (0.0, 0.3, 1.0)[int(np.argmin(losses))]
    )


def test_calibration_rows_weigh(network):
    weight = np.where(Y[300:] == 0, 1.0, 0.0)
    some = OdinCalibration(FrozenEstimator(network), epsilon=0.0).fit(
        X[:300], Y[:300], **HELD, sample_weight_calibration=weight
    )
    only = OdinCalibration(FrozenEstimator(network), epsilon=0.0).fit(
        X[:300], Y[:300], X_calibration=X[300:][Y[300:] == 0], y_calibration=Y[300:][Y[300:] == 0]
    )
    assert some.temperature_ == only.temperature_ != fitted(network, epsilon=0.0).temperature_


def test_rows_out_of_distribution_may_choose_and_it_is_told(network):
    outside = X[:80] * 0.2 + np.random.default_rng(0).normal(size=(80, 4))
    calibrated = OdinCalibration(FrozenEstimator(network), epsilons=[0.0, 0.1, 0.5])
    with pytest.warns(
        UserWarning, match="OdinCalibration: rows out of distribution chose temperature and epsilon"
    ) as told:
        calibrated.fit(X[:300], Y[:300], **HELD, X_ood=outside)
    assert told[0].filename == __file__
    tried = [(e, t) for t in TEMPERATURES for e in (0.0, 0.1, 0.5)]
    assert [(e, t) for e, t, _ in calibrated.tried_] == tried
    shares = []
    for e, t in tried:
        each = fitted(network, epsilon=e, temperature=t)
        shares.append(
            fpr95(*(-each.predict_proba(rows).max(axis=1) for rows in (outside, X[300:])))
        )
    assert [share for *_, share in calibrated.tried_] == shares
    assert (calibrated.epsilon_, calibrated.temperature_) == tried[int(np.argmin(shares))]
    assert not hasattr(calibrated, "_X_ood")
    with pytest.raises(ValueError, match="4 features"):
        calibrated.fit(X[:300], Y[:300], **HELD, X_ood=outside[:, :2])


def test_frames_behind_a_pipeline():
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, 1.0, 2.0), "c": X[:, 2]})
    parent = make_pipeline(
        column_encoder([False, True, False]), MultilayerPerceptron(hidden=(8,), **QUICK)
    )
    ours = [
        OdinCalibration(parent, random_state=0).fit(rows, np.array(list("uvw"))[Y])
        for rows in (frame, frame.to_numpy())
    ]
    np.testing.assert_array_equal(
        ours[0].predict_proba(frame), ours[1].predict_proba(frame.to_numpy())
    )
    assert set(ours[0].predict(frame)) <= set("uvw")


def test_no_row_changes_anothers_and_far_ones_are_probabilities(network):
    calibrated = fitted(network, epsilon=0.05)
    rows = np.concatenate([X[:20], X[:5] * 1e20, X[:5] * 1e300])
    together = calibrated.predict_proba(rows)
    assert np.isfinite(together).all() and np.allclose(together.sum(axis=1), 1)
    assert_rows_agree(
        together,
        np.concatenate([calibrated.predict_proba(rows[i : i + 1]) for i in range(len(rows))]),
    )


def test_wrong_values_are_told(network):
    with pytest.raises(ParameterError, match=r"epsilons must have at least one number, got \[\]"):
        fitted(network, epsilons=[])
    with pytest.raises(
        ParameterError, match=r"temperature must be in \(0, inf\) or one of auto, got 0"
    ):
        fitted(network, temperature=0)
    with pytest.raises(TypeError, match="DecisionTreeClassifier has no logits or layers to read"):
        OdinCalibration(DecisionTreeClassifier()).fit(X, Y)
