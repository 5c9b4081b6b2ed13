"""Boosted trees of quantiles: against scikit-learn, XGBoost, LightGBM, CatBoost and ngboost."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_array, check_random_state
from sklearn.utils.estimator_checks import check_estimator

from kdgraph.data.dataset import Dataset
from kdgraph.errors import ParameterError
from kdgraph.geometry import partition_kind, partition_of
from kdgraph.parents import (
    BoostedTreesRegressor,
    NaturalGradientBoosting,
    NoPreprocessing,
    Preprocess,
    QuantileBoosting,
    boosted_regressors,
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
from tests.parents.test_forest_regressors import CALIBRATION, FORESTS, TEST, TRAIN, X, Y
from tests.variations import others_slow

MISSING = "{} is not installed; the extra {} has it"


@pytest.mark.slow
def test_ngboost_passes_the_checks_of_scikit_learn():
    pytest.importorskip("ngboost", reason=MISSING.format("ngboost", "peers"))
    model = NaturalGradientBoosting(n_estimators=50, learning_rate=0.1, patience=None)
    check_estimator(model.set_params(random_state=0), on_skip=None)


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


def test_quantile_boosting_takes_categories_and_missing_values():
    """Even codes have outcomes near 1 and odd ones near 0: one split of categories separates them.

    A threshold on the code needs eleven, of which trees of two leaves have three.
    """
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 12, size=600).astype(float)
    y = (codes % 2 == 0) + 0.01 * rng.normal(size=600)
    rows = np.column_stack([codes, np.where(rng.random(600) < 0.3, np.nan, rng.normal(size=600))])
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


@pytest.mark.parametrize("family", others_slow(FAMILIES))
@pytest.mark.parametrize("patience", [None, 5])
def test_natural_gradient_boosting_predicts_as_ngboost_does(family, patience):
    ngboost = pytest.importorskip("ngboost", reason=MISSING.format("ngboost", "peers"))
    model = NaturalGradientBoosting(
        family=family, n_estimators=60, learning_rate=0.1, patience=patience, random_state=2
    ).fit(X[TRAIN], Y[TRAIN])
    seed = model.trees_[0][0].random_state
    peer = ngboost.NGBRegressor(
        Dist=getattr(ngboost.distns, boosted_regressors._NGBOOST_NAMES[family]),
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


def test_natural_gradient_boosting_is_independent_of_units():
    """The trees of scikit-learn are leaves if all variances are below 2e-16."""
    pytest.importorskip("ngboost", reason=MISSING.format("ngboost", "peers"))
    model = NaturalGradientBoosting(n_estimators=30, random_state=0)
    large, small = (model.fit(X[TRAIN], Y[TRAIN] * unit).predict(X[TEST]) for unit in (1, 2**-30))
    assert np.corrcoef(large, Y[TEST])[0, 1] > 0.6
    np.testing.assert_allclose(small * 2**30, large, rtol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_natural_gradient_boosting_of_equal_outcomes_is_narrow(family):
    pytest.importorskip("ngboost", reason=MISSING.format("ngboost", "peers"))
    model = NaturalGradientBoosting(family=family, random_state=0).fit(X[:50], np.full(50, 3.0))
    distribution = model.predict_dist(X[:4])
    np.testing.assert_allclose(distribution.mean(), 3, rtol=1e-6)
    # The exponential distribution has one parameter, its mean.
    assert (distribution.var() < 1e-10).all() or family == "exponential"


def test_natural_gradient_boosting_refuses_outcomes_of_no_family():
    pytest.importorskip("ngboost", reason=MISSING.format("ngboost", "peers"))
    with pytest.raises(ParameterError, match=r"needs y above 0, got -1 in row 1$"):
        NaturalGradientBoosting(family="gamma").fit(X[:3], np.array([1.0, -1.0, 2.0]))


def test_natural_gradient_boosting_names_the_missing_package(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ngboost", None)
    with pytest.raises(
        ParameterError, match=r"^parent=ngboost needs ngboost: pip install ngboost$"
    ):
        NaturalGradientBoosting().fit(X, Y)


LIBRARIES = ["xgboost", "lightgbm", "catboost"]
LEVELS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)


def library_regressor(name: str, n_rounds: int = 300) -> Any:
    """Return an unfitted regressor of a library."""
    library = pytest.importorskip(name, reason=MISSING.format(name, "boosting"))
    if name == "xgboost":
        return library.XGBRegressor(
            n_estimators=n_rounds, learning_rate=0.1, max_depth=4, min_child_weight=10
        )
    if name == "lightgbm":
        return library.LGBMRegressor(n_estimators=n_rounds, num_leaves=15, verbose=-1)
    return library.CatBoostRegressor(n_estimators=n_rounds, learning_rate=0.1, depth=4)


def mixed_table(n: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with a column of codes and missing values, and outcomes with a shift by a set."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, 4))
    rows[:, 1] = rng.permutation(np.arange(n) % 6)
    shift = 4.0 * np.isin(rows[:, 1], [0, 3, 5])
    y = rows[:, 0] + shift + (0.3 + np.abs(rows[:, 2])) * rng.normal(size=n)
    rows[::9, 2], rows[::11, 1] = np.nan, np.nan
    return rows, y


@pytest.mark.parametrize("name", others_slow(LIBRARIES, "lightgbm"))
def test_every_library_keeps_the_contract_of_scikit_learn(name):
    model = BoostedTreesRegressor(
        library_regressor(name, 10), levels=(0.25, 0.5, 0.75), random_state=0
    )
    # Validation rows are drawn among the rows, so that a row of weight 2 is not two rows.
    draws = {"check_sample_weight_equivalence_on_dense_data": "draws validation rows"}
    check_estimator(model, expected_failed_checks=draws, on_skip=None)


@pytest.mark.parametrize("name", LIBRARIES)
def test_quantiles_are_those_of_the_library(name):
    """The library is called as its own manual does, on the same rows and with the same seeds."""
    levels, patience = [0.1, 0.5, 0.9], 5
    model = BoostedTreesRegressor(
        library_regressor(name), levels=levels, patience=patience, random_state=3
    ).fit(X[TRAIN], Y[TRAIN])
    rng = check_random_state(3)
    validation = rng.permutation(400)[:40]
    train = np.setdiff1d(np.arange(400), validation)
    validation = np.sort(validation)
    y = (Y[TRAIN] - Y[TRAIN].mean()) / Y[TRAIN].std()
    held_out = X[validation], y[validation]
    library = pytest.importorskip(name, reason=MISSING.format(name, "boosting"))
    columns = []
    for loss in {"lightgbm": levels}.get(name, [None]):
        peer = clone(library_regressor(name)).set_params(random_state=rng.randint(2**31 - 1))
        if name == "xgboost":
            peer.set_params(objective="reg:quantileerror", quantile_alpha=np.array(levels))
            peer.set_params(early_stopping_rounds=patience, n_jobs=1)
            # Its quantile of weighted outcomes is another one, also where weights are equal.
            weight = {"sample_weight": np.ones(360), "sample_weight_eval_set": [np.ones(40)]}
            peer.fit(X[train], y[train], eval_set=[held_out], verbose=False, **weight)
            assert peer.best_iteration < 250
        elif name == "lightgbm":
            peer.set_params(objective="quantile", alpha=loss, n_jobs=1)
            stop = library.early_stopping(patience, verbose=False)
            peer.fit(X[train], y[train], eval_X=held_out[0], eval_y=held_out[1], callbacks=[stop])
            assert peer.best_iteration_ < 250
        else:
            peer.set_params(loss_function="MultiQuantile:alpha=0.1,0.5,0.9", thread_count=1)
            peer.set_params(allow_writing_files=False, early_stopping_rounds=patience)
            peer.fit(X[train], y[train], eval_set=held_out, verbose=False)
            assert peer.tree_count_ < 250
        columns.append(peer.predict(X[TEST]))
    quantiles = np.column_stack(columns).astype(float) * model.unit_ + model.offset_
    np.testing.assert_array_equal(
        model.predict_dist(X[TEST]).ppf(np.array(levels)), np.sort(quantiles, axis=1)
    )
    np.testing.assert_array_equal(model.predict(X[TEST]), model.predict_dist(X[TEST]).mean())


@pytest.mark.parametrize("name", LIBRARIES)
def test_quantiles_follow_the_rows(name):
    """Outcomes are x (1 + e) with e normal: the quantiles of each row are known."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(1, 3, size=(3000, 1))
    y = rows[:, 0] * (1 + rng.normal(size=3000))
    model = BoostedTreesRegressor(library_regressor(name), levels=LEVELS, random_state=0)
    distribution = model.fit(rows[:2000], y[:2000]).predict_dist(rows[2000:])
    upper, lower = distribution.ppf(0.9), distribution.ppf(0.1)
    is_large = rows[2000:, 0] > 2
    for part in (is_large, ~is_large):
        # Four standard errors of a fraction of 500 rows are .054, and the fit adds its own.
        assert abs((y[2000:] <= upper)[part].mean() - 0.9) < 0.08
        assert abs((y[2000:] <= lower)[part].mean() - 0.1) < 0.08
    spread = upper - lower
    # The widths are 2.56 x, with a mean of 2.5 in one part and of 1.5 in the other.
    assert 1.3 < spread[is_large].mean() / spread[~is_large].mean() < 2.1


