"""Recalibration by a quantile network: against the truth, in other units, with few rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import mean_pinball_loss

from kdgraph.config import compose
from kdgraph.config.components import build
from kdgraph.distributions import Distribution, Normal, WeightedSamples
from kdgraph.errors import ParameterError
from kdgraph.metrics import coverage
from kdgraph.parents.networks.quantile_networks import (
    _PREDICTED_LEVELS,
    _SAMPLED_LEVELS_PER_STEP,
    SimultaneousQuantileHead,
    SimultaneousQuantileModule,
    SimultaneousQuantileNetwork,
)
from kdgraph.persistence import from_bytes, to_bytes
from kdgraph.recalibration import DensityPit

Q = np.array([0.005, 0.05, 0.3, 0.5, 0.7, 0.95, 0.995])


class ConstantScaleParent(RegressorMixin, BaseEstimator):
    """Parent with mean x₀ and standard deviation x₁ or ``scale``."""

    def __init__(self, scale: float | None = None, unit: float = 1.0, origin: float = 0.0):
        self.scale = scale
        self.unit = unit
        self.origin = origin

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict_dist(self, X) -> Distribution:
        return Normal(
            self.origin + self.unit * X[:, 0],
            self.unit * (X[:, 1] if self.scale is None else np.full(len(X), self.scale)),
        )

    def predict(self, X):
        return self.predict_dist(X).mean()


class SamplingParent(ConstantScaleParent):
    """Parent that predicts ten samples; those of the first rows are equal."""

    def predict_dist(self, X) -> Distribution:
        samples = super().predict_dist(X).ppf(np.arange(0.05, 1, 0.1))
        samples[:50] = samples[:50, :1]
        return WeightedSamples(samples)


def make_density_pit_rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return two features and standard normal noise."""
    rng = np.random.default_rng(seed)
    return (
        np.column_stack([rng.uniform(0, 10, n), rng.uniform(0.5, 2, n)]),
        rng.normal(size=n),
        rng.exponential(size=n),
    )


def fit_density_pit(parent, X, y, **options) -> DensityPit:
    return DensityPit(FrozenEstimator(parent.fit(X, y)), random_state=0, **options).fit(
        X[:1], y[:1], X_calibration=X, y_calibration=y
    )


@pytest.fixture(scope="module")
def widening_model():
    """Return a model whose parent predicts a spread of 1; the true spread is 1 + mean / 5."""
    X, noise, _ = make_density_pit_rows(3000)
    return fit_density_pit(ConstantScaleParent(1.0), X, X[:, 0] + (1 + X[:, 0] / 5) * noise)


def test_learns_a_spread_that_depends_on_the_prediction(widening_model):
    """Quantiles are compared with the truth, in standard deviations.

    4 standard errors of one of 500 of 3,000 rows are 0.25; twice that for outer quantiles.
    """
    means = np.array([1.0, 3.0, 5.0, 7.0, 9.0])
    predicted = (
        widening_model.predict_dist(np.column_stack([means, np.ones(5)])).ppf(Q) - means[:, None]
    ) / (1 + means[:, None] / 5)
    np.testing.assert_allclose(
        predicted[:, 2:5], np.tile(stats.norm.ppf(Q[2:5]), (5, 1)), atol=0.25
    )
    np.testing.assert_allclose(predicted[1:4], np.tile(stats.norm.ppf(Q), (3, 1)), atol=0.5)


def test_intervals_cover_among_small_and_large_predictions(widening_model):
    """4 standard errors of a fraction of 2,000 rows, and 0.02 for 3,000 calibration rows."""
    X, noise, _ = make_density_pit_rows(4000, seed=1)
    y, is_small = X[:, 0] + (1 + X[:, 0] / 5) * noise, X[:, 0] < 5
    after, before = widening_model.predict_dist(X), ConstantScaleParent(1.0).predict_dist(X)
    for level in (0.5, 0.9, 0.99):
        for subset in (is_small, ~is_small):
            tolerance = 4 * np.sqrt(level * (1 - level) / 2000) + 0.02
            assert coverage(y[subset], after[subset], level=level) == pytest.approx(
                level, abs=tolerance
            )
    assert coverage(y[~is_small], before[~is_small], level=0.9) < 0.6
    assert after.crps(y).mean() < 0.95 * before.crps(y).mean()


