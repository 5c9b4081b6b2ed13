"""Bins of confidence, and the means of their rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import calibration_curve

from kdgraph.metrics import reliability_bins

ROUNDING = 1e-12  # sums of at most 1,000 terms of order 1 in float64, added in another order


def test_bins_match_scikit_learn_for_confidences_off_the_edges() -> None:
    rng = np.random.default_rng(3)
    confidence, correct = rng.random(500), rng.random(500) < 0.5
    result = reliability_bins(confidence, correct, bins=10)
    accuracy, mean = calibration_curve(correct, confidence, n_bins=10)
    np.testing.assert_allclose(result.accuracy, accuracy, atol=ROUNDING)
    np.testing.assert_allclose(result.confidence, mean, atol=ROUNDING)


def test_confidence_on_an_edge_belongs_to_the_bin_below() -> None:
    confidence = np.arange(16) / 15
    result = reliability_bins(confidence, np.ones(16))
    assert result.count.tolist() == [
        2,
        *[1] * 14,
    ]  # the first bin holds 0 and 1/15; every edge closes its bin
    np.testing.assert_array_equal(result.confidence[1:], result.upper[1:])
    result = reliability_bins(
        np.array([0.2, 0.4, 0.6, 0.8, 1.0]), np.ones(5), bins=5
    )  # edges as decimal numbers
    assert result.count.tolist() == [1, 1, 1, 1, 1]


@pytest.mark.parametrize("bins", [6, 7, 9, 10, 15, 20, 49])
def test_edges_are_the_fractions_themselves(bins: int) -> None:
    votes = np.array(
        [m / bins for m in range(1, bins + 1)]
    )  # votes of as many trees as there are bins
    assert reliability_bins(votes, np.ones(bins), bins=bins).count.tolist() == [1] * bins


def test_votes_of_a_forest_on_an_edge_belong_to_its_bin() -> None:
    votes = np.arange(201) / 200
    result = reliability_bins(votes, np.ones(201))
    counts = [
        sum(1 for v in range(201) if m * 200 < v * 15 <= (m + 1) * 200) + (m == 0)
        for m in range(15)
    ]
    assert result.count.tolist() == counts


def test_empty_bins_are_nan_and_count_nothing() -> None:
    result = reliability_bins(np.array([0.95, 0.97, 0.05]), np.array([True, False, True]), bins=10)
    assert result.count.tolist() == [1, *[0] * 8, 2]
    assert np.isnan(result.accuracy[1:9]).all()
    assert np.isnan(result.confidence[1:9]).all()
    np.testing.assert_allclose(result.gap, [0.95, 0.46], atol=ROUNDING)
    np.testing.assert_allclose(result.share, [1 / 3, 2 / 3], atol=ROUNDING)


def test_confidence_rounded_above_one_is_in_the_last_bin() -> None:
    assert reliability_bins(np.array([1 + 1e-15]), np.array([True])).count[-1] == 1


def test_mass_bins_hold_equal_numbers_of_rows() -> None:
    confidence = np.random.default_rng(0).permutation(np.linspace(0.5, 0.99, 100))
    result = reliability_bins(confidence, np.ones(100), bins=10, strategy="mass")
    assert result.count.tolist() == [10] * 10
    assert (result.lower[0], result.upper[-1]) == (0, 1)
    np.testing.assert_array_equal(result.lower[1:], result.upper[:-1])


def test_mass_bins_keep_ties_together_and_may_be_fewer() -> None:
    result = reliability_bins(
        np.array([0.6] * 8 + [0.9, 1.0]), np.ones(10), bins=5, strategy="mass"
    )
    assert result.count.tolist() == [8, 2]
    assert reliability_bins(np.ones(7), np.ones(7), bins=5, strategy="mass").count.tolist() == [7]


def test_more_mass_bins_than_rows() -> None:
    result = reliability_bins(np.array([0.6, 0.7]), np.ones(2), bins=15, strategy="mass")
    assert result.count.sum() == 2
    assert (result.count > 0).sum() == 2


@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        ([0.5, 1.2], [1, 1], "confidence must lie in [0, 1], got 1.2 in row 1 (1 such)"),
        ([float("nan")], [1], "confidence must lie in [0, 1], got nan in row 0 (1 such)"),
        ([0.5], [0.5], "correct must hold only true and false (or 1 and 0)"),
        (
            [0.5],
            [1, 0],
            "confidence and correct must be one number a row, got shapes (1,) and (2,)",
        ),
        ([], [], "confidence and correct must be one number a row, got shapes (0,) and (0,)"),
    ],
)
def test_invalid_confidences_are_refused(confidence: list, correct: list, message: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011  # the whole message is compared below
        reliability_bins(np.array(confidence), np.array(correct))
    assert str(raised.value) == message