@pytest.mark.parametrize("name", LIBRARIES)
def test_categories_are_split_as_sets(name):
    """Other numbers for the same categories change predictions only where they count as numbers."""
    rows, y = mixed_table()
    renamed = rows.copy()
    has_code = ~np.isnan(rows[:, 1])
    renamed[has_code, 1] = np.array([3, 0, 4, 1, 5, 2])[rows[has_code, 1].astype(int)]
    changes = []
    for categorical in ([1], []):
        model = BoostedTreesRegressor(
            library_regressor(name, 30), levels=(0.3, 0.7), categorical=categorical, random_state=0
        )
        medians = [
            clone(model).fit(table, y).predict_dist(table).ppf(0.5) for table in (rows, renamed)
        ]
        changes.append(np.abs(medians[0] - medians[1]).mean() / y.std())
    # XGBoost chooses between sets of equal gain by their numbers.
    assert changes[0] < (0.03 if name == "xgboost" else 1e-9)
    assert changes[1] > 0.05


@pytest.mark.parametrize("name", LIBRARIES)
def test_unknown_categories_and_missing_values_are_predicted(name):
    rows, y = mixed_table()
    model = BoostedTreesRegressor(
        library_regressor(name, 20), levels=(0.3, 0.7), categorical=[1], random_state=0
    ).fit(rows, y)
    unknown = np.array([[0.5, 77.0, 0.0, 0.0], [np.nan] * 4, [0.5, -3.0, 0.0, 0.0]])
    assert np.isfinite(model.predict_dist(unknown).ppf(np.array([0.01, 0.5, 0.99]))).all()


