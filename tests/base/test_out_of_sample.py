"""Outputs of parents for their training rows, out of bag and by cross-fitting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdgraph import DensityGate, KernelDensityForest
from kdgraph.base import PostHocClassifier, Rows, select_rows
from kdgraph.base.out_of_sample import (
    CrossFitted,
    CrossFittedOutputs,
    OutOfBag,
    draw_folds_of_rows,
    is_bagged,
    out_of_bag_trees,
)
from kdgraph.calibration import ScoreMap
from kdgraph.detection import Entropy, GraphDensity, KthNeighbourDistance, LeafBox

X, Y = make_moons(300, noise=0.35, random_state=0)
TEST = make_moons(100, noise=0.35, random_state=1)[0]


def forest(**options) -> RandomForestClassifier:
    return RandomForestClassifier(**{"n_estimators": 60, "random_state": 0, **options})


@pytest.mark.parametrize("options", [{}, {"max_samples": 0.5}, {"class_weight": "balanced"}])
def test_out_of_bag_probabilities_are_those_of_scikit_learn(options):
    fitted = forest(oob_score=True, **options).fit(X, Y)
    outputs = OutOfBag(fitted, X)
    assert outputs.has_trees.all()
    # scikit-learn adds the votes of the trees in the same order, and divides by their number.
    np.testing.assert_allclose(
        outputs.predict("predict_proba", np.arange(300)), fitted.oob_decision_function_, rtol=1e-12
    )


def test_out_of_bag_trees_are_those_not_fitted_with_weighted_samples():
    weight = np.random.default_rng(0).uniform(size=300)
    fitted = forest().fit(X, Y, sample_weight=weight)
    expected = [~np.isin(np.arange(300), sample) for sample in fitted.estimators_samples_]
    np.testing.assert_array_equal(out_of_bag_trees(fitted, 300), np.stack(expected, axis=1))


def test_out_of_bag_predictions_of_regressors_are_those_of_scikit_learn():
    fitted = RandomForestRegressor(60, oob_score=True, random_state=0).fit(X, X[:, 0])
    predicted = OutOfBag(fitted, X).predict("predict", np.arange(300))
    np.testing.assert_allclose(predicted, fitted.oob_prediction_, rtol=1e-12)


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
    with pytest.raises(ValueError, match="in their order, got 300 other rows"):
        ScoreMap(fitted, calibration="oob").fit(X[::-1], Y[::-1])
    with pytest.raises(ValueError, match=r"was fitted on more than 200 rows|200 other rows"):
        ScoreMap(fitted, calibration="oob").fit(X[:200], Y[:200])


@pytest.mark.parametrize("calibration", ["oob", "cross_fit"])
def test_calibration_rows_are_refused_where_training_rows_calibrate(calibration):
    with pytest.raises(ValueError, match="leave out X_calibration") as caught:
        ScoreMap(forest(), calibration=calibration).fit(X, Y, X_calibration=X, y_calibration=Y)
    assert str(caught.value) == (
        f"calibration={calibration!r} calibrates on the training rows; leave out X_calibration and"
        " y_calibration, or use calibration='held_out'"
    )


def test_maps_are_fitted_to_out_of_bag_scores():
    fitted = forest(oob_score=True).fit(X, Y)
    model = ScoreMap(forest(), method="isotonic", calibration="oob").fit(X, Y)
    given = ScoreMap(FrozenEstimator(fitted), method="isotonic", calibration="oob").fit(X, Y)
    from sklearn.isotonic import IsotonicRegression

    expected = IsotonicRegression(out_of_bounds="clip", y_min=0, y_max=1).fit(
        fitted.oob_decision_function_[:, 1], Y
    )
    proba = expected.predict(fitted.predict_proba(TEST)[:, 1])
    np.testing.assert_allclose(model.predict_proba(TEST)[:, 1], proba, rtol=1e-12)
    np.testing.assert_array_equal(model.predict_proba(TEST), given.predict_proba(TEST))


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


@pytest.mark.parametrize("calibration", ["oob", "cross_fit"])
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
def test_own_outputs_of_training_rows_are_as_good_as_those_of_new_rows(model, calibration):
    """A calibrator behind another one, or a gate, sees what new rows will have."""
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


@pytest.mark.parametrize("calibration", ["oob", "cross_fit"])
@pytest.mark.parametrize(
    "detector",
    [
        Entropy(forest()),
        GraphDensity(forest()),
        GraphDensity(forest(), distance="geodesic"),
        KthNeighbourDistance(),
        LeafBox(forest()),
    ],
    ids=["entropy", "density", "geodesic density", "neighbours", "leaf box"],
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


def test_frames_with_categories_are_calibrated_out_of_bag():
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    pipeline = make_pipeline(StandardScaler(), forest())
    for calibration in ("oob", "cross_fit"):
        model = ScoreMap(pipeline, calibration=calibration, cv=3, random_state=0)
        expected = clone(model).fit(X, Y).predict_proba(TEST)
        got = clone(model).fit(frame, Y).predict_proba(pd.DataFrame(TEST, columns=["a", "b"]))
        np.testing.assert_array_equal(got, expected)
