"""Metrics of predictive distributions against loops over rows, SciPy's tests, and theory."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from kdgraph.distributions import Normal, Recalibrated, ScipyFamily, WeightedEcdf
from kdgraph.errors import ConfigError, ParameterError
from kdgraph.metrics import (
    METRICS,
    coverage,
    coverage_curve,
    crps,
    interval_score,
    mse_mean,
    options_of,
    pit_histogram,
    pit_ks,
    rmse,
    score,
    tabulate,
)

RNG = np.random.default_rng(0)
LOC, SCALE = RNG.normal(size=80), RNG.uniform(0.5, 2, size=80)
Y = LOC + SCALE * RNG.standard_t(3, size=80)
NORMAL = Normal(LOC, SCALE)
KINDS = {
    "normal": NORMAL,
    "recalibrated": Recalibrated(NORMAL, WeightedEcdf.from_pits(RNG.beta(2, 2, size=30))),
    "scipy": ScipyFamily("t", {"df": np.full(80, 3.0), "loc": LOC, "scale": SCALE}),
}


@pytest.fixture(params=KINDS)
def forecast(request):
    return KINDS[request.param]


def test_metrics_match_loops_over_rows(forecast):
    alpha = 0.2
    covered, scores = [], []
    for i in range(80):
        low, high = forecast[i].ppf(alpha / 2)[0], forecast[i].ppf(1 - alpha / 2)[0]
        covered.append(low <= Y[i] <= high)
        scores.append(
            high
            - low
            + 2 / alpha * (low - Y[i]) * (Y[i] < low)
            + 2 / alpha * (Y[i] - high) * (Y[i] > high)
        )
    assert coverage(Y, forecast, level=0.8) == pytest.approx(np.mean(covered), abs=1e-15)
    assert interval_score(Y, forecast, level=0.8) == pytest.approx(np.mean(scores), rel=1e-10)
    assert rmse(Y, forecast) == pytest.approx(
        np.sqrt(np.mean([(forecast[i].mean()[0] - Y[i]) ** 2 for i in range(80)])), rel=1e-12
    )
    assert mse_mean(forecast, NORMAL) == pytest.approx(
        np.mean((forecast.mean() - LOC) ** 2), rel=1e-12, abs=1e-30
    )


def test_crps_is_a_double_sum_over_draws(forecast):
    """Compare with E|X - y| - E|X - X'|/2 over 2000 quantiles, accurate to 1/2000 of the spread."""
    q = (np.arange(2000) + 0.5) / 2000
    x, y = forecast[:4].ppf(q), Y[:4]
    double_sum = (
        np.abs(x - y[:, None]).mean(axis=1)
        - np.abs(x[:, :, None] - x[:, None, :]).mean(axis=(1, 2)) / 2
    )
    assert crps(y, forecast[:4]) == pytest.approx(double_sum.mean(), rel=2e-3)


def test_proper_scores_prefer_the_truth():
    """For outcomes from the truth, by 5 standard errors of the difference over 20,000 rows."""
    rng = np.random.default_rng(1)
    truth = Normal(np.zeros(20_000), np.ones(20_000))
    y = truth.sample(1, rng)[:, 0]
    for forecast in (
        Normal(truth.loc + 0.3, truth.scale),
        Normal(truth.loc, 1.5 * truth.scale),
        Normal(truth.loc, 0.7 * truth.scale),
    ):
        for metric in (crps, interval_score):
            difference = metric.by_row(y, forecast) - metric.by_row(y, truth)
            assert difference.mean() > 5 * difference.std() / np.sqrt(20_000)
    assert crps(y, truth) == pytest.approx(
        1 / np.sqrt(np.pi), rel=0.02
    )  # its expectation under the truth


def test_pit_distance_matches_scipy(forecast):
    assert pit_ks(Y, forecast) == pytest.approx(
        stats.ks_1samp(forecast.cdf(Y), stats.uniform.cdf).statistic, abs=1e-15
    )