@pytest.mark.parametrize("name", LIBRARIES)
def test_rounds_are_chosen_on_the_validation_rows(name):
    """Outcomes are noise: the best number of rounds is small, and more would raise the loss."""
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(1200, 5)), rng.normal(size=1200)
    model = BoostedTreesRegressor(
        library_regressor(name), levels=(0.1, 0.5, 0.9), patience=10, random_state=0
    ).fit(rows[:600], y[:600])
    rounds = {
        "xgboost": lambda fitted: fitted.best_iteration + 1,
        "lightgbm": lambda fitted: fitted.best_iteration_,
        "catboost": lambda fitted: fitted.tree_count_,
    }[name]
    assert all(1 <= rounds(fitted) < 100 for fitted in model.models_)
    library = library_regressor(name, 300)
    all_rounds = BoostedTreesRegressor(
        library, levels=(0.1, 0.5, 0.9), validation_size=1e-9, random_state=0
    ).fit(rows[:600], y[:600])
    losses = [
        fitted.predict_dist(rows[600:]).crps(y[600:]).mean() for fitted in (model, all_rounds)
    ]
    assert losses[0] < losses[1]


@pytest.mark.parametrize("name", LIBRARIES)
def test_weights_of_rows_count(name):
    model = BoostedTreesRegressor(library_regressor(name, 20), levels=(0.3, 0.7), random_state=0)
    equal = model.fit(X, Y).predict_dist(X).ppf(0.7)
    weighted = model.fit(X, Y, np.where(np.median(Y) < Y, 5.0, 1.0)).predict_dist(X).ppf(0.7)
    assert (weighted - equal).mean() > 0.1 * Y.std()


