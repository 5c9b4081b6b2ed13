"""The choice among calibrators of top-label confidence, against a loop over folds."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from scipy.stats import ttest_rel
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from kdgraph.calibration import ScoreMap
from kdgraph.calibration.top_label import (
    BestConfidence,
    BetaCalibration,
    ClassPrecision,
    CrossFittedConfidence,
    HistogramBinning,
    IsotonicConfidence,
    TemperatureScaling,
)
from kdgraph.calibration.top_label.base import draw_folds
from kdgraph.config import compose
from kdgraph.config.components import build
from kdgraph.density import DensityGate
from kdgraph.errors import ParameterError
from kdgraph.parents import PrecomputedScores
from tests.variations import others_slow

CANDIDATES = {
    "sts": TemperatureScaling(None),
    "precision": ClassPrecision(None),
    "histogram": HistogramBinning(None, pool=10.0),
}
NAMES = ("none", *CANDIDATES)


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(900, 8, n_informative=4, n_classes=3, random_state=0)
    return X[:500], y[:500], X[500:700], y[500:700], X[700:]


@pytest.fixture(scope="module")
def parent(rows):
    return FrozenEstimator(RandomForestClassifier(40, random_state=0).fit(*rows[:2]))


class SinglePrecisionScores(PrecomputedScores):
    """Scores without a check of their sums, as a network has them."""

    def predict_proba(self, X):
        return np.asarray(X, dtype=np.float32)


def cross_validated_losses(parent, name, X, y, seed) -> np.ndarray:
    """Return cross-validated losses by row, behind the parent itself instead of its scores."""
    proba = parent.predict_proba(X)
    right = proba.argmax(axis=1) == y
    fold, confidence = (
        draw_folds(proba.argmax(axis=1), right, 5, np.random.RandomState(seed)),
        proba.max(axis=1),
    )
    for f in range(5):
        is_train, is_test = fold != f, fold == f
        if name != "none":
            model = type(CANDIDATES[name])(**{**CANDIDATES[name].get_params(), "estimator": parent})
            model.fit(
                X[is_train], y[is_train], X_calibration=X[is_train], y_calibration=y[is_train]
            )
            n = is_train.sum()
            confidence[is_test] = (n * model.predict_confidence(X[is_test]) + 0.5) / (n + 1)
    clipped = np.clip(confidence, 1e-12, 1 - 1e-12)
    return -np.log(np.where(right, clipped, 1 - clipped))


def fit_selection(parent, rows, **options) -> BestConfidence:
    X, y, X_calibration, y_calibration, _ = rows
    options = {"candidates": CANDIDATES, "random_state": 3, **options}
    return BestConfidence(parent, **options).fit(
        X, y, X_calibration=X_calibration, y_calibration=y_calibration
    )


def test_candidate_with_the_least_cross_validated_nll_is_used(parent, rows):
    best = fit_selection(parent, rows)
    expected = {name: cross_validated_losses(parent, name, *rows[2:4], 3).mean() for name in NAMES}
    assert best.nll_ == pytest.approx(expected, rel=1e-9)
    assert best.chosen_ == min(expected, key=expected.get) != "none"
    reference = type(CANDIDATES[best.chosen_])(
        **{**CANDIDATES[best.chosen_].get_params(), "estimator": parent}
    )
    reference.fit(*rows[:2], X_calibration=rows[2], y_calibration=rows[3])
    np.testing.assert_allclose(
        best.predict_confidence(rows[4]),
        (200 * reference.predict_confidence(rows[4]) + 0.5) / 201,
        atol=1e-12,
    )
    np.testing.assert_array_equal(best.predict(rows[4]), parent.predict(rows[4]))
    assert best.describe() == {
        "chosen": best.chosen_,
        "calibration_nll": best.nll_[best.chosen_],
        "nll": best.nll_,
    }


def test_default_is_kept_unless_another_candidate_is_clearly_better(parent, rows):
    without_default = fit_selection(parent, rows)
    evidence = ttest_rel(
        cross_validated_losses(parent, "none", *rows[2:4], 3),
        cross_validated_losses(parent, without_default.chosen_, *rows[2:4], 3),
    ).statistic
    for margin, chosen in ((evidence - 0.1, without_default.chosen_), (evidence + 0.1, "none")):
        best = fit_selection(parent, rows, default="none", margin=margin)
        assert best.chosen_ == chosen
        assert best.evidence_ == pytest.approx(evidence, rel=1e-9)


def test_calibrated_parent_is_unchanged():
    """The other candidate ignores the score."""
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 1.0, size=2000)
    X, y = np.stack([s, 1 - s], axis=1), (rng.random(2000) > s).astype(int)
    parent = FrozenEstimator(PrecomputedScores().fit(X))
    best = BestConfidence(parent, candidates={"precision": ClassPrecision(None)}, random_state=0)
    best.fit(X, y, X_calibration=X, y_calibration=y)
    assert best.chosen_ == "none" and best.calibrated_ is None
    np.testing.assert_array_equal(best.predict_confidence(X), s)


def calibrated_scores(n, seed):
    """Return scores of two classes that are calibrated, and labels."""
    rng = np.random.default_rng(seed)
    top = rng.beta(6, 1, size=n) / 2 + 0.5
    s = np.where(rng.random(n) < 0.5, top, 1 - top)
    return np.stack([s, 1 - s], axis=1), (rng.random(n) > s).astype(int)


@pytest.mark.parametrize("min_rows", others_slow([100, 0]))
@pytest.mark.filterwarnings("ignore:.*the (confidence|temperature) there is")
@pytest.mark.filterwarnings("ignore:fewer than two calibration rows are correct, or incorrect")
def test_choice_on_few_rows_costs_little(min_rows):
    """The parent is calibrated, so that every other choice is worse."""
    n, excess = 25, []
    X_test, y_test = calibrated_scores(20_000, 1000)
    is_correct = X_test.argmax(axis=1) == y_test

    def mean_nll(confidence):
        clipped = np.clip(confidence, 1e-12, 1 - 1e-12)
        return -np.log(np.where(is_correct, clipped, 1 - clipped)).mean()

    candidates = {
        "sts": TemperatureScaling(None),
        "beta": BetaCalibration(None),
        "histogram": HistogramBinning(None),
    }
    for seed in range(40):
        X, y = calibrated_scores(n, seed)
        parent = FrozenEstimator(PrecomputedScores().fit(X, y))
        best = BestConfidence(parent, candidates=candidates, min_rows=min_rows, random_state=0)
        best.fit(X, y, X_calibration=X, y_calibration=y)
        excess.append(mean_nll(best.predict_confidence(X_test)) - mean_nll(X_test.max(axis=1)))
    # A row more costs at most log((n + 1) / n) < 1 / n. One fitted parameter costs chi² / (2 n) with
    # one degree of freedom: 1 / (2 n) on average, and less than 10.8 / (2 n) in 999 of 1,000 fits.
    if min_rows:
        assert np.max(excess) < (10.8 / 2 + 1) / n
        assert np.mean(excess) < 1.5 / n
    # Curves with several parameters can be worse, but the bound holds: 0 and 1 are not predicted,
    # so an incorrect row costs at most log(2 (n + 1)) = 4 nats instead of 27.6.
    assert np.max(excess) < np.log(2 * (n + 1)) * (~is_correct).mean()


def test_curves_of_several_parameters_need_enough_rows(parent, rows):
    X, y, X_calibration, y_calibration, _ = rows
    for n, options, names in (
        (99, {}, ["none", "sts"]),
        (100, {}, list(NAMES)),
        (99, {"min_rows": 99}, list(NAMES)),
        (99, {"default": "histogram"}, ["none", "sts", "histogram"]),
    ):
        selected = X, y, X_calibration[:n], y_calibration[:n], None
        assert list(fit_selection(parent, selected, **options).nll_) == names


def test_scores_in_single_precision_are_accepted():
    """Their rows sum to 1 up to some 1e-6."""
    rng = np.random.default_rng(0)
    X = rng.dirichlet(np.ones(50), size=300).astype(np.float32) * np.float32(1 + 3e-6)
    y = np.where(rng.random(300) < 0.5, X.argmax(axis=1), rng.integers(50, size=300))
    parent = FrozenEstimator(SinglePrecisionScores().fit(X))
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        best = BestConfidence(parent, candidates={"sts": TemperatureScaling(None)}).fit(
            X, y, X_calibration=X, y_calibration=y
        )
    assert np.isfinite(best.predict_confidence(X)).all()


def test_selection_behind_a_gate(parent, rows):
    X, y, X_calibration, y_calibration, X_test = rows
    best = BestConfidence(parent, candidates=CANDIDATES, fill_proba=True, random_state=3)
    gate = DensityGate(best, partition=parent, random_state=0).fit(
        X, y, X_calibration=X_calibration, y_calibration=y_calibration
    )
    np.testing.assert_allclose(
        gate.predict_proba(100 * X_test), np.tile(gate.prior_, (len(X_test), 1)), atol=1e-6
    )


@pytest.mark.filterwarnings("ignore:.*the (confidence|temperature) there is")
@pytest.mark.filterwarnings("ignore:.*look at it")
@pytest.mark.slow
def test_preset_has_its_candidates(parent, rows):
    X, y, X_calibration, y_calibration, _ = rows
    node = compose(["calibrator=best_top_label"]).calibrator
    best = build(node, estimator=parent, random_state=0).fit(
        X, y, X_calibration=X_calibration, y_calibration=y_calibration
    )
    assert list(best.nll_) == ["none", *node["candidates"]]
    assert (
        isinstance(best.candidates["beta_pooled"], BetaCalibration)
        and best.candidates["beta_pooled"].pool == "cv"
    )


def test_default_is_used_if_cross_validation_is_impossible(parent, rows):
    X, _, X_calibration, _, _ = rows
    all_correct = parent.predict(X_calibration)
    for default, consequence in (
        (None, "the parent stays uncalibrated"),
        ("precision", "precision is used"),
    ):
        sentence = rf"^fewer than two calibration rows are correct, or incorrect: cross-validation is impossible, {consequence}$"
        best = BestConfidence(parent, candidates=CANDIDATES, default=default)
        with pytest.warns(UserWarning, match=sentence):
            best.fit(X, parent.predict(X), X_calibration=X_calibration, y_calibration=all_correct)
        assert best.chosen_ == (default or "none") and best.nll_ == {best.chosen_: None}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"default": "beta"},
            "default must be one of the candidates (none, sts, precision, histogram), got 'beta'",
        ),
        (
            {"candidates": {"map": ScoreMap(None)}},
            "candidate map must have predict_confidence, ScoreMap has not; see BestCalibrator",
        ),
        ({"folds": 1}, "folds must be in [2, inf), got 1"),
    ],
)
def test_invalid_options_raise_one_line(parent, rows, options, message):
    with pytest.raises(ParameterError, match=f"^{re.escape(message)}$"):
        fit_selection(parent, rows, **options)


def test_weights_count_in_loss_evidence_and_fit(rows, parent):
    """The weights count in the fit of the chosen candidate too."""
    X, y, X_calibration, labels, _ = rows
    weight = np.where(np.arange(len(X_calibration)) % 3 == 0, 5.0, 0.5)
    calibration = {
        "X_calibration": X_calibration,
        "y_calibration": labels,
        "sample_weight_calibration": weight,
    }
    options = {
        "candidates": {"sts": TemperatureScaling(None)},
        "default": "sts",
        "margin": 1e9,
        "random_state": 0,
    }
    best = BestConfidence(parent, **options).fit(X, y, **calibration)
    reference = TemperatureScaling(parent).fit(X, y, **calibration)
    assert best.calibrated_.shared_temperature_ == pytest.approx(
        reference.shared_temperature_, rel=1e-9
    )  # scores and probabilities differ in the last bits
    proba = parent.predict_proba(X_calibration)
    right = np.clip(proba.max(axis=1), 1e-12, 1 - 1e-12)
    by_row = -np.log(np.where(proba.argmax(axis=1) == labels, right, 1 - right))
    assert best.nll_["none"] == pytest.approx(np.average(by_row, weights=weight))
    twice = BestConfidence(parent, **options).fit(
        X, y, **{**calibration, "sample_weight_calibration": 2 * weight}
    )
    assert twice.evidence_ == pytest.approx(
        best.evidence_, rel=1e-6
    )  # temperatures agree up to the tolerance of their search
    unweighted = BestConfidence(parent, **options).fit(
        X, y, X_calibration=X_calibration, y_calibration=labels
    )
    assert unweighted.nll_["none"] != pytest.approx(best.nll_["none"], rel=1e-3)


def test_cross_fitted_confidence_is_that_of_a_loop_over_folds(rows, parent) -> None:
    """Each calibration row by the accuracy of its bin in the other folds, counted here by hand."""
    X, y, X_calibration, y_calibration, new = rows
    model = CrossFittedConfidence(
        parent, calibrator=HistogramBinning(None, by_class=False), folds=4, random_state=3
    ).fit(X, y, X_calibration=X_calibration, y_calibration=y_calibration)
    proba = parent.predict_proba(X_calibration)
    right, score = proba.argmax(axis=1) == y_calibration, proba.max(axis=1)
    fold = draw_folds(proba.argmax(axis=1), right, 4, np.random.RandomState(3))
    np.testing.assert_array_equal(model.fold_, fold)
    new_score = parent.predict_proba(new).max(axis=1)
    bins, new_bins = (np.clip(np.ceil(10 * s - 1e-9) - 1, 0, 9) for s in (score, new_score))
    expected, new_expected = np.empty(len(y_calibration)), np.zeros(len(new))
    for f in range(4):
        others = fold != f

        def accuracy(b: float, others: np.ndarray = others) -> float:
            in_bin = others & (bins == b)
            # A bin without rows has the accuracy of all.
            return right[in_bin].mean() if in_bin.any() else right[others].mean()

        expected[~others] = [accuracy(b) for b in bins[~others]]
        new_expected += np.array([accuracy(b) for b in new_bins]) / 4
    np.testing.assert_allclose(model.confidence_, expected, rtol=1e-12)
    np.testing.assert_allclose(model.predict_confidence(new), new_expected, rtol=1e-12)
    clipped = np.clip(expected, 1e-12, 1 - 1e-12)
    assert model.nll_ == pytest.approx(-np.log(np.where(right, clipped, 1 - clipped)).mean())
    assert model.describe() == {"fits": 4, "cross_fitted_nll": model.nll_}


def test_the_mean_over_folds_is_that_of_scikit_learn() -> None:
    """The confidence of a class that is always predicted is its calibrated probability."""
    rng = np.random.default_rng(0)
    score = rng.uniform(0.5, 1, 300)
    X = np.column_stack([1 - score, score])
    y = (rng.random(300) < score**2).astype(int)
    parent = FrozenEstimator(PrecomputedScores().fit(X, y))
    model = CrossFittedConfidence(
        parent, calibrator=IsotonicConfidence(None, by_class=False), folds=3, random_state=0
    ).fit(X, y, X_calibration=X, y_calibration=y)
    rows_of = [np.flatnonzero(model.fold_ == f) for f in range(3)]
    others = [np.flatnonzero(model.fold_ != f) for f in range(3)]
    # scikit-learn fits the map to the second part of a split, behind a frozen classifier.
    peer = CalibratedClassifierCV(
        parent, method="isotonic", cv=list(zip(rows_of, others, strict=True)), ensemble=True
    ).fit(X, y)
    new = np.column_stack([1 - (s := rng.uniform(0.5, 1, 50)), s])
    np.testing.assert_allclose(
        model.predict_confidence(new), peer.predict_proba(new)[:, 1], atol=1e-12
    )


def test_cross_fitting_removes_the_bias_of_a_fit_to_the_same_rows(rows, parent) -> None:
    """A flexible curve has a lower loss on its own rows than on new ones; folds show the latter."""
    rng = np.random.default_rng(1)
    score = rng.uniform(0.5, 1, 4000)
    X = np.column_stack([1 - score, score])
    y = (rng.random(4000) < score).astype(int)
    frozen = FrozenEstimator(PrecomputedScores().fit(X, y))
    fine = HistogramBinning(frozen, bins=200, by_class=False)
    few = {"X_calibration": X[:1000], "y_calibration": y[:1000]}
    in_sample = fine.fit(X, y, **few)
    crossed = CrossFittedConfidence(frozen, calibrator=fine, random_state=0).fit(X, y, **few)

    def brier(confidence: np.ndarray, labels: np.ndarray) -> float:
        return float(np.mean((confidence - labels) ** 2))

    new = brier(in_sample.predict_confidence(X[1000:]), y[1000:])
    assert brier(in_sample.predict_confidence(X[:1000]), y[:1000]) < 0.9 * new
    # Four fifths of the rows fit each fold, which costs a little.
    assert brier(crossed.confidence_, y[:1000]) == pytest.approx(new, rel=0.1)


def test_cross_fitting_needs_two_rows_of_either_kind(rows, parent) -> None:
    X, y, X_calibration, _, new = rows
    right = parent.predict(X_calibration)
    model = CrossFittedConfidence(parent, calibrator=ClassPrecision(None))
    with pytest.warns(UserWarning, match=r"cross-fitting is impossible, ClassPrecision is fitted"):
        model.fit(X, y, X_calibration=X_calibration, y_calibration=right)
    assert model.nll_ is None and model.confidence_ is None and len(model.calibrators_) == 1
    assert (model.predict_confidence(new) == 1).all()
    with pytest.raises(ParameterError, match=r"calibrator must have predict_confidence, ScoreMap"):
        CrossFittedConfidence(parent, calibrator=ScoreMap(None)).fit(
            X, y, X_calibration=X_calibration, y_calibration=right
        )
