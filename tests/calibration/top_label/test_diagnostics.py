"""The visual check: it lets right curves pass, names wiggles, departures from the data and unseen
scores, and counts as the eye would.
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
from kdgraph.calibration.top_label import diagnostics as module
from kdgraph.calibration.top_label.diagnostics import (
    CurveRows,
    Outside,
    Seen,
    deep_turns,
    findings,
    is_beyond,
    look_at,
    turns_of,
)
from kdgraph.metrics import TopLabel
from kdgraph.parents import PrecomputedScores

CLASSES = 4
PARENT = FrozenEstimator(PrecomputedScores().fit(np.empty((0, CLASSES))))


def drawn(n: int, seed: int = 0, power: float = 1.3) -> tuple[np.ndarray, np.ndarray]:
    """Scores from .3 that are right with a probability of score**power: a confidence that only
    rises.
    """
    rng = np.random.default_rng(seed)
    score, k = rng.uniform(0.3, 1, n), rng.integers(CLASSES, size=n)
    X = np.repeat(((1 - score) / (CLASSES - 1))[:, None], CLASSES, axis=1)
    X[np.arange(n), k] = score
    return X, np.where(rng.random(n) < score**power, k, (k + 1) % CLASSES)


def true_curves(n: int, seed: int) -> list[CurveRows]:
    X, y = drawn(n, seed)
    top = TopLabel.of(X)
    masks = [top.predicted == k for k in range(CLASSES)]
    return [
        CurveRows(str(k), lambda s: s**1.3, top.confidence[m], top.correct(y)[m], np.ones(m.sum()))
        for k, m in enumerate(masks)
    ]


def fitted(calibrator, X, y):
    return calibrator.fit(X, y, X_calibration=X, y_calibration=y)


def test_right_curves_pass():
    """The truth on rows drawn from it: one alarm in a hundred at most, so 6 of 100 are less likely
    than one in a thousand.
    """
    alarms = sum(
        any(seen.wiggles or seen.outside for seen in look_at(true_curves(1200, seed)))
        for seed in range(100)
    )
    assert alarms < 6


@pytest.mark.parametrize("n", [60, 400, 4000])
@pytest.mark.parametrize("bandwidth", ["b_mon", "b_mon2"])
def test_curves_of_few_turns_do_not_wiggle(n, bandwidth):
    model = fitted(KernelDensityConfidence(PARENT, bandwidth=bandwidth), *drawn(n))
    assert all(
        seen.turns <= curve["sign_changes"]
        for seen, curve in zip(model.seen_, model.curves_, strict=True)
        if curve
    )
    assert (
        findings(model.seen_)
        == {}
        == {k: v for k, v in model.describe().items() if k == "visual_check"}
    )


@pytest.mark.parametrize("n", [40, 120, 400, 4000])
def test_ten_bins_do_not_wiggle_by_accident(n):
    wiggles = sum(
        any(seen.wiggles for seen in fitted(HistogramBinning(PARENT), *drawn(n, seed)).seen_)
        for seed in range(20)
    )
    assert wiggles == 0


def test_a_curve_that_follows_single_rows_wiggles_and_is_named_once_with_all_its_classes():
    with pytest.warns(UserWarning, match="goes up and down") as caught:
        model = fitted(KernelDensityConfidence(PARENT, bandwidth=0.002), *drawn(800))
    assert [str(warning.message) for warning in caught] == [
        "the confidence of 0, 1, 2, 3 goes up and down more than noise explains: look at it, and"
        " take a wider bandwidth or fewer bins"
    ]
    assert caught[0].filename == __file__
    turns = model.describe()["visual_check"]["wiggles"]
    assert set(turns) == set("0123") and min(turns.values()) > 2


@pytest.mark.filterwarnings(
    "ignore:the confidence of .* is not what"
)  # counts of like rows are not binomial
def test_rows_in_clusters_draw_the_best_bandwidth_into_wiggles():
    """What Salamon et al. show in Figure 13: rows left out one by one are told by their like, and
    the curve follows every cluster.
    """
    rng = np.random.default_rng(0)
    X, y = drawn(240)
    each = rng.permutation(np.repeat(np.arange(240), 12))
    X, y = X[each], y[each]
    shift = rng.uniform(-1e-3, 1e-3, len(X))
    X = np.where(
        X.max(axis=1, keepdims=True) == X, X + shift[:, None], X - shift[:, None] / (CLASSES - 1)
    )
    with pytest.warns(UserWarning, match="goes up and down"):
        by_nll = fitted(KernelDensityConfidence(PARENT, bandwidth="b_opt"), X, y)
    by_turns = fitted(KernelDensityConfidence(PARENT), X, y)
    assert all(seen.wiggles for seen in by_nll.seen_) and not any(
        seen.wiggles for seen in by_turns.seen_
    )


def test_real_turns_that_rows_bear_out_wiggle_too():
    score = np.random.default_rng(0).uniform(0, 1, 20_000)
    likely = 0.6 + 0.3 * np.sin(9 * np.pi * score)
    rows = CurveRows(
        "sine",
        lambda s: 0.6 + 0.3 * np.sin(9 * np.pi * s),
        score,
        np.random.default_rng(1).random(20_000) < likely,
        1 + 0 * score,
    )
    assert turns_of(rows) == 9  # its extremes


def test_a_cumulative_share_leaves_its_data():
    X, y = drawn(8000)
    with pytest.warns(
        UserWarning,
        match=(
            r"^the confidence of 0, 1, 2, 3 is not what the shares of right calibration rows allow"
        ),
    ):
        model = fitted(CumulativeConfidence(PARENT), X, y)
    top = TopLabel.of(X)
    said, mine = model.predict_confidence(X), top.predicted == 2
    for found in model.seen_[2].outside:
        here = mine & (top.confidence > found.lower) & (top.confidence <= found.upper)
        right = int((y == 2)[here].sum())
        assert (found.rows, found.share) == (here.sum(), pytest.approx(right / here.sum()))
        assert found.confidence == pytest.approx(said[here].mean())
        interval = binomtest(right, int(here.sum())).proportion_ci(
            1 - 0.01 / 28, method="exact"
        )  # 4 classes with 7 bins each
        assert not interval.low <= found.confidence <= interval.high
    assert (
        model.describe()["visual_check"]["leaves_data"]["2"][0]
        == model.seen_[2].outside[0]._asdict()
    )


@given(st.integers(30, 500), st.floats(0, 1), st.floats(0, 1), st.floats(1e-4, 0.2))
def test_intervals_are_clopper_and_pearsons(rows, share, confidence, alarm):
    right = round(share * rows)
    interval = binomtest(right, rows).proportion_ci(1 - alarm, method="exact")
    if min(abs(confidence - interval.low), abs(confidence - interval.high)) > 1e-6:
        found = Outside(0, 1, confidence, right / rows, rows)
        assert module._allows(found, alarm) == (interval.low <= confidence <= interval.high)


def test_fewer_than_thirty_rows_say_nothing():
    rows = CurveRows("a", np.zeros_like, np.full(29, 0.55), np.ones(29, dtype=bool), np.ones(29))
    more = CurveRows("b", np.zeros_like, np.full(30, 0.55), np.ones(30, dtype=bool), np.ones(30))
    assert [len(seen.outside) for seen in look_at([rows, more])] == [0, 1]


def naive_turns(values, noise) -> int:
    """The longest chain of moves to and fro, each above its threshold, less one; by trying all of
    them.
    """

    def deep(i, j):
        return abs(values[i] - values[j]) > max(
            0.02, 2.5758293035489004 * np.hypot(noise[i], noise[j])
        )

    best = {}  # (end, way) → moves
    for j in range(len(values)):
        for i in range(j):
            if deep(i, j):
                way = np.sign(values[j] - values[i])
                best[j, way] = max(best.get((j, way), 0), 1 + best.get((i, -way), 0))
    return max(0, max(best.values(), default=0) - 1)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=25), st.sampled_from([0.0, 0.03, 0.1]))
def test_turns_are_counted_as_by_trying_all(values, noise):
    values = np.array(values) / 20
    assert deep_turns(values, np.full(len(values), noise)) == naive_turns(
        values, np.full(len(values), noise)
    )


def test_a_turn_that_nobody_sees_is_none():
    zigzag = 0.5 + 0.009 * (-1.0) ** np.arange(100)
    assert deep_turns(zigzag, np.zeros(100)) == 0 and deep_turns(1.2 * zigzag, np.zeros(100)) == 98


def test_new_rows_beyond_the_range():
    seen = Seen("a", (0.4, 0.9), 200, 0, ())
    inside = np.full(95, 0.5)
    assert not is_beyond(seen, np.append(inside, np.full(5, 0.95))) and is_beyond(
        seen, np.append(inside, np.full(10, 0.95))
    )
    assert betabinom.sf(9, 105, 2, 199) < 0.01
    of_few = Seen(
        "a", (0.4, 0.9), 5, 0, ()
    )  # two of six gaps: chance puts a third of all rows there
    assert not is_beyond(of_few, np.append(inside, np.full(10, 0.95)))
    assert not is_beyond(Seen("a", (np.nan, np.nan), 0, 0, ()), inside)


def test_new_rows_of_the_same_kind_are_seldom_beyond():
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(2000):
        old = rng.random(40)
        alarms += is_beyond(Seen("a", (old.min(), old.max()), 40, 0, ()), rng.random(60))
    assert alarms <= 33  # one in a hundred at most: 20, and three standard errors


def test_a_calibrator_names_classes_whose_new_scores_it_has_never_seen():
    X, y = drawn(2000)
    model = fitted(IsotonicConfidence(PARENT), X, y)
    model.look_at_new(TopLabel.of(drawn(1000, seed=1)[0]))
    low = TopLabel(np.repeat([1, 3], 50), np.full(100, 0.28), CLASSES)
    with pytest.warns(
        UserWarning,
        match=(
            r"^more than 5 % of the rows predicted as 1, 3 have scores where no calibration row was"
        ),
    ):
        model.look_at_new(low)


def test_a_row_of_weight_two_is_no_more_than_a_row_and_weight_zero_is_none():
    """Weights say how much a row counts, not how many there are: as many equal rows stand behind a
    share either way.
    """
    X, y = drawn(600)
    seen = []
    for weight in (np.ones(600), np.full(600, 2.0), np.append(np.ones(600), np.zeros(50))):
        model = HistogramBinning(PARENT)
        model.classes_ = np.arange(CLASSES)
        more = len(weight) - 600
        model._fit_scores(Rows(np.append(X, X[:more], axis=0), np.append(y, y[:more]), weight))
        seen.append(model.seen_)
    assert seen[0] == seen[1] == seen[2]


def test_one_curve_for_all_is_looked_at_as_one():
    with warnings.catch_warnings(action="error"):
        model = fitted(IsotonicConfidence(PARENT, by_class=False), *drawn(500))
    assert [(seen.label, seen.rows) for seen in model.seen_] == [("any class", 500)]
    np.testing.assert_array_equal(
        model.confidence_at(0, np.array([0.5])), model.confidence_at(3, np.array([0.5]))
    )