@pytest.mark.parametrize("name", LIBRARIES)
def test_quantiles_are_independent_of_unit_and_origin(name):
    """XGBoost alone, in single precision, would have steps of 64 at outcomes of 1e9."""
    model = BoostedTreesRegressor(library_regressor(name, 30), levels=(0.1, 0.9), random_state=0)
    levels = np.array([0.1, 0.9])
    expected = model.fit(X[TRAIN], Y[TRAIN]).predict_dist(X[TEST]).ppf(levels)
    scaled = model.fit(X[TRAIN], Y[TRAIN] * 2.0**40).predict_dist(X[TEST]).ppf(levels)
    np.testing.assert_array_equal(scaled / 2.0**40, expected)
    shifted = model.fit(X[TRAIN], Y[TRAIN] + 1e9).predict_dist(X[TEST]).ppf(levels)
    # Outcomes of 1e9 have a resolution of 1e-7, which can move a split between two rows.
    assert np.quantile(np.abs(shifted - 1e9 - expected), 0.9) < 1e-5


@pytest.mark.parametrize("name", LIBRARIES)
def test_equal_outcomes_are_a_point(name):
    model = BoostedTreesRegressor(library_regressor(name, 5), levels=(0.2, 0.8)).fit(
        X[:50], np.full(50, 0.3)
    )
    distribution = model.predict_dist(X[:4])
    np.testing.assert_array_equal(distribution.ppf(np.array([0.1, 0.5, 0.9])), np.full((4, 3), 0.3))
    with pytest.raises(ValueError, match=r"^there are no trees, because all training outcomes"):
        partition_of(model)
    loaded = from_bytes(to_bytes(model), "it").value
    np.testing.assert_array_equal(loaded.predict(X[:4]), model.predict(X[:4]))


