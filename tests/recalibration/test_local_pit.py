"""Local recalibration: against a loop over rows, choice of k, spaces, the published problem."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator

from kdgraph.data import make_splits
from kdgraph.data.simulations import Heteroscedastic
from kdgraph.distributions import Normal, ScipyFamily, WeightedSamples
from kdgraph.errors import ParameterError
from kdgraph.metrics import coverage, mse_mean
from kdgraph.parents import GaussianLinear
from kdgraph.persistence import from_bytes, to_bytes
from kdgraph.recalibration import GlobalPit, LocalPit
from kdgraph.recalibration.local_linear import local_linear_scores
from kdgraph.smoothing.neighbours import draw_reference_rows


def make_local_pit_rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2)) * [1.0, 50.0]
    return X, 3 * X[:, 0] ** 2 + X[:, 1] / 50 + (0.1 + np.abs(X[:, 0])) * rng.normal(size=n)


class FunctionParent(RegressorMixin, BaseEstimator):
    """Parent that predicts ``function(X)``, on any training rows."""

    def __init__(self, function):
        self.function = function

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict_dist(self, X):
        return self.function(X)


class GammaOfShape(RegressorMixin, BaseEstimator):
    """Parent that predicts a Gamma distribution whose shape differs from row to row."""

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict_dist(self, X):
        return ScipyFamily("gamma", {"a": 2 + X[:, 0] ** 2, "scale": 1 + np.abs(X[:, 1]) / 50})


def split_rows(n: int = 260):
    X, y = make_local_pit_rows(n)
    return (
        (X[:60], y[:60]),
        {"X_calibration": X[60:220], "y_calibration": y[60:220]},
        X[220:],
        y[220:],
    )


def algorithm_1(
    pits: np.ndarray, calibration_points: np.ndarray, point: np.ndarray, k: int, ppf
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sample and weights of steps 8 to 10 of Algorithm 1 at one place.

    Epanechnikov weights end at the k-th neighbour.
    """
    distances = np.array(
        [np.linalg.norm(calibration_point - point) for calibration_point in calibration_points]
    )
    neighbour_ids = sorted(range(len(calibration_points)), key=lambda i: distances[i])[:k]
    weights = np.array(
        [1 - (distances[i] / distances[neighbour_ids[-1]]) ** 2 for i in neighbour_ids]
    )
    return np.array([ppf(pits[i]) for i in neighbour_ids]), weights / weights.sum()


@pytest.mark.parametrize("family", ["normal", "gamma"])
@pytest.mark.parametrize("units", ["sd", "raw"])
def test_equals_algorithm_1(family, units):
    """Weights are stored in float32, to 6e-8."""
    train, calibration, X, y = split_rows()
    y, X_held, y_held = (
        np.abs(y),
        calibration["X_calibration"],
        np.abs(calibration["y_calibration"]),
    )
    parent = GaussianLinear().fit(*train) if family == "normal" else GammaOfShape().fit(*train)
    model = LocalPit(FrozenEstimator(parent), k=25, units=units).fit(
        *train, X_calibration=X_held, y_calibration=y_held
    )
    unit = X_held.std(axis=0) if units == "sd" else np.ones(2)
    pits, base, recalibrated = (
        parent.predict_dist(X_held).cdf(y_held),
        parent.predict_dist(X),
        model.predict_dist(X),
    )
    result = (
        recalibrated.mean(),
        recalibrated.var(),
        recalibrated.crps(y),
        recalibrated.ppf(np.array([0.05, 0.5])),
        recalibrated.cdf(y),
    )
    for i, x in enumerate(X):
        sample, weights = algorithm_1(
            pits, X_held / unit, x / unit, 25, lambda p, row=base[i]: float(row.ppf(p)[0])
        )
        mean = sample @ weights
        crps = (
            np.abs(sample - y[i]) @ weights
            - weights @ np.abs(sample[:, None] - sample) @ weights / 2
        )
        np.testing.assert_allclose(
            [values[i] for values in result[:3]],
            [mean, (sample - mean) ** 2 @ weights, crps],
            rtol=1e-6,
            atol=1e-8,
        )
        order = np.argsort(sample)
        cumulative_weights = np.cumsum(weights[order])
        expected = [sample[order][np.searchsorted(cumulative_weights, q)] for q in (0.05, 0.5)]
        np.testing.assert_allclose(result[3][i], expected, rtol=1e-9)
        assert result[4][i] == pytest.approx(weights[sample <= y[i]].sum(), abs=1e-6)


