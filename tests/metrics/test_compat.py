"""Bins of other libraries against the numbers of these libraries, where the libraries disagree."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.errors import ParameterError
from kdgraph.metrics import ece, ece_compat
from kdgraph.metrics.compat import LIBRARY_INTERVALS, library_rule
from kdgraph.metrics.reliability_bins import Intervals, bin_edges, bin_of, binned_rows, intervals_of
from tests.metrics.samples import two_classes

TOLERANCE = {"torchmetrics": 5e-6}
"""torchmetrics adds 10,000 rows in single precision, which changes the sum by 3e-6. For the other
libraries only the order of additions differs: 1e-11.
"""

# Output of each library for `y, proba = two_classes(name, bins)`, with c = proba[:, 0],
# correct = (y == 0).astype(int) and t = torch.from_numpy:
#   ece               uncertainty-calibration 0.1.4
#                     get_ece(proba, y, num_bins=bins)
#   netcal            netcal 1.4.0
#                     ECE(bins).measure(c, correct)
#   torchmetrics      torchmetrics 1.9.0
#                     multiclass_calibration_error(t(proba), t(y), num_classes=2, n_bins=bins)
#   torchmetrics_f64  torchmetrics 1.9.0
#                     binary_calibration_error(t(c), t(correct), n_bins=bins)
#   relplot           relplot 1.0.3
#                     metrics.binnedECE(c, correct, bins)
#   mapie             MAPIE 1.6.0
#                     expected_calibration_error(correct, c, num_bins=bins,
#                                                split_strategy="uniform")
# with numpy 2.4.6, torch 2.13.0, scikit-learn 1.9.1.
LIBRARIES = ["ece", "netcal", "torchmetrics", "torchmetrics_f64", "relplot", "mapie"]
PUBLISHED_ECE = {
    ("continuous", 15): [
        0.07561598918429968,
        0.07561598918429963,
        0.07561609148979187,
        0.07561598918429961,
        0.07561598918429967,
        0.038648408204081185,
    ],
    ("votes", 10): [
        0.06418799999999994,
        0.058167999999995904,
        0.051107678562402725,
        0.0511079999999941,
        0.058168,
        0.019563999999999946,
    ],
    ("votes", 15): [
        0.07584799999999997,
        0.07032800000000398,
        0.07032645493745804,
        0.07032800000000372,
        0.07032799999999995,
        0.03835600000000003,
    ],
    ("votes", 25): [
        0.06957800000000003,
        0.03807400000000016,
        0.04045011103153229,
        0.03807399999999991,
        0.038073999999999976,
        0.029702000000000044,
    ],
    ("atom", 15): [
        0.0157208300798255,
        0.01572083007982783,
        0.06087854132056236,
        0.06087916992017574,
        0.060879169920174364,
        0.0157208300798255,
    ],
}


RULES = ["ece", *LIBRARY_INTERVALS]


def ece_of_rule(y: np.ndarray, proba: np.ndarray, rule: str, bins: int) -> float:
    if rule == "ece":
        return ece(y, proba, bins=bins)
    return ece_compat(y, proba, bins=bins, library=rule)  # type: ignore[arg-type]


def intervals_of_rule(rule: str, confidence: np.ndarray, bins: int) -> Intervals:
    if rule == "ece":
        return intervals_of(confidence, bins)
    return library_rule(rule, bins)(confidence)  # type: ignore[arg-type]


def bin_counts(rule: str, confidence: np.ndarray, bins: int) -> list[int]:
    return binned_rows(confidence, lambda c: intervals_of_rule(rule, c, bins)).count.tolist()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("name", "bins"), PUBLISHED_ECE)
def test_ece_equals_the_number_of_the_library(name: str, bins: int, library: str) -> None:
    y, proba = two_classes(name, bins)
    published = dict(zip(LIBRARIES, PUBLISHED_ECE[name, bins], strict=True))
    assert ece_of_rule(y, proba, library, bins) == pytest.approx(
        published[library], abs=TOLERANCE.get(library, 1e-11)
    )


def test_all_rules_give_different_numbers() -> None:
    """The test above would therefore fail if one rule replaced another."""
    values_by_rule = {
        rule: [ece_of_rule(*two_classes(name, bins), rule, bins) for name, bins in PUBLISHED_ECE]
        for rule in RULES
    }
    assert len({tuple(np.round(values, 5)) for values in values_by_rule.values()}) == len(RULES)


def test_left_closed_bins_mirror_right_closed_bins() -> None:
    votes = np.arange(101) / 100
    for bins in (5, 10, 15, 20, 25):
        left_counts = [
            sum(m * 100 <= v * bins < (m + 1) * 100 for v in range(101)) + (m == bins - 1)
            for m in range(bins)
        ]
        assert bin_counts("left", votes, bins) == left_counts
        assert bin_counts("ece", votes, bins) == left_counts[::-1]


@pytest.mark.parametrize(
    ("rule", "count"),
    [
        ("ece", [2, 1, 0, 3]),
        ("left", [2, 1, 0, 3]),
        ("netcal", [2, 1, 0, 3]),
        ("mapie", [1, 2, 0, 3]),
    ],
)
def test_bins_of_the_confidences_0_and_1(rule: str, count: list[int]) -> None:
    assert bin_counts(rule, np.array([0.0, 0.01, 0.3, 0.99, 1.0, 1.0]), 4) == count


@pytest.mark.parametrize("library", ["torchmetrics", "torchmetrics_f64", "relplot"])
def test_confidence_1_has_a_separate_bin(library) -> None:
    rows = binned_rows(np.array([0.0, 0.9999, 1.0, 1.0]), library_rule(library, 4))
    assert rows.count.tolist() == [1, 0, 0, 1, 2]
    assert rows.mean(np.array([0, 1, 0, 1]))[-1] == 0.5
    assert LIBRARY_INTERVALS[library](4).edges[-2:].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("library", "dtype"), [("torchmetrics", torch.float32), ("torchmetrics_f64", torch.float64)]
)
def test_edges_of_torchmetrics_are_those_of_torch(library: str, dtype: torch.dtype) -> None:
    if torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        pytest.skip("torch rounds twice on this processor")
    for bins in (*range(1, 60), 100, 255):
        np.testing.assert_array_equal(
            LIBRARY_INTERVALS[library](bins).edges[:-1],
            torch.linspace(0, 1, bins + 1, dtype=dtype).numpy(),
        )


@given(st.integers(1, 200), st.integers(1, 500))
@settings(max_examples=100, deadline=None)
def test_relplot_bins_are_the_integer_part_of_the_quotient(bins: int, trees: int) -> None:
    votes = np.arange(trees + 1) / trees
    index = library_rule("relplot", bins)(votes).index(votes)
    np.testing.assert_array_equal(index, (votes / (1 / bins)).astype(int))  # relplot's formula


@given(st.sampled_from(sorted(RULES)), st.integers(2, 60), st.integers(0, 10_000))
@settings(max_examples=100, deadline=None)
def test_values_lie_between_the_edges_of_their_bin(rule: str, bins: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.concatenate(
        [rng.random(20), rng.integers(101, size=20) / 100, np.arange(bins + 1) / bins]
    )
    intervals = intervals_of_rule(rule, values, bins)
    index, edges = intervals.index(values), intervals.edges
    rounded = values.astype(edges.dtype)
    assert index.min() >= 0 and index.max() < len(intervals) and (np.diff(edges) >= 0).all()
    assert ((edges[index] <= rounded) & (rounded <= edges[index + 1])).all()
    closed_right = intervals.closed == "right"
    inside = (edges[index] < rounded) if closed_right else (rounded < edges[index + 1])
    assert (inside | (rounded == (0 if closed_right else 1))).all()


def test_bin_edges_and_bin_of_are_closed_on_the_right() -> None:
    confidence = np.array([0.5, 0.6, 0.7, 0.7])
    np.testing.assert_array_equal(bin_edges(confidence, 5, "uniform"), [0, 0.2, 0.4, 0.6, 0.8, 1])
    assert bin_of(confidence, np.array([0, 0.5, 0.7, 1.0])).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"library": "both"},
            "library must be one of left, netcal, torchmetrics, torchmetrics_f64, relplot, mapie, got 'both'",
        ),
        ({"bins": 0}, "bins must be an integer from 1, got 0"),
        (
            {"library": "mapie", "bins": 1},
            "bins must be at least 2 with library mapie, got 1: MAPIE counts edges, so there is one interval fewer",
        ),
    ],
    ids=["unknown-library", "no-bins", "mapie-without-interval"],
)
def test_options_out_of_range_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ParameterError) as raised:
        ece_compat([0], [[1.0]], **options)
    assert str(raised.value) == message