def test_learns_a_shape_outside_of_the_family():
    """The noise is exponential: quantiles are near 0 and 5.3, not at -2.6 as predicted."""
    X, _, noise = make_density_pit_rows(1500)
    predicted = (
        fit_density_pit(ConstantScaleParent(1.0), X, X[:, 0] + noise)
        .predict_dist(np.array([[5.0, 1.0]]))
        .ppf(Q)[0]
        - 5
    )
    np.testing.assert_allclose(predicted[1:5], stats.expon.ppf(Q[1:5]), atol=0.2)
    assert (np.abs(predicted - stats.expon.ppf(Q))[[0, 5, 6]] < [0.6, 0.6, 1.5]).all()


def test_a_calibrated_parent_is_hardly_changed():
    """With 50 rows the CRPS is 1 % worse on average, and less than 4 % in three draws.

    Training starts at the parent's prediction and is stopped early.
    """
    X_new, noise_new, _ = make_density_pit_rows(1000, seed=9)
    y_new, mean_scores = X_new[:, 0] + X_new[:, 1] * noise_new, []
    for seed in range(3):
        X, noise, _ = make_density_pit_rows(50, seed)
        mean_scores.append(
            fit_density_pit(ConstantScaleParent(), X, X[:, 0] + X[:, 1] * noise)
            .predict_dist(X_new)
            .crps(y_new)
            .mean()
        )
    assert (
        np.mean(mean_scores) < 1.04 * ConstantScaleParent().predict_dist(X_new).crps(y_new).mean()
    )


@pytest.mark.parametrize("inputs", ["row", "deciles"])
def test_prediction_scales_with_the_units_of_the_outcome(inputs):
    """A power of two changes no digit; other units change the last digits of float32.

    Units in which squares overflow are accepted.
    """
    X, noise, _ = make_density_pit_rows(300)
    y = X[:, 0] + 2 * X[:, 1] * noise
    options = {"inputs": inputs, "max_epochs": 4}
    predicted = fit_density_pit(ConstantScaleParent(), X, y, **options).predict_dist(X).ppf(Q)
    np.testing.assert_array_equal(
        fit_density_pit(ConstantScaleParent(unit=1024.0), X, 1024 * y, **options)
        .predict_dist(X)
        .ppf(Q),
        1024 * predicted,
    )
    in_other_units = (
        fit_density_pit(ConstantScaleParent(unit=0.03, origin=-7.0), X, 0.03 * y - 7, **options)
        .predict_dist(X)
        .ppf(Q)
    )
    np.testing.assert_allclose((in_other_units + 7) / 0.03, predicted, atol=2e-3)
    in_huge_units = (
        fit_density_pit(ConstantScaleParent(unit=2.0**600), X, 2.0**600 * y, **options)
        .predict_dist(X)
        .ppf(Q)
    )
    np.testing.assert_allclose(in_huge_units / 2.0**600, predicted, atol=2e-3)


@pytest.mark.parametrize("inputs", ["row", "deciles"])
@pytest.mark.parametrize("n", [1, 2, 6])
def test_quantiles_do_not_cross_with_few_rows(n, inputs):
    X, noise, _ = make_density_pit_rows(60)
    model = fit_density_pit(
        ConstantScaleParent(), X[:n], X[:n, 0] + noise[:n], inputs=inputs, max_epochs=3
    )
    values = model.predict_dist(X).ppf(np.linspace(0.0001, 0.9999, 201))
    assert np.isfinite(values).all() and (np.diff(values, axis=1) >= 0).all()


def test_corrections_are_constant_beyond_the_calibration_rows(widening_model):
    """A mean a thousand times as large gets the same correction, in units of its prediction."""
    distant, more_distant = (
        widening_model.predict_dist(np.array([[10_000.0, 1.0]])),
        widening_model.predict_dist(np.array([[20_000.0, 1.0]])),
    )
    np.testing.assert_allclose(
        distant.ppf(Q)[0] - 10_000, more_distant.ppf(Q)[0] - 20_000, rtol=1e-9
    )


def test_accepts_samples_with_many_ties():
    X, noise, _ = make_density_pit_rows(300)
    model = fit_density_pit(SamplingParent(1.0), X, X[:, 0] + 2 * noise, max_epochs=20)
    predicted = model.predict_dist(X)
    assert np.isfinite(predicted.mean()).all() and np.isfinite(predicted.ppf(Q)).all()
    assert np.median(predicted.ppf(0.9)[50:] - predicted.ppf(0.1)[50:]) == pytest.approx(
        2 * 2 * stats.norm.ppf(0.9), rel=0.3
    )


