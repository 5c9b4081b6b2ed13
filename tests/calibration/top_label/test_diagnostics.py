"""Diagnostics of curves: correct curves pass; oscillation, contradictions of the rows and unseen
scores are reported; turns are counted as by enumeration.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom, binomtest
from sklearn.frozen import FrozenEstimator

from kdgraph.base import Rows
from kdgraph.calibration.top_label import (
    CumulativeConfidence,
    HistogramBinning,
    IsotonicConfidence,
    KernelDensityConfidence,
)
from kdgraph.calibration.top_label import diagnostics as diagnostics_module
from kdgraph.calibration.top_label.diagnostics import (
    CurveDiagnostics,
    FittedCurve,
    ScoreBin,
    count_reversals,
    count_turns,
    diagnose_curves,
    exceeds_score_range,
    summarize_diagnostics,
)
from kdgraph.metrics import TopLabel
from kdgraph.parents import PrecomputedScores

CLASSES = 4
PARENT = FrozenEstimator(PrecomputedScores().fit(np.empty((0, CLASSES))))


def draw_scores(n: int, seed: int = 0, power: float = 1.3) -> tuple[np.ndarray, np.ndarray]:
    """Return scores from .3 that are correct with the probability score**power, a rising curve."""
    rng = np.random.default_rng(seed)
    score, k = rng.uniform(0.3, 1, n), rng.integers(CLASSES, size=n)
    X = np.repeat(((1 - score) / (CLASSES - 1))[:, None], CLASSES, axis=1)
    X[np.arange(n), k] = score
    return X, np.where(rng.random(n) < score**power, k, (k + 1) % CLASSES)


def true_curves(n: int, seed: int) -> list[FittedCurve]:
    X, y = draw_scores(n, seed)
    top_label = TopLabel.from_proba(X)
    masks = [top_label.predicted == k for k in range(CLASSES)]
    return [
        FittedCurve(
            str(k),
            lambda s: s**1.3,
            top_label.confidence[m],
            top_label.correct(y)[m],
            np.ones(m.sum()),
        )
        for k, m in enumerate(masks)
    ]


def fit_calibrator(calibrator, X, y):
    return calibrator.fit(X, y, X_calibration=X, y_calibration=y)


def test_correct_curves_pass():
    """The rate of false alarms is at most .01, so 6 of 100 have a probability below .001."""
    alarms = sum(
        any(curve.oscillates or curve.outside for curve in diagnose_curves(true_curves(1200, seed)))
        for seed in range(100)
    )
    assert alarms < 6


@pytest.mark.parametrize("n", [60, 400, 4000])
@pytest.mark.parametrize("bandwidth", ["b_mon", "b_mon2"])
def test_curves_with_few_turns_do_not_oscillate(n, bandwidth):
    model = fit_calibrator(
        KernelDensityConfidence(PARENT, diagnostics=True, bandwidth=bandwidth), *draw_scores(n)
    )
    assert all(
        diagnostics.turns <= curve["sign_changes"]
        for diagnostics, curve in zip(model.diagnostics_, model.curves_, strict=True)
        if curve
    )
    assert (
        summarize_diagnostics(model.diagnostics_)
        == {}
        == {k: v for k, v in model.describe().items() if k == "diagnostics"}
    )


@pytest.mark.parametrize("n", [40, 120, 400, 4000])
def test_ten_bins_do_not_oscillate_by_chance(n):
    wiggles = sum(
        any(
            curve.oscillates
            for curve in fit_calibrator(
                HistogramBinning(PARENT, diagnostics=True), *draw_scores(n, seed)
            ).diagnostics_
        )
        for seed in range(20)
    )
    assert wiggles == 0


def test_narrow_bandwidth_warns_once_for_all_classes():
    with pytest.warns(UserWarning, match="goes up and down") as caught:
        model = fit_calibrator(
            KernelDensityConfidence(PARENT, diagnostics=True, bandwidth=0.002), *draw_scores(800)
        )
    assert [str(warning.message) for warning in caught] == [
        "the confidence of 0, 1, 2, 3 goes up and down more than noise explains: plot it, and"
        " use a wider bandwidth or fewer bins"
    ]
    assert caught[0].filename == __file__
    turns = model.describe()["diagnostics"]["wiggles"]
    assert set(turns) == set("0123") and min(turns.values()) > 2


@pytest.mark.filterwarnings(
    "ignore:the confidence of .* contradicts"
)  # counts of clustered rows are not binomial
def test_b_opt_oscillates_on_clustered_rows():
    """Salamon et al., Figure 13: copies of a left-out row predict it, so the curve follows clusters."""
    rng = np.random.default_rng(0)
    X, y = draw_scores(240)
    copies = rng.permutation(np.repeat(np.arange(240), 12))
    X, y = X[copies], y[copies]
    shift = rng.uniform(-1e-3, 1e-3, len(X))
    X = np.where(
        X.max(axis=1, keepdims=True) == X, X + shift[:, None], X - shift[:, None] / (CLASSES - 1)
    )
    with pytest.warns(UserWarning, match="goes up and down"):
        by_nll = fit_calibrator(
            KernelDensityConfidence(PARENT, diagnostics=True, bandwidth="b_opt"), X, y
        )
    by_turns = fit_calibrator(KernelDensityConfidence(PARENT, diagnostics=True), X, y)
    assert all(curve.oscillates for curve in by_nll.diagnostics_) and not any(
        curve.oscillates for curve in by_turns.diagnostics_
    )


def test_true_turns_are_counted():
    score = np.random.default_rng(0).uniform(0, 1, 20_000)
    accuracy = 0.6 + 0.3 * np.sin(9 * np.pi * score)
    rows = FittedCurve(
        "sine",
        lambda s: 0.6 + 0.3 * np.sin(9 * np.pi * s),
        score,
        np.random.default_rng(1).random(20_000) < accuracy,
        1 + 0 * score,
    )
    assert count_turns(rows) == 9  # its extremes


def test_cumulative_confidence_contradicts_its_rows():
    X, y = draw_scores(8000)
    with pytest.warns(
        UserWarning,
        match=(
            r"^the confidence of 0, 1, 2, 3 contradicts the accuracy of the calibration rows in some bins"
        ),
    ):
        model = fit_calibrator(CumulativeConfidence(PARENT, diagnostics=True), X, y)
    top_label = TopLabel.from_proba(X)
    confidence, in_class = model.predict_confidence(X), top_label.predicted == 2
    for score_bin in model.diagnostics_[2].outside:
        in_bin = (
            in_class
            & (top_label.confidence > score_bin.lower)
            & (top_label.confidence <= score_bin.upper)
        )
        n_correct = int((y == 2)[in_bin].sum())
        assert (score_bin.rows, score_bin.accuracy) == (
            in_bin.sum(),
            pytest.approx(n_correct / in_bin.sum()),
        )
        assert score_bin.confidence == pytest.approx(confidence[in_bin].mean())
        interval = binomtest(n_correct, int(in_bin.sum())).proportion_ci(
            1 - 0.01 / 28, method="exact"
        )  # 4 classes with 7 bins each
        assert not interval.low <= score_bin.confidence <= interval.high
    assert (
        model.describe()["diagnostics"]["leaves_data"]["2"][0]
        == model.diagnostics_[2].outside[0]._asdict()
    )


@given(st.integers(30, 500), st.floats(0, 1), st.floats(0, 1), st.floats(1e-4, 0.2))
def test_intervals_are_clopper_pearson(rows, accuracy, confidence, alarm):
    n_correct = round(accuracy * rows)
    interval = binomtest(n_correct, rows).proportion_ci(1 - alarm, method="exact")
    if min(abs(confidence - interval.low), abs(confidence - interval.high)) > 1e-6:
        score_bin = ScoreBin(0, 1, confidence, n_correct / rows, rows)
        assert diagnostics_module._agrees(score_bin, alarm) == (
            interval.low <= confidence <= interval.high
        )


def test_bins_of_fewer_than_thirty_rows_are_not_compared():
    rows = FittedCurve("a", np.zeros_like, np.full(29, 0.55), np.ones(29, dtype=bool), np.ones(29))
    more = FittedCurve("b", np.zeros_like, np.full(30, 0.55), np.ones(30, dtype=bool), np.ones(30))
    assert [len(curve.outside) for curve in diagnose_curves([rows, more])] == [0, 1]


def count_reversals_by_enumeration(values, noise) -> int:
    """Return the length of the longest chain of alternating significant moves, minus one."""

    def is_significant(i, j):
        return abs(values[i] - values[j]) > max(
            0.02, 2.5758293035489004 * np.hypot(noise[i], noise[j])
        )

    best = {}  # (end, direction) → moves
    for j in range(len(values)):
        for i in range(j):
            if is_significant(i, j):
                direction = np.sign(values[j] - values[i])
                best[j, direction] = max(
                    best.get((j, direction), 0), 1 + best.get((i, -direction), 0)
                )
    return max(0, max(best.values(), default=0) - 1)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=25), st.sampled_from([0.0, 0.03, 0.1]))
def test_reversals_equal_full_enumeration(values, noise):
    values = np.array(values) / 20
    assert count_reversals(values, np.full(len(values), noise)) == count_reversals_by_enumeration(
        values, np.full(len(values), noise)
    )


def test_moves_below_the_threshold_are_no_turns():
    zigzag = 0.5 + 0.009 * (-1.0) ** np.arange(100)
    assert (
        count_reversals(zigzag, np.zeros(100)) == 0
        and count_reversals(1.2 * zigzag, np.zeros(100)) == 98
    )


def test_too_many_new_scores_outside_the_range_are_reported():
    curve = CurveDiagnostics("a", (0.4, 0.9), 200, 0, ())
    inside = np.full(95, 0.5)
    assert not exceeds_score_range(
        curve, np.append(inside, np.full(5, 0.95))
    ) and exceeds_score_range(curve, np.append(inside, np.full(10, 0.95)))
    assert betabinom.sf(9, 105, 2, 199) < 0.01
    few_rows = CurveDiagnostics(
        "a", (0.4, 0.9), 5, 0, ()
    )  # two of six gaps, with a third of all rows by chance
    assert not exceeds_score_range(few_rows, np.append(inside, np.full(10, 0.95)))
    assert not exceeds_score_range(CurveDiagnostics("a", (np.nan, np.nan), 0, 0, ()), inside)


def test_scores_of_the_same_distribution_rarely_raise_an_alarm():
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(2000):
        scores = rng.random(40)
        alarms += exceeds_score_range(
            CurveDiagnostics("a", (scores.min(), scores.max()), 40, 0, ()), rng.random(60)
        )
    assert alarms <= 33  # at most .01 of 2000, plus three standard errors


def test_warning_names_classes_with_scores_outside_the_range():
    X, y = draw_scores(2000)
    model = fit_calibrator(IsotonicConfidence(PARENT, diagnostics=True), X, y)
    model.warn_of_unseen_scores(TopLabel.from_proba(draw_scores(1000, seed=1)[0]))
    low = TopLabel(np.repeat([1, 3], 50), np.full(100, 0.28), CLASSES)
    with pytest.warns(
        UserWarning,
        match=(
            r"^more than 5 % of the rows predicted as 1, 3 have scores outside the range of the calibration"
        ),
    ):
        model.warn_of_unseen_scores(low)


def test_scale_of_weights_and_rows_of_weight_0_are_irrelevant():
    """The effective number of rows does not depend on a common factor of their weights."""
    X, y = draw_scores(600)
    diagnostics = []
    for weight in (np.ones(600), np.full(600, 2.0), np.append(np.ones(600), np.zeros(50))):
        model = HistogramBinning(PARENT, diagnostics=True)
        model.classes_ = np.arange(CLASSES)
        n_ignored = len(weight) - 600
        model._fit_scores(
            Rows(np.append(X, X[:n_ignored], axis=0), np.append(y, y[:n_ignored]), weight)
        )
        diagnostics.append(model.diagnostics_)
    assert diagnostics[0] == diagnostics[1] == diagnostics[2]


def test_one_curve_of_all_classes_has_one_diagnosis():
    with warnings.catch_warnings(action="error"):
        model = fit_calibrator(
            IsotonicConfidence(PARENT, diagnostics=True, by_class=False), *draw_scores(500)
        )
    assert [(curve.label, curve.rows) for curve in model.diagnostics_] == [("any class", 500)]
    np.testing.assert_array_equal(
        model.confidence_at(0, np.array([0.5])), model.confidence_at(3, np.array([0.5]))
    )
