"""Monte Carlo dropout against networks without the dropped units; masks do not depend on rows."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from kdgraph.config import compose
from kdgraph.config.components import build
from kdgraph.errors import ParameterError
from kdgraph.parents.networks import MonteCarloDropout, MultilayerPerceptronRegressor
from kdgraph.persistence import from_bytes, to_bytes

SMALL = {
    "hidden": (16, 8),
    "dropout": 0.3,
    "learning_rate": 0.02,
    "batch_size": 32,
    "max_epochs": 15,
    "device": "cpu",
    "random_state": 0,
}


@pytest.fixture(scope="module")
def regression_rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 2))
    return X, rng.gamma(9.0, np.exp(2 + X[:, 0]) / 9.0)


@pytest.fixture(scope="module")
def fitted_dropout(regression_rows) -> MonteCarloDropout:
    return MonteCarloDropout(**SMALL, masks=40, head="lognormal").fit(*regression_rows)


def test_mask_equals_a_network_without_some_units(fitted_dropout, regression_rows):
    """Compare with a network in Float64 whose weights are changed instead of its activations.

    Weights of dropped units are set to 0, those of the others are divided by 1 - p.
    """
    masks = fitted_dropout._draw_masks(fitted_dropout.module_)
    assert [mask.shape for mask in masks] == [(40, 16), (40, 8)] and {*np.unique(masks[0])} == {
        np.float32(0),
        np.float32(1 / 0.7),
    }
    outputs = fitted_dropout.outputs_by_mask(regression_rows[0][:20])
    for s in (0, 39):
        thinned = copy.deepcopy(fitted_dropout.module_).double()
        linear = [part for part in thinned if isinstance(part, nn.Linear)]
        with torch.no_grad():
            for layer, mask in zip(linear[1:], masks, strict=True):
                layer.weight *= torch.from_numpy(mask[s])
            expected = thinned(torch.from_numpy(regression_rows[0][:20])).numpy()
        np.testing.assert_allclose(outputs[:, s], expected, atol=1e-5)


def test_units_are_kept_with_the_expected_frequency(fitted_dropout):
    """Expect a fraction of 0.7 of 40·24 units; 4 standard errors are 0.06."""
    stays = np.concatenate(
        [mask.ravel() > 0 for mask in fitted_dropout._draw_masks(fitted_dropout.module_)]
    )
    assert stays.mean() == pytest.approx(0.7, abs=0.06)


def test_sample_is_in_the_units_of_the_outcome(fitted_dropout, regression_rows):
    outputs, units = (
        fitted_dropout.outputs_by_mask(regression_rows[0][:5])[..., 0],
        fitted_dropout.target_scaler_,
    )
    expected = np.sort(np.exp(units.center + units.spread * outputs), axis=1)
    np.testing.assert_allclose(
        fitted_dropout.predict_dist(regression_rows[0][:5]).x, expected, rtol=1e-12
    )
    np.testing.assert_allclose(
        fitted_dropout.predict(regression_rows[0][:5]), expected.mean(axis=1), rtol=1e-12
    )


def test_regressor_without_masks_is_the_weight_scaling_rule(fitted_dropout, regression_rows):
    """Compare weights, which are the same to the bit, and predictions.

    The mean of the lognormal distribution includes half the variance.
    """
    scaled = MultilayerPerceptronRegressor(**SMALL, head="lognormal").fit(*regression_rows)
    np.testing.assert_array_equal(
        scaled.predict_parameters(regression_rows[0]),
        fitted_dropout.predict_parameters(regression_rows[0]),
    )
    assert scaled.dispersion_ is not None
    spread = scaled.target_scaler_.spread * scaled.dispersion_
    f = (
        scaled.target_scaler_.center
        + scaled.target_scaler_.spread * scaled.predict_parameters(regression_rows[0])[:, 0]
    )
    np.testing.assert_allclose(
        scaled.predict(regression_rows[0]), np.exp(f + spread**2 / 2), rtol=1e-10
    )


def test_is_determined_by_the_seed_and_independent_of_other_rows(fitted_dropout, regression_rows):
    X, y = regression_rows
    predicted = fitted_dropout.predict_dist(X)
    for row in (0, 150, 299):
        np.testing.assert_array_equal(
            fitted_dropout.predict_dist(X[row : row + 1]).x[0], predicted.x[row]
        )
    np.testing.assert_array_equal(fitted_dropout.predict_dist(X).x, predicted.x)  # A second call.
    restored = from_bytes(to_bytes(fitted_dropout), "it").value
    np.testing.assert_array_equal(restored.predict_dist(X).x, predicted.x)
    other_seed = MonteCarloDropout(**{**SMALL, "random_state": 1, "max_epochs": 0}, masks=40).fit(
        X, y
    )
    assert not np.array_equal(
        other_seed._draw_masks(other_seed.module_)[0],
        fitted_dropout._draw_masks(fitted_dropout.module_)[0],
    )


def test_noise_follows_the_distribution_of_the_head(regression_rows):
    """Compare with the variance of a mixture: that of its means plus the mean of its variances.

    The levels 1/2S, … omit the tails, which are 4 % here.
    """
    X, y = regression_rows
    quiet, noisy = (
        MonteCarloDropout(**SMALL, masks=200, noise=noise).fit(X, y).predict_dist(X[:50])
        for noise in (False, True)
    )
    added = MultilayerPerceptronRegressor(**SMALL).fit(X, y).predict_dist(X[:50]).var()
    np.testing.assert_allclose((noisy.var() - quiet.var()).mean(), added.mean(), rtol=0.15)
    np.testing.assert_allclose(noisy.mean(), quiet.mean(), atol=0.05 * np.sqrt(added[0]))


def test_rejects_a_network_without_dropout():
    with pytest.raises(ParameterError) as caught:
        MonteCarloDropout(dropout=0.0).fit([[0.0], [1.0]], [0.0, 1.0])
    assert str(caught.value) == "dropout must be above 0 somewhere, for masks to differ, got 0.0"


def test_config_and_saved_model():
    configured = build(compose(["parent=mc_dropout", "dataset=heteroscedastic"]).parent)
    assert type(configured) is MonteCarloDropout and (
        configured.masks,
        configured.noise,
        configured.dropout,
        configured.hidden,
    ) == (100, False, 0.5, [256, 256, 64, 64])