def test_prediction_does_not_depend_on_other_rows(widening_model):
    X = make_density_pit_rows(300)[0]
    np.testing.assert_array_equal(
        widening_model.predict_dist(X).ppf(Q)[7:9], widening_model.predict_dist(X[7:9]).ppf(Q)
    )


def test_same_seed_and_saved_model_give_the_same_bits():
    X, noise, _ = make_density_pit_rows(200)
    y = X[:, 0] + 3 * noise
    model = DensityPit(ConstantScaleParent(), max_epochs=3, random_state=0).fit(X, y)
    same_seed, other_seed = (
        clone(model).fit(X, y),
        clone(model).set_params(random_state=1).fit(X, y),
    )
    predicted = model.predict_dist(X).ppf(Q)
    np.testing.assert_array_equal(same_seed.predict_dist(X).ppf(Q), predicted)
    assert not np.array_equal(other_seed.predict_dist(X).ppf(Q), predicted)
    loaded = from_bytes(to_bytes(model), "it").value
    np.testing.assert_array_equal(loaded.predict_dist(X).ppf(Q), predicted)
    assert loaded.describe() == model.describe() == {"n_rows": 60, **model.network_.describe()}


def test_presets_and_rejected_parameters():
    recalibrator = build(
        compose(
            ["recalibrator=density_pit", "dataset=heteroscedastic", "parent=linear"]
        ).recalibrator,
        estimator=ConstantScaleParent(),
    )
    assert type(recalibrator) is DensityPit and recalibrator.get_params()["hidden"] == [20, 20]
    with pytest.raises(ParameterError, match=r"^inputs must be one of row, deciles, got 'all'$"):
        DensityPit(ConstantScaleParent(), inputs="all").fit(*make_density_pit_rows(20)[:2])  # pyright: ignore[reportArgumentType]


def test_check_loss_equals_scikit_learns_pinball_loss():
    rng = np.random.default_rng(0)
    quantiles, levels, outcomes = (
        rng.normal(size=(30, 5)),
        rng.uniform(size=(30, 5)),
        rng.normal(size=30),
    )
    weights = rng.integers(1, 4, size=30).astype(float)
    pinball_losses = [
        mean_pinball_loss(outcomes[i : i + 1], quantiles[i, j : j + 1], alpha=levels[i, j])
        for i in range(30)
        for j in range(5)
    ]
    outputs = torch.from_numpy(np.stack([quantiles, levels], axis=2).astype(np.float32))
    loss = SimultaneousQuantileHead(is_standardised=True).loss(
        outputs,
        *(
            torch.from_numpy(values.astype(np.float32))
            for values in (outcomes, weights / weights.mean())
        ),
    )
    assert float(loss) == pytest.approx(
        np.average(pinball_losses, weights=np.repeat(weights, 5)), rel=1e-5
    )


def test_untrained_network_predicts_a_standard_normal_distribution():
    predicted = (
        SimultaneousQuantileNetwork(max_epochs=0, device="cpu", random_state=0)
        .fit([[0.0], [1.0]], [5.0, 6.0])
        .predict_dist([[3.0]])
    )
    np.testing.assert_allclose(
        predicted.ppf(np.array(_PREDICTED_LEVELS))[0], stats.norm.ppf(_PREDICTED_LEVELS), atol=1e-5
    )  # float32


def test_training_levels_cover_the_unit_interval():
    """Each row has one level in each eighth, and its output is the quantile at that level."""
    torch.manual_seed(0)
    module = SimultaneousQuantileModule(2, (3,), uses_normal_scores=True).train()
    with torch.no_grad():
        values, levels = module(torch.zeros(4000, 2)).numpy().transpose(2, 0, 1).astype(float)
    assert (
        np.floor(levels * _SAMPLED_LEVELS_PER_STEP) == np.arange(_SAMPLED_LEVELS_PER_STEP)
    ).all()
    assert stats.kstest(levels[:, 0] * _SAMPLED_LEVELS_PER_STEP, "uniform").pvalue > 1e-3
    np.testing.assert_allclose(values, stats.norm.ppf(levels), atol=1e-4)
