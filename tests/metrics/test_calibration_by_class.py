"""Class-wise and top-label errors against loops over classes and bins, and other libraries."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.metrics import (
    TopLabel,
    classwise_ece,
    ece,
    mce,
    reliability_bins,
    top_label_ece,
    top_label_ece_if_calibrated,
)
from tests.metrics.samples import four_classes, two_classes

ROUNDING = 1e-12  # sums of at most 10,000 terms of order 1 in float64, added in another order
NORMS = ("l1", "l2", "max")


def norm_of_gaps(gaps: list[tuple[float, float]], norm: str) -> float:
    """Return the norm of (weight, gap) pairs, whose weights sum to 1."""
    if norm == "max":
        return max(gap for _, gap in gaps)
    power = 1 if norm == "l1" else 2
    return sum(weight * gap**power for weight, gap in gaps) ** (1 / power)


def counts_and_gaps(
    confidence: np.ndarray, correct: np.ndarray, strategy
) -> list[tuple[float, float]]:
    result = reliability_bins(confidence, correct, bins=15, strategy=strategy)
    return list(zip(result.count[result.count > 0].tolist(), result.gap.tolist(), strict=True))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("strategy", ["uniform", "mass"])
def test_top_label_ece_bins_within_the_predicted_class(norm, strategy) -> None:
    y, proba = (part[:4001] for part in four_classes())  # classes are not predicted equally often
    predicted, gaps = proba.argmax(axis=1), []
    for k in range(4):
        is_predicted = predicted == k
        gaps += [
            (count / len(y), gap)
            for count, gap in counts_and_gaps(
                proba[is_predicted].max(axis=1), y[is_predicted] == k, strategy
            )
        ]
    assert top_label_ece(y, proba, norm=norm, strategy=strategy) == pytest.approx(
        norm_of_gaps(gaps, norm), abs=ROUNDING
    )


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("strategy", ["uniform", "mass"])
def test_classwise_ece_is_the_mean_over_the_classes(norm, strategy) -> None:
    y, proba = four_classes()
    gaps = [
        (count / len(y) / 4, gap)
        for k in range(4)
        for count, gap in counts_and_gaps(proba[:, k], y == k, strategy)
    ]
    assert classwise_ece(y, proba, norm=norm, strategy=strategy) == pytest.approx(
        norm_of_gaps(gaps, norm), abs=ROUNDING
    )


@pytest.mark.parametrize(
    ("options", "value"),
    [
        # uncertainty-calibration 0.1.4: lower_bound_scaling_ce(proba, y, p=…, debias=…,
        # num_bins=15, binning_scheme=get_equal_prob_bins, mode="marginal"); the first agrees with
        # MAPIE 1.6.0, which counts 16 edges: expected_calibration_error(correct, proba,
        # num_bins=16, split_strategy="uniform", classwise=True, class_labels=y).
        ({}, 0.023060011166590295),
        ({"norm": "l2"}, 0.0344007761073483),
        ({"norm": "l2", "debiased": True}, 0.027769051499078098),
    ],
)
def test_classwise_ece_matches_other_libraries(options: dict, value: float) -> None:
    y, proba = four_classes()
    assert classwise_ece(y, proba, **options) == pytest.approx(value, abs=ROUNDING)


def test_top_label_ece_matches_mapie() -> None:
    """Compare with MAPIE 1.6.0: top_label_ece(y, proba, num_bins=16, split_strategy="uniform").

    MAPIE weights classes equally; these classes have equal numbers of rows.
    """
    y, proba = four_classes()
    assert top_label_ece(y, proba) == pytest.approx(0.05512445120550931, abs=ROUNDING)


def test_errors_of_different_classes_do_not_cancel() -> None:
    y, proba = four_classes()
    assert top_label_ece(y, proba) > 3 * ece(y, proba)
    one_class = TopLabel(np.zeros(len(y), dtype=int), proba.max(axis=1))
    is_wrong = (proba.argmax(axis=1) != y).astype(int)
    assert top_label_ece(is_wrong, one_class) == ece(is_wrong, one_class)


def test_one_predicted_class_gives_ece() -> None:
    y, proba = two_classes("votes", 10)
    assert top_label_ece(y, proba, bins=10) == ece(y, proba, bins=10)
    y, proba = two_classes("continuous", 15)
    assert classwise_ece(y, proba) == pytest.approx(ece(y, proba), abs=ROUNDING)


def test_sampling_error_grows_with_the_number_of_bins() -> None:
    y, proba = four_classes()
    rng, top_label = np.random.default_rng(0), TopLabel.from_proba(proba)
    simulated_classes = [
        np.where(rng.random(len(y)) < top_label.confidence, top_label.predicted, -1)
        for _ in range(60)
    ]
    errors = [
        top_label_ece(np.where(classes < 0, (top_label.predicted + 1) % 4, classes), proba)
        for classes in simulated_classes
    ]
    assert (
        abs(np.mean(errors) - top_label_ece_if_calibrated(proba))
        < 4 * np.std(errors) * (1 / 60 + 1 / 200) ** 0.5
    )
    assert (
        top_label_ece_if_calibrated(proba, norm="l2", debiased=True)
        < top_label_ece_if_calibrated(proba, norm="l2") / 2
    )


def test_class_without_rows_and_single_row_are_finite() -> None:
    assert top_label_ece([2, 2], [[0.25, 0.0, 0.75], [0.0, 0.25, 0.75]]) == 0.25
    assert classwise_ece([0], np.eye(3)[:1]) == 0
    assert mce([1], np.eye(3)[:1]) == top_label_ece([1], np.eye(3)[:1], norm="max") == 1
