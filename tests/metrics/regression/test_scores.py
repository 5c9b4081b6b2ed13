"""Scores of quantiles, densities and widths against scikit-learn, SciPy and published values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import mean_pinball_loss, mean_squared_error

from kdgraph.distributions import Normal, Recalibrated, ScipyFamily, WeightedEcdf
from kdgraph.errors import ConfigError, ParameterError
from kdgraph.metrics import (
    crps,
    interval_score,
    log_score,
    mean_sd,
    mean_width,
    mse_mean,
    mse_y,
    quantile_score,
    score,
    smis,
)

RNG = np.random.default_rng(0)
LOC, SCALE = RNG.normal(size=60), RNG.uniform(0.5, 2, size=60)
Y = LOC + SCALE * RNG.normal(size=60)
NORMAL = Normal(LOC, SCALE)
GAMMA = ScipyFamily("gamma", {"a": SCALE + 1, "scale": np.full(60, 2.0)})


@pytest.mark.parametrize("level", [0.05, 0.5, 0.9])
def test_quantile_score_matches_scikit_learn(level):
    assert quantile_score(Y, NORMAL, level=level) == pytest.approx(
        mean_pinball_loss(Y, NORMAL.ppf(level), alpha=level), rel=1e-12
    )


def test_crps_is_twice_the_integral_of_quantile_scores():
    """Gneiting and Raftery (2007), Section 6.1, by the trapezoidal rule in logits.

    The error of the rule at the kinks is of the order of its squared step.
    """
    logits = np.linspace(-25, 25, 1001)
    levels = 1 / (1 + np.exp(-logits))
    scores = [quantile_score(Y, NORMAL, level=level) * level * (1 - level) for level in levels]
    assert 2 * np.trapezoid(scores, logits) == pytest.approx(crps(Y, NORMAL), rel=1e-3)


def test_log_score_matches_scipy_and_is_none_without_density():
    assert log_score(Y, NORMAL) == pytest.approx(
        -stats.norm.logpdf(Y, LOC, SCALE).mean(), rel=1e-12
    )
    steps = Recalibrated(NORMAL, WeightedEcdf.from_pits(np.array([0.3, 0.6])))
    assert (
        np.isnan(log_score(Y, steps))
        and score("log_score", {"y": Y, "distribution": steps}).value is None
    )
    assert (
        score("log_score", {"y": np.full(60, -1.0), "distribution": GAMMA}).value is None
    )  # infinite


def test_mse_to_y_includes_the_noise():
    assert mse_y(Y, GAMMA) == pytest.approx(mean_squared_error(Y, GAMMA.mean()), rel=1e-12)
    rng = np.random.default_rng(1)
    truth = Normal(np.zeros(20_000), np.full(20_000, 3.0))
    off = Normal(np.full(20_000, 2.0), np.ones(20_000))
    y = truth.sample(1, rng)[:, 0]
    assert mse_y(y, truth) == pytest.approx(
        9, rel=0.05
    )  # 5 standard errors of a variance over 20,000 rows are 5 %
    assert mse_y(y, off) - mse_y(y, truth) == pytest.approx(mse_mean(off, truth), rel=0.05)


def test_smis_is_a_scaled_interval_score():
    assert smis(Y, NORMAL, 4.0, level=0.8) == pytest.approx(
        interval_score(Y, NORMAL, level=0.8) / 4, rel=1e-12
    )
    entry_score = score("smis", {"y": Y, "distribution": NORMAL, "mean_abs_y": 2.0}, {"level": 0.8})
    assert (
        entry_score.value == pytest.approx(interval_score(Y, NORMAL, level=0.8) / 2, rel=1e-12)
        and entry_score.stderr is not None
        and entry_score.n == 60
    )
    with pytest.raises(ValueError, match=r"^mean_abs_y must be a finite number above 0, got 0$"):
        smis(Y, NORMAL, 0)
    with pytest.raises(
        ConfigError,
        match=(
            r"^smis needs the mean of \|y\| of the calibration rows, which custom does not have; pass"
            r" it as "
        ),
    ):
        score("smis", {"y": Y, "distribution": NORMAL}, source="custom")


def test_smis_of_the_truth_matches_its_closed_form():
    """For N(0, σ²) at 95 % it is 2σ φ(z)/(α/2) = 4.6755 σ, with z the quantile at 97.5 %.

    The tolerance of 1 % covers the sampling of 50,000 rows.
    """
    rng = np.random.default_rng(2)
    truth = Normal(np.zeros(50_000), np.full(50_000, 2.0))
    y = truth.sample(1, rng)[:, 0]
    expected = 2 * 2 * stats.norm.pdf(stats.norm.ppf(0.975)) / 0.025
    assert smis(y, truth, 5.0) == pytest.approx(expected / 5, rel=0.01)


def test_sharpness_is_mean_width_or_standard_deviation():
    assert mean_width(NORMAL, level=0.9) == pytest.approx(
        2 * stats.norm.ppf(0.95) * SCALE.mean(), rel=1e-12
    )
    assert mean_sd(GAMMA) == pytest.approx(
        stats.gamma(SCALE + 1, scale=2.0).std().mean(), rel=1e-12
    )


@pytest.mark.parametrize("metric", [quantile_score, smis, mean_width])
def test_invalid_levels_are_refused(metric):
    arguments = {quantile_score: (Y, NORMAL), smis: (Y, NORMAL, 1.0), mean_width: (NORMAL,)}[metric]
    with pytest.raises(ParameterError, match=r"^level must be in \(0, 1\), got 1$"):
        metric(*arguments, level=1)
