"""PIT values of distributions with steps, and of outcomes considered impossible."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin

from kdgraph.distributions import Distribution, Normal, QuantileGrid, ScipyFamily, WeightedSamples
from kdgraph.metrics import coverage
from kdgraph.parents import GaussianLinear, NearestNeighbourRegressor
from kdgraph.recalibration import ConformalPit, GlobalPit, IsotonicPit, LocalPit
from kdgraph.recalibration.base import compute_pits
from tests.variations import others_slow

RECALIBRATORS = [GlobalPit, IsotonicPit, lambda parent, **more: LocalPit(parent, k=400, **more)]


class NarrowEnsemble(RegressorMixin, BaseEstimator):
    """Forty members around x, different for each row, with a third of the outcomes' spread."""

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict_dist(self, X) -> WeightedSamples:
        seeds = np.frombuffer(np.ascontiguousarray(X[:, 0]).tobytes(), dtype=np.uint64)
        return WeightedSamples(
            np.stack(
                [
                    np.random.default_rng(seed).normal(x, 1 / 3, 40)
                    for seed, x in zip(seeds, X[:, 0], strict=True)
                ]
            )
        )

    def predict(self, X):
        return X[:, 0]


@pytest.mark.parametrize("recalibrator", RECALIBRATORS, ids=["global", "isotonic", "local"])
def test_recalibration_leaves_the_range_of_a_narrow_ensemble(recalibrator):
    """Half of the outcomes, and half of the new intervals' ends, are beyond all members.

    Coverage of 2,000 rows by 800 others: the tolerance is 4 standard errors, √(.95·.05·(1/2000 +
    1/400)) = 0.012 each.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(2800, 1))
    y = X[:, 0] + rng.normal(size=2800)
    model = recalibrator(NarrowEnsemble().fit(X, y)).fit(
        X, y, X_calibration=X[:800], y_calibration=y[:800]
    )
    predicted = model.predict_dist(X[800:])
    before = NarrowEnsemble().fit(X, y).predict_dist(X[800:])
    assert coverage(y[800:], before) < 0.6 and coverage(y[800:], predicted) == pytest.approx(
        0.95, abs=0.048
    )
    low, high = predicted.interval(0.95)
    assert (high > before.x[:, -1]).mean() > 0.95 and (low < before.x[:, 0]).mean() > 0.95
    assert 0.3 < model.describe()["pit_beyond"] < 0.6
    assert np.sqrt(predicted.var().mean()) == pytest.approx(1, abs=0.15)


class RainEnsemble(NarrowEnsemble):
    """True forecast: no rain in six or three of ten cases, by x, else an exponential amount."""

    def predict_dist(self, X) -> WeightedSamples:
        amount = stats.expon.ppf((np.arange(70) + 0.5) / 70)
        dry = np.r_[np.zeros(30), amount]
        drier = np.r_[np.zeros(60), stats.expon.ppf((np.arange(40) + 0.5) / 40)]
        return WeightedSamples(np.where(X[:, :1] > 0, drier, dry))


def rain_rows(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.choice([-1.0, 1.0], size=(n, 1))
    falls = rng.random(n) > np.where(X[:, 0] > 0, 0.6, 0.3)
    return X, np.where(falls, rng.exponential(size=n), 0.0)


@pytest.mark.parametrize("recalibrator", RECALIBRATORS[:2], ids=["global", "isotonic"])
def test_a_calibrated_forecast_of_many_zeros_stays_calibrated(recalibrator):
    """The PIT value is drawn within a step: its upper end would be .6 or .3.

    A third of the dry cases of some rows would then be predicted as rain.
    """
    rng = np.random.default_rng(0)
    X, y = rain_rows(4000, rng)
    parent = RainEnsemble().fit(X, y)
    base = parent.predict_dist(X)
    ks_of_upper_levels, ks_of_pits = (
        stats.kstest(pits, "uniform").statistic
        for pits in (base.extended_cdf(y), compute_pits(base, y, 0).values)
    )
    assert (
        ks_of_upper_levels > 0.25 and ks_of_pits < 1.63 / np.sqrt(4000) + 0.01
    )  # exceeded in 1 of 100 cases, plus half the step of a member
    model = recalibrator(parent, random_state=0).fit(X, y, X_calibration=X, y_calibration=y)
    predicted = model.predict_dist(np.array([[-1.0], [1.0]]))
    np.testing.assert_allclose(predicted.cdf(0.0), [0.3, 0.6], atol=0.03)
    assert predicted.ppf(0.25).tolist() == [0, 0] and predicted.ppf(0.5)[1] == 0
    assert predicted.ppf(0.5)[0] == pytest.approx(
        stats.expon.ppf(2 / 7), abs=0.06
    )  # 3 standard errors, √(.25/4000)/(.7·f) = .016, plus the step of a member
    assert model.describe()["pit_at_steps"] == pytest.approx((y == 0).mean())
    refitted = recalibrator(parent, random_state=0).fit(X, y, X_calibration=X, y_calibration=y)
    np.testing.assert_array_equal(
        refitted.predict_dist(X[:2]).ppf(0.5), model.predict_dist(X[:2]).ppf(0.5)
    )


def test_intervals_of_counts_from_neighbours_cover():
    """Intervals end at counts, so that they cover more than the nominal level.

    They do not cover less by more than 3 standard errors of 600 rows by 600 others: 0.06 and 0.04.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, size=(2000, 1))
    y = rng.poisson(1 + 4 * X[:, 0]).astype(float)
    parent = NearestNeighbourRegressor(k=50).fit(X[:800], y[:800])
    for recalibrator in RECALIBRATORS:
        model = recalibrator(parent, random_state=0).fit(
            X, y, X_calibration=X[800:1400], y_calibration=y[800:1400]
        )
        predicted = model.predict_dist(X[1400:])
        for level in (0.5, 0.9):
            assert level - 0.04 < coverage(y[1400:], predicted, level=level)


