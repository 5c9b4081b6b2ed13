"""Excess of scores over those of the truth: closed forms, theory, and infinite intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from kdgraph.distributions import Normal
from kdgraph.metrics import (
    coverage,
    coverage_curve,
    crps,
    crps_excess,
    interval_score,
    interval_score_excess,
    local_coverage,
    mean_width,
    mse_excess,
    mse_mean,
    mse_y,
    smis,
    tabulate,
    truth_comparison,
    unbounded_fraction,
)

N = 20_000
TRUTH = Normal(np.zeros(N), np.ones(N))
OFF = Normal(np.full(N, 0.3), np.full(N, 1.4))
Y = TRUTH.sample(1, np.random.default_rng(0))[:, 0]
N_STANDARD_ERRORS = 5
"""Tolerance in standard errors, which one in two million samples exceeds."""


def is_within_tolerance(values: np.ndarray, expected: float) -> bool:
    return bool(
        abs(values.mean() - expected) < N_STANDARD_ERRORS * values.std() / np.sqrt(len(values))
    )


def test_crps_excess_is_the_squared_distance_of_cdfs():
    """Gneiting and Raftery (2007), Section 4.2: ∫ (F - G)²."""
    expected, _ = quad(lambda x: (norm.cdf(x) - norm.cdf(x, 0.3, 1.4)) ** 2, -12, 12)
    assert is_within_tolerance(crps_excess.by_row(Y, OFF, TRUTH), expected)
    assert crps_excess(Y, OFF, TRUTH) == pytest.approx(crps(Y, OFF) - crps(Y, TRUTH), rel=1e-9)


def test_interval_score_excess_is_a_difference_of_expectations():
    """E max(l - Y, 0) of a standard normal Y is lΦ(l) + φ(l).

    The expected score of a true central interval is 2φ(z)/(α/2).
    """
    z = norm.ppf(0.95)
    low, high = 0.3 - 1.4 * z, 0.3 + 1.4 * z
    outside = sum(end * norm.cdf(end) + norm.pdf(end) for end in (low, -high))
    expected = high - low + 2 / 0.1 * outside - 4 * norm.pdf(z) / 0.1
    assert is_within_tolerance(interval_score_excess.by_row(Y, OFF, TRUTH, level=0.9), expected)


def test_mse_excess_is_the_squared_distance_of_means():
    result = mse_excess.by_row(Y, OFF, TRUTH)
    assert is_within_tolerance(result, mse_mean(OFF, TRUTH)) and mse_mean(
        OFF, TRUTH
    ) == pytest.approx(0.09)
    assert result.mean() == pytest.approx(mse_y(Y, OFF) - mse_y(Y, TRUTH), rel=1e-9)


@pytest.mark.parametrize("excess", [crps_excess, interval_score_excess, mse_excess])
def test_excess_of_the_truth_is_zero(excess):
    assert not excess.by_row(Y, TRUTH, TRUTH).any()


def test_table_contains_every_score_of_both_models():
    result = {
        row.pop("score"): row
        for row in tabulate("truth_comparison", inputs_of(OFF, Y), {"level": 0.9})
    }
    assert list(result) == ["mse_y", "crps", "coverage", "interval_score", "smis"]
    metrics = {
        "mse_y": mse_y,
        "crps": crps,
        "coverage": lambda y, forecast: coverage(y, forecast, level=0.9),
        "interval_score": lambda y, forecast: interval_score(y, forecast, level=0.9),
        "smis": lambda y, forecast: smis(y, forecast, 2.0, level=0.9),
    }
    for name, metric in metrics.items():
        assert (result[name]["predicted"], result[name]["truth"]) == pytest.approx(
            (metric(Y, OFF), metric(Y, TRUTH)), rel=1e-12
        )
        assert result[name]["excess"] == pytest.approx(metric(Y, OFF) - metric(Y, TRUTH), rel=1e-9)
    by_row = crps_excess.by_row(Y, OFF, TRUTH)
    assert result["crps"]["stderr"] == pytest.approx(by_row.std(ddof=1) / np.sqrt(N), rel=1e-12)
    assert result["smis"]["stderr"] == pytest.approx(
        result["interval_score"]["stderr"] / 2, rel=1e-12
    )
    assert np.isnan(truth_comparison(Y[:1], OFF[:1], TRUTH[:1], 2.0)["stderr"]).all()


class HalfUnbounded(Normal):
    """Normal distributions of 100 rows; above level 0.9 the first 50 have infinite intervals."""

    def interval(self, level):
        low, high = super().interval(level)
        growth = np.where(np.arange(100) < 50, np.inf if level > 0.9 else 0.0, 0.0)
        return low - growth, high + growth


def test_infinite_intervals_cover_and_have_infinite_scores():
    y, truth, cells = Y[:100], TRUTH[:100], np.repeat([0, 1], 50)
    mixed = HalfUnbounded(OFF.loc[:100], OFF.scale[:100])
    assert unbounded_fraction(mixed) == 0.5 and unbounded_fraction(mixed, level=0.5) == 0
    assert coverage.by_row(y, mixed)[:50].all()
    for infinite in (
        interval_score(y, mixed),
        smis(y, mixed, 1.0),
        mean_width(mixed),
        interval_score_excess(y, mixed, truth),
    ):
        assert infinite == np.inf
    assert np.isfinite(interval_score(y, mixed, level=0.5)) and np.isfinite(
        crps_excess(y, mixed, truth)
    )
    assert coverage_curve(y, mixed, levels=(0.5, 0.95))["width"].tolist() == [
        mean_width(mixed, level=0.5),
        np.inf,
    ]
    X = cells[:, None].astype(float)
    assert np.isinf(local_coverage(y, mixed, X, cells=2)["width"]).tolist() == [True, False]
    table = truth_comparison(y, mixed, truth, 1.0)
    infinite = np.isin(table["score"], ["interval_score", "smis"])
    assert (
        (table["excess"] == np.inf).tolist()
        == infinite.tolist()
        == np.isnan(table["stderr"]).tolist()
    )


def inputs_of(forecast: Normal, y: np.ndarray) -> dict:
    return {"y": y, "distribution": forecast, "true_distribution": TRUTH, "mean_abs_y": 2.0}
