"""Boosted trees with early stopping, categories and missing values, by each library."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import check_estimator

from kdgraph import DensityGate, KernelDensityForest
from kdgraph.detection import GraphDensity, LeafBox, LeafOccupancy
from kdgraph.errors import ParameterError
from kdgraph.parents import BoostedTreesClassifier
from tests.variations import others_slow

LIBRARIES = ["hist_gradient_boosting", "xgboost", "lightgbm", "catboost"]


def library_model(name: str, n_rounds: int = 300):
    """Return an unfitted classifier of a library."""
    if name == "hist_gradient_boosting":
        return HistGradientBoostingClassifier(max_iter=n_rounds)
    reason = f"{name} is not installed; the extra boosting has it"
    library = pytest.importorskip(name, reason=reason)
    if name == "xgboost":
        return library.XGBClassifier(n_estimators=n_rounds, learning_rate=0.1)
    if name == "lightgbm":
        return library.LGBMClassifier(n_estimators=n_rounds, verbose=-1)
    return library.CatBoostClassifier(n_estimators=n_rounds, learning_rate=0.1)


def table(n: int = 800):
    """Return rows with a column of codes and missing values, whose labels follow from a set."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    X[:, 1] = rng.permutation(np.arange(n) % 6)
    y = np.where((X[:, 0] > 0) ^ np.isin(X[:, 1], [0, 3, 5]), "yes", "no")
    X[::9, 2], X[::11, 1] = np.nan, np.nan
    return X, y


@pytest.mark.parametrize("name", others_slow(LIBRARIES, "lightgbm"))
def test_every_library_keeps_the_contract_of_scikit_learn(name):
    model = BoostedTreesClassifier(library_model(name, 20), random_state=0)
    # Validation rows are drawn among the rows, so that a row of weight 2 is not two rows.
    draws = {"check_sample_weight_equivalence_on_dense_data": "draws validation rows"}
    check_estimator(model, expected_failed_checks=draws, on_skip=None)


@pytest.mark.parametrize("name", LIBRARIES)
def test_categories_are_split_as_sets(name):
    """Other numbers for the same categories change predictions only where they count as numbers."""
    X, y = table(2000)
    renamed = X.copy()
    has_code = ~np.isnan(X[:, 1])
    renamed[has_code, 1] = np.array([3, 0, 4, 1, 5, 2])[X[has_code, 1].astype(int)]
    changes = []
    for categorical in ([1], []):
        model = BoostedTreesClassifier(
            library_model(name, 30), categorical=categorical, random_state=0
        )
        proba = [clone(model).fit(rows, y).predict_proba(rows) for rows in (X, renamed)]
        changes.append(np.abs(proba[0] - proba[1]).max())
    # XGBoost chooses between sets of equal gain by their numbers.
    assert changes[0] < (0.1 if name == "xgboost" else 1e-9)
    assert changes[1] > 0.2


@pytest.mark.parametrize("name", LIBRARIES)
def test_unknown_categories_and_missing_values_are_predicted(name):
    X, y = table()
    model = BoostedTreesClassifier(library_model(name, 20), categorical=[1], random_state=0)
    model.fit(X, y)
    rows = np.array([[0.5, 77.0, 0.0, 0.0], [np.nan] * 4, [0.5, -3.0, 0.0, 0.0]])
    proba = model.predict_proba(rows)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("name", others_slow(LIBRARIES, "lightgbm"))
def test_rounds_are_chosen_on_the_validation_rows(name):
    """Labels of which a third are wrong: all 300 rounds would learn them by heart."""
    X, y = make_classification(1200, 8, flip_y=0.6, random_state=0)
    train, test = slice(0, 600), slice(600, None)
    stopped, full = (
        BoostedTreesClassifier(library_model(name), patience=patience, random_state=0).fit(
            X[train], y[train]
        )
        for patience in (10, 300)
    )
    losses = [log_loss(y[test], model.predict_proba(X[test])) for model in (stopped, full)]
    if name == "hist_gradient_boosting":
        assert stopped.estimator_.n_iter_ < 100
        assert losses[0] < losses[1]
    else:
        # The other libraries predict with the best of all 300 rounds.
        assert losses[0] < log_loss(y[test], np.full((600, 2), 0.5)) + 0.05
        attribute = {"xgboost": "best_iteration", "lightgbm": "best_iteration_"}
        assert getattr(stopped.estimator_, attribute.get(name, "tree_count_")) < 100
    again = clone(stopped).fit(X[train], y[train])
    np.testing.assert_array_equal(again.predict_proba(X), stopped.predict_proba(X))


