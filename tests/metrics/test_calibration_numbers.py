"""ECE and MCE against loops over rows, other libraries, and the effect of sampling."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.errors import ParameterError
from kdgraph.metrics import (
    TopLabel,
    ece,
    ece_by_edges,
    ece_if_calibrated,
    mce,
    reliability_bins,
    top_label_ece_if_calibrated,
)
from kdgraph.metrics.set_tests import contamination
from tests.metrics.samples import four_classes

ROUNDING = 1e-12  # sums of at most 1,000 terms of order 1 in float64, added in another order


def gaps_by_loop(y, proba, bins: int) -> list[tuple[int, float]]:
    """Return (rows, gap) of every populated bin (Guo et al.), with edges in exact arithmetic."""
    members: dict[int, list[tuple[float, bool]]] = {}
    for label, row in zip(y, proba, strict=True):
        confidence = max(row)
        for m in range(1, bins + 1):
            if (
                Fraction(m - 1, bins)
                < Fraction(confidence).limit_denominator(10**9)
                <= Fraction(m, bins)
            ):
                members.setdefault(m, []).append((confidence, list(row).index(confidence) == label))
    return [
        (len(rows), abs(sum(r for _, r in rows) / len(rows) - sum(c for c, _ in rows) / len(rows)))
        for rows in members.values()
    ]


def random_predictions(
    n: int, n_classes: int, seed: int = 0, concentration: float = 0.7
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(n_classes, size=n), rng.dirichlet(np.full(n_classes, concentration), size=n)


def binary_proba(confidence: list[float]) -> np.ndarray:
    c = np.asarray(confidence)
    return np.stack([c, 1 - c], axis=1)


@pytest.mark.parametrize(("n_classes", "bins"), [(2, 15), (2, 1), (3, 10), (10, 15), (100, 30)])
def test_ece_and_mce_agree_with_a_loop(n_classes: int, bins: int) -> None:
    y, proba = random_predictions(200, n_classes)
    gaps = gaps_by_loop(y, proba, bins)
    assert sum(n for n, _ in gaps) == 200
    assert ece(y, proba, bins=bins) == pytest.approx(
        sum(n * g for n, g in gaps) / 200, abs=ROUNDING
    )
    assert ece(y, proba, bins=bins, norm="l2") == pytest.approx(
        (sum(n * g**2 for n, g in gaps) / 200) ** 0.5, abs=ROUNDING
    )
    assert mce(y, proba, bins=bins) == pytest.approx(max(g for _, g in gaps), abs=ROUNDING)


@pytest.mark.parametrize(("y", "error"), [([0, 1], 0), ([1, 0], 1)])
def test_error_of_certain_predictions_is_zero_or_one(y, error) -> None:
    assert (ece(np.array(y), np.eye(2)), mce(np.array(y), np.eye(2))) == (error, error)


def test_calibrated_constant_confidence_has_zero_ece() -> None:
    y, proba = np.array([0, 0, 0, 1]), binary_proba([0.75] * 4)
    assert ece(y, proba) == pytest.approx(0, abs=ROUNDING)


def test_uniform_prediction_ties_go_to_the_first_class() -> None:
    for n_classes in (1, 2, 15, 100):  # 1/K on an edge, on 1.0, and within a bin
        y, proba = np.arange(n_classes), np.full((n_classes, n_classes), 1 / n_classes)
        assert ece(y, proba) == pytest.approx(0, abs=ROUNDING)


@given(
    st.integers(1, 60),
    st.integers(1, 5),
    st.integers(1, 30),
    st.integers(0, 10_000),
    st.sampled_from(["uniform", "mass"]),
)
@settings(max_examples=100, deadline=None)
def test_norms_are_ordered_and_bounded(
    n: int, n_classes: int, bins: int, seed: int, strategy
) -> None:
    y, proba = random_predictions(n, n_classes, seed)
    proba = np.round(proba * 8) / 8  # makes ties and confidences on edges frequent
    proba[:, 0] += 1 - proba.sum(axis=1)
    proba = np.abs(proba) / np.abs(proba).sum(axis=1, keepdims=True)
    l1, l2, largest = (
        ece(y, proba, bins=bins, strategy=strategy, norm=norm) for norm in ("l1", "l2", "max")
    )
    assert 0 <= l1 <= l2 + ROUNDING <= largest + 2 * ROUNDING <= 1 + 3 * ROUNDING
    assert largest == mce(y, proba, bins=bins, strategy=strategy)
    order = np.random.default_rng(seed).permutation(n)
    assert ece(y[order], proba[order], bins=bins, strategy=strategy) == pytest.approx(
        l1, abs=ROUNDING
    )
    # Bins cannot cancel more than all rows together, so the error is at least the overall gap.
    overall = abs((proba.argmax(axis=1) == y).mean() - proba.max(axis=1).mean())
    assert l1 >= overall - ROUNDING


def test_ece_of_labels_drawn_from_the_probabilities_tends_to_zero() -> None:
    rng = np.random.default_rng(0)
    proba = binary_proba(rng.uniform(0.5, 1, 20_000).tolist())
    y = (rng.random(20_000) > proba[:, 0]).astype(int)
    assert (
        ece(y, proba) < 0.02
    )  # 8 populated bins of 2,500 rows: each gap has a standard error of at most .01


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
def test_options_out_of_range_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ParameterError) as raised:
        ece([0], [[1.0]], **options)
    assert str(raised.value) == message


def ece_between_edges(y, proba, edges: int) -> float:
    """Return the ECE between equally spaced edges, with bins that hold their right edge.

    The published implementation of Dey et al. computes it in this way.
    """
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
def test_ece_by_edges_matches_a_loop_over_intervals(edges: int, n_classes: int) -> None:
    y, proba = random_predictions(300, n_classes)
    assert ece_by_edges(y, proba, edges=edges) == pytest.approx(
        ece_between_edges(y, proba, edges), abs=ROUNDING
    )
    assert ece_by_edges(y, proba, edges=edges) == ece(y, proba, bins=edges - 1)


def test_ece_by_edges_has_one_bin_fewer_than_edges() -> None:
    y, proba = random_predictions(300, 3)
    assert ece_by_edges(y, proba, edges=10) != ece(y, proba, bins=10)


def test_single_edge_is_refused() -> None:
    with pytest.raises(ParameterError, match="edges must be at least 2, got 1"):
        ece_by_edges([0], [[1.0, 0.0]], edges=1)


def test_debiased_subtracts_the_variance_of_the_accuracy() -> None:
    y, proba = np.array([0, 0, 1, 1, 0]), binary_proba([0.9, 0.9, 0.9, 0.9, 0.7])
    # Half of the four rows at 0.9 are correct: 0.4² - 0.5 · 0.5 / 3. The single row at 0.7 has no
    # estimate of its variance and counts as 0.
    assert ece(y, proba, norm="l2", debiased=True) == pytest.approx(
        (0.8 * (0.16 - 0.25 / 3)) ** 0.5, abs=ROUNDING
    )
    assert ece(y, proba, norm="l2") == pytest.approx((0.8 * 0.16 + 0.2 * 0.09) ** 0.5, abs=ROUNDING)
    assert (
        ece([0, 1], binary_proba([0.5, 0.5]), norm="l2", debiased=True) == 0
    )  # never the root of a negative number


def test_debiased_squared_error_is_nearly_unbiased() -> None:
    rng, c = np.random.default_rng(0), np.repeat([0.55, 0.75, 0.95], 20)
    proba, accuracy = binary_proba(c.tolist()), np.repeat([0.65, 0.75, 0.85], 20)
    plain, debiased = np.transpose(
        [
            [
                ece((rng.random(60) >= accuracy).astype(int), proba, norm="l2", debiased=d) ** 2
                for d in (False, True)
            ]
            for _ in range(400)
        ]
    )
    truth = (0.1**2 + 0 + 0.1**2) / 3
    assert plain.mean() > 2 * truth  # with 60 rows most of the error is due to sampling
    # Negative squares are replaced by 0, which adds a little; the standard error is .0005.
    assert truth - 0.0015 < debiased.mean() < 1.4 * truth


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({}, 0.014178242573560384),  # get_ece(proba, y)
        ({"strategy": "mass"}, 0.023187164389922393),  # get_ece_em(proba, y)
        # lower_bound_scaling_ce(proba, y, p=2, debias=…, num_bins=15, binning_scheme=…,
        # mode="top-label")
        ({"norm": "l2"}, 0.01793096408199575),
        ({"norm": "l2", "debiased": True}, 0.0),
        ({"norm": "l2", "strategy": "mass", "debiased": True}, 0.020090093193355408),
        ({"norm": "max"}, 0.04447514311307438),  # netcal 1.4.0: MCE(15).measure(proba, y)
    ],
)
def test_debiased_matches_uncertainty_calibration_0_1_4(options: dict, value: float) -> None:
    y, proba = four_classes()
    assert ece(y, proba, **options) == pytest.approx(value, abs=ROUNDING)


def expected_ece(confidence: list[float], bins: int) -> float:
    """Return the mean ECE over all outcomes, each weighted by its probability."""
    total = 0.0
    for correct in product([0, 1], repeat=len(confidence)):
        result = reliability_bins(np.array(confidence), np.array(correct), bins=bins)
        total += np.prod(
            [c if r else 1 - c for c, r in zip(confidence, correct, strict=True)]
        ) * float(result.share @ result.gap)
    return total


@pytest.mark.parametrize("bins", [1, 3, 15])
def test_ece_if_calibrated_is_its_expectation(bins: int) -> None:
    confidence = [0.5, 0.62, 0.7, 0.71, 0.9, 0.97, 1.0]
    result = ece_if_calibrated(binary_proba(confidence), bins=bins, draws=4000)
    assert result == pytest.approx(
        expected_ece(confidence, bins), abs=0.006
    )  # four standard errors; a draw has a standard deviation of .09


def test_ece_if_calibrated_matches_calibrated_rows() -> None:
    rng, n = np.random.default_rng(3), 2000
    proba = binary_proba(rng.uniform(0.5, 1, n).tolist())
    for norm in ("l1", "l2", "max"):
        errors = [
            ece((rng.random(n) > proba[:, 0]).astype(int), proba, norm=norm) for _ in range(100)
        ]
        expected = ece_if_calibrated(proba, norm=norm)
        assert abs(np.mean(errors) - expected) < 4 * np.std(errors) * (1 / 100 + 1 / 200) ** 0.5
    debiased = ece_if_calibrated(proba, norm="l2", debiased=True)
    assert (
        0 < debiased < ece_if_calibrated(proba, norm="l2") / 2
    )  # negative squares are replaced by 0


def test_ece_if_calibrated_is_a_function_of_the_predictions() -> None:
    _, proba = four_classes()
    assert (
        ece_if_calibrated(proba)
        == ece_if_calibrated(TopLabel.from_proba(proba), seed=0)
        != ece_if_calibrated(proba, seed=1)
    )
    assert ece_if_calibrated(np.eye(3)) == 0  # certain predictions are correct in every draw


def test_only_the_l2_norm_can_be_debiased() -> None:
    for norm in ("l1", "max"):
        with pytest.raises(ParameterError) as raised:
            ece([0], [[1.0]], norm=norm, debiased=True)
        assert (
            str(raised.value)
            == f"norm must be l2 where debiased, got '{norm}'; ece_if_calibrated estimates how"
            " much of it is due to sampling"
        )


@pytest.mark.parametrize("seed", [-1, 1.5])
def test_seed_is_an_integer_of_at_least_0(seed) -> None:
    message = f"^seed must be (an integer )?in \\[0, inf\\), got {seed}$"
    for simulated in (ece_if_calibrated, top_label_ece_if_calibrated):
        with pytest.raises(ParameterError, match=message):
            simulated([[0.5, 0.5]] * 10, seed=seed)
        assert simulated([[0.5, 0.5]] * 10, seed=2**64) >= 0
    with pytest.raises(ParameterError, match=message):
        contamination(np.arange(40.0), np.arange(40.0), seed=seed)
