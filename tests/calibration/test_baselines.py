"""The baselines against scikit-learn's own classes, fitted on the same rows."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_expit, log_softmax, logit, softmax
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from kdgraph.base import Rows
from kdgraph.calibration import ScoreMap, Uncalibrated
from kdgraph.calibration.baselines import apply_score_map, fit_score_map


@pytest.fixture(scope="module", params=[2, 3], ids=["two classes", "three classes"])
def rows(request):
    """Return X, y, X_calibration, y_calibration and X_test; labels are strings."""
    rng = np.random.default_rng(request.param)
    y = rng.integers(request.param, size=400)
    X = rng.normal(0, 1, (400, 3)) + np.eye(3)[y]
    labels = np.array(["ash", "birch", "cedar"])[y]
    return X[:200], labels[:200], X[200:300], labels[200:300], X[300:]


def fit(model, rows, **options):
    X, y, X_calibration, y_calibration, _ = rows
    return model.fit(X, y, X_calibration=X_calibration, y_calibration=y_calibration, **options)


@pytest.fixture(scope="module")
def parent(rows):
    return RandomForestClassifier(20, min_samples_leaf=3, random_state=0, n_jobs=1).fit(*rows[:2])


@pytest.mark.parametrize("method", ["isotonic", "sigmoid"])
def test_maps_equal_scikit_learn_on_the_calibration_rows(rows, parent, method):
    _, _, X_calibration, y_calibration, test = rows
    expected = CalibratedClassifierCV(FrozenEstimator(parent), method=method, ensemble=False).fit(
        X_calibration, y_calibration
    )
    model = fit(ScoreMap(FrozenEstimator(parent), method=method), rows)
    assert np.array_equal(model.predict_proba(test), expected.predict_proba(test))
    assert np.array_equal(model.predict(test), expected.predict(test))
    refitted = fit(ScoreMap(clone(parent), method=method), rows)
    assert np.array_equal(refitted.predict_proba(test), expected.predict_proba(test))
    assert not np.array_equal(model.predict_proba(test), parent.predict_proba(test))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("n_classes", "method", "response"),
    [
        *product([2, 3], ["isotonic", "sigmoid", "temperature"], ["predict_proba"]),
        *product([2, 3], ["isotonic", "sigmoid", "temperature"], ["decision_function"]),
        *product([3], ["isotonic", "sigmoid"], ["log_odds"]),
    ],
)
def test_maps_are_applied_as_scikit_learn_applies_them(n_classes, method, response, dtype):
    """To the bit, also where all maps of a row are 0, and one row like many."""
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (300, n_classes))
    y = np.where(rng.random(300) < 0.3, rng.integers(n_classes, size=300), logits.argmax(axis=1))
    scores = softmax(logits, axis=1) if response == "predict_proba" else logits
    if response == "decision_function" and n_classes == 2:
        scores = logits[:, 1] - logits[:, 0]
    if response == "predict_proba" and n_classes == 3:
        scores[-1] = 0.0  # below every step of the isotonic maps
    scores = scores.astype(dtype)
    rows = Rows.unweighted(scores[:200], y[:200])
    maps = fit_score_map(method, scores[:200], rows, np.arange(n_classes), response)
    expected = maps.predict_proba(scores)
    np.testing.assert_array_equal(apply_score_map(maps, scores), expected)
    np.testing.assert_array_equal(
        apply_score_map(maps, scores[-1:]), maps.predict_proba(scores[-1:])
    )


def one_against_rest_by_loops(
    method: str, proba: np.ndarray, y: np.ndarray, test: np.ndarray
) -> np.ndarray:
    """Return normalised maps of the log odds of each class against the rest.

    "sigmoid" uses Platt's targets.
    """

    def mapped(p: np.ndarray, target_class: np.ndarray, new: np.ndarray) -> np.ndarray:
        if method == "isotonic":
            return (
                IsotonicRegression(out_of_bounds="clip")
                .fit(logit(p), target_class)
                .predict(logit(new))
            )
        hits, n = target_class.sum(), len(target_class)
        target = np.where(target_class, (hits + 1) / (hits + 2), 1 / (n - hits + 2))

        def loss(ab):
            z = ab[0] * logit(p) + ab[1]
            return -np.sum(target * log_expit(z) + (1 - target) * log_expit(-z))

        slope, offset = minimize(
            loss, [1.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10}
        ).x
        return expit(slope * logit(new) + offset)

    columns = [mapped(proba[:, c], y == c, test[:, c]) for c in range(proba.shape[1])]
    return np.stack(columns, axis=1) / np.sum(columns, axis=0)[:, None]


@pytest.mark.parametrize("method", ["isotonic", "sigmoid"])
def test_maps_of_a_parent_with_logits_are_one_against_rest(rows, method):
    """Two optimisers of one convex loss agree to 1e-4."""
    X, y, X_calibration, y_calibration, test = rows
    parent = LogisticRegression(C=100).fit(X, y)
    predicted = fit(ScoreMap(FrozenEstimator(parent), method=method), rows).predict_proba(test)
    labels = np.searchsorted(parent.classes_, y_calibration)
    expected = one_against_rest_by_loops(
        method, parent.predict_proba(X_calibration), labels, parent.predict_proba(test)
    )
    np.testing.assert_allclose(predicted, expected, atol=1e-4)


class ShiftedLogits(LogisticRegression):
    """Classifier whose logits are shifted by a number for each row, with the same probabilities."""

    def decision_function(self, X):
        logits = super().decision_function(X)
        return logits if logits.ndim == 1 else logits + 5 * np.sin(9 * np.asarray(X))[:, :1]


@pytest.mark.parametrize("method", ["isotonic", "sigmoid", "temperature"])
def test_maps_are_invariant_to_a_shift_of_all_logits_of_a_row(rows, method):
    """The tolerance is the rounding of a softmax of shifted logits."""
    plain, raised = (
        fit(ScoreMap(parent_class(C=100), method=method), rows).predict_proba(rows[4])
        for parent_class in (LogisticRegression, ShiftedLogits)
    )
    np.testing.assert_allclose(raised, plain, atol=1e-6)


def test_parent_is_fitted_to_training_rows_only(rows, parent):
    model = fit(ScoreMap(clone(parent)), rows)
    assert np.array_equal(model.estimator_.predict_proba(rows[4]), parent.predict_proba(rows[4]))


def test_uncalibrated_is_the_parent(rows, parent):
    for model in (Uncalibrated(FrozenEstimator(parent)), Uncalibrated(clone(parent))):
        assert np.array_equal(
            fit(model, rows).predict_proba(rows[4]), parent.predict_proba(rows[4])
        )
        assert np.array_equal(model.predict(rows[4]), parent.predict(rows[4]))


@pytest.mark.filterwarnings("ignore:.*X_calibration=")  # the calibration rows are training rows
def test_weights_reach_parents_and_maps(rows, parent):
    X, y, _, _, test = rows
    weight = np.random.default_rng(0).uniform(0.5, 2, 200)
    weighted_parent = clone(parent).fit(X, y, sample_weight=weight)
    assert np.array_equal(
        fit(Uncalibrated(clone(parent)), rows, sample_weight=weight).predict_proba(test),
        weighted_parent.predict_proba(test),
    )
    held_out = ScoreMap(FrozenEstimator(parent), random_state=0)
    plain = clone(held_out).fit(X, y).predict_proba(test)
    assert not np.array_equal(held_out.fit(X, y, sample_weight=weight).predict_proba(test), plain)


def test_any_classifier_can_be_a_parent(rows):
    X, y, X_calibration, y_calibration, test = rows
    expected = CalibratedClassifierCV(
        FrozenEstimator(GaussianNB().fit(X, y)), method="sigmoid", ensemble=False
    )
    model = fit(ScoreMap(GaussianNB(), method="sigmoid"), rows)
    assert np.array_equal(
        model.predict_proba(test), expected.fit(X_calibration, y_calibration).predict_proba(test)
    )


@pytest.mark.parametrize("model", [Uncalibrated, ScoreMap])
def test_pickle_and_seed_reproduce_predictions(rows, model):
    first = model(RandomForestClassifier(5), random_state=0).fit(*rows[:2])
    unpickled = pickle.loads(pickle.dumps(first))
    same = model(RandomForestClassifier(5), random_state=0).fit(*rows[:2])
    for copy in (unpickled, same):
        assert np.array_equal(copy.predict_proba(rows[4]), first.predict_proba(rows[4]))


@pytest.mark.parametrize("method", ["isotonic", "sigmoid", "temperature"])
def test_maps_on_incomplete_data_frames_equal_scikit_learn(rows, method):
    X, y, X_calibration, y_calibration, test = (
        np.where(part < -1, np.nan, part) if part.ndim == 2 else part for part in rows
    )
    assert np.isnan(test).any() and np.isnan(X_calibration).any()
    X, X_calibration, test = (
        pd.DataFrame(part, columns=["a", "b", "c"]) for part in (X, X_calibration, test)
    )
    numbers = ColumnTransformer([("numbers", SimpleImputer(), ["c", "a"])])
    parent = FrozenEstimator(
        make_pipeline(numbers, RandomForestClassifier(10, random_state=0)).fit(X, y)
    )
    expected = CalibratedClassifierCV(parent, method=method, ensemble=False).fit(
        X_calibration, y_calibration
    )
    model = ScoreMap(parent, method=method).fit(
        X, y, X_calibration=X_calibration, y_calibration=y_calibration
    )
    assert np.array_equal(model.predict_proba(test), expected.predict_proba(test))


def test_map_requires_calibration_rows_of_every_class(rows, parent):
    X, y, X_calibration, y_calibration, _ = rows
    mask = y_calibration != "birch"
    with pytest.raises(ValueError, match="calibration needs") as caught:
        ScoreMap(FrozenEstimator(parent)).fit(
            X, y, X_calibration=X_calibration[mask], y_calibration=y_calibration[mask]
        )
    assert (
        str(caught.value)
        == "isotonic calibration needs rows of every class, the calibration rows have none of"
        " ['birch']; fit it to more rows, of which some are held out, or pass X_calibration and"
        " y_calibration"
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_temperature_requires_rows_of_two_classes_only(weighted):
    """The temperature is the optimum of the likelihood, which scipy finds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    y = (X @ rng.normal(size=(3, 4)) * 2 + rng.gumbel(size=(900, 4))).argmax(axis=1)
    parent = LogisticRegression(C=0.02).fit(X[:400], y[:400])
    subset = np.flatnonzero(y[400:] != 2) + 400
    weight = rng.uniform(0.5, 2, len(subset)) if weighted else np.ones(len(subset))
    calibration = {
        "X_calibration": X[subset],
        "y_calibration": y[subset],
        "sample_weight_calibration": weight,
    }
    model = ScoreMap(FrozenEstimator(parent), method="temperature").fit(X, y, **calibration)

    def nll(log_beta: float) -> float:
        log_p = log_softmax(np.exp(log_beta) * parent.decision_function(X[subset]), axis=1)
        return -np.average(log_p[np.arange(len(subset)), y[subset]], weights=weight)

    beta = np.exp(minimize_scalar(nll, bounds=(-10, 10), options={"xatol": 1e-12}).x)
    expected = softmax(beta * parent.decision_function(X), axis=1)
    np.testing.assert_allclose(
        model.predict_proba(X), expected, atol=1e-6
    )  # a minimum is accurate to the square root of the precision


def test_unknown_method_is_refused(rows):
    with pytest.raises(ValueError, match="method must") as caught:
        ScoreMap(LogisticRegression(), method="platt").fit(*rows[:2])
    assert str(caught.value) == "method must be one of isotonic, sigmoid, temperature, got 'platt'"


@pytest.mark.parametrize("method", ["temperature", "sigmoid", "isotonic"])
@pytest.mark.parametrize("labels", [[1, 2], [-5, 7], ["no", "yes"]])
def test_maps_do_not_depend_on_the_names_of_classes(method, labels):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), np.zeros(200, int)
    y[X[:, 0] + rng.normal(size=200) > 0] = 1
    parent = RandomForestClassifier(20, random_state=0)
    expected = ScoreMap(parent, method=method, random_state=0).fit(X, y)
    named = ScoreMap(parent, method=method, random_state=0).fit(X, np.array(labels)[y])
    np.testing.assert_array_equal(named.predict_proba(X), expected.predict_proba(X))
    assert named.classes_.tolist() == labels
