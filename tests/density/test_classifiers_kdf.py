"""The kernel density forest as a scikit-learn classifier: labels, weights, seeds, messages."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from kdgraph import DensityGate, KernelDensityForest
from kdgraph.density.published import Figure1Forest, PaperForest, ReferenceForest
from kdgraph.errors import ParameterError
from tests.variations import others_slow

FORESTS = {
    "kdgraph": KernelDensityForest,
    "paper": PaperForest,
    "reference": ReferenceForest,
    "figure1": Figure1Forest,
}

VARIANTS = ["kdgraph", "paper", "reference", "figure1"]


def make_forest(n_trees: int = 12, **options):
    return RandomForestClassifier(n_trees, random_state=0, **options)


@pytest.fixture(scope="module")
def spiral_rows(spirals):
    return spirals(240, 8)


@pytest.fixture(scope="module")
def blob_rows(three_blobs):
    return three_blobs(240, 8)


@pytest.fixture(scope="module")
def fitted_variants(spiral_rows):
    return {
        variant: FORESTS[variant](make_forest(), random_state=0).fit(*spiral_rows)
        for variant in VARIANTS
    }


@pytest.mark.parametrize("variant", others_slow(VARIANTS))
@pytest.mark.parametrize(
    "names",
    [("yes", "no", "maybe"), (5, 6, 9), (-1.0, 0.0, 2.0), (False, True, None)],
    ids=["strings", "integers", "floats", "booleans"],
)
def test_label_values_change_no_probability(
    spiral_rows, blob_rows, fitted_variants, variant, names
):
    """Probabilities depend on the order of the labels only."""
    if None in names:  # Booleans: two classes
        X, y = spiral_rows
        labels, expected = y == 1, fitted_variants[variant]
    else:
        X, y = blob_rows
        labels, expected = (
            np.array(sorted(names))[y],
            FORESTS[variant](make_forest(), random_state=0).fit(X, y),
        )
    kdf = FORESTS[variant](make_forest(), random_state=0).fit(X, labels)
    assert kdf.classes_.tolist() == sorted(set(labels.tolist()))
    assert np.array_equal(kdf.predict_proba(X), expected.predict_proba(X))
    assert np.array_equal(kdf.predict(X), kdf.classes_[expected.predict(X)])
    assert kdf.prior_.sum() == pytest.approx(1)


def test_accuracy_is_close_to_the_forest(spiral_rows, blob_rows, fitted_variants):
    for X, y in (spiral_rows, blob_rows):
        kdf = KernelDensityForest(make_forest(30), random_state=0)
        assert (
            cross_val_score(kdf, X, y, cv=3).mean()
            > cross_val_score(make_forest(30), X, y, cv=3).mean() - 0.05
        )
    assert fitted_variants["kdgraph"].score(*spiral_rows) > 0.9


@pytest.mark.parametrize("variant", VARIANTS)
def test_seed_fixes_results_and_threads_do_not_change_them(spiral_rows, variant):
    X, y = spiral_rows
    runs = [
        FORESTS[variant](RandomForestClassifier(12), random_state=seed, n_jobs=n_jobs).fit(X, y)
        for seed, n_jobs in ((3, None), (3, None), (3, 1), (3, 2), (4, None))
    ]
    queries = np.vstack([X, 2 * X])
    first, *same_seed, different_seed = [run.predict_proba(queries) for run in runs]
    for proba in same_seed:
        assert np.array_equal(proba, first)
    assert not np.array_equal(different_seed, first)
    assert len({run.log_floor_ for run in runs[:4]}) == 1


def test_generator_as_random_state_advances(spiral_rows):
    rng = np.random.RandomState(0)
    kdf = KernelDensityForest(make_forest(), calibration="held_out", random_state=rng)
    assert not np.array_equal(
        kdf.fit(*spiral_rows).predict_proba(spiral_rows[0]),
        kdf.fit(*spiral_rows).predict_proba(spiral_rows[0]),
    )


@pytest.mark.filterwarnings(
    "ignore:.*X_calibration="
)  # the parent is fitted on the calibration rows
def test_estimator_is_cloned_unless_frozen(spiral_rows):
    X, y = spiral_rows
    parent_forest = make_forest()
    kdf = KernelDensityForest(parent_forest, random_state=0).fit(X, y)
    assert not hasattr(parent_forest, "estimators_")
    assert kdf.estimator_ is not parent_forest
    assert len(kdf.estimator_.estimators_) == 12
    inner_forest = make_forest().fit(X, y)
    frozen, trees = FrozenEstimator(inner_forest), list(inner_forest.estimators_)
    kdf = KernelDensityForest(frozen, random_state=0).fit(X[:100], y[:100])
    assert kdf.estimator_ is frozen
    assert kdf.graph_.partition.forest is inner_forest
    assert all(a is b for a, b in zip(inner_forest.estimators_, trees, strict=True))


def test_default_estimator_is_the_forest_of_the_paper(spiral_rows):
    kdf = KernelDensityForest(random_state=0).fit(*spiral_rows)
    assert kdf.estimator_.n_estimators == 500
    assert kdf.estimator_.max_depth is None
    assert kdf.estimator is None


def test_other_rows_train_with_explicit_calibration_rows(spiral_rows):
    X, y = spiral_rows
    kdf = KernelDensityForest(make_forest()).fit(
        X[:150], y[:150], X_calibration=X[150:], y_calibration=y[150:]
    )
    expected_forest = make_forest().fit(X[:150], y[:150])
    assert np.array_equal(kdf.estimator_.predict_proba(X), expected_forest.predict_proba(X))
    assert kdf.prior_.tolist() == (np.bincount(y[:150]) / 150).tolist()


def test_held_out_rows_are_stratified_and_unseen_by_the_forest(blob_rows):
    X, y = blob_rows
    kdf = KernelDensityForest(
        make_forest(), calibration="held_out", calibration_size=0.25, random_state=0
    ).fit(X, y)
    assert len(kdf.graph_.polytopes.polytope_of_row) == 180
    np.testing.assert_allclose(kdf.prior_, np.bincount(y) / 240, atol=1 / 180)


@pytest.mark.parametrize("variant", VARIANTS)
def test_weights_reach_forest_prior_and_masses(blob_rows, variant):
    X, y = blob_rows
    weight = np.where(y == 2, 5.0, 1.0)
    plain = FORESTS[variant](make_forest(), random_state=0).fit(X, y)
    weighted = FORESTS[variant](make_forest(), random_state=0).fit(X, y, sample_weight=weight)
    assert weighted.prior_[2] == pytest.approx(5 * plain.prior_[2] / (1 + 4 * plain.prior_[2]))
    same_seed = FORESTS[variant](make_forest(), random_state=0).fit(
        X, y, sample_weight=np.ones(240)
    )
    assert np.array_equal(same_seed.predict_proba(X), plain.predict_proba(X))
    if variant in (
        "kdgraph",
        "reference",
    ):  # in four dimensions the other floors exceed all densities
        assert weighted.predict_proba(X)[:, 2].mean() > plain.predict_proba(X)[:, 2].mean()


def test_class_weights_of_the_parent_are_respected(blob_rows):
    X, y = blob_rows
    balanced = make_forest(class_weight="balanced", min_samples_leaf=5)
    kdf = KernelDensityForest(
        balanced,
        parent_weight=1.0,
        parent_power=1.0,
        calibration="held_out",  # without maps
        random_state=0,
    ).fit(X, y)
    locations = kdf.graph_.partition.locate(X)
    np.testing.assert_array_equal(
        kdf.graph_.partition.parent_proba(locations), kdf.estimator_.predict_proba(X)
    )
    weight = np.exp(np.minimum(kdf.graph_.log_density(X) - kdf.log_floor_, 0))[:, None]
    np.testing.assert_allclose(
        kdf.predict_proba(X),
        weight * kdf.estimator_.predict_proba(X) + (1 - weight) * kdf.prior_,
        atol=1e-12,
    )


def test_units_of_the_features_do_not_matter(spirals):
    X, y = spirals(300, 4)
    scale = np.array(
        [2.0**6, 2.0**-4]
    )  # a power of two changes no digit, so the trees are the same ones
    kdf = KernelDensityForest(make_forest(), random_state=0).fit(X, y)
    scaled = KernelDensityForest(make_forest(), random_state=0).fit(X * scale, y)
    queries = np.vstack([X, 1.2 * X, 3 * X])
    np.testing.assert_allclose(
        scaled.predict_proba(queries * scale), kdf.predict_proba(queries), atol=1e-9
    )
    assert scaled.log_floor_ == pytest.approx(kdf.log_floor_ - np.log(scale).sum())


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("constant", [0.0, 0.1])
def test_constant_features_give_finite_probabilities(
    spiral_rows, fitted_variants, variant, constant
):
    X, y = spiral_rows
    kdf = FORESTS[variant](make_forest(max_features=None), random_state=0).fit(
        np.column_stack([X, np.full(240, constant)]), y
    )
    proba = kdf.predict_proba(np.column_stack([X, np.full(240, constant)]))
    assert np.isfinite(proba).all()
    if variant == "kdgraph":
        shifted_proba = kdf.predict_proba(np.column_stack([X, np.full(240, constant + 1e-6)]))
        np.testing.assert_allclose(
            shifted_proba, proba, atol=1e-3
        )  # 0.1 is not a binary fraction: its mean over rows differs in the last bit


@pytest.mark.parametrize("variant", others_slow(VARIANTS))
def test_one_polytope_predicts_the_prior(spiral_rows, variant):
    X, y = np.zeros((100, 2)), spiral_rows[1][:100]
    kdf = FORESTS[variant](make_forest(max_depth=1), random_state=0).fit(X, y)
    assert kdf.describe()["n_polytopes"] == 1
    np.testing.assert_allclose(
        kdf.predict_proba([[0, 0], [1, 1]]), [kdf.prior_, kdf.prior_], atol=0.1
    )  # bootstrapped votes differ a little


@pytest.mark.parametrize("variant", VARIANTS)
def test_duplicated_rows_give_finite_probabilities(spiral_rows, variant):
    X, y = np.repeat(spiral_rows[0], 2, axis=0), np.repeat(spiral_rows[1], 2)
    kdf = FORESTS[variant](make_forest(), random_state=0).fit(X, y)
    proba = kdf.predict_proba(X)
    assert np.isfinite(proba).all()
    assert kdf.describe()["singleton_fraction"] < 1


@pytest.mark.parametrize(
    "parent",
    [
        ExtraTreesClassifier(10, random_state=0),
        DecisionTreeClassifier(random_state=0),
        make_pipeline(StandardScaler(), make_forest()),
    ],
    ids=lambda parent: type(parent).__name__,
)
def test_trees_and_pipelines_as_parents(spiral_rows, parent):
    kdf = KernelDensityForest(parent, random_state=0).fit(*spiral_rows)
    assert kdf.score(*spiral_rows) > 0.8
    assert kdf.predict_proba([[40.0, 40.0]])[0] == pytest.approx(kdf.prior_, abs=1e-6)


def test_pipeline_parent_equals_forest_on_transformed_rows(spiral_rows):
    X, y = spiral_rows
    parent = make_pipeline(StandardScaler(), make_forest()).fit(X[:150], y[:150])
    scaled = parent[0].transform(X)
    with_pipeline = KernelDensityForest(FrozenEstimator(parent)).fit(
        X[:150], y[:150], X_calibration=X[150:], y_calibration=y[150:]
    )
    without_pipeline = KernelDensityForest(FrozenEstimator(parent[1]))
    without_pipeline.fit(scaled[:150], y[:150], X_calibration=scaled[150:], y_calibration=y[150:])
    assert np.array_equal(with_pipeline.predict_proba(X), without_pipeline.predict_proba(scaled))


def test_works_in_pipelines_grid_search_and_clone(spiral_rows):
    X, y = spiral_rows
    pipeline = Pipeline(
        [("scale", StandardScaler()), ("kdf", KernelDensityForest(make_forest(), random_state=0))]
    ).fit(X, y)
    assert pipeline.predict_proba(X).shape == (240, 2)
    search = GridSearchCV(
        KernelDensityForest(make_forest(8), random_state=0),
        {"alpha": [0.005, 0.1], "estimator__min_samples_leaf": [1, 5]},
        cv=2,
    )
    assert search.fit(X, y).best_params_.keys() == {"alpha", "estimator__min_samples_leaf"}
    copy = clone(PaperForest(make_forest(), k=0.5))
    assert copy.get_params()["k"] == 0.5
    assert copy.get_params()["estimator__n_estimators"] == 12


@pytest.mark.parametrize("variant", VARIANTS)
def test_pickling_keeps_predictions(spiral_rows, fitted_variants, variant):
    X = np.vstack([spiral_rows[0], 5 * spiral_rows[0]])
    restored = pickle.loads(pickle.dumps(fitted_variants[variant]))
    assert np.array_equal(restored.predict_proba(X), fitted_variants[variant].predict_proba(X))
    assert restored.describe() == fitted_variants[variant].describe()


def test_feature_names_are_stored_and_checked(spiral_rows):
    X, y = pd.DataFrame(spiral_rows[0], columns=["east", "north"]), pd.Series(spiral_rows[1])
    kdf = KernelDensityForest(make_forest(), random_state=0).fit(X, y)
    assert kdf.feature_names_in_.tolist() == ["east", "north"]
    plain = KernelDensityForest(make_forest(), random_state=0).fit(spiral_rows[0], spiral_rows[1])
    assert np.array_equal(kdf.predict_proba(X), plain.predict_proba(spiral_rows[0]))
    with pytest.raises(
        ValueError, match=r"^The feature names should match those that were passed during fit\."
    ):
        kdf.predict(X.rename(columns={"east": "west"}))


def test_integer_and_float32_rows_are_supported(spiral_rows):
    X, y = np.round(20 * spiral_rows[0]), spiral_rows[1]
    kdf = KernelDensityForest(make_forest(), random_state=0).fit(X, y)
    for dtype in (np.int64, np.float32):
        converted = KernelDensityForest(make_forest(), random_state=0).fit(X.astype(dtype), y)
        assert np.array_equal(converted.predict_proba(X.astype(dtype)), kdf.predict_proba(X))


def test_describe_lists_fitted_values(fitted_variants):
    for variant, kdf in fitted_variants.items():
        summary = kdf.describe()
        names = [
            "n_polytopes",
            "singleton_fraction",
            "n_gaussians",
            "distance",
            "exponent",
            *(
                [
                    "n_exponents",
                    "pseudo_count",
                    "parent_weight",
                    "parent_power",
                    "parent_scaling_fraction",
                    "posterior_scaling_fraction",
                    "isotonic_fraction",
                ]
                if variant == "kdgraph"
                else []
            ),
            "log_floor",
        ]
        assert list(summary) == names
        assert summary["n_polytopes"] == len(kdf.graph_.polytopes)
        if variant != "kdgraph":  # whose graph keeps the codes of out-of-bag trees only
            assert summary["n_polytopes"] == len(np.unique(kdf.graph_.counts.codes, axis=0))
        assert summary["singleton_fraction"] == (kdf.graph_.polytopes.sizes == 1).mean()
        assert summary["log_floor"] == kdf.log_floor_
        assert summary.pop("distance") == ("scaled" if variant == "kdgraph" else "geodesic")
        assert all(
            type(value) in (int, float) for value in summary.values()
        )  # types that JSON supports


def test_fixed_hyperparameters_are_used(spiral_rows):
    kdf = KernelDensityForest(
        make_forest(),
        k=0.5,
        pseudo_count=0.25,
        parent_weight=0.125,
        parent_power=3,
        calibration="held_out",
        random_state=0,
    ).fit(*spiral_rows)
    summary = kdf.describe()
    assert summary["exponent"] == pytest.approx(
        0.5 * np.log(168)
    )  # of the 240 rows 30 % are held out
    names = ("pseudo_count", "parent_weight", "parent_power")
    assert [summary[name] for name in names] == [0.25, 0.125, 3]
    assert PaperForest(make_forest(), floor=-7).fit(*spiral_rows).log_floor_ == -7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": -0.2}, "alpha must be in (0, 1) or null, got -0.2"),
        ({"alpha": 1}, "alpha must be in (0, 1) or null, got 1"),
        ({"alpha": "small"}, "alpha must be a number in (0, 1) or null, got 'small'"),
        ({"k": 0}, "k must be in (0, inf) or one of auto, got 0"),
        ({"k": "best"}, "k must be a number in (0, inf) or one of auto, got 'best'"),
        ({"pseudo_count": 0.0}, "pseudo_count must be in (0, inf) or one of auto, got 0.0"),
        ({"parent_weight": 1.5}, "parent_weight must be in [0, 1] or one of auto, got 1.5"),
        ({"min_weight": 1.1}, "min_weight must be in [0, 1], got 1.1"),
        (
            {"distance": "manhattan"},
            ("distance must be one of geodesic, euclidean, scaled, whitened, got 'manhattan'"),
        ),
        ({"calibration_size": 0}, "calibration_size must be in (0, 1), got 0"),
        ({"n_jobs": "all"}, "n_jobs must be an integer or null, got 'all'"),
    ],
)
def test_invalid_parameters_raise(spiral_rows, options, message):
    with pytest.raises(ParameterError) as caught:
        KernelDensityForest(make_forest(), **options).fit(*spiral_rows)
    assert str(caught.value) == message


@pytest.mark.parametrize("floor", ["low", float("nan")])
def test_invalid_floors_raise(spiral_rows, floor):
    with pytest.raises(ParameterError, match="floor must be a number or one of auto or null, got"):
        PaperForest(make_forest(), floor=floor).fit(*spiral_rows)


@pytest.mark.parametrize(
    ("estimator", "kind", "message"),
    [
        (
            LogisticRegression(),
            TypeError,
            (
                "LogisticRegression has no partition to read; pass a fitted forest, tree or boosted"
                " trees, or a network of torch; any classifier can be combined with a"
                " forest's partition: DensityGate(LogisticRegression(),"
                " partition=RandomForestClassifier())"
            ),
        ),
        (
            RandomForestRegressor(5),
            TypeError,
            (
                "KernelDensityForest needs an estimator with predict_proba, got"
                " RandomForestRegressor, a regressor; pass a classifier, or repair its predictive"
                " distributions by kdgraph.recalibration"
            ),
        ),
    ],
)
def test_unsupported_parents_raise(spiral_rows, estimator, kind, message):
    with pytest.raises(kind) as caught:
        KernelDensityForest(estimator, random_state=0).fit(*spiral_rows)
    assert str(caught.value) == message


def test_unfitted_estimators_raise(spiral_rows):
    with pytest.raises(
        NotFittedError, match=r"^This KernelDensityForest instance is not fitted yet\."
    ):
        KernelDensityForest(make_forest()).predict(spiral_rows[0])
    with pytest.raises(NotFittedError, match=r"^This FrozenEstimator instance is not fitted yet\."):
        KernelDensityForest(FrozenEstimator(make_forest())).fit(*spiral_rows)


def test_grid_search_parent_uses_its_best_estimator(spiral_rows):
    X, y = spiral_rows
    search = GridSearchCV(make_forest(), {"max_depth": [2, None]}, cv=2)
    kdf = KernelDensityForest(search, random_state=0).fit(X, y)
    assert kdf.graph_.partition.forest is kdf.estimator_.best_estimator_
    frozen_search = FrozenEstimator(search.fit(X[:100], y[:100]))
    gate = DensityGate(frozen_search, random_state=0).fit(
        X[:100], y[:100], X_calibration=X[100:], y_calibration=y[100:]
    )
    assert gate.graph_.partition.forest is search.best_estimator_
