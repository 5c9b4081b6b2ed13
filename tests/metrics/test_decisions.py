"""Rejection and reward: areas against loops over orders and thresholds, and closed forms."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import auc, roc_auc_score

from kdgraph.errors import ParameterError
from kdgraph.metrics import (
    TopLabel,
    aurc,
    e_aurc,
    prr,
    reward,
    reward_by_ratio,
    risk_coverage,
    score,
    tabulate,
)

FEW_ROWS = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=2, max_size=6)
MANY_ROWS = st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=2, max_size=60)


def predictions_of(graded_rows) -> tuple[np.ndarray, TopLabel, np.ndarray]:
    """Return y, the top label, and which rows are wrong."""
    wrong = np.array([wrong for _, wrong in graded_rows])
    return (
        wrong.astype(int),
        TopLabel(
            np.zeros(len(graded_rows), dtype=int), np.array([c / 30 for c, _ in graded_rows]), 2
        ),
        wrong,
    )


def orders_of_ties(confidence):
    """Return every order of rows by decreasing confidence."""
    n = len(confidence)
    return [
        o
        for o in permutations(range(n))
        if all(confidence[a] >= confidence[b] for a, b in pairwise(o))
    ]


def rejection_area(wrong_by_rank) -> float:
    """Return the area under the fraction of rows that are wrong and not rejected.

    The rejected fraction runs from none to all rows; the trapezoidal rule is exact.
    """
    n = len(wrong_by_rank)
    remaining_errors = [sum(wrong_by_rank[k:]) / n for k in range(n + 1)]
    return float(auc(np.arange(n + 1) / n, remaining_errors))


@settings(deadline=None)
@given(FEW_ROWS)
def test_prr_is_the_ratio_of_areas_averaged_over_the_orders_of_ties(graded_rows):
    y, top_label, wrong = predictions_of(graded_rows)
    assume(wrong.any() and not wrong.all())
    rejected = [
        [wrong[i] for i in reversed(order)] for order in orders_of_ties(top_label.confidence)
    ]
    model = np.mean([rejection_area(wrong_by_rank) for wrong_by_rank in rejected])
    oracle, chance = rejection_area(sorted(wrong, reverse=True)), wrong.mean() / 2
    assert prr(y, top_label) == pytest.approx((chance - model) / (chance - oracle), abs=1e-12)


@given(MANY_ROWS)
def test_prr_is_an_auroc(graded_rows):
    y, top_label, wrong = predictions_of(graded_rows)
    assume(wrong.any() and not wrong.all())
    assert prr(y, top_label) == pytest.approx(
        2 * roc_auc_score(~wrong, top_label.confidence) - 1, abs=1e-12
    )


def test_prr_of_oracle_and_chance_and_none_without_errors():
    y = np.array([0, 0, 0, 1])
    top_label = TopLabel(np.zeros(4, dtype=int), np.array([0.9, 0.8, 0.7, 0.6]), 2)
    flat = TopLabel(top_label.predicted, np.full(4, 0.5), 2)
    assert prr(y, top_label) == 1 and prr(y[::-1], top_label) == -1 and prr(y, flat) == 0
    for labels in (np.zeros(4, dtype=int), np.ones(4, dtype=int)):
        assert score("prr", {"y": labels, "top_label": top_label}).value is None


def test_prr_of_tiny_confidences_depends_on_ranks_only():
    top_label = TopLabel(np.zeros(3, dtype=int), np.array([3e-20, 2e-20, 1e-20]), 2)
    assert prr(np.array([0, 0, 1]), top_label) == 1


@settings(deadline=None)
@given(FEW_ROWS)
def test_aurc_is_the_mean_risk_averaged_over_the_orders_of_ties(graded_rows):
    y, top_label, wrong = predictions_of(graded_rows)
    n = len(y)

    def area(order) -> float:
        return float(np.mean([np.mean([wrong[i] for i in order[:k]]) for k in range(1, n + 1)]))

    expected = np.mean([area(order) for order in orders_of_ties(top_label.confidence)])
    assert aurc(y, top_label) == pytest.approx(expected, abs=1e-12)
    assert e_aurc(y, top_label) == pytest.approx(
        expected - area(np.argsort(wrong, kind="stable")), abs=1e-12
    )


def test_smallest_aurc_approaches_its_limit():
    """Geifman et al.: the limit is e + (1 - e) log(1 - e), with an error of order 1 / n."""
    n, e = 100_000, 0.3
    y = (np.arange(n) >= (1 - e) * n).astype(int)
    top_label = TopLabel(np.zeros(n, dtype=int), np.linspace(1, 0, n), 2)
    assert aurc(y, top_label) == pytest.approx(e + (1 - e) * np.log(1 - e), abs=2 / n)
    assert e_aurc(y, top_label) == 0


@given(MANY_ROWS)
def test_constant_confidence_has_the_error_at_any_coverage(graded_rows):
    y, top_label, wrong = predictions_of(graded_rows)
    flat = TopLabel(top_label.predicted, np.full(len(y), 0.5), 2)
    result = risk_coverage(y, flat)
    np.testing.assert_allclose(result["risk"], wrong.mean(), rtol=1e-12)
    assert aurc(y, flat) == pytest.approx(wrong.mean(), rel=1e-12)


def test_risk_coverage_curve_ends_at_the_error():
    rng = np.random.default_rng(0)
    c = rng.uniform(0.5, 1, 250)
    y, top_label = (rng.random(250) > c).astype(int), TopLabel(np.zeros(250, dtype=int), c, 2)
    result = risk_coverage(y, top_label, points=10)
    assert result["coverage"].tolist() == pytest.approx(np.arange(1, 11) / 10)
    for coverage, risk, least in zip(*result.values(), strict=True):
        is_covered = c >= least
        assert is_covered.sum() == round(coverage * 250) and risk == pytest.approx(
            (y[is_covered] == 1).mean()
        )
    assert len(tabulate("risk_coverage", {"y": y[:7], "top_label": top_label[:7]})) == 7


def rewards_by_loop(y, top_label, unsure, wrong) -> list[float]:
    return [
        -unsure if c < 1 - unsure / wrong else -wrong * (p != t)
        for c, p, t in zip(top_label.confidence, top_label.predicted, y, strict=True)
    ]


@given(MANY_ROWS, st.sampled_from([(1.0, 10.0), (1.0, 1.5), (2.0, 2.0), (3.0, 1.0), (0.5, 100.0)]))
def test_reward_row_by_row(graded_rows, costs):
    y, top_label, _ = predictions_of(graded_rows)
    options = dict(zip(("unsure_cost", "wrong_cost"), costs, strict=True))
    expected = rewards_by_loop(y, top_label, *costs)
    np.testing.assert_allclose(reward.by_row(y, top_label, **options), expected, rtol=1e-15)
    entry_score = score("reward", {"y": y, "top_label": top_label}, options)
    assert entry_score.value == pytest.approx(
        np.mean(expected)
    ) and entry_score.stderr == pytest.approx(np.std(expected, ddof=1) / np.sqrt(len(y)))


@given(MANY_ROWS)
def test_reward_by_ratio_matches_reward(graded_rows):
    y, top_label, wrong = predictions_of(graded_rows)
    for row in tabulate(
        "reward_by_ratio", {"y": y, "top_label": top_label}, {"ratios": [1, 2, 4.5, 30]}
    ):
        ratio, is_predicted = row["ratio"], top_label.confidence >= row["threshold"]
        assert row["threshold"] == 1 - 1 / ratio
        assert row["reward"] == pytest.approx(reward(y, top_label, unsure_cost=1, wrong_cost=ratio))
        assert row["unsure"] == pytest.approx(1 - is_predicted.mean())
        assert (
            row["error"] == pytest.approx(wrong[is_predicted].mean())
            if is_predicted.any()
            else np.isnan(row["error"])
        )


def test_threshold_of_the_costs_is_optimal_for_calibrated_confidence():
    """Chow's rule: no other threshold has a higher reward on 200,000 calibrated rows.

    The tolerance of 0.01 covers sampling.
    """
    rng = np.random.default_rng(0)
    c = rng.uniform(0.3, 1, 200_000)
    y, top_label = (rng.random(len(c)) > c).astype(int), TopLabel(np.zeros(len(c), dtype=int), c, 2)
    best = max(np.where(c < t, -1.0, -5.0 * (y == 1)).mean() for t in np.linspace(0.01, 0.99, 99))
    assert reward(y, top_label, unsure_cost=1, wrong_cost=5) > best - 0.01


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: reward([0], [[1.0]], unsure_cost=0), "unsure_cost must be above 0, got 0"),
        (lambda: reward([0], [[1.0]], wrong_cost=-1), "wrong_cost must be above 0, got -1"),
        (
            lambda: reward_by_ratio([0], [[1.0]], ratios=[2, 0]),
            "ratios must be a list of numbers above 0, got [2, 0]",
        ),
        (
            lambda: reward_by_ratio([0], [[1.0]], ratios=[]),
            "ratios must be a list of numbers above 0, got []",
        ),
    ],
)
def test_invalid_costs_are_refused(call, message):
    with pytest.raises(ParameterError) as raised:
        call()
    assert str(raised.value) == message