def test_pit_distance_of_calibrated_rows_matches_the_docstring():
    """400 samples of 500 rows have .87/√n on average, 5 in 100 over 1.36/√n; 4 standard errors."""
    rng = np.random.default_rng(2)
    result = np.array(
        [pit_ks(rng.normal(size=500), Normal(np.zeros(500), np.ones(500))) for _ in range(400)]
    ) * np.sqrt(500)
    assert result.mean() == pytest.approx(0.87, abs=4 * result.std() / 20)
    assert (result > 1.36).mean() == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 400))


@pytest.mark.parametrize("bins", [1, 7, 20])
def test_histogram_counts_every_row_once(forecast, bins):
    result = pit_histogram(Y, forecast, bins=bins)
    counts = [
        sum(a < u <= b or (a == u == 0) for u in forecast.cdf(Y))
        for a, b in zip(result["lower"], result["upper"], strict=True)
    ]
    assert result["count"].tolist() == counts and result["count"].sum() == 80
    np.testing.assert_allclose(result["density"] / bins, result["count"] / 80)
    assert (result["lower"][0], result["upper"][-1]) == (0, 1)


def test_pit_values_on_an_edge_belong_below_it():
    """An empirical distribution has PIT values 1/10, …, 1 for ten rows: two in each of 5 bins."""
    base = Normal(np.zeros(10), np.ones(10))
    y = np.linspace(-1, 1, 10)
    new = Recalibrated(base, WeightedEcdf.from_pits(base.cdf(y)))
    assert pit_histogram(y, new, bins=5)["count"].tolist() == [2] * 5


def test_coverage_curve_matches_coverage_at_each_level(forecast):
    levels = (0.1, 0.5, 0.99)
    result = coverage_curve(Y, forecast, levels=levels)
    assert result["coverage"].tolist() == pytest.approx(
        [coverage(Y, forecast, level=level) for level in levels], abs=1e-15
    )
    assert (np.diff(result["width"]) > 0).all()


def test_scores_by_name_have_standard_errors():
    inputs = {"y": Y, "distribution": NORMAL, "true_distribution": NORMAL}
    for name in ("crps", "coverage", "interval_score", "mse_mean"):
        entry_score = score(name, inputs)
        assert entry_score.stderr == pytest.approx(
            np.std(
                METRICS[name].by_row(**{k: inputs[k] for k in inputs if k in _inputs_of(name)}),
                ddof=1,
            )
            / 80**0.5
        )
    assert (score("rmse", inputs).stderr, score("pit_ks", inputs).n) == (None, 80)
    assert options_of("coverage") == {"level": 0.95}
    rows = tabulate("coverage_curve", inputs, {"levels": [0.5]})
    assert [row.keys() for row in rows] == [{"level", "coverage", "width"}]


def _inputs_of(name):
    return METRICS[name].__wrapped__.__annotations__


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: coverage(Y, NORMAL, level=1.0),
            ParameterError,
            "level must be in (0, 1), got 1.0",
        ),
        (
            lambda: interval_score(Y, NORMAL, level=0.0),
            ParameterError,
            "level must be in (0, 1), got 0.0",
        ),
        (
            lambda: pit_histogram(Y, NORMAL, bins=0),
            ParameterError,
            "bins must be in [1, inf), got 0",
        ),
        (
            lambda: coverage_curve(Y, NORMAL, levels=[0.5, 2.0]),
            ParameterError,
            "levels must be a list of which each is in (0, 1), got [0.5, 2.0]",
        ),
        (
            lambda: crps(Y[:5], NORMAL),
            ValueError,
            "y must have shape (80,) to fit distribution, got (5,)",
        ),
        (
            lambda: mse_mean(NORMAL, NORMAL[:3]),
            ValueError,
            "true_distribution must have shape (80,) to fit distribution, got (3,)",
        ),
    ],
)
def test_mismatched_inputs_are_refused(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == message


def test_classification_has_no_interval_metrics():
    with pytest.raises(ConfigError, match=r"^coverage needs predictive distributions, which "):
        score("coverage", {"y": [0, 1], "proba": [[0.5, 0.5]] * 2})
