"""Quantile networks: check loss of scikit-learn, its minimum, and quantiles that never cross."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.metrics import mean_pinball_loss

from kdgraph.config import compose
from kdgraph.config.components import build
from kdgraph.errors import ParameterError
from kdgraph.parents.networks import QuantileNetwork
from kdgraph.parents.networks.regressor import QuantileHead, TargetScaler
from kdgraph.persistence import from_bytes, to_bytes

LEVELS = (0.1, 0.25, 0.5, 0.9)
SMALL = {
    "hidden": (16,),
    "levels": LEVELS,
    "learning_rate": 0.03,
    "batch_size": 32,
    "max_epochs": 20,
    "device": "cpu",
    "random_state": 0,
}


def test_loss_matches_scikit_learn():
    head, rng = QuantileHead(LEVELS), np.random.default_rng(0)
    outputs, z, weight = (
        rng.normal(size=(30, 4)),
        rng.normal(size=30),
        rng.integers(1, 4, size=30).astype(float),
    )
    values = head.quantiles(outputs, TargetScaler(0.0, 1.0))
    assert (np.diff(values, axis=1) > 0).all() and np.array_equal(values[:, 2], outputs[:, 0])
    expected = np.mean(
        [
            mean_pinball_loss(z, values[:, j], alpha=q, sample_weight=weight)
            for j, q in enumerate(LEVELS)
        ]
    )
    loss = head.loss(
        *(
            torch.from_numpy(part.astype(np.float32))
            for part in (outputs, z, weight / weight.mean())
        )
    )
    assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_starts_near_a_standard_normal_distribution():
    np.testing.assert_allclose(
        QuantileHead(LEVELS).quantiles(np.zeros(4), TargetScaler(0.0, 1.0)),
        stats.norm.ppf(LEVELS),
        atol=1e-12,
    )


def test_predicts_sample_quantiles_for_uninformative_features():
    """Fit an exponential sample to 3 % of its mean, the accuracy of training in batches."""
    y = np.random.default_rng(0).exponential(10.0, size=1000)
    options = {
        "hidden": (),
        "learning_rate": 0.05,
        "batch_size": 250,
        "max_epochs": 80,
        "patience": None,
        "schedule": "cosine",
    }
    predicted = (
        QuantileNetwork(levels=LEVELS, **options, device="cpu", random_state=0)
        .fit(np.zeros((1000, 1)), y)
        .predict_dist([[0.0]])
    )
    np.testing.assert_allclose(predicted.ppf(np.array(LEVELS))[0], np.quantile(y, LEVELS), atol=0.3)


def test_learns_heteroscedastic_noise():
    """Measure the coverage of the central 80 % on either side.

    The tolerance is 0.08 for 4 standard errors of 400 rows, plus an allowance for the training.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(1200, 1))
    y = rng.normal(size=1200) * np.where(X[:, 0] < 0, 1.0, 6.0)
    network = QuantileNetwork(
        **{**SMALL, "levels": (0.1, 0.5, 0.9), "max_epochs": 25, "patience": None}
    ).fit(X[:400], y[:400])
    low, high = network.predict_dist(X[400:]).interval(0.8)
    inside, is_left = (low <= y[400:]) & (y[400:] <= high), X[400:, 0] < 0
    assert [inside[is_left].mean(), inside[~is_left].mean()] == pytest.approx([0.8, 0.8], abs=0.1)
    assert (high - low)[~is_left].mean() > 4 * (high - low)[is_left].mean()


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ((0.5,), "levels must be at least two increasing numbers, got (0.5,)"),
        ((0.5, 0.4), "levels must be at least two increasing numbers, got (0.5, 0.4)"),
        ((0.0, 0.4), "levels must be a list of which each is in (0, 1), got (0.0, 0.4)"),
    ],
)
def test_rejects_invalid_levels(levels, message):
    with pytest.raises(ParameterError) as caught:
        QuantileNetwork(levels=levels).fit([[0.0], [1.0]], [0.0, 1.0])
    assert str(caught.value) == message


def test_config_and_saved_model():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    configured = build(compose(["parent=quantile_network", "dataset=heteroscedastic"]).parent)
    assert (
        type(configured) is QuantileNetwork and tuple(configured.levels) == QuantileNetwork().levels
    )
    configured.set_params(hidden=(4,), max_epochs=2, device="cpu", random_state=0).fit(X, y)
    np.testing.assert_array_equal(
        from_bytes(to_bytes(configured), "it").value.predict_dist(X).ppf(0.3),
        configured.predict_dist(X).ppf(0.3),
    )