def test_a_class_of_few_rows_is_not_validated():
    X, y = make_classification(200, 5, random_state=0)
    y = np.where(np.arange(200) < 3, 2, y)
    model = BoostedTreesClassifier(library_model("hist_gradient_boosting", 10), random_state=0)
    assert model.fit(X, y).predict_proba(X).shape == (200, 3)
    tiny = model.fit(X[3:11], y[3:11])
    assert tiny.estimator_.early_stopping is False
    assert tiny.predict_proba(X).shape == (200, 2)


def test_weights_of_rows_count():
    X, y = make_classification(400, 5, flip_y=0.3, random_state=0)
    for name in LIBRARIES:
        model = BoostedTreesClassifier(library_model(name, 10), random_state=0)
        equal = model.fit(X, y).predict_proba(X)[:, 1].mean()
        weighted = model.fit(X, y, np.where(y == 1, 5.0, 1.0)).predict_proba(X)[:, 1].mean()
        assert weighted > equal + 0.1


def test_columns_of_over_255_categories_are_numbers():
    X, y = table(600)
    X[:, 1] = np.arange(600)
    model = BoostedTreesClassifier(
        library_model("hist_gradient_boosting", 5), categorical=[1], random_state=0
    )
    assert model.fit(X, y).estimator_.categorical_features is None


def test_other_estimators_are_refused():
    with pytest.raises(ParameterError) as caught:
        BoostedTreesClassifier(RandomForestClassifier()).fit(*table())
    assert str(caught.value) == (
        "estimator must be one of HistGradientBoostingClassifier, XGBClassifier, LGBMClassifier,"
        " CatBoostClassifier, got RandomForestClassifier"
    )


@pytest.mark.parametrize("name", others_slow(LIBRARIES, "lightgbm"))
def test_kdf_takes_missing_values_and_tends_to_the_prior(name):
    X, y = table()
    model = BoostedTreesClassifier(library_model(name, 40), categorical=[1], random_state=0)
    forest = KernelDensityForest(model, random_state=0).fit(X, y)
    assert np.isfinite(forest.predict_proba(X)).all()
    distant = np.array([[1e4, 1.0, 1e4, np.nan], [-1e4, 2.0, -1e4, 1e4]])
    np.testing.assert_allclose(
        forest.predict_proba(distant), np.tile(forest.prior_, (2, 1)), atol=1e-6
    )
    gate = DensityGate(model, random_state=0).fit(X, y)
    np.testing.assert_allclose(gate.predict_proba(distant), np.tile(gate.prior_, (2, 1)), atol=1e-6)
    for detector in (LeafBox(model), LeafOccupancy(model), GraphDensity(model)):
        assert np.isfinite(detector.set_params(random_state=0).fit(X, y).ood_score(X)).all()


def test_missing_values_count_as_the_median_in_densities():
    X, y = table()
    model = BoostedTreesClassifier(
        library_model("hist_gradient_boosting", 20), categorical=[1], random_state=0
    )
    forest = KernelDensityForest(model, random_state=0).fit(X, y)
    medians = forest.graph_.fill_values
    row = X[1:2].copy()
    with_gap, with_median = row.copy(), row.copy()
    with_gap[0, 3], with_median[0, 3] = np.nan, medians[3]
    np.testing.assert_array_equal(forest.log_density(with_gap), forest.log_density(with_median))
    for frozen_rows in (X[:50], X[50:51]):
        expected = np.where(np.isnan(frozen_rows), medians, frozen_rows)
        np.testing.assert_array_equal(forest.graph_.to_coordinates(frozen_rows), expected)


def test_a_column_without_any_value_is_0_in_densities():
    X, y = table()
    X[:, 2] = np.nan
    model = BoostedTreesClassifier(library_model("lightgbm", 10), random_state=0)
    forest = KernelDensityForest(model, random_state=0).fit(X, y)
    assert forest.graph_.fill_values[2] == 0
    assert np.isfinite(forest.predict_proba(X)).all()