@pytest.mark.parametrize("k", ["crps", 30])
def test_sample_of_calibration_rows_equals_fitting_on_it(k):
    (X, y), (new, _) = make_local_pit_rows(400), make_local_pit_rows(20, 1)
    parent = FrozenEstimator(GaussianLinear().fit(X, y))
    rows = draw_reference_rows(400, 150, 0)
    sampled, alone = (
        LocalPit(parent, k=k, max_reference_rows=maximum, random_state=0).fit(
            X[:5], y[:5], X_calibration=X_calibration, y_calibration=y_calibration
        )
        for maximum, X_calibration, y_calibration in ((150, X, y), (None, X[rows], y[rows]))
    )
    assert len(sampled.pits_) == 150 and sampled.k_ == alone.k_
    np.testing.assert_array_equal(
        sampled.predict_dist(new).ppf(0.3), alone.predict_dist(new).ppf(0.3)
    )


def test_all_rows_with_equal_weights_give_the_global_map():
    """Quantiles are equal to the bit; sums are in another order."""
    train, calibration, X, y = split_rows()
    parent = FrozenEstimator(GaussianLinear().fit(*train))
    local = LocalPit(parent, k=160, kernel="uniform").fit(*train, **calibration).predict_dist(X)
    global_map = GlobalPit(parent).fit(*train, **calibration).predict_dist(X)
    q = np.linspace(0, 1, 81)
    np.testing.assert_array_equal(local.ppf(q), global_map.ppf(q))
    np.testing.assert_array_equal(local.cdf(y), global_map.cdf(y))
    np.testing.assert_allclose(
        [local.mean(), local.var(), local.crps(y)],
        [global_map.mean(), global_map.var(), global_map.crps(y)],
        rtol=1e-12,
    )


@pytest.mark.parametrize("local_linear", [False, True])
@pytest.mark.parametrize("neighbourhood", [{"k": 30}, {"radius": 0.4}])
def test_prediction_does_not_depend_on_other_rows(local_linear, neighbourhood, monkeypatch):
    train, calibration, X, y = split_rows()
    model = LocalPit(GaussianLinear(), local_linear=local_linear, **neighbourhood).fit(
        *train, **calibration
    )
    with warnings.catch_warnings(category=UserWarning, action="ignore"):  # about empty balls
        predicted = model.predict_dist(X)
        np.testing.assert_array_equal(
            model.predict_dist(X[7:9]).crps(y[7:9]), predicted.crps(y)[7:9]
        )
        np.testing.assert_array_equal(predicted[7:9].mean(), predicted.mean()[7:9])
        monkeypatch.setattr("kdgraph.smoothing.neighbours.BLOCK_SIZE", 400)
        monkeypatch.setattr("kdgraph.smoothing.neighbours.BLOCK_SIZE", 400)
        np.testing.assert_array_equal(model.predict_dist(X).crps(y), predicted.crps(y))


