"""Forests of outcomes: against loops, scikit-learn and quantile-forest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

from kdgraph.distributions import WeightedSamples
from kdgraph.parents import ExtraTreesOutcomes, RandomForestOutcomes, forest_regressors
from kdgraph.persistence import from_bytes, to_bytes
from kdgraph.recalibration import IsotonicPit

MISSING = "{} is not installed; the extra peers has it"
RNG = np.random.default_rng(3)
X = RNG.normal(size=(900, 3))
Y = np.exp(0.6 * X[:, 0] + (0.2 + 0.2 * (X[:, 1] > 0)) * RNG.normal(size=900))
TRAIN, CALIBRATION, TEST = slice(0, 400), slice(400, 700), slice(700, 900)
FORESTS = {
    "random forest": RandomForestOutcomes(n_estimators=20, min_samples_leaf=5, random_state=0),
    "extra trees": ExtraTreesOutcomes(n_estimators=20, min_samples_leaf=5, random_state=0),
}


@pytest.mark.parametrize("forest", FORESTS.values(), ids=FORESTS)
@pytest.mark.parametrize("weighted", [False, True])
def test_forest_distribution_matches_a_loop_over_trees(forest, weighted):
    """Outcomes are rounded, so that several rows share one."""
    y, weight = np.round(Y, 1), RNG.integers(1, 4, size=400) if weighted else np.ones(400)
    fitted = forest.fit(X[TRAIN], y[TRAIN], weight if weighted else None)
    distribution = fitted.predict_dist(X[TEST][:25])
    for i, row in enumerate(X[TEST][:25]):
        weights = np.zeros(400)
        for tree, drawn in zip(fitted.estimators_, fitted.estimators_samples_, strict=True):
            same_leaf = tree.apply(X[TRAIN]) == tree.apply(row[None])[0]
            # A bootstrap sample is drawn by weight.
            row_weight = 1 if fitted.bootstrap else weight
            in_leaf = np.bincount(drawn, minlength=400) * same_leaf * row_weight
            weights += in_leaf / in_leaf.sum() / 20
        for value in (0.5, 1.0, 2.0):
            assert distribution[[i]].cdf(value)[0] == pytest.approx(
                weights[y[TRAIN] <= value].sum(), abs=1e-12
            )
    np.testing.assert_allclose(distribution.mean(), fitted.predict(X[TEST][:25]), rtol=1e-12)


def test_forest_quantiles_match_those_of_quantile_forest():
    """The library takes quantiles between outcomes, so levels differ by one outcome's weight."""
    library = pytest.importorskip("quantile_forest", reason=MISSING.format("quantile-forest"))
    settings: dict[str, Any] = {"n_estimators": 20, "min_samples_leaf": 5, "random_state": 0}
    peers = (
        (RandomForestOutcomes, library.RandomForestQuantileRegressor),
        (ExtraTreesOutcomes, library.ExtraTreesQuantileRegressor),
    )
    levels = [0.1, 0.5, 0.8]
    for cls, peer_class in peers:
        distribution = cls(**settings).fit(X[TRAIN], Y[TRAIN]).predict_dist(X[TEST])
        peer = peer_class(max_samples_leaf=None, **settings).fit(X[TRAIN], Y[TRAIN])
        quantiles = peer.predict(
            X[TEST], quantiles=levels, weighted_leaves=True, interpolation="nearest"
        )
        heaviest = distribution.weights.max(axis=1, keepdims=True)
        above = distribution.cdf(quantiles)
        below = distribution.cdf(np.nextafter(quantiles, -np.inf))
        assert (above >= levels - heaviest).all() and (below <= levels + heaviest).all()


def test_many_outcomes_become_quantiles(monkeypatch):
    """CRPS is kept to three digits by 30 quantiles of up to 67 outcomes of a row."""
    forest = FORESTS["random forest"].fit(X[TRAIN], Y[TRAIN])
    exact = forest.predict_dist(X[TEST])
    assert (exact.weights > 0).sum(axis=1).max() > 60
    monkeypatch.setattr(forest_regressors, "MAX_OUTCOMES", 30)
    short = forest.predict_dist(X[TEST])
    assert short.x.shape == (200, 30)
    assert np.isin(short.x, Y[TRAIN]).all()
    np.testing.assert_allclose(short.crps(Y[TEST]).mean(), exact.crps(Y[TEST]).mean(), rtol=2e-3)
    np.testing.assert_allclose(short.mean(), exact.mean(), rtol=0.03)


@pytest.mark.parametrize("forest", FORESTS.values(), ids=FORESTS)
def test_prediction_of_a_row_does_not_depend_on_other_rows_or_saving(forest, monkeypatch):
    fitted, levels = forest.fit(X[TRAIN], Y[TRAIN]), np.array([0.1, 0.5, 0.9])
    monkeypatch.setattr(forest_regressors, "MAX_OUTCOMES", 30)
    together = fitted.predict_dist(X[TEST]).ppf(levels)
    single = [fitted.predict_dist(X[TEST][i : i + 1]).ppf(levels) for i in range(0, 200, 20)]
    np.testing.assert_array_equal(np.concatenate(single), together[::20])
    monkeypatch.setattr(forest_regressors, "_QUERY_BLOCK", 7)
    np.testing.assert_array_equal(fitted.predict_dist(X[TEST]).ppf(levels), together)
    loaded = from_bytes(to_bytes(fitted), "it").value
    np.testing.assert_array_equal(loaded.predict_dist(X[TEST]).ppf(levels), together)


def test_point_mass_of_a_forest_stays_behind_recalibration():
    """Most outcomes are 0 or 100; recalibrated quantiles between them are rare, as in the data."""
    y = np.where(Y > 1.6, 100.0, 0.0)
    parent = FrozenEstimator(FORESTS["random forest"].fit(X[TRAIN], y[TRAIN]))
    rows = {"X_calibration": X[CALIBRATION], "y_calibration": y[CALIBRATION]}
    model = IsotonicPit(parent, random_state=0).fit(X[TRAIN], y[TRAIN], **rows)
    new = model.predict_dist(X[TEST])
    quantiles = new.ppf((np.arange(99) + 1) / 100)
    assert np.isin(quantiles, (0, 100)).mean() > 0.95
    assert new.crps(y[TEST]).mean() < 1.1 * parent.predict_dist(X[TEST]).crps(y[TEST]).mean()


def test_forest_of_equal_outcomes_predicts_a_point():
    fitted = FORESTS["random forest"].fit(X[TRAIN], np.full(400, 7.0))
    distribution = fitted.predict_dist(X[:3])
    assert isinstance(distribution, WeightedSamples)
    assert distribution.interval(0.9)[0].tolist() == [7, 7, 7]
    np.testing.assert_allclose(distribution.mean(), 7, rtol=1e-12)
    with pytest.raises(ValueError, match=r"^y must have one outcome for each row, got 2$"):
        fitted.fit(X[:9], np.zeros((9, 2)))
