"""The choice among calibrators of top-label confidence, by hand and by what it promises."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from scipy.stats import ttest_rel
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from kdgraph.calibration import ScoreMap
from kdgraph.calibration.top_label import (
    BestConfidence,
    BetaCalibration,
    ClassPrecision,
    HistogramBinning,
    TemperatureScaling,
)
from kdgraph.calibration.top_label.base import draw_folds
from kdgraph.components import build
from kdgraph.config import compose
from kdgraph.density import DensityGate
from kdgraph.errors import ParameterError
from kdgraph.parents import PrecomputedScores

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


class Loose(PrecomputedScores):
    """As a network, which checks no sums."""

    def predict_proba(self, X):
        return np.asarray(X, dtype=np.float32)


def naive_losses(parent, name, X, y, seed) -> np.ndarray:
    """Cross-validated by hand, behind the parent itself and not its scores; by row."""
    proba = parent.predict_proba(X)
    right = proba.argmax(axis=1) == y
    fold, confidence = (
        draw_folds(proba.argmax(axis=1), right, 5, np.random.RandomState(seed)),
        proba.max(axis=1),
    )
    for f in range(5):
        learnt, judged = fold != f, fold == f
        if name != "none":
            model = type(CANDIDATES[name])(**{**CANDIDATES[name].get_params(), "estimator": parent})
            model.fit(X[learnt], y[learnt], X_calibration=X[learnt], y_calibration=y[learnt])
            confidence[judged] = model.predict_confidence(X[judged])
    c = np.clip(confidence, 1e-12, 1 - 1e-12)
    return -np.log(np.where(right, c, 1 - c))


def fitted(parent, rows, **options) -> BestConfidence:
    X, y, X_calibration, y_calibration, _ = rows
    options = {"candidates": CANDIDATES, "random_state": 3, **options}
    return BestConfidence(parent, **options).fit(
        X, y, X_calibration=X_calibration, y_calibration=y_calibration
    )


def test_candidate_with_lowest_cross_validated_nll_is_used(parent, rows):
    best = fitted(parent, rows)
    expected = {name: naive_losses(parent, name, *rows[2:4], 3).mean() for name in NAMES}
    assert best.nll_ == pytest.approx(expected, rel=1e-9)
    assert best.chosen_ == min(expected, key=expected.get) != "none"
    alone = type(CANDIDATES[best.chosen_])(
        **{**CANDIDATES[best.chosen_].get_params(), "estimator": parent}
    )
    alone.fit(*rows[:2], X_calibration=rows[2], y_calibration=rows[3])
    np.testing.assert_allclose(
        best.predict_confidence(rows[4]), alone.predict_confidence(rows[4]), atol=1e-12
    )
    np.testing.assert_array_equal(best.predict(rows[4]), parent.predict(rows[4]))
    assert best.describe() == {
        "chosen": best.chosen_,
        "calibration_nll": best.nll_[best.chosen_],
        "nll": best.nll_,
    }


def test_a_default_holds_unless_another_is_clearly_better(parent, rows):
    free = fitted(parent, rows)
    by_hand = ttest_rel(
        naive_losses(parent, "none", *rows[2:4], 3),
        naive_losses(parent, free.chosen_, *rows[2:4], 3),
    ).statistic
    for margin, chosen in ((by_hand - 0.1, free.chosen_), (by_hand + 0.1, "none")):
        best = fitted(parent, rows, default="none", margin=margin)
        assert best.chosen_ == chosen
        assert best.evidence_ == pytest.approx(by_hand, rel=1e-9)


def test_calibrated_parent_is_left_unchanged():
    """Where the other candidates know nothing of the score."""
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 1.0, size=2000)
    X, y = np.stack([s, 1 - s], axis=1), (rng.random(2000) > s).astype(int)
    parent = FrozenEstimator(PrecomputedScores().fit(X))
    best = BestConfidence(parent, candidates={"precision": ClassPrecision(None)}, random_state=0)
    best.fit(X, y, X_calibration=X, y_calibration=y)
    assert best.chosen_ == "none" and best.calibrated_ is None
    np.testing.assert_array_equal(best.predict_confidence(X), s)


def test_scores_in_single_precision_are_scores():
    """Whose rows may sum to 1 but for some 1e-6."""
    rng = np.random.default_rng(0)
    X = rng.dirichlet(np.ones(50), size=300).astype(np.float32) * np.float32(1 + 3e-6)
    y = np.where(rng.random(300) < 0.5, X.argmax(axis=1), rng.integers(50, size=300))
    parent = FrozenEstimator(Loose().fit(X))
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        best = BestConfidence(parent, candidates={"sts": TemperatureScaling(None)}).fit(
            X, y, X_calibration=X, y_calibration=y
        )
    assert np.isfinite(best.predict_confidence(X)).all()


def test_selection_works_behind_a_gate(parent, rows):
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
def test_preset_lists_its_candidates(parent, rows):
    X, y, X_calibration, y_calibration, _ = rows
    node = compose(["calibrator=best_top"]).calibrator
    best = build(node, estimator=parent, random_state=0).fit(
        X, y, X_calibration=X_calibration, y_calibration=y_calibration
    )
    assert list(best.nll_) == ["none", *node["candidates"]]
    assert (
        isinstance(best.candidates["beta_pooled"], BetaCalibration)
        and best.candidates["beta_pooled"].pool == "cv"
    )


def test_where_nothing_can_cross_validate_the_default_is_used(parent, rows):
    X, _, X_calibration, _, _ = rows
    always = parent.predict(X_calibration)
    for default, said in (
        (None, "the parent stays uncalibrated"),
        ("precision", "precision is used"),
    ):
        sentence = rf"^fewer than two calibration rows are correct, or incorrect: cross-validation is impossible, {said}$"
        best = BestConfidence(parent, candidates=CANDIDATES, default=default)
        with pytest.warns(UserWarning, match=sentence):
            best.fit(X, parent.predict(X), X_calibration=X_calibration, y_calibration=always)
        assert best.chosen_ == (default or "none") and best.nll_ == {best.chosen_: None}


@pytest.mark.parametrize(
    ("options", "said"),
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
def test_bad_options_are_named(parent, rows, options, said):
    with pytest.raises(ParameterError, match=f"^{re.escape(said)}$"):
        fitted(parent, rows, **options)


def test_weights_of_calibration_rows_count(rows, parent):
    """In the loss, in the evidence, and in the fit of the one that is chosen."""
    X, y, held, labels, _ = rows
    weight = np.where(np.arange(len(held)) % 3 == 0, 5.0, 0.5)
    given = {"X_calibration": held, "y_calibration": labels, "sample_weight_calibration": weight}
    options = {
        "candidates": {"sts": TemperatureScaling(None)},
        "default": "sts",
        "margin": 1e9,
        "random_state": 0,
    }
    best = BestConfidence(parent, **options).fit(X, y, **given)
    alone = TemperatureScaling(parent).fit(X, y, **given)
    assert best.calibrated_.shared_temperature_ == pytest.approx(
        alone.shared_temperature_, rel=1e-9
    )  # scores against probabilities: bits
    proba = parent.predict_proba(held)
    right = np.clip(proba.max(axis=1), 1e-12, 1 - 1e-12)
    by_row = -np.log(np.where(proba.argmax(axis=1) == labels, right, 1 - right))
    assert best.nll_["none"] == pytest.approx(np.average(by_row, weights=weight))
    twice = BestConfidence(parent, **options).fit(
        X, y, **{**given, "sample_weight_calibration": 2 * weight}
    )
    assert twice.evidence_ == pytest.approx(
        best.evidence_, rel=1e-6
    )  # temperatures agree as far as their search goes
    unweighted = BestConfidence(parent, **options).fit(
        X, y, X_calibration=held, y_calibration=labels
    )
    assert unweighted.nll_["none"] != pytest.approx(best.nll_["none"], rel=1e-3)