def test_k_minimises_crps():
    """The mean CRPS of rows left out of their neighbourhood, by a loop over rows and k.

    Of the k at most a standard error behind the best, by row, the largest is chosen.
    """
    train, calibration, *_ = split_rows()
    parent = GaussianLinear().fit(*train)
    model = LocalPit(FrozenEstimator(parent)).fit(*train, **calibration)
    assert (
        list(model.crps_by_k_) == [25, 35, 50, 71, 100, 141]
        and model.describe()["n_selection_rows"] == 160
    )
    X, y = calibration["X_calibration"], calibration["y_calibration"]
    unit, base = X.std(axis=0), parent.predict_dist(X)
    pits = base.cdf(y)
    scores_by_k = {}
    for k in model.crps_by_k_:
        scores = scores_by_k[k] = []
        for i in range(160):
            other_ids = np.delete(np.arange(160), i)
            sample, weights = algorithm_1(
                pits[other_ids],
                X[other_ids] / unit,
                X[i] / unit,
                k,
                lambda p, row=base[i]: float(row.ppf(p)[0]),
            )
            scores.append(
                np.abs(sample - y[i]) @ weights
                - weights @ np.abs(sample[:, None] - sample) @ weights / 2
            )
        assert model.crps_by_k_[k] == pytest.approx(np.mean(scores), rel=1e-6)
    best = min(scores_by_k, key=lambda k: np.mean(scores_by_k[k]))
    behind = {k: np.subtract(scores, scores_by_k[best]) for k, scores in scores_by_k.items()}
    assert model.k_ == max(
        k for k in scores_by_k if behind[k].mean() <= behind[k].std(ddof=1) / np.sqrt(160) + 1e-12
    )


def test_all_rows_are_neighbours_if_there_are_fewer_than_k():
    train, *_ = split_rows()
    X, y = make_local_pit_rows(12, 1)
    model = LocalPit(GaussianLinear()).fit(*train, X_calibration=X, y_calibration=y)
    assert model.k_ == 12 and model.crps_by_k_ == {}
    with pytest.warns(
        UserWarning,
        match=r"^k=50 is more than the 12 calibration rows; all of them are used as neighbours$",
    ):
        assert (
            LocalPit(GaussianLinear(), k=50).fit(*train, X_calibration=X, y_calibration=y).k_ == 12
        )


def test_warns_about_rows_without_neighbours_in_the_radius():
    train, calibration, *_ = split_rows()
    model = LocalPit(GaussianLinear(), radius=0.5, k_min=7, kernel="uniform").fit(
        *train, **calibration
    )
    with (
        pytest.warns(
            UserWarning,
            match=(
                r"^1 of 2 rows have no calibration row within radius=0\.5: the 7 nearest are taken$"
            ),
        ),
        pytest.warns(
            UserWarning, match="^1 of 2 rows are more than twice as far from their neighbours"
        ),
    ):
        predicted = model.predict_dist(np.array([[0.0, 0.0], [1e6, 0.0]]))
    assert predicted.pit_map.n_eff[1] == pytest.approx(7) and np.isfinite(predicted.mean()).all()


