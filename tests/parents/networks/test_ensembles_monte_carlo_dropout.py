"""A prediction under a mask is that of a network without the units that the mask turns off; masks
are the same for every row.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from kdgraph.components import build
from kdgraph.config import compose
from kdgraph.errors import ParameterError
from kdgraph.parents.networks import MonteCarloDropout, MultilayerPerceptronRegressor
from kdgraph.persistence import from_bytes, to_bytes
from tests.sklearn_checks import with_checks

EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a row of weight two is in one batch, two equal rows may be in two"
    ),
}
SMALL = {
    "hidden": (16, 8),
    "dropout": 0.3,
    "learning_rate": 0.02,
    "batch_size": 32,
    "max_epochs": 15,
    "device": "cpu",
    "random_state": 0,
}


@pytest.mark.slow
@with_checks(
    [
        MonteCarloDropout(
            **{**SMALL, "dropout": 0.1, "hidden": (16,), "learning_rate": 0.1, "max_epochs": 5},
            masks=20,
            patience=None,
        )
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 2))
    return X, rng.gamma(9.0, np.exp(2 + X[:, 0]) / 9.0)


@pytest.fixture(scope="module")
def fitted(rows) -> MonteCarloDropout:
    return MonteCarloDropout(**SMALL, masks=40, head="lognormal").fit(*rows)


def test_a_mask_is_a_network_without_some_units(fitted, rows):
    """Weights of the units that are off set to 0, of the others divided by 1 - p, in Float64:
    another way to the same sums.
    """
    masks = fitted._draw_masks(fitted.module_)
    assert [mask.shape for mask in masks] == [(40, 16), (40, 8)] and {*np.unique(masks[0])} == {
        np.float32(0),
        np.float32(1 / 0.7),
    }
    said = fitted.outputs_by_mask(rows[0][:20])
    for s in (0, 39):
        thinned = copy.deepcopy(fitted.module_).double()
        linear = [part for part in thinned if isinstance(part, nn.Linear)]
        with torch.no_grad():
            for layer, mask in zip(linear[1:], masks, strict=True):
                layer.weight *= torch.from_numpy(mask[s])
            known = thinned(torch.from_numpy(rows[0][:20])).numpy()
        np.testing.assert_allclose(said[:, s], known, atol=1e-5)


def test_units_stay_as_often_as_they_should(fitted):
    """A share of 0.7 of 40·24 units; 4 standard errors are 0.06."""
    stays = np.concatenate([mask.ravel() > 0 for mask in fitted._draw_masks(fitted.module_)])
    assert stays.mean() == pytest.approx(0.7, abs=0.06)


def test_the_sample_is_on_the_scale_of_the_outcome(fitted, rows):
    outputs, units = fitted.outputs_by_mask(rows[0][:5])[..., 0], fitted.target_scaler_
    known = np.sort(np.exp(units.center + units.spread * outputs), axis=1)
    np.testing.assert_allclose(fitted.predict_dist(rows[0][:5]).x, known, rtol=1e-12)
    np.testing.assert_allclose(fitted.predict(rows[0][:5]), known.mean(axis=1), rtol=1e-12)


def test_without_masks_it_is_the_weight_scaling_rule(fitted, rows):
    """The same weights to the bit; the mean of the log-normal distribution has half the variance in
    it.
    """
    scaled = MultilayerPerceptronRegressor(**SMALL, head="lognormal").fit(*rows)
    np.testing.assert_array_equal(
        scaled.predict_parameters(rows[0]), fitted.predict_parameters(rows[0])
    )
    assert scaled.dispersion_ is not None
    spread = scaled.target_scaler_.spread * scaled.dispersion_
    f = (
        scaled.target_scaler_.center
        + scaled.target_scaler_.spread * scaled.predict_parameters(rows[0])[:, 0]
    )
    np.testing.assert_allclose(scaled.predict(rows[0]), np.exp(f + spread**2 / 2), rtol=1e-10)


def test_rows_stand_alone_and_the_seed_decides(fitted, rows):
    X, y = rows
    whole = fitted.predict_dist(X)
    for at in (0, 150, 299):
        np.testing.assert_array_equal(fitted.predict_dist(X[at : at + 1]).x[0], whole.x[at])
    np.testing.assert_array_equal(fitted.predict_dist(X).x, whole.x)  # asked again
    again = from_bytes(to_bytes(fitted), "it").value
    np.testing.assert_array_equal(again.predict_dist(X).x, whole.x)
    other = MonteCarloDropout(**{**SMALL, "random_state": 1, "max_epochs": 0}, masks=40).fit(X, y)
    assert not np.array_equal(
        other._draw_masks(other.module_)[0], fitted._draw_masks(fitted.module_)[0]
    )


def test_noise_is_that_of_the_head(rows):
    """The variance of a mixture: that of its means and the mean of its variances; the levels 1/2S,
    … leave the tails out, 4 % here.
    """
    X, y = rows
    quiet, noisy = (
        MonteCarloDropout(**SMALL, masks=200, noise=noise).fit(X, y).predict_dist(X[:50])
        for noise in (False, True)
    )
    added = MultilayerPerceptronRegressor(**SMALL).fit(X, y).predict_dist(X[:50]).var()
    np.testing.assert_allclose((noisy.var() - quiet.var()).mean(), added.mean(), rtol=0.15)
    np.testing.assert_allclose(noisy.mean(), quiet.mean(), atol=0.05 * np.sqrt(added[0]))


def test_what_is_refused():
    with pytest.raises(ParameterError) as caught:
        MonteCarloDropout(dropout=0.0).fit([[0.0], [1.0]], [0.0, 1.0])
    assert str(caught.value) == "dropout must be above 0 somewhere, for masks to differ, got 0.0"


def test_its_configuration():
    made = build(compose(["parent=mc_dropout", "dataset=heteroscedastic"]).parent)
    assert type(made) is MonteCarloDropout and (
        made.masks,
        made.noise,
        made.dropout,
        made.hidden,
    ) == (100, False, 0.5, [256, 256, 64, 64])
