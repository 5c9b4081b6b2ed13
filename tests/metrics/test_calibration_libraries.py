"""ECE against the numbers of other libraries, and its bins where confidences lie on edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.metrics import ece
from kdgraph.metrics.reliability_bins import bin_edges, bin_of, binned_rows
from tests.metrics.samples import two_classes

TOLERANCE = {"torchmetrics": 5e-6}
"""torchmetrics adds 10,000 rows in single precision, which changes the sum by 3e-6. For the other
libraries only the order of additions differs: 1e-11.
"""

# Output of each library for `y, proba = two_classes(name, bins)`, with c = proba[:, 0],
# correct = (y == 0).astype(int) and t = torch.from_numpy:
#   uncertainty-calibration 0.1.4  get_ece(proba, y, num_bins=bins)
#   netcal 1.4.0                   ECE(bins).measure(c, correct)
#   torchmetrics 1.9.0             multiclass_calibration_error(t(proba), t(y), num_classes=2,
#                                                               n_bins=bins)
#   relplot 1.0.3                  metrics.binnedECE(c, correct, bins)
#   MAPIE 1.6.0                    expected_calibration_error(correct, c, num_bins=bins + 1,
#                                                             split_strategy="uniform")
# with numpy 2.4.6, torch 2.13.0, scikit-learn 1.9.1. MAPIE counts edges.
CONTINUOUS_15 = {
    "uncertainty-calibration": 0.07561598918429968,
    "netcal": 0.07561598918429963,
    "torchmetrics": 0.07561609148979187,
    "relplot": 0.07561598918429967,
}


@pytest.mark.parametrize("library", CONTINUOUS_15)
def test_ece_equals_that_of_other_libraries(library: str) -> None:
    """Confidences lie on no edge, where the libraries differ."""
    y, proba = two_classes("continuous", 15)
    assert ece(y, proba, bins=15) == pytest.approx(
        CONTINUOUS_15[library], abs=TOLERANCE.get(library, 1e-11)
    )


def test_ece_equals_that_of_mapie_with_one_bin_more() -> None:
    y, proba = two_classes("continuous", 15)
    assert ece(y, proba, bins=14) == pytest.approx(0.038648408204081185, abs=1e-11)


@pytest.mark.parametrize(
    ("name", "bins", "value"),
    [
        ("votes", 10, 0.06418799999999994),
        ("votes", 15, 0.07584799999999997),
        ("votes", 25, 0.06957800000000003),
        ("atom", 15, 0.0157208300798255),
    ],
)
def test_edges_are_binned_as_in_uncertainty_calibration(name: str, bins: int, value: float) -> None:
    assert ece(*two_classes(name, bins), bins=bins) == pytest.approx(value, abs=1e-11)


def test_votes_on_edges_belong_to_the_bin_below() -> None:
    votes = np.arange(101) / 100
    for bins in (5, 10, 15, 20, 25):
        expected = [
            sum(m * 100 < v * bins <= (m + 1) * 100 for v in range(101)) + (m == 0)
            for m in range(bins)
        ]
        assert binned_rows(votes, bins, "uniform").count.tolist() == expected


def test_bins_of_the_confidences_0_and_1() -> None:
    rows = binned_rows(np.array([0.0, 0.01, 0.3, 0.99, 1.0, 1.0]), 4, "uniform")
    assert rows.count.tolist() == [2, 1, 0, 3]


@given(st.sampled_from(["uniform", "mass"]), st.integers(2, 60), st.integers(0, 10_000))
@settings(max_examples=100, deadline=None)
def test_values_lie_between_the_edges_of_their_bin(strategy, bins: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.concatenate(
        [rng.random(20), rng.integers(101, size=20) / 100, np.arange(bins + 1) / bins]
    )
    edges = bin_edges(values, bins, strategy)
    index = bin_of(values, edges)
    assert index.min() >= 0 and index.max() < len(edges) - 1 and (np.diff(edges) > 0).all()
    assert ((edges[index] < values) | (values == 0)).all() and (values <= edges[index + 1]).all()


def test_bin_edges_and_bin_of_are_closed_on_the_right() -> None:
    confidence = np.array([0.5, 0.6, 0.7, 0.7])
    np.testing.assert_array_equal(bin_edges(confidence, 5, "uniform"), [0, 0.2, 0.4, 0.6, 0.8, 1])
    assert bin_of(confidence, np.array([0, 0.5, 0.7, 1.0])).tolist() == [0, 1, 1, 1]
