"""Outputs of parents for their training rows, out of bag and by cross-fitting."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csc_array, csr_array
from sklearn.base import BaseEstimator, clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_moons
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from kdgraph import DensityGate, KernelDensityForest
from kdgraph.base import PostHocClassifier, Rows, select_rows
from kdgraph.base.frozen import is_bagged
from kdgraph.base.rows import CrossFitted, CrossFittedOutputs, OutOfBag, draw_folds_of_rows
from kdgraph.calibration import ScoreMap
from kdgraph.detection import (
    Entropy,
    ForestScoreEnsemble,
    GeodesicDistance,
    GraphDensity,
    KthNeighbourDistance,
    LeafBox,
    LeafOccupancy,
)
from kdgraph.errors import DataError
from tests.variations import others_slow

X, Y = make_moons(300, noise=0.35, random_state=0)
TEST = make_moons(100, noise=0.35, random_state=1)[0]


def forest(**options) -> RandomForestClassifier:
    return RandomForestClassifier(**{"n_estimators": 60, "random_state": 0, **options})


WEIGHT = np.random.default_rng(1).integers(0, 2, 300).astype(float)


@pytest.mark.parametrize(
    ("fitted", "weight"),
    [
        (forest(), None),
        (forest(max_samples=0.5), None),
        (forest(class_weight="balanced"), None),
        (forest(class_weight="balanced_subsample"), None),
        (forest(class_weight={0: 1.0, 1: 1.5}), WEIGHT + 0.5),
        (forest(), WEIGHT),
        (forest(), 1e-9 * WEIGHT),
        (forest(random_state=None), None),
        (forest(min_samples_leaf=7, max_features=1), None),
        (forest(ccp_alpha=0.01), None),
        (ExtraTreesClassifier(60, bootstrap=True, random_state=0), None),
    ],
    ids=lambda value: str(value) if isinstance(value, BaseEstimator) else "",
)
def test_out_of_bag_probabilities_are_those_of_scikit_learn(fitted, weight):
    fitted.set_params(oob_score=True).fit(X, Y, sample_weight=weight)
    outputs = OutOfBag(fitted, X)
    rows = np.flatnonzero(outputs.has_trees)
    assert len(rows) > 290
    # scikit-learn adds the votes of the trees in the same order, and divides by their number.
    np.testing.assert_allclose(
        outputs.predict("predict_proba", rows), fitted.oob_decision_function_[rows], rtol=1e-12
    )


def test_out_of_bag_proba_after_warm_start_matches_sklearn():
    fitted = forest(n_estimators=30, warm_start=True).fit(X, Y)
    fitted.set_params(n_estimators=60, oob_score=True).fit(X, Y)
    np.testing.assert_allclose(
        OutOfBag(fitted, X).predict("predict_proba", np.arange(300)),
        fitted.oob_decision_function_,
        rtol=1e-12,
    )


def test_out_of_bag_outputs_ignore_parameters_set_after_fit():
    fitted = forest(oob_score=True).fit(X, Y)
    fitted.set_params(random_state=5, max_samples=0.3, n_estimators=5, class_weight="balanced")
    np.testing.assert_allclose(
        OutOfBag(fitted, X).predict("predict_proba", np.arange(300)),
        fitted.oob_decision_function_,
        rtol=1e-12,
    )


@pytest.mark.parametrize("format_of", [csr_array, csc_array, np.asarray])
def test_out_of_bag_rows_may_be_sparse_or_incomplete(format_of):
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    rows = gaps if format_of is np.asarray else X * (X > 0)
    fitted = make_pipeline(FunctionTransformer(format_of), forest(oob_score=True)).fit(rows, Y)
    np.testing.assert_allclose(
        OutOfBag(fitted, rows).predict("predict_proba", np.arange(300)),
        fitted[-1].oob_decision_function_,
        rtol=1e-12,
    )


def test_out_of_bag_trees_are_those_not_fitted_with_weighted_samples():
    weight = np.random.default_rng(0).uniform(size=300)
    fitted = forest().fit(X, Y, sample_weight=weight)
    expected = [~np.isin(np.arange(300), sample) for sample in fitted.estimators_samples_]
    np.testing.assert_array_equal(OutOfBag(fitted, X).is_out, np.stack(expected, axis=1))


@pytest.mark.parametrize("targets", [X[:, 0], X[:, ::-1]], ids=["one target", "two targets"])
def test_out_of_bag_regression_matches_sklearn(targets):
    fitted = RandomForestRegressor(60, oob_score=True, random_state=0).fit(X, targets)
    predicted = OutOfBag(fitted, X).predict("predict", np.arange(300))
    np.testing.assert_allclose(predicted, fitted.oob_prediction_, rtol=1e-12)


def test_out_of_bag_predictions_of_quantile_forests_are_their_own():
    quantile_forest = pytest.importorskip(
        "quantile_forest", reason="the forest is that of quantile-forest"
    )
    fitted = quantile_forest.RandomForestQuantileRegressor(60, oob_score=True, random_state=0)
    predicted = OutOfBag(fitted.fit(X, X[:, 0]), X).predict("predict", np.arange(300))
    np.testing.assert_allclose(predicted, np.ravel(fitted.oob_prediction_), rtol=1e-12)


def test_classifiers_of_several_targets_are_refused_out_of_bag():
    fitted = forest().fit(X, np.column_stack([Y, 1 - Y]))
    with pytest.raises(TypeError, match="predicts 2 targets; out of bag it needs a single one"):
        OutOfBag(fitted, X)


def test_out_of_bag_outputs_pass_through_pipelines():
    pipeline = make_pipeline(StandardScaler(), forest()).fit(X, Y)
    scaled = StandardScaler().fit_transform(X)
    rows = np.arange(0, 300, 7)
    np.testing.assert_array_equal(
        OutOfBag(FrozenEstimator(pipeline), X).predict("predict_proba", rows),
        OutOfBag(forest().fit(scaled, Y), scaled).predict("predict_proba", rows),
    )
    assert is_bagged(pipeline) and not is_bagged(LogisticRegression())


def test_forests_without_bootstrap_are_refused():
    with pytest.raises(ValueError, match="has no out-of-bag rows") as caught:
        ScoreMap(ExtraTreesClassifier(5), calibration="oob").fit(X, Y)
    assert str(caught.value) == (
        "ExtraTreesClassifier has no out-of-bag rows, only a forest with bootstrap=True does; pass"
        " one, or use calibration='cross_fit'"
    )


def test_frozen_forests_need_their_own_rows():
    fitted = FrozenEstimator(forest().fit(X, Y))
    with pytest.raises(DataError, match="these 300 rows fill its leaves otherwise"):
        ScoreMap(fitted, calibration="oob").fit(X[::-1], Y[::-1])
    with pytest.raises(DataError, match="it got 300 rows, not 200"):
        ScoreMap(fitted, calibration="oob").fit(X[:200], Y[:200])


@pytest.mark.parametrize("calibration", ["oob", "cross_fit"])
def test_calibration_rows_are_refused_with_out_of_bag_rows(calibration):
    message = (
        f"calibration={calibration!r} calibrates on the training rows; leave out X_calibration and"
        " y_calibration, or use calibration='held_out'"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        ScoreMap(forest(), calibration=calibration).fit(X, Y, X_calibration=X, y_calibration=Y)


def test_maps_are_fitted_to_out_of_bag_scores():
    fitted = forest(oob_score=True).fit(X, Y)
    model = ScoreMap(forest(), method="isotonic", calibration="oob").fit(X, Y)
    calibrator = ScoreMap(FrozenEstimator(fitted), method="isotonic", calibration="oob").fit(X, Y)
    from sklearn.isotonic import IsotonicRegression

    expected = IsotonicRegression(out_of_bounds="clip", y_min=0, y_max=1).fit(
        fitted.oob_decision_function_[:, 1], Y
    )
    proba = expected.predict(fitted.predict_proba(TEST)[:, 1])
    np.testing.assert_allclose(model.predict_proba(TEST)[:, 1], proba, rtol=1e-12)
    np.testing.assert_array_equal(model.predict_proba(TEST), calibrator.predict_proba(TEST))


@pytest.mark.parametrize("cv", [3, KFold(4), "pairs"])
def test_maps_are_fitted_to_the_scores_of_other_folds(cv):
    parent = LogisticRegression()
    splits = list(StratifiedKFold(3).split(X, Y)) if cv == "pairs" else cv
    model = ScoreMap(parent, method="sigmoid", calibration="cross_fit", cv=splits, random_state=0)
    model.fit(X, Y)
    if isinstance(splits, int):
        fold = draw_folds_of_rows(300, splits, Y, 0)
        splits = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(3)]
    scores = cross_val_predict(parent, X, Y, cv=splits, method="decision_function")
    from sklearn.calibration import _SigmoidCalibration

    expected = _SigmoidCalibration().fit(scores, Y)
    final = parent.fit(X, Y)
    np.testing.assert_allclose(
        model.predict_proba(TEST)[:, 1], expected.predict(final.decision_function(TEST)), rtol=1e-12
    )


def test_cross_fitted_parents_are_not_fitted_again():
    class CountingParent(LogisticRegression):
        n_fits = 0

        def fit(self, X, y, sample_weight=None):
            CountingParent.n_fits += 1
            return super().fit(X, y, sample_weight)

    fold = draw_folds_of_rows(300, 3, Y, 0)
    parents = [CountingParent().fit(X[fold != f], Y[fold != f]) for f in range(3)]
    shared = CrossFitted(CountingParent().fit(X, Y), parents, fold)
    plain = ScoreMap(CountingParent(), calibration="cross_fit", cv=3, random_state=0).fit(X, Y)
    n_fits = CountingParent.n_fits
    model = ScoreMap(shared, calibration="cross_fit").fit(X, Y)
    assert CountingParent.n_fits == n_fits
    np.testing.assert_array_equal(model.predict_proba(TEST), plain.predict_proba(TEST))
    assert not isinstance(model.estimator_, CrossFitted)
    with pytest.raises(ValueError, match="the folds of the CrossFitted parent have 300 rows"):
        ScoreMap(shared, calibration="cross_fit").fit(X[:-1], Y[:-1])


@pytest.mark.parametrize("y", [Y, None], ids=["classes", "regression"])
def test_a_single_fold_has_a_part_of_the_rows(y):
    fold = draw_folds_of_rows(300, 1, y, 0, 0.2)
    assert np.unique(fold).tolist() == [-1, 0] and (fold == 0).sum() == 60


def test_a_single_fold_calibrates_and_all_rows_train():
    model = ScoreMap(
        LogisticRegression(), method="temperature", calibration="cross_fit", cv=1, random_state=0
    ).fit(X, Y)
    fold = draw_folds_of_rows(300, 1, Y, 0, 0.3)
    inner = LogisticRegression().fit(X[fold < 0], Y[fold < 0])
    held_out = ScoreMap(FrozenEstimator(inner), method="temperature").fit(
        X[fold < 0], Y[fold < 0], X_calibration=X[fold == 0], y_calibration=Y[fold == 0]
    )
    scale = held_out.calibrated_.calibrated_classifiers_[0].calibrators[0].beta_
    own = model.calibrated_.calibrated_classifiers_[0].calibrators[0].beta_
    assert own == pytest.approx(scale, rel=1e-6)  # the accuracy of its minimiser
    final = LogisticRegression().fit(X, Y)
    np.testing.assert_array_equal(model.estimator_.coef_, final.coef_)
    assert np.isnan(model.out_of_sample_proba_[fold < 0]).all()
    assert np.isfinite(model.out_of_sample_proba_[fold == 0]).all()


def test_folds_that_miss_a_row_are_refused():
    with pytest.raises(ValueError, match="2 of 4 rows are in none or in several"):
        draw_folds_of_rows(4, [([0, 1, 2], [3]), ([0, 2, 3], [1])], None, 0)


def test_classes_missing_from_a_fold_have_probability_0():
    y = Y.copy()
    y[:2] = 2
    parent = GaussianNB()
    fold = (np.arange(300) >= 150).astype(int)
    fitted = [clone(parent).fit(X[fold != f], y[fold != f]) for f in range(2)]
    outputs = CrossFittedOutputs(fitted, fold, X, np.arange(3), select_rows)
    own = outputs.predict("predict_proba", np.arange(300))
    np.testing.assert_array_equal(own[:150, 2], np.zeros(150))
    np.testing.assert_array_equal(own[:150, :2], fitted[0].predict_proba(X[:150]))
    np.testing.assert_array_equal(own[150:], fitted[1].predict_proba(X[150:]))


def test_logits_of_a_fold_without_a_class_are_refused():
    y = Y.copy()
    y[:2] = 2
    pairs = [(np.arange(150, 300), np.arange(150)), (np.arange(150), np.arange(150, 300))]
    with pytest.raises(ValueError, match="decision_function has no value") as caught:
        ScoreMap(LogisticRegression(), method="temperature", calibration="cross_fit", cv=pairs).fit(
            X, y
        )
    assert str(caught.value) == (
        "decision_function has no value for classes [2], of which the rows outside of a fold have"
        " no row; use fewer folds, or leave out rare classes"
    )


@pytest.mark.parametrize("calibration", ["oob", "cross_fit"])
def test_weights_and_groups_go_along(calibration):
    weight = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    model = ScoreMap(forest(), calibration=calibration, cv=3, random_state=0)
    mask = weight > 0
    np.testing.assert_array_equal(
        clone(model).fit(X, Y, weight).predict_proba(TEST),
        clone(model).fit(X[mask], Y[mask], weight[mask]).predict_proba(TEST),
    )
    assert not np.array_equal(
        clone(model).fit(X, Y, weight).predict_proba(TEST),
        clone(model).fit(X, Y).predict_proba(TEST),
    )


@pytest.mark.parametrize("calibration", others_slow(["oob", "cross_fit"]))
@pytest.mark.parametrize(
    "model",
    [
        KernelDensityForest(forest(), random_state=0),
        ScoreMap(forest(), random_state=0),
        DensityGate(ScoreMap(forest()), max_mean_shift=0.02, random_state=0),
        ScoreMap(KernelDensityForest(forest()), random_state=0),
    ],
    ids=["kdf", "map", "gate of map", "map of kdf"],
)
def test_outputs_of_training_rows_are_as_good_as_of_new_rows(model, calibration):
    """A calibrator behind another one, or a gate, reads outputs like those of new rows."""
    X_big, y_big = make_moons(800, noise=0.35, random_state=2)
    X_new, y_new = make_moons(4000, noise=0.35, random_state=3)
    model = clone(model).set_params(calibration=calibration, cv=4).fit(X_big, y_big)
    rows = Rows.unweighted(X_big, y_big)
    own = model._out_of_sample_outputs(rows).predict("predict_proba", np.arange(800))

    def nll(proba, y):
        return -np.log(np.maximum(proba[np.arange(len(y)), y], 1e-6)).mean()

    in_sample, new = nll(model.predict_proba(X_big), y_big), nll(model.predict_proba(X_new), y_new)
    # The standard error of the mean NLL of 800 rows is below .03 here; memorised rows would differ
    # by .2, as the forest's own predictions of its training rows do.
    assert abs(nll(own, y_big) - new) < 0.09
    assert in_sample < new - 0.05


@pytest.mark.parametrize("calibration", ["oob", "cross_fit"])
def test_a_calibrator_that_reads_memorised_outputs_is_refused(calibration):
    @dataclass(eq=False, repr=False)
    class Careless(PostHocClassifier):
        def _fit_after(self, train, calibration):
            self.weight_ = self.estimator_.predict_proba(calibration.X).max(axis=1).mean()

        def predict_proba(self, X):
            return self.estimator_.predict_proba(X)

    with pytest.raises(TypeError, match="Careless does not support calibration="):
        Careless(forest(), calibration=calibration).fit(X, Y)
    assert Careless(forest(), random_state=0).fit(X, Y).weight_ > 0.5


def test_outputs_of_a_calibrator_that_held_rows_out_are_refused():
    inner = ScoreMap(forest(), random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="fit ScoreMap to the same rows with calibration='oob'"):
        ScoreMap(FrozenEstimator(inner), calibration="oob").fit(X, Y)


@pytest.mark.parametrize("inner", [ScoreMap(forest()), KernelDensityForest(forest())], ids=str)
@pytest.mark.parametrize("calibration", others_slow(["oob", "cross_fit"]))
def test_calibrators_in_a_chain_read_the_transformed_rows(inner, calibration):
    options = {"calibration": calibration, "cv": 3, "random_state": 0}
    inner = clone(inner).set_params(**options)
    scaler = StandardScaler().fit(X)
    behind = ScoreMap(make_pipeline(scaler, inner), **options).fit(X, Y)
    expected = ScoreMap(inner, **options).fit(scaler.transform(X), Y)
    np.testing.assert_array_equal(
        behind.predict_proba(TEST), expected.predict_proba(scaler.transform(TEST))
    )


def test_outputs_of_other_rows_than_those_of_a_fit_are_refused():
    """A frozen calibrator has outputs of its own rows, which other rows must not get."""
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "up", "down")})
    encoder = make_column_transformer((OneHotEncoder(), ["b"]), remainder="passthrough")
    for rows in (X, frame):
        parent = LogisticRegression() if rows is X else make_pipeline(encoder, LogisticRegression())
        inner = FrozenEstimator(ScoreMap(parent, calibration="cross_fit", cv=2).fit(rows, Y))
        model = ScoreMap(inner, calibration="cross_fit")
        assert model.fit(rows, Y).predict_proba(rows).shape == (300, 2)
        with pytest.raises(ValueError, match="ScoreMap has no probabilities of these 300 rows"):
            model.fit(rows[::-1], Y[::-1])


@pytest.mark.parametrize("calibration", others_slow(["oob", "cross_fit"]))
@pytest.mark.parametrize(
    "detector",
    [
        Entropy(forest()),
        GraphDensity(forest()),
        GraphDensity(forest(), distance="geodesic"),
        KthNeighbourDistance(),
        KthNeighbourDistance(forest()),
        LeafBox(forest()),
        LeafBox(forest(), measure="distance"),
        LeafOccupancy(forest(), labels="shuffled"),
        LeafOccupancy(forest(min_samples_leaf=10)),
        LeafOccupancy(forest(max_depth=3), scale="log"),
    ],
    ids=[
        "entropy",
        "density",
        "geodesic density",
        "neighbours",
        "neighbours behind a forest",
        "leaf box",
        "distance to a leaf box",
        "full leaves",
        "large leaves",
        "flat trees",
    ],
)
def test_thresholds_keep_the_share_of_new_rows(detector, calibration):
    new = make_moons(2000, noise=0.35, random_state=5)[0]
    detector = clone(detector).set_params(
        calibration=calibration, target_fpr=0.1, random_state=0, cv=4
    )
    y = None if detector.estimator is None else Y
    rejected = float((detector.fit(X, y).predict(new) == -1).mean())
    # The threshold is a rank among 300 scores: a standard deviation of .017, and less rows in a
    # fold than in the end make it cautious.
    assert 0.02 < rejected < 0.16


class CountingForest(RandomForestClassifier):
    """Forest that counts its fits."""

    n_fits = 0

    def fit(self, X, y, sample_weight=None):
        CountingForest.n_fits += 1
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize(
    ("detector", "n_fits"),
    [
        (LeafBox, 1),
        (LeafOccupancy, 1),
        (GraphDensity, 1),
        (ForestScoreEnsemble, 1),
        (Entropy, 1),
        (KthNeighbourDistance, 1),
        (GeodesicDistance, 5),
    ],
)
def test_detectors_fit_no_forest_out_of_bag_without_a_warning(detector, n_fits):
    CountingForest.n_fits = 0
    detector = detector(CountingForest(20), calibration="oob", cv=4, random_state=0)
    if n_fits == 1:
        detector.fit(X, Y)
    else:
        with pytest.warns(UserWarning, match="cannot go out of bag") as caught:
            detector.fit(X, Y)
        assert str(caught[0].message) == (
            "GeodesicDistance cannot go out of bag behind CountingForest: calibration='oob' fits it"
            " 4 more times, on folds, as 'cross_fit' does"
        )
        assert Path(caught[0].filename).name == Path(__file__).name
    assert CountingForest.n_fits == n_fits


def test_out_of_bag_boxes_are_of_other_in_bag_rows():
    fitted = forest(n_estimators=15).fit(X, Y)
    detector = LeafBox(FrozenEstimator(fitted), min_samples=1, calibration="oob").fit(X, Y)
    is_out, leaves, own = OutOfBag(fitted, X).is_out, fitted.apply(X), np.zeros(300)
    single = X.astype(np.float32)  # as the trees read rows
    for i in np.flatnonzero(is_out.any(axis=1)):
        outside = []
        for t in np.flatnonzero(is_out[i]):
            box = single[(leaves[:, t] == leaves[i, t]) & ~is_out[:, t]]
            outside.append((single[i] < box.min(axis=0)) | (single[i] > box.max(axis=0)))
        own[i] = -np.mean(outside)
    expected = np.sort(own[is_out.any(axis=1)])
    np.testing.assert_allclose(detector.calibration_scores_, expected, rtol=1e-12)


@pytest.mark.parametrize("scale", ["fraction", "log"])
def test_out_of_bag_occupancy_counts_other_rows(scale):
    fitted = forest(n_estimators=15).fit(X, Y)
    detector = LeafOccupancy(FrozenEstimator(fitted), scale=scale, calibration="oob").fit(X, Y)
    is_out, leaves = OutOfBag(fitted, X).is_out, fitted.apply(X)
    others = (leaves[:, None] == leaves).sum(axis=1) - 1
    value = others / 299 if scale == "fraction" else np.log(np.maximum(others, 0.5) / 299)
    expected = [value[i, is_out[i]].mean() for i in np.flatnonzero(is_out.any(axis=1))]
    np.testing.assert_allclose(detector.calibration_scores_, np.sort(expected), rtol=1e-12)


def test_frames_with_categories_are_calibrated_out_of_bag():
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    pipeline = make_pipeline(StandardScaler(), forest())
    for calibration in ("oob", "cross_fit"):
        model = ScoreMap(pipeline, calibration=calibration, cv=3, random_state=0)
        expected = clone(model).fit(X, Y).predict_proba(TEST)
        got = clone(model).fit(frame, Y).predict_proba(pd.DataFrame(TEST, columns=["a", "b"]))
        np.testing.assert_array_equal(got, expected)
