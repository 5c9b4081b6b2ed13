"""ECE, MCE and their bins against loops that follow the definition row by row."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve

from kdgraph.errors import ParameterError
from kdgraph.metrics import ece, ece_by_edges, mce, reliability_bins

ROUNDING = 1e-12  # sums of at most 1,000 terms of order 1 in float64, added in another order


def naive_gaps(y, proba, bins: int) -> list[tuple[int, float]]:
    """(rows, gap) of every populated bin, by Guo et al.'s definition in exact arithmetic of the edges."""
    members: dict[int, list[tuple[float, bool]]] = {}
    for label, row in zip(y, proba, strict=True):
        confidence = max(row)
        for m in range(1, bins + 1):
            if Fraction(m - 1, bins) < Fraction(confidence).limit_denominator(10**9) <= Fraction(m, bins):
                members.setdefault(m, []).append((confidence, list(row).index(confidence) == label))
    return [(len(rows), abs(sum(r for _, r in rows) / len(rows) - sum(c for c, _ in rows) / len(rows))) for rows in members.values()]


def sample(n: int, n_classes: int, seed: int = 0, concentration: float = 0.7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(n_classes, size=n), rng.dirichlet(np.full(n_classes, concentration), size=n)


def binary(confidence: list[float]) -> np.ndarray:
    c = np.asarray(confidence)
    return np.stack([c, 1 - c], axis=1)


@pytest.mark.parametrize(("n_classes", "bins"), [(2, 15), (2, 1), (3, 10), (10, 15), (100, 30)])
def test_ece_and_mce_agree_with_a_loop(n_classes: int, bins: int) -> None:
    y, proba = sample(200, n_classes)
    gaps = naive_gaps(y, proba, bins)
    assert sum(n for n, _ in gaps) == 200
    assert ece(y, proba, bins=bins) == pytest.approx(sum(n * g for n, g in gaps) / 200, abs=ROUNDING)
    assert ece(y, proba, bins=bins, norm="l2") == pytest.approx((sum(n * g**2 for n, g in gaps) / 200) ** 0.5, abs=ROUNDING)
    assert mce(y, proba, bins=bins) == pytest.approx(max(g for _, g in gaps), abs=ROUNDING)


def test_bins_agree_with_scikit_learn_where_no_confidence_is_on_an_edge() -> None:
    rng = np.random.default_rng(3)
    confidence, correct = rng.random(500), rng.random(500) < 0.5
    found = reliability_bins(confidence, correct, bins=10)
    accuracy, mean = calibration_curve(correct, confidence, n_bins=10)
    np.testing.assert_allclose(found.accuracy, accuracy, atol=ROUNDING)
    np.testing.assert_allclose(found.confidence, mean, atol=ROUNDING)


def test_perfectly_sure_and_right() -> None:
    y, proba = np.array([0, 1]), np.eye(2)
    assert (ece(y, proba), mce(y, proba)) == (0, 0)


def test_perfectly_sure_and_wrong() -> None:
    y, proba = np.array([1, 0]), np.eye(2)
    assert (ece(y, proba), mce(y, proba)) == (1, 1)


def test_constant_confidence_that_is_right_as_often_as_it_says() -> None:
    y, proba = np.array([0, 0, 0, 1]), binary([0.75] * 4)
    assert ece(y, proba) == pytest.approx(0, abs=ROUNDING)


def test_uniform_prediction_ties_go_to_the_first_class() -> None:
    for n_classes in (1, 2, 15, 100):  # 1/K on an edge, on 1.0, and within a bin
        y, proba = np.arange(n_classes), np.full((n_classes, n_classes), 1 / n_classes)
        assert ece(y, proba) == pytest.approx(0, abs=ROUNDING)


def test_a_confidence_on_an_edge_belongs_to_the_bin_below() -> None:
    confidence = np.arange(16) / 15
    found = reliability_bins(confidence, np.ones(16))
    assert found.count.tolist() == [2, *[1] * 14]  # 0 and 1/15 in the first, each other edge closes its bin
    np.testing.assert_array_equal(found.confidence[1:], found.upper[1:])
    found = reliability_bins(np.array([0.2, 0.4, 0.6, 0.8, 1.0]), np.ones(5), bins=5)  # decimals as a user types them
    assert found.count.tolist() == [1, 1, 1, 1, 1]


@pytest.mark.parametrize("bins", [6, 7, 9, 10, 15, 20, 49])
def test_edges_are_the_fractions_themselves(bins: int) -> None:
    votes = np.array([m / bins for m in range(1, bins + 1)])  # m votes of as many trees as there are bins
    assert reliability_bins(votes, np.ones(bins), bins=bins).count.tolist() == [1] * bins


def test_votes_of_a_forest_fall_on_the_edges_they_equal() -> None:
    votes = np.arange(201) / 200
    found = reliability_bins(votes, np.ones(201))
    by_hand = [sum(1 for v in range(201) if m * 200 < v * 15 <= (m + 1) * 200) + (m == 0) for m in range(15)]
    assert found.count.tolist() == by_hand


def test_empty_bins_are_nan_and_count_nothing() -> None:
    found = reliability_bins(np.array([0.95, 0.97, 0.05]), np.array([True, False, True]), bins=10)
    assert found.count.tolist() == [1, *[0] * 8, 2]
    assert np.isnan(found.accuracy[1:9]).all()
    assert np.isnan(found.confidence[1:9]).all()
    np.testing.assert_allclose(found.gap, [0.95, 0.46], atol=ROUNDING)
    np.testing.assert_allclose(found.share, [1 / 3, 2 / 3], atol=ROUNDING)


def test_a_confidence_that_rounding_put_above_one_is_in_the_last_bin() -> None:
    assert reliability_bins(np.array([1 + 1e-15]), np.array([True])).count[-1] == 1


def test_mass_bins_hold_equal_shares() -> None:
    confidence = np.random.default_rng(0).permutation(np.linspace(0.5, 0.99, 100))
    found = reliability_bins(confidence, np.ones(100), bins=10, strategy="mass")
    assert found.count.tolist() == [10] * 10
    assert (found.lower[0], found.upper[-1]) == (0, 1)
    np.testing.assert_array_equal(found.lower[1:], found.upper[:-1])


def test_mass_bins_keep_ties_together_and_may_be_fewer() -> None:
    found = reliability_bins(np.array([0.6] * 8 + [0.9, 1.0]), np.ones(10), bins=5, strategy="mass")
    assert found.count.tolist() == [8, 2]
    assert reliability_bins(np.ones(7), np.ones(7), bins=5, strategy="mass").count.tolist() == [7]


def test_more_mass_bins_than_rows() -> None:
    found = reliability_bins(np.array([0.6, 0.7]), np.ones(2), bins=15, strategy="mass")
    assert found.count.sum() == 2
    assert (found.count > 0).sum() == 2


@given(st.integers(1, 60), st.integers(1, 5), st.integers(1, 30), st.integers(0, 10_000), st.sampled_from(["uniform", "mass"]))
@settings(max_examples=100, deadline=None)
def test_properties(n: int, n_classes: int, bins: int, seed: int, strategy) -> None:
    y, proba = sample(n, n_classes, seed)
    proba = np.round(proba * 8) / 8  # ties and edges are common
    proba[:, 0] += 1 - proba.sum(axis=1)
    proba = np.abs(proba) / np.abs(proba).sum(axis=1, keepdims=True)
    l1, l2, largest = (ece(y, proba, bins=bins, strategy=strategy, norm=norm) for norm in ("l1", "l2", "max"))
    assert 0 <= l1 <= l2 + ROUNDING <= largest + 2 * ROUNDING <= 1 + 3 * ROUNDING
    assert largest == mce(y, proba, bins=bins, strategy=strategy)
    order = np.random.default_rng(seed).permutation(n)
    assert ece(y[order], proba[order], bins=bins, strategy=strategy) == pytest.approx(l1, abs=ROUNDING)
    # binning can only hide gaps: the error is at least the gap of all rows taken together
    overall = abs((proba.argmax(axis=1) == y).mean() - proba.max(axis=1).mean())
    assert l1 >= overall - ROUNDING


def test_ece_of_labels_drawn_from_the_probabilities_goes_to_zero() -> None:
    rng = np.random.default_rng(0)
    proba = binary(rng.uniform(0.5, 1, 20_000).tolist())
    y = (rng.random(20_000) > proba[:, 0]).astype(int)
    assert ece(y, proba) < 0.02  # 8 populated bins of 2,500 rows: each gap has a standard error of at most .01


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bins": 0}, "bins must be an integer from 1, got 0"),
        ({"bins": 2.5}, "bins must be an integer from 1, got 2.5"),
        ({"bins": True}, "bins must be an integer from 1, got True"),
        ({"strategy": "equal"}, "strategy must be one of uniform, mass, got 'equal'"),
        ({"norm": "l3"}, "norm must be one of l1, l2, max, got 'l3'"),
    ],
)
def test_options_out_of_range(options: dict, message: str) -> None:
    with pytest.raises(ParameterError) as raised:
        ece([0], [[1.0]], **options)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        ([0.5, 1.2], [1, 1], "confidence must lie in [0, 1], got 1.2 in row 1 (1 such)"),
        ([float("nan")], [1], "confidence must lie in [0, 1], got nan in row 0 (1 such)"),
        ([0.5], [0.5], "correct must hold only true and false (or 1 and 0)"),
        ([0.5], [1, 0], "confidence and correct must be one number a row, got shapes (1,) and (2,)"),
        ([], [], "confidence and correct must be one number a row, got shapes (0,) and (0,)"),
    ],
)
def test_bins_refuse_what_they_cannot_sort(confidence: list, correct: list, message: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011  # the whole message is compared below
        reliability_bins(np.array(confidence), np.array(correct))
    assert str(raised.value) == message


def ece_between_edges(y, proba, edges: int) -> float:
    """What the published implementation of Dey et al. is described to do: equally spaced edges, bins that hold their right edge."""
    edge = np.linspace(0, 1, edges)
    total = 0.0
    for low, high in pairwise(edge):
        inside = [i for i, row in enumerate(proba) if low < max(row) <= high]
        if inside:
            accuracy = sum(int(np.argmax(proba[i]) == y[i]) for i in inside) / len(inside)
            total += len(inside) * abs(accuracy - sum(max(proba[i]) for i in inside) / len(inside))
    return total / len(y)


@pytest.mark.parametrize("edges", [2, 10, 15, 30])
@pytest.mark.parametrize("n_classes", [2, 7])
def test_ece_by_edges_agrees_with_a_loop_between_them(edges: int, n_classes: int) -> None:
    y, proba = sample(300, n_classes)
    assert ece_by_edges(y, proba, edges=edges) == pytest.approx(ece_between_edges(y, proba, edges), abs=ROUNDING)
    assert ece_by_edges(y, proba, edges=edges) == ece(y, proba, bins=edges - 1)


def test_edges_are_not_bins() -> None:
    y, proba = sample(300, 3)
    assert ece_by_edges(y, proba, edges=10) != ece(y, proba, bins=10)


def test_one_edge_makes_no_bin() -> None:
    with pytest.raises(ParameterError, match="edges must be at least 2, got 1"):
        ece_by_edges([0], [[1.0, 0.0]], edges=1)