@pytest.mark.parametrize("name", LIBRARIES)
def test_leaves_are_those_of_all_levels(name):
    levels = (0.1, 0.5, 0.9)
    model = BoostedTreesRegressor(
        library_regressor(name, 40), levels=levels, categorical=[1], random_state=0
    )
    assert partition_kind(model) == "boosted"
    rows, y = mixed_table(600)
    model.fit(rows, y)
    partition: Any = partition_of(model)
    codes = partition.encode(rows)
    inner = model.library_rows(rows)
    leaves = {
        "xgboost": lambda fitted: fitted.apply(inner),
        "lightgbm": lambda fitted: fitted.predict(inner, pred_leaf=True),
        "catboost": lambda fitted: fitted.calc_leaf_indexes(inner),
    }[name]
    np.testing.assert_array_equal(codes, np.hstack([leaves(fitted) for fitted in model.models_]))
    assert codes.shape[1] == partition.n_trees and len(model.models_) == (
        3 if name == "lightgbm" else 1
    )
    for t in (0, partition.n_trees // 2, partition.n_trees - 1):
        parents = partition.node_parents(t)
        assert len(parents) == partition.leaf_starts[t + 1] - partition.leaf_starts[t]
        assert (parents == -1).sum() == 1
        assert partition.is_leaf[partition.leaf_starts[t] + codes[:, t]].all()
    # Rows with the same leaves in all trees have the same quantiles.
    _, first, group = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    quantiles = model.predict_dist(rows).ppf(np.array(levels))
    np.testing.assert_array_equal(quantiles, quantiles[first][group.ravel()])


@pytest.mark.parametrize("name", LIBRARIES)
def test_local_recalibration_by_leaves_takes_those_of_the_parent(name):
    parent = BoostedTreesRegressor(library_regressor(name, 30), levels=LEVELS, random_state=0).fit(
        X[TRAIN], Y[TRAIN]
    )
    model = LocalPit(FrozenEstimator(parent), feature_space="geodesic", random_state=0).fit(
        X[TRAIN], Y[TRAIN], X_calibration=X[CALIBRATION], y_calibration=Y[CALIBRATION]
    )
    assert model.space_.forest_ is None
    codes = partition_of(parent).encode(X[TEST])
    leaves = model.space_.coordinates(parent, X[TEST], parent.predict_dist(X[TEST]))
    similarity = (codes[:, None] == codes[None]).mean(axis=2)
    np.testing.assert_allclose((leaves @ leaves.T).toarray(), similarity, atol=1e-12)
    loaded = from_bytes(to_bytes(model), "it").value
    np.testing.assert_array_equal(
        loaded.predict_dist(X[TEST]).ppf(0.9), model.predict_dist(X[TEST]).ppf(0.9)
    )


def test_categories_of_a_data_set_go_to_the_library():
    rows, y = mixed_table(60)
    data = Dataset(
        "mixed",
        rows,
        y,
        np.empty(0),
        tuple("abcd"),
        "regression",
        categories=(None, tuple("uvwxyz"), None, None),
    )
    model = BoostedTreesRegressor(library_regressor("lightgbm"))
    for preprocessing in (Preprocess(), NoPreprocessing()):
        assert preprocessing.wrap(model, data).categorical == [1]
    assert model.categorical == ()


def test_other_estimators_and_levels_are_refused():
    accepted = "XGBRegressor, LGBMRegressor, CatBoostRegressor"
    for estimator, advice in (
        (HistGradientBoostingRegressor(), "; use QuantileBoosting"),
        (FORESTS["random forest"], ""),
    ):
        with pytest.raises(ParameterError) as caught:
            BoostedTreesRegressor(estimator).fit(X, Y)
        assert str(caught.value) == (
            f"estimator must be one of {accepted}, got {type(estimator).__name__}{advice}"
        )
    with pytest.raises(ParameterError, match=r"^levels must be at least two increasing numbers"):
        BoostedTreesRegressor(library_regressor("lightgbm"), levels=(0.5, 0.1)).fit(X, Y)


PARENTS = {
    **FORESTS,
    "quantile boosting": QuantileBoosting(levels=LEVELS, max_iter=30, random_state=0),
    "ngboost": NaturalGradientBoosting(n_estimators=30, random_state=0),
    **dict.fromkeys(LIBRARIES),
}


@pytest.mark.filterwarnings("ignore:.* calibration rows lie where", "ignore:.*far out these rows")
@pytest.mark.parametrize("name", others_slow(PARENTS))
@pytest.mark.parametrize("rounded", [False, True])
def test_every_recalibrator_works_after_every_parent(name, rounded):
    """Most rounded outcomes are 0, so that quantiles are tied and distributions have steps."""
    if name == "ngboost":
        pytest.importorskip("ngboost", reason=MISSING.format("ngboost", "peers"))
    y = np.round(np.maximum(Y - 1, 0), 1) if rounded else Y
    parent = PARENTS[name]
    if parent is None:
        library = library_regressor(name, 30)
        parent = BoostedTreesRegressor(library, levels=LEVELS, random_state=0)
    parent.fit(X[TRAIN], y[TRAIN])
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
    rows = np.where(np.random.default_rng(4).random(X.shape) < 0.2, np.nan, X)
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
