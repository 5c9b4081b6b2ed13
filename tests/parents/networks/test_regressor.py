"""Distribution heads: losses are negative log likelihoods of SciPy, dispersions their maxima."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import optimize, stats

from kdgraph.parents.networks.regressor import DISTRIBUTION_HEADS, QuantileHead, TargetScaler

RNG = np.random.default_rng(0)
Y = RNG.gamma(3.0, 20.0, size=50)
W = RNG.integers(1, 4, size=50).astype(float)


def nll(head: str, outputs: np.ndarray, dispersion: float | None) -> np.ndarray:
    """Return the negative log likelihoods of SciPy, Float[n], in units of y."""
    f, g, units = outputs[:, 0], outputs[:, -1], DISTRIBUTION_HEADS[head].fit_scaler(Y, W)
    center, spread = units.center, units.spread
    if head.startswith("gamma"):
        shape, mean = dispersion or np.exp(g), spread * np.exp(f)
        return -stats.gamma.logpdf(Y, shape, scale=mean / shape)
    if head == "lognormal":
        assert dispersion is not None
        return -stats.lognorm.logpdf(Y, dispersion * spread, scale=np.exp(center + spread * f))
    return -stats.norm.logpdf(Y, center + spread * f, spread * (dispersion or np.exp(g)))


@pytest.mark.parametrize("name", DISTRIBUTION_HEADS)
def test_loss_is_the_likelihood_of_the_predicted_distribution(name):
    """Compare differences of the loss between two sets of outputs with those of SciPy.

    For heads with one dispersion they are multiplied by its factor.
    """
    head = DISTRIBUTION_HEADS[name]
    units, (first, second) = head.fit_scaler(Y, W), RNG.normal(0, 0.5, size=(2, 50, head.n_outputs))
    dispersion = head.dispersion(first, head.loss_targets(Y, units).astype(float), W)
    targets, weights = (
        torch.from_numpy(head.loss_targets(Y, units)),
        torch.from_numpy(W.astype(np.float32)),
    )
    loss = [
        float(head.loss(torch.from_numpy(values.astype(np.float32)), targets, weights))
        for values in (first, second)
    ]
    expected_nll = [(W * nll(name, values, dispersion)).mean() for values in (first, second)]
    factor = 1.0 if dispersion is None else dispersion if name == "gamma" else 1 / dispersion**2
    # The loss is a sum in float32.
    assert factor * (loss[0] - loss[1]) == pytest.approx(
        expected_nll[0] - expected_nll[1], rel=1e-4
    )
    distribution: Any = head.distribution(first, units, dispersion)
    np.testing.assert_allclose(
        -np.log(distribution.pdf(Y)), nll(name, first, dispersion), rtol=1e-9
    )


@pytest.mark.parametrize("name", ["normal", "lognormal", "gamma"])
def test_dispersion_maximises_the_likelihood(name):
    head = DISTRIBUTION_HEADS[name]
    units, outputs = head.fit_scaler(Y, W), RNG.normal(0, 0.3, size=(50, 1))
    dispersion_estimate = head.dispersion(outputs, head.loss_targets(Y, units).astype(float), W)
    best = optimize.minimize_scalar(
        lambda log: (W * nll(name, outputs, np.exp(log))).sum(),
        bounds=(-5, 5),
        options={"xatol": 1e-9},
    )
    # The targets are Float32.
    assert dispersion_estimate is not None and np.log(dispersion_estimate) == pytest.approx(
        best.x, abs=1e-5
    )


def test_lognormal_mean_includes_half_the_variance():
    distribution = DISTRIBUTION_HEADS["lognormal"].distribution(
        np.array([[0.5]]), TargetScaler(1.0, 2.0), 0.3
    )
    assert distribution.mean()[0] == pytest.approx(np.exp(2.0 + 0.6**2 / 2))


def test_equal_outcomes_have_spread_1():
    for name, head in DISTRIBUTION_HEADS.items():
        units = head.fit_scaler(np.full(4, 7.0), np.ones(4))
        distribution = head.distribution(
            np.zeros((1, 2)),
            units,
            head.dispersion(
                np.zeros((4, 1)), head.loss_targets(np.full(4, 7.0), units), np.ones(4)
            ),
        )
        assert np.isfinite(distribution.ppf(0.9)).all() and (distribution.mean() > 6.9).all(), name


@pytest.mark.parametrize("name", DISTRIBUTION_HEADS)
def test_extreme_outputs_give_valid_distributions(name):
    outputs = np.array([[1e4, 1e4], [-1e4, -1e4], [1e4, -1e4], [0.0, 0.0]])
    distribution = DISTRIBUTION_HEADS[name].distribution(outputs, TargetScaler(3.0, 2.0), 1.0)
    assert np.isfinite(distribution.ppf(np.array([0.05, 0.95]))).all()


@pytest.mark.parametrize(
    "head",
    [*DISTRIBUTION_HEADS.values(), QuantileHead((0.1, 0.5, 0.8))],
    ids=[*DISTRIBUTION_HEADS, "quantiles"],
)
def test_best_constant_output_minimises_the_loss(head):
    """Search for better constant outputs.

    None is better by more than the rounding of Float32 sums, and outputs nearby are worse.
    """
    targets = head.loss_targets(Y, head.fit_scaler(Y, W))
    inputs = torch.from_numpy(targets), torch.from_numpy(W.astype(np.float32))
    constant = head.best_constant_output(targets.astype(float), W)

    def loss(outputs: np.ndarray) -> float:
        return float(
            head.loss(torch.from_numpy(outputs.astype(np.float32)).expand(50, -1), *inputs)
        )

    search = optimize.minimize(
        loss,
        constant + 0.05,
        method="Nelder-Mead",
        options={"xatol": 1e-4, "fatol": 1e-9, "maxiter": 2000},
    )
    assert constant.shape == (head.n_outputs,) and loss(constant) == pytest.approx(
        search.fun, abs=2e-5
    )
    assert loss(constant + 0.2) > loss(constant)