def weighted_regression(
    scores: np.ndarray, X: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and slopes by normal equations with an intercept and a ridge on slopes."""
    weights = weights / weights.sum()
    mean = weights @ X
    design = np.column_stack([np.ones(len(scores)), X - mean])
    moments = design.T @ (weights[:, None] * design)
    d = X.shape[1]
    moments[1:, 1:] += np.eye(d) * (d + 1) * (weights**2).sum() * np.trace(moments[1:, 1:]) / d
    return np.linalg.solve(moments, design.T @ (weights * scores)), mean


def corrected_scores_in_numpy(
    scores: np.ndarray, X: np.ndarray, weights: np.ndarray, place: np.ndarray
) -> np.ndarray:
    """Return the correction at one place, by two regressions and the hat matrix."""
    location, mean = weighted_regression(scores, X, weights)
    offset = np.clip(place, X[weights > 0].min(axis=0), X[weights > 0].max(axis=0)) - mean
    residual = scores - location[0] - (X - mean) @ location[1:]
    absolute_residuals = np.abs(residual)
    spread, _ = weighted_regression(absolute_residuals, X, weights)
    weights = weights / weights.sum()
    noise = X.shape[1] * (weights**2).sum() * np.cov(absolute_residuals, aweights=weights, ddof=0)
    spread[1:] *= max(0, 1 - noise / (((X - mean) @ spread[1:]) ** 2 @ weights))
    min_spread = spread[0] / 4
    ratio = np.maximum(spread[0] + offset @ spread[1:], min_spread) / np.maximum(
        spread[0] + (X - mean) @ spread[1:], min_spread
    )
    location_of_units = np.column_stack(
        [weighted_regression(unit, X, weights)[0] for unit in np.eye(len(scores))]
    )
    predicts, fits = (
        location_of_units[0] + offset @ location_of_units[1:],
        location_of_units[0] + (X - mean) @ location_of_units[1:],
    )
    residual_fraction = weights @ ((np.eye(len(scores)) - fits) ** 2).sum(axis=1)
    widening = np.sqrt((1 + (predicts**2).sum()) / max(residual_fraction, 0.25))
    return location[0] + offset @ location[1:] + widening * residual * np.clip(ratio, 0.25, 4)


@pytest.mark.parametrize("d", [1, 3, 8])
def test_slopes_equal_weighted_regressions(d):
    """The sums of the normal equations are in another order."""
    rng = np.random.default_rng(d)
    X, weights = rng.normal(size=(90, d)), rng.uniform(size=(7, 40))
    weights[:, -3:] = 0
    scores, places = (
        X[:, 0] + np.exp(1.5 * X[:, 0]) * rng.normal(size=90),
        2 * rng.normal(size=(7, d)),
    )
    neighbours = np.stack([rng.permutation(90)[:40] for _ in range(7)])
    expected = [
        corrected_scores_in_numpy(scores[neighbour_ids], X[neighbour_ids], row_weights, place)
        for neighbour_ids, row_weights, place in zip(neighbours, weights, places, strict=True)
    ]
    np.testing.assert_allclose(
        local_linear_scores(scores, X, neighbours, weights, places),
        expected,
        rtol=1e-10,
        atol=1e-12,
    )


def test_removes_a_line_and_a_growing_spread():
    """Location 2x and spread 1 + x become those at 0.25, in both halves of 4,000 rows."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=4000)
    scores = 2 * x + (1 + x) * rng.normal(size=4000)
    result = local_linear_scores(
        scores, x[:, None], np.arange(4000)[None], np.ones((1, 4000)), np.array([[0.25]])
    )[0]
    for is_half in (x < 0.5, x >= 0.5):
        assert result[is_half].mean() == pytest.approx(0.5, abs=0.1) and result[
            is_half
        ].std() == pytest.approx(1.25, rel=0.05)


def correct_with_all_rows(scores, X, place):
    """Return the correction with all rows as equally weighted neighbours."""
    k = len(scores)
    return local_linear_scores(
        np.asarray(scores), X, np.arange(k)[None], np.ones((1, k)), np.asarray(place)[None]
    )[0]


def test_scores_without_slope_are_unchanged():
    """Equal places, a single row and equal scores have no slope; nothing is extrapolated.

    Three values at one place are widened by √(4/3 / (2/3)), for their mean and its residuals.
    """
    scores = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(
        correct_with_all_rows(scores, np.ones((3, 2)), np.zeros(2)),
        2 + np.sqrt(2) * (scores - 2),
        rtol=1e-15,
    )
    np.testing.assert_array_equal(
        correct_with_all_rows(scores[:1], np.ones((1, 2)), np.zeros(2)), scores[:1]
    )
    np.testing.assert_array_equal(
        correct_with_all_rows(np.ones(4), np.arange(8.0).reshape(4, 2), np.zeros(2)), np.ones(4)
    )
    X = np.linspace(0, 1, 50)[:, None]
    np.testing.assert_array_equal(
        correct_with_all_rows(2 * X[:, 0], X, [1e6]), correct_with_all_rows(2 * X[:, 0], X, [1.0])
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 25), st.floats(-8, 8))
def test_corrected_scores_are_finite(seed, k, d, size):
    """Few neighbours in many features, some of them constant or equal, at any scale."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(k, d)).round(1) * 10**size
    X[:, : d // 3] = 1.0
    result = correct_with_all_rows(rng.normal(size=k), X, rng.normal(size=d) * 10**size)
    assert np.isfinite(result).all() and np.abs(result).max() < 100


def test_local_linear_removes_a_slope_of_the_error():
    """The parent misses a slope of 3; a local constant is half a bandwidth off at the end."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(size=(600, 1)), axis=0)

    zero = FunctionParent(lambda X: Normal(np.zeros(len(X)), np.full(len(X), 0.1)))
    y = 3 * X[:, 0] + 0.1 * rng.normal(size=600)
    end = np.array([[0.0]])
    constant, line = (
        LocalPit(zero, k=200, local_linear=local_linear)
        .fit(X, y, X_calibration=X, y_calibration=y)
        .predict_dist(end)
        for local_linear in (False, True)
    )
    assert (
        constant.mean()[0] > 0.3
        and abs(line.mean()[0]) < 0.05
        and np.sqrt(line.var()[0]) == pytest.approx(0.1, rel=0.3)
    )