def test_pits_of_families_without_steps_are_levels():
    """They are equal to the bit, also far out; outcomes at the end of a family are clipped."""
    y = np.r_[np.random.default_rng(0).normal(size=50), 40.0, -40.0]
    base: Distribution = Normal(np.zeros(52), np.ones(52))
    result = compute_pits(base, y)
    np.testing.assert_array_equal(result.values, base.extended_cdf(y))
    assert (result.n_clipped, result.n_at_steps) == (0, 0)
    assert result.describe()["pit_beyond"] == 2 / 52 and "pit_at_steps" not in result.describe()
    with pytest.warns(
        UserWarning,
        match=r"^1 of 3 calibration rows lie where the predicted distribution function is 0 or 1",
    ):
        clipped = compute_pits(ScipyFamily("gamma", {"a": np.ones(3)}), np.array([0.0, 1.0, 2.0]))
    assert clipped.n_clipped == 1 and (clipped.values > 0).all()
    assert (
        "pit_beyond"
        not in GlobalPit(GaussianLinear(), random_state=0)
        .fit(np.arange(20.0)[:, None], np.arange(20.0) ** 2)
        .describe()
    )


class TiedQuantiles(RegressorMixin, BaseEstimator):
    """Normal quantiles around x; outer ones are tied if X[:, 1] = 1, all of them if it is 2."""

    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict_dist(self, X) -> QuantileGrid:
        values = X[:, :1] + stats.norm.ppf(self.levels)
        outer_tied = values[:, [1, 1, 2, 3, 3]]
        all_tied = values[:, [2, 2, 2, 2, 2]]
        return QuantileGrid(
            self.levels,
            np.where(X[:, 1:] == 1, outer_tied, np.where(X[:, 1:] == 2, all_tied, values)),
        )


@pytest.mark.parametrize("n_tied", [1, 60])
@pytest.mark.parametrize("unit", others_slow([1e-6, 1.0, 1e6], 1.0))
@pytest.mark.parametrize(
    "recalibrator",
    [*RECALIBRATORS, lambda parent, **more: ConformalPit(parent, GlobalPit(None), **more)],
)
def test_tied_outer_quantiles_do_not_change_other_rows(recalibrator, unit, n_tied):
    """Means stay close to the truth with 1 or 60 tied calibration rows, in any unit of y.

    The atoms of 60 rows, one mean excess or ten beyond the others, may move a mean by 0.35 standard
    deviations; an infinite or unbounded level moves it by 1e2.
    """
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=800), np.zeros(800)])
    y = X[:, 0] + rng.normal(size=800)
    X[:n_tied, 1], y[0] = 1, X[0, 0] - 5
    X[400, 1], X[401, 1] = 1, 2

    class ScaledQuantiles(TiedQuantiles):
        def predict_dist(self, X):
            predicted = super().predict_dist(X)
            return QuantileGrid(self.levels, predicted.values * unit)

    parent = ScaledQuantiles().fit(X, y)
    model = recalibrator(parent, random_state=0).fit(
        X[:400], unit * y[:400], X_calibration=X[:400], y_calibration=unit * y[:400]
    )
    predicted = model.predict_dist(X[400:])
    assert np.isfinite(predicted.crps(unit * y[400:])).all() and np.isfinite(predicted.var()).all()
    np.testing.assert_allclose(predicted.mean() / unit, X[400:, 0], atol=0.35)
    assert all(np.isfinite(end).all() for end in predicted.interval(0.5))
    assert (
        predicted.crps(unit * y[400:]).mean() < 0.65 * unit
    )  # 0.56 with the true distribution; ties must not add more


def test_point_mass_is_drawn_at_the_outcome_else_clipped():
    base = QuantileGrid(TiedQuantiles.levels, np.repeat([[0.0], [1.0], [2.0]], 5, axis=1))
    with pytest.warns(
        UserWarning,
        match=r"^2 of 3 calibration rows lie where the predicted distribution function is 0 or 1",
    ):
        result = compute_pits(base, np.array([-7.0, 1.0, 1e9]), 0)
    assert result.n_clipped == 2 and result.n_at_steps == 1
    np.testing.assert_allclose(result.values[[0, 2]], [0.05 / np.e, 1 - 0.05 / np.e])
    assert 0 < result.values[1] < 1
    draws = [compute_pits(base[1:2], np.ones(1), seed).values[0] for seed in range(200)]
    assert stats.kstest(draws, "uniform").statistic < 1.63 / np.sqrt(
        200
    )  # exceeded in 1 of 100 cases, of other seeds
