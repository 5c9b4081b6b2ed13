"""Input step of ODIN against a closed form and finite differences."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from sklearn.datasets import make_blobs
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdgraph.base.network_access import logits_after_step
from kdgraph.parents.networks import ConvolutionalNetwork, MultilayerPerceptron

QUICK = {
    "learning_rate": 0.02,
    "batch_size": 32,
    "max_epochs": 8,
    "patience": None,
    "device": "cpu",
    "random_state": 0,
}
X, Y = make_blobs(150, centers=3, n_features=4, cluster_std=3.0, random_state=0)
STEP = 0.3
ROUNDING = {"rtol": 0, "atol": 2e-5}
"""Tolerance for logits up to 20 in float32."""


@pytest.fixture(scope="module")
def linear():
    return MultilayerPerceptron(hidden=(), **QUICK).fit(X, Y)


def weights(network) -> tuple[np.ndarray, np.ndarray]:
    last = network.module_[-1]
    return last.weight.detach().numpy().astype(np.float64), last.bias.detach().numpy().astype(
        np.float64
    )


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1000.0])
def test_step_of_a_linear_network_matches_the_closed_form(linear, temperature):
    """A step along the sign of ∇ log S_ŷ = (w_ŷ - Σ_k S_k w_k) / T raises the confidence."""
    W, b = weights(linear)
    proba = softmax((X @ W.T + b) / temperature, axis=1)
    gradient = (W[proba.argmax(axis=1)] - proba @ W) / temperature
    initial_logits, stepped_logits = logits_after_step(linear, X, temperature, [0.0, STEP])
    # In rows with a probability close to 1 the sign depends on rounding.
    is_reliable = np.abs(gradient).min(axis=1) > 1e-6
    assert is_reliable.mean() > 0.5
    np.testing.assert_allclose(
        stepped_logits[is_reliable],
        ((X + STEP * np.sign(gradient)) @ W.T + b)[is_reliable],
        **ROUNDING,
    )
    np.testing.assert_array_equal(initial_logits, linear.logits(X))
    stepped_logits, initial_logits = stepped_logits[is_reliable], initial_logits[is_reliable]
    assert (
        softmax(stepped_logits / temperature, axis=1).max(axis=1)
        > softmax(initial_logits / temperature, axis=1).max(axis=1)
    ).all()


def test_step_has_the_sign_of_finite_differences():
    """Differences use a copy of the network in float64; numbers with a kink nearby are left out."""
    import torch

    network = MultilayerPerceptron(hidden=(16, 8), activation="leaky_relu", **QUICK).fit(X, Y)
    double = copy.deepcopy(network.module_).double()

    def log_confidence(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return log_softmax(double(torch.from_numpy(rows)).numpy() / 10, axis=1)[
                np.arange(len(rows)), labels
            ]

    rows, predicted, h = X[:40], network.logits(X[:40]).argmax(axis=1), 1e-6
    steps = h * np.eye(4)
    two_sided = [
        (log_confidence(rows + e, predicted) - log_confidence(rows - e, predicted)) / (2 * h)
        for e in steps
    ]
    one_sided = [
        (log_confidence(rows + e, predicted) - log_confidence(rows, predicted)) / h for e in steps
    ]
    slope, smooth = np.array(two_sided).T, np.abs(np.subtract(two_sided, one_sided)).T < 1e-4
    is_reliable = smooth & (np.abs(slope) > 1e-4)
    assert is_reliable.mean() > 0.8
    network_inputs = []
    # These are the inputs of the network after the step.
    network.logits = lambda rows: network_inputs.append(rows) or np.zeros((len(rows), 3))
    logits_after_step(network, rows, 10.0, [STEP])
    np.testing.assert_array_equal(
        np.sign(network_inputs[0] - rows)[is_reliable], np.sign(slope)[is_reliable]
    )
    # The inputs are rounded to float32.
    np.testing.assert_allclose(
        np.abs(network_inputs[0] - rows)[is_reliable], STEP, rtol=0, atol=1e-7
    )


def test_step_is_taken_after_the_transformers_of_a_pipeline():
    pipeline = make_pipeline(StandardScaler(), MultilayerPerceptron(hidden=(8,), **QUICK)).fit(
        1000 * X, Y
    )
    logits = logits_after_step(FrozenEstimator(pipeline), 1000 * X, 1.0, [STEP])
    scaled = pipeline[0].transform(1000 * X)
    np.testing.assert_array_equal(logits, logits_after_step(pipeline[-1], scaled, 1.0, [STEP]))


def test_images_and_integer_rows_are_accepted():
    rng = np.random.default_rng(0)
    images = rng.random((40, 1, 12, 12), dtype=np.float32)
    network = ConvolutionalNetwork(max_epochs=1, device="cpu", random_state=0).fit(
        images, np.arange(40) % 2
    )
    (logits,) = logits_after_step(network, images, 1000.0, [0.05])
    assert logits.shape == (40, 2) and not np.array_equal(logits, network.logits(images))
    integer_rows = np.round(X).astype(int)
    linear = MultilayerPerceptron(hidden=(), **QUICK).fit(integer_rows, Y)
    np.testing.assert_array_equal(
        *(
            logits_after_step(linear, rows, 1.0, [STEP])[0]
            for rows in (integer_rows, integer_rows.astype(float))
        )
    )


def test_step_of_a_row_does_not_depend_on_other_rows(linear):
    rows = np.concatenate([X[:20], X[:5] * 1e30, X[:5] * 1e300])
    (together,) = logits_after_step(linear, rows, 2.0, [STEP])
    assert np.isfinite(together).all()
    single = [logits_after_step(linear, rows[i : i + 1], 2.0, [STEP])[0] for i in range(len(rows))]
    np.testing.assert_array_equal(together, np.concatenate(single))


def test_step_size_zero_computes_no_gradient(linear, monkeypatch):
    monkeypatch.setattr(type(linear), "input_gradient", lambda *_: pytest.fail("gradient computed"))
    assert len(logits_after_step(linear, X, 1.0, [0.0])) == 1


def test_a_parent_without_a_network_is_refused():
    with pytest.raises(TypeError, match="LogisticRegression has no logits or layers to read"):
        logits_after_step(LogisticRegression().fit(X, Y), X, 1.0, [STEP])