@pytest.mark.parametrize("local_linear", [False, True])
def test_intervals_leave_the_range_of_a_narrow_sample(local_linear):
    """The 20 members have half of the true spread; coverage of 2,000 rows has error .005."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(4000, 1))
    y = X[:, 0] + rng.normal(size=4000)
    members = 0.5 * rng.normal(size=20)
    parent = FunctionParent(lambda X: WeightedSamples(X + members))
    model = LocalPit(parent, k=400, local_linear=local_linear).fit(
        X[:1], y[:1], X_calibration=X[:2000], y_calibration=y[:2000]
    )
    predicted = model.predict_dist(X[2000:])
    assert coverage(y[2000:], predicted.base) < 0.7
    assert coverage(y[2000:], predicted) == pytest.approx(0.95, abs=0.015)


SPACES = [
    {"units": "whiten"},
    {"feature_space": "output"},
    {"feature_space": "geodesic"},
    {"feature_space": "geodesic", "forest": RandomForestRegressor(10, random_state=0)},
]


@pytest.mark.parametrize("space", SPACES)
def test_every_space_survives_saving(space):
    """A saved model predicts the same bits in each space."""
    train, calibration, X, y = split_rows()
    model = LocalPit(GaussianLinear(), k=20, random_state=0, **space).fit(*train, **calibration)
    predicted = model.predict_dist(X)
    assert np.isfinite(predicted.crps(y)).all() and len(predicted) == 40
    loaded = from_bytes(to_bytes(model), "it").value
    np.testing.assert_array_equal(loaded.predict_dist(X).mean(), predicted.mean())


def test_geodesic_neighbours_share_leaves():
    train, calibration, X, _ = split_rows()
    forest = RandomForestRegressor(8, min_samples_leaf=3, random_state=0).fit(*train)
    model = LocalPit(
        GaussianLinear(),
        k=15,
        kernel="uniform",
        feature_space="geodesic",
        forest=FrozenEstimator(forest),
    ).fit(*train, **calibration)
    shared_fraction = (
        forest.apply(X)[:, None] == forest.apply(calibration["X_calibration"])[None]
    ).mean(axis=2)
    parent = model.estimator_
    residual = calibration["y_calibration"] - parent.predict(calibration["X_calibration"])
    for i in range(5):
        low, high = np.sort(shared_fraction[i])[::-1][[14, 15]]
        if low > high:  # there is no tie at the 15th
            expected = parent.predict(X[i : i + 1])[0] + residual[shared_fraction[i] >= low].mean()
            assert model.predict(X[i : i + 1])[0] == pytest.approx(expected, rel=1e-9)


def test_output_space_is_mean_and_spread():
    """A linear parent has a constant spread, so neighbours are near in the prediction."""
    train, calibration, X, _ = split_rows()
    model = LocalPit(GaussianLinear(), k=10, feature_space="output", units="raw").fit(
        *train, **calibration
    )
    mean = model.estimator_.predict(calibration["X_calibration"])
    distances = np.abs(mean - model.estimator_.predict(X[:1]))
    pit_map = model.predict_dist(X[:1]).pit_map
    nearest = np.sort(model.pits_[np.argsort(distances)[:9]])  # the tenth has no weight
    np.testing.assert_array_equal(pit_map.table[pit_map.ranks[0, :9]], nearest)


@pytest.mark.parametrize("local_linear", [False, True])
def test_prediction_far_from_the_data_is_finite(local_linear):
    train, calibration, *_ = split_rows()
    model = LocalPit(GaussianLinear(), k=20, local_linear=local_linear).fit(*train, **calibration)
    with pytest.warns(
        UserWarning, match="^1 of 1 rows are more than twice as far from their neighbours"
    ):
        predicted = model.predict_dist(np.array([[1e8, -1e8]]))
    assert np.isfinite(predicted.mean()).all() and predicted.var()[0] > 0


@pytest.mark.slow
def test_reproduces_table_1_of_torres():
    """80,000 and 10,000 rows, k = 1000: the MSE to the true mean is 303.93 there, with draws.

    It is 247 ± 96 over 20 seeds of an independent, exact program; the tolerance is 3.5 standard
    errors over 2 seeds. Local-linear with twice as many neighbours halves it.
    """
    results = []
    for seed in range(2):
        splits = make_splits(
            Heteroscedastic(),
            n_train=80_000,
            n_calibration=10_000,
            n_test=10_000,
            rng=np.random.default_rng(seed),
        )
        train, calibration, test = splits.train, splits.calibration, splits.test
        parent = FrozenEstimator(GaussianLinear().fit(train.X, train.y))
        for neighbourhood in ({"k": 1000}, {"k": 2000, "local_linear": True}):
            model = LocalPit(parent, **neighbourhood).fit(
                train.X, train.y, X_calibration=calibration.X, y_calibration=calibration.y
            )
            results.append(mse_mean(model.predict_dist(test.X), test.truth))
    constant, linear = np.mean(np.reshape(results, (2, 2)), axis=0)
    assert abs(constant - 247) < 3.5 * 96 / np.sqrt(2) and linear < 0.75 * constant


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"k": 0}, ParameterError, "k must be in [1, inf) or one of crps, got 0"),
        (
            {"local_linear": True, "feature_space": "geodesic"},
            ParameterError,
            "local_linear=true needs coordinates, and feature_space=geodesic has none; use local_linear=false",
        ),
        ({"feature_space": "layer"}, TypeError, ""),
    ],
)
def test_rejects_invalid_settings(settings, error, message):
    train, calibration, *_ = split_rows()
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        LocalPit(GaussianLinear(), **settings).fit(*train, **calibration)


def test_summary_of_the_fit():
    train, calibration, *_ = split_rows()
    model = LocalPit(GaussianLinear(), k=40).fit(*train, **calibration)
    result = model.describe()
    assert (
        result["k"] == 40
        and result["n_pits"] == 160
        and result["n_clipped"] == 0
        and "crps_by_k" not in result
    )
    assert 10 < result["n_eff_05"] <= result["n_eff"] < 40  # 5/6 of 40 if rows are evenly spaced
    assert result["pit_ks"] == pytest.approx(stats.kstest(model.pits_, "uniform").statistic)


@pytest.mark.parametrize("local_linear", [False, True])
def test_draws_are_a_sample_of_the_weighted_neighbours(local_linear):
    """Draws follow the exact map, for each row, and are values of it.

    The distance of the empirical distribution function of s draws from R is at most .06 for
    s = 1,000 but with a probability of 2 exp(-2 · 1000 · .06²) = .0015 (Dvoretzky, Kiefer and
    Wolfowitz, with Massart's constant): of 40 rows one may exceed it, two are a probability of
    .0017.
    """
    train, calibration, X, _ = split_rows()
    shared = {"k": 80, "local_linear": local_linear, "random_state": 0}
    exact = LocalPit(GaussianLinear(), **shared).fit(*train, **calibration).predict_dist(X)
    model = LocalPit(GaussianLinear(), draws=1000, **shared).fit(*train, **calibration)
    drawn = model.predict_dist(X)
    grid = exact.ppf(np.linspace(0.01, 0.99, 99))
    distance = np.abs(drawn.cdf(grid) - exact.cdf(grid)).max(axis=1)
    assert (distance > 0.06).sum() <= 1 and distance.min() > 0
    levels, weights = drawn.pit_map.atoms()
    assert weights.shape == (len(X), 1000) and np.allclose(weights, 1e-3, rtol=1e-6)
    for row, (values, chosen) in enumerate(zip(exact.pit_map.atoms()[0], levels, strict=True)):
        assert set(chosen) <= set(values), row


def test_draws_are_quantiles_at_uniform_numbers_of_the_row():
    """Against numpy's choice by inversion: the same uniform numbers, sorted weights, searchsorted.

    The numbers of a row are those of a Philox generator whose key is the hash of the row.
    """
    train, calibration, X, _ = split_rows()
    model = LocalPit(GaussianLinear(), k=30, draws=200, random_state=3).fit(*train, **calibration)
    drawn = model.predict_dist(X)
    scale = calibration["X_calibration"].std(axis=0)
    hashes = pd.util.hash_pandas_object(pd.DataFrame(X), index=False).to_numpy()
    for i in range(len(X)):
        values, weights = algorithm_1(
            model.pits_, calibration["X_calibration"] / scale, X[i] / scale, 30, lambda p: p
        )
        order = np.argsort(values)
        steps = np.cumsum(np.asarray(weights)[order]) / np.sum(weights)
        key = np.array([hashes[i], model.draw_seed_], dtype=np.uint64)
        uniform = np.random.Generator(np.random.Philox(key=key)).random(200)
        expected = np.sort(np.asarray(values)[order][np.searchsorted(steps, uniform)])
        # A weight is stored in 32 bits, so that a uniform number within 1e-7 of a step may fall on
        # its other side: of 8,000 numbers none or one does.
        assert (drawn.pit_map[[i]].atoms()[0][0] != expected).sum() <= 1


def test_draws_of_a_row_do_not_depend_on_the_rows_beside_it(monkeypatch):
    train, calibration, X, _ = split_rows()
    for model in (
        LocalPit(GaussianLinear(), k=30, draws=50, random_state=0),
        GlobalPit(GaussianLinear(), draws=50, random_state=0),
    ):
        model.fit(*train, **calibration)
        together = model.predict_dist(X).pit_map.atoms()[0]
        monkeypatch.setattr("kdgraph.smoothing.neighbours.BLOCK_SIZE", 100)
        alone = [model.predict_dist(X[[i]]).pit_map.atoms()[0][0] for i in range(len(X))]
        assert np.array_equal(together, alone)
        assert not np.array_equal(together[0], together[1])
        restored = from_bytes(to_bytes(model), "it").value
        assert np.array_equal(restored.predict_dist(X).pit_map.atoms()[0], together)


def test_global_draws_have_the_mean_and_variance_of_the_exact_map():
    """Within 5 standard errors of a mean of 4,000 draws, for each of 40 rows."""
    train, calibration, X, _ = split_rows()
    exact = GlobalPit(GaussianLinear(), random_state=0).fit(*train, **calibration).predict_dist(X)
    drawn = (
        GlobalPit(GaussianLinear(), draws=4000, random_state=0)
        .fit(*train, **calibration)
        .predict_dist(X)
    )
    z = (drawn.mean() - exact.mean()) / np.sqrt(exact.var() / 4000)
    assert np.abs(z).max() < 5 and 0.6 < z.std() < 1.4  # 40 values: sd of the sd is .11
    assert np.allclose(drawn.var(), exact.var(), rtol=0.2)
