"""Regression trees as parents: against loops, scikit-learn, quantile-forest and ngboost."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_array
from sklearn.utils.estimator_checks import parametrize_with_checks

from kdgraph.data.dataset import Dataset
from kdgraph.distributions import WeightedSamples
from kdgraph.errors import ParameterError
from kdgraph.parents import (
    ExtraTreesOutcomes,
    NaturalGradientBoosting,
    NoPreprocessing,
    QuantileBoosting,
    RandomForestOutcomes,
    tree_regressors,
)
from kdgraph.persistence import SaveError, from_bytes, to_bytes
from kdgraph.recalibration import (
    ConformalPit,
    DensityPit,
    GlobalPit,
    IsotonicPit,
    LocalisedConformalPit,
    LocalPit,
)

MISSING = "{} is not installed; the extra peers has it"
RNG = np.random.default_rng(3)
X = RNG.normal(size=(900, 3))
Y = np.exp(0.6 * X[:, 0] + (0.2 + 0.2 * (X[:, 1] > 0)) * RNG.normal(size=900))
TRAIN, CALIBRATION, TEST = slice(0, 400), slice(400, 700), slice(700, 900)
FORESTS = {
    "random forest": RandomForestOutcomes(n_estimators=20, min_samples_leaf=5, random_state=0),
    "extra trees": ExtraTreesOutcomes(n_estimators=20, min_samples_leaf=5, random_state=0),
}


@parametrize_with_checks(
    [
        RandomForestOutcomes(n_estimators=5, min_samples_leaf=1, random_state=0),
        ExtraTreesOutcomes(n_estimators=5, min_samples_leaf=1, random_state=0),
        QuantileBoosting(levels=(0.25, 0.75), max_iter=50, min_samples_leaf=5, patience=None),
    ],
    expected_failed_checks=lambda estimator: (
        {
            f"check_sample_weight_equivalence_on_{kind}_data": "bootstrap samples differ"
            for kind in ("dense", "sparse")
        }
        if isinstance(estimator, RandomForestOutcomes)
        else {}
    ),
)
def test_estimator_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_ngboost_passes_the_checks_of_scikit_learn():
    pytest.importorskip("ngboost", reason=MISSING.format("ngboost"))
    from sklearn.utils.estimator_checks import check_estimator

    model = NaturalGradientBoosting(n_estimators=50, learning_rate=0.1, patience=None)
    check_estimator(model.set_params(random_state=0), on_skip=None)


@pytest.mark.parametrize("forest", FORESTS.values(), ids=FORESTS)
@pytest.mark.parametrize("weighted", [False, True])
def test_forest_distribution_matches_a_loop_over_trees(forest, weighted):
    """Outcomes are rounded, so that several rows share one."""
    y, weight = np.round(Y, 1), RNG.integers(1, 4, size=400) if weighted else np.ones(400)
    fitted = forest.fit(X[TRAIN], y[TRAIN], weight if weighted else None)
    distribution = fitted.predict_dist(X[TEST][:25])
    for i, row in enumerate(X[TEST][:25]):
        shares = np.zeros(400)
        for tree, drawn in zip(fitted.estimators_, fitted.estimators_samples_, strict=True):
            same_leaf = tree.apply(X[TRAIN]) == tree.apply(row[None])[0]
            # A bootstrap sample is drawn by weight.
            row_weight = 1 if fitted.bootstrap else weight
            in_leaf = np.bincount(drawn, minlength=400) * same_leaf * row_weight
            shares += in_leaf / in_leaf.sum() / 20
        for value in (0.5, 1.0, 2.0):
            assert distribution[[i]].cdf(value)[0] == pytest.approx(
                shares[y[TRAIN] <= value].sum(), abs=1e-12
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
    for ours, theirs in peers:
        distribution = ours(**settings).fit(X[TRAIN], Y[TRAIN]).predict_dist(X[TEST])
        peer = theirs(max_samples_leaf=None, **settings).fit(X[TRAIN], Y[TRAIN])
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
    monkeypatch.setattr(tree_regressors, "MAX_OUTCOMES", 30)
    short = forest.predict_dist(X[TEST])
    assert short.x.shape == (200, 30)
    assert np.isin(short.x, Y[TRAIN]).all()
    np.testing.assert_allclose(short.crps(Y[TEST]).mean(), exact.crps(Y[TEST]).mean(), rtol=2e-3)
    np.testing.assert_allclose(short.mean(), exact.mean(), rtol=0.03)


@pytest.mark.parametrize("forest", FORESTS.values(), ids=FORESTS)
def test_prediction_of_a_row_does_not_depend_on_other_rows_or_saving(forest, monkeypatch):
    fitted, levels = forest.fit(X[TRAIN], Y[TRAIN]), np.array([0.1, 0.5, 0.9])
    monkeypatch.setattr(tree_regressors, "MAX_OUTCOMES", 30)
    together = fitted.predict_dist(X[TEST]).ppf(levels)
    single = [fitted.predict_dist(X[TEST][i : i + 1]).ppf(levels) for i in range(0, 200, 20)]
    np.testing.assert_array_equal(np.concatenate(single), together[::20])
    monkeypatch.setattr(tree_regressors, "_QUERY_BLOCK", 7)
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


def test_quantile_boosting_has_a_model_of_each_level():
    """They stop early by their own loss, on the same held-out rows."""
    levels = (0.1, 0.5, 0.9)
    model = QuantileBoosting(levels=levels, random_state=1).fit(X[TRAIN], Y[TRAIN])
    seed = model.models_[0].random_state
    columns = [
        HistGradientBoostingRegressor(
            loss="quantile", quantile=q, max_iter=300, early_stopping=True, random_state=seed
        )
        .fit(X[TRAIN], Y[TRAIN])
        .predict(X[TEST])
        for q in levels
    ]
    np.testing.assert_array_equal(
        model.predict_dist(X[TEST]).ppf(np.array(levels)), np.sort(np.column_stack(columns), axis=1)
    )
    assert all(5 < fitted.n_iter_ < 300 for fitted in model.models_)
    all_trees = QuantileBoosting(levels=levels, max_iter=20, patience=None).fit(X[TRAIN], Y[TRAIN])
    assert [fitted.n_iter_ for fitted in all_trees.models_] == [20] * 3
    for invalid in ((0.5,), (0.5, 0.1)):
        with pytest.raises(ParameterError, match=r"^levels must be at least two increasing"):
            QuantileBoosting(levels=invalid).fit(X, Y)


def test_quantile_boosting_takes_categories_and_missing_values_without_preprocessing():
    """Even codes have outcomes near 1 and odd ones near 0: one split of categories separates them.

    A threshold on the code needs eleven, of which trees of two leaves have three.
    """
    codes = RNG.integers(0, 12, size=600).astype(float)
    y = (codes % 2 == 0) + 0.01 * RNG.normal(size=600)
    rows = np.column_stack([codes, np.where(RNG.random(600) < 0.3, np.nan, RNG.normal(size=600))])
    names = tuple("abcdefghijkl")
    data = Dataset(
        "mixed", rows, y, np.empty(0), ("c", "x"), "regression", categories=(names, None)
    )
    model = QuantileBoosting(
        levels=(0.25, 0.75), max_iter=3, learning_rate=1.0, max_leaf_nodes=2, patience=None
    )
    parent = NoPreprocessing().wrap(model, data)
    assert parent is not model and parent.categorical_features == [True, False]
    errors = [
        np.abs(fitted.fit(rows, y).predict(rows) - np.round(y)).max() for fitted in (parent, model)
    ]
    assert errors[0] < 0.05 < 0.5 < errors[1]
    loaded = from_bytes(to_bytes(parent), "it").value
    np.testing.assert_array_equal(loaded.predict(rows), parent.predict(rows))
    chosen = QuantileBoosting(categorical_features=[0])
    assert NoPreprocessing().wrap(chosen, data) is chosen


@pytest.mark.parametrize(
    "function",
    [partial(print, "x"), partial(check_array, np.ones(1)), partial(check_array, copy=True)],
)
def test_of_bound_functions_only_that_of_categories_is_saved(function):
    """scikit-learn checks the numeric columns beside categories by such a function."""
    with pytest.raises(SaveError, match=r"^a functools.partial cannot be saved"):
        to_bytes({"function": function})


FAMILIES = ["normal", "lognormal", "laplace", "gamma", "exponential"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("patience", [None, 5])
def test_natural_gradient_boosting_predicts_as_ngboost_does(family, patience):
    ngboost = pytest.importorskip("ngboost", reason=MISSING.format("ngboost"))
    model = NaturalGradientBoosting(
        family=family, n_estimators=60, learning_rate=0.1, patience=patience, random_state=2
    ).fit(X[TRAIN], Y[TRAIN])
    seed = model.trees_[0][0].random_state
    peer = ngboost.NGBRegressor(
        Dist=getattr(ngboost.distns, tree_regressors._NGBOOST_NAMES[family]),
        Base=type(model.trees_[0][0])(max_depth=3, random_state=seed),
        n_estimators=60,
        learning_rate=0.1,
        verbose=False,
        random_state=seed,
    )
    y = (Y - model.offset_) / model.unit_
    if patience is None:
        peer.fit(X[TRAIN], y[TRAIN])
        n_rounds = 60
    else:
        parts = train_test_split(X[TRAIN], y[TRAIN], test_size=0.1, random_state=seed)
        peer.fit(parts[0], parts[2], parts[1], parts[3], early_stopping_rounds=patience)
        n_rounds = peer.best_val_loss_itr + 1
        assert n_rounds < 60
    expected = peer.pred_dist(X[TEST], max_iter=n_rounds)
    distribution = model.predict_dist(X[TEST])
    assert len(model.trees_) == n_rounds
    np.testing.assert_allclose(distribution.cdf(Y[TEST]), expected.cdf(y[TEST]), rtol=1e-9)
    quantiles = (distribution.ppf(0.9) - model.offset_) / model.unit_
    np.testing.assert_allclose(quantiles, expected.ppf(0.9), rtol=1e-9)
    loaded = from_bytes(to_bytes(model), "it").value
    np.testing.assert_array_equal(loaded.predict_dist(X[TEST]).ppf(0.9), distribution.ppf(0.9))


def test_natural_gradient_boosting_does_not_depend_on_the_unit_of_outcomes():
    """The trees of scikit-learn are leaves if all variances are below 2e-16."""
    pytest.importorskip("ngboost", reason=MISSING.format("ngboost"))
    model = NaturalGradientBoosting(n_estimators=30, random_state=0)
    large, small = (model.fit(X[TRAIN], Y[TRAIN] * unit).predict(X[TEST]) for unit in (1, 2**-30))
    assert np.corrcoef(large, Y[TEST])[0, 1] > 0.6
    np.testing.assert_allclose(small * 2**30, large, rtol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_natural_gradient_boosting_of_equal_outcomes_is_narrow(family):
    pytest.importorskip("ngboost", reason=MISSING.format("ngboost"))
    model = NaturalGradientBoosting(family=family, random_state=0).fit(X[:50], np.full(50, 3.0))
    distribution = model.predict_dist(X[:4])
    np.testing.assert_allclose(distribution.mean(), 3, rtol=1e-6)
    # The exponential distribution has one parameter, its mean.
    assert (distribution.var() < 1e-10).all() or family == "exponential"


def test_natural_gradient_boosting_refuses_outcomes_outside_the_family():
    pytest.importorskip("ngboost", reason=MISSING.format("ngboost"))
    with pytest.raises(ParameterError, match=r"needs y above 0, got -1 in row 1$"):
        NaturalGradientBoosting(family="gamma").fit(X[:3], np.array([1.0, -1.0, 2.0]))


def test_natural_gradient_boosting_names_the_missing_package(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ngboost", None)
    with pytest.raises(
        ParameterError, match=r"^parent=ngboost needs ngboost: pip install ngboost$"
    ):
        NaturalGradientBoosting().fit(X, Y)


PARENTS = {
    **FORESTS,
    "quantile boosting": QuantileBoosting(
        levels=(0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98), max_iter=30, random_state=0
    ),
    "ngboost": NaturalGradientBoosting(n_estimators=30, random_state=0),
}


@pytest.mark.filterwarnings("ignore:.* calibration rows lie where", "ignore:.*far out these rows")
@pytest.mark.parametrize("name", PARENTS)
@pytest.mark.parametrize("rounded", [False, True])
def test_every_recalibrator_works_after_every_parent(name, rounded):
    """Most rounded outcomes are 0, so that quantiles are tied and distributions have steps."""
    if name == "ngboost":
        pytest.importorskip("ngboost", reason=MISSING.format("ngboost"))
    y = np.round(np.maximum(Y - 1, 0), 1) if rounded else Y
    parent = PARENTS[name].fit(X[TRAIN], y[TRAIN])
    base = parent.predict_dist(X[TEST])
    frozen = FrozenEstimator(parent)
    recalibrators = [
        GlobalPit(frozen),
        IsotonicPit(frozen),
        LocalPit(frozen),
        LocalPit(frozen, local_linear=True),
        LocalPit(frozen, feature_space="geodesic"),
        DensityPit(frozen, max_epochs=2),
        ConformalPit(frozen, GlobalPit(None)),
        LocalisedConformalPit(frozen, LocalPit(None)),
    ]
    for model in recalibrators:
        model.set_params(random_state=0).fit(
            X[TRAIN], y[TRAIN], X_calibration=X[CALIBRATION], y_calibration=y[CALIBRATION]
        )
        new = model.predict_dist(X[TEST])
        low, high = new.interval(0.8)
        for values in (new.crps(y[TEST]), new.mean(), new.var(), low, high):
            assert values.shape == (200,) and np.isfinite(values).all()
        # 200 rows: a repair that is not needed may cost some of the score.
        assert new.crps(y[TEST]).mean() < 1.1 * base.crps(y[TEST]).mean()
        assert ((low <= y[TEST]) & (y[TEST] <= high)).mean() > 0.7


def test_local_recalibration_takes_missing_values_of_the_parent():
    """A missing value is at the mean of the calibration rows."""
    rows = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
    parent = FrozenEstimator(
        QuantileBoosting(max_iter=30, random_state=0).fit(rows[TRAIN], Y[TRAIN])
    )
    calibration = {"X_calibration": rows[CALIBRATION], "y_calibration": Y[CALIBRATION]}
    model = LocalPit(parent, k=50, random_state=0).fit(rows[TRAIN], Y[TRAIN], **calibration)
    imputed = np.where(np.isnan(rows), np.nanmean(rows[CALIBRATION], axis=0), rows)
    spread = imputed[CALIBRATION].std(axis=0)
    distances = np.linalg.norm(
        (imputed[TEST][:, None] - imputed[CALIBRATION][None]) / spread, axis=2
    )
    np.testing.assert_allclose(
        np.linalg.norm(
            model.space_.coordinates(parent, rows[TEST], parent.predict_dist(rows[TEST]))[:, None]
            - model.coordinates_[None],
            axis=2,
        ),
        distances,
        rtol=1e-9,
    )
    assert np.isfinite(model.predict_dist(rows[TEST]).crps(Y[TEST])).all()
